"""FedKD: identities, weights, silence and invalid replies, and what its noise protects."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from limbeck.algorithms.fedkd import FedKD
from limbeck.algorithms.logits import Predictions
from limbeck.checks import check_algorithm, small_federation
from limbeck.engines.fresh_process import FreshProcess
from limbeck.engines.in_process import InProcess, ThroughBytes
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.experiments.run import run_file
from limbeck.knowledge.quantize import packed
from limbeck.models.jobs import Fit, ForwardPass, InitialWeights, PredictPacked, Refit
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.models.pool import PoolTrainer
from limbeck.models.tasks import for_task
from limbeck.privacy.accountants import epsilon_by
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.events import DpEvent
from limbeck.privacy.ledger import Budget, LedgerStore
from limbeck.privacy.mechanisms import LaplaceLogits
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Rows
from limbeck.protocol.task import Task
from limbeck.report.statement import statement

EXAMPLES = Path(__file__).parents[2] / "examples"
NETWORK = {"name": "python:factories:tiny_network", "recipe": {"epochs": 3, "batch": 8}}
MODELS: list[dict[str, Any]] = [NETWORK, {**NETWORK, "width": 5}, {"name": "decision-tree", "max_depth": 3}]
QUICK: dict[str, Any] = {"distil": Recipe(epochs=3, batch=16)}
UNPROTECTED: dict[str, Any] = {**QUICK, "mechanism": "none"}
ODD: dict[str, Any] = {"scale": 1, "bound": 5.0, "weights": "equal"}


class RecordingTrainer:
    """A trainer that remembers its jobs."""

    description: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.jobs: list[Any] = []

    def run(self, jobs: Any, classes: int, seeds: Any) -> Any:
        self.jobs += zip(jobs, seeds, strict=True)
        return PoolTrainer(1).run(jobs, classes, seeds)

    @property
    def distillation(self) -> Fit:
        """What the central model was given to learn."""
        job: Fit = self.jobs[-1][0]
        return job


def federation(algorithm: Algorithm, models: Any = MODELS, task: Any = "multiclass") -> Federation:
    server = model_from(NETWORK)
    return replace(small_federation(algorithm, task=task), models=[model_from(m) for m in models], server_model=server)


def ran(
    algorithm: Algorithm, kind: type[InProcess] = InProcess, models: Any = MODELS, **how: Any
) -> tuple[InProcess, bytes, RecordingTrainer]:
    trainer = RecordingTrainer()
    engine = kind(algorithm, *federation(algorithm, models).sites(trainer), trainer, **how)
    final = engine.run().model
    assert final is not None
    return engine, final, trainer


def logits_of_parties(engine: InProcess) -> list[Any]:
    """What each party's network says of the public rows, by its weights; not of those that were silent."""
    public = engine.server.public.x
    trained = [(silo.model, silo.memory["weights"]) for silo in engine.silos if "weights" in silo.memory]
    return [ForwardPass(model, weights, public).run(3, 0) for model, weights in trained]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "how", [{}, {"noised_by": "party"}, {"transfer": "labels"}, {"mechanism": "none", "scale": None}]
)
def test_it_ends_the_same_under_every_engine(how: dict[str, Any], tmp_path: Path, tests_on_path: None) -> None:
    algorithm = FedKD(**{**QUICK, **how})
    _, plain, _ = ran(algorithm)
    assert ran(algorithm)[1] == plain
    assert ran(algorithm, ThroughBytes)[1] == plain
    if not how:
        fresh = FreshProcess(algorithm, *federation(algorithm).sites(PoolTrainer(1)), tmp_path)
        assert fresh.run().model == plain


