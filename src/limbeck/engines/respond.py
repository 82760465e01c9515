"""How a party answers a request, the same under every engine."""

from typing import Any

from limbeck.errors import LimbeckError
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header
from limbeck.protocol.messages import Reply, Request, check_values
from limbeck.protocol.site import Silo


def respond(algorithm: Algorithm, request: Request[Any], header: Header, silo: Silo) -> Reply:
    """Answer a request.

    At a private level, a training that fails gives a substitute. No reply, refusal or shape then depends on private
    rows except through a mechanism.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    request : Request
        The request.
    header : Header
        Its turn, and the hash of the public rows.
    silo : Silo
        The party.

    Returns
    -------
    Reply
        The party's reply. It contains nothing private that was not disclosed.

    Raises
    ------
    LimbeckError
        If the party has other public rows than the server, or the request is invalid.
    """
    if header.public != silo.public.hash:
        raise LimbeckError(
            f"{silo.name} has other public rows ({silo.public.hash[:12]}) than the server ({header.public[:12]})"
        )
    silo.private_level = silo.private_level or algorithm.is_private
    silo.declare = algorithm.disclosures
    silo.begin(header.turn)
    check_values(request)
    request.check(silo, algorithm)
    reply = algorithm.answer(request, silo)
    silo.check_released(reply)
    silo.forget_released()
    return reply
