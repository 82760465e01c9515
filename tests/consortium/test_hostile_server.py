"""A server that may choose every field of every request learns nothing past the mechanisms."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import hostile_server
from hostile_server import PUBLIC, Pair, pair
from limbeck.algorithms.centralized import SendRows
from limbeck.algorithms.evaluation import CountRequest, FederatedEvaluation
from limbeck.algorithms.fedkd import FedKD
from limbeck.algorithms.fedkt import FedKT, TrainStudents
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedmd_private import FedMDLDP, FedMDNFDP
from limbeck.algorithms.fedridge import FedRidge, SumRequest
from limbeck.algorithms.fedvote import VoteRequest
from limbeck.algorithms.logits import PredictViews
from limbeck.algorithms.scoring import DigestConsensus, EvaluateRequest, Initialize, ScoreRequest, TrainLocally
from limbeck.algorithms.subsets import cut
from limbeck.consortium.answering import accept_request
from limbeck.consortium.party import PartyFolder
from limbeck.errors import LimbeckError
from limbeck.features.map import unpack
from limbeck.features.settings import Features
from limbeck.knowledge.counts import Bins
from limbeck.models.alone import PredictAlone
from limbeck.models.jobs import constant_model
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.messages import InstallModel, Message
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Rows
from limbeck.protocol.site import Silo, Site
from odd_models import of_all_rows
from private_levels import ordinary

ROWS = ordinary(8)
QUICK = Recipe(epochs=1, batch=4)
STUDY: dict[str, Any] = {
    "rounds": 2,
    "alignment": 5,
    "start": "none",
    "fine_tune": QUICK,
    "digest": QUICK,
    "revisit": QUICK,
}
NETWORK = {"name": "torch-mlp", "hidden": [4], "recipe": {"epochs": 2, "batch": 4}}
MODELS: list[dict[str, Any]] = [
    {"name": "decision-tree", "random_state": 0},
    {"name": "knn"},
    {"name": "mlp", "max_iter": 2, "early_stopping": True},
    NETWORK,
]
L2 = Privacy("L2", epsilon=1e-3)
ADD_REMOVE = Privacy("L2", gamma=1e-4, adjacency="add-remove")
METHODS: dict[str, Any] = {
    "fedkt": FedKT(partitions=1, subsets=4, privacy=Privacy("L2", gamma=1e-4)),
    "fedkt-add-remove": FedKT(partitions=1, subsets=3, privacy=ADD_REMOVE),
    "fedridge": FedRidge(privacy=L2),
    "fedridge-add-remove": FedRidge(privacy=replace(L2, adjacency="add-remove")),
    "fedkd": FedKD(local=QUICK, mechanism="gaussian", sigma=50.0, noised_by="party", weights_release="noisy"),
    "ldp": FedMDLDP(**STUDY, sigma=100.0),
    "pretrained": FedMDLDP(**{**STUDY, "start": "pretrained"}, sigma=100.0),
    "silent": FedMDLDP(**{**STUDY, "score_format": "none", "start": "pretrained"}, sigma=100.0),
    "nfdp": FedMDNFDP(**STUDY, sampled=4, population=6),
}
EVALUATION = FederatedEvaluation(privacy=L2)
EDGES = Bins.equal(3, EVALUATION.bins).edges
AGREE = ("fedkt", "fedridge", "fedkd", "fedmd-ldp", "fedmd-nfdp", "evaluation")
ALIGNED = np.arange(5, dtype=np.uint8)


def replaced(value: float, label: int) -> tuple[Rows, Rows]:
    """The last row replaced by another."""
    x, y = ROWS.x.copy(), ROWS.y.copy()
    x[-1], y[-1] = value, label
    return ROWS, Rows(x, y)


def alike(rows: tuple[Rows, Rows]) -> tuple[Rows, Rows]:
    """All rows but the last are of one class."""
    one, other = (Rows(each.x, np.where(np.arange(len(each)) < 7, 0, each.y)) for each in rows)
    return one, other


def removed() -> tuple[Rows, Rows]:
    return ROWS, Rows(ROWS.x[:-1], ROWS.y[:-1])


def honest(method: Any) -> list[Message]:
    """What the server would ask."""
    if isinstance(method, FedKT):
        return [TrainStudents()]
    if isinstance(method, FedRidge):
        return [sum_request("standard")]
    if isinstance(method, FedKD):
        return [PredictViews(7)]
    given = weights(1.0) if method.start == "pretrained" else b""
    if method.score_format == "none":
        return [Initialize(given), TrainLocally()]
    scores = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    return [Initialize(given), ScoreRequest(ALIGNED), DigestConsensus(ALIGNED, scores), ScoreRequest(ALIGNED)]


def sum_request(kind: Any, number: int = 8, scale: float = 1.0) -> SumRequest:
    """With a map of this kind and number of features, its numbers scaled."""
    from safetensors.numpy import load, save

    features = Features(kind, number).fit(PUBLIC.x, 0)
    with np.errstate(all="ignore"):
        scaled = {name: (each * scale).astype(each.dtype) for name, each in load(features.pack()).items()}
    return SumRequest(kind, save(scaled))


def weights(scale: float) -> bytes:
    """Of a network such as the party's, some of them scaled."""
    from safetensors.numpy import load, save

    model: Any = model_from(NETWORK)
    found = load(model.first_weights((2,), 3, 0))
    with np.errstate(invalid="ignore"):
        return save({name: np.asarray(values * np.float32(scale), values.dtype) for name, values in found.items()})


