"""Arguments of a run in Python that are no rows: the algorithm, numbers, paths and settings."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from limbeck.data.splits import Iid, Split
from limbeck.errors import LimbeckError, shown
from limbeck.experiments.config import algorithm_in
from limbeck.experiments.data_table import split_in
from limbeck.features.settings import Features
from limbeck.models.trainers import Training
from limbeck.privacy.ledger import Budget
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import Array
from limbeck.protocol.task import ALL_TASKS, MAX_RANGE

MAX_PROCESSES = 10_000


def algorithm_given(given: Any, example: str = "FedVote") -> Algorithm:
    """Return the algorithm that an object, a name or a table stands for.

    Parameters
    ----------
    given : Algorithm, str or mapping
        An algorithm, its name, or a table such as `{"name": "fedkt", "subsets": 2}`.
    example : str
        Class of an algorithm that would be right, for error messages.

    Returns
    -------
    Algorithm
        The algorithm.

    Raises
    ------
    LimbeckError
        If it is anything else, or a parameter is wrong.

    Examples
    --------
    >>> algorithm_given("fedkt").name, algorithm_given({"name": "fedkt", "subsets": 2}).subsets
    ('fedkt', 2)
    """
    if isinstance(given, str | Mapping):
        try:
            return algorithm_in({"name": given} if isinstance(given, str) else dict(given))
        except LimbeckError as error:
            raise LimbeckError(f"algorithm: {error}") from error
    if not isinstance(given, Algorithm):
        called = f"{given.__name__}, a class: write {given.__name__}()" if isinstance(given, type) else shown(given)
        raise LimbeckError(
            f'algorithm must be an algorithm such as lb.{example}(), its name, or a table such as {{"name": "fedkt", '
            f'"subsets": 2}}, not {called}'
        )
    return given


def check_settings(**given: Any) -> None:
    """Raise `LimbeckError` if a setting of a run in Python has a wrong type; the message names the argument.

    Parameters
    ----------
    **given : object
        Arguments of `run`, of the names in `SETTINGS`. None is the default of each.

    Examples
    --------
    >>> check_settings(noise="none", limits=None)
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: noise must be 'secure' or 'simulated', not 'none'
    """
    for name, value in given.items():
        is_right, wanted = SETTINGS[name]
        if value is not None and not is_right(value):
            raise LimbeckError(f"{name} must be {wanted}, not {shown(value)}")


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return is_real and abs(value) <= MAX_RANGE  # which NaN is not


def _are_limits(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value)) and value[0] < value[1]


def _are_classes(value: Any) -> bool:
    if not isinstance(value, list | tuple) and getattr(value, "ndim", 0) != 1:
        return False
    try:
        labels = np.asarray(value if isinstance(value, list | tuple) else value.tolist())
    except (AttributeError, TypeError, ValueError, OverflowError):
        return False
    return labels.ndim == 1 and labels.size > 0 and labels.dtype.kind in "iubUf" and not (labels != labels).any()


def _is_file(value: Any) -> bool:
    is_path = isinstance(value, str | os.PathLike) and str(value) != "" and "\0" not in str(value)
    return is_path and not Path(value).is_dir()


SETTINGS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "noise": (lambda value: isinstance(value, str) and value in get_args(Noise), "'secure' or 'simulated'"),
    "task": (lambda value: isinstance(value, str) and value in ALL_TASKS, " or ".join(map(repr, ALL_TASKS))),
    "limits": (_are_limits, "the lowest and a higher number of the target, such as (0, 350)"),
    "classes": (_are_classes, "a list of all class names, all of one type"),
    "features": (lambda value: isinstance(value, Features), 'Features, such as lb.Features("fourier")'),
    "budget": (lambda value: isinstance(value, Budget), "a Budget, such as lb.Budget(epsilon=3.0)"),
    "training": (lambda value: isinstance(value, Training), 'Training, such as lb.Training(device="cpu")'),
    "ledger": (_is_file, "the path of a file"),
    "watch": (callable, "a function of the results and their number"),
}


def check_numbers(seed: Any, processes: Any) -> None:
    """Raise `LimbeckError` unless the seed and the number of processes can be used.

    Parameters
    ----------
    seed, processes : object
        The arguments of `run`.

    Examples
    --------
    >>> check_numbers(-1, None)
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: seed must be a whole number, at least 0, not -1
    """
    if not _is_whole(seed) or seed < 0:
        raise LimbeckError(f"seed must be a whole number, at least 0, not {shown(seed)}")
    if processes is not None and (not _is_whole(processes) or not 1 <= processes <= MAX_PROCESSES):
        raise LimbeckError(f"processes must be a whole number, at least 1, not {shown(processes)}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def split_given(split: Any) -> Split:
    """Return the split that the `split` of an estimator means.

    Parameters
    ----------
    split : Split, mapping or None
        The argument; None means that every party gets about as many rows, at random.

    Returns
    -------
    Split
        The split.
    """
    if split is None:
        return Iid()
    if not isinstance(split, Mapping):
        if isinstance(split, type) or not hasattr(split, "kind"):
            raise LimbeckError(f'split must be a table such as {{"kind": "dirichlet"}}, not {shown(split)}')
        given: Split = split
        return given
    try:
        return split_in(dict(split))
    except LimbeckError as error:
        raise LimbeckError(f"split: {error}") from error


def seed_given(random_state: Any) -> int:
    """Draw the seed of a run from the `random_state` of an estimator.

    Parameters
    ----------
    random_state : int, RandomState or None
        The argument.

    Returns
    -------
    int
        The seed.
    """
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError) as error:
        raise LimbeckError(f"random_state: {' '.join(str(error).split())}") from error


def processes_given(n_jobs: Any) -> int:
    """Return the number of processes that the `n_jobs` of an estimator means.

    Parameters
    ----------
    n_jobs : int or None
        The argument.

    Returns
    -------
    int
        The number of processes.
    """
    if n_jobs is not None and not _is_whole(n_jobs):
        raise LimbeckError(f"n_jobs must be a whole number or None, not {shown(n_jobs)}")
    try:
        return min(int(effective_n_jobs(n_jobs)), MAX_PROCESSES)
    except ValueError as error:
        raise LimbeckError(f"n_jobs: {error}") from error


def groups_given(groups: Any, rows: int) -> Array:
    """Return the party of each row, from the `groups` of an estimator.

    Parameters
    ----------
    groups : array of shape (rows,)
        The argument.
    rows : int
        Number of rows.

    Returns
    -------
    array of shape (rows,)
        The parties.
    """
    names = np.asarray(groups)
    if names.ndim != 1 or len(names) != rows:
        raise LimbeckError(f"groups must have the shape ({rows},), a party for each row, not {names.shape}")
    if any(name is None or name != name for name in names.tolist()):
        raise LimbeckError("groups contains None or NaN: every row needs a party")
    return np.array([str(name) for name in names.tolist()]) if names.dtype == object else names
