"""Algorithms that break one rule each, for check_algorithm to find; other processes know them by these names."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from limbeck.algorithms.centralized import Centralized, HandOver
from limbeck.algorithms.fedkt import FedKT, Students
from limbeck.algorithms.solo import Solo, TrainAlone
from limbeck.protocol.messages import Adopt, Done, Reply, Request
from limbeck.protocol.parties import Outcome, Parties
from limbeck.protocol.rows import Array
from limbeck.protocol.site import Silo, Site


@dataclass
class Thawed:
    """Not frozen."""

    name = "thawed"


@dataclass(frozen=True, slots=True)
class Moody(FedKT):
    """Has chance of its own."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        silo.rng = np.random.default_rng()
        return FedKT.answer(self, request, silo)


@dataclass(frozen=True, slots=True)
class Forgetful(Solo):
    """Its result depends on the process it runs in."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        silo.memory["process"] = str(os.getpid()).encode()
        return Solo.answer(self, request, silo)


@dataclass(frozen=True, slots=True)
class Deaf(Solo):
    """Takes silence for success."""

    def lead(self, parties: Parties, site: Site) -> Outcome:
        parties.ask(TrainAlone())
        return Outcome()


@dataclass(frozen=True, slots=True)
class Leaky(FedKT):
    """Sends without a release."""

    def answer(self, request: Request[Any], silo: Silo) -> Reply:
        return Students((b"bare",))


@dataclass(frozen=True, slots=True)
class Broadcast(Request[Done]):
    rows: Array


@dataclass(frozen=True, slots=True)
class Talkative(Centralized):
    """Its server sends everybody's rows to everybody."""

    def lead(self, parties: Parties, site: Site) -> Outcome:
        pools = parties.ask(HandOver())
        parties.ask(Broadcast(np.concatenate([pool.x for pool in pools])))
        return Outcome()


@dataclass(frozen=True, slots=True)
class Careless(Solo):
    """Its server sends without a release."""

    def lead(self, parties: Parties, site: Site) -> Outcome:
        parties.ask(Adopt(b"made of private rows"))
        return Outcome()
