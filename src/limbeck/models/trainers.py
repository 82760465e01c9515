"""Which trainer: by the user's word, or by what there is to train and to train on; never in silence."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from limbeck.errors import LimbeckError
from limbeck.models.pool import PoolTrainer, Watch, unwatched
from limbeck.protocol.learning import Model, Trainer

Precision = Literal["float32", "tf32", "bfloat16", "float64"]


@dataclass(frozen=True, slots=True)
class Training:
    """How networks are trained. `checkpoint` is a folder; a training that was interrupted goes on from there."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    trainer: Literal["auto", "sequential", "pool", "stacked"] = "auto"
    precision: Precision = "float32"
    compile: Literal["auto", "always", "never"] = "auto"
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        if self.trainer == "pool" and self.device == "cuda":
            raise LimbeckError('trainer = "pool" trains on the CPU: say device = "cpu", or trainer = "stacked"')
        if self.checkpoint is not None and self.trainer in ("sequential", "pool"):
            raise LimbeckError(f'checkpoint needs trainer = "stacked", not {self.trainer!r}')


def trainer_for(
    training: Training,
    models: Iterable[Model],
    processes: int | None = None,
    watch: Watch = unwatched,
    base: Path = Path(),
    isolated: bool = False,
) -> Trainer:
    """The trainer of a run; its `description` tells which it is and why.

    `isolated`: rows of one teacher must not change another, not even in the last digit, as noise for real rows assumes.
    Networks that share a program on a GPU may round differently in other company.
    """
    if not any(is_network(model) for model in models):
        return PoolTrainer(processes, watch, "no networks")
    device, found = _device(training)
    name, chosen = _name(training, device, isolated)
    why = f"{found}: {chosen}"
    if name == "pool":
        if training.checkpoint or training.precision != "float32":
            key = "checkpoint" if training.checkpoint else "precision"
            raise LimbeckError(f'training.{key}: networks in a pool have none; say trainer = "stacked"')
        return PoolTrainer(processes, watch, why)
    from limbeck.models.device import Device
    from limbeck.models.sequential import SequentialTrainer
    from limbeck.models.stacked.checkpoint import Checkpoints
    from limbeck.models.stacked.trainer import StackedTrainer

    target = Device(device, training.precision)
    alone = SequentialTrainer(target, PoolTrainer(processes, watch), watch, why)
    if name == "sequential":
        return alone
    checkpoints = Checkpoints(base / training.checkpoint) if training.checkpoint else None
    return StackedTrainer(target, alone, training.compile, checkpoints, watch=watch, why=why)


def is_network(model: Model) -> bool:
    """Whether a model is a torch network, without importing torch to find out."""
    return any(kind.__module__ == "limbeck.models.torch" for kind in type(model).__mro__)


def finish(trainer: Any) -> None:
    """The run that a trainer worked for is over: what it kept for an interruption is no longer needed."""
    if (checkpoints := getattr(trainer, "checkpoints", None)) is not None:
        checkpoints.finish()


def _device(training: Training) -> tuple[str, str]:
    if training.device == "cpu" or training.trainer == "pool":
        return "cpu", f"device = {training.device}"
    if _has_gpu():
        return "cuda", "a GPU"
    if training.device == "cuda":
        raise LimbeckError('training.device = "cuda": torch sees no GPU here; say "auto" or "cpu"')
    return "cpu", "no GPU"


def _name(training: Training, device: str, isolated: bool) -> tuple[str, str]:
    if isolated and training.trainer == "stacked":
        raise LimbeckError(
            'training.trainer = "stacked": networks in one program may change each other in the last digit, which the '
            'noise of a real run does not cover; say "sequential" or "pool"'
        )
    if isolated and training.trainer == "auto" and device == "cuda":
        return "sequential", "networks are trained one by one, for real noise"
    if training.trainer != "auto":
        return training.trainer, f"trainer = {training.trainer}"
    return ("stacked", "networks are stacked") if device == "cuda" else ("pool", "networks have a core each")


@cache
def _has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()
