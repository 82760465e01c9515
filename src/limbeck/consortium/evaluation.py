"""Evaluation of a run's model on the parties' own test rows: counts are added up, and metrics follow from the sum."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.algorithms.evaluation import EvaluationCounts, FederatedEvaluation
from limbeck.atomic_files import AtomicFile
from limbeck.consortium.coordinator import Log, RunResult, check_ready, free_folder, lasting, lead
from limbeck.consortium.experiment import PreparedRun, prepare_run
from limbeck.consortium.files import private_folder, write_private
from limbeck.consortium.server import ServerFolder
from limbeck.engines.journal import Journal, was_begun
from limbeck.errors import LimbeckError
from limbeck.experiments.clock import today
from limbeck.experiments.counted import Uncertainty, metrics_of_counts, uncertainty_of
from limbeck.experiments.metrics import Metrics
from limbeck.experiments.record import finite
from limbeck.knowledge.counts import PredictionCounts
from limbeck.models.onnx import PackedModel
from limbeck.privacy.calibration import L0, Privacy
from limbeck.protocol.codec import decode
from limbeck.protocol.disclosures import Facts
from limbeck.protocol.envelopes import RUN, ReplyEnvelope
from limbeck.protocol.messages import InstallModel

MODEL = "evaluated.onnx"  # in the evaluation's folder: the model as the parties received it
RESULT = "evaluation.json"  # in the evaluation's folder, and in that of the run: the latest
EVALUATES = "evaluates"  # key in the journal of an evaluation
NEEDS_EPSILON = "protects its parties: give --epsilon, the most that the counts of test rows may spend"


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Result of an evaluation.

    Parameters
    ----------
    run : str
        The run whose model was evaluated.
    completed : RunResult
        The run that asked the parties.
    file : Path
        The file `evaluation.json`.
    classes : sequence of str
        Names of the classes.
    counts : PredictionCounts
        Sum of the parties' counts, as they arrived.
    sigma : float
        Standard deviation of the noise on each count of the sum; 0 without noise.
    metrics : Metrics
        Metrics of all test rows.
    uncertainty : mapping of str to Uncertainty
        How uncertain they are.
    by_party : mapping of str to Metrics
        Without noise, the metrics of each party's test rows by its name.
    """

    run: str
    completed: RunResult
    file: Path
    classes: Sequence[str]
    counts: PredictionCounts
    sigma: float
    metrics: Metrics
    uncertainty: Mapping[str, Uncertainty]
    by_party: Mapping[str, Metrics] = field(default_factory=dict)

    def to_table(self) -> dict[str, Any]:
        """Return what `evaluation.json` has."""
        record = self.completed.record
        silent = [each.name for each in record.parties if each.index in record.missing]
        return {
            "run": self.run,
            "evaluation": self.completed.folder.name,
            "date": record.timing.get("date"),
            "classes": list(self.classes),
            "parties": [each.name for each in record.parties if each.name not in silent],
            "silent": silent,
            "epsilon": dict(record.epsilon),
            "delta": record.delta,
            "rows_per_person": record.rows_per_person,
            "sigma": self.sigma,
            "metrics": asdict(self.metrics),
            "uncertainty": {name: asdict(each) for name, each in self.uncertainty.items()},
            "by_party": {name: asdict(each) for name, each in self.by_party.items()},
            "counts": {"confusion": self.counts.confusion.tolist(), "histograms": self.counts.histograms.tolist()},
        }


def evaluate(folder: ServerFolder, run: str, epsilon: float | None, delta: float, log: Log) -> EvaluationResult:
    """Ask the parties of a run that has ended for counts of their test rows, and write `evaluation.json`.

    An evaluation with the same parameters that was interrupted is continued.

    Parameters
    ----------
    folder : ServerFolder
        The server's folder.
    run : str
        The run, in the folder `runs`.
    epsilon : float or None
        Epsilon of the counts; None for counts without noise, which only a run without noise allows.
    delta : float
        Delta of epsilon.
    log : callable
        Gets a line about each event.

    Returns
    -------
    EvaluationResult
        The metrics.
    """
    home = folder.path / "runs" / run
    journal = Journal(home / "journal.sqlite")
    about = journal.about()
    if EVALUATES in about:
        raise LimbeckError(f"{run} is an evaluation itself: evaluate {about[EVALUATES]}")
    if not (home / "record.json").exists():
        raise LimbeckError(f"{run} has not ended: only a final model can be evaluated")
    plan = prepare_run(Path(about["file"]), is_checked=True)
    journal.begin({"experiment": lasting(plan)})  # an error if the experiment has changed since
    plan = _plan(plan, run, epsilon, delta)
    model, names = _final_model(journal, run), _parties(about)
    check_ready(folder, plan, run, len(names))
    own, journal = _begun(folder, run, plan, names) or _begin(folder, run, plan, names, model, about["file"])
    completed = lead(folder, own, replace(plan, folder=own), journal, log)
    result = _result(run, completed, home / RESULT, plan, journal, names)
    text = json.dumps(finite(result.to_table()), indent=1, allow_nan=False) + "\n"
    for path in (result.file, own / RESULT):  # the second one ends the evaluation
        with AtomicFile(path, private=True) as file:
            file.write(text.encode())
    return result