EXTREME = st.sampled_from([0.0, 1.0, -1.0, 1e3, 1e20, -3e38, 5e-324, 1e-40, float("nan"), float("inf")])


@st.composite
def arrays(draw: Any, columns: int | None) -> Any:
    shape = draw(st.integers(0, 9)), *([draw(st.sampled_from([columns, 1, 3, 5]))] if columns else [])
    return np.full(shape, draw(EXTREME), draw(st.sampled_from([np.float32, np.float64])))


ROW_NUMBERS = st.one_of(
    st.lists(st.integers(-3, 9), max_size=9).map(lambda rows: np.array(rows, np.int64)),
    st.permutations(range(8)).map(lambda rows: np.array(rows[:5])),
)
MAPS = st.builds(sum_request, st.sampled_from(["standard", "fourier"]), st.sampled_from([8, 8, 3]), EXTREME)
KINDS: dict[type[Message], st.SearchStrategy[Any]] = {
    TrainStudents: st.just(TrainStudents()),
    VoteRequest: st.just(VoteRequest()),
    SumRequest: st.one_of(MAPS, st.builds(SumRequest, st.sampled_from(["encoder", "none"]), st.just(b"no map"))),
    PredictViews: st.builds(PredictViews, st.one_of(st.integers(-2, 12), st.sampled_from([2**31, -(2**40)]))),
    Initialize: st.builds(Initialize, st.one_of(st.just(b""), st.just(b"no weights"), EXTREME.map(weights))),
    ScoreRequest: st.builds(ScoreRequest, ROW_NUMBERS),
    DigestConsensus: st.builds(DigestConsensus, ROW_NUMBERS, arrays(3)),
    InstallModel: st.builds(InstallModel, st.sampled_from([b"", b"no model", constant_model(0, 3, (2,))])),
    EvaluateRequest: st.just(EvaluateRequest()),
    TrainLocally: st.just(TrainLocally()),
    SendRows: st.just(SendRows()),
}
WILD = st.one_of(*KINDS.values())


@st.composite
def altered(draw: Any, request: Message) -> Message:
    """An honest request with one field of the server's own choice."""
    wild = draw(KINDS[type(request)])
    if not fields(request):  # type: ignore[arg-type]
        return request
    field = draw(st.sampled_from([each.name for each in fields(request)]))  # type: ignore[arg-type]
    return replace(request, **{field: getattr(wild, field)})  # type: ignore[type-var]


@st.composite
def scripts(draw: Any, method: Any) -> list[Message]:
    """Honest requests, some altered, left out or asked twice, and others between them."""
    found: list[Message] = []
    for request in honest(method):
        found += draw(st.lists(WILD, max_size=1))
        found.append(draw(st.one_of(st.just(request), st.just(request), altered(request))))
    return found[: draw(st.integers(1, len(found)))]


