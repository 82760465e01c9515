"""Every algorithm that takes an epsilon plans a run with about this epsilon, and never with more."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from limbeck.algorithms import algorithms
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.guarantees import epsilon_towards
from limbeck.protocol.disclosures import Facts, planned_releases

FACTS = Facts(public=20, classes=3, parties=6)
ASKED = 3.0
VOTES = ("gumbel", "laplace", "gaussian", "confident-gaussian")
LEVELS = {"fedkd": ("L1",), "fedvote": ("L1",), "pate": ("L2",), "evaluation": ("L2",)}  # of the others both
GAUSSIAN = ("fedvote", "fedridge", "evaluation")  # their votes and sums take no other noise
SCORES: dict[str, list[dict[str, Any]]] = {
    "fedkd": [
        {"mechanism": "gaussian", "noised_by": "server", "weights": "equal"},
        {"mechanism": "gaussian", "noised_by": "party", "weights": "class-share", "weights_release": "noisy"},
    ],
    "fedmd-ldp": [{"rounds": 3, "alignment": 7}, {"rounds": 1, "alignment": 50}],
}


def keys(algorithm: Any) -> set[str]:
    return {field.name for field in fields(algorithm)}


def cases() -> Iterator[Any]:
    for name, kind in algorithms().items():
        known = keys(kind)
        partitions = {"partitions": 2} if "partitions" in known else {}
        for more in SCORES.get(name, [{}] if "epsilon" in known else []):
            yield pytest.param(name, more | partitions | {"epsilon": ASKED}, id=f"{name}-scores-{len(more)}")
        for level in LEVELS.get(name, ("L1", "L2")) if "privacy" in known else ():
            for mechanism in ("gaussian",) if name in GAUSSIAN else VOTES:
                more = {"transfer": "labels"} if "transfer" in known else {}
                privacy = Privacy(level, mechanism, epsilon=ASKED)  # type: ignore[arg-type]
                yield pytest.param(name, more | partitions | {"privacy": privacy}, id=f"{name}-{level}-{mechanism}")


@pytest.mark.parametrize(("name", "parameters"), list(cases()))
def test_a_run_is_planned_with_the_epsilon_that_is_asked_for(name: str, parameters: dict[str, Any]) -> None:
    """An epsilon that is too small would be as wrong: more noise than anybody asked for."""
    algorithm = algorithms()[name](**parameters)
    planned = planned_releases(algorithm.disclosures, FACTS)
    found = epsilon_towards("public", planned, algorithm.effective_delta, "example")
    assert 0.98 * ASKED < found <= ASKED


def test_every_private_algorithm_is_among_them() -> None:
    private = {name for name, kind in algorithms().items() if {"privacy", "epsilon"} & keys(kind)}
    assert private == {case.values[0] for case in cases()}
    assert {"fedkt", "fedkd", "fedvote", "fedridge", "pate", "fedmd-ldp"} <= private
