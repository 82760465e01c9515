"""What engines share, and what a fresh process adds."""

import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from limbeck.algorithms.centralized import Centralized, PrivateRows
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.fedvote import FedVote, VoteRequest, Votes
from limbeck.algorithms.solo import Solo
from limbeck.checks import small_federation
from limbeck.engines import in_process
from limbeck.engines.engine import Engine
from limbeck.engines.fork_server import ForkServer
from limbeck.engines.fresh_process import FreshProcess
from limbeck.engines.in_process import InProcess, ThroughBytes
from limbeck.errors import LimbeckError
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header, encode
from limbeck.protocol.messages import InstallModel
from limbeck.protocol.rows import PublicRows
from limbeck.protocol.site import Silo, Site
from misbehaving import Careless, Garbled, Leaky, Strange

Make = Callable[[Algorithm, Site, list[Silo]], Engine]


@pytest.fixture(params=["in-process", "through-bytes", "fresh-process"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Every engine behind one call."""
    if request.param == "fresh-process":
        return lambda algorithm, server, silos: FreshProcess(algorithm, server, silos, tmp_path)
    kind = InProcess if request.param == "in-process" else ThroughBytes
    return lambda algorithm, server, silos: kind(algorithm, server, silos, PoolTrainer(1))


def sites(algorithm: Algorithm) -> tuple[Site, list[Silo]]:
    return small_federation(algorithm).sites(PoolTrainer(1))


def test_the_bytes_of_every_message_are_counted(make: Make) -> None:
    algorithm = Centralized()
    server, silos = sites(algorithm)
    engine = make(algorithm, server, silos)
    outcome = engine.run()
    sent, installed = engine.traffic.exchanges
    assert (sent.request, installed.request) == ("SendRows", "InstallModel")
    assert outcome.model is not None
    size = len(encode(InstallModel(outcome.model), Header(1, server.public.hash)))
    assert installed.down == dict.fromkeys(range(3), size)
    assert all(up > silo.private.x.nbytes / 4 for up, silo in zip(sent.up.values(), silos, strict=True))
    assert engine.traffic.up() == sum(engine.traffic.up(party) for party in range(3))
    assert engine.traffic.rounds == 1


def test_a_party_with_other_public_rows_refuses(make: Make) -> None:
    algorithm = FedKT()
    server, silos = sites(algorithm)
    silos[1].public = PublicRows(silos[1].public.x + 1)
    with pytest.raises(LimbeckError, match="party 1 has other public rows"):
        make(algorithm, server, silos).run()


def test_an_invalid_reply_counts_as_silence(make: Make, tests_on_path: None) -> None:
    algorithm = Garbled()
    engine = make(algorithm, *sites(algorithm))
    assert engine.run().model is not None
    assert engine.rejections == ["request 0: party 1: values from 99 to 99, outside of 0 to 2"]
    assert engine.traffic.missing == (1,)


def test_an_error_in_the_checks_of_a_reply_is_the_partys(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end the run of all parties otherwise."""
    algorithm = Centralized()
    server, silos = sites(algorithm)

    def check(reply: PrivateRows, *_: object) -> None:
        if np.array_equal(reply.x, silos[1].private.x):
            raise ZeroDivisionError("of\nthis reply")

    monkeypatch.setattr(PrivateRows, "check", check)
    engine = InProcess(algorithm, server, silos, PoolTrainer(1))
    engine.run()
    assert engine.rejections == ["request 0: party 1: ZeroDivisionError: of this reply"]


@pytest.mark.parametrize("sent", ["none", "list", "text", "objects"])
def test_a_reply_that_is_no_message_counts_as_silence(make: Make, sent: str, tests_on_path: None) -> None:
    algorithm = Strange(sent=sent)
    engine = make(algorithm, *sites(algorithm))
    assert engine.run().model is not None
    assert engine.traffic.missing == (1,)
    [rejection] = engine.rejections
    assert rejection.startswith("request 0: party 1: ")


@pytest.mark.parametrize(("algorithm", "site"), [(Leaky(), "party 0"), (Careless(), "server")])
def test_what_was_not_released_does_not_leave(algorithm: Algorithm, site: str) -> None:
    server, silos = sites(algorithm)
    with pytest.raises(LimbeckError, match=rf"{site}: \w+ was about to leave without being disclosed"):
        InProcess(algorithm, server, silos, PoolTrainer(1)).run()


def test_public_labels_stay_away_from_algorithms_that_do_not_need_them() -> None:
    server, silos = sites(FedKT())
    assert server.public.y is None
    assert all(silo.public.y is None for silo in silos)


def test_a_killed_party_is_missing_and_the_rest_go_on(tmp_path: Path, tests_on_path: None) -> None:
    """The child of party 2 is really killed, in the middle of its first fit."""
    algorithm = FedKT()
    server, silos = sites(algorithm)
    silos[2].model = model_from({"name": "python:factories:deadly"})
    engine = FreshProcess(algorithm, server, silos, tmp_path)
    outcome = engine.run()
    assert outcome.model is not None
    assert engine.traffic.missing == (2,)
    assert silos[2].ledger.rows == []
    assert silos[0].installed == outcome.model


def test_a_party_remembers_between_processes(tmp_path: Path) -> None:
    algorithm = Solo()
    server, silos = sites(algorithm)
    silos[0].memory["note"] = np.arange(3)
    FreshProcess(algorithm, server, silos, tmp_path).run()
    assert np.array_equal(silos[0].memory["note"], np.arange(3))
    assert silos[0].installed is not None


def test_a_failing_fit_names_its_party(make: Make, tests_on_path: None) -> None:
    algorithm = Solo()
    server, silos = sites(algorithm)
    silos[1].model = model_from({"name": "python:factories:small_tree", "depth": -1})
    with pytest.raises(LimbeckError, match="party 1: cannot fit python:factories:small_tree to"):
        make(algorithm, server, silos).run()


@pytest.mark.slow
def test_a_fork_server_that_died_while_idle_silences_no_party(tmp_path: Path) -> None:
    """The process that children are forked off is really killed between two runs."""
    for name in ("first", "second"):
        algorithm = Solo()
        server, silos = sites(algorithm)
        engine = FreshProcess(algorithm, server, silos, tmp_path / name)
        engine.run()
        assert engine.traffic.missing == ()
        for server_process in ForkServer.idle:
            server_process.process.kill()
            server_process.process.wait()


@pytest.mark.parametrize("algorithm", [FedKT(), FedVote(), FedRidge(), FedVote(consensus="median"), Solo()])
@pytest.mark.parametrize("kind", [InProcess, ThroughBytes])
def test_results_do_not_depend_on_how_many_parties_answer_at_once(
    algorithm: Algorithm, kind: type[InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for at_once in (1, 2, 256):
        monkeypatch.setattr(in_process, "MAX_PARTIES", at_once)
        ran = kind(algorithm, *sites(algorithm), PoolTrainer(1), silent=[1])
        model = ran.run().model
        ledgers = [site.ledger.rows for site in (*ran.silos, ran.server)]
        found.append((model, [silo.installed for silo in ran.silos], ledgers, ran.traffic.missing))
    assert found[0] == found[1] == found[2]


def test_replies_are_handed_over_one_by_one_and_then_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "MAX_PARTIES", 1)
    algorithm = FedVote()
    engine = InProcess(algorithm, *sites(algorithm), PoolTrainer(1))
    seen: list[tuple[int, int]] = []
    alive: list[weakref.ref[object]] = []

    def keep(party: int, reply: Votes) -> int:
        alive.append(weakref.ref(reply.votes))
        seen.append((party, sum(each() is not None for each in alive)))
        return int(reply.counts.sum())

    replies = engine.ask(VoteRequest(), keep=keep)
    assert [party for party, _ in seen] == [0, 1, 2]
    assert max(there for _, there in seen) <= 2, "one in the hands of the server, and one that has just come"
    assert replies.by_party == {silo.party: len(silo.private) for silo in engine.silos}
