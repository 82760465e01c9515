"""Centralized training: one model of all rows in one place, the upper bound for a federation."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.models.jobs import Fit
from limbeck.models.weighting import beside_others
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.algorithm import Algorithm, Outcome, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request, check_array
from limbeck.protocol.parties import Parties, Replies
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import ALL_TASKS, Kind


@dataclass(frozen=True, slots=True)
class PrivateRows(Reply):
    """All rows of a party, unprotected.

    Parameters
    ----------
    x : array of shape (rows, ...)
        The features.
    y : array of shape (rows,) or (rows, classes)
        The labels.
    """

    x: Array
    y: Array
    max_bytes: ClassVar[int] = 2**30
    finite: ClassVar[bool] = False  # at a private level no party may be missing because of what its rows contain

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        if not site.private_level and not np.isfinite(self.x).all():
            raise LimbeckError("x is not finite")
        check_array(self.x, (len(self.x), *site.public.x.shape[1:]))
        site.task.check_labels(self.y, len(self.x), site.classes)


@dataclass(frozen=True, slots=True)
class WeightedPrivateRows(PrivateRows):
    """All rows of a party with their sample weights, unprotected.

    Parameters
    ----------
    x : array of shape (rows, ...)
        The features.
    y : array of shape (rows,) or (rows, classes)
        The labels.
    weight : array of shape (rows,)
        The sample weights.
    """

    weight: Array

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        PrivateRows.check(self, request, site, algorithm)
        check_array(self.weight, (len(self.x),), 0, np.inf)


@dataclass(frozen=True, slots=True)
class SendRows(Request[PrivateRows]):
    """Send all private rows."""

    extended_replies: ClassVar[tuple[type[Reply], ...]] = (WeightedPrivateRows,)


def send_rows(silo: Silo) -> Reply:
    """Disclose all private rows of a party."""
    labels, kind = silo.private.y, np.min_scalar_type(silo.classes - 1)
    own = (silo.private.x, labels.astype(kind) if silo.task.is_multiclass else labels)
    weight = silo.private.weight
    return silo.disclose("rows", PrivateRows(*own) if weight is None else WeightedPrivateRows(*own, weight))


def pooled(pools: Replies[PrivateRows]) -> Rows:
    """Concatenate the rows of all parties that replied, in party order."""
    x, y = np.concatenate([pool.x for pool in pools]), np.concatenate([pool.y for pool in pools])
    weights = [pool.weight if isinstance(pool, WeightedPrivateRows) else None for pool in pools]
    if all(weight is None for weight in weights):
        return Rows(x, y)
    known = zip(weights, pools, strict=True)
    return Rows(x, y, np.concatenate([np.ones(len(pool.x)) if weight is None else weight for weight, pool in known]))


@dataclass(frozen=True, slots=True)
class Centralized(Algorithm):
    """Centralized training: the server trains one model on the rows of all parties.

    This baseline shows what sharing all rows would reach. It protects nothing.

    Parameters
    ----------
    with_public : bool
        Whether the model also learns the labelled public rows, as in FedKD's Table 4.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> parties = [(X[:30], y[:30]), (X[30:60], y[30:60])]
    >>> lb.run(lb.Centralized(), parties, models="decision-tree", test=(X[60:], y[60:])).accuracy
    1.0
    """

    name: ClassVar[str] = "centralized"
    uses_weights = "server"
    tasks: ClassVar[tuple[Kind, ...]] = ALL_TASKS

    with_public: bool = False

    @property
    def needs_public_labels(self) -> bool:
        return self.with_public

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [
            Disclosure("party", "rows", Unprotected(), "server"),
            Disclosure("server", "model", Unprotected(), "parties"),
        ]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        everything = pooled(parties.ask(SendRows()).at_least(1))
        x, y, weight = everything.x, everything.y, everything.weight
        if self.with_public:
            assert site.public.y is not None
            x, y = np.concatenate([site.public.x, x]), np.concatenate([site.public.y, y])
            weight = beside_others(len(site.public), weight)
        [final] = site.train([Fit(site.model, x, y, weight=weight)])
        return hand_out(final, parties, site)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case SendRows():
                return send_rows(silo)
        return Algorithm.answer(self, request, silo)
