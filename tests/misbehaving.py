"""Algorithms that break one rule each, for check_algorithm to find; other processes know them by these names."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from limbeck.algorithms.centralized import Centralized, PrivateRows, SendRows
from limbeck.algorithms.fedkt import FedKT, Students, TrainStudents
from limbeck.algorithms.solo import Solo, TrainAlone
from limbeck.protocol.algorithm import Outcome
from limbeck.protocol.disclosures import Disclosure, Facts
from limbeck.protocol.messages import Acknowledgement, InstallModel, Reply, Request
from limbeck.protocol.parties import Parties
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site


@dataclass
class Thawed:
    """Not frozen."""

    name = "thawed"


@dataclass(frozen=True, slots=True)
class Moody(FedKT):
    """Uses randomness of its own."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        silo._rng = np.random.default_rng()
        return FedKT.answer(self, request, silo)


@dataclass(frozen=True, slots=True)
class Forgetful(Solo):
    """Its result depends on the process it runs in."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        silo.memory["process"] = str(os.getpid()).encode()
        return Solo.answer(self, request, silo)


@dataclass(frozen=True, slots=True)
class IgnoresSilence(Solo):
    """Ends well although no party replied."""

    def lead(self, parties: Parties, site: Site) -> Outcome:
        parties.ask(TrainAlone())
        return Outcome()


@dataclass(frozen=True, slots=True)
class Leaky(FedKT):
    """Its parties send without disclosing."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        return Students((b"bare",))


@dataclass(frozen=True, slots=True)
class Broadcast(Request[Acknowledgement]):
    rows: Array


@dataclass(frozen=True, slots=True)
class Talkative(Centralized):
    """Its server sends everybody's rows to everybody."""

    def lead(self, parties: Parties, site: Site) -> Outcome:
        pools = parties.ask(SendRows())
        parties.ask(Broadcast(np.concatenate([pool.x for pool in pools])))
        return Outcome()


@dataclass(frozen=True, slots=True)
class Careless(Solo):
    """Its server sends without disclosing."""

    def lead(self, parties: Parties, site: Site) -> Outcome:
        parties.ask(InstallModel(b"made of private rows"))
        return Outcome()


@dataclass(frozen=True, slots=True)
class Undeclared(FedKT):
    """Its parties disclose what is not declared."""

    def disclosures(self, run: Facts) -> list[Disclosure]:
        return [each for each in FedKT.disclosures(self, run) if each.what != "students"]


@dataclass(frozen=True, slots=True)
class Greedy(FedKT):
    """Asks twice for what is declared to leave once."""

    def lead(self, parties: Parties, site: Site) -> Outcome:
        parties.ask(TrainStudents())
        return FedKT.lead(self, parties, site)


@dataclass(frozen=True, slots=True)
class Garbled(Centralized):
    """Party 1 sends labels of a class that there is not."""

    name = "garbled"

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if silo.party != 1 or not isinstance(request, SendRows):
            return Centralized.answer(self, request, silo)
        return silo.disclose("rows", PrivateRows(silo.private.x, np.full(len(silo.private), 99, np.uint8)))


@dataclass(frozen=True, slots=True)
class Strange(Centralized):
    """Party 1 sends something that no array holds."""

    name = "strange"
    sent: str = "none"

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        if silo.party != 1 or not isinstance(request, SendRows):
            return Centralized.answer(self, request, silo)
        values: Any = {"none": None, "list": [1, 2], "text": np.array(["a"]), "objects": np.array([{}], object)}
        return silo.disclose("rows", PrivateRows(values[self.sent], np.zeros(1, np.uint8)))
