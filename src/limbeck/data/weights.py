"""Sample weights and class weights as users give them: checks, and how they become the weights of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from limbeck.data.label_columns import alike
from limbeck.errors import LimbeckError, did_you_mean, shown
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.task import Kind

ClassWeights = Mapping[Any, float] | Literal["balanced"]
MAX_WEIGHT = 1e6  # larger weights are scaled, so that sums of them stay in the range of messages
RULE = "sample_weight: at private levels every weight is a number from 0 to 1; divide all by the largest possible one"


def without_weights(parties: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the pairs (X, y) of parties, and their sample weights; None for a party without weights.

    Parameters
    ----------
    parties : sequence of (X, y) or (X, y, sample_weight)
        What each party has.

    Examples
    --------
    >>> without_weights([("X", "y"), ("X", "y", [1.0])])
    ([('X', 'y'), ('X', 'y')], [None, [1.0]])
    """
    triples = [isinstance(each, tuple | list) and len(each) == 3 for each in parties]
    pairs = [tuple(each[:2]) if triple else each for each, triple in zip(parties, triples, strict=True)]
    return pairs, [each[2] if triple else None for each, triple in zip(parties, triples, strict=True)]


def sample_weights(given: Any, rows: int, where: str, is_private: bool) -> Array:
    """Return the sample weights of a party as float64.

    Parameters
    ----------
    given : array of shape (rows,) or None
        The weights; None means 1 for every row.
    rows : int
        Number of rows of the party.
    where : str
        Name of the party, for error messages.
    is_private : bool
        Whether the algorithm protects anything.

    Returns
    -------
    array of shape (rows,)
        Finite weights, at least 0.

    Raises
    ------
    LimbeckError
        If the weights are not such numbers, or at a private level not all in [0, 1]. The message then does not depend
        on which weight of which party is wrong.
    """
    if given is None:
        return np.ones(rows)
    try:
        weight = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise LimbeckError(f"{where}: sample_weight must be numbers") from error
    if weight.shape != (rows,):
        raise LimbeckError(
            f"{where}: sample_weight has the shape {weight.shape}; it must be ({rows},), one for each row"
        )
    if is_private and not ((weight >= 0) & (weight <= 1)).all():
        raise LimbeckError(RULE)
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise LimbeckError(f"{where}: sample_weight must be finite numbers, at least 0")
    return weight


