"""Who is asked, and what comes back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import Reply, Request

R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True)
class Replies(Generic[R]):
    """Valid replies in party order, whatever order they came in.

    `missing` names all parties without a valid reply; `rejected` says what was wrong with the replies of some of them.
    """

    by_party: Mapping[int, R]
    missing: tuple[int, ...] = ()
    rejected: Mapping[int, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[R]:
        return (self.by_party[party] for party in sorted(self.by_party))

    def __len__(self) -> int:
        return len(self.by_party)

    @property
    def parties(self) -> list[int]:
        """Who replied, in order."""
        return sorted(self.by_party)

    def at_least(self, fewest: int) -> "Replies[R]":
        """These replies, or an error when too few parties replied to go on."""
        if len(self) < fewest:
            asked, silent = len(self) + len(self.missing), [p for p in self.missing if p not in self.rejected]
            reasons = [f"silent: {', '.join(map(str, silent))}"] if silent else []
            reasons += [f"party {party}: {reason}" for party, reason in self.rejected.items()]
            raise LimbeckError(
                f"{len(self)} of {asked} parties sent a valid reply, at least {fewest} must ({'; '.join(reasons)})"
            )
        return self


class Parties(Protocol):
    """The one effect that an algorithm has."""

    @property
    def everyone(self) -> Sequence[int]: ...

    def ask(self, request: Request[R], of: Sequence[int] | None = None) -> Replies[R]:
        """Ask everyone, or some."""
