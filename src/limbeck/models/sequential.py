"""The sequential trainer: one network after the other in this process, on any device."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from limbeck.models.caching import Timed
from limbeck.models.caching import plain as plain
from limbeck.models.device import CPU, Device
from limbeck.models.jobs import ForwardPass
from limbeck.models.pool import PoolTrainer, Watch, completed, failed, unwatched
from limbeck.models.torch import TorchModel
from limbeck.protocol.learning import Guarded, Job, Trainer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SequentialTrainer:
    """Trainer that trains one network after the other.

    Parameters
    ----------
    device : Device
        Device and precision.
    others : Trainer
        Runs the jobs that are not networks.
    watch : callable
        `watch(results, total)` passes on the results as they come, for example to a progress bar.
    why : str
        Why this trainer was chosen, for the run record.
    """

    device: Device = CPU
    others: Trainer = field(default_factory=lambda: PoolTrainer(1))
    watch: Watch = unwatched
    why: str = ""

    @property
    def description(self) -> dict[str, Any]:
        """What the run record says about the trainer."""
        at = {"device": self.device.type, "precision": self.device.precision}
        return {"trainer": "sequential", **at, "why": self.why}

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Run the jobs; returns their results in order."""
        networks = [index for index, job in enumerate(jobs) if fits_network(job) or isinstance(plain(job), ForwardPass)]
        fits = (self._attempt(i, jobs[i], classes, seeds[i]) for i in networks)
        results = dict(zip(networks, self.watch(fits, len(networks)) if networks else (), strict=True))
        return completed(results, self.others, jobs, classes, seeds)

    def _attempt(self, index: int, job: Any, classes: int, seed: int) -> Any:
        try:
            return self._fit(job, classes, seed)
        except Exception as error:  # a user's own network may raise anything
            raise failed(job, index, error) from error

    def _fit(self, job: Any, classes: int, seed: int) -> Any:
        if isinstance(job, Timed):
            return job.timed(lambda: self._fit(job.job, classes, seed))
        if isinstance(job, Guarded):
            return job.guard(lambda: self._fit(job.job, classes, seed))
        if isinstance(job, ForwardPass):
            return job.model.with_weights(job.start, job.asked.shape[1:], classes).logits(job.asked, self.device)
        if not len(job.rows):
            return job.run(classes, seed)
        given = (job.rows, job.targets, classes, seed, job.recipe, job.start, self.device, job.correction, job.weight)
        return job.finish(job.model.fit(*given))


def fits_network(job: Any) -> bool:
    """Whether a job fits a network."""
    fit = plain(job)
    return isinstance(getattr(fit, "model", None), TorchModel) and hasattr(fit, "finish")
