"""Relays: they add the replies of some parties, and the server gets one reply from each of them.

A relay sees what the parties behind it send. It may therefore only add replies that anybody may see: with noise that
the parties have added. It checks each reply as the server would, and names the parties that it has added.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from numbers import Integral
from typing import Any, Generic, TypeVar

from limbeck.errors import LimbeckError, shown
from limbeck.protocol.disclosures import Disclosure
from limbeck.protocol.messages import Acknowledgement, Reply, Request
from limbeck.protocol.parties import Parties, Replies

R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True)
class Relayed(Generic[R]):
    """What a relay sends on: the sum of valid replies, and the parties behind it.

    Parameters
    ----------
    reply : Reply
        The sum.
    parties : tuple of int
        Numbers of the parties whose replies were added.
    """

    reply: R
    parties: tuple[int, ...]


def added_in_groups(relayed: Sequence[Relayed[R]], group_of: Callable[[int], int]) -> Iterator[Relayed[R]]:
    """One level of relays: each adds what lies next to each other and has the same group.

    Parameters
    ----------
    relayed : sequence of Relayed
        What the parties, or the relays below, sent, in party order.
    group_of : callable
        Number of the relay of a party, which rises with the number of the party.

    Returns
    -------
    iterator of Relayed
        What each relay sends on; nothing from relays without any valid reply.
    """
    for _, near in groupby(relayed, lambda each: group_of(each.parties[0])):
        group = list(near)
        total = reduce(lambda found, each: found.plus(each.reply), group[1:], group[0].reply)
        yield Relayed(total, tuple(party for each in group for party in each.parties))


@dataclass(frozen=True, slots=True)
class ThroughRelays:
    """Parties behind relays, for simulations; a server asks them as it asks parties.

    Parameters
    ----------
    parties : Parties
        The parties.
    levels : sequence of int
        Number of relays on each level, the lowest first. Each level divides the parties into groups of equal size.
    disclosures : sequence of Disclosure
        What leaves in the run.

    Raises
    ------
    LimbeckError
        If a level is no whole number of at least 1, or a relay would see what not everybody may see.
    """

    parties: Parties
    levels: Sequence[int]
    disclosures: Sequence[Disclosure]

    def __post_init__(self) -> None:
        levels = self.levels if isinstance(self.levels, Sequence) else [None]
        if not all(isinstance(each, Integral) and each >= 1 for each in levels):
            raise LimbeckError(f"relays = {shown(self.levels)}: levels are whole numbers of at least 1")
        for each in self.disclosures:
            if each.origin == "party" and each.observer != "public":
                raise LimbeckError(
                    f"relays: they would see {each.what}, which is declared for the {each.observer} only; use relays "
                    "where each party adds noise, such as fedridge at L2"
                )
        for lower, upper in zip(self.levels, self.levels[1:], strict=False):
            if lower % upper:
                raise LimbeckError(f"relays: {lower} relays cannot be divided equally among {upper} above them")

    @property
    def everyone(self) -> Sequence[int]:
        """Numbers of all parties."""
        return self.parties.everyone

    def ask(self, request: Request[Any], of: Sequence[int] | None = None, *, keep: Any = None) -> Replies[Any]:
        """Send a request; `keep` gets the lowest party number and the sum of each relay of the highest level."""
        kind = request.reply()
        if kind is Acknowledgement:
            return self.parties.ask(request, of)
        if keep is None or kind.plus is Reply.plus:
            raise LimbeckError(f"relays: {kind.__name__} cannot be added; relays are for sums, such as fedridge at L2")
        replies = self.parties.ask(request, of, keep=lambda party, reply: Relayed(reply, (party,)))
        relayed, position = list(replies), {party: number for number, party in enumerate(self.everyone)}
        for relays in self.levels:
            relayed = list(added_in_groups(relayed, lambda p, n=relays: position[p] * n // len(position)))  # type: ignore[misc]
        found: dict[int, Any] = {}
        for each in relayed:
            found |= dict.fromkeys(each.parties, keep(each.parties[0], each.reply))
        return Replies(found, replies.missing, replies.rejected)
