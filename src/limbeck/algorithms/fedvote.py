"""FedVote: one round of weighted soft votes on public rows, labels matched to the classes' shares. Our own method.

Parties that hold other shares of the classes than the whole still rank rows well, but they draw the line elsewhere. So
a party's vote for a class is weighted by its contrast, the fewer of its rows of the class and of its rows of all
others, and labels are matched: classes have the shares of a prior among the public rows. There are no students.

Without noise each party trains one model on all its rows. With noise it trains s x t teachers on disjoint subsets, and
votes are encoded in a few principal components of the public rows, where the sum of all voters gets Gaussian noise. At
L1 a voter is a party and the server adds the noise; at L2 a voter is a teacher, the party adds it, and a row is in s.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from limbeck.algorithms.noise_plan import NoisePlan, noise_plan
from limbeck.algorithms.subsets import LevelledAlgorithm, Queries, cut, number_of_queries
from limbeck.knowledge.encodings import BasisEncoding, PerRow, PrincipalComponents
from limbeck.knowledge.matching import Prior, check_prior, estimated_shares, shares_of
from limbeck.knowledge.robust import Rule, Trimmed, combined, plausible_counts
from limbeck.knowledge.scores import contrast_weights
from limbeck.knowledge.spreading import label_rows
from limbeck.knowledge.votes import soft_vote
from limbeck.models.jobs import Fit, FitAndScore
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.algorithm import Outcome, check_rules, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request, check_array
from limbeck.protocol.parties import Parties
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.tables import Positive

MAX_VALUE = 1e9  # count, or noisy sum
NOTHING = np.empty(0)
UNIFORM = "classes are taken as equally frequent: estimates need two classes, several subsets, more parties or epsilon"


@dataclass(frozen=True, slots=True)
class Votes(Reply):
    """A party's votes, encoded and noised at L2; where used, its rows by class, or at L1 its estimate of the prior."""

    votes: Array
    counts: Array

    def check(self, request: Any, site: Site, algorithm: "FedVote") -> None:
        plan = algorithm.plan(site.facts)
        lines = plan.components if algorithm.level == "L2" else len(algorithm.queried(site))
        check_array(self.votes, (lines, site.classes), -MAX_VALUE, MAX_VALUE)
        low, high = (0.0, 1.0) if plan.median else (-MAX_VALUE, MAX_VALUE)
        check_array(self.counts, (site.classes if plan.counts else 0,), low, high)


@dataclass(frozen=True, slots=True)
class VoteRequest(Request[Votes]):
    """Train your model or teachers, and vote on the public rows; at L2 in this basis, which the server has found."""

    basis: Array
    public: ClassVar[bool] = True

    def check(self, site: Site, algorithm: "FedVote") -> None:
        if algorithm.level == "L2":
            algorithm.encoding(self.basis).check(len(algorithm.queried(site)), algorithm.plan(site.facts).components)
        else:
            check_array(self.basis, (0,))


