"""`limbeck server evaluate` in a consortium without a network: counts of the parties' own test rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, roc_auc_score

import limbeck as lb
from direct_parties import IRIS, PARTIES, DirectConsortium
from limbeck.cli import app
from limbeck.consortium.amendments import add_late
from limbeck.consortium.answering import NO_TEST_ROWS
from limbeck.consortium.checking import check, is_as_checked
from limbeck.consortium.coordinator import begin
from limbeck.consortium.evaluation import EvaluationResult, evaluate
from limbeck.consortium.party import PartyFolder
from limbeck.errors import LimbeckError
from limbeck.privacy.ledger import read_ledger

L0 = 'name = "fedridge"'
L2 = 'name = "fedridge"\nprivacy = { level = "L2", epsilon = 8.0 }'


class WithTestRows(DirectConsortium):
    """Parties with test rows of their own; each has more rows of one class."""

    more = 'test = "test.npz"\n'

    def write_rows(self, name: str) -> None:
        super().write_rows(name)
        x, y = self.test_rows(name)
        np.savez(self.home / name / "test.npz", x_train=x, y_train=y)

    @staticmethod
    def test_rows(name: str) -> tuple[Any, Any]:
        rng = np.random.default_rng(PARTIES.index(name))
        rows = rng.choice(150, 400, p=(1 + (IRIS.y == PARTIES.index(name))) / (150 + 50))
        return (IRIS.x[rows] + rng.normal(scale=0.4, size=(400, 4))).astype(np.float32), IRIS.y[rows]


def ran(tmp_path: Path, patched: Any, algorithm: str, **settings: Any) -> WithTestRows:
    found = WithTestRows(tmp_path, patched)
    file = found.experiment(algorithm, **settings)
    found.admit(*PARTIES)
    begin(found.folder, file, print)
    return found


def measured(consortium: WithTestRows, epsilon: float | None = None, run: str = "experiment-1") -> EvaluationResult:
    return evaluate(consortium.folder, run, epsilon, 1e-5, print)


def pooled(consortium: WithTestRows, names: Any = PARTIES) -> tuple[Any, Any, Any]:
    """Test rows of all parties in one place, with the model's labels and probabilities."""
    held = [consortium.test_rows(name) for name in names]
    x, y = (np.concatenate(part) for part in zip(*held, strict=True))
    labels, scores = lb.load(consortium.folder.path / "runs" / "experiment-1" / "model.onnx").packed.run(x)
    return y, labels, scores


def test_without_noise_it_is_what_pooled_test_rows_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = ran(tmp_path, monkeypatch, L0)
    result = measured(consortium)
    y, labels, scores = pooled(consortium)
    assert result.metrics.confusion == confusion_matrix(y, labels).tolist()
    assert result.metrics.accuracy == pytest.approx((labels == y).mean(), abs=1e-12)
    assert result.metrics.balanced_accuracy == pytest.approx(balanced_accuracy_score(y, labels), abs=1e-12)
    areas = [roc_auc_score(y == k, scores[:, k]) for k in range(3)]
    assert result.metrics.roc_auc == pytest.approx(np.mean(areas), abs=0.01)
    own, seen, _ = pooled(consortium, "b")
    assert result.by_party["b"].accuracy == pytest.approx((own == seen).mean(), abs=1e-12)
    assert all(each.noise == 0 and each.low <= each.high for each in result.uncertainty.values())
    assert [row.what for _, _, row in read_ledger(consortium.home / "a" / "ledger.sqlite")][-1] == "test counts"


