"""What a data set or a file holds, in a few characters: two that hold the same have the same."""

import hashlib
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from limbeck.data.sets import EMBEDDED, VIEWS, path_of
from limbeck.errors import LimbeckError, reading


def content_of_set(name: str) -> str:
    """Of a named data set; the embedded ones never change."""
    if name in EMBEDDED:
        return f"scikit-learn {name}"
    if name in VIEWS:
        return f"{name} of {content_of_set(VIEWS[name].whole)}"
    return content_of_file(path_of(name))


def content_of_file(path: Path) -> str:
    """Of an NPZ file by the checksums of its arrays, however they were compressed; else of the bytes."""
    try:
        with reading(path):
            state = path.stat()
            return _content(path, state.st_mtime_ns, state.st_size)
    except BadZipFile as error:
        raise LimbeckError(f"{path} is not an NPZ file of plain arrays") from error


@lru_cache(maxsize=256)
def _content(path: Path, changed: int, size: int) -> str:
    if path.suffix.lower() == ".npz":
        with ZipFile(path) as archive:
            members = sorted((member.filename, member.file_size, member.CRC) for member in archive.infolist())
        return hashlib.sha256(repr(members).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
