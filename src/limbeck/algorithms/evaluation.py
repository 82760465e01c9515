"""Evaluation of a model on the parties' own test rows: each party sends counts, from which metrics follow.

L2 protects a row: each party adds Gaussian noise to its counts before they leave. `limbeck.knowledge.counts` derives by
how much a row moves them. This needs that no row changes the prediction of another row, whatever model the server
sends. Rows are therefore predicted one at a time, and a row that the model cannot predict gets a fixed prediction.

L1 is not offered: one party could change the counts by all its rows, and their number has no public bound.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from limbeck.algorithms.subsets import LevelledAlgorithm
from limbeck.errors import LimbeckError
from limbeck.knowledge.counts import (
    Bins,
    PredictionCounts,
    number_of_counts,
    number_of_histograms,
    sensitivity_of_counts,
)
from limbeck.models.alone import PredictAlone
from limbeck.models.onnx import PackedModel
from limbeck.privacy.calibration import L0, Privacy, gaussian_sum
from limbeck.privacy.mechanisms import GaussianSum, PostProcessing, Unprotected
from limbeck.protocol.algorithm import Outcome, check_rules
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Reply, Request, check_counts
from limbeck.protocol.parties import Parties
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import Task
from limbeck.tables import SERVER_ONLY

ONE_CLASS = "evaluation counts rows with one class each"
MODEL, NOISY, COUNTS = "evaluated model", "noisy test counts", "test counts"
GAUSSIAN = 'give epsilon, or mechanism = "gaussian" and sigma'


@dataclass(frozen=True, slots=True)
class EvaluationCounts(Reply):
    """The counts of a party's test rows."""

    counts: Array

    def check(self, request: Any, site: Site, algorithm: "FederatedEvaluation") -> None:
        exact = algorithm.level == "L0"
        check_counts(self.counts, number_of_counts(site.classes, algorithm.bins), exact)
        if exact and not PredictionCounts.from_vector(self.counts, site.classes, algorithm.bins).are_consistent:
            raise LimbeckError("the histograms count other rows than the confusions of classes")


@dataclass(frozen=True, slots=True)
class CountRequest(Request[EvaluationCounts]):
    """Count how this model (ONNX) predicts your test rows, in bins with these edges."""

    model: bytes
    edges: Array

    def models_within(self) -> tuple[bytes, ...]:
        return (self.model,)


@dataclass(frozen=True, slots=True)
class FederatedEvaluation(LevelledAlgorithm):
    """Federated evaluation: how good a model is on the parties' own test rows, from counts of each party.

    It trains nothing. Between organisations a party counts the rows of the file `test`, and
    `limbeck server evaluate` asks it to. In one process the parties' rows are the test rows.

    Parameters
    ----------
    model : str
        File of the model (ONNX) at the server, relative to the experiment.
    bins : int
        Number of bins of a probability.
    privacy : Privacy
        Level L0 or L2, and the epsilon that the noise is calibrated to, or its `sigma`.

    Examples
    --------
    >>> import limbeck as lb
    >>> algorithm = lb.FederatedEvaluation(privacy=lb.Privacy(level="L2", epsilon=1.0))
    >>> algorithm.mechanism(Facts(public=100, classes=2, parties=3)).l2_sensitivity
    2.0
    """

    name: ClassVar[str] = "evaluation"
    needs_public_rows: ClassVar[bool] = False
    uses_test_rows: ClassVar[bool] = True

    model: str = field(default="", metadata={SERVER_ONLY: True})
    bins: Annotated[int, Field(ge=2, le=1000)] = 20
    privacy: Privacy = L0

    def check(self) -> None:
        gaussian = self.privacy.gamma is None and self.privacy.mechanism in ("gumbel", "gaussian")
        check_rules(
            (self.level != "L1", "privacy: a party could change the counts by all its rows; use level L2"),
            (self.level == "L0" or gaussian, f"privacy: evaluation adds Gaussian noise: {GAUSSIAN}"),
        )

    def check_task(self, task: Task) -> None:
        check_rules((task.is_multiclass, f'{ONE_CLASS}, not task = "{task.kind}"'))

    def mechanism(self, run: Facts) -> GaussianSum | Unprotected:
        """Return what protects the counts of a party."""
        if self.level == "L0":
            return Unprotected()
        privacy, replaced = self.privacy, self.privacy.adjacency == "replace"
        change, size = sensitivity_of_counts(run.classes, replaced), number_of_counts(run.classes, self.bins)
        part = GaussianSum(change, privacy.sigma or 1.0, size, "example", "any" if replaced else "add-remove")
        if privacy.epsilon is None:
            return part
        return gaussian_sum(privacy.epsilon, privacy.delta, part, (), run.noise, privacy.rows_per_person)

    def disclosures(self, run: Facts) -> list[Disclosure]:
        """Declare the counts, and the model: an earlier run released it, and it is sent once more."""
        model, noise = Disclosure("server", MODEL, PostProcessing(), "parties"), self.mechanism(run)
        if self.level == "L0":
            return [model, Disclosure("party", COUNTS, noise, "server")]
        noisy = Disclosure("party", NOISY, noise, "public")
        return [model, noisy, Disclosure("party", COUNTS, PostProcessing(), "public")]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        model = self._read(site)
        edges = self.bins_of(model, site.public.x, site.classes).edges
        replies = parties.ask(site.disclose(MODEL, CountRequest(model, edges))).at_least(1)
        total = np.sum([reply.counts for reply in replies], axis=0)
        confusion = PredictionCounts.from_vector(total, site.classes, self.bins).without_noise().confusion
        rows = float(confusion.sum())
        figures = {"test_rows": rows, "accuracy": float(np.trace(confusion)) / max(rows, 1.0)}
        return Outcome(model, figures=figures)

    def bins_of(self, model: bytes, public: Array, classes: int) -> Bins:
        """Bins of the probabilities: they suit the public rows; without rows or probabilities, of equal width.

        Parameters
        ----------
        model : bytes
            The model (ONNX).
        public : array of shape (rows, ...)
            Public rows, as the model takes them.
        classes : int
            Number of classes.
        """
        packed = PackedModel(model)
        scores = packed.run(public)[1] if len(public) and packed.has_probabilities else None
        if scores is None or scores.shape[1] != classes or not np.isfinite(scores).all():
            return Bins.equal(classes, self.bins)
        return Bins.of_public(scores, self.bins)

    def _check_edges(self, edges: Array, classes: int) -> None:
        """Raise LimbeckError unless a request has rising edges for all histograms."""
        wanted = (number_of_histograms(classes), self.bins - 1)
        if edges.shape != wanted or not np.isfinite(edges).all() or (np.diff(edges, axis=1) < 0).any():
            raise LimbeckError(f"the edges of the bins must be rising numbers of the shape {wanted}")

    def _read(self, site: Site) -> bytes:
        if not self.model:
            raise LimbeckError("algorithm.model is missing: name the file of the model to evaluate (ONNX)")
        try:
            return (site.folder / self.model).read_bytes()
        except OSError as error:
            raise LimbeckError(f"algorithm.model: cannot read {site.folder / self.model}: {error.strerror}") from error

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        match request:
            case CountRequest(model, edges):
                self._check_edges(edges, silo.classes)
                rows = silo.private
                [(labels, scores)] = silo.train([PredictAlone(model, rows.x, limited=silo.noise == "secure")])
                counts = PredictionCounts.of(rows.y, labels, scores, edges).vector
                counts = silo.disclose(NOISY, counts) if self.level == "L2" else counts
                return silo.disclose(COUNTS, EvaluationCounts(counts))
        return LevelledAlgorithm.answer(self, request, silo)
