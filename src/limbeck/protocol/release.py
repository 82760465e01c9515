"""The door out of a site: what a release is, and the row that it writes before anything leaves."""

from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

T = TypeVar("T")
Observer = Literal["server", "parties", "public"]


@dataclass(frozen=True, slots=True)
class Release:
    """A row of the ledger: what left which site, how it was protected, and who sees it."""

    site: str
    turn: int
    what: str
    mechanism: str
    sensitivity: float
    adjacency: str
    observer: Observer
    count: int


class Mechanism(Protocol):
    """How something is protected before it leaves; its neighbour relation is part of it."""

    @property
    def name(self) -> str: ...

    @property
    def sensitivity(self) -> float: ...

    @property
    def adjacency(self) -> str: ...

    def protect(self, value: T) -> T: ...


@dataclass(slots=True)
class Ledger:
    """What has left one site, in order. Append only."""

    rows: list[Release] = field(default_factory=list)

    def write(self, row: Release) -> None:
        self.rows.append(row)