def test_fine_levels_and_no_noise_are_the_plain_weighted_ensemble(tests_on_path: None) -> None:
    models = [NETWORK] * 3
    algorithm = FedKD(**UNPROTECTED, scale=None, bound=100.0)
    engine, _, exact = ran(algorithm, models=models)
    logits = logits_of_parties(engine)
    counts = np.array([np.bincount(silo.private.y, minlength=3) for silo in engine.silos])
    by_hand = sum(share * predictions for share, predictions in zip(counts / counts.sum(axis=0), logits, strict=True))
    assert np.allclose(exact.distillation.targets, by_hand, atol=1e-5)
    _, _, fine = ran(replace(algorithm, scale=2**22), models=models)
    assert np.allclose(fine.distillation.targets, by_hand, atol=1e-3)
    _, _, coarse = ran(replace(algorithm, scale=20), models=models)
    assert 1 < np.abs(coarse.distillation.targets - by_hand).max() < 10


def test_one_party_is_plain_distillation(tests_on_path: None) -> None:
    """Trained here by hand: the same weights, the same logits, the same student."""
    algorithm = FedKD(**UNPROTECTED, scale=None, bound=1000.0, weights="equal")
    alone = replace(federation(algorithm, [NETWORK] * 3), models=[model_from(NETWORK)])
    alone = replace(alone, private=alone.private[:1])
    trainer = RecordingTrainer()
    engine = InProcess(algorithm, *alone.sites(trainer), trainer)
    final = engine.run().model
    model: Any = model_from(NETWORK)
    x, y = alone.private[0].x, alone.private[0].y
    seeds = [seed for _, seed in trainer.jobs]
    first = InitialWeights(model, x.shape[1:]).run(3, seeds[0])
    taught = Refit(model, x, y, first).run(3, seeds[1])
    public = engine.server.public.x
    targets = ForwardPass(model, taught, public).run(3, 0)
    by_hand = Fit(model, public, targets, replace(algorithm.distil, loss="mae")).run(3, seeds[-1])
    assert final == by_hand


@pytest.mark.parametrize(
    ("how", "loss", "temperature"),
    [({}, "mae", 1.0), ({"norm": "l2"}, "mse", 1.0), ({"temperature": 3.0}, "kl", 3.0)],
)
def test_the_loss_is_what_was_asked_for(how: Any, loss: str, temperature: float, tests_on_path: None) -> None:
    _, _, trainer = ran(FedKD(**UNPROTECTED, **how))
    assert trainer.distillation.recipe is not None
    assert (trainer.distillation.recipe.loss, trainer.distillation.recipe.temperature) == (loss, temperature)


def test_a_class_is_scored_by_those_that_hold_it(tests_on_path: None) -> None:
    """A party without a class has no weight for it; a class that nobody holds is weighted equally."""
    algorithm = FedKD(**UNPROTECTED, scale=None, bound=1000.0)
    whole = federation(algorithm, [NETWORK] * 3)
    rows = [Rows(p.x[p.y != 2], p.y[p.y != 2]) for p in whole.private]
    rows[0] = Rows(rows[0].x[rows[0].y == 0], rows[0].y[rows[0].y == 0])
    trainer = RecordingTrainer()
    engine = InProcess(algorithm, *replace(whole, private=rows).sites(trainer), trainer)
    assert engine.run().model
    logits, targets = logits_of_parties(engine), trainer.distillation.targets
    knows = [np.sum(r.y == 1) for r in rows]
    assert knows[0] == 0
    assert np.allclose(
        targets[:, 1], sum(n * z[:, 1] for n, z in zip(knows, logits, strict=True)) / sum(knows), atol=1e-4
    )
    assert np.allclose(targets[:, 2], np.mean([z[:, 2] for z in logits], axis=0), atol=1e-4)


@pytest.mark.parametrize("noise", ["none", "laplace", "laplace, by the party"])
def test_parties_that_share_no_class_are_remarked_on_where_nothing_is_protected(
    noise: Any, tests_on_path: None
) -> None:
    by_party = {"noised_by": "party"} if "party" in noise else {}
    algorithm = FedKD(**{**QUICK, **by_party, "mechanism": noise.split(",")[0]})
    whole = federation(algorithm, [NETWORK] * 3)
    rows = [Rows(p.x[(p.y == 0) == (i == 0)], p.y[(p.y == 0) == (i == 0)]) for i, p in enumerate(whole.private)]
    remarks = InProcess(algorithm, *replace(whole, private=rows).sites(PoolTrainer(1)), PoolTrainer(1)).run().remarks
    assert any("do not compare" in remark for remark in remarks) == (noise == "none")


