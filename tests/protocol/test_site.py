"""The two ways out of a site: training and disclosing."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from limbeck.algorithms.centralized import PrivateRows
from limbeck.errors import LimbeckError
from limbeck.models.named import model_from
from limbeck.privacy.mechanisms import PostProcessing, Unprotected
from limbeck.protocol.disclosures import Disclosure, Facts, planned_releases
from limbeck.protocol.learning import FitError, J, Job
from limbeck.protocol.messages import Acknowledgement, InstallModel
from limbeck.protocol.release import Release
from limbeck.protocol.rows import PublicRows, Rows
from limbeck.protocol.site import Silo


class Recorder:
    """A trainer that hands back the seeds it was given."""

    description: ClassVar[dict[str, Any]] = {}

    def run(self, jobs: Sequence[Job[J]], classes: int, seeds: Sequence[int]) -> list[J]:
        return list(seeds)  # type: ignore[arg-type]


class Failing:
    description: ClassVar[dict[str, Any]] = {}

    def run(self, jobs: Sequence[Job[J]], classes: int, seeds: Sequence[int]) -> list[J]:
        raise FitError("svm cannot learn", 0)


def silo(party: int = 4, seed: int = 1) -> Silo:
    x = np.zeros((2, 3), np.float32)
    return Silo(
        party=party,
        private=Rows(x, np.zeros(2, int)),
        public=PublicRows(x),
        classes=2,
        model=model_from({"name": "naive-bayes"}),
        seed=seed,
        trainer=Recorder(),
        declare=lambda run: [
            Disclosure("party", "model", Unprotected(), "server", 7, times=2),
            Disclosure("party", "rows", Unprotected(), "server"),
            Disclosure("server", "labels", PostProcessing(), "public"),
        ],
    )


def test_a_release_writes_its_row() -> None:
    site = silo()
    site.begin(5)
    site.disclose("model", InstallModel(b""))
    assert site.ledger.rows == [
        Release(
            site="party 4",
            turn=5,
            number=0,
            what="model",
            mechanism="unprotected",
            parameters={},
            sensitivity=math.inf,
            unit="any",
            adjacency="any",
            observer="server",
            queries=7,
            classes=2,
            voters=None,
            abstentions=False,
            noise="simulated",
        )
    ]


def test_nothing_private_leaves_without_a_release() -> None:
    site = silo()
    released = site.disclose("model", InstallModel(b"a"))
    site.check_released(released)
    site.check_released(Acknowledgement())
    with pytest.raises(LimbeckError, match="party 4: InstallModel was about to leave without being disclosed"):
        site.check_released(InstallModel(b"a"))


@pytest.mark.parametrize("what", ["labels", "votes"])
def test_what_is_not_declared_for_a_site_cannot_leave(what: str) -> None:
    site = silo()
    with pytest.raises(LimbeckError, match=f"party 4: {what} was about to leave, but the algorithm does not declare"):
        site.disclose(what, InstallModel(b"a"))
    assert site.ledger.rows == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"observer": "everyone"}, "labels: observer = 'everyone': Input should be 'server', 'parties' or 'public'"),
        ({"origin": "partyy"}, "labels: origin = 'partyy': Input should be 'party' or 'server'"),
        ({"times": -3}, "labels: times = -3: Input should be greater than or equal to 0"),
    ],
)
def test_a_declaration_is_checked(wrong: dict[str, Any], message: str) -> None:
    declared: dict[str, Any] = {"origin": "party", "what": "labels", "mechanism": Unprotected(), "observer": "server"}
    with pytest.raises(LimbeckError, match=message):
        Disclosure(**{**declared, **wrong})


def test_two_disclosures_of_one_site_have_two_names() -> None:
    twice = [Disclosure("party", "labels", how, "server") for how in (PostProcessing(), Unprotected())]
    with pytest.raises(LimbeckError, match="the party's disclosures need different names: labels, labels"):
        planned_releases(lambda run: twice, Facts(10, 2, 3))


def test_nothing_leaves_more_often_than_declared() -> None:
    site = silo()
    for turn in range(2):
        site.begin(turn)
        site.disclose("model", InstallModel(b"a"))
    site.begin(2)
    with pytest.raises(LimbeckError, match="model is declared to leave 2 times, not more"):
        site.disclose("model", InstallModel(b"a"))
    assert len(site.ledger.rows) == 2


def test_what_was_released_cannot_be_changed_afterwards() -> None:
    site = silo()
    released = site.disclose("rows", PrivateRows(np.zeros(3), np.zeros(3)))
    with pytest.raises(ValueError, match="read-only"):
        released.x[:] = 1


def test_a_release_is_good_for_its_own_turn_only() -> None:
    site = silo()
    released = site.disclose("model", InstallModel(b"a"))
    site.begin(1)
    with pytest.raises(LimbeckError, match="without being disclosed"):
        site.check_released(released)


def test_seeds_depend_on_seed_party_and_turn_alone() -> None:
    def seeds(site: Silo, turn: int) -> list[int]:
        site.begin(turn)
        return site.train([None] * 3)  # type: ignore[list-item]

    busy = silo()
    seeds(busy, 0)
    assert seeds(busy, 1) == seeds(silo(), 1)
    different = [seeds(silo(), 0), seeds(silo(), 1), seeds(silo(party=5), 0), seeds(silo(seed=2), 0)]
    assert len({tuple(each) for each in different}) == 4


def test_a_failed_fit_names_the_party() -> None:
    site = silo()
    site.trainer = Failing()
    with pytest.raises(LimbeckError, match="party 4: svm cannot learn"):
        site.train([])


def test_an_installed_model_is_remembered() -> None:
    site = silo()
    assert site.installed is None
    assert site.install(b"onnx") == Acknowledgement()
    assert site.installed == b"onnx"
