"""A small SQLite file that only its owner may read: what was written is on the disk."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from limbeck.atomic_files import private_file
from limbeck.errors import LimbeckError


class Database:
    """A file with the tables of `schema`; each statement is a transaction, except within `at_once`."""

    schema: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        with one_error(path):
            self._connection = sqlite3.connect(
                private_file(path), timeout=60.0, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(self.schema)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is written within stands there all of it, or none."""
        if self._connection.in_transaction:
            yield
            return
        self._rows("BEGIN IMMEDIATE")
        try:
            yield
            self._rows("COMMIT")
        except BaseException:
            self._connection.rollback()  # where SQLite has not done so itself, as it does on a full disk
            raise

    def end(self) -> None:
        self._connection.close()

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with one_error(self.path):
            return self._connection.execute(statement, values).fetchall()


@contextmanager
def one_error(path: Path) -> Iterator[None]:
    """A full disk or a damaged file is one error of ours, whatever SQLite raises."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise LimbeckError(f"{path} cannot be used: {error}") from error
