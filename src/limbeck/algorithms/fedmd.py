"""FedMD (Li & Wang 2019, Algorithm 1), and FedMD-NP, -NFDP and -LDP (Sun & Lyu 2021, Algorithm 1).

Everyone designs a model of its own. Rounds: all score some public rows, the server averages, all digest the consensus
and revisit their own rows. Logits are exchanged before the softmax, and their mean absolute error is digested, without
a temperature. How models of other kinds than networks take part says `study`.

-NP is FedMD as Sun & Lyu train it. -NFDP learns from one random subset of the private rows, drawn once. -LDP noises the
clipped scores, calibrated over all rounds and rows before the first of them leaves.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np

from limbeck.algorithms.pooled import Pooled
from limbeck.algorithms.study import ask, begin, digest, revisit, settle
from limbeck.errors import LimbeckError
from limbeck.knowledge.robust import Rule, check_trimmed, robust_mean
from limbeck.knowledge.scores import Exchange, consensus, shown
from limbeck.models.jobs import InitialWeights, Refit
from limbeck.privacy.calibration import clipped_gaussian
from limbeck.privacy.events import check_rows_per_person
from limbeck.privacy.mechanisms import ClippedGaussian, PostProcessing, Subsample, Unprotected
from limbeck.protocol.messages import Done, Reply, Request, check_shape, check_share
from limbeck.protocol.parties import Outcome, Parties, Replies, unanswerable
from limbeck.protocol.recipe import Loss, Recipe
from limbeck.protocol.release import Asked, Noise, Release, release_row
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.site import Silo, Site
from limbeck.tables import check_fields

LOSSES: Mapping[str, Loss] = {"logits": "mae", "softmax": "soft-cross-entropy", "argmax": "cross-entropy"}
HELD_OUT = 0.2  # of a party's rows, to measure accuracy on
DEFAULT_EPSILON = 100.0
STARTED, HELD, SUBSET, SCORED = "fedmd.started", "fedmd.held-out", "fedmd.subset", "fedmd.scored"


@dataclass(frozen=True, slots=True)
class Scores(Reply):
    """What a party's model says of the rows: scores [rows, classes], or labels."""

    values: Array

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        rows = len(request.rows) if isinstance(request, Score) else public
        check_shape(self.values, [(rows, classes), (rows,)])
        if self.values.ndim == 1 and not ((self.values >= 0) & (self.values <= classes)).all():
            raise LimbeckError(f"labels other than 0 to {classes - 1}, and {classes} for none")


@dataclass(frozen=True, slots=True)
class Accuracy(Reply):
    """How often a party's model is right on rows of its own that it did not learn from."""

    value: float

    def check(self, request: Request[Any], public: int, classes: int) -> None:
        check_share(self.value)


@dataclass(frozen=True, slots=True)
class Begin(Request[Done]):
    """Train your model on public and private rows; from the weights of a network that knows public rows, if given."""

    weights: bytes


@dataclass(frozen=True, slots=True)
class Measure(Request[Accuracy]):
    """How good is your model?"""


@dataclass(frozen=True, slots=True)
class Score(Request[Scores]):
    """Communicate: what does your model say of these public rows?"""

    public: ClassVar[bool] = True
    rows: Array


@dataclass(frozen=True, slots=True)
class Learn(Request[Done]):
    """Digest what all agreed on about these public rows, then revisit your own."""

    rows: Array
    agreed: Array


@dataclass(frozen=True, slots=True)
class Revisit(Request[Done]):
    """Revisit your own rows: what a round would be without messages."""


