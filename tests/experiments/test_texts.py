"""Runs on texts: named sets, files and lists of texts, under several algorithms; final models take texts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limbeck as lb
from limbeck.data.files import read_table
from limbeck.experiments.cached_runs import CachedRun
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.result import FinishedRun
from limbeck.experiments.run import run_experiment
from limbeck.experiments.splitting import split_rows
from limbeck.report.predictions import write_predictions
from text_sets import npz_of, reviews
from tiny_bert import PIECES, tiny_bert

TEXTS, LABELS = reviews(360)
TEST, TRUE = reviews(60, seed=9)
TFIDF = {"name": "tfidf-linear"}
QUICK = {"epochs": 20, "batch": 16, "learning_rate": 0.03}
BAG = {"name": "bag-of-embeddings", "buckets": 500, "size": 8, "recipe": QUICK}
VOTE: dict[str, Any] = {"name": "fedvote"}
SUMS: dict[str, Any] = {"name": "fedridge", "privacy": {"level": "L2", "epsilon": 8.0}}
NEWS = ["markets fall", "a cup final"] * 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Named sets, tables of the same texts, and an encoder."""
    npz_of(tmp_path / "films.npz", TEXTS, TEST)
    npz_of(tmp_path / "news.npz", [f"{text}: {film}" for text, film in zip(NEWS, TEXTS, strict=False)])
    np.savez(tmp_path / "numbers.npz", x_train=np.ones((40, 128)), y_train=np.arange(40) % 2)
    for name, texts, labels in (("films", TEXTS, LABELS), ("test", TEST, TRUE)):
        lines = [f'"{text}",{("bad", "good")[label]}' for text, label in zip(texts, labels, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["review,mark", *lines]))
        for part in range(3):
            (tmp_path / f"{name}-{part}.csv").write_text("\n".join(["review,mark", *lines[part::3]]))
    (tmp_path / "public.csv").write_text("\n".join(["review", *(f'"{text}"' for text in TEXTS[:90])]))
    tiny_bert(tmp_path / "encoder")
    monkeypatch.setenv("LIMBECK_DATA", str(tmp_path))
    return tmp_path


def ran(folder: Path, algorithm: dict[str, Any] = VOTE, **tables: Any) -> FinishedRun:
    table = {"model": TFIDF, "algorithm": algorithm, "noise": "simulated", **tables}
    return run_experiment(check_table(Experiment, table, "e.toml"), table, processes=1, base=folder)


def rows_of(folder: Path, **tables: Any) -> Any:
    table = {"model": TFIDF, "algorithm": VOTE, **tables}
    return split_rows(check_table(Experiment, table, "e.toml"), folder)


def accuracy(result: FinishedRun) -> float:
    assert result.accuracy is not None
    return result.accuracy


@pytest.mark.parametrize(
    ("algorithm", "model"),
    [
        (VOTE, TFIDF),
        (VOTE, BAG),
        ({"name": "fedkd", "distil": QUICK, "mechanism": "none"}, BAG),
        ({"name": "fedavg", "rounds": 3, "local": {**QUICK, "epochs": 4}}, BAG),
        (SUMS, TFIDF),
    ],
    ids=["fedvote", "fedvote of networks", "fedkd", "fedavg", "fedridge"],
)
def test_a_named_set_of_texts_is_learned(folder: Path, algorithm: Any, model: Any) -> None:
    result = ran(
        folder, algorithm, data={"name": "films", "parties": 2, "public": 100, "text": {"length": 12}}, model=model
    )
    assert accuracy(result) > 0.8
    assert result.model is not None
    assert np.mean(result.model.predict(TEST) == TRUE.astype(str)) == pytest.approx(result.accuracy)


def test_models_of_a_run_take_texts(folder: Path) -> None:
    result = ran(folder, data={"name": "films", "parties": 2, "public": 100, "text": {"length": 12}})
    assert result.model is not None
    result.model.save(folder / "model.onnx")
    model = lb.load(folder / "model.onnx")
    assert np.mean(model.predict(TEST) == TRUE.astype(str)) == result.accuracy
    assert np.array_equal(model.predict(np.array(TEST)), model.predict(tuple(TEST)))
    assert model.predict(["", None, "x" * 10**6, "你好"]).shape == (4,)
    assert np.mean(model.predict(folder / "films.npz") == LABELS.astype(str)) > 0.9
    (folder / "new.csv").write_text('text\n"a good great film"\n"awful, dull"\n')
    write_predictions(model, folder / "new.csv", folder / "out.csv")
    assert list(read_table(folder / "out.csv").columns["prediction"]) == ["1", "0"]
    with pytest.raises(lb.LimbeckError, match=r"for texts, give a list of them, such as \['a good film'\]"):
        model.predict("a good film")


