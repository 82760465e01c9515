"""Who holds what, as a picture: in the terminal, or as a PNG file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array, Rows

SHADES = " ░▒▓█"
MOST_COLUMNS = 26


def class_counts(parties: Sequence[Rows], classes: int) -> Array:
    """[parties, classes] rows."""
    return np.stack([np.bincount(rows.y, minlength=classes) for rows in parties])


def split_table(counts: Array, names: Sequence[str]) -> Table:
    """A row a party, a column a class: darker is more, the number beside it is how many."""
    table = Table(box=None, padding=(0, 1), title="rows per party and class", title_justify="left")
    for heading in ("party", "rows"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = min(len(names), MOST_COLUMNS)
    for name in names[:shown]:
        table.add_column(name, justify="right", no_wrap=True)
    most = max(int(counts.max()), 1)
    for party, row in enumerate(counts):
        table.add_row(str(party), str(row.sum()), *(_cell(int(count), most) for count in row[:shown]))
    if shown < len(names):
        table.caption = f"… and {len(names) - shown} more classes"
    return table


def save_split_picture(counts: Array, names: Sequence[str], path: Path) -> None:
    """The same as a heat map in a PNG file."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise LimbeckError("pictures need: pip install 'limbeck[plot]'") from error
    parties, classes = counts.shape
    figure = Figure(figsize=(2 + 0.4 * min(classes, 40), 1.5 + 0.3 * min(parties, 60)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(counts, aspect="auto", cmap="Blues")
    axes.set(xlabel="class", ylabel="party", title="Rows per party and class")
    axes.set_xticks(range(classes), list(names), rotation=90 if classes > 12 else 0)
    axes.set_yticks(range(0, parties, max(1, parties // 25)))
    figure.colorbar(image, label="rows")
    try:
        figure.savefig(path, dpi=120, format="png")
    except OSError as error:
        raise LimbeckError(f"cannot write {path}: {error.strerror}") from error


def _cell(count: int, most: int) -> Text:
    """Shades on a square-root scale, so that small holdings are seen beside large ones."""
    depth = 0 if not count else max(1, round((len(SHADES) - 1) * (count / most) ** 0.5))
    return Text(f"{count or '·'} {SHADES[depth]}", style="cyan" if count else "dim")
