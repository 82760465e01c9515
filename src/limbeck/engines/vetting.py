"""Replies from strangers, checked before anybody uses them; what fails counts as silence."""

from dataclasses import fields
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.inspection import Limits, try_out
from limbeck.protocol.codec import Header, decode
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.site import Site


def vetted(data: bytes, request: Request[Any], header: Header, site: Site, limits: Limits) -> Reply:
    """The reply in these bytes, or a LimbeckError that says why there is none."""
    wanted = request.reply()
    if len(data) > wanted.largest:
        raise LimbeckError(f"a reply of {len(data)} bytes, of which {wanted.largest} are allowed")
    message, told = decode(data, wanted.largest)
    if type(message) is not wanted:
        raise LimbeckError(f"{type(message).__name__} in reply to {type(request).__name__}")
    if told != header:
        raise LimbeckError(f"a reply to another request (turn {told.turn}, not {header.turn}) or of other public rows")
    _check_values(message)
    message.check(request, len(site.public), site.classes)
    if models := message.models_within():
        asked = getattr(request, "queries", len(site.public))
        try_out(models, site.public.x[:asked], site.classes, limits)  # the rows that the server will ask about
    return message


def _check_values(message: Reply) -> None:
    """Numbers, and finite ones; whether a lone number may be missing, its kind must say."""
    for field in fields(message):  # type: ignore[arg-type]
        value = getattr(message, field.name)
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in "fiub":
                raise LimbeckError(f"{field.name} holds {value.dtype}")
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise LimbeckError(f"{field.name} is not finite")
