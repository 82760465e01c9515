"""Device and precision with which networks are trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from limbeck.models.trainers import Precision


@dataclass(frozen=True, slots=True)
class Device:
    """A device and a precision.

    Parameters
    ----------
    type : str
        `cpu` or `cuda`.
    precision : {"float32", "tf32", "bfloat16", "float64"}
        `tf32` rounds the factors of products; `bfloat16` also stores them in this precision.
    """

    type: str = "cpu"
    precision: Precision = "float32"

    @property
    def dtype(self) -> torch.dtype:
        """Type of rows, weights and sums."""
        return torch.float64 if self.precision == "float64" else torch.float32

    @property
    def halves(self) -> bool:
        """Whether the factors of products have half precision."""
        return self.precision == "bfloat16"

    @contextmanager
    def numerics(self) -> Iterator[None]:
        """Context in which rounding, kernels and threads depend on this device and precision only."""
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        before = (cudnn.allow_tf32, matmul.allow_tf32, cudnn.deterministic, cudnn.benchmark)
        rounded, threads = self.precision == "tf32", torch.get_num_threads()
        if self.type == "cpu":
            torch.set_num_threads(1)
        cudnn.allow_tf32, matmul.allow_tf32, cudnn.deterministic, cudnn.benchmark = rounded, rounded, True, False
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            cudnn.allow_tf32, matmul.allow_tf32, cudnn.deterministic, cudnn.benchmark = before


CPU = Device()
