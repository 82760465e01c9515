"""Bases: few directions in which all public rows can be asked about at once, found from the public rows alone.

Columns are orthonormal: what a voter says of all rows is no longer when it is projected on them, and noise on so few
numbers spreads over all rows.
"""

import numpy as np

from limbeck.protocol.rows import Array, flat

FEWEST, MOST = 5, 40
LANDMARKS = 500  # rows that have a bump around them
ROUNDING = 1e-9  # what is weaker than that beside the strongest may be rounding


def number_of_directions(voters: float, mu: float, classes: int) -> int:
    """As many as the voters' sum can carry: the more the louder they are against the noise, 2 / mu."""
    return int(np.clip(round(voters * mu / np.sqrt(2 * classes)), FEWEST, MOST))


def components(x: Array, number: int) -> Array:
    """[rows, number]: the rows in their principal components, each as long as it is strong; fewer where no more are."""
    return _strongest(_standardised(x), number)


def directions(x: Array, number: int) -> Array:
    """[rows, number]: the principal components of standardised rows, each of length 1; where they are fewer, bends.

    What parts classes along a plane is heard first, and with few columns also what parts them otherwise.
    """
    straight = _of_length_one(components(x, number))
    missing = number - straight.shape[1]
    return np.hstack([straight, bends(x, straight, missing)]) if missing and straight.shape[1] else straight


def bends(x: Array, straight: Array, number: int) -> Array:
    """[rows, number]: the strongest of what bumps around the rows are made of, once all that is straight is taken out.

    Kernel principal components (Schoelkopf et al. 1998) of a Gaussian kernel as wide as rows are apart on average, by
    Nystroem's approximation from some of the rows.
    """
    values = _standardised(x)
    landmarks = values[np.linspace(0, len(values) - 1, min(len(values), LANDMARKS)).astype(int)]
    width = _apart(landmarks, landmarks).mean()
    if not width > 0:
        return np.zeros((len(values), 0))
    among, onto = (np.exp(-_apart(rows, landmarks) / (2 * width)) for rows in (landmarks, values))
    strength, vectors = np.linalg.eigh(among)
    used = strength > ROUNDING * strength.max()
    bumps = onto @ (vectors[:, used] / np.sqrt(strength[used]))
    known = np.column_stack([np.full(len(values), 1 / np.sqrt(len(values))), straight])
    bent = bumps - known @ (known.T @ bumps)
    return _of_length_one(_strongest(bent - known @ (known.T @ bent), number, float((bumps**2).sum())))


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


def _strongest(values: Array, number: int, least: float = 0.0) -> Array:
    """The principal components of columns of mean 0, each as long as it is strong.

    Left out are those that rounding may have made: next to nothing beside the first, or beside a strength of `least`.
    """
    if not values.shape[1]:
        return np.zeros((len(values), 0))
    if values.shape[1] <= len(values):
        strength, vectors = np.linalg.eigh(values.T @ values)
        found = values @ vectors
    else:
        strength, vectors = np.linalg.eigh(values @ values.T)
        found = vectors * np.sqrt(np.maximum(strength, 0.0))
    kept = np.argsort(strength)[::-1][:number]
    kept = kept[strength[kept] > ROUNDING * max(strength.max(), least)]
    heaviest = np.abs(found[:, kept]).argmax(axis=0)
    return np.asarray(found[:, kept] * np.sign(found[heaviest, kept]))


def _apart(some: Array, others: Array) -> Array:
    """Squared distances."""
    return np.asarray((some**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * some @ others.T)


def _of_length_one(columns: Array) -> Array:
    return np.asarray(columns / np.linalg.norm(columns, axis=0))
