"""Runs that a coordinator leads: begin one, or resume it after a crash."""

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.atomic_files import AtomicFile, private_file
from limbeck.consortium.answering import Agree
from limbeck.consortium.experiment import PreparedRun, prepare_run
from limbeck.consortium.files import private_folder, write_private
from limbeck.consortium.server import ServerFolder
from limbeck.consortium.totals import guarantees_together
from limbeck.engines.flower.engine import Consortium, Flower
from limbeck.engines.journal import Journal, was_begun
from limbeck.engines.sites import RunContext
from limbeck.errors import LimbeckError
from limbeck.experiments.clock import today
from limbeck.experiments.metrics import score
from limbeck.experiments.record import OwnerRecord, PartyRecord, RunRecord, owner_part, published, record_of, task_facts
from limbeck.experiments.result import labelled
from limbeck.features.packing import packed_behind
from limbeck.features.settings import hash_of_map
from limbeck.locks import locked
from limbeck.models.onnx import PackedModel
from limbeck.models.smoke_test import smoke_test
from limbeck.models.tasks import for_task
from limbeck.models.trainers import trainer_for
from limbeck.privacy.available import check_can_draw
from limbeck.privacy.guarantees import PrivacyGuarantee, epsilon_by_observer
from limbeck.privacy.ledger import LedgerStore
from limbeck.protocol.algorithm import Outcome
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.envelopes import RUN
from limbeck.protocol.release import Release

