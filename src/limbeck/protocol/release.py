"""Releases: values that leave a site, their mechanisms, and the ledger row that is written before."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from limbeck.protocol.rows import Array

Observer = Literal["server", "parties", "public"]
Unit = Literal["example", "party"]
Noise = Literal["simulated", "secure"]


@dataclass(frozen=True, slots=True)
class Release:
    """A row of the ledger: what left which site, how it was protected, and who sees it.

    Parameters
    ----------
    site : str
        Name of the site: "server", or for example "party 3".
    turn : int
        Number of the request in the run, from 0.
    number : int
        Number of the release among those of the site in this turn, from 0.
    what : str
        Name of the value, as declared.
    mechanism : str
        Name of the mechanism.
    parameters : mapping of str to object
        Parameters of the mechanism.
    sensitivity : float
        How much one neighbour can change the value.
    unit : str
        Unit of privacy: "example" (one row), "party", or "any".
    adjacency : str
        Neighbour relation that the guarantee holds for: "replace", "add-remove" or "any".
    observer : {"server", "parties", "public"}
        Who sees the value. Everybody sees what is public.
    queries : int
        Number of queries that it answers.
    classes : int
        Number of classes.
    voters : int or None
        Largest number of voters behind each answer; None where it does not count votes.
    abstentions : bool
        Whether voters may abstain.
    noise : {"simulated", "secure"}
        Where the noise came from.
    """

    site: str
    turn: int
    number: int
    what: str
    mechanism: str
    parameters: Mapping[str, Any]
    sensitivity: float
    unit: str
    adjacency: str
    observer: Observer
    queries: int
    classes: int
    voters: int | None
    abstentions: bool
    noise: Noise


@dataclass(frozen=True, slots=True)
class Asked:
    """Public facts of a release.

    Parameters
    ----------
    queries : int
        Number of queries that it answers.
    classes : int
        Number of classes.
    voters : int or None
        Largest number of voters behind each answer; None where it does not count votes.
    abstentions : bool
        Whether voters may abstain.
    noise : {"simulated", "secure"}
        Where noise comes from.
    """

    queries: int = 1
    classes: int = 0
    voters: int | None = None
    abstentions: bool = False
    noise: Noise = "simulated"


@dataclass(frozen=True, slots=True)
class NoiseSource:
    """Where the noise of one release comes from: a random stream of the seed, or the operating system.

    Parameters
    ----------
    noise : {"simulated", "secure"}
        Simulated noise follows from the seed. Secure noise comes from the operating system.
    seed : int
        Seed of the run, for simulated noise.
    purpose : tuple of str and int
        Name of the random stream, for simulated noise.

    Examples
    --------
    >>> import numpy as np
    >>> from limbeck.privacy.sampling import sampler_for
    >>> source = NoiseSource("simulated", seed=0, purpose=("server", 0, "noise", 0))
    >>> first, second = (sampler_for(source).gaussian(np.zeros(3), 1.0) for _ in range(2))
    >>> bool((first == second).all())
    True
    """

    noise: Noise
    seed: int
    purpose: tuple[str | int, ...]


class Mechanism(ABC):
    """Base class of mechanisms: how a value is protected before it leaves a site.

    Attributes
    ----------
    name : str
        Name in the ledger.
    noisy : bool
        Whether the mechanism draws random numbers. The result is recorded, so that a retry returns the same.
    secret : bool
        Whether the result is never recorded.
    unit : str
        Unit of privacy: "example" (one row), "party", or "any".
    adjacency : str
        Neighbour relation that the guarantee holds for: "replace", "add-remove" or "any".
    """

    __slots__ = ()
    name: ClassVar[str]
    noisy: ClassVar[bool] = True
    secret: ClassVar[bool] = False
    unit: str = "example"
    adjacency: str = "replace"

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """How much one neighbour can change the value before noise is added."""

    @abstractmethod
    def protect(self, value: Any, source: NoiseSource) -> Any:
        """Return what leaves the site in place of a value.

        Parameters
        ----------
        value : object
            The unprotected value, for example vote counts.
        source : NoiseSource
            Where the noise comes from.

        Returns
        -------
        object
            The protected value, for example labels.
        """

    def asked(self, value: Any, classes: int) -> int:
        """Return the number of queries that a value answers, or raise if the mechanism is not for such a value.

        Parameters
        ----------
        value : object
            The unprotected value.
        classes : int
            Number of classes of the run.

        Returns
        -------
        int
            Number of queries, which must be the declared one.
        """
        return 1


def release_row(
    site: str, turn: int, number: int, what: str, mechanism: Mechanism, observer: Observer, asked: Asked
) -> Release:
    """Make the ledger row of a release, for a plan or before the value leaves.

    Parameters
    ----------
    site : str
        Name of the site.
    turn : int
        Number of the request in the run, from 0.
    number : int
        Number of the release among those of the site in this turn, from 0.
    what : str
        Name of the value, as declared.
    mechanism : Mechanism
        The mechanism; its fields become the parameters in the row.
    observer : {"server", "parties", "public"}
        Who sees the value.
    asked : Asked
        Queries, classes, voters, abstentions and noise.

    Returns
    -------
    Release
        The row.
    """
    return Release(
        site=site,
        turn=turn,
        number=number,
        what=what,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        sensitivity=mechanism.sensitivity,
        unit=mechanism.unit,
        adjacency=mechanism.adjacency,
        observer=observer,
        queries=asked.queries,
        classes=asked.classes,
        voters=asked.voters,
        abstentions=asked.abstentions,
        noise=asked.noise,
    )


class Ledger(Protocol):
    """The releases of one site in order; rows can only be appended."""

    @property
    def rows(self) -> list[Release]:
        """All rows, oldest first."""

    def write(self, row: Release) -> bool:
        """Append a row before its value leaves, or raise.

        Parameters
        ----------
        row : Release
            The row.

        Returns
        -------
        bool
            True if the row was already recorded.
        """

    def draw(self, row: Release, noisy: Callable[[], Array]) -> Array:
        """Append a row with its noisy value, or return the value that is recorded with it.

        Parameters
        ----------
        row : Release
            The row.
        noisy : callable
            Draws the noisy value. It is not called if a value is recorded.

        Returns
        -------
        array
            The noisy value.
        """


@dataclass(slots=True)
class MemoryLedger:
    """A ledger in memory, for simulations."""

    rows: list[Release] = field(default_factory=list)

    def write(self, row: Release) -> bool:
        """Append a row, and return True if it was already recorded."""
        if row in self.rows:
            return True
        self.rows.append(row)
        return False

    def draw(self, row: Release, noisy: Callable[[], Array]) -> Array:
        """Append a row and draw its noisy value; this ledger does not record the value."""
        self.write(row)
        return noisy()
