"""Mechanisms: what is done to a value before it leaves a site."""

import math
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NothingPrivate:
    """Made of public rows and of what this site has already released: nothing more is told (post-processing)."""

    name: str = "nothing-private"
    sensitivity: float = 0.0
    adjacency: str = "any"

    def protect(self, value: T) -> T:
        return value


@dataclass(frozen=True, slots=True)
class Unprotected:
    """Nothing is added: epsilon is infinite towards whoever sees it, under every neighbour relation."""

    name: str = "unprotected"
    sensitivity: float = math.inf
    adjacency: str = "any"

    def protect(self, value: T) -> T:
        return value
