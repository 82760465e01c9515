"""FedMD-NP, -NFDP and -LDP (Sun & Lyu 2021, Algorithm 1): FedMD with their schedule, noise-free, and with noise.

-NFDP learns from one random subset of the private rows. -LDP adds noise to the clipped scores of all rounds.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.scoring import Scores
from limbeck.algorithms.subsets import Queries
from limbeck.errors import LimbeckError
from limbeck.knowledge.scores import exchanged
from limbeck.privacy.calibration import clipped_gaussian
from limbeck.privacy.mechanisms import PostProcessing, Subsample, Unprotected
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo
from limbeck.tables import Above0, Delta, NotNegative, Positive, RowsPerPerson

SUBSET = "fedmd.subset"


@dataclass(frozen=True, slots=True)
class FedMDNP(FedMD):
    """FedMD as its private variants are compared with: another schedule, and no privacy."""

    name: ClassVar[str] = "fedmd-np"
    fine_tune: Recipe = Recipe(epochs=20, batch=32)  # T1
    digest: Recipe = Recipe(epochs=2, batch=256)  # T2
    revisit: Recipe = Recipe(epochs=1, batch=5)  # T3


@dataclass(frozen=True, slots=True)
class FedMDNFDP(FedMDNP):
    """Noise-free: a party learns from one random subset of its rows only; `Subsample` says what that protects."""

    name: ClassVar[str] = "fedmd-nfdp"
    subsamples: ClassVar[bool] = True
    sampled: Queries = 60  # k: a number of rows, or a share of a party's rows
    replacement: bool = True
    population: Positive | None = None  # fewest rows of any party, known to all: a real run is accounted for with it
    rows_per_person: RowsPerPerson = 1

    def check(self) -> None:
        FedMDNP.check(self)
        if self.population is not None and not self.replacement and self.population < self.sampled:
            raise LimbeckError(f"population = {self.population}, of which {self.sampled} rows cannot be drawn")

    @property
    def needs_population(self) -> bool:
        return self.population is None

    def disclosures(self, run: Facts) -> list[Disclosure]:
        if run.noise == "secure" and self.population is None:  # how many rows a party has is private
            raise LimbeckError("algorithm.population, the fewest rows that any party has, is missing: delta needs it")
        return [Disclosure("party", "rows", self._subset(run.rows), "public"), *self.disclosed(run, PostProcessing())]

    def training_rows(self, silo: Silo) -> Array:
        """Places are drawn, as many as `population` at least: those beyond the party's rows are empty."""
        if SUBSET not in silo.memory:
            count = len(silo.private)
            drawn = silo.disclose("rows", np.arange(max(count, self._subset(count).of)))
            silo.memory[SUBSET] = np.sort(drawn[drawn < count])
        return cast(Array, silo.memory[SUBSET])

    def _subset(self, count: int | None) -> Subsample:
        """A share's number of rows follows that of all, so that the theorems do not cover an added or removed row."""
        of = self.population or count or 1
        if isinstance(self.sampled, float):
            return Subsample(max(1, round(self.sampled * of)), of, self.replacement, adjacency="replace")
        return Subsample(self.sampled, of if self.replacement else max(of, self.sampled), self.replacement)


@dataclass(frozen=True, slots=True)
class FedMDLDP(FedMDNP):
    """Gaussian noise on clipped scores, in the party; sigma = 0 is FedMD-NP, without clipping. NaN becomes 0."""

    name: ClassVar[str] = "fedmd-ldp"
    bound: Above0 = 10.0  # logits are clipped to [-bound, bound]
    sigma: NotNegative | None = None
    epsilon: Above0 | None = None  # 100 where neither is given
    delta: Delta = 1e-5
    rows_per_person: RowsPerPerson = 1  # changes nothing: one row may already move every score across the bound

    def check(self) -> None:
        FedMDNP.check(self)
        if self.exchange == "argmax" or self.weights == "accuracy":
            raise LimbeckError('fedmd-ldp protects scores: exchange = "logits" or "softmax", weights equal or a list')
        if self.sigma is not None and self.epsilon is not None:
            raise LimbeckError("fedmd-ldp takes sigma or epsilon, not both")

    @property
    def effective_delta(self) -> float:
        return 0.0 if self.sigma == 0 else self.delta

    def disclosures(self, run: Facts) -> list[Disclosure]:
        if not self.is_private or not self.has_messages:
            return self.disclosed(run, Unprotected())
        rows, bound = min(self.alignment, run.public), self._middle or self.bound
        noise = clipped_gaussian(bound, self.sigma, self.epsilon or 100.0, self.delta, run.asked(self.rounds * rows))
        noisy = Disclosure("party", "noisy scores", noise, "public", rows, times=self.rounds)
        return [noisy, *self.disclosed(run, PostProcessing(), "public")]

    def send_scores(self, logits: Array, silo: Silo) -> Reply:
        if not self.is_private:
            return FedMDNP.send_scores(self, logits, silo)
        scores = exchanged(logits, self.exchange).astype(np.float64)
        noisy = silo.disclose("noisy scores", scores - self._middle) + self._middle
        return silo.disclose("scores", Scores(noisy.astype(np.float32)))

    @property
    def _middle(self) -> float:
        """The middle of the range of a score: probabilities lie within one half of one half."""
        return 0.5 if self.exchange == "softmax" else 0.0
