"""Imports: of functions and classes of users, `python:package.module:thing` in files, and of many modules at once."""

import gc
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError

PREFIX = "python:"


def is_own(name: str) -> bool:
    """Whether a name is that of a user's function or class: it begins with `python:`."""
    return name.startswith(PREFIX)


def own(name: str) -> Callable[..., Any]:
    """Import a user's function or class.

    Parameters
    ----------
    name : str
        Name such as `python:package.module:thing`.

    Returns
    -------
    callable
        The function or class.

    Raises
    ------
    LimbeckError
        If it cannot be imported, or is not callable.

    Examples
    --------
    >>> own("python:collections:Counter")
    <class 'collections.Counter'>
    """
    module, _, thing = name.removeprefix(PREFIX).partition(":")
    try:
        found = getattr(import_module(module), thing)
    except (ImportError, AttributeError, ValueError) as error:
        raise LimbeckError(f"{name!r}: {error}; write {PREFIX}package.module:thing") from error
    except (Exception, SystemExit) as error:
        raise LimbeckError(f"{name!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise LimbeckError(f"{name!r}: {thing} is {found!r}; it must be a function or a class")
    return found  # type: ignore[no-any-return]


def name_of(kind: type) -> str:
    """Return the name by which `own` imports a class.

    Examples
    --------
    >>> from collections import Counter
    >>> name_of(Counter)
    'python:collections:Counter'
    """
    return f"{PREFIX}{kind.__module__}:{kind.__qualname__}"


def source_of(name: str) -> Path:
    """Return the source file of a user's function or class."""
    return Path(str(import_module(name.removeprefix(PREFIX).partition(":")[0]).__file__))


def code_beside(file: Path) -> str:
    """Hash all Python files in the folder of a file, on which a user's function or class may depend."""
    digest = hashlib.sha256()
    for each in sorted(file.parent.glob("*.py")):
        digest.update(f"{each.name} {hashlib.sha256(each.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()


@contextmanager
def without_collection() -> Iterator[None]:
    """Context for many imports, which make no garbage: looking for it takes an eighth of their time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
