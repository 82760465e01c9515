"""FedMD (Li & Wang 2019, Algorithm 1): every party has a model of its own design.

Rounds: all parties score some public rows, the server averages the scores, all parties digest the consensus and
revisit their own rows. The loss of logits is their mean absolute error. A silent party goes on from where it is.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from limbeck.algorithms import local_training as local
from limbeck.algorithms.pooled import Pooled
from limbeck.algorithms.scoring import Accuracy, DigestConsensus, EvaluateRequest, Initialize, ScoreRequest, Scores
from limbeck.algorithms.scoring import TrainLocally as TrainLocally
from limbeck.errors import LimbeckError
from limbeck.knowledge.robust import Rule, Trimmed, robust_mean
from limbeck.knowledge.scores import ScoreFormat, alignment_rows, consensus_of, exchanged
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.algorithm import Algorithm, Outcome, unknown_request
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Acknowledgement, Reply, Request
from limbeck.protocol.parties import Parties, Replies
from limbeck.protocol.recipe import Loss, Recipe
from limbeck.protocol.release import Observer
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.tables import Positive

LOSSES: Mapping[str, Loss] = {"logits": "mae", "softmax": "soft-cross-entropy", "argmax": "cross-entropy"}
STARTED = "fedmd.started"


@dataclass(frozen=True, slots=True)
class FedMD(Algorithm):
    """Models of any design agree on public rows."""

    name: ClassVar[str] = "fedmd"
    needs_public_rows: ClassVar[bool] = True

    rounds: Annotated[int, Field(ge=0)] = 20  # P
    alignment: Positive = 5000  # |d_j|, public rows a round
    exchange: ScoreFormat | Literal["none"] = "logits"
    weights: Literal["equal", "accuracy"] | list[float] = "equal"  # c_k
    consensus: Rule = "mean"  # median and trimmed tolerate Byzantine parties
    trimmed: Trimmed = 0.2
    start: Literal["public", "pretrained", "none"] = "public"
    pretrain: Recipe = Recipe(epochs=20, batch=128, patience=3)  # on labelled public rows
    fine_tune: Recipe = Recipe(epochs=25, batch=32)  # on private rows, at the start
    digest: Recipe = Recipe(epochs=1, batch=256)  # its loss is that of the exchange
    revisit: Recipe = Recipe(epochs=2, batch=5)

    def check(self) -> None:
        if isinstance(self.weights, list) and not (min(self.weights, default=0) >= 0 < sum(self.weights) < math.inf):
            raise LimbeckError(f"weights must be finite, not negative, and not all be 0: {self.weights}")
        if self.consensus != "mean" and (self.weights != "equal" or self.exchange == "argmax"):
            raise LimbeckError(f'consensus = "{self.consensus}" needs weights = "equal" and scores, not argmax')

    @property
    def needs_public_labels(self) -> bool:
        return self.start != "none"

    @property
    def needs_one_network(self) -> bool:
        return self.start == "pretrained"

    @property
    def has_messages(self) -> bool:
        return self.exchange != "none" and self.rounds > 0

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return self.disclosed(run, Unprotected())

    def disclosed(self, run: Facts, how: Any, observer: Observer = "server") -> list[Disclosure]:
        """What leaves a site, under one mechanism for everything that depends on private rows."""
        if isinstance(self.weights, list) and len(self.weights) != run.parties:
            raise LimbeckError(f"algorithm.weights has {len(self.weights)} entries for {run.parties} parties")
        start = Disclosure("server", "initialization", PostProcessing(), "parties")
        if not self.has_messages:
            return [start]
        accuracy = [Disclosure("party", "accuracy", how, "server")] if self.weights == "accuracy" else []
        scores = Disclosure("party", "scores", how, observer, min(self.alignment, run.public), times=self.rounds)
        return [start, *accuracy, scores, Disclosure("server", "consensus", how, "parties", times=self.rounds)]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        weights = local.pretrained_weights(site, self.pretrain) if self.start == "pretrained" else b""
        parties.ask(site.disclose("initialization", Initialize(weights))).at_least(1)
        shares = self._shares(parties)
        for _ in range(self.rounds):
            if self.exchange == "none":
                parties.ask(TrainLocally()).at_least(1)
                continue
            rows = alignment_rows(len(site.public), site.public.y, self.alignment, site.rng)
            agreed = self._consensus(parties.ask(ScoreRequest(rows)).at_least(1), shares, site.classes)
            parties.ask(site.disclose("consensus", DigestConsensus(rows, agreed))).at_least(1)
        return Outcome()

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        accuracy, scored = self.weights == "accuracy", self.has_messages
        made = {Initialize: True, EvaluateRequest: accuracy, ScoreRequest: scored, DigestConsensus: scored}
        if not made.get(type(request), isinstance(request, TrainLocally) and self.exchange == "none"):
            raise unknown_request(request, silo)  # before a subset is drawn, or anything trained
        rows = self.training_rows(silo)
        own = silo.private[local.hold_out(silo, rows) if accuracy else rows]
        if isinstance(request, Initialize) or STARTED not in silo.memory:
            local.initialize(silo, self.pretrain if self.start != "none" else None, getattr(request, "weights", b""))
            local.fine_tune(silo, own, self.fine_tune)
            silo.memory[STARTED] = b"1"
        match request:
            case Initialize():
                return Acknowledgement()
            case EvaluateRequest():
                return silo.disclose("accuracy", Accuracy(local.accuracy(silo)))
            case ScoreRequest(rows):
                return self.send_scores(local.predict_logits(silo, silo.public.x[rows]), silo)
            case DigestConsensus(rows, agreed):
                return local.digest(silo, own, rows, agreed, self.digest, LOSSES[self.exchange], self.revisit)
        return local.train_locally(silo, own, self.revisit)

    def training_rows(self, silo: Silo) -> Array:
        """Numbers of the private rows that anything is ever learned from."""
        return np.arange(len(silo.private))

    def send_scores(self, logits: Array, silo: Silo) -> Reply:
        return silo.disclose("scores", Scores(exchanged(logits, self.exchange)))

    def _shares(self, parties: Parties) -> Mapping[int, float]:
        """By party: equal, given, or its squared accuracy; a party that does not reply gets the mean accuracy."""
        if isinstance(self.weights, list):
            return dict(zip(parties.everyone, self.weights, strict=True))
        if self.weights == "equal" or not self.has_messages:
            return dict.fromkeys(parties.everyone, 1.0)
        measured = {party: reply.value for party, reply in parties.ask(EvaluateRequest()).by_party.items()}
        fallback = float(np.mean(list(measured.values()))) if measured else 1.0
        return {party: measured.get(party, fallback) ** 2 for party in parties.everyone}

    def _consensus(self, replies: Replies[Scores], shares: Mapping[int, float], classes: int) -> Array:
        scores, weights = [reply.values for reply in replies], [shares[party] for party in replies.parties]
        if self.consensus != "mean":
            return robust_mean(np.stack(scores), self.consensus, self.trimmed).astype(np.float32)
        return consensus_of(scores, weights if any(weights) else [1.0] * len(weights), self.exchange, classes)

    def upper_bound(self) -> Pooled:
        if self.start == "pretrained":
            raise LimbeckError('bounds = true: there is none for start = "pretrained"; use "public" or "none"')
        return Pooled(self.start, self.pretrain, self.fine_tune)
