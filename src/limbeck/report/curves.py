"""Plots: learning curves of a run, and the accuracy of a comparison against rounds, bytes, epsilon and swept values."""

import math
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.experiments.compare import Summary
from limbeck.experiments.metrics import HEADLINES
from limbeck.experiments.plan import ComparisonPlan, split_outside
from limbeck.experiments.record import RunRecord
from limbeck.protocol.task import Kind
from limbeck.report.pictures import new_figure, save_figure
from limbeck.report.tables import TITLES

SIZE = (7, 4.2)
DPI = 110
LONG = 40  # characters; with longer names the legend is below the plot
DECADE = 10  # ratio of the largest to the smallest number of bytes from which the axis is logarithmic
MAX_TICKS = 12
MIN_POINTS = 2  # of a curve
TICKS = (0, 50, 80, 90, 95, 98, 99, 100)  # percent, denser near 100, where curves are close to each other
MARGIN = 0.15  # share of the width on each side for the start of curves and their upper bounds


def save_pictures(plan: ComparisonPlan, summaries: Sequence[Summary], stem: Path) -> list[Path]:
    """Save the plots of a comparison as PNG files.

    Parameters
    ----------
    plan : ComparisonPlan
        What was compared.
    summaries : sequence of Summary
        Results, for each method and swept value.
    stem : Path
        Start of the file names, to which for example `-rounds.png` is added.

    Returns
    -------
    list of Path
        The files; none without results.
    """
    shown = [s for s in summaries if s.headline in s.figures]
    if not shown:
        return []
    pictures: dict[str, Callable[[Any], None]] = {
        "rounds": lambda axes: _against(axes, shown, ("rounds",), "rounds"),
        **({"curves": lambda axes: _rounds(axes, shown)} if any(s.curve for s in shown) else {}),
        "bytes": lambda axes: _against(axes, shown, ("up", "down"), "bytes up and down"),
        **({"epsilon": lambda axes: _private(axes, shown)} if any(map(_towards_public, shown)) else {}),
        **{key: lambda axes, key=key: _swept(axes, shown, key) for key in plan.swept},  # type: ignore[misc]
    }
    paths = {stem.with_name(f"{stem.name}-{name}.png"): draw for name, draw in pictures.items()}
    for path, draw in paths.items():
        save_figure(drawn(draw, shown[0].task), path, dpi=DPI)
    return list(paths)


def _against(axes: Any, summaries: Sequence[Summary], cost: Sequence[str], label: str) -> None:
    for summary in summaries:
        _accuracies(axes, [sum(summary.figures[part].mean for part in cost)], [summary], _name(summary))
    if "up" in cost:
        spent = [sum(summary.figures[part].mean for part in cost) for summary in summaries]
        if max(spent) > DECADE * min(spent):
            axes.set_xscale("symlog", linthresh=1000)
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel=label)
    _constant(axes, summaries)


def _rounds(axes: Any, summaries: Sequence[Summary]) -> None:
    """Plot the accuracy after each round. A method without rounds is a point."""
    for summary in summaries:
        last = summary.figures["rounds"].mean
        heights = [100 * accuracy for accuracy in summary.curve or [summary.figures[summary.headline].mean]]
        positions = [last - len(heights) + 1 + i for i in range(len(heights))]
        axes.plot(positions, heights, marker="." if summary.curve else "o", label=_name(summary))
    axes.set(xlabel="rounds")
    _constant(axes, summaries)
    _by_errors(axes)


def _by_errors(axes: Any) -> None:
    """Scale the axis by the logarithm of the error plus one percent, which separates 99 % from 100 %."""
    axes.set_yscale("function", functions=(lambda a: -np.log(np.maximum(101 - a, 1e-9)), lambda s: 101 - np.exp(-s)))
    low, high = axes.get_ylim()
    axes.set_yticks(TICKS, [str(tick) for tick in TICKS])
    axes.set_ylim(low, min(high, 100))


def _private(axes: Any, summaries: Sequence[Summary]) -> None:
    """Plot accuracy against epsilon towards the public, one curve per method; without a guarantee a dashed line."""
    families: dict[str, list[Summary]] = {}
    for summary in summaries:
        families.setdefault(_family(summary), []).append(summary)
    for name, family in families.items():
        known = sorted((s for s in family if _towards_public(s)), key=_towards_public)
        if known:
            _accuracies(axes, list(map(_towards_public, known)), known, name)
        for summary in family:
            if not _towards_public(summary):
                height = 100 * summary.figures[summary.headline].mean
                axes.axhline(height, linestyle="--", linewidth=1, color="grey")
                style = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 7}
                axes.annotate(f"{name}, no guarantee", (0, height), (3, 3), **style)
    axes.set_xscale("log")
    axes.set(xlabel="epsilon towards the public")
    _constant(axes, summaries)


def _towards_public(summary: Summary) -> float:
    """Return epsilon towards whoever sees the model; 0 if there is no guarantee, or if nothing is public."""
    if "public" not in summary.epsilon:
        return 0.0
    seen = [summary.epsilon["public"], summary.epsilon.get("parties", 0.0)]
    return 0.0 if None in seen else max(epsilon for epsilon in seen if epsilon is not None)


def _family(summary: Summary) -> str:
    """Return the method and the swept values, without the amount of noise, which varies along a curve."""
    parts = [part for part in split_outside(summary.method, ":") if not _is_noise(part.partition("=")[0])]
    named = {key: value for key, value in summary.swept.items() if not _is_noise(key)}
    return " ".join([":".join(parts), *(f"{key.split('.')[-1]}={value}" for key, value in named.items())])


