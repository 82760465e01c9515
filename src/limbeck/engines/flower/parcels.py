"""A letter as a Flower message: one record, sent and fetched piece by piece, and never too much of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from limbeck.errors import LimbeckError

RECORD, KEY = "limbeck", "letter"
MOST_PIECES = 100_000
PATIENCE = 30.0  # seconds for a piece to come


class LostLineError(LimbeckError):
    """The SuperLink does not answer (`away`), or no longer knows this run or this party; trying again may help."""

    def __init__(self, what: str, away: bool = False) -> None:
        super().__init__(what)
        self.away = away


def message_for(data: bytes, node: int, lifetime: float) -> Any:
    from flwr.app import Message

    return Message(_record(data), node, "query", ttl=lifetime)


def reply_to(message: Any, data: bytes) -> Any:
    from flwr.app import Message

    return Message(_record(data), reply_to=message)


def letter_in(message: Any) -> bytes:
    """The letter that a message holds; or an error, where it holds something else."""
    try:
        data = message.content.config_records[RECORD][KEY]
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise LimbeckError("a message without a letter") from error
    if not isinstance(data, bytes):
        raise LimbeckError("a message whose letter is no bytes")
    return data


def fetch(tree: Any, pull: Callable[[str], bytes], largest: int) -> Any:
    """The message whose pieces a tree names; an error as soon as they are more or larger than is allowed."""
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    pieces: dict[str, bytes] = {}
    size = 0
    for piece in iterate_object_tree(tree):
        if piece.object_id not in pieces:
            pieces[piece.object_id] = _arrived(piece.object_id, pull)
            size += len(pieces[piece.object_id])
        if size > largest or len(pieces) > MOST_PIECES:
            raise LimbeckError(f"a message of more than {largest} bytes")
    try:
        return inflate_object_from_contents(tree.object_id, pieces)
    except Exception as error:  # whatever Flower makes of a forged message
        raise LimbeckError(f"a message that is none: {type(error).__name__}") from error


def _arrived(piece: str, pull: Callable[[str], bytes]) -> bytes:
    """A piece, which may come later than the message that it belongs to."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError

    until = time.monotonic() + PATIENCE
    while True:
        try:
            return pull(piece)
        except ObjectUnavailableError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """What goes wrong on the wire, in one line; and what never came whole is no message."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError

    try:
        yield
    except httpx.HTTPError as error:
        raise LostLineError(f"{what}: {told_by(error)}", isinstance(error, httpx.TransportError)) from error
    except (ObjectPullError, ObjectUnavailableError) as error:
        raise LimbeckError(f"{what}: a part of it never came") from error


def told_by(error: httpx.HTTPError) -> str:
    """What a SuperLink that refuses says, in one line."""
    from flwr.supercore.error import FlowerError

    if isinstance(error, httpx.HTTPStatusError):
        known = FlowerError.from_json(error.response.text)
        words = known.message if known else error.response.reason_phrase
        return " ".join(str(words or error.response.status_code).split())
    return " ".join(str(error).split()) or type(error).__name__


def _record(data: bytes) -> Any:
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({RECORD: ConfigRecord({KEY: data})})
