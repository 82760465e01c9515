"""Relays add noisy sums: the server gets the same bits, and every party is still known by its number."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import limbeck as lb
from limbeck.algorithms.fedkt import Students, TrainStudents
from limbeck.algorithms.fedridge import FedRidge, Sums
from limbeck.checks import small_federation
from limbeck.data.sets import load
from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.sampling import grid_of
from limbeck.protocol.relays import Relayed, ThroughRelays, added_in_groups
from limbeck.protocol.rows import Rows

L2 = Privacy("L2", epsilon=8.0)
PARTIES = 11
DIGITS = load("digits")


def federation(algorithm: Any, noise: Any = "simulated") -> Federation:
    model = model_from({"name": "decision-tree"})
    return Federation(
        algorithm=algorithm,
        seed=3,
        classes=np.arange(10),
        private=[Rows(DIGITS.x[400:][n::PARTIES], DIGITS.y[400:][n::PARTIES]) for n in range(PARTIES)],
        models=[model] * PARTIES,
        server_model=model,
        public=Rows(DIGITS.x[:200], DIGITS.y[:200]),
        config={},
        noise=noise,
    )


def engine(algorithm: Any, silent: Any = (), noise: Any = "simulated") -> InProcess:
    trainer = PoolTrainer(1)
    return InProcess(algorithm, *federation(algorithm, noise).sites(trainer), trainer, silent)


def traces(ran: InProcess, relays: Any) -> dict[str, Any]:
    outcome = ran.run(relays)
    ledgers = [[replace(row) for row in site.ledger.rows] for site in (*ran.silos, ran.server)]
    missing = [(exchange.missing, exchange.up) for exchange in ran.traffic.exchanges]
    return {"outcome": outcome, "ledgers": ledgers, "missing": missing, "rejections": ran.rejections}


@pytest.mark.parametrize("relays", [(1,), (4,), (PARTIES,), (6, 2), (8, 4, 2, 1), (40,)])
@pytest.mark.parametrize("silent", [(), (2,), (0, 1, 2, 3)])
def test_the_server_gets_the_same_bits_and_the_same_ledger(relays: Any, silent: Any) -> None:
    """Also if a relay has nobody behind it, or all parties behind it are silent."""
    algorithm = FedRidge(privacy=L2)
    direct, through = traces(engine(algorithm, silent), ()), traces(engine(algorithm, silent), relays)
    assert through == direct
    assert through["missing"][0][0] == silent


@dataclass(frozen=True, slots=True)
class Amiss(FedRidge):
    """Party 4 sends what is no sum, and party 7 sums of another shape."""

    name: ClassVar[str] = "amiss"

    def answer(self, request: Any, silo: Any) -> Any:
        reply = FedRidge.answer(self, request, silo)
        if isinstance(reply, Sums) and silo.party in (4, 7):
            object.__setattr__(reply, "sums", reply.sums * np.nan if silo.party == 4 else reply.sums[1:])
        return reply


def test_a_relay_leaves_out_what_the_server_would_reject_and_names_the_party() -> None:
    direct, through = traces(engine(Amiss(privacy=L2)), ()), traces(engine(Amiss(privacy=L2)), (4, 2))
    assert through == direct
    first, second = through["rejections"]
    assert first == "request 0: party 4: sums is not finite"
    assert second.startswith("request 0: party 7: values of type float64 and shape")


def test_secure_noise_goes_through_relays() -> None:
    """Noise from the operating system: the sums of two runs differ, and each is on the grid."""
    ran = engine(FedRidge(privacy=L2), noise="secure")
    assert ran.run((4, 2)).model
    assert ran.traffic.exchanges[0].missing == ()


@given(
    st.integers(1, 30),
    st.floats(1e-3, 1e6),
    st.sampled_from([(1,), (3,), (6, 3), (12, 4, 2)]),
    st.integers(0, 2**32),
)
def test_sums_on_the_grid_are_exact_in_every_order(parties: int, sigma: float, levels: Any, seed: int) -> None:
    rng, step = np.random.default_rng(seed), grid_of(sigma)
    sums = [np.rint(rng.normal(scale=100 * sigma, size=(4, 2)) / step) * step for _ in range(parties)]
    relayed = [Relayed(Sums(each, np.empty((0, 0))), (party,)) for party, each in enumerate(sums)]
    for relays in levels:
        relayed = list(added_in_groups(relayed, lambda party, n=relays: party * n // parties))  # type: ignore[misc]
    whole = sum(np.rint(each / step).astype(np.int64).astype(object) for each in sums)  # in whole numbers
    found = relayed[0] if len(relayed) == 1 else next(added_in_groups(relayed, lambda party: 0))
    assert found.parties == tuple(range(parties))
    assert ((found.reply.sums / step).astype(np.int64) == whole).all()
    assert np.array_equal(found.reply.sums, np.sum(sums, axis=0))


@pytest.mark.parametrize(
    ("algorithm", "relays", "message"),
    [
        (FedRidge(), (2,), "relays: they would see sums, which is declared for the server only; use relays where each"),
        (FedRidge(privacy=Privacy("L1", epsilon=8.0)), (2,), "relays: they would see sums, which is declared for the"),
        (lb.FedVote(), (2,), "relays: they would see class counts, which is declared for the server only"),
        (lb.FedKT(privacy=L2), (2,), "relays: they would see students, which is declared for the server only"),
        (FedRidge(privacy=L2), (2, 0), r"relays = \(2, 0\): levels are whole numbers of at least 1"),
        (FedRidge(privacy=L2), (0,), "levels are whole numbers of at least 1"),
        (FedRidge(privacy=L2), (-1,), "levels are whole numbers of at least 1"),
        (FedRidge(privacy=L2), (2.0,), "levels are whole numbers of at least 1"),
        (FedRidge(privacy=L2), ("2",), "levels are whole numbers of at least 1"),
        (FedRidge(privacy=L2), 2, "levels are whole numbers of at least 1"),
        (FedRidge(privacy=L2), (3, 2), "relays: 3 relays cannot be divided equally among 2 above them"),
    ],
)
def test_relays_are_refused_before_anyone_trains_where_they_would_see_too_much(
    algorithm: Any, relays: Any, message: str
) -> None:
    trainer = PoolTrainer(1)
    ran = InProcess(algorithm, *small_federation(algorithm).sites(trainer), trainer)
    with pytest.raises(LimbeckError, match=message):
        ran.run(relays)
    assert not any(site.ledger.rows for site in (*ran.silos, ran.server))


def test_replies_that_are_no_sums_are_refused() -> None:
    ran = engine(lb.FedKT(privacy=L2))
    with pytest.raises(LimbeckError, match="relays: Students cannot be added; relays are for sums, such as fedridge"):
        ThroughRelays(ran, (2,), ()).ask(TrainStudents(), keep=lambda party, reply: None)
    with pytest.raises(LimbeckError, match="Students cannot be added"):
        Students(()).plus(Students(()))
    assert not ran.traffic.exchanges
