"""Runs as people make them in Python: a result that shows itself, saves itself and states its privacy."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from limbeck.errors import LimbeckError, path_given
from limbeck.experiments import run as runs
from limbeck.experiments.folder import RunFolder
from limbeck.experiments.result import FinishedRun
from limbeck.report.results import RunPrivacy, figure_of, files_of, privacy_of

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, repr=False)
class Result(FinishedRun):
    """The result of a run: models that predict, the record, and what can be made of them.

    Parameters
    ----------
    model : Predictor or None
        The final model; None if every party ends with a model of its own.
    models : mapping of int to Predictor
        The parties' own models by party number; empty if there is a final model.
    record : RunRecord
        The record of the run; that of a real run has only public and released facts.
    owner : OwnerRecord or None
        What only the owner of the rows may see; None for a simulation.
    ledger : Path or None
        The ledger's file, which may hold other runs too; None if the ledger was in memory.

    Examples
    --------
    >>> import limbeck as lb
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> parties = [(X[start::3], y[start::3]) for start in range(3)]
    >>> result = lb.run("fedvote", parties, public=X[::4], models="decision-tree", processes=1)
    >>> result.model
    <Predictor fedvote: 3 classes, 4 columns>
    >>> print(result.privacy.statement()[:38])
    # Privacy statement: `fedvote`, 3 part
    """

    @property
    def privacy(self) -> RunPrivacy:
        """What the run spent of the parties' privacy: `epsilon` by observer and unit, `delta`, and `statement()`."""
        return privacy_of(self)

    def plot(self) -> Any:
        """Draw the learning curve if there is one, otherwise the parties' own models beside the final one.

        Returns
        -------
        matplotlib.figure.Figure
            The figure, which a notebook shows and `savefig` writes.

        Raises
        ------
        LimbeckError
            If the run had no test rows, or matplotlib is not installed.
        """
        return figure_of(self)

    def save(self, folder: str | Path) -> Path:
        """Write the folder that `limbeck run` writes: models, `record.json`, `privacy.md` and so on.

        The ledger of releases is where `ledger` says. A folder of a real run can be read by its owner only.

        Parameters
        ----------
        folder : str or Path
            The folder, which must not exist or be empty.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        LimbeckError
            If the folder is not empty or cannot be written; nothing is written then.
        """
        path = path_given(folder, "folder")
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.exists():
            raise LimbeckError(f"{path} exists and is not an empty folder; name another one")
        with RunFolder(path, private=self.record.real) as new:
            return new.write(files_of(self, self.ledger))


def presented(function: Callable[P, FinishedRun]) -> Callable[P, Result]:
    """Let a function that runs an experiment return a `Result`.

    Parameters
    ----------
    function : callable
        The function.

    Returns
    -------
    callable
        The function, with the same parameters.
    """

    @wraps(function)
    def returning(*arguments: P.args, **more: P.kwargs) -> Result:
        run = function(*arguments, **more)
        return Result(**{each.name: getattr(run, each.name) for each in fields(run)})

    return returning


run = presented(runs.run)
run_file = presented(runs.run_file)
