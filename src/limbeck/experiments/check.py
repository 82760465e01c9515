"""What a run would do: its files, columns, classes, parties, privacy and costs. Nothing is trained on private rows."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from limbeck.data.draw import FromFile
from limbeck.data.files import SUFFIXES, read_undecided
from limbeck.data.schema import Schema
from limbeck.errors import LimbeckWarning, located
from limbeck.experiments.config import Experiment
from limbeck.experiments.estimate import Estimate, estimate
from limbeck.experiments.extras import missing_extras
from limbeck.experiments.federation import Federation
from limbeck.experiments.record import delta_of, finite
from limbeck.experiments.run import facts_of, federation_of, ledger_of
from limbeck.experiments.splitting import split_rows
from limbeck.models.trainers import trainer_for
from limbeck.privacy.budget import check_tightens, in_force
from limbeck.privacy.guarantees import PrivacyGuarantee, guarantees
from limbeck.privacy.ledger import Budget, LedgerStore, check_within, over_runs, read_contents, unfinished_run
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.release import Release

NOISE = {"secure": "secure random numbers", "simulated": "simulated from the seed, for practice only"}


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file: whose rows it has, how many, and how it was read."""

    role: str
    path: str
    rows: int
    reading: str


@dataclass(frozen=True, slots=True)
class PartyFacts:
    """A party: its name, its model, and its rows of each class."""

    name: str
    model: str
    rows: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BudgetFacts:
    """A budget, and epsilon that is spent before the run and after it."""

    budget: str
    epsilon: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class MethodFacts:
    """A method: its level, where noise comes from, the planned guarantees, and whether it trains on private rows."""

    algorithm: str
    level: str | None
    noise: str | None
    delta: float
    guarantees: tuple[PrivacyGuarantee, ...]
    trains_parties: bool = True


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of tables: those that are learned from, the label, the one that names rows, and those left out."""

    learned: tuple[tuple[str, str], ...]
    label: tuple[str, ...]
    row_id: str | None
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """What a run would do.

    Parameters
    ----------
    files : tuple of FileFacts
        The user's own files; none for named data sets.
    columns : Columns or None
        Treatment of the columns; None if rows are not from tables.
    values : int
        Numbers in a row that a model gets.
    task : str
        Kind of the labels.
    classes : tuple of str
        Classes, or the name of a numeric target.
    positive : str or None
        The class of interest, if it is named.
    parties : tuple of PartyFacts
        Parties and their rows.
    public, test : int
        Numbers of public and test rows.
    method : MethodFacts
        The method and its planned guarantees.
    budgets : tuple of BudgetFacts
        Budgets, and what is left of them.
    missing_extras : tuple of str
        Extras that are not installed; with one of them, a run would stop.
    estimate : Estimate or str
        Estimated costs, or why there are none.
    warnings : tuple of str
        What is allowed but probably not intended.
    """

    files: tuple[FileFacts, ...]
    columns: Columns | None
    values: int
    task: str
    classes: tuple[str, ...]
    positive: str | None
    parties: tuple[PartyFacts, ...]
    public: int
    test: int
    method: MethodFacts
    budgets: tuple[BudgetFacts, ...]
    missing_extras: tuple[str, ...]
    estimate: Estimate | str
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as a table for JSON; an infinite epsilon is null."""
        return finite(asdict(self))  # type: ignore[no-any-return]


