"""Averages of weights: what networks of one architecture become together, as safetensors or as arrays by name."""

from collections.abc import Mapping, Sequence

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from limbeck.protocol.rows import Array

Values = dict[str, Array]


def values_of(weights: bytes) -> Values:
    return load(weights)


def bytes_of(values: Mapping[str, Array], like: Mapping[str, Array]) -> bytes:
    """As safetensors, each array of the type that its like has; counts are whole."""
    whole = {name: np.rint(values[name]) for name in like if like[name].dtype.kind in "iu"}
    found = {**values, **whole}
    return save({name: np.asarray(found[name], like[name].dtype, order="C") for name in like})


def mean(many: Sequence[Mapping[str, Array]], shares: Sequence[float]) -> Values:
    """The weighted mean, in double precision."""
    whole = sum(shares)
    return {
        name: np.asarray(
            sum(each[name].astype(np.float64) * (share / whole) for each, share in zip(many, shares, strict=True))
        )
        for name in many[0]
    }


def are_like(weights: bytes, like: Mapping[str, Array]) -> bool:
    """Whether these are finite weights of the same network."""
    try:
        found = load(weights)
    except (SafetensorError, KeyError):  # KeyError: numbers of a type that NumPy lacks
        return False
    return found.keys() == like.keys() and all(
        found[name].shape == like[name].shape
        and found[name].dtype == like[name].dtype
        and bool(np.isfinite(found[name]).all())
        for name in like
    )
