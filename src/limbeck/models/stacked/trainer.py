"""The stacked trainer: fits of one architecture and recipe become the trainings of one stack."""

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
from limbeck.models.stacked.deduplication import Piled, piled
from limbeck.models.stacked.layers import check_own_buffers
from limbeck.models.stacked.stack import Stack, State
from limbeck.models.stacked.training_run import TrainingRun, take
from limbeck.models.torch import TorchModel, alone, check_finite, on, only_class
from limbeck.protocol.learning import Failure, FitError, Guarded, Job, Trainer
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array

T = TypeVar("T")
PAYS_FROM = 80_000  # steps: compiling takes some 20 s and saves some 0.25 ms a step
MAX_CACHED_STACKS = 32  # as many as ten architectures need for three recipes


@dataclass(frozen=True, slots=True)
class StackMember:
    """A job in a stack: its number among all jobs, its seed, and whether it is to tell its time, or its failure."""

    index: int
    job: FitJob[Any]
    seed: int
    timed: bool
    guarded: bool


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Members that can share a stack, for they differ in rows, targets and seeds alone."""

    kind: Hashable
    members: list[StackMember]
    classes: int

    @property
    def model(self) -> TorchModel:
        return cast(TorchModel, self.members[0].job.model)

    @property
    def row(self) -> tuple[int, ...]:
        return self.members[0].job.rows.shape[1:]

    def blame(self, error: BaseException) -> FitError:
        return failed(self.members[0].job, self.members[0].index, error)


@dataclass(slots=True)
class StackedTrainer:
    """Trains networks in stacks at `device`; `others` runs every job that is no network, or cannot be stacked.

    `most` bounds the depth of a stack. Where memory does, fewer networks are trained at a time, and the record says so.
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
        at = {"device": self.device.type, "precision": self.device.precision}
        return {"trainer": "stacked", **at, "why": self.why, "stacks": self.stacks}

    def run(self, jobs: Sequence[Job[T]], classes: int, seeds: Sequence[int]) -> list[T]:
        results: dict[int, Any] = {}
        for group in _groups(jobs, classes, seeds):
            results |= self._run(group)
        return completed(results, self.others, jobs, classes, seeds)

    def _run(self, group: StackGroup) -> dict[int, Any]:
        """Results by job; none where the network cannot be stacked, which the record then says."""
        note: dict[str, Any] = {"model": group.model.name, "networks": len(group.members)}
        self.stacks.append(note)
        moments = [time.perf_counter()]
        trainings, data = self._courses(group)
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

    def _courses(self, group: StackGroup) -> tuple[list[TrainingRun], Piled]:
        first = group.members[0].job
        try:
            recipe = group.model.checked(first.targets, first.recipe)
            data = piled([member.job for member in group.members], self.device)
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
        self, group: StackGroup, trainings: list[TrainingRun], data: Piled, note: dict[str, Any]
    ) -> Stack | None:
        """A stack as deep as the work is wide, or as memory allows; None where the network cannot be stacked."""
        lengths = [training.schedule.total for training in trainings]
        depth = wanted = min(useful_depth(lengths), self.most or len(trainings))
        steps = max(max(lengths), sum(lengths) // depth)
        pays = self.compiling == "always" or (self.compiling == "auto" and steps >= PAYS_FROM)
        compiled = pays and self.device.type == "cuda"
        while (stack := self._try(group, depth, compiled, trainings[0].schedule.recipe, data, note)) is None:
            if "not stacked" in note:
                return None
            others = len(self._cached_stacks)
            self._cached_stacks.clear()
            _give_back_memory()
            if others:  # what they held may suffice
                continue
            if depth == 1:
                raise group.blame(LimbeckError("not even one such network fits into the device's memory"))
            depth = math.ceil(depth / 2)
        note |= {"depth": depth, "steps": steps, "batch": stack.recipe.batch, "compiled": compiled}
        if depth < wanted:
            note["split"] = f"a stack of {wanted} did not fit into memory"
        return stack

    def _try(
        self, group: StackGroup, depth: int, compiled: bool, recipe: Recipe, data: Piled, note: dict[str, Any]
    ) -> Stack | None:
        """A stack of this depth; None where memory does not suffice, or where a note says that it cannot be."""
        try:
            return self._made(group, depth, compiled, recipe, data)
        except torch.OutOfMemoryError:
            return None
        except LimbeckError as error:
            raise group.blame(error) from error
        except Exception as error:  # vmap and users' networks refuse each other in a dozen ways
            note["not stacked"] = reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            message = (
                f"{group.model.name} cannot be stacked, so that its networks are trained one after the other: {reason}"
            )
            warnings.warn(message, LimbeckWarning, stacklevel=2)
            return None

    def _made(self, group: StackGroup, depth: int, compiled: bool, recipe: Recipe, data: Piled) -> Stack:
        """The stack that was made for the like before, or a new one."""
        name = (group.kind, group.classes, depth, compiled)
        stack = self._cached_stacks.pop(name, None)
        if stack is None or not stack.takes(data.rows, data.targets):
            if stack is not None:
                del stack
                _give_back_memory()
            with alone(0):
                network = group.model.tried(group.row, group.classes)
                check_own_buffers(network, channels_first(torch.rand(2, *group.row)))
            drifting = group.members[0].job.correction is not None
            stack = Stack(network, depth, recipe, self.device, data.rows, data.targets, compiled, drifting)
        self._cached_stacks[name] = stack
        if len(self._cached_stacks) > MAX_CACHED_STACKS:
            self._cached_stacks.pop(next(iter(self._cached_stacks)))
            _give_back_memory()
        return stack

    def _train(self, group: StackGroup, stack: Stack, trainings: list[TrainingRun]) -> None:
        def begin(training: TrainingRun) -> State:
            try:
                return training.begin(group.model, group.row, group.classes)
            except Exception as error:  # weights to start from that are another network's
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
        """What each job wants to know of its network."""
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
        """Votes or scores of networks that are asked about the same rows, asked together."""
        asked: dict[Any, list[tuple[StackMember, State]]] = {}
        for member, training in zip(group.members, trainings, strict=True):
            if isinstance(member.job, FitAndScore):
                asked.setdefault(address(member.job.asked), []).append((member, training.state))
        for together in asked.values():
            member = together[0][0]
            rows = on(self.device, cast(FitAndScore, member.job).asked)[0]
            try:
                found = stack.scores([state for _, state in together], rows)
            except Exception as error:  # rows that the network does not take
                raise failed(member.job, member.index, error) from error
            for (member, _), scores in zip(together, found, strict=True):
                voted = isinstance(member.job, FitAndVote)
                yield member.index, scores.argmax(axis=1) if voted else scores

    def _name(self, group: StackGroup, trainings: list[TrainingRun]) -> str | None:
        """Names the trainings, and the stack by them, whatever order they came in; None where they have no names."""
        known: dict[Any, str] = {}
        keys = [key_of_job(member.job, group.classes, member.seed, known) for member in group.members]
        if None in keys or (code := group.model.code) is None:
            message = f"{group.model.name} is made at run time: its training keeps no checkpoints"
            warnings.warn(message, LimbeckWarning, stacklevel=2)
            return None
        for training, key in zip(trainings, keys, strict=True):
            training.name = str(key)
        return hashlib.sha256(repr((sorted(map(str, keys)), code, self.device.precision)).encode()).hexdigest()


def _give_back_memory() -> None:
    """A stack that nobody needs refers to itself, and may be frozen: only a whole collection frees it."""
    gc.unfreeze()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def useful_depth(lengths: Sequence[int]) -> int:
    """As many slots as finish the work by the time that the longest training takes.

    Above 16 it is rounded up to a multiple of 4, so that a program that was made once serves many depths.
    """
    exact = math.ceil(sum(lengths) / max(lengths))
    return exact if exact <= 16 else min(len(lengths), math.ceil(exact / 4) * 4)


def shared_names(network: nn.Module) -> dict[str, str]:
    """For every name of a weight, the first one: a weight that two layers share has two."""
    first: dict[int, str] = {}
    every = network.named_parameters(remove_duplicate=False)
    return {name: first.setdefault(id(weight), name) for name, weight in every}


def _ticks(shares: Iterator[float], count: int) -> Iterator[int]:
    """So many, evenly over the work."""
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
        if fit.start is not None or only_class(fit.targets) is None:
            recipe = fit.recipe or fit.model.recipe
            shapes = (fit.rows.shape[1:], fit.targets.shape[1:])
            kind = (fit.model.architecture, recipe, shapes, fit.correction is not None)
            inner = job.job if isinstance(job, Timed) else job
            member = StackMember(index, fit, seed, isinstance(job, Timed), isinstance(inner, Guarded))
            found.setdefault(kind, []).append(member)
    return [StackGroup(kind, members, classes) for kind, members in found.items()]
