"""Features of texts: principal components of hashed tf-idf weights, a latent semantic analysis (Deerwester 1990)."""

import numpy as np
from onnx import ModelProto
from threadpoolctl import threadpool_limits

from limbeck.features.columns import MAX_FITTED, Arrays, principal_components
from limbeck.features.graph import MAX_EXACT, MAX_WEIGHT, ROWS, WEIGHT_STEPS, Graph, of_length_one
from limbeck.models.token_weights import MAX_IDF, MAX_TOKENS, STEPS, counts_of, idf_of, tfidf, weight_nodes
from limbeck.protocol.rows import Array

BUCKETS = 2**12


def fit_tfidf(x: Array, seed: int, number: int) -> Arrays:
    """Fit inverse document frequencies and principal components of public texts.

    Parameters
    ----------
    x : array of shape (rows, length)
        Token numbers of public rows.
    seed : int
        Not used.
    number : int
        Number of features; those that the rows do not have are 0.

    Returns
    -------
    dict of str to array
        `idf` of the buckets, `components` of shape (buckets, features), the `centre`, and `largest`.
    """
    idf = idf_of(counts_of(x, BUCKETS))
    weights = tfidf(x, idf)
    fitted = weights[:MAX_FITTED].toarray()
    with threadpool_limits(1):
        components = principal_components(fitted - fitted.mean(axis=0), number)
    values = weights @ components
    centre = values.mean(axis=0)
    largest = np.abs(values - centre).max(initial=1e-9)
    return {"idf": idf, "components": components, "centre": centre, "largest": np.asarray(largest)}


def tfidf_graph(arrays: Arrays, row: tuple[int, ...]) -> ModelProto:
    """Return the graph of `fit_tfidf`.

    Parameters
    ----------
    arrays : dict of str to array
        Result of `fit_tfidf`.
    row : tuple of int
        Shape of a row.

    Notes
    -----
    Weights of tokens and components are whole numbers. Their products and sums are exact in float64.
    """
    [length] = row
    idf = np.rint(np.clip(arrays["idf"], 0, MAX_IDF))
    if not 0 < length <= MAX_TOKENS or length * STEPS * MAX_IDF * WEIGHT_STEPS > MAX_EXACT:
        raise ValueError(f"rows of {length} tokens are too long for exact sums")
    steps = np.rint(np.clip(arrays["components"], -MAX_WEIGHT, MAX_WEIGHT) * WEIGHT_STEPS)
    if steps.shape[0] != len(idf) or arrays["centre"].shape != steps.shape[1:]:
        raise ValueError("the components have another size than the frequencies")
    graph = Graph(row)
    bucket, weight, size = weight_nodes(graph.add, ROWS, length, idf, np.float64)
    vectors = graph.add("Gather", steps.astype(np.float64), bucket)
    total = graph.add("MatMul", graph.add("Unsqueeze", weight, np.array([1])), vectors)
    projected = graph.add("Squeeze", total, np.array([1]))
    known = graph.add("Min", size, np.float64(1))  # 0 for a text without any known word
    mean = graph.add("Div", projected, graph.add("Max", size, np.float64(1)))
    centred = graph.add("Sub", mean, graph.add("Mul", known, arrays["centre"].astype(np.float64) * WEIGHT_STEPS))
    of_length_one(graph, centred, arrays["largest"].item() * WEIGHT_STEPS, steps.shape[1])
    return graph.model()
