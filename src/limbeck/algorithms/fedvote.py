"""FedVote: one round of weighted soft votes on public rows, labels matched to the classes' shares. Our own method.

Parties that hold other shares of the classes than the whole still rank rows well, but they draw the line elsewhere. So
a party's vote for a class is weighted by its contrast, the fewer of its rows of the class and of its rows of all
others, and labels are matched: classes have the shares of a prior among the public rows. There are no students.

Without noise each party trains one model on all its rows. With noise it trains s x t teachers on disjoint subsets, and
votes are encoded in a few principal components of the public rows, where the sum over all voters gets Gaussian noise.
At L1 a voter is a party and the server adds the noise; at L2 a voter is a teacher, the party adds the noise, and a row
is in s teachers. The prior comes from class counts; at L1 from the noisy median of the parties' estimates of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from limbeck.algorithms.noise_plan import NoisePlan, noise_plan
from limbeck.algorithms.subsets import LevelledAlgorithm, Queries, cut, number_of_queries
from limbeck.knowledge.encodings import BasisEncoding, Encoding, PerRow, PrincipalComponents
from limbeck.knowledge.matching import Prior, check_prior, estimated_share, matched, shares_of
from limbeck.knowledge.robust import Rule, Trimmed, combined, plausible_counts
from limbeck.knowledge.scores import contrast_weights
from limbeck.knowledge.spreading import spread_labels
from limbeck.knowledge.votes import soft_vote, winners
from limbeck.models.jobs import Fit, FitAndScore
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.algorithm import Outcome, check_rules, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request, check_array
from limbeck.protocol.parties import Parties, Replies
from limbeck.protocol.rows import UNANSWERED, Array
from limbeck.protocol.site import Silo, Site
from limbeck.tables import Positive

LARGEST = 1e9  # count, or noisy sum
NOTHING, NO_ROWS = np.empty(0), np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Votes(Reply):
    """A party's votes, encoded and noised at L2; its rows by class, and its estimate of the prior, where used."""

    votes: Array
    counts: Array
    prior: Array

    def check(self, request: Any, site: Site, algorithm: "FedVote") -> None:
        plan = algorithm.plan(site.facts)
        lines = plan.components if plan and algorithm.level == "L2" else len(algorithm.queried(site))
        check_array(self.votes, (lines, site.classes), -LARGEST, LARGEST)
        check_array(self.counts, (site.classes if algorithm.uses_counts else 0,), -LARGEST, LARGEST)
        check_array(self.prior, (2 if plan and plan.median else 0,), 0, 1)  # whether there is one, and what it is


@dataclass(frozen=True, slots=True)
class VoteRequest(Request[Votes]):
    """Train your model or teachers, and vote on the public rows; at L2 in this basis, which the server has found."""

    basis: Array
    public: ClassVar[bool] = True

    def check(self, site: Site, algorithm: "FedVote") -> None:
        plan = algorithm.plan(site.facts) if algorithm.level == "L2" else None
        if plan:
            algorithm.encoding(self.basis).check(len(algorithm.queried(site)), plan.components)
        else:
            check_array(self.basis, (0,))


