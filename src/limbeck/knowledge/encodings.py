"""Encodings: how votes on public rows become vectors that get noise, and their sum becomes scores of all rows.

An encoding depends on public rows alone. Without noise there is one vote for each row (`PerRow`). With noise, voters
vote on a few principal components of the public rows (`PrincipalComponents`). Their columns are orthonormal, so that an
encoded vote is not longer than the vote, and the noise on a few numbers is spread over all rows.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array, flat

MIN_COMPONENTS, MAX_COMPONENTS = 5, 40
LANDMARKS = 500  # rows of the Nystroem approximation
ROUNDING = 1e-9  # weaker components, relative to the strongest, may come from rounding
MAX_ENTRY = 1.001  # of an orthonormal basis, with room for rounding


class PerRow:
    """The identity: one vote for each public row."""

    def encode(self, votes: Array) -> Array:
        """Return the votes."""
        return votes

    def decode(self, total: Array) -> Array:
        """Return the sum of votes."""
        return total


@dataclass(frozen=True, slots=True)
class BasisEncoding(ABC):
    """Base class of encodings: votes centred, projected onto an orthonormal basis, and scaled to length 1.

    Parameters
    ----------
    basis : array of shape (rows, components)
        Orthonormal columns, which depend on public rows alone.

    Attributes
    ----------
    sensitivity : float
        Largest L2 distance between the encoded votes of two voters, or of a voter and no voter.

    Notes
    -----
    With votes V of shape (rows, classes) and basis B, the encoded votes are B'(V - mean of the rows of V), divided by
    their Frobenius norm. A sum S of encoded votes becomes the scores B S.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(100, 20))
    >>> encoding = PrincipalComponents.fit(rows, number=6)
    >>> votes = np.eye(2)[(rows[:, 0] > 0).astype(int)]
    >>> encoded = encoding.encode(votes)
    >>> encoded.shape, round(float(np.linalg.norm(encoded)), 6)
    ((6, 2), 1.0)
    >>> encoding.decode(encoded).shape
    (100, 2)
    """

    basis: Array
    sensitivity: ClassVar[float] = 2.0

    @staticmethod
    @abstractmethod
    def columns(x: Array, number: int) -> Array:
        """Compute an orthonormal basis from public rows; subclasses define it.

        Parameters
        ----------
        x : array of shape (rows, ...)
            The public rows.
        number : int
            Number of columns.

        Returns
        -------
        array of shape (rows, number)
            Orthonormal columns; fewer if there are not enough.
        """

    @classmethod
    def fit(cls, x: Array, number: int) -> Self:
        """Make the encoding from public rows.

        Parameters
        ----------
        x : array of shape (rows, ...)
            The public rows.
        number : int
            Number of columns. If `columns` returns fewer, the last ones are 0.

        Returns
        -------
        BasisEncoding
            The encoding, with a basis in float32.

        Raises
        ------
        LimbeckError
            If all public rows are equal, or `columns` returns another shape or other entries than it should.
        """
        basis = np.asarray(cls.columns(x, number), np.float32)
        if not basis.any():
            raise LimbeckError(
                "algorithm.queries: noisy votes need public rows that differ, but all are equal; use more queries"
            )
        if basis.ndim == 2 and basis.shape[1] < number:
            basis = np.pad(basis, ((0, 0), (0, number - basis.shape[1])))
        if basis.shape != (len(x), number) or not (np.abs(basis) < MAX_ENTRY).all():
            raise LimbeckError(
                f"a basis of shape {basis.shape}; it must have shape {(len(x), number)} and entries from -1 to 1"
            )
        return cls(basis)

    def encode(self, votes: Array) -> Array:
        """Encode the votes of one voter.

        Parameters
        ----------
        votes : array of shape (rows, classes)
            Votes of one voter, for example probabilities.

        Returns
        -------
        array of shape (components, classes)
            A vector of length 1; 0 if all rows have the same votes.
        """
        projected = self.basis.T @ (votes - votes.mean(axis=0))
        length = np.linalg.norm(projected)
        return np.asarray(projected / length if length > 1e-9 else np.zeros_like(projected))

    def decode(self, total: Array) -> Array:
        """Compute scores of all rows from the sum of encoded votes.

        Parameters
        ----------
        total : array of shape (components, classes)
            Sum of encoded votes, with noise.

        Returns
        -------
        array of shape (rows, classes)
            Scores.
        """
        return np.asarray(self.basis @ total)


@dataclass(frozen=True, slots=True)
class PrincipalComponents(BasisEncoding):
    """Principal components of the standardised public rows, followed by kernel principal components if they are few.

    Kernel principal components can separate classes that no plane separates.

    Parameters
    ----------
    basis : array of shape (rows, components)
        Orthonormal columns.
    """

    @staticmethod
    def columns(x: Array, number: int) -> Array:
        linear = _of_length_one(components(x, number))
        missing = number - linear.shape[1]
        return np.hstack([linear, kernel_components(x, linear, missing)]) if missing and linear.shape[1] else linear


def number_of_components(voters: int, mu: float, classes: int) -> int:
    """Choose the number of components from public facts: more if the sum of votes is large against the noise.

    Parameters
    ----------
    voters : int
        Number of voters.
    mu : float
        Sensitivity divided by the standard deviation of the noise.
    classes : int
        Number of classes.

    Returns
    -------
    int
        voters x mu / sqrt(2 classes), rounded, and from 5 to 40.

    Examples
    --------
    >>> number_of_components(voters=100, mu=0.5, classes=2)
    25
    """
    return int(np.clip(round(voters * mu / np.sqrt(2 * classes)), MIN_COMPONENTS, MAX_COMPONENTS))


def components(x: Array, number: int) -> Array:
    """Compute the principal components of standardised rows.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Rows.
    number : int
        Number of components.

    Returns
    -------
    array of shape (rows, number)
        Coordinates of the rows; the length of a column is its singular value. Fewer columns if there are not enough.

    Examples
    --------
    >>> components(np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]]), number=2).shape
    (3, 1)
    """
    return _strongest(_standardized(x), number)


def kernel_components(x: Array, linear: Array, number: int) -> Array:
    """Compute kernel principal components that are orthogonal to linear ones.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Rows.
    linear : array of shape (rows, components)
        Orthonormal linear principal components.
    number : int
        Number of kernel principal components.

    Returns
    -------
    array of shape (rows, number)
        Orthonormal columns; fewer if there are not enough.

    Notes
    -----
    Kernel PCA (Schoelkopf et al. 1998) with a Gaussian kernel, whose width is the mean squared distance of rows, and
    the Nystroem approximation with 500 landmarks.
    """
    values = _standardized(x)
    landmarks = values[np.linspace(0, len(values) - 1, min(len(values), LANDMARKS)).astype(int)]
    width = _distances(landmarks, landmarks).mean()
    if not width > 0:
        return np.zeros((len(values), 0))
    among, onto = (np.exp(-_distances(rows, landmarks) / (2 * width)) for rows in (landmarks, values))
    strength, vectors = np.linalg.eigh(among)
    used = strength > ROUNDING * strength.max()
    kernels = onto @ (vectors[:, used] / np.sqrt(strength[used]))
    known = np.column_stack([np.full(len(values), 1 / np.sqrt(len(values))), linear])
    rest = kernels - known @ (known.T @ kernels)
    return _of_length_one(_strongest(rest - known @ (known.T @ rest), number, float((kernels**2).sum())))


def _standardized(x: Array) -> Array:
    """Columns with mean 0 and standard deviation 1, without constant columns."""
    values = np.asarray(flat(x), np.float64)
    spread = values.std(axis=0)
    used = spread > 1e-9 * np.abs(values).max(initial=1.0)
    return np.asarray((values[:, used] - values[:, used].mean(axis=0)) / spread[used])


def _strongest(values: Array, number: int, least: float = 0.0) -> Array:
    """Principal components of columns with mean 0; the length of each is its singular value.

    Components that may come from rounding are left out: they are tiny relative to the first, or to `least`.
    """
    if not values.shape[1]:
        return np.zeros((len(values), 0))
    if values.shape[1] <= len(values):
        strength, vectors = np.linalg.eigh(values.T @ values)
        found = values @ vectors
    else:
        strength, vectors = np.linalg.eigh(values @ values.T)
        found = vectors * np.sqrt(np.maximum(strength, 0.0))
    chosen = np.argsort(strength)[::-1][:number]
    chosen = chosen[strength[chosen] > ROUNDING * max(strength.max(), least)]
    heaviest = np.abs(found[:, chosen]).argmax(axis=0)
    return np.asarray(found[:, chosen] * np.sign(found[heaviest, chosen]))


def _distances(some: Array, others: Array) -> Array:
    """Squared distances."""
    return np.asarray((some**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * some @ others.T)


def _of_length_one(columns: Array) -> Array:
    return np.asarray(columns / np.linalg.norm(columns, axis=0))
