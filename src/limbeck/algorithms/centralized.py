"""Centralized: all rows in one place, the upper bound of what a federation can reach."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.jobs import Fit
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.algorithm import Algorithm, Outcome, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request, check_array
from limbeck.protocol.parties import Parties, Replies
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class PrivateRows(Reply):
    """A party's rows, unprotected."""

    x: Array
    y: Array
    max_bytes: ClassVar[int] = 2**30
    finite: ClassVar[bool] = False  # at a private level nobody may be missing because of what the rows hold

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        if not site.private_level and not np.isfinite(self.x).all():
            raise LimbeckError("x is not finite")
        check_array(self.x, (len(self.x), *site.public.x.shape[1:]))
        check_array(self.y, (len(self.x),), 0, site.classes - 1, "iu")


@dataclass(frozen=True, slots=True)
class SendRows(Request[PrivateRows]):
    """Send all your rows."""


def send_rows(silo: Silo) -> Reply:
    labels = silo.private.y.astype(np.min_scalar_type(silo.classes - 1))
    return silo.disclose("rows", PrivateRows(silo.private.x, labels))


def pooled(pools: Replies[PrivateRows]) -> Rows:
    """Everybody's rows, in party order."""
    return Rows(np.concatenate([pool.x for pool in pools]), np.concatenate([pool.y for pool in pools]))


@dataclass(frozen=True, slots=True)
class Centralized(Algorithm):
    """The server trains its model on everybody's rows."""

    name: ClassVar[str] = "centralized"

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [
            Disclosure("party", "rows", Unprotected(), "server"),
            Disclosure("server", "model", Unprotected(), "parties"),
        ]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        everything = pooled(parties.ask(SendRows()).at_least(1))
        [final] = site.train([Fit(site.model, everything.x, everything.y)])
        return hand_out(final, parties, site)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case SendRows():
                return send_rows(silo)
        return Algorithm.answer(self, request, silo)
