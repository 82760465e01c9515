"""Scores: what models say of public rows, as logits, probabilities or labels, and what they say together."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from limbeck.knowledge.votes import winners
from limbeck.protocol.rows import Array

Exchange = Literal["logits", "softmax", "argmax"]
LEAST = 1e-2  # a probability below it has the logit of this one, lest a tree's zeros outweigh all others


def shown(logits: Array, exchange: Exchange) -> Array:
    """Logits [rows, classes] as they are exchanged: float32 scores, or labels in as few bytes as there are classes.

    A row whose logits are not finite has no label: it gets one beyond the last.
    """
    match exchange:
        case "logits":
            return np.asarray(logits, np.float32)
        case "softmax":
            return np.asarray(softmax(logits), np.float32)
        case "argmax":
            classes = logits.shape[1]
            labels = np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), classes)
            return np.asarray(labels, np.min_scalar_type(classes))


def consensus(said: Sequence[Array], weights: Sequence[float], exchange: Exchange, classes: int) -> Array:
    """The weighted mean of scores; of labels, the one with the most weight, and among equals the lowest."""
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    if exchange != "argmax":
        return np.asarray(np.einsum("p,prc->rc", shares, np.stack(said, dtype=np.float64)), np.float32)
    counts = np.zeros((len(said[0]), classes))
    for labels, share in zip(said, shares, strict=True):
        counts[np.arange(len(labels)), labels] += share
    return winners(counts.round(12)).astype(said[0].dtype)


def class_shares(counts: Array) -> Array:
    """[parties, classes] rows by class become each party's share of each class (FedKD, Equation 1).

    A class that nobody holds is shared equally; noise may have made counts negative, which are none.
    """
    held = np.maximum(np.nan_to_num(np.asarray(counts, np.float64), posinf=0.0), 0.0)
    total = held.sum(axis=0)
    return np.where(total > 0, held / np.where(total > 0, total, 1.0), 1 / len(held))


def fall_apart(counts: Array) -> bool:
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


def labels_of(agreed: Array) -> Array:
    """The class that a consensus points to, whatever was exchanged."""
    return np.asarray(agreed if agreed.ndim == 1 else agreed.argmax(axis=1), np.int64)


def logits_of(probabilities: Array) -> Array:
    """Logits of a model that gives probabilities."""
    return np.log(np.maximum(probabilities, LEAST))


def softmax(logits: Array) -> Array:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
