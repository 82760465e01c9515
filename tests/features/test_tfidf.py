"""Features of texts: principal components of tf-idf weights."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfTransformer

from limbeck.data.tokens import Tokens
from limbeck.errors import LimbeckError
from limbeck.features.map import FeatureMap
from limbeck.features.settings import Features
from limbeck.models.token_weights import MAX_IDF, STEPS, counts_of, idf_of, tfidf
from limbeck.protocol.rows import Array
from text_sets import reviews

RULE = Tokens(length=10)


def rows(count: int = 60, seed: int = 0) -> Array:
    return RULE.encode([f"{text} {text[:9]}" for text in reviews(count, seed)[0]])


def test_weights_are_those_of_scikit_learn() -> None:
    counts = counts_of(rows(), 512)
    expected = TfidfTransformer(sublinear_tf=True).fit_transform(counts).toarray()
    assert counts.max() > 1
    assert np.abs(tfidf(rows(), idf_of(counts)).toarray() - expected).max() < 0.01


def test_the_graph_computes_components_of_these_weights() -> None:
    features = FeatureMap.fit("tfidf", rows(), 0, 20)
    arrays = {name: np.asarray(each, float) for name, each in features.arrays.items()}
    values = tfidf(rows(30, seed=1), arrays["idf"]) @ arrays["components"] - arrays["centre"]
    expected = values / np.linalg.norm(values, axis=1, keepdims=True)
    assert np.abs(features.unit(rows(30, seed=1)) - expected).max() < 1e-4


def test_a_text_without_known_words_has_the_vector_zero() -> None:
    features = FeatureMap.fit("tfidf", rows(), 0, 20)
    assert not features.unit(RULE.encode(["", None, "xylophone quartz"])).any()


def test_near_texts_have_near_vectors() -> None:
    features = FeatureMap.fit("tfidf", rows(400), 0, 20)
    one, same, other = features.unit(RULE.encode(["good great film", "great film, good", "dull awful plot"]))
    assert np.array_equal(one, same)
    assert one @ other < 0.5


def test_auto_takes_tfidf_for_texts_alone() -> None:
    assert Features().fit(rows(), 0, Path(), True).kind == "tfidf"
    assert Features().fit(rows(), 0).kind == "fourier"
    with pytest.raises(LimbeckError, match='"tfidf" needs texts, but these rows are numbers'):
        Features("tfidf").fit(rows(), 0)


def test_sums_are_exact_for_the_longest_rows() -> None:
    """The largest weights that a hostile map can have; 600 numbers are more than a text may have."""
    x = np.tile(np.arange(1, 601, dtype=np.float32), (3, 1))
    arrays = {
        "idf": np.full(4096, MAX_IDF, np.float32),
        "components": np.ones((4096, 3), np.float32),
        "centre": np.zeros(3, np.float32),
        "largest": np.asarray(1.0, np.float32),
    }
    features = FeatureMap("tfidf", arrays, (600,))
    rng = np.random.default_rng(0)
    mixed = np.stack([rng.permutation(row) for row in x])
    assert np.array_equal(features.unit(mixed), features.unit(x))
    assert 600 * STEPS * MAX_IDF * 2**20 < 2**53
    with pytest.raises(LimbeckError, match="not a feature map"):
        _ = FeatureMap("tfidf", arrays, (5000,)).width
