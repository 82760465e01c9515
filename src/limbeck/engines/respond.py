"""What happens at a party when a request arrives, the same under every engine."""

from typing import Any

from limbeck.errors import LimbeckError
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header
from limbeck.protocol.messages import Reply, Request, check_values
from limbeck.protocol.site import Silo


def respond(algorithm: Algorithm, request: Request[Any], header: Header, silo: Silo) -> Reply:
    """The party's reply: it refuses to speak of other public rows, and lets nothing out that is not declared.

    Where the algorithm protects something, a training that fails gives a substitute: no reply, refusal or shape depends
    on private rows but through a mechanism.
    """
    if header.public != silo.public.hash:
        raise LimbeckError(
            f"{silo.name} knows other public rows ({silo.public.hash[:12]}) than the server ({header.public[:12]})"
        )
    silo.private_level = silo.private_level or algorithm.is_private
    silo.declare = algorithm.disclosures
    silo.begin(header.turn)
    check_values(request)
    request.check(silo, algorithm)
    reply = algorithm.answer(request, silo)
    silo.check_released(reply)
    return reply
