"""Logistic regression on tf-idf weights of texts, as a kind of model."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from pydantic import Field
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from limbeck.errors import LimbeckError
from limbeck.models.constant import Constant
from limbeck.models.onnx import packed
from limbeck.models.token_weights import MAX_TOKENS, counts_of, idf_of, tfidf, weight_nodes
from limbeck.protocol.learning import Fitted
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array, flat
from limbeck.tables import Above0, check_fields

MAX_BUCKETS = 2**20


@dataclass(frozen=True, slots=True)
class TfidfLinear:
    """Logistic regression on hashed tf-idf weights. Rows are token numbers; inverse document frequencies are of them.

    Parameters
    ----------
    buckets : int
        Number of buckets that tokens are hashed to.
    C : float
        Inverse strength of the regularization.
    max_iter : int
        Largest number of iterations.
    description : mapping
        What the run record says about the model.

    Examples
    --------
    >>> from limbeck.data.tokens import Tokens
    >>> rows = Tokens(length=8).encode(["a good film", "a bad film", "good", "bad"])
    >>> TfidfLinear().fit(rows, np.array([1, 0, 1, 0]), classes=2, seed=0).vote(rows)
    array([1, 0, 1, 0])
    """

    buckets: Annotated[int, Field(ge=1, le=MAX_BUCKETS)] = 2**15
    C: Above0 = 10.0
    max_iter: Annotated[int, Field(ge=1)] = 300
    description: Mapping[str, Any] = field(default_factory=lambda: {"name": "tfidf-linear"})

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        """Name of the model in messages and records."""
        return str(self.description["name"])

    def fit(
        self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None, weight: Array | None = None
    ) -> Fitted:
        """Fit the model; rows of one class give a `Constant`."""
        if recipe is not None:
            raise LimbeckError(f"{self.name} is not trained in epochs and takes no recipe")
        rows = flat(x)
        if rows.shape[1] > MAX_TOKENS:
            raise LimbeckError(f"{self.name} takes texts of at most {MAX_TOKENS} tokens, not rows of {rows.shape[1]}")
        seen, codes = np.unique(y, return_inverse=True)
        if len(seen) == 1:
            return Constant(int(seen[0]), classes, rows.shape[1])
        idf = idf_of(counts_of(rows, self.buckets))
        used = np.flatnonzero(idf) if idf.any() else np.arange(1)
        regression = LogisticRegression(C=self.C, max_iter=self.max_iter)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", ConvergenceWarning)
            regression.fit(tfidf(rows, idf)[:, used], codes, sample_weight=weight)
        slope = np.zeros((self.buckets, len(regression.coef_)))
        slope[used] = regression.coef_.T
        offset = regression.intercept_
        if len(seen) == 2:
            slope, offset = np.hstack([0 * slope, slope]), np.concatenate([[0], offset])
        return FittedTfidf(idf, slope.astype(np.float32), offset.astype(np.float32), seen, classes, rows.shape[1])


@dataclass(frozen=True, slots=True)
class FittedTfidf:
    """Fitted logistic regression on tf-idf weights.

    Parameters
    ----------
    idf : array of shape (buckets,)
        Inverse document frequencies, in steps.
    slope : array of shape (buckets, seen classes)
        Weights of the regression.
    offset : array of shape (seen classes,)
        Its constants.
    seen : array of int
        Class numbers of the seen classes.
    classes : int
        Number of all classes.
    length : int
        Numbers in a row.
    """

    idf: Array
    slope: Array
    offset: Array
    seen: Array
    classes: int
    length: int

    def vote(self, x: Array) -> Array:
        """Class number of each row, an array of shape (rows,)."""
        return np.asarray(self.seen[self._logits(x).argmax(axis=1)])

    def scores(self, x: Array) -> Array:
        """Probabilities of shape (rows, classes); 0 for classes that were not seen."""
        places = np.eye(self.classes, dtype=np.float32)[self.seen]
        return np.asarray(softmax(self._logits(x), axis=1), np.float32) @ places

    def pack(self) -> bytes:
        """Pack as ONNX bytes."""
        nodes: list[onnx.NodeProto] = []
        weights: list[onnx.TensorProto] = []

        def add(operator: str, *inputs: str | Array | np.generic, output: str = "", **attributes: Any) -> str:
            names = []
            for each in inputs:
                if not isinstance(each, str):
                    weights.append(numpy_helper.from_array(np.ascontiguousarray(each), f"c{len(weights)}"))
                names.append(each if isinstance(each, str) else weights[-1].name)
            nodes.append(helper.make_node(operator, names, [output or f"v{len(nodes)}"], **attributes))
            return str(nodes[-1].output[0])

        bucket, weight, size = weight_nodes(add, "rows", self.length, self.idf, np.float32)
        vectors = add("Gather", self.slope, bucket)
        total = add("Squeeze", add("MatMul", add("Unsqueeze", weight, np.array([1])), vectors), np.array([1]))
        logits = add("Add", add("Div", total, add("Max", size, np.float32(1))), self.offset)
        add("Gather", self.seen.astype(np.int64), add("ArgMax", logits, axis=1, keepdims=0), output="label")
        places = np.eye(self.classes, dtype=np.float32)[self.seen]
        add("MatMul", add("Softmax", logits, axis=1), places, output="scores")
        return packed(nodes, weights, [self.length], self.classes, probabilities=True)

    def _logits(self, x: Array) -> Array:
        return np.asarray(tfidf(x, self.idf) @ self.slope + self.offset)
