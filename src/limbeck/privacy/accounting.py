"""What releases cost: epsilon towards each observer, for both units and neighbour relations, where a theorem exists."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import best_epsilon, epsilon_by
from limbeck.privacy.mechanisms import Subsample, mechanism_from
from limbeck.privacy.spends import Adjacency, Spend, UnknownSpendError
from limbeck.protocol.release import Release, Unit

OBSERVERS = ("server", "parties", "public")
UNITS: tuple[Unit, ...] = ("party", "example")
ADJACENCIES: tuple[Adjacency, ...] = ("replace", "add-remove")
HEADLINES: tuple[tuple[Unit, Adjacency], ...] = (
    ("party", "replace"),
    ("example", "replace"),
    ("example", "add-remove"),
)
SERVER = "server"


@dataclass(frozen=True, slots=True)
class Figure:
    """Epsilon towards one observer for one unit and one neighbour relation.

    `accountant` says whose theorem it is; None where there is none, and epsilon then is infinite. `paper` is what the
    papers' own moments accountant gives, orders 1 to 8, without looking at the votes.
    """

    observer: str
    unit: Unit
    adjacency: Adjacency
    epsilon: float
    accountant: str | None
    paper: float | None


def figures(releases: Iterable[Release], delta: float) -> list[Figure]:
    """Towards each observer who sees anything. What is public is seen by all.

    Releases of one site add up; those of disjoint parties do not, for one neighbour is in one party only; the server's
    are about everybody.
    """
    rows = list(releases)
    return [
        _figure([row for row in rows if row.observer in (observer, "public")], observer, unit, adjacency, delta)
        for observer in OBSERVERS
        if any(row.observer in (observer, "public") for row in rows)
        for unit in UNITS
        for adjacency in ADJACENCIES
    ]


def epsilon_towards(observer: str, releases: Iterable[Release], delta: float) -> float:
    """The headline towards one observer; 0 where he sees nothing."""
    rows = [row for row in releases if row.observer in (observer, "public")]
    if not rows:
        return 0.0
    found = (_figure(rows, observer, unit, adjacency, delta).epsilon for unit, adjacency in HEADLINES)
    return next(filter(math.isfinite, found), math.inf)


def epsilon_by_observer(found: Iterable[Figure]) -> dict[str, float]:
    """The headline towards each observer: the strongest relation that there is a guarantee for."""
    known = {(f.observer, f.unit, f.adjacency): f.epsilon for f in found}
    return {
        observer: next(filter(math.isfinite, (known[observer, *relation] for relation in HEADLINES)), math.inf)
        for observer in dict.fromkeys(observer for observer, _, _ in known)
    }


def delta_of_subsets(releases: Iterable[Release]) -> float:
    """The delta that subsets of private rows have by themselves: one site's add up, the largest counts."""
    found: dict[str, float] = {}
    for row in releases:
        if row.mechanism == Subsample.name:
            found[row.site] = (
                found.get(row.site, 0.0) + mechanism_from(row.mechanism, dict(row.parameters)).guarantee()[1]
            )
    return min(1.0, max(found.values(), default=0.0))


def _figure(rows: Sequence[Release], observer: str, unit: Unit, adjacency: Adjacency, delta: float) -> Figure:
    sites = dict.fromkeys(row.site for row in rows if row.site != SERVER) or {SERVER: None}
    shares = [[row for row in rows if row.site in (site, SERVER)] for site in sites]
    costs = [_cost(_merged(_spends(share, unit, adjacency)), delta) for share in shares]
    epsilon, accountant, paper = max(costs, key=lambda cost: cost[0])
    return Figure(observer, unit, adjacency, epsilon, accountant, paper)


def _spends(rows: Sequence[Release], unit: Unit, adjacency: Adjacency) -> Iterable[Spend | None]:
    """What one neighbour pays for; None stands for what no theorem covers."""
    for row in rows:
        mechanism = mechanism_from(row.mechanism, dict(row.parameters))
        match row.mechanism:
            case "nothing-private":
                continue
            case "unprotected":
                yield None
            case _:
                relation = _relation(row, unit, adjacency)
                yield relation and _spend(row, mechanism, relation)


def _merged(spends: Iterable[Spend | None]) -> tuple[Spend | None, ...]:
    """Queries to the same mechanism counted together."""
    counted: dict[Spend | None, int] = {}
    for spend in spends:
        key = spend and replace(spend, queries=0)
        counted[key] = counted.get(key, 0) + (spend.queries if spend else 0)
    return tuple(key and replace(key, queries=queries) for key, queries in counted.items())


def _relation(row: Release, unit: Unit, adjacency: Adjacency) -> Adjacency | None:
    """Under which relation the mechanism's own theorem answers for this one.

    A replaced or added example is in one party, which is replaced by another then. Protection of an example says
    nothing of a party.
    """
    if unit == "party" and row.unit != "party":
        return None
    needed: Adjacency = "replace" if unit != row.unit else adjacency
    return needed if row.adjacency in (needed, "any") else None


def _spend(row: Release, mechanism: Any, adjacency: Adjacency) -> Spend:
    return Spend(mechanism, row.queries, adjacency, row.classes, row.voters, row.abstentions, row.noise)


@lru_cache(maxsize=1024)
def _cost(spends: tuple[Spend | None, ...], delta: float) -> tuple[float, str | None, float | None]:
    known = [spend for spend in spends if spend is not None]
    if not spends:
        return 0.0, "nothing-private", None
    if len(known) < len(spends):
        return math.inf, None, None
    samples = [spend for spend in known if isinstance(spend.mechanism, Subsample)]
    if samples:
        return _sampled(samples, delta) if len(samples) == len(known) else (math.inf, None, None)
    if not 0 < delta < 1:
        raise LimbeckError("noise was added, but no delta was named: epsilon needs one")
    epsilon, accountant = best_epsilon(known, delta)
    return epsilon, accountant, _papers(known, delta)


def _sampled(samples: Sequence[Spend], delta: float) -> tuple[float, str | None, float | None]:
    """Subsets add up in both; below its own delta the guarantee is empty."""
    pairs = [(sample.queries, *sample.mechanism.guarantee()) for sample in samples]
    if (total := sum(times * d for times, _, d in pairs)) > delta or total >= 1:
        return math.inf, None, None
    return sum(times * e for times, e, _ in pairs), "subsample", None


def _papers(spends: Sequence[Spend], delta: float) -> float | None:
    try:
        return epsilon_by("moments", spends, delta)
    except UnknownSpendError:
        return None
