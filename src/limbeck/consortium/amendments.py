"""Amended runs: the server's part of a run that has ended, repeated with a late party or without one that leaves."""

import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limbeck.consortium.coordinator import Log, RunResult, check_ready, free_folder, lead
from limbeck.consortium.evaluation import EVALUATES
from limbeck.consortium.experiment import PreparedRun, prepare_run
from limbeck.consortium.files import private_folder
from limbeck.consortium.server import ServerFolder
from limbeck.engines.journal import Journal, was_begun
from limbeck.errors import LimbeckError
from limbeck.experiments.clock import today
from limbeck.privacy.ledger import read_ledger
from limbeck.protocol.envelopes import RUN


def add_late(folder: ServerFolder, run: str, name: str, log: Log) -> RunResult:
    """Repeat the server's part of a run with a party that was late; no other party is asked again.

    A party that was removed before replies anew, which is a second release of its rows.

    Parameters
    ----------
    folder : ServerFolder
        The server's folder.
    run : str
        The run that the party missed, in the folder `runs`.
    name : str
        The late party.
    log : callable
        Gets a line about each event.

    Returns
    -------
    RunResult
        Result of the new run.
    """
    ended = _ended(
        folder, run, name, "a late party cannot be added", f"limbeck server run … --resume asks {name} again"
    )
    begun = ended.unfinished(f"{run}-late", late=ended.party)
    stored = [ended.journal, *(Journal(home / "journal.sqlite") for home in ended.attempts(f"{run}-late"))]
    if any(all(ended.party in each.answers(turn) for turn in ended.results) for each in stored) and not begun:
        raise LimbeckError(f"{name} has answered in {run} already")
    changes = {
        "late": ended.party,
        "removed": [party for party in ended.removed if party != ended.party],
        "asks_anew": ended.party in ended.removed,
        "amends": {"run": run, "added": name},
    }
    return _repeat(ended, f"{run}-late", f"late-{ended.party}", changes, begun, log)


def remove_party(folder: ServerFolder, run: str, name: str, log: Log) -> RunResult:
    """Repeat the server's part of a run as if a party had been silent; no party is asked for results again.

    Parameters
    ----------
    folder : ServerFolder
        The server's folder.
    run : str
        The run that has the party's reply, in the folder `runs`.
    name : str
        The party that is removed.
    log : callable
        Gets a line about each event.

    Returns
    -------
    RunResult
        Result of the new run.

    Notes
    -----
    Without noise at the server, the final model is equal to the bit to that of a run in which the party was silent, and
    nothing is spent. With noise at the server it is a new release, to which the other parties must agree.
    """
    ended = _ended(folder, run, name, "a party cannot be removed", "wait until it has, or resume it")
    stem = f"{run}-without-{name}"
    begun = ended.unfinished(stem)
    done = [home.name for home in ended.attempts(stem) if (home / "record.json").exists()]
    if ended.party in ended.removed:
        raise LimbeckError(f"{name} is not in {run}: it was removed before")
    if done:
        raise LimbeckError(f"{name} was removed from {run} already: the result is in runs/{done[0]}")
    ended.check_without()
    changes = {"removed": [*ended.removed, ended.party], "amends": {"run": run, "removed": name}}
    return _repeat(ended, stem, f"without-{ended.party}", changes, begun, log)


