"""check_algorithm finds what it is there to find."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.solo import Solo
from limbeck.checks import AlgorithmError, check_algorithm
from limbeck.errors import LimbeckError
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.parties import Outcome, Parties
from limbeck.protocol.site import Silo, Site


def test_hidden_state() -> None:
    @dataclass
    class Thawed:
        name = "thawed"

    with pytest.raises(AlgorithmError, match="frozen"):
        check_algorithm(Thawed())  # type: ignore[arg-type]


def test_chance_of_its_own() -> None:
    @dataclass(frozen=True, slots=True)
    class Moody(FedKT):
        def answer(self, request: Request[Any], silo: Silo) -> Reply:
            silo.rng = np.random.default_rng()
            return super(Moody, self).answer(request, silo)

    with pytest.raises(AlgorithmError, match="the same seed gives the same result"):
        check_algorithm(Moody())


def test_silence_taken_for_success() -> None:
    @dataclass(frozen=True, slots=True)
    class Deaf(Solo):
        def lead(self, parties: Parties, site: Site) -> Outcome:
            from limbeck.algorithms.solo import TrainAlone

            parties.ask(TrainAlone())
            return Outcome()

    with pytest.raises(AlgorithmError, match="when nobody answers"):
        check_algorithm(Deaf())


def test_a_release_left_out() -> None:
    @dataclass(frozen=True, slots=True)
    class Leaky(FedKT):
        def answer(self, request: Request[Any], silo: Silo) -> Reply:
            reply = super(Leaky, self).answer(request, silo)
            silo.begin(silo.turn)
            return reply

    with pytest.raises(LimbeckError, match="without a release"):
        check_algorithm(Leaky())
