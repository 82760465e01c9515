"""FedRidge: one message per party, a sum over its rows, from which the server computes a linear classifier. Our own.

All sites map rows to vectors phi(x) of length at most 1, by a map that depends on public rows and a seed alone. A party
sends the sum of phi(x) t(y)^T over its rows. The target vector t(y) is onehot(y) for one class a row, (1 - y, y) for a
number y in [0, 1], and for several labels a row one pair (negative, positive) for each class. The server adds the sums
and solves a ridge regression. Without noise and with the parties' own Gram matrices that is the regression on all rows
in one place, however they are split (Fed3R, Fanì et al. 2024). With noise the Gram matrix is that of the public rows.

L2 protects a row: each party adds Gaussian noise to its sum. phi = (c, sqrt(1 - c^2) u) with |u| <= 1, c = sqrt(1/2).
An added row moves the sum by |phi| <= 1. A replaced row moves it by |phi(x) e_y - phi(x') e_y'|. If the labels differ,
that is sqrt(|phi|^2 + |phi'|^2) <= sqrt(2); if not, sqrt(1 - c^2) |u - u'| <= 2 sqrt(1 - c^2) = sqrt(2). The same holds
for pairs: |t| <= 1, t t' >= 0, and phi(x) phi(x') >= c^2 - (1 - c^2) = 0, so that |phi t - phi' t'|^2 <= |phi t|^2 +
|phi' t'|^2 <= 2. With C labels a row, C such pairs move: sqrt(C) if a row is added, sqrt(2 C) if it is replaced.

A row's sample weight w in [0, 1] multiplies its t. The bounds stay: |phi w t - phi' w' t'|^2 = |phi w t|^2 +
|phi' w' t'|^2 - 2 w w' (phi phi') (t t') <= 1 + 1 - 0, because |w t| <= |t| <= 1, and the weights and both products are
not negative. An added row moves the sum by |phi w t| <= 1. The numbers of w t are rounded down to a grid, which makes
no length larger and no number negative. The neighbouring row may have any other weight in [0, 1].

L1 protects a party: its sum is scaled to length 1, and the server adds the noise. Two such sums differ by at most 2.
That gives lower accuracy than FedVote at L1, because a party's sum can move in any direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from limbeck.algorithms.subsets import LevelledAlgorithm
from limbeck.errors import LimbeckError
from limbeck.features.map import CONSTANT, CUT, STEPS, unpack
from limbeck.features.settings import Features
from limbeck.features.sums import SumFeatures, gram_of, pack_linear
from limbeck.knowledge.matching import class_offsets, simultaneous_band
from limbeck.knowledge.ridge import label_variance, ridge
from limbeck.knowledge.targets import columns_of, groups_of, labels_in, linear_weights
from limbeck.models.jobs import Fit
from limbeck.privacy.calibration import L0, Privacy, gaussian_sum
from limbeck.privacy.mechanisms import GaussianSum, PostProcessing, Unprotected
from limbeck.privacy.sampling import grid_of
from limbeck.protocol.algorithm import Outcome, check_rules, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request, check_array
from limbeck.protocol.parties import Parties
from limbeck.protocol.release import Unit
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import ALL_TASKS, Kind

MAX_SUM = 1e12
GAUSSIAN = 'give epsilon, or mechanism = "gaussian" and sigma'


@dataclass(frozen=True, slots=True)
class Sums(Reply):
    """A party's sum of features by class, and its Gram matrix where it is used."""

    sums: Array
    gram: Array

    def check(self, request: Any, site: Site, algorithm: "FedRidge") -> None:
        width = 1 + algorithm.features.width(len(site.public))
        check_array(self.sums, (width, columns_of(site.task.kind, site.classes)), -MAX_SUM, MAX_SUM)
        check_array(self.gram, (width, width) if algorithm.sends_gram else (0, 0), -MAX_SUM, MAX_SUM)

    def plus(self, other: "Sums") -> "Sums":
        return Sums(self.sums + other.sums, self.gram + other.gram)

    def gram_of(self, group: slice) -> Array:
        """Gram matrix of the rows with a label in a group: that of all rows, in proportion to the labelled ones."""
        rows, of = self.sums[0, group].sum() / CONSTANT, self.gram[0, 0] / CONSTANT**2  # of weights, if rows have them
        near = abs(of - rows) <= min(0.5, 1e-3 * abs(of))
        return np.asarray((1.0 if near else rows / of if of else 0.0) * self.gram)


