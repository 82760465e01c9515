"""FedMD and its private variants: identities, any kind of model, silence, invalid replies, and what is released."""

import sqlite3
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from limbeck.algorithms.centralized import SendRows
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedmd_private import FedMDLDP, FedMDNFDP, FedMDNP
from limbeck.algorithms.local_training import hold_out
from limbeck.algorithms.scoring import EvaluateRequest, Initialize, ScoreRequest, Scores, TrainLocally
from limbeck.algorithms.solo import Solo
from limbeck.checks import small_federation
from limbeck.data.draw import Draw, draw_parts
from limbeck.data.sets import load
from limbeck.data.splits import Iid
from limbeck.engines.engine import Engine
from limbeck.engines.fresh_process import FreshProcess
from limbeck.engines.in_process import InProcess, ThroughBytes
from limbeck.engines.respond import respond
from limbeck.errors import LimbeckError
from limbeck.experiments.clock import Clock
from limbeck.experiments.federation import Federation
from limbeck.experiments.run import run_file
from limbeck.knowledge.scores import alignment_rows
from limbeck.models.caching import CachingTrainer
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.ledger import LedgerStore
from limbeck.privacy.mechanisms import ClippedGaussian, Subsample
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.messages import Reply
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.release import NoiseSource, Release
from limbeck.protocol.rows import Array, PublicRows
from limbeck.protocol.site import Silo
from limbeck.protocol.streams import stream
from limbeck.report.statement import statement

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK: dict[str, Any] = {
    "rounds": 3,
    "alignment": 20,
    "pretrain": Recipe(epochs=2, batch=16),
    "fine_tune": Recipe(epochs=2, batch=8),
    "digest": Recipe(epochs=1, batch=8),
    "revisit": Recipe(epochs=1, batch=8),
}
NETWORKS: list[dict[str, Any]] = [
    {"name": "python:factories:tiny_network", "recipe": {"epochs": 1}},
    {"name": "python:factories:tiny_network", "width": 5, "recipe": {"epochs": 1}},
    {"name": "decision-tree", "max_depth": 3},
]


def federation(algorithm: Algorithm, models: Any = NETWORKS, task: Any = "multiclass") -> Federation:
    server = model_from(NETWORKS[0])
    return replace(small_federation(algorithm, task=task), models=[model_from(m) for m in models], server_model=server)


def engine(algorithm: Algorithm, kind: type[InProcess] = InProcess, models: Any = NETWORKS, **how: Any) -> InProcess:
    trainer = PoolTrainer(1)
    return kind(algorithm, *federation(algorithm, models).sites(trainer), trainer, **how)


def planned(algorithm: Algorithm, classes: int = 4) -> list[Release]:
    """What one party will release."""
    return planned_releases(algorithm.disclosures, Facts(100, classes, 1), [40])


def models_of(ran: Engine) -> list[bytes | None]:
    ran.run()
    return [silo.installed for silo in ran.silos]


@pytest.mark.parametrize("score_format", ["logits", "softmax", "argmax", "none"])
def test_networks_and_trees_end_the_same_under_every_engine(
    score_format: Any, tmp_path: Path, tests_on_path: None
) -> None:
    algorithm = FedMD(score_format=score_format, **QUICK)
    plain = models_of(engine(algorithm))
    assert len(set(plain)) == 3
    assert models_of(engine(algorithm)) == plain
    assert models_of(engine(algorithm, ThroughBytes)) == plain
    if score_format == "logits":
        once = replace(algorithm, rounds=1)
        fresh = FreshProcess(once, *federation(once).sites(PoolTrainer(1)), tmp_path)
        assert models_of(fresh) == models_of(engine(once))


def test_all_rows_once_are_no_privacy() -> None:
    """NFDP with k = n without replacement is FedMD-NP."""
    sampled = FedMDNFDP(sampled=1.0, replacement=False, **QUICK)
    assert models_of(engine(sampled)) == models_of(engine(FedMDNP(**QUICK)))


def test_no_noise_and_no_clipping_is_fedmd() -> None:
    assert models_of(engine(FedMDLDP(sigma=0.0, **QUICK))) == models_of(engine(FedMD(**QUICK)))


