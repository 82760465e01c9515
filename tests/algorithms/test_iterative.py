"""The iterative methods: what equals what, references worked out by hand, invalid replies, silence, and who is asked."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

from limbeck.algorithms.fedavg import FedAvg, TrainRequest, Update
from limbeck.algorithms.fedavgm import FedAvgM
from limbeck.algorithms.feddf import FedDF
from limbeck.algorithms.fedgen import FedGEN
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedkt_prox import FedKTAvg, FedKTProx
from limbeck.algorithms.fedprox import FedProx
from limbeck.algorithms.scaffold import ControlledUpdate, Scaffold
from limbeck.checks import small_federation
from limbeck.engines.in_process import InProcess
from limbeck.errors import LimbeckError
from limbeck.experiments.federation import Federation
from limbeck.models.device import Device
from limbeck.models.jobs import InitialWeights, Pack, Refit
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.models.sequential import SequentialTrainer
from limbeck.models.stacked.trainer import StackedTrainer
from limbeck.models.torch import TorchModel
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.ledger import LedgerStore
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.site import Silo

ADAM = Recipe(epochs=2, batch=8)
SGD = Recipe(epochs=2, batch=8, optimizer="sgd", momentum=0.0, learning_rate=0.05)


def engine(algorithm: Algorithm, made: Federation | None = None, **how: Any) -> InProcess:
    trainer = PoolTrainer(1)
    rows = replace(made or small_federation(algorithm), ledger_store=LedgerStore())
    return InProcess(algorithm, *rows.sites(trainer), trainer, **how)


def weights_of(algorithm: Algorithm, made: Federation | None = None, **how: Any) -> bytes:
    ran = engine(algorithm, made, **how)
    ran.run()
    assert ran.server.progress is not None
    return ran.server.progress


def alone(algorithm: Algorithm) -> Federation:
    made = small_federation(algorithm)
    return replace(made, private=made.private[:1], models=made.models[:1])


@pytest.mark.parametrize(
    "same",
    [FedProx(rounds=3, local=ADAM, mu=0.0), FedAvgM(rounds=3, local=ADAM, momentum=0.0), FedDF(3, 1.0, ADAM, None)],
)
def test_what_they_add_to_fedavg_can_be_switched_off(same: Algorithm) -> None:
    assert weights_of(same) == weights_of(FedAvg(rounds=3, local=ADAM))


@pytest.mark.parametrize(
    "other", [FedProx(rounds=3, local=ADAM), FedAvgM(rounds=3, local=ADAM), FedDF(rounds=3, local=ADAM, distil=ADAM)]
)
def test_and_does_something_where_it_is_on(other: Algorithm) -> None:
    assert weights_of(other) != weights_of(FedAvg(rounds=3, local=ADAM))


def test_fedavg_of_one_party_and_one_epoch_is_plain_training() -> None:
    """Three rounds of an epoch are three trainings, each from where the last one ended."""
    one_epoch = replace(ADAM, epochs=1)
    made = alone(FedAvg())
    server, [silo] = made.sites(PoolTrainer(1))
    model, (x, y) = cast(TorchModel, silo.model), (made.private[0].x, made.private[0].y)
    [weights] = server.train([InitialWeights(model, x.shape[1:])])
    for turn in range(3):
        silo.begin(turn)
        [weights] = silo.train([Refit(model, x, y, weights, one_epoch)])
    assert weights_of(FedAvg(rounds=3, local=one_epoch), made) == weights


def test_scaffold_of_one_party_is_sgd() -> None:
    made = alone(FedAvg())
    assert weights_of(Scaffold(rounds=4, local=SGD), made) == weights_of(FedAvg(rounds=4, local=SGD), made)
    assert weights_of(Scaffold(rounds=4, local=SGD)) != weights_of(FedAvg(rounds=4, local=SGD))


def plain_linear(shape: tuple[int, ...], classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(int(np.prod(shape)), classes))


@pytest.mark.parametrize("algorithm", [FedAvg, Scaffold])
def test_one_party_alone_takes_the_steps_that_torch_takes(algorithm: Any) -> None:
    """Whole batches, so that no order matters: three rounds of one epoch are three steps of torch's own SGD."""
    local = Recipe(epochs=1, batch=1000, optimizer="sgd", momentum=0.0, learning_rate=0.05)
    model = TorchModel(plain_linear)
    made = replace(alone(algorithm()), models=[model], server_model=model)
    found = load(weights_of(algorithm(rounds=3, local=local), made))
    server, _ = made.sites(PoolTrainer(1))
    x, y = torch.from_numpy(made.private[0].x), torch.from_numpy(made.private[0].y)
    [first] = server.train([InitialWeights(model, x.shape[1:])])
    network = plain_linear(tuple(x.shape[1:]), len(made.classes))
    network.load_state_dict({name: torch.from_numpy(values) for name, values in load(first).items()})
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    for name, values in network.state_dict().items():
        np.testing.assert_allclose(found[name], values.numpy(), rtol=1e-5, atol=1e-6)


