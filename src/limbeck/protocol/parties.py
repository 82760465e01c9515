"""Who is asked and what comes back; the shape that every algorithm has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.site import Silo, Site

R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True)
class Replies(Generic[R]):
    """Replies in party order, whatever order they came in; `missing` names who fell silent."""

    by_party: Mapping[int, R]
    missing: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[R]:
        return (self.by_party[party] for party in sorted(self.by_party))

    def __len__(self) -> int:
        return len(self.by_party)

    def at_least(self, fewest: int) -> "Replies[R]":
        """These replies, or an error when too few parties answered to go on."""
        if len(self) < fewest:
            asked = len(self) + len(self.missing)
            raise LimbeckError(
                f"{len(self)} of {asked} parties answered, at least {fewest} must; silent: {self.missing}"
            )
        return self


class Parties(Protocol):
    """The one effect that an algorithm has."""

    @property
    def everyone(self) -> Sequence[int]: ...

    def ask(self, request: Request[R], of: Sequence[int] | None = None) -> Replies[R]:
        """Ask everyone, or some."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final model as ONNX; None where every party ends with a model of its own, kept in its silo.

    For the record: `remarks` are what went on otherwise than planned, `figures` what the algorithm reckoned by the way.
    """

    model: bytes | None = None
    remarks: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


class Algorithm(Protocol):
    """A frozen dataclass of hyper-parameters; `lead` is the server's loop, `answer` what one party does."""

    name: ClassVar[str]
    needs_public_rows: ClassVar[bool]

    @property
    def needs_public_labels(self) -> bool: ...

    def lead(self, parties: Parties, site: Site) -> Outcome: ...

    def answer(self, request: Request[Any], silo: Silo) -> Reply: ...


def delta_of(algorithm: Algorithm) -> float:
    """What an algorithm's epsilon leaves to chance; 0 where it adds no noise."""
    if getattr(algorithm, "is_bare", False):
        return 0.0
    return float(getattr(algorithm, "left_to_chance", getattr(algorithm, "delta", 0.0)))


def protects(algorithm: Algorithm) -> bool:
    """Whether an algorithm adds noise, or learns from a secret sample of the rows."""
    return bool(delta_of(algorithm)) or bool(getattr(algorithm, "samples", False))


def rows_per_person_of(algorithm: Algorithm) -> int:
    """How many rows of one person an algorithm's epsilon is for."""
    privacy = getattr(algorithm, "privacy", None)
    return int(getattr(algorithm, "rows_per_person", getattr(privacy, "rows_per_person", 1)))


def unanswerable(request: Request[Any], silo: Silo) -> LimbeckError:
    return LimbeckError(f"{silo.name} was asked {type(request).__name__}, which this algorithm does not know")