@dataclass(frozen=True, slots=True)
class FedMD:
    """Models of any design agree on public rows. A party that was silent goes on from where it is."""

    name: ClassVar[str] = "fedmd"
    needs_public_rows: ClassVar[bool] = True

    rounds: int = 20  # P
    alignment: int = 5000  # |d_j|, public rows a round
    exchange: Exchange | Literal["none"] = "logits"
    weights: Literal["equal", "accuracy"] | list[float] = "equal"  # c_k
    consensus: Rule = "mean"  # median and trimmed withstand liars
    trimmed: float = 0.2  # share of parties left out at either end
    start: Literal["public", "pretrained", "none"] = "public"
    pretrain: Recipe = Recipe(epochs=20, batch=128, patience=3)  # on labelled public rows
    settle: Recipe = Recipe(epochs=25, batch=32)  # on private rows, at the start
    digest: Recipe = Recipe(epochs=1, batch=256)  # its loss is that of the exchange
    revisit: Recipe = Recipe(epochs=2, batch=5)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.rounds < 0:
            raise LimbeckError(f"rounds must be at least 0, not {self.rounds}")
        if self.alignment < 1:
            raise LimbeckError(f"alignment must be at least 1 row, not {self.alignment}")
        if isinstance(self.weights, list) and not (min(self.weights, default=0) >= 0 < sum(self.weights) < math.inf):
            raise LimbeckError(f"weights must be finite, not negative, and not all be 0: {self.weights}")
        check_trimmed(self.trimmed)
        if self.consensus != "mean" and self.weights != "equal":
            raise LimbeckError(f'consensus = "{self.consensus}" knows no weights: say weights = "equal"')
        if self.consensus != "mean" and self.exchange == "argmax":
            raise LimbeckError(f'consensus = "{self.consensus}" is of scores: exchange = "logits" or "softmax"')

    @property
    def needs_public_labels(self) -> bool:
        return self.start != "none"

    @property
    def one_network(self) -> bool:
        return self.start == "pretrained"

    def lead(self, parties: Parties, site: Site) -> Outcome:
        begun = parties.ask(self._begin(site)).at_least(1)
        weights, remarks = self._weights(parties, begun), list[str]()
        for number in range(self.rounds):
            if self.exchange == "none":
                parties.ask(Revisit()).at_least(1)
                continue
            rows = aligned(site, self.alignment)
            said = usable(
                parties.ask(Score(rows)).at_least(1), self.exchange, (len(rows), site.classes), number, remarks
            )
            shares = [weights[p] for p in said] if any(weights[p] for p in said) else [1.0] * len(said)
            if self.consensus == "mean":
                agreed = consensus(list(said.values()), shares, self.exchange, site.classes)
            else:
                agreed = robust_mean(np.stack(list(said.values())), self.consensus, self.trimmed).astype(np.float32)
            parties.ask(site.release(Learn(rows, agreed), self._agreed_is(), observer="parties")).at_least(1)
        return Outcome(remarks=tuple(remarks))

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        self._check(request, silo)
        own = self._own(silo)
        if isinstance(request, Begin) or STARTED not in silo.memory:
            given = request.weights if isinstance(request, Begin) else b""
            scores = range(1, 2 * self.rounds, 2) if isinstance(request, Begin) else range(isinstance(request, Score))
            self._announce_rounds(silo, scores)
            begin(silo, self.pretrain if self.start != "none" else None, given)
            settle(silo, own, self.settle)
            silo.memory[STARTED] = b"1"
        match request:
            case Begin():
                return Done()
            case Measure():
                measured: Reply = silo.release(Accuracy(self._accuracy(silo)), self._told_is(), observer="server")
                return measured
            case Score(rows):
                silo.memory[SCORED] = np.array([_scored(silo) + 1])
                self._announce_rounds(silo, range(1))
                return self._show(ask(silo, silo.public.x[rows]), silo)
            case Learn(rows, agreed):
                loss = LOSSES[self.exchange]
                return digest(silo, own, rows, agreed, self.digest, loss, self.revisit)
            case Revisit():
                return revisit(silo, own, self.revisit)
            case _:
                raise unanswerable(request, silo)

    def _check(self, request: Request[Any], silo: Silo) -> None:
        """Refuse what was not agreed on, by public facts alone and before a private row is touched."""
        if isinstance(request, Begin) and bool(request.weights) != self.one_network:
            raise LimbeckError('weights come with the first request exactly where start = "pretrained"')
        never = {Measure: self.weights != "accuracy", Revisit: self._exchanges, Score: not self._exchanges}
        if never.get(type(request), False):
            raise unanswerable(request, silo)
        if isinstance(request, Score | Learn):
            _check_rows(request.rows, min(self.alignment, len(silo.public)), len(silo.public))
        if isinstance(request, Score) and _scored(silo) >= self.rounds:
            raise LimbeckError(f"scores are asked for in {self.rounds} rounds, not more")
        if isinstance(request, Learn):
            self._check_consensus(request, silo.classes)

    def _check_consensus(self, request: Learn, classes: int) -> None:
        agreed, labels = request.agreed, self.exchange == "argmax"
        check_shape(agreed, [(len(request.rows),) if labels else (len(request.rows), classes)])
        kinds = "iu" if labels else "iuf"
        if agreed.dtype.kind not in kinds or not np.isfinite(agreed).all():
            raise LimbeckError("a consensus that is not of finite numbers")
        if labels and not ((agreed >= 0) & (agreed < classes)).all():
            raise LimbeckError(f"a consensus of other labels than 0 to {classes - 1}")

    def planned(self, public: int, classes: int, rows: Sequence[int], noise: Noise) -> list[Release]:
        """What a run will release: all of it bare."""
        self._check_weights(len(rows))
        if not self._speaks:
            return []
        messages = ["Scores", *(["Accuracy"] if self.weights == "accuracy" else [])]
        told = [
            release_row(f"party {party}", 0, 0, what, Unprotected(), "server", Asked())
            for party in range(len(rows))
            for what in messages
        ]
        return [*told, release_row("server", 0, 0, "Learn", Unprotected(), "parties", Asked())]

    @property
    def _exchanges(self) -> bool:
        return self.exchange != "none"

    @property
    def _speaks(self) -> bool:
        """Whether any message is exchanged at all."""
        return self._exchanges and self.rounds > 0

    def _check_weights(self, parties: int) -> None:
        if isinstance(self.weights, list) and len(self.weights) != parties:
            raise LimbeckError(f"algorithm.weights has {len(self.weights)} entries for {parties} parties")

    def upper_bound(self) -> Pooled:
        """What the same models would be if all private rows were everybody's."""
        if self.start == "pretrained":
            raise LimbeckError('bounds = true: there is none for start = "pretrained"; say "public" or "none"')
        return Pooled(self.start, self.pretrain, self.settle)

    def _begin(self, site: Site) -> Request[Done]:
        weights = b""
        if self.start == "pretrained":
            assert site.public.y is not None
            model = cast(Any, site.model)
            [first] = site.train([InitialWeights(model, site.public.x.shape[1:])])
            [weights] = site.train([Refit(model, site.public.x, site.public.y, first, self.pretrain)])
        return site.release(Begin(weights), PostProcessing(), observer="parties")

    def _weights(self, parties: Parties, begun: Replies[Done]) -> Mapping[int, float]:
        """By party: equal, given, or the square of its accuracy; who did not tell counts as the others on average."""
        everyone = sorted([*begun.by_party, *begun.missing])
        self._check_weights(len(everyone))
        if isinstance(self.weights, list):
            return dict(zip(everyone, self.weights, strict=True))
        if self.weights == "equal" or not self._speaks:
            return dict.fromkeys(everyone, 1.0)
        told = {p: reply.value for p, reply in parties.ask(Measure()).by_party.items() if 0 <= reply.value <= 1}
        fallback = float(np.mean(list(told.values()))) if told else 1.0
        return {party: told.get(party, fallback) ** 2 for party in everyone}

    def _own(self, silo: Silo) -> Rows:
        """The private rows to learn from: all that may be touched, but for those held out to measure accuracy on."""
        rows = self._touched(silo)
        if self.weights != "accuracy":
            return _picked(silo, rows)
        if HELD not in silo.memory:
            every = np.unique(rows)  # a row that was drawn twice is held out twice
            silo.memory[HELD] = silo.rng.permutation(every)[: max(1, round(HELD_OUT * len(every)))]
        left = rows[~np.isin(rows, cast(Array, silo.memory[HELD]))]
        return _picked(silo, left if len(left) else rows)  # who has but one row learns from it and is measured on it

    def _accuracy(self, silo: Silo) -> float:
        rows = _picked(silo, cast(Array, silo.memory[HELD]))
        if not len(rows):  # whose places of a subset are all empty counts as chance would
            return 1 / silo.classes
        return float((ask(silo, rows.x).argmax(axis=1) == rows.y).mean())

    def _touched(self, silo: Silo) -> Array:
        """Numbers of the private rows that anything is ever learned from."""
        return np.arange(len(silo.private))

    def _announce_rounds(self, silo: Silo, ahead: range) -> None:
        """Where scores are noised: the rows of the ledger, so many requests ahead, before anything is trained."""

    def _show(self, logits: Array, silo: Silo) -> Reply:
        values = shown(logits, cast(Exchange, self.exchange))
        told: Reply = silo.release(Scores(values), self._told_is(), observer="server", queries=len(values))
        return told

    def _told_is(self) -> Any:
        """How what a party tells is protected."""
        return Unprotected()

    def _agreed_is(self) -> Any:
        """How the consensus is protected towards the other parties."""
        return self._told_is()


