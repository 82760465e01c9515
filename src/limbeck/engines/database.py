"""A small SQLite file that only its owner may read; every commit is on disk."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from limbeck.atomic_files import private_file
from limbeck.errors import LimbeckError


class Database:
    """SQLite file with the tables of `schema`; each statement is a transaction, except within `at_once`.

    Parameters
    ----------
    path : Path
        The file, created if it does not exist.
    """

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
        """Context manager for one transaction: all statements in it are committed, or none."""
        if self._connection.in_transaction:
            yield
            return
        self._rows("BEGIN IMMEDIATE")
        try:
            yield
            self._rows("COMMIT")
        except BaseException:
            self._connection.rollback()  # no effect if SQLite has rolled back already, for example on a full disk
            raise

    def end(self) -> None:
        """Close the file."""
        self._connection.close()

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with one_error(self.path):
            return self._connection.execute(statement, values).fetchall()


@contextmanager
def one_error(path: Path) -> Iterator[None]:
    """Context manager that turns errors of SQLite and of the disk into a `LimbeckError` that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise LimbeckError(f"{path} cannot be used: {error}") from error
