"""A comparison as pictures: accuracy against rounds, against bytes, and against what was swept."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError
from limbeck.experiments.compare import Summary
from limbeck.experiments.plan import Plan

SIZE = (7, 4.2)
MOST_TICKS = 12


def save_pictures(plan: Plan, summaries: Sequence[Summary], stem: Path) -> list[Path]:
    """PNG files whose names begin with `stem`: what it cost to reach which accuracy, and the swept values."""
    shown = [s for s in summaries if "accuracy" in s.figures]
    if not shown:
        return []
    pictures: dict[str, Callable[[Any], None]] = {
        "rounds": lambda axes: _against(axes, shown, ("rounds",), "rounds"),
        "bytes": lambda axes: _against(axes, shown, ("up", "down"), "bytes up and down"),
        **{key: lambda axes, key=key: _swept(axes, shown, key) for key in plan.swept},  # type: ignore[misc]
    }
    return [_saved(draw, stem.with_name(f"{stem.name}-{name}.png")) for name, draw in pictures.items()]


def _against(axes: Any, summaries: Sequence[Summary], cost: Sequence[str], label: str) -> None:
    for summary in summaries:
        accuracy = summary.figures["accuracy"]
        spent = sum(summary.figures[part].mean for part in cost)
        axes.errorbar(
            spent, 100 * accuracy.mean, 100 * (accuracy.deviation or 0), fmt="o", capsize=3, label=_name(summary)
        )
    if "up" in cost:
        axes.set_xscale("symlog", linthresh=1000)
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel=label)
    _constant(axes, summaries)


def _swept(axes: Any, summaries: Sequence[Summary], key: str) -> None:
    """A curve for each method and each combination of the other swept values."""
    curves: dict[str, list[Summary]] = {}
    for summary in summaries:
        others = {name: value for name, value in summary.swept.items() if name != key}
        curves.setdefault(_name(summary, others), []).append(summary)
    values = [summary.swept[key] for summary in summaries]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    for name, curve in curves.items():
        places = [s.swept[key] if numbers else str(s.swept[key]).lower() for s in curve]
        figures = [s.figures["accuracy"] for s in curve]
        deviations = [100 * (f.deviation or 0) for f in figures]
        axes.errorbar(places, [100 * f.mean for f in figures], deviations, marker="o", capsize=3, label=name)
    if numbers and len(set(values)) <= MOST_TICKS:
        axes.set_xticks(sorted(set(values)), [f"{value:g}" for value in sorted(set(values))])
    axes.set(xlabel=key)
    _constant(axes, summaries)


def _constant(axes: Any, summaries: Sequence[Summary]) -> None:
    """What saying the commonest class every time scores, where it is the same for all."""
    constants = {summary.figures["constant"].mean for summary in summaries if "constant" in summary.figures}
    if len(constants) == 1:
        axes.axhline(100 * constants.pop(), color="grey", linestyle=":", label="constant")


def _name(summary: Summary, swept: Any = None) -> str:
    chosen = summary.swept if swept is None else swept
    return " ".join([summary.method, *(f"{key.split('.')[-1]}={value}" for key, value in chosen.items())])


def _saved(draw: Callable[[Any], None], path: Path) -> Path:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise LimbeckError("pictures need: pip install 'limbeck[plot]'") from error
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    draw(axes)
    axes.set(ylabel="accuracy, %")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize="small")
    try:
        figure.savefig(path, dpi=110, format="png")
    except OSError as error:
        raise LimbeckError(f"cannot write {path}: {error.strerror}") from error
    return path
