"""Mosaics: four images each, and the label of every digit that occurs, on made-up images."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from limbeck.data.mosaics import mosaics_of
from limbeck.data.sets import joined, load, names
from limbeck.protocol.rows import Array


def made_up(count: int, side: int, seed: int = 0) -> tuple[Array, Array]:
    """Images whose gray is that of their class."""
    y = np.random.default_rng(seed).integers(0, 10, count)
    return np.full((count, side, side), 20 * y[:, None, None], np.uint8), y


def test_a_mosaic_shows_the_classes_that_it_is_labelled_with() -> None:
    x, y = made_up(41, 4)
    rows, labels = mosaics_of(x, y, 10, "train")
    assert rows.shape == (10, 4, 4)
    assert rows.dtype == np.uint8
    for image, label in zip(rows, labels, strict=True):
        shown = {int(image[i : i + 2, j : j + 2].mean()) // 20 for i in (0, 2) for j in (0, 2)}
        assert shown == set(np.flatnonzero(label).tolist())


def test_every_image_is_used_once_and_halved() -> None:
    x = np.random.default_rng(0).integers(0, 255, (8, 6, 6)).astype(np.uint8)
    rows, _ = mosaics_of(x, np.zeros(8, int), 1, "train")
    tiles = [row[i : i + 3, j : j + 3] for row in rows for i in (0, 3) for j in (0, 3)]
    halves = [image.reshape(3, 2, 3, 2).mean(axis=(1, 3)).astype(np.uint8) for image in x]
    assert sorted(tile.tobytes() for tile in tiles) == sorted(half.tobytes() for half in halves)


def test_images_of_odd_size_lose_the_last_row_and_column() -> None:
    x, y = made_up(4, 5)
    assert mosaics_of(x, y, 10, "train")[0].shape == (1, 4, 4)


def test_parts_have_another_order_and_each_is_the_same_again() -> None:
    x, y = made_up(40, 4)
    one, two, other = (mosaics_of(x, y, 10, part)[1] for part in ("train", "train", "test"))
    assert (one == two).all()
    assert (one != other).any()


@pytest.fixture
def digits(save: Callable[..., Path]) -> None:
    x, y = made_up(80, 4)
    test_x, test_y = made_up(40, 4, 1)
    save("mnist", x_train=x, y_train=y, x_test=test_x, y_test=test_y)


def test_mosaics_are_a_set_of_several_labels_a_row(digits: None) -> None:
    assert {"mnist-mosaics", "mnist-mosaics-0-7"} <= set(names())
    assert "femnist-mosaics" not in names()
    whole, part = load("mnist-mosaics"), load("mnist-mosaics-0-7")
    assert whole.task == part.task == "multilabel"
    assert whole.y.shape == (20, 10)
    assert part.classes == tuple("01234567")
    assert (part.x == whole.x).all()
    assert (part.y == whole.y[:, :8]).all()
    assert part.official_test == 10
    assert whole.shares_rows_with(part)
    assert whole.shares_rows_with(load("mnist"))


def test_two_sets_joined_know_the_union_of_their_classes(digits: None, save: Callable[..., Path]) -> None:
    x, y = made_up(40, 4, 2)
    save("femnist", x_train=x, y_train=y)
    both = joined([load("mnist-mosaics-0-7"), load("femnist-mosaics-4-9")], "shared")
    assert both.classes == tuple("0123456789")
    assert both.task == "multilabel"
    first, second = both.y[:20], both.y[20:]
    assert (first[:, 8:] == -1).all()
    assert (second[:, :4] == -1).all()
    assert (first[:, :8] >= 0).all()
    assert (second[:, 4:] >= 0).all()
