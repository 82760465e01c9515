"""Rows are checked once, before the party connects; afterwards nothing about them leads to a refusal."""

import os
import stat
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("opendp", reason="the extra privacy is not installed")

from limbeck.consortium.answering import CANNOT, answer
from limbeck.consortium.checking import check
from limbeck.consortium.party import PartyFolder
from limbeck.errors import LimbeckError
from limbeck.protocol.codec import decode
from limbeck.protocol.envelopes import ReplyEnvelope
from limbeck.protocol.site import Silo
from party_folders import IRIS, PRIVATE, SUMS, make, put_rows, question, rows, write_settings

RESTART = "this party's owner must restart it before it answers"
X, Y = IRIS.x[2::5], IRIS.y[2::5]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make(tmp_path)


def shape(received: ReplyEnvelope) -> list[Any]:
    """What a reply is but for the numbers that were released with noise; its bytes are packed."""
    reply: Any = decode(received.reply)[0]
    values = [getattr(reply, field.name) for field in fields(reply)]
    return [type(reply), *((value.shape, value.dtype) if hasattr(value, "shape") else type(value) for value in values)]


def refusal(home: Path, run: str = "run") -> str | None:
    return answer(PartyFolder(home), question(PRIVATE, run=run)).refusal


@pytest.mark.parametrize(
    ("x", "y", "reply"),
    [
        (np.where(np.arange(4) == 2, np.nan, X), Y, "30 of 30 rows hold NaN or infinity"),
        (np.where(X[7, 0] == X, 1e300, X.astype(float)), Y, "too large for float32"),
        (X[:, :3], Y, "has rows of shape (3,), the public rows have the shape (4,)"),
        (X, np.full(30, "HIV-positive"), "holds the class 'HIV-positive'"),
        (X, Y[:29], "y_train is of shape (29,)"),
        (X[:0], Y[:0], "x_train must hold numbers"),
    ],
)
def test_wrong_rows_are_reported_to_their_owner_in_one_line(home: Path, x: Any, y: Any, reply: str) -> None:
    put_rows(home, x, y)
    with pytest.raises(LimbeckError) as error:
        check(PartyFolder(home))
    assert reply in str(error.value)
    assert "\n" not in str(error.value)
    assert not (home / "checked.json").exists()


def test_missing_opendp_is_found_before_anything_is_fitted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_rows(home, X, Y)
    check(PartyFolder(home))
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    monkeypatch.setattr(Silo, "train", lambda *_, **__: pytest.fail("something was fitted"))
    assert refusal(home) == CANNOT
    write_settings(home, agree='[[agree]]\nalgorithm = "fedridge"\nlevels = ["L2"]\n')
    with pytest.raises(LimbeckError, match="secure noise needs the extra `privacy`"):
        check(PartyFolder(home))


def test_what_was_checked_is_recorded_for_the_owner_alone(home: Path) -> None:
    check(PartyFolder(home))
    assert stat.S_IMODE((home / "checked.json").stat().st_mode) == 0o600
    assert refusal(home) is None


def more_rows(home: Path) -> None:
    put_rows(home, np.concatenate([X, X]), np.concatenate([Y, Y]))


def same_rows_later(home: Path) -> None:
    state = (home / "private.npz").stat()
    os.utime(home / "private.npz", ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def no_rows(home: Path) -> None:
    (home / "private.npz").unlink()


def other_file(home: Path) -> None:
    np.savez(home / "other.npz", x_train=X, y_train=Y)
    text = (home / "party.toml").read_text()
    (home / "party.toml").write_text(text.replace("private.npz", "other.npz"))


def other_label(home: Path) -> None:
    write_settings(home, 'label = "kind"')


def other_model(home: Path) -> None:
    write_settings(home, model="naive-bayes")


def damaged_record(home: Path) -> None:
    (home / "checked.json").write_text("{")


CHANGES = [more_rows, same_rows_later, no_rows, other_file, other_label, other_model, damaged_record]


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_party_must_be_restarted_and_answers_no_more(home: Path, change: Any) -> None:
    check(PartyFolder(home))
    change(home)
    assert refusal(home) == RESTART
    assert rows(home) == []


def test_a_restart_checks_again(home: Path) -> None:
    check(PartyFolder(home))
    more_rows(home)
    check(PartyFolder(home))
    assert refusal(home) is None


def test_other_settings_may_change_while_the_party_runs(home: Path) -> None:
    check(PartyFolder(home))
    write_settings(home, "budget = { epsilon = 2.5 }")
    assert refusal(home) is None


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X, np.zeros(30, int)),
        (X[:1], Y[:1]),
        (X[:7], Y[:7]),
        (np.full((30, 4), 7.0), Y),
        (np.where(np.arange(4) == 1, 1e30, X), Y),
    ],
)
@pytest.mark.parametrize("model", ["knn", "decision-tree"])
@pytest.mark.parametrize("method", [PRIVATE, SUMS])
def test_whatever_the_rows_are_the_answer_has_the_usual_shape_and_ledger(
    home: Path, tmp_path_factory: pytest.TempPathFactory, method: Any, model: str, x: Any, y: Any
) -> None:
    usual = make(tmp_path_factory.mktemp("usual"))
    put_rows(home, x, y)
    found = []
    for place in (usual, home):
        write_settings(place, model=model)
        check(PartyFolder(place))
        found.append(answer(PartyFolder(place), question(method)))
    assert [each.refusal for each in found] == [None, None]
    assert found[0].releases == found[1].releases
    assert shape(found[0]) == shape(found[1])
