"""Samplers of noise: seeded for simulations, from the operating system's generator for real runs.

NumPy's floating-point noise leaks through its low bits when noisy numbers are published. A real run therefore uses
whole numbers with discrete noise (Laplace, Gaussian) or exact comparisons (Gumbel), all from OpenDP. Accountants
distinguish the two: a theorem about continuous noise does not hold for discrete noise.
"""

import math
import os
import secrets
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.errors import LimbeckError, missing_extra
from limbeck.protocol.release import Noise, NoiseSource
from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream

MAX_STEPS = 2**62  # largest value in grid steps, so that the noisy value fits into 64 bits; larger ones are clipped
GRID_STEPS = 2**20  # least number of grid steps in one noise scale


@dataclass(frozen=True, slots=True)
class Simulated:
    """Sampler of continuous noise from a seeded stream: the same seed gives the same noise. Not for real rows.

    Parameters
    ----------
    rng : numpy.random.Generator
        The stream.
    """

    rng: np.random.Generator
    noise: ClassVar[Noise] = "simulated"

    def laplace_max(self, votes: Array, scale: float) -> Array:
        """Class with the largest count after Laplace noise, for each query."""
        return _leader(votes + self.rng.laplace(scale=scale, size=votes.shape))

    def gumbel_max(self, votes: Array, scale: float) -> Array:
        """Class with the largest count after Gumbel noise, for each query."""
        return _leader(votes + self.rng.gumbel(scale=scale, size=votes.shape))

    def gaussian_max(self, votes: Array, sigma: float) -> Array:
        """Class with the largest count after Gaussian noise, for each query."""
        return _leader(self.gaussian(votes, sigma))

    def gaussian(self, values: Array, sigma: float) -> Array:
        """Values with Gaussian noise on each."""
        return np.asarray(values + self.rng.normal(scale=sigma, size=values.shape))

    def laplace(self, values: Array, scale: float) -> Array:
        """Values with Laplace noise on each."""
        return np.asarray(values + self.rng.laplace(scale=scale, size=values.shape))

    def subset(self, size: int, count: int, replacement: bool) -> Array:
        """`count` random positions from 0 to `size` - 1."""
        return self.rng.choice(size, count, replace=replacement)


@dataclass(frozen=True, slots=True)
class Secure:
    """Sampler of exact noise from the operating system's generator. The noise itself is never recorded."""

    noise: ClassVar[Noise] = "secure"

    def laplace_max(self, votes: Array, scale: float) -> Array:
        """Class with the largest count after two-sided geometric noise, for each query. Ties are broken at random."""
        return _leader_at_random(_discrete("laplace", _whole(votes), scale))

    def gumbel_max(self, votes: Array, scale: float) -> Array:
        """Class with the largest count after continuous Gumbel noise, for each query, by exact comparison."""
        dp = load_opendp()
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
        choose = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)
        return np.array([choose(counts) for counts in _whole(votes).tolist()], np.int64)

    def gaussian_max(self, votes: Array, sigma: float) -> Array:
        """Class with the largest count after discrete Gaussian noise, for each query. Ties are broken at random."""
        return _leader_at_random(_discrete("gaussian", _whole(votes), sigma))

    def gaussian(self, values: Array, sigma: float) -> Array:
        """Values with discrete Gaussian noise: in whole numbers on integers, in steps of a grid on real numbers."""
        return _on_a_grid("gaussian", values, sigma)

    def laplace(self, values: Array, scale: float) -> Array:
        """Values with two-sided geometric noise: in whole numbers on integers, in steps of a grid on real numbers."""
        return _on_a_grid("laplace", values, scale)

    def subset(self, size: int, count: int, replacement: bool) -> Array:
        """`count` random positions from 0 to `size` - 1."""
        if replacement:
            return np.array([secrets.randbelow(size) for _ in range(count)], np.int64)
        return np.argsort(_random(size), kind="stable")[:count]


def sampler_for(source: NoiseSource) -> Simulated | Secure:
    """Sampler for one release.

    Parameters
    ----------
    source : NoiseSource
        The kind of noise. For simulated noise also the seed and the purpose, on which alone the noise depends.

    Returns
    -------
    Simulated or Secure
        Sampler with the methods `laplace`, `gaussian`, `laplace_max`, `gumbel_max`, `gaussian_max` and `subset`.
        Methods ending in `_max` take counts of shape (queries, classes) and return classes of shape (queries,).

    Examples
    --------
    >>> votes = np.array([[20, 5], [3, 22]])
    >>> sampler_for(NoiseSource("simulated", seed=0, purpose=("labels",))).gumbel_max(votes, scale=2.0)
    array([0, 1])
    """
    return Secure() if source.noise == "secure" else Simulated(stream(source.seed, *source.purpose))


def grid_of(scale: float) -> float:
    """Step of the grid that noisy real numbers lie on.

    Parameters
    ----------
    scale : float
        Scale of the noise.

    Returns
    -------
    float
        A power of two, so that multiples of it are exact, of at most scale / 2^20.

    Examples
    --------
    >>> grid_of(1.5) == grid_of(1.0) == 2.0**-20
    True
    """
    return float(2.0 ** math.floor(math.log2(scale)) / GRID_STEPS)


def _on_a_grid(kind: str, values: Array, scale: float) -> Array:
    if values.dtype.kind in "iub":
        return _discrete(kind, values, scale)
    step = grid_of(scale)
    steps = np.clip(np.rint(np.asarray(values, np.float64) / step), -MAX_STEPS, MAX_STEPS)
    return _discrete(kind, steps.astype(np.int64), scale / step) * step


def _leader(noisy: Array) -> Array:
    return np.asarray(noisy.argmax(axis=1))


def _leader_at_random(noisy: Array) -> Array:
    """Position of the largest value of each row. Among equal values each is equally likely."""
    leads = noisy == noisy.max(axis=1, keepdims=True)
    tie_breakers = _random(noisy.size).reshape(noisy.shape) >> np.uint64(1)
    return np.asarray(np.where(leads, tie_breakers.astype(np.int64), -1).argmax(axis=1))


def _random(count: int) -> Array:
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def _whole(votes: Array) -> Array:
    whole = np.asarray(votes)
    if whole.dtype.kind not in "iub":
        if not np.array_equal(whole, np.rint(whole)):
            raise LimbeckError("secure noise needs whole counts of votes, but some counts have fractions")
        whole = np.rint(whole).astype(np.int64)
    return whole


def _discrete(kind: str, values: Array, scale: float) -> Array:
    dp = load_opendp()
    domain = dp.vector_domain(dp.atom_domain(T=dp.i64))
    if kind == "laplace":
        add = dp.m.make_laplace(domain, dp.l1_distance(T=dp.i64), scale=scale)
    else:
        add = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
    return np.array(add(values.ravel().tolist()), np.int64).reshape(values.shape)


def load_opendp() -> Any:
    """Import OpenDP, or raise LimbeckError that says how to install it."""
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise missing_extra("secure noise", "privacy") from error
    dp.enable_features("contrib")
    return dp
