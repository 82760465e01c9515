"""Views of public rows: the same images, moved and mirrored by chance that everybody knows."""

from collections.abc import Iterator

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array


def views(rows: Array, count: int, seed: int) -> Iterator[Array]:
    """One view is the rows as they are; of several, each is augmented in its own way, the same wherever it is made."""
    if count == 1:
        yield rows
        return
    if rows.ndim < 3:
        raise LimbeckError(f"views = {count} is for images, not for rows of {rows.shape[1:]} values")
    import torch

    from limbeck.models.packing import channels_first
    from limbeck.models.randomness import augmented

    images = channels_first(torch.from_numpy(np.ascontiguousarray(rows, np.float32)))
    colors_first = images.shape == rows.shape
    for number in range(count):
        seen = augmented(images, torch.tensor(seed + number), "crop-flip")
        yield (seen[:, 0] if rows.ndim == 3 else seen if colors_first else seen.movedim(1, -1)).numpy()
