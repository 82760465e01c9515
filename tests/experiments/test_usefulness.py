"""The line about a model that is no better than the constant predictor."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import limbeck as lb
from limbeck.experiments.compare import Summary
from limbeck.experiments.metrics import Metrics, metrics_of_classes
from limbeck.experiments.usefulness import advice, no_better_than_constant
from limbeck.report.comparison import _notes

X, Y = load_breast_cancer(return_X_y=True)
PARTIES = [(X[:150], Y[:150]), (X[150:300], Y[150:300])]


def line(confusion: list[list[int]], constant: float | None) -> str | None:
    counts = np.array(confusion)
    pairs = [(true, guess) for true, row in enumerate(confusion) for guess, n in enumerate(row) for _ in range(n)]
    y, labels = np.array(pairs).T
    return no_better_than_constant(metrics_of_classes(labels, None, y, len(counts)), constant)


def test_a_constant_model_is_named_in_both_metrics_with_what_to_try() -> None:
    found = line([[90, 0], [10, 0]], 0.9) or ""
    assert "in accuracy (90.0 %, constant 90.0 %) and balanced accuracy (50.0 %, constant 50.0 %); try" in found
    for word in ("public rows", "class_weights", "--threshold", "epsilon", "fedvote"):
        assert word in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("classes", "method", "is_protected", "there", "missing"),
    [
        (3, "fedvote", False, ["another model"], ["--threshold", "epsilon", "fedvote"]),
        (3, "fedkd", False, ["or fedvote"], ["--threshold", "epsilon"]),
        (2, "fedridge", True, ["--threshold", "a larger epsilon,"], ["fedvote", "if the run had one"]),
        (2, None, None, ["--threshold", "a larger epsilon if the run had one", "or fedvote"], []),
    ],
)
def test_what_to_try_can_be_done(
    classes: int, method: str | None, is_protected: bool | None, there: list[str], missing: list[str]
) -> None:
    found = advice("multiclass", classes == 2, method, is_protected)
    assert all(each in found for each in there)
    assert not any(each in found for each in missing)


def test_a_good_model_is_not() -> None:
    assert line([[85, 5], [3, 7]], 0.9) is None
    assert line([[30, 3, 3], [2, 30, 2], [1, 1, 30]], 0.4) is None
    assert line([[10, 0], [0, 10]], None) is None


def test_a_lead_within_one_standard_error_does_not_count() -> None:
    error = np.sqrt(0.6 * 0.4 / 10 * 2) / 2  # of recalls of 60 % over ten rows each
    assert error > 0.1
    assert line([[6, 4], [4, 6]], None) is not None
    assert line([[60, 40], [40, 60]], None) is None


def test_accuracy_alone_is_named_with_what_is_better() -> None:
    found = line([[70, 20], [1, 9]], 0.9) or ""
    assert "in accuracy (79.0 %, constant 90.0 %), but better in balanced accuracy (83.9 %, constant 50.0 %)" in found
    assert line([[70, 20], [1, 9]], None) is None  # the constant is withheld


def test_other_kinds_of_labels_are_compared_by_their_own_metric() -> None:
    assert "R2 (-0.100, constant -0.010)" in (no_better_than_constant(Metrics(r2=-0.1), -0.01, "regression") or "")
    assert no_better_than_constant(Metrics(r2=0.1), -0.01, "regression") is None
    assert "mean ROC AUC (0.500" in (no_better_than_constant(Metrics(roc_auc=0.5), 0.5, "multilabel") or "")


def warned(parties: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lb.run(lb.Centralized(), parties, models="naive-bayes", test=(X[300:], Y[300:]), processes=1)
    return [str(each.message) for each in caught if issubclass(each.category, lb.LimbeckWarning)]


def test_a_run_warns_once() -> None:
    wrong = [(x, 1 - y) for x, y in PARTIES]
    [text] = warned(wrong)
    assert text.startswith("the final model is no better than the constant predictor in accuracy (")
    assert warned(PARTIES) == []


def test_the_warning_of_a_real_run_needs_its_record_only() -> None:
    """The constant predictor is read from private labels: the warning compares balanced accuracies only."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = lb.run(
            lb.FedVote(partitions=1, privacy=lb.Privacy("L1", epsilon=0.01)),
            PARTIES,
            public=X[300:400],
            test=(X[400:], Y[400:]),
            classes=[0, 1],
            models="naive-bayes",
            processes=1,
        )
    texts = [str(each.message) for each in caught if "no better" in str(each.message)]
    record = result.record
    assert record.metrics is not None
    expected = no_better_than_constant(
        record.metrics, None, what="the final model is", method="fedvote", is_protected=True
    )
    assert texts == ([expected] if expected else [])
    assert not any(re.search(r" accuracy \(.*\) and", text) for text in texts)
    assert "no better" not in record.to_json()


def test_a_comparison_names_the_seeds() -> None:
    every = Summary("fedvote", {}, [0, 1], {}, {}, no_better=[0, 1])
    some = Summary("fedvote", {}, [0, 1], {}, {}, note="seed 2: failed", no_better=[1])
    assert [note.partition(";")[0] for note in _notes(every)] == ["no better than the constant predictor"]
    assert [note.partition(";")[0] for note in _notes(some)] == [
        "seed 2: failed",
        "no better than the constant predictor at seed 1",
    ]
    assert _notes(Summary("fedvote", {}, [0], {}, {})) == []


@pytest.mark.parametrize("rows", [1, 5])
def test_test_rows_of_one_class_have_no_balanced_baseline(rows: int) -> None:
    assert line([[rows, 0], [0, 0]], None) is None