def test_a_subset_is_drawn_once_and_is_all_that_is_touched() -> None:
    """Rows outside the subset may be anything: nothing changes."""
    algorithm = FedMDNFDP(sampled=12, weights="accuracy", **QUICK)
    first = engine(algorithm)
    plain = models_of(first)
    subsets = [np.asarray(silo.memory["fedmd.subset"]) for silo in first.silos]
    assert all(len(subset) == 12 for subset in subsets)
    other = engine(algorithm)
    for silo, subset in zip(other.silos, subsets, strict=True):
        outside = np.setdiff1d(np.arange(len(silo.private)), subset)
        x = silo.private.x.copy()
        x[outside] += 100
        silo.private = replace(silo.private, x=x)
    assert models_of(other) == plain
    for silo in first.silos:
        drawn = [row for row in silo.ledger.rows if row.mechanism == "subsample"]
        assert [row.parameters["rows"] for row in drawn] == [12]
        assert all(row.mechanism in ("subsample", "post-processing") for row in silo.ledger.rows)


def test_the_record_of_a_subset_has_its_theorem() -> None:
    """(k ln((n+1)/n), 1 - (1 - 1/n)^k) for the smallest party, n = 25 of 75 rows, k = 12."""
    algorithm = FedMDNFDP(sampled=12, **QUICK)
    record = federation(algorithm).run(PoolTrainer(1)).record
    count = min(party.rows or 0 for party in record.parties)
    assert record.delta == pytest.approx(1 - (1 - 1 / count) ** 12)
    assert record.epsilon["public"] == pytest.approx(12 * np.log((count + 1) / count))
    assert record.epsilon["server"] == record.epsilon["public"]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("rows", "of"), [(18, 300), (60, 300), (1, 1), (30, 30)])
def test_the_exact_curve_of_a_subset_is_flat(rows: int, of: int, replacement: bool) -> None:
    """Whoever sees the subset tells a removed row that was in it for sure, at every epsilon."""
    sample = Subsample(rows, of, replacement)
    epsilon, delta = sample.guarantee()
    assert [sample.curve(e) for e in (0.0, 0.1, epsilon, 5.0)] == pytest.approx([delta] * 4)


def test_noise_is_calibrated_over_all_rounds_and_rows() -> None:
    algorithm = FedMDLDP(epsilon=4.0, delta=1e-4, **QUICK)
    record = federation(algorithm).run(PoolTrainer(1)).record
    assert 0.99 * 4 < record.epsilon["public"] <= 4
    noisy = [row for row in record.ledger if row["mechanism"] == "clipped-gaussian"]
    assert len(noisy) == 3 * 3
    assert sum(row["queries"] for row in noisy if row["site"] == "party 0") == 3 * 20
    assert all(row["observer"] == "public" for row in noisy)
    assert record.epsilon["server"] == record.epsilon["public"]


def test_the_scale_of_the_noise_is_that_of_the_exact_gaussian() -> None:
    """One Gaussian of sensitivity 2 B sqrt(C T): Balle & Wang 2018, Theorem 8, solved here by bisection."""
    from scipy.stats import norm

    [row] = planned(FedMDLDP(epsilon=2.0, delta=1e-5, rounds=4, alignment=25), classes=3)
    sensitivity = 2 * 10.0 * np.sqrt(3 * 4 * 25)

    def delta(sigma: float) -> float:
        half, ratio = sensitivity / (2 * sigma), 2.0 * sigma / sensitivity
        return float(norm.cdf(half - ratio) - np.exp(2.0) * norm.cdf(-half - ratio))

    low, high = 1.0, 1e7
    for _ in range(200):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if delta(middle) > 1e-5 else (low, middle)
    assert row.parameters["sigma"] == pytest.approx(high, rel=2e-3)


def test_silent_for_two_rounds_and_gone_for_good(tmp_path: Path, tests_on_path: None) -> None:
    """Two parties' processes are really killed: one is back for the last round, one never."""
    wakings = {1: [2, 3, 4, 5], 2: list(range(2, 40))}
    models = [NETWORKS[2]]
    for party, silent in wakings.items():
        models.append(
            {"name": "python:crashing_model:crashing_model", "journal": str(tmp_path / f"{party}"), "silent": silent}
        )
    algorithm = FedMD(**QUICK)
    parties = federation(algorithm, models)
    for party in wakings:
        (tmp_path / str(party)).write_bytes(b"")
    ran = FreshProcess(algorithm, *parties.sites(PoolTrainer(1)), tmp_path / "sites")
    record = parties.finish(ran, Clock()).record
    missing = [exchange["missing"] for exchange in record.exchanges]
    assert missing == [(), (1, 2), (1, 2), (1, 2), (1, 2), (2,), (2,)]
    assert record.missing == (1, 2)
    accuracies = [point["accuracy"] for point in record.curve]
    assert len({accuracy[2] for accuracy in accuracies}) == 1
    assert ran.silos[1].memory["labels"].tolist() != ran.silos[2].memory["labels"].tolist()  # type: ignore[union-attr]


