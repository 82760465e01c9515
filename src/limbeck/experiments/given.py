"""Rows and models as users give them in Python: arrays, lists of texts, estimators, names and tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from limbeck.data.arrays import rows_from
from limbeck.data.labels import check_numbers, check_several, kind_of
from limbeck.data.own import SplitRows
from limbeck.data.schema import schema_of_texts
from limbeck.data.tokens import Tokens, as_texts
from limbeck.errors import LimbeckError, shown
from limbeck.features.sentences import rule_of_texts
from limbeck.features.settings import Features
from limbeck.models.named import adapted, model_from
from limbeck.privacy.ledger import check_site_names
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.learning import Model
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.task import Kind


def named_parties(parties: Any) -> tuple[list[str] | None, list[Any]]:
    """Return the parties' names, if they have any, and their pairs (X, y)."""
    if not isinstance(parties, Mapping | list | tuple) or not parties:
        given = f"is a {type(parties).__name__}" if parties is None or not isinstance(parties, Sequence) else "is empty"
        raise LimbeckError(f"parties {given}: give at least one (X, y) pair, in a list or by name in a dict")
    if not isinstance(parties, Mapping):
        return None, list(parties)
    if wrong := [name for name in parties if not isinstance(name, str)]:
        raise LimbeckError(f"parties: the name of a party must be a string, not {wrong[0]!r}")
    try:
        check_site_names(list(parties))
    except LimbeckError as error:
        raise LimbeckError(f"parties: {error}") from error
    return list(parties), list(parties.values())


def rows_given(
    parties: Sequence[tuple[str, Any]],
    public: Any,
    test: tuple[Any, Any] | None,
    classes: Sequence[Any] | None,
    task: Kind | None,
    limits: tuple[float, float] | None,
    rule: Tokens | None,
    positive: Any = None,
) -> tuple[SplitRows, Array]:
    """Check the rows of a run in Python.

    Parameters
    ----------
    parties : sequence of (str, (X, y))
        Name and rows of each party.
    public : array, sequence of str, (X, y) or None
        Public rows.
    test : (X, y) or None
        Test rows.
    classes : sequence or None
        All classes; None takes them from the labels.
    task : {"multiclass", "multilabel", "regression"} or None
        Kind of the labels; None finds it from them.
    limits : (low, high) or None
        Range of a numeric target; None takes that of the targets.
    rule : Tokens or None
        Rule of the texts; None if rows are numbers.
    positive : object or None
        The class of interest, one of two.

    Returns
    -------
    SplitRows
        The rows.
    array of shape (classes,)
        The classes, of the users' own type.
    """
    sides = [
        *parties,
        *([("test", test)] if test is not None else []),
        *([("public", public)] if isinstance(public, tuple) else []),
    ]
    kind = task or ("regression" if limits else _kind(sides))
    names = _with_positive_last(_class_names(sides, classes, kind), positive)
    private = [_rows(x, y, names, title, kind, rule) for title, (x, y) in parties]
    tested = None if test is None else _rows(*test, names, "test", kind, rule)
    opened = None if public is None else _public(public, names, kind, rule)
    first, shape = parties[0][0], private[0].x.shape[1:]
    titles = [title for title, _ in parties]
    for title, rows in (*zip(titles, private, strict=True), ("test", tested), ("public", opened)):
        if rows is not None and rows.x.shape[1:] != shape:
            raise LimbeckError(f"{title}: rows of shape {rows.x.shape[1:]}, but {first} has rows of shape {shape}")
    raw = SplitRows(
        classes=tuple(names),
        private=private,
        public=opened,
        test=tested,
        classes_are_private=classes is None and kind == "multiclass",
        public_is_labelled=isinstance(public, tuple),
    ).for_task(kind, limits)
    schema = schema_of_texts(rule, [str(name) for name in names], raw.task) if rule else None
    return replace(raw, schema=schema), names


def models_for(given: Any, parties: int) -> list[Model]:
    """Return the model of each party: one for all, or one for each."""
    if not isinstance(given, list | tuple):
        return [model_for(given)] * parties
    if len(given) != parties:
        raise LimbeckError(f"{len(given)} models for {parties} parties: give one, or one for each")
    return [model_for(each) for each in given]


def model_for(given: Any) -> Model:
    """Return the model that a name, a table or a user's own estimator stands for."""
    if isinstance(given, str):
        return model_from({"name": given})
    if not isinstance(given, Mapping):
        return adapted(given)
    if not isinstance(given.get("name"), str):
        raise LimbeckError(f'models: a table needs the key name, such as {{"name": "svm"}}, not {dict(given)}')
    return model_from(given)


def _kind(sides: Sequence[tuple[str, Any]]) -> Kind:
    """Kind of the labels of all sides, in a simulation."""
    every = [_labels(pair, where) for where, pair in sides]
    if any(labels.ndim == 2 for labels in every):
        return "multilabel"
    if len({labels.dtype.kind == "U" for labels in every}) > 1:
        return "multiclass"  # which is refused
    return kind_of(np.concatenate(every), f"{sides[0][0]}: y" if len(every) == 1 else "y")


