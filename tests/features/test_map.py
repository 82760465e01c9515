"""Feature maps: each vector depends on its row alone, to the bit, and is never longer than 1."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders import DENSE, convolution
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.features.encoder import NETWORK, SENTENCES
from limbeck.features.map import CONSTANT, MAPS, STEPS, FeatureMap, unpack
from limbeck.features.sentences import read_sentence_encoder
from limbeck.features.settings import Features
from limbeck.protocol.rows import Array
from tiny_bert import tiny_bert

EXTREMES = np.array([0.0, 1e30, -1e30, 3e38, -3e38, 1e-38, np.nan, np.inf, -np.inf, 1.0], np.float32)


def table(rows: int = 60, columns: int = 5) -> Array:
    x = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    x[:, 0] = x[:, 0] > 0.8  # a rare category
    x[:, 1] = 3.0  # a constant
    return x


def images(rows: int = 30, side: int = 14, colors: int = 0) -> Array:
    rng = np.random.default_rng(1)
    shape = (rows, side, side, colors) if colors else (rows, side, side)
    return np.asarray(rng.integers(0, 256, size=shape), np.float32)


def texts(rows: int = 60) -> Array:
    return np.floor(np.random.default_rng(2).random((rows, 12)) ** 3 * 500).astype(np.float32)


def sentences() -> FeatureMap:
    with TemporaryDirectory() as folder:
        return FeatureMap.fit(SENTENCES, texts(), 0, 20, read_sentence_encoder(tiny_bert(Path(folder)), 12))


MADE = {
    "standard": FeatureMap.fit("standard", table(), 0, 20),
    "fourier": FeatureMap.fit("fourier", table(), 0, 20),
    "patches": FeatureMap.fit("patches", images(), 0, 20),
    "patches in colour": FeatureMap.fit("patches", images(colors=3), 0, 20),
    "encoder": FeatureMap.fit("encoder", table(), 0, 20, DENSE),
    "encoder of images": FeatureMap.fit("encoder", images(), 0, 20, convolution(14)),
    "tfidf": FeatureMap.fit("tfidf", texts(), 0, 20),
    "sentence-encoder": sentences(),
}


@pytest.fixture(params=list(MADE))
def features(request: pytest.FixtureRequest) -> FeatureMap:
    return MADE[request.param]


def rows_for(features: FeatureMap, count: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(count, *features.row)).astype(np.float32) * 100


def numbers_of(features: FeatureMap) -> dict[str, Array]:
    """The arrays of a map, without an encoder's network."""
    return {name: array for name, array in features.arrays.items() if name != NETWORK}


def test_a_vector_does_not_depend_on_the_batch(features: FeatureMap) -> None:
    x = rows_for(features, 40, seed=2)
    together = features.unit(x)
    assert np.array_equal(np.concatenate([features.unit(x[i : i + 1]) for i in range(40)]), together)
    rng = np.random.default_rng(0)
    for size in (2, 3, 7, 16, 17, 39, 300):
        chosen = rng.choice(40, size)
        assert np.array_equal(features.unit(x[chosen]), together[chosen])


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(list(MADE)), seed=st.integers(0, 10**6), extreme=st.sampled_from(EXTREMES.tolist()))
def test_no_row_beside_moves_a_vector_and_none_is_longer_than_one(kind: str, seed: int, extreme: float) -> None:
    features, rng = MADE[kind], np.random.default_rng(seed)
    x = rows_for(features, 6, seed)
    x[0] = extreme
    x[1].flat[rng.integers(x[1].size)] = extreme
    found = features.steps(x)
    assert (found.astype(object) ** 2).sum(axis=1).max() <= STEPS**2
    assert np.array_equal(features.steps(x[2:]), found[2:])


@pytest.mark.parametrize("extreme", EXTREMES.tolist())
def test_extreme_rows_have_vectors_of_length_at_most_one(features: FeatureMap, extreme: float) -> None:
    row = np.full((1, *features.row), extreme, np.float32)
    steps = features.steps(row)[0]
    assert steps[0] == int(CONSTANT * STEPS)
    assert int((steps.astype(object) ** 2).sum()) <= STEPS**2
    if not np.isfinite(extreme):
        assert not steps[1:].any()  # the fixed vector of rows that are not finite


def test_a_map_travels_as_arrays_and_is_built_where_it_is_used(features: FeatureMap) -> None:
    found = unpack(features.kind, features.pack(), features.row)
    x = rows_for(features, 9, seed=3)
    assert found.hash == features.hash
    assert np.array_equal(found.steps(x), features.steps(x))


@pytest.mark.parametrize("huge", [1e30, -1e30, 0.0, 1e-30])
def test_hostile_arrays_give_no_longer_vectors(features: FeatureMap, huge: float) -> None:
    """A server sends the arrays: whatever they are, a party's vectors are finite, at most 1 long, and independent."""
    for name, array in numbers_of(features).items():
        arrays = {**features.arrays, name: np.full_like(array, huge)}
        forged = FeatureMap(features.kind, arrays, features.row)
        x = np.concatenate([rows_for(features, 4, seed=4), np.full((1, *features.row), 1e30, np.float32)])
        steps = forged.steps(x)
        assert (steps.astype(object) ** 2).sum(axis=1).max() <= STEPS**2
        assert np.array_equal(np.concatenate([forged.steps(x[i : i + 1]) for i in range(len(x))]), steps)


