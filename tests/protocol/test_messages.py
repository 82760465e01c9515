from dataclasses import dataclass

import pytest

from limbeck.protocol.messages import Adopt, Done, Message, Reply


def test_only_what_derives_from_private_rows_is_private() -> None:
    assert Reply.private
    assert Adopt.private
    assert not Done.private


def test_two_modules_cannot_name_a_message_alike() -> None:
    with pytest.raises(TypeError, match="both define a message Done"):
        type("Done", (Reply,), {"__module__": "elsewhere"})
    assert Message.kinds["Done"] is Done


def test_messages_are_frozen() -> None:
    @dataclass(frozen=True, slots=True)
    class Word(Reply):
        text: str

    with pytest.raises(AttributeError):
        Word("a").text = "b"  # type: ignore[misc]
