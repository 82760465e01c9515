"""Views of public rows: the same images, shifted and mirrored at random by a public seed."""

from collections.abc import Iterator

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array


def views(rows: Array, count: int, seed: int) -> Iterator[Array]:
    """Yield the views one after the other; they are the same at every site.

    Parameters
    ----------
    rows : array of shape (rows, ...)
        Public rows.
    count : int
        Number of views. One view is the rows as they are; of several, each is augmented.
    seed : int
        Public seed.

    Yields
    ------
    array of the shape of `rows`
        A view.

    Raises
    ------
    LimbeckError
        If several views are asked for, but the rows are not images.

    Examples
    --------
    >>> rows = np.ones((2, 8, 8), np.float32)
    >>> [view.shape for view in views(rows, count=2, seed=0)]
    [(2, 8, 8), (2, 8, 8)]
    """
    if count == 1:
        yield rows
        return
    if rows.ndim < 3:
        raise LimbeckError(f"views = {count} is for images, not for rows of shape {rows.shape[1:]}")
    import torch

    from limbeck.models.packing import channels_first
    from limbeck.models.randomness import augmented

    images = channels_first(torch.from_numpy(np.ascontiguousarray(rows, np.float32)))
    colors_first = images.shape == rows.shape
    for number in range(count):
        seen = augmented(images, torch.tensor(seed + number), "crop-flip")
        yield (seen[:, 0] if rows.ndim == 3 else seen if colors_first else seen.movedim(1, -1)).numpy()
