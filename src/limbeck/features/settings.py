"""Which features a run uses: the table `[features]`."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from limbeck.features.map import FeatureMap
from limbeck.features.patches import is_image
from limbeck.protocol.rows import Array, content_hash
from limbeck.tables import Positive, check_fields


@dataclass(frozen=True, slots=True)
class Features:
    """Features of the rows, as in the table `[features]`.

    Parameters
    ----------
    kind : {"auto", "standard", "fourier", "patches", "encoder"}
        `standard`: principal components of the standardized columns. `fourier`: random Fourier features of these.
        `patches`: patches of images. `encoder`: a frozen network of your own. `auto` takes patches for images of at
        least 12 x 12 pixels, and Fourier features for all other rows.
    number : int
        Largest number of features. A map has never more features than there are public rows.
    path : str
        ONNX or TorchScript file of the encoder.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    >>> Features("standard", number=3).fit(x, seed=0).unit(x).shape
    (40, 3)
    """

    kind: Literal["auto", "standard", "fourier", "patches", "encoder"] = "auto"
    number: Positive = 300
    path: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    def width(self, public: int) -> int:
        """Return the number of features, from the number of public rows alone."""
        return min(self.number, public)

    def fit(self, x: Array, seed: int) -> FeatureMap:
        """Fit the map on public rows.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Public rows.
        seed : int
            Seed of all that is random in the map.

        Returns
        -------
        FeatureMap
            The map.
        """
        kind = self.kind if self.kind != "auto" else "patches" if is_image(x.shape[1:]) else "fourier"
        return _fitted(kind, _Public(x), seed, self.width(len(x)), self.path)


class _Public:
    """Public rows that are equal if their content is."""

    def __init__(self, x: Array) -> None:
        self.x, self.hash = x, content_hash(x)

    def __hash__(self) -> int:
        return hash(self.hash)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Public) and other.hash == self.hash


@lru_cache(maxsize=8)
def _fitted(kind: str, public: _Public, seed: int, number: int, path: str) -> FeatureMap:
    return FeatureMap.fit(kind, np.asarray(public.x, np.float32), seed, number)
