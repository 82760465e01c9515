"""Construction of the sites of a run, for simulations and for organisations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limbeck.models.tasks import for_task
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.learning import Model, Trainer
from limbeck.protocol.release import Ledger, Noise
from limbeck.protocol.rows import PublicRows, Rows
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import MULTICLASS, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all sites of a run have in common.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    public : PublicRows
        Public rows.
    classes : int
        Number of classes.
    seed : int
        Seed of the run.
    parties : int
        Number of parties.
    noise : {"secure", "simulated"}
        Noise of private releases.
    name : str
        Identifier of the run.
    folder : Path
        Folder that paths of the algorithm are relative to.
    task : Task
        Kind of the labels.
    """

    algorithm: Algorithm
    public: PublicRows
    classes: int
    seed: int
    parties: int
    noise: Noise
    name: str = ""
    folder: Path = Path()
    task: Task = MULTICLASS

    def server(self, model: Model, trainer: Trainer, ledger: Ledger, secret: bytes | None = None) -> Site:
        """Make the server; a secret is only used with secure noise."""
        return Site(**self._shared(model, trainer, ledger, secret), folder=self.folder)

    def party(
        self,
        number: int,
        rows: Rows,
        model: Model,
        trainer: Trainer,
        ledger: Ledger,
        secret: bytes | None = None,
        *,
        title: str | None = None,
        memory: dict[str, Any] | None = None,
        private_level: bool = False,
    ) -> Silo:
        """Make a party.

        Parameters
        ----------
        number : int
            Number of the party, from 0.
        rows : Rows
            Private rows.
        model : Model
            Model of the party.
        trainer : Trainer
            Trains the models.
        ledger : Ledger
            Records the releases.
        secret : bytes, optional
            Random bytes that determine, with secure noise, how rows are partitioned.
        title : str, optional
            Name of the party in the ledger.
        memory : dict, optional
            What the algorithm remembers between requests.
        private_level : bool
            Treat the run as private even if the algorithm protects nothing: errors then reveal nothing about the rows.

        Returns
        -------
        Silo
            The party.
        """
        shared = self._shared(model, trainer, ledger, secret)
        shared["private_level"] |= private_level
        remembered = {} if memory is None else memory
        return Silo(party=number, private=rows.read_only, title=title, memory=remembered, **shared)

    def _shared(self, model: Model, trainer: Trainer, ledger: Ledger, secret: bytes | None) -> dict[str, Any]:
        return {
            "public": self.public,
            "classes": self.classes,
            "model": for_task(model, self.task.kind),
            "task": self.task,
            "seed": self.seed,
            "trainer": trainer,
            "ledger": ledger,
            "noise": self.noise,
            "parties": self.parties,
            "private_level": self.algorithm.is_private,
            "secret": secret if self.noise == "secure" else None,
            "run": self.name,
            "declare": self.algorithm.disclosures,
        }
