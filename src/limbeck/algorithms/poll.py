"""A poll: what server and parties do when teachers vote by the rules of `voting`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from limbeck.algorithms.distil import check_subsets, cut
from limbeck.algorithms.questions import Belief, Count, Counts, Said, Say, SayIn, SayTowards, Weight
from limbeck.algorithms.voting import Means, Rules
from limbeck.errors import LimbeckError
from limbeck.knowledge.ballots import (
    LEAST_SHARE,
    abstaining,
    class_weights,
    drawn_to,
    hard_ballot,
    in_units,
    rare_class_weight,
    soft_ballot,
)
from limbeck.knowledge.bases import directions, groups, heard
from limbeck.knowledge.matching import label_shift, matched
from limbeck.knowledge.robust import agreeing, plausible_counts, robust_mean
from limbeck.knowledge.scores import class_shares, contrasts
from limbeck.knowledge.spreading import spread_labels
from limbeck.knowledge.votes import winners
from limbeck.models.jobs import Fit, FitAndScore, is_gradient_trained, weighed
from limbeck.models.onnx import PackedModel
from limbeck.privacy.mechanisms import UNANSWERED, GaussianSum, PostProcessing, Unprotected
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Parties, Replies, unanswerable
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site

NOBODY = np.empty(0)
HELD_OUT = 5  # every fifth row of a subset, where accuracy is measured


@dataclass(frozen=True, slots=True)
class Poll(Rules):
    """A vote of all parties' teachers on public rows."""

    def take(self, parties: Parties, site: Site, queries: int, remarks: list[str]) -> tuple[Array, Array]:
        """Public rows, and the labels that the vote gives them."""
        everyone, prior = len(parties.everyone), self.given_prior(site.classes)
        counts: dict[int, Array] = {}
        if self.counts_first(site.classes, everyone):
            counts = self._counts_told(parties.ask(Count(queries, everyone)).at_least(1), site.classes)
        if self.corrects and prior is None:
            prior = self._mix(counts, {}, queries, everyone, site, remarks)
        rows = len(site.public) if self.ask == "active" else queries
        replies = parties.ask(self._request(rows, queries, everyone, prior, site)).at_least(1)
        said = self._sound(replies, rows, queries, site.classes, site.noise, remarks)
        if counts:
            said = {p: replace(each, counts=counts.get(p, np.zeros(site.classes))) for p, each in said.items()}
        labels = self.verdict(said, everyone, site.public.x[:rows], queries, prior, site, remarks)
        return self._lesson(labels, site)

    def _request(self, rows: int, queries: int, everyone: int, prior: Array | None, site: Site) -> Say:
        basis = self._shared_basis(site.public.x[:rows], queries, everyone, site)
        if not self.corrects and not len(basis):
            return Say(rows, queries, everyone)
        request = SayIn(rows, queries, everyone, basis)
        if self.corrects:
            request = SayTowards(rows, queries, everyone, basis, np.asarray(prior))
        if self.tells_mix:
            return site.release(request, Unprotected(), observer="parties")
        return site.release(request, PostProcessing(), observer="public")

    def alone(self, silo: Silo, site: Site, queries: int, remarks: list[str]) -> tuple[Array, Array]:
        """The vote of one silo's teachers, here at the server."""
        prior, counts = self.given_prior(site.classes), NOBODY
        if self.counts_first(site.classes, 1):
            counts = self._counted(silo, queries, 1)
            prior = self._mix({0: counts}, {}, queries, 1, site, remarks)
        asked = site.public.x if self.ask == "active" else site.public.x[:queries]
        basis = self._shared_basis(asked, queries, 1, site)
        said = self.say(silo, asked, queries, 1, prior if self.corrects else None, basis)
        said = replace(said, counts=counts if len(counts) else said.counts)
        return self._lesson(self.verdict({0: said}, 1, asked, queries, prior, site, remarks), site)

    def verdict(
        self,
        said: Mapping[int, Said],
        everyone: int,
        asked: Array,
        queries: int,
        prior: Array | None,
        site: Site,
        remarks: list[str],
    ) -> Array:
        """What all say together: a label of every row that is asked about, UNANSWERED where there is none."""
        means = self.means(queries, site.classes, everyone, site.noise)
        if prior is None and self.estimates:
            counts, beliefs = ({p: getattr(each, key) for p, each in said.items()} for key in ("counts", "belief"))
            prior = self._mix(counts, beliefs, queries, everyone, site, remarks)
        weights = self._weights(said, everyone, means, site, remarks)
        if self.in_sums:
            basis = self._basis(asked, means, everyone, site.classes)
            in_basis = self.privacy.level == "L2"  # sums came from the parties
            words = {p: each.votes if in_basis else heard(each.votes, basis) for p, each in said.items()}
            total = np.asarray(sum(weights[p] * word for p, word in words.items()))
            if self.privacy.level == "L1":
                total = site.release(total, cast(GaussianSum, means.sums), observer="public")
            return self._read(basis @ total, prior)
        words = {p: weights[p] * each.votes for p, each in said.items()}
        if self.privacy.level == "L1":
            votes = np.asarray(sum(map(in_units, words.values())))
            return self._asked_in_turn(asked, votes, queries, everyone, means.labels, site)
        scores = self._together(words, remarks)
        there, labels = np.flatnonzero(scores.any(axis=1)), np.full(len(asked), UNANSWERED)
        if len(there):
            labels[there] = self._read(scores[there], prior)
        if self.privacy.level == "L0" and self.ask == "active":
            said_of, told = asked[there], np.eye(site.classes)[labels[there]]
            labels[there] = self._asked_in_turn(said_of, told, min(queries, len(there)), everyone, None, site)
        return labels

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if isinstance(request, Count | Say) and request.parties != silo.parties:
            raise LimbeckError(f"{silo.name} was asked on behalf of {request.parties} parties, not {silo.parties}")
        match request:
            case Count(queries, parties) if self.counts_first(silo.classes, parties):
                check_subsets(silo, self.subsets, self.privacy)
                counts = Counts(self._counted(silo, queries, parties))
                if self.privacy.level == "L2":
                    return silo.release(counts, PostProcessing(), observer="public")
                return silo.release(counts, Unprotected(), observer="server")
            case SayTowards(rows, queries, parties, basis, prior) if self.corrects:
                shares = np.asarray(prior, np.float64)
                if (
                    shares.shape != (silo.classes,)
                    or not (shares >= 0).all()
                    or not LEAST_SHARE < shares.sum() < math.inf
                ):
                    raise LimbeckError(f"{silo.name} was given a prior that is none: {prior.tolist()}")
                return self._answered(rows, queries, parties, shares / shares.sum(), basis, silo)
            case Say(rows, queries, parties) if not self.corrects and not isinstance(request, SayTowards):
                basis = request.basis if isinstance(request, SayIn) else NOBODY
                return self._answered(rows, queries, parties, None, basis, silo)
            case _:
                raise unanswerable(request, silo)

    def _answered(self, rows: int, queries: int, parties: int, prior: Array | None, basis: Array, silo: Silo) -> Said:
        if rows != (agreed := len(silo.public) if self.ask == "active" else queries):
            raise LimbeckError(f"{silo.name} was asked about {rows} public rows, not about {agreed} as agreed")
        return self.say(silo, silo.public.x[:rows], queries, parties, prior, basis)

    def say(
        self, silo: Silo, asked: Array, queries: int, parties: int, prior: Array | None, basis: Array = NOBODY
    ) -> Said:
        """What leaves a party: its teachers' mean vote, each thing that goes with it a release of its own."""
        self._check_basis(basis, asked, queries, parties, silo)
        believes = self.believes(silo.classes, parties)
        self._announce(silo, len(asked), queries, parties)
        votes, weights, belief = self._teachers_say(silo, asked, prior, believes)
        if self.privacy.level == "L2":
            wants_counts = self.wants_counts(silo.classes, parties)
            counts = self._counted(silo, queries, parties) if wants_counts else NOBODY
            noised = self._noised_votes(votes, weights, asked, basis, queries, parties, silo)
            return silo.release(Said(noised, 1.0, math.nan, counts), PostProcessing(), observer="public")
        shares = weights / weights.sum() if weights.any() else np.full(len(weights), 1 / len(weights))
        mean, counts, weight = np.einsum("t,trc->rc", shares, votes), NOBODY, 1.0
        if self.wants_counts(silo.classes, parties):
            counted = Counts(self._counted(silo, queries, parties))
            counts = silo.release(counted, Unprotected(), observer="server").values
        if self.wants_weight:
            weight = silo.release(Weight(float(weights.mean())), Unprotected(), observer="server").value
        if believes:
            belief = silo.release(Belief(belief), Unprotected(), observer="server").value
        told = Said(mean.astype(np.float16), weight, belief, counts)
        return silo.release(told, Unprotected(), observer="server", queries=len(asked))

    def _announce(self, silo: Silo, rows: int, queries: int, parties: int) -> None:
        """The ledger's rows of what will leave, before anything is trained."""
        if self.privacy.level == "L1":
            for what in self._unprotected(silo.classes, parties):
                silo.announce(Unprotected(), "server", what=what)
            silo.announce(Unprotected(), "server", rows, what=Said.__name__)
        if self.privacy.level == "L2":
            means, first = (
                self.means(queries, silo.classes, parties, silo.noise),
                self.counts_first(silo.classes, parties),
            )
            for what, noise, asked in self._noised(means, queries, silo.classes, self.subsets, silo.noise)[first:]:
                silo.announce(noise, "public", asked.queries, asked.voters, asked.abstentions, what)

    def _teachers_say(
        self, silo: Silo, asked: Array, prior: Array | None, believes: bool
    ) -> tuple[Array, Array, float]:
        """[teachers, rows, classes] votes, the weight of each teacher, and what all believe of the mix, if so.

        A teacher, its votes and its weight depend on its own subset alone.
        """
        x, y = silo.private.x, silo.private.y
        numbers = range(self.partitions)
        places = [rows for number in numbers for rows in cut(silo, self.subsets, self.privacy, number)]
        chances = silo.rng.integers(2**63, size=len(places)).tolist()
        helds = [
            rows[::HELD_OUT] if self.weights == "accuracy" and len(rows) > HELD_OUT else rows[:0] for rows in places
        ]
        jobs = []
        for rows, held, chance in zip(places, helds, chances, strict=True):
            more = x if believes else x[held]
            all_asked = np.concatenate([asked, more]) if len(more) else asked
            own, targets, recipe = corrected(silo, np.setdiff1d(rows, held), prior, chance)
            jobs.append(FitAndScore(silo.model, own, targets, all_asked, recipe))
        votes, weights, beliefs = [], [], []
        for rows, held, scores in zip(places, helds, silo.train(jobs), strict=True):
            said, rest = scores[: len(asked)], scores[len(asked) :]
            counts = np.bincount(y[rows], minlength=silo.classes)
            if believes:
                others = np.setdiff1d(np.arange(len(x)), rows)
                beliefs.append((rest[others, 1], y[others], said[:, 1]))
            votes.append(self._ballot(said, counts, prior))
            weights.append(self._weight(counts, rest[held] if believes else rest, y[held]))
        belief = label_shift(*map(np.concatenate, zip(*beliefs, strict=True))) if beliefs else math.nan
        return np.stack(votes), np.array(weights), belief

    def _ballot(self, scores: Array, counts: Array, prior: Array | None) -> Array:
        ballot = hard_ballot(scores) if self.voting.votes == "hard" else soft_ballot(scores)
        return ballot if prior is None or not counts.any() else soft_ballot(abstaining(ballot, counts, prior))

    def _weight(self, counts: Array, scores: Array, held: Array) -> float:
        match self.weights:
            case "accuracy":  # of few rows none are held out: such a teacher counts as chance would
                return float((scores.argmax(axis=1) == held).mean()) if len(held) else 1 / len(counts)
            case "rare-class":
                return rare_class_weight(counts, self.voting.cap)
        return 1.0

    def _counted(self, silo: Silo, queries: int, parties: int) -> Array:
        """Rows by class; at L2 released with noise, and public from then on."""
        counts = np.bincount(silo.private.y, minlength=silo.classes).astype(np.float64)
        if self.privacy.level != "L2":
            return counts
        mechanism = self.means(queries, silo.classes, parties, silo.noise).counts
        return silo.release(counts, cast(GaussianSum, mechanism), observer="public")

    def _noised_votes(
        self, votes: Array, weights: Array, asked: Array, basis: Array, queries: int, parties: int, silo: Silo
    ) -> Array:
        """At L2: the sum of all teachers' words, or the labels that each partition's teachers give, with noise."""
        means = self.means(queries, silo.classes, parties, silo.noise)
        if means.sums is not None:
            words = [weight * heard(each, basis) for each, weight in zip(votes, weights, strict=True)]
            return silo.release(np.asarray(sum(words)), means.sums, observer="public")
        answered = np.zeros((len(asked), silo.classes))
        for first in range(0, len(votes), self.subsets):
            part = range(first, first + self.subsets)
            counted = np.asarray(sum(in_units(weights[teacher] * votes[teacher]) for teacher in part))
            labels = self._asked_in_turn(asked, counted, queries, self.subsets, means.labels, silo)
            there = np.flatnonzero(labels != UNANSWERED)
            answered[there, labels[there]] += 1 / self.partitions
        return answered

    def _asked_in_turn(
        self, asked: Array, votes: Array, queries: int, voters: int, noisy_max: Any, site: Site
    ) -> Array:
        """Labels of the rows that are asked about: all at once, or in stages those that a model is least sure of."""
        labels, tried = np.full(len(asked), UNANSWERED), np.zeros(len(asked), bool)
        for count in self.stages(queries):
            chosen = self._least_sure(asked, labels, np.flatnonzero(~tried), count, site)
            tried[chosen] = True
            if noisy_max is None:
                labels[chosen] = winners(votes[chosen])
            else:  # a silent party abstains, and so does a teacher without rows
                labels[chosen] = site.release(
                    votes[chosen], noisy_max, observer="public", voters=voters, abstentions=True
                )
        return labels

    def _least_sure(self, asked: Array, labels: Array, left: Array, count: int, site: Site) -> Array:
        """Of the rows that are left, those of which a model of the answers is least sure; at first evenly from all."""
        known = labels != UNANSWERED
        if not known.any() or len(left) <= count:
            return np.asarray(left[np.linspace(0, len(left) - 1, min(count, len(left))).astype(int)])
        [model] = site.train([Fit(site.model, asked[known], labels[known])])
        sure = PackedModel(model).scores(asked[left]).max(axis=1)
        return np.asarray(left[np.argsort(sure, kind="stable")[:count]])

    def _together(self, words: Mapping[int, Array], remarks: list[str]) -> Array:
        stacked = np.stack(list(words.values()))
        if self.consensus in ("median", "trimmed"):
            return robust_mean(stacked, self.consensus, self.trimmed)
        if self.consensus == "filtered":
            agreed = winners(robust_mean(stacked, "median", self.trimmed))
            kept = agreeing(stacked.argmax(axis=2)[:, None], agreed)
            remarks += [
                f"party {party} agreed with the others too seldom and was left out"
                for party, stays in zip(words, kept, strict=True)
                if not stays
            ]
            stacked = stacked[kept]
        return np.asarray(stacked.sum(axis=0))

    def _read(self, scores: Array, prior: Array | None) -> Array:
        return winners(scores) if prior is None or not self.reads_prior else matched(scores, prior)

    def _lesson(self, labels: Array, site: Site) -> tuple[Array, Array]:
        """Public rows and labels to learn from: of those without an answer, too, where answers are spread."""
        found = np.full(len(site.public), UNANSWERED)
        found[: len(labels)] = labels
        there = found != UNANSWERED
        if not there.any():
            raise LimbeckError(f"{site.name}: no query passed the threshold; lower it, or ask about more rows")
        if self.voting.unanswered == "left-out" or there.all():
            return site.public.x[there], found[there]
        return site.public.x, spread_labels(site.public.x, found, there)

    def _weights(
        self, said: Mapping[int, Said], everyone: int, means: Means, site: Site, remarks: list[str]
    ) -> dict[int, Any]:
        """By party a number, or one for each class; none above 1."""
        own = {party: each.weight for party, each in said.items()}
        if self.privacy.level == "L0" and not any(own.values()):
            remarks.append(f'weights = "{self.weights}" leaves every party without a say: all weigh alike')
            own = dict.fromkeys(own, 1.0)
        if not self.weighs_classes:
            return own
        counts = np.zeros((everyone, site.classes))
        for party, each in said.items():
            counts[party] = each.counts
        if self.privacy.level == "L1":
            capped = np.clip(counts / self.voting.cap, 0.0, 1.0)
            counts = site.release(capped, cast(GaussianSum, means.counts), observer="public")
        shares = class_shares(contrasts(counts) if self.weights == "contrast" else counts)
        remarks += [
            f'party {party} has no say: by its class counts weights = "{self.weights}" gives it none'
            for party in said
            if not shares[party].any()
        ]
        return {party: own[party] * shares[party] / shares.max() for party in said}

    def _mix(
        self,
        counts: Mapping[int, Array],
        beliefs: Mapping[int, float],
        queries: int,
        everyone: int,
        site: Site,
        remarks: list[str],
    ) -> Array:
        """The classes' shares: of all counts; at L1 the noisy median of the parties' beliefs, or of their own mixes."""
        alike = np.full(site.classes, 1 / site.classes)
        if self.privacy.level != "L1":
            robust = self.consensus in ("median", "trimmed", "filtered")
            told = [plausible_counts(np.stack(list(counts.values())))] if robust else counts.values()
            total = np.maximum(sum(told, np.zeros(site.classes)), 0.0)
            return np.asarray(total / total.sum()) if total.sum() > 0 else alike
        mechanism = self.means(queries, site.classes, everyone, site.noise).median
        if mechanism is None:
            remarks.append(
                "classes were taken as alike: their mix is asked for where there are two, several teachers a party, "
                "and parties enough for this epsilon; voting.prior can say it"
            )
            return alike
        own = {p: held[1] / held.sum() if held.sum() else math.nan for p, held in counts.items() if len(held)}
        values = np.full(everyone, math.nan)
        for party, value in (own if self.corrects else beliefs).items():
            values[party] = value
        second = float(site.release(values, mechanism, observer="public")[0])
        return np.array([1 - second, second])

    @staticmethod
    def _counts_told(replies: Replies[Counts], classes: int) -> dict[int, Array]:
        """By party; who tells no finite counts has none."""
        told = {party: replies.by_party[party].values for party in sorted(replies.by_party)}
        right = {p: values.shape == (classes,) and np.isfinite(values).all() for p, values in told.items()}
        return {party: values if right[party] else np.zeros(classes) for party, values in told.items()}

    def _sound(
        self, replies: Replies[Said], rows: int, queries: int, classes: int, noise: Noise, remarks: list[str]
    ) -> dict[int, Said]:
        """Who said something of every row, in party order; the record names the others."""
        sums = self.in_sums and self.privacy.level == "L2"
        everyone = len(replies) + len(replies.missing)
        lines = self.number(self.means(queries, classes, everyone, noise), everyone, classes) if sums else rows
        counted = classes if self.wants_counts(classes, everyone) else 0
        found = {}
        for party in sorted(replies.by_party):
            said = replies.by_party[party]
            right = said.votes.shape == (lines, classes) and said.counts.shape == (counted,)
            if right and np.isfinite(said.votes).all() and np.isfinite(said.counts).all() and 0 <= said.weight <= 1:
                votes = np.asarray(said.votes, np.float64)
                if not sums:
                    votes = hard_ballot(votes) if self.whole else soft_ballot(votes)
                found[party] = replace(said, votes=votes, weight=said.weight if self.wants_weight else 1.0)
            else:
                remarks.append(f"party {party} said no finite vote for every row and was left out")
        if not found:
            raise LimbeckError("no party said a finite vote for every row")
        return found

    def _basis(self, asked: Array, means: Means, everyone: int, classes: int) -> Array:
        """Always of so many columns: where the rows have fewer directions, the last are empty."""
        number = self.number(means, everyone, classes)
        basis = (groups if self.ask == "groups" else directions)(asked, number)
        return np.pad(basis, ((0, 0), (0, number - basis.shape[1]))).astype(np.float32)

    def _shared_basis(self, asked: Array, queries: int, everyone: int, site: Site) -> Array:
        """What all parties speak in, where their own words have noise."""
        if not self.in_sums or self.privacy.level != "L2":
            return NOBODY
        return self._basis(asked, self.means(queries, site.classes, everyone, site.noise), everyone, site.classes)

    def _check_basis(self, basis: Array, asked: Array, queries: int, parties: int, silo: Silo) -> None:
        """Before anyone trains. A word has length 1 in whatever basis, as long as its length can be reckoned."""
        if not self.in_sums or self.privacy.level != "L2":
            return
        means = self.means(queries, silo.classes, parties, silo.noise)
        shape = (len(asked), self.number(means, parties, silo.classes))
        if basis.shape != shape or not (np.abs(basis) < 1.001).all():
            raise LimbeckError(f"{silo.name} was given a basis of shape {basis.shape}, not {shape} numbers up to 1")


def corrected(
    silo: Silo, rows: Array, prior: Array | None, chance: int, recipe: Recipe | None = None
) -> tuple[Array, Array, Recipe | None]:
    """Rows, targets and a recipe from which the silo's model learns as if classes had the prior's shares.

    A network's loss is weighed; other models see rows of rare classes several times.
    """
    x, y = silo.private.x, silo.private.y
    if prior is None or len(np.unique(y[rows])) < 2:
        return x[rows], y[rows], recipe
    if is_gradient_trained(silo.model):
        weights = class_weights(y[rows], prior)
        return x[rows], *weighed(silo.model, y[rows], weights, silo.classes, recipe)
    drawn = rows[drawn_to(y[rows], prior, chance)]
    return x[drawn], y[drawn], recipe
