"""What people ask of a finished run: its folder, its privacy and a picture."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.metrics import HEADLINES
from limbeck.experiments.record import RunRecord
from limbeck.experiments.result import FinishedRun
from limbeck.privacy.guarantees import PrivacyGuarantee, delta_of_subsets, epsilon_by_observer, guarantees
from limbeck.privacy.ledger import over_runs, read_contents
from limbeck.report.curves import MIN_POINTS, drawn, figure_of_curves, learning_curves
from limbeck.report.statement import statement
from limbeck.report.tables import TITLES, number


@dataclass(frozen=True, slots=True, repr=False)
class RunPrivacy:
    """What a run spent of its parties' privacy.

    Parameters
    ----------
    epsilon : mapping of str to mapping of str to float
        Epsilon towards each observer, for each unit of privacy ("party" or "example"); infinite without a guarantee.
    delta : float
        Delta at which epsilon is computed.
    noise : {"secure", "simulated"}
        Where noise came from. Simulated noise protects nobody.
    run : FinishedRun
        The run.
    """

    epsilon: Mapping[str, Mapping[str, float]]
    delta: float
    noise: str
    run: FinishedRun = field(compare=False)

    def statement(self) -> str:
        """Return the privacy statement of the run as Markdown: the text of `privacy.md`."""
        return statement_of(self.run, self.run.ledger)

    def __repr__(self) -> str:
        lines = [f"privacy of {self.run.record.algorithm}: delta {self.delta:g}, {self.noise} noise"]
        for observer, units in self.epsilon.items():
            lines.append(f"  {observer}: " + ", ".join(f"epsilon {number(e)} ({unit})" for unit, e in units.items()))
        return "\n".join(lines if self.epsilon else [*lines, "  no private value left a party: epsilon 0"])


def privacy_of(run: FinishedRun) -> RunPrivacy:
    """Return what a run spent of its parties' privacy.

    Parameters
    ----------
    run : FinishedRun
        The run.

    Returns
    -------
    RunPrivacy
        Epsilon towards each observer who sees anything, and what it holds for.
    """
    found = [PrivacyGuarantee(**each) for each in run.record.privacy]
    by_unit = {unit: epsilon_by_observer(found, unit) for unit in ("example", "party")}
    epsilon = {who: {unit: by_unit[unit][who] for unit in by_unit} for who in by_unit["example"]}
    return RunPrivacy(epsilon, run.record.delta, run.record.noise, run)


def files_of(run: FinishedRun, ledger: Path | None) -> dict[str, bytes]:
    """Make the files of a run's folder, except its own ledger.

    Parameters
    ----------
    run : FinishedRun
        The run.
    ledger : Path or None
        The ledger's file, for the guarantees of all runs in it; None without a file.

    Returns
    -------
    dict of str to bytes
        The content of each file by its relative path: models, records, statement, and the learning curve if there is
        one. Without matplotlib a warning says that there is no picture.
    """
    return {**run.files(), **_picture(run.record), "privacy.md": statement_of(run, ledger).encode()}


def statement_of(run: FinishedRun, ledger: Path | None) -> str:
    """Return the privacy statement of a run.

    Parameters
    ----------
    run : FinishedRun
        The run.
    ledger : Path or None
        The ledger's file; None without one.

    Returns
    -------
    str
        The statement, as Markdown.
    """
    together, delta, head = _all_together(ledger, run.record) if ledger else ([], None, None)
    return statement(run.record, together, delta, bool(run.models), head=head)


def _all_together(
    ledger: Path, record: RunRecord
) -> tuple[Sequence[PrivacyGuarantee], float | None, tuple[int, str] | None]:
    """Guarantees of all runs in a ledger, if there are several; their delta; and the ledger's head."""
    contents, _ = read_contents(ledger)
    releases, people = over_runs(contents.releases), record.rows_per_person
    delta = max(record.delta, delta_of_subsets(releases, people))
    several = len({run for run, _ in contents.releases}) > 1
    found = guarantees(releases, delta, people) if several and delta else []
    return found, delta, contents.head if contents.digests else None


def _picture(record: RunRecord) -> dict[str, bytes]:
    try:
        picture = learning_curves(record)
    except LimbeckError as error:
        warnings.warn(f"no curve.png: {error}", LimbeckWarning, stacklevel=2)
        return {}
    return {"curve.png": picture} if picture else {}


def figure_of(run: FinishedRun) -> Any:
    """Draw a run: its learning curve if it has one, otherwise the parties' own models beside the final one.

    Parameters
    ----------
    run : FinishedRun
        The run.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    LimbeckError
        If the run had no test rows, or matplotlib is not installed.
    """
    record = _whole(run)
    if record.metrics is None:
        raise LimbeckError("there is nothing to plot: the run had no test rows; give test=(X, y)")
    if len(record.curve) >= MIN_POINTS:
        return figure_of_curves(record)
    return drawn(partial(_bars, record=record), record.task)


def _whole(run: FinishedRun) -> RunRecord:
    """Return the record, with what only the owner may see."""
    own = run.owner
    if own is None:
        return run.record
    return replace(run.record, parties=own.parties, metrics=own.metrics, constant=own.constant, curve=own.curve)


def _bars(axes: Any, record: RunRecord) -> None:
    """A bar for each party's own model, a line for the final model or the mean, and one for the constant predictor."""
    own = [(party.name or str(party.index), party.headline(record.task)) for party in record.parties]
    known = [(name, 100 * value) for name, value in own if value is not None]
    assert record.metrics
    final = record.metrics.headline(record.task)
    if known:
        axes.bar([name for name, _ in known], [height for _, height in known], color="C0", label="own model")
        axes.set(xlabel="party")
    if final is not None and known:
        axes.axhline(100 * final, color="C1", label="mean over parties")
    elif final is not None:
        axes.bar([record.algorithm], [100 * final], color="C1", width=0.4, label="final model")
        axes.set_xlim(-1, 1)
    if record.constant is not None:
        axes.axhline(100 * record.constant, color="grey", linestyle=":", label="constant")
    axes.set(title=f"{record.algorithm}, seed {record.seed}: {TITLES[HEADLINES[record.task][0]]}")
