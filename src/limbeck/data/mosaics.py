"""Mosaics: images of four digits each, with the label of every digit that occurs. Several labels a row from real rows.

Two domains (MNIST and FEMNIST) that know some classes in common and some alone are FedKD's setting of chest X-rays in
kind (Gong et al. 2022, Tables 3 and 4).
"""

from dataclasses import dataclass

import numpy as np

from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream

TILES = 4


@dataclass(frozen=True, slots=True)
class Mosaics:
    """Which images are put together, and which classes are labelled.

    Parameters
    ----------
    source : str
        Named set of gray images.
    first, last : int
        First and last class that is labelled; the images contain all classes.
    """

    source: str
    first: int = 0
    last: int = 9


MOSAICS = {
    "mnist-mosaics": Mosaics("mnist"),
    "mnist-mosaics-0-7": Mosaics("mnist", 0, 7),
    "femnist-mosaics": Mosaics("femnist-digits"),
    "femnist-mosaics-4-9": Mosaics("femnist-digits", 4, 9),
    "femnist-letter-mosaics": Mosaics("femnist-letters", 0, 5),
}


def mosaics_of(x: Array, y: Array, classes: int, part: str) -> tuple[Array, Array]:
    """Put four images each together, at half their height and width; every image is used once.

    Parameters
    ----------
    x : array of shape (images, height, width)
        Gray images in bytes.
    y : array of shape (images,)
        Their class numbers.
    classes : int
        Number of classes.
    part : str
        Name of the part, from which the order of the images is drawn.

    Returns
    -------
    rows : array of shape (images / 4, height, width)
        The mosaics.
    labels : array of shape (images / 4, classes)
        1 for each class that occurs, else 0.

    Examples
    --------
    >>> rows, labels = mosaics_of(np.full((4, 2, 2), 8, np.uint8), np.array([2, 0, 2, 2]), 3, "train")
    >>> rows.shape, labels.tolist()
    ((1, 2, 2), [[1, 0, 1]])
    """
    count = len(x) // TILES
    order = stream(0, "mosaics", part).permutation(len(x))[: count * TILES]
    height, width = x.shape[1] // 2, x.shape[2] // 2
    sums = x[:, : 2 * height, : 2 * width].astype(np.uint16).reshape(len(x), height, 2, width, 2).sum(axis=(2, 4))
    small = (sums // 4).astype(np.uint8)[order].reshape(count, 2, 2, height, width)
    labels = np.zeros((count, classes), np.int8)
    labels[np.repeat(np.arange(count), TILES), y[order]] = 1
    return small.transpose(0, 1, 3, 2, 4).reshape(count, 2 * height, 2 * width), labels
