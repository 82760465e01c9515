"""Arguments of a run in Python that are no rows: the algorithm, numbers, paths and settings."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.experiments.config import algorithm_in
from limbeck.models.trainers import Training
from limbeck.privacy.ledger import Budget
from limbeck.protocol.algorithm import Algorithm

NOISES = ("secure", "simulated")


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
        called = f"{given.__name__}, a class: write {given.__name__}()" if isinstance(given, type) else repr(given)
        raise LimbeckError(
            f'algorithm must be an algorithm such as lb.{example}(), its name, or a table such as {{"name": "fedkt", '
            f'"subsets": 2}}, not {called[:200]}'
        )
    return given


def check_settings(noise: Any, budget: Any, ledger: Any, training: Any) -> None:
    """Raise `LimbeckError` if a setting of a run in Python has a wrong type; the message names the argument.

    Parameters
    ----------
    noise, budget, ledger, training : object
        The arguments of `run`; None is the default of each.
    """
    if noise is not None and not (isinstance(noise, str) and noise in NOISES):
        raise LimbeckError(f"noise must be 'secure' or 'simulated', not {noise!r}")
    for name, value, kind in (("budget", budget, Budget), ("training", training, Training)):
        if value is not None and not isinstance(value, kind):
            raise LimbeckError(f"{name} must be lb.{kind.__name__}(...), not {value!r}")
    if ledger is not None and (not isinstance(ledger, str | os.PathLike) or not str(ledger)):
        raise LimbeckError(f"ledger must be the path of a file, not {ledger!r}")
    if ledger is not None and Path(ledger).is_dir():
        raise LimbeckError(f"ledger: {ledger} is a folder; give the path of a file")


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
        raise LimbeckError(f"seed must be a whole number, at least 0, not {seed!r}")
    if processes is not None and (not _is_whole(processes) or processes < 1):
        raise LimbeckError(f"processes must be a whole number, at least 1, not {processes!r}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
