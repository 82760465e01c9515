"""Large arrays as memory-mapped files, which processes share instead of copying."""

import hashlib
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from limbeck.atomic_files import AtomicFile
from limbeck.protocol.rows import Array, content_hash

LARGE = 64 * 2**20


def mapped(x: Array, cache: Path) -> Array:
    """Memory-mapped copy of a large array.

    Parameters
    ----------
    x : array
        Any array.
    cache : Path
        Folder for the file, whose name is the content hash.

    Returns
    -------
    array
        `x` itself if it has fewer than `LARGE` bytes or is mapped already; else the same values, mapped from the file.
    """
    if getattr(x, "_mmap", None) is not None or x.nbytes < LARGE:
        return x
    file = cache / f"{content_hash(x)}.npy"
    if not file.exists():
        with AtomicFile(file) as output:
            np.save(output, x, allow_pickle=False)
    mapping: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    return mapping


def unpacked(archive: Path, key: str, cache: Path) -> Array | None:
    """Memory-mapped array of an NPZ file, unpacked once into the cache.

    Parameters
    ----------
    archive : Path
        An NPZ file.
    key : str
        Name of the array.
    cache : Path
        Folder for the unpacked file.

    Returns
    -------
    array or None
        The mapped array; None if it has fewer than `LARGE` bytes.
    """
    with zipfile.ZipFile(archive) as members:
        member = members.getinfo(f"{key}.npy")
        if member.file_size < LARGE:
            return None
        version = f"{archive.resolve()} {archive.stat().st_size} {archive.stat().st_mtime_ns} {key}"
        file = cache / f"{archive.stem}-{hashlib.sha256(version.encode()).hexdigest()[:24]}.npy"
        if not file.exists():
            with members.open(member) as source, AtomicFile(file) as output:
                shutil.copyfileobj(source, output, 2**24)
    mapping: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    return mapping


def cache_of(folder: Path | None) -> Path:
    """Cache folder: `.cache` in the data folder, or a temporary folder of the user if there is none."""
    user = os.getuid() if hasattr(os, "getuid") else "here"  # Windows has a temporary folder for each user
    return folder / ".cache" if folder else Path(tempfile.gettempdir()) / f"limbeck-cache-{user}"
