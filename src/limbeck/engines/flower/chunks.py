"""Envelopes as Flower messages: one record, fetched in chunks up to a maximum size."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from limbeck.errors import LimbeckError

RECORD, KEY = "limbeck", "envelope"
MAX_PIECES = 100_000
PIECES_TIMEOUT = 300.0  # seconds until all pieces must have arrived


class ConnectionLostError(LimbeckError):
    """The SuperLink does not answer, or no longer knows this run or this party; trying again may help.

    Parameters
    ----------
    what : str
        Error message.
    away : bool
        Whether the SuperLink does not answer at all.
    """

    def __init__(self, what: str, away: bool = False) -> None:
        super().__init__(what)
        self.away = away


def message_for(data: bytes, node: int, lifetime: float) -> Any:
    """Flower message with an envelope for a node; it expires after `lifetime` seconds."""
    from flwr.app import Message

    return Message(_record(data), node, "query", ttl=lifetime)


def reply_to(message: Any, data: bytes) -> Any:
    """Flower message with an envelope in reply to a message."""
    from flwr.app import Message

    return Message(_record(data), reply_to=message)


def envelope_in(message: Any) -> bytes:
    """Envelope of a Flower message; an error if it contains anything else."""
    try:
        data = message.content.config_records[RECORD][KEY]
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise LimbeckError("a message without an envelope") from error
    if not isinstance(data, bytes):
        raise LimbeckError("a message whose envelope is not bytes")
    return data


class ChunkedMessage:
    """A message that is fetched in pieces, which may arrive later than the tree that names them.

    Parameters
    ----------
    tree : ObjectTree
        Flower's tree of the message's pieces.
    max_bytes : int
        Largest size of the message.
    """

    def __init__(self, tree: Any, max_bytes: int) -> None:
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

        self._whole, self._max_bytes = tree.object_id, max_bytes
        self._lacking = list(dict.fromkeys(piece.object_id for piece in iterate_object_tree(tree)))
        self._pieces: dict[str, bytes] = {}
        self._size = 0

    def message(self, pull: Callable[[str], bytes]) -> Any | None:
        """Fetch pieces.

        Parameters
        ----------
        pull : callable
            Returns the bytes of a piece.

        Returns
        -------
        Message or None
            The message; None while a piece has not arrived.

        Raises
        ------
        LimbeckError
            If the message is too large or invalid.
        """
        from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError, inflate_object_from_contents

        if len(self._lacking) > MAX_PIECES:
            raise LimbeckError(f"a message of more than {MAX_PIECES} pieces")
        while self._lacking:
            piece = self._lacking[-1]
            try:
                self._pieces[piece] = pull(piece)
            except ObjectUnavailableError:
                return None
            self._lacking.pop()
            self._size += len(self._pieces[piece])
            if self._size > self._max_bytes:
                raise LimbeckError(f"a message of more than {self._max_bytes} bytes")
        try:
            return inflate_object_from_contents(self._whole, self._pieces)
        except Exception as error:  # Flower may raise anything for a forged message
            raise LimbeckError(f"an invalid message: {type(error).__name__}") from error


def fetch(tree: Any, pull: Callable[[str], bytes], max_bytes: int, leaving: Callable[[], object]) -> Any:
    """Fetch a whole message, waiting for its pieces.

    Parameters
    ----------
    tree : ObjectTree
        Flower's tree of the message's pieces.
    pull : callable
        Returns the bytes of a piece.
    max_bytes : int
        Largest size of the message.
    leaving : callable
        Returns whether to stop waiting.

    Returns
    -------
    Message
        The message.
    """
    chunk, until = ChunkedMessage(tree, max_bytes), time.monotonic() + PIECES_TIMEOUT
    while (message := chunk.message(pull)) is None:
        if time.monotonic() > until or leaving():
            raise LimbeckError("a piece of a message did not arrive")
        time.sleep(0.05)
    return message


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Context manager that turns network errors into one line that begins with `what`."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError

    try:
        yield
    except httpx.HTTPError as error:
        raise ConnectionLostError(f"{what}: {error_message(error)}", isinstance(error, httpx.TransportError)) from error
    except ObjectPullError as error:
        raise LimbeckError(f"{what}: a piece of it is not available") from error


def error_message(error: httpx.HTTPError) -> str:
    """Message of a network error or of a SuperLink that rejects a request, in one line."""
    from flwr.supercore.error import FlowerError

    if isinstance(error, httpx.HTTPStatusError):
        known = FlowerError.from_json(error.response.text)
        details = known.message if known else error.response.reason_phrase
        return " ".join(str(details or error.response.status_code).split())
    return " ".join(str(error).split()) or type(error).__name__


def _record(data: bytes) -> Any:
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({RECORD: ConfigRecord({KEY: data})})
