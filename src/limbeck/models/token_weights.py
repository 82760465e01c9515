"""Weights of the tokens of a text (tf-idf), in numpy and as ONNX nodes.

Token numbers are hashed to buckets by their remainder. A token that occurs c times in a text has the term frequency
1 + ln c, which is spread over its c positions. Both factors of a weight are whole numbers of small steps, so that sums
over a text are exact in float64, and do not depend on the order of the tokens.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto
from scipy.sparse import csr_matrix

from limbeck.protocol.rows import Array, flat

STEPS = 2**8  # of a term frequency, and of an inverse document frequency
MAX_IDF = 2**12
MAX_TOKENS = 2**10  # in a row: sums over more of them might not be exact
MAX_NUMBER = float(2**24)  # whole numbers up to this are exact in float32
Add = Callable[..., str]


def frequencies(length: int) -> Array:
    """Steps of (1 + ln c) / c for counts c from 0 to the length of a row; 0 for none."""
    counts = np.arange(length + 1)
    known = np.maximum(counts, 1)
    return np.asarray(np.where(counts, np.rint(STEPS * (1 + np.log(known)) / known), 0.0))


def counts_of(x: Array, buckets: int) -> csr_matrix:
    """Number of times that each bucket occurs in each row.

    Parameters
    ----------
    x : array of shape (rows, length)
        Token numbers; 0 stands for no token.
    buckets : int
        Number of buckets.

    Returns
    -------
    sparse array of shape (rows, buckets)
        Counts.
    """
    numbers = np.floor(np.clip(np.nan_to_num(flat(x)), 0, MAX_NUMBER)).astype(np.int64)
    rows, places = np.nonzero(numbers)
    found = numbers[rows, places] % buckets
    counts = csr_matrix((np.ones(len(rows)), (rows, found)), shape=(len(numbers), buckets))
    counts.sum_duplicates()
    return counts


def idf_of(counts: csr_matrix) -> Array:
    """Inverse document frequencies ln((1 + n) / (1 + df)) + 1 in whole steps; 0 for buckets that no row has."""
    rows, found = counts.shape[0], np.asarray((counts > 0).sum(axis=0)).ravel()
    idf = np.rint(STEPS * (np.log((1 + rows) / (1 + found)) + 1))
    return np.asarray(np.where(found > 0, np.minimum(idf, MAX_IDF), 0.0))


def tfidf(x: Array, idf: Array) -> csr_matrix:
    """Weights of the buckets of each row, scaled to length 1.

    Parameters
    ----------
    x : array of shape (rows, length)
        Token numbers.
    idf : array of shape (buckets,)
        Result of `idf_of`.

    Returns
    -------
    sparse array of shape (rows, buckets)
        Rows of length 1, or without any weight.
    """
    counts = counts_of(x, len(idf))
    steps = frequencies(flat(x).shape[1])[counts.data.astype(np.int64)] * counts.data
    found = csr_matrix((steps * idf[counts.indices], counts.indices, counts.indptr), shape=counts.shape)
    length = np.sqrt(np.asarray(found.multiply(found).sum(axis=1)).ravel())
    found.data /= np.repeat(np.maximum(length, 1), np.diff(found.indptr))
    return found


def weight_nodes(add: Add, rows: str, length: int, idf: Array, dtype: Any) -> tuple[str, str, str]:
    """Add the nodes that compute weights from rows of token numbers.

    Parameters
    ----------
    add : callable
        Adds a node: gets an operator, its inputs (names or arrays) and attributes; returns the name of the output.
    rows : str
        Name of the rows, float32 of shape (rows, length).
    length : int
        Length of a row.
    idf : array of shape (buckets,)
        Result of `idf_of`.
    dtype : type
        Type of the weights, float32 or float64.

    Returns
    -------
    tuple of str
        Buckets (int64) and weights, both of shape (rows, tokens), and the length of the row of weights, of shape
        (rows, 1). The padding at the end of the longest row is cut off.
    """
    kind = TensorProto.DOUBLE if dtype is np.float64 else TensorProto.FLOAT
    positive = add("Where", add("Greater", rows, np.float32(0)), rows, np.float32(0))  # NaN becomes 0
    whole = add("Floor", add("Min", positive, np.float32(MAX_NUMBER)))
    there = add("Greater", whole, np.float32(0))
    places = add("Mul", add("Cast", there, to=TensorProto.INT64), np.arange(1, length + 1))
    used = add("Max", add("ReduceMax", places, keepdims=0), np.array([1]))
    cut = [add("Slice", each, np.array([0]), used, np.array([1])) for each in (whole, places)]
    there = add("Greater", cut[1], np.int64(0))
    turns = add("Floor", add("Div", cut[0], np.float32(len(idf))))
    rest = add("Sub", cut[0], add("Mul", turns, np.float32(len(idf))))
    bucket = add("Cast", rest, to=TensorProto.INT64)
    marked = add("Where", there, bucket, np.int64(-1))  # padding is in no bucket
    first, second = (add("Unsqueeze", marked, np.array([axis])) for axis in (1, 2))
    same = add("Cast", add("Equal", first, second), to=TensorProto.FLOAT)
    times = add("Cast", add("ReduceSum", same, np.array([2]), keepdims=0), to=TensorProto.INT64)
    frequency = add("Gather", frequencies(length).astype(dtype), times)
    found = add("Mul", frequency, add("Gather", idf.astype(dtype), bucket))
    weight = add("Mul", found, add("Cast", there, to=kind))
    squares = add("Mul", add("Mul", weight, weight), add("Cast", times, to=kind))
    size = add("Sqrt", add("ReduceSum", squares, np.array([1]), keepdims=1))
    return bucket, weight, size
