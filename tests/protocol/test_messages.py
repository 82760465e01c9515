from dataclasses import dataclass

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import (
    Acknowledgement,
    InstallModel,
    Message,
    Reply,
    Request,
    check_array,
    check_values,
    is_private,
    kind_of,
)
from limbeck.protocol.rows import Array


@dataclass(frozen=True, slots=True)
class Broadcast(Request[Acknowledgement]):
    rows: Array


@dataclass(frozen=True, slots=True)
class Score(Request[Acknowledgement]):
    public = True

    rows: Array


@dataclass(frozen=True, slots=True)
class Start(Request[Acknowledgement]):
    rounds: int


@dataclass(frozen=True, slots=True)
class Inform(Request[Acknowledgement]):
    text: str


class Sneak(Acknowledgement):  # type: ignore[misc]
    """Calls itself Done and could carry anything."""


def test_what_may_derive_from_private_rows_is_private() -> None:
    """Replies but for Done itself; requests that carry more than whole numbers, unless they are declared public."""
    rows = np.zeros(3)
    private = [InstallModel(b""), Broadcast(rows), Inform("rows"), Sneak()]
    public = [Score(rows), Start(3), Acknowledgement()]
    assert [is_private(message) for message in (*private, *public)] == [True] * 4 + [False] * 3


def test_a_request_knows_its_reply() -> None:
    assert InstallModel.reply() is Acknowledgement


def test_modules_may_name_messages_alike() -> None:
    other = type("Score", (Reply,), {"__module__": "elsewhere"})
    assert Message.kinds["elsewhere.Score"] is other
    assert Message.kinds[kind_of(Score)] is Score


def test_messages_are_frozen() -> None:
    @dataclass(frozen=True, slots=True)
    class Text(Reply):
        text: str

    with pytest.raises(AttributeError):
        Text("a").text = "b"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 3)), r"shape \(2, 3\), not of shape \(3,\)"),
        (np.array(["a", "b", "c"]), "values of type <U1"),
        (np.array([0.0, 0.5, 1.5]), "values from 0 to 1.5, outside of 0 to 1"),
        (np.array([-1e-9, 0.5, 1.0], np.float16), "outside of 0 to 1"),
    ],
)
def test_arrays_have_a_shape_and_a_range(values: Array, message: str) -> None:
    check_array(np.array([0.0, 0.5, 1.0]), (3,), 0, 1)
    check_array(np.zeros(0), (0,), 0, 1)
    if values.dtype == np.float16:
        values = values - np.float16(0.1)
    with pytest.raises(LimbeckError, match=message):
        check_array(values, (3,), 0, 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_every_array_of_a_message_is_finite(value: float) -> None:
    check_values(Broadcast(np.zeros(2)))
    with pytest.raises(LimbeckError, match="rows is not finite"):
        check_values(Broadcast(np.array([0.0, value])))
