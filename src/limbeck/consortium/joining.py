"""The join file: what a coordinator tells a party before it takes part."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from limbeck.errors import LimbeckError

FORMAT = 1


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
    except (ValueError, ValidationError) as error:
        raise LimbeckError(f"{path} is not a join file: {str(error).splitlines()[0]}") from error
    if join.format != FORMAT:
        raise LimbeckError(f"{path} has format {join.format}; this Limbeck knows {FORMAT}")
    return join
