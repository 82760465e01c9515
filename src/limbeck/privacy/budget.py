"""A budget: how much epsilon may be spent towards one observer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from limbeck.errors import LimbeckError
from limbeck.privacy.guarantees import Protects, epsilon_towards
from limbeck.protocol.release import Observer, Release
from limbeck.tables import Above0, Delta, RowsPerPerson, check_fields


@dataclass(frozen=True, slots=True)
class Budget:
    """`budget = { epsilon, delta, observer, unit, rows_per_person }`: no release may spend more towards this observer.

    `unit` says who is protected: one person with up to `rows_per_person` rows in a party ("example"), a whole party
    ("party"), or "both", and then the larger epsilon counts.
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
        """The same for everything but epsilon: two budgets with equal terms can be compared."""
        return replace(self, epsilon=1.0)

    def spent(self, releases: Sequence[Release]) -> float:
        return epsilon_towards(self.observer, releases, self.delta, self.unit, self.rows_per_person)

    def check(self, spent: Sequence[Release], after: Sequence[Release], what: str) -> None:
        """Refuse to go from what is `spent` to `after`, where that exceeds the budget, and say what is left."""
        total = self.spent(after)
        if total > self.epsilon:
            message = f"{what} would bring epsilon towards {self.observer}{self._who} to {total:.4g}"
            remaining = max(0.0, self.epsilon - self.spent(spent))
            raise LimbeckError(f"{message}, but {remaining:.4g} of {self.epsilon:g} is left")

    @property
    def _who(self) -> str:
        """Who is protected, where it is not one row."""
        row = "one row" if self.rows_per_person == 1 else f"a person with {self.rows_per_person} rows"
        protected = {"example": row, "party": "a party", "both": f"a party, or {row}"}[self.unit]
        return "" if protected == "one row" else f" (unit: {protected})"


def in_force(budgets: Iterable[Budget]) -> list[Budget]:
    """Of budgets with equal terms the tightest."""
    tightest: dict[Budget, Budget] = {}
    for budget in budgets:
        known = tightest.setdefault(budget.terms, budget)
        tightest[budget.terms] = min(known, budget, key=lambda each: each.epsilon)
    return list(tightest.values())


def check_tightens(budget: Budget, existing: Iterable[Budget], where: str) -> None:
    """Refuse a budget that would loosen one that a ledger keeps."""
    for known in in_force(existing):
        if known.terms == budget.terms and budget.epsilon > known.epsilon:
            raise LimbeckError(
                f"budget.epsilon = {budget.epsilon:g} is more than the budget that {where} keeps ({known}): "
                f"a budget may be lowered, never raised; use at most {known.epsilon:g}"
            )