@dataclass(frozen=True, slots=True)
class _EndedRun:
    """A run that has ended, and a party of it.

    Parameters
    ----------
    folder : ServerFolder
        The server's folder.
    run : str
        Name of the run's folder.
    name : str
        Name of the party.
    party : int
        Number of the party.
    plan : PreparedRun
        The experiment.
    journal : Journal
        Requests and answers.
    results : mapping
        Those requests that ask for results, by turn, and the parties that were asked.
    """

    folder: ServerFolder
    run: str
    name: str
    party: int
    plan: PreparedRun
    journal: Journal
    results: Mapping[int, tuple[bytes, list[int]]]

    @property
    def removed(self) -> list[int]:
        """Parties that were removed from it before."""
        return list(self.journal.about().get("removed", []))

    def attempts(self, stem: str) -> list[Path]:
        """Folders STEM-1, STEM-2, ... of runs that began."""
        named = re.compile(re.escape(stem) + r"-\d+")
        homes = sorted((self.folder.path / "runs").glob("*"))
        return [home for home in homes if named.fullmatch(home.name) and was_begun(home / "journal.sqlite")]

    def unfinished(self, stem: str, late: int | None = None) -> Path | None:
        """Earlier attempt that did not end."""
        for home in self.attempts(stem):
            if not (home / "record.json").exists() and Journal(home / "journal.sqlite").about().get("late") == late:
                return home
        return None

    def check_without(self) -> None:
        """Raise unless the party has answered, and enough other parties have."""
        answered = [self.journal.answers(turn).keys() for turn in self.results]
        if not any(self.party in parties for parties in answered):
            raise LimbeckError(f"{self.name} has not answered in {self.run}: there is nothing to remove")
        left = min(len(parties - {self.party}) for parties in answered)
        needed = self.plan.quorum(len(self.journal.about()["parties"]), [*self.removed, self.party])
        if left < needed:
            raise LimbeckError(
                f"{self.run} without {self.name}: too few replies are left: {left}, but the quorum is {needed}"
            )


def _ended(folder: ServerFolder, run: str, name: str, consequence: str, remedy: str) -> _EndedRun:
    """Read a run that can be amended; raise if it cannot."""
    home = folder.path / "runs" / run
    journal = Journal(home / "journal.sqlite")
    about = journal.about()
    if EVALUATES in about:
        raise LimbeckError(f"{run} evaluates {about[EVALUATES]}: use limbeck server evaluate again instead")
    plan = prepare_run(Path(about["file"]), is_checked=True)
    if not plan.configuration.algorithm.is_one_shot:
        raise LimbeckError(f"{plan.configuration.algorithm.name} is not a one-shot method: {consequence}")
    party = next((int(number) for number, each in about["parties"].items() if each == name), None)
    if party is None:
        raise LimbeckError(f"{name} took no part in {run}; its parties: {', '.join(about['parties'].values())}")
    if not (home / "record.json").exists():
        raise LimbeckError(f"{run} has not ended: {remedy}")
    return _EndedRun(folder, run, name, party, plan, journal, journal.requests_for_results())


def _repeat(
    ended: _EndedRun, stem: str, what: str, changes: Mapping[str, Any], begun: Path | None, log: Log
) -> RunResult:
    """Lead a new run with copies of the answers; `what` is the end of its identifier."""
    folder, plan = ended.folder, ended.plan
    if begun:  # an earlier attempt crashed: what was released is not released again
        return lead(folder, begun, plan, Journal(begun / "journal.sqlite"), log)
    about = {key: value for key, value in ended.journal.about().items() if key not in ("late", "asks_anew")}
    run = f"{about['run']}-{what}"  # the same in every attempt
    if not RUN.fullmatch(run):
        raise LimbeckError(f"{ended.run} was amended too often for one more name: begin a new run")
    check_ready(folder, plan, run, len(about["parties"]))
    fresh = {"run": run, "started": today(), "earlier": about.get("earlier", about["run"])}
    home = private_folder(free_folder(folder, stem))
    journal = Journal(home / "journal.sqlite", new=True)
    _copy(ended, journal, {**about, **fresh, **changes, "copied": len(ended.results)}, changes["removed"])
    try:
        return lead(folder, home, plan, journal, log)
    except LimbeckError:
        if not (home / "model.onnx").exists() and not _released(folder, run):
            shutil.rmtree(home)  # no result, and nothing to resume
        raise


def _copy(ended: _EndedRun, journal: Journal, about: Mapping[str, Any], removed: Collection[int]) -> None:
    """Begin a journal with the answers of all parties but the removed ones."""
    with journal.at_once():
        journal.begin(about)
        for turn, (request, asked) in ended.results.items():
            journal.ask(turn, request, asked)
            for party, answer in ended.journal.answers(turn).items():
                if party not in removed:
                    journal.answer(turn, party, answer)


def _released(folder: ServerFolder, run: str) -> bool:
    return any(known == run for _, known, _ in read_ledger(folder.path / "ledger.sqlite"))