def test_with_noise_it_is_that_within_the_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = ran(tmp_path, monkeypatch, L2)
    before = consortium.model("experiment-1")
    with pytest.raises(LimbeckError, match="experiment-1 protects its parties: give --epsilon"):
        measured(consortium)
    assert consortium.runs() == ["experiment-1"]
    result = measured(consortium, 2.0)
    y, labels, scores = pooled(consortium)
    exact = {
        "accuracy": (labels == y).mean(),
        "balanced_accuracy": balanced_accuracy_score(y, labels),
        "roc_auc": np.mean([roc_auc_score(y == k, scores[:, k]) for k in range(3)]),
    }
    for name, value in exact.items():
        noise = result.uncertainty[name].noise
        assert 0 < noise < 0.1, name
        assert abs(getattr(result.metrics, name) - value) < 3 * noise + 0.01, name
        assert result.metrics.confusion != confusion_matrix(y, labels).tolist()
    assert result.sigma == pytest.approx(3**0.5 * 10**0.5 * 2.1, rel=0.2)  # of three parties, at epsilon 2
    assert result.completed.record.epsilon["server"] <= 2.0
    assert result.by_party == {}
    assert consortium.released("a")[-1][2] == "noisy test counts"
    assert consortium.model("experiment-1") == before
    text = (consortium.folder.path / "runs" / "experiment-1" / "evaluation.json").read_text()
    assert json.loads(text)["evaluation"] == "experiment-1-evaluation-1"
    for part in (
        "a model that an earlier run released to the same parties",
        "the model of `experiment-1`",
        "parties' own",
    ):
        assert part in _statement(result)


def _statement(result: EvaluationResult) -> str:
    from limbeck.report.statement import statement

    return statement(result.completed.record, head=result.completed.head)


def test_the_command_prints_the_metrics_and_writes_the_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    consortium = ran(tmp_path, monkeypatch, L2)
    words = ["server", "evaluate", str(consortium.folder.path), "experiment-1", "--epsilon", "4"]
    app(words, standalone_mode=False)
    shown = capfd.readouterr().out
    for part in (
        "test rows of 3 of 3 parties",
        "balanced accuracy",
        "noise alone",
        "confusion matrix, with noise",
        "evaluation.json",
    ):
        assert part in shown, part
    assert (consortium.folder.path / "runs" / "experiment-1-evaluation-1" / "privacy.md").exists()
    app([*words, "--json"], standalone_mode=False)
    found = json.loads(capfd.readouterr().out)
    assert found["parties"] == ["a", "b", "c"]
    assert found["evaluation"] == "experiment-1-evaluation-2"
    assert set(found["uncertainty"]["accuracy"]) == {"low", "high", "noise"}


def test_a_party_without_test_rows_refuses_and_spends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = ran(tmp_path, monkeypatch, L2, quorum="quorum = 2")
    settings = consortium.home / "b" / "party.toml"
    settings.write_text(settings.read_text().replace(consortium.more, ""))
    check(PartyFolder(consortium.home / "b"))
    before = consortium.released("b")
    lines: list[str] = []
    result = evaluate(consortium.folder, "experiment-1", 2.0, 1e-5, lines.append)
    assert any(NO_TEST_ROWS in line for line in lines)
    assert result.completed.record.missing == (1,)
    assert result.to_table()["silent"] == ["b"]
    assert consortium.released("b") == before


def test_a_party_that_did_not_agree_or_may_not_spend_so_much_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium = WithTestRows(tmp_path, monkeypatch)
    file = consortium.experiment(L2, quorum="quorum = 1")
    consortium.admit("a", budget="budget = { epsilon = 9.0, delta = 1e-5 }")
    consortium.admit("b")
    settings = consortium.home / "b" / "party.toml"
    settings.write_text(settings.read_text().replace('[[agree]]\nalgorithm = "evaluation"\n', ""))
    begin(consortium.folder, file, print)
    lines: list[str] = []
    with pytest.raises(LimbeckError, match="0 of 2 parties answered CountRequest"):
        evaluate(consortium.folder, "experiment-1", 4.0, 1e-5, lines.append)
    assert any("the run would spend more than this party's owner allows" in line for line in lines)
    assert any("did not agree to evaluation" in line for line in lines)
    assert [what for _, _, what in consortium.released("a")] == ["noisy sums"]
    assert not (consortium.folder.path / "runs" / "experiment-1" / "evaluation.json").exists()


