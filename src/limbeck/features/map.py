"""Feature maps: fitted on public rows, applied to any row, packed in front of a model."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import onnx
from joblib import cpu_count
from onnx import ModelProto, TensorProto, helper
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from limbeck.errors import LimbeckError
from limbeck.features.columns import fit_fourier, fit_standard, fourier_graph, standard_graph
from limbeck.features.encoder import ENCODER, NETWORK, SENTENCES, Encoder, encoder_graph, fit_encoder, try_network
from limbeck.features.graph import UNIT
from limbeck.features.patches import fit_patches, patches_graph
from limbeck.features.tfidf import fit_tfidf, tfidf_graph
from limbeck.protocol.rows import Array

Fit = Callable[[Array, int, int], dict[str, Array]]
Build = Callable[[dict[str, Array], tuple[int, ...]], ModelProto]
ENCODERS = (ENCODER, SENTENCES)
MAPS: dict[str, tuple[Fit, Build]] = {  # and the kinds of `ENCODERS`
    "standard": (fit_standard, standard_graph),
    "fourier": (fit_fourier, fourier_graph),
    "patches": (fit_patches, patches_graph),
    "tfidf": (fit_tfidf, tfidf_graph),
}
MAX_VALUES = 2**14  # of rows that are mapped at once
STEPS = 2**16  # grid of feature vectors: a sum of many of them is exact
CONSTANT = np.sqrt(0.5)  # c, the first coordinate: of all constants the one with the least noise for a replaced row
CUT = 1 - 2.0**-40  # so that no rounding makes a vector longer than 1


@dataclass(frozen=True)
class FeatureMap:
    """Feature map: raw rows become vectors of length 1.

    Parameters
    ----------
    kind : str
        `standard`, `fourier`, `patches`, `tfidf`, `encoder` or `sentence-encoder`.
    arrays : mapping of str to array
        What was fitted on public rows.
    row : tuple of int
        Shape of a row.

    Notes
    -----
    The vector of a row depends on this row and on the map alone, to the bit: not on the rows beside it in a batch. The
    bound on the change of a sum, when one row is replaced, needs that. The network of an encoder is therefore run on
    one row at a time. A row that is not finite, or for which the network fails or has outputs that are not finite, gets
    the vector 0, at each site for its own rows.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    >>> features = FeatureMap.fit("standard", x, seed=0, number=10)
    >>> features.width, features.unit(x).shape
    (10, (50, 10))
    >>> bool(np.abs(np.linalg.norm(features.unit(x), axis=1) - 1).max() < 1e-9)
    True
    """

    kind: str
    arrays: Mapping[str, Array]
    row: tuple[int, ...]

    @classmethod
    def fit(cls, kind: str, x: Array, seed: int, number: int, network: bytes = b"") -> "FeatureMap":
        """Fit a map on public rows.

        Parameters
        ----------
        kind : str
            Kind of the map.
        x : array of shape (rows, ...)
            Public rows.
        seed : int
            Seed of all that is random in the map.
        number : int
            Number of features; those that the rows do not have are 0.
        network : bytes
            ONNX model of the kinds `encoder` and `sentence-encoder`.
        """
        is_encoder = kind in ENCODERS
        found = fit_encoder(x, number, network, kind == SENTENCES) if is_encoder else MAPS[kind][0](x, seed, number)
        arrays = {name: np.asarray(each, _type_of(kind, name)) for name, each in found.items()}
        return cls(kind, arrays, x.shape[1:])

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "arrays": self.arrays, "row": self.row}  # a session cannot be pickled

    @cached_property
    def model(self) -> ModelProto:
        """ONNX graph of the map."""
        try:
            numbers = [name for name in self.arrays if _type_of(self.kind, name) is np.float32]
            arrays = {**self.arrays, **{name: np.asarray(self.arrays[name], np.float64) for name in numbers}}
            if self.kind in ENCODERS:
                return encoder_graph(arrays, self.row, self.kind == SENTENCES)
            return MAPS[self.kind][1](arrays, self.row)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise LimbeckError(f"not a feature map of the kind {self.kind!r}") from error

    @cached_property
    def _session(self) -> Any:
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            return InferenceSession(self.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own types, none of them in common
            raise LimbeckError(f"not a feature map: {' '.join(str(error).split())[:120]}") from error

    @cached_property
    def _parts(self) -> "tuple[Encoder, FeatureMap]":
        """Network of an encoder, and the map of its outputs."""
        if NETWORK not in self.arrays:
            raise LimbeckError(f"not a feature map of the kind {self.kind!r}: it has no network")
        encoder = Encoder(self.arrays[NETWORK].tobytes(), self.row, self.kind == SENTENCES)
        others = {name: each for name, each in self.arrays.items() if name != NETWORK}
        return encoder, FeatureMap("standard", others, (encoder.width,))

    @property
    def opset(self) -> int:
        """Version of the ONNX operator set of the graph."""
        return int(self.model.opset_import[0].version)

    @cached_property
    def width(self) -> int:
        """Number of features."""
        return int(self.unit(np.zeros((1, *self.row), np.float32)).shape[1])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the map."""
        return sha256(self.kind.encode() + self.pack()).hexdigest()

    def pack(self, metadata: dict[str, str] | None = None) -> bytes:
        """Return the map as bytes (safetensors)."""
        return safetensors.save({name: np.ascontiguousarray(each) for name, each in self.arrays.items()}, metadata)

    def unit(self, x: Array) -> Array:
        """Return the feature vectors.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Raw rows.

        Returns
        -------
        array of shape (rows, width)
            Vectors of length 1 in float64; 0 for rows without any feature, for rows that are not finite, and for rows
            whose outputs of an encoder are not finite.
        """
        if not len(x):
            return np.zeros((0, self.width))
        if self.kind in ENCODERS:
            encoder, others = self._parts
            return others.unit(encoder.outputs(x))
        rows = np.asarray(x, np.float32).reshape(len(x), *self.row)
        finite = np.asarray(np.isfinite(rows.reshape(len(rows), -1)).all(axis=1))
        rows = np.where(finite.reshape(-1, *[1] * len(self.row)), rows, np.float32(0))
        size = max(1, MAX_VALUES // max(1, rows[:1].size))
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        session = self._session
        with ThreadPoolExecutor(min(cpu_count(), len(parts))) as threads:
            found = np.concatenate(list(threads.map(lambda part: session.run([UNIT], {"rows": part})[0], parts)))
        return np.asarray(np.where(finite[:, None] & np.isfinite(found), found, 0.0))

    def vectors(self, x: Array) -> Array:
        """Return the feature vectors as rows for a model.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Raw rows.

        Returns
        -------
        array of shape (rows, width)
            Vectors of length sqrt(width) in float32, so that the variance of a feature is about 1.
        """
        return np.asarray(self.unit(x) * np.sqrt(self.width), np.float32)

    def steps(self, x: Array) -> Array:
        """Return the vectors phi(x) = (c, sqrt(1 - c^2) u) in whole steps of a grid, rounded towards 0.

        Parameters
        ----------
        x : array of shape (rows, ...)
            Raw rows.

        Returns
        -------
        array of int of shape (rows, 1 + width)
            Numbers of steps. With `STEPS` steps to 1, no vector is longer than 1.
        """
        constant = np.full((len(x), 1), int(CONSTANT * STEPS))
        vectors = np.trunc(self.unit(x) * (np.sqrt(1 - CONSTANT**2) * STEPS * CUT)).astype(np.int64)
        return np.hstack([constant, vectors])

    def nodes(self, output: str) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
        """Return nodes and weights that compute `output` from raw `rows`: float32 vectors of length sqrt(width)."""
        scale = helper.make_tensor("features.scale", TensorProto.DOUBLE, [], [float(np.sqrt(self.width))])
        graph = self.model.graph
        scaled = helper.make_node("Mul", [UNIT, "features.scale"], ["features.scaled"])
        cast = helper.make_node("Cast", ["features.scaled"], [output], to=TensorProto.FLOAT)
        return [*graph.node, scaled, cast], [*graph.initializer, scale]


def _type_of(kind: str, name: str) -> type[np.generic]:
    """Type of an array of a map."""
    return np.uint8 if kind in ENCODERS and name == NETWORK else np.float32


@lru_cache(maxsize=2)
def unpack(kind: str, data: bytes, row: tuple[int, ...], tried: bool = False) -> FeatureMap:
    """Read a map that another site sent.

    Parameters
    ----------
    kind : str
        Kind of the map.
    data : bytes
        Result of `FeatureMap.pack`.
    row : tuple of int
        Shape of a row.
    tried : bool
        Whether this function accepted the same bytes at this site before. A network in them is else tried first, in a
        limited child process.

    Raises
    ------
    LimbeckError
        If these are not the arrays of a map. The graph is built here, so that no map can mix rows. A network is run on
        one row at a time. The last maps are kept: all parties of a simulation get the same one.
    """
    try:
        arrays = safetensors.load(data)
    except (SafetensorError, ValueError) as error:
        raise LimbeckError("not a feature map: it cannot be read; it must be safetensors") from error
    known = kind in MAPS or (kind in ENCODERS and (kind != SENTENCES or len(row) == 1))
    if not known or any(
        each.dtype != _type_of(kind, name) or not np.isfinite(each).all() for name, each in arrays.items()
    ):
        raise LimbeckError(f"not a feature map of a known kind and of finite numbers: {kind!r}")
    if NETWORK in arrays and not tried:
        try_network(arrays[NETWORK].tobytes(), tuple(row), kind == SENTENCES)
    return FeatureMap(kind, arrays, row)