def test_equal_weights_ask_for_no_counts(tests_on_path: None) -> None:
    engine, _, trainer = ran(FedKD(**UNPROTECTED, scale=None, bound=1000.0, weights="equal"), models=[NETWORK] * 3)
    assert np.allclose(trainer.distillation.targets, np.mean(logits_of_parties(engine), axis=0), atol=1e-5)
    assert {row.what for silo in engine.silos for row in silo.ledger.rows} == {"predictions"}


def test_a_silent_party_is_left_out_of_the_weights(tests_on_path: None) -> None:
    engine, _, trainer = ran(FedKD(**UNPROTECTED, scale=None, bound=1000.0), models=[NETWORK] * 3, silent=[1])
    counts = np.array([np.bincount(engine.silos[p].private.y, minlength=3) for p in (0, 2)])
    by_hand = sum(s * z for s, z in zip(counts / counts.sum(axis=0), logits_of_parties(engine), strict=True))
    assert np.allclose(trainer.distillation.targets, by_hand, atol=1e-5)


@pytest.mark.parametrize("how", [{}, {"transfer": "labels"}, {"scale": None}])
def test_logits_that_are_not_finite_are_rejected(how: dict[str, Any], tests_on_path: None) -> None:
    models = [NETWORK, {"name": "python:factories:speechless", "recipe": {"epochs": 1}}, NETWORK]
    algorithm = FedKD(**{**UNPROTECTED, **how})
    trainer = RecordingTrainer()
    engine = InProcess(algorithm, *federation(algorithm, models).sites(trainer), trainer)
    assert engine.run().model
    [rejection] = engine.rejections
    assert rejection.startswith("request 0: party 1: values of type float64 and shape (0,), not of shape (45, ")
    with pytest.raises(LimbeckError, match="0 of 3 parties sent a valid reply"):
        ran(algorithm, models=[models[1]] * 3)


def test_a_party_that_adds_the_noise_does_not_show_that_it_had_no_finite_scores(tests_on_path: None) -> None:
    models = [NETWORK, {"name": "python:factories:speechless", "recipe": {"epochs": 1}}, NETWORK]
    trainer = RecordingTrainer()
    algorithm = FedKD(**QUICK, noised_by="party")
    engine = InProcess(algorithm, *federation(algorithm, models).sites(trainer), trainer)
    engine.run()
    assert engine.rejections == []


@pytest.mark.parametrize("how", [{}, {"scale": None}, {"mechanism": "laplace", "gamma": 1e6}, {"transfer": "labels"}])
def test_scores_beyond_the_bound_are_rejected(how: dict[str, Any], tests_on_path: None) -> None:
    """One such party of three: the central model learns what it would have learned without it."""
    algorithm = FedKD(**{**UNPROTECTED, "weights": "equal", **how})
    _, without, _ = ran(algorithm, models=[NETWORK] * 3, silent=[1])
    engine = InProcess(algorithm, *federation(algorithm, [NETWORK] * 3).sites(PoolTrainer(1)), PoolTrainer(1))
    far, nothing = np.full((len(engine.server.public), 1 if "transfer" in how else 3), 2**29), np.empty(0)
    scores = Predictions(b"", 0, 0, far.astype(np.float32), nothing)
    attacks = scores if "scale" in how else Predictions(*packed(far), nothing, nothing)
    honest = engine.answer

    def answer(pending: Any, silo: Any) -> Any:
        rejection = honest(pending, silo)
        return (
            replace(rejection, reply=attacks)
            if silo.party == 1 and isinstance(rejection.reply, Predictions)
            else rejection
        )

    engine.answer = answer  # type: ignore[method-assign]
    outcome = engine.run()
    [rejection] = engine.rejections
    assert rejection.startswith("request 0: party 1: values from 5.36871e+08 to 5.36871e+08, outside of ")
    assert outcome.model == without or algorithm.mechanism != "none"


