"""FedKD: one shot, no weights (Gong et al. 2022, Algorithm 1).

Every party trains a model of its own to completion and tells once what it says of the public rows, which may be of
another domain. The server weighs the logits class by class (Equation 1), noises the sum (Equation 2) and distils it
into one central model by L1 on logits (Equation 7, tau = infinity); L2, or KL at a temperature, where told.

Other than printed: scores are clipped to a public `bound` instead of z_max, which is itself private; noise is drawn
once for each public row, where the authors' code draws it in every batch and averages it away. A class that no
answering party holds is weighed equally, where Equation 1 is 0/0. A central model that takes no gradient steps learns
the class with the largest sum. Several `views` are told of augmented rows, and the student learns those: each at least
once, otherwise in as many steps as of one.

What the printed noise is worth, its ledger says: with gamma 1, epsilon is in the millions, for one party may move every
score of every row. Sound in the same shot: `noise = "gaussian"` with an epsilon, or `transfer = "labels"`, where
parties vote and the server publishes noisy winners. Quantisation saves bytes and protects nobody. Towards the server
logits are bare, unless they are noised by the party.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from limbeck.algorithms.distil import answered, check_asked, check_queries, hand_out, number_of_queries
from limbeck.algorithms.poll import Poll, corrected
from limbeck.algorithms.questions import Count, Counts, Say
from limbeck.algorithms.study import ask, begin, settle
from limbeck.algorithms.voting import Voting
from limbeck.errors import LimbeckError
from limbeck.knowledge.quantise import (
    MOST_LEVELS,
    compressed_size,
    ends,
    entropy_bytes,
    nearest_levels,
    packed,
    quantised,
    scores_of,
    unpacked,
)
from limbeck.knowledge.scores import class_shares, fall_apart, labels_of, softmax
from limbeck.knowledge.votes import tally, winners
from limbeck.models.jobs import Fit, is_gradient_trained
from limbeck.models.views import views
from limbeck.privacy.accountants import check_delta
from limbeck.privacy.calibration import L0, Privacy, clipped_gaussian
from limbeck.privacy.events import Spend
from limbeck.privacy.mechanisms import LaplaceCounts, LaplaceLogits, PostProcessing, Unprotected
from limbeck.protocol.messages import Adopt, Reply, Request, check_shape
from limbeck.protocol.parties import Outcome, Parties, Replies, unanswerable
from limbeck.protocol.recipe import Loss, Recipe
from limbeck.protocol.release import Asked, Noise, Release, release_row
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.site import Silo, Site
from limbeck.tables import check_fields

NOBODY = np.empty(0)
LARGEST = 1e9  # of a number that makes noise, or bounds scores


@dataclass(frozen=True, slots=True)
class Told(Reply):
    """What a party's model says of the public rows: packed levels or labels, or scores [rows, classes] as they are.

    None of them where it has no finite scores. `counts` are its rows by class, where they are asked for.
    """

    packed: bytes
    bits: int
    least: int
    scores: Array
    counts: Array

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        check_shape(self.counts, [(classes,), (0,)])
        if self.scores.size:
            check_shape(self.scores, [(len(self.scores), classes)])
        rows = request.queries * request.views if isinstance(request, Tell) else public
        if not 0 <= self.bits <= 32 or 8 * len(self.packed) > (self.bits + 1) * (rows + 1) * max(classes, 1) + 64:
            raise LimbeckError(f"{len(self.packed)} bytes of levels of {self.bits} bits")


@dataclass(frozen=True, slots=True)
class Tell(Request[Told]):
    """Train your model, and say what it makes of the first `queries` public rows, in `views` that the seed gives."""

    queries: int
    views: int
    seed: int


@dataclass(frozen=True, slots=True)
class ModelsPoll(Poll):
    """A vote of the parties' own models, one each, trained to completion."""

    local: Recipe | None = None

    def __post_init__(self) -> None:
        Poll.__post_init__(self)
        if self.weights == "accuracy":
            raise LimbeckError('voting: a party\'s one model has no rows held out: weights = "rare-class" or "equal"')

    def _teachers_say(
        self, silo: Silo, asked: Array, prior: Array | None, believes: bool
    ) -> tuple[Array, Array, float]:
        y, chance = silo.private.y, int(silo.rng.integers(2**63))
        own, targets, recipe = corrected(silo, np.arange(len(y)), prior, chance, self.local)
        begin(silo, None)
        settle(silo, Rows(own, targets), recipe)
        counts = np.bincount(y, minlength=silo.classes)
        ballot = self._ballot(softmax(np.nan_to_num(ask(silo, asked))), counts, prior)
        return ballot[None], np.array([self._weight(counts, ballot, y[:0])]), math.nan


