"""A small federation of unlike parties, and the values that leave it before their noise."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from limbeck.data.sets import load
from limbeck.experiments.federation import Federation
from limbeck.models.named import model_from
from limbeck.protocol.rows import Rows
from limbeck.protocol.site import Silo, Site


def two_classes(algorithm: Any, seed: int = 0) -> Federation:
    """Breast cancer among six parties with different shares of the classes."""
    data = load("breast-cancer")
    order = np.random.default_rng(seed).permutation(len(data.x))
    x, y = data.x[order], data.y[order]
    held = np.array_split(np.argsort(y[:360] + np.random.default_rng(1).normal(scale=0.7, size=360)), 6)
    model = model_from({"name": "decision-tree", "max_depth": 4})
    return Federation(
        algorithm=algorithm,
        seed=seed,
        classes=np.array(data.classes),
        private=[Rows(x[rows], y[rows]) for rows in held],
        models=[model] * 6,
        server_model=model,
        public=Rows(x[360:480], y[360:480]),
        test=Rows(x[480:], y[480:]),
        config={},
    )


@contextmanager
def before_noise(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any, Any]]]:
    """What is disclosed with noise: its name, the value as it was before, and the mechanism."""
    found: list[tuple[str, Any, Any]] = []
    plain = Site.disclose

    def watched(self: Site, what: str, value: Any) -> Any:
        mechanism = self._declarations[what].mechanism
        if mechanism.noisy:
            found.append((what, np.array(value, np.float64), mechanism))
        return plain(self, what, value)

    with monkeypatch.context() as patched:
        patched.setattr(Site, "disclose", watched)
        patched.setattr(Silo, "disclose", watched)
        yield found
