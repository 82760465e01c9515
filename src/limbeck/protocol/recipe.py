"""A recipe: how a network is trained, whatever its architecture."""

from dataclasses import dataclass
from typing import Literal

from limbeck.errors import LimbeckError

Optimiser = Literal["adam", "sgd"]
Schedule = Literal["constant", "cosine"]
Loss = Literal["cross-entropy", "soft-cross-entropy", "kl", "mse", "mae"]
Augmentation = Literal["none", "flip", "crop", "crop-flip", "crop-flip-cutout"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Epochs, batches, optimiser and loss.

    Targets are class numbers for `cross-entropy`, class probabilities, times what a row weighs, for
    `soft-cross-entropy`, logits for `kl` (at the temperature), `mse` and `mae`. With `patience` a share `held_out` of
    the rows is not trained on; training stops after so many epochs without a lower loss on them and keeps the weights
    of the best epoch. `augmentation` moves images by up to four pixels (`crop`), mirrors them (`flip`) or greys a
    square half as wide as they are (`cutout`), anew at every step. `proximal` holds the weights near those that
    training starts from (FedProx).
    """

    epochs: int = 10
    batch: int = 32
    optimiser: Optimiser = "adam"
    learning_rate: float = 1e-3
    final_learning_rate: float = 0.0  # where the cosine ends
    schedule: Schedule = "constant"
    momentum: float = 0.9  # of sgd
    weight_decay: float = 0.0
    proximal: float = 0.0  # mu
    loss: Loss = "cross-entropy"
    temperature: float = 1.0
    patience: int | None = None
    held_out: float = 0.1
    augmentation: Augmentation = "none"

    def __post_init__(self) -> None:
        for key in ("epochs", "batch"):
            if getattr(self, key) < 1:
                raise LimbeckError(f"{key} must be at least 1, not {getattr(self, key)}")
        for key in ("learning_rate", "temperature"):
            if not getattr(self, key) > 0:
                raise LimbeckError(f"{key} must be above 0, not {getattr(self, key)}")
        for key in ("final_learning_rate", "momentum", "weight_decay", "proximal"):
            if not getattr(self, key) >= 0:
                raise LimbeckError(f"{key} must be at least 0, not {getattr(self, key)}")
        if self.patience is not None and self.patience < 1:
            raise LimbeckError(f"patience must be at least 1, not {self.patience}")
        if not 0 < self.held_out < 1:
            raise LimbeckError(f"held_out must be a share between 0 and 1, not {self.held_out}")