def test_a_party_that_missed_the_start_starts_when_it_is_back() -> None:
    ran = engine(FedMD(**QUICK), silent=[1])
    ran.watch = lambda now: setattr(now, "silent", frozenset())
    assert None not in models_of(ran)
    assert [exchange.missing for exchange in ran.traffic.exchanges][:2] == [(1,), ()]


@pytest.mark.parametrize("score_format", ["logits", "softmax", "argmax"])
def test_scores_that_are_not_finite_are_rejected_and_the_record_reports_it(
    score_format: Any, tests_on_path: None
) -> None:
    models = [NETWORKS[0], {"name": "python:factories:speechless", "recipe": {"epochs": 1}}, NETWORKS[2]]
    algorithm = FedMD(score_format=score_format, **QUICK)
    parties = federation(algorithm, models)
    ran = engine(algorithm, models=models)
    record = parties.finish(ran, Clock()).record
    reason = "values from 3 to 3, outside of 0 to 2" if score_format == "argmax" else "values is not finite"
    assert list(record.remarks) == [f"request {n}: party 1: {reason}" for n in (1, 3, 5)]
    assert record.missing == (1,)
    assert record.parties[0].metrics is not None
    with pytest.raises(LimbeckError, match=f"0 of 3 parties sent a valid reply, at least 1 must .party 0: {reason}"):
        engine(algorithm, models=[models[1]] * 3).run()


def test_a_pretrained_network_is_handed_to_networks_alone(tests_on_path: None) -> None:
    algorithm = FedMD(start="pretrained", **QUICK)
    ran = engine(algorithm, models=[NETWORKS[0]] * 3)
    assert None not in models_of(ran)
    handed = [row for row in ran.server.ledger.rows if row.what == "initialization"]
    assert [row.mechanism for row in handed] == ["post-processing"]
    with pytest.raises(LimbeckError, match="fedmd sends weights, but party 1 has another network"):
        federation(algorithm)
    silo = engine(FedMD(**QUICK)).silos[2]  # elsewhere, a party's model is its own affair until it is asked
    with pytest.raises(LimbeckError, match='party 2 has a decision-tree: start = "pretrained" needs'):
        algorithm.answer(Initialize(b"weights"), silo)


def test_without_labels_no_public_start() -> None:
    unlabelled = replace(federation(FedMD(start="none", **QUICK)), public_is_labelled=False)
    assert unlabelled.run(PoolTrainer(1)).record.rounds == 3
    with pytest.raises(LimbeckError, match="fedmd needs labelled public rows"):
        replace(unlabelled, algorithm=FedMD(**QUICK))


@pytest.mark.parametrize(
    ("settings", "record"),
    [
        ({"rounds": -1}, "rounds = -1: Input should be greater than or equal to 0"),
        ({"alignment": 0}, "alignment = 0: Input should be greater than or equal to 1"),
        ({"weights": [0.0, 0.0]}, "weights must be finite, not negative"),
        ({"weights": [1.0, -1.0]}, "weights must be finite, not negative"),
        ({"weights": [1.0, float("inf")]}, "weights must be finite, not negative"),
        ({"trimmed": 0.3}, 'trimmed is for consensus = "trimmed"'),
        ({"trimmed": 0.3, "consensus": "median"}, 'trimmed is for consensus = "trimmed"'),
    ],
)
def test_wrong_settings(settings: dict[str, Any], record: str) -> None:
    with pytest.raises(LimbeckError, match=record):
        FedMD(**settings)


