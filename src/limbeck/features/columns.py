"""Features of tables: principal components of standardized columns, and random Fourier features of these."""

import numpy as np
from onnx import ModelProto, TensorProto

from limbeck.features.graph import CLIP, ROWS, WEIGHT_STEPS, Graph, of_length_one, projected, standardized
from limbeck.protocol.rows import Array, flat
from limbeck.protocol.streams import stream

MAX_COMPONENTS = 200  # of the columns, for Fourier features
FREQUENCIES = 600
PAIRS = 700  # public rows whose distances give the width of the kernel
MAX_FITTED = 2000  # public rows that components are computed from
RELATIVE = 1e-3  # singular values below that share of the largest one are noise
TABLE = 4096  # angles in a full turn
TABLE_STEPS = 2**14  # grid of cosines

Arrays = dict[str, Array]


def fit_standard(x: Array, seed: int, number: int) -> Arrays:
    """Fit the standardization and the principal components of public rows.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Public rows.
    seed : int
        Not used.
    number : int
        Number of features; those that the rows do not have are 0.

    Returns
    -------
    dict of str to array
        `mean` and `scale` of the columns, `components` of shape (columns, features), and `largest`.
    """
    arrays, values = _standardized(flat(x))
    components = principal_components(values[:MAX_FITTED], number)
    return {**arrays, "components": components, "largest": _largest(values @ components)}


def standard_graph(arrays: Arrays, row: tuple[int, ...]) -> ModelProto:
    """Return the graph of `fit_standard`.

    Parameters
    ----------
    arrays : dict of str to array
        Result of `fit_standard`.
    row : tuple of int
        Shape of a row.
    """
    graph = Graph(row)
    whole = standardized(graph, graph.add("Flatten", ROWS), arrays["mean"], arrays["scale"])
    found, _ = projected(graph, whole, arrays["components"])
    of_length_one(graph, found, arrays["largest"].item() * 2.0**30, arrays["components"].shape[1])
    return graph.model()


def fit_fourier(x: Array, seed: int, number: int) -> Arrays:
    """Fit random Fourier features (Rahimi & Recht 2007) of the components of public rows, and components of these.

    Parameters
    ----------
    x : array of shape (rows, ...)
        Public rows.
    seed : int
        Seed of the frequencies.
    number : int
        Number of features; those that the rows do not have are 0.

    Returns
    -------
    dict of str to array
        As `fit_standard`, with `frequencies` in turns, the `centre` of the cosines and sines, and their `rotation`.

    Notes
    -----
    The kernel is exp(-|x - x'|^2 / (2 w^2)), where the width w is the median distance of public rows.
    """
    arrays, values = _standardized(flat(x))
    first = principal_components(values[:MAX_FITTED], min(MAX_COMPONENTS, values.shape[1]))
    first = first[:, first.any(axis=0)]
    values = values @ first
    frequencies = stream(seed, "features").standard_normal((values.shape[1], FREQUENCIES))
    frequencies /= 2 * np.pi * _width(values)
    turns = values @ frequencies
    waves = np.concatenate([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1)
    centre = waves.mean(axis=0)
    rotation = principal_components((waves - centre)[:MAX_FITTED], number)
    largest = _largest((waves - centre) @ rotation)
    return {
        **arrays,
        "components": first,
        "frequencies": frequencies,
        "centre": centre,
        "rotation": rotation,
        "largest": largest,
    }


def fourier_graph(arrays: Arrays, row: tuple[int, ...]) -> ModelProto:
    """Return the graph of `fit_fourier`.

    Parameters
    ----------
    arrays : dict of str to array
        Result of `fit_fourier`.
    row : tuple of int
        Shape of a row.
    """
    graph = Graph(row)
    whole = standardized(graph, graph.add("Flatten", ROWS), arrays["mean"], arrays["scale"])
    found, largest = projected(graph, whole, arrays["components"])
    components = graph.add("Round", graph.add("Mul", found, np.float64(1 / WEIGHT_STEPS)))
    found, _ = projected(graph, components, arrays["frequencies"], largest / WEIGHT_STEPS + 1)
    turns = graph.add("Mul", found, np.float64(2.0**-30))
    fraction = graph.add("Sub", turns, graph.add("Floor", turns))
    angle = graph.add("Cast", graph.add("Mul", fraction, np.float64(TABLE)), to=TensorProto.INT64)
    angles = 2 * np.pi * (np.arange(TABLE) + 0.5) / TABLE
    waves = [graph.add("Gather", np.rint(wave(angles) * TABLE_STEPS), angle) for wave in (np.cos, np.sin)]
    centre = np.rint(np.clip(arrays["centre"].astype(np.float64), -1, 1) * TABLE_STEPS)
    centred = graph.add("Sub", graph.add("Concat", *waves, axis=1), centre)
    steps = arrays["largest"].item() * TABLE_STEPS * WEIGHT_STEPS
    found, _ = projected(graph, centred, arrays["rotation"], 2.0 * TABLE_STEPS)
    of_length_one(graph, found, steps, arrays["rotation"].shape[1])
    return graph.model()


def principal_components(values: Array, number: int) -> Array:
    """Return the strongest directions of rows with mean 0.

    Parameters
    ----------
    values : array of shape (rows, columns)
        Rows.
    number : int
        Number of directions.

    Returns
    -------
    array of shape (columns, number)
        Orthonormal columns, the strongest first; 0 in place of directions that are only rounding.
    """
    if values.shape[1] <= len(values):
        strength, vectors = np.linalg.eigh(values.T @ values)
    else:
        strength, rows = np.linalg.eigh(values @ values.T)
        vectors = values.T @ rows / np.sqrt(np.maximum(strength, 1e-30))
    order = np.argsort(strength)[::-1][:number]
    order = order[strength[order] > max(RELATIVE**2 * strength.max(initial=0.0), 1e-12)]
    return np.pad(vectors[:, order], ((0, 0), (0, number - len(order))))


def _standardized(columns: Array) -> tuple[Arrays, Array]:
    """Mean and scale of columns, and the standardized columns; constant ones become 0."""
    values = np.asarray(columns, np.float64)
    mean, spread = values.mean(axis=0), values.std(axis=0)
    used = spread > 1e-6 * np.maximum(np.abs(values).max(axis=0, initial=0.0), 1e-6)
    scale = np.where(used, 1 / np.where(used, spread, 1.0), 0.0)
    return {"mean": mean, "scale": scale}, np.clip((values - mean) * scale, -CLIP, CLIP)


def _width(values: Array) -> float:
    """Median distance between public rows."""
    some = values[np.linspace(0, len(values) - 1, min(PAIRS, len(values))).astype(int)]
    squares = ((some[:, None] - some[None]) ** 2).sum(axis=2)[np.triu_indices(len(some), 1)]
    return float(np.sqrt(np.median(squares))) if len(squares) and np.median(squares) > 0 else 1.0


def _largest(values: Array) -> Array:
    return np.asarray(np.abs(values).max(initial=1e-9))
