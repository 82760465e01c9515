"""Scores: what models predict for public rows, as logits, probabilities or labels, and their consensus."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from limbeck.knowledge.votes import winners
from limbeck.protocol.rows import Array

ScoreFormat = Literal["logits", "softmax", "argmax"]
MIN_PROBABILITY = 1e-2  # a probability below it has the logit of this one, lest a tree's zeros outweigh all others


def exchanged(logits: Array, exchange: str) -> Array:
    """Logits [rows, classes] as they are sent: float32 scores, or labels in as few bytes as there are classes.

    A row whose logits are not finite has no label: it gets one beyond the last.
    """
    match exchange:
        case "logits":
            return np.asarray(logits, np.float32)
        case "softmax":
            return np.asarray(softmax(logits), np.float32)
    classes = logits.shape[1]
    labels = np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), classes)
    return np.asarray(labels, np.min_scalar_type(classes))


def consensus_of(scores: Sequence[Array], weights: Sequence[float], exchange: str, classes: int) -> Array:
    """The weighted mean of scores; of labels, the one with the most weight, and among equals the lowest."""
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    if exchange != "argmax":
        return np.asarray(np.einsum("p,prc->rc", shares, np.stack(scores, dtype=np.float64)), np.float32)
    counts = np.zeros((len(scores[0]), classes))
    for labels, share in zip(scores, shares, strict=True):
        counts[np.arange(len(labels)), labels] += share
    return winners(counts.round(12)).astype(scores[0].dtype)


def alignment_rows(size: int, labels: Array | None, count: int, rng: np.random.Generator) -> Array:
    """Numbers of the public rows of a round: drawn at random, stratified by class where labels are known."""
    order = rng.permutation(size)
    if labels is not None and count < size:
        shuffled = labels[order]
        by_class = np.argsort(shuffled, kind="stable")
        sizes = np.bincount(shuffled)
        rank = np.arange(size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        position = np.empty(size)
        position[by_class] = (rank + 0.5) / sizes[shuffled[by_class]]
        order = order[np.argsort(position, kind="stable")]
    return np.sort(order[:count]).astype(np.min_scalar_type(size - 1))


def class_shares(counts: Array) -> Array:
    """[parties, classes] rows by class become each party's share of each class (FedKD, Equation 1).

    A class that nobody holds is shared equally; noise may have made counts negative, which are none.
    """
    held = np.maximum(np.nan_to_num(np.asarray(counts, np.float64), posinf=0.0), 0.0)
    total = held.sum(axis=0)
    return np.where(total > 0, held / np.where(total > 0, total, 1.0), 1 / len(held))


def classes_are_disconnected(counts: Array) -> bool:
    """Whether there are two groups of classes such that nobody holds rows of both: [parties, classes] counts."""
    held = counts[:, counts.any(axis=0)] > 0
    near = held.T.astype(np.int64) @ held  # classes that one party holds
    for _ in range(len(near).bit_length()):
        near = np.minimum(near @ near, 1)
    return bool((near == 0).any())


def contrasts(counts: Array) -> Array:
    """[parties, classes] rows by class become the fewer of a party's rows of a class and its rows of all others."""
    held = np.maximum(counts, 0.0)
    return np.asarray(np.minimum(held, held.sum(axis=1, keepdims=True) - held))


def contrast_weights(counts: Array) -> Array:
    """[parties, classes] counts become weights of the parties' votes for each class, none above 1."""
    shares = class_shares(contrasts(counts))
    return np.asarray(shares / shares.max())


def labels_of(agreed: Array) -> Array:
    """The class that a consensus points to, whatever was exchanged."""
    return np.asarray(agreed if agreed.ndim == 1 else agreed.argmax(axis=1), np.int64)


def logits_of(probabilities: Array) -> Array:
    """Logits of a model that gives probabilities."""
    return np.log(np.maximum(probabilities, MIN_PROBABILITY))


def softmax(logits: Array) -> Array:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
