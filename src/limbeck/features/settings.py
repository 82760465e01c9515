"""Which features a run uses: the table `[features]`."""

import warnings
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from limbeck.data.content import content_of_path
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.features.encoder import ENCODER, SENTENCES
from limbeck.features.graph import MAX_WIDTH
from limbeck.features.map import FeatureMap
from limbeck.features.network_file import read_network
from limbeck.features.patches import SIZE, is_image
from limbeck.features.sentences import read_sentence_encoder
from limbeck.protocol.algorithm import check_rules
from limbeck.protocol.rows import Array, PublicRows, content_hash
from limbeck.tables import SERVER_ONLY, check_fields

NO_PUBLIC = "features: the map is fitted on public rows: set data.public (Python: public=...)"


@dataclass(frozen=True, slots=True)
class Features:
    """Features of the rows, as in the table `[features]`.

    Parameters
    ----------
    kind : {"auto", "standard", "fourier", "patches", "tfidf", "encoder"}
        `standard`: principal components of the standardized columns. `fourier`: random Fourier features of these.
        `patches`: patches of images. `tfidf`: principal components of the tf-idf weights of texts. `encoder`: a frozen
        network of your own. `auto` takes tf-idf for texts, patches for images of at least 12 x 12 pixels, and Fourier
        features for all other rows.
    number : int
        Largest number of features, at most 2048. A map has never more features than there are public rows.
    path : str
        ONNX or TorchScript file of the encoder, which only the server reads. In an experiment file it is relative to
        that file. The network takes `rows` as the data stores them, float32. Its first output is used. For texts also
        the folder of a sentence encoder in the form of the package transformers.

    Raises
    ------
    LimbeckError
        If a value is not valid, `encoder` has no path, or another kind has one.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    >>> Features("standard", number=3).fit(x, seed=0).unit(x).shape
    (40, 3)
    """

    kind: Literal["auto", "standard", "fourier", "patches", "tfidf", "encoder"] = "auto"
    number: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 300
    path: str = field(default="", metadata={SERVER_ONLY: True})

    def __post_init__(self) -> None:
        check_fields(self)
        check_rules(
            (
                self.kind != ENCODER or bool(self.path),
                'path: kind = "encoder" needs an ONNX or TorchScript file, or the folder of a sentence encoder',
            ),
            (self.kind == ENCODER or not self.path, f'path is for kind = "encoder", not "{self.kind}"'),
        )

    def width(self, public: int) -> int:
        """Return the number of features, from the number of public rows alone."""
        return min(self.number, public)

    def fit(self, x: Array, seed: int, folder: Path = Path(), of_tokens: bool = False) -> FeatureMap:
        """Fit the map on public rows.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Public rows.
        seed : int
            Seed of all that is random in the map.
        folder : Path
            Folder that the path is relative to.
        of_tokens : bool
            Whether the rows are token numbers of texts.

        Returns
        -------
        FeatureMap
            The map.

        Raises
        ------
        LimbeckError
            If the network of an encoder cannot be used, or the rows do not suit the kind.
        """
        if self.kind == ENCODER:
            return self._encoder(x, folder, of_tokens)
        other = "patches" if is_image(x.shape[1:]) else "fourier"
        kind = self.kind if self.kind != "auto" else "tfidf" if of_tokens else other
        if kind == "tfidf" and not of_tokens:
            raise LimbeckError('features.kind = "tfidf" needs texts, but these rows are numbers')
        if kind == "patches" and not is_image(x.shape[1:], SIZE):
            raise LimbeckError(
                f'features.kind = "patches" needs images of at least {SIZE} x {SIZE} pixels, with colours last; these '
                f"rows have the shape {x.shape[1:]}"
            )
        return _warned(_fitted(kind, _Public(x), seed, self.width(len(x))), x)

    def _encoder(self, x: Array, folder: Path, of_tokens: bool) -> FeatureMap:
        path, of_sentences = folder / self.path, (folder / self.path).is_dir()
        try:
            if of_sentences and not of_tokens:
                raise LimbeckError("a folder is a sentence encoder, which needs texts; these rows are numbers")
            network = read_sentence_encoder(path, x.shape[1]) if of_sentences else read_network(path, x.shape[1:])
            kind = SENTENCES if of_sentences else ENCODER
            return _warned(_fitted(kind, _Public(x), 0, self.width(len(x)), network), x)
        except LimbeckError as error:
            raise LimbeckError(f"features.path = {self.path!r}: {error}") from error