class Total:
    """Sum of what the parties sent, one after the other: of their sums, and of their Gram matrices for each group."""

    def __init__(self, groups: Sequence[slice]) -> None:
        self.groups, self.sums, self.grams = groups, np.zeros(()), [np.zeros(()) for _ in groups]

    def add(self, sums: Array, reply: Sums) -> None:
        """Add a party's sums, as they count, and its Gram matrices."""
        self.sums = self.sums + sums
        if reply.gram.size:
            self.grams = [gram + reply.gram_of(group) for gram, group in zip(self.grams, self.groups, strict=True)]


@dataclass(frozen=True, slots=True)
class Solution:
    """A regression for one group of columns: weights of phi(x), scores of the public rows, and the regularization."""

    weights: Array
    scores: Array
    regularization: float


@dataclass(frozen=True, slots=True)
class SumRequest(Request[Sums]):
    """Sum the features of the private rows by class, with this map."""

    kind: str
    features: bytes
    public: ClassVar[bool] = True

    def check(self, site: Site, algorithm: "FedRidge") -> None:
        found = unpack(self.kind, self.features, site.public.x.shape[1:])
        if found.width != (agreed := algorithm.features.width(len(site.public))):
            raise LimbeckError(f"a map to {found.width} features, not to the {agreed} that were agreed on")


