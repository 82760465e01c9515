"""The door out of a site: what a release is, and the row that it writes before anything leaves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from limbeck.protocol.rows import Array

Observer = Literal["server", "parties", "public"]
Unit = Literal["example", "party"]
Noise = Literal["simulated", "secure"]


@dataclass(frozen=True, slots=True)
class Release:
    """A row of the ledger: what left which site, how it was protected, who sees it, and how often it was asked.

    What is public is seen by all. `unit` is who is protected (one example, one party, or any), `adjacency` the
    neighbour relations that there is a theorem for. At most `voters` votes were counted, fewer where there are
    `abstentions`.
    """

    site: str
    turn: int
    number: int  # of this site's releases in this turn
    what: str
    mechanism: str
    parameters: Mapping[str, Any]
    sensitivity: float
    unit: str
    adjacency: str
    observer: Observer
    queries: int
    classes: int
    voters: int | None
    abstentions: bool
    noise: Noise


@dataclass(frozen=True, slots=True)
class Asked:
    """Public facts of a release: how many queries, over how many classes, counted from how many voters."""

    queries: int = 1
    classes: int = 0
    voters: int | None = None
    abstentions: bool = False
    noise: Noise = "simulated"


@dataclass(frozen=True, slots=True)
class NoiseSource:
    """Where the noise of a release comes from: a seeded stream of its own, or the operating system."""

    noise: Noise
    seed: int
    purpose: tuple[str | int, ...]


class Mechanism(ABC):
    """How a value is protected before it leaves, and how much one neighbour can change it.

    `unit` is the neighbour that is protected: one example or one party. `adjacency` is the neighbour relation that the
    guarantee holds for: replace, add-remove, or any. What a `noisy` mechanism draws is recorded, and a retry returns
    the same; what a `secret` one draws is never recorded.
    """

    __slots__ = ()
    name: ClassVar[str]
    noisy: ClassVar[bool] = True
    secret: ClassVar[bool] = False
    unit: str = "example"
    adjacency: str = "replace"

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """How much one neighbour can change the value, for the ledger."""

    @abstractmethod
    def protect(self, value: Any, source: NoiseSource) -> Any:
        """What leaves in place of `value`."""

    def asked(self, value: Any, classes: int) -> int:
        """The number of queries that a value answers. Raise if the mechanism does not describe the value."""
        return 1


def release_row(
    site: str, turn: int, number: int, what: str, mechanism: Mechanism, observer: Observer, asked: Asked
) -> Release:
    """The row that a release writes, or is planned to write."""
    return Release(
        site=site,
        turn=turn,
        number=number,
        what=what,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        sensitivity=mechanism.sensitivity,
        unit=mechanism.unit,
        adjacency=mechanism.adjacency,
        observer=observer,
        **asdict(asked),
    )


class Ledger(Protocol):
    """What has left one site, in order. Append only."""

    @property
    def rows(self) -> list[Release]: ...

    def write(self, row: Release) -> bool:
        """Append a row before anything leaves, or raise. Return True if the row was already recorded."""

    def draw(self, row: Release, noisy: Callable[[], Array]) -> Array:
        """Record what the mechanism draws for a row; return what was drawn before where a draw is recorded."""


@dataclass(slots=True)
class MemoryLedger:
    """A ledger that ends with its process: for simulations."""

    rows: list[Release] = field(default_factory=list)

    def write(self, row: Release) -> bool:
        if row in self.rows:
            return True
        self.rows.append(row)
        return False

    def draw(self, row: Release, noisy: Callable[[], Array]) -> Array:
        self.write(row)
        return noisy()