def test_scaffold_is_what_its_authors_write() -> None:
    """Whole batches, so that no order matters: option II by hand, in double precision, for three rounds."""
    rate, steps, rounds = 0.05, 4, 3
    local = Recipe(epochs=steps, batch=1000, optimizer="sgd", momentum=0.0, learning_rate=rate)
    model = TorchModel(plain_linear)
    made = replace(small_federation(Scaffold()), models=[model] * 3, server_model=model)
    found = load(weights_of(Scaffold(rounds=rounds, local=local), made))
    server, _ = made.sites(PoolTrainer(1))
    [first] = server.train([InitialWeights(model, made.private[0].x.shape[1:])])
    x = {name: torch.from_numpy(values).double() for name, values in load(first).items()}
    c: Any = {name: torch.zeros_like(values) for name, values in x.items()}
    own: Any = [c] * 3
    rows = [(torch.from_numpy(r.x).double(), torch.from_numpy(r.y)) for r in made.private]
    for _ in range(rounds):
        ends, new = [], []
        for (features, labels), c_i in zip(rows, own, strict=True):
            y = {name: values.clone().requires_grad_() for name, values in x.items()}
            for _ in range(steps):
                logits = features.flatten(1) @ y["1.weight"].T + y["1.bias"]
                loss = torch.nn.functional.cross_entropy(logits, labels)
                gradients = dict(zip(y, torch.autograd.grad(loss, list(y.values())), strict=True))
                y = {n: (v - rate * (gradients[n] - c_i[n] + c[n])).detach().requires_grad_() for n, v in y.items()}
            ends.append(y)
            new.append({name: c_i[name] - c[name] + (x[name] - y[name].detach()) / (steps * rate) for name in y})
        shares = [len(r.x) / sum(len(other.x) for other in made.private) for r in made.private]
        x = {n: cast(Any, sum(s * e[n].detach() for s, e in zip(shares, ends, strict=True))) for n in x}
        c = {n: c[n] + sum(b[n] - a[n] for a, b in zip(own, new, strict=True)) / 3 for n in c}
        own = new
    for name in x:
        assert np.abs(found[name] - x[name].numpy()).max() < 1e-5


def test_fedavgm_is_what_its_authors_write() -> None:
    """By hand from FedAvg's own rounds: v = 0.9 v + (w - mean), w = w - v."""
    algorithm = FedAvgM(rounds=1, local=ADAM, momentum=0.9)
    memory: dict[str, Any] = {}
    server, _ = small_federation(algorithm).sites(PoolTrainer(1))
    model = cast(TorchModel, server.model)
    [first] = server.train([InitialWeights(model, (4,))])
    w = load(first)
    rng = np.random.default_rng(0)
    by_hand, v = w, dict.fromkeys(w, 0.0)
    trained = model.trained_names((4,), 3)
    for _ in range(3):
        mean = {name: rng.normal(size=values.shape).astype(values.dtype) for name, values in w.items()}
        w = load(algorithm.merge(w, [Update(save(mean), 5)], server, memory))
        v = {n: 0.9 * v[n] + (by_hand[n] - mean[n]) if n in trained else by_hand[n] - mean[n] for n in mean}
        by_hand = {name: by_hand[name] - v[name] for name in v}
        assert all(np.allclose(w[name], by_hand[name], atol=1e-5) for name in trained)
        assert all((w[name] == mean[name]).all() for name in mean if name not in trained)


def test_all_parties_of_a_round_are_trained_in_one_stack_and_come_to_the_same() -> None:
    made = small_federation(FedProx())
    trainer = StackedTrainer(Device(), SequentialTrainer())
    local = replace(ADAM, epochs=1)
    ran = InProcess(FedProx(rounds=2, local=local), *made.sites(trainer), trainer)
    ran.run()
    fits = [note for note in trainer.stacks if "depth" in note]
    assert [note["networks"] for note in fits] == [3, 3]
    assert len(trainer._cached_stacks) == 1
    one, other = load(cast(bytes, ran.server.progress)), load(weights_of(FedProx(rounds=2, local=local), made))
    assert max(float(np.abs(one[name] - other[name]).max()) for name in one) < 1e-3


