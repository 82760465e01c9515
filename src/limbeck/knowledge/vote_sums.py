"""Sums of many parties' soft votes, in blocks of rows."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.votes import blocks_of_rows, soft_vote
from limbeck.protocol.rows import Array

IN_MEMORY = 2**30  # bytes of votes; more of them lie in a temporary file


def _file() -> Any:
    return tempfile.SpooledTemporaryFile(IN_MEMORY)


@dataclass(slots=True)
class StoredVotes:
    """The votes of parties, until their weights are known: up to 1 GiB in memory, more in a temporary file.

    Parameters
    ----------
    rows, classes : int
        Shape of a party's votes.

    Examples
    --------
    >>> stored = StoredVotes(1, 2)
    >>> for votes in ([[1.0, 0.0]], [[0.5, 0.5]]):
    ...     stored.add(np.array(votes, np.float16))
    >>> stored.sum(weights=np.array([[1.0, 0.5], [1.0, 1.0]])).tolist()
    [[1.5, 0.5]]
    """

    rows: int
    classes: int
    _file: Any = field(default_factory=_file)
    _parties: list[tuple[int, np.dtype[Any]]] = field(default_factory=list)  # where their votes begin, and their type

    def add(self, votes: Array) -> None:
        """Store the votes of the next party, of shape (rows, classes)."""
        self._parties.append((self._file.seek(0, 2), votes.dtype))
        try:
            self._file.write(np.ascontiguousarray(votes).data.cast("B"))
            self._file.flush()
        except OSError as error:
            raise LimbeckError(
                f"cannot store votes in the temporary folder {tempfile.tempdir or ''}: {error.strerror or error}; free "
                "space there, or set TMPDIR to a folder with more"
            ) from error

    def sum(self, weights: Array) -> Array:
        """Sum of all parties' soft votes.

        Parameters
        ----------
        weights : array of shape (parties, classes) or (parties, 1)
            Weights of each party's votes.

        Returns
        -------
        array of shape (rows, classes)
            The sum in float64.
        """
        total = np.zeros((self.rows, self.classes))
        for block in blocks_of_rows(self.rows, self.classes):
            for weight, (start, kind) in zip(weights, self._parties, strict=True):
                total[block] += weight * soft_vote(self._read(block, start, kind))
        return total

    def _read(self, block: slice, start: int, kind: np.dtype[Any]) -> Array:
        self._file.seek(start + block.start * self.classes * kind.itemsize)
        rows = min(block.stop, self.rows) - block.start
        return np.frombuffer(self._file.read(rows * self.classes * kind.itemsize), kind).reshape(rows, self.classes)


def mean_vote(scores: Sequence[Array], vote: Callable[[Array], Array], rows: int) -> Array:
    """Average the votes of teachers.

    Parameters
    ----------
    scores : sequence of array of shape (at least rows, classes)
        Scores of each teacher.
    vote : callable
        Makes votes from the scores of some rows.
    rows : int
        Number of rows, the first ones.

    Returns
    -------
    array of shape (rows, classes)
        Mean votes in float16.

    Examples
    --------
    >>> mean_vote([np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])], soft_vote, rows=1).tolist()
    [[0.75, 0.25]]
    """
    votes = np.empty((rows, scores[0].shape[1]), np.float16)
    for block in blocks_of_rows(*votes.shape):
        votes[block] = np.mean([vote(each[:rows][block]) for each in scores], axis=0)
    return votes