@dataclass(frozen=True, slots=True)
class FedMDNP(FedMD):
    """FedMD as its private kin are compared with: another schedule, and no privacy."""

    name: ClassVar[str] = "fedmd-np"

    settle: Recipe = Recipe(epochs=20, batch=32)  # T1
    digest: Recipe = Recipe(epochs=2, batch=256)  # T2
    revisit: Recipe = Recipe(epochs=1, batch=5)  # T3


@dataclass(frozen=True, slots=True)
class FedMDNFDP(FedMDNP):
    """Noise-free: one random subset of its rows is all that a party ever touches; `Subsample` says what it is worth."""

    name: ClassVar[str] = "fedmd-nfdp"
    samples: ClassVar[bool] = True

    sampled: int | float = 60  # k: a number of rows, or a share of a party's rows
    replacement: bool = True
    population: int | None = None  # fewest rows of any party, known to all: a real run's figures are computed with it
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        FedMDNP.__post_init__(self)
        if not self.sampled > 0 or (isinstance(self.sampled, float) and self.sampled > 1):
            raise LimbeckError(f"sampled must be a number of rows from 1, or a share up to 1.0, not {self.sampled}")
        check_rows_per_person(self.rows_per_person)
        if self.population is not None and self.population < max(1, 0 if self.replacement else self.sampled):
            raise LimbeckError(f"population = {self.population}, of which {self.sampled} rows cannot be drawn")

    def planned(self, public: int, classes: int, rows: Sequence[int], noise: Noise) -> list[Release]:
        self._check_weights(len(rows))
        self._check_population(noise)
        asked = Asked(noise=noise)
        return [
            release_row(f"party {party}", 0, 0, "rows", self._subset(count), "public", asked)
            for party, count in enumerate(rows)
        ]

    def _check(self, request: Request[Any], silo: Silo) -> None:
        self._check_population(silo.noise)
        FedMDNP._check(self, request, silo)

    def _check_population(self, noise: Noise) -> None:
        """How many rows a party has is private: a real run's figures rest on a number that everybody knows."""
        if noise == "secure" and self.population is None:
            raise LimbeckError(
                "fedmd-nfdp needs algorithm.population, the fewest rows that any party has: delta is computed with it, "
                'and row counts are private (or noise = "simulated")'
            )

    def _touched(self, silo: Silo) -> Array:
        """Places are drawn, as many as `population` at least: those beyond the party's rows are empty."""
        if SUBSET not in silo.memory:
            count = len(silo.private)
            subset = self._subset(count)
            drawn = silo.release(np.arange(max(count, subset.of)), subset, observer="public")
            silo.memory[SUBSET] = np.sort(drawn[drawn < count])
        return cast(Array, silo.memory[SUBSET])

    def _subset(self, count: int) -> Subsample:
        """A share's number of rows follows that of all, so that the theorems do not cover a row more or less."""
        of = count if self.population is None else self.population
        if isinstance(self.sampled, float):
            return Subsample(max(1, round(self.sampled * of)), of, self.replacement, adjacency="replace")
        return Subsample(self.sampled, of if self.replacement else max(of, self.sampled), self.replacement)

    def _told_is(self) -> Any:
        return PostProcessing()