def test_a_share_of_the_parties_is_asked_and_the_others_cost_no_bytes() -> None:
    ran = engine(FedAvg(rounds=6, participation=0.34, local=ADAM))
    ran.run()
    asked = [set(exchange.down) for exchange in ran.traffic.exchanges[:6]]
    assert all(len(parties) == 1 for parties in asked)
    assert len(set.union(*asked)) > 1
    assert all(set(exchange.up) == parties for exchange, parties in zip(ran.traffic.exchanges, asked, strict=False))
    assert set(ran.traffic.exchanges[-1].down) == {0, 1, 2}
    assert ran.traffic.missing == ()


def test_weights_travel_as_safetensors_and_are_weighed() -> None:
    """Compressed where that helps, which it hardly does."""
    ran = engine(FedAvg(rounds=1, local=ADAM))
    ran.run()
    weights = cast(bytes, ran.server.progress)
    numbers = sum(values.nbytes for values in load(weights).values())
    assert all(0.8 * numbers < sent < len(weights) + 600 for sent in ran.traffic.exchanges[0].up.values())


@dataclass(frozen=True, slots=True)
class Spoilt(FedAvg):
    """Party 1 sends what is no weights of the network."""

    how: str = "nan"

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if not isinstance(request, TrainRequest) or (silo.party != 1 and self.how != "all"):
            return FedAvg.answer(self, request, silo)
        values = load(request.weights)
        spoilt = {
            "nan": lambda: save(
                {name: np.full_like(values[name], np.nan) for name in values if values[name].dtype == np.float32}
            ),
            "all": lambda: save(
                {name: np.full_like(values[name], np.nan) for name in values if values[name].dtype == np.float32}
            ),
            "other": lambda: save({"w": np.zeros(3, np.float32)}),
            "noise": lambda: b"\x00" * 50,
        }[self.how]()
        return silo.disclose("update", Update(spoilt, 40))


@pytest.mark.parametrize("how", ["nan", "other", "noise"])
def test_a_party_that_sends_no_weights_is_left_out_and_named(how: str) -> None:
    made = small_federation(FedAvg())
    ran = engine(Spoilt(rounds=2, local=ADAM, how=how), made)
    ran.run()
    message = "weights of another network, or weights that are not finite"
    assert ran.rejections == [f"request {n}: party 1: {message}" for n in (0, 1)]
    assert ran.server.progress == weights_of(FedAvg(rounds=2, local=ADAM), made, silent=[1])


def test_when_nobody_sends_weights_the_run_ends() -> None:
    with pytest.raises(
        LimbeckError, match=r"0 of 3 parties sent a valid reply, at least 1 must \(party 0: weights of another network"
    ):
        engine(Spoilt(rounds=2, local=ADAM, how="all")).run()


