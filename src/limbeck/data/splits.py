"""Splits: which party holds which rows. Seeded and disjoint; complete, but where a split says otherwise."""

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
    """Deals rows to parties."""

    kind: ClassVar[str]

    def partition(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        """The row numbers of each party; `y` and `groups` speak of the rows to be dealt."""


class _Checked:
    """Checks the parameters of a split that is made in Python as those of a table are checked."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Iid:
    """Every party gets an equal share, drawn at random."""

    kind: ClassVar[str] = "iid"

    def partition(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        _check_enough(len(y), parties, 1)
        return np.array_split(rng.permutation(len(y)), parties)


@dataclass(frozen=True, slots=True)
class Dirichlet(_Checked):
    """Each class is shared out by proportions from Dir(beta); drawn again until everyone has `min_rows` rows."""

    kind: ClassVar[str] = "dirichlet"

    beta: Above0 = 0.5
    min_rows: Positive = 10

    def partition(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
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
            f"{len(y)} rows, and min_rows = {self.min_rows}; lower min_rows, raise beta, or have fewer parties"
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
    """Each party holds `classes` of the classes; by default just enough that every class has a holder."""

    kind: ClassVar[str] = "by-class"

    classes: Positive | None = None

    def partition(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        present = rng.permutation(np.unique(y))
        held = self.classes or math.ceil(len(present) / parties)
        if held > len(present) or held * parties < len(present):
            raise LimbeckError(
                f"data.split.classes = {held}: {parties} parties of {held} classes cannot hold the "
                f"{len(present)} classes once each or more; {math.ceil(len(present) / parties)} would do"
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
    """Whole groups (all rows of a writer, say) go to one party; parties get equally many groups.

    With `groups_per_party` a party gets so many groups, the largest ones, and the other groups are nobody's.
    """

    kind: ClassVar[str] = "by-group"

    group: str
    groups_per_party: Positive | None = None

    def partition(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
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
    """Every party gets `rows` rows of every class at random; the rest is nobody's.

    With `group` (a class's subclasses, say) a party's rows of a class are all of one group, in turn from party to
    party: who has seen wolves only is asked about lions.
    """

    kind: ClassVar[str] = "per-class"

    rows: Positive = 3
    group: str | None = None

    def partition(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
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
                        f"{self.rows} each; rows = {len(rows) // max(1, len(holders))} would fit"
                    )
                owner[rows[: self.rows * len(holders)]] = np.repeat(holders, self.rows)
        return _by_owner(owner, parties)


@dataclass(frozen=True, slots=True)
class Within:
    """Each group (a domain, say) is dealt among parties of its own, as many to every group as can be."""

    kind: ClassVar[str] = "within"

    split: Split
    group: str

    def partition(self, y: Array, groups: Mapping[str, Array], parties: int, rng: np.random.Generator) -> list[Array]:
        members, member = np.unique(_group(groups, self.group, "within"), return_inverse=True)
        if len(members) > parties:
            raise LimbeckError(f"data.split.within: {len(members)} groups {self.group!r} need as many parties or more")
        held: list[Array] = []
        for position, share in enumerate(np.array_split(np.arange(parties), len(members))):
            rows = np.flatnonzero(member == position)
            inside = {name: of[rows] for name, of in groups.items()}
            held += [rows[part] for part in self.split.partition(y[rows], inside, len(share), rng)]
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
        fits = f"min_rows = {rows // parties} would fit" if rows >= parties else f"have at most {rows} parties"
        raise LimbeckError(f"data.split: {rows} private rows cannot give {parties} parties {min_rows} each; {fits}")


def _by_owner(owner: Array, parties: int) -> list[Array]:
    held = [np.flatnonzero(owner == party) for party in range(parties)]
    for party, rows in enumerate(held):
        if not len(rows):
            raise LimbeckError(f"data.split leaves party {party} without rows; have fewer parties")
    return held
