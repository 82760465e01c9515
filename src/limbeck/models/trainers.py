"""The choice of a trainer: by the user, or by what is trained and on which device."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from limbeck.errors import LimbeckError
from limbeck.models.clusters.trainer import ClusterTrainer, Workers
from limbeck.models.pool import PoolTrainer, Watch, unwatched
from limbeck.models.threads import ThreadTrainer, suffice
from limbeck.protocol.learning import Model, Trainer
from limbeck.tables import check_fields

Precision = Literal["float32", "tf32", "bfloat16", "float64"]


@dataclass(frozen=True, slots=True)
class Training:
    """How networks are trained.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        `auto` means a GPU if torch sees one.
    trainer : {"auto", "sequential", "pool", "stacked"}
        `auto` means `stacked` on a GPU and `pool` on a CPU, where small networks train together.
    precision : {"float32", "tf32", "bfloat16", "float64"}
        Precision of networks; `tf32` and `bfloat16` round only the factors of products.
    compile : {"auto", "always", "never"}
        Whether `stacked` compiles its steps on a GPU; `auto` does so if the training is so long that this saves time.
    checkpoint : str or None
        Folder in which `stacked` saves the state of trainings, to continue after an interruption.

    Raises
    ------
    LimbeckError
        If the values do not suit each other, for example `pool` and `cuda`.

    Notes
    -----
    These settings are for networks only. All other models are fitted in a pool of processes; forests on two cores in
    threads.

    Examples
    --------
    >>> import limbeck as lb
    >>> lb.Training(device="cpu", precision="float64")
    Training(device='cpu', trainer='auto', precision='float64', compile='auto', checkpoint=None)
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    trainer: Literal["auto", "sequential", "pool", "stacked"] = "auto"
    precision: Precision = "float32"
    compile: Literal["auto", "always", "never"] = "auto"
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.trainer == "pool" and self.device == "cuda":
            raise LimbeckError('trainer = "pool" trains on the CPU: use device = "cpu" or trainer = "stacked"')
        if self.checkpoint is not None and self.trainer in ("sequential", "pool"):
            raise LimbeckError(f'checkpoint needs trainer = "stacked", not {self.trainer!r}')


def trainer_for(
    training: Training,
    models: Iterable[Model],
    processes: int | None = None,
    watch: Watch = unwatched,
    base: Path = Path(),
    isolated: bool = False,
    cluster: Workers | None = None,
) -> Trainer:
    """Trainer of a run; its `description` says which one it is, and why.

    Parameters
    ----------
    training : Training
        The user's settings.
    models : iterable of Model
        Models of the run.
    processes : int or None
        Number of processes; None means one per core.
    watch : callable
        `watch(results, total)` passes on the results as they come, for example to a progress bar.
    base : Path
        Folder that contains `training.checkpoint`.
    isolated : bool
        Whether one teacher's rows must not change another teacher in any digit, which noise for real rows assumes.
        Networks that share a program on a GPU may round differently if the others change. On a CPU they then have a
        process each.
    cluster : Workers or None
        Cluster whose workers run the jobs, in the place of processes.

    Returns
    -------
    Trainer
        The trainer.

    Raises
    ------
    LimbeckError
        If the settings cannot be met.

    Examples
    --------
    >>> trainer_for(Training(), models=[]).description["why"]
    'no networks'
    """
    models = list(models)
    if cluster is not None:
        return _on_cluster(cluster, training, models, watch, isolated)
    if not any(is_network(model) for model in models):
        pool = PoolTrainer(processes, watch, "no networks")
        return ThreadTrainer(pool) if suffice(models, processes) else pool
    device, found = _device(training)
    name, chosen = _name(training, device, isolated)
    why = f"{found}: {chosen}"
    if name == "pool":
        if training.checkpoint or training.precision != "float32":
            key = "checkpoint" if training.checkpoint else "precision"
            raise LimbeckError(f'training.{key}: trainer = "pool" does not support it; use trainer = "stacked"')
        return PoolTrainer(processes, watch, why, together=training.trainer == "auto" and not isolated)
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
    """Whether a model is a torch network; torch is not imported to find out."""
    return any(kind.__module__ == "limbeck.models.torch" for kind in type(model).__mro__)


def finish(trainer: Any) -> None:
    """Remove a trainer's checkpoints after its run has ended."""
    if (checkpoints := getattr(trainer, "checkpoints", None)) is not None:
        checkpoints.finish()


def _on_cluster(cluster: Workers, training: Training, models: Sequence[Model], watch: Watch, isolated: bool) -> Trainer:
    possible = {
        "device": ("auto", "cpu"),
        "trainer": ("auto", "pool"),
        "precision": ("float32",),
        "checkpoint": (None,),
    }
    networks = any(is_network(model) for model in models)
    for key, values in possible.items() if networks else ():
        if (value := getattr(training, key)) not in values:
            raise LimbeckError(f'training.{key} = "{value}": a cluster does not support it; leave out the key')
    together = networks and training.trainer == "auto" and not isolated
    return ClusterTrainer(cluster, watch, f"cluster = {cluster.address}", together)


def _device(training: Training) -> tuple[str, str]:
    if training.device == "cpu" or training.trainer == "pool":
        return "cpu", f"device = {training.device}"
    if _has_gpu():
        return "cuda", "a GPU"
    if training.device == "cuda":
        raise LimbeckError('training.device = "cuda": torch sees no GPU here; use "auto" or "cpu"')
    return "cpu", "no GPU"


def _name(training: Training, device: str, isolated: bool) -> tuple[str, str]:
    if isolated and training.trainer == "stacked":
        raise LimbeckError(
            'training.trainer = "stacked": networks in one program may change each other in the last digit, which the '
            'noise of a real run does not cover; use "sequential" or "pool"'
        )
    if isolated and training.trainer == "auto" and device == "cuda":
        return "sequential", "networks are trained one by one, for real noise"
    if training.trainer != "auto":
        return training.trainer, f"trainer = {training.trainer}"
    if device == "cuda":
        return "stacked", "networks are stacked"
    if isolated:
        return "pool", "networks have a core each"
    return "pool", "small networks train together, others have a core each"


@cache
def _has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()
