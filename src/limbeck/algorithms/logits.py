"""The messages of FedKD: logits, quantized logits or labels, in few bytes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.quantize import ends, nearest_levels, packed, quantized, scores_of, unpacked
from limbeck.protocol.messages import Reply, Request, check_array, check_counts
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Site

NOTHING = np.empty(0)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How logits travel: as labels, as quantized levels, or clipped.

    Parameters
    ----------
    labels : bool
        Whether only the class of the largest logit travels.
    bound : float
        Logits are clipped to [-bound, bound].
    scale : int or None
        Number of quantization levels; None turns quantization off.
    noised : bool
        Whether the party adds noise, so that scores may exceed the bound.

    Examples
    --------
    >>> encoding = Encoding(labels=False, bound=10.0, scale=None)
    >>> encoding.encode(np.array([[12.0, -3.0]]))[-1]
    array([[10., -3.]], dtype=float32)
    """

    labels: bool
    bound: float
    scale: int | None
    noised: bool = False

    def encode(self, logits: Array, noise: Callable[[Array], Array] | None = None) -> tuple[bytes, int, int, Array]:
        """Encode logits, adding noise if given.

        Parameters
        ----------
        logits : array of shape (rows, classes)
            The logits; if any is not finite, the result is empty.
        noise : callable or None
            Adds noise to scores.

        Returns
        -------
        packed : bytes
            The levels or labels; empty if scores travel.
        bits : int
            Bits per packed value.
        least : int
            The smallest packed value.
        scores : array of shape (rows, classes)
            The scores; empty if levels or labels travel.
        """
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
        """Decode a reply.

        Parameters
        ----------
        reply : Predictions
            The reply.
        rows, classes : int
            The number of rows and of classes.

        Returns
        -------
        array of shape (rows, classes)
            Levels or scores; labels have the shape (rows, 1).

        Raises
        ------
        LimbeckError
            If shape or values are not possible in this encoding.
        """
        columns = 1 if self.labels else classes
        if reply.packed:
            found = unpacked(reply.packed, reply.bits, reply.least, rows, columns)
        else:
            check_array(found := reply.scores, (rows, columns))
        check_array(found, (rows, columns), *self._range(classes))
        return found

    def scores(self, decoded: Array) -> Array:
        """Turn decoded levels into scores; scores stay as they are."""
        return decoded if self.scale is None else scores_of(decoded, self.bound, self.scale)

    def _range(self, classes: int) -> tuple[float, float]:
        if self.labels:
            return 0, classes - 1
        if self.noised:
            return -math.inf, math.inf
        limit = float(np.float32(self.bound))  # scores travel as float32
        return (-limit, limit) if self.scale is None else ends(self.scale)


@dataclass(frozen=True, slots=True)
class Predictions(Reply):
    """The predictions of a party's model, and its class counts.

    Parameters
    ----------
    packed : bytes
        Packed levels or labels; empty if scores travel.
    bits : int
        Bits per packed value.
    least : int
        The smallest packed value.
    scores : array of shape (rows, classes)
        Scores; empty if levels or labels travel.
    counts : array of shape (classes,)
        Rows of each class, possibly with noise; empty if not used.
    """

    packed: bytes
    bits: int
    least: int
    scores: Array
    counts: Array

    def check(self, request: Any, site: Site, algorithm: Any) -> None:
        check_counts(self.counts, site.classes if algorithm.uses_counts else 0, are_exact=algorithm.sends_counts)
        algorithm.encoding.decode(self, algorithm.views * len(algorithm.queried(site)), site.classes)


@dataclass(frozen=True, slots=True)
class PredictViews(Request[Predictions]):
    """Train a model, and predict the views of the public rows.

    Parameters
    ----------
    seed : int
        The seed of the views' augmentation, from 0 to 2**31 - 1.
    """

    seed: int

    def check(self, site: Site, algorithm: Any) -> None:
        if not 0 <= self.seed < 2**31:
            raise LimbeckError(f"seed = {self.seed}: the seed of the views must be from 0 to {2**31 - 1}")
