"""Trees packed by hand against skl2onnx, and at the very thresholds."""

import numpy as np
import pytest
from skl2onnx import to_onnx
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from limbeck.models.forests import trees_of
from limbeck.models.onnx import PackedModel
from limbeck.models.trees import _rounded_down, pack_trees
from limbeck.protocol.rows import Array

KINDS = [
    DecisionTreeClassifier(random_state=0),
    ExtraTreeClassifier(random_state=0),
    RandomForestClassifier(30, max_depth=6, random_state=0),
    RandomForestClassifier(10, class_weight="balanced", random_state=0),
    ExtraTreesClassifier(20, random_state=0),
]


@pytest.mark.parametrize("dataset", [load_digits, load_breast_cancer, load_wine])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_the_same_as_skl2onnx(kind: object, dataset: object) -> None:
    from onnxruntime import InferenceSession

    bunch = dataset()  # type: ignore[operator]
    x, y = bunch.data.astype(np.float32), bunch.target
    estimator = clone(kind).fit(x[::2], y[::2])
    ours = PackedModel(_packed(estimator, x.shape[1]))
    reference = to_onnx(estimator, x[:1], options={"zipmap": False}, target_opset={"": 21, "ai.onnx.ml": 3})
    labels, scores = InferenceSession(reference.SerializeToString()).run(None, {"X": x})
    assert np.allclose(ours.scores(x), scores, atol=2e-6)
    top = np.sort(scores, axis=1)
    clear = top[:, -1] - top[:, -2] >= 1e-5
    assert np.array_equal(ours.vote(x)[clear], labels[clear])


def test_rows_at_a_threshold_fall_on_the_same_side() -> None:
    """The float32 neighbours of every float64 threshold are where rounding would send a row the wrong way."""
    rng = np.random.default_rng(0)
    x = rng.random((400, 3)).astype(np.float32) * 1000
    tree = DecisionTreeClassifier(random_state=0).fit(x, rng.integers(0, 3, 400))
    cuts = tree.tree_.threshold[tree.tree_.feature >= 0].astype(np.float32)
    near = np.concatenate([cuts, np.nextafter(cuts, np.float32(np.inf)), np.nextafter(cuts, np.float32(-np.inf))])
    rows = np.repeat(near[:, None], 3, axis=1)
    assert np.array_equal(PackedModel(_packed(tree, 3)).vote(rows), tree.predict(rows))


def test_rounding_never_goes_up() -> None:
    values = np.random.default_rng(0).normal(size=10_000) * 10.0 ** np.arange(10_000).__mod__(9)
    down = _rounded_down(values)
    assert (down <= values).all()
    assert (np.nextafter(down.astype(np.float32), np.float32(np.inf)) > values).all()


def _packed(estimator: object, features: int) -> bytes:
    trees = trees_of(estimator)
    assert trees is not None
    classes: Array = estimator.classes_  # type: ignore[attr-defined]
    return pack_trees(trees, classes, len(classes), features)
