"""Chance by key: as even as a generator's, and the same for a network alone and in a stack."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.func import vmap

from limbeck.errors import LimbeckError
from limbeck.models.randomness import Dropout, augmented, chosen, uniform
from limbeck.models.views import views

IMAGES = torch.arange(2 * 3 * 12 * 12, dtype=torch.float32).reshape(2, 3, 12, 12) + 1


def test_values_are_even_and_those_of_two_keys_purposes_or_places_unrelated() -> None:
    one, other = (uniform(torch.tensor(key), (100_000,), 0).numpy() for key in (5, 6))
    third = uniform(torch.tensor(5), (100_000,), 1).numpy()
    assert stats.kstest(one, "uniform").pvalue > 0.01
    assert 0 <= one.min() <= one.max() < 1
    for values in (other, third, np.roll(one, 1)):
        assert abs(np.corrcoef(one, values)[0, 1]) < 0.02


def test_a_short_batch_draws_as_the_whole_one_does() -> None:
    whole, short = (uniform(torch.tensor(9), (rows, 7), 2) for rows in (5, 3))
    assert torch.equal(whole[:3], short)


@pytest.mark.parametrize("share", [0.0, 1e-9, 0.2, 0.5, 1 - 1e-9, 1.0])
def test_about_so_many_are_chosen_whatever_the_shape(share: float) -> None:
    found = chosen(torch.tensor(4), (1001, 101), share, 0)
    assert found.float().mean().item() == pytest.approx(share, abs=0.005)
    assert torch.equal(chosen(torch.tensor(4), (7, 101), share, 0), found[:7])
    together = vmap(lambda key: chosen(key, (1001, 101), share, 0))(torch.tensor([1, 4]))
    assert torch.equal(together[1], found)


def test_values_from_the_same_64_bits_are_unrelated() -> None:
    found = chosen(torch.tensor(8), (50_000, 4), 0.5, 0).float().numpy()
    other = chosen(torch.tensor(9), (50_000, 4), 0.5, 0).float().numpy()
    related = np.corrcoef(np.concatenate([found, other], axis=1).T) - np.eye(8)
    assert np.abs(related).max() < 0.02


def test_dropout_keeps_its_share_and_its_mean() -> None:
    dropout = Dropout(0.3, 0)
    dropout.key.fill_(11)
    dropped = dropout(torch.ones(200, 500))
    assert (dropped == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    assert torch.equal(dropout.eval()(IMAGES), IMAGES)
    assert not Dropout(1.0, 0)(IMAGES).any()


@pytest.mark.parametrize("how", ["flip", "crop", "crop-flip"])
def test_augmentation_moves_each_image_in_its_own_way(how: str) -> None:
    many = IMAGES[:1].expand(64, -1, -1, -1)
    moved = augmented(many, torch.tensor(3), how)  # type: ignore[arg-type]
    kinds = len(torch.unique(moved, dim=0))
    assert kinds == 2 if how == "flip" else kinds > 30
    assert (moved[:, 1] - moved[:, 0])[moved[:, 0] > 0].unique().tolist() == [144.0]
    together = vmap(lambda key: augmented(many, key, how))(torch.tensor([1, 3]))  # type: ignore[arg-type]
    assert torch.equal(together[1], moved)


def test_a_crop_is_a_shift_by_at_most_four_pixels() -> None:
    found = augmented(IMAGES[:1].expand(200, -1, -1, -1), torch.tensor(0), "crop")[:, 0]
    padded = torch.nn.functional.pad(IMAGES[0, 0], (4, 4, 4, 4))
    shifts = {tuple(padded[i : i + 12, j : j + 12].flatten().tolist()) for i in range(9) for j in range(9)}
    assert {tuple(image.flatten().tolist()) for image in found} <= shifts


def test_a_square_half_as_wide_is_cut_out_of_each_image() -> None:
    many = IMAGES[:1].expand(200, -1, -1, -1)
    cut, whole = (augmented(many, torch.tensor(5), how) for how in ("crop-flip-cutout", "crop-flip"))
    hidden = (cut == 0.5).all(1)
    assert torch.equal(cut[~hidden[:, None].expand_as(cut)], whole[~hidden[:, None].expand_as(cut)])
    assert hidden.sum((1, 2)).max() == 36
    assert hidden.sum((1, 2)).min() >= 9  # a corner
    assert len(torch.unique(hidden, dim=0)) > 60
    together = vmap(lambda key: augmented(many, key, "crop-flip-cutout"))(torch.tensor([1, 5]))
    assert torch.equal(together[1], cut)


@pytest.mark.parametrize("shape", [(6, 12, 12), (6, 12, 12, 3), (6, 3, 12, 12)])
def test_views_are_the_same_wherever_they_are_made(shape: tuple[int, ...]) -> None:
    rows = np.random.default_rng(0).random(shape, np.float32)
    [alone] = views(rows, 1, 3)
    assert alone is rows
    first, again = (list(views(rows, 3, seed=7)) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    assert all(view.shape == shape and view.dtype == np.float32 for view in first)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], next(views(rows, 3, seed=8)))


def test_only_images_are_augmented() -> None:
    assert augmented(IMAGES, torch.tensor(0), "none") is IMAGES
    with pytest.raises(LimbeckError, match="augmentation = 'flip' is for images"):
        augmented(torch.zeros(3, 7), torch.tensor(0), "flip")


def test_one_dropout_used_twice_draws_twice() -> None:
    dropout = Dropout(0.5, 0)
    first, second = dropout(torch.ones(1000)), dropout(torch.ones(1000))
    assert 400 < (first == second).sum().item() < 600