@dataclass(frozen=True, slots=True)
class FedVote(LevelledAlgorithm):
    """Weighted soft votes of all parties label the public rows, from which the final model learns."""

    name: ClassVar[str] = "fedvote"
    needs_public_rows: ClassVar[bool] = True
    is_one_shot: ClassVar[bool] = True
    encoding: ClassVar[type[BasisEncoding]] = PrincipalComponents  # of votes that get noise

    partitions: Positive = 2  # s, with noise
    subsets: Positive = 5  # t, with noise
    queries: Queries = 1.0
    weights: Literal["auto", "contrast", "equal"] = "auto"  # contrast, except at L1 and with a robust consensus
    labels: Literal["matched", "leader"] = "matched"
    prior: Prior = "estimated"
    consensus: Rule | Literal["filtered"] = "mean"  # the others tolerate Byzantine parties
    trimmed: Trimmed = 0.2
    privacy: Privacy = L0  # epsilon, or the sigma of Gaussian noise

    def check(self) -> None:
        noisy, robust, privacy = self.level != "L0", self.consensus != "mean", self.privacy
        gaussian = privacy.gamma is None and privacy.mechanism in ("gumbel", "gaussian")
        check_prior(self.prior)
        check_rules(
            (not noisy or not robust, f'consensus = "{self.consensus}" is for level L0'),
            (not robust or not self.is_weighted, f'consensus = "{self.consensus}" needs weights = "equal"'),
            (self.level != "L1" or not self.is_weighted, 'weights = "contrast" is for levels L0 and L2'),
            (self.labels == "matched" or self.prior == "estimated", 'prior is for labels = "matched"'),
            (noisy or (self.partitions, self.subsets) == (2, 5), "partitions and subsets are for levels L1 and L2"),
            (not noisy or gaussian, "privacy: fedvote adds Gaussian noise: give epsilon, or sigma with gaussian"),
        )

    @property
    def is_weighted(self) -> bool:
        by_default = self.level != "L1" and self.consensus == "mean"
        return by_default if self.weights == "auto" else self.weights == "contrast"

    @property
    def estimates_prior(self) -> bool:
        return self.labels == "matched" and self.prior == "estimated"

    @property
    def uses_counts(self) -> bool:
        return self.is_weighted or (self.estimates_prior and self.level != "L1")

    def plan(self, run: Facts) -> NoisePlan | None:
        """How many components votes are encoded in, and all noise; None without noise."""
        if self.level == "L0":
            return None
        teachers, sensitivity = (self.partitions, self.subsets), self.encoding.sensitivity
        return noise_plan(self.privacy, run, teachers, sensitivity, self.uses_counts, self.estimates_prior)

    def disclosures(self, run: Facts) -> Sequence[Disclosure]:
        k, plan = number_of_queries(self.queries, run.public), self.plan(run)
        if not self.estimates_prior:
            shares_of(self.prior, run.classes)  # before anyone trains, an error where it is for other classes
        if plan and self.level == "L2":
            counts = [Disclosure("party", "class counts", plan.counts, "public")] if plan.counts else []
            votes = Disclosure("party", "encoded votes", plan.votes, "public")
            made_of_these = Disclosure("party", "votes", PostProcessing(), "public")
            return [*counts, votes, made_of_these, Disclosure("server", "model", PostProcessing(), "public")]
        asides = ["class counts"] * self.uses_counts + ["prior estimate"] * bool(plan and plan.median)
        found = [Disclosure("party", what, Unprotected(), "server") for what in asides]
        found.append(Disclosure("party", "votes", Unprotected(), "server", k))
        if not plan:
            return [*found, Disclosure("server", "model", Unprotected(), "parties")]
        if plan.median:
            found.append(Disclosure("server", "prior", plan.median, "public"))
        found.append(Disclosure("server", "encoded votes", plan.votes, "public"))
        return [*found, Disclosure("server", "model", PostProcessing(), "public")]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        x, plan, remarks = self.queried(site), self.plan(site.facts), list[str]()
        encoding = self.encoding.fit(x, plan.components) if plan else PerRow(len(x))
        basis = encoding.basis if isinstance(encoding, BasisEncoding) and self.level == "L2" else NOTHING
        replies = parties.ask(VoteRequest(basis)).at_least(1)
        prior = self._prior(replies, site, remarks)
        scores = self._scores(replies, encoding, site, remarks)
        there = np.flatnonzero(scores.any(axis=1))
        labels = np.full(len(site.public), UNANSWERED)
        labels[there] = winners(scores[there]) if prior is None else matched(scores[there], prior)
        labels = spread_labels(site.public.x, labels, labels != UNANSWERED)  # rows without votes get those of the like
        [final] = site.train([Fit(site.model, site.public.x, labels)])
        return hand_out(final, parties, site, remarks)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case VoteRequest(basis):
                votes, prior = self._train_and_vote(silo)
                counts = np.bincount(silo.private.y, minlength=silo.classes).astype(np.float64)
                counts = silo.disclose("class counts", counts) if self.uses_counts else NOTHING
                if self.level == "L2":
                    total = np.asarray(sum(map(self.encoding(basis).encode, votes)))
                    return silo.disclose("votes", Votes(silo.disclose("encoded votes", total), counts, NOTHING))
                prior = silo.disclose("prior estimate", prior) if len(prior) else prior
                mean = np.einsum("t,trc->rc", np.full(len(votes), 1 / len(votes)), votes)
                return silo.disclose("votes", Votes(mean.astype(np.float16), counts, prior))
        return LevelledAlgorithm.answer(self, request, silo)

    def _train_and_vote(self, silo: Silo) -> tuple[Array, Array]:
        """[teachers, rows, classes] votes; and with a median the party's estimate of the prior.

        A teacher and its votes depend on its own subset alone. The estimate is made of rows that it has not learned.
        """
        x, own, plan = self.queried(silo), silo.private, self.plan(silo.facts)
        s, t = (self.partitions, self.subsets) if plan else (1, 1)
        subsets = [np.sort(rows) for partition in range(s) for rows in cut(silo, t, self.privacy, partition)]
        estimates = bool(plan and plan.median)
        others = [np.setdiff1d(np.arange(len(own)), rows) if estimates else NO_ROWS for rows in subsets]
        asked = [np.concatenate([x, own.x[rest]]) if estimates else x for rest in others]
        jobs = [FitAndScore(silo.model, own.x[r], own.y[r], each) for r, each in zip(subsets, asked, strict=True)]
        scores = silo.train(jobs)
        votes = np.stack([soft_vote(each[: len(x)]) for each in scores])
        return votes, estimated_share(scores, [own.y[rest] for rest in others], len(x)) if estimates else NOTHING

    def _scores(self, replies: Replies[Votes], encoding: Encoding, site: Site, remarks: list[str]) -> Array:
        """[rows, classes]: the weighted sum of all votes, or their robust consensus."""
        votes = [np.asarray(reply.votes, np.float64) for reply in replies]
        if self.level != "L2":
            votes = [encoding.encode(soft_vote(each)) for each in votes]
        weighted = self._weights(replies, site, remarks)[:, None] * np.stack(votes)
        total, left_out = combined(weighted, self.consensus, self.trimmed)
        who = np.array(replies.parties)[left_out]
        remarks += [f"party {party} agrees with the others too seldom and was left out" for party in who]
        return encoding.decode(site.disclose("encoded votes", total) if self.level == "L1" else total)

    def _weights(self, replies: Replies[Votes], site: Site, remarks: list[str]) -> Array:
        """[parties, classes], or [parties, 1] where all are equal."""
        if not self.is_weighted:
            return np.ones((len(replies), 1))
        counts = np.zeros((site.parties, site.classes))
        counts[replies.parties] = [reply.counts for reply in replies]
        weights = contrast_weights(counts)
        silent = [party for party in replies.parties if not weights[party].any()]
        remarks += [f"party {party} has rows of one class only: its votes get weight 0" for party in silent]
        return weights[replies.parties]

    def _prior(self, replies: Replies[Votes], site: Site, remarks: list[str]) -> Array | None:
        """The classes' shares: given, or of all counts, or at L1 the noisy median of the parties' estimates."""
        if not self.estimates_prior:
            return shares_of(self.prior, site.classes) if self.labels == "matched" else None
        plan = self.plan(site.facts)
        if self.level != "L1":
            counts = np.stack([reply.counts for reply in replies])
            total = np.maximum(counts.sum(axis=0) if self.consensus == "mean" else plausible_counts(counts), 0.0)
            return np.asarray(total / total.sum()) if total.sum() > 0 else shares_of("uniform", site.classes)
        if not plan or not plan.median:
            remarks.append(
                "classes are taken as equally frequent: their shares are estimated where there are two, "
                "several subsets, and enough parties for this epsilon; `prior` can give them"
            )
            return shares_of("uniform", site.classes)
        estimates = np.full(site.parties, np.nan)
        estimates[replies.parties] = [reply.prior[1] if reply.prior[0] else np.nan for reply in replies]
        second = float(site.disclose("prior", estimates)[0])
        return np.array([1 - second, second])
