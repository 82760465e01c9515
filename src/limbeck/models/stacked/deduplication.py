"""Rows and targets of all jobs on a device, each array once."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from torch import Tensor

from limbeck.models.caching import address
from limbeck.models.descent import weighted_targets
from limbeck.models.device import Device
from limbeck.models.jobs import FitJob
from limbeck.models.torch import on
from limbeck.protocol.rows import Array


@dataclass(frozen=True, slots=True)
class DeduplicatedRows:
    """Rows and targets of several jobs, one after the other.

    Parameters
    ----------
    rows : Tensor
        All rows.
    targets : Tensor
        All targets.
    offsets : list of (int, int)
        For each job the positions of its first row and of its first target.
    """

    rows: Tensor
    targets: Tensor
    offsets: list[tuple[int, int]]


def deduplicated(jobs: Sequence[FitJob[Any]], device: Device) -> DeduplicatedRows:
    """Put the rows and targets of jobs on a device; an array that several jobs share is stored once."""
    rows, rows_at = _joined([job.rows for job in jobs])
    targets, targets_at = _joined([weighted_targets(job.targets, job.weight) for job in jobs])
    return DeduplicatedRows(*on(device, rows, targets), list(zip(rows_at, targets_at, strict=True)))


def _joined(arrays: Sequence[Array]) -> tuple[Array, list[int]]:
    """All different arrays, one after the other, and the position at which each of the given arrays begins."""
    different = {address(array): array for array in arrays}
    begins = dict(zip(different, accumulate(map(len, different.values()), initial=0), strict=False))
    return np.concatenate(list(different.values())), [begins[address(array)] for array in arrays]
