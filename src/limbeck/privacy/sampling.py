"""Where noise comes from: seeded for simulations, the operating system's generator for real runs.

NumPy's floating-point noise leaks through its low bits when noisy numbers are published, so a real run uses whole
numbers with discrete noise (Laplace, Gaussian) or exact comparisons (Gumbel), all from OpenDP. Accountants know which:
figures for continuous noise are no theorems for discrete noise.
"""

import math
import os
import secrets
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.release import Noise, NoiseSource
from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream

MAX_STEPS = 2**62  # of values on it, so that noise fits beside them; larger ones are clipped, never refused
GRID_STEPS = 2**20  # at least so many steps of the grid of noisy real numbers are in one standard deviation


@dataclass(frozen=True, slots=True)
class Simulated:
    """Continuous noise from a seeded stream: the same seed, the same noise. Never for real rows."""

    rng: np.random.Generator
    noise: ClassVar[Noise] = "simulated"

    def laplace_max(self, votes: Array, scale: float) -> Array:
        return _leader(votes + self.rng.laplace(scale=scale, size=votes.shape))

    def gumbel_max(self, votes: Array, scale: float) -> Array:
        return _leader(votes + self.rng.gumbel(scale=scale, size=votes.shape))

    def gaussian_max(self, votes: Array, sigma: float) -> Array:
        return _leader(self.gaussian(votes, sigma))

    def gaussian(self, values: Array, sigma: float) -> Array:
        return np.asarray(values + self.rng.normal(scale=sigma, size=values.shape))

    def laplace(self, values: Array, scale: float) -> Array:
        return np.asarray(values + self.rng.laplace(scale=scale, size=values.shape))

    def subset(self, size: int, count: int, replacement: bool) -> Array:
        return self.rng.choice(size, count, replace=replacement)


@dataclass(frozen=True, slots=True)
class Secure:
    """Exact noise from the operating system's generator; nothing of it is ever written down."""

    noise: ClassVar[Noise] = "secure"

    def laplace_max(self, votes: Array, scale: float) -> Array:
        """Two-sided geometric noise on whole counts; ties at random."""
        return _leader_at_random(_discrete("laplace", _whole(votes), scale))

    def gumbel_max(self, votes: Array, scale: float) -> Array:
        """Exact continuous Gumbel noise, compared bit by bit as far as it takes."""
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
        choose = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)
        return np.array([choose(counts) for counts in _whole(votes).tolist()], np.int64)

    def gaussian_max(self, votes: Array, sigma: float) -> Array:
        """Discrete Gaussian noise on whole counts; ties at random."""
        return _leader_at_random(_discrete("gaussian", _whole(votes), sigma))

    def gaussian(self, values: Array, sigma: float) -> Array:
        """Discrete Gaussian noise: on whole numbers as they are, on others in steps of a grid."""
        return _on_a_grid("gaussian", values, sigma)

    def laplace(self, values: Array, scale: float) -> Array:
        """Two-sided geometric noise: on whole numbers as they are, on others in steps of a grid."""
        return _on_a_grid("laplace", values, scale)

    def subset(self, size: int, count: int, replacement: bool) -> Array:
        if replacement:
            return np.array([secrets.randbelow(size) for _ in range(count)], np.int64)
        return np.argsort(_random(size), kind="stable")[:count]


def sampler_for(source: NoiseSource) -> Simulated | Secure:
    """The sampler of one release; a simulated one depends on the seed and the purpose alone."""
    return Secure() if source.noise == "secure" else Simulated(stream(source.seed, *source.purpose))


def grid_of(scale: float) -> float:
    """The step of the grid that noisy real numbers lie on: a power of two, so that nothing rounds."""
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
    """The largest of each row; among equals one at random, all alike likely."""
    leads = noisy == noisy.max(axis=1, keepdims=True)
    tie_breakers = _random(noisy.size).reshape(noisy.shape) >> np.uint64(1)
    return np.asarray(np.where(leads, tie_breakers.astype(np.int64), -1).argmax(axis=1))


def _random(count: int) -> Array:
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def _whole(votes: Array) -> Array:
    whole = np.asarray(votes)
    if whole.dtype.kind not in "iub":
        if not np.array_equal(whole, np.rint(whole)):
            raise LimbeckError("secure noise takes whole counts of votes")
        whole = np.rint(whole).astype(np.int64)
    return whole


def _discrete(kind: str, values: Array, scale: float) -> Array:
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T=dp.i64))
    if kind == "laplace":
        add = dp.m.make_laplace(domain, dp.l1_distance(T=dp.i64), scale=scale)
    else:
        add = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
    return np.array(add(values.ravel().tolist()), np.int64).reshape(values.shape)


def _opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise LimbeckError("secure noise needs a package: pip install 'limbeck[privacy]'") from error
    dp.enable_features("contrib")
    return dp
