"""FedMD (Li & Wang 2019, Algorithm 1): parties with models of any design learn from a consensus on public rows."""

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
from limbeck.knowledge.robust import DEFAULT_TRIMMED, Rule, Trimmed, robust_mean, trimmed_rule
from limbeck.knowledge.scores import MAX_SCORE, ScoreFormat, alignment_rows, consensus_of, in_format, mean_of_known
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.algorithm import Algorithm, Outcome, check_rules, unknown_request
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Acknowledgement, Reply, Request
from limbeck.protocol.parties import Parties, Replies
from limbeck.protocol.recipe import Loss, Recipe
from limbeck.protocol.release import Observer
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import ALL_TASKS, Kind, Task
from limbeck.tables import Positive

LOSSES: Mapping[str, Loss] = {"logits": "mae", "softmax": "soft-cross-entropy", "argmax": "cross-entropy"}
STARTED = "fedmd.started"
ONLY = "is needed for several labels a row and for numbers"


@dataclass(frozen=True, slots=True)
class FedMD(Algorithm):
    """FedMD: in each round, parties predict public rows and train towards the consensus of all predictions.

    Each party ends with a model of its own design. In a round all parties predict some public rows, the server
    aggregates the scores to the consensus, and each party trains on the consensus (digest) and then on its own rows
    (revisit). A silent party continues with its current model when it is back.

    Parameters
    ----------
    rounds : int
        Number of rounds, P in the paper.
    alignment : int
        Public rows in each round, |d_j| in the paper.
    score_format : {"logits", "softmax", "argmax", "none"}
        What parties send: logits, probabilities, labels, or nothing as a baseline.
    weights : {"equal", "accuracy"} or list of float
        Weights of the parties, c_k in the paper: equal, the squared accuracy of each party on a fifth of its own rows,
        or one number for each party.
    consensus : {"mean", "median", "trimmed"}
        How the server aggregates scores; median and trimmed mean tolerate Byzantine parties.
    trimmed : float
        For `"trimmed"`: share of the parties that is left out at either end of each value.
    start : {"public", "pretrained", "none"}
        First the labelled public rows, and then the private rows; the same, with one network that the server trains on
        the public rows; or the private rows only.
    pretrain : Recipe
        How networks are trained on the labelled public rows at the start.
    fine_tune : Recipe
        How networks are trained on the private rows at the start.
    digest : Recipe
        How networks are trained towards the consensus; the loss follows from `score_format`.
    revisit : Recipe
        How networks are trained on the private rows after a consensus.

    Notes
    -----
    The loss of a digest is the mean absolute error for logits, soft cross-entropy for probabilities, and cross-entropy
    for labels.

    References
    ----------
    Li & Wang 2019, FedMD: Heterogenous Federated Learning via Model Distillation, Algorithm 1.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> parties = [(X[:30], y[:30]), (X[30:60], y[30:60])]
    >>> algorithm = lb.FedMD(rounds=1, score_format="softmax", start="none")
    >>> result = lb.run(algorithm, parties, X[60:75], models=["decision-tree", "naive-bayes"], test=(X[75:], y[75:]))
    >>> sorted(result.models), result.accuracy
    ([0, 1], 1.0)
    """

    name: ClassVar[str] = "fedmd"
    uses_weights = "parties"
    needs_public_rows: ClassVar[bool] = True
    tasks: ClassVar[tuple[Kind, ...]] = ALL_TASKS

    rounds: Annotated[int, Field(ge=0)] = 20
    alignment: Positive = 5000
    score_format: ScoreFormat | Literal["none"] = "logits"
    weights: Literal["equal", "accuracy"] | list[float] = "equal"
    consensus: Rule = "mean"
    trimmed: Trimmed = DEFAULT_TRIMMED
    start: Literal["public", "pretrained", "none"] = "public"
    pretrain: Recipe = Recipe(epochs=20, batch=128, patience=3)
    fine_tune: Recipe = Recipe(epochs=25, batch=32)
    digest: Recipe = Recipe(epochs=1, batch=256)
    revisit: Recipe = Recipe(epochs=2, batch=5)

    def check(self) -> None:
        check_rules(trimmed_rule(self.consensus, self.trimmed))
        if isinstance(self.weights, list) and not (min(self.weights, default=0) >= 0 < sum(self.weights) < math.inf):
            raise LimbeckError(f"weights must be finite, not negative, and not all be 0: {self.weights}")
        if self.consensus != "mean" and (self.weights != "equal" or self.score_format == "argmax"):
            raise LimbeckError(f'consensus = "{self.consensus}" needs weights = "equal" and scores, not argmax')

    def check_task(self, task: Task) -> None:
        Algorithm.check_task(self, task)
        check_rules(
            (task.is_multiclass or self.score_format in ("logits", "none"), f'score_format = "logits" {ONLY}'),
            (task.is_multiclass or self.weights != "accuracy", f'weights = "equal" {ONLY}'),
        )

    @property
    def needs_public_labels(self) -> bool:
        return self.start != "none"

    @property
    def needs_one_network(self) -> bool:
        return self.start == "pretrained"

    @property
    def has_messages(self) -> bool:
        """Whether parties send anything."""
        return self.score_format != "none" and self.rounds > 0

    @property
    def score_range(self) -> tuple[float, float]:
        """The smallest and the largest valid score; probabilities may be rounded, or have noise."""
        without_noise = self.score_format == "softmax" and self.effective_delta == 0
        return (-1e-6, 1 + 1e-6) if without_noise else (-MAX_SCORE, MAX_SCORE)

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return self.disclosed(run, Unprotected())

    def disclosed(self, run: Facts, how: Any, observer: Observer = "server") -> list[Disclosure]:
        """Declare everything that leaves a site, with one mechanism for all that depends on private rows.

        Parameters
        ----------
        run : Facts
            The public facts of the run.
        how : Mechanism
            The mechanism.
        observer : {"server", "parties", "public"}
            Who sees the scores.

        Returns
        -------
        list of Disclosure
            The disclosures.
        """
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
            if self.score_format == "none":
                parties.ask(TrainLocally()).at_least(1)
                continue
            classes = site.public.y if site.task.is_multiclass else None
            rows = alignment_rows(len(site.public), classes, self.alignment, site.rng)
            agreed = self._consensus(parties.ask(ScoreRequest(rows)).at_least(1), shares, site)
            parties.ask(site.disclose("consensus", DigestConsensus(rows, agreed))).at_least(1)
        return Outcome()

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        accuracy, scored = self.weights == "accuracy", self.has_messages
        made = {Initialize: True, EvaluateRequest: accuracy, ScoreRequest: scored, DigestConsensus: scored}
        if not made.get(type(request), isinstance(request, TrainLocally) and self.score_format == "none"):
            raise unknown_request(request, silo)  # before a subset is drawn and before any training
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
                logits = local.predict_logits(silo, silo.public.x[rows])
                return self.send_scores(local.without_unknown(silo, logits, self.training_rows(silo)), silo)
            case DigestConsensus(rows, agreed):
                return local.digest(silo, own, rows, agreed, self.digest, LOSSES[self.score_format], self.revisit)
        return local.train_locally(silo, own, self.revisit)

    def training_rows(self, silo: Silo) -> Array:
        """The numbers of the private rows that may be used in the whole run (party)."""
        return np.arange(len(silo.private))

    def send_scores(self, logits: Array, silo: Silo) -> Reply:
        """Disclose scores, made of logits of shape (rows, classes) (party)."""
        return silo.disclose("scores", Scores(in_format(logits, self.score_format)))

    def _shares(self, parties: Parties) -> Mapping[int, float]:
        """The weight of each party; with `"accuracy"`, a silent party counts with the mean accuracy."""
        if isinstance(self.weights, list):
            return dict(zip(parties.everyone, self.weights, strict=True))
        if self.weights == "equal" or not self.has_messages:
            return dict.fromkeys(parties.everyone, 1.0)
        measured = {party: reply.value for party, reply in parties.ask(EvaluateRequest()).by_party.items()}
        fallback = float(np.mean(list(measured.values()))) if measured else 1.0
        return {party: measured.get(party, fallback) ** 2 for party in parties.everyone}

    def _consensus(self, replies: Replies[Scores], shares: Mapping[int, float], site: Site) -> Array:
        scores, weights = [reply.values for reply in replies], [shares[party] for party in replies.parties]
        if self.consensus != "mean":
            return robust_mean(np.stack(scores), self.consensus, self.trimmed).astype(np.float32)
        weights = weights if any(weights) else [1.0] * len(weights)
        if site.task.kind == "multilabel":
            return mean_of_known(scores, weights)
        return consensus_of(scores, weights, self.score_format, site.classes)

    def upper_bound(self) -> Pooled:
        if self.start == "pretrained":
            raise LimbeckError('bounds = true: there is no bound for start = "pretrained"; use "public" or "none"')
        return Pooled(self.start, self.pretrain, self.fine_tune)