def test_a_tree_at_the_server_learns_the_largest_sum(tests_on_path: None) -> None:
    algorithm = FedKD(**UNPROTECTED)
    whole = replace(federation(algorithm), server_model=model_from({"name": "decision-tree"}))
    trainer = RecordingTrainer()
    assert InProcess(algorithm, *whole.sites(trainer), trainer).run().model
    assert trainer.distillation.targets.ndim == 1


@pytest.mark.parametrize(
    ("how", "rejection"),
    [
        ({"scale": 0}, "scale = 0: Input should be"),
        ({"gamma": 0.0}, r"gamma = 0\.0: Input should be greater than 0"),
        ({"gamma": -1.0}, "gamma = -1"),
        ({"views": 0}, "views = 0: Input should be"),
        ({"bound": 0.0}, "bound = 0"),
        ({"gamma": math.inf}, "gamma = inf"),
        ({"bound": 1e300}, "Input should be less than or equal to 1000000000"),
        ({"transfer": "labels", "gamma": 0.1}, 'for transfer = "logits"'),
        ({"transfer": "labels", "noised_by": "party"}, 'for transfer = "logits"'),
        ({"mechanism": "gaussian", "epsilon": 0.0}, "epsilon = 0"),
        ({"mechanism": "gaussian", "sigma": math.inf}, "sigma = inf"),
        ({"scale": 2**31}, "scale = 2147483648"),
        ({"weights": "equal", "weights_release": "noisy"}, "weights_release: for class-share of logits"),
        ({"queries": 0}, "queries = 0"),
        ({"temperature": 0.0}, "temperature = 0"),
        ({"mechanism": "gaussian"}, "needs one of sigma and epsilon"),
        ({"mechanism": "gaussian", "sigma": 1.0, "epsilon": 1.0}, "needs one of sigma and epsilon"),
        ({"epsilon": 1.0}, 'sigma and epsilon are for mechanism = "gaussian"'),
        ({"transfer": "labels", "privacy": Privacy("L2", gamma=1.0)}, "no teachers"),
        ({"privacy": Privacy("L1", gamma=1.0)}, 'transfer = "labels"'),
        ({"weights": "best"}, "weights"),
    ],
)
def test_nonsense_is_refused_at_once(how: dict[str, Any], rejection: str) -> None:
    with pytest.raises(LimbeckError, match=rejection):
        FedKD(**how)


def test_views_are_for_images_and_nobody_trains_for_nothing(tests_on_path: None) -> None:
    trainer, algorithm = RecordingTrainer(), FedKD(**UNPROTECTED, views=2)
    with pytest.raises(LimbeckError, match="views = 2 is for images"):
        InProcess(algorithm, *federation(algorithm).sites(trainer), trainer).run()
    assert trainer.jobs == []


def test_one_level_is_a_sign(tests_on_path: None) -> None:
    """S = 1 leaves 0 and 2B of every score (Equation 4)."""
    _, _, trainer = ran(FedKD(**UNPROTECTED, scale=1, weights="equal", bound=5.0), models=[NETWORK] * 3)
    assert set(np.unique(np.rint(trainer.distillation.targets * 3))) <= {0, 10, 20, 30}


def test_the_noise_of_the_paper_protects_nothing() -> None:
    """With gamma 1, K = 20, C = 10, B = 10, 50 000 rows, equal weights: 5.0e5 by basic composition (a golden number)."""
    spend = DpEvent(LaplaceLogits(10.0, 1.0, 10, "party", "replace", 1 / 20), 50_000)
    assert epsilon_by("basic", [spend], 1e-5) == pytest.approx(5.0e5)
    assert 1e5 < epsilon_by("rdp", [spend], 1e-5) < 5.0e5


