"""Public-only: a model of the labelled public rows, without any private row."""

from dataclasses import dataclass
from typing import ClassVar

from limbeck.models.jobs import Fit
from limbeck.privacy.mechanisms import PostProcessing
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import InstallModel
from limbeck.protocol.parties import Parties
from limbeck.protocol.site import Site
from limbeck.protocol.task import ALL_TASKS, Kind


@dataclass(frozen=True, slots=True)
class PublicOnly(Algorithm):
    """Public-only: the server trains one model on the labelled public rows; no private row is used.

    A method that uses private rows is only useful if it is better than this baseline.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> parties = [(X[:30], y[:30]), (X[30:60], y[30:60])]
    >>> result = lb.run(lb.PublicOnly(), parties, public=(X[60:75], y[60:75]), models="decision-tree")
    >>> result.record.epsilon["parties"]
    0.0
    """

    name: ClassVar[str] = "public-only"
    uses_weights = "sums"
    tasks: ClassVar[tuple[Kind, ...]] = ALL_TASKS
    needs_public_rows: ClassVar[bool] = True
    needs_public_labels: ClassVar[bool] = True

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [Disclosure("server", "model", PostProcessing(), "parties")]

    def lead(self, parties: Parties, site: Site) -> Outcome:
        assert site.public.y is not None
        [final] = site.train([Fit(site.model, site.public.x, site.public.y)])
        parties.ask(site.disclose("model", InstallModel(final))).at_least(1)
        return Outcome(final)
