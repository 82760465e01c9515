"""The stacked trainer: fits with one architecture and one recipe share a stack."""

import copy
import gc
import hashlib
import math
import time
import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeVar, cast

import torch
from torch import nn

from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.models.caching import Timed, address, key_of_job
from limbeck.models.device import Device
from limbeck.models.jobs import FitAndScore, FitAndVote, FitJob
from limbeck.models.packing import channels_first
from limbeck.models.pool import Watch, completed, failed, unwatched
from limbeck.models.schedule import BatchSchedule
from limbeck.models.sequential import fits_network, plain
from limbeck.models.stacked.checkpoint import Checkpoints
from limbeck.models.stacked.cuda import CudaError
from limbeck.models.stacked.deduplication import DeduplicatedRows, deduplicated
from limbeck.models.stacked.layers import check_own_buffers
from limbeck.models.stacked.lenet import LeNetStack
from limbeck.models.stacked.stack import Stack, State
from limbeck.models.stacked.training_run import TrainingRun, take
from limbeck.models.torch import TorchModel, alone, check_finite, on, only_class
from limbeck.protocol.learning import Failure, FitError, Guarded, Job, Trainer
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

T = TypeVar("T")
COMPILING = 30.0  # seconds that it takes for the first time; 12 later
SAVED = (0.25e-3, 0.03e-9)  # seconds that a compiled step saves: at least, and for each value that layers compute
MAX_CACHED_STACKS = 32  # enough for ten architectures with three recipes


