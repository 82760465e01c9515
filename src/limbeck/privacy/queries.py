"""Epsilon of a mechanism without a run, by every accountant that has a theorem: `limbeck privacy epsilon`."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.privacy.accountants import epsilon_by, every_epsilon, least
from limbeck.privacy.accountants.votes import check_votes
from limbeck.privacy.events import Adjacency, DpEvent
from limbeck.privacy.mechanisms import MECHANISMS, ClippedScores, Mechanism, mechanism_from, noisy_maxima, scale_of
from limbeck.protocol.release import Noise, Unit
from limbeck.protocol.rows import Array
from limbeck.tables import Delta, Positive, RowsPerPerson, check_fields

BEST = "best"
WITH_VOTES = ("moments", "rdp")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingQuery:
    """Question for the accountants: a mechanism, the number of queries, and what is known about the votes.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism.
    gamma : float, optional
        Inverse noise scale of Laplace or Gumbel noise.
    sigma : float, optional
        Standard deviation of Gaussian noise.
    check : float, optional
        Of `confident-gaussian`: standard deviation of the noise of its check.
    threshold : float, optional
        Of `confident-gaussian`: votes that the leading class needs.
    bound : float, optional
        Of mechanisms for scores: public bound of a score.
    share : float
        Of mechanisms for scores: share of one contributor in a mean.
    queries : int, optional
        Number of queries; may be left out if there are `votes`.
    partitions : int
        Number of partitions s: a party's weight, or how often an example is queried.
    unit : {"party", "example"}
        Who is protected.
    adjacency : {"replace", "add-remove"}
        Neighbour relation.
    classes : int, optional
        Number of classes.
    voters : int, optional
        Number of voters.
    votes : Path, optional
        NPY file with vote counts of shape (queries, classes), for data-dependent figures.
    orders : int
        Largest order of the moments accountant.
    delta : float
        Delta.
    noise : {"simulated", "secure"}
        Continuous or discrete noise.
    rows_per_person : int
        Largest number of rows of one person in a party, for the unit `example`.
    """

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
    """Epsilon by the chosen accountant, and by all that apply.

    Parameters
    ----------
    epsilon : float
        Epsilon by the chosen accountant.
    delta : float
        Delta.
    accountant : str
        Name of the chosen accountant.
    data_dependent : bool
        Whether epsilon depends on the votes, and is therefore as private as they are.
    all : dict of str to float
        Epsilon by accountant; with votes, `moments` and `rdp` are data-dependent here.
    """

    epsilon: float
    delta: float
    accountant: str
    data_dependent: bool
    all: dict[str, float]


def account(query: AccountingQuery, accountant: str = BEST) -> AccountingResult:
    """Compute the epsilon of a mechanism.

    Parameters
    ----------
    query : AccountingQuery
        The mechanism and its queries.
    accountant : str
        Name of an accountant, or `best` for the smallest data-independent epsilon.

    Returns
    -------
    AccountingResult
        The epsilon, and that of every accountant that applies.

    Raises
    ------
    LimbeckError
        If the query is incomplete or contradictory, or if the accountant does not cover it.

    Examples
    --------
    >>> found = account(AccountingQuery(mechanism="gaussian", sigma=40.0, queries=1000))
    >>> round(found.epsilon, 4), found.accountant
    (4.9833, 'gaussian')
    """
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
        raise LimbeckError("the number of queries is missing: give --queries or --votes")
    if query.queries not in (None, queries):
        raise LimbeckError(f"{query.queries} queries, but {query.votes} has {queries} rows of votes")
    if votes is not None and query.classes not in (None, votes.shape[1]):
        raise LimbeckError(f"--classes {query.classes}, but {query.votes} has {votes.shape[1]} columns")
    known = (query.classes, query.voters, False, query.noise, query.rows_per_person)
    return DpEvent(_mechanism(query), _repeated(query) * queries, query.adjacency, *known)


def _repeated(query: AccountingQuery) -> int:
    """Times that a query concerns an example: once per partition. Given votes count as those of every partition."""
    return query.partitions if query.unit == "example" else 1


def _mechanism(query: AccountingQuery) -> Mechanism:
    scores = {name: kind for name, kind in MECHANISMS.items() if issubclass(kind, ClippedScores)}
    maxima = noisy_maxima()
    known = [*maxima, *scores]
    if query.mechanism not in known:
        raise LimbeckError(f"unknown mechanism {query.mechanism!r}; {did_you_mean(query.mechanism, known)}")
    wanted = scale_of(MECHANISMS[query.mechanism])
    other = "gamma" if wanted == "sigma" else "sigma"
    scale = getattr(query, wanted)
    if scale is None or getattr(query, other) is not None:
        raise LimbeckError(f"{query.mechanism} takes --{wanted}")
    if not 0 < scale < math.inf:
        raise LimbeckError(f"{wanted} must be above 0 and finite, not {scale:g}")
    parameters: dict[str, Any] = {wanted: scale, "unit": query.unit}
    if query.mechanism in scores:
        _check_scores(query)
        parameters |= {"bound": query.bound, "classes": query.classes, "share": query.share}
    elif query.bound is not None or query.share != 1:
        names = " and ".join(sorted(scores, reverse=True))
        raise LimbeckError(f"--bound and --share are for {names}, not for {query.mechanism}")
    else:
        parameters["weight"] = query.partitions if query.unit == "party" else 1
    if query.mechanism in maxima:
        given = {"check": query.check, "threshold": query.threshold}
        options = maxima[query.mechanism].options(scale, 0)
        parameters |= {key: value if given.get(key) is None else given[key] for key, value in options.items()}
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
