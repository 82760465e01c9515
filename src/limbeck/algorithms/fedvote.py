"""FedVote, our own method: one round of weighted soft votes on public rows, with labels matched to a class prior."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from limbeck.algorithms.noise_plan import NoisePlan, noise_plan
from limbeck.algorithms.subsets import Queries, QueryingAlgorithm, cut, number_of_queries
from limbeck.errors import LimbeckError
from limbeck.knowledge.encodings import BasisEncoding, PerRow, PrincipalComponents
from limbeck.knowledge.matching import (
    Prior,
    check_prior,
    estimated_shares,
    matched_shares,
    shares_of,
    weighted_shares,
)
from limbeck.knowledge.robust import DEFAULT_TRIMMED, Rule, Trimmed, combined, plausible_counts, trimmed_rule
from limbeck.knowledge.scores import contrast_weights
from limbeck.knowledge.spreading import label_rows
from limbeck.knowledge.targets import columns_of, rows_of_columns
from limbeck.knowledge.vote_sums import StoredVotes, mean_vote
from limbeck.knowledge.votes import shares_voted, soft_vote
from limbeck.models.jobs import Fit, FitAndScore
from limbeck.privacy.calibration import L0, Privacy
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.algorithm import Outcome, check_rules, hand_out
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import MAX_COUNT, Reply, Request, check_array
from limbeck.protocol.parties import Parties
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import Kind, Task
from limbeck.tables import Positive

NOTHING = np.empty(0)
UNIFORM = "classes are taken as equally frequent: give a prior, or with two classes more subsets, parties or epsilon"


@dataclass(frozen=True, slots=True)
class Votes(Reply):
    """The votes of a party, and its class counts.

    Parameters
    ----------
    votes : array of shape (queries, classes)
        The soft votes.
    counts : array of shape (classes,) or (2 classes,)
        Rows of each class, at L1 the party's estimate of the prior; empty if not used. With several labels a row, the
        negative and positive rows of each class. With sample weights, sums of the weights of these rows.
    """

    votes: Array
    counts: Array

    def check(self, request: Any, site: Site, algorithm: "FedVote") -> None:
        plan = algorithm.plan(site.facts)
        check_array(self.votes, (len(algorithm.queried(site)), site.classes), -MAX_COUNT, MAX_COUNT)
        if plan.median:
            check_array(self.counts, (site.classes,), 0, 1)
        else:
            columns = columns_of(site.task.kind, site.classes)
            check_array(self.counts, (columns if plan.counts else 0,), 0, MAX_COUNT)  # fractions with sample weights


@dataclass(frozen=True, slots=True)
class VoteRequest(Request[Votes]):
    """Train a model or teachers, and vote on the public rows."""

    public: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class FedVote(QueryingAlgorithm):
    """FedVote: weighted soft votes of all parties label the public rows, which train the final model.

    It is for parties with different class distributions. Such parties rank rows well, but each draws the line between
    classes in another place. Its levels are L0 and L1; `FedRidge` is for L2.

    Parameters
    ----------
    partitions : int
        Number of partitions of a party's rows with noise, s.
    subsets : int
        Number of subsets in each partition with noise, t; one teacher is trained on each.
    queries : int or float
        Public rows that are voted on, a number or a share; the first ones.
    weights : {"auto", "contrast", "equal"}
        Weights of votes; `"auto"` is contrast at L0, except with a robust consensus.
    labels : {"matched", "soft", "leader"}
        Whether labels are matched to the prior; are probabilities whose mean is the prior; or each row gets the class
        with the largest score. Soft labels give better probabilities, but fewer rows of rare classes are predicted.
    prior : {"estimated", "uniform"} or list of float
        Shares of the classes for matched and soft labels.
    consensus : {"mean", "median", "trimmed", "filtered"}
        How votes are aggregated; all but the mean tolerate Byzantine parties, at level L0 only.
    trimmed : float
        For `"trimmed"`: share of the parties that is left out at either end of each value.
    privacy : Privacy
        Level L0 or L1, and epsilon or the sigma of Gaussian noise.

    Notes
    -----
    Contrast: a vote for a class has as weight the number of the party's rows of this class, or of all other classes if
    these are fewer. Matched labels: each class gets an offset, so that it has its share of the prior among the queries.
    Without noise each party trains one model on all its rows. At L1 it trains s x t teachers on disjoint subsets, and
    sends the mean of their votes. The server encodes it in a few principal components of the public rows, and adds
    Gaussian noise to the sum over all parties.

    With sample weights, models are trained with them, and the class counts and the prior are sums of weights instead of
    numbers of rows: matched labels have the shares that the weighted rows have. Otherwise a class with a high weight
    would be learned, and then get its old share of the labels. Votes and estimates keep their bounds, whatever the
    weights, so the noise at L1 stays the same.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> parties = [(X[:30], y[:30]), (X[30:60], y[30:60])]
    >>> lb.run(lb.FedVote(), parties, public=X[60:75], models="decision-tree", test=(X[75:], y[75:])).accuracy
    1.0
    >>> lb.FedVote(partitions=1, privacy=lb.Privacy(level="L1", epsilon=3.0)).effective_delta
    1e-05
    """

    name: ClassVar[str] = "fedvote"
    uses_weights = "parties"
    encoding: ClassVar[type[BasisEncoding]] = PrincipalComponents
    tasks: ClassVar[tuple[Kind, ...]] = ("multiclass", "multilabel")

    partitions: Positive = 2
    subsets: Positive = 5
    queries: Queries = 1.0
    weights: Literal["auto", "contrast", "equal"] = "auto"
    labels: Literal["matched", "soft", "leader"] = "matched"
    prior: Prior = "estimated"
    consensus: Rule | Literal["filtered"] = "mean"
    trimmed: Trimmed = DEFAULT_TRIMMED
    privacy: Privacy = L0

    def check(self) -> None:
        noisy, privacy, contrast = self.level != "L0", self.privacy, self.weights == "contrast"
        gaussian = privacy.gamma is None and privacy.mechanism in ("gumbel", "gaussian")
        check_prior(self.prior)
        check_rules(
            (self.level != "L2", "privacy: fedvote is for levels L0 and L1: use fedridge at L2"),
            (self.consensus == "mean" or not noisy, f'consensus = "{self.consensus}" is for level L0'),
            trimmed_rule(self.consensus, self.trimmed),
            (self.is_weighted or not contrast, 'weights = "contrast" is for consensus = "mean" at level L0'),
            (self.uses_prior or self.prior == "estimated", 'prior is for labels = "matched" and "soft"'),
            (not (noisy and self.labels == "soft"), 'labels = "soft" is for level L0'),
            (noisy or (self.partitions, self.subsets) == (2, 5), "partitions and subsets are for level L1"),
            (gaussian or not noisy, "privacy: fedvote adds Gaussian noise: give epsilon, or sigma with gaussian"),
        )

    def check_task(self, task: Task) -> None:
        QueryingAlgorithm.check_task(self, task)
        robust = 'consensus = "mean" is needed for several labels a row'
        soft = 'labels = "soft" is for one class a row: the probabilities of several labels are their votes already'
        check_rules(
            (task.is_multiclass or self.consensus == "mean", robust),
            (task.is_multiclass or self.labels != "soft", soft),
        )

    @property
    def min_rows(self) -> int:
        return 1 if self.level == "L0" else self.subsets

    @property
    def uses_prior(self) -> bool:
        """Whether labels are matched to class shares."""
        return self.labels != "leader"

    @property
    def server_weights_rows(self) -> bool:
        return self.labels == "soft"

    @property
    def is_weighted(self) -> bool:
        """Whether votes have contrast weights."""
        return self.weights != "equal" and self.consensus == "mean" and self.level == "L0"

    def plan(self, run: Facts) -> NoisePlan:
        """The mechanisms of a run, and the number of components in which votes are encoded."""
        uses_counts = self.is_weighted or (self.uses_prior and self.prior == "estimated")
        return noise_plan(self.privacy, run, self.subsets, self.encoding.sensitivity, uses_counts)

    def disclosures(self, run: Facts) -> list[Disclosure]:
        shares_of(self.prior, run.classes)  # raises before any training if it is for other classes
        if not run.task.is_multiclass and not isinstance(self.prior, str) and max(self.prior) > 1:
            raise LimbeckError(
                f"algorithm.prior = {list(self.prior)}: give each label's share of positive rows, 0 to 1"
            )
        q, plan = number_of_queries(self.queries, run.public), self.plan(run)
        votes = Disclosure("party", "votes", Unprotected(), "server", queries=q)
        if self.level == "L0":
            counts = [Disclosure("party", "class counts", Unprotected(), "server")] if plan.counts else []
            return [*counts, votes, Disclosure("server", "model", Unprotected(), "parties")]
        estimate = Disclosure("party", "prior estimate", Unprotected(), "server")
        prior = [estimate, Disclosure("server", "prior", plan.median, "public")] if plan.median else []
        encoded = Disclosure("server", "encoded votes", plan.votes, "public")
        return [*prior, votes, encoded, Disclosure("server", "model", PostProcessing(), "public")]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        x, plan = self.queried(site), self.plan(site.facts)
        encoding = self.encoding.fit(x, plan.components) if plan.components else PerRow()
        if not site.task.is_multiclass:
            return self._several(plan, encoding, parties, site)
        counts, stored = np.zeros((site.parties, site.classes)), StoredVotes(len(x), site.classes)
        is_sum, encoded = self.consensus == "mean" and self.level == "L0", list[Array]()

        def take(party: int, reply: Votes) -> None:
            counts[party] = reply.counts if plan.counts else 0
            if is_sum:
                stored.add(reply.votes)
            else:
                encoded.append(encoding.encode(soft_vote(reply.votes)))

        replies = parties.ask(VoteRequest(), keep=take).at_least(1)
        prior = self._prior(counts, plan, site) if self.uses_prior else None
        weights = contrast_weights(counts)[replies.parties] if self.is_weighted else np.ones((len(replies), 1))
        if is_sum:
            total, excluded = stored.sum(weights), np.zeros(len(replies), bool)
        else:
            total, excluded = combined(np.stack(encoded), self.consensus, self.trimmed)
        total = site.disclose("encoded votes", total) if self.level == "L1" else total
        [final] = site.train([self._final(encoding.decode(total), prior, site)])
        unweighted, who = ~weights.any(axis=1), np.array(replies.parties)
        remarks = [f"party {party} has rows of one class only: its votes get weight 0" for party in who[unweighted]]
        remarks += [f"party {party} agrees with the others too rarely and was left out" for party in who[excluded]]
        remarks += [UNIFORM] if self.uses_prior and self.prior == "estimated" and not plan.counts else []
        return hand_out(final, parties, site, remarks)

    def _final(self, scores: Array, prior: Array | None, site: Site) -> Fit:
        """Fit of the final model; with soft labels to each row once for each class, with its probability as weight."""
        if self.labels != "soft" or prior is None:
            return Fit(site.model, site.public.x, label_rows(scores, prior, site.public.x))
        voted = np.flatnonzero(scores.any(axis=1))
        shares = matched_shares(scores[voted], prior)
        x, y = np.repeat(site.public.x[voted], site.classes, axis=0), np.tile(np.arange(site.classes), len(voted))
        return Fit(site.model, x, y, weight=shares.ravel())

    def _several(self, plan: NoisePlan, encoding: Any, parties: Parties, site: Site) -> Outcome:
        """With several labels a row, each class is a vote of its own between negative and positive."""
        replies = parties.ask(VoteRequest()).at_least(1)
        pairs = np.zeros((len(replies), site.classes, 2))  # rows of each party and class, negative and positive
        if plan.counts:
            pairs += np.stack([reply.counts for reply in replies]).reshape(pairs.shape)
        weights = np.stack([contrast_weights(pairs[:, c])[:, 1] for c in range(site.classes)], axis=1)
        weights = weights if self.is_weighted else np.ones_like(weights)
        votes = [encoding.encode(reply.votes.astype(np.float64)) for reply in replies]
        total = np.sum([weight * vote for weight, vote in zip(weights, votes, strict=True)], axis=0)
        total = site.disclose("encoded votes", total) if self.level == "L1" else total
        scores, known, columns = encoding.decode(total), pairs.sum(axis=(0, 2)), list[Array]()
        against = weights.sum(axis=0) * (self.level == "L0")  # encoded votes are centred
        for c in range(site.classes):
            share = pairs[:, c, 1].sum() / known[c] if known[c] else 0.5
            share = share if isinstance(self.prior, str) else self.prior[c]
            prior = np.array([1 - share, share]) if self.labels == "matched" else None
            both = np.stack([against[c] - scores[:, c], scores[:, c]], axis=1)
            columns.append(label_rows(both, prior, site.public.x))
        [final] = site.train([Fit(site.model, site.public.x, np.stack(columns, axis=1).astype(np.int8))])
        has_both = pairs.all(axis=2).any(axis=0) | (not self.is_weighted)
        remarks = [f"no party has both labels of class {c}: its labels are a guess" for c in np.flatnonzero(~has_both)]
        uniform = self.labels == "matched" and self.prior == "estimated" and not plan.counts
        return hand_out(final, parties, site, remarks + [UNIFORM] * uniform)

    def _prior(self, counts: Array, plan: NoisePlan, site: Site) -> Array:
        """The shares of the classes: given, from all counts, or at L1 the noisy median of the parties' estimates."""
        if self.prior != "estimated":
            return shares_of(self.prior, site.classes)
        if plan.median:
            [second] = site.disclose("prior", np.where(counts.any(axis=1), counts[:, 1], np.nan))
            return np.array([1 - second, second])
        return shares_of(counts.sum(axis=0) if self.consensus == "mean" else plausible_counts(counts), site.classes)

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case VoteRequest():
                x, own, plan, counts = self.queried(silo), silo.private, self.plan(silo.facts), NOTHING
                s, t = (1, 1) if self.level == "L0" else (self.partitions, self.subsets)
                subsets = [np.sort(rows) for j in range(s) for rows in cut(silo, t, self.privacy, j)]
                asked = np.concatenate([x, own.x]) if plan.median else x
                parts = [own[rows] for rows in subsets]
                scores = silo.train([FitAndScore(silo.model, p.x, p.y, asked, p.weight) for p in parts])
                if plan.median:
                    estimate = weighted_shares(estimated_shares(scores, own.y, subsets), own.y, own.weight)
                    counts = silo.disclose("prior estimate", estimate)
                elif plan.counts:
                    held = rows_of_columns(own.y, silo.task.kind, silo.classes, own.weight)
                    counts = silo.disclose("class counts", held)
                vote = soft_vote if silo.task.is_multiclass else shares_voted
                return silo.disclose("votes", Votes(mean_vote(scores, vote, len(x)), counts))
        return QueryingAlgorithm.answer(self, request, silo)