@dataclass(frozen=True, slots=True)
class FedMDLDP(FedMDNP):
    """Gaussian noise on clipped scores, in the party: calibrated to `epsilon`, or of the scale `sigma` where given.

    With sigma = 0 nothing is clipped or noised: that is FedMD-NP. Probabilities need no bound. A score that is no
    number becomes 0 before it is noised, for saying so would tell something of the rows.
    """

    name: ClassVar[str] = "fedmd-ldp"

    bound: float = 10.0  # logits are clipped to [-bound, bound]
    sigma: float | None = None
    epsilon: float | None = None  # 100 where neither is given
    delta: float = 1e-5
    rows_per_person: int = 1  # changes nothing: one row may already move every score as far as the bound allows

    def __post_init__(self) -> None:
        FedMDNP.__post_init__(self)
        check_rows_per_person(self.rows_per_person)
        if self.exchange == "argmax" or self.weights == "accuracy":
            raise LimbeckError('fedmd-ldp noises scores: exchange = "logits" or "softmax", weights equal or a list')
        if self.sigma is not None and self.epsilon is not None:
            raise LimbeckError("fedmd-ldp takes sigma or epsilon, not both")
        if self.sigma is not None and not 0 <= self.sigma < math.inf:
            raise LimbeckError(f"sigma must be at least 0 and finite, not {self.sigma}")
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise LimbeckError(f"epsilon must be above 0 and finite, not {self.epsilon}")
        if not self.is_bare and not 0 < self.delta < 1:
            raise LimbeckError(f"delta must be between 0 and 1, not {self.delta}")
        if not self.is_bare and not 0 < self.bound < math.inf:
            raise LimbeckError(f"bound must be above 0 and finite, not {self.bound}")

    def planned(self, public: int, classes: int, rows: Sequence[int], noise: Noise) -> list[Release]:
        if self.is_bare:
            return FedMDNP.planned(self, public, classes, rows, noise)
        self._check_weights(len(rows))
        if not self._speaks:
            return []
        mechanism = self._mechanism(public, classes, noise)
        asked = Asked(min(self.alignment, public), classes, noise=noise)
        return [
            release_row(f"party {party}", turn, 0, "scores", mechanism, "public", asked)
            for party in range(len(rows))
            for turn in range(self.rounds)
        ]

    def _announce_rounds(self, silo: Silo, ahead: range) -> None:
        if self.is_bare or not self._speaks:
            return
        mechanism = self._mechanism(len(silo.public), silo.classes, silo.noise)
        queries = min(self.alignment, len(silo.public))
        for requests in ahead:
            silo.announce(mechanism, "public", queries, turn=silo.turn + requests)

    def _show(self, logits: Array, silo: Silo) -> Reply:
        if self.is_bare:
            return FedMDNP._show(self, logits, silo)
        values = shown(logits, cast(Exchange, self.exchange)).astype(np.float64)
        mechanism = self._mechanism(len(silo.public), silo.classes, silo.noise)
        noised = silo.release(values - self._middle, mechanism, observer="public") + self._middle
        return silo.release(Scores(noised.astype(np.float32)), PostProcessing(), observer="public", queries=len(values))

    @property
    def _middle(self) -> float:
        """Of what a score may be: probabilities lie within one half of one half."""
        return 0.5 if self.exchange == "softmax" else 0.0

    def _mechanism(self, public: int, classes: int, noise: Noise) -> ClippedGaussian:
        queries = max(1, self.rounds) * min(self.alignment, public)
        asked = Asked(queries, classes, noise=noise)
        bound = self._middle or self.bound
        return clipped_gaussian(
            bound, self.sigma, DEFAULT_EPSILON if self.epsilon is None else self.epsilon, self.delta, asked
        )

    @property
    def is_bare(self) -> bool:
        """Whether nothing is noised, by the owner's own choice."""
        return self.sigma == 0

    def _agreed_is(self) -> Any:
        return Unprotected() if self.is_bare else PostProcessing()


