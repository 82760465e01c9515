"""The base class of algorithms: what leaves a site, what the server does, and what one party does."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from limbeck.errors import LimbeckError
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import InstallModel, Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import Kind, Task
from limbeck.tables import check_fields

REMOVED = ("ask", "cap", "directions", "groups", "teachers", "unanswered", "votes", "voting")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the final model, remarks and figures.

    Parameters
    ----------
    model : bytes or None
        The final model as ONNX; None where every party keeps a model of its own in its silo.
    remarks : tuple of str
        What did not go as planned, for the run record.
    figures : mapping of str to float
        Numbers that the algorithm computed beside the model, for the run record.

    Examples
    --------
    >>> import limbeck as lb
    >>> outcome = lb.Outcome(remarks=("round 3: party 2 was silent",), figures={"sent_bytes": 1200.0})
    >>> outcome.model is None, outcome.figures["sent_bytes"]
    (True, 1200.0)
    """

    model: bytes | None = None
    remarks: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


class Algorithm(ABC):
    """Base class of algorithms: a frozen dataclass of hyper-parameters with three methods.

    `disclosures` declares what leaves a site, `lead` is the server's part, and `answer` is a party's part. Fields
    declare their types and ranges as annotations, for example `Annotated[int, Field(ge=1)]`. They are checked when an
    object is made. `check` is for rules about several fields.

    Attributes
    ----------
    name : str
        Name of the algorithm in experiment files and records.
    needs_public_rows : bool
        Whether the algorithm needs public rows.
    is_one_shot : bool
        Whether the algorithm has one round, so that a silent party can be added after the run.
    subsamples : bool
        Whether parties learn from a secret random subset of their rows, which is a mechanism of its own.
    applies_features : bool
        Whether the algorithm has a field `features` and maps rows itself. For other algorithms, rows are mapped first.
    uses_test_rows : bool
        Whether parties use their own test rows in place of their private rows. In one process they are the same.
    tasks : tuple of str
        Kinds of labels that the algorithm learns.
    uses_weights : {"parties", "server", "sums"} or None
        Who gives sample weights of private rows to its model: the parties or the server. `"sums"` means that no model
        is trained on private rows. None means that the algorithm ignores weights: a run with weights is then refused.
    former_keys : mapping of str to str
        What to do about keys of earlier versions, by key, or by key and value.

    Examples
    --------
    An algorithm whose server learns from the public rows alone, with made-up labels. No party sends anything:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import limbeck as lb
    >>> from limbeck.models.jobs import Fit
    >>> @dataclass(frozen=True, slots=True)
    ... class Alternating(lb.Algorithm):
    ...     name = "alternating"
    ...     needs_public_rows = True
    ...     period: int = 2
    ...
    ...     def lead(self, parties, site):
    ...         labels = np.arange(len(site.public)) // self.period % site.classes
    ...         [model] = site.train([Fit(site.model, site.public.x, labels)])
    ...         return lb.Outcome(model)
    >>> Alternating(period=3).is_private
    False
    >>> Alternating(period="three")
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: period = 'three': Input should be a valid integer
    """

    __slots__ = ()
    name: ClassVar[str]
    needs_public_rows: ClassVar[bool] = False
    is_one_shot: ClassVar[bool] = False
    subsamples: ClassVar[bool] = False
    applies_features: ClassVar[bool] = False
    uses_test_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Kind, ...]] = ("multiclass",)
    uses_weights: ClassVar[Literal["parties", "server", "sums"] | None] = None
    former_keys: ClassVar[dict[str, str]] = {key: f"{key} was removed; see CHANGELOG.md" for key in REMOVED}

    def __post_init__(self) -> None:
        check_fields(self)
        self.check()

    def check(self) -> None:  # noqa: B027
        """Raise LimbeckError if values of several parameters do not go together."""

    def check_task(self, task: Task) -> None:
        """Raise LimbeckError if the algorithm, with these parameters, does not learn such labels."""
        if task.kind not in self.tasks:
            known = ", ".join(f'"{kind}"' for kind in self.tasks)
            raise LimbeckError(
                f'{self.name} is for task = {known}, not "{task.kind}"; fedridge, fedkd and fedmd learn all'
            )

    def disclosures(self, run: Facts) -> Sequence[Disclosure]:
        """Declare everything that leaves a site in a run; nothing else can leave.

        Parameters
        ----------
        run : Facts
            Public facts of the run. A declaration depends on these and the hyper-parameters alone.

        Returns
        -------
        sequence of Disclosure
            One for each kind of value, of the server and of a party.
        """
        return ()

    @abstractmethod
    def lead(self, parties: Parties, site: Site) -> Outcome:
        """Run the server's part: ask the parties, and make a model of their replies.

        Parameters
        ----------
        parties : Parties
            The parties; `parties.ask` is the only effect of an algorithm.
        site : Site
            The server: public rows, model, `train` and `disclose`.

        Returns
        -------
        Outcome
            The final model and what the run record says beside it.
        """

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        """Reply to one request at a party. The default installs the final model, and raises for other requests.

        Parameters
        ----------
        request : Request
            The server's request, which has passed its `check`.
        silo : Silo
            The party: its private rows, model, `train`, `disclose` and memory.

        Returns
        -------
        Reply
            An `Acknowledgement`, or a reply that `silo.disclose` returned.
        """
        if isinstance(request, InstallModel):
            return silo.install(request.model)
        raise unknown_request(request, silo)

    @property
    def needs_public_labels(self) -> bool:
        """Whether the public rows need labels."""
        return False

    @property
    def needs_one_network(self) -> bool:
        """Whether the server sends weights, so that all parties need the server's network."""
        return False

    @property
    def level(self) -> str | None:
        """The privacy level (L0, L1 or L2); None for algorithms without levels."""
        return None

    @property
    def effective_delta(self) -> float:
        """The delta of the guarantee; 0 without noise."""
        return 0.0

    @property
    def needs_population(self) -> bool:
        """Whether a real run must state a lower bound of the parties' row counts, which are private."""
        return False

    @property
    def server_weights_rows(self) -> bool:
        """Whether the server's model is fitted to weighted public rows, which not every kind of model takes."""
        return False

    @property
    def min_rows(self) -> int:
        """Number of private rows that each party needs so that every teacher has one."""
        return 1

    @property
    def is_private(self) -> bool:
        """Whether a mechanism protects anything."""
        return self.effective_delta > 0 or self.subsamples

    @property
    def rows_per_person(self) -> int:
        """How many rows of one person the guarantee covers."""
        return 1

    def upper_bound(self) -> "Algorithm | None":
        """Return the baseline that trains the same models on all private rows in one place, or None."""
        return None