def applied(algorithm: Any, features: Features | None) -> tuple[Any, Features | None]:
    """Give an algorithm the features, if it applies them itself.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    features : Features or None
        The features of a run; None for none.

    Returns
    -------
    tuple of Algorithm and Features or None
        The algorithm, and the features that rows are mapped to before it runs.

    Raises
    ------
    LimbeckError
        If the algorithm has other features already.
    """
    if not isinstance(features, Features | None):
        raise LimbeckError(f'features must be Features, such as lb.Features("fourier"), not {features!r}')
    if features is None or not algorithm.applies_features:
        return algorithm, features
    if algorithm.features not in (Features(), features):
        raise LimbeckError("features and algorithm.features differ: give one of them")
    return replace(algorithm, features=features), None


def fitted_on(
    features: Features | None, public: Array | None, seed: int, folder: Path = Path(), of_tokens: bool = False
) -> FeatureMap | None:
    """Fit the map of a run; None for a run without features.

    Parameters
    ----------
    features : Features or None
        What rows are mapped to before the algorithm runs.
    public : array of shape (rows, ...) or None
        Public rows.
    seed : int
        Seed of the run.
    folder : Path
        Folder that the path of an encoder is relative to.
    of_tokens : bool
        Whether the rows are token numbers of texts.
    """
    if features is None:
        return None
    if public is None or not len(public):
        raise LimbeckError(NO_PUBLIC)
    return features.fit(public, seed, folder, of_tokens)


def hash_of_map(
    algorithm: Any, features: FeatureMap | None, public: PublicRows, seed: int, folder: Path
) -> dict[str, str]:
    """Return the hash of the map of a run, for its record; nothing if it has no map.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm, which may have features of its own.
    features : FeatureMap or None
        The map that made the rows of the run.
    public : PublicRows
        Public rows.
    seed : int
        Seed of the run.
    folder : Path
        Folder that paths are relative to.
    """
    if features is None and algorithm.applies_features:
        features = algorithm.features.fit(public.x, seed, folder, public.are_tokens)
    return {"features_hash": features.hash} if features else {}


def network_digest(algorithm: Any, features: Features | None, folder: Path) -> str | None:
    """Return the digest of the file of a run's encoder; None if it has no encoder.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    features : Features or None
        What rows are mapped to before the algorithm runs.
    folder : Path
        Folder that paths are relative to.
    """
    features = features or getattr(algorithm, "features", None)
    path = features.path if isinstance(features, Features) else ""
    try:
        return content_of_path(folder / path) if path else None
    except LimbeckError as error:
        raise LimbeckError(f"features.path = {path!r}: {error}") from error


def _warned(features: FeatureMap, x: Array) -> FeatureMap:
    """Warn if the public rows give no features."""
    if not features.unit(x[:100]).any():
        warnings.warn(
            "all features of the public rows are 0: there are too few public rows, or they are all the same",
            LimbeckWarning,
            stacklevel=2,
        )
    return features


class _Public:
    """Public rows that are equal if their content is."""

    def __init__(self, x: Array) -> None:
        self.x, self.hash = x, content_hash(x)

    def __hash__(self) -> int:
        return hash(self.hash)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Public) and other.hash == self.hash


@lru_cache(maxsize=8)
def _fitted(kind: str, public: _Public, seed: int, number: int, network: bytes = b"") -> FeatureMap:
    return FeatureMap.fit(kind, np.asarray(public.x, np.float32), seed, number, network)