@pytest.mark.parametrize("algorithm", [VOTE, SUMS], ids=["fedvote", "fedridge"])
def test_one_table_is_split(folder: Path, algorithm: dict[str, Any]) -> None:
    data = {"path": "films.csv", "label": "mark", "text": "review", "parties": 3, "public": 90, "test": 60, "classes": ["bad", "good"]}  # fmt: skip
    result = ran(folder, algorithm, data=data)
    assert accuracy(result) > 0.8
    assert result.model is not None
    assert np.mean(result.model.predict(folder / "test.csv") == np.array(["bad", "good"])[TRUE]) > 0.8
    assert set(result.model.predict(["good great film"])) == {"good"}


def test_every_party_has_a_table(folder: Path) -> None:
    data = {
        "label": "mark",
        "text": {"column": "review", "length": 16},
        "public": {"path": "public.csv"},
        "test": {"path": "test.csv"},
    }
    result = ran(folder, data=data, party=[{"index": i, "data": f"films-{i}.csv"} for i in range(3)])
    assert accuracy(result) > 0.9
    assert result.model is not None
    assert result.model.row == (16,)


def test_a_schema_file_names_the_column(folder: Path) -> None:
    column = {"kind": "text", "name": "review", "length": 10}
    schema = {"label": "mark", "classes": ["bad", "good"], "columns": [column]}
    (folder / "schema.json").write_text(json.dumps(schema))
    data = {"path": "films.csv", "schema": "schema.json", "parties": 2, "public": 90, "test": 60}
    assert accuracy(ran(folder, data=data)) > 0.9
    with pytest.raises(lb.LimbeckError, match=r"the schema names the column of texts; remove data\.text"):
        ran(folder, data={**data, "text": "review"})
    with pytest.raises(lb.LimbeckError, match="have other tokens than the sentence encoder"):
        ran(folder, data=data, features={"kind": "encoder", "path": "encoder"})


@pytest.mark.parametrize("name", ["films.npz", "news.npz"])
def test_one_file_of_arrays_is_split(folder: Path, name: str) -> None:
    rows = rows_of(folder, data={"path": name, "parties": 2, "public": 30, "test": 30, "text": {"length": 9}})
    assert rows.private[0].x.shape[1:] == (9,)
    assert rows.are_tokens


def test_every_party_has_a_file_of_arrays(folder: Path) -> None:
    for part in range(2):
        npz_of(folder / f"part-{part}.npz", TEXTS[part * 100 : part * 100 + 100])
    npz_of(folder / "public.npz", TEXTS[-90:])
    data = {"public": {"path": "public.npz"}, "test": {"path": "films.npz"}, "text": {"length": 12}}
    assert accuracy(ran(folder, data=data, party=[{"index": i, "data": f"part-{i}.npz"} for i in range(2)])) > 0.9


def test_public_texts_may_come_from_elsewhere(folder: Path) -> None:
    data: dict[str, Any] = {"name": "films", "parties": 2, "text": {"length": 12}}
    result = ran(folder, data={**data, "public": {"name": "news", "rows": 100}})
    assert accuracy(result) > 0.7
    assert accuracy(ran(folder, data={**data, "public": {"path": "news.npz"}})) > 0.7


def test_several_sets_are_joined(folder: Path) -> None:
    data = {"name": ["films", "news"], "labels": "shared", "parties": 2, "public": 60, "test": 30}
    rows = rows_of(folder, data={**data, "split": {"kind": "iid", "within": "domain"}})
    assert rows.are_tokens
    assert sum(map(len, rows.private)) == len(TEXTS) + len(NEWS) - 90


@pytest.mark.parametrize("algorithm", [VOTE, SUMS], ids=["fedvote", "fedridge"])
def test_a_sentence_encoder_maps_texts(folder: Path, algorithm: dict[str, Any]) -> None:
    data = {
        "name": "films",
        "parties": 2,
        "public": 60,
        "split": {"kind": "per-class", "rows": 40},
        "text": {"length": 12},
    }
    model, features = {"name": "random-forest", "n_estimators": 20}, {"kind": "encoder", "path": "encoder"}
    result = ran(folder, algorithm, data=data, model=model, features=features)
    assert algorithm is SUMS or accuracy(result) >= 0.6
    assert result.model is not None
    assert result.model.schema is not None
    assert result.model.schema.text is not None
    assert result.model.schema.text.vocabulary == PIECES
    assert np.mean(result.model.predict(TEST) == TRUE.astype(str)) == pytest.approx(result.accuracy, abs=0.04)


def test_forests_learn_texts_from_tfidf(folder: Path) -> None:
    data = {"name": "films", "parties": 2, "public": 100, "text": {"length": 12}}
    forest = {"name": "random-forest", "n_estimators": 30}
    assert accuracy(ran(folder, data=data, model=forest, features={"kind": "tfidf", "number": 20})) > 0.8


