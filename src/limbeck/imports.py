"""A user's own parts, named `python:package.module:thing` where a file or another process needs a name."""

import hashlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError

PREFIX = "python:"


def is_own(name: str) -> bool:
    return name.startswith(PREFIX)


def own(name: str) -> Callable[..., Any]:
    """The function or class of that name."""
    module, _, thing = name.removeprefix(PREFIX).partition(":")
    try:
        found = getattr(import_module(module), thing)
    except (ImportError, AttributeError, ValueError) as error:
        raise LimbeckError(f"{name!r}: {error}; write {PREFIX}package.module:thing") from error
    except (Exception, SystemExit) as error:
        raise LimbeckError(f"{name!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise LimbeckError(f"{name!r}: {thing} is {found!r}, neither a function nor a class")
    return found  # type: ignore[no-any-return]


def name_of(kind: type) -> str:
    """The name by which `own` finds a class again."""
    return f"{PREFIX}{kind.__module__}:{kind.__qualname__}"


def source_of(name: str) -> Path:
    """The file that the module of a user's own part lies in."""
    return Path(str(import_module(name.removeprefix(PREFIX).partition(":")[0]).__file__))


def code_beside(file: Path) -> str:
    """A hash of all Python files in a file's folder: what a user's own part may be made of."""
    digest = hashlib.sha256()
    for each in sorted(file.parent.glob("*.py")):
        digest.update(f"{each.name} {hashlib.sha256(each.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()
