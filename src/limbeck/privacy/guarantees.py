"""What releases cost: epsilon towards each observer, for both units and neighbour relations, where a theorem exists."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import best_epsilon, epsilon_by
from limbeck.privacy.events import Adjacency, Spend, UnknownSpendError, check_rows_per_person
from limbeck.privacy.mechanisms import Subsample, mechanism_from
from limbeck.protocol.release import Release, Unit

OBSERVERS = ("server", "parties", "public")
UNITS: tuple[Unit, ...] = ("party", "example")
ADJACENCIES: tuple[Adjacency, ...] = ("replace", "add-remove")
Protects = Literal["row", "party", "both"]
Relation = tuple[Unit, Adjacency]
HEADLINES: dict[Protects, tuple[Relation, ...]] = {
    "row": (("example", "replace"), ("example", "add-remove")),
    "party": (("party", "replace"),),
}
SERVER = "server"
GROUPS = (1, 2, 5, 10)
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Figure:
    """Epsilon towards one observer for one unit and one neighbour relation.

    `rows` is how many rows of one person it is for; always 1 where the unit is a party, which has all rows of a person.
    `accountant` says whose theorem it is; None where there is none, and epsilon then is infinite. `paper` is what the
    papers' own moments accountant gives, orders 1 to 8, without looking at the votes.
    """

    observer: str
    unit: Unit
    adjacency: Adjacency
    epsilon: float
    accountant: str | None
    paper: float | None
    rows: int = 1


def figures(releases: Iterable[Release], delta: float, rows_per_person: int = 1) -> list[Figure]:
    """Towards each observer who sees anything. What is public is seen by all.

    For the unit example: of a person with up to `rows_per_person` rows in one party.

    Releases of one site add up; those of disjoint parties do not, for one neighbour is in one party only; the server's
    are about everybody.
    """
    check_rows_per_person(rows_per_person)
    rows = list(releases)
    return [
        _figure(seen, observer, unit, adjacency, delta, rows_per_person)
        for observer in OBSERVERS
        if (seen := _seen(rows, observer))
        for unit in UNITS
        for adjacency in ADJACENCIES
    ]


def epsilon_towards(
    observer: str, releases: Iterable[Release], delta: float, unit: Protects = "row", rows_per_person: int = 1
) -> float:
    """The headline towards one observer; 0 where that observer sees nothing.

    `unit` row: for a person with up to `rows_per_person` rows in one party, replaced, or else added or removed. `unit`
    party: for a replaced party. `unit` both: the larger of the two.
    """
    check_rows_per_person(rows_per_person)
    if not (seen := _seen(releases, observer)):
        return 0.0
    return _headline(unit, lambda relation: _figure(seen, observer, *relation, delta, rows_per_person).epsilon)


def epsilon_by_observer(found: Iterable[Figure], unit: Protects = "row") -> dict[str, float]:
    """The headline towards each observer, as `epsilon_towards` has it."""
    known: dict[str, dict[Relation, float]] = {}
    for figure in found:
        known.setdefault(figure.observer, {})[figure.unit, figure.adjacency] = figure.epsilon
    return {observer: _headline(unit, relations.__getitem__) for observer, relations in known.items()}


def people(releases: Iterable[Release], delta: float, ks: Sequence[int] = GROUPS) -> dict[str, dict[int, float]]:
    """By observer: epsilon of a person with up to k rows in one party, for each k; infinite where there is none."""
    rows = list(releases)
    return {
        observer: {k: epsilon_towards(observer, seen, delta, "row", k) for k in ks}
        for observer in OBSERVERS
        if (seen := _seen(rows, observer))
    }


def delta_of_subsets(releases: Iterable[Release], rows_per_person: int = 1) -> float:
    """The delta that subsets of private rows have by themselves: one site's add up, the largest counts.

    For a person with up to `rows_per_person` rows: the probability that any of them was drawn.
    """
    check_rows_per_person(rows_per_person)
    found: dict[str, float] = {}
    for row in releases:
        if row.mechanism == Subsample.name:
            own = mechanism_from(row.mechanism, dict(row.parameters)).guarantee(rows_per_person)[1]
            found[row.site] = found.get(row.site, 0.0) + own
    everybody = found.pop(SERVER, 0.0)
    return min(1.0, everybody + max(found.values(), default=0.0))


def _seen(releases: Iterable[Release], observer: str) -> list[Release]:
    return [row for row in releases if row.observer in (observer, "public")]


def _headline(unit: Protects, epsilon: Callable[[Relation], float]) -> float:
    """The first relation of the unit that there is a guarantee for."""
    if unit == "both":
        return max(_headline("row", epsilon), _headline("party", epsilon))
    if unit not in HEADLINES:
        raise LimbeckError(f"unit must be row, party or both, not {unit!r}")
    return next(filter(math.isfinite, map(epsilon, HEADLINES[unit])), math.inf)


def _figure(
    rows: Sequence[Release], observer: str, unit: Unit, adjacency: Adjacency, delta: float, rows_per_person: int
) -> Figure:
    group = rows_per_person if unit == "example" else 1
    sites = dict.fromkeys(row.site for row in rows if row.site != SERVER) or {SERVER: None}
    shares = [[row for row in rows if row.site in (site, SERVER)] for site in sites]
    costs = [_cost(_merged(_spends(share, unit, adjacency, group)), delta) for share in shares]
    epsilon, accountant, paper = max(costs, key=lambda cost: cost[0])
    return Figure(observer, unit, adjacency, epsilon, accountant, paper, group)


def _spends(rows: Sequence[Release], unit: Unit, adjacency: Adjacency, group: int) -> Iterable[Spend | None]:
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
                yield relation and _spend(row, mechanism, relation, group)


def _merged(spends: Iterable[Spend | None]) -> tuple[Spend | None, ...]:
    """Queries to the same mechanism counted together."""
    counted: dict[Spend | None, int] = {}
    for spend in spends:
        key = spend and replace(spend, queries=0)
        counted[key] = counted.get(key, 0) + (spend.queries if spend else 0)
    return tuple(key and replace(key, queries=queries) for key, queries in counted.items())


def _relation(row: Release, unit: Unit, adjacency: Adjacency) -> Adjacency | None:
    """Under which relation the mechanism's own theorem answers for this one.

    A replaced or added example is in one party, which is replaced by another then; so are all rows of a person in that
    party. Protection of an example says nothing of a party.
    """
    if unit == "party" and row.unit != "party":
        return None
    needed: Adjacency = "replace" if unit != row.unit else adjacency
    return needed if row.adjacency in (needed, "any") else None


def _spend(row: Release, mechanism: Any, adjacency: Adjacency, group: int) -> Spend:
    own = 1 if mechanism.unit == "party" else group
    return Spend(mechanism, row.queries, adjacency, row.classes, row.voters, row.abstentions, row.noise, own)


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
    pairs = [(sample.queries, *sample.mechanism.guarantee(sample.rows)) for sample in samples]
    if (total := sum(times * d for times, _, d in pairs)) > delta * (1 + ROUNDING) or total >= 1:
        return math.inf, None, None
    return sum(times * e for times, e, _ in pairs), "subsample", None


def _papers(spends: Sequence[Spend], delta: float) -> float | None:
    try:
        return epsilon_by("moments", spends, delta)
    except UnknownSpendError:
        return None