def test_wrong_privacy_settings() -> None:
    with pytest.raises(LimbeckError, match="sampled = 0: Input should be greater than or equal to 1"):
        FedMDNFDP(sampled=0)
    with pytest.raises(LimbeckError, match="population = 5 is below sampled = 6"):
        FedMDNFDP(sampled=6, replacement=False, population=5)
    with pytest.raises(LimbeckError, match=r"algorithm\.population is missing"):
        replace(federation(FedMDNFDP()), noise="secure").run(PoolTrainer(1))
    for wrong in ({"score_format": "argmax"}, {"weights": "accuracy"}):
        with pytest.raises(LimbeckError, match="fedmd-ldp protects scores"):
            FedMDLDP(**wrong)  # type: ignore[arg-type]
    with pytest.raises(LimbeckError, match="bound = inf: Input should be a finite number"):
        FedMDLDP(bound=float("inf"))
    for epsilon in (0.0, float("nan"), float("inf")):
        with pytest.raises(LimbeckError, match=f"epsilon = {epsilon}: Input should be"):
            FedMDLDP(epsilon=epsilon)
    with pytest.raises(LimbeckError, match=r"delta = 1\.0: Input should be less than 1"):
        FedMDLDP(delta=1.0)
    with pytest.raises(LimbeckError, match=r"algorithm\.weights has 2 entries for 3 parties"):
        engine(FedMD(weights=[1.0, 2.0], **QUICK)).run()


@pytest.mark.parametrize(("population", "replacement"), [(None, True), (None, False), (30, True)])
def test_more_draws_than_make_sense_are_refused(population: int | None, replacement: bool) -> None:
    """They took all memory, or all time."""
    algorithm = FedMDNFDP(sampled=10**6, population=population, replacement=replacement, **QUICK)
    line = r"^algorithm\.sampled: 1000000 draws from \d+ rows are too many; use at most 10000$"
    with pytest.raises(LimbeckError, match=line):
        federation(algorithm).run(PoolTrainer(1))
    for wrong in ({"sampled": 10**11}, {"population": 10**11}):
        with pytest.raises(LimbeckError, match="= 100000000000: Input should be less than or equal to 100000000"):
            FedMDNFDP(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("sampled", "population", "replacement"), [(5, 100, True), (40, None, False), (40, 50, False)])
def test_a_party_with_fewer_rows_than_are_drawn_takes_part(
    sampled: int, population: int | None, replacement: bool
) -> None:
    """Places are drawn, empty ones too: delta is that of the agreed number, whoever has fewer rows."""
    ran = engine(FedMDNFDP(sampled=sampled, population=population, replacement=replacement, **QUICK))
    ran.run()
    for silo in ran.silos:
        assert silo.ledger.rows[0].parameters["of"] == (population or 40)
        assert (cast(Any, silo.memory["fedmd.subset"]) < len(silo.private)).all()


def test_a_subset_of_empty_places_is_measured_too() -> None:
    ran = engine(FedMDNFDP(sampled=1, population=10**6, weights="accuracy", **QUICK))
    ran.run()
    assert any(not len(silo.memory["fedmd.subset"]) for silo in ran.silos)
    assert all(silo.installed for silo in ran.silos)


@pytest.mark.parametrize("request_", [EvaluateRequest(), TrainLocally(), SendRows()], ids=lambda r: type(r).__name__)
def test_a_request_that_the_schedule_does_not_make_costs_nothing(request_: Any) -> None:
    """Each would draw another subset of the rows, and pay for it."""
    silo = engine(FedMDNFDP(sampled=5, **QUICK)).silos[0]
    with pytest.raises(LimbeckError, match="the algorithm does not answer"):
        respond(FedMDNFDP(sampled=5, **QUICK), request_, Header(0, silo.public.hash), silo)
    assert silo.ledger.rows == []
    assert silo.memory == {}


def test_weights_by_accuracy_come_from_rows_held_out_and_stand_in_the_ledger() -> None:
    ran = engine(FedMD(weights="accuracy", **QUICK))
    ran.run()
    for silo in ran.silos:
        assert [row.what for row in silo.ledger.rows].count("accuracy") == 1
        assert len(silo.memory["held-out"]) == round(0.2 * len(silo.private))


def test_alignment_rows_are_stratified() -> None:
    y, rng = np.repeat([0, 1, 2], [60, 30, 10]), np.random.default_rng(0)
    rows = alignment_rows(100, y, 20, rng)
    assert np.bincount(y[rows]).tolist() == [12, 6, 2]
    assert len(set(rows.tolist())) == 20
    assert not np.array_equal(alignment_rows(100, y, 20, rng), rows)
    assert len(alignment_rows(100, y, 1000, rng)) == 100


