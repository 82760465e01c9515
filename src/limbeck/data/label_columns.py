"""Label columns of tables: classes, several labels a row, and numbers."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from limbeck.data.labels import MAX_WHOLE, kind_of
from limbeck.data.table import Table
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.protocol.rows import Array
from limbeck.protocol.task import UNKNOWN, Kind

CODE = re.compile(r"[+-]?0[0-9]")
TRUTH = {"1": 1, "1.0": 1, "true": 1, "0": 0, "0.0": 0, "false": 0, "-1": -1, "-1.0": -1}


def labels_of(table: Table, label: str) -> Array:
    """Labels of a table as text.

    Parameters
    ----------
    table : Table
        A table.
    label : str
        Name of the label column.

    Returns
    -------
    object array of shape (rows,)
        Labels. A row without a label is an error.
    """
    values = table.texts(label)
    missing = np.array([value is None for value in values])
    if missing.any():
        raise LimbeckError(f"{table.where}: row {missing.argmax() + 1} has no label in {label!r}")
    return values


def kind_of_tables(tables: Sequence[Table], label: str) -> Kind:
    """Find whether a label column has classes or numbers, in a simulation.

    Parameters
    ----------
    tables : sequence of Table
        Tables with labels.
    label : str
        Name of the label column.

    Returns
    -------
    {"multiclass", "regression"}
        Numbers with fractions, or many of them, are a numeric target.
    """
    values = [plain_numbers(table, labels_of(table, label)) for table in tables]
    if any(each is None for each in values):
        for table in tables:
            _check_text(table, label)
        return "multiclass"
    numbers = np.concatenate([np.asarray(each, np.float64) for each in values])
    return kind_of(numbers, f"{tables[0].where}: {label!r}")


def numbers_of(table: Table, label: str) -> Array:
    """Read a numeric target of a table.

    Parameters
    ----------
    table : Table
        A table.
    label : str
        Name of the column.

    Returns
    -------
    float64 array of shape (rows,)
        Numbers. A row without one is an error.
    """
    labels_of(table, label)
    values, others = table.numbers(label)
    if others:
        text, row = next(iter(others.items()))
        raise LimbeckError(f"{table.where}: the target {label!r} holds {text!r} in row {row + 1}, not a number")
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values))) + 1
        raise LimbeckError(f"{table.where}: {label!r}: row {row} has no finite number as target")
    return np.asarray(values, np.float64)


def several_of(table: Table, label: str) -> Array:
    """One of several label columns as 1, 0 and -1; a missing value is unknown."""
    texts = table.texts(label)
    found = np.full(len(texts), UNKNOWN, np.int8)
    for row, text in enumerate(texts):
        if text is not None and text.lower() not in TRUTH:
            raise LimbeckError(
                f"{table.where}: the label {label!r} holds {text!r} in row {row + 1}; several labels a row "
                "are 1 (positive), 0 (negative), and -1 or nothing (unknown)"
            )
        found[row] = UNKNOWN if text is None else TRUTH[text.lower()]
    return found


def classes_of(tables: Sequence[Table], label: str) -> tuple[str, ...]:
    """Classes of several tables, sorted.

    Parameters
    ----------
    tables : sequence of Table
        Tables with labels. They must agree on whether labels are numbers or text.
    label : str
        Name of the label column.

    Returns
    -------
    tuple of str
        Classes; numbers are sorted by value, text alphabetically and without regard to case. Texts that differ only in
        case or blanks are one class, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> classes_of([Table("a.csv", {"y": np.array(["10", "2", "2.0"], object)})], "y")
    ('2', '10')
    """
    kinds = {table.where: plain_numbers(table, labels_of(table, label)) is not None for table in tables}
    first = tables[0].where
    for where, numbers in kinds.items():
        if numbers != kinds[first]:
            here, there = ("numbers", "text") if numbers else ("text", "numbers")
            raise LimbeckError(f"{where}: the label {label!r} holds {here}, in {first} it holds {there}")
    if not kinds[first]:
        return _merged(Counter(name for table in tables for name in labels_of(table, label)), label)
    shortest: dict[float, str] = {}
    for table in tables:
        names = sorted(set(labels_of(table, label)))
        for name, value in zip(names, plain_numbers(table, names) or (), strict=True):
            shortest[value] = min(shortest.get(value, name), name, key=lambda each: (len(each), each))
    return tuple(shortest[value] for value in sorted(shortest))


def class_numbers(classes: Sequence[str], table: Table, label: str) -> Array:
    """Class numbers of labels.

    Parameters
    ----------
    classes : sequence of str
        All classes, in order.
    table : Table
        A table.
    label : str
        Name of the label column.

    Returns
    -------
    int64 array of shape (rows,)
        Indices into `classes`. 1 and 1.0 are the same class, and so are names that differ only in case or blanks,
        unless `classes` has both.
    """
    labels = labels_of(table, label)
    number: dict[str, int] = {name: i for i, name in enumerate(classes)}
    folded = Counter(map(alike, classes))
    alone = {alike(name): i for i, name in enumerate(classes) if folded[alike(name)] == 1}
    names = sorted(set(labels))
    known = plain_numbers(Table("", {}), classes)
    if known is not None and len(set(known)) == len(known):  # each label is compared by itself
        value = dict(zip(known, number.values(), strict=True))
        number |= {name: value[each] for name in names if (each := _value(table, name)) in value and name not in number}
    for name in names:
        number.setdefault(name, alone.get(alike(name), -1))
    unknown = [name for name in labels if number[name] < 0]
    if unknown:
        row = int(np.argmax(labels == unknown[0])) + 1
        raise LimbeckError(
            f"{table.where}: the label {unknown[0]!r} in {label!r}, row {row}, is none of {', '.join(classes)}"
        )
    return np.array([number[name] for name in labels], np.int64)


def alike(name: str) -> str:
    """Form of a class name that is the same for names which differ only in case or blanks."""
    return "".join(name.split()).casefold()


def with_positive_last(classes: Sequence[str], positive: str | None) -> tuple[str, ...]:
    """Return two classes with the class of interest as the second one.

    Parameters
    ----------
    classes : sequence of str
        All classes.
    positive : str or None
        The class of interest; None keeps the order.

    Examples
    --------
    >>> with_positive_last(["yes", "no"], "yes")
    ('no', 'yes')
    """
    if positive is None:
        return tuple(classes)
    same = [name for name in classes if name == positive] or [
        name for name in classes if alike(name) == alike(positive)
    ]
    if len(classes) != 2 or len(same) != 1:
        raise LimbeckError(
            f"positive = {positive!r}: it names one of two classes; the classes are {', '.join(classes)}"
        )
    return (*(name for name in classes if name != same[0]), same[0])


def _merged(counts: Counter[str], label: str) -> tuple[str, ...]:
    """Names of classes, sorted without regard to case; of those that are alike the most frequent one."""
    groups: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        groups.setdefault(alike(name), []).append(name)
    for several in groups.values():
        if len(several) > 1:
            warnings.warn(
                f"the labels {', '.join(map(repr, several))} in {label!r} count as one class, {several[0]!r}; to keep "
                "them apart, list all classes in data.classes",
                LimbeckWarning,
                stacklevel=4,
            )
    return tuple(groups[folded][0] for folded in sorted(groups))


def _check_text(table: Table, label: str) -> None:
    """Raise if labels are many different numbers but for a few texts: a numeric target with wrong values."""
    texts = labels_of(table, label)
    wrong = [row for row, text in enumerate(texts) if plain_numbers(table, [text]) is None]
    numbers = {text for row, text in enumerate(texts) if row not in set(wrong)}
    if wrong and len(numbers) > MAX_WHOLE and len(wrong) < len(texts) // 2:
        raise LimbeckError(
            f"{table.where}: the label {label!r} holds {len(numbers)} different numbers, and {texts[wrong[0]]!r} in "
            f'row {wrong[0] + 1}: mend that value of a numeric target, or give task = "multiclass"'
        )


def plain_numbers(table: Table, names: Iterable[str]) -> list[float] | None:
    """Labels as plain numbers, without signs such as < and %; None if one is text, or a code such as 01."""
    found = [_value(table, name) for name in names]
    return None if None in found else [value for value in found if value is not None]


def _value(table: Table, name: str) -> float | None:
    """A label as a number; None for text, and for a number with a leading zero, such as a code."""
    plain = name.replace(",", ".") if table.reading.decimal == "," else name
    try:
        return None if CODE.match(plain.strip()) else float(plain)
    except ValueError:
        return None
