"""What a run between organisations would do: the coordinator's side, and a party's side. Nothing is sent."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from limbeck.algorithms import algorithm_named
from limbeck.consortium.checking import check
from limbeck.consortium.costs import estimated
from limbeck.consortium.experiment import PreparedRun, prepare_run
from limbeck.consortium.party import Agreed, PartyFolder
from limbeck.consortium.server import ServerFolder
from limbeck.data.schema import Schema
from limbeck.experiments.check import BudgetFacts, Columns, MethodFacts, budget_facts, columns_of, method_of
from limbeck.experiments.estimate import Estimate
from limbeck.experiments.extras import extras_of
from limbeck.experiments.record import finite
from limbeck.models.smoke_test import smoke_test
from limbeck.models.tasks import for_task
from limbeck.privacy.budget import in_force
from limbeck.privacy.ledger import check_within, read_contents
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.release import Release


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """What a run of the coordinator would do.

    Parameters
    ----------
    public, test : int
        Numbers of public rows and of the coordinator's test rows.
    columns : Columns or None
        Treatment of the columns of tables.
    values : int
        Numbers in a row that a model gets.
    task : str
        Kind of the labels.
    classes : tuple of str
        Classes.
    admitted, waiting : tuple of str
        Parties that are admitted, and those that are only invited.
    quorum : int
        Fewest parties that must reply.
    method : MethodFacts
        The method and the guarantees of each party.
    budgets : tuple of BudgetFacts
        Budgets of the server.
    missing_extras : tuple of str
        Extras that are not installed here.
    parties : int
        Number of parties that guarantees and costs are for: those that are admitted, or else invited.
    estimate : Estimate or str
        Estimated costs if each party has as many rows as there are public ones, or why there are none.
    """

    public: int
    test: int
    columns: Columns | None
    values: int
    task: str
    classes: tuple[str, ...]
    admitted: tuple[str, ...]
    waiting: tuple[str, ...]
    quorum: int
    method: MethodFacts
    budgets: tuple[BudgetFacts, ...]
    missing_extras: tuple[str, ...]
    parties: int
    estimate: Estimate | str

    def to_json(self) -> dict[str, Any]:
        """Return it as a table for JSON; an infinite epsilon is null."""
        return finite(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class AgreedFacts:
    """A method that a party agrees to, what one run may spend (None: no limit), and whether that is a whole budget."""

    algorithm: str
    levels: tuple[str, ...]
    cap: str | None
    spends_all: bool = False


@dataclass(frozen=True, slots=True)
class PartyCheck:
    """What a party has, and what it may be asked. It stays at the party.

    Parameters
    ----------
    party : str
        Name of the party.
    address : str
        Where it would connect to.
    rows, public : int
        Numbers of private and public rows.
    columns : Columns or None
        Treatment of the columns of tables.
    values : int
        Numbers in a row that a model gets.
    task : str
        Kind of the labels.
    classes : tuple of str
        Classes of the consortium.
    counts : tuple of int
        The party's rows of each class.
    test : int or None
        Number of its own test rows; None without any.
    test_counts : tuple of int
        Its test rows of each class.
    model : str
        Name of its model.
    noise : str
        Source of its noise.
    agreed : tuple of AgreedFacts
        Methods that it agrees to.
    budgets : tuple of BudgetFacts
        Budgets for all runs, and what is left.
    missing_extras : tuple of str
        Extras that are not installed here.
    """

    party: str
    address: str
    rows: int
    public: int
    columns: Columns | None
    values: int
    task: str
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    test: int | None
    test_counts: tuple[int, ...]
    model: str
    noise: str
    agreed: tuple[AgreedFacts, ...]
    budgets: tuple[BudgetFacts, ...]
    missing_extras: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as a table for JSON; an infinite epsilon is null."""
        return finite(asdict(self))  # type: ignore[no-any-return]


