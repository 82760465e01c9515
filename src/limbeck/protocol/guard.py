"""The guard: at a private level, what training does with private rows never shows but in what it gives.

A teacher that cannot be fitted, a network that diverges, a subset without rows: each job then gives its substitute, of
the usual kind and shape, which goes on through the same mechanism, noise and ledger row. The substitute depends on
public facts and the job's number alone, so that a row that makes one job fail changes the result of that job only.
"""

import logging
from collections.abc import Sequence
from typing import Any, TypeVar

from limbeck.errors import LimbeckError
from limbeck.protocol.learning import Failure, Job

T = TypeVar("T")
log = logging.getLogger("limbeck")


def guarded_results(
    jobs: Sequence[Job[T]], results: Sequence[Any], classes: int, seeds: Sequence[int], site: str
) -> list[T]:
    """The results, each failed or invalid one replaced; how many were is told in the site's own log."""
    found: list[T] = []
    reasons = []
    for number, (job, result) in enumerate(zip(jobs, results, strict=True)):
        reason = _reason(job, result, classes)
        if reason is not None:
            reasons.append(reason)
            result = _substitute(job, reason, classes, seeds[number], number)
        found.append(result)
    if reasons:
        log.warning(
            "%s: %d of %d trainings were replaced by substitutes: %s", site, len(reasons), len(jobs), reasons[0]
        )
    return found


def _reason(job: Any, result: Any, classes: int) -> str | None:
    """Why a result cannot be used; None where it can."""
    if isinstance(result, Failure):
        return f"cannot fit {job}: {result.reason}"
    valid = getattr(job, "is_valid", None)
    return None if valid is None or valid(result, classes) else f"{job} gave an invalid result"


def _substitute(job: Any, reason: str, classes: int, seed: int, number: int) -> Any:
    if not hasattr(job, "substitute"):  # it depends on no private row
        raise LimbeckError(reason)
    return job.substitute(classes, seed, number)
