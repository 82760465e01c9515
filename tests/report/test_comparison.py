"""The table of a comparison."""

import csv
import json
from pathlib import Path

from rich.console import Console

from limbeck.experiments.compare import Spread, Summary
from limbeck.experiments.plan import ComparedMethod, ComparisonPlan
from limbeck.report.comparison import as_csv, as_json, as_markdown, comparison

PLAN = ComparisonPlan(Path("e.toml"), [ComparedMethod("fedvote", {}, [])], range(2))
AREAS = ("accuracy", "balanced_accuracy", "roc_auc", "pr_auc")


def summary(method: str, no_better: list[int]) -> Summary:
    names = (*AREAS, "sensitivity", "constant", "rounds", "up", "down", "seconds")
    figures = {name: Spread(0.875, 0.0125) for name in names}
    return Summary(method, {}, [0, 1], figures, {}, shown=AREAS, no_better=no_better)


def lines(width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as shown:
        console.print(comparison(PLAN, [summary("fedvote", [0, 1]), summary("solo", []), summary("pate", [1])]))
    return shown.get().splitlines()


def test_two_classes_have_areas_and_models_no_better_than_the_constant_have_a_mark() -> None:
    found = lines(130)
    assert "ROC AUC" in found[1]
    assert "PR AUC" in found[1]
    assert ["[1]" in line for line in found[3:6]] == [True, False, False]
    assert ["[2]" in line for line in found[3:6]] == [False, False, True]
    notes = [line for line in found if line.startswith("[")]
    assert notes[0] == "[1] no better than the constant predictor"
    assert notes[1] == "[2] no better than the constant predictor at seed 1"
    assert "".join(found).count("try more public rows") == 1


def test_at_100_columns_no_method_is_folded() -> None:
    assert {line.split()[0] for line in lines(100) if line[:1].isalpha()} >= {"fedvote", "solo", "pate"}


def test_other_forms_have_all_figures_and_the_seeds() -> None:
    summaries = [summary("fedvote", [1])]
    [row] = csv.DictReader(as_csv(PLAN, summaries).splitlines())
    assert (row["sensitivity"], row["no_better"]) == ("0.875", "1")
    [entry] = json.loads(as_json(PLAN, summaries))["lines"]
    assert entry["no_better"] == [1]
    assert entry["pr_auc"]["mean"] == 0.875
    assert "(no better than the constant predictor at seed 1)" in as_markdown(PLAN, summaries)