@dataclass(frozen=True, slots=True)
class FedKD:
    """Quantised and noised logits of completely trained models, weighed class by class, teach one central model."""

    name: ClassVar[str] = "fedkd"
    needs_public_rows: ClassVar[bool] = True
    needs_public_labels: ClassVar[bool] = False

    queries: int | float = 1.0  # number, or share of the public rows
    views: int = 1  # how often each is predicted, augmented where more than once
    local: Recipe | None = None  # of the parties' networks; their own where not given
    distil: Recipe = Recipe(epochs=200, batch=512)  # of the central network; its loss follows from the next two
    norm: Literal["l1", "l2"] = "l1"
    temperature: float | None = None  # of KL; none is infinity, where the norm between logits is left
    transfer: Literal["logits", "labels"] = "logits"
    scale: int | None = 200  # S; none quantises nothing
    bound: float = 10.0  # B, instead of z_max
    weights: Literal["class-share", "equal"] = "class-share"
    weights_release: Literal["exact", "noisy"] = "exact"
    weights_gamma: float = 1.0  # of noisy counts
    noise: Literal["laplace", "gaussian", "none"] = "laplace"
    noised_by: Literal["server", "party"] = "server"
    gamma: float = 1.0  # of laplace noise: its scale is 1/gamma
    sigma: float | None = None  # of gaussian noise
    epsilon: float | None = None  # what gaussian noise is calibrated to, where it has no sigma
    delta: float = 1e-5
    privacy: Privacy = L0  # of labels
    voting: Voting | Literal["paper"] = "paper"  # of labels

    def __post_init__(self) -> None:
        check_fields(self)
        check_queries(self.queries)
        check_delta(self.delta)
        for key in ("gamma", "weights_gamma", "bound", "temperature", "sigma", "epsilon"):
            if (value := getattr(self, key)) is not None and not 0 < value <= LARGEST:
                raise LimbeckError(f"{key} must be above 0 and at most {LARGEST:g}, not {value:g}")
        if self.views < 1:
            raise LimbeckError(f"views must be at least 1, not {self.views}")
        if self.scale is not None and not 1 <= self.scale <= MOST_LEVELS:
            raise LimbeckError(f"scale must be from 1 to {MOST_LEVELS}, not {self.scale}")
        self._check_noise()

    def _check_noise(self) -> None:
        if self.voting != "paper" and (self.transfer != "labels" or self.views > 1):
            raise LimbeckError('voting is for transfer = "labels" and views = 1')
        if self.voting != "paper" and self.privacy.level != "L2":
            assert self._poll
        if self.transfer == "labels" and self.privacy.level == "L2":
            raise LimbeckError("privacy: a party has one model and no teachers to noise; level L1, or fedkt for L2")
        if self.transfer == "labels" and (self.gamma != 1.0 or self.noised_by != "server"):
            raise LimbeckError('gamma and noised_by are for transfer = "logits"; the noise of labels is in privacy')
        if self.transfer == "logits" and self.privacy.level != "L0":
            raise LimbeckError('privacy is for transfer = "labels"; logits have noise, gamma, sigma and epsilon')
        gaussian = self.transfer == "logits" and self.noise == "gaussian"
        if gaussian and (self.sigma is None) == (self.epsilon is None):
            raise LimbeckError('noise = "gaussian" needs one of sigma and epsilon')
        if not gaussian and (self.sigma is not None or self.epsilon is not None):
            raise LimbeckError('sigma and epsilon are for noise = "gaussian"; laplace has gamma, labels have privacy')
        if not self._wants_counts and self._counts_are_noisy:
            raise LimbeckError('weights_release = "noisy" is for weights = "class-share" of logits')

    @property
    def _poll(self) -> "ModelsPoll | None":
        """The vote for labels, where it is other than by count."""
        return None if self.voting == "paper" else ModelsPoll(self.voting, self.privacy, 1, 1, local=self.local)

    @property
    def left_to_chance(self) -> float:
        """The delta of what is noised; 0 where nothing is."""
        if self.transfer == "labels":
            return self.privacy.left_to_chance
        return self.delta if self.noise != "none" or self._counts_are_noisy else 0.0

    def lead(self, parties: Parties, site: Site) -> Outcome:
        queries, seed = number_of_queries(self.queries, len(site.public)), int(site.rng.integers(2**31))
        if self._poll:
            return self._by_vote(self._poll, queries, parties, site)
        rows, remarks = np.concatenate(list(views(site.public.x[:queries], self.views, seed))), list[str]()
        replies = parties.ask(Tell(queries, self.views, seed)).at_least(1)
        levels = self._levels(replies, len(rows), site.classes, remarks)
        if self.transfer == "labels":
            targets = self._winners(levels, len(replies) + len(replies.missing), site)
            rows, targets = answered(rows, targets, site)
        else:
            targets = self._ensemble(levels, replies, site, remarks)
        [final] = site.train([self._lesson(rows, targets, site)])
        if self._result_is_bare:
            parties.ask(site.release(Adopt(final), Unprotected(), observer="parties"))
        else:
            parties.ask(site.release(Adopt(final), PostProcessing(), observer="public"))
        return Outcome(final, tuple(remarks), self._sizes(replies, levels, site.classes))

    def _by_vote(self, poll: "ModelsPoll", queries: int, parties: Parties, site: Site) -> Outcome:
        remarks: list[str] = []
        rows, labels = poll.take(parties, site, queries, remarks)
        [final] = site.train([self._lesson(rows, labels, site)])
        return replace(hand_out(final, self.privacy, parties, site), remarks=tuple(remarks))

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case Count(queries) | Say(_, queries) if self._poll:
                check_asked(queries, self.queries, silo)
                return self._poll.answer(request, silo)
            case Tell(queries, self.views, seed):
                check_asked(queries, self.queries, silo)
                if not 0 <= seed < 2**31:
                    raise LimbeckError(f"views are made of a seed from 0 to {2**31 - 1}, not {seed}")
                self._announce(silo, self.views * queries)
                begin(silo, None)
                settle(silo, silo.private, self.local)
                seen = views(silo.public.x[:queries], self.views, seed)
                logits = np.concatenate([ask(silo, view) for view in seen])
                if not is_gradient_trained(silo.model):  # logarithms of probabilities are all below 0
                    logits -= logits.mean(axis=1, keepdims=True)
                return self._told(logits, silo)
            case Adopt(model):
                return silo.adopt(model)
            case _:
                raise unanswerable(request, silo)

    def planned(self, public: int, classes: int, rows: Sequence[int], noise: Noise) -> list[Release]:
        """What a run will release: its noise is calibrated and its budget checked before anyone trains."""
        queries, everyone = self.views * number_of_queries(self.queries, public), range(len(rows))
        if self._poll:
            asked_about = public if self._poll.ask == "active" else queries
            return self._poll.planned(asked_about, queries, classes, len(rows), noise)
        asked, one = Asked(queries, classes, noise=noise), Asked(1, classes, noise=noise)
        told: list[Release] = []
        if self._wants_counts and self._counts_are_noisy:
            noisy = LaplaceCounts(self.weights_gamma)
            told += [release_row(f"party {party}", 0, 0, "counts", noisy, "public", one) for party in everyone]
        elif self._wants_counts:
            told += [release_row(f"party {party}", 0, 0, "Counts", Unprotected(), "server", one) for party in everyone]
        if self._noised_at("party"):
            noise_here = self._noise_on_scores(1.0, asked)
            told += [release_row(f"party {party}", 0, 1, "scores", noise_here, "public", asked) for party in everyone]
        else:
            told += [release_row(f"party {party}", 0, 1, "Told", Unprotected(), "server", asked) for party in everyone]
        if self._noised_at("server"):
            noise_there = self._noise_on_scores(self._share(len(rows)), asked)
            told.append(release_row("server", 1, 0, "scores", noise_there, "public", asked))
        if self.transfer == "labels" and self.privacy.level == "L1":
            voted = replace(asked, voters=len(rows), abstentions=True)
            noisy_max = self.privacy.noisy_max("party", 1, voted)
            told.append(release_row("server", 1, 0, "labels", noisy_max, "public", voted))
        if self._result_is_bare:
            told.append(release_row("server", 1, 1, "Adopt", Unprotected(), "parties", Asked()))
        return told

    def _announce(self, silo: Silo, queries: int) -> None:
        """The ledger's rows of what will leave, before anything is trained."""
        if not silo.private_level:
            return
        if self._wants_counts and self._counts_are_noisy:
            silo.announce(LaplaceCounts(self.weights_gamma), "public")
        elif self._wants_counts:
            silo.announce(Unprotected(), "server", what=Counts.__name__)
        if self._noised_at("party"):
            asked = Asked(queries, silo.classes, noise=silo.noise)
            silo.announce(self._noise_on_scores(1.0, asked), "public", queries)
        else:
            silo.announce(Unprotected(), "server", queries, what=Told.__name__)

    def _told(self, logits: Array, silo: Silo) -> Reply:
        """What leaves a party: labels, levels or scores, and its counts where they are asked for."""
        if silo.private_level:  # a party without finite scores must not differ from others
            logits = np.nan_to_num(logits, nan=0.0, posinf=self.bound, neginf=-self.bound)
        counts = self._counted(silo)
        if self._noised_at("party"):
            shown = replace(self._noised_here(logits, silo), counts=counts)
            bare = self._wants_counts and not self._counts_are_noisy  # which only the server was told
            return silo.release(shown, PostProcessing(), observer="server" if bare else "public")
        if not np.isfinite(logits).all():
            shown = Told(b"", 0, 0, NOBODY, counts)
        elif self.transfer == "labels":
            shown = Told(*packed(logits.argmax(axis=1)[:, None]), NOBODY, counts)
        elif self.scale is None:
            shown = Told(b"", 0, 0, np.clip(logits, -self.bound, self.bound).astype(np.float32), counts)
        else:
            shown = Told(*packed(quantised(logits, self.bound, self.scale)), NOBODY, counts)
        return silo.release(shown, Unprotected(), observer="server", queries=len(logits))

    def _noised_here(self, logits: Array, silo: Silo) -> Told:
        """Quantised, noised, and put on the levels' grid again."""
        asked = Asked(len(logits), silo.classes, noise=silo.noise)
        mechanism = self._noise_on_scores(1.0, asked)
        if self.scale is None:
            noisy = silo.release(np.asarray(logits, np.float64), mechanism, observer="public")
            return Told(b"", 0, 0, noisy.astype(np.float32), NOBODY)
        printed = scores_of(quantised(logits, self.bound, self.scale), self.bound, self.scale)
        noisy = silo.release(printed, mechanism, observer="public")
        return Told(*packed(nearest_levels(noisy, self.bound, self.scale)), NOBODY, NOBODY)

    def _counted(self, silo: Silo) -> Array:
        """A party's rows by class, where they are asked for: a release with a row of its own."""
        if not self._wants_counts:
            return NOBODY
        counts = np.bincount(silo.private.y, minlength=silo.classes)
        if self._counts_are_noisy:
            noisy = silo.release(counts[None], LaplaceCounts(self.weights_gamma), observer="public")
            return np.asarray(noisy[0], np.float64)
        return silo.release(Counts(counts.astype(np.float64)), Unprotected(), observer="server").values

    def _levels(self, replies: Replies[Told], rows: int, classes: int, remarks: list[str]) -> dict[int, Array]:
        """Levels, labels or scores by party, without those that are none; the record says whose."""
        found = {}
        for party in sorted(replies.by_party):
            try:
                found[party] = self._read(replies.by_party[party], rows, classes)
            except LimbeckError:
                remarks.append(f"party {party} gave no score within the bound for every row and was left out")
        if not found:
            raise LimbeckError("no party gave a score within the bound for every row")
        return found

    def _read(self, told: Told, rows: int, classes: int) -> Array:
        columns = 1 if self.transfer == "labels" else classes
        if told.packed:
            said = unpacked(told.packed, told.bits, told.least, rows, columns)
        elif told.scores.shape != (rows, columns) or not np.isfinite(told.scores).all():
            raise LimbeckError("scores that are none")
        else:
            said = told.scores
        lowest, highest = self._range(classes)
        if not ((said >= lowest) & (said <= highest)).all():
            raise LimbeckError("scores such as nobody says")
        return said

    def _range(self, classes: int) -> tuple[float, float]:
        """What a party may say: classes, levels, or scores; beyond the bound only where it has noised them."""
        if self.transfer == "labels":
            return 0, classes - 1
        if self._noised_at("party"):
            return -math.inf, math.inf
        return (-self.bound, self.bound) if self.scale is None else ends(self.scale)

    def _ensemble(self, levels: dict[int, Array], replies: Replies[Told], site: Site, remarks: list[str]) -> Array:
        """Equation 2: the weighed sum of what parties say, with noise where the server adds it.

        How much noise there is must not depend on who has finite scores, which is private: equal weights then are those
        of all who were asked, and the sum is stretched by how many answered, which is not.
        """
        everyone, noised = len(replies) + len(replies.missing), self._noised_at("server")
        if self._wants_counts:
            counts = np.stack([self._counts_in(replies.by_party[p], site.classes) for p in levels])
            shares = class_shares(counts)
            if self._result_is_bare and fall_apart(counts):
                remarks.append(
                    "no party holds rows of both of two groups of classes, so that their logits do not compare; "
                    'transfer = "labels" may do better'
                )
        else:
            shares = np.full((len(levels), 1), 1 / (everyone if noised else len(levels)))
        total = np.zeros(next(iter(levels.values())).shape)
        for share, said in zip(shares, levels.values(), strict=True):
            total += share * (said if self.scale is None else scores_of(said, self.bound, self.scale))
        if noised:
            mechanism = self._noise_on_scores(self._share(everyone), Asked(len(total), site.classes, noise=site.noise))
            total = site.release(total, mechanism, observer="public")
            total = total if self._wants_counts else total * (everyone / len(replies))
        return total.astype(np.float32)

    @staticmethod
    def _counts_in(told: Told, classes: int) -> Array:
        return told.counts if told.counts.shape == (classes,) else np.zeros(classes)

    def _winners(self, labels: dict[int, Array], parties: int, site: Site) -> Array:
        """The class with most votes, each party having one; noised at level L1."""
        votes = tally(np.stack([said[:, 0] for said in labels.values()]), site.classes)
        if self.privacy.level == "L0":
            return winners(votes)
        asked = Asked(len(votes), site.classes, parties, True, site.noise)
        noisy_max = self.privacy.noisy_max("party", 1, asked)
        return site.release(votes, noisy_max, observer="public", voters=parties, abstentions=True)

    def _lesson(self, rows: Array, targets: Array, site: Site) -> Fit:
        """What the central model learns, and how."""
        if not is_gradient_trained(site.model):
            return Fit(site.model, rows, labels_of(targets))
        recipe = self.distil
        if self.views > 1:
            recipe = replace(recipe, epochs=max(1, round(recipe.epochs / self.views)), augmentation="none")
        if self.transfer == "labels":
            return Fit(site.model, rows, targets, replace(recipe, loss="cross-entropy"))
        if self.temperature is not None:
            return Fit(site.model, rows, targets, replace(recipe, loss="kl", temperature=self.temperature))
        losses: dict[str, Loss] = {"l1": "mae", "l2": "mse"}
        return Fit(site.model, rows, targets, replace(recipe, loss=losses[self.norm]))

    def _sizes(self, replies: Replies[Told], levels: dict[int, Array], classes: int) -> dict[str, float]:
        """Bytes of scores as they were sent, the floor of what was sent, and what the paper counts.

        Where parties send without noise what the server noises, the first two would tell of it.
        """
        told, sizes = [replies.by_party[party] for party in levels], dict[str, float]()
        if self._noised_at("party") or not self.left_to_chance:
            sizes["sent"] = float(sum(compressed_size(each.packed or each.scores.tobytes()) for each in told))
            if all(each.packed for each in told):
                sizes["entropy"] = sum(map(entropy_bytes, levels.values()))
        sizes["float64"] = 8.0 * classes * sum(len(each) for each in levels.values())
        return {f"{name}_bytes": size for name, size in sizes.items()}

    @property
    def _wants_counts(self) -> bool:
        """Whether parties tell how many rows of each class they hold."""
        return self.transfer == "logits" and self.weights == "class-share"

    @property
    def _counts_are_noisy(self) -> bool:
        return self.weights_release == "noisy"

    def _noised_at(self, where: str) -> bool:
        return self.transfer == "logits" and self.noise != "none" and self.noised_by == where

    @property
    def _result_is_bare(self) -> bool:
        """Whether the central model is made of anything that was not noised before, or covered by the noise."""
        if self.transfer == "labels":
            return self.privacy.level == "L0"
        exact_weights = self._wants_counts and not self._counts_are_noisy
        return self.noise == "none" or (self.noised_by == "party" and exact_weights)

    def _share(self, parties: int) -> float:
        """How much of the sum one party may move: with weights that depend on private counts, all of it."""
        return 1.0 if self._wants_counts else 1 / parties

    def _noise_on_scores(self, share: float, asked: Asked) -> Any:
        """Whatever a party is replaced by, its scores stay within reach: that of Q, a level more where S is odd."""
        reach = self.bound * (1 + 1 / self.scale) if self.scale and self.scale % 2 else self.bound
        if self.noise == "laplace":
            return LaplaceLogits(reach, self.gamma, asked.classes, "party", "replace", share)
        counted = (Spend(LaplaceCounts(self.weights_gamma), 1, noise=asked.noise),) if self._counts_are_noisy else ()
        found = clipped_gaussian(reach * share, self.sigma, self.epsilon, self.delta, asked, counted)
        return replace(found, bound=reach, unit="party", adjacency="replace", share=share)
