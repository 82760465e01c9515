"""Real programs, keys and TLS on this machine: what comes of a run is what comes of it in one process."""

import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")

from limbeck.algorithms import algorithm_named
from limbeck.data.sets import load
from limbeck.experiments.result import load as load_model
from limbeck.experiments.run import run
from limbeck.privacy.ledger import read_ledger
from limbeck.tables import from_table
from programs import Consortium

IRIS = load("iris")
FEDMD = {"rounds": 2, "alignment": 20, "start": "none"}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedkt": ("fedkt", {"partitions": 1, "subsets": 2}),
    "fedkt-L2": ("fedkt", {"partitions": 1, "subsets": 4, "privacy": {"level": "L2", "epsilon": 8.0}}),
    "fedvote": ("fedvote", {}),
    "fedvote-L1": ("fedvote", {"partitions": 1, "subsets": 2, "privacy": {"level": "L1", "epsilon": 8.0}}),
    "fedridge-L2": ("fedridge", {"privacy": {"level": "L2", "epsilon": 8.0}}),
    "fedmd": ("fedmd", FEDMD),
    "fedkd": ("fedkd", {}),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    there = Consortium(tmp_path_factory.mktemp("network"))
    try:
        there.serve()
        agree = "\n[[agree]]\n".join(
            f'algorithm = "{name}"' for name in ("fedkt", "fedvote", "fedridge", "fedmd", "fedkd", "evaluation")
        )
        for party in there.parties:
            there.write_settings(party, agree=agree, more='test = "private.npz"')
        there.start_parties(*there.parties)
        yield there
    finally:
        there.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_run_over_the_network_gives_what_it_gives_in_one_process(programs: Consortium, method: str) -> None:
    name, parameters = METHODS[method]
    file = programs.experiment(f'name = "{name}"\n' + _toml(parameters), name=method)
    summary = programs.run(file)
    assert summary["missing"] == []
    public = load("iris").x[::5]
    here = run(
        from_table(algorithm_named(name), parameters),
        [programs.rows(party) for party in programs.parties],
        public=public,
        models="decision-tree",
        seed=3,
        classes=[0, 1, 2],
        noise="simulated",
        processes=1,
    )
    if here.model is not None:
        found = load_model(Path(summary["run"]) / "model.onnx")
        assert np.array_equal(found.packed.run(public)[1], here.model.packed.run(public)[1])
    owner = (
        Path(summary["run"]) / "owner.json"
    )  # where a size depends on unprotected messages, the record leaves it out
    sizes = json.loads(owner.read_text())["bytes"] if owner.exists() else summary["bytes"]
    assert sizes == dict(here.record.bytes)
    for number, party in enumerate(programs.parties):
        [own] = sorted((programs.home / party / "models").glob(f"{method}-1-*.onnx"))
        expected = here.models[number] if here.models else here.model
        assert expected is not None
        assert np.array_equal(load_model(own).packed.run(public)[1], expected.packed.run(public)[1])


@pytest.mark.slow
def test_an_evaluation_over_the_network_agrees_with_pooled_rows(programs: Consortium) -> None:
    """Here the private rows are the test rows."""
    name, parameters = METHODS["fedridge-L2"]
    summary = programs.run(programs.experiment(f'name = "{name}"\n' + _toml(parameters), name="evaluated"))
    words = ("server", "evaluate", programs.server, "evaluated-1", "--epsilon", "8", "--json")
    found = json.loads(programs.run_limbeck(*words).stdout)
    x, y = (np.concatenate(part) for part in zip(*map(programs.rows, programs.parties), strict=True))
    model = load_model(Path(summary["run"]) / "model.onnx")
    accuracy, uncertainty = (model.packed.vote(x) == y).mean(), found["uncertainty"]["accuracy"]
    assert abs(found["metrics"]["accuracy"] - accuracy) < 4 * uncertainty["noise"]
    assert (found["parties"], found["silent"]) == (["a", "b", "c"], [])
    assert (Path(summary["run"]) / "evaluation.json").exists()


ODD_ROWS: dict[str, Any] = {
    "a": (IRIS.x[2::5], np.zeros(30, int)),  # one class
    "b": (IRIS.x[:1], IRIS.y[:1]),  # one row
    "c": (np.where(np.arange(4) == 1, 1e30, 7.0) * np.ones((30, 1)), IRIS.y[4::5]),  # columns that tell nothing
}
ODD_MODELS = {"a": "knn", "b": "mlp", "c": "naive-bayes"}


ODD_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedkd-party": ("fedkd", {"mechanism": "gaussian", "epsilon": 50.0, "noised_by": "party", "weights": "equal"}),
    "fedmd-ldp": ("fedmd-ldp", {**FEDMD, "epsilon": 50.0}),
    "fedkt-L2": METHODS["fedkt-L2"],
    "fedridge-L2": METHODS["fedridge-L2"],
}


@pytest.mark.slow
def test_odd_rows_are_noticed_by_nobody_but_their_owner(tmp_path: Path) -> None:
    """With real noise: nobody refuses, and all ledgers hold the same. What a run leaves is for its owner alone."""
    pytest.importorskip("opendp", reason="the extra privacy is not installed")
    there = Consortium(tmp_path)
    try:
        there.serve()
        for party, (x, y) in ODD_ROWS.items():
            agree = "\n[[agree]]\n".join(f'algorithm = "{name}"' for name, _ in ODD_METHODS.values())
            budget = "budget = { epsilon = 1000.0 }"
            there.write_settings(
                party, model=f'name = "{ODD_MODELS[party]}"', simulation=False, more=budget, agree=agree
            )
            np.savez(there.home / party / "private.npz", x_train=x, y_train=y)
        there.start_parties(*there.parties)
        for method, (name, parameters) in ODD_METHODS.items():
            file = there.experiment(f'name = "{name}"\n' + _toml(parameters), noise="secure", name=method)
            summary = there.run(file)
            assert summary["missing"] == [], method
        ledgers = [read_ledger(there.home / party / "ledger.sqlite") for party in there.parties]
        first, *others = [[replace(row, site="") for _, _, row in ledger] for ledger in ledgers]
        assert first
        assert others == [first, first]
        assert "trainings were replaced by substitutes" in there.log("b")
        assert "substitutes" not in there.log("serve")
        run = Path(summary["run"])
        assert {path.name for path in run.iterdir()} >= {"record.json", "privacy.md", "journal.sqlite", "model.onnx"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in run.iterdir()} == {0o600}
        assert {stat.S_IMODE(path.stat().st_mode) for path in (run, run.parent)} == {0o700}
        assert stat.S_IMODE((there.server / "ledger.sqlite").stat().st_mode) == 0o600
    finally:
        there.close()


def _toml(parameters: dict[str, Any]) -> str:
    lines = []
    for key, value in parameters.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{k} = {_value(v)}" for k, v in value.items())
            lines.append(f"{key} = {{ {inner} }}")
        else:
            lines.append(f"{key} = {_value(value)}")
    return "\n".join(lines)


def _value(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
