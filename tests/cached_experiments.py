"""A kept result for tests."""

from limbeck.experiments.cached_runs import FORMAT, CachedResult
from limbeck.experiments.metrics import Metrics


def cached_result_of_one_run() -> CachedResult:
    configuration = {"format": FORMAT, "seed": 0, "algorithm": {"name": "fedkt"}}
    return CachedResult(
        configuration, Metrics(0.5, 0.4, None), 0.3, 1, 10, 20, {"server": None}, 0.0, 1.5, [], {"python": "3"}
    )
