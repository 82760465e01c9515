"""Encodings: how a voter's votes on public rows become the vector that leaves it, and how a sum of such is read.

An encoding depends on public rows alone. Without noise a vote stands for each row (`PerRow`). With noise a few
principal components of the public rows do (`PrincipalComponents`): their columns are orthonormal, so that an encoded
vote is no longer than the vote, and noise on so few numbers spreads over all rows.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array, flat

MIN_COMPONENTS, MAX_COMPONENTS = 5, 40
LANDMARKS = 500  # rows that have a kernel around them
ROUNDING = 1e-9  # what is weaker than that beside the strongest may be rounding
MAX_ENTRY = 1.001  # entry of an orthonormal basis, with room for rounding


class PerRow:
    """Votes as they are."""

    basis: ClassVar[Array] = np.empty(0)

    def encode(self, votes: Array) -> Array:
        return votes

    def decode(self, total: Array) -> Array:
        return total


@dataclass(frozen=True, slots=True)
class BasisEncoding(ABC):
    """Votes centred, projected onto an orthonormal basis [rows, components], and scaled to length 1.

    `sensitivity` is the largest L2 distance between the encoded votes of two voters, or of one voter and none.
    """

    basis: Array
    sensitivity: ClassVar[float] = 2.0

    @staticmethod
    @abstractmethod
    def columns(x: Array, number: int) -> Array:
        """An orthonormal basis of public rows: [rows, number], or fewer columns where there are no more."""

    @classmethod
    def fit(cls, x: Array, number: int) -> Self:
        """From public rows; where the basis has fewer columns than asked for, the last ones are 0."""
        basis = cls.columns(x, number)
        if not basis.any():
            raise LimbeckError("algorithm.queries: the public rows are all alike, so that noisy votes tell nothing")
        return cls(np.pad(basis, ((0, 0), (0, number - basis.shape[1]))).astype(np.float32))

    def check(self, rows: int, number: int) -> None:
        """Raise unless the basis has this shape and entries such that every length can be computed."""
        if self.basis.shape != (rows, number) or not (np.abs(self.basis) < MAX_ENTRY).all():
            raise LimbeckError(f"a basis of shape {self.basis.shape}, not {(rows, number)} numbers up to 1")

    def encode(self, votes: Array) -> Array:
        """[components, classes]; 0 where all rows have the same votes."""
        projected = self.basis.T @ (votes - votes.mean(axis=0))
        length = np.linalg.norm(projected)
        return np.asarray(projected / length if length > 1e-9 else np.zeros_like(projected))

    def decode(self, total: Array) -> Array:
        return np.asarray(self.basis @ total)


@dataclass(frozen=True, slots=True)
class PrincipalComponents(BasisEncoding):
    """Principal components of the standardised public rows.

    Where these are fewer than asked for, kernel principal components follow, so that classes that no plane separates
    are told apart too.
    """

    @staticmethod
    def columns(x: Array, number: int) -> Array:
        linear = _of_length_one(components(x, number))
        missing = number - linear.shape[1]
        return np.hstack([linear, kernel_components(x, linear, missing)]) if missing and linear.shape[1] else linear


def number_of_components(voters: float, mu: float, classes: int) -> int:
    """As many as the voters' sum can carry: the more the larger it is against the noise, 2 / mu."""
    return int(np.clip(round(voters * mu / np.sqrt(2 * classes)), MIN_COMPONENTS, MAX_COMPONENTS))


def components(x: Array, number: int) -> Array:
    """[rows, number]: the rows in their principal components, each as long as it is strong; fewer where no more are."""
    return _strongest(_standardized(x), number)


def kernel_components(x: Array, linear: Array, number: int) -> Array:
    """[rows, number]: the strongest kernel principal components, orthogonal to the `linear` ones.

    Schoelkopf et al. 1998, with a Gaussian kernel as wide as the mean distance of rows, by Nystroem's approximation
    from some of the rows.
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
    chosen = np.argsort(strength)[::-1][:number]
    chosen = chosen[strength[chosen] > ROUNDING * max(strength.max(), least)]
    heaviest = np.abs(found[:, chosen]).argmax(axis=0)
    return np.asarray(found[:, chosen] * np.sign(found[heaviest, chosen]))


def _distances(some: Array, others: Array) -> Array:
    """Squared distances."""
    return np.asarray((some**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * some @ others.T)


def _of_length_one(columns: Array) -> Array:
    return np.asarray(columns / np.linalg.norm(columns, axis=0))
