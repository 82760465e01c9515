"""Privacy guarantees of releases: epsilon towards each observer, for both units and neighbour relations."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
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
    """Epsilon towards one observer, for one unit of privacy and one neighbour relation.

    Parameters
    ----------
    observer : {"server", "parties", "public"}
        Who sees the releases.
    unit : {"party", "example"}
        Who is protected.
    adjacency : {"replace", "add-remove"}
        Neighbour relation.
    epsilon : float
        Smallest epsilon of all accountants; infinite if no guarantee is available.
    accountant : str, optional
        Name of the accountant; None if no guarantee is available.
    paper : float, optional
        Epsilon of the papers' moments accountant, orders 1 to 8, without the votes; None if it does not apply.
    rows : int
        Number of rows of one person that it holds for; 1 if the unit is a party, which has all rows of a person.
    """

    observer: str
    unit: Unit
    adjacency: Adjacency
    epsilon: float
    accountant: str | None
    paper: float | None
    rows: int = 1


def guarantees(releases: Iterable[Release], delta: float, rows_per_person: int = 1) -> list[PrivacyGuarantee]:
    """Compute the guarantees of releases towards each observer who sees anything.

    Parameters
    ----------
    releases : iterable of Release
        Rows of a ledger. Public releases are seen by all observers.
    delta : float
        Delta.
    rows_per_person : int
        Largest number of rows of one person in a party, for the unit `example`.

    Returns
    -------
    list of PrivacyGuarantee
        One for each observer, unit and neighbour relation.

    Raises
    ------
    LimbeckError
        If a release has noise, but delta is not between 0 and 1.

    Notes
    -----
    The releases of one site compose. The server's releases concern everybody, so they compose with those of each party.
    Across disjoint parties the largest epsilon counts (FedKT, Theorem 4), because one neighbour is in one party only. A
    person with rows in several parties is not covered.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gaussian
    >>> from limbeck.protocol.release import Asked, release_row
    >>> row = release_row("server", 0, 0, "labels", Gaussian(40.0), "public", Asked(queries=1000, classes=10))
    >>> best = guarantees([row], 1e-5)[0]
    >>> best.observer, best.unit, best.adjacency, best.accountant, round(best.epsilon, 4)
    ('server', 'party', 'replace', 'gaussian', 4.9833)
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
    """Epsilon of releases towards one observer.

    Parameters
    ----------
    observer : {"server", "parties", "public"}
        The observer.
    releases : iterable of Release
        Rows of a ledger.
    delta : float
        Delta.
    unit : {"example", "party", "both"}
        `example`: for a person's rows being replaced, or else added or removed. `party`: for a replaced party. `both`:
        the larger of the two.
    rows_per_person : int
        Largest number of rows of one person in a party, for the unit `example`.

    Returns
    -------
    float
        Epsilon; 0 if the observer sees nothing, infinite if no guarantee is available.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Unprotected
    >>> from limbeck.protocol.release import Asked, release_row
    >>> row = release_row("party 0", 0, 0, "students", Unprotected(), "server", Asked())
    >>> epsilon_towards("server", [row], 1e-5), epsilon_towards("public", [row], 1e-5)
    (inf, 0.0)
    """
    check_rows_per_person(rows_per_person)
    if not (seen := _seen(releases, observer)):
        return 0.0
    return _headline(unit, lambda relation: _guarantee(seen, observer, *relation, delta, rows_per_person).epsilon)


def epsilon_by_observer(found: Iterable[PrivacyGuarantee], unit: Protects = "example") -> dict[str, float]:
    """Epsilon towards each observer, by the rule of `epsilon_towards`.

    Parameters
    ----------
    found : iterable of PrivacyGuarantee
        Guarantees, as `guarantees` returns them.
    unit : {"example", "party", "both"}
        Who is protected.

    Returns
    -------
    dict of str to float
        Epsilon by observer.
    """
    known: dict[str, dict[Relation, float]] = {}
    for each in found:
        known.setdefault(each.observer, {})[each.unit, each.adjacency] = each.epsilon
    return {observer: _headline(unit, relations.__getitem__) for observer, relations in known.items()}


