from dataclasses import dataclass

import numpy as np
import pytest

from limbeck.protocol.messages import Adopt, Done, Message, Reply, Request, is_private, kind_of
from limbeck.protocol.rows import Array


@dataclass(frozen=True, slots=True)
class Broadcast(Request[Done]):
    rows: Array


@dataclass(frozen=True, slots=True)
class Score(Request[Done]):
    public = True

    rows: Array


@dataclass(frozen=True, slots=True)
class Start(Request[Done]):
    rounds: int


@dataclass(frozen=True, slots=True)
class Tell(Request[Done]):
    text: str


class Sneak(Done):  # type: ignore[misc]
    """Calls itself Done and could carry anything."""


def test_what_may_derive_from_private_rows_is_private() -> None:
    """Replies but for Done itself; requests that carry more than whole numbers, unless they are declared public."""
    rows = np.zeros(3)
    private = [Adopt(b""), Broadcast(rows), Tell("rows"), Sneak()]
    public = [Score(rows), Start(3), Done()]
    assert [is_private(message) for message in (*private, *public)] == [True] * 4 + [False] * 3


def test_a_request_knows_its_reply() -> None:
    assert Adopt.reply() is Done


def test_modules_may_name_messages_alike() -> None:
    other = type("Score", (Reply,), {"__module__": "elsewhere"})
    assert Message.kinds["elsewhere.Score"] is other
    assert Message.kinds[kind_of(Score)] is Score


def test_messages_are_frozen() -> None:
    @dataclass(frozen=True, slots=True)
    class Word(Reply):
        text: str

    with pytest.raises(AttributeError):
        Word("a").text = "b"  # type: ignore[misc]
