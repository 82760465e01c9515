"""What is asked and said in a poll."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import Reply, Request, check_shape, check_share
from limbeck.protocol.rows import Array

LARGEST = 1e9  # of a count or a noised sum


@dataclass(frozen=True, slots=True)
class Counts(Reply):
    """How many rows of each class a party holds."""

    values: Array

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        check_shape(self.values, [(classes,)])
        if np.abs(self.values).max() > LARGEST:
            raise LimbeckError("counts such as nobody has")


@dataclass(frozen=True, slots=True)
class Weight(Reply):
    """How much a party's word counts, from 0 to 1."""

    value: float

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        check_share(self.value)


@dataclass(frozen=True, slots=True)
class Belief(Reply):
    """Which share of the public rows a party believes to be of the second class; NaN where it cannot tell."""

    value: float

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        check_share(self.value, or_none=True)


@dataclass(frozen=True, slots=True)
class Said(Reply):
    """What a party's teachers say of the public rows on average, and what goes with it; at L2 what noise made of it."""

    votes: Array
    weight: float
    belief: float
    counts: Array

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        rows = request.rows if isinstance(request, Say) else public
        sums = min(len(self.votes), max(1, rows))  # or so many sums over all rows, where each has noise
        check_shape(self.votes, [(rows, classes), (sums, classes)])
        check_shape(self.counts, [(classes,), (0,)])
        check_share(self.weight)
        check_share(self.belief, or_none=True)
        if not len(self.votes) or max(np.abs(self.votes).max(), np.abs(self.counts).max(initial=0)) > LARGEST:
            raise LimbeckError("no votes, or such as nobody has")


@dataclass(frozen=True, slots=True)
class Count(Request[Counts]):
    """Count your rows by class; `queries` will be asked of so many `parties`."""

    queries: int
    parties: int


@dataclass(frozen=True, slots=True)
class Say(Request[Said]):
    """Train your teachers, and say what they make of the first `rows` public rows, of which `queries` get an answer.

    So many `parties` are asked.
    """

    rows: int
    queries: int
    parties: int


@dataclass(frozen=True, slots=True)
class SayIn(Say):
    """The same in a basis of the public rows, at L2, where words are sums: the server's own is everybody's.

    Where some columns are equally strong, two machines would not find the same.
    """

    basis: Array


@dataclass(frozen=True, slots=True)
class SayTowards(SayIn):
    """The same of teachers that are corrected towards a prior; without a basis where words are of rows."""

    prior: Array
