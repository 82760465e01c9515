"""Federated learning algorithms, one in each file.

Every concrete subclass of `Algorithm` in a module of this package is found by its `name`.
"""

from functools import cache
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.imports import is_own, own
from limbeck.protocol.algorithm import Algorithm


@cache
def algorithms() -> dict[str, type[Algorithm]]:
    """Find all algorithms of this package.

    Returns
    -------
    dict of str to type[Algorithm]
        The classes by their `name`, in the order of the modules' names.

    Examples
    --------
    >>> list(algorithms())[:3]
    ['centralized', 'ensemble', 'evaluation']
    """
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found: list[type[Algorithm]] = [
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and thing.__module__ == module.__name__ and issubclass(thing, Algorithm)
    ]
    return {algorithm.name: algorithm for algorithm in found if not isabstract(algorithm)}


def algorithm_named(name: str) -> type[Algorithm]:
    """Find an algorithm by its name.

    Parameters
    ----------
    name : str
        The `name` of an algorithm of this package, or `python:package.module:Class` for a user's own class.

    Returns
    -------
    type[Algorithm]
        The class, not an instance.

    Raises
    ------
    LimbeckError
        If the name is unknown, the user's object is not a concrete subclass of `Algorithm`.

    Examples
    --------
    >>> algorithm_named("fedkt").__name__
    'FedKT'
    """
    if is_own(name):
        found = own(name)
        if not isinstance(found, type) or not issubclass(found, Algorithm) or isabstract(found):
            raise LimbeckError(f"{name!r} is not an algorithm; it must be a dataclass that extends limbeck.Algorithm")
        return found
    if name not in algorithms():
        raise LimbeckError(f"unknown algorithm {name!r}; {did_you_mean(name, algorithms())}")
    return algorithms()[name]
