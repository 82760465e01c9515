"""One file is one algorithm: every subclass of `Algorithm` with a name is found by that name."""

from functools import cache
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.imports import is_own, own
from limbeck.protocol.algorithm import Algorithm


@cache
def algorithms() -> dict[str, type[Algorithm]]:
    """Every algorithm of this package by its name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found: list[type[Algorithm]] = [
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and thing.__module__ == module.__name__ and issubclass(thing, Algorithm)
    ]
    return {algorithm.name: algorithm for algorithm in found if not isabstract(algorithm)}


def algorithm_named(name: str) -> type[Algorithm]:
    """The algorithm of this name; `python:package.module:Class` is the user's own."""
    if is_own(name):
        found = own(name)
        if not isinstance(found, type) or not issubclass(found, Algorithm) or isabstract(found):
            raise LimbeckError(f"{name!r} is not an algorithm: a dataclass that extends limbeck.Algorithm")
        return found
    if name not in algorithms():
        raise LimbeckError(f"unknown algorithm {name!r}; {did_you_mean(name, algorithms())}")
    return algorithms()[name]