@dataclass(frozen=True, slots=True)
class StackMember:
    """Job in a stack.

    Parameters
    ----------
    index : int
        Number of the job.
    job : FitJob
        The job.
    seed : int
        Its seed.
    timed : bool
        Whether the result includes the seconds that the job took.
    guarded : bool
        Whether a failure is a result.
    """

    index: int
    job: FitJob[Any]
    seed: int
    timed: bool
    guarded: bool


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Jobs that can share a stack: they differ only in rows, targets and seeds.

    Parameters
    ----------
    kind : hashable
        What the jobs have in common: architecture, recipe and shapes.
    members : list of StackMember
        The jobs.
    classes : int
        Number of classes.
    """

    kind: Hashable
    members: list[StackMember]
    classes: int

    @property
    def model(self) -> TorchModel:
        """Model of the jobs."""
        return cast(TorchModel, self.members[0].job.model)

    @property
    def row(self) -> tuple[int, ...]:
        """Shape of a row."""
        return self.members[0].job.rows.shape[1:]

    def blame(self, error: BaseException) -> FitError:
        """FitError that names the first of the jobs."""
        return failed(self.members[0].job, self.members[0].index, error)


@dataclass(slots=True)
class StackedTrainer:
    """Trainer that trains networks in stacks; if a stack does not fit into memory, fewer networks train at once.

    Parameters
    ----------
    device : Device
        Device and precision.
    others : Trainer
        Runs all other jobs, and networks that cannot be stacked.
    compiling : {"auto", "always", "never"}
        Whether steps are compiled on a GPU.
    checkpoints : Checkpoints or None
        Where the state of trainings is saved.
    most : int or None
        Maximum depth of a stack.
    watch : callable
        `watch(results, total)` passes on the results as they come, for example to a progress bar.
    why : str
        Why this trainer was chosen, for the run record.
    stacks : list of dict
        Facts about each stack, for the run record.
    """

    device: Device
    others: Trainer
    compiling: Literal["auto", "always", "never"] = "auto"
    checkpoints: Checkpoints | None = None
    most: int | None = None
    watch: Watch = unwatched
    why: str = ""
    stacks: list[dict[str, Any]] = field(default_factory=list)
    _cached_stacks: dict[Hashable, Stack] = field(default_factory=dict)

    @property
    def description(self) -> dict[str, Any]:
        """What the run record says about the trainer."""
        at = {"device": self.device.type, "precision": self.device.precision}
        return {"trainer": "stacked", **at, "why": self.why, "stacks": self.stacks}

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        """Run the jobs; returns their results in order."""
        results: dict[int, Any] = {}
        for group in _groups(jobs, classes, seeds):
            results |= self._run(group)
        return completed(results, self.others, jobs, classes, seeds)

    def _run(self, group: StackGroup) -> dict[int, Any]:
        """Results by index of the job; none if the network cannot be stacked, which the record then says."""
        note: dict[str, Any] = {"model": group.model.name, "networks": len(group.members)}
        self.stacks.append(note)
        moments = [time.perf_counter()]
        trainings, data = self._training_runs(group)
        stack = self._stack(group, trainings, data, note)
        if stack is None:
            return {}
        moments.append(time.perf_counter())
        self._train(group, stack, trainings)
        moments.append(time.perf_counter())
        results = self._finish(group, stack, trainings)
        moments.append(time.perf_counter())
        phases = [after - before for before, after in pairwise(moments)]
        total = sum(training.schedule.total for training in trainings)
        note["network_steps"] = total
        note["seconds"] = dict(zip(("prepare", "train", "finish"), phases, strict=True))
        for member, training in zip(group.members, trainings, strict=True):
            if member.timed:
                results[member.index] = (results[member.index], phases[1] * training.schedule.total / total)
        return results

    def _training_runs(self, group: StackGroup) -> tuple[list[TrainingRun], DeduplicatedRows]:
        first = group.members[0].job
        try:
            recipe = group.model.checked(first.targets, first.recipe)
            data = deduplicated([member.job for member in group.members], self.device)
        except (LimbeckError, torch.OutOfMemoryError) as error:
            raise group.blame(error) from error
        trainings = [
            TrainingRun(
                member.index,
                member.seed,
                BatchSchedule(len(member.job.rows), recipe, member.seed),
                at,
                member.job.start,
                member.job.correction,
            )
            for member, at in zip(group.members, data.offsets, strict=True)
        ]
        return trainings, data

    def _stack(
        self, group: StackGroup, trainings: list[TrainingRun], data: DeduplicatedRows, note: dict[str, Any]
    ) -> Stack | None:
        """Stack as deep as the work needs and memory allows; None if the network cannot be stacked."""
        lengths = [training.schedule.total for training in trainings]
        depth = wanted = min(useful_depth(lengths), self.most or len(trainings))
        steps = max(max(lengths), sum(lengths) // depth)
        recipe = trainings[0].schedule.recipe
        compiled = self.device.type == "cuda" and self._compiles(group, steps, depth * recipe.batch)
        while (stack := self._try(group, depth, compiled, recipe, data, note)) is None:
            if "not stacked" in note:
                return None
            others = len(self._cached_stacks)
            self._cached_stacks.clear()
            _give_back_memory()
            if others:  # their memory may suffice
                continue
            if depth == 1:
                raise group.blame(LimbeckError("one network alone does not fit into the memory of the device"))
            depth = math.ceil(depth / 2)
        note |= {"depth": stack.depth, "steps": steps, "batch": stack.recipe.batch, "program": stack.program}
        if depth < wanted:
            note["split"] = f"a stack of {wanted} did not fit into memory"
        return stack

    def _compiles(self, group: StackGroup, steps: int, rows: int) -> bool:
        """Whether the steps of a stack are compiled; `auto` compares what this takes and saves, by their length."""
        if self.compiling != "auto":
            return self.compiling == "always"
        try:
            with alone(0):
                values = values_of(group.model.started(group.row, group.classes), group.row)
        except Exception:  # a user's network that cannot be made is reported when it is trained
            return False
        return steps * (SAVED[0] + SAVED[1] * rows * values) > COMPILING

    def _try(
        self,
        group: StackGroup,
        depth: int,
        compiled: bool,
        recipe: Recipe,
        data: DeduplicatedRows,
        note: dict[str, Any],
    ) -> Stack | None:
        """Stack of this depth; None if memory does not suffice, or if the network cannot be stacked."""
        try:
            return self._made(group, depth, compiled, recipe, data)
        except torch.OutOfMemoryError:
            return None
        except LimbeckError as error:
            raise group.blame(error) from error
        except Exception as error:  # there are many ways in which vmap cannot handle a user's network
            note["not stacked"] = reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            message = f"{group.model.name} cannot be stacked; its networks are trained one after the other: {reason}"
            warnings.warn(message, LimbeckWarning, stacklevel=2)
            return None

    def _made(self, group: StackGroup, depth: int, compiled: bool, recipe: Recipe, data: DeduplicatedRows) -> Stack:
        """Stack that an earlier group of the same kind used, or a new one."""
        name = (group.kind, group.classes, depth, compiled)
        stack = self._cached_stacks.pop(name, None)
        if stack is None or not stack.takes(data.rows, data.targets):
            if stack is not None:
                del stack
                _give_back_memory()
            stack = self._new(group, depth, compiled, recipe, data)
        self._cached_stacks[name] = stack
        if len(self._cached_stacks) > MAX_CACHED_STACKS:
            self._cached_stacks.pop(next(iter(self._cached_stacks)))
            _give_back_memory()
        return stack

    def _new(self, group: StackGroup, depth: int, compiled: bool, recipe: Recipe, data: DeduplicatedRows) -> Stack:
        """New stack: of our own program if it fits, else the general one."""
        with alone(0):
            network = group.model.tried(group.row, group.classes)
            check_own_buffers(network, channels_first(torch.rand(2, *group.row)))
        corrected = group.members[0].job.correction is not None
        on_device = (recipe, self.device, data.rows, data.targets)
        if LeNetStack.fits(network, tuple(data.rows.shape[1:]), recipe, self.device, data.targets, corrected):
            try:
                return LeNetStack(network, min(depth, LeNetStack.most(recipe.batch)), *on_device, False)
            except (CudaError, OSError) as error:
                message = f"{group.model.name} is trained by the general stack; its own CUDA program failed: {error}"
                warnings.warn(message, LimbeckWarning, stacklevel=2)
        return Stack(network, depth, *on_device, compiled, corrected)

    def _train(self, group: StackGroup, stack: Stack, trainings: list[TrainingRun]) -> None:
        def begin(training: TrainingRun) -> State:
            try:
                return training.begin(group.model, group.row, group.classes)
            except Exception as error:  # the initial weights may belong to another network
                job = next(member.job for member in group.members if member.index == training.index)
                raise failed(job, training.index, error) from error

        if self.checkpoints and (key := self._name(group, trainings)):
            checkpoints = self.checkpoints
            checkpoints.restore(key, trainings)
            shares = take(stack, trainings, begin, lambda: checkpoints.due, lambda: checkpoints.save(key, trainings))
        else:
            shares = take(stack, trainings, begin)
        for _ in self.watch(_ticks(shares, len(trainings)), len(trainings)):
            pass
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _finish(self, group: StackGroup, stack: Stack, trainings: list[TrainingRun]) -> dict[int, Any]:
        """Result of each job, from its trained network."""
        with alone(0):
            network = group.model.started(group.row, group.classes)
        names = shared_names(network)
        results: dict[int, Any] = dict(self._answers(group, stack, trainings))
        for member, training in zip(group.members, trainings, strict=True):
            try:
                check_finite(training.state.values())
                if member.index not in results:
                    weights = {name: training.state[names.get(name, name)].cpu() for name in network.state_dict()}
                    fitted = group.model.fitted(
                        copy.deepcopy(network), weights, group.row, group.classes, training.final_moments
                    )
                    results[member.index] = member.job.finish(fitted)
            except LimbeckError as error:
                if not member.guarded:
                    raise failed(member.job, member.index, error) from error
                results[member.index] = Failure(str(error))
        return results

    def _answers(self, group: StackGroup, stack: Stack, trainings: list[TrainingRun]) -> Iterator[tuple[int, Array]]:
        """Votes or scores of networks; networks with the same rows to predict do so together."""
        asked: dict[Any, list[tuple[StackMember, State]]] = {}
        for member, training in zip(group.members, trainings, strict=True):
            if isinstance(member.job, FitAndScore):
                asked.setdefault(address(member.job.asked), []).append((member, training.state))
        for together in asked.values():
            member = together[0][0]
            rows = on(self.device, cast(FitAndScore, member.job).asked)[0]
            try:
                found = stack.scores([state for _, state in together], rows, group.model.task)
            except Exception as error:  # the rows may have another shape than the network takes
                raise failed(member.job, member.index, error) from error
            for (member, _), scores in zip(together, found, strict=True):
                voted = isinstance(member.job, FitAndVote)
                yield member.index, scores.argmax(axis=1) if voted else scores

    def _name(self, group: StackGroup, trainings: list[TrainingRun]) -> str | None:
        """Name the trainings and return the stack's name, in any order of jobs; None if they have no names."""
        known: dict[Any, str] = {}
        keys = [key_of_job(member.job, group.classes, member.seed, known) for member in group.members]
        if None in keys or (code := group.model.code) is None:
            message = (
                f"{group.model.name} is made at run time, so its training saves no checkpoints; define it in a module"
            )
            warnings.warn(message, LimbeckWarning, stacklevel=2)
            return None
        for training, key in zip(trainings, keys, strict=True):
            training.name = str(key)
        return hashlib.sha256(repr((sorted(map(str, keys)), code, self.device.precision)).encode()).hexdigest()