WITHOUT_NOISE = ("unprotected", "post-processing")
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    record : RunRecord
        Record of the run.
    head : tuple of int and str
        Head of the server's ledger after the run.
    together : sequence of PrivacyGuarantee
        Guarantees of this run and the runs that it amends together; empty if it amends none.
    """

    folder: Path
    record: RunRecord
    head: tuple[int, str]
    together: Sequence[PrivacyGuarantee] = ()

    @property
    def costs_more(self) -> Sequence[PrivacyGuarantee]:
        """`together`, if it differs from the guarantees of this run alone."""
        return self.together if epsilon_by_observer(self.together) != self.record.epsilon else ()


def begin(folder: ServerFolder, file: Path, log: Log) -> RunResult:
    """Run an experiment with all admitted parties.

    Parameters
    ----------
    folder : ServerFolder
        The server's folder.
    file : Path
        The experiment.
    log : callable
        Gets a line about each event.

    Returns
    -------
    RunResult
        Result of the run.
    """
    plan = prepare_run(file, is_checked=True)
    members = folder.admitted
    if not members:
        raise LimbeckError(f"no party is admitted yet: use limbeck server admit {folder.path} PARTY.pub")
    if plan.configuration.quorum and plan.configuration.quorum > len(members):
        raise LimbeckError(f"{file}: quorum = {plan.configuration.quorum}, but {len(members)} parties are admitted")
    numbers = {str(member.index): member.name for member in members.values()}
    smoke_test(
        for_task(plan.configuration.model, plan.configuration.data.kind),
        plan.public.x.shape[1:],
        len(plan.configuration.data.classes),
    )
    home = free_folder(folder, file.stem)
    run = f"{home.name}-{secrets.token_hex(4)}"
    if not RUN.fullmatch(run):
        raise LimbeckError(f"{file}: the run is named after the file: use letters, digits, dots and dashes")
    check_ready(folder, plan, run, len(numbers))
    private_folder(private_folder(folder.path / "runs") / home.name)
    about = {"run": run, "started": today(), "experiment": lasting(plan), "file": str(file.resolve())}
    journal = Journal(home / "journal.sqlite", new=True)
    journal.begin({**about, "parties": numbers, "terms": asdict(plan.terms(len(numbers)))})
    return lead(folder, home, plan, journal, log)


def resume(folder: ServerFolder, file: Path, log: Log) -> RunResult:
    """Resume the latest run of an experiment; only parties without a recorded answer are asked again."""
    plan = prepare_run(file, is_checked=True)
    home = _latest(folder, file)
    if home is None or (home / "record.json").exists():
        raise LimbeckError(f"no run of {file} is unfinished" + (f": the latest is {home.name}" if home else ""))
    journal = Journal(home / "journal.sqlite")
    about = journal.about()
    check_ready(folder, plan, about["run"], len(about["parties"]))
    return lead(folder, home, plan, journal, log)


def lead(folder: ServerFolder, home: Path, plan: PreparedRun, journal: Journal, log: Log) -> RunResult:
    """Lead a run whose journal has begun, and write its model and records.

    Parameters
    ----------
    folder : ServerFolder
        The server's folder.
    home : Path
        Folder of the run.
    plan : PreparedRun
        The experiment.
    journal : Journal
        The run's journal; answers that it has are not asked for again.
    log : callable
        Gets a line about each event.

    Returns
    -------
    RunResult
        Result of the run.
    """
    started = time.perf_counter()
    about, members = journal.about(), folder.admitted
    journal.begin({"experiment": lasting(plan), "terms": asdict(plan.terms(len(about["parties"])))})
    names = {int(number): name for number, name in about["parties"].items()}
    keys = {number: str(members[name].key).encode() if name in members else b"" for number, name in names.items()}
    ledger_store = _ledger_store(folder, about["run"], plan)
    configuration = plan.configuration
    is_real = configuration.algorithm.is_private and configuration.noise == "secure"
    run = RunContext(
        algorithm=configuration.algorithm,
        public=plan.public_rows,
        classes=len(configuration.data.classes),
        seed=configuration.seed,
        parties=len(names),
        noise=configuration.noise,
        name=about["run"],
        folder=plan.folder,
        task=configuration.data.whole_task,
    )
    trainer = trainer_for(configuration.training, [configuration.model], base=home, isolated=is_real)
    site = run.server(configuration.model, trainer, ledger_store.of("server"), ledger_store.secret if is_real else None)
    amended = {key: about[key] for key in ("earlier", "copied", "late", "removed", "asks_anew") if key in about}
    consortium = Consortium(about["run"], plan.terms(len(names)), keys, **amended)
    control = folder.control()
    alone = locked(home / "lock", f"another program leads {home.name} already")
    with alone, closing(ledger_store), closing(control):
        deadline, quorum = float(configuration.deadline), plan.quorum(len(names), consortium.removed)
        engine = Flower(configuration.algorithm, site, consortium, control, journal, deadline, quorum, log)
        outcome = None
        try:
            if consortium.copied and _noised(plan, len(names)):
                engine.before_counting = partial(_let_all_agree, engine, journal, consortium.late)
            outcome = engine.run()
        finally:
            engine.close(completed=outcome is not None)
        timing = {"seconds": time.perf_counter() - started, "run": about["run"], "date": about.get("started", today())}
        record, owner = _record(plan, engine, outcome, names, journal, timing)
        head = ledger_store.head
    record, together = _with_totals(folder, record, journal) if "amends" in about else (record, ())
    _write(home, plan, outcome, record, owner)
    return RunResult(home, record, head, together)


def check_ready(folder: ServerFolder, plan: PreparedRun, run: str, parties: int) -> None:
    """Check, before the run begins, that noise can be drawn, the SuperLink answers and the budget allows the run."""
    check_can_draw(_planned_here(plan, parties))
    with closing(folder.control()) as control:
        folder.sync(control)
    with closing(_ledger_store(folder, run, plan)) as ledger_store:
        ledger_store.check_plan(_planned_here(plan, parties))


def _ledger_store(folder: ServerFolder, run: str, plan: PreparedRun) -> LedgerStore:
    """Ledger of all runs of this server, with the experiment's budget."""
    return LedgerStore(private_file(folder.path / "ledger.sqlite"), run, plan.configuration.budget)


def _planned_here(plan: PreparedRun, parties: int) -> list[Release]:
    """Planned releases of the server."""
    data = plan.configuration.data
    facts = Facts(len(plan.public), len(data.classes), parties, plan.configuration.noise, task=data.whole_task)
    releases = planned_releases(plan.configuration.algorithm.disclosures, facts)
    return [row for row in releases if row.site == "server"]


def _let_all_agree(engine: Flower, journal: Journal, late: int | None) -> None:
    """Ask all parties for consent: a second release of their answers is charged to their budgets too."""
    engine.agree(Agree(), sorted(_counted(journal) - {late}))


def _counted(journal: Journal) -> set[int]:
    """Parties whose results are in a journal."""
    return {party for turn in journal.requests_for_results() for party in journal.answers(turn)}


def _with_totals(folder: ServerFolder, record: RunRecord, journal: Journal) -> tuple[RunRecord, list[PrivacyGuarantee]]:
    """Add to the record of an amended run what it amends, and epsilon over all runs that count the same replies."""
    about = journal.about()
    change: dict[str, str] = about["amends"]
    names = {name: int(number) for number, name in about["parties"].items()}
    party = names[change.get("removed") or change["added"]]
    others, own = (
        guarantees_together(folder, about["earlier"], parties, record.delta, record.rows_per_person)
        for parties in (_counted(journal) - {party}, {party})
    )
    epsilons = {"epsilon_of_others": epsilon_by_observer(others), "epsilon_of_party": epsilon_by_observer(own)}
    return replace(record, amends={**change, **epsilons}), others


