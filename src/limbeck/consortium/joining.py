"""Join files: what a party gets from the coordinator before it takes part."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from limbeck.errors import LimbeckError
from limbeck.protocol.envelopes import check_class_weights
from limbeck.protocol.task import MULTICLASS, Task
from limbeck.tables import first_problem

FORMAT = 2
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # of a party, also used in file names
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?|[0-9a-fA-F:]{2,39}")
ADDRESS = re.compile(rf"({HOST.pattern}|\[[0-9a-fA-F:]{{2,39}}\]):[0-9]{{1,5}}")


@dataclass(frozen=True, slots=True)
class Join:
    """Content of a join file: where the server is, and what it will ask.

    Parameters
    ----------
    party : str
        Name of the party.
    index : int
        Number of the party.
    address : str
        Host and port of the server.
    authority : str
        Certificate of the authority that signs the server's certificate, in PEM.
    public : str
        Hash of the public rows.
    classes : sequence of str
        All classes, in order.
    schema : str or None
        Schema of tables, as JSON.
    labelled : bool
        Whether all parties may use the labels of the public rows.
    algorithm : mapping
        Name and parameters of the algorithm that the coordinator plans to run.
    features : str or None
        Hash of the map from rows to features, whose file comes with the public rows; None if there is none.
    task : Task
        Kind of the labels, and the public range of a numeric target.
    class_weights : sequence of float or None
        Weight of each class, by which parties weight their rows.
    format : int
        Version of the format.
    """

    party: str
    index: int
    address: str
    authority: str
    public: str
    classes: Sequence[str]
    schema: str | None
    labelled: bool
    algorithm: Mapping[str, Any]
    features: str | None = None
    task: Task = MULTICLASS
    class_weights: Sequence[float] | None = None
    format: int = FORMAT

    def to_json(self) -> str:
        """Text of a join file."""
        return json.dumps(asdict(self), indent=1) + "\n"


def read_join(path: Path) -> Join:
    """Read a join file; an error names the wrong key."""
    try:
        join = TypeAdapter(Join).validate_python(json.loads(path.read_text(encoding="utf-8")), extra="forbid")
    except OSError as error:
        raise LimbeckError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        raise LimbeckError(f"{path} is not a join file: {first_problem(error)}") from error
    except ValueError as error:
        raise LimbeckError(f"{path} is not a join file: {error}") from error
    if join.format != FORMAT:
        raise LimbeckError(f"{path} has format {join.format}; this version of Limbeck reads format {FORMAT}")
    for key, right in (
        ("party", NAME.fullmatch(join.party)),
        ("index", join.index >= 0),
        ("address", ADDRESS.fullmatch(join.address)),
        ("authority", join.authority.startswith("-----BEGIN CERTIFICATE-----")),
        ("classes", len(join.classes) >= (2 if join.task.is_multiclass else 1)),
        ("algorithm", isinstance(join.algorithm.get("name"), str)),
    ):
        if not right:
            raise LimbeckError(f"{path} is not a join file: {key} = {str(getattr(join, key))[:60]!r}")
    if join.class_weights is not None:
        try:
            check_class_weights(join.class_weights, join.classes)
        except LimbeckError as error:
            raise LimbeckError(f"{path} is not a join file: {error}") from error
    return join
