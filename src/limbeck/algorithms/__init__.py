"""One file is one algorithm: a module here that defines a class with `lead` and `answer` is found by its name."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.imports import is_own, own
from limbeck.protocol.parties import Algorithm


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
        return cast(type[Algorithm], own(name))
    if name not in algorithms():
        raise LimbeckError(f"unknown algorithm {name!r}; {did_you_mean(name, algorithms())}")
    return algorithms()[name]