def _noised(plan: PreparedRun, parties: int) -> bool:
    """Whether the server adds noise to the parties' answers."""
    return any(row.mechanism not in WITHOUT_NOISE for row in _planned_here(plan, parties))


def _write(home: Path, plan: PreparedRun, outcome: Outcome, record: RunRecord, owner: OwnerRecord | None) -> None:
    """Write the model, then the records: a run that has a record has ended."""
    if outcome.model:
        names = np.array(plan.configuration.data.classes)
        with AtomicFile(home / "model.onnx", private=record.real) as file:
            whole = packed_behind(plan.features, outcome.model) if plan.features else outcome.model
            file.write(labelled(whole, names, plan.row, plan.schema, plan.configuration.data.whole_task))
    if owner:
        write_private(home / "owner.json", owner.to_json().encode())
    with AtomicFile(home / "record.json", private=record.real) as file:
        file.write(record.to_json().encode())


def _record(
    plan: PreparedRun,
    engine: Flower,
    outcome: Outcome,
    names: dict[int, str],
    journal: Journal,
    timing: Mapping[str, Any],
) -> tuple[RunRecord, OwnerRecord | None]:
    """Record of the run, and at a private level the owner's record."""
    troubles = [f"turn {e.turn}: {names.get(e.party, 'the server')}: {e.what}" for e in journal.events()]
    whole = _whole_record(plan, engine, outcome, names, timing)
    if not plan.configuration.algorithm.is_private:
        return replace(whole, remarks=(*whole.remarks, *troubles)), None
    return published(whole), owner_part(whole, troubles)


def _whole_record(
    plan: PreparedRun, engine: Flower, outcome: Outcome, names: dict[int, str], timing: Mapping[str, Any]
) -> RunRecord:
    traffic = engine.traffic
    sent = sorted((Release(**row) for row in engine.releases), key=lambda row: (row.site, row.turn, row.number))
    releases = [*sent, *engine.server.ledger.rows]  # independent of the order of the answers
    metrics = None
    if outcome.model and plan.test is not None:
        metrics = score(PackedModel(outcome.model), plan.test, plan.configuration.data.whole_task)
    parties = [
        PartyRecord(
            index=party,
            rows=None,
            classes=(),
            model={"name": name},
            bytes={"up": traffic.up(party), "down": traffic.down(party)},
            metrics=None,
            name=name,
        )
        for party, name in names.items()
    ]
    return record_of(
        plan.configuration.algorithm,
        engine,
        outcome,
        releases,
        parties,
        from_elsewhere=True,
        seed=plan.configuration.seed,
        config=plan.table,
        data={
            "classes": list(plan.configuration.data.classes),
            "private": None,
            "public": len(plan.public),
            "test": len(plan.test) if plan.test else 0,
            "public_hash": engine.server.public.hash,
            **hash_of_map(
                plan.configuration.algorithm,
                plan.features,
                plan.public_rows,
                plan.configuration.seed,
                plan.folder,
            ),
            "classes_are_private": False,
            **task_facts(plan.configuration.data.whole_task),
        },
        noise="simulated" if any(map(_is_simulated, releases)) else "secure",
        metrics=metrics,
        constant=None,
        timing={**timing, "engine": engine.name, "training": dict(engine.server.trainer.description)},
    )


def _is_simulated(row: Release) -> bool:
    """Whether noise came from a seed; a party may choose that itself."""
    return row.noise == "simulated" and row.mechanism not in WITHOUT_NOISE


def lasting(plan: PreparedRun) -> dict[str, Any]:
    """Part of the experiment that must not change during a run; deadline, quorum and budget may."""
    return {key: value for key, value in plan.table.items() if key not in ("budget", "deadline", "quorum")}


def free_folder(folder: ServerFolder, stem: str) -> Path:
    """First of the folders runs/STEM-1, runs/STEM-2, ... that does not exist."""
    return next(h for n in count(1) if not (h := folder.path / "runs" / f"{stem}-{n}").exists())


def _latest(folder: ServerFolder, file: Path) -> Path | None:
    """Run of an experiment with the highest number, of those that began."""
    named = re.compile(re.escape(file.stem) + r"-(\d+)")
    homes = [path for path in (folder.path / "runs").glob("*") if was_begun(path / "journal.sqlite")]
    found = [(int(m[1]), path) for path in homes if (m := named.fullmatch(path.name))]
    return max(found)[1] if found else None
