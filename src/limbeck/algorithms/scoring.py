"""The messages of FedMD: an initialization, then rounds of scores and consensus."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import Acknowledgement, Reply, Request, check_array
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Site


def check_scores(values: Array, rows: int, site: Site, algorithm: Any) -> None:
    """Raise unless an array can be the scores or labels of public rows.

    Parameters
    ----------
    values : array
        The scores of shape (rows, classes), or the labels of shape (rows,).
    rows : int
        The number of rows.
    site : Site
        The site that checks.
    algorithm : FedMD
        The algorithm, whose `score_format` and `score_range` hold.

    Raises
    ------
    LimbeckError
        If shape, type or range is wrong.
    """
    if algorithm.score_format == "argmax":
        check_array(values, (rows,), 0, site.classes - 1, "iu")
    else:
        low, high = algorithm.score_range
        check_array(values, (rows, site.classes), low, high, "f")


def check_rows(rows: Array, alignment: int, public: int) -> None:
    """Raise unless an array can be the row numbers of a round.

    Parameters
    ----------
    rows : array
        The numbers of public rows.
    alignment : int
        The number of public rows in a round, if there are as many.
    public : int
        The number of all public rows.

    Raises
    ------
    LimbeckError
        If the numbers are not different, are too many or too few, or do not exist.
    """
    count = min(alignment, public)
    check_array(rows, (count,), 0, public - 1, "iu")
    if len(np.unique(rows)) != count:
        raise LimbeckError(f"rows must be the numbers of {count} different public rows")


@dataclass(frozen=True, slots=True)
class Scores(Reply):
    """The predictions of a party's model for the rows of a request.

    Parameters
    ----------
    values : array of shape (rows, classes) or (rows,)
        The scores, or the labels.
    """

    values: Array

    def check(self, request: Any, site: Site, algorithm: Any) -> None:
        check_scores(self.values, len(request.rows), site, algorithm)


@dataclass(frozen=True, slots=True)
class Accuracy(Reply):
    """The accuracy of a party's model on held-out private rows.

    Parameters
    ----------
    value : float
        The accuracy, from 0 to 1.
    """

    value: float

    def check(self, request: Any, site: Site, algorithm: Any) -> None:
        check_array(np.asarray(self.value), (), 0, 1)


@dataclass(frozen=True, slots=True)
class EvaluateRequest(Request[Accuracy]):
    """Measure the accuracy of the party's model."""


@dataclass(frozen=True, slots=True)
class ScoreRequest(Request[Scores]):
    """Predict public rows.

    Parameters
    ----------
    rows : integer array
        The numbers of the rows.
    """

    rows: Array
    public: ClassVar[bool] = True

    def check(self, site: Site, algorithm: Any) -> None:
        check_rows(self.rows, algorithm.alignment, len(site.public))


@dataclass(frozen=True, slots=True)
class DigestConsensus(Request[Acknowledgement]):
    """Train on the consensus about public rows, then on the private rows.

    Parameters
    ----------
    rows : integer array
        The numbers of the public rows.
    consensus : array of shape (rows, classes) or (rows,)
        The scores, or the labels.
    """

    rows: Array
    consensus: Array

    def check(self, site: Site, algorithm: Any) -> None:
        check_rows(self.rows, algorithm.alignment, len(site.public))
        check_scores(self.consensus, len(self.rows), site, algorithm)


@dataclass(frozen=True, slots=True)
class Initialize(Request[Acknowledgement]):
    """Train a model on public rows, then on the private rows.

    Parameters
    ----------
    weights : bytes
        Pretrained weights as safetensors, which take the place of the training on public rows; else empty.
    """

    weights: bytes

    def check(self, site: Site, algorithm: Any) -> None:
        if bool(self.weights) != algorithm.needs_one_network:
            raise LimbeckError('weights must be given if start = "pretrained", and must be empty otherwise')


@dataclass(frozen=True, slots=True)
class TrainLocally(Request[Acknowledgement]):
    """Train on the private rows, as in a round without messages."""
