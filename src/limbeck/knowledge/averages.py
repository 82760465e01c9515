"""Averages of the weights of networks of one architecture, as arrays by name or as safetensors."""

from collections.abc import Mapping, Sequence

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from limbeck.protocol.rows import Array

Values = dict[str, Array]


def values_of(weights: bytes) -> Values:
    """Decode weights.

    Parameters
    ----------
    weights : bytes
        Weights as safetensors.

    Returns
    -------
    dict of str to array
        Weights by name.
    """
    return load(weights)


def bytes_of(values: Mapping[str, Array], like: Mapping[str, Array]) -> bytes:
    """Encode weights with the types of other weights; whole numbers are rounded.

    Parameters
    ----------
    values : mapping of str to array
        Weights by name, for example their mean.
    like : mapping of str to array
        Weights of the same network, whose types are used.

    Returns
    -------
    bytes
        Weights as safetensors.

    Examples
    --------
    >>> values_of(bytes_of({"steps": np.array([2.6])}, like={"steps": np.array([0])}))
    {'steps': array([3])}
    """
    whole = {name: np.rint(values[name]) for name in like if like[name].dtype.kind in "iu"}
    found = {**values, **whole}
    return save({name: np.asarray(found[name], like[name].dtype, order="C") for name in like})


def mean(many: Sequence[Mapping[str, Array]], shares: Sequence[float]) -> Values:
    """Compute the weighted mean of weights, in double precision.

    Parameters
    ----------
    many : sequence of mapping of str to array
        Weights by name, for each party.
    shares : sequence of float
        Weight of each party, for example its number of rows; the sum need not be 1.

    Returns
    -------
    dict of str to array
        Mean weights by name, in float64.

    Notes
    -----
    The average of FedAvg (McMahan et al. 2017, Algorithm 1), if `shares` are row counts.

    Examples
    --------
    >>> mean([{"w": np.array([0.0, 4.0])}, {"w": np.array([4.0, 4.0])}], shares=[30, 10])
    {'w': array([1., 4.])}
    """
    whole = sum(shares)
    return {
        name: np.asarray(
            sum(each[name].astype(np.float64) * (share / whole) for each, share in zip(many, shares, strict=True))
        )
        for name in many[0]
    }


def are_like(weights: bytes, like: Mapping[str, Array]) -> bool:
    """Whether bytes are finite weights of a network.

    Parameters
    ----------
    weights : bytes
        What was received; valid safetensors or not.
    like : mapping of str to array
        Weights of the network by name, for names, shapes and types.

    Returns
    -------
    bool
        False also for bytes that cannot be decoded.
    """
    try:
        found = load(weights)
    except (SafetensorError, KeyError):  # KeyError: a type that NumPy does not have
        return False
    return found.keys() == like.keys() and all(
        found[name].shape == like[name].shape
        and found[name].dtype == like[name].dtype
        and bool(np.isfinite(found[name]).all())
        for name in like
    )
