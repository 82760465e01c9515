"""Random subsets of the private rows, without noise."""

import math
from dataclasses import dataclass

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.privacy.events import DpEvent, Mechanism
from limbeck.privacy.losses import Loss, Subsampled
from limbeck.privacy.sampling import sampler_for
from limbeck.protocol.release import NoiseSource, Unit
from limbeck.protocol.rows import Array
from limbeck.tables import Positive, check_fields


@dataclass(frozen=True, slots=True)
class Subsample(Mechanism):
    """One random subset of the private rows, without noise: no other row is ever used (FedMD-NFDP).

    Parameters
    ----------
    rows : int
        Number of rows that are drawn, k.
    of : int
        Least number of rows that they are drawn from, n.
    replacement : bool
        Whether a row can be drawn more than once.
    unit : {"example", "party"}
        Who is protected.
    adjacency : {"replace", "add-remove", "any"}
        Neighbour relation that the guarantee holds for.

    Raises
    ------
    LimbeckError
        If more rows than there are would be drawn without replacement.

    Notes
    -----
    Delta is never below 1/n, because a sampled row may be exposed completely. The mechanism limits how many rows are
    exposed, not whether a sampled row is exposed. `guarantee` has the formulas.

    Examples
    --------
    >>> epsilon, delta = Subsample(rows=60, of=300).guarantee()
    >>> round(epsilon, 4), round(delta, 4)
    (0.1997, 0.1815)
    """

    rows: Positive
    of: Positive
    replacement: bool = True
    unit: Unit = "example"
    adjacency: str = "any"
    name = "subsample"
    secret = True
    sensitivity = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.replacement and self.rows > self.of:
            raise LimbeckError(f"cannot draw {self.rows} of {self.of} rows without replacement")

    def protect(self, rows: Array, source: NoiseSource) -> Array:
        return rows[sampler_for(source).subset(len(rows), self.rows, self.replacement)]

    def asked(self, rows: Array, classes: int) -> int:
        if len(rows) < self.of:  # with more rows each is drawn with a smaller probability, so the guarantee holds
            raise LimbeckError(f"{self.name} is declared for at least {self.of} rows, but there are {len(rows)}")
        return 1

    def loss(self, event: DpEvent) -> Loss:
        return Subsampled(*self.guarantee(event.rows))

    def curve(self, epsilon: float, group: int = 1) -> float:
        """Exact delta at a given epsilon, towards an observer who sees the subset itself.

        For replaced rows it is the probability that at least one of them was drawn, at every epsilon.

        Parameters
        ----------
        epsilon : float
            Epsilon, from 0.
        group : int
            Number of rows of one person.

        Returns
        -------
        float
            Delta.
        """
        gained, delta = self.guarantee(group)
        return delta if self.adjacency == "replace" else max(delta, 1 - math.exp(epsilon - gained))

    def guarantee(self, group: int = 1) -> tuple[float, float]:
        """Epsilon and delta for the rows of one person, added or removed (FedMD-NFDP, Theorems 1 and 2).

        Parameters
        ----------
        group : int
            Number of rows of one person.

        Returns
        -------
        (float, float)
            Epsilon and delta.

        Notes
        -----
        Let k of n rows be drawn, and let g of the n rows belong to one person. A subset with one of these g rows has
        probability 0 without this person. Delta is the probability of such a subset: 1 - (1 - g/n)^k with replacement,
        1 - C(n-g, k) / C(n, k) without. All other subsets are equally likely, with and without the person.

        If g rows are added to n, each other subset becomes less likely by the factor e^epsilon, which is ((n+g) / n)^k
        with replacement and C(n+g, k) / C(n, k) without. If g of n rows are removed, it becomes more likely by the
        factor 1 / (1 - delta). Delta covers this case too: 1 - e^epsilon (1 - delta) <= delta.
        """
        if self.replacement:
            missed = self.rows * math.log1p(-group / self.of) if group < self.of else -math.inf
            return self.rows * math.log1p(group / self.of), -math.expm1(missed)
        choices = self.of - np.arange(self.rows)  # rows that are left at each draw
        missed = float(np.log1p(-group / choices).sum()) if group <= self.of - self.rows else -math.inf
        return float(np.log1p(group / choices).sum()), -math.expm1(missed)
