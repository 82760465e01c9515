"""The Python API as people write it: names, one-line errors, what they see, and what they keep."""

import io
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import clone
from sklearn.datasets import load_iris

import limbeck as lb
from limbeck.progress import Watcher, watcher
from limbeck.sklearn import FederatedClassifier

X, Y = load_iris(return_X_y=True)
X, Y = X[::2], Y[::2]
PARTIES = [(X[start::3], Y[start::3]) for start in range(3)]
TABLE = {"name": "fedkt", "partitions": 1, "subsets": 2}


def run(algorithm: Any = "fedvote", **more: Any) -> lb.Result:
    given = {"parties": PARTIES, "public": X[::4], "models": "decision-tree", "test": (X, Y), "processes": 1, **more}
    return lb.run(algorithm, **given)


@pytest.fixture(scope="module")
def result() -> lb.Result:
    return run()


@pytest.mark.parametrize("algorithm", ["fedkt", TABLE, lb.FedKT(partitions=1, subsets=2)])
def test_an_algorithm_is_an_object_a_name_or_a_table(algorithm: Any) -> None:
    assert run(algorithm).record.algorithm == "fedkt"
    classifier = FederatedClassifier(algorithm, "decision-tree", random_state=0, n_jobs=1)
    assert classifier.fit(X, Y).score(X, Y) > 0.5
    changed = clone(classifier).set_params(algorithm__subsets=3)
    assert changed.get_params()["algorithm__subsets"] == 3
    assert classifier.get_params()["algorithm"] == algorithm
    assert clone(classifier).algorithm == algorithm


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (lb.FedKT, r"not FedKT, a class: write FedKT\(\)"),
        (3, r"algorithm must be an algorithm such as lb\.FedVote\(\), its name, or a table .*, not 3$"),
        ("fedktt", r"algorithm: unknown algorithm 'fedktt'; did you mean 'fedkt'\?"),
        ({"subsets": 2}, "algorithm: needs a table with a name"),
        ({"name": "fedkt", "subset": 2}, r"algorithm: unknown key 'subset'; did you mean 'subsets'\?"),
        ({"name": "fedkt", "subsets": 0}, "algorithm: subsets = 0: Input should be greater"),
    ],
)
def test_anything_else_is_refused_in_one_line(algorithm: Any, message: str) -> None:
    with pytest.raises(lb.LimbeckError, match=message) as raised:
        run(algorithm)
    assert "\n" not in str(raised.value)
    with pytest.raises(lb.LimbeckError, match=message):
        FederatedClassifier(algorithm).fit(X, Y)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: lb.Privacy(level="L3"), "level = 'L3'"),  # type: ignore[arg-type]
        (lambda: lb.Training(device="gpu"), "device = 'gpu'"),  # type: ignore[arg-type]
        (lambda: lb.Training(checkpoint=Path("x")), "checkpoint = "),  # type: ignore[arg-type]
        (lambda: lb.TorchModel(lambda shape, classes: None, recipe={"epochs": 1}), "recipe = "),  # type: ignore
        (lambda: lb.TorchModel(3), "network = 3"),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_are_named(make: Any, field: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(lb.LimbeckError, match=re.escape(field)):
        make()


def test_numbers_that_are_too_large_are_named_with_their_place(result: lb.Result) -> None:
    wild = X.copy()
    wild[7, 2] = 1e42
    place = r": row 7, column 2 holds 1e\+42, which is too large for float32"
    with pytest.raises(lb.LimbeckError, match=f"party 1{place}"):
        run(parties=[(X, Y), (wild, Y)])
    with pytest.raises(lb.LimbeckError, match=f"predict{place}"):
        result.model.predict(wild)  # type: ignore[union-attr]


def test_what_people_see_is_short(result: lb.Result) -> None:
    assert re.fullmatch(
        r"<Result fedvote: accuracy 0\.\d+, roc_auc [\d.]+, parties 3, rounds 1, epsilon ∞>", repr(result)
    )
    assert repr(result.model) == "<Predictor fedvote: 3 classes, 4 columns>"
    assert repr(result.record).startswith("<RunRecord fedvote: accuracy ")
    for shown in (result, result.model, result.record):
        assert "<table>" in shown._repr_html_()  # type: ignore[union-attr]
    assert "balanced accuracy" in result._repr_html_()
    named = replace(result.record, algorithm="<b>")
    assert "&lt;b&gt;" in named._repr_html_()
    numbers = lb.run("centralized", [(X, X[:, 0])], models="decision-tree", task="regression", processes=1)
    assert repr(numbers.model).startswith("<Predictor centralized: a number from 4.")


def test_progress_is_shown_where_people_look(capfd: pytest.CaptureFixture[str]) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True)
    assert isinstance(watcher(None, terminal), Watcher)
    assert isinstance(watcher(None, Console(file=io.StringIO(), force_jupyter=True)), Watcher)
    assert watcher(None, Console(file=io.StringIO())) is None
    assert watcher(False, terminal) is None
    with ThreadPoolExecutor(1) as pool:  # runs side by side
        assert pool.submit(watcher, None, terminal).result() is None
    run()
    FederatedClassifier("fedkt", "decision-tree", n_jobs=1).fit(X, Y)
    assert capfd.readouterr().err == ""
    run(progress=True)
    FederatedClassifier("fedkt", "decision-tree", n_jobs=1, verbose=1).fit(X, Y)
    assert capfd.readouterr().err.count("fitting") >= 2
    with pytest.raises(lb.LimbeckError, match="progress must be True, False or None"):
        run(progress="yes")


