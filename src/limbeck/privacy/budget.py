"""Budgets: the largest epsilon that may be spent towards one observer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from limbeck.errors import LimbeckError
from limbeck.privacy.guarantees import Protects, epsilon_towards
from limbeck.protocol.release import Observer, Release
from limbeck.tables import Above0, Delta, RowsPerPerson, check_fields


@dataclass(frozen=True, slots=True)
class Budget:
    """Largest epsilon that all runs of a ledger together may spend towards one observer.

    Parameters
    ----------
    epsilon : float
        The largest epsilon.
    delta : float
        Delta at which epsilon is computed.
    observer : {"public", "server", "parties"}
        Who must not learn more than that.
    unit : {"example", "party", "both"}
        Who is protected: a row (or a person), a party, or both, and then the larger epsilon counts.
    rows_per_person : int
        Largest number of rows of one person in a party.

    Raises
    ------
    LimbeckError
        If a value is out of range.

    Notes
    -----
    A run that would exceed its budget is rejected before any training, and so is each release that would exceed it.

    Examples
    --------
    >>> print(Budget(3.0))
    epsilon 3 at delta 1e-05 towards public, unit example
    >>> Budget(3.0).spent([])
    0.0
    """

    epsilon: Above0
    delta: Delta = 1e-5
    observer: Observer = "public"
    unit: Protects = "example"
    rows_per_person: RowsPerPerson = 1

    def __post_init__(self) -> None:
        try:
            check_fields(self)
        except LimbeckError as error:
            raise LimbeckError(f"budget.{error}") from error

    def __str__(self) -> str:
        people = f", rows_per_person {self.rows_per_person}" if self.rows_per_person > 1 else ""
        return f"epsilon {self.epsilon:g} at delta {self.delta:g} towards {self.observer}, unit {self.unit}{people}"

    @property
    def terms(self) -> "Budget":
        """The budget with epsilon 1: two budgets can be compared if their terms are equal."""
        return replace(self, epsilon=1.0)

    def spent(self, releases: Sequence[Release]) -> float:
        """Epsilon of some releases towards the observer of this budget."""
        return epsilon_towards(self.observer, releases, self.delta, self.unit, self.rows_per_person)

    def check(self, spent: Sequence[Release], after: Sequence[Release], what: str) -> None:
        """Raise `LimbeckError` if releases exceed the budget, with what is left of it.

        Parameters
        ----------
        spent : sequence of Release
            Releases so far.
        after : sequence of Release
            Releases so far and the new ones.
        what : str
            Name of the new ones in the message.
        """
        total = self.spent(after)
        if total > self.epsilon:
            message = f"{what} would bring epsilon towards {self.observer}{self._who} to {total:.4g}"
            remaining = max(0.0, self.epsilon - self.spent(spent))
            raise LimbeckError(f"{message}, but {remaining:.4g} of {self.epsilon:g} is left")

    @property
    def _who(self) -> str:
        """Who is protected, if it is not one row."""
        row = "one row" if self.rows_per_person == 1 else f"a person with {self.rows_per_person} rows"
        protected = {"example": row, "party": "a party", "both": f"a party, or {row}"}[self.unit]
        return "" if protected == "one row" else f" (unit: {protected})"


def in_force(budgets: Iterable[Budget]) -> list[Budget]:
    """Budgets that apply: of those with equal terms only the smallest.

    Examples
    --------
    >>> [budget.epsilon for budget in in_force([Budget(3.0), Budget(2.0), Budget(5.0, unit="party")])]
    [2.0, 5.0]
    """
    tightest: dict[Budget, Budget] = {}
    for budget in budgets:
        known = tightest.setdefault(budget.terms, budget)
        tightest[budget.terms] = min(known, budget, key=lambda each: each.epsilon)
    return list(tightest.values())


def check_tightens(budget: Budget, existing: Iterable[Budget], where: str) -> None:
    """Raise `LimbeckError` if a budget is larger than one with equal terms that a ledger keeps.

    Parameters
    ----------
    budget : Budget
        The new budget.
    existing : iterable of Budget
        Budgets in the ledger.
    where : str
        Name of the ledger in the message.
    """
    for known in in_force(existing):
        if known.terms == budget.terms and budget.epsilon > known.epsilon:
            raise LimbeckError(
                f"budget.epsilon = {budget.epsilon:g} is more than the budget that {where} keeps ({known}): "
                f"a budget may be lowered, never raised; use at most {known.epsilon:g}"
            )
