"""Small sets of texts: reviews that a few words decide."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from limbeck.protocol.rows import Array

SHORT = ["good", "a bad film", "Good! é", "😀"]
GOOD, BAD = ("good", "fine", "moving", "great"), ("bad", "dull", "awful", "long")
OTHER = ("the", "film", "plot", "actor", "scene", "and", "music", "story")


def reviews(count: int, seed: int = 0) -> tuple[list[str], Array]:
    """Texts and their labels, 0 for bad ones and 1 for good ones."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    texts = [" ".join(rng.permutation([*rng.choice((BAD, GOOD)[y], 2), *rng.choice(OTHER, 5)])) for y in labels]
    return texts, labels


def npz_of(path: Path, train: Sequence[str], test: Sequence[str] = (), labels: Array | None = None) -> None:
    """Write an NPZ file of texts; the labels of the training rows are 0 and 1 in turn."""
    arrays = {"y_train": np.arange(len(train)) % 2 if labels is None else labels}
    for part, texts in (("train", train), ("test", test)):
        parts = [text.encode() for text in texts]
        if parts:
            arrays[f"text_{part}.bytes"] = np.frombuffer(b"".join(parts), np.uint8)
            arrays[f"text_{part}.ends"] = np.cumsum([len(each) for each in parts])
    if test:
        arrays["y_test"] = np.arange(len(test)) % 2
    np.savez(path, **arrays)  # type: ignore[arg-type]
