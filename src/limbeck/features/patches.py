"""Features of images: whitened patches, k-means, triangle activation, pooling (Coates, Lee & Ng 2011)."""

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto
from sklearn.cluster import MiniBatchKMeans

from limbeck.features.columns import MAX_FITTED, Arrays, principal_components
from limbeck.features.graph import CLIP, ROWS, UNIT, Graph, of_length_one, projected, standardized
from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream

SIZE = 8  # of a patch, in pixels
CENTRES = 100
POOLS = 5  # the activations are averaged in 5 x 5 fields
PATCHES = 20  # of each image, that centres are fitted to
MAX_PATCHES = 100_000
LEVELS = 255  # of a pixel
CONTRAST = 0.01 * LEVELS**2  # added to the variance of a patch, against noise in flat ones
WHITENING = 0.05  # added to the variances of components
FLAT = 0.02 * LEVELS  # standard deviation of patches that are too flat to learn from
FILTER_STEPS, MAX_FILTER = 2**9, 125.0  # grid of whitening filters, and the sum of a filter's absolute weights
WHITE_STEPS, MAX_WHITE = 2**5, 12.0  # grid of whitened patches, and the largest absolute value
CENTRE_STEPS, MAX_CENTRE = 2**8, 125.0  # grid of centres, and the sum of a centre's absolute values
DISTANCE_STEPS, MAX_DISTANCE = 2**8, 60.0  # grid of distances
MAX_EXACT = 2**24  # whole numbers up to this are exact in float32
COLORS = (1, 3, 4)
BATCH = 100


def fit_patches(x: Array, seed: int, number: int) -> Arrays:
    """Fit filters, centres and components on public images.

    Parameters
    ----------
    x : array of shape (rows, height, width) or (rows, height, width, colours)
        Public images.
    seed : int
        Seed of the patches and of k-means.
    number : int
        Number of features; those that the rows do not have are 0.

    Returns
    -------
    dict of str to array
        `low` and `high` of the pixels, whitening `filters` and their `offset`, `centres`, and the arrays of
        `fit_standard` for the pooled activations.
    """
    rng = stream(seed, "features")
    low, high = float(x.min()), float(x.max())
    patches = _some_patches(_pixels(x, low, high), rng)
    patches = patches[patches.std(axis=1) > FLAT] if (patches.std(axis=1) > FLAT).sum() > CENTRES else patches
    local = _normalized(patches)
    mean = local.mean(axis=0)
    strength, vectors = np.linalg.eigh(np.cov((local - mean).T))
    white = vectors @ np.diag((np.maximum(strength, 0) + WHITENING) ** -0.5) @ vectors.T
    means = MiniBatchKMeans(
        min(CENTRES, len(local)), batch_size=4096, n_init=1, max_iter=30, random_state=int(rng.integers(2**31))
    )
    centres = means.fit((local - mean) @ white).cluster_centers_
    arrays = {
        "low": np.array(low),
        "high": np.array(high),
        "filters": white,
        "offset": mean @ white,
        "centres": centres,
    }
    pooled = _pooled(arrays, x)
    values, spread = pooled.mean(axis=0), pooled.std(axis=0)
    scale = 1 / (spread + 1e-2 * max(float(spread.max(initial=0.0)), 1e-6))
    columns = np.clip((pooled - values) * scale, -CLIP, CLIP)
    components = principal_components(columns[:MAX_FITTED], number)
    largest = np.abs(columns @ components).max(initial=1e-9)
    return {**arrays, "mean": values, "scale": scale, "components": components, "largest": np.asarray(largest)}


def patches_graph(arrays: Arrays, row: tuple[int, ...]) -> ModelProto:
    """Return the graph of `fit_patches`.

    Parameters
    ----------
    arrays : dict of str to array
        Result of `fit_patches`.
    row : tuple of int
        Shape of an image.
    """
    graph = Graph(row)
    columns = _pooling_nodes(graph, arrays, row)
    whole = standardized(graph, columns, arrays["mean"], arrays["scale"])
    found, _ = projected(graph, whole, arrays["components"])
    of_length_one(graph, found, arrays["largest"].item() * 2.0**30, arrays["components"].shape[1])
    return graph.model()


def is_image(row: tuple[int, ...], pixels: int = 12) -> bool:
    """Whether a row is an image of at least this many pixels in height and width; colours are the last axis."""
    return len(row) in (2, 3) and min(row[:2]) >= pixels and (len(row) == 2 or row[2] in COLORS)