@dataclass(frozen=True, slots=True)
class FedVote(LevelledAlgorithm):
    """Weighted soft votes of all parties label the public rows, from which the final model learns."""

    name: ClassVar[str] = "fedvote"
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
        noisy, privacy, contrast = self.level != "L0", self.privacy, self.weights == "contrast"
        gaussian = privacy.gamma is None and privacy.mechanism in ("gumbel", "gaussian")
        check_prior(self.prior)
        check_rules(
            (self.consensus == "mean" or not noisy, f'consensus = "{self.consensus}" is for level L0'),
            (self.consensus == "trimmed" or self.trimmed == 0.2, 'trimmed is for consensus = "trimmed"'),
            (self.is_weighted or not contrast, 'weights = "contrast" is for consensus = "mean" at levels L0 and L2'),
            (self.labels == "matched" or self.prior == "estimated", 'prior is for labels = "matched"'),
            (noisy or (self.partitions, self.subsets) == (2, 5), "partitions and subsets are for levels L1 and L2"),
            (gaussian or not noisy, "privacy: fedvote adds Gaussian noise: give epsilon, or sigma with gaussian"),
        )

    @property
    def is_weighted(self) -> bool:
        return self.weights != "equal" and self.consensus == "mean" and self.level != "L1"

    def plan(self, run: Facts) -> NoisePlan:
        """How many components votes are encoded in, and what protects them and all that is sent beside."""
        uses_counts = self.is_weighted or (self.labels == "matched" and self.prior == "estimated")
        return noise_plan(self.privacy, run, (self.partitions, self.subsets), self.encoding.sensitivity, uses_counts)

    def disclosures(self, run: Facts) -> list[Disclosure]:
        shares_of(self.prior, run.classes)  # before anyone trains, an error where it is for other classes
        q, plan = number_of_queries(self.queries, run.public), self.plan(run)
        votes = Disclosure("party", "votes", Unprotected(), "server", queries=q)
        model = Disclosure("server", "model", PostProcessing(), "public")
        if self.level == "L0":
            counts = [Disclosure("party", "class counts", plan.counts, "server")] if plan.counts else []
            return [*counts, votes, Disclosure("server", "model", Unprotected(), "parties")]
        if self.level == "L1":
            estimate = Disclosure("party", "prior estimate", Unprotected(), "server")
            prior = [estimate, Disclosure("server", "prior", plan.median, "public")] if plan.median else []
            return [*prior, votes, Disclosure("server", "encoded votes", plan.votes, "public"), model]
        counts = [Disclosure("party", "class counts", plan.counts, "public")] if plan.counts else []
        encoded = Disclosure("party", "encoded votes", plan.votes, "public")
        return [*counts, encoded, Disclosure("party", "votes", PostProcessing(), "public"), model]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        x, plan = self.queried(site), self.plan(site.facts)
        encoding = self.encoding.fit(x, plan.components) if plan.components else PerRow()
        replies = parties.ask(VoteRequest(encoding.basis if self.level == "L2" else NOTHING)).at_least(1)
        counts = np.zeros((site.parties, site.classes))
        counts[replies.parties] = [reply.counts for reply in replies] if plan.counts else 0
        prior = self._prior(counts, plan, site) if self.labels == "matched" else None
        weights = contrast_weights(counts)[replies.parties] if self.is_weighted else np.ones((len(replies), 1))
        votes = [reply.votes if self.level == "L2" else encoding.encode(soft_vote(reply.votes)) for reply in replies]
        total, excluded = combined(weights[:, None] * np.stack(votes), self.consensus, self.trimmed)
        total = site.disclose("encoded votes", total) if self.level == "L1" else total
        labels = label_rows(encoding.decode(total), prior, site.public.x)
        [final] = site.train([Fit(site.model, site.public.x, labels)])
        unweighted, who = ~weights.any(axis=1), np.array(replies.parties)
        remarks = [f"party {party} has rows of one class only: its votes get weight 0" for party in who[unweighted]]
        remarks += [f"party {party} agrees with the others too seldom and was left out" for party in who[excluded]]
        remarks += [UNIFORM] if self.labels == "matched" and self.prior == "estimated" and not plan.counts else []
        return hand_out(final, parties, site, remarks)

    def _prior(self, counts: Array, plan: NoisePlan, site: Site) -> Array:
        """The classes' shares: given, or of all counts, or at L1 the noisy median of the parties' estimates."""
        if self.prior != "estimated":
            return shares_of(self.prior, site.classes)
        if plan.median:
            [second] = site.disclose("prior", np.where(counts.any(axis=1), counts[:, 1], np.nan))
            return np.array([1 - second, second])
        return shares_of(counts.sum(axis=0) if self.consensus == "mean" else plausible_counts(counts), site.classes)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case VoteRequest(basis):
                x, own, plan, counts = self.queried(silo), silo.private, self.plan(silo.facts), NOTHING
                s, t = (1, 1) if self.level == "L0" else (self.partitions, self.subsets)
                subsets = [np.sort(rows) for j in range(s) for rows in cut(silo, t, self.privacy, j)]
                asked = np.concatenate([x, own.x]) if plan.median else x  # at L2 votes depend on one subset alone
                scores = silo.train([FitAndScore(silo.model, own.x[rows], own.y[rows], asked) for rows in subsets])
                if plan.median:
                    counts = silo.disclose("prior estimate", estimated_shares(scores, own.y, subsets))
                elif plan.counts:
                    counts = silo.disclose("class counts", np.bincount(own.y, minlength=silo.classes).astype(float))
                votes = np.stack([soft_vote(each[: len(x)]) for each in scores])
                if self.level == "L2":
                    total = np.asarray(sum(map(self.encoding(basis).encode, votes)))
                    return silo.disclose("votes", Votes(silo.disclose("encoded votes", total), counts))
                return silo.disclose("votes", Votes(votes.mean(axis=0).astype(np.float16), counts))
        return LevelledAlgorithm.answer(self, request, silo)
