"""Recipes: how a network of any architecture is trained."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from limbeck.tables import Above0, NotNegative, Positive, check_fields

Optimizer = Literal["adam", "sgd"]
Schedule = Literal["constant", "cosine"]
Loss = Literal["cross-entropy", "soft-cross-entropy", "binary-cross-entropy", "kl", "mse", "mae"]
Augmentation = Literal["none", "flip", "crop", "crop-flip", "crop-flip-cutout"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a network is trained: epochs, batches, optimizer and loss.

    Parameters
    ----------
    epochs : int
        Number of epochs; the largest number with `patience`.
    batch : int
        Rows in a batch.
    optimizer : {"adam", "sgd"}
        Optimizer.
    learning_rate : float
        Learning rate, at the start.
    final_learning_rate : float
        Learning rate at the end of a cosine schedule.
    schedule : {"constant", "cosine"}
        How the learning rate changes.
    momentum : float
        Momentum of `sgd`.
    weight_decay : float
        Weight decay of the optimizer.
    proximal : float
        The mu of FedProx: the loss gets mu/2 times the squared distance to the weights at the start.
    loss : {"cross-entropy", "soft-cross-entropy", "binary-cross-entropy", "kl", "mse", "mae"}
        Loss. It decides what the targets are, see Notes. With several labels a row, `cross-entropy` means
        `binary-cross-entropy`, and for numbers `mse`.
    temperature : float
        Temperature of `kl`.
    patience : int or None
        Number of epochs without a lower loss on the held-out rows after which training stops. The weights of the best
        epoch are kept. None for all epochs.
    held_out : float
        Share of the rows that `patience` holds out.
    augmentation : {"none", "flip", "crop", "crop-flip", "crop-flip-cutout"}
        How images change at every step: mirrored (`flip`), moved by up to four pixels (`crop`), with a gray square of
        half their width (`cutout`).

    Raises
    ------
    LimbeckError
        If a value has a wrong type or is out of range; the message names the parameter.

    Notes
    -----
    The targets are class numbers for `cross-entropy`. For `soft-cross-entropy` they are class probabilities times the
    weight of the row, for `binary-cross-entropy` 0 or 1 for each class (-1 is left out), and for `kl`, `mse` and `mae`
    they are logits, or numbers.

    Examples
    --------
    >>> from limbeck import Recipe
    >>> recipe = Recipe(epochs=20, optimizer="sgd", learning_rate=0.01, schedule="cosine")
    >>> recipe.batch
    32
    >>> Recipe(epochs=0)
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: epochs = 0: Input should be greater than or equal to 1
    """

    epochs: Positive = 10
    batch: Positive = 32
    optimizer: Optimizer = "adam"
    learning_rate: Above0 = 1e-3
    final_learning_rate: NotNegative = 0.0
    schedule: Schedule = "constant"
    momentum: NotNegative = 0.9
    weight_decay: NotNegative = 0.0
    proximal: NotNegative = 0.0
    loss: Loss = "cross-entropy"
    temperature: Above0 = 1.0
    patience: Positive | None = None
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    augmentation: Augmentation = "none"

    def __post_init__(self) -> None:
        check_fields(self)
