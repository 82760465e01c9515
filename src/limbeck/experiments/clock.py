"""How long the phases of a run take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


def today() -> str:
    """The date in UTC (ISO 8601)."""
    return datetime.now(UTC).date().isoformat()


@dataclass(slots=True)
class Clock:
    """Names the phases of a run and takes their time."""

    phases: list[dict[str, Any]] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)
    _started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.phases.append({"name": name, "seconds": time.perf_counter() - began})

    @property
    def started(self) -> str:
        """When the clock started (UTC, ISO 8601)."""
        return self._started

    def timing(self) -> dict[str, Any]:
        return {"started": self._started, "seconds": time.perf_counter() - self._began, "phases": self.phases}
