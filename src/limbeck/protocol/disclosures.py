"""Disclosures: everything that leaves a site in a run, declared by the algorithm from public facts alone.

The declaration is the single source for the plan before a run, the calibration of noise, the budget check, the release
itself and the row in the ledger. What is not declared cannot leave.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from limbeck.errors import LimbeckError
from limbeck.protocol.release import Asked, Mechanism, Noise, Observer, Release, release_row

Origin = Literal["party", "server"]


@dataclass(frozen=True, slots=True)
class Facts:
    """Public facts of a run.

    `public` is the number of public rows. `rows`, how many rows a party holds, is private: it is given in simulations
    only.
    """

    public: int
    classes: int
    parties: int
    noise: Noise = "simulated"
    rows: int | None = None

    def asked(self, queries: int, voters: int | None = None, abstentions: bool = False) -> Asked:
        """So many queries, counted from at most so many voters."""
        return Asked(queries, self.classes, voters, abstentions, self.noise)


@dataclass(frozen=True, slots=True)
class Disclosure:
    """One kind of value that leaves a site: what, from whom, under which mechanism, and who can see it.

    It leaves at most `times` times in a run, each time with the answers to `queries` queries. The counts behind it come
    from at most `voters` voters, fewer where there are `abstentions`.
    """

    origin: Origin
    what: str
    mechanism: Mechanism
    observer: Observer
    queries: int = 1
    voters: int | None = None
    abstentions: bool = False
    times: int = 1

    def __post_init__(self) -> None:
        if self.origin not in get_args(Origin) or self.observer not in get_args(Observer):
            raise LimbeckError(f"{self.what}: a disclosure is from party or server, to server, parties or public")
        if self.queries < 0 or self.times < 0:
            raise LimbeckError(f"{self.what}: a disclosure answers {self.queries} queries, {self.times} times")

    @property
    def is_free(self) -> bool:
        """Whether it is post-processing, which costs nothing."""
        return self.mechanism.sensitivity == 0

    def row(self, site: str, turn: int, number: int, run: Facts) -> Release:
        """The ledger's row of one release."""
        asked = run.asked(self.queries, self.voters, self.abstentions)
        return release_row(site, turn, number, self.what, self.mechanism, self.observer, asked)


Declare = Callable[[Facts], Sequence[Disclosure]]


def planned_releases(declare: Declare, run: Facts, rows: Sequence[int] | None = None) -> list[Release]:
    """What a run will release, before anyone trains; `rows` are the parties' row counts, in simulations only."""
    smallest = run if rows is None else replace(run, rows=min(rows))
    server = _totals(declare(smallest), "server", "server", smallest)  # first: what suits the smallest suits all
    found: list[Release] = []
    for party in range(run.parties):
        own = run if rows is None else replace(run, rows=rows[party])
        found += _totals(declare(own), "party", f"party {party}", own)
    return found + server


def by_name(declared: Iterable[Disclosure], origin: Origin) -> dict[str, Disclosure]:
    """What a site may disclose."""
    own = [each for each in declared if each.origin == origin]
    found = {each.what: each for each in own}
    if len(found) < len(own):
        raise LimbeckError(f"the {origin}'s disclosures need different names: {', '.join(each.what for each in own)}")
    return found


def _totals(declared: Iterable[Disclosure], origin: Origin, site: str, run: Facts) -> list[Release]:
    """All that one site releases in a run, each disclosure in one row."""
    costly = [each for each in by_name(declared, origin).values() if not each.is_free]
    rows = [each.row(site, 0, number, run) for number, each in enumerate(costly)]
    return [replace(row, queries=each.queries * each.times) for each, row in zip(costly, rows, strict=True)]
