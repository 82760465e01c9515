"""Run records as tables for a terminal."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rich import box
from rich.table import Column, Table

from limbeck.experiments.metrics import HEADLINES
from limbeck.experiments.record import RunRecord
from limbeck.protocol.task import Kind

BYTE_UNITS = ("B", "kB", "MB", "GB")
WITHHELD = "withheld"  # from the record of a real run; owner.json contains it
MAX_REMARKS = 3

TITLES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "mean ROC AUC",
    "pr_auc": "mean PR AUC",
    "f1": "mean F1",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "brier": "Brier score",
    "calibration_error": "calibration error",
    "r2": "R2",
    "rmse": "RMSE",
    "mae": "MAE",
}
SHARES = ("accuracy", "balanced_accuracy", "sensitivity", "specificity")  # printed in percent
OF_TWO = ("roc_auc", "pr_auc", "sensitivity", "specificity")  # what the table of a run adds for two classes
MAX_CLASSES = 10  # of a confusion matrix that is printed
SMALL = 1e-3  # an epsilon below is printed in full: rounded to decimals it would be 0


def run_table(record: RunRecord) -> Table:
    """Table of one run: accuracy, constant predictor, rounds, bytes, epsilon and seconds."""
    title = f"{record.algorithm}, {len(record.parties)} parties, seed {record.seed}"
    table = framed(title, "", Column(justify="right"))
    if record.metrics:
        own = any(party.metrics for party in record.parties)
        first, *others = HEADLINES[record.task]
        others += OF_TWO if record.metrics.are_of_two_classes else ["roc_auc"] if record.task == "multiclass" else []
        for name in (first, *others):
            mean = " (mean over parties)" if own and name == first else ""
            of = f" ({record.data['classes'][1]})" if name == "sensitivity" else ""
            table.add_row(title_of(name, record.task) + of + mean, figure(name, getattr(record.metrics, name)))
        for name, auc in zip(record.data["classes"], record.metrics.class_auc or (), strict=False):
            table.add_row(f"ROC AUC of {name}", figure("roc_auc", auc))
        table.add_row(
            f"constant predictor's {TITLES[first]}", _visible(record, record.constant, partial(figure, first))
        )
    elif record.real and record.data["test"]:
        table.add_row(TITLES[HEADLINES[record.task][0]], WITHHELD)
    elif not record.data["test"]:
        table.add_row("metrics", "no test rows: give data.test")
    table.add_row("rounds", str(record.rounds))
    table.add_row("bytes up / down", f"{weight(record.bytes['up'])} / {weight(record.bytes['down'])}")
    table.add_row("epsilon", _epsilons(record))
    table.add_row("seconds", _visible(record, record.timing.get("seconds"), lambda seconds: f"{seconds:.1f}"))
    if (training := record.timing.get("training", {})).get("trainer") in ("stacked", "sequential"):
        table.add_row("networks trained", f"{training['trainer']}, {training['device']}, {training['precision']}")
    if record.missing:
        table.add_row("silent parties", ", ".join(map(str, record.missing)))
    for remark in record.remarks[:MAX_REMARKS]:
        table.add_row("remark", remark)
    if len(record.remarks) > MAX_REMARKS:
        table.add_row("", f"{len(record.remarks) - MAX_REMARKS} more remarks in record.json")
    return table


def confusion_table(counts: Sequence[Sequence[int]], classes: Sequence[str], is_noisy: bool = False) -> Table:
    """Table of the test rows of each class, by the class that is predicted."""
    columns = (Column(name, justify="right") for name in classes)
    table = framed(f"confusion matrix{', with noise' if is_noisy else ''}", "true \\ predicted", *columns)
    for name, line in zip(classes, counts, strict=True):
        table.add_row(name, *map(str, line))
    return table


def confusion_of(record: RunRecord) -> list[Table]:
    """Confusion matrix of the final model of a run, if the record has one of few classes."""
    counts = record.metrics.confusion if record.metrics else None
    if counts is None or len(counts) > MAX_CLASSES or any(party.metrics for party in record.parties):
        return []
    return [confusion_table(counts, record.data["classes"])]


def title_of(name: str, task: Kind) -> str:
    """Return the title of a metric; with one class a row, areas under curves and F1 need no "mean"."""
    return TITLES[name].removeprefix("mean ") if task == "multiclass" else TITLES[name]


def party_table(record: RunRecord) -> Table:
    """Table of the parties of a run: model, rows, classes, and the accuracy of their own models if they have any."""
    learned = len(record.curve) > 1 and "accuracy" in record.curve[0]
    first = HEADLINES[record.task][0]
    heading = ("at the start", TITLES[first]) if learned else (f"{TITLES[first]} alone",)
    own = (*heading, *record.bounds) if any(party.metrics for party in record.parties) else ()
    numbers = (Column(name, justify="right") for name in ("rows", "classes", *own))
    table = framed("parties", Column("party", justify="right"), "model", *numbers)
    for party_index, party in enumerate(record.parties):
        counts = [_visible(record, party.rows, str), _visible(record, party.classes or None, _held)]
        reached = figure(first, party.headline(record.task))
        started = (figure(first, _start(record, party_index)),) if learned else ()
        bounds = [figure(first, bound[party_index]) for bound in record.bounds.values()]
        alone = (*started, reached, *bounds) if own else ()
        table.add_row(party.name or str(party.index), str(party.model["name"]), *counts, *alone)
    return table


def own_test_table(record: RunRecord) -> list[Table]:
    """Table of the metrics on each party's own test rows, if the record has any."""
    tested = [party for party in record.parties if party.own_test]
    if not tested:
        return []
    names = max((party.own_test.shown(record.task) for party in tested if party.own_test), key=len)
    numbers = (Column(name, justify="right") for name in ("rows", *(short_title(name, record.task) for name in names)))
    own = any(party.metrics for party in record.parties)
    title = "each party's model on its test rows" if own else "the final model on each party's test rows"
    table = framed(title, Column("party", justify="right"), *numbers)
    for party in tested:
        figures = [figure(name, getattr(party.own_test, name)) for name in names]
        table.add_row(party.name or str(party.index), str(party.tested), *figures)
    return [table]