def test_what_is_no_map_is_refused(features: FeatureMap) -> None:
    with pytest.raises(LimbeckError, match="safetensors"):
        unpack(features.kind, b"no map", features.row)
    with pytest.raises(LimbeckError, match="known kind"):
        unpack("magic", features.pack(), features.row)
    lacking = {name: array for name, array in features.arrays.items() if name != "components"}
    with pytest.raises(LimbeckError, match="not a feature map"):
        _ = FeatureMap(features.kind, lacking, features.row).width
    infinite = {name: np.full_like(array, np.inf) for name, array in numbers_of(features).items()}
    with pytest.raises(LimbeckError, match="finite"):
        unpack(features.kind, FeatureMap(features.kind, infinite, features.row).pack(), features.row)


def test_a_map_depends_on_public_rows_and_the_seed_alone() -> None:
    for kind in MAPS:
        x = images() if kind == "patches" else table()
        same, other = FeatureMap.fit(kind, x, 0, 10), FeatureMap.fit(kind, x[::-1].copy() + 1, 0, 10)
        assert FeatureMap.fit(kind, x, 0, 10).hash == same.hash
        assert other.hash != same.hash


def test_auto_takes_patches_for_images_and_fourier_features_for_tables() -> None:
    assert Features().fit(images(), seed=0).kind == "patches"
    assert Features().fit(table(), seed=0).kind == "fourier"
    assert Features().fit(images(side=8), seed=0).kind == "fourier"
    assert Features("standard", number=7).fit(table(), seed=0).width == 7
    assert Features().fit(table(rows=12), seed=0).width == 12  # never more than public rows


def test_public_rows_that_are_all_alike_give_zero_vectors() -> None:
    for kind in MAPS:
        x = np.ones((20, 14, 14), np.float32) if kind == "patches" else np.ones((20, 3), np.float32)
        features = FeatureMap.fit(kind, x, 0, 5)
        assert np.isfinite(features.unit(x)).all()


def test_fourier_features_approximate_a_gaussian_kernel() -> None:
    """The components of enough frequencies keep the inner products of a kernel: near rows are alike, far ones are not."""
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    unit = FeatureMap.fit("fourier", x, 0, 200).unit(x)
    similar = unit @ unit.T
    distances = np.linalg.norm(x[:, None] - x[None], axis=2)
    pairs = np.triu_indices(200, 1)
    assert np.corrcoef(similar[pairs], np.exp(-(distances[pairs] ** 2) / 2))[0, 1] > 0.8


@pytest.mark.parametrize("row", [(30,), (7, 7), (3, 14, 14), (2, 14, 14, 3)])
def test_patches_need_images(row: tuple[int, ...]) -> None:
    x = np.zeros((20, *row), np.float32)
    with pytest.raises(
        LimbeckError, match=r"images of at least 8 x 8 pixels, with colours last; these rows have the shape"
    ):
        Features("patches").fit(x, 0)


def test_public_rows_without_features_give_a_warning() -> None:
    with pytest.warns(LimbeckWarning, match="all features of the public rows are 0"):
        Features("standard").fit(np.ones((20, 3), np.float32), 0)


def test_there_are_at_most_2048_features() -> None:
    with pytest.raises(LimbeckError, match="number"):
        Features(number=2049)


def forged(kind: str) -> dict[str, Any]:
    """A map whose sums would not be exact: no rows give such weights."""
    if kind == "fourier":
        columns = FeatureMap.fit("fourier", np.random.default_rng(0).normal(size=(60, 9)).astype(np.float32), 0, 12)
        big = np.full((2**16, 64), 1, np.float32)
        wide = {"mean": np.zeros(2**16), "scale": np.ones(2**16), "components": big}
        return {**columns.arrays, **wide, "frequencies": np.ones((64, 600))}
    images = FeatureMap.fit("patches", np.random.default_rng(0).random((30, 12, 12)).astype(np.float32), 0, 5)
    return {**images.arrays, "centres": np.zeros((2000, 64))}


@pytest.mark.parametrize(("kind", "row"), [("fourier", (2**16,)), ("patches", (12, 12))])
def test_a_map_whose_sums_may_not_be_exact_is_refused(kind: str, row: tuple[int, ...]) -> None:
    arrays = {name: np.asarray(each, np.float32) for name, each in forged(kind).items()}
    with pytest.raises(LimbeckError, match="not a feature map of the kind"):
        _ = unpack(kind, FeatureMap(kind, arrays, row).pack(), row).width


def test_large_images_are_mapped_alike_in_any_batch() -> None:
    """Their fields are so large that activations are made coarser, so that every sum is exact."""
    x = np.random.default_rng(0).random((12, 200, 200)).astype(np.float32)
    features = FeatureMap.fit("patches", x, 0, 4)
    assert (features.unit(x)[3:4] == features.unit(x[3:4])).all()