def _class_names(sides: Sequence[tuple[str, Any]], classes: Sequence[Any] | None, kind: Kind) -> Array:
    """The given classes, or all classes of all labels."""
    labels = [(where, _labels(pair, where)) for where, pair in sides]
    if classes is not None and (repeated := [name for name, times in Counter(classes).items() if times > 1]):
        raise LimbeckError(f"classes contains {repeated[0]!r} twice")
    if kind == "regression":
        return np.array(["target"] if classes is None else list(classes))
    if kind == "multilabel":
        columns = {each.shape[1:] for _, each in labels}
        if len(columns) > 1 or (classes is not None and columns != {(len(classes),)}) or columns <= {(), (0,)}:
            raise LimbeckError("y: with several labels a row, every y has one column for each class")
        return np.array(list(map(str, range(*columns.pop()))) if classes is None else list(classes))
    if several := [where for where, each in labels if each.ndim == 2]:
        raise LimbeckError(f'{several[0]}: y has several columns: for several labels a row give task = "multilabel"')
    if len({each.dtype.kind == "U" for _, each in labels}) > 1:
        text = next(where for where, each in labels if each.dtype.kind == "U")
        raise LimbeckError(f"{text}: y has text labels, but other labels are numbers; use one type for all")
    found = np.unique(np.concatenate([each for _, each in labels]))
    names = found if classes is None else np.asarray(classes)
    if unknown := sorted(set(found.tolist()) - set(names.tolist())):
        raise LimbeckError(f"classes lacks {unknown[0]!r}, which is a label in y; list all classes")
    return names


def _with_positive_last(names: Array, positive: Any) -> Array:
    """The classes, with the class of interest as the second of two."""
    if positive is None:
        return names
    is_one = isinstance(positive, str | int | float | np.generic) and positive in names.tolist()
    if len(names) != 2 or not is_one:
        raise LimbeckError(f"positive = {shown(positive)} must name one of two classes; they are {names.tolist()}")
    return names if names[1] == positive else names[::-1]


def check_pair(pair: Any, where: str) -> None:
    """Raise `LimbeckError` unless the rows of a party, or the test rows, are a pair (X, y)."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise LimbeckError(f"{where}: give a pair (X, y)")


def _labels(pair: Any, where: str) -> Array:
    """The labels of one (X, y) pair, one for each row."""
    check_pair(pair, where)
    labels = np.asarray(pair[1])
    if labels.ndim == 2:
        return _columns(labels, where)
    if labels.ndim != 1:
        raise LimbeckError(f"{where}: y must have one dimension, or a column for each class, not {labels.shape}")
    if any(label is None or label != label for label in labels.tolist()):
        raise LimbeckError(f"{where}: y contains None or NaN; every row needs a label")
    return np.array(labels.tolist()) if labels.dtype == object else labels


def _columns(labels: Array, where: str) -> Array:
    """Several labels a row, or an error for a table of anything else."""
    labels = np.array(labels.tolist()) if labels.dtype == object else labels
    if labels.dtype.kind not in "fiub":
        raise LimbeckError(f"{where}: y with several columns holds 1 (positive), 0 (negative), -1 (unknown), not text")
    if labels.shape[1:] == (1,) and not np.isin(np.nan_to_num(labels, nan=-1), (-1, 0, 1)).all():
        raise LimbeckError(f"{where}: y has the shape {labels.shape}; for one target a row give y.ravel()")
    return labels


def rule_given(party: Any, algorithm: Algorithm, features: Features | None) -> Tokens | None:
    """Return the rule of the first party's texts; None if its rows are numbers."""
    return (rule_of_texts(None, algorithm, features) or Tokens()) if as_texts(party[0]) is not None else None


def _rows(x: Any, y: Any, classes: Array, where: str, kind: Kind, rule: Tokens | None = None) -> Rows:
    rows, labels = _values(x, where, rule), _labels((x, y), where)
    if len(labels) != len(rows) or (labels.ndim == 2) != (kind == "multilabel"):
        raise LimbeckError(f"{where}: {len(rows)} rows need as many labels, not y of shape {labels.shape}")
    if not len(rows):
        raise LimbeckError(f"{where} has no rows")
    if kind != "multiclass":
        return Rows(rows, (check_numbers if kind == "regression" else check_several)(labels, f"{where}: y"))
    order = np.argsort(classes)
    return Rows(rows, order[np.searchsorted(classes, labels, sorter=order)])


def _public(given: Any, classes: Array, kind: Kind, rule: Tokens | None) -> Rows:
    if isinstance(given, tuple):
        x, y = given
        return _rows(x, y, classes, "public", kind, rule)
    rows = _values(given, "public", rule)
    return Rows(rows, np.zeros(len(rows), np.int64))


def _values(x: Any, where: str, rule: Tokens | None) -> Array:
    """Rows as numbers; texts as token numbers."""
    texts = as_texts(x)
    if (texts is None) != (rule is None):
        here, there = ("numbers", "texts") if texts is None else ("texts", "numbers")
        raise LimbeckError(f"{where}: rows are {here}, but those of the first party are {there}")
    return rows_from(x, where) if texts is None or rule is None else rule.encode(texts)