def _check_rows(rows: Array, count: int, public: int) -> None:
    """Refuse numbers of other public rows than a round is about."""
    if rows.dtype.kind not in "iu" or rows.shape != (count,) or len(np.unique(rows)) != count:
        raise LimbeckError(f"a round is about {count} different public rows")
    if rows.min() < 0 or rows.max() >= public:
        raise LimbeckError(f"public rows are numbered 0 to {public - 1}")


def _scored(silo: Silo) -> int:
    """In how many rounds a party has given scores."""
    return int(cast(Array, silo.memory.get(SCORED, np.zeros(1)))[0])


def aligned(site: Site, count: int) -> Array:
    """Numbers of the public rows of a round: drawn anew, in proportion to the classes where labels are known."""
    size = len(site.public)
    order = site.rng.permutation(size)
    if site.public.y is not None and count < size:
        labels = site.public.y[order]
        by_class = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels)
        rank = np.arange(size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = np.empty(size)
        place[by_class] = (rank + 0.5) / sizes[labels[by_class]]
        order = order[np.argsort(place, kind="stable")]
    return np.sort(order[:count]).astype(np.min_scalar_type(size - 1))


def usable(
    replies: Replies[Scores], exchange: Exchange, shape: tuple[int, int], number: int, remarks: list[str]
) -> dict[int, Array]:
    """Scores or labels by party, without those that are none; the record says whose."""
    found = {}
    for party in sorted(replies.by_party):
        values = replies.by_party[party].values
        if exchange == "argmax":
            right = (
                values.shape == shape[:1]
                and values.dtype.kind in "iu"
                and bool(((values >= 0) & (values < shape[1])).all())
            )
        else:
            right = values.shape == shape and bool(np.isfinite(values).all())
        if right:
            found[party] = values
        else:
            remarks.append(f"round {number}: party {party} gave no finite score for every row and was left out")
    if not found:
        raise LimbeckError(f"round {number}: no party gave a finite score for every row")
    return found


def _picked(silo: Silo, rows: Array) -> Rows:
    return Rows(silo.private.x[rows], silo.private.y[rows])