def _give_back_memory() -> None:
    """Free a stack that is no longer needed; it refers to itself and may be frozen, so this takes a full collection."""
    gc.unfreeze()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def useful_depth(lengths: Sequence[int]) -> int:
    """Number of slots that finishes all work in the time that the longest training takes.

    Parameters
    ----------
    lengths : sequence of int
        Number of steps of each training.

    Returns
    -------
    int
        The depth. Above 16 it is rounded up to a multiple of 4, so that one compiled program serves many depths.

    Examples
    --------
    >>> useful_depth([100, 50, 50, 50])
    3
    """
    exact = math.ceil(sum(lengths) / max(lengths))
    return exact if exact <= 16 else min(len(lengths), math.ceil(exact / 4) * 4)


def values_of(network: nn.Module, row: tuple[int, ...]) -> int:
    """Number of values that the layers of a network compute for one row.

    Parameters
    ----------
    network : nn.Module
        The network.
    row : tuple of int
        Shape of a row.

    Returns
    -------
    int
        The number; what a network computes outside of its layers is not counted, nor what is not one tensor.

    Examples
    --------
    >>> values_of(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (4,))
    6
    """
    counts: list[int] = []
    layers = [part for part in network.modules() if next(part.children(), None) is None]

    def count(layer: nn.Module, given: Any, found: Any) -> None:
        counts.append(found.numel() if isinstance(found, torch.Tensor) else 0)

    hooks = [layer.register_forward_hook(count) for layer in layers]
    with torch.no_grad():
        network.eval()(channels_first(torch.zeros(1, *row)))
    for hook in hooks:
        hook.remove()
    return sum(counts)


