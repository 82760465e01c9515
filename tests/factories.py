"""Models of a user's own, named `python:factories:...` in tests."""

import os
import signal
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import NearestCentroid
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_info
from torch import nn


def small_tree(depth: int = 2) -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=depth)


def unconvertible() -> NearestCentroid:
    """skl2onnx has no converter for it."""
    return NearestCentroid()


def small_network(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Convolution, batch norm and dropout: all that must be switched off when it votes."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(144, classes)
    )


class Deadly(DecisionTreeClassifier):  # type: ignore[misc]
    """Its fit kills the process that does it."""

    def fit(self, x: Any, y: Any) -> "Deadly":
        os.kill(os.getpid(), signal.SIGKILL)
        return self


def deadly() -> Deadly:
    return Deadly()


class Picky(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Refuses to learn from fewer than 20 rows."""

    def fit(self, x: Any, y: Any) -> "Picky":
        if len(x) < 20:
            raise ValueError("20 rows or nothing")
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: Any) -> Any:
        return np.zeros(len(x), int)


@dataclass(frozen=True, slots=True)
class WhoAmI:
    """A job that tells where it ran, and with how many threads it might have computed."""

    def run(self, classes: int, seed: int) -> tuple[int, int]:
        return os.getpid(), max((pool["num_threads"] for pool in threadpool_info()), default=1)


not_callable = 3


@dataclass(frozen=True, slots=True)
class WhereIs:
    """A job that tells which file its rows are a mapping of."""

    rows: Any

    def run(self, classes: int, seed: int) -> str | None:
        rows = self.rows
        while rows is not None and not isinstance(rows, np.memmap):
            rows = getattr(rows, "base", None)
        return str(rows.filename) if rows is not None else None


class _Speechless(nn.Module):
    """Learns like any other, and answers with NaN."""

    def __init__(self, values: int, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(values, classes)

    def forward(self, x: Any) -> Any:
        outputs = self.layer(x.flatten(1))
        return outputs if self.training else outputs * float("nan")


def speechless(shape: tuple[int, ...], classes: int) -> nn.Module:
    return _Speechless(int(np.prod(shape)), classes)


def tiny_network(shape: tuple[int, ...], classes: int, width: int = 8) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), width), nn.Tanh(), nn.Linear(width, classes))