def test_weights_of_private_counts_cost_the_whole_range(tests_on_path: None) -> None:
    """A party that is replaced may change everybody's weights: the sum may move by 2B, not by 2B/K."""
    for weights, share in (("class-share", 1.0), ("equal", 1 / 3)):
        engine, _, _ = ran(FedKD(**QUICK, weights=weights))  # type: ignore[arg-type]
        [row] = [row for row in engine.server.ledger.rows if row.mechanism == "laplace-logits"]
        assert row.parameters["share"] == pytest.approx(share)
        assert (row.unit, row.adjacency, row.observer) == ("party", "replace", "public")


@pytest.mark.parametrize(
    ("how", "server", "parties", "public"),
    [
        ({"mechanism": "none"}, False, False, None),
        ({}, False, True, True),
        ({"noised_by": "party"}, False, False, True),
        ({"noised_by": "party", "weights_release": "noisy"}, True, True, True),
        ({"noised_by": "party", "weights": "equal"}, True, True, True),
        ({"weights": "equal", "scale": 7}, False, True, True),
        ({"mechanism": "gaussian", "epsilon": 50.0, "weights": "equal"}, False, True, True),
        ({"transfer": "labels", "privacy": Privacy("L1", "gaussian", sigma=1.0)}, False, True, True),
    ],
)
def test_who_sees_what(how: Any, server: bool, parties: bool, public: bool | None, tests_on_path: None) -> None:
    algorithm = FedKD(**{**QUICK, **how})
    record = federation(algorithm).run(PoolTrainer(1)).record
    assert math.isfinite(record.epsilon["server"]) == server
    assert math.isfinite(record.epsilon["parties"]) == parties
    assert (math.isfinite(record.epsilon["public"]) if "public" in record.epsilon else None) == public
    assert (record.delta > 0) == (algorithm.effective_delta > 0) == (how != {"mechanism": "none"})
    assert statement(record).startswith("# Privacy statement")


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"weights_release": "noisy"},
        {"noised_by": "party", "weights": "equal"},
        {"mechanism": "gaussian", "epsilon": 10.0, "noised_by": "party", "weights_release": "noisy"},
        {"mechanism": "gaussian", "sigma": 3.0},
        {"mechanism": "gaussian", "epsilon": 9.0, "weights": "equal"},
        {"mechanism": "none"},
        {"transfer": "labels"},
        {"transfer": "labels", "privacy": Privacy("L1", "gaussian", epsilon=5.0)},
    ],
)
def test_what_is_planned_is_what_is_released(how: dict[str, Any], tests_on_path: None) -> None:
    algorithm = FedKD(**{**QUICK, **how})
    whole = federation(algorithm)
    engine, _, _ = ran(algorithm)
    counts = [len(rows) for rows in whole.private]
    planned = planned_releases(algorithm.disclosures, Facts(len(engine.server.public), 3, 3), counts)
    released = [row for site in (*engine.silos, engine.server) for row in site.ledger.rows]

    def rejection(rows: Any) -> list[Any]:
        charged = [r for r in rows if r.mechanism != "post-processing"]
        return sorted((r.site, r.what, r.mechanism, r.observer, r.sensitivity, r.unit, r.queries) for r in charged)

    assert rejection(planned) == rejection(released)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"mechanism": "gaussian", "epsilon": 5.0},
        pytest.param({"mechanism": "gaussian", "sigma": 1.0}, marks=pytest.mark.slow),
    ],
)
def test_equal_weights_with_noise_behave(how: dict[str, Any]) -> None:
    check_algorithm(FedKD(**QUICK, weights="equal", **how))


def test_the_noise_does_not_reveal_who_had_no_finite_scores(tests_on_path: None) -> None:
    """Whether a party's logits are NaN is private: the mechanism is the same, and so is who is asked."""
    odd = {"name": "python:factories:speechless", "recipe": {"epochs": 1}}
    algorithm = FedKD(**QUICK, weights="equal", mechanism="gaussian", epsilon=5.0)
    rows = []
    for models in ([NETWORK] * 3, [NETWORK, odd, NETWORK]):
        engine, _, _ = ran(algorithm, models=models)
        rows.append([row for row in engine.server.ledger.rows if row.mechanism == "clipped-gaussian"])
    assert rows[0] == rows[1]
    assert len(rows[0]) == 1


