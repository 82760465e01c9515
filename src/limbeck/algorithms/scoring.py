"""The messages of FedMD: a start, then rounds in which parties score public rows and learn from the consensus."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import Acknowledgement, Reply, Request, check_array
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Site


def check_scores(values: Array, rows: int, classes: int, are_labels: bool) -> None:
    """Raise unless these can be the scores, or the labels, of so many rows."""
    if are_labels:
        check_array(values, (rows,), 0, classes - 1, "iu")
    else:
        check_array(values, (rows, classes))


def check_rows(rows: Array, alignment: int, public: int) -> None:
    """Raise unless these are numbers of as many different public rows as a round is about."""
    count = min(alignment, public)
    check_array(rows, (count,), 0, public - 1, "iu")
    if len(np.unique(rows)) != count:
        raise LimbeckError(f"a round is about {count} different public rows")


@dataclass(frozen=True, slots=True)
class Scores(Reply):
    """What a party's model predicts for the rows: scores [rows, classes], or labels."""

    values: Array

    def check(self, request: Any, site: Site, algorithm: Any) -> None:
        check_scores(self.values, len(request.rows), site.classes, algorithm.exchange == "argmax")


@dataclass(frozen=True, slots=True)
class Accuracy(Reply):
    """The accuracy of a party's model on rows of its own that it did not learn from."""

    value: float

    def check(self, request: Any, site: Site, algorithm: Any) -> None:
        check_array(np.asarray(self.value), (), 0, 1)


@dataclass(frozen=True, slots=True)
class EvaluateRequest(Request[Accuracy]):
    """Measure the accuracy of your model."""


@dataclass(frozen=True, slots=True)
class ScoreRequest(Request[Scores]):
    """Score these public rows."""

    rows: Array
    public: ClassVar[bool] = True

    def check(self, site: Site, algorithm: Any) -> None:
        check_rows(self.rows, algorithm.alignment, len(site.public))


@dataclass(frozen=True, slots=True)
class DigestConsensus(Request[Acknowledgement]):
    """Learn the consensus about these public rows, then your own rows."""

    rows: Array
    consensus: Array

    def check(self, site: Site, algorithm: Any) -> None:
        check_rows(self.rows, algorithm.alignment, len(site.public))
        check_scores(self.consensus, len(self.rows), site.classes, algorithm.exchange == "argmax")


@dataclass(frozen=True, slots=True)
class Initialize(Request[Acknowledgement]):
    """Train your model on public and private rows; from the weights of a network that knows public rows, if given."""

    weights: bytes

    def check(self, site: Site, algorithm: Any) -> None:
        if bool(self.weights) != algorithm.needs_one_network:
            raise LimbeckError('weights come with the first request exactly where start = "pretrained"')


@dataclass(frozen=True, slots=True)
class TrainLocally(Request[Acknowledgement]):
    """Revisit your own rows: what a round would be without messages."""
