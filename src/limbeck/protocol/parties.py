"""The parties as the server sees them, and their replies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, overload

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import Reply, Request

R = TypeVar("R", bound=Reply)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Replies(Generic[T]):
    """The valid replies to one request, or what was kept of them; iteration is in party order.

    Parameters
    ----------
    by_party : mapping of int to object
        Replies by party number.
    missing : tuple of int
        All parties without a valid reply.
    rejected : mapping of int to str
        For each missing party that sent an invalid reply, what was wrong with it.

    Examples
    --------
    >>> from limbeck.protocol.messages import Acknowledgement
    >>> replies = Replies({2: Acknowledgement(), 0: Acknowledgement()}, missing=(1,))
    >>> replies.parties, len(replies)
    ([0, 2], 2)
    """

    by_party: Mapping[int, T]
    missing: tuple[int, ...] = ()
    rejected: Mapping[int, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[T]:
        return (self.by_party[party] for party in sorted(self.by_party))

    def __len__(self) -> int:
        return len(self.by_party)

    @property
    def parties(self) -> list[int]:
        """Numbers of the parties with a valid reply, in order."""
        return sorted(self.by_party)

    def at_least(self, fewest: int) -> "Replies[T]":
        """Return these replies, or raise if too few parties replied.

        Parameters
        ----------
        fewest : int
            Smallest number of valid replies.

        Returns
        -------
        Replies
            The same object.

        Raises
        ------
        LimbeckError
            If there are fewer; the message names the missing parties and the reasons.
        """
        if len(self) < fewest:
            asked, silent = len(self) + len(self.missing), [p for p in self.missing if p not in self.rejected]
            reasons = [f"silent: {', '.join(map(str, silent))}"] if silent else []
            reasons += [f"party {party}: {reason}" for party, reason in self.rejected.items()]
            raise LimbeckError(
                f"{len(self)} of {asked} parties sent a valid reply, at least {fewest} must ({'; '.join(reasons)})"
            )
        return self


class Parties(Protocol):
    """The parties of a run; asking them is the only effect of an algorithm.

    Engines implement this protocol. A test of an algorithm can implement it too.

    Examples
    --------
    >>> from limbeck.protocol.messages import Acknowledgement, InstallModel
    >>> class OneSilent:
    ...     everyone = (0, 1)
    ...
    ...     def ask(self, request, of=None, keep=lambda party, reply: reply):
    ...         return Replies({0: keep(0, Acknowledgement())}, missing=(1,))
    >>> parties: Parties = OneSilent()
    >>> parties.ask(InstallModel(b"ONNX")).missing
    (1,)
    """

    @property
    def everyone(self) -> Sequence[int]:
        """Numbers of all parties."""

    @overload
    def ask(self, request: Request[R], of: Sequence[int] | None = None) -> Replies[R]: ...

    @overload
    def ask(
        self, request: Request[R], of: Sequence[int] | None = None, *, keep: Callable[[int, R], T]
    ) -> Replies[T]: ...

    def ask(
        self, request: Request[R], of: Sequence[int] | None = None, *, keep: Callable[[int, R], Any] | None = None
    ) -> Replies[Any]:
        """Send a request to parties, and wait for their replies.

        Parameters
        ----------
        request : Request
            The request. If it is private, `Site.disclose` must have returned it.
        of : sequence of int, optional
            Numbers of the parties that are asked; all parties without it.
        keep : callable, optional
            Gets party number and valid reply of one party after the other, in party order, as soon as each reply is
            there. What it returns is kept in place of the reply, so that the replies of many parties need not be held
            at once.

        Returns
        -------
        Replies
            The valid replies, or what `keep` returned for them, and the parties without one.
        """