def test_labels_take_less_than_a_tenth_of_the_bytes_of_logits() -> None:
    """16 classes, as letters beside digits: 64 bytes a row against one, before compression."""
    ups = {}
    for score_format in ("logits", "argmax"):
        ran = engine(FedMD(score_format=score_format, **{**QUICK, "alignment": 1800}), models=[NETWORKS[0]] * 3)
        rng = np.random.default_rng(0)
        public = PublicRows(rng.random((1800, 4), dtype=np.float32), rng.integers(0, 16, 1800))
        for site in (ran.server, *ran.silos):
            site.public, site.classes = public, 16
        ran.run()
        ups[score_format] = sum(ran.traffic.up(party) for party in range(3))
    assert ups["argmax"] < ups["logits"] / 10


@pytest.mark.slow
def test_every_kind_of_model_gains_and_more_than_by_training_on_alone() -> None:
    """Two networks, a forest, XGBoost and a linear model, each with 40 images; mean over 5 seeds."""
    gains = {score_format: _gains(f"algorithm.score_format={score_format}") for score_format in ("softmax", "none")}
    assert (gains["softmax"] > 0.05).all()
    assert (gains["softmax"] > gains["none"] + 0.05).all()


@pytest.mark.slow
def test_weak_parties_count_less_by_accuracy() -> None:
    """FedMD's remark 3, mean over 3 seeds: good networks among five weak ones."""
    reached = {}
    for weights in ("equal", "accuracy"):
        settings = [f"algorithm.weights={weights}"]
        runs = [run_file(EXAMPLES / "fedmd_weaklings.toml", [f"seed={s}", *settings]).record for s in range(3)]
        reached[weights] = np.mean([run.curve[-1]["accuracy"] for run in runs], axis=0)
    assert reached["accuracy"][:3].mean() > reached["equal"][:3].mean() + 0.05
    assert reached["accuracy"].mean() > reached["equal"].mean()


def _gains(*settings: str) -> Any:
    runs = [run_file(EXAMPLES / "fedmd_any_model.toml", [f"seed={seed}", *settings]).record for seed in range(5)]
    return np.mean([np.subtract(run.curve[-1]["accuracy"], run.curve[0]["accuracy"]) for run in runs], axis=0)


def test_the_models_that_are_scored_are_those_of_the_parties() -> None:
    algorithm = FedMD(**QUICK)
    result = federation(algorithm).run(PoolTrainer(1))
    assert [point["exchange"] for point in result.record.curve] == [0, 2, 4, 6]
    test = small_federation(algorithm).test
    assert test is not None
    for party, model in result.models.items():
        hit = PackedModel(model.packed.data).vote(test.x) == test.y
        assert result.record.curve[-1]["accuracy"][party] == pytest.approx(hit.mean())


class AsOnAGPU(PoolTrainer):
    description: ClassVar[dict[str, Any]] = {"device": "cuda"}


def test_networks_that_are_asked_where_they_are_trained_score_as_packed_ones_do(tests_on_path: None) -> None:
    algorithm = FedMD(**QUICK)
    packed, asked = (federation(algorithm).run(kind(1)).record.curve for kind in (PoolTrainer, AsOnAGPU))
    assert asked == packed
    assert len(asked) == 4


def test_the_pooled_bound_uses_everybodys_rows() -> None:
    parties = federation(FedMD(**{**QUICK, "fine_tune": Recipe(epochs=40, batch=8)}))
    bounds = parties.bounds(PoolTrainer(1))
    assert list(bounds) == ["pooled"]
    assert all(accuracy is not None and accuracy > 0.6 for accuracy in bounds["pooled"])
    shared = CachingTrainer(PoolTrainer(1))
    parties.run(shared)
    known = len(shared.cache)
    assert parties.bounds(shared) == bounds
    pooled_alone = CachingTrainer(PoolTrainer(1))
    parties.bounds(pooled_alone)
    assert len(shared.cache) - known == len(pooled_alone.cache) - 4  # two networks' first weights and public starts
    alone = replace(parties, algorithm=Solo())
    with pytest.raises(LimbeckError, match="solo has no upper bound"):
        alone.bounds(PoolTrainer(1))


