"""Checks of replies before an algorithm gets them; an invalid reply counts as silence."""

from collections.abc import Callable
from typing import Any, TypeVar

from limbeck.errors import LimbeckError
from limbeck.models.inspection import Limits, try_out
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header, decode
from limbeck.protocol.messages import Reply, Request, check_values
from limbeck.protocol.site import Site

T = TypeVar("T")
MAX_PROBLEM = 500  # characters of a problem that are kept


def result_or_problem(check: Callable[[], T]) -> tuple[T | None, str]:
    """Run the checks of one party's reply. Every error in them is a problem of this reply and does not end the run.

    Parameters
    ----------
    check : callable
        Reads or checks the reply of one party.

    Returns
    -------
    result : object or None
        What `check` returned; None if it raised.
    problem : str
        What is wrong with the reply, on one line; empty if it is valid.

    Examples
    --------
    >>> result_or_problem(lambda: 7)
    (7, '')
    >>> result_or_problem(lambda: [][3])
    (None, 'IndexError: list index out of range')
    """
    try:
        return check(), ""
    except Exception as error:  # a malformed reply may cause any exception
        name = "" if isinstance(error, LimbeckError) else f"{type(error).__name__}: "
        return None, (name + " ".join(str(error).split()))[:MAX_PROBLEM] or "invalid"


def check_reply(reply: Any, size: int, request: Request[Any], site: Site, algorithm: Algorithm) -> None:
    """Raise unless a reply has the type, size, shapes and ranges that the request asks for.

    Parameters
    ----------
    reply : Any
        What a party sent.
    size : int
        Bytes on the wire.
    request : Request
        The request.
    site : Site
        The server.
    algorithm : Algorithm
        The algorithm.
    """
    wanted = request.reply()
    if type(reply) not in (wanted, *request.extended_replies):
        raise LimbeckError(f"{type(reply).__name__} in reply to {type(request).__name__}, not {wanted.__name__}")
    if size > wanted.max_bytes:
        raise LimbeckError(f"a reply of {size} bytes; at most {wanted.max_bytes} are allowed")
    check_values(reply)
    reply.check(request, site, algorithm)


def read_reply(
    data: bytes,
    request: Request[Any],
    header: Header,
    site: Site,
    algorithm: Algorithm,
    limits: Limits = Limits(),  # noqa: B008
) -> Reply:
    """Decode and check a reply from another organisation.

    Models in the reply are first tried in a process with limited memory and time.

    Parameters
    ----------
    data : bytes
        Encoded reply.
    request : Request
        The request.
    header : Header
        Its turn, and the hash of the public rows.
    site : Site
        The server.
    algorithm : Algorithm
        The algorithm.
    limits : Limits
        Limits of the process that tries models.

    Returns
    -------
    Reply
        A valid reply.

    Raises
    ------
    LimbeckError
        If the reply is invalid.
    """
    wanted = request.reply()
    if len(data) > wanted.max_bytes:
        raise LimbeckError(f"a reply of {len(data)} bytes; at most {wanted.max_bytes} are allowed")
    message, found = decode(data, wanted.max_bytes)
    if found != header:
        raise LimbeckError(
            f"a reply to another request (turn {found.turn}, not {header.turn}) or about other public rows"
        )
    if isinstance(message, Reply) and (models := message.models_within()):
        try_out(models, site.public.x, site.classes, limits, site.task.kind)
    check_reply(message, len(data), request, site, algorithm)
    assert isinstance(message, Reply)
    return message
