"""FedRidge: the regression on all rows in one place, and what one row or one party can change in it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from sklearn.linear_model import Ridge

import limbeck as lb
from direct_parties import IRIS, DirectConsortium
from limbeck.algorithms.fedridge import FedRidge, SumRequest, Sums
from limbeck.checks import check_algorithm, small_federation
from limbeck.consortium.coordinator import begin
from limbeck.data.sets import load
from limbeck.data.splits import Dirichlet
from limbeck.engines.respond import respond
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.features.map import CONSTANT, STEPS, FeatureMap
from limbeck.features.settings import Features
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.codec import Header
from limbeck.protocol.disclosures import Facts
from limbeck.protocol.parties import Replies
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.task import Task
from mixed_parties import before_noise, two_classes

L1, L2 = FedRidge(privacy=Privacy("L1", epsilon=8.0)), FedRidge(privacy=Privacy("L2", epsilon=8.0))
ADD_REMOVE = FedRidge(privacy=Privacy("L2", epsilon=8.0, adjacency="add-remove"))
EXTREME = [0.0, 1e30, -3e38, np.nan, np.inf, 1e-30, 7.0]
DIGITS = load("digits")
PUBLIC, TEST = DIGITS.x[:200], (DIGITS.x[200:400], DIGITS.y[200:400])
X, Y = DIGITS.x[400:], DIGITS.y[400:]


def weights_of(model: Any) -> Array:
    """The weights of phi(x) in a model of a run."""
    constants = {each.name: numpy_helper.to_array(each) for each in onnx.load_from_string(model.onnx).graph.initializer}
    rest = constants["linear.slope"] / np.sqrt(1 - CONSTANT**2)
    return np.vstack([constants["linear.constant"][None] / CONSTANT, rest])


def split(kind: str) -> list[tuple[Array, Array]]:
    if kind == "one party":
        return [(X, Y)]
    parts = Dirichlet(beta=float(kind), min_rows=3).assign(Y, {}, 5, np.random.default_rng(int(10 * float(kind))))
    return [(X[part], Y[part]) for part in parts]


def run(algorithm: FedRidge, parties: Any, **settings: Any) -> Any:
    known = {"test": TEST, "seed": 5, "classes": list(range(10)), "noise": "simulated", **settings}
    return lb.run(algorithm, parties, PUBLIC, "decision-tree", **known)


def test_without_noise_it_is_scikit_learns_ridge_on_all_rows() -> None:
    result = run(FedRidge(gram="private", labels="leader"), split("0.1"))
    phi = Features().fit(PUBLIC, 5).steps(X) / STEPS
    alpha = result.record.figures["regularization"]
    pooled = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky").fit(phi, np.eye(10)[Y])
    assert np.abs(weights_of(result.model) - pooled.coef_.T).max() < 1e-8
    assert result.accuracy > 0.9


@pytest.mark.parametrize("gram", ["public", "private"])
def test_the_model_is_the_same_to_the_bit_however_rows_are_split(gram: Any) -> None:
    models = {run(FedRidge(gram=gram), split(kind)).model.onnx for kind in ("0.1", "0.5", "one party")}
    assert len(models) == 1


def test_noise_is_the_only_difference_between_splits() -> None:
    """Sums before noise are equal to the bit at L2 too; each of five parties adds its own noise."""
    known, sums = Features().fit(PUBLIC, 5), []
    for kind in ("0.1", "0.5"):
        parties = [Rows(x, y) for x, y in split(kind)]
        sums.append(np.sum([respond_to(L2, rows, known)[1] for rows in parties], axis=0))
    assert np.array_equal(sums[0], sums[1])


@pytest.mark.slow
@pytest.mark.parametrize("task", FedRidge.tasks)
@pytest.mark.parametrize(
    "algorithm",
    [L1, L2, *(pytest.param(each, marks=pytest.mark.slow) for each in (ADD_REMOVE, replace(L2, final="model")))],
)
def test_it_keeps_the_rules_of_all_algorithms(algorithm: FedRidge, task: Any) -> None:
    check_algorithm(algorithm, federation=small_federation(algorithm, task=task))


@pytest.mark.parametrize("level", ["L1", "L2"])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_calibration_spends_what_was_asked_and_no_more(level: Any, adjacency: Any) -> None:
    algorithm = FedRidge(privacy=Privacy(level, epsilon=1.0, adjacency=adjacency))
    found = run(algorithm, split("0.5")).record.epsilon["public" if level == "L1" else "server"]
    assert 0.98 < found <= 1.0


def test_the_noise_of_a_removed_row_is_smaller_than_of_a_replaced_one() -> None:
    facts = Facts(200, 10, 5, "simulated")
    replaced, removed = L2.mechanism(facts), ADD_REMOVE.mechanism(facts)
    assert replaced.sensitivity == 2**0.5
    assert removed.sensitivity == 1.0
    assert removed.sigma < replaced.sigma  # type: ignore[union-attr]


def respond_to(algorithm: FedRidge, rows: Rows, features: FeatureMap) -> tuple[Any, Array]:
    """The mechanism and the sum that a party with these rows discloses, before noise."""
    with pytest.MonkeyPatch.context() as patched, before_noise(patched) as found:
        made = two_classes(algorithm)
        classes = np.array([str(each) for each in range(10 if rows.x.shape[1:] == (8, 8) else 2)])
        public = Rows(PUBLIC, np.zeros(len(PUBLIC), np.int64)) if rows.x.shape[1:] == (8, 8) else made.public
        federation = replace(made, private=[rows] * len(made.private), classes=classes, public=public)
        server, [silo, *_] = federation.sites(PoolTrainer(1))
        respond(algorithm, SumRequest(features.kind, features.pack()), Header(0, server.public.hash), silo)
    [(what, value, mechanism)] = found
    assert what == "noisy sums"
    return mechanism, value


@pytest.mark.parametrize("kind", ["standard", "fourier"])
@pytest.mark.parametrize("seed", range(3))
def test_no_row_moves_a_released_sum_further_than_stated(kind: Any, seed: int) -> None:
    """Brute force: each row in turn is replaced, and removed, by ordinary and by extreme rows of both classes."""
    rng, chosen = np.random.default_rng(seed), Features(kind, number=6)
    replaced, removed = (replace(each, features=chosen) for each in (L2, ADD_REMOVE))
    made = two_classes(replaced)
    assert made.public is not None
    features = chosen.fit(made.public.x, seed)
    held = made.private[0][np.arange(5)]
    mechanism, whole = respond_to(replaced, held, features)
    longest = 0.0
    for row in range(len(held)):
        for value in EXTREME:
            x, y = held.x.copy(), held.y.copy()
            x[row], y[row] = value * rng.choice([-1, 1], size=x[row].shape), rng.integers(0, 2)
            change = np.linalg.norm(respond_to(replaced, Rows(x, y), features)[1] - whole)
            longest = max(longest, float(change))
            assert change <= mechanism.sensitivity == 2**0.5
        others = np.delete(np.arange(len(held)), row)
        mechanism_removed, fewer = respond_to(removed, held[others], features)
        assert np.linalg.norm(fewer - whole) <= mechanism_removed.sensitivity == 1.0
    assert longest > 0.9


SMALL = Features("standard", number=4)
COORDINATES = st.lists(st.sampled_from([0.0, 1.0, -1.0, 30.0, *EXTREME]), min_size=5, max_size=5)
TARGETS: dict[str, Any] = {
    "multilabel": st.lists(st.integers(-1, 1), min_size=3, max_size=3),
    "regression": st.floats(allow_nan=True, allow_infinity=True, width=32),
}


def of_task(algorithm: FedRidge, task: Any, classes: int, rows: int = 30) -> Federation:
    """One party with made-up rows of five values."""
    made, rng = two_classes(algorithm), np.random.default_rng(0)
    y = rng.integers(-1, 2, (rows, classes)).astype(np.int8) if task == "multilabel" else rng.random(rows)
    held = Rows(rng.normal(size=(rows, 5)).astype(np.float32), y if task == "multilabel" else y.astype(np.float32))
    public = Rows(rng.normal(size=(40, 5)).astype(np.float32), np.zeros(40, np.int64))
    names = np.array([str(each) for each in range(classes)])
    party = {"private": [held], "models": made.models[:1], "test": None}
    return replace(made, **party, public=public, classes=names, task=Task(task))  # type: ignore[arg-type]


def disclosed_by(made: Federation, rows: Rows) -> tuple[Any, Array]:
    """The mechanism and the sum of these rows before noise."""
    server, [silo] = replace(made, private=[rows]).sites(PoolTrainer(1))
    features = made.algorithm.features.fit(server.public.x, 0)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patched, before_noise(patched) as found:
        request = SumRequest(features.kind, features.pack())
        respond(made.algorithm, request, Header(0, server.public.hash), silo)
    [(_, value, mechanism)] = found
    return mechanism, value


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("task", "classes"), [("multilabel", 3), ("regression", 1)])
@settings(max_examples=60)
@given(data=st.data())
def test_no_row_with_any_labels_moves_a_sum_further_than_stated(
    task: Any, classes: int, weighted: bool, data: Any
) -> None:
    """A row is replaced and added: any values, weights, unknown labels, targets outside of the range or NaN."""
    kind = np.int8 if task == "multilabel" else np.float32
    replaced, added = (of_task(replace(each, features=SMALL), task, classes) for each in (L2, ADD_REMOVE))
    x = np.array([data.draw(COORDINATES), data.draw(COORDINATES)], np.float32)
    y = np.array([data.draw(TARGETS[task]), data.draw(TARGETS[task])], kind)
    held = replaced.private[0][np.arange(4)]
    held = replace(held, weight=np.array([0.2, 0.0, 1.0, 0.7]) if weighted else None)
    weights = [[*held.weight, data.draw(st.floats(0, 1))] if held.weight is not None else None for _ in range(2)]
    one, two = (
        Rows(
            np.concatenate([held.x, x[each : each + 1]]),
            np.concatenate([held.y, y[each : each + 1]]),
            None if weights[each] is None else np.array(weights[each]),
        )
        for each in (0, 1)
    )
    (mechanism, first), (_, second) = disclosed_by(replaced, one), disclosed_by(replaced, two)
    assert np.linalg.norm(first - second) <= mechanism.sensitivity == (2 * classes) ** 0.5
    (mechanism, more), (_, fewer) = disclosed_by(added, one), disclosed_by(added, held)
    assert np.linalg.norm(more - fewer) <= mechanism.sensitivity == classes**0.5
    assert first.shape == (1 + 4, 2 * classes)


@pytest.mark.parametrize(
    ("task", "classes", "one", "other"),
    [
        ("multilabel", 3, [[1, 1, 1]], [[0, 0, 0]]),
        ("multilabel", 3, [[1, 0, 1]], [[1, 0, 1]]),
        ("regression", 1, [1.0], [0.0]),
        ("regression", 1, [np.inf], [-np.inf]),
        ("regression", 1, [np.nan], [0.0]),
    ],
)
def test_some_rows_move_a_sum_almost_as_far_as_stated(task: Any, classes: int, one: Any, other: Any) -> None:
    """No smaller sensitivity would do. With the same labels, far rows of opposite directions do it."""
    made, kind = of_task(replace(L2, features=SMALL), task, classes), np.int8 if task == "multilabel" else np.float32
    far = np.full((1, 5), 1e20, np.float32)
    (mechanism, first), (_, second) = (
        disclosed_by(made, Rows(x, np.array(y, kind))) for x, y in ((far, one), (-far, other))
    )
    moved = np.linalg.norm(first - second)
    assert 0.97 * mechanism.sensitivity < moved <= mechanism.sensitivity
    grown = of_task(replace(ADD_REMOVE, features=SMALL), task, classes)
    (mechanism, alone), (_, nothing) = disclosed_by(grown, Rows(far, np.array(one, kind))), (None, 0.0)
    assert 0.97 * mechanism.sensitivity < np.linalg.norm(alone - nothing) <= mechanism.sensitivity


@pytest.mark.parametrize(("task", "classes"), [("multilabel", 3), ("regression", 1)])
def test_a_ledger_counts_the_classes(task: Any, classes: int) -> None:
    facts = Facts(40, classes, 5, "simulated", task=Task(task))
    mechanism = replace(L2, features=SMALL).mechanism(facts)
    assert mechanism.size == 5 * 2 * classes  # type: ignore[union-attr]
    assert L1.mechanism(facts).sensitivity == 2.0


DIABETES = load("diabetes")
SIZE = (DIABETES.x.shape[0] - 100) // 3
BINARY = np.stack([DIABETES.y > 150, DIABETES.x[:, 2] > 0, DIABETES.y < 90], axis=1).astype(np.int8)


def thirds(y: Array, order: Array) -> list[tuple[Array, Array]]:
    rows = 100 + order
    return [(DIABETES.x[part], y[part]) for part in np.array_split(rows, 3)]


@pytest.mark.parametrize("gram", ["public", "private"])
@pytest.mark.parametrize(("y", "limits"), [(BINARY, None), (DIABETES.y, (25.0, 346.0))], ids=["multilabel", "numbers"])
def test_any_kind_of_labels_gives_one_model_however_rows_are_split(y: Array, limits: Any, gram: Any) -> None:
    count = len(y) - 100
    orders = [np.arange(count), np.argsort(DIABETES.y[100:]), np.random.default_rng(1).permutation(count)]
    parties = [thirds(y, order) for order in orders] + [[(DIABETES.x[100:], y[100:])]]
    known = {"noise": "simulated", "seed": 5, "limits": limits}
    models = {
        lb.run(FedRidge(gram=gram), each, DIABETES.x[:100], "decision-tree", **known).model.onnx  # type: ignore[union-attr]
        for each in parties
    }
    assert len(models) == 1


def test_of_numbers_it_is_scikit_learns_ridge_on_all_rows() -> None:
    limits = (0.0, 400.0)
    result = lb.run(
        FedRidge(gram="private"),
        thirds(DIABETES.y, np.arange(len(DIABETES.y) - 100)),
        DIABETES.x[:100],
        "decision-tree",
        limits=limits,
        seed=5,
    )
    features = Features().fit(DIABETES.x[:100], 5)
    phi, test = (features.steps(x) / STEPS for x in (DIABETES.x[100:], DIABETES.x[:100]))
    target = np.rint(DIABETES.y[100:] / 400 * 4096) / 4096
    alpha = result.record.figures["regularization"]
    pooled = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky").fit(phi, np.stack([1 - target, target], axis=1))
    difference = np.diff(pooled.predict(test), axis=1)[:, 0]
    assert result.model is not None
    assert np.allclose(result.model.predict(DIABETES.x[:100]), 200 * (1 + difference), atol=0.01)


def test_of_several_labels_each_class_is_scikit_learns_ridge_on_the_rows_that_know_it() -> None:
    """One of three parties does not know the second class: its Gram matrix is left out."""
    y = BINARY.copy()
    y[100 + 2 * SIZE :, 1] = -1  # one party does not know this class
    algorithm, parties = FedRidge(gram="private", labels="leader"), thirds(y, np.arange(3 * SIZE))
    result = lb.run(algorithm, parties, DIABETES.x[:100], "decision-tree", seed=5, classes=["a", "b", "c"])
    features = Features().fit(DIABETES.x[:100], 5)
    found = weights_of(result.model)
    for column in range(3):
        known = y[100 : 100 + 3 * SIZE, column] >= 0
        phi = features.steps(DIABETES.x[100 : 100 + 3 * SIZE][known]) / STEPS
        targets = np.eye(2)[y[100 : 100 + 3 * SIZE][known, column]]
        fits = [
            Ridge(alpha=alpha, fit_intercept=False, solver="cholesky").fit(phi, targets).coef_
            for alpha in np.geomspace(0.01, 100, 200)
        ]
        errors = [np.abs(np.diff(each, axis=0)[0] - found[:, column]).max() for each in fits]
        assert min(errors) < 0.02 * np.abs(found[:, column]).max(), "for one regularization it is this regression"


def test_one_of_several_labels_is_the_binary_classifier() -> None:
    y = BINARY[:, :1]
    several, binary = (
        lb.run(FedRidge(), thirds(labels, np.arange(3 * SIZE)), DIABETES.x[:100], "decision-tree", seed=5).model
        for labels in (y, y[:, 0].astype(np.int64))
    )
    assert several is not None
    assert binary is not None
    assert (several.predict(DIABETES.x)[:, 0] == binary.predict(DIABETES.x)).all()
    difference = np.diff(weights_of(binary), axis=1)
    assert np.abs(weights_of(several) - difference).max() < 1e-9


@pytest.mark.parametrize(("y", "limits"), [(BINARY, None), (DIABETES.y, (25.0, 346.0))], ids=["multilabel", "numbers"])
def test_almost_no_noise_is_no_noise(y: Array, limits: Any) -> None:
    given: dict[str, Any] = {"limits": limits, "seed": 5, "noise": "simulated", "classes": None}
    parties = thirds(y, np.arange(3 * SIZE))
    quiet = FedRidge(privacy=Privacy("L2", "gaussian", sigma=1e-9))
    one, two = (
        lb.run(each, parties, DIABETES.x[:100], "decision-tree", **given).model
        for each in (FedRidge(gram="public"), quiet)
    )
    assert np.abs(weights_of(one) - weights_of(two)).max() < 1e-5


class Asked:
    """Parties whose replies are given."""

    def __init__(self, replies: dict[int, Sums]) -> None:
        self.replies = replies

    def ask(self, request: Any, of: Any = None, keep: Any = lambda party, reply: reply) -> Any:
        asked = self.replies if isinstance(request, SumRequest) else {}
        return Replies({party: keep(party, reply) for party, reply in sorted(asked.items())}, ())


def test_whatever_a_party_sends_at_l1_changes_the_sum_by_no_more_than_stated() -> None:
    rng, made = np.random.default_rng(0), two_classes(L1)
    assert made.public is not None
    width = 1 + L1.features.width(len(made.public))

    def anything() -> Sums:
        return Sums(rng.choice([0.0, 1e-6, 1.0, 1e9]) * rng.normal(size=(width, 2)), np.empty((0, 0)))

    for _ in range(5):
        parties = {party: anything() for party in range(4)}
        changed = []
        for replies in (parties, {**parties, 2: anything()}, {p: r for p, r in parties.items() if p != 2}):
            with pytest.MonkeyPatch.context() as patched, before_noise(patched) as found:
                server, _ = made.sites(PoolTrainer(1))
                L1.lead(Asked(replies), server)  # type: ignore[arg-type]
            [(what, value, mechanism)] = found
            assert what == "noisy sums"
            changed.append(value)
        assert np.linalg.norm(changed[0] - changed[1]) <= mechanism.sensitivity == 2.0
        assert np.linalg.norm(changed[0] - changed[2]) <= 1.0


def test_the_final_model_can_be_any_model() -> None:
    result = run(FedRidge(final="model"), split("0.5"), server_model="random-forest")
    assert result.accuracy > 0.8
    assert "TreeEnsembleRegressor" in {node.op_type for node in onnx.load_from_string(result.model.onnx).graph.node}


def test_matched_labels_give_a_rare_class_its_share() -> None:
    """A class with a tenth of the rows: without offsets the noise hides it."""
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.1).astype(int)
    x = (rng.normal(size=(3000, 5)) + 1.2 * y[:, None]).astype(np.float32)
    parties = [(x[start : start + 500], y[start : start + 500]) for start in range(0, 2000, 500)]
    found = {}
    for labels in ("matched", "leader"):
        algorithm = FedRidge(labels=labels, privacy=Privacy("L2", epsilon=1.0))
        model = lb.run(algorithm, parties, x[2000:], classes=[0, 1], noise="simulated").model
        assert model is not None
        found[labels] = (model.predict(x[2000:]) == 1).mean()
    assert found["matched"] == pytest.approx(0.1, abs=0.03)
    assert found["leader"] < 0.5 * found["matched"]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"gram": "private", "privacy": L2.privacy}, 'gram = "private" is for level L0: use "public"'),
        ({"privacy": Privacy("L2", "laplace", gamma=1.0)}, "fedridge adds Gaussian noise: give epsilon, or mechanism"),
    ],
)
def test_options_without_a_mechanism_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LimbeckError, match=complaint):
        FedRidge(**settings)


def test_a_map_to_another_number_of_features_is_refused() -> None:
    made = two_classes(L2)
    assert made.public is not None
    _, [silo, *_] = made.sites(PoolTrainer(1))
    other = Features("standard", number=2).fit(made.public.x, 0)
    with pytest.raises(LimbeckError, match="a map to 2 features, not to the"):
        SumRequest(other.kind, other.pack()).check(silo, L2)


def test_secure_noise_between_organisations_differs_by_the_noise_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With much epsilon, the network run is the run in one process; each ledger has one row with noise."""
    pytest.importorskip("opendp", reason="the extra privacy is not installed")
    consortium = DirectConsortium(tmp_path, monkeypatch)
    table = 'name = "fedridge"\nprivacy = { level = "L2", mechanism = "gaussian", sigma = 1e-7 }'
    file = consortium.experiment(table, noise="secure")
    consortium.admit("a", "b", "c", simulation=False)
    begin(consortium.folder, file, print)
    parties = []
    for name in "abc":
        held = np.load(consortium.home / name / "private.npz")
        parties.append((held["x_train"], held["y_train"]))
        assert [what for _, _, what in consortium.released(name)] == ["noisy sums"]
    algorithm = FedRidge(privacy=Privacy("L2", "gaussian", sigma=1e-7))
    known = lb.run(algorithm, parties, IRIS.x[::5], "decision-tree", seed=3, classes=[0, 1, 2], noise="simulated").model

    class Model:
        onnx = consortium.model("experiment-1")

    assert np.abs(weights_of(Model) - weights_of(known)).max() < 1e-3
    assert not np.array_equal(weights_of(Model), weights_of(known))