@dataclass(frozen=True, slots=True)
class FedRidge(LevelledAlgorithm):
    """FedRidge: a ridge regression on public features from one sum per party.

    Parameters
    ----------
    features : Features
        The map from rows to features.
    gram : {"auto", "public", "private"}
        Whose rows the Gram matrix is from. `auto`: the parties' own without noise, the public rows' with noise.
    labels : {"matched", "leader"}
        `matched`: an offset for each class gives the classes the shares that they have in the sums, among the public
        rows. `leader`: the class with the highest score is the label.
    final : {"ridge", "model"}
        The final model: the linear one on its features, or the server's model taught by its labels of the public rows.
    privacy : Privacy
        Level, and the epsilon that the noise is calibrated to, or its `sigma`.

    Examples
    --------
    >>> import limbeck as lb
    >>> algorithm = lb.FedRidge(privacy=lb.Privacy(level="L2", epsilon=1.0))
    >>> algorithm.sends_gram
    False
    """

    name: ClassVar[str] = "fedridge"
    uses_weights = "sums"
    applies_features: ClassVar[bool] = True
    tasks: ClassVar[tuple[Kind, ...]] = ALL_TASKS

    features: Features = Features()
    gram: Literal["auto", "public", "private"] = "auto"
    labels: Literal["matched", "leader"] = "matched"
    final: Literal["ridge", "model"] = "ridge"
    privacy: Privacy = L0

    def check(self) -> None:
        gaussian = self.privacy.gamma is None and self.privacy.mechanism in ("gumbel", "gaussian")
        check_rules(
            (self.level == "L0" or gaussian, f"privacy: fedridge adds Gaussian noise: {GAUSSIAN}"),
            (self.level == "L0" or self.gram != "private", 'gram = "private" is for level L0: use "public"'),
        )

    @property
    def sends_gram(self) -> bool:
        """Whether parties send their Gram matrices."""
        return self.level == "L0" and self.gram != "public"

    def mechanism(self, run: Facts) -> GaussianSum | Unprotected:
        """Return what protects a party's sum at L2, and the sum of all parties at L1."""
        if self.level == "L0":
            return Unprotected()
        privacy, task = self.privacy, run.task.kind
        size = (1 + self.features.width(run.public)) * columns_of(task, run.classes)
        unit: Unit = "party" if self.level == "L1" else "example"
        added = unit == "example" and privacy.adjacency != "replace"
        groups = len(groups_of(task, run.classes))
        row = groups**0.5 if added else (2 * groups) ** 0.5
        change = 2.0 if unit == "party" else row  # two sums of length 1 differ by 2
        part = GaussianSum(change, privacy.sigma or 1.0, size, unit, "add-remove" if added else "any")
        if privacy.epsilon is None:
            return part
        return gaussian_sum(privacy.epsilon, privacy.delta, part, (), run.noise, privacy.rows_per_person)

    def disclosures(self, run: Facts) -> list[Disclosure]:
        noise, model = self.mechanism(run), Disclosure("server", "model", PostProcessing(), "public")
        if self.level == "L2":
            sums = Disclosure("party", "noisy sums", noise, "public")
            return [sums, Disclosure("party", "sums", PostProcessing(), "public"), model]
        sums = Disclosure("party", "sums", Unprotected(), "server")
        if self.level == "L1":
            return [sums, Disclosure("server", "noisy sums", noise, "public"), model]
        return [sums, Disclosure("server", "model", Unprotected(), "parties")]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        task, x = site.task.kind, site.public.x
        features = self.features.fit(x, site.seed, site.folder, site.public.are_tokens)
        groups = groups_of(task, site.classes)
        added, request = Total(groups), SumRequest(features.kind, features.pack())
        replies = parties.ask(request, keep=lambda _, reply: added.add(self._limited(reply.sums), reply)).at_least(1)
        total = site.disclose("noisy sums", added.sums) if self.level == "L1" else added.sums
        noise = self.mechanism(site.facts)
        noises = 0 if isinstance(noise, Unprotected) else len(replies) if self.level == "L2" else 1
        public, vectors = None if self.sends_gram else gram_of(features, x) / len(x), features.steps(x) / STEPS
        solved = []
        for group, own in zip(groups, added.grams, strict=True):
            gram = own if public is None else public
            solved.append(
                self._solved(total[:, group], gram, vectors, noises * getattr(noise, "sigma", 0.0) ** 2, task)
            )
        weights = linear_weights(np.hstack([each.weights for each in solved]), task)
        final = pack_linear(features, weights, task)
        if self.final == "model":
            labels = labels_in(np.hstack([each.scores for each in solved]), task)
            [final] = site.train([Fit(site.model, x, labels)])
        figures = {"regularization": float(np.mean([each.regularization for each in solved]))}
        return hand_out(final, parties, site, figures=figures)

    def _solved(self, total: Array, gram: Array, vectors: Array, noise: float, task: Kind) -> Solution:
        """The regression for one group of columns, from the sum over all rows and the Gram matrix."""
        public = len(vectors)
        rows = max(float(total[0].sum()) / CONSTANT, 1.0)  # at private levels with noise; at L1 not a number of rows
        shares = np.maximum(total[0] / CONSTANT / rows, 1e-9)
        variance = label_variance(shares)
        if self.sends_gram:
            gram, sampling = gram / rows, np.array([0.0, variance / rows])
        else:  # the private rows have another Gram matrix than the public rows, by chance
            sampling = np.array([variance / public**2, variance / public])
        weights, regularization = ridge(total / rows, gram, sampling + np.array([noise / rows**2, 0.0]))
        scores, offsets = vectors @ weights, np.zeros(total.shape[1])
        if self.labels == "matched" and task != "regression":
            offsets = class_offsets(scores, shares / shares.sum(), simultaneous_band(total.shape[1]))
            weights[0] += offsets / CONSTANT
        return Solution(weights, scores + offsets, regularization * rows)

    def _limited(self, sums: Array) -> Array:
        """At L1, the sum scaled to length 1 at most: by the party, and again by the server, whatever a party sends."""
        sums = np.asarray(sums, np.float64)
        return sums * (CUT / max(float(np.linalg.norm(sums)), 1.0)) if self.level == "L1" else sums

    def _noisy(self, sums: Array, silo: Silo) -> Array:
        """At L2, the sum with noise, in whole steps of a grid: their sums are exact, so that relays can add them."""
        step = grid_of(getattr(self.mechanism(silo.facts), "sigma", 1.0))
        return np.asarray(np.rint(silo.disclose("noisy sums", sums) / step) * step)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case SumRequest(kind, data):
                [(sums, gram)] = silo.train([SumFeatures(kind, data, silo.private, self.sends_gram, silo.task.kind)])
                sums = self._noisy(sums, silo) if self.level == "L2" else self._limited(sums)
                return silo.disclose("sums", Sums(sums, gram))
        return LevelledAlgorithm.answer(self, request, silo)
