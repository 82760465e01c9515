"""Types of parameters, and checks of values, that several mechanisms have."""

from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field as Range

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

Gamma = Annotated[float, Range(gt=0)]  # an infinite gamma, or a sigma of 0, adds no noise: epsilon is infinite
Sigma = Annotated[float, Range(ge=0)]
Share = Annotated[float, Range(gt=0, le=1)]


def rows_of(counts: Array, classes: int) -> int:
    """Number of queries of an array with one row per query and one column per class."""
    if counts.ndim != 2 or counts.shape[1] != classes:
        raise LimbeckError(f"a value needs one row per query and {classes} columns, not the shape {counts.shape}")
    return len(counts)


def scale_of(kind: Any) -> str:
    """Name of the field of a mechanism that sets the amount of noise: `gamma` or `sigma`."""
    return "sigma" if "sigma" in {field.name for field in fields(kind)} else "gamma"
