"""Ensemble: the models of all parties vote on every new row, without distillation."""

from dataclasses import dataclass
from typing import Any, ClassVar

from limbeck.models.jobs import Fit
from limbeck.models.onnx import predict
from limbeck.models.voting import voting
from limbeck.privacy.mechanisms import Unprotected
from limbeck.protocol.algorithm import Algorithm, Outcome, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True)
class OwnModel(Reply):
    """A party's model of its own rows.

    Parameters
    ----------
    model : bytes
        The model as ONNX.
    """

    model: bytes
    max_bytes: ClassVar[int] = 2**29

    def check(self, request: Any, site: Site, algorithm: Algorithm) -> None:
        predict(self.model, site.public.x, site)

    def models_within(self) -> tuple[bytes, ...]:
        return (self.model,)


@dataclass(frozen=True, slots=True)
class SendModel(Request[OwnModel]):
    """Train a model on the private rows and send it."""


@dataclass(frozen=True, slots=True)
class Ensemble(Algorithm):
    """Ensemble: the final model contains the model of every party and takes their majority vote.

    This baseline shows what a student of these models could keep at best. The models leave unprotected.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> parties = [(X[:30], y[:30]), (X[30:60], y[30:60])]
    >>> lb.run(lb.Ensemble(), parties, models="decision-tree", test=(X[60:], y[60:])).accuracy
    1.0
    """

    name: ClassVar[str] = "ensemble"
    uses_weights = "parties"

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [
            Disclosure("party", "model", Unprotected(), "server"),
            Disclosure("server", "model", Unprotected(), "parties"),
        ]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        members = parties.ask(SendModel()).at_least(1)
        final = voting([member.model for member in members])
        return hand_out(final, parties, site)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case SendModel():
                [model] = silo.train([Fit(silo.model, silo.private.x, silo.private.y, weight=silo.private.weight)])
                return silo.disclose("model", OwnModel(model))
        return Algorithm.answer(self, request, silo)
