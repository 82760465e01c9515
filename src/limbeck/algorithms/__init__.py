"""One file is one algorithm: a module here that defines a class with `lead` and `answer` is found by its name."""

from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.imports import is_own, own
from limbeck.protocol.parties import Algorithm

PARTS = ("name", "needs_public_rows", "needs_public_labels", "lead", "answer")


@cache
def algorithms() -> dict[str, type[Algorithm]]:
    """Every algorithm by its name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found: list[type[Algorithm]] = [
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and thing.__module__ == module.__name__ and hasattr(thing, "lead")
    ]
    return {algorithm.name: algorithm for algorithm in found}


def algorithm_named(name: str) -> type[Algorithm]:
    """The algorithm of this name; `python:package.module:Class` is the user's own."""
    if is_own(name):
        found = own(name)
        lacking = [part for part in PARTS if not hasattr(found, part)]
        if lacking or not is_dataclass(found):
            raise LimbeckError(f"{name!r} is not an algorithm: a dataclass with {', '.join(PARTS)}")
        return cast(type[Algorithm], found)
    if name not in algorithms():
        raise LimbeckError(f"unknown algorithm {name!r}; {did_you_mean(name, algorithms())}")
    return algorithms()[name]
