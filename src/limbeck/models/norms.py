"""Batch norm that remembers by rows."""

from torch import Tensor, nn


class NormByRows(nn.BatchNorm2d):
    """Batch norm whose averages go by rows, not by batches: each row takes the place of a share of what is known.

    A batch of a few private rows moves them little, one of many public rows much. With one share for every batch,
    either a few rows make it forget all others, or the averages lag behind weights that change quickly.
    """

    def __init__(self, channels: int, eps: float, forgets: float) -> None:
        super().__init__(channels, eps=eps)
        self.forgets = forgets

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.momentum = 1 - (1 - self.forgets) ** len(x)
        return super().forward(x)