def _held(classes: Sequence[int]) -> str:
    """Return the number of classes that a party has rows of."""
    return str(sum(count > 0 for count in classes))


def _visible(record: RunRecord, value: Any, shown: Callable[[Any], str]) -> str:
    """Return a value of a record as text, or that it is withheld or missing."""
    if value is None:
        return WITHHELD if record.real else "–"
    return shown(value)


def _start(record: RunRecord, party_index: int) -> float | None:
    """Return the first accuracy of a party."""
    return next(
        (point["accuracy"][party_index] for point in record.curve if point["accuracy"][party_index] is not None), None
    )


def comparison_table(records: Sequence[RunRecord], title: str = "on the same test rows") -> Table:
    """Table of several runs on the same test rows, with the constant predictor in the last line.

    At a private level, the method is followed by the level, and epsilon is that towards the public.
    """
    assert records[0].metrics
    task = records[0].task
    shown = records[0].metrics.shown(task)
    numbers = (*(short_title(name, task) for name in shown), "rounds", "up", "down", "epsilon", "seconds")
    columns = (Column(name, justify="right", no_wrap=True) for name in numbers)
    table = framed(title, Column("method", no_wrap=True), *columns)
    for record in records:
        assert record.metrics
        level = record.config.get("algorithm", {}).get("privacy", {}).get("level", "L0")
        table.add_row(
            record.algorithm if level == "L0" else f"{record.algorithm} {level}",
            *(figure(name, getattr(record.metrics, name)) for name in shown),
            str(record.rounds),
            weight(record.bytes["up"]),
            weight(record.bytes["down"]),
            number(record.worst_epsilon if level == "L0" else record.epsilon["public"]),
            _visible(record, record.timing.get("seconds"), lambda seconds: f"{seconds:.1f}"),
        )
    table.add_row("constant", _visible(records[0], records[0].constant, partial(figure, shown[0])))
    return table


def short_title(name: str, task: Kind) -> str:
    """Return the title of a metric in a table of many columns."""
    return "balanced" if name == "balanced_accuracy" else title_of(name, task)


def figure(name: str, value: float | None) -> str:
    """Return the value of a metric as text.

    Examples
    --------
    >>> figure("accuracy", 0.8341), figure("roc_auc", 0.8341), figure("rmse", 54.321), figure("r2", None)
    ('83.4 %', '0.834', '54.32', '–')
    """
    if value is None or name in SHARES:
        return percent(value)
    return f"{value:.4g}" if name in ("rmse", "mae") else f"{value:.3f}"


def percent(fraction: float | None) -> str:
    """Return a fraction as a percentage.

    Examples
    --------
    >>> percent(0.8341), percent(None)
    ('83.4 %', '–')
    """
    return "–" if fraction is None else f"{100 * fraction:.1f} %"


def weight(count: float | None) -> str:
    """Return a number of bytes with a unit.

    Examples
    --------
    >>> weight(512), weight(1_300_000), weight(None)
    ('512 B', '1.3 MB', 'withheld')
    """
    if count is None:
        return WITHHELD
    for unit in BYTE_UNITS:
        if count < 1000 or unit == BYTE_UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def _epsilons(record: RunRecord) -> str:
    """Return epsilon towards each observer, and what the finite figures hold for, in one string."""
    text = ", ".join(f"{number(epsilon)} to {observer}" for observer, epsilon in record.epsilon.items()) or "0"
    about = next((f for f in record.privacy if 0 < f["epsilon"] < math.inf), None)
    if about is None:
        return text
    simulated = ", simulated" if record.noise == "simulated" else ""
    rows = about.get("rows", 1)
    unit = f"{rows} rows of a person" if rows > 1 else f"one {about['unit']}"
    return f"{text}\n({unit}, {about['adjacency']}, delta {record.delta:g}{simulated})"


def number(epsilon: float, form: str = ".3g") -> str:
    """Return an epsilon as text.

    Examples
    --------
    >>> number(1.9142), number(float("inf")), number(1e-9, ".4f")
    ('1.91', '∞', '1e-09')
    """
    if math.isinf(epsilon):
        return "∞"
    return f"{epsilon:.3g}" if 0 < epsilon < SMALL else f"{epsilon:{form}}"


def framed(title: str, *headings: str | Column) -> Table:
    """Return an empty table with a title and a line below the headings."""
    return Table(
        *headings,
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
