"""Models whose predictions are the same for all rows: of one class, or with the same scores."""

from dataclasses import dataclass

import numpy as np
from onnx import helper, numpy_helper

from limbeck.models.onnx import number_outputs, packed
from limbeck.protocol.rows import Array
from limbeck.protocol.task import Kind


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


@dataclass(frozen=True, slots=True)
class ConstantScores:
    """Constant predictor of several labels a row, or of a number.

    Parameters
    ----------
    values : array of shape (classes,)
        Score of each class, or the number.
    features : int
        Number of values in a row.
    task : {"multilabel", "regression"}
        Kind of the labels.

    Examples
    --------
    >>> ConstantScores(np.array([0.9, 0.5]), features=2, task="multilabel").vote(np.zeros((1, 2))).tolist()
    [[1, 0]]
    """

    values: Array
    features: int
    task: Kind

    def vote(self, x: Array) -> Array:
        """Labels of each row."""
        scores = self.scores(x)
        return np.asarray(scores[:, 0] if self.task == "regression" else (scores > 0.5).astype(np.int64))

    def scores(self, x: Array) -> Array:
        """Scores of shape (rows, classes)."""
        return np.tile(self.values.astype(np.float32), (len(x), 1))

    def pack(self) -> bytes:
        """Pack as ONNX bytes; the graph uses only the number of rows."""
        size = len(self.values)
        weights = [
            numpy_helper.from_array(self.values.astype(np.float32), "values"),
            numpy_helper.from_array(np.array([0], np.int64), "first"),
            numpy_helper.from_array(np.array([size], np.int64), "columns"),
        ]
        nodes = [
            helper.make_node("Shape", ["rows"], ["shape"]),
            helper.make_node("Gather", ["shape", "first"], ["count"]),
            helper.make_node("Concat", ["count", "columns"], ["whole"], axis=0),
            helper.make_node("Expand", ["values", "whole"], ["numbers"]),
        ]
        outputs, constants = number_outputs("numbers", self.task)
        return packed([*nodes, *outputs], [*weights, *constants], [self.features], size, True, task=self.task)
