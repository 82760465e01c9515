"""Voters for tests of a vote: every way to vote, a small federation of unlike parties, and what leaves it bare."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.voting import Voting
from limbeck.data.sets import load
from limbeck.experiments.federation import Federation
from limbeck.models.named import model_from
from limbeck.privacy.calibration import L0, Privacy
from limbeck.protocol.rows import Rows
from limbeck.protocol.site import Silo, Site

ASKS = ("rows", "groups", "directions", "active")
WEIGHTS = ("equal", "accuracy", "rare-class", "class-share", "contrast")
BY_CLASS = ("class-share", "contrast")
FOREST = model_from({"name": "random-forest", "n_estimators": 20})
EPSILON = {
    "L0": L0,
    "L1": Privacy("L1", "gaussian", epsilon=20.0),
    "L2": Privacy("L2", "gaussian", epsilon=20.0),
}


def caps(weights: str, level: str) -> bool:
    """Whether a cap on rows does anything."""
    return weights == "rare-class" or (level == "L1" and weights in BY_CLASS)


def combinations() -> Iterator[Any]:
    """All that the rules allow."""
    kinds = product(EPSILON, ("plain", "prior-corrected"), ("soft", "hard"), WEIGHTS, ASKS)
    level: str
    teachers: Any
    votes: Any
    weights: Any
    ask: Any
    for level, teachers, votes, weights, ask in kinds:
        voting = Voting(teachers=teachers, votes=votes, weights=weights, ask=ask)
        yield level, replace(voting, cap=3) if caps(weights, level) else voting


def fedkt(level: str, voting: Voting, **more: Any) -> FedKT:
    return FedKT(**{"partitions": 2, "subsets": 2, "queries": 30, **more}, privacy=EPSILON[level], voting=voting)


def some_quick(cases: Iterable[Any], every: int) -> list[Any]:
    """All cases, most of them marked as slow."""

    def named(case: Any) -> str:
        parts = [
            each if isinstance(each, str) else f"{each.teachers}-{each.votes}-{each.weights}-{each.ask}"
            for each in case
        ]
        return "-".join(parts)

    marks = ((), (pytest.mark.slow,))
    return [pytest.param(*case, id=named(case), marks=marks[n % every > 0]) for n, case in enumerate(cases)]


@contextmanager
def released(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any, Any]]]:
    """Every value as it was before its noise, and its mechanism."""
    found: list[tuple[str, Any, Any]] = []
    plain = Site.release

    def watched(self: Site, value: Any, mechanism: Any, **more: Any) -> Any:
        if mechanism.noisy:
            found.append((self.name, np.array(value, np.float64), mechanism))
        return plain(self, value, mechanism, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Site, "release", watched)
        patched.setattr(Silo, "release", watched)
        yield found


def two_classes(algorithm: Any, seed: int = 0) -> Federation:
    """Breast cancer among six parties of unlike mixes."""
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