def test_models_that_take_tokens_as_quantities_give_a_warning(folder: Path) -> None:
    with pytest.warns(lb.LimbeckWarning, match="decision-tree takes the token numbers of texts as quantities"):
        ran(folder, data={"name": "films", "parties": 2, "public": 100}, model={"name": "decision-tree"})


def test_lists_of_texts_from_python(folder: Path) -> None:
    names = np.array(["bad", "good"])
    parties = [(TEXTS[i : i + 100], names[LABELS[i : i + 100]]) for i in (0, 100)]
    for algorithm in (lb.FedVote(), lb.FedRidge()):
        result = lb.run(
            algorithm, parties, public=TEXTS[200:300], models="tfidf-linear", test=(TEST, names[TRUE]), processes=1
        )
        assert accuracy(result) > 0.9
        assert result.model is not None
        assert np.mean(result.model.predict(TEST) == names[TRUE]) == result.accuracy
    encoder = lb.Features("encoder", path=str(folder / "encoder"))
    small = [(texts[:30], labels[:30]) for texts, labels in parties]
    result = lb.run(lb.FedRidge(), small, public=TEXTS[200:240], features=encoder, processes=1)
    assert result.model is not None
    assert result.model.predict(TEST[:5]).shape == (5,)


def test_rows_of_one_run_are_all_texts_or_all_numbers() -> None:
    numbers = np.ones((6, 128), np.float32)
    with pytest.raises(lb.LimbeckError, match="public: rows are numbers, but those of the first party are texts"):
        lb.run(lb.FedVote(), [(TEXTS[:6], LABELS[:6])], public=numbers, models="tfidf-linear")
    with pytest.raises(lb.LimbeckError, match="party 1: rows are texts, but those of the first party are numbers"):
        lb.run(lb.FedVote(), [(numbers, LABELS[:6]), (TEXTS[:6], LABELS[:6])], public=numbers)
    rows = np.random.default_rng(0).random((6, 3))
    model = lb.run(lb.FedVote(), [(rows, LABELS[:6])], public=rows, models="decision-tree", processes=1).model
    assert model is not None
    with pytest.raises(lb.LimbeckError, match="the model was not trained on texts"):
        model.predict(["a text"])


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"name": "numbers", "text": {"length": 9}}, "data.text: numbers holds no texts"),
        ({"name": "films", "text": "review"}, "data.text.column is only for tables"),
        ({"name": "films", "public": {"name": "numbers", "rows": 9}}, "data.public: rows of films are texts, those of numbers"),
        ({"name": "numbers", "public": {"name": "films", "rows": 9}}, "data.public: rows of films are texts, those of numbers"),
        ({"name": "films", "public": {"path": "numbers.npz"}}, "data.public: rows of films are texts"),
        ({"path": "films.csv", "label": "mark", "text": "reviews"}, "no column 'reviews'; did you mean 'review'?"),
        ({"path": "films.csv", "label": "mark", "text": {"length": 9}}, "data.text names no column"),
        ({"path": "numbers.npz", "text": {"length": 9}}, "data.text: numbers.npz holds no texts"),
        ({"name": "films", "text": {"tokens": "wordpiece"}}, "needs a vocabulary"),
        ({"name": "films", "text": {"tokens": "wordpiece", "vocabulary": "none.txt"}}, "cannot read .*none.txt"),
    ],
)  # fmt: skip
def test_wrong_settings_are_reported(folder: Path, data: dict[str, Any], complaint: str) -> None:
    with pytest.raises(lb.LimbeckError, match=complaint):
        rows_of(folder, data={"parties": 2, "public": 30, "test": 10, **data})


def test_an_encoder_needs_texts(folder: Path) -> None:
    with pytest.raises(lb.LimbeckError, match="needs texts; these rows are numbers"):
        ran(folder, data={"name": "iris", "public": 30, "test": 30}, features={"kind": "encoder", "path": "encoder"})


def test_the_rule_of_the_texts_determines_a_cached_run(folder: Path) -> None:
    def key(**tables: Any) -> str:
        table: dict[str, Any] = {"data": {"name": "films", "public": 60}, "algorithm": SUMS, **tables}
        return CachedRun(check_table(Experiment, table, "e.toml"), table, folder).rows_key

    encoder = {"kind": "encoder", "path": "encoder"}
    keys = {key(), key(data={"name": "films", "public": 60, "text": {"length": 9}}), key(features=encoder)}
    assert len(keys) == 3
    (folder / "encoder" / "vocab.txt").write_text("\n".join([*PIECES, "more"]))
    assert key(features=encoder) not in keys
