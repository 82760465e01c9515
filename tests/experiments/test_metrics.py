"""Metrics against scikit-learn's, through real packed models."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    f1_score,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    recall_score,
    roc_auc_score,
)

from limbeck.data.draw import Draw, draw_parts
from limbeck.data.sets import load
from limbeck.experiments.class_metrics import calibration_bins, confidence
from limbeck.experiments.metrics import (
    Metrics,
    constant_metric,
    mean_metrics,
    metrics_of_classes,
    metrics_of_numbers,
    metrics_of_several,
    score,
)
from limbeck.models.constant import Constant
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.tasks import for_task
from limbeck.protocol.rows import Rows
from limbeck.protocol.task import Task


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
    shares = np.eye(10)[test.y] if not binary else test.y
    scored = scores[:, 1] if binary else scores
    assert metrics.pr_auc == pytest.approx(average_precision_score(shares, scored, average="macro"), abs=1e-6)
    assert metrics.f1 == pytest.approx(f1_score(test.y, labels, average="binary" if binary else "macro"))
    assert metrics.confusion == confusion_matrix(test.y, labels).tolist()
    squared = ((np.eye(len(data.classes))[test.y] - scores) ** 2).sum(axis=1).mean()
    assert metrics.brier == pytest.approx(brier_score_loss(test.y, scores[:, 1]) if binary else squared)
    if binary:
        assert metrics.sensitivity == pytest.approx(recall_score(test.y, labels))
        assert metrics.specificity == pytest.approx(recall_score(test.y, labels, pos_label=0))


def test_calibration_is_scikit_learns_curve_weighted_by_rows() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = (rng.random(500) < p**2).astype(int)
    bins = calibration_bins(*confidence(np.stack([1 - p, p], axis=1), y))
    observed, predicted = calibration_curve(y, p, n_bins=10)
    assert [each.observed for each in bins] == pytest.approx(observed.tolist())
    assert [each.predicted for each in bins] == pytest.approx(predicted.tolist())
    rows = np.array([each.rows for each in bins])
    found = metrics_of_classes((p > 0.5).astype(int), np.stack([1 - p, p], axis=1), y, 2)
    assert found.calibration_error == pytest.approx((rows * np.abs(observed - predicted)).sum() / 500)
    assert 0.1 < (found.calibration_error or 0) < 0.25  # of p - p^2 the mean is 1/6


def test_of_more_classes_the_best_class_is_calibrated() -> None:
    scores = np.array([[0.8, 0.1, 0.1], [0.1, 0.85, 0.05], [0.3, 0.3, 0.4]])
    found = metrics_of_classes(scores.argmax(axis=1), scores, np.array([0, 0, 2]), 3)
    assert found.calibration_error == pytest.approx((2 * abs(0.825 - 0.5) + abs(0.4 - 1)) / 3)
    assert metrics_of_classes(np.zeros(3, int), None, np.zeros(3, int), 21).confusion is None


def test_metrics_without_probabilities_or_positive_rows() -> None:
    y = np.array([0, 0, 1, 1])
    found = metrics_of_classes(np.array([0, 1, 1, 1]), None, y, 2)
    assert (found.pr_auc, found.brier, found.calibration_error) == (None, None, None)
    assert (found.sensitivity, found.specificity, found.f1) == (1.0, 0.5, 0.8)
    none = metrics_of_classes(np.array([0, 1]), np.full((2, 2), 0.5), np.zeros(2, int), 2)
    assert (none.sensitivity, none.specificity, none.f1, none.pr_auc) == (None, 0.5, None, None)
    assert none.brier == 0.25


@pytest.mark.parametrize(
    ("rare", "shown"),
    [(19, ("accuracy", "balanced_accuracy", "roc_auc", "pr_auc")), (20, ("accuracy", "balanced_accuracy", "roc_auc"))],
)
def test_tables_show_the_precision_recall_curve_of_a_rare_class(rare: int, shown: tuple[str, ...]) -> None:
    assert Metrics(confusion=[[100 - rare, 0], [rare, 0]]).shown("multiclass") == shown
    assert Metrics(confusion=[[rare, 0], [0, 100 - rare]]).shown("multiclass") == shown
    assert Metrics(confusion=[[9, 0, 0]] * 3).shown("multiclass") == ("accuracy", "balanced_accuracy")


def test_no_auc_without_probabilities_or_with_one_class() -> None:
    iris = load("iris")
    svm = PackedModel(model_from({"name": "svm"}).fit(iris.x, iris.y, 3, 0).pack())
    assert score(svm, Rows(iris.x, iris.y)).roc_auc is None
    constant = PackedModel(Constant(0, 3, 4).pack())
    found = score(constant, Rows(iris.x[:5], np.zeros(5, int)))
    assert (found.accuracy, found.balanced_accuracy, found.roc_auc, found.pr_auc) == (1.0, 1.0, None, None)
    assert found.confusion == [[5, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_a_constant_guess_has_a_balanced_accuracy_of_one_in_c() -> None:
    iris = load("iris")
    metrics = score(PackedModel(Constant(1, 3, 4).pack()), Rows(iris.x, iris.y))
    found = [metrics.accuracy, metrics.balanced_accuracy, metrics.roc_auc, metrics.pr_auc]
    assert found == pytest.approx([1 / 3, 1 / 3, 0.5, 1 / 3])
    assert (metrics.sensitivity, metrics.specificity) == (None, None)


def test_the_constant_predictor_learns_from_private_rows_only() -> None:
    x = np.zeros((4, 1), np.float32)
    private = [Rows(x, np.array([0, 1, 1, 1])), Rows(x, np.array([0, 0, 1, 1]))]
    assert constant_metric(private, Rows(x, np.array([0, 0, 0, 1])), 2) == 0.25


def test_the_mean_is_over_parties() -> None:
    assert mean_metrics([Metrics(0.5, 0.25, 0.125), Metrics(1.0, 0.75, 0.375)]) == Metrics(0.75, 0.5, 0.25)
    assert mean_metrics([Metrics(0.5, 0.4, None), Metrics(1.0, 0.8, 0.5)]).roc_auc is None


def test_of_several_labels_they_are_scikit_learns_for_each_class() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (200, 4)).astype(np.int8)
    scores = np.clip(0.4 * y + 0.6 * rng.random((200, 4)), 0, 1)
    y[rng.random((200, 4)) < 0.3] = -1  # unknown labels are left out
    y[:, 3] = np.where(y[:, 3] == 0, 1, y[:, 3])  # and this class has positive rows only
    found = metrics_of_several(scores, y)
    known = [y[:, c] >= 0 for c in range(4)]
    aucs = [roc_auc_score(y[rows, c], scores[rows, c]) for c, rows in enumerate(known[:3])]
    assert found.class_auc == [*map(pytest.approx, aucs), None]
    assert found.roc_auc == pytest.approx(np.mean(aucs))
    truth, labels = y[y >= 0], (scores > 0.5)[y >= 0]
    assert found.accuracy == pytest.approx((truth == labels).mean())
    recalls = [
        recall_score(y[rows, c], scores[rows, c] > 0.5, average=None, labels=np.unique(y[rows, c]))
        for c, rows in enumerate(known)
    ]
    assert found.balanced_accuracy == pytest.approx(np.mean(np.concatenate(recalls)))
    assert found.headline("multilabel") == found.roc_auc
    areas = [average_precision_score(y[rows, c], scores[rows, c]) for c, rows in enumerate(known[:3])]
    assert found.pr_auc == pytest.approx(np.mean(areas))
    f1s = [f1_score(y[rows, c], scores[rows, c] > 0.5) for c, rows in enumerate(known)]
    assert found.f1 == pytest.approx(np.mean(f1s))
    assert metrics_of_several(scores, y, threshold=0.0).accuracy == pytest.approx((y[y >= 0] == 1).mean())


def test_of_one_class_they_are_those_of_two_classes() -> None:
    data = load("breast-cancer")
    tree = model_from({"name": "decision-tree", "max_depth": 3})
    binary = score(PackedModel(tree.fit(data.x[:200], data.y[:200], 2, 0).pack()), Rows(data.x[200:], data.y[200:]))
    model = PackedModel(for_task(tree, "multilabel").fit(data.x[:200], data.y[:200, None], 1, 0).pack())
    several = score(model, Rows(data.x[200:], data.y[200:, None].astype(np.int8)), Task("multilabel"))
    for name in ("accuracy", "balanced_accuracy", "roc_auc"):
        assert getattr(several, name) == pytest.approx(getattr(binary, name))


@pytest.mark.parametrize("limits", [(0.0, 1.0), (-40.0, 360.0)])
def test_of_numbers_they_are_scikit_learns_in_the_unit_of_the_target(limits: tuple[float, float]) -> None:
    data, task = load("diabetes"), Task("regression", *limits)
    y = data.y if limits[0] else (data.y + 40) / 400
    scaled = task.scaled(y)
    model = PackedModel(
        for_task(model_from({"name": "linear-regression"}), "regression").fit(data.x[:300], scaled[:300], 1, 0).pack()
    )
    found = score(model, Rows(data.x[300:], scaled[300:]), task)
    predicted = task.unscaled(model.vote(data.x[300:]))
    assert found.rmse == pytest.approx(mean_squared_error(y[300:], predicted) ** 0.5, rel=1e-5)
    assert found.mae == pytest.approx(mean_absolute_error(y[300:], predicted), rel=1e-5)
    assert found.r2 == pytest.approx(r2_score(y[300:], predicted), rel=1e-5)
    assert found.accuracy is None
    assert found.headline("regression") == found.r2


def test_metrics_that_cannot_be_computed_are_none() -> None:
    nothing = metrics_of_several(np.full((3, 2), 0.5), np.full((3, 2), -1))
    assert nothing == Metrics(class_auc=[None, None])
    assert metrics_of_numbers(np.array([1.0, 2.0]), np.array([3.0, 3.0])).r2 is None
    assert metrics_of_several(np.array([[np.nan], [0.1]]), np.array([[1], [0]])).class_auc == [None]


def test_the_constant_predictor_of_other_labels() -> None:
    x = np.zeros((4, 1), np.float32)
    private = [Rows(x, np.array([0.0, 0.5, 0.5, 1.0], np.float32))]
    test = Rows(x, np.array([0.25, 0.5, 0.5, 0.75], np.float32))
    assert constant_metric(private, test, 1, Task("regression")) == pytest.approx(0.0)
    several = [Rows(x, np.ones((4, 2), np.int8))]
    assert constant_metric(several, several[0], 2, Task("multilabel")) == 0.5


def test_the_mean_over_parties_is_by_class() -> None:
    found = mean_metrics([Metrics(roc_auc=0.5, class_auc=[0.5, None]), Metrics(roc_auc=1.0, class_auc=[1.0, 0.7])])
    assert found.roc_auc == 0.75
    assert found.class_auc == [0.75, None]
    counts = mean_metrics([Metrics(confusion=[[1, 2], [3, 4]]), Metrics(confusion=[[1, 0], [0, 1]])]).confusion
    assert counts == [[2, 2], [3, 5]]
    assert mean_metrics([Metrics(rmse=1.0, mae=1.0, r2=0.5), Metrics(rmse=3.0, mae=2.0, r2=None)]) == Metrics(
        rmse=2.0, mae=1.5
    )
