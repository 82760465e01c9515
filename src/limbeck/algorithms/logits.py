"""The messages of FedKD: logits, levels of logits or labels, in as few bytes as they need."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.quantize import ends, nearest_levels, packed, quantized, scores_of, unpacked
from limbeck.protocol.messages import Reply, Request, check_array
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Site

NOTHING = np.empty(0)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How logits travel: as labels, as `scale` levels of [-bound, bound], or clipped where there is no scale.

    `noised` scores may lie outside of the bound.
    """

    labels: bool
    bound: float
    scale: int | None
    noised: bool = False

    def encode(self, logits: Array, noise: Callable[[Array], Array] | None = None) -> tuple[bytes, int, int, Array]:
        """Packed levels with their bits and the least of them, or scores; with noise put on the scores first."""
        if not np.isfinite(logits).all():
            return b"", 0, 0, NOTHING
        if self.labels:
            return *packed(logits.argmax(axis=1)[:, None]), NOTHING
        if self.scale is None:
            clipped = np.clip(logits, -self.bound, self.bound) if noise is None else noise(logits.astype(np.float64))
            return b"", 0, 0, clipped.astype(np.float32)
        levels = quantized(logits, self.bound, self.scale)
        if noise is not None:
            levels = nearest_levels(noise(scores_of(levels, self.bound, self.scale)), self.bound, self.scale)
        return *packed(levels), NOTHING

    def decode(self, reply: "Predictions", rows: int, classes: int) -> Array:
        """The levels, labels or scores [rows, columns]; an error where they are not in the range of this encoding."""
        columns = 1 if self.labels else classes
        if reply.packed:
            found = unpacked(reply.packed, reply.bits, reply.least, rows, columns)
        else:
            check_array(found := reply.scores, (rows, columns))
        check_array(found, (rows, columns), *self._range(classes))
        return found

    def scores(self, decoded: Array) -> Array:
        return decoded if self.scale is None else scores_of(decoded, self.bound, self.scale)

    def _range(self, classes: int) -> tuple[float, float]:
        if self.labels:
            return 0, classes - 1
        if self.noised:
            return -math.inf, math.inf
        limit = float(np.float32(self.bound))  # as it travels
        return (-limit, limit) if self.scale is None else ends(self.scale)


@dataclass(frozen=True, slots=True)
class Predictions(Reply):
    """What a party's model predicts: packed levels or labels, or scores [rows, classes]; and its rows by class."""

    packed: bytes
    bits: int
    least: int
    scores: Array
    counts: Array

    def check(self, request: Any, site: Site, algorithm: Any) -> None:
        check_array(self.counts, (site.classes,) if algorithm.uses_counts else (0,), -1e9, 1e9)
        algorithm.encoding.decode(self, algorithm.views * len(algorithm.queried(site)), site.classes)


@dataclass(frozen=True, slots=True)
class PredictViews(Request[Predictions]):
    """Train your model, and predict the public rows, in the views that the seed gives."""

    seed: int

    def check(self, site: Site, algorithm: Any) -> None:
        if not 0 <= self.seed < 2**31:
            raise LimbeckError(f"views are made with a seed from 0 to {2**31 - 1}, not {self.seed}")
