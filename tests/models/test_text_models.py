"""Models of texts: they learn, pack as ONNX with allowed operators, and predict the same when packed."""

from typing import Any

import numpy as np
import pytest

from limbeck.data.tokens import Tokens
from limbeck.errors import LimbeckError
from limbeck.models.inspection import inspect
from limbeck.models.named import TEXT_NETWORKS, model_from, reads_tokens
from limbeck.models.onnx import PackedModel
from limbeck.models.smoke_test import smoke_test
from limbeck.models.tfidf_linear import TfidfLinear
from limbeck.models.torch import TorchModel
from limbeck.protocol.rows import Array
from text_sets import reviews

RULE = Tokens(length=16)
RECIPE = {"epochs": 10, "learning_rate": 1e-2}
TABLES: dict[str, dict[str, Any]] = {
    "tfidf-linear": {"name": "tfidf-linear"},
    "text-cnn": {"name": "text-cnn", "filters": 16, "buckets": 2000, "recipe": RECIPE},
    "bag-of-embeddings": {"name": "bag-of-embeddings", "buckets": 1000, "size": 16, "recipe": RECIPE},
}


def rows(count: int, seed: int = 0) -> tuple[Array, Array]:
    texts, labels = reviews(count, seed)
    return RULE.encode(texts), labels


@pytest.mark.parametrize("name", TABLES)
def test_it_learns_and_packs(name: str) -> None:
    fitted = model_from(TABLES[name]).fit(*rows(300), classes=3, seed=0)
    x, y = rows(100, seed=1)
    data = fitted.pack()
    inspect(data)
    packed = PackedModel(data)
    assert (fitted.vote(x) == y).mean() > 0.9
    odd = RULE.encode(["", None, "x" * 10**6, "good " * 999, "你好 😀", "unknown words only"])
    for each in (
        x,
        odd,
        x[:1],
        np.full((2, 16), 1e30, np.float32),
        np.full((2, 16), -3.7, np.float32),
        np.full((1, 16), np.nan),
    ):
        assert np.array_equal(packed.vote(each), fitted.vote(each))
        assert np.allclose(packed.scores(each), fitted.scores(each), atol=1e-5)
    assert packed.scores(x).shape == (100, 3)
    assert packed.has_probabilities
    assert model_from(TABLES[name]).fit(*rows(300), classes=3, seed=0).pack() == data


@pytest.mark.parametrize("name", TABLES)
def test_made_up_rows_do_not_stop_a_run(name: str) -> None:
    smoke_test(model_from({**TABLES[name], "name": name}), (16,), 3)


@pytest.mark.parametrize("classes", [[0, 2, 3], [1, 3]])
def test_the_linear_model_speaks_of_all_classes(classes: list[int]) -> None:
    x, _ = rows(60)
    labels = np.array(classes)[np.arange(60) % len(classes)]
    fitted = TfidfLinear().fit(x, labels, classes=5, seed=0)
    for model in (fitted, PackedModel(fitted.pack())):
        assert set(np.flatnonzero(model.scores(x).max(axis=0))) <= set(classes)
        assert np.allclose(model.scores(x).sum(axis=1), 1, atol=1e-5)
        assert set(model.vote(x)) <= set(classes)


def test_rows_of_one_class_give_a_constant() -> None:
    x, _ = rows(10)
    assert set(TfidfLinear().fit(x, np.full(10, 2), classes=3, seed=0).vote(x)) == {2}


def test_texts_without_any_word_are_fitted() -> None:
    x = np.zeros((6, 16), np.float32)
    fitted = TfidfLinear().fit(x, np.arange(6) % 3, classes=3, seed=0)
    assert np.allclose(PackedModel(fitted.pack()).scores(x), fitted.scores(x), atol=1e-5)


def test_tokens_share_buckets_by_their_remainder() -> None:
    """Also if the number of buckets is no power of two: the packed model divides in float32."""
    x = np.random.default_rng(0).integers(0, 2**16, size=(200, 16)).astype(np.float32)
    fitted = TfidfLinear(buckets=999).fit(x, np.arange(200) % 2, classes=2, seed=0)
    assert np.allclose(PackedModel(fitted.pack()).scores(x), fitted.scores(x), atol=1e-4)
    assert np.array_equal(fitted.scores(x + 999 * (x > 0)), fitted.scores(x))


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"name": "tfidf-linear", "bucket": 3}, "no parameter 'bucket'; did you mean 'buckets'?"),
        ({"name": "tfidf-linear", "buckets": 0}, "buckets = 0"),
        ({"name": "tfidf-linear", "C": -1.0}, "C = -1.0"),
        ({"name": "tfidf-linear", "description": {}}, "no parameter 'description'"),
        ({"name": "text-cn"}, "unknown model 'text-cn'; did you mean 'text-cnn'?"),
        ({"name": "text-cnn", "embedding": 3}, "no parameter 'embedding'"),
    ],
)
def test_wrong_tables_are_reported(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LimbeckError, match=complaint):
        model_from(table)


@pytest.mark.parametrize("name", TEXT_NETWORKS)
def test_networks_take_token_numbers_only(name: str) -> None:
    model = model_from({"name": name})
    assert isinstance(model, TorchModel)
    with pytest.raises(LimbeckError, match=f"{name} takes texts, as rows of token numbers, not rows of 1x28x28"):
        model.tried((28, 28), 2)
    wrong = model_from({"name": name, "buckets": 0})
    assert isinstance(wrong, TorchModel)
    with pytest.raises(LimbeckError, match=f"{name}: buckets = 0 must be a whole number"):
        wrong.tried((16,), 2)


def test_texts_are_longer_than_the_widest_filter() -> None:
    model = model_from({"name": "text-cnn"})
    assert isinstance(model, TorchModel)
    with pytest.raises(LimbeckError, match=r"widths = \[3, 4, 5\] must be whole numbers from 1 to 4"):
        model.tried((4,), 2)


def test_which_models_read_token_numbers() -> None:
    assert all(reads_tokens(name) for name in (*TABLES, "python:mine:model", "prior-corrected"))
    assert not any(reads_tokens(name) for name in ("random-forest", "torch-mlp", "fedmd-mnist-0"))
