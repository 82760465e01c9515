"""Messages that come in pieces, late, too large or forged."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")

from limbeck.engines.flower.chunks import ChunkedMessage, envelope_in, message_for
from limbeck.errors import LimbeckError


@pytest.fixture(autouse=True)
def within_a_run() -> None:
    """Flower numbers messages by the run that they belong to."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1


class LedgerFile:
    """Pieces of a real message, some of which have not come yet."""

    def __init__(self, data: bytes) -> None:
        from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

        message = message_for(data, 1, 60.0)
        self.pieces = {name: piece.deflate() for name, piece in get_all_nested_objects(message).items()}
        self.tree = get_object_tree(message)
        self.lacking = set(self.pieces)
        self.asked: list[str] = []

    def pull(self, piece: str) -> bytes:
        from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError

        if piece in self.lacking:
            raise ObjectUnavailableError(piece)
        self.asked.append(piece)
        return bytes(self.pieces[piece])


def test_a_message_is_there_once_all_its_pieces_are_and_none_is_fetched_twice() -> None:
    store = LedgerFile(b"an envelope")
    chunked = ChunkedMessage(store.tree, 2**20)
    assert len(store.pieces) > 1
    for piece in list(store.pieces):
        assert chunked.message(store.pull) is None
        store.lacking.remove(piece)
    message = chunked.message(store.pull)
    assert message is not None
    assert envelope_in(message) == b"an envelope"
    assert sorted(store.asked) == sorted(store.pieces)


def forged(store: LedgerFile) -> Callable[[str], bytes]:
    return lambda piece: b"ConfigRecord 3\x00abc"


@pytest.mark.parametrize(
    ("data", "pull", "message"), [(bytes(2000), None, "more than 1000 bytes"), (b"x", forged, "invalid")]
)
def test_too_large_or_forged_messages_are_refused(data: bytes, pull: Any, message: str) -> None:
    store = LedgerFile(data)
    store.lacking.clear()
    with pytest.raises(LimbeckError, match=message):
        ChunkedMessage(store.tree, 1000).message(pull(store) if pull else store.pull)