def test_an_interrupted_evaluation_continues_and_no_party_pays_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium = ran(tmp_path, monkeypatch, L2)
    consortium.connected -= {"c"}
    with pytest.raises(LimbeckError, match="2 of 3 parties answered CountRequest"):
        measured(consortium, 2.0)
    spent = consortium.released("a")
    consortium.connected |= {"c"}
    result = measured(consortium, 2.0)
    assert consortium.runs() == ["experiment-1", "experiment-1-evaluation-1"]
    assert consortium.released("a") == spent
    assert result.completed.record.missing == ()
    ended = consortium.folder.path / "runs" / "experiment-1-evaluation-1" / "evaluation.json"
    ended.unlink()  # as if the program had ended just before
    assert measured(consortium, 2.0).metrics == result.metrics
    assert ended.exists()
    assert consortium.released("a") == spent
    measured(consortium, 2.0)
    assert len(consortium.released("a")) == len(spent) + 1
    assert len(consortium.runs()) == 3


def test_what_cannot_be_evaluated_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = ran(tmp_path, monkeypatch, L0)
    measured(consortium)
    for run, complaint in (
        ("experiment-2", "there is no such run"),
        ("experiment-1-evaluation-1", "is an evaluation itself: evaluate experiment-1"),
    ):
        with pytest.raises(LimbeckError, match=complaint):
            measured(consortium, run=run)
    with pytest.raises(LimbeckError, match="use limbeck server evaluate again instead"):
        add_late(consortium.folder, "experiment-1-evaluation-1", "a", print)
    consortium.experiment('name = "fedvote"')
    with pytest.raises(LimbeckError, match="this run began with another experiment"):
        measured(consortium)
    assert consortium.runs() == ["experiment-1", "experiment-1-evaluation-1"]


def test_a_run_whose_parties_keep_models_of_their_own_has_nothing_to_evaluate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("direct_parties.AGREED", ("solo",))
    consortium = ran(tmp_path, monkeypatch, 'name = "solo"')
    with pytest.raises(LimbeckError, match="experiment-1 has no final model that all parties share"):
        measured(consortium)


@pytest.mark.slow
def test_secure_noise_and_a_limited_process_change_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opendp", reason="the extra privacy is not installed")
    consortium = WithTestRows(tmp_path, monkeypatch)
    file = consortium.experiment('name = "fedvote"\n[features]\nkind = "standard"\nnumber = 3', quorum="quorum = 1")
    consortium.admit("a", "b", simulation=False)
    begin(consortium.folder, file, print)
    exact, noisy = measured(consortium), measured(consortium, 1e6)
    y, labels, _ = pooled(consortium, "ab")
    assert exact.metrics.confusion == noisy.metrics.confusion == confusion_matrix(y, labels).tolist()
    assert 0 < noisy.sigma < 0.1
    assert noisy.completed.record.noise == "secure"
    assert len(exact.by_party) == 2


def test_a_party_checks_its_test_rows_as_its_private_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = WithTestRows(tmp_path, monkeypatch)
    consortium.experiment(L2)
    consortium.admit("a")
    home = consortium.home / "a"
    x, y = consortium.test_rows("a")
    for wrong, complaint in (
        ((x[:, :3], y), r"test\.npz has rows of shape \(3,\), the public rows have the shape \(4,\)"),
        ((np.where(x > 1, x, np.nan), y), r"test\.npz.* NaN or infinity"),
        ((x, y + 1), r"test\.npz holds the class '3'"),
    ):
        np.savez(home / "test.npz", x_train=wrong[0], y_train=wrong[1])
        assert not is_as_checked(PartyFolder(home))
        with pytest.raises(LimbeckError, match=complaint):
            check(PartyFolder(home))
    (home / "test.npz").unlink()
    with pytest.raises(LimbeckError, match=r"cannot read .*test\.npz"):
        check(PartyFolder(home))
