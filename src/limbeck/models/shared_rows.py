"""Rows in files that the processes of a pool map into their memory: each array is written once, not in every round."""

import atexit
import copy
import os
import shutil
import weakref
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from joblib._memmapping_reducer import _get_temp_dir
from joblib.externals.loky.backend import resource_tracker

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

MIN_BYTES = 2**20  # smaller arrays travel with their job


@dataclass(slots=True)
class SharedRows:
    """Copies of large arrays in files, in memory where the system has a file system for that.

    An array is known by its identity; one that has changed since is written again. Its file goes when the array does;
    all files go when the program ends, for whatever reason.

    Examples
    --------
    >>> shared, rows = SharedRows(), np.ones(2**20)
    >>> shared.mapped(rows) is shared.mapped(rows), bool((shared.mapped(rows) == rows).all())
    (True, True)
    """

    _mapped: dict[int, Array] = field(default_factory=dict)
    _folder: Path | None = None
    _numbers: Any = field(default_factory=count)

    def in_files(self, job: Any) -> Any:
        """Copy of a job whose large arrays are in files; the job itself if it has none."""
        if not is_dataclass(job):
            return job
        values = {part.name: getattr(job, part.name) for part in fields(job)}
        found = {name: self.mapped(value) for name, value in values.items() if _is_large(value)}
        found |= {"job": self.in_files(values["job"])} if "job" in values else {}
        shared = copy.copy(job) if found else job
        for name, value in found.items():
            object.__setattr__(shared, name, value)
        return shared

    def mapped(self, array: Array) -> Array:
        """The array in its file, read-only."""
        there = self._mapped.get(id(array))
        if there is None or (array.flags.writeable and not _are_same(array, there)):
            try:
                file = self._new_file()
                array.tofile(file)
            except OSError as error:
                raise LimbeckError(
                    f"{self._folder or error.filename} cannot take rows for other processes "
                    f"({error.strerror or error}): set the variable JOBLIB_TEMP_FOLDER to a folder with more space, or "
                    "use one process"
                ) from error
            if there is not None:
                with suppress(OSError):  # where a process has it open, it goes with the others
                    Path(str(there.filename)).unlink(missing_ok=True)  # type: ignore[attr-defined]
            self._mapped[id(array)] = np.memmap(file, array.dtype, "r", shape=array.shape)
            weakref.finalize(array, _forget, self._mapped, id(array), file, os.getpid())
        return self._mapped[id(array)]

    def _new_file(self) -> Path:
        if self._folder is None:
            name = f"limbeck-{os.getpid()}-{uuid4().hex}"
            self._folder = Path(_get_temp_dir(name)[0])  # in JOBLIB_TEMP_FOLDER, /dev/shm or the usual one
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            resource_tracker.register(str(self._folder), "folder")  # removes it if the program is killed
            atexit.register(_remove, self._folder, os.getpid())
        return self._folder / str(next(self._numbers))


def _are_same(one: Array, other: Array) -> bool:
    """Whether two arrays of one shape and type have the same bytes; compared in parts, at the speed of the memory."""
    pair = [values.reshape(-1).view(np.uint8) for values in (one, other)]
    parts = range(0, len(pair[0]), MIN_BYTES)
    return all(np.array_equal(pair[0][at : at + MIN_BYTES], pair[1][at : at + MIN_BYTES]) for at in parts)


def _is_large(value: Any) -> bool:
    large = isinstance(value, np.ndarray) and value.nbytes >= MIN_BYTES and value.flags.c_contiguous
    return large and not isinstance(value, np.memmap) and not value.dtype.hasobject


def _forget(mapped: dict[int, Array], key: int, file: Path, owner: int) -> None:
    mapped.pop(key, None)
    if os.getpid() == owner:  # not in a process that was forked from it
        file.unlink(missing_ok=True)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
        resource_tracker.unregister(str(folder), "folder")
