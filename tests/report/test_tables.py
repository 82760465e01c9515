"""What people see, read off a console of fixed width."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import limbeck as lb
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.solo import Solo
from limbeck.checks import small_federation
from limbeck.experiments.metrics import Metrics
from limbeck.experiments.record import RunRecord
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.report.predictions import predictions
from limbeck.report.tables import comparison_table, confusion_of, party_table, percent, run_table, weight

OTHERS: list[Any] = ["multilabel", "regression"]


def shown(table: object, width: int = 80) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_a_run() -> None:
    record = small_federation(FedKT()).run(PoolTrainer(1)).record
    text = shown(run_table(record))
    assert record.metrics is not None
    assert percent(record.metrics.accuracy) in text
    [constant] = [line for line in text.splitlines() if line.startswith("constant predictor's accuracy")]
    assert constant.rstrip().endswith(percent(record.constant))
    assert "∞ to server, ∞ to parties" in text


def test_parties_alone() -> None:
    record = small_federation(Solo()).run(PoolTrainer(1)).record
    text = shown(party_table(record))
    for party in record.parties:
        assert party.metrics is not None
        assert str(party.model["name"]) in text
        assert percent(party.metrics.accuracy) in text


def test_a_comparison_fits_a_terminal_and_ends_with_the_constant() -> None:
    records = [small_federation(algorithm).run(PoolTrainer(1)).record for algorithm in (Solo(), FedKT())]
    text = shown(comparison_table(records))
    assert "…" not in text
    assert text.rstrip().splitlines()[-1].split()[:2] == ["constant", percent(records[0].constant).split()[0]]


def test_numbers_as_people_read_them() -> None:
    assert [weight(n) for n in (0, 999, 1000, 1_234_567, 5e9, 7e13)] == ["0 B", "999 B", "1.0 kB", "1.2 MB", "5.0 GB", "70000.0 GB"]  # fmt: skip
    assert (percent(0.8345), percent(None)) == ("83.5 %", "–")


def test_where_parties_started_and_what_they_could_reach() -> None:
    federation = small_federation(FedMD(rounds=2))
    record = federation.run(PoolTrainer(1)).record
    record = replace(record, bounds={"pooled": [0.9, 0.8, None]}, remarks=["strange", "and", "more", "so"])
    text = shown(party_table(record), 100)
    assert "at the start" in text
    assert "pooled" in text
    assert percent(record.curve[0]["accuracy"][1]) in text
    assert "90.0 %" in text
    text = shown(run_table(record))
    assert "strange" in text
    assert "1 more remarks in record.json" in text


def test_what_a_record_withholds_is_printed_as_withheld() -> None:
    federation = replace(
        small_federation(FedKT(subsets=2, queries=5, privacy=Privacy("L1", epsilon=8.0))), noise="secure"
    )
    record = federation.run(PoolTrainer(1)).record
    text = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in shown(run_table(record)).splitlines()}
    assert text["seconds"] == text["constant predictor's accuracy"] == "withheld"
    assert "withheld / " in shown(run_table(record))
    assert "withheld" in shown(comparison_table([record, record]), 100)
    assert shown(party_table(record)).count("withheld") == 6
    summary = record.summary(None)
    assert (summary["seconds"], summary["constant"], summary["bytes"]["up"]) == (None, None, None)
    own = replace(record, metrics=None)
    assert any(line.split() == ["accuracy", "withheld"] for line in shown(run_table(own)).splitlines())


def test_sensitivity_names_its_class_and_missing_test_rows_are_named() -> None:
    record = small_federation(FedRidge()).run(PoolTrainer(1)).record
    two = replace(record, data={**record.data, "classes": ["no", "yes"]})
    metrics = Metrics(0.5, sensitivity=0.25, confusion=[[1, 1], [1, 1]])
    assert "sensitivity (yes)" in shown(run_table(replace(two, metrics=metrics)))
    untested = replace(record, metrics=None, data={**record.data, "test": 0})
    assert "no test rows: give data.test" in shown(run_table(untested))
    assert "no test rows" not in shown(run_table(record))


def test_named_parties_and_people_with_several_rows() -> None:
    privacy = Privacy("L2", epsilon=8.0, rows_per_person=3)
    federation = small_federation(FedKT(subsets=2, queries=5, privacy=privacy))
    record = replace(federation, names=["north", "south", "west"]).run(PoolTrainer(1)).record
    assert [line.split()[0] for line in shown(party_table(record)).splitlines()[-3:]] == ["north", "south", "west"]
    assert "(3 rows of a person, replace, delta 1e-05, simulated)" in shown(run_table(record), 120)


def test_metrics_of_other_kinds_of_labels() -> None:
    several, numbers = (small_federation(FedRidge(), task=task).run(PoolTrainer(1)).record for task in OTHERS)
    text = shown(run_table(several))
    for title in ("mean ROC AUC", "ROC AUC of setosa", "ROC AUC of virginica", "constant predictor's mean ROC AUC"):
        assert title in text
    assert several.metrics is not None
    assert f"{several.metrics.roc_auc:.3f}" in text
    text = shown(run_table(numbers))
    assert numbers.metrics is not None
    for title, value in (("R2", numbers.metrics.r2), ("RMSE", numbers.metrics.rmse), ("MAE", numbers.metrics.mae)):
        assert title in text
        assert f"{value:.3f}" in text or f"{value:.4g}" in text
    assert "accuracy" not in text
    assert "constant predictor's R2" in text


def test_tables_of_parties_and_comparisons_of_other_kinds_of_labels() -> None:
    for task, title in zip(OTHERS, ("mean ROC AUC", "R2"), strict=True):
        records = [small_federation(each, task=task).run(PoolTrainer(1)).record for each in (Solo(), FedRidge())]
        assert f"{title} alone" in " ".join(shown(party_table(records[0])).split())
        text = shown(comparison_table(records), 100)
        assert title in text
        assert "solo" in text
        assert "constant" in text


def test_predictions_have_a_column_for_each_label(tmp_path: Path) -> None:
    rows = tmp_path / "rows.npy"
    for task, title, width in (
        ("multilabel", "setosa,versicolor,virginica,p(setosa),", 6),
        ("regression", "prediction", 1),
    ):
        made: Any = small_federation(FedRidge(), task=task)  # type: ignore[arg-type]
        model = made.run(PoolTrainer(1)).model
        np.save(rows, made.test.x)
        lines = predictions(model, rows).splitlines()
        assert lines[0].startswith(title)
        assert {len(line.split(",")) for line in lines} == {width}
        found = np.array([line.split(",") for line in lines[1:]], float)
        labels = model.predict(made.test.x)
        assert np.allclose(found[:, :3] if task == "multilabel" else found[:, 0], labels, atol=1e-5)


def two_classes(parties: int = 2) -> RunRecord:
    """A run whose rarer class is rare."""
    x = np.random.default_rng(0).normal(size=(400, 2))
    y = np.where(x[:, 0] + x[:, 1] > 1.7, "ill", "well")
    assert 0.05 < (y == "ill").mean() < 0.2
    pairs = [(x[rows], y[rows]) for rows in np.array_split(np.arange(200), parties)]
    classes = ["well", "ill"]
    return lb.run(
        lb.Centralized(), pairs, test=(x[200:], y[200:]), models="naive-bayes", classes=classes, processes=1
    ).record


def test_a_run_of_two_classes_shows_sensitivity_and_the_confusion_matrix() -> None:
    record = two_classes()
    assert record.metrics is not None
    assert record.metrics.confusion is not None
    rows = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in shown(run_table(record)).splitlines()}
    assert rows[f"sensitivity ({record.data['classes'][1]})"] == percent(record.metrics.sensitivity)
    assert rows["specificity"] == percent(record.metrics.specificity)
    assert rows["PR AUC"] == f"{record.metrics.pr_auc:.3f}"
    assert rows["ROC AUC"] == f"{record.metrics.roc_auc:.3f}"
    [table] = confusion_of(record)
    lines = [line.split() for line in shown(table).splitlines()]
    assert lines[1][-2:] == ["well", "ill"]
    assert [line[0] for line in lines[-2:]] == ["well", "ill"]
    assert [list(map(int, line[1:])) for line in lines[-2:]] == record.metrics.confusion


def test_a_comparison_of_two_classes_shows_areas() -> None:
    text = shown(comparison_table([two_classes()]), 100)
    assert "ROC AUC" in text
    assert "PR AUC" in text
    assert "…" not in text


def test_no_confusion_matrix_of_own_models_or_many_classes() -> None:
    solo = small_federation(Solo()).run(PoolTrainer(1)).record
    assert confusion_of(solo) == []
    record = two_classes()
    many = replace(record, metrics=Metrics(confusion=[[1] * 11] * 11))
    assert confusion_of(many) == []
    assert confusion_of(replace(record, metrics=None)) == []
