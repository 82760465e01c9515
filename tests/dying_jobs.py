"""Jobs whose worker is killed while they run; a module of its own, which imports little, for workers import it."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from limbeck.protocol.rows import Array


@dataclass(frozen=True, slots=True)
class DyingSum:
    """Sum of rows and the seed. Kills its process until the file `journal` has `deaths` bytes."""

    rows: Array
    journal: str
    deaths: int

    def run(self, classes: int, seed: int) -> float:
        with Path(self.journal).open("ab") as file:
            if os.fstat(file.fileno()).st_size < self.deaths:
                file.write(b".")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        return float(np.sum(self.rows)) + seed
