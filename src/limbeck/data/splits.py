"""Splits: which party holds which rows.

A split is determined by the seed. The parties' rows are disjoint. Every row has a party unless a split says otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.protocol.rows import Array
from limbeck.tables import Above0, Positive, check_fields

MAX_DRAWS = 1000


class Split(Protocol):
    """Rule that assigns rows to parties."""

    kind: ClassVar[str]

    def assign(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        """Assign rows to parties.

        Parameters
        ----------
        y : array of shape (rows,)
            Labels of the rows.
        groups : mapping of str to array of shape (rows,)
            Groups of the rows, for example the writer of each row.
        parties : int
            Number of parties.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        list of array
            Row indices of each party.

        Raises
        ------
        LimbeckError
            If there are not enough rows, classes or groups for so many parties.
        """


class _Checked:
    """Checks the parameters of a split that is made in Python like those of a TOML table."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Iid:
    """Equal shares, drawn at random.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> [len(rows) for rows in Iid().assign(np.zeros(10), {}, 3, rng)]
    [4, 3, 3]
    """

    kind: ClassVar[str] = "iid"

    def assign(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        """Assign rows to parties; see `Split.assign`."""
        _check_enough(len(y), parties, 1)
        return np.array_split(rng.permutation(len(y)), parties)


@dataclass(frozen=True, slots=True)
class Dirichlet(_Checked):
    """Shares of each class drawn from a Dirichlet distribution.

    The split is drawn again until every party has `min_rows` rows.

    Parameters
    ----------
    beta : float
        Concentration: the smaller, the more the class distributions of the parties differ.
    min_rows : int
        Fewest rows of a party.

    Notes
    -----
    For each class c, the parties get the shares p_c ~ Dir(beta, ..., beta) of its rows.

    Examples
    --------
    >>> y = np.repeat([0, 1], 50)
    >>> held = Dirichlet(beta=0.5).assign(y, {}, 3, np.random.default_rng(0))
    >>> sum(len(rows) for rows in held)
    100
    """

    kind: ClassVar[str] = "dirichlet"

    beta: Above0 = 0.5
    min_rows: Positive = 10

    def assign(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        """Assign rows to parties; see `Split.assign`."""
        _check_enough(len(y), parties, self.min_rows)
        best = 0
        for _ in range(MAX_DRAWS):
            owner = self._draw(y, parties, rng)
            fewest = int(np.bincount(owner, minlength=parties).min())
            if fewest >= self.min_rows:
                return _by_owner(owner, parties)
            best = max(best, fewest)
        raise LimbeckError(
            f"data.split: in {MAX_DRAWS} draws the smallest of {parties} parties never had more than {best} of "
            f"{len(y)} rows, fewer than min_rows = {self.min_rows}; lower min_rows, raise beta, or use fewer parties"
        )

    def _draw(self, y: Array, parties: int, rng: np.random.Generator) -> Array:
        owner = np.empty(len(y), np.int64)
        for rows in (np.flatnonzero(y == label) for label in np.unique(y)):
            shares = rng.dirichlet(np.full(parties, self.beta))
            cuts = (np.cumsum(shares)[:-1] * len(rows)).astype(int)
            for party, held in enumerate(np.split(rng.permutation(rows), cuts)):
                owner[held] = party
        return owner


@dataclass(frozen=True, slots=True)
class ByClass(_Checked):
    """Rows of some classes only.

    Parameters
    ----------
    classes : int, optional
        Number of classes of a party; by default the fewest with which every class has a party.

    Examples
    --------
    >>> y = np.array([0, 1, 2, 0, 1, 2])
    >>> held = ByClass(1).assign(y, {}, 3, np.random.default_rng(0))
    >>> [y[rows].tolist() for rows in held]
    [[2, 2], [0, 0], [1, 1]]
    """

    kind: ClassVar[str] = "by-class"

    classes: Positive | None = None

    def assign(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        """Assign rows to parties; see `Split.assign`."""
        present = rng.permutation(np.unique(y))
        held = self.classes or math.ceil(len(present) / parties)
        if held > len(present) or held * parties < len(present):
            raise LimbeckError(
                f"data.split.classes = {held} does not suit {parties} parties and {len(present)} classes; "
                f"use {math.ceil(len(present) / parties)} to {len(present)}"
            )
        owner = np.empty(len(y), np.int64)
        for position, label in enumerate(present):
            holders = [p for p in range(parties) if (position - p * held) % len(present) < held]
            rows = rng.permutation(np.flatnonzero(y == label))
            for party, part in zip(holders, np.array_split(rows, len(holders)), strict=True):
                owner[part] = party
        return _by_owner(owner, parties)


@dataclass(frozen=True, slots=True)
class ByGroup(_Checked):
    """Whole groups, for example all rows of a writer; every party gets the same number of groups.

    Parameters
    ----------
    group : str
        Name of the grouping.
    groups_per_party : int, optional
        Number of groups of a party. Only the largest groups are used; by default all are.

    Examples
    --------
    >>> groups = {"writer": np.array([0, 0, 1, 1, 2, 3])}
    >>> held = ByGroup("writer").assign(np.zeros(6), groups, 2, np.random.default_rng(0))
    >>> [groups["writer"][rows].tolist() for rows in held]
    [[0, 0, 1, 1], [2, 3]]
    """

    kind: ClassVar[str] = "by-group"

    group: str
    groups_per_party: Positive | None = None

    def assign(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        """Assign rows to parties; see `Split.assign`."""
        members, member, sizes = np.unique(_group(groups, self.group), return_inverse=True, return_counts=True)
        each = self.groups_per_party
        if len(members) < parties * (each or 1):
            needed = f"{parties} parties" + (f" with {each} each" if each else "")
            raise LimbeckError(f"data.split: {len(members)} groups {self.group!r} are too few for {needed}")
        chosen = np.argsort(-sizes, kind="stable")[: parties * each] if each else np.arange(len(members))
        owner_of_member = np.full(len(members), -1)
        owner_of_member[chosen] = rng.permutation(np.arange(len(chosen)) % parties)
        return _by_owner(owner_of_member[member], parties)


@dataclass(frozen=True, slots=True)
class PerClass(_Checked):
    """The same number of rows of every class for each party; other rows are not used.

    Parameters
    ----------
    rows : int
        Rows of each class for a party.
    group : str, optional
        Name of a grouping, for example the subclasses. A party's rows of a class then come from one group. Parties
        take turns, so that they know different subclasses.

    Examples
    --------
    >>> y = np.repeat([0, 1], 10)
    >>> held = PerClass(rows=3).assign(y, {}, 2, np.random.default_rng(0))
    >>> [y[rows].tolist() for rows in held]
    [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]]
    """

    kind: ClassVar[str] = "per-class"

    rows: Positive = 3
    group: str | None = None

    def assign(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        """Assign rows to parties; see `Split.assign`."""
        member = np.zeros(len(y), np.int64) if self.group is None else _group(groups, self.group)
        owner = np.full(len(y), -1)
        for label in np.unique(y):
            parts = np.unique(member[y == label])
            for turn, part in enumerate(parts):
                holders = np.arange(turn, parties, len(parts))
                rows = rng.permutation(np.flatnonzero((y == label) & (member == part)))
                if len(rows) < self.rows * len(holders):
                    raise LimbeckError(
                        f"data.split: {len(rows)} rows of class number {label} cannot give {len(holders)} parties "
                        f"{self.rows} each, at most {len(rows) // max(1, len(holders))}"
                    )
                owner[rows[: self.rows * len(holders)]] = np.repeat(holders, self.rows)
        return _by_owner(owner, parties)


@dataclass(frozen=True, slots=True)
class Within:
    """Separate parties for each group, for example for each data set of several.

    Every group gets the same number of parties, as far as possible.

    Parameters
    ----------
    split : Split
        How the rows of a group are assigned to its parties.
    group : str
        Name of the grouping, for example "domain".

    Examples
    --------
    >>> groups = {"domain": np.array([0, 0, 0, 0, 1, 1])}
    >>> held = Within(Iid(), "domain").assign(np.zeros(6), groups, 3, np.random.default_rng(0))
    >>> [groups["domain"][rows].tolist() for rows in held]
    [[0, 0], [0, 0], [1, 1]]
    """

    kind: ClassVar[str] = "within"

    split: Split
    group: str

    def assign(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        """Assign rows to parties; see `Split.assign`."""
        members, member = np.unique(_group(groups, self.group, "within"), return_inverse=True)
        if len(members) > parties:
            raise LimbeckError(
                f"data.split.within: {len(members)} groups {self.group!r} need at least as many parties, not {parties}"
            )
        held: list[Array] = []
        for position, share in enumerate(np.array_split(np.arange(parties), len(members))):
            rows = np.flatnonzero(member == position)
            inside = {name: of[rows] for name, of in groups.items()}
            held += [rows[part] for part in self.split.assign(y[rows], inside, len(share), rng)]
        return held


KINDS = (Iid, Dirichlet, ByClass, ByGroup, PerClass)
SPLITS: dict[str, type[Iid | Dirichlet | ByClass | ByGroup | PerClass]] = {split.kind: split for split in KINDS}


def _group(groups: Mapping[str, Array], name: str, key: str = "group") -> Array:
    if name not in groups:
        known = did_you_mean(name, groups) if groups else "the data set has no groups"
        raise LimbeckError(f"data.split.{key}: no group {name!r}; {known}")
    return groups[name]


def _check_enough(rows: int, parties: int, min_rows: int) -> None:
    if rows < parties * min_rows:
        fits = f"use min_rows = {rows // parties}" if rows >= parties else f"use at most {rows} parties"
        raise LimbeckError(f"data.split: {rows} private rows cannot give {parties} parties {min_rows} each; {fits}")


def _by_owner(owner: Array, parties: int) -> list[Array]:
    held = [np.flatnonzero(owner == party) for party in range(parties)]
    for party, rows in enumerate(held):
        if not len(rows):
            raise LimbeckError(f"data.split leaves party {party} without rows; use fewer parties")
    return held
