"""Data sets as tables for a terminal."""

from collections.abc import Sequence

import numpy as np
from rich.console import Group
from rich.table import Table

from limbeck.data.sets import EMBEDDED, DataSet, load
from limbeck.errors import LimbeckError
from limbeck.protocol.task import Task
from limbeck.report.tables import percent


def list_table(names: Sequence[str]) -> Table:
    """Table with one line per data set. A data set that cannot be loaded has the reason in its line."""
    table = Table(box=None, padding=(0, 2))
    for column in ("name", "rows", "test rows", "a row", "classes", "from"):
        table.add_column(column, justify="right" if "rows" in column else "left")
    for name in names:
        source = "scikit-learn" if name in EMBEDDED else "LIMBECK_DATA"
        try:
            data = load(name)
        except LimbeckError as error:
            table.add_row(name, "", "", "", "", f"not usable: {error}")
            continue
        table.add_row(name, str(len(data.x)), str(data.official_test), _shape(data), str(len(data.classes)), source)
    return table


def show(data: DataSet) -> Group:
    """Description of a data set: its training and official test rows by class, and its groups."""
    groups = [f"{name}: {len(np.unique(members))}" for name, members in data.groups.items()]
    held = f"{len(data.x)} training and {data.official_test} official test rows"
    about = f"{data.name}: {held} of {_shape(data)} {data.x.dtype} values"
    return Group(about, *([f"groups: {', '.join(groups)}"] if groups else []), _labels(data))


def _labels(data: DataSet) -> Table | str:
    """Rows of each class, or the range of a numeric target."""
    if data.task == "regression":
        return f"target: {data.classes[0]}, {data.y.min():g} to {data.y.max():g}, mean {data.y.mean():.4g}"
    table = Table(box=None, padding=(0, 2))
    for column in ("class", "rows", "share", "test rows"):
        table.add_column(column, justify="left" if column == "class" else "right")
    task, classes = Task(data.task), len(data.classes)
    counts = task.counts(data.y, classes)
    tests = np.zeros(classes, np.int64) if data.test_y is None else task.counts(data.test_y, classes)
    for name, count, test in zip(data.classes, counts, tests, strict=True):
        table.add_row(name, str(count), percent(count / len(data.y)), str(test))
    return table


def _shape(data: DataSet) -> str:
    return "x".join(map(str, data.x.shape[1:]))
