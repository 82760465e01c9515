"""A model that always predicts one class, for rows of one class only."""

from dataclasses import dataclass

import numpy as np
from onnx import helper, numpy_helper

from limbeck.models.onnx import packed
from limbeck.protocol.rows import Array


@dataclass(frozen=True, slots=True)
class Constant:
    """Constant predictor: gives every row the same class, with probability 1.

    Parameters
    ----------
    label : int
        Class number to predict.
    classes : int
        Number of classes.
    features : int
        Number of values in a row.

    Examples
    --------
    >>> Constant(label=1, classes=3, features=2).scores(np.zeros((2, 2)))
    array([[0., 1., 0.],
           [0., 1., 0.]], dtype=float32)
    """

    label: int
    classes: int
    features: int

    def vote(self, x: Array) -> Array:
        """Class number of each row, an array of shape (rows,)."""
        return np.full(len(x), self.label)

    def scores(self, x: Array) -> Array:
        """Scores of shape (rows, classes): 1 for the class, 0 elsewhere."""
        return np.eye(self.classes, dtype=np.float32)[self.vote(x)]

    def pack(self) -> bytes:
        """Pack as ONNX bytes; the graph uses only the number of rows."""
        weights = [
            numpy_helper.from_array(np.array([self.label], np.int64), "certain"),
            numpy_helper.from_array(np.eye(self.classes, dtype=np.float32), "place"),
            numpy_helper.from_array(np.array([0], np.int64), "first"),
        ]
        nodes = [
            helper.make_node("Shape", ["rows"], ["shape"]),
            helper.make_node("Gather", ["shape", "first"], ["count"]),
            helper.make_node("Expand", ["certain", "count"], ["label"]),
            helper.make_node("Gather", ["place", "label"], ["scores"]),
        ]
        return packed(nodes, weights, [self.features], self.classes, probabilities=True)
