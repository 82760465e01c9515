"""Bases: few directions in which all public rows can be asked about at once, found from the public rows alone.

Columns are orthonormal: what a voter says of all rows is no longer when it is projected on them, and noise on so few
numbers spreads over all rows.
"""

import numpy as np

from limbeck.protocol.rows import Array, flat

FEWEST, MOST = 5, 40


def number_of_directions(voters: float, mu: float, classes: int) -> int:
    """As many as the voters' sum can carry: the more the louder they are against the noise, 2 / mu."""
    return int(np.clip(round(voters * mu / np.sqrt(2 * classes)), FEWEST, MOST))


def components(x: Array, number: int) -> Array:
    """[rows, number]: the rows in their principal components, each as long as it is strong; fewer where no more are."""
    values = _standardised(x)
    if not values.shape[1]:
        return np.zeros((len(values), 0))
    if values.shape[1] <= len(values):
        strength, vectors = np.linalg.eigh(values.T @ values)
        found = values @ vectors
    else:
        strength, vectors = np.linalg.eigh(values @ values.T)
        found = vectors * np.sqrt(np.maximum(strength, 0.0))
    kept = np.argsort(strength)[::-1][:number]
    kept = kept[strength[kept] > 1e-9 * strength.max()]
    heaviest = np.abs(found[:, kept]).argmax(axis=0)
    return np.asarray(found[:, kept] * np.sign(found[heaviest, kept]))


def directions(x: Array, number: int) -> Array:
    """[rows, number]: the principal components of the standardised rows, each of length 1."""
    found = components(x, number)
    return np.asarray(found / np.linalg.norm(found, axis=0))


def groups(x: Array, number: int) -> Array:
    """[rows, number]: which group of similar rows each is in, by bisecting k-means, the widest group cut first.

    Divided by the root of its size, a group's sum weighs the same whether it is large or small.
    """
    from sklearn.cluster import BisectingKMeans

    values = _standardised(x)
    distinct = len(np.unique(values, axis=0)) if values.shape[1] else 1
    if distinct == 1:
        return np.full((len(values), 1), 1 / np.sqrt(len(values)))
    found = BisectingKMeans(min(number, distinct), random_state=0).fit_predict(values)
    member = np.eye(int(found.max()) + 1)[found]
    return np.asarray(member / np.sqrt(member.sum(axis=0)))


def heard(ballot: Array, basis: Array) -> Array:
    """[directions, classes] of a voter's [rows, classes]: without its mean, of length 1; 0 where rows are all alike."""
    said = basis.T @ (ballot - ballot.mean(axis=0))
    length = np.linalg.norm(said)
    return np.asarray(said / length if length > 1e-9 else np.zeros_like(said))


def _standardised(x: Array) -> Array:
    """Columns of mean 0 and deviation 1; those that are constant left out."""
    values = np.asarray(flat(x), np.float64)
    spread = values.std(axis=0)
    used = spread > 1e-9 * np.abs(values).max(initial=1.0)
    return np.asarray((values[:, used] - values[:, used].mean(axis=0)) / spread[used])