def hand_out(
    model: bytes, parties: Parties, site: Site, remarks: Sequence[str] = (), figures: Mapping[str, float] | None = None
) -> Outcome:
    """Disclose the final model to all parties, and return the outcome of the run.

    Parameters
    ----------
    model : bytes
        The final model as ONNX. The disclosure "model" of the server must be declared.
    parties : Parties
        The parties that install the model.
    site : Site
        The server.
    remarks : sequence of str
        What did not go as planned, for the run record.
    figures : mapping of str to float, optional
        Numbers for the run record.

    Returns
    -------
    Outcome
        The model, the remarks and the figures.

    Examples
    --------
    >>> import numpy as np
    >>> from limbeck.privacy.mechanisms import Unprotected
    >>> from limbeck.protocol.parties import Replies
    >>> from limbeck.protocol.rows import PublicRows
    >>> class TwoParties:
    ...     everyone = (0, 1)
    ...
    ...     def ask(self, request, of=None, keep=None):
    ...         print("all parties receive", type(request).__name__)
    ...         return Replies({})
    >>> site = Site(
    ...     public=PublicRows(np.zeros((4, 2))), classes=2, model=None, seed=0, trainer=None,
    ...     declare=lambda run: [Disclosure("server", "model", Unprotected(), "parties")],
    ... )
    >>> hand_out(b"ONNX", TwoParties(), site, remarks=["party 1 was silent"])
    all parties receive InstallModel
    Outcome(model=b'ONNX', remarks=('party 1 was silent',), figures={})
    """
    parties.ask(site.disclose("model", InstallModel(model)))
    return Outcome(model, tuple(remarks), figures or {})


def check_rules(*rules: tuple[bool, str]) -> None:
    """Raise LimbeckError with the message of the first rule that does not hold.

    Parameters
    ----------
    *rules : tuple of bool and str
        Whether the rule holds, and the message otherwise.

    Examples
    --------
    >>> check_rules((True, "never raised"), (1 > 2, "subsets: must be larger than 2"))
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: subsets: must be larger than 2
    """
    for holds, line in rules:
        if not holds:
            raise LimbeckError(line)


def unknown_request(request: Request[Any], silo: Silo) -> LimbeckError:
    """Return the error for a request that the algorithm does not answer."""
    return LimbeckError(f"{silo.name}: the algorithm does not answer {type(request).__name__} requests")
