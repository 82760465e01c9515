"""`limbeck privacy epsilon`: the epsilon of a mechanism, by every accountant that has a theorem for it."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.privacy.accountants import epsilon_by, every_epsilon, least
from limbeck.privacy.accountants.votes import check_votes
from limbeck.privacy.calibration import CHECK
from limbeck.privacy.events import Adjacency, DpEvent
from limbeck.privacy.mechanisms import ConfidentGaussian, Mechanism, mechanism_from
from limbeck.protocol.release import Noise, Unit
from limbeck.protocol.rows import Array
from limbeck.tables import Delta, Positive, RowsPerPerson, check_fields

BEST = "best"
WITH_VOTES = ("moments", "rdp")
SCORES = ("laplace-logits", "clipped-gaussian")
NAMES = ("laplace", "gumbel", "gaussian", "confident-gaussian", *SCORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingQuery:
    """A mechanism, the number of queries, and what is known of the votes."""

    mechanism: str
    gamma: float | None = None
    sigma: float | None = None
    check: float | None = None
    threshold: float | None = None
    bound: float | None = None
    share: float = 1.0
    queries: Positive | None = None
    partitions: Positive = 1
    unit: Unit = "party"
    adjacency: Adjacency = "replace"
    classes: Positive | None = None
    voters: Positive | None = None
    votes: Path | None = None
    orders: Positive = 8
    delta: Delta = 1e-5
    noise: Noise = "simulated"
    rows_per_person: RowsPerPerson = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if self.rows_per_person > 1 and self.unit == "party":
            whole = "--unit party protects a party with all its rows"
            raise LimbeckError(f"--rows-per-person is for --unit example: {whole}")


@dataclass(frozen=True, slots=True)
class AccountingResult:
    """The answer: by the chosen accountant, and by all that apply."""

    epsilon: float
    delta: float
    accountant: str
    data_dependent: bool
    all: dict[str, float]


def account(query: AccountingQuery, accountant: str = BEST) -> AccountingResult:
    """`best` is the smallest data-independent epsilon; with votes, moments and rdp are data-dependent."""
    votes = None if query.votes is None else _read_votes(query.votes)
    event = _event(query, votes)
    votes = None if votes is None else np.tile(votes, (_repeated(query), 1))
    everything = every_epsilon([event], query.delta, query.orders, votes)
    if accountant == BEST:
        plain = everything if votes is None else every_epsilon([event], query.delta, query.orders)
        epsilon, name = least(plain)
        return AccountingResult(epsilon, query.delta, name, False, everything)
    epsilon = epsilon_by(accountant, [event], query.delta, query.orders, votes)
    is_dependent = votes is not None and accountant in WITH_VOTES
    return AccountingResult(epsilon, query.delta, accountant, is_dependent, everything)


def _event(query: AccountingQuery, votes: Array | None) -> DpEvent:
    queries = query.queries if votes is None else len(votes)
    if queries is None:
        raise LimbeckError("say how many --queries")
    if query.queries not in (None, queries):
        raise LimbeckError(f"{query.queries} queries, but {query.votes} has {queries} rows of votes")
    if votes is not None and query.classes not in (None, votes.shape[1]):
        raise LimbeckError(f"--classes {query.classes}, but {query.votes} has {votes.shape[1]} columns")
    known = (query.classes, query.voters, False, query.noise, query.rows_per_person)
    return DpEvent(_mechanism(query), _repeated(query) * queries, query.adjacency, *known)


def _repeated(query: AccountingQuery) -> int:
    """How often an example is asked about: once in each partition; votes count as if all partitions voted alike."""
    return query.partitions if query.unit == "example" else 1


def _mechanism(query: AccountingQuery) -> Mechanism:
    if query.mechanism not in NAMES:
        raise LimbeckError(f"unknown mechanism {query.mechanism!r}; {did_you_mean(query.mechanism, NAMES)}")
    wanted, other = ("sigma", "gamma") if "gaussian" in query.mechanism else ("gamma", "sigma")
    scale = getattr(query, wanted)
    if scale is None or getattr(query, other) is not None:
        raise LimbeckError(f"{query.mechanism} takes --{wanted}")
    if not 0 < scale < math.inf:
        raise LimbeckError(f"{wanted} must be above 0 and finite, not {scale:g}")
    parameters: dict[str, Any] = {wanted: scale, "unit": query.unit}
    if query.mechanism in SCORES:
        _check_scores(query)
        parameters |= {"bound": query.bound, "classes": query.classes, "share": query.share}
    elif query.bound is not None or query.share != 1:
        raise LimbeckError(f"--bound and --share are for {' and '.join(SCORES)}, not for {query.mechanism}")
    else:
        parameters["weight"] = query.partitions if query.unit == "party" else 1
    if query.mechanism == ConfidentGaussian.name:
        check = CHECK * scale if query.check is None else query.check
        parameters |= {"check": check, "threshold": query.threshold or 0.0}
    return mechanism_from(query.mechanism, parameters)


def _check_scores(query: AccountingQuery) -> None:
    if query.bound is None or query.classes is None:
        raise LimbeckError(f"{query.mechanism} takes --bound and --classes: every score of a row can change")
    if query.partitions != 1 or query.votes is not None:
        raise LimbeckError(f"{query.mechanism} noises scores: it takes neither --partitions nor --votes")
    if query.unit == "party" and query.adjacency == "add-remove":
        raise LimbeckError(f"{query.mechanism}: no guarantee is available for a party that is added or removed")


def _read_votes(path: Path) -> Array:
    try:
        with path.open("rb") as file:
            votes = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise LimbeckError(f"{path} is not an NPY file of counts") from error
    return check_votes(votes, str(path))