def check_server(folder: ServerFolder, file: Path | None = None) -> ServerCheck:
    """Find out what a run of the coordinator would do; nothing is sent or spent.

    Parameters
    ----------
    folder : ServerFolder
        The server's folder.
    file : Path, optional
        The experiment; by default experiment.toml in the folder.

    Returns
    -------
    ServerCheck
        The facts.

    Raises
    ------
    LimbeckError
        If the run would stop with this error.
    """
    file = file or folder.path / "experiment.toml"
    plan = prepare_run(file)
    configuration, data = plan.configuration, plan.configuration.data
    admitted, invited = folder.admitted, folder.members
    missing = extras_of([configuration.model], configuration.algorithm.is_private and configuration.noise == "secure")
    if not missing:
        smoke_test(for_task(configuration.model, data.kind), plan.public.x.shape[1:], len(data.classes))
    parties = max(1, len(admitted) or len(invited))
    releases = _planned(plan, parties)
    return ServerCheck(
        public=len(plan.public),
        test=len(plan.test) if plan.test else 0,
        columns=columns_of(plan.schema),
        values=int(plan.public.x[0].size),
        task=data.kind,
        classes=tuple(data.classes),
        admitted=tuple(admitted),
        waiting=tuple(name for name in invited if name not in admitted),
        quorum=plan.quorum(len(admitted)),
        method=method_of(configuration.algorithm, releases, configuration.noise),
        budgets=_server_budgets(folder, plan, releases),
        missing_extras=tuple(missing),
        parties=parties,
        estimate=estimated(plan, parties) if not missing else "an extra is missing",
    )


def check_party(folder: PartyFolder) -> PartyCheck:
    """Check a party as `limbeck party start` does, and find out what it has and what it may be asked.

    Parameters
    ----------
    folder : PartyFolder
        The party's folder.

    Returns
    -------
    PartyCheck
        The facts.
    """
    settings, join = folder.settings, folder.join
    agreed = [each for each in settings.agree if not each.levels or set(each.levels) - {"L0"}]
    missing = extras_of([settings.model], settings.noise == "secure" and any(map(_has_noise, agreed)))
    if not missing:
        check(folder)
    rows, public = folder.private(), folder.public(False)
    test = folder.test() if settings.test is not None else None
    store = folder.path / "ledger.sqlite"
    contents = read_contents(store)[0] if store.exists() and store.stat().st_size else None
    budgets = in_force([*(contents.budgets if contents else ()), *([settings.budget] if settings.budget else ())])
    return PartyCheck(
        party=join.party,
        address=join.address,
        rows=len(rows),
        public=len(public),
        columns=columns_of(Schema.from_json(join.schema, "the join file") if join.schema else None),
        values=int(rows.x[0].size),
        task=join.task.kind,
        classes=tuple(join.classes),
        counts=tuple(map(int, join.task.counts(rows.y, len(join.classes)))),
        test=None if test is None else len(test),
        test_counts=() if test is None else tuple(map(int, join.task.counts(test.y, len(join.classes)))),
        model=settings.model.name,
        noise=settings.noise,
        agreed=tuple(
            AgreedFacts(
                each.algorithm,
                tuple(each.levels or ()),
                str(each.cap) if each.cap else None,
                each.cap is not None and any(budget.epsilon <= each.cap.epsilon for budget in budgets),
            )
            for each in settings.agree
        ),
        budgets=_of_party(budgets, [row for _, row in contents.releases] if contents else []),
        missing_extras=tuple(missing),
    )


def _of_party(budgets: Sequence[Any], spent: list[Release]) -> tuple[BudgetFacts, ...]:
    """Budgets of a party, which is the same in all runs."""
    return tuple(BudgetFacts(str(each), each.epsilon, each.spent(spent), each.spent(spent)) for each in budgets)


def _has_noise(agreed: Agreed) -> bool:
    """Whether a method can have noise."""
    kind: Any = algorithm_named(agreed.algorithm)
    fields = getattr(kind, "__dataclass_fields__", {})
    return kind.subsamples or "privacy" in fields or "epsilon" in fields


def _planned(plan: PreparedRun, parties: int) -> list[Release]:
    configuration = plan.configuration
    data = configuration.data
    facts = Facts(len(plan.public), len(data.classes), parties, configuration.noise, task=data.whole_task)
    return planned_releases(configuration.algorithm.disclosures, facts)


def _server_budgets(folder: ServerFolder, plan: PreparedRun, releases: list[Release]) -> tuple[BudgetFacts, ...]:
    """Budgets for the server's own releases."""
    store, own = folder.path / "ledger.sqlite", plan.configuration.budget
    contents = read_contents(store)[0] if store.exists() and store.stat().st_size else None
    spent, stored = (contents.releases, contents.budgets) if contents else ([], [])
    budgets = in_force([*stored, *([own] if own else [])])
    here = [row for row in releases if row.site == "server"]
    check_within(budgets, spent, [("this run", row) for row in here], "this run")
    return budget_facts(budgets, spent, here)
