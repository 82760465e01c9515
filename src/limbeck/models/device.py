"""Where networks are trained, and with what precision."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from limbeck.models.trainers import Precision


@dataclass(frozen=True, slots=True)
class Device:
    """A device and a precision. `tf32` rounds the factors of products, `bfloat16` stores them so, too."""

    type: str = "cpu"
    precision: Precision = "float32"

    @property
    def dtype(self) -> torch.dtype:
        """Of rows, weights and all that is summed."""
        return torch.float64 if self.precision == "float64" else torch.float32

    @property
    def halves(self) -> bool:
        return self.precision == "bfloat16"

    @contextmanager
    def numerics(self) -> Iterator[None]:
        """Rounding, kernels and threads depend on this place alone; all is as before afterwards."""
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
