"""A new noisy maximum is one class: a privacy table names it, it is calibrated, and a run uses it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedkt import FedKT
from limbeck.errors import LimbeckError
from limbeck.experiments.config import algorithm_in
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.events import DpEvent
from limbeck.privacy.losses import Loss, Pure
from limbeck.privacy.mechanisms import MECHANISMS, NoisyMax
from limbeck.privacy.queries import AccountingQuery, account
from limbeck.privacy.sampling import sampler_for
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.release import NoiseSource, Unit
from limbeck.protocol.rows import Array
from limbeck.report.statement.exposure import mechanisms
from limbeck.tables import Above0, Positive
from private_levels import federation, ordinary


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(NoisyMax):
    """Noisy maximum with exponential noise on each vote count (McKenna & Sheldon 2020)."""

    gamma: Above0
    unit: Unit = "party"
    weight: Positive = 1
    adjacency: str = "any"
    margin: float = 0.0
    name = "permute-and-flip"

    @classmethod
    def options(cls, scale: float, votes: int) -> Mapping[str, Any]:
        return {"margin": votes / 100}

    def protect(self, votes: Array, source: NoiseSource) -> Array:
        noise = sampler_for(source).laplace(np.zeros(votes.shape), 1 / self.gamma)
        return np.asarray((votes + np.abs(noise)).argmax(axis=1))

    def loss(self, event: DpEvent) -> Loss:
        return Pure(event.affected_counts * event.weight * self.gamma)


MECHANISMS.pop(PermuteAndFlip.name)  # for other tests, which go through all mechanisms of the package
TABLE = {"name": "fedkt", "partitions": 2, "subsets": 2}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MECHANISMS, PermuteAndFlip.name, PermuteAndFlip)


def named(**privacy: Any) -> FedKT:
    found = algorithm_in({**TABLE, "privacy": {"level": "L1", "mechanism": "permute-and-flip", **privacy}})
    assert isinstance(found, FedKT)
    return found


def test_an_experiment_names_it_and_its_statement_describes_it() -> None:
    algorithm = named(epsilon=8.0)
    [labels] = [
        row for row in planned_releases(algorithm.disclosures, Facts(8, 3, 2)) if row.mechanism == "permute-and-flip"
    ]
    assert labels.parameters["weight"] == 2
    assert labels.parameters["margin"] == 0.04
    record = federation(algorithm, [ordinary(), ordinary(seed=1)], {"name": "decision-tree"}).run(PoolTrainer(1)).record
    assert "`permute-and-flip`: Noisy maximum with exponential noise on each vote count" in mechanisms(record)


def test_its_epsilon_is_computed_without_a_run() -> None:
    found = account(AccountingQuery(mechanism="permute-and-flip", gamma=0.05, queries=40))
    assert found.all["basic"] == pytest.approx(4.0)


def test_it_has_the_parameters_of_its_fields() -> None:
    with pytest.raises(LimbeckError, match="permute-and-flip takes gamma, not sigma"):
        Privacy("L1", "permute-and-flip", sigma=3.0)
    with pytest.raises(LimbeckError, match="check and threshold are for confident-gaussian, not for permute-and-flip"):
        Privacy("L1", "permute-and-flip", gamma=3.0, check=1.0)


@pytest.mark.parametrize("name", ["permute-and-flap", "gaussian-sum", "unprotected"])
def test_a_mechanism_that_is_no_noisy_maximum_is_refused(name: str) -> None:
    with pytest.raises(LimbeckError, match=f"mechanism = '{name}': (did you mean|known:) "):
        Privacy("L1", name, gamma=0.1)
