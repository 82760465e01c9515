"""FedMD-NP, FedMD-NFDP and FedMD-LDP (Sun & Lyu 2021, Algorithm 1): FedMD without and with differential privacy."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, cast

import numpy as np
from pydantic import Field

from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.scoring import Scores
from limbeck.errors import LimbeckError
from limbeck.knowledge.scores import bounded, in_format
from limbeck.privacy.calibration import clipped_gaussian
from limbeck.privacy.mechanisms import PostProcessing, Subsample, Unprotected
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo
from limbeck.tables import Above0, Delta, NotNegative, RowsPerPerson

SUBSET = "fedmd.subset"
MAX_ROWS = 10**8  # rows that a party draws from, in memory
MAX_DRAWS = 10  # draws per row with replacement: beyond it every row is drawn, with probability 0.99995
ALWAYS = 10_000  # draws that even a small party can make

Sampled = Annotated[int, Field(ge=1, le=MAX_ROWS)] | Annotated[float, Field(gt=0, le=1)]  # a number or a share of rows


@dataclass(frozen=True, slots=True)
class FedMDNP(FedMD):
    """FedMD-NP: FedMD with the schedule of Sun & Lyu and without privacy, the baseline of its private variants.

    Parameters
    ----------
    rounds : int
        Number of rounds, P in the paper.
    alignment : int
        Public rows in each round, |d_j| in the paper.
    score_format : {"logits", "softmax", "argmax", "none"}
        What parties send.
    weights : {"equal", "accuracy"} or list of float
        Weights of the parties.
    consensus : {"mean", "median", "trimmed"}
        How the server aggregates scores.
    trimmed : float
        For `"trimmed"`: share of the parties that is left out at either end of each value.
    start : {"public", "pretrained", "none"}
        What models are trained on at the start.
    pretrain : Recipe
        How networks are trained on the labelled public rows at the start.
    fine_tune : Recipe
        How networks are trained on the private rows at the start, T1 in the paper.
    digest : Recipe
        How networks are trained towards the consensus, T2 in the paper.
    revisit : Recipe
        How networks are trained on the private rows after a consensus, T3 in the paper.

    References
    ----------
    Sun & Lyu 2021, Federated Model Distillation with Noise-Free Differential Privacy, Algorithm 1.

    Examples
    --------
    >>> import limbeck as lb
    >>> algorithm = lb.FedMDNP(rounds=10)
    >>> algorithm.fine_tune.epochs, algorithm.digest.epochs, algorithm.revisit.epochs
    (20, 2, 1)
    """

    name: ClassVar[str] = "fedmd-np"
    fine_tune: Recipe = Recipe(epochs=20, batch=32)
    digest: Recipe = Recipe(epochs=2, batch=256)
    revisit: Recipe = Recipe(epochs=1, batch=5)


@dataclass(frozen=True, slots=True)
class FedMDNFDP(FedMDNP):
    """FedMD-NFDP: each party trains on one random subset of its rows, drawn once, and adds no noise.

    Parameters
    ----------
    rounds : int
        Number of rounds, P in the paper.
    alignment : int
        Public rows in each round, |d_j| in the paper.
    score_format : {"logits", "softmax", "argmax", "none"}
        What parties send.
    weights : {"equal", "accuracy"} or list of float
        Weights of the parties.
    consensus : {"mean", "median", "trimmed"}
        How the server aggregates scores.
    trimmed : float
        For `"trimmed"`: share of the parties that is left out at either end of each value.
    start : {"public", "pretrained", "none"}
        What models are trained on at the start.
    pretrain : Recipe
        How networks are trained on the labelled public rows at the start.
    fine_tune : Recipe
        How networks are trained on the private rows at the start.
    digest : Recipe
        How networks are trained towards the consensus.
    revisit : Recipe
        How networks are trained on the private rows after a consensus.
    sampled : int or float
        Number of rows that are drawn, k in the paper, or their share of a party's rows.
    replacement : bool
        Whether rows are drawn with replacement.
    population : int or None
        A number of rows that every party is known to have; required in a real run, which computes delta from it.
    rows_per_person : int
        Number of rows of one person at a party that the guarantee covers.

    Notes
    -----
    Delta is the probability that a given row is drawn. A drawn row may be exposed completely, and no larger epsilon
    makes delta smaller. `Subsample` has the formulas. They are for a fixed number of rows: with a share, this number
    follows from that of all rows, so the guarantee covers a replaced row but not an added or removed one.

    References
    ----------
    Sun & Lyu 2021, Federated Model Distillation with Noise-Free Differential Privacy, Algorithm 1.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.FedMDNFDP(sampled=60, population=300).is_private
    True
    """

    name: ClassVar[str] = "fedmd-nfdp"
    subsamples: ClassVar[bool] = True
    sampled: Sampled = 60
    replacement: bool = True
    population: Annotated[int, Field(ge=1, le=MAX_ROWS)] | None = None
    rows_per_person: RowsPerPerson = 1

    def check(self) -> None:
        FedMDNP.check(self)
        if self.population is not None and not self.replacement and self.population < self.sampled:
            raise LimbeckError(f"population = {self.population} is below sampled = {self.sampled}: use replacement")

    @property
    def needs_population(self) -> bool:
        return self.population is None

    def disclosures(self, run: Facts) -> list[Disclosure]:
        if run.noise == "secure" and self.population is None:  # row counts are private
            raise LimbeckError("algorithm.population is missing: delta needs a number of rows that every party has")
        if of := self.population or run.rows:
            self._check_draws(of)
        return [Disclosure("party", "rows", self._subset(run.rows), "public"), *self.disclosed(run, PostProcessing())]

    def _check_draws(self, of: int) -> None:
        """Raise if more rows are drawn than make sense for a population; otherwise memory or time would run out."""
        if self.sampled > (most := max(MAX_DRAWS * of, ALWAYS)):
            raise LimbeckError(
                f"algorithm.sampled: {self.sampled} draws from {of} rows are too many; use at most {most}"
            )

    def training_rows(self, silo: Silo) -> Array:
        """Draw from at least `population` row numbers; those beyond the party's rows are left out."""
        if SUBSET not in silo.memory:
            count = len(silo.private)
            drawn = silo.disclose("rows", np.arange(max(count, self._subset(count).of)))
            silo.memory[SUBSET] = np.sort(drawn[drawn < count])
        return cast(Array, silo.memory[SUBSET])

    def _subset(self, count: int | None) -> Subsample:
        """The mechanism for a party with so many rows; a share is covered for a replaced row only."""
        of = self.population or count or 1
        if isinstance(self.sampled, float):
            return Subsample(max(1, round(self.sampled * of)), of, self.replacement, adjacency="replace")
        return Subsample(self.sampled, of if self.replacement else max(of, self.sampled), self.replacement)