def check_experiment(experiment: Experiment, table: Mapping[str, Any], file: Path) -> Check:
    """Find out what a run would do, without training on private rows and without a ledger row.

    Parameters
    ----------
    experiment : Experiment
        The checked content of the file.
    table : mapping
        Its table.
    file : Path
        The file; paths are relative to its folder.

    Returns
    -------
    Check
        The facts.

    Raises
    ------
    LimbeckError
        If the run would stop with this error: a wrong column, a budget that is too small, and so on.
    """
    base = file.parent
    missing = missing_extras(experiment)
    with located(file), _noted() as warned:
        rows = split_rows(experiment, base)
        federation = federation_of(experiment, table, rows, LedgerStore(budget=experiment.budget), base)
        if not missing:
            federation.check_plan()
        budgets = _budgets(federation, experiment.budget, ledger_of(experiment, base))
        if experiment.bounds:
            federation.check_bounds()
        if not missing:
            trainer_for(
                replace(experiment.training, checkpoint=None), experiment.models, 1, isolated=federation.is_real
            )
            federation.smoke_test()
        federation.warn_of_strange_public_rows()
        federation.warn_of_unread_texts()
    with _noted():  # the same warnings again
        files = _files(experiment, rows.schema, base)
    counts = [federation.task.counts(each.y, len(federation.classes)) for each in federation.private]
    return Check(
        files=files,
        columns=columns_of(rows.schema),
        values=int(federation.private[0].x[0].size),
        task=federation.task.kind,
        classes=tuple(map(str, federation.classes)),
        positive=experiment.data.positive,
        parties=tuple(
            PartyFacts(name, model.name, len(own), tuple(map(int, each)))
            for name, model, own, each in zip(
                federation.titles, federation.models, federation.private, counts, strict=True
            )
        ),
        public=len(federation.public) if federation.public else 0,
        test=len(federation.test) if federation.test else 0,
        method=method_of(federation.algorithm, federation.planned(), federation.noise),
        budgets=budgets,
        missing_extras=tuple(missing),
        estimate=estimate(federation) if not missing else "an extra is missing",
        warnings=tuple(dict.fromkeys(str(each.message) for each in warned)),
    )


def columns_of(schema: Schema | None) -> Columns | None:
    """Treatment of the columns of tables; None without a schema."""
    if schema is None:
        return None
    learned = tuple((column.name, column.treatment) for column in schema.columns)
    return Columns(learned, schema.labels, schema.id, schema.ignored)


def method_of(algorithm: Algorithm, releases: list[Release], noise: str) -> MethodFacts:
    """Level, noise and guarantees of planned releases."""
    delta = delta_of(algorithm, releases)
    found = guarantees(releases, delta, algorithm.rows_per_person)
    source = NOISE[noise] if algorithm.is_private else None
    trains = algorithm.uses_weights != "sums"
    return MethodFacts(algorithm.name, algorithm.level, source, delta, tuple(found), trains)


def budget_facts(
    budgets: list[Budget], spent: list[tuple[str, Release]], more: list[Release] | None = None
) -> tuple[BudgetFacts, ...]:
    """What is spent of budgets before and after a run.

    Parameters
    ----------
    budgets : list of Budget
        Budgets in force.
    spent : list of (str, Release)
        Releases so far, each with the identifier of its run.
    more : list of Release, optional
        Planned releases of one more run.

    Returns
    -------
    tuple of BudgetFacts
        One for each budget.
    """
    before, after = over_runs(spent), over_runs([*spent, *(("this run", row) for row in more or ())])
    return tuple(BudgetFacts(str(each), each.epsilon, each.spent(before), each.spent(after)) for each in budgets)


def _budgets(federation: Federation, own: Budget | None, ledger: Path | None) -> tuple[BudgetFacts, ...]:
    """Budgets in force with a ledger that exists; raise if the run would exceed one."""
    planned, spent, stored = federation.planned(), [], []
    if ledger is not None and ledger.exists():
        contents, _ = read_contents(ledger)
        resumed = unfinished_run(ledger, facts_of(federation))
        spent = [each for each in contents.releases if each[0] != resumed]
        stored = contents.budgets
        if own:
            check_tightens(own, stored, str(ledger))
    budgets = in_force([*stored, *([own] if own else [])])
    check_within(budgets, spent, [("this run", row) for row in planned], "this run")
    return budget_facts(budgets, spent, planned)


def _files(experiment: Experiment, schema: Schema | None, base: Path) -> tuple[FileFacts, ...]:
    """The user's own tables; other rows are counted with the parties."""
    data = experiment.data
    own = [("private", path) for path in experiment.files or ([data.path] if data.path else [])]
    parts = [(key, getattr(data, key)) for key in ("public", "test")]
    own += [("test", party.test) for party in experiment.party if party.test]
    every = [*own, *((key, part.path) for key, part in parts if isinstance(part, FromFile))]
    found = []
    for role, path in every:
        if (base / path).suffix.lower() in SUFFIXES:
            table = read_undecided(base / path, data.reading).decided(schema.reading if schema else None)
            found.append(FileFacts(role, path, len(table), table.reading.in_words()))
    return tuple(found)


@contextmanager
def _noted() -> Iterator[list[warnings.WarningMessage]]:
    """Context manager: collect the warnings of Limbeck, and drop those of libraries."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", LimbeckWarning)
        yield found
