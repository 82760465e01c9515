"""The join file: what a coordinator tells a party before it takes part."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from limbeck.errors import LimbeckError
from limbeck.tables import first_problem

FORMAT = 2
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # of a party: it is the name of files, too
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?|[0-9a-fA-F:]{2,39}")
ADDRESS = re.compile(rf"({HOST.pattern}|\[[0-9a-fA-F:]{{2,39}}\]):[0-9]{{1,5}}")


@dataclass(frozen=True, slots=True)
class Join:
    """Where the server is and how to know it, and what will be asked: the public rows, the classes, the algorithm."""

    party: str
    index: int
    address: str
    authority: str  # the certificate of who signs the server's
    public: str  # the hash of the public rows
    classes: Sequence[str]
    schema: str | None
    labelled: bool
    algorithm: Mapping[str, Any]  # with its name: what is meant to be asked
    format: int = FORMAT

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def read_join(path: Path) -> Join:
    try:
        join = TypeAdapter(Join).validate_python(json.loads(path.read_text(encoding="utf-8")), extra="forbid")
    except OSError as error:
        raise LimbeckError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        raise LimbeckError(f"{path} is not a join file: {first_problem(error)}") from error
    except ValueError as error:
        raise LimbeckError(f"{path} is not a join file: {error}") from error
    if join.format != FORMAT:
        raise LimbeckError(f"{path} has format {join.format}; this Limbeck knows {FORMAT}")
    for key, right in (
        ("party", NAME.fullmatch(join.party)),
        ("index", join.index >= 0),
        ("address", ADDRESS.fullmatch(join.address)),
        ("authority", join.authority.startswith("-----BEGIN CERTIFICATE-----")),
        ("classes", len(join.classes) >= 2),
        ("algorithm", isinstance(join.algorithm.get("name"), str)),
    ):
        if not right:
            raise LimbeckError(f"{path} is not a join file: {key} = {str(getattr(join, key))[:60]!r}")
    return join
