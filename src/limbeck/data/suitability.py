"""How well public rows suit private rows.

Knowledge about public rows helps only if private rows are similar. A party computes this on its own rows and sends
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from limbeck.data.arrays import as_float
from limbeck.data.files import SUFFIXES, read_table
from limbeck.data.schema import schema_of
from limbeck.data.sets import load, rows_in
from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array, flat

MAX_PUBLIC_ROWS, MIN_ROWS = 1000, 4
COMMON_DISTANCE = 0.95  # quantile of the distances between public rows; up to it a row counts as near
GOOD_COVERAGE, PERFECT_COVERAGE, PERFECT_AUC = 0.5, 0.9, 0.6

Assessment = Literal["perfect", "good", "poor"]


@dataclass(frozen=True, slots=True)
class Suitability:
    """How well public rows suit private rows.

    Parameters
    ----------
    auc : float
        ROC AUC of a classifier that distinguishes public from private rows; 0.5 means that it cannot.
    coverage : float
        Share of private rows whose nearest public row is as near as for public rows.
    constant_columns : int
        Number of columns that vary only in private rows.
    features : int
        Number of columns.
    public_distances : array of shape (public rows,)
        Distances of public rows to the nearest other public row.
    private_distances : array of shape (private rows,)
        Distances of private rows to the nearest public row.
    near : float
        Largest distance that counts as near.
    """

    auc: float
    coverage: float
    constant_columns: int
    features: int
    public_distances: Array
    private_distances: Array
    near: float

    @property
    def assessment(self) -> Assessment:
        """Overall assessment, from the coverage and the AUC."""
        if self.coverage < GOOD_COVERAGE:
            return "poor"
        return "perfect" if self.auc <= PERFECT_AUC and self.coverage >= PERFECT_COVERAGE else "good"


def suitability(public: Array, private: Array, seed: int = 0) -> Suitability:
    """Measure how well public rows suit private rows, on at most 2000 public and 1000 private rows.

    Parameters
    ----------
    public : array of shape (public rows, ...)
        Public rows.
    private : array of shape (private rows, ...)
        Private rows of one party.
    seed : int
        Seed of the samples and the classifier.

    Returns
    -------
    Suitability
        The measurements. Columns are scaled by their standard deviation before distances are computed.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(80, 2))
    >>> suitability(rows[:40], rows[40:] + 100).assessment
    'poor'
    """
    open_rows, own = _sample(public, 2 * MAX_PUBLIC_ROWS, seed), _sample(private, MAX_PUBLIC_ROWS, seed)
    public_distances, private_distances = _distances(open_rows, own)
    near, coverage = _coverage(public_distances, private_distances)
    return Suitability(
        auc=_discriminator_auc(open_rows[: len(open_rows) // 2], own, seed),
        coverage=coverage,
        constant_columns=int(((open_rows.std(axis=0) == 0) & (own.std(axis=0) > 0)).sum()),
        features=open_rows.shape[1],
        public_distances=public_distances,
        private_distances=private_distances,
        near=near,
    )


def coverage(public: Array, private: Array, seed: int = 0) -> float:
    """Share of private rows that have a near public row: the fast part of `suitability`.

    Parameters
    ----------
    public : array of shape (public rows, ...)
        Public rows.
    private : array of shape (private rows, ...)
        Private rows of one party.
    seed : int
        Seed of the samples.

    Returns
    -------
    float
        Share between 0 and 1.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(80, 2))
    >>> coverage(rows[:40], rows[40:] + 100)
    0.0
    """
    distances = _distances(_sample(public, 2 * MAX_PUBLIC_ROWS, seed), _sample(private, MAX_PUBLIC_ROWS, seed))
    return _coverage(*distances)[1]


def two_sides(public: str, private: str, label: str | None = None, ignore: Sequence[str] = ()) -> tuple[Array, Array]:
    """Load public and private rows to compare.

    Parameters
    ----------
    public : str
        A data set's name, or a file.
    private : str
        A data set's name, or a file. The same as `public` means two random halves of its rows.
    label : str, optional
        Column of tables that has the classes, or several with commas between them; they are not compared.
    ignore : sequence of str
        Columns of tables that are not compared, such as an ID.

    Returns
    -------
    tuple of array
        Public and private rows, of shape (rows, ...).
    """
    if Path(public).suffix.lower() in SUFFIXES:
        left = (label or "").split(",") + list(ignore)
        open_table = read_table(Path(public)).without(*left)
        schema = schema_of(open_table, label or "", ())
        return schema.encode(open_table), schema.encode(read_table(Path(private), like=schema.reading).without(*left))
    open_rows, own = (as_float(_array(side)) for side in (public, private))
    if public != private:
        return open_rows, own
    half, rest = np.array_split(open_rows[np.random.default_rng(0).permutation(len(open_rows))], 2)
    return half, rest


def _array(side: str) -> Array:
    if side.endswith((".npz", ".npy")):
        return rows_in(Path(side))
    data = load(side)
    if data.tokens:
        raise LimbeckError(f"{side} is a set of texts: only rows of numbers can be compared")
    return data.x


def _sample(rows: Array, most: int, seed: int) -> Array:
    if len(rows) < MIN_ROWS:
        raise LimbeckError(f"at least {MIN_ROWS} public and {MIN_ROWS} private rows are needed, not {len(rows)}")
    return flat(rows)[np.random.default_rng(seed).permutation(len(rows))[:most]]


def _distances(public: Array, private: Array) -> tuple[Array, Array]:
    """Distances of one half of the public rows, and of the private rows, to the nearest row of the other half."""
    from sklearn.neighbors import NearestNeighbors

    if public.shape[1] != private.shape[1]:
        raise LimbeckError(f"public rows have {public.shape[1]} values, private rows {private.shape[1]}")
    spread = np.concatenate([public, private]).std(axis=0)
    scale = np.where(spread > 0, spread, 1)
    known, others = np.array_split(public / scale, 2)
    nearest = NearestNeighbors(n_neighbors=1).fit(known)
    near, far = (nearest.kneighbors(rows)[0][:, 0] for rows in (others, private / scale))
    return near, far


def _coverage(public_distances: Array, private_distances: Array) -> tuple[float, float]:
    near = float(np.quantile(public_distances, COMMON_DISTANCE)) * (1 + 1e-6)
    return near, float((private_distances <= near).mean())


def _discriminator_auc(public: Array, private: Array, seed: int) -> float:
    """Cross-validated AUC of a random forest that predicts which rows are private."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import cross_val_predict

    rows = np.concatenate([public, private])
    side = np.repeat([0, 1], [len(public), len(private)])
    order = np.random.default_rng(seed).permutation(len(rows))
    forest = RandomForestClassifier(50, min_samples_leaf=3, random_state=seed)
    folds = min(3, len(public), len(private))
    guesses = cross_val_predict(forest, rows[order], side[order], cv=folds, method="predict_proba")
    return float(roc_auc_score(side[order], guesses[:, 1]))
