"""Networks for texts, each made for the length of a row of token numbers and a number of classes."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from limbeck.errors import LimbeckError

Shape = tuple[int, ...]
MAX_NUMBER = 2.0**24  # whole numbers up to this are exact in float32
BUCKETS = 2**14


class TokenEmbedding(nn.Module):
    """Embeddings of token numbers; that of 0, no token, is always 0.

    Parameters
    ----------
    buckets : int
        Number of embeddings. A token has that of its number's remainder.
    size : int
        Numbers in an embedding.

    Notes
    -----
    Initial values are uniform in (-0.25, 0.25), as in Kim (2014).
    """

    def __init__(self, buckets: int, size: int) -> None:
        super().__init__()
        self.buckets = buckets
        self.weight = nn.Parameter(torch.empty(buckets, size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new embeddings."""
        nn.init.uniform_(self.weight, -0.25, 0.25)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x.flatten(1)
        numbers = torch.where(rows > 0, rows, 0.0).clamp(max=MAX_NUMBER).floor()  # NaN becomes 0
        there = (numbers > 0).to(self.weight.dtype).unsqueeze(2)
        bucket = numbers - (numbers / self.buckets).floor() * self.buckets
        return nn.functional.embedding(bucket.long(), self.weight) * there, there


class BagOfEmbeddings(nn.Module):
    """Mean of the embeddings of a text, and a linear layer.

    Parameters
    ----------
    classes : int
        Number of classes.
    buckets : int
        Number of embeddings.
    size : int
        Numbers in an embedding.
    """

    def __init__(self, classes: int, buckets: int, size: int) -> None:
        super().__init__()
        self.embedding, self.linear = TokenEmbedding(buckets, size), nn.Linear(size, classes)

    def forward(self, x: Tensor) -> Tensor:
        found, there = self.embedding(x)
        return torch.as_tensor(self.linear(found.sum(1) / there.sum(1).clamp(min=1)))


class TextCnn(nn.Module):
    """Convolutions of several widths over the tokens of a text, the maximum of each filter, and a linear layer.

    Parameters
    ----------
    classes : int
        Number of classes.
    buckets : int
        Number of embeddings.
    size : int
        Numbers in an embedding.
    widths : sequence of int
        Widths of the convolutions, in tokens.
    filters : int
        Filters of each width.
    dropout : float
        Share of the maxima that are dropped.
    """

    def __init__(
        self, classes: int, buckets: int, size: int, widths: Sequence[int], filters: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding, self.widths = TokenEmbedding(buckets, size), tuple(widths)
        self.convolutions = nn.ModuleList(nn.Linear(width * size, filters) for width in self.widths)
        self.dropout, self.linear = nn.Dropout(dropout), nn.Linear(filters * len(self.widths), classes)

    def forward(self, x: Tensor) -> Tensor:
        found, _ = self.embedding(x)
        largest = []
        for width, convolution in zip(self.widths, self.convolutions, strict=True):
            places = found.shape[1] - width + 1
            windows = torch.cat([found[:, start : start + places] for start in range(width)], dim=2)
            largest.append(torch.relu(convolution(windows)).amax(1))
        return torch.as_tensor(self.linear(self.dropout(torch.cat(largest, dim=1))))


def text_cnn(
    shape: Shape,
    classes: int,
    buckets: int = BUCKETS,
    size: int = 64,
    widths: Sequence[int] = (3, 4, 5),
    filters: int = 100,
    dropout: float = 0.5,
) -> nn.Module:
    """Kim's network (2014): convolutions over embeddings, the maximum of each filter, dropout, and a linear layer.

    Parameters
    ----------
    shape : tuple of int
        Shape of a row: its length.
    classes : int
        Number of classes.
    buckets : int
        Number of embeddings, which tokens share by the remainder of their numbers.
    size : int
        Numbers in an embedding.
    widths : sequence of int
        Widths of the convolutions, in tokens.
    filters : int
        Filters of each width.
    dropout : float
        Share of the maxima that are dropped.

    Returns
    -------
    nn.Module
        The network.

    Raises
    ------
    LimbeckError
        If the rows are not token numbers, or are shorter than a width.

    Examples
    --------
    >>> text_cnn((16,), 2)(torch.zeros(3, 16)).shape
    torch.Size([3, 2])
    """
    length = _length(shape, "text-cnn")
    if not widths or not all(isinstance(width, int) and 1 <= width <= length for width in widths):
        raise LimbeckError(
            f"text-cnn: widths = {list(widths)} must be whole numbers from 1 to {length}, a row's length"
        )
    _check_sizes("text-cnn", buckets=buckets, size=size, filters=filters)
    return TextCnn(classes, buckets, size, widths, filters, dropout)


def bag_of_embeddings(shape: Shape, classes: int, buckets: int = BUCKETS, size: int = 64) -> nn.Module:
    """The mean of a text's embeddings and a linear layer, as in fastText (Joulin et al. 2017).

    Parameters
    ----------
    shape : tuple of int
        Shape of a row: its length.
    classes : int
        Number of classes.
    buckets : int
        Number of embeddings, which tokens share by the remainder of their numbers.
    size : int
        Numbers in an embedding.

    Returns
    -------
    nn.Module
        The network.

    Raises
    ------
    LimbeckError
        If the rows are not token numbers.

    Examples
    --------
    >>> bag_of_embeddings((16,), 2)(torch.zeros(3, 16)).shape
    torch.Size([3, 2])
    """
    _length(shape, "bag-of-embeddings")
    _check_sizes("bag-of-embeddings", buckets=buckets, size=size)
    return BagOfEmbeddings(classes, buckets, size)


def _length(shape: Shape, name: str) -> int:
    if len(shape) != 1:
        size = "x".join(map(str, shape))
        raise LimbeckError(f"{name} takes texts, as rows of token numbers, not rows of {size} values")
    return math.prod(shape)


def _check_sizes(name: str, **sizes: int) -> None:
    for key, value in sizes.items():
        if not isinstance(value, int) or not 1 <= value <= 2**20:
            raise LimbeckError(f"{name}: {key} = {value!r} must be a whole number from 1 to {2**20}")