def test_a_sum_without_a_silent_party_is_as_large_as_with_it(tests_on_path: None) -> None:
    tiny = FedKD(**QUICK, weights="equal", mechanism="gaussian", sigma=1e-9, scale=None, bound=1000.0)
    engine, _, trainer = ran(tiny, models=[NETWORK] * 3, silent=[1])
    assert np.allclose(trainer.distillation.targets, np.mean(logits_of_parties(engine), axis=0), atol=1e-5)


def test_labels_have_the_delta_of_their_privacy(tests_on_path: None) -> None:
    algorithm = FedKD(**QUICK, transfer="labels", privacy=Privacy("L1", "gaussian", epsilon=5.0, delta=1e-3))
    record = federation(algorithm).run(PoolTrainer(1)).record
    assert record.delta == 1e-3
    assert record.epsilon["public"] == pytest.approx(5.0, abs=0.05)


def test_exact_counts_reach_the_server_alone(tests_on_path: None) -> None:
    engine, _, _ = ran(FedKD(**QUICK, noised_by="party"))
    seen = {(row.what, row.observer) for silo in engine.silos for row in silo.ledger.rows}
    assert seen == {("class counts", "server"), ("noisy scores", "public"), ("predictions", "server")}


def test_a_level_more_of_odd_scales_is_not_cut_off(tests_on_path: None) -> None:
    tiny = FedKD(**QUICK, mechanism="gaussian", sigma=1e-9, scale=1, bound=5.0, weights="equal")
    engine, _, noised = ran(tiny, models=[NETWORK] * 3)
    _, _, plain = ran(FedKD(**UNPROTECTED, **ODD), models=[NETWORK] * 3)
    assert np.allclose(noised.distillation.targets, plain.distillation.targets, atol=1e-5)
    [row] = [row for row in engine.server.ledger.rows if row.mechanism == "clipped-gaussian"]
    assert row.parameters["bound"] == 10.0  # where all agree, S = 1 gives 2B


def test_a_forest_has_scores_of_both_signs(tests_on_path: None) -> None:
    _, _, trainer = ran(FedKD(**UNPROTECTED, scale=1), models=[{"name": "decision-tree", "max_depth": 3}] * 3)
    assert len(np.unique(trainer.distillation.targets)) > 1


def test_calibrated_noise_keeps_to_its_epsilon_and_a_budget_is_checked_first(tests_on_path: None) -> None:
    algorithm = FedKD(**QUICK, mechanism="gaussian", epsilon=8.0, weights="equal")
    record = federation(algorithm).run(PoolTrainer(1)).record
    assert 7.9 < record.epsilon["public"] <= 8.0
    trainer = RecordingTrainer()
    tight = replace(
        federation(algorithm), ledger_store=LedgerStore(budget=Budget(epsilon=2.0, delta=1e-5, observer="public"))
    )
    with pytest.raises(LimbeckError, match="would bring epsilon towards public to 8, but 2 of 2 is left"):
        tight.run(trainer)
    assert trainer.jobs == []


@pytest.mark.parametrize("noised_by", ["party", "server"])
def test_noisy_counts_are_within_the_epsilon_that_was_asked_for(noised_by: Any, tests_on_path: None) -> None:
    algorithm = FedKD(**QUICK, mechanism="gaussian", epsilon=8.0, weights_release="noisy", noised_by=noised_by)
    record = federation(algorithm).run(PoolTrainer(1)).record
    assert 7.9 < record.epsilon["public"] <= 8.0
    with pytest.raises(LimbeckError, match=r"epsilon = 1: laplace-counts alone takes 2"):
        federation(replace(algorithm, epsilon=1.0)).run(RecordingTrainer())


def test_the_statement_states_that_the_printed_noise_is_no_protection(tests_on_path: None) -> None:
    assert "That is no protection." in statement(federation(FedKD(**QUICK)).run(PoolTrainer(1)).record)


