"""The sites of a run: one builder for simulations and for real organisations."""

from dataclasses import dataclass
from typing import Any

from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.learning import Model, Trainer
from limbeck.protocol.release import Ledger, Noise
from limbeck.protocol.rows import PublicRows, Rows
from limbeck.protocol.site import Silo, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all sites of a run have in common; `name` is the run's identifier."""

    algorithm: Algorithm
    public: PublicRows
    classes: int
    seed: int
    parties: int
    noise: Noise
    name: str = ""

    def server(self, model: Model, trainer: Trainer, ledger: Ledger, secret: bytes | None = None) -> Site:
        return Site(**self._shared(model, trainer, ledger, secret))

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
        """`private_level`: nothing unpaid may be revealed, whatever the algorithm protects."""
        shared = self._shared(model, trainer, ledger, secret)
        shared["private_level"] |= private_level
        return Silo(party=number, private=rows, title=title, memory={} if memory is None else memory, **shared)

    def _shared(self, model: Model, trainer: Trainer, ledger: Ledger, secret: bytes | None) -> dict[str, Any]:
        return {
            "public": self.public,
            "classes": self.classes,
            "model": model,
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