def _is_noise(key: str) -> bool:
    return key.split(".")[-1] in ("gamma", "sigma", "epsilon")


def _swept(axes: Any, summaries: Sequence[Summary], key: str) -> None:
    """Plot accuracy against a swept value, one curve for each method and combination of the other swept values."""
    curves: dict[str, list[Summary]] = {}
    for summary in summaries:
        others = {name: value for name, value in summary.swept.items() if name != key}
        curves.setdefault(_name(summary, others), []).append(summary)
    values = [summary.swept[key] for summary in summaries]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    for name, curve in curves.items():
        positions = [s.swept[key] if numbers else str(s.swept[key]).lower() for s in curve]
        _accuracies(axes, positions, curve, name)
    if numbers and len(set(values)) <= MAX_TICKS:
        axes.set_xticks(sorted(set(values)), [f"{value:g}" for value in sorted(set(values))])
    axes.set(xlabel=key)
    _constant(axes, summaries)


def _accuracies(axes: Any, positions: Sequence[Any], summaries: Sequence[Summary], name: str) -> None:
    """Plot a curve of accuracies with their deviations; a single accuracy is a point."""
    figures = [summary.figures[summary.headline] for summary in summaries]
    deviations = [100 * (f.deviation or 0) for f in figures]
    axes.errorbar(positions, [100 * f.mean for f in figures], deviations, marker="o", capsize=3, label=name)


def _constant(axes: Any, summaries: Sequence[Summary]) -> None:
    """Plot the accuracy of the constant predictor, if it is the same for all."""
    constants = {summary.figures["constant"].mean for summary in summaries if "constant" in summary.figures}
    if len(constants) == 1:
        axes.axhline(100 * constants.pop(), color="grey", linestyle=":", label="constant")


def _name(summary: Summary, swept: Any = None) -> str:
    chosen = summary.swept if swept is None else swept
    return " ".join([summary.method, *(f"{key.split('.')[-1]}={value}" for key, value in chosen.items())])


def learning_curves(record: RunRecord) -> bytes | None:
    """Plot the accuracy of each party after each round, as FedMD does, or that of the network that all parties train.

    A dashed line on the left is the accuracy with which a party started, a dash-dotted line on the right the accuracy
    of a model of all rows (`bounds`).

    Parameters
    ----------
    record : RunRecord
        The record of the run.

    Returns
    -------
    bytes or None
        A PNG file; None if there are fewer than two points.
    """
    if len(record.curve) < MIN_POINTS:
        return None
    save_figure(figure_of_curves(record), file := BytesIO(), dpi=DPI)
    return file.getvalue()


def figure_of_curves(record: RunRecord) -> Any:
    """Draw the learning curves of a record that has any, as a figure of matplotlib."""
    return drawn(lambda axes: _curves(axes, record), record.task)


def _curves(axes: Any, record: RunRecord) -> None:
    if "server" in record.curve[0]:
        first = record.rounds - len(record.curve) + 1
        heights = [np.nan if point["server"] is None else 100 * point["server"] for point in record.curve]
        axes.plot(range(first, first + len(heights)), heights, marker=".", label="global")
        axes.set(xlabel="rounds", title=f"{record.algorithm}, seed {record.seed}")
        return
    last = len(record.curve) - 1
    for party_index, party in enumerate(record.parties):
        points = [
            (n, 100 * p["accuracy"][party_index])
            for n, p in enumerate(record.curve)
            if p["accuracy"][party_index] is not None
        ]
        if not points:
            continue
        label = f"{party.index} {party.model['name']}"
        [line] = axes.plot(*zip(*points, strict=True), marker=".", linewidth=1.2, label=label)
        axes.hlines(points[0][1], -MARGIN * last, points[0][0], linestyles="--", colors=line.get_color())
        for bound in record.bounds.values():
            if (reached := bound[party_index]) is not None:
                axes.hlines(100 * reached, last, (1 + MARGIN) * last, linestyles="-.", colors=line.get_color())
    axes.set(xlabel="rounds", title=f"{record.algorithm}, seed {record.seed}")
    axes.set_xticks(range(0, last + 1, math.ceil((last + 1) / MAX_TICKS)))


def drawn(draw: Callable[[Any], None], task: Kind) -> Any:
    """Make a figure of accuracies.

    Parameters
    ----------
    draw : callable
        Draws on the axes that it gets.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, with a legend.
    """
    figure, axes = new_figure(*SIZE)
    axes.set_prop_cycle(color=_colors())
    draw(axes)
    axes.set(ylabel=f"{TITLES[HEADLINES[task][0]]}, %")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    _explain(figure, *axes.get_legend_handles_labels())
    return figure


def _colors() -> list[Any]:
    """Return ten strong colors, then ten pale ones."""
    from matplotlib import colormaps

    pairs = colormaps["tab20"].colors  # type: ignore[attr-defined]
    return [*pairs[::2], *pairs[1::2]]


def _explain(figure: Any, lines: list[Any], names: list[str]) -> None:
    """Add the legend beside the curves, or below them if names are long."""
    if max(map(len, names), default=0) <= LONG:
        figure.legend(lines, names, loc="outside right center", frameon=False, fontsize="small")
        return
    width, height = SIZE
    figure.set_size_inches(width, height + 0.2 * len(names))
    figure.legend(lines, names, loc="outside lower left", frameon=False, fontsize="small")
