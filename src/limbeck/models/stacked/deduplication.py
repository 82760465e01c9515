"""All jobs' rows and targets on a device, each array once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from limbeck.models.device import Device
from limbeck.models.jobs import FitJob
from limbeck.models.torch import on
from limbeck.protocol.rows import Array


@dataclass(frozen=True, slots=True)
class Piled:
    """Rows and targets one after the other; `offsets` says where each job's begin."""

    rows: Tensor
    targets: Tensor
    offsets: list[tuple[int, int]]


def piled(jobs: Sequence[FitJob[Any]], place: Device) -> Piled:
    rows, targets = _Deduplicated(), _Deduplicated()
    offsets = [(rows.put(job.rows), targets.put(job.targets)) for job in jobs]
    return Piled(*on(place, np.concatenate(rows.arrays), np.concatenate(targets.arrays)), offsets)


def address(array: Array) -> Any:
    """The same for the same values in the same memory."""
    return (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)


@dataclass(slots=True)
class _Deduplicated:
    arrays: list[Array] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)
    height: int = 0

    def put(self, array: Array) -> int:
        """Where the array begins; it is put down if it does not lie here yet."""
        if (known := self.places.get(address(array))) is not None:
            return known
        self.places[address(array)] = begins = self.height
        self.arrays.append(array)
        self.height += len(array)
        return begins