REPLACED = st.builds(replaced, st.sampled_from([0.0, 1.0, 1e30, -1e30]), st.integers(0, 2))
NEIGHBOURS = st.one_of(REPLACED, REPLACED.map(alike), st.builds(removed))


def are_as_many(rows: tuple[Rows, Rows]) -> bool:
    return len(rows[0]) == len(rows[1])


PROMISED: dict[str, Callable[[tuple[Rows, Rows]], bool]] = {  # the neighbours that an algorithm says anything about
    **dict.fromkeys(("fedkt", "fedridge", "fedkd"), are_as_many),
    **dict.fromkeys(("fedkt-add-remove", "fedridge-add-remove"), lambda rows: not are_as_many(rows)),
}


SUBSETS = st.sampled_from([1, 2, 3, 4, len(ROWS) - 1, len(ROWS), 12])  # also as many as there are rows, or one less


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a folder: every answer waits for the disk several times."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.mark.parametrize("name", METHODS)
@given(data=st.data())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_asked_nothing_passes_beside_the_mechanisms(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: Any
) -> None:
    _ask_whatever(folder, monkeypatch, name, data)


def _notices(undo: Callable[[pytest.MonkeyPatch], None], name: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Ask whatever until something is noticed."""
    undo(patch)

    @given(data=st.data())
    @settings(max_examples=300, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    def ask(data: Any) -> None:
        _ask_whatever(folder, patch, name, data)

    with pytest.raises(AssertionError):
        ask()


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nor_when_asked_for_long(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: Any) -> None:
    _ask_whatever(folder, monkeypatch, name, data)


def _ask_whatever(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: Any) -> None:
    method = METHODS[name]
    model = NETWORK if name in ("pretrained", "silent") else data.draw(st.sampled_from(MODELS))
    rows = data.draw(NEIGHBOURS.filter(PROMISED.get(name, lambda pair: True)))
    has_teachers = isinstance(method, FedKT)
    if has_teachers:
        method = replace(method, subsets=data.draw(SUBSETS), partitions=data.draw(st.integers(1, 2)))
    script, seed = data.draw(scripts(method)), data.draw(st.integers(0, 2**31))
    with pair(folder / "pair", rows, model, AGREE, monkeypatch) as both:
        for turn, request in enumerate(script):
            replies = both.ask(method, request, turn, seed)
            assert replies[0].refusal is not None or not _is_other_than_agreed(request, method)
        if has_teachers:
            assert _cuts(both, method, seed) == _cuts(both, method, 0), "the server's seed decides who shares a teacher"


def _is_other_than_agreed(request: Message, method: Any) -> bool:
    """Whether a request must be refused by what was agreed on alone."""
    in_rounds = isinstance(method, FedMD)
    exchanges = in_rounds and method.score_format != "none"
    match request:
        case TrainStudents():
            return not isinstance(method, FedKT)
        case SumRequest(kind, data):
            return not (isinstance(method, FedRidge) and _is_map(kind, data))
        case PredictViews(seed):
            return not (isinstance(method, FedKD) and 0 <= seed < 2**31)
        case Initialize(given):
            return not in_rounds or not (_are_usual(given) if method.start == "pretrained" else given == b"")
        case ScoreRequest(rows):
            return not (exchanges and _are_of_a_round(rows))
        case DigestConsensus(rows, agreed):
            are_scores = agreed.shape == (5, 3) and bool(np.isfinite(agreed).all())
            return not (exchanges and _are_of_a_round(rows) and are_scores)
        case TrainLocally():
            return not in_rounds or exchanges
        case InstallModel(model):
            return in_rounds or model != constant_model(0, 3, (2,))
    return True


def _is_map(kind: str, data: bytes) -> bool:
    try:
        return unpack(kind, data, (2,)).width == 8
    except LimbeckError:
        return False


def _are_of_a_round(rows: Any) -> bool:
    return len(rows) == 5 and len(set(rows.tolist())) == 5 and all(0 <= row < 8 for row in rows)


def _are_usual(data: bytes) -> bool:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return all((np.abs(values) <= 1e6).all() for values in load(data).values())
    except SafetensorError:
        return False


# The attacks that were once found, each with what made it possible put back: then the same checks fail.


def attack_a_teacher_that_cannot_be_fitted(both: Pair) -> None:
    assert both.ask(METHODS["fedkt"], TrainStudents(), 0)[0].refusal is None


def _is_answered(both: Pair, name: str) -> None:
    """As an honest server asks; so that a refusal is one of what was altered."""
    for turn, request in enumerate(honest(METHODS[name])):
        assert both.ask(METHODS[name], request, turn, run=f"honest-{name}")[0].refusal is None


def attack_weights_that_overflow_on_one_row(both: Pair) -> None:
    _is_answered(both, "ldp")
    replies = both.ask(METHODS["ldp"], Initialize(weights(1.0)), 0)
    assert replies[0].refusal is not None, "weights were taken although nobody agreed to that"


def attack_weights_out_of_range(both: Pair) -> None:
    _is_answered(both, "pretrained")
    replies = both.ask(METHODS["pretrained"], Initialize(weights(1e20)), 0)
    assert replies[0].refusal is not None, "weights out of range were taken"


def attack_a_network_that_diverges(both: Pair) -> None:
    _is_answered(both, "ldp")


def attack_a_run_that_exchanges_nothing(both: Pair) -> None:
    wild = replace(METHODS["silent"], fine_tune=replace(QUICK, learning_rate=2e38))
    assert both.ask(wild, Initialize(weights(1.0)), 0)[0].refusal is None


def attack_more_subsets_than_rows(both: Pair) -> None:
    method = replace(METHODS["fedkt-add-remove"], subsets=8)
    assert both.ask(method, TrainStudents(), 0)[0].refusal is None


def attack_more_rounds_than_agreed(both: Pair) -> None:
    _is_answered(both, "ldp")
    again: list[Message] = [DigestConsensus(ALIGNED, np.zeros((5, 3))), ScoreRequest(ALIGNED)]
    for turn, request in enumerate([*honest(METHODS["ldp"]), *again]):
        replies = both.ask(METHODS["ldp"], request, turn)
    assert replies[0].refusal is not None, "a third round of two was answered"


def attack_seeds_that_choose_who_shares_a_teacher(both: Pair) -> None:
    _is_answered(both, "fedkt")
    found = [_cuts(both, METHODS["fedkt"], seed) for seed in (0, 1, 2)]
    assert found[0] == found[1] == found[2], "the server's seed decides who shares a teacher"


def _cuts(both: Pair, method: Any, seed: int) -> Any:
    asked = hostile_server.question(method, honest(method)[0], 0, seed, "cuts")
    silo = accept_request(PartyFolder(both.homes[0]), asked).silo
    return [rows.tolist() for rows in cut(silo, method.subsets, method.privacy)]


def attack_a_final_model_that_is_none(both: Pair) -> None:
    good = both.ask(METHODS["fedkt"], InstallModel(constant_model(0, 3, (2,))), 0, run="good")
    assert good[0].refusal is None
    replies = both.ask(METHODS["fedkt"], InstallModel(b"no model"), 0)
    assert replies[0].refusal is not None, "a file that is no model was kept"


def attack_a_model_that_computes_with_all_rows_together(both: Pair) -> None:
    assert both.ask(EVALUATION, CountRequest(of_all_rows(), EDGES), 0)[0].refusal is None


def attack_an_evaluated_model_that_is_none(both: Pair) -> None:
    replies = both.ask(EVALUATION, CountRequest(b"no model", EDGES), 0)
    assert "the final model is not accepted" in str(replies[0].refusal)


ATTACKS: dict[str, tuple[Callable[[Pair], None], dict[str, Any], tuple[Rows, Rows]]] = {
    "knn": (attack_a_teacher_that_cannot_be_fitted, {"name": "knn"}, replaced(1.0, 1)),
    "1e30": (attack_a_teacher_that_cannot_be_fitted, NETWORK, replaced(1e30, 1)),
    "overflow": (attack_weights_that_overflow_on_one_row, NETWORK, replaced(1e30, 1)),
    "range": (attack_weights_out_of_range, NETWORK, replaced(1.0, 1)),
    "diverges": (attack_a_network_that_diverges, NETWORK, replaced(1e30, 1)),
    "silent": (attack_a_run_that_exchanges_nothing, NETWORK, replaced(1e30, 1)),
    "subsets": (attack_more_subsets_than_rows, {"name": "decision-tree"}, removed()),
    "rounds": (attack_more_rounds_than_agreed, {"name": "decision-tree"}, replaced(1.0, 1)),
    "seeds": (attack_seeds_that_choose_who_shares_a_teacher, MODELS[0], replaced(1.0, 1)),
    "together": (attack_a_model_that_computes_with_all_rows_together, MODELS[0], replaced(50.0, 1)),
    "evaluated": (attack_an_evaluated_model_that_is_none, MODELS[0], replaced(1.0, 1)),
    "install": (attack_a_final_model_that_is_none, {"name": "decision-tree"}, replaced(1.0, 1)),
}


def _attack(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attack, model, rows = ATTACKS[name]
    with pair(folder / "pair", alike(rows) if "knn" in name else rows, model, AGREE, monkeypatch) as both:
        attack(both)


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_do_not_work(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _attack(name, folder, monkeypatch)


def _no_guard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Silo, "train", Site.train)


def _no_check_of_requests(patch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        patch.setattr(kind, "check", lambda *given: None)


def _any_number_of_times(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Site, "_times", lambda site, what: 0)


def _any_weights(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("limbeck.algorithms.local_training.check_weights", lambda given, like: given)


def _refuse_few_rows(patch: pytest.MonkeyPatch) -> None:
    def refuse(silo: Silo, subsets: int, *more: Any) -> Any:
        if len(silo.private) < subsets:
            raise LimbeckError(f"{silo.name} has {len(silo.private)} rows")
        return cut(silo, subsets, *more)

    patch.setattr("limbeck.algorithms.fedkt.cut", refuse)


def _cuts_from_the_seed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("limbeck.consortium.party.PartyFolder.secret", None)


def _all_rows_together(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PredictAlone, "run", lambda job, classes, seed: PackedModel(job.packed).run(job.asked))


def _any_model(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("limbeck.consortium.answering._check_model", lambda *given: None)
    patch.setattr("limbeck.consortium.answering._hand_over_model", lambda *given: None)


@pytest.mark.parametrize(
    ("undo", "name"),
    [
        (_no_guard, "knn"),
        (_no_guard, "1e30"),
        (_no_guard, "diverges"),
        (_no_guard, "silent"),
        (_no_check_of_requests, "overflow"),
        (_any_number_of_times, "rounds"),
        (_any_weights, "range"),
        (_refuse_few_rows, "subsets"),
        (_cuts_from_the_seed, "seeds"),
        (_all_rows_together, "together"),
        (_any_model, "evaluated"),
        (_any_model, "install"),
    ],
)
def test_without_one_of_the_defences_an_attack_works(
    undo: Callable[[pytest.MonkeyPatch], None], name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undo(monkeypatch)
    with pytest.raises(AssertionError):
        _attack(name, folder, monkeypatch)


@pytest.mark.parametrize(
    ("undo", "name"),
    [
        (_no_guard, "fedkt"),
        (_no_guard, "ldp"),
        (_no_guard, "silent"),
        (_no_guard, "fedkd"),
        (_no_check_of_requests, "ldp"),
        (_any_weights, "pretrained"),
        (_refuse_few_rows, "fedkt-add-remove"),
        (_cuts_from_the_seed, "fedkt"),
        pytest.param(_any_model, "fedkt", marks=pytest.mark.slow),  # models are tried in a process of their own
    ],
)
def test_without_one_of_the_defences_asking_whatever_notices(
    undo: Callable[[pytest.MonkeyPatch], None], name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _notices(undo, name, folder, monkeypatch)