@dataclass(frozen=True, slots=True)
class FedMDLDP(FedMDNP):
    """FedMD-LDP: each party clips its scores and adds Gaussian noise to them.

    Parameters
    ----------
    rounds : int
        Number of rounds, P in the paper.
    alignment : int
        Public rows in each round, |d_j| in the paper.
    score_format : {"logits", "softmax", "argmax", "none"}
        What parties send.
    weights : {"equal", "accuracy"} or list of float
        Weights of the parties.
    consensus : {"mean", "median", "trimmed"}
        How the server aggregates scores.
    trimmed : float
        For `"trimmed"`: share of the parties that is left out at either end of each value.
    start : {"public", "pretrained", "none"}
        What models are trained on at the start.
    pretrain : Recipe
        How networks are trained on the labelled public rows at the start.
    fine_tune : Recipe
        How networks are trained on the private rows at the start.
    digest : Recipe
        How networks are trained towards the consensus.
    revisit : Recipe
        How networks are trained on the private rows after a consensus.
    bound : float
        Logits are clipped to [-bound, bound]; probabilities need no bound.
    sigma : float or None
        Standard deviation of the noise; 0 is FedMD-NP, without clipping.
    epsilon : float or None
        Epsilon to which the noise is calibrated; 100 if neither `sigma` nor `epsilon` is given.
    delta : float
        Delta of the guarantee.
    rows_per_person : int
        Number of rows of one person at a party. It changes nothing: one row may already change every score.

    Notes
    -----
    The noise is calibrated to all rows of all rounds together. A score that is not a number counts as 0.

    References
    ----------
    Sun & Lyu 2021, Federated Model Distillation with Noise-Free Differential Privacy, Algorithm 1.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.FedMDLDP(epsilon=50.0).effective_delta, lb.FedMDLDP(sigma=0.0).effective_delta
    (1e-05, 0.0)
    """

    name: ClassVar[str] = "fedmd-ldp"
    bound: Above0 = 10.0
    sigma: NotNegative | None = None
    epsilon: Above0 | None = None
    delta: Delta = 1e-5
    rows_per_person: RowsPerPerson = 1

    def check(self) -> None:
        FedMDNP.check(self)
        if self.score_format == "argmax" or self.weights == "accuracy":
            raise LimbeckError(
                'fedmd-ldp protects scores only: score_format cannot be "argmax", nor weights "accuracy"'
            )
        if self.sigma is not None and self.epsilon is not None:
            raise LimbeckError("fedmd-ldp takes sigma or epsilon, not both")

    @property
    def effective_delta(self) -> float:
        return 0.0 if self.sigma == 0 else self.delta

    def disclosures(self, run: Facts) -> list[Disclosure]:
        if not self.is_private or not self.has_messages:
            return self.disclosed(run, Unprotected())
        rows, bound = min(self.alignment, run.public), self._middle or self.bound
        noise = partial(clipped_gaussian, bound, self.sigma, self.epsilon or 100.0, self.delta)
        noisy = run.calibrated("party", "noisy scores", noise, "public", rows, times=self.rounds)
        return [noisy, *self.disclosed(run, PostProcessing(), "public")]

    def send_scores(self, logits: Array, silo: Silo) -> Reply:
        if not self.is_private:
            return FedMDNP.send_scores(self, logits, silo)
        scores = in_format(logits, self.score_format).astype(np.float64)
        noisy = silo.disclose("noisy scores", scores - self._middle) + self._middle
        return silo.disclose("scores", Scores(bounded(noisy)))

    @property
    def _middle(self) -> float:
        """The middle of the range of a score: 0 for logits, 0.5 for probabilities."""
        return 0.5 if self.score_format == "softmax" else 0.0