def check_class_weights(given: Any) -> ClassWeights | None:
    """Return class weights, or raise LimbeckError unless they are a table of numbers or "balanced".

    Parameters
    ----------
    given : mapping of class to number, "balanced" or None
        Weights of some classes, finite and at least 0.

    Returns
    -------
    mapping, "balanced" or None
        The same.

    Examples
    --------
    >>> check_class_weights({"no": -1.0})
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: class_weights: the weight of 'no' is -1.0; give a finite number, at least 0
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "balanced":
        return "balanced"
    if not isinstance(given, Mapping) or not given:
        raise LimbeckError(
            f'class_weights: write {{ no = 0.2, yes = 1.0 }} or "balanced", in Python a dict, not {shown(given, 60)}'
        )
    for name, weight in given.items():
        is_number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not is_number or not 0 <= weight < np.inf:
            raise LimbeckError(f"class_weights: the weight of {name!r} is {weight!r}; give a finite number, at least 0")
    return dict(given)


def factors_of(
    given: Any, classes: Sequence[Any], kind: Kind, is_private: bool, labels: Sequence[Array] | None = None
) -> Array | None:
    """Return the weight of each class, scaled so that the largest is 1.

    Parameters
    ----------
    given : mapping of class to number, "balanced" or None
        Weights of some classes; a class without one has the weight 1. Names may differ from those of the classes in
        case, blanks or type ("1" and 1), as labels in tables may.
    classes : sequence
        All classes, in the order of their numbers.
    kind : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    is_private : bool
        Whether the algorithm protects anything.
    labels : sequence of array, optional
        Class numbers of all parties, for "balanced"; None between organisations, where nobody has them.

    Returns
    -------
    array of shape (classes,) or None
        Weights in [0, 1]; None if none are given.

    Raises
    ------
    LimbeckError
        If a class is unknown, no weight is above 0, or "balanced" cannot be computed without revealing labels.

    Notes
    -----
    "balanced" is n / (classes x rows of the class), with the n rows of all parties, as in scikit-learn.

    Examples
    --------
    >>> factors_of({"yes": 4.0}, ["no", "yes"], "multiclass", False).tolist()
    [0.25, 1.0]
    >>> factors_of("balanced", ["no", "yes"], "multiclass", False, [np.array([0, 0, 1])]).tolist()
    [0.5, 1.0]
    """
    if (checked := check_class_weights(given)) is None:
        return None
    if kind != "multiclass":
        raise LimbeckError(f'class_weights are for one class a row, not for task = "{kind}"')
    if checked == "balanced":
        if is_private or labels is None:
            raise LimbeckError(
                'class_weights = "balanced" is computed from private labels, which this run protects or does not have: '
                "give a weight for each class"
            )
        counts = np.bincount(np.concatenate(labels), minlength=len(classes))
        weights = np.where(counts > 0, counts.sum() / (len(classes) * np.maximum(counts, 1)), 0.0)
    else:
        weights = _by_name(checked, list(classes))
    if not weights.any():
        raise LimbeckError("class_weights: at least one class needs a weight above 0")
    return np.asarray(weights / weights.max())


def _by_name(given: Mapping[Any, float], classes: list[Any]) -> Array:
    """Weights in the order of the classes; as labels, names may differ in case or blanks if only one class is meant."""
    weights = np.ones(len(classes))
    meant: dict[int, Any] = {}
    for name, weight in given.items():
        same = [place for place, each in enumerate(classes) if each == name] or [
            place for place, each in enumerate(classes) if alike(str(each)) == alike(str(name))
        ]
        if len(same) != 1:
            hint = did_you_mean(str(name), [str(each) for each in classes])
            raise LimbeckError(f"class_weights: there is no class {name!r}; {hint}")
        if same[0] in meant:
            raise LimbeckError(f"class_weights: {meant[same[0]]!r} and {name!r} are one class; give one weight")
        meant[same[0]] = name
        weights[same[0]] = float(weight)
    return weights


def by_class(rows: Rows, factors: Sequence[float] | Array | None) -> Rows:
    """Multiply the weight of each row by that of its class.

    Parameters
    ----------
    rows : Rows
        Rows with class numbers.
    factors : array of shape (classes,) or None
        Weights of the classes; None changes nothing.

    Returns
    -------
    Rows
        Weighted rows.

    Examples
    --------
    >>> by_class(Rows(np.zeros((2, 1)), np.array([1, 0])), [0.25, 1.0]).weight.tolist()
    [1.0, 0.25]
    """
    if factors is None:
        return rows
    weight = np.asarray(factors, np.float64)[rows.y]
    return replace(rows, weight=weight if rows.weight is None else weight * rows.weight)


def weighted(
    private: Sequence[Rows], given: Sequence[Any], factors: Array | None, titles: Sequence[str], is_private: bool
) -> list[Rows]:
    """Give the parties' rows their sample weights, times those of their classes.

    Parameters
    ----------
    private : sequence of Rows
        Rows of each party.
    given : sequence of array or None
        Sample weights of each party.
    factors : array of shape (classes,) or None
        Weights of the classes, in [0, 1].
    titles : sequence of str
        Names of the parties, for error messages.
    is_private : bool
        Whether the algorithm protects anything.

    Returns
    -------
    list of Rows
        Weighted rows; the given ones if there are no weights.

    Raises
    ------
    LimbeckError
        If weights are wrong, or without protection all weights of a party are 0.

    Notes
    -----
    Without protection, rows of weight 0 are removed here, so that they count nowhere. With protection they stay:
    a replaced row may get the weight 0, and the other rows must then keep their subsets.
    """
    if factors is None and all(weight is None for weight in given):
        return list(private)
    found = list[Rows]()
    for rows, weight, title in zip(private, given, titles, strict=True):
        own = replace(rows, weight=sample_weights(weight, len(rows), title, is_private))
        found.append(by_class(own, factors))
    if is_private:
        return found
    largest = max(float(rows.weight.max(initial=0.0)) for rows in found if rows.weight is not None)
    unit = 1.0 if 1 <= largest <= MAX_WEIGHT or not largest else largest
    return [_counted(rows, unit, title) for rows, title in zip(found, titles, strict=True)]


def _counted(rows: Rows, unit: float, title: str) -> Rows:
    """Rows with a weight above 0, in units of a weight."""
    assert rows.weight is not None
    counted = rows[np.flatnonzero(rows.weight > 0)]
    if not len(counted):
        raise LimbeckError(f"{title}: all weights are 0; a party needs a row with a weight above 0")
    return counted if unit == 1.0 else replace(counted, weight=rows.weight[rows.weight > 0] / unit)