def people(releases: Iterable[Release], delta: float, ks: Sequence[int] = GROUPS) -> dict[str, dict[int, float]]:
    """Epsilon of a person with up to k rows in one party, for each observer and each k.

    Parameters
    ----------
    releases : iterable of Release
        Rows of a ledger.
    delta : float
        Delta.
    ks : sequence of int
        Numbers of rows.

    Returns
    -------
    dict of str to dict of int to float
        Epsilon by observer and k; infinite if no guarantee is available.

    Examples
    --------
    >>> from limbeck.privacy.mechanisms import Gaussian
    >>> from limbeck.protocol.release import Asked, release_row
    >>> row = release_row("party 0", 0, 0, "labels", Gaussian(40.0, "example"), "public", Asked(100, classes=10))
    >>> {k: round(epsilon, 2) for k, epsilon in people([row], 1e-5)["public"].items()}
    {1: 1.36, 2: 2.94, 5: 8.6, 10: 20.68}
    """
    rows = list(releases)
    return {
        observer: {k: epsilon_towards(observer, seen, delta, "example", k) for k in ks}
        for observer in OBSERVERS
        if (seen := _seen(rows, observer))
    }


def delta_of_subsets(releases: Iterable[Release], rows_per_person: int = 1) -> float:
    """Delta of random subsets of private rows (`Subsample`), below which no epsilon holds.

    Parameters
    ----------
    releases : iterable of Release
        Rows of a ledger.
    rows_per_person : int
        Largest number of rows of one person in a party.

    Returns
    -------
    float
        Probability that any row of a person was drawn; 0 without subsets. The deltas of one site add up, and the
        largest sum of all sites counts.
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
    """Epsilon for the first neighbour relation of the unit that has a guarantee."""
    if unit == "both":
        return max(_headline("example", epsilon), _headline("party", epsilon))
    if unit not in HEADLINES:
        raise LimbeckError(f"unit must be example, party or both, not {unit!r}")
    return next(filter(math.isfinite, map(epsilon, HEADLINES[unit])), math.inf)


def _guarantee(
    rows: Sequence[Release], observer: str, unit: Unit, adjacency: Adjacency, delta: float, rows_per_person: int
) -> PrivacyGuarantee:
    group = rows_per_person if unit == "example" else 1
    costs = [_cost(_merged(_events(share, unit, adjacency, group)), delta) for share in _shares(rows)]
    epsilon, accountant, paper = max(costs, key=lambda cost: cost[0])
    return PrivacyGuarantee(observer, unit, adjacency, epsilon, accountant, paper, group)


def _shares(rows: Sequence[Release]) -> Iterable[list[Release]]:
    """The releases of each party, together with those of the server, in their order."""
    of_site: dict[str, list[tuple[int, Release]]] = {}
    for position, row in enumerate(rows):
        of_site.setdefault(row.site, []).append((position, row))
    server = of_site.pop(SERVER, [])
    for own in of_site.values() or [[]]:
        yield [row for _, row in sorted(own + server, key=itemgetter(0))]


def _events(rows: Sequence[Release], unit: Unit, adjacency: Adjacency, group: int) -> Iterable[DpEvent | None]:
    """Events of a neighbour; None for a release without a guarantee."""
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
    """Merge events that differ in the number of queries only."""
    counted: dict[DpEvent | None, int] = {}
    for event in events:
        key = event and replace(event, queries=0)
        counted[key] = counted.get(key, 0) + (event.queries if event else 0)
    return tuple(key and replace(key, queries=queries) for key, queries in counted.items())


def _relation(row: Release, unit: Unit, adjacency: Adjacency) -> Adjacency | None:
    """Relation of the mechanism's own theorem that implies a guarantee for the given unit and relation.

    A replaced or added example is in one party, so it replaces this party by another one. The same holds for all rows
    of a person in this party. Protection of an example implies nothing for a party.
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
        raise LimbeckError(f"noise was added, but delta is {delta:g}: effective_delta must lie between 0 and 1")
    found = every_epsilon(known, delta)
    return *least(found), found.get("moments")


def _sampled(samples: Sequence[tuple[int, Subsampled]], delta: float) -> tuple[float, str | None, float | None]:
    """Add up the epsilons and the deltas of subsets. There is no guarantee at a smaller delta than their own."""
    if (total := sum(times * loss.delta for times, loss in samples)) > delta * (1 + ROUNDING) or total >= 1:
        return math.inf, None, None
    return sum(times * loss.epsilon for times, loss in samples), "subsample", None
