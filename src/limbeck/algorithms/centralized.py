"""Centralized: all rows in one place, what a federation would be if there were no privacy (the upper bound)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.jobs import Fit
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.messages import Adopt, Reply, Request, check_shape
from limbeck.protocol.parties import Outcome, Parties, Replies, unanswerable
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class PrivateRows(Reply):
    """A party's rows, unprotected."""

    x: Array
    y: Array

    largest: ClassVar[int] = 2**30

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        check_shape(self.y, [(len(self.x),)])
        if not ((self.y >= 0) & (self.y < classes)).all():
            raise LimbeckError(f"labels other than 0 to {classes - 1}")


@dataclass(frozen=True, slots=True)
class HandOver(Request[PrivateRows]):
    """Send all your rows."""


def hand_over(silo: Silo) -> PrivateRows:
    labels = silo.private.y.astype(np.min_scalar_type(silo.classes - 1))
    rows = PrivateRows(silo.private.x, labels)
    return silo.release(rows, Unprotected(), observer="server")


def pooled(pools: Replies[PrivateRows]) -> Rows:
    """Everybody's rows, in party order."""
    return Rows(np.concatenate([pool.x for pool in pools]), np.concatenate([pool.y for pool in pools]))


@dataclass(frozen=True, slots=True)
class Centralized:
    """The server trains its model on everybody's rows."""

    name: ClassVar[str] = "centralized"
    needs_public_rows: ClassVar[bool] = False
    needs_public_labels: ClassVar[bool] = False

    def lead(self, parties: Parties, site: Site) -> Outcome:
        everything = pooled(parties.ask(HandOver()).at_least(1))
        [final] = site.train([Fit(site.model, everything.x, everything.y)])
        parties.ask(site.release(Adopt(final), Unprotected(), observer="parties"))
        return Outcome(final)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case HandOver():
                return hand_over(silo)
            case Adopt(model):
                return silo.adopt(model)
            case _:
                raise unanswerable(request, silo)
