"""FedKD (Gong et al. 2022, Algorithm 1): one round of logits on public rows, distilled into one central model."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from limbeck.algorithms.local_training import fine_tune, initialize, predict_logits, training_rows, without_unknown
from limbeck.algorithms.logits import NOTHING, Encoding, Predictions, PredictViews
from limbeck.algorithms.subsets import Queries, QueryingAlgorithm, number_of_queries
from limbeck.knowledge.quantize import MAX_LEVELS, score_sizes
from limbeck.knowledge.scores import class_shares, classes_are_disconnected
from limbeck.knowledge.votes import answered, tally, winners
from limbeck.models.jobs import Fit, is_gradient_trained
from limbeck.models.views import views
from limbeck.privacy.calibration import L0, Privacy, clipped_gaussian
from limbeck.privacy.events import DpEvent
from limbeck.privacy.mechanisms import LaplaceCounts, LaplaceLogits, PostProcessing, Unprotected
from limbeck.protocol.algorithm import Outcome, check_rules, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Parties, Replies
from limbeck.protocol.recipe import Loss, Recipe
from limbeck.protocol.release import Asked, Observer
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import ALL_TASKS, Kind, Task
from limbeck.tables import Delta, Positive

Scale = Annotated[float, Field(gt=0, le=1e9)]
NO_COMMON_CLASSES = 'no party holds rows of two groups of classes: their logits do not compare; try transfer = "labels"'
ONLY = "is needed for several labels a row and for numbers"
COUNTS = (
    'weights_release = "noisy" is for one class a row: a row with several labels changes several counts; use weights = '
    '"equal"'
)
LOSSES: dict[str, Loss] = {"l1": "mae", "l2": "mse", "kl": "kl"}


@dataclass(frozen=True, slots=True)
class FedKD(QueryingAlgorithm):
    """FedKD: parties send quantized logits of public rows once, and a central model learns their weighted, noisy sum.

    Every party trains a model of any kind to completion. The public rows need no labels and may be of another domain.

    Parameters
    ----------
    queries : int or float
        Public rows that are predicted, a number or a share; the first ones.
    views : int
        How often each row is predicted; above 1 the rows are augmented.
    local : Recipe or None
        How the parties' networks are trained; None means each network's own recipe.
    distil : Recipe
        How the central network is trained; its loss follows from `transfer`, `norm` and `temperature`.
    norm : {"l1", "l2"}
        The norm of the difference between logits that is minimized.
    temperature : float or None
        Temperature of the Kullback-Leibler divergence; None means infinity, where `norm` takes its place.
    transfer : {"logits", "labels"}
        Whether logits are summed, or one label of each party for each row is counted as a vote.
    scale : int or None
        Number of quantization levels, S in the paper; None turns quantization off.
    bound : float
        Scores are clipped to [-bound, bound]. It is public and replaces z_max of the paper, which is private.
    weights : {"class-share", "equal"}
        Weights of the parties: their shares of each class's rows (Equation 1), or equal ones.
    weights_release : {"exact", "noisy"}
        Whether class counts leave a party exactly, or with Laplace noise of the party.
    weights_gamma : float
        Inverse of the scale of the noise on class counts.
    mechanism : {"laplace", "gaussian", "none"}
        Noise on the scores (Equation 2).
    noised_by : {"server", "party"}
        Who adds the noise: the server to the sum, or each party to its own scores.
    gamma : float
        Inverse of the scale of Laplace noise.
    sigma : float or None
        Standard deviation of Gaussian noise.
    epsilon : float or None
        Epsilon to which Gaussian noise is calibrated, if `sigma` is not given.
    delta : float
        Delta of the guarantee for logits.
    with_public : bool
        Whether local models also learn the labelled public rows, as in FedKD's Table 4.
    privacy : Privacy
        Noise on the votes if `transfer` is `"labels"`: level L0 or L1.

    Notes
    -----
    Distillation minimizes L1 on logits (Equation 7 with tau = infinity), L2, or KL at a temperature. Noise is drawn
    once for each public row; the authors' code draws it in every batch, which averages it away. One party can change
    every score, so with gamma = 1 epsilon is in the millions: use `mechanism="gaussian"` with an epsilon, or
    `transfer="labels"`.

    References
    ----------
    Gong et al. 2022, Preserving Privacy in Federated Learning with Ensemble Cross-Domain Knowledge Distillation,
    Algorithm 1.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.FedKD().effective_delta
    1e-05
    >>> lb.FedKD(transfer="labels", privacy=lb.Privacy(level="L1", epsilon=3.0)).level
    'L1'
    """

    name: ClassVar[str] = "fedkd"
    uses_weights = "parties"
    tasks: ClassVar[tuple[Kind, ...]] = ALL_TASKS

    queries: Queries = 1.0
    views: Positive = 1
    local: Recipe | None = None
    distil: Recipe = Recipe(epochs=200, batch=512)
    norm: Literal["l1", "l2"] = "l1"
    temperature: Scale | None = None
    transfer: Literal["logits", "labels"] = "logits"
    scale: Annotated[int, Field(ge=1, le=MAX_LEVELS)] | None = 200
    bound: Scale = 10.0
    weights: Literal["class-share", "equal"] = "class-share"
    weights_release: Literal["exact", "noisy"] = "exact"
    weights_gamma: Scale = 1.0
    mechanism: Literal["laplace", "gaussian", "none"] = "laplace"
    noised_by: Literal["server", "party"] = "server"
    gamma: Scale = 1.0
    sigma: Scale | None = None
    epsilon: Scale | None = None
    delta: Delta = 1e-5
    with_public: bool = False
    privacy: Privacy = L0

    def check(self) -> None:
        logits, spread = self.transfer == "logits", (self.sigma is not None) + (self.epsilon is not None)
        gaussian = logits and self.mechanism == "gaussian"
        check_rules(
            (logits or self.level != "L2", "privacy: a party has one model and no teachers; use level L1, or fedkt"),
            (not logits or self.level == "L0", 'privacy is for transfer = "labels"; for logits set mechanism, epsilon'),
            (logits or (self.gamma == 1 and self.noised_by == "server"), 'gamma, noised_by: for transfer = "logits"'),
            (not gaussian or spread == 1, 'mechanism = "gaussian" needs one of sigma and epsilon'),
            (gaussian or spread == 0, 'sigma and epsilon are for mechanism = "gaussian" on logits'),
            (self.uses_counts or self.weights_release == "exact", "weights_release: for class-share of logits"),
        )

    def check_task(self, task: Task) -> None:
        QueryingAlgorithm.check_task(self, task)
        check_rules(
            (task.is_multiclass or self.transfer == "logits", f'transfer = "logits" {ONLY}'),
            (task.is_multiclass or self.temperature is None, f"temperature is for one class a row: norm {ONLY}"),
            (task.is_multiclass or self.weights_release == "exact", COUNTS),
        )

    @property
    def needs_public_labels(self) -> bool:
        return self.with_public

    @property
    def encoding(self) -> Encoding:
        """How predictions travel."""
        return Encoding(self.transfer == "labels", self.bound, self.scale, self.adds_noise("party"))

    @property
    def uses_counts(self) -> bool:
        """Whether weights depend on the parties' class counts."""
        return self.transfer == "logits" and self.weights == "class-share"

    @property
    def sends_counts(self) -> bool:
        """Whether class counts leave a party without noise."""
        return self.uses_counts and self.weights_release == "exact"

    def adds_noise(self, where: str) -> bool:
        """Whether `"server"` or `"party"` adds noise to scores."""
        return self.transfer == "logits" and self.mechanism != "none" and self.noised_by == where

    @property
    def effective_delta(self) -> float:
        if self.transfer == "labels":
            return self.privacy.effective_delta
        return self.delta if self.mechanism != "none" or self.weights_release == "noisy" else 0.0

    def disclosures(self, run: Facts) -> list[Disclosure]:
        k, found = self.views * number_of_queries(self.queries, run.public), list[Disclosure]()
        observer: Observer = "server" if self.sends_counts else "public"
        if self.uses_counts:
            how = Unprotected() if self.sends_counts else LaplaceCounts(self.weights_gamma)
            found.append(Disclosure("party", "class counts", how, observer))
        if self.adds_noise("party"):
            found.append(run.calibrated("party", "noisy scores", partial(self._noise, 1.0), "public", k))
            found.append(Disclosure("party", "predictions", PostProcessing(), observer))
        else:
            found.append(Disclosure("party", "predictions", Unprotected(), "server", k))
        if self.adds_noise("server"):  # weights depend on private counts: one party may change the whole sum
            share = 1.0 if self.uses_counts else 1 / run.parties
            found.append(run.calibrated("server", "scores", partial(self._noise, share), "public", k))
        if self.transfer == "labels" and self.level == "L1":
            noise = partial(self.privacy.noisy_max, "party", 1)
            found.append(run.calibrated("server", "labels", noise, "public", k, run.parties, abstentions=True))
        by_noise = self.adds_noise("server") or (self.adds_noise("party") and not self.sends_counts)
        if by_noise or self.level == "L1":  # then the central model depends on noisy values alone
            return [*found, Disclosure("server", "model", PostProcessing(), "public")]
        return [*found, Disclosure("server", "model", Unprotected(), "parties")]

    def _noise(self, share: float, asked: Asked) -> Any:
        """Noise for any scores in the range of the quantizer Q, which exceeds B if S is odd."""
        reach = self.bound * (1 + 1 / self.scale) if self.scale and self.scale % 2 else self.bound
        if self.mechanism == "laplace":
            return LaplaceLogits(reach, self.gamma, asked.classes, "party", "replace", share)
        counts = DpEvent(LaplaceCounts(self.weights_gamma), 1, noise=asked.noise)
        others = (counts,) * (self.weights_release == "noisy")
        found = clipped_gaussian(reach * share, self.sigma, self.epsilon, self.delta, asked, others)
        return replace(found, bound=reach, unit="party", adjacency="replace", share=share)

    def lead(self, parties: Parties, site: Site) -> Outcome:
        seed, remarks = int(site.rng.integers(2**31)), list[str]()
        x = np.concatenate(list(views(self.queried(site), self.views, seed)))
        replies = parties.ask(PredictViews(seed)).at_least(1)
        decoded = [self.encoding.decode(reply, len(x), site.classes) for reply in replies]
        if self.transfer == "labels":
            votes = tally(np.stack([labels[:, 0] for labels in decoded]), site.classes)
            x, targets = answered(x, site.disclose("labels", votes) if self.level == "L1" else winners(votes))
        else:
            targets = self._aggregate(decoded, replies, site, remarks)
        [final] = site.train([self._distillation(x, targets, site)])
        sent, may_publish = [r.packed or r.scores.tobytes() for r in replies], self.adds_noise("party")
        sizes = score_sizes(sent, decoded, site.classes, exact=may_publish or not self.is_private)
        return hand_out(final, parties, site, remarks, sizes)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case PredictViews(seed):
                initialize(silo, None)
                fine_tune(silo, training_rows(silo, self.with_public), self.local)
                seen = views(self.queried(silo), self.views, seed)
                logits = np.concatenate([predict_logits(silo, view) for view in seen])
                if silo.task.kind == "regression":  # numbers in [0, 1] take up the range of the logits
                    logits = (2 * np.clip(logits, 0, 1) - 1) * self.bound
                elif silo.task.is_multiclass and not is_gradient_trained(silo.model):  # logarithms are all below 0
                    logits -= logits.mean(axis=1, keepdims=True)
                return self._predictions(without_unknown(silo, logits), silo)
        return QueryingAlgorithm.answer(self, request, silo)

    def _predictions(self, logits: Array, silo: Silo) -> Reply:
        """What leaves a party: labels, levels or scores, and class counts if they are used."""
        if silo.private_level:  # otherwise the party's silence would reveal something about its rows
            logits = np.nan_to_num(logits, nan=0.0, posinf=self.bound, neginf=-self.bound)
        own = silo.task.counts(silo.private.y, silo.classes)[None]
        counts = silo.disclose("class counts", own)[0].astype(np.float64) if self.uses_counts else NOTHING
        noise = (lambda scores: silo.disclose("noisy scores", scores)) if self.adds_noise("party") else None
        return silo.disclose("predictions", Predictions(*self.encoding.encode(logits, noise), counts))

    def _aggregate(self, decoded: list[Array], replies: Replies[Predictions], site: Site, remarks: list[str]) -> Array:
        """Equation 2. Noise assumes that all parties reply; equal weights are scaled to those that did."""
        noised, counts = self.adds_noise("server"), np.stack([reply.counts for reply in replies])
        if self.uses_counts and not self.is_private and site.task.is_multiclass and classes_are_disconnected(counts):
            remarks.append(NO_COMMON_CLASSES)
        equal = np.full((len(decoded), 1), 1 / (site.parties if noised else len(decoded)))
        shares = class_shares(counts) if self.uses_counts else equal
        parts = zip(shares, map(self.encoding.scores, decoded), strict=True)
        total = np.asarray(sum(share * scores for share, scores in parts))
        total = site.disclose("scores", total) if noised else total
        replied = site.parties / len(replies) if noised and not self.uses_counts else 1.0
        total = total * replied
        return np.asarray(total if site.task.kind != "regression" else (total / self.bound + 1) / 2, np.float32)

    def _distillation(self, rows: Array, targets: Array, site: Site) -> Fit:
        """The training of the central model; several views take as many steps as one."""
        if not is_gradient_trained(site.model):
            return Fit(site.model, rows, targets if targets.ndim == 1 else site.task.labels_of(targets))
        recipe, loss = self.distil, LOSSES["kl" if self.temperature else self.norm]
        if self.views > 1:
            recipe = replace(recipe, epochs=max(1, round(recipe.epochs / self.views)), augmentation="none")
        loss = "cross-entropy" if self.transfer == "labels" else loss
        return Fit(site.model, rows, targets, replace(recipe, loss=loss, temperature=self.temperature or 1.0))
