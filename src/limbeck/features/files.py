"""Files of feature maps, which go from a coordinator to all parties together with the public rows."""

from pathlib import Path

from safetensors import SafetensorError, safe_open

from limbeck.atomic_files import AtomicFile
from limbeck.errors import LimbeckError, reading
from limbeck.features.map import FeatureMap, unpack

KIND, SOURCE = "limbeck.kind", "limbeck.source"  # metadata keys


def write_map(path: Path, features: FeatureMap, source: str) -> None:
    """Write a map to a file.

    Parameters
    ----------
    path : Path
        The file (safetensors).
    features : FeatureMap
        The map.
    source : str
        Everything that the map was fitted from.
    """
    with AtomicFile(path) as file:
        file.write(features.pack({KIND: features.kind, SOURCE: source}))


def source_of_map(path: Path) -> str:
    """Return what the map in a file was fitted from; "" if the file is not a map."""
    return _metadata(path).get(SOURCE, "")


def read_map(path: Path, row: tuple[int, ...], tried: bool = False) -> FeatureMap:
    """Read a map from a file.

    Parameters
    ----------
    path : Path
        The file.
    row : tuple of int
        Shape of a raw row.
    tried : bool
        Whether this function accepted the same file at this site before; see `unpack`.

    Raises
    ------
    LimbeckError
        If the file is not a map of such rows.
    """
    with reading(path):
        data = path.read_bytes()
    try:
        return unpack(_metadata(path).get(KIND, ""), data, row, tried)
    except LimbeckError as error:
        raise LimbeckError(f"{path}: {error}") from error


def _metadata(path: Path) -> dict[str, str]:
    try:
        with safe_open(str(path), "numpy") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError):
        return {}
