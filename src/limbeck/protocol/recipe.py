"""A recipe: how a network is trained, whatever its architecture."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from limbeck.tables import Above0, NotNegative, Positive, check_fields

Optimizer = Literal["adam", "sgd"]
Schedule = Literal["constant", "cosine"]
Loss = Literal["cross-entropy", "soft-cross-entropy", "kl", "mse", "mae"]
Augmentation = Literal["none", "flip", "crop", "crop-flip", "crop-flip-cutout"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Epochs, batches, optimizer and loss.

    Targets are class numbers for `cross-entropy`, class probabilities, times what a row weighs, for
    `soft-cross-entropy`, logits for `kl` (at the temperature), `mse` and `mae`. With `patience` a share `held_out` of
    the rows is not trained on; training stops after so many epochs without a lower loss on them and keeps the weights
    of the best epoch. `augmentation` moves images by up to four pixels (`crop`), mirrors them (`flip`) or greys a
    square half as wide as they are (`cutout`), anew at every step. `proximal` holds the weights near those that
    training starts from (FedProx).
    """

    epochs: Positive = 10
    batch: Positive = 32
    optimizer: Optimizer = "adam"
    learning_rate: Above0 = 1e-3
    final_learning_rate: NotNegative = 0.0  # where the cosine ends
    schedule: Schedule = "constant"
    momentum: NotNegative = 0.9  # of sgd
    weight_decay: NotNegative = 0.0
    proximal: NotNegative = 0.0  # mu
    loss: Loss = "cross-entropy"
    temperature: Above0 = 1.0
    patience: Positive | None = None
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    augmentation: Augmentation = "none"

    def __post_init__(self) -> None:
        check_fields(self)
