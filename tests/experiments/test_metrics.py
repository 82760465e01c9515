"""Metrics against scikit-learn's, through real packed models."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from limbeck.data.draw import Draw, draw_parts
from limbeck.data.sets import load
from limbeck.experiments.metrics import Metrics, constant_metric, mean_metrics, score
from limbeck.models.constant import Constant
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Rows


@pytest.mark.parametrize("name", ["digits", "breast-cancer"])
def test_they_are_the_textbooks(name: str) -> None:
    data = load(name)
    parts = draw_parts(data, None, Draw(0.5), seed=0)
    train, test = data.rows(parts.private), parts.test
    assert test is not None
    model = PackedModel(model_from({"name": "naive-bayes"}).fit(train.x, train.y, len(data.classes), 0).pack())
    metrics = score(model, test)
    labels, scores = model.run(test.x)
    binary = len(data.classes) == 2
    auc = roc_auc_score(test.y, scores[:, 1]) if binary else roc_auc_score(np.eye(10)[test.y], scores, average="macro")
    assert metrics.accuracy == pytest.approx((labels == test.y).mean())
    assert metrics.balanced_accuracy == pytest.approx(balanced_accuracy_score(test.y, labels))
    assert metrics.roc_auc == pytest.approx(auc, abs=1e-6)


def test_no_auc_without_probabilities_or_with_one_class() -> None:
    iris = load("iris")
    svm = PackedModel(model_from({"name": "svm"}).fit(iris.x, iris.y, 3, 0).pack())
    assert score(svm, Rows(iris.x, iris.y)).roc_auc is None
    constant = PackedModel(Constant(0, 3, 4).pack())
    assert score(constant, Rows(iris.x[:5], np.zeros(5, int))) == Metrics(1.0, 1.0, None)


def test_a_constant_guess_has_a_balanced_accuracy_of_one_in_c() -> None:
    iris = load("iris")
    metrics = score(PackedModel(Constant(1, 3, 4).pack()), Rows(iris.x, iris.y))
    assert metrics == Metrics(pytest.approx(1 / 3), pytest.approx(1 / 3), 0.5)  # type: ignore[arg-type]


def test_the_constant_predictor_learns_from_private_rows_only() -> None:
    x = np.zeros((4, 1), np.float32)
    private = [Rows(x, np.array([0, 1, 1, 1])), Rows(x, np.array([0, 0, 1, 1]))]
    assert constant_metric(private, Rows(x, np.array([0, 0, 0, 1])), 2) == 0.25


def test_the_mean_is_over_parties() -> None:
    assert mean_metrics([Metrics(0.5, 0.25, 0.125), Metrics(1.0, 0.75, 0.375)]) == Metrics(0.75, 0.5, 0.25)
    assert mean_metrics([Metrics(0.5, 0.4, None), Metrics(1.0, 0.8, 0.5)]).roc_auc is None
