"""What people see of a run at a glance: one line in Python, a small table in a notebook."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from limbeck.experiments.metrics import HEADLINES, Metrics
from limbeck.experiments.record import RunRecord

BRIEF = ("method", "accuracy", "roc_auc", "r2", "parties", "rounds", "epsilon")  # in one line


def facts_of(record: RunRecord, metrics: Metrics | None) -> dict[str, str]:
    """Collect the facts of a run that everybody looks at first.

    Parameters
    ----------
    record : RunRecord
        The record of the run.
    metrics : Metrics or None
        The metrics on the test rows, which the record of a real run may withhold.

    Returns
    -------
    dict of str to str
        The facts as text, by their names. A fact that is withheld or does not exist is left out.
    """
    names = dict.fromkeys((*HEADLINES[record.task], "accuracy", "roc_auc"))
    values = {name: getattr(metrics, name) for name in names} if metrics else {}
    return {
        "method": record.algorithm,
        **{name: f"{value:.4g}" for name, value in values.items() if value is not None},
        **({"constant predictor": f"{record.constant:.4g}"} if record.constant is not None else {}),
        "parties": str(len(record.parties)),
        "rounds": str(record.rounds),
        **{f"bytes {way}": f"{record.bytes[way]:,}" for way in ("up", "down") if record.bytes.get(way) is not None},
        **_epsilons(record),
    }


def _epsilons(record: RunRecord) -> dict[str, str]:
    several = {f"epsilon to {observer}": _number(epsilon) for observer, epsilon in record.epsilon.items()}
    delta = {"delta": f"{record.delta:g}"} if record.worst_epsilon > 0 and record.delta else {}
    return {"epsilon": _number(record.worst_epsilon), **(several if len(several) > 1 else {}), **delta}


def _number(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"


def line_of(kind: str, facts: Mapping[str, str]) -> str:
    """Write the most important facts in one line, as the `repr` of an object.

    Parameters
    ----------
    kind : str
        The name of the class.
    facts : mapping of str to str
        The facts of `facts_of`.

    Returns
    -------
    str
        The line.

    Examples
    --------
    >>> line_of("Result", {"method": "fedvote", "accuracy": "0.96", "rounds": "1", "bytes up": "1,024"})
    '<Result fedvote: accuracy 0.96, rounds 1>'
    """
    shown = [f"{name} {facts[name]}" for name in BRIEF[1:] if name in facts]
    return f"<{kind} {facts['method']}: {', '.join(shown)}>"


def html_of(title: str, facts: Mapping[str, str]) -> str:
    """Write facts as a table in HTML, for a notebook.

    Parameters
    ----------
    title : str
        The heading of the table.
    facts : mapping of str to str
        The facts.

    Returns
    -------
    str
        The HTML.

    Examples
    --------
    >>> html_of("Run", {"classes": "<5"})
    '<table><caption>Run</caption><tr><th>classes</th><td>&lt;5</td></tr></table>'
    """
    rows = "".join(
        f"<tr><th>{escape(name.replace('_', ' '))}</th><td>{escape(value)}</td></tr>" for name, value in facts.items()
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


@dataclass(frozen=True, slots=True, repr=False)
class Placeholder:
    """What is shown instead of an array or a table.

    Parameters
    ----------
    text : str
        Its `repr`.
    """

    text: str

    def __repr__(self) -> str:
        return self.text


def without_values(given: Any) -> Any:
    """Replace arrays and tables, also in a tuple, by their type and shape; anything else stays.

    Parameters
    ----------
    given : object
        A parameter of an estimator.

    Returns
    -------
    object
        What is shown of it.

    Examples
    --------
    >>> import numpy as np
    >>> without_values((np.zeros((3, 2)), ["no", "yes"]))
    (<ndarray of shape (3, 2)>, ['no', 'yes'])
    """
    if isinstance(given, tuple):
        return tuple(map(without_values, given))
    shape = getattr(given, "shape", None)
    return Placeholder(f"<{type(given).__name__} of shape {shape}>") if isinstance(shape, tuple) else given


def listed(names: Sequence[object], most: int = 8) -> str:
    """List names, at most so many.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