def test_which_rows_were_drawn_is_written_down_nowhere_and_a_retry_is_paid_for(tmp_path: Path) -> None:
    """A kept ledger after a kill: the same run again draws another subset, so that its delta adds up."""
    algorithm = FedMDNFDP(sampled=5, population=20, **{**QUICK, "rounds": 1})
    deltas = []
    for _ in range(2):
        ledger_store = LedgerStore(tmp_path / "ledger.sqlite", "run")
        parties = replace(federation(algorithm), noise="secure", ledger_store=ledger_store)
        deltas.append(parties.run(PoolTrainer(1)).record.delta)
        rows = [row for row in ledger_store.releases() if row.mechanism == "subsample"]
        ledger_store.close()
    assert len(rows) == 2 * 3
    assert deltas[1] == pytest.approx(2 * deltas[0])
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        assert {drawn for (drawn,) in connection.execute("SELECT drawn FROM entries")} == {None}


@pytest.mark.parametrize(
    "wrong",
    [
        {"score_format": "foo"},
        {"weights": "foo"},
        {"weights": ["a"]},
        {"rounds": 1.5},
        {"start": "foo"},
        {"alignment": 2.5},
    ],
    ids=str,
)
def test_values_of_other_types_are_refused_in_python_too(wrong: dict[str, Any]) -> None:
    with pytest.raises(LimbeckError, match=next(iter(wrong))):
        FedMD(**wrong)


def test_noise_takes_sigma_or_epsilon() -> None:
    with pytest.raises(LimbeckError, match="takes sigma or epsilon, not both"):
        FedMDLDP(sigma=1.0, epsilon=3.0)
    with pytest.raises(LimbeckError, match="sigma = inf: Input should be a finite number"):
        FedMDLDP(sigma=float("inf"))
    assert FedMDLDP().effective_delta == 1e-5
    assert FedMDLDP(sigma=0.0).effective_delta == 0
    assert FedMDLDP(score_format="none").is_private, "also where nothing is exchanged a failing training must not show"


def test_a_row_that_was_drawn_twice_is_held_out_twice() -> None:
    ran = engine(FedMDNFDP(sampled=30, weights="accuracy", **QUICK))
    ran.run()
    for silo in ran.silos:
        assert isinstance(ran.algorithm, FedMDNFDP)
        own = silo.private[hold_out(silo, ran.algorithm.training_rows(silo))]
        held = {silo.private.x[row].tobytes() for row in silo.memory["held-out"]}
        assert not held & {row.tobytes() for row in own.x}
        assert len(own) > 0


def test_one_row_is_learned_from_and_measured_on() -> None:
    ran = engine(FedMDNFDP(sampled=1, weights="accuracy", **QUICK))
    assert None not in models_of(ran)


def test_when_all_that_count_are_silent_the_others_count_alike() -> None:
    first, ran = (engine(FedMD(weights=weights, **QUICK), silent=[0]) for weights in ("equal", [1.0, 0.0, 0.0]))
    assert models_of(ran) == models_of(first)


def test_nothing_but_numbers_gets_noise() -> None:
    """NaN would pass a clip, and tell of itself."""
    values = np.array([[np.nan, np.inf, -np.inf, 1.0]])
    for noise in ("simulated", "secure"):
        record = ClippedGaussian(10.0, 1e-6, 4).protect(values, NoiseSource(noise, 0, ("test",)))
        assert record[0] == pytest.approx([0.0, 10.0, -10.0, 1.0], abs=1e-4)


def test_probabilities_are_noised_within_their_own_range() -> None:
    [logits] = planned(FedMDLDP(epsilon=5.0, **QUICK))
    [softmax] = planned(FedMDLDP(epsilon=5.0, score_format="softmax", **QUICK))
    assert softmax.parameters["bound"] == 0.5
    assert softmax.parameters["sigma"] == pytest.approx(logits.parameters["sigma"] / 20, rel=1e-2)


def test_all_rows_drawn_is_no_guarantee() -> None:
    record = federation(FedMDNFDP(sampled=1.0, replacement=False, **QUICK)).run(PoolTrainer(1)).record
    assert record.delta == 1
    assert record.epsilon["public"] == np.inf


def test_bounds_are_for_simulations() -> None:
    with pytest.raises(LimbeckError, match="bounds = true pools all private rows"):
        replace(federation(FedMD(**QUICK)), noise="secure").bounds(PoolTrainer(1))
    with pytest.raises(LimbeckError, match='there is no bound for start = "pretrained"'):
        federation(FedMD(start="pretrained", **QUICK), [NETWORKS[0]] * 3).bounds(PoolTrainer(1))


