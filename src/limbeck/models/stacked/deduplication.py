"""All jobs' rows and targets on a device, each array once."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from torch import Tensor

from limbeck.models.caching import address
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


def piled(jobs: Sequence[FitJob[Any]], device: Device) -> Piled:
    rows, rows_at = _deduplicated([job.rows for job in jobs])
    targets, targets_at = _deduplicated([job.targets for job in jobs])
    return Piled(*on(device, rows, targets), list(zip(rows_at, targets_at, strict=True)))


def _deduplicated(arrays: Sequence[Array]) -> tuple[Array, list[int]]:
    """The different ones among arrays, one after the other, and where each of the arrays begins."""
    different = {address(array): array for array in arrays}
    begins = dict(zip(different, accumulate(map(len, different.values()), initial=0), strict=False))
    return np.concatenate(list(different.values())), [begins[address(array)] for array in arrays]
