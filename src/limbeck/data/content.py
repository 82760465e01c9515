"""Content digests of data sets and files: equal content gives an equal digest."""

import hashlib
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from limbeck.data.mosaics import MOSAICS
from limbeck.data.sets import EMBEDDED, VIEWS, path_of
from limbeck.errors import LimbeckError, reading


def content_of_set(name: str) -> str:
    """Content digest of a named data set.

    Parameters
    ----------
    name : str
        Name of a data set.

    Returns
    -------
    str
        Digest of the stored file; of an embedded set, which never changes, its name.

    Examples
    --------
    >>> content_of_set("iris")
    'scikit-learn iris'
    """
    if name in EMBEDDED:
        return f"scikit-learn {name}"
    if name in VIEWS:
        return f"{name} of {content_of_set(VIEWS[name].whole)}"
    if name in MOSAICS:
        return f"{name} of {content_of_set(MOSAICS[name].source)}"
    return content_of_file(path_of(name))


def content_of_file(path: Path) -> str:
    """Content digest of a file.

    Parameters
    ----------
    path : Path
        Any file. For an NPZ file only the checksums of its arrays count, not their compression.

    Returns
    -------
    str
        SHA-256, 64 hexadecimal digits.
    """
    try:
        with reading(path):
            state = path.stat()
            return _content(path, state.st_mtime_ns, state.st_size)
    except BadZipFile as error:
        raise LimbeckError(f"{path} is not an NPZ file of plain arrays") from error


def content_of_path(path: Path) -> str:
    """Content digest of a file, or of all files directly in a folder."""
    if not path.is_dir():
        return content_of_file(path)
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    digests = "\n".join(f"{file.name} {content_of_file(file)}" for file in files)
    return hashlib.sha256(digests.encode()).hexdigest()


@lru_cache(maxsize=256)
def _content(path: Path, changed: int, size: int) -> str:
    if path.suffix.lower() == ".npz":
        with ZipFile(path) as archive:
            members = sorted((member.filename, member.file_size, member.CRC) for member in archive.infolist())
        return hashlib.sha256(repr(members).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
