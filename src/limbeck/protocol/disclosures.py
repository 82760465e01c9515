"""Disclosures: everything that leaves a site in a run, declared by the algorithm from public facts alone.

The plan before a run, the noise calibration, the budget check, the release itself and its ledger row all follow from
this declaration. A value without a declaration cannot leave.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, InstanceOf

from limbeck.errors import LimbeckError
from limbeck.protocol.release import Asked, Mechanism, Noise, Observer, Release, release_row
from limbeck.protocol.task import MULTICLASS, Task
from limbeck.tables import check_fields

Origin = Literal["party", "server"]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Facts:
    """Public facts of a run.

    Parameters
    ----------
    public : int
        Number of public rows.
    classes : int
        Number of classes.
    parties : int
        Number of parties.
    noise : {"simulated", "secure"}
        Where noise comes from: the seed, or the operating system.
    rows : int or None
        Number of rows of the party, in simulations only; None elsewhere, because it is private.
    task : Task
        Kind of the labels.

    Examples
    --------
    >>> facts = Facts(public=300, classes=10, parties=5)
    >>> facts.asked(queries=300, voters=5).classes
    10
    """

    public: int
    classes: int
    parties: int
    noise: Noise = "simulated"
    rows: int | None = None
    task: Task = MULTICLASS

    def asked(self, queries: int, voters: int | None = None, abstentions: bool = False) -> Asked:
        """Return the facts of a release.

        Parameters
        ----------
        queries : int
            Number of queries that it answers.
        voters : int or None
            Largest number of voters behind each answer; None where it does not count votes.
        abstentions : bool
            Whether voters may abstain.

        Returns
        -------
        Asked
            These numbers with the classes and the noise of the run.
        """
        return Asked(queries, self.classes, voters, abstentions, self.noise)

    def calibrated(
        self,
        origin: "Origin",
        what: str,
        mechanism: Callable[[Asked], Mechanism],
        observer: Observer,
        queries: int,
        voters: int | None = None,
        abstentions: bool = False,
        times: int = 1,
    ) -> "Disclosure":
        """Declare a value whose noise is calibrated to these very facts, so that they are stated once.

        Parameters
        ----------
        origin : {"party", "server"}
            Which sites release it.
        what : str
            Name of the value.
        mechanism : callable
            Returns the mechanism for the facts of all releases of one site together.
        observer : {"server", "parties", "public"}
            Who can see it.
        queries : int
            Number of queries that one release answers.
        voters : int or None
            Largest number of voters behind each answer; None where it does not count votes.
        abstentions : bool
            Whether voters may abstain.
        times : int
            Largest number of releases by one site in a run.

        Returns
        -------
        Disclosure
            The declaration.

        Examples
        --------
        >>> from functools import partial
        >>> from limbeck.privacy.calibration import Privacy
        >>> facts, privacy = Facts(public=40, classes=10, parties=5), Privacy(level="L2", gamma=0.05)
        >>> labels = facts.calibrated("party", "labels", partial(privacy.noisy_max, "example", 1), "public", queries=40)
        >>> labels.mechanism, labels.queries
        (Gumbel(gamma=0.05, unit='example', weight=1, adjacency='replace'), 40)
        """
        how = mechanism(self.asked(times * queries, voters, abstentions))
        return Disclosure(origin, what, how, observer, queries, voters, abstentions, times)


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Declaration of one kind of value that leaves a site.

    Parameters
    ----------
    origin : {"party", "server"}
        Which sites release it.
    what : str
        Name of the value, unique among the disclosures of one origin.
    mechanism : Mechanism
        How it is protected, for example `Unprotected()`.
    observer : {"server", "parties", "public"}
        Who can see it.
    queries : int
        Number of queries that one release answers.
    voters : int or None
        Largest number of voters behind each answer; None where it does not count votes.
    abstentions : bool
        Whether voters may abstain.
    times : int
        Largest number of releases by one site in a run.

    Raises
    ------
    LimbeckError
        If a value has a wrong type or is out of range.

    Examples
    --------
    Each party sends its labels of 300 public rows to the server, without noise:

    >>> from limbeck.privacy.mechanisms import Unprotected
    >>> labels = Disclosure("party", "labels", Unprotected(), "server", queries=300)
    >>> labels.is_free
    False
    """

    origin: Origin
    what: str
    mechanism: InstanceOf[Mechanism]
    observer: Observer
    queries: Count = 1
    voters: Count | None = None
    abstentions: bool = False
    times: Count = 1

    def __post_init__(self) -> None:
        try:
            check_fields(self)
        except LimbeckError as error:
            raise LimbeckError(f"{self.what}: {error}") from error

    @property
    def is_free(self) -> bool:
        """Whether it is post-processing, which costs no epsilon."""
        return self.mechanism.sensitivity == 0

    def row(self, site: str, turn: int, number: int, run: Facts) -> Release:
        """Return the ledger row of one release.

        Parameters
        ----------
        site : str
            Name of the site, for example "party 3".
        turn : int
            Number of the request that the site answers.
        number : int
            Number of the release among those of the site in this turn.
        run : Facts
            Public facts of the run.

        Returns
        -------
        Release
            The row.
        """
        asked = run.asked(self.queries, self.voters, self.abstentions)
        return release_row(site, turn, number, self.what, self.mechanism, self.observer, asked)


Declare = Callable[[Facts], Sequence[Disclosure]]


def planned_releases(declare: Declare, run: Facts, rows: Sequence[int] | None = None) -> list[Release]:
    """List what a run will release, before any training.

    Parameters
    ----------
    declare : callable
        The algorithm's `disclosures`.
    run : Facts
        Public facts of the run.
    rows : sequence of int, optional
        Row counts of the parties, in simulations only.

    Returns
    -------
    list of Release
        One row for each disclosure of each party, then those of the server. Post-processing is left out.

    Examples
    --------
    >>> import limbeck as lb
    >>> planned = planned_releases(lb.FedKT().disclosures, Facts(public=300, classes=10, parties=2))
    >>> [(row.site, row.what, row.queries) for row in planned]
    [('party 0', 'students', 300), ('party 1', 'students', 300), ('server', 'model', 1)]
    """
    smallest = run if rows is None else replace(run, rows=min(rows))
    server = _totals(declare(smallest), "server", "server", smallest)  # first: errors are for the smallest party
    found: list[Release] = []
    for party in range(run.parties):
        own = run if rows is None else replace(run, rows=rows[party])
        found += _totals(declare(own), "party", f"party {party}", own)
    return found + server


def by_name(declared: Iterable[Disclosure], origin: Origin) -> dict[str, Disclosure]:
    """Index the disclosures of one origin by name.

    Parameters
    ----------
    declared : iterable of Disclosure
        All disclosures of an algorithm.
    origin : {"party", "server"}
        Whose disclosures are wanted.

    Returns
    -------
    dict of str to Disclosure
        The disclosures by `what`.

    Raises
    ------
    LimbeckError
        If two disclosures of the origin have the same name.
    """
    own = [each for each in declared if each.origin == origin]
    found = {each.what: each for each in own}
    if len(found) < len(own):
        raise LimbeckError(f"the {origin}'s disclosures need different names: {', '.join(each.what for each in own)}")
    return found


def _totals(declared: Iterable[Disclosure], origin: Origin, site: str, run: Facts) -> list[Release]:
    """Everything that one site releases in a run, with one row for each disclosure."""
    costly = [each for each in by_name(declared, origin).values() if not each.is_free]
    rows = [each.row(site, 0, number, run) for number, each in enumerate(costly)]
    return [replace(row, queries=each.queries * each.times) for each, row in zip(costly, rows, strict=True)]
