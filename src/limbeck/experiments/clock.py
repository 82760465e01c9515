"""Duration of the phases of a run."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


def today() -> str:
    """Current date in UTC (ISO 8601)."""
    return datetime.now(UTC).date().isoformat()


@dataclass(slots=True)
class Clock:
    """Timer of a run and its phases.

    Parameters
    ----------
    phases : list of dict
        Name and duration of each finished phase.

    Examples
    --------
    >>> clock = Clock()
    >>> with clock.phase("training"):
    ...     pass
    >>> [phase["name"] for phase in clock.timing()["phases"]]
    ['training']
    """

    phases: list[dict[str, Any]] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)
    _started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the body of a `with` statement."""
        began = time.perf_counter()
        yield
        self.phases.append({"name": name, "seconds": time.perf_counter() - began})

    @property
    def started(self) -> str:
        """Start time (UTC, ISO 8601)."""
        return self._started

    def timing(self) -> dict[str, Any]:
        """Start, duration in seconds and phases, as a record has them."""
        return {"started": self._started, "seconds": time.perf_counter() - self._began, "phases": self.phases}