def test_probabilities_sum_to_one() -> None:
    result = run(models="naive-bayes")
    assert result.model is not None
    classifier = FederatedClassifier("fedvote", "logistic-regression", random_state=0, n_jobs=1).fit(X, Y)
    for shares in (result.model.predict_proba(X), classifier.predict_proba(X)):
        assert shares.dtype == np.float64
        assert np.abs(shares.sum(axis=1) - 1).max() < 1e-9
        assert shares.min() >= 0
        assert shares.max() <= 1


def test_an_estimator_whose_models_have_no_probabilities_predicts() -> None:
    for algorithm in ("fedvote", "solo"):
        classifier = FederatedClassifier(algorithm, "svm", random_state=0, n_jobs=1).fit(X, Y)
        assert classifier.score(X, Y) > 0.7
        with pytest.raises(lb.LimbeckError, match="no probabilities"):
            classifier.predict_proba(X)


def test_missing_opendp_is_found_before_anything_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    fitted: list[int] = []

    def watch(results: Any, total: int) -> Any:
        fitted.append(total)
        return results

    private = {"name": "fedvote", "privacy": {"level": "L1", "epsilon": 1.0}}
    with pytest.raises(lb.LimbeckError, match="secure noise needs the extra `privacy`"):
        run(private, classes=[0, 1, 2], watch=watch)
    assert fitted == []
    assert run(private, noise="simulated").accuracy is not None


def test_a_result_is_drawn_and_saved_and_states_its_privacy(result: lb.Result, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert result.plot().axes[0].patches  # a bar
    assert run("solo", public=None).plot().axes[0].get_xlabel() == "party"
    with pytest.raises(lb.LimbeckError, match="no test rows"):
        run(test=None).plot()
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        assert result.save(tmp_path / name) == tmp_path / name
        assert {path.name for path in (tmp_path / name).iterdir()} == {"model.onnx", "record.json", "privacy.md"}
    assert json.loads((tmp_path / "new" / "record.json").read_text())["algorithm"] == "fedvote"
    assert repr(lb.load(tmp_path / "new" / "model.onnx")) == "<Predictor: 3 classes, 4 columns>"
    with pytest.raises(lb.LimbeckError, match="new exists and is not an empty folder"):
        result.save(tmp_path / "new")
    assert (tmp_path / "new" / "privacy.md").read_text(encoding="utf-8") == result.privacy.statement()


def test_privacy_by_observer_and_unit(tmp_path: Path) -> None:
    private = {"name": "fedvote", "privacy": {"level": "L1", "epsilon": 1.0}}
    ledger = tmp_path / "ledger.sqlite"
    first = run(private, classes=[0, 1, 2], ledger=ledger)
    assert first.privacy.epsilon["public"]["party"] == pytest.approx(1.0, abs=0.01)
    assert first.privacy.epsilon["server"]["example"] == np.inf
    assert first.privacy.delta == 1e-5
    assert "public: epsilon" in repr(first.privacy)
    assert "Other runs share the ledger" not in first.privacy.statement()
    run(private, classes=[0, 1, 2], ledger=ledger, seed=1)
    assert "Other runs share the ledger" in first.privacy.statement()
    saved = first.save(tmp_path / "real")
    assert {path.name for path in saved.iterdir()} == {"model.onnx", "record.json", "owner.json", "privacy.md"}
    assert os.name == "nt" or saved.stat().st_mode & 0o077 == 0


def test_a_file_gives_the_same_kind_of_result(tmp_path: Path) -> None:
    table = 'data = { name = "iris", parties = 2, public = 0.3, test = 0.2 }\nmodel = { name = "decision-tree" }\n'
    (tmp_path / "e.toml").write_text(table + 'algorithm = { name = "fedvote" }\n')
    assert isinstance(lb.run_file(tmp_path / "e.toml", processes=1), lb.Result)


@pytest.mark.parametrize(
    ("entry", "named"),
    [('index = 3\nmodel = { name = "svmm" }', "[[party]] index = 3: model: "), ('name = "north"', "name = 'north'")],
)
def test_an_error_about_a_party_names_it(entry: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text(f'data = {{ name = "iris", parties = 4 }}\n[[party]]\n{entry}\n')
    with pytest.raises(lb.LimbeckError, match=re.escape(named)):
        lb.run_file(tmp_path / "e.toml")


def test_a_mistyped_command_gets_one_suggestion(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "limbeck", "rnu"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == "limbeck: No such command 'rnu'. Did you mean 'run'?\n"
