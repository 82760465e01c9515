"""A comparison as a table: for a terminal, as Markdown, CSV or JSON."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from rich.console import Group
from rich.text import Text

from limbeck.experiments.compare import COSTS, METRICS, Spread, Summary
from limbeck.experiments.plan import ComparisonPlan
from limbeck.experiments.usefulness import advice
from limbeck.report.tables import SHARES, framed, short_title, weight

CSV_FIGURES = (*METRICS, *COSTS)
SHORT_NAME = 14  # characters: longer names of methods are folded where the table is too wide
COSTS_SHOWN = ("rounds", "up", "down", "seconds", "epsilon")


def comparison(plan: ComparisonPlan, summaries: Sequence[Summary]) -> Group:
    """Return a comparison for a terminal, with the reasons for missing results below the table.

    Parameters
    ----------
    plan : ComparisonPlan
        What was compared.
    summaries : sequence of Summary
        Mean and standard deviation over the seeds, for each method and swept value.

    Returns
    -------
    rich.console.Group
        The table and its notes.
    """
    headings, lines = _lines(plan, summaries)
    table = framed(_title(plan))
    for heading in headings:
        method = heading == "method"
        whole = method and max(len(line[0]) for line in lines) <= SHORT_NAME
        table.add_column(heading, justify="left" if method else "right", overflow="fold", no_wrap=whole)
    notes = dict.fromkeys(note for summary in summaries for note in _notes(summary))
    marks = {note: f" [{number}]" for number, note in enumerate(notes, 1)}
    for line, summary in zip_longest(lines, summaries):
        accuracy = 1 + len(plan.swept)
        line[accuracy] += "".join(marks[note] for note in _notes(summary)) if summary else ""
        table.add_row(*(Text(cached) for cached in line))
    todo = {
        s.task: Text(f"What to do about a model that is no better: {advice(s.task, 'sensitivity' in s.figures)}")
        for s in summaries
        if s.no_better
    }
    return Group(table, *(Text(f"{mark.strip()} {note}") for note, mark in marks.items()), *todo.values())


def as_markdown(plan: ComparisonPlan, summaries: Sequence[Summary]) -> str:
    """Return a comparison as a Markdown table. A line without result has the reason in the column of its accuracy."""
    headings, lines = _lines(plan, summaries)
    for line, summary in zip(lines, summaries, strict=False):
        line[1 + len(plan.swept)] += "".join(f" ({note})" for note in _notes(summary))
    rows = [headings, ["---"] + ["---:"] * (len(headings) - 1), *lines]
    return f"{_title(plan)}\n\n" + "\n".join(f"| {' | '.join(_safe(c) for c in row)} |" for row in rows) + "\n"


def _notes(summary: Summary) -> list[str]:
    """Remarks on a line: why runs failed, and at which seeds the model is no better than the constant predictor."""
    if not summary.no_better:
        return [summary.note] if summary.note else []
    every = len(summary.no_better) == len(summary.seeds)
    where = "" if every else f" at seed {', '.join(map(str, summary.no_better))}"
    line = f"no better than the constant predictor{where}"
    return [*([summary.note] if summary.note else []), line]


def as_csv(plan: ComparisonPlan, summaries: Sequence[Summary]) -> str:
    """Return a comparison as CSV with plain numbers: fractions, bytes, seconds. An infinite epsilon is `inf`."""
    spread = [f"{name}{end}" for name in CSV_FIGURES for end in ("", "_deviation")]
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["method", *plan.swept, "seeds", *spread, "epsilon", "epsilon_public", "no_better", "why_not"])
    for s in summaries:
        figures = [s.figures.get(name) for name in CSV_FIGURES]
        epsilons = [_worst(s, "inf"), _public(s, "inf")] if s.seeds else [None, None]
        numbers = [number for f in figures for number in ((f.mean, f.deviation) if f else (None, None))]
        out.writerow([s.method, *s.swept.values(), len(s.seeds), *numbers, *epsilons, len(s.no_better), s.note])
    return text.getvalue()


def as_json(plan: ComparisonPlan, summaries: Sequence[Summary]) -> str:
    """Return a comparison as one JSON object: the seeds, and an entry for each method and swept value."""
    return json.dumps({"file": plan.file.name, "seeds": list(plan.seeds), "lines": list(map(_plain, summaries))})


def _plain(summary: Summary) -> dict[str, Any]:
    table = asdict(summary)
    figures, note = table.pop("figures"), table.pop("note")
    return {**table, **figures, "why_not": note or None}


def _lines(plan: ComparisonPlan, summaries: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """Return the headings, and the lines as lists of text: one per summary, then the constant predictor."""
    task: Any = next((s.task for s in summaries if s.seeds), "multiclass")
    shown = max((s.shown for s in summaries), key=len)
    titles = [f"{short_title(name, task)}{' %' * (name in SHARES)}" for name in shown]
    headings = ["method", *(key.split(".")[-1] for key in plan.swept), *titles, *COSTS_SHOWN]
    lines = [[s.method, *map(_value, s.swept.values()), *_cells(s, shown)] for s in summaries]
    return headings, lines + [line + [""] * (len(headings) - len(line)) for line in _constants(plan, summaries)]


def _constants(plan: ComparisonPlan, summaries: Sequence[Summary]) -> list[list[str]]:
    """Return one line if the constant predictor is the same for all swept values, otherwise one for each."""
    whole = [s for s in summaries if "constant" in s.figures and len(s.seeds) == len(plan.seeds)]
    lines = {repr(s.swept): (s.swept.values(), _metric(s.headline, s.figures["constant"])) for s in whole}
    if len({text for _, text in lines.values()}) == 1:
        [(swept, text), *_] = lines.values()
        return [["constant", *("" for _ in swept), text]]
    return [["constant", *map(_value, swept), text] for swept, text in lines.values()]


def _cells(summary: Summary, metrics: Sequence[str]) -> list[str]:
    figure = summary.figures.get
    return [
        *(_metric(name, figure(name)) for name in metrics),
        _mean(figure("rounds"), "{:g}".format),
        _mean(figure("up"), weight),
        _mean(figure("down"), weight),
        _mean(figure("seconds"), "{:.1f}".format),
        _epsilon(summary) if summary.seeds else "–",
    ]


def _metric(name: str, figure: Spread | None) -> str:
    """Return mean and standard deviation of a metric, shares in percent."""
    if figure is None:
        return "–"
    factor, form = (100, ".1f") if name in SHARES else (1, ".4g" if name in ("rmse", "mae") else ".3f")
    spread = "" if figure.deviation is None else f" ± {factor * figure.deviation:{form}}"
    return f"{factor * figure.mean:{form}}{spread}"


def _mean(figure: Spread | None, shown: Callable[[float], str]) -> str:
    return "–" if figure is None else shown(figure.mean)


def _epsilon(summary: Summary) -> str:
    """Return the largest epsilon over all observers, and that towards the public if it is smaller."""
    worst, public = _worst(summary, "∞"), _public(summary, "∞")
    return worst if public in (worst, "") else f"{worst}, public {public}"


def _worst(summary: Summary, infinite: str) -> str:
    """Return the largest epsilon over all observers; 0 if nobody sees anything."""
    known = [value for value in summary.epsilon.values() if value is not None]
    return infinite if len(known) < len(summary.epsilon) else f"{max(known, default=0.0):.3g}"


def _public(summary: Summary, infinite: str) -> str:
    if "public" not in summary.epsilon:
        return ""
    value = summary.epsilon["public"]
    return infinite if value is None else f"{value:.3g}"


def _title(plan: ComparisonPlan) -> str:
    count = len(plan.seeds)
    over = "one seed" if count == 1 else f"mean ± standard deviation over {count} seeds"
    return f"{plan.file.name}: {over}; seconds are of training on one core"


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _safe(cached: str) -> str:
    return cached.replace("|", "\\|").replace("\n", " ")
