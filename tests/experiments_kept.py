"""A kept result for tests."""

from limbeck.experiments.cells import FORMAT, Kept
from limbeck.experiments.metrics import Metrics


def kept() -> Kept:
    said = {"format": FORMAT, "seed": 0, "algorithm": {"name": "fedkt"}}
    return Kept(said, Metrics(0.5, 0.4, None), 0.3, 1, 10, 20, {"server": None}, 0.0, 1.5, [], {"python": "3"})
