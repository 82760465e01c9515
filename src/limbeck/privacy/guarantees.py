"""Privacy guarantees of releases: epsilon towards each observer, for both units and neighbour relations."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import every_epsilon, least
from limbeck.privacy.events import Adjacency, DpEvent, check_rows_per_person
from limbeck.privacy.losses import NoLoss, Subsampled, Unbounded
from limbeck.privacy.mechanisms import PostProcessing, mechanism_from
from limbeck.protocol.release import Release, Unit

OBSERVERS = ("server", "parties", "public")
PRIVACY_UNITS: tuple[Unit, ...] = ("party", "example")
ADJACENCIES: tuple[Adjacency, ...] = ("replace", "add-remove")
Protects = Literal["example", "party", "both"]
Relation = tuple[Unit, Adjacency]
HEADLINES: dict[Protects, tuple[Relation, ...]] = {
    "example": (("example", "replace"), ("example", "add-remove")),
    "party": (("party", "replace"),),
}
SERVER = "server"
GROUPS = (1, 2, 5, 10)
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class PrivacyGuarantee:
    """Epsilon towards one observer for one unit and one neighbour relation.

    `rows` is how many rows of one person it is for; always 1 where the unit is a party, which has all rows of a person.
    `accountant` names the accountant; None where no guarantee is available, and epsilon then is infinite. `paper` is
    the epsilon of the papers' own moments accountant, orders 1 to 8, without the votes.
    """

    observer: str
    unit: Unit
    adjacency: Adjacency
    epsilon: float
    accountant: str | None
    paper: float | None
    rows: int = 1


def guarantees(releases: Iterable[Release], delta: float, rows_per_person: int = 1) -> list[PrivacyGuarantee]:
    """Towards each observer who sees anything. What is public is seen by all.

    For the unit example: of a person with up to `rows_per_person` rows in one party.

    Releases of one site add up; those of disjoint parties do not, for one neighbour is in one party only; the server's
    are about everybody.
    """
    check_rows_per_person(rows_per_person)
    rows = list(releases)
    return [
        _guarantee(seen, observer, unit, adjacency, delta, rows_per_person)
        for observer in OBSERVERS
        if (seen := _seen(rows, observer))
        for unit in PRIVACY_UNITS
        for adjacency in ADJACENCIES
    ]


def epsilon_towards(
    observer: str, releases: Iterable[Release], delta: float, unit: Protects = "example", rows_per_person: int = 1
) -> float:
    """The headline towards one observer; 0 where that observer sees nothing.

    `unit` row: for a person with up to `rows_per_person` rows in one party, replaced, or else added or removed. `unit`
    party: for a replaced party. `unit` both: the larger of the two.
    """
    check_rows_per_person(rows_per_person)
    if not (seen := _seen(releases, observer)):
        return 0.0
    return _headline(unit, lambda relation: _guarantee(seen, observer, *relation, delta, rows_per_person).epsilon)


def epsilon_by_observer(found: Iterable[PrivacyGuarantee], unit: Protects = "example") -> dict[str, float]:
    """The headline towards each observer, as `epsilon_towards` has it."""
    known: dict[str, dict[Relation, float]] = {}
    for each in found:
        known.setdefault(each.observer, {})[each.unit, each.adjacency] = each.epsilon
    return {observer: _headline(unit, relations.__getitem__) for observer, relations in known.items()}


def people(releases: Iterable[Release], delta: float, ks: Sequence[int] = GROUPS) -> dict[str, dict[int, float]]:
    """By observer: epsilon of a person with up to k rows in one party, for each k; infinite where there is none."""
    rows = list(releases)
    return {
        observer: {k: epsilon_towards(observer, seen, delta, "example", k) for k in ks}
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
        if isinstance(loss := _event(row, "replace", rows_per_person).loss, Subsampled):
            found[row.site] = found.get(row.site, 0.0) + row.queries * loss.delta
    everybody = found.pop(SERVER, 0.0)
    return min(1.0, everybody + max(found.values(), default=0.0))


def _seen(releases: Iterable[Release], observer: str) -> list[Release]:
    return [row for row in releases if row.observer in (observer, "public")]


def _headline(unit: Protects, epsilon: Callable[[Relation], float]) -> float:
    """The first relation of the unit that there is a guarantee for."""
    if unit == "both":
        return max(_headline("example", epsilon), _headline("party", epsilon))
    if unit not in HEADLINES:
        raise LimbeckError(f"unit must be example, party or both, not {unit!r}")
    return next(filter(math.isfinite, map(epsilon, HEADLINES[unit])), math.inf)


def _guarantee(
    rows: Sequence[Release], observer: str, unit: Unit, adjacency: Adjacency, delta: float, rows_per_person: int
) -> PrivacyGuarantee:
    group = rows_per_person if unit == "example" else 1
    sites = dict.fromkeys(row.site for row in rows if row.site != SERVER) or {SERVER: None}
    shares = [[row for row in rows if row.site in (site, SERVER)] for site in sites]
    costs = [_cost(_merged(_events(share, unit, adjacency, group)), delta) for share in shares]
    epsilon, accountant, paper = max(costs, key=lambda cost: cost[0])
    return PrivacyGuarantee(observer, unit, adjacency, epsilon, accountant, paper, group)


def _events(rows: Sequence[Release], unit: Unit, adjacency: Adjacency, group: int) -> Iterable[DpEvent | None]:
    """What one neighbour pays for; None where no guarantee is available."""
    for row in rows:
        relation = _relation(row, unit, adjacency)
        event = _event(row, relation or "replace", group)
        match event.loss:
            case NoLoss():
                continue
            case Unbounded():
                yield None
            case _:
                yield event if relation else None


def _merged(events: Iterable[DpEvent | None]) -> tuple[DpEvent | None, ...]:
    """Queries to the same mechanism counted together."""
    counted: dict[DpEvent | None, int] = {}
    for event in events:
        key = event and replace(event, queries=0)
        counted[key] = counted.get(key, 0) + (event.queries if event else 0)
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


def _event(row: Release, adjacency: Adjacency, group: int) -> DpEvent:
    mechanism = mechanism_from(row.mechanism, dict(row.parameters))
    own = 1 if mechanism.unit == "party" else group
    return DpEvent(mechanism, row.queries, adjacency, row.classes, row.voters, row.abstentions, row.noise, own)


@lru_cache(maxsize=1024)
def _cost(events: tuple[DpEvent | None, ...], delta: float) -> tuple[float, str | None, float | None]:
    known = [event for event in events if event is not None]
    if not events:
        return 0.0, PostProcessing.name, None
    if len(known) < len(events):
        return math.inf, None, None
    if samples := [(event.queries, loss) for event in known if isinstance(loss := event.loss, Subsampled)]:
        return _sampled(samples, delta) if len(samples) == len(known) else (math.inf, None, None)
    if not 0 < delta < 1:
        raise LimbeckError("noise was added, but no delta was named: the algorithm's effective_delta is 0")
    found = every_epsilon(known, delta)
    return *least(found), found.get("moments")


def _sampled(samples: Sequence[tuple[int, Subsampled]], delta: float) -> tuple[float, str | None, float | None]:
    """Epsilons and deltas of subsets add up; below its own delta there is no guarantee."""
    if (total := sum(times * loss.delta for times, loss in samples)) > delta * (1 + ROUNDING) or total >= 1:
        return math.inf, None, None
    return sum(times * loss.epsilon for times, loss in samples), "subsample", None
