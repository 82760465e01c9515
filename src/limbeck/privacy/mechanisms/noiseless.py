"""Values that leave without noise: post-processing, and unprotected ones."""

import math
from dataclasses import dataclass
from typing import Any

from limbeck.privacy.events import DpEvent, Mechanism
from limbeck.privacy.losses import Loss, NoLoss, Unbounded
from limbeck.protocol.release import NoiseSource


class _Unchanged(Mechanism):
    """A mechanism that does not change the value."""

    __slots__ = ()
    noisy = False
    unit = "any"
    adjacency = "any"

    def protect(self, value: Any, source: NoiseSource) -> Any:
        return value


@dataclass(frozen=True, slots=True)
class PostProcessing(_Unchanged):
    """No noise, because the value is computed from public rows and earlier releases of this site. Epsilon is 0.

    Examples
    --------
    >>> PostProcessing().loss(DpEvent(PostProcessing(), queries=1))
    NoLoss()
    """

    name = "post-processing"
    sensitivity = 0.0

    def loss(self, event: DpEvent) -> Loss:
        return NoLoss()


@dataclass(frozen=True, slots=True)
class Unprotected(_Unchanged):
    """No noise: epsilon is infinite towards whoever sees the value, under every neighbour relation.

    It takes no parameters.

    Examples
    --------
    >>> Unprotected().protect([1, 2], NoiseSource("simulated", seed=0, purpose=("labels",)))
    [1, 2]
    >>> DpEvent(Unprotected(), queries=1).is_unprotected
    True
    """

    name = "unprotected"
    sensitivity = math.inf

    def loss(self, event: DpEvent) -> Loss:
        return Unbounded()
