"""Warnings about private tables whose values the public rows do not know. They stay where the rows are."""

import warnings

from limbeck.data.columns import Category
from limbeck.data.schema import Schema
from limbeck.data.table import Table
from limbeck.errors import LimbeckWarning

SHOWN = 4  # categories in a warning


def warn_of_unknown_values(table: Table, schema: Schema) -> None:
    """Warn if a column of private rows is empty, or if the public rows have none of its categories.

    Models learn nothing from such a column. The line depends on private rows: it is for the person who has them, and
    is part of no record and no reply.

    Parameters
    ----------
    table : Table
        Private rows.
    schema : Schema
        The schema of the public rows.
    """
    rows = table.without_marks(schema.missing)
    for column in schema.columns:
        if column.kind == "text" or column.name not in rows.columns:
            continue
        held = set(rows.texts(column.name)) - {None}
        if not held:
            _warn(f"{table.where}: the column {column.name!r} is empty")
        elif isinstance(column, Category) and held.isdisjoint(column.values):
            known = ", ".join(column.values[:SHOWN]) + (", ..." if len(column.values) > SHOWN else "")
            _warn(
                f"{table.where}: no value of the column {column.name!r} is one of the public rows' ({known}); write "
                "the same words, or nothing is learned from it"
            )


def _warn(text: str) -> None:
    warnings.warn(text, LimbeckWarning, stacklevel=5)