def _pooling_nodes(graph: Graph, arrays: Arrays, row: tuple[int, ...]) -> str:
    """Add the nodes from pixels to pooled activations, (rows, POOLS^2 x centres), whole numbers in float32.

    Pixels are 0 to 255, filters and centres are on grids, so that every convolution and every sum is exact.
    """
    height, width, colors = row[0], row[1], row[2] if len(row) == 3 else 1
    low, high = arrays["low"].item(), arrays["high"].item()
    scale = np.float32(LEVELS / max(high - low, 1e-6))
    shifted = graph.add("Sub", graph.add("Clip", ROWS, np.float32(-1e18), np.float32(1e18)), np.float32(low))
    pixels = graph.add("Clip", graph.add("Round", graph.add("Mul", shifted, scale)), np.float32(0), np.float32(LEVELS))
    image = graph.add("Reshape", pixels, np.array([-1, height, width, colors]))
    image = graph.add("Transpose", image, perm=[0, 3, 1, 2])
    count = colors * SIZE * SIZE
    window: dict[str, Any] = {"kernel_shape": [SIZE, SIZE]}
    ones = np.ones((1, colors, SIZE, SIZE), np.float32)
    mean = graph.add("Mul", graph.add("Conv", image, ones, **window), np.float32(1 / count))
    squares = graph.add("Conv", graph.add("Mul", image, image), ones, **window)
    variance = graph.add("Sub", graph.add("Mul", squares, np.float32(1 / count)), graph.add("Mul", mean, mean))
    deviation = graph.add("Sqrt", graph.add("Add", graph.add("Relu", variance), np.float32(CONTRAST)))
    kernels = _filters(arrays["filters"]).T.reshape(count, colors, SIZE, SIZE)
    answers = graph.add("Div", graph.add("Conv", image, kernels, **window), deviation)
    offset = arrays["offset"].reshape(1, count, 1, 1).astype(np.float32)
    whitened = graph.add("Sub", graph.add("Mul", answers, np.float32(1 / FILTER_STEPS)), offset)
    limit = np.float32(min(MAX_WHITE, 2**12 / np.sqrt(count) / WHITE_STEPS - 1))  # a sum of squares is exact
    near = graph.add("Clip", whitened, -limit, limit)
    steps = graph.add("Round", graph.add("Mul", near, np.float32(WHITE_STEPS)))
    field = [max(1, (size - SIZE + 1) // POOLS) for size in (height, width)]
    return _triangle_nodes(graph, steps, arrays["centres"], field)


def _triangle_nodes(graph: Graph, steps: str, centres: Array, field: list[int]) -> str:
    """Add the distances to all centres, max(0, their mean - each), and the means of these over fields of the image."""
    if len(centres) * MAX_DISTANCE * DISTANCE_STEPS > MAX_EXACT:
        raise ValueError(f"{len(centres)} centres are too many for exact sums")
    limited = centres * np.minimum(1, MAX_CENTRE / np.maximum(np.abs(centres).sum(axis=1, keepdims=True), 1e-9))
    whole = np.rint(limited * CENTRE_STEPS)
    kernels = whole[:, :, None, None].astype(np.float32)
    unit = np.float32(-2 / (WHITE_STEPS * CENTRE_STEPS))
    products = graph.add("Mul", graph.add("Conv", steps, kernels), unit)
    ones = np.ones((1, centres.shape[1], 1, 1), np.float32)
    squares = graph.add("Mul", graph.add("Conv", graph.add("Mul", steps, steps), ones), np.float32(1 / WHITE_STEPS**2))
    lengths = ((whole / CENTRE_STEPS) ** 2).sum(axis=1).reshape(1, -1, 1, 1).astype(np.float32)
    squared = graph.add("Add", graph.add("Add", products, lengths), squares)
    distance = graph.add("Clip", graph.add("Sqrt", graph.add("Relu", squared)), np.float32(0), np.float32(MAX_DISTANCE))
    rounded = graph.add("Round", graph.add("Mul", distance, np.float32(DISTANCE_STEPS)))
    total = graph.add("ReduceSum", rounded, np.array([1]), keepdims=1)
    mean = graph.add("Round", graph.add("Mul", total, np.float32(1 / len(centres))))
    active = graph.add("Relu", graph.add("Sub", mean, rounded))
    coarse = np.ceil(field[0] * field[1] * MAX_DISTANCE * DISTANCE_STEPS / MAX_EXACT)
    if coarse > 1:  # large images have large fields
        active = graph.add("Round", graph.add("Mul", active, np.float32(1 / coarse)))
    pooled = graph.add("AveragePool", active, kernel_shape=field, strides=field)
    return graph.add("Flatten", pooled)


def _filters(white: Array) -> Array:
    """Whitening filters in whole steps, (values of a patch, filters); each sums to 0, so that brightness drops out."""
    centred = white - white.mean(axis=0)
    limited = centred * np.minimum(1, MAX_FILTER / np.maximum(np.abs(centred).sum(axis=0), 1e-9))
    steps = np.rint(limited * FILTER_STEPS)
    steps[np.abs(steps).argmax(axis=0), np.arange(steps.shape[1])] -= steps.sum(axis=0)
    return np.asarray(steps, np.float32)


def _pixels(x: Array, low: float, high: float) -> Array:
    """Images as (rows, colours, height, width), from 0 to `LEVELS`."""
    levels = np.clip(np.rint((x - np.float32(low)) * np.float32(LEVELS / max(high - low, 1e-6))), 0, LEVELS)
    return levels[:, None] if x.ndim == 3 else np.moveaxis(levels, 3, 1)


def _some_patches(images: Array, rng: np.random.Generator) -> Array:
    """Patches at random places, (patches, colours x SIZE x SIZE)."""
    count = min(MAX_PATCHES, PATCHES * len(images))
    which = rng.integers(len(images), size=count)
    top, left = (rng.integers(images.shape[axis] - SIZE + 1, size=count) for axis in (2, 3))
    windows = np.lib.stride_tricks.sliding_window_view(images, (SIZE, SIZE), axis=(2, 3))
    return np.asarray(windows[which, :, top, left].reshape(count, -1))


def _normalized(patches: Array) -> Array:
    """Patches without their mean brightness, divided by their contrast."""
    centred = patches - patches.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt(patches.var(axis=1, keepdims=True) + CONTRAST))


def _pooled(arrays: Arrays, x: Array) -> Array:
    """Pooled activations of images, (rows, columns)."""
    from onnxruntime import InferenceSession

    graph = Graph(x.shape[1:])
    columns = _pooling_nodes(graph, arrays, x.shape[1:])
    graph.add("Cast", columns, to=TensorProto.DOUBLE, output=UNIT)
    session = InferenceSession(graph.model().SerializeToString(), providers=["CPUExecutionProvider"])
    parts = [x[start : start + BATCH] for start in range(0, len(x), BATCH)]
    return np.concatenate([session.run([UNIT], {ROWS: np.asarray(part, np.float32)})[0] for part in parts])
