"""Pictures of a split, in a terminal or as a PNG file, and figures of matplotlib."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from limbeck.errors import LimbeckError, missing_extra
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.task import MULTICLASS, Task

SHADES = " ░▒▓█"


def class_counts(parties: Sequence[Rows], classes: int, task: Task = MULTICLASS) -> Array:
    """Count the rows of each party and class: with several labels a row the positive ones, of numbers all rows.

    Parameters
    ----------
    parties : sequence of Rows
        The rows of each party.
    classes : int
        Number of classes.
    task : Task
        Kind of the labels.

    Returns
    -------
    array of shape (parties, classes)
        Numbers of rows.

    Examples
    --------
    >>> class_counts([Rows(np.zeros((3, 1)), np.array([0, 1, 1])), Rows(np.zeros((1, 1)), np.array([2]))], 3)
    array([[1, 2, 0],
           [0, 0, 1]])
    """
    return np.stack([task.counts(rows.y, classes) for rows in parties])


def split_table(counts: Array, names: Sequence[str], width: int = 80, rows: Sequence[int] | None = None) -> Table:
    """Table of a split with one line per party and one column per class, where darker means more rows.

    Parameters
    ----------
    counts : array of shape (parties, classes)
        Numbers of rows.
    names : sequence of str
        Names of the classes.
    width : int
        Width of the terminal in characters. If there is room, the numbers are printed beside the shades.
    rows : sequence of int, optional
        Number of rows of each party; by default the sums of `counts`.

    Returns
    -------
    rich.table.Table
        The table.
    """
    table = Table(box=None, padding=(0, 1), title="rows per party and class", title_justify="left")
    for heading in ("party", "rows"):
        table.add_column(heading, justify="right", no_wrap=True)
    most, sizes = max(int(counts.max()), 1), counts.sum(axis=1) if rows is None else rows
    widths = [max(len(name), len(str(int(column.max()))) + 2) for name, column in zip(names, counts.T, strict=True)]
    if 16 + sum(widths) + 2 * len(widths) <= width:
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
        for party, row in enumerate(counts):
            table.add_row(str(party), str(sizes[party]), *(_cell(int(count), most) for count in row))
        return table
    table.add_column(f"classes {names[0]} to {names[-1]}, darker is more", no_wrap=True)
    for party, row in enumerate(counts):
        table.add_row(
            str(party), str(sizes[party]), Text("".join(_shade(int(count), most) for count in row), style="cyan")
        )
    return table


def save_split_picture(counts: Array, names: Sequence[str], path: Path) -> None:
    """Save the numbers of rows by party and class as a heat map in a PNG file."""
    parties, classes = counts.shape
    figure, axes = new_figure(2 + 0.4 * min(classes, 40), 1.5 + 0.3 * min(parties, 60))
    image = axes.imshow(counts, aspect="auto", cmap="Blues")
    axes.set(xlabel="class", ylabel="party", title="Rows per party and class")
    axes.set_xticks(range(classes), list(names), rotation=90 if classes > 12 else 0)
    axes.set_yticks(range(0, parties, max(1, parties // 25)))
    figure.colorbar(image, label="rows")
    save_figure(figure, path)


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """Figure of matplotlib with a size in inches, and its axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("a picture", "plot") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def save_figure(figure: Any, file: Path | BytesIO, dpi: int = 120) -> None:
    """Save a figure as PNG."""
    try:
        figure.savefig(file, dpi=dpi, format="png")
    except OSError as error:
        raise LimbeckError(f"cannot write {file}: {error.strerror}") from error


def _cell(count: int, most: int) -> Text:
    return Text(f"{count} {_shade(count, most)}", style="cyan") if count else Text("·", style="dim")


def _shade(count: int, most: int) -> str:
    """Shade on a square-root scale, so that small counts are visible beside large ones."""
    return SHADES[max(1, round((len(SHADES) - 1) * (count / most) ** 0.5))] if count else "·"