def test_the_record_has_the_bytes_beside_their_floor(tests_on_path: None) -> None:
    record = federation(FedKD(**UNPROTECTED)).run(PoolTrainer(1)).record
    figures = record.figures
    assert 0 < figures["entropy_bytes"] <= figures["sent_bytes"] < figures["float64_bytes"] / 5
    assert figures["float64_bytes"] == 8 * 3 * 3 * record.data["public"]
    assert len(record.curve) == 2  # what each party reached alone, and with the central model


@pytest.mark.slow
def test_a_skewed_federation_gains_by_class_weights() -> None:
    """The embedded example: better than every party alone, and than equal weights (the paper's Table 2 in kind)."""
    shares, equal = (
        run_file(EXAMPLES / "fedkd.toml", [f"algorithm.weights={weights}"]).record
        for weights in ("class-share", "equal")
    )
    assert shares.metrics is not None
    assert equal.metrics is not None
    reached, others = shares.metrics.accuracy or 0, equal.metrics.accuracy or 0
    assert reached > max(shares.curve[0]["accuracy"]) + 0.1
    assert reached > others + 0.03


@pytest.mark.parametrize(
    "how", [{"noised_by": "party", "weights_release": "noisy"}, {"mechanism": "gaussian", "sigma": 2.0}]
)
def test_secure_noise_is_exact_and_lies_on_a_grid(how: dict[str, Any], tests_on_path: None) -> None:
    pytest.importorskip("opendp")
    algorithm = FedKD(**{**QUICK, **how})
    whole = replace(federation(algorithm), noise="secure")
    first, second = (whole.run(PoolTrainer(1)).record for _ in range(2))
    assert first.noise == "secure"
    assert math.isfinite(first.epsilon["public"])
    assert first.epsilon == second.epsilon
    simulated = federation(algorithm).run(PoolTrainer(1)).record
    assert first.epsilon["public"] >= simulated.epsilon["public"]


TREES: list[dict[str, Any]] = [{"name": "decision-tree", "max_depth": 3}] * 3
TREE = for_task(model_from(TREES[0]), "multilabel")


def distilled(algorithm: FedKD, task: Any, models: Any) -> tuple[InProcess, Any]:
    """The engine of a run, and the targets that the central model learns."""
    trainer = RecordingTrainer()
    engine = InProcess(algorithm, *federation(algorithm, models, task).sites(trainer), trainer)
    assert engine.run().model
    return engine, trainer.distillation.targets


def test_of_several_labels_each_is_scored_by_the_parties_with_positive_rows(tests_on_path: None) -> None:
    """The party of number c does not know class c: it has no weight for it, and its logits of it are 0."""
    engine, targets = distilled(FedKD(**UNPROTECTED, scale=None, bound=1000.0), "multilabel", [NETWORK] * 3)
    logits = [ForwardPass(s.model, s.memory["weights"], s.public.x).run(3, 0) for s in engine.silos]  # type: ignore[arg-type]
    positives = np.array([(silo.private.y == 1).sum(axis=0) for silo in engine.silos])
    assert np.diag(positives).tolist() == [0, 0, 0]
    by_hand = sum(
        share * each for share, each in zip(positives / positives.sum(axis=0), map(np.asarray, logits), strict=True)
    )
    assert np.allclose(targets, by_hand, atol=1e-4)


@pytest.mark.parametrize("models", [[NETWORK] * 3, TREES], ids=["networks", "trees"])
def test_a_party_predicts_0_for_a_class_that_it_does_not_know(models: Any, tests_on_path: None) -> None:
    """A party that knows no class changes equal weights, and nothing else."""
    algorithm = FedKD(**UNPROTECTED, scale=None, weights="equal", bound=1000.0)
    made = federation(algorithm, models, "multilabel")
    last, found = made.private[2], list[Any]()

    def watched(self: FedKD, rows: Any, targets: Any, site: Any) -> Fit:
        found.append(targets)
        return Fit(TREE, rows, np.zeros((len(rows), 3), np.int64))

    for private in (made.private[:2], [*made.private[:2], Rows(last.x, np.full_like(last.y, -1))]):
        trainer, count = RecordingTrainer(), len(private)
        sites = replace(made, private=private, models=made.models[:count]).sites(trainer)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(FedKD, "_distillation", watched)
            assert InProcess(algorithm, *sites, trainer).run().model
    assert np.abs(found[0]).max() > 0.1
    assert np.allclose(found[1], found[0] * 2 / 3, atol=1e-5)


