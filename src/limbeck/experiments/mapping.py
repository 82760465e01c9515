"""The rows of an experiment, mapped to features before the algorithm runs."""

from dataclasses import dataclass, replace
from pathlib import Path

from limbeck.data.own import SplitRows
from limbeck.features.map import FeatureMap
from limbeck.features.settings import Features, fitted_on
from limbeck.protocol.rows import Rows, content_hash


@dataclass(frozen=True, slots=True)
class MappedRows:
    """The rows that an algorithm runs on.

    Parameters
    ----------
    rows : SplitRows
        Rows of each party, public rows and test rows.
    features : FeatureMap or None
        The map that made them from raw rows; None if these are the raw rows.
    public_hash : str
        Content hash of the raw public rows, if they were mapped.
    """

    rows: SplitRows
    features: FeatureMap | None = None
    public_hash: str = ""


def map_rows(raw: SplitRows, features: Features | None, seed: int, base: Path = Path()) -> MappedRows:
    """Fit the features of an experiment on its public rows, and map all rows.

    Parameters
    ----------
    raw : SplitRows
        Raw rows.
    features : Features or None
        Table `[features]`; None keeps the raw rows.
    seed : int
        Seed of the experiment.
    base : Path
        Folder that paths are relative to.

    Returns
    -------
    MappedRows
        The rows that the algorithm runs on.

    Raises
    ------
    LimbeckError
        If there are no public rows, or the network of an encoder cannot be used.
    """
    found = fitted_on(features, raw.public.x if raw.public else None, seed, base, raw.are_tokens)
    if found is None or raw.public is None:
        return MappedRows(raw)
    private = [vectors_of(found, rows) for rows in raw.private]
    test = vectors_of(found, raw.test) if raw.test else None
    own_tests = tuple(rows and vectors_of(found, rows) for rows in raw.own_tests)
    rows = replace(raw, private=private, public=vectors_of(found, raw.public), test=test, own_tests=own_tests)
    return MappedRows(rows, found, content_hash(raw.public.x))


def vectors_of(features: FeatureMap, rows: Rows) -> Rows:
    """Map rows to features; labels and weights stay as they are."""
    return replace(rows, x=features.vectors(rows.x))
