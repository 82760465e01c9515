"""A new mechanism is one class: here it is defined, protects labels, goes through a ledger, and is accounted for."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.privacy.accountants import best_epsilon, every_epsilon
from limbeck.privacy.budget import Budget
from limbeck.privacy.events import DpEvent
from limbeck.privacy.guarantees import epsilon_towards, guarantees
from limbeck.privacy.ledger import LedgerStore, read_ledger
from limbeck.privacy.losses import Loss, Pure
from limbeck.privacy.mechanisms import MECHANISMS, Laplace, Mechanism, mechanism_from
from limbeck.privacy.sampling import sampler_for
from limbeck.protocol.release import Asked, NoiseSource, Release, Unit, release_row
from limbeck.protocol.rows import Array
from limbeck.tables import Above0, Positive

DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class RandomizedResponse(Mechanism):
    """Each example's label is kept with probability e^gamma / (e^gamma + C - 1), or replaced by any other one."""

    gamma: Above0
    classes: Positive
    unit: Unit = "example"
    adjacency: str = "replace"
    name = "randomized-response"
    sensitivity = 1.0

    def protect(self, labels: Array, source: NoiseSource) -> Array:
        return sampler_for(source).gumbel_max(np.eye(self.classes, dtype=int)[labels], 1 / self.gamma)

    def loss(self, event: DpEvent) -> Loss:
        return Pure(self.gamma, parts=event.contributions)


MECHANISMS.pop(RandomizedResponse.name)  # for other tests, which go through all mechanisms of the package


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MECHANISMS, RandomizedResponse.name, RandomizedResponse)


def row(gamma: float = 0.5, queries: int = 1) -> Release:
    mechanism = RandomizedResponse(gamma, 3)
    return release_row("party 0", 1, 0, "labels", mechanism, "public", Asked(queries, 3))


@pytest.mark.parametrize("noise", ["simulated", "secure"])
def test_labels_are_unchanged_as_often_as_the_loss_states(noise: str) -> None:
    labels = np.repeat([0, 1, 2], 5000)
    published = RandomizedResponse(0.5, 3).protect(labels, NoiseSource(noise, 0, ("test",)))  # type: ignore[arg-type]
    probability = math.exp(0.5) / (math.exp(0.5) + 2)
    assert (published == labels).mean() == pytest.approx(probability, abs=0.02)
    other = (published[labels == 0] == 1).mean()
    assert math.log(probability / other) == pytest.approx(0.5, abs=0.1)


def test_accountants_compose_it() -> None:
    found = every_epsilon([DpEvent(RandomizedResponse(0.1, 3), 40)], DELTA)
    assert found["basic"] == pytest.approx(4.0)
    assert found["kov"] == pytest.approx(2.5054, abs=5e-5)  # of 40 queries of pure epsilon 0.1
    assert best_epsilon([DpEvent(RandomizedResponse(0.1, 3), 40)], DELTA) == (found["kov"], "kov")
    beside = [DpEvent(RandomizedResponse(0.1, 3), 1), DpEvent(Laplace(0.05, "example"), 1)]
    assert best_epsilon(beside, DELTA)[0] <= 0.2 + 1e-12
    person = every_epsilon([DpEvent(RandomizedResponse(0.1, 3), 1, rows=5)], DELTA)
    assert person["basic"] == pytest.approx(0.5)


def test_a_ledger_row_is_read_back_and_has_a_guarantee() -> None:
    mechanism = mechanism_from(row().mechanism, dict(row().parameters))
    assert mechanism == RandomizedResponse(0.5, 3)
    assert row().parameters == asdict(RandomizedResponse(0.5, 3))
    found = {(each.observer, each.unit, each.adjacency): each.epsilon for each in guarantees([row()], DELTA)}
    assert found["public", "example", "replace"] == best_epsilon([DpEvent(RandomizedResponse(0.5, 3), 1)], DELTA)[0]
    assert found["public", "party", "replace"] == found["public", "example", "add-remove"] == math.inf


def test_a_ledger_in_a_file_holds_it_to_a_budget(tmp_path: Path) -> None:
    ledger_store = LedgerStore(tmp_path / "l.sqlite", "run", Budget(0.6))
    source = NoiseSource("simulated", 0, ("test",))
    drawn = ledger_store.of("party 0").draw(
        row(), lambda: RandomizedResponse(0.5, 3).protect(np.array([0, 1, 2]), source)
    )
    assert len(drawn) == 3
    [(_, _, recorded)] = read_ledger(tmp_path / "l.sqlite")
    assert recorded == row()
    assert epsilon_towards("public", [recorded], DELTA) == pytest.approx(0.5, abs=1e-4)
    with pytest.raises(LimbeckError, match="would bring epsilon towards public to"):
        LedgerStore(tmp_path / "l.sqlite", "other", Budget(0.6)).of("party 0").write(row())


def test_parameters_have_the_ranges_that_their_fields_declare() -> None:
    with pytest.raises(LimbeckError, match=r"gamma = -1\.0: Input should be greater than 0"):
        RandomizedResponse(-1.0, 3)
    with pytest.raises(LimbeckError, match="other parameters"):
        mechanism_from("randomized-response", {"sigma": 1.0})


def test_every_mechanism_has_a_name_of_its_own() -> None:
    with pytest.raises(LimbeckError, match="another mechanism with the name 'laplace'"):
        type("Mine", (Mechanism,), {"name": "laplace"})
    with pytest.raises(LimbeckError, match="Mine needs a name of its own, not 'laplace'"):
        type("Mine", (Laplace,), {})
    assert MECHANISMS["laplace"] is Laplace