def shared_names(network: nn.Module) -> dict[str, str]:
    """First name of each weight; a weight that two layers share has two names.

    Parameters
    ----------
    network : nn.Module
        The network.

    Returns
    -------
    dict
        The first name by each name.

    Examples
    --------
    >>> layer = nn.Linear(2, 2, bias=False)
    >>> shared_names(nn.Sequential(layer, nn.ReLU(), layer))
    {'0.weight': '0.weight', '2.weight': '0.weight'}
    """
    first: dict[int, str] = {}
    every = network.named_parameters(remove_duplicate=False)
    return {name: first.setdefault(id(weight), name) for name, weight in every}


def _ticks(shares: Iterator[float], count: int) -> Iterator[int]:
    """Yield the numbers below `count`, in proportion to the share of the work that is done."""
    reported = 0
    for share in shares:
        yield from range(reported, reached := int(share * count))
        reported = reached


def _groups(jobs: Sequence[Any], classes: int, seeds: Sequence[int]) -> list[StackGroup]:
    found: dict[Hashable, list[StackMember]] = {}
    for index, (job, seed) in enumerate(zip(jobs, seeds, strict=True)):
        fit = plain(job)
        if not fits_network(fit) or len(fit.rows) < 2:
            continue
        if fit.start is not None or fit.model.task != "multiclass" or only_class(fit.targets) is None:
            recipe = fit.recipe or fit.model.recipe
            shapes = (fit.rows.shape[1:], fit.targets.shape[1:], fit.weight is not None)
            kind = (fit.model.architecture, fit.model.task, recipe, shapes, fit.correction is not None)
            inner = job.job if isinstance(job, Timed) else job
            member = StackMember(index, fit, seed, isinstance(job, Timed), isinstance(inner, Guarded))
            found.setdefault(kind, []).append(member)
    return [StackGroup(kind, members, classes) for kind, members in found.items()]