@dataclass(frozen=True, slots=True)
class Amiss(Scaffold):
    """Party 1 sends a change of no control variate."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if silo.party != 1 or not isinstance(request, TrainRequest):
            return Scaffold.answer(self, request, silo)
        update = self.update(request, silo)
        assert isinstance(update, ControlledUpdate)
        return silo.disclose("update", replace(update, change=save({"w": np.zeros(1)})))


def test_a_party_without_a_control_variate_is_left_out_and_named() -> None:
    ran = engine(Amiss(rounds=1, local=SGD))
    ran.run()
    message = "control variates of another network, or control variates that are not finite"
    assert ran.rejections == [f"request 0: party 1: {message}"]


class SilentFor(InProcess):
    """A party is silent in some rounds and comes back."""

    rounds: Iterable[int] = ()

    def deliver(self, pending: Any) -> Any:
        self.silent = frozenset([1] if pending.header.turn in self.rounds else [])
        return super().deliver(pending)


@pytest.mark.parametrize(
    "algorithm", [FedAvg(rounds=4, local=ADAM), Scaffold(rounds=4, local=SGD), FedGEN(rounds=4, local=ADAM, drawn=64)]
)
def test_a_party_that_was_silent_comes_back(algorithm: Algorithm) -> None:
    trainer = PoolTrainer(1)
    ran = SilentFor(algorithm, *small_federation(algorithm).sites(trainer), trainer)
    ran.rounds = (1, 2)
    outcome = ran.run()
    assert outcome.model is not None
    assert [exchange.missing for exchange in ran.traffic.exchanges] == [(), (1,), (1,), (), ()]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([{"name": "decision-tree"}] * 4, "fedavg sends the weights of a network, but a decision-tree has none"),
        (
            [{"name": "torch-mlp", "hidden": [8]}] * 2
            + [{"name": "torch-mlp", "hidden": [9]}, {"name": "torch-mlp", "hidden": [8]}],
            r"party 2 has another network \(torch-mlp hidden=\[9\]\) than the server \(torch-mlp hidden=\[8\]\)",
        ),
    ],
)
def test_who_has_another_network_is_named_before_anyone_trains(models: Any, message: str) -> None:
    *parties, server = [model_from(model) for model in models]
    with pytest.raises(LimbeckError, match=message):
        replace(small_federation(FedAvg()), models=parties, server_model=server)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedAvg(rounds=0), "rounds = 0: Input should be greater than or equal to 1"),
        (lambda: FedAvg(participation=0.0), r"participation = 0\.0: Input should be greater than 0"),
        (lambda: FedProx(mu=-1.0), "mu = -1"),
        (lambda: FedProx(local=Recipe(proximal=1.0)), "local.proximal: fedprox sets it from mu"),
        (lambda: FedAvgM(momentum=1.0), r"momentum = 1\.0: Input should be less than 1"),
        (lambda: Scaffold(local=ADAM), "scaffold needs optimizer"),
        (lambda: FedGEN(alpha=-1.0), "alpha = -1"),
        (lambda: FedGEN(local=Recipe(augmentation="flip")), "fedgen trains on images and latents in one batch"),
        (
            lambda: FedKTProx(start=FedKT(privacy=Privacy(level="L1", epsilon=1.0))),
            "weights leave unprotected in the rounds",
        ),
    ],
)
def test_bad_parameters_get_one_clear_line(make: Any, message: str) -> None:
    with pytest.raises(LimbeckError, match=message):
        make()


def test_fedgen_refuses_a_network_without_a_last_layer_before_anyone_trains() -> None:
    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return cast(torch.Tensor, self.inner(x))

    model = TorchModel(lambda shape, classes: Wrapped())
    algorithm = FedGEN(rounds=1, local=ADAM)
    made = replace(small_federation(algorithm), models=[model] * 3, server_model=model)
    with pytest.raises(LimbeckError, match="cannot be trained on values of its last hidden layer"):
        engine(algorithm, made).run()


def test_feddf_comes_nearer_to_what_its_parties_predict_together() -> None:
    """Distance of the merged network's logits from the parties' mean ones, over the public rows."""
    ran: dict[str, Any] = {}
    for name, distil in (("average", None), ("distilled", Recipe(epochs=30, batch=16))):
        made = small_federation(FedDF())
        algorithm = FedDF(rounds=1, local=replace(ADAM, epochs=150), distil=distil)
        delivered: list[Any] = []
        watched = engine(algorithm, made)
        original = watched.deliver
        watched.deliver = lambda pending, o=original, h=delivered: h.append(dict(o(pending))) or h[-1].items()  # type: ignore[method-assign,misc]
        watched.run()
        model, public = cast(TorchModel, made.server_model), cast(Any, made.public).x
        predictions = [model.with_weights(d.reply.weights, (4,), 3).logits(public) for d in delivered[0].values()]
        final = model.with_weights(cast(bytes, watched.server.progress), (4,), 3).logits(public)
        one, other = (
            torch.log_softmax(torch.from_numpy(logits), 1) for logits in (final, np.mean(predictions, axis=0))
        )
        ran[name] = float(torch.nn.functional.kl_div(one, other, log_target=True, reduction="batchmean"))
    assert ran["distilled"] < 0.5 * ran["average"]


def test_fedkt_is_where_fedkt_prox_starts() -> None:
    """To the bit: FedKT's final model, packed, is the network that its first round is asked to improve."""
    start, then = FedKT(partitions=1, subsets=2), FedProx(rounds=2, local=ADAM)
    algorithm = FedKTProx(start=start, then=then)
    network = model_from({"name": "torch-mlp", "hidden": [8], "recipe": {"epochs": 150}})
    made = replace(small_federation(algorithm), models=[network] * 3, server_model=network)
    ran = engine(algorithm, made)
    seen: list[bytes] = []
    ran.watch = lambda engine: seen.append(cast(bytes, engine.server.progress))
    ran.run()
    model = cast(TorchModel, made.server_model)
    assert Pack(model, seen[1], (4,)).run(3, 0) == engine(start, made).run().model
    assert [exchange.request for exchange in ran.traffic.exchanges] == [
        "TrainStudents",
        "TrainRequest",
        "TrainRequest",
        "InstallModel",
    ]
    assert ran.traffic.rounds == 3
    assert not isinstance(FedKTAvg().then, FedProx)


def test_nothing_is_promised_and_the_record_reports_it() -> None:
    record = small_federation(Scaffold(rounds=1, local=SGD)).run(PoolTrainer(1)).record
    assert set(record.epsilon.values()) == {float("inf")}
    assert {row["mechanism"] for row in record.ledger} == {"unprotected", "post-processing"}


def test_the_record_has_the_networks_accuracy_before_and_after_every_round() -> None:
    record = small_federation(FedAvg(rounds=3, local=ADAM)).run(PoolTrainer(1)).record
    assert [point["round"] for point in record.curve] == [0, 1, 2, 3]
    assert record.metrics is not None
    assert record.curve[-1]["server"] == record.metrics.accuracy