def test_a_share_of_the_rows_reveals_nothing_about_a_row_more_or_less() -> None:
    """Of 30 rows a half is 15, of 31 it is 16: whoever sees the subset knows how many rows there were."""
    for sampled, covered in ((12, {"replace", "add-remove"}), (0.5, {"replace"})):
        record = federation(FedMDNFDP(sampled=sampled, **{**QUICK, "rounds": 1})).run(PoolTrainer(1)).record
        finite = {f["adjacency"] for f in record.privacy if f["unit"] == "example" and f["epsilon"] < float("inf")}
        assert finite == covered
    whole = FedMDNFDP(sampled=0.5)._subset(30)
    assert [whole.curve(epsilon) for epsilon in (0.0, 1.0, 10.0)] == [whole.guarantee()[1]] * 3


@pytest.mark.parametrize(
    ("values", "score_format", "is_valid"),
    [
        (np.array([0, 2], np.uint8), "argmax", True),
        (np.array([0, 3], np.uint8), "argmax", False),
        (np.array([0.0, 1.0]), "argmax", False),
        (np.zeros((2, 3)), "argmax", False),
        (np.zeros((2, 3)), "logits", True),
        (np.zeros((2, 4)), "logits", False),
        (np.zeros(2, np.uint8), "logits", False),
    ],
)
def test_a_reply_has_the_shape_and_range_that_the_request_asks_for(
    values: Any, score_format: Any, is_valid: bool
) -> None:
    algorithm = FedMD(score_format=score_format, **QUICK)
    check = partial(Scores(values).check, ScoreRequest(np.arange(2)), engine(algorithm).server, algorithm)
    if is_valid:
        check()
        return
    with pytest.raises(LimbeckError, match="values"):
        check()


def test_the_statement_of_a_run_in_which_nothing_private_left() -> None:
    text = statement(federation(FedMD(**{**QUICK, "rounds": 0})).run(PoolTrainer(1)).record)
    assert "Epsilon is 0 towards everybody" in text
    assert "no privacy protection" not in text


def test_the_statement_states_that_own_models_are_not_covered() -> None:
    unprotected = federation(FedMD(**QUICK)).run(PoolTrainer(1)).record
    text = statement(unprotected, own_models=True)
    assert "The parties' own models (`models/`): each learned from the private rows of its party" in text
    assert (
        "the server can see without protection: `scores` (the scores that models give to public rows), from 3" in text
    )
    assert "add the noise" not in text
    sampled = federation(FedMDNFDP(sampled=5, **QUICK)).run(PoolTrainer(1)).record
    text = statement(sampled, own_models=True)
    assert "The parties' own models" not in text
    assert text.index("**Delta is 0.") < text.index("Epsilon by the theorem")
    assert "for them all private rows were pooled" in statement(
        replace(unprotected, bounds={"pooled": [0.5, 0.5, 0.5]})
    )


@dataclass(frozen=True, slots=True)
class Byzantine(FedMD):
    """Parties 0 and 1 send the opposite of their scores, ten times as large."""

    name = "byzantine-fedmd"

    def send_scores(self, logits: Array, silo: Silo) -> Reply:
        return FedMD.send_scores(self, -10 * logits if silo.party < 2 else logits, silo)


@pytest.mark.slow
def test_two_byzantine_parties_of_ten_hardly_hurt_a_robust_consensus() -> None:
    """The honest parties' accuracy on digits: the median loses less than 2 points, the mean much more."""
    data = load("digits")
    parts = draw_parts(data, Draw(0.3), Draw(0.2), 0)
    held = Iid().assign(data.y[parts.private], {}, 10, stream(0, "split"))
    tree = model_from({"name": "random-forest", "n_estimators": 20})

    def honest(algorithm: Algorithm) -> float:
        made = replace(
            small_federation(algorithm),
            classes=np.array(data.classes),
            private=[data.rows(parts.private[rows]) for rows in held],
            models=[tree] * 10,
            public=parts.public,
            test=parts.test,
        )
        trainer = PoolTrainer(1)
        ran = InProcess(algorithm, *made.sites(trainer), trainer)
        ran.run()
        assert parts.test is not None
        votes = [PackedModel(silo.installed).vote(parts.test.x) for silo in ran.silos[2:] if silo.installed]
        return float(np.mean([each == parts.test.y for each in votes]))

    how: dict[str, Any] = {"rounds": 2, "alignment": 300, "start": "none"}
    for rule in ("median", "trimmed"):
        assert honest(Byzantine(**how, consensus=rule)) > honest(FedMD(**how, consensus=rule)) - 0.02
    assert honest(Byzantine(**how)) < honest(FedMD(**how)) - 0.1