def predicted(engine: InProcess) -> list[Any]:
    """What the parties' own models predict for the public rows."""
    jobs = [job for job, _ in engine.server.trainer.jobs if isinstance(job, PredictPacked)]  # type: ignore[attr-defined]
    assert len(jobs) == len(engine.silos)
    return [PackedModel(job.packed).vote(job.asked) for job in jobs]


def test_numbers_are_the_mean_of_the_parties_numbers_by_their_rows() -> None:
    engine, targets = distilled(FedKD(**UNPROTECTED, scale=None), "regression", TREES)
    numbers = predicted(engine)
    rows = np.array([len(silo.private) for silo in engine.silos])
    assert targets.shape == (len(engine.server.public), 1)
    assert np.allclose(targets[:, 0], np.average(numbers, axis=0, weights=rows), atol=1e-5)
    _, equal = distilled(FedKD(**UNPROTECTED, scale=None, weights="equal"), "regression", TREES)
    assert np.allclose(equal[:, 0], np.mean(numbers, axis=0), atol=1e-5)


@pytest.mark.parametrize("task", ["multilabel", "regression"])
@pytest.mark.parametrize("noised_by", ["server", "party"])
def test_almost_no_noise_and_fine_levels_are_the_plain_method(task: Any, noised_by: Any) -> None:
    _, plain = distilled(FedKD(**UNPROTECTED, scale=None, weights="equal"), task, TREES)
    quiet: dict[str, Any] = {**QUICK, "weights": "equal", "mechanism": "gaussian", "sigma": 1e-6}
    _, noisy = distilled(FedKD(**quiet, noised_by=noised_by, scale=None), task, TREES)
    assert np.allclose(noisy, plain, atol=1e-4)
    _, fine = distilled(FedKD(**UNPROTECTED, scale=2**22, weights="equal"), task, TREES)
    assert np.allclose(fine, plain, atol=1e-4)


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_one_party_of_any_labels_is_plain_distillation(task: Any) -> None:
    """A tree at the server learns the labels that the only party predicts, and nothing of a class that it ignores."""
    algorithm = FedKD(**UNPROTECTED, scale=None)
    made = federation(algorithm, TREES, task)
    alone = replace(made, private=made.private[:1], models=made.models[:1], server_model=model_from(TREES[0]))
    trainer = RecordingTrainer()
    engine = InProcess(algorithm, *alone.sites(trainer), trainer)
    assert engine.run().model
    expected = predicted(engine)[0]
    if task == "multilabel":
        expected[:, (alone.private[0].y == -1).all(axis=0)] = -1
    assert np.allclose(trainer.distillation.targets, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("how", "rejection"),
    [
        ({"transfer": "labels"}, 'transfer = "logits" is needed for several labels a row and for numbers'),
        ({"temperature": 2.0}, "temperature is for one class a row"),
        ({"weights_release": "noisy"}, 'weights_release = "noisy" is for one class a row: .* use weights = "equal"'),
    ],
)
@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_what_is_for_one_class_a_row_is_refused_with_other_labels(how: Any, rejection: str, task: Any) -> None:
    with pytest.raises(LimbeckError, match=rejection):
        small_federation(FedKD(**how), task=task)


def test_each_class_counts_as_queries() -> None:
    algorithm = FedKD(weights="equal", mechanism="gaussian", sigma=2.0, noised_by="party")
    one, four = (
        algorithm.disclosures(Facts(50, classes, 3, "simulated", task=Task("multilabel")))[0].mechanism
        for classes in (1, 4)
    )
    assert four.sensitivity == pytest.approx(2 * one.sensitivity)