def _plan(plan: PreparedRun, run: str, epsilon: float | None, delta: float) -> PreparedRun:
    """The experiment with the evaluation in place of its algorithm."""
    former = plan.configuration.algorithm
    if former.is_private and epsilon is None:
        raise LimbeckError(f"{run} {NEEDS_EPSILON}")
    privacy = L0
    if epsilon is not None:
        privacy = Privacy("L2", epsilon=epsilon, delta=delta, rows_per_person=former.rows_per_person)
    algorithm = FederatedEvaluation(MODEL, privacy=privacy)
    algorithm.check_task(plan.configuration.data.whole_task)
    level = {key: value for key, value in asdict(privacy).items() if value is not None}
    described = {"name": algorithm.name, "bins": algorithm.bins, "privacy": level}
    configuration = plan.configuration.model_copy(update={"algorithm": algorithm})
    table = {**plan.table, "algorithm": described, EVALUATES: run}
    return replace(plan, configuration=configuration, table=table, test=None)


def _final_model(journal: Journal, run: str) -> bytes:
    """The final model as all parties received it: of features, where the experiment has them."""
    for request, _ in reversed(journal.questions().values()):
        message, _ = decode(request)
        if isinstance(message, InstallModel):
            return message.model
    raise LimbeckError(f"{run} has no final model that all parties share: there is nothing to evaluate")


def _parties(about: Mapping[str, Any]) -> dict[str, str]:
    """Parties that have the model, by number."""
    removed = {str(party) for party in about.get("removed", [])}
    return {number: name for number, name in about["parties"].items() if number not in removed}


def _begun(folder: ServerFolder, run: str, plan: PreparedRun, names: Mapping[str, str]) -> tuple[Path, Journal] | None:
    """An evaluation with the same parameters that did not end."""
    named, terms = re.compile(re.escape(f"{run}-evaluation-") + r"\d+"), json.dumps(asdict(plan.terms(len(names))))
    for home in sorted((folder.path / "runs").glob("*")):
        path = home / "journal.sqlite"
        if named.fullmatch(home.name) and was_begun(path) and not (home / RESULT).exists():
            journal = Journal(path)
            about = journal.about()
            if about["terms"] == json.loads(terms) and about["parties"] == dict(names):
                return home, journal
    return None


def _begin(
    folder: ServerFolder, run: str, plan: PreparedRun, names: Mapping[str, str], model: bytes, file: str
) -> tuple[Path, Journal]:
    home = free_folder(folder, f"{run}-evaluation")
    identifier = f"{home.name}-{secrets.token_hex(4)}"
    if not RUN.fullmatch(identifier):
        raise LimbeckError(f"{run}: the name is too long for one more; begin a run with a shorter name")
    private_folder(home)
    write_private(home / MODEL, model)
    about = {"run": identifier, "started": today(), "experiment": lasting(plan), "file": file, EVALUATES: run}
    journal = Journal(home / "journal.sqlite", new=True)
    journal.begin({**about, "parties": dict(names), "terms": asdict(plan.terms(len(names)))})
    return home, journal


def _result(
    run: str, completed: RunResult, file: Path, plan: PreparedRun, journal: Journal, names: Mapping[str, str]
) -> EvaluationResult:
    """Metrics from the answers in the journal."""
    algorithm, classes = plan.configuration.algorithm, plan.configuration.data.classes
    assert isinstance(algorithm, FederatedEvaluation)
    envelopes = {names[str(party)]: ReplyEnvelope.decode(data) for party, data in journal.answers(0).items()}
    counts = {name: _counts(each, len(classes), algorithm.bins) for name, each in envelopes.items()}
    total = PredictionCounts.from_vector(
        np.sum([each.vector for each in counts.values()], axis=0), len(classes), algorithm.bins
    )
    facts = Facts(len(plan.public), len(classes), len(names), plan.configuration.noise)
    sigma = float(getattr(algorithm.mechanism(facts), "sigma", 0.0)) * len(counts) ** 0.5
    model = (completed.folder / MODEL).read_bytes()
    bins = algorithm.bins_of(model, plan.public.x, len(classes))
    shares = PackedModel(model).has_probabilities
    return EvaluationResult(
        run=run,
        completed=completed,
        file=file,
        classes=classes,
        counts=total,
        sigma=sigma,
        metrics=metrics_of_counts(total, bins, shares),
        uncertainty=uncertainty_of(total, sigma, bins, shares),
        by_party={} if sigma else {name: metrics_of_counts(each, bins, shares) for name, each in counts.items()},
    )


def _counts(envelope: ReplyEnvelope, classes: int, bins: int) -> PredictionCounts:
    message, _ = decode(envelope.reply)
    assert isinstance(message, EvaluationCounts)
    return PredictionCounts.from_vector(message.counts, classes, bins)