def test_a_robust_consensus_of_labels_or_with_weights_is_refused() -> None:
    for wrong in ({"weights": "accuracy"}, {"score_format": "argmax"}):
        with pytest.raises(LimbeckError, match='consensus = "median" needs weights = "equal" and scores, not argmax'):
            FedMD(consensus="median", **wrong)  # type: ignore[arg-type]


TREES: list[dict[str, Any]] = [{"name": "random-forest", "n_estimators": 20}] * 3


def consensuses(algorithm: FedMD, task: Any, models: Any = TREES) -> tuple[InProcess, list[Any], Any]:
    """The engine of a run, the scores of the parties in the first round, and the first consensus."""
    found, replies = list[Any](), list[Any]()
    plain = FedMD._consensus

    def watched(self: FedMD, given: Any, shares: Any, site: Any) -> Any:
        replies.append([reply.values for reply in given])
        found.append(plain(self, given, shares, site))
        return found[-1]

    trainer = PoolTrainer(1)
    engine = InProcess(algorithm, *federation(algorithm, models, task).sites(trainer), trainer)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FedMD, "_consensus", watched)
        engine.run()
    return engine, replies[0], found[0]


def test_of_several_labels_the_consensus_is_of_the_parties_that_know_a_class() -> None:
    _, scores, agreed = consensuses(FedMD(**{**QUICK, "rounds": 1, "start": "none"}), "multilabel")
    for party in range(3):
        assert not scores[party][:, party].any(), "the party of number c does not know class c"
        others = [scores[other][:, party] for other in range(3) if other != party]
        assert np.allclose(agreed[:, party], np.mean(others, axis=0), atol=1e-5)


def test_of_numbers_the_consensus_is_the_mean() -> None:
    _, scores, agreed = consensuses(FedMD(**{**QUICK, "rounds": 1, "start": "none"}), "regression")
    assert np.allclose(agreed, np.mean(scores, axis=0), atol=1e-6)
    assert ((agreed >= 0) & (agreed <= 1)).all()


def test_parties_learn_classes_that_they_do_not_know() -> None:
    """With trees, and with networks: the party of number c learns class c from the others."""
    network = {"name": "torch-mlp", "hidden": [16], "recipe": {"epochs": 40, "batch": 8}}
    for models, more in ((TREES, {}), ([network] * 3, {"digest": Recipe(epochs=60, batch=8)})):
        algorithm = FedMD(
            **{**QUICK, "start": "none", "alignment": 45, "fine_tune": Recipe(epochs=40, batch=8), **more}
        )
        metrics = [
            party.metrics for party in federation(algorithm, models, "multilabel").run(PoolTrainer(1)).record.parties
        ]
        for party, found in enumerate(metrics):
            assert found is not None
            assert found.class_auc is not None
            assert (found.class_auc[party] or 0) > 0.8
    alone = federation(Solo(), TREES, "multilabel").run(PoolTrainer(1)).record.parties
    assert [each.metrics.class_auc[party] for party, each in enumerate(alone)] == [0.5] * 3  # type: ignore[union-attr, index]


@pytest.mark.parametrize("task", ["multilabel", "regression"])
@pytest.mark.parametrize(
    ("how", "rejection"),
    [
        ({"score_format": "argmax"}, 'score_format = "logits" is needed for several labels a row and for numbers'),
        ({"score_format": "softmax"}, 'score_format = "logits" is needed'),
        ({"weights": "accuracy"}, 'weights = "equal" is needed for several labels a row and for numbers'),
    ],
)
def test_what_is_for_one_class_a_row_is_refused_with_other_labels(how: Any, rejection: str, task: Any) -> None:
    with pytest.raises(LimbeckError, match=rejection):
        small_federation(FedMD(**how), task=task)


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_almost_no_noise_is_the_plain_method_with_other_labels(task: Any) -> None:
    given: dict[str, Any] = {**QUICK, "rounds": 1, "start": "none"}
    _, plain, _ = consensuses(FedMDLDP(**given, sigma=0.0), task)
    _, noisy, _ = consensuses(FedMDLDP(**given, sigma=1e-9), task)
    assert np.allclose(plain, noisy, atol=1e-5)
    _, all_rows, _ = consensuses(FedMDNFDP(**given, sampled=35, population=35, replacement=False), task)
    assert np.allclose(plain, all_rows, atol=1e-5)
