"""`limbeck privacy epsilon`: what so much noise is worth, by every accountant that knows."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.privacy.accountants import check_delta, epsilon_by, every_epsilon, least
from limbeck.privacy.accountants.votes import check_votes
from limbeck.privacy.calibration import CHECK
from limbeck.privacy.events import Adjacency, Spend, check_rows_per_person
from limbeck.privacy.mechanisms import (
    ClippedGaussian,
    ConfidentGaussian,
    Gaussian,
    Gumbel,
    Laplace,
    LaplaceLogits,
)
from limbeck.protocol.release import Noise, Unit
from limbeck.protocol.rows import Array

BEST = "best"
WITH_VOTES = ("moments", "rdp")
SCORES = ("laplace-logits", "clipped-gaussian")
NAMES = ("laplace", "gumbel", "gaussian", "confident-gaussian", *SCORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enquiry:
    """A mechanism, how often it is asked, and what is known of the votes."""

    mechanism: str
    gamma: float | None = None
    sigma: float | None = None
    check: float | None = None
    threshold: float | None = None
    bound: float | None = None
    share: float = 1.0
    queries: int | None = None
    partitions: int = 1
    unit: Unit = "party"
    adjacency: Adjacency = "replace"
    classes: int | None = None
    voters: int | None = None
    votes: Path | None = None
    orders: int = 8
    delta: float = 1e-5
    noise: Noise = "simulated"
    rows_per_person: int = 1


@dataclass(frozen=True, slots=True)
class Worth:
    """The answer: by the chosen accountant, and by all that apply."""

    epsilon: float
    delta: float
    accountant: str
    data_dependent: bool
    all: dict[str, float]


def worth(enquiry: Enquiry, accountant: str = BEST) -> Worth:
    """`best` is the least data-independent figure; votes give moments and rdp their data-dependent ones."""
    check_delta(enquiry.delta)
    for name in ("partitions", "orders", "queries", "classes", "voters"):
        if (value := getattr(enquiry, name)) is not None and value < 1:
            raise LimbeckError(f"{name} must be at least 1, not {value}")
    _check_people(enquiry)
    votes = None if enquiry.votes is None else _read_votes(enquiry.votes)
    spend = _spend(enquiry, votes)
    votes = None if votes is None else np.tile(votes, (_repeated(enquiry), 1))
    everything = every_epsilon([spend], enquiry.delta, enquiry.orders, votes)
    if accountant == BEST:
        plain = everything if votes is None else every_epsilon([spend], enquiry.delta, enquiry.orders)
        epsilon, name = least(plain)
        return Worth(epsilon, enquiry.delta, name, False, everything)
    epsilon = epsilon_by(accountant, [spend], enquiry.delta, enquiry.orders, votes)
    return Worth(epsilon, enquiry.delta, accountant, votes is not None and accountant in WITH_VOTES, everything)


def _check_people(enquiry: Enquiry) -> None:
    check_rows_per_person(enquiry.rows_per_person)
    if enquiry.rows_per_person > 1 and enquiry.unit == "party":
        raise LimbeckError("--rows-per-person is for --unit example: --unit party protects a party with all its rows")


def _spend(enquiry: Enquiry, votes: Array | None) -> Spend:
    if enquiry.queries is None and votes is None:
        raise LimbeckError("say how many --queries")
    queries = enquiry.queries or (0 if votes is None else len(votes))
    if votes is not None and len(votes) != queries:
        raise LimbeckError(f"{queries} queries, but {enquiry.votes} has {len(votes)} rows of votes")
    if votes is not None and enquiry.classes not in (None, votes.shape[1]):
        raise LimbeckError(f"--classes {enquiry.classes}, but {enquiry.votes} has {votes.shape[1]} columns")
    known = (enquiry.classes, enquiry.voters, False, enquiry.noise, enquiry.rows_per_person)
    return Spend(_mechanism(enquiry), _repeated(enquiry) * queries, enquiry.adjacency, *known)


def _repeated(enquiry: Enquiry) -> int:
    """How often an example is asked about: once in each partition; votes count as if all partitions voted alike."""
    return enquiry.partitions if enquiry.unit == "example" else 1


def _mechanism(enquiry: Enquiry) -> Any:
    weight = enquiry.partitions if enquiry.unit == "party" else 1
    if enquiry.mechanism not in NAMES:
        raise LimbeckError(f"unknown mechanism {enquiry.mechanism!r}; {did_you_mean(enquiry.mechanism, NAMES)}")
    wanted, other = ("sigma", "gamma") if "gaussian" in enquiry.mechanism else ("gamma", "sigma")
    scale = getattr(enquiry, wanted)
    if scale is None or getattr(enquiry, other) is not None:
        raise LimbeckError(f"{enquiry.mechanism} takes --{wanted}")
    if not 0 < scale < math.inf:
        raise LimbeckError(f"{wanted} must be above 0 and finite, not {scale:g}")
    if enquiry.mechanism in SCORES:
        return _on_scores(enquiry, scale)
    if enquiry.bound is not None or enquiry.share != 1:
        raise LimbeckError(f"--bound and --share are for {' and '.join(SCORES)}, not for {enquiry.mechanism}")
    match enquiry.mechanism:
        case "laplace":
            return Laplace(scale, enquiry.unit, weight)
        case "gumbel":
            return Gumbel(scale, enquiry.unit, weight)
        case "gaussian":
            return Gaussian(scale, enquiry.unit, weight)
    check = CHECK * scale if enquiry.check is None else enquiry.check
    return ConfidentGaussian(scale, check, enquiry.threshold or 0.0, enquiry.unit, weight)


def _on_scores(enquiry: Enquiry, scale: float) -> Any:
    if enquiry.bound is None or enquiry.classes is None:
        raise LimbeckError(f"{enquiry.mechanism} takes --bound and --classes: every score of a row may move")
    if enquiry.partitions != 1 or enquiry.votes is not None:
        raise LimbeckError(f"{enquiry.mechanism} noises scores: it takes neither --partitions nor --votes")
    if enquiry.unit == "party" and enquiry.adjacency == "add-remove":
        raise LimbeckError(f"{enquiry.mechanism}: there is no theorem for a party that is added or removed")
    kind = LaplaceLogits if enquiry.mechanism == "laplace-logits" else ClippedGaussian
    return kind(enquiry.bound, scale, enquiry.classes, enquiry.unit, share=enquiry.share)


def _read_votes(path: Path) -> Array:
    try:
        votes = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise LimbeckError(f"{path} is not an NPY file of counts") from error
    if not isinstance(votes, np.ndarray):
        raise LimbeckError(f"{path} is not an NPY file of counts")
    return check_votes(votes, str(path))
