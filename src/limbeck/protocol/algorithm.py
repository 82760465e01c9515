"""An algorithm: what it declares, what the server does, and what one party does."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from limbeck.errors import LimbeckError
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import InstallModel, Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.site import Silo, Site
from limbeck.tables import check_fields


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final model as ONNX; None where every party ends with a model of its own, kept in its silo.

    For the record: `remarks` are what did not go as planned, `figures` what the algorithm computed by the way.
    """

    model: bytes | None = None
    remarks: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


class Algorithm(ABC):
    """A frozen dataclass of hyper-parameters with three methods: `disclosures`, `lead` and `answer`.

    Ranges of parameters are declared with the fields (`Annotated[int, Field(ge=1)]`); `check` is for what depends on
    several of them.
    """

    __slots__ = ()
    name: ClassVar[str]
    needs_public_rows: ClassVar[bool] = False
    is_one_shot: ClassVar[bool] = False  # a party that was silent can be added after the run
    subsamples: ClassVar[bool] = False  # it learns from a secret random subset of the rows, a mechanism of its own

    def __post_init__(self) -> None:
        check_fields(self)
        self.check()

    def check(self) -> None:  # noqa: B027
        """Raise if parameters do not go together."""

    def disclosures(self, run: Facts) -> Sequence[Disclosure]:
        """Everything that leaves a site in a run. What is not declared here is refused."""
        return ()

    @abstractmethod
    def lead(self, parties: Parties, site: Site) -> Outcome:
        """The server's part: ask the parties, and make a model of their replies."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        """A party's part: the reply to one request. By default it keeps the final model, and knows nothing else."""
        if isinstance(request, InstallModel):
            return silo.install(request.model)
        raise unknown_request(request, silo)

    @property
    def needs_public_labels(self) -> bool:
        return False

    @property
    def needs_one_network(self) -> bool:
        """Whether weights are handed out, so that all parties need the server's network."""
        return False

    @property
    def level(self) -> str | None:
        """The privacy level, for algorithms that have several."""
        return None

    @property
    def effective_delta(self) -> float:
        """The delta of the guarantee; 0 where no noise is added."""
        return 0.0

    @property
    def needs_population(self) -> bool:
        """Whether a real run must name a lower bound of the parties' row counts, which are private."""
        return False

    @property
    def is_private(self) -> bool:
        """Whether anything is protected by a mechanism."""
        return self.effective_delta > 0 or self.subsamples

    @property
    def rows_per_person(self) -> int:
        """How many rows of one person the guarantee covers."""
        return 1

    def upper_bound(self) -> "Algorithm | None":
        """The same models with all private rows in one place, to compare with."""
        return None


def hand_out(
    model: bytes, parties: Parties, site: Site, remarks: Sequence[str] = (), figures: Mapping[str, float] | None = None
) -> Outcome:
    """Disclose the final model to all parties, which ends a run."""
    parties.ask(site.disclose("model", InstallModel(model)))
    return Outcome(model, tuple(remarks), figures or {})


def check_rules(*rules: tuple[bool, str]) -> None:
    """Raise with the line of the first rule that is not kept."""
    for holds, line in rules:
        if not holds:
            raise LimbeckError(line)


def unknown_request(request: Request[Any], silo: Silo) -> LimbeckError:
    return LimbeckError(f"{silo.name} was asked {type(request).__name__}, which this algorithm does not know")
