"""Centralized: all rows in one place, what a federation would be if there were no privacy (the upper bound)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.models.training import Fit
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Adopt, Reply, Request
from limbeck.protocol.parties import Outcome, Parties, unanswerable
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class PrivateRows(Reply):
    """A party's rows, bare."""

    x: Array
    y: Array


@dataclass(frozen=True, slots=True)
class HandOver(Request[PrivateRows]):
    """Send all your rows."""


@dataclass(frozen=True, slots=True)
class Centralized:
    """The server trains its model on everybody's rows."""

    name: ClassVar[str] = "centralized"
    needs_public_rows: ClassVar[bool] = False
    needs_public_labels: ClassVar[bool] = False

    def lead(self, parties: Parties, site: Site) -> Outcome:
        pools = list(parties.ask(HandOver()).at_least(1))
        x, y = np.concatenate([p.x for p in pools]), np.concatenate([p.y for p in pools])
        [final] = site.train([Fit(site.model, x, y)])
        parties.ask(site.release(Adopt(final), Unprotected(), observer="parties"))
        return Outcome(final)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case HandOver():
                labels = silo.private.y.astype(np.min_scalar_type(silo.classes - 1))
                rows = PrivateRows(silo.private.x, labels)
                return silo.release(rows, Unprotected(), observer="server", count=len(silo.private))
            case Adopt(model):
                return silo.adopt(model)
            case _:
                raise unanswerable(request, silo)
