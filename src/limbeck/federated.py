"""What the estimators of `limbeck.sklearn` share."""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator

from limbeck.data.labels import classes_for_split
from limbeck.errors import LimbeckError, LimbeckWarning, did_you_mean, shown
from limbeck.experiments.arguments import (
    algorithm_given,
    check_settings,
    groups_given,
    processes_given,
    seed_given,
    split_given,
)
from limbeck.experiments.brief import without_values
from limbeck.experiments.estimator_input import (
    labelled_like,
    rows_to_predict,
    taken,
    weights_in,
    without_zero_weights,
)
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream
from limbeck.protocol.task import Kind
from limbeck.python import run

__all__ = ["Federated"]

PART = "algorithm__"


class Federated(BaseEstimator):  # type: ignore[misc]
    """What the estimators share: rows are split among simulated parties, and an algorithm runs."""

    algorithm: Algorithm | str | Mapping[str, Any] | None
    default: ClassVar[type[Algorithm]]

    def _run(self, X: Array, y: Array, kind: Kind, weight: Array | None, groups: Any, **given: Any) -> Any:
        """Split the rows among parties, and run the algorithm."""
        check_settings(noise=self.noise, training=self.training, features=self.features)
        seed, processes = seed_given(self.random_state), processes_given(self.n_jobs)
        rng, algorithm = stream(seed, "estimator"), self._algorithm()
        rows, public = self._set_aside(X, y, algorithm, rng)
        if groups is None:
            held = self._partitioned(classes_for_split(y[rows], kind), algorithm, rng)
        else:
            held = [np.flatnonzero(groups[rows] == name) for name in np.unique(groups)]
            if lacking := [str(name) for name, own in zip(np.unique(groups), held, strict=True) if not len(own)]:
                raise LimbeckError(f"group {lacking[0]}: all its rows are set aside as public; set public")
        with warnings.catch_warnings():
            if self.public is None:
                warnings.filterwarnings("ignore", "the public rows suit", LimbeckWarning)  # same source
            return run(
                algorithm,
                [(taken(X, rows[own]), y[rows[own]], None if weight is None else weight[rows[own]]) for own in held],
                public=public,
                models=self.estimator,
                server_model=self.server_estimator,
                features=self.features,
                seed=seed,
                task=kind,
                noise=self.noise,
                training=self.training,
                processes=processes,
                progress=bool(self.verbose),
                **given,
            )

    def _per_row(self, X: Array, y: Array, sample_weight: Any, groups: Any) -> tuple[Array, Array, Any, Any]:
        """Rows and labels with their weights and parties; without protection, rows of weight 0 count as absent."""
        weight, names = weights_in(sample_weight, y), None if groups is None else groups_given(groups, len(X))
        return (X, y, weight, names) if self._algorithm().is_private else without_zero_weights(X, y, weight, names)

    def _is_private(self) -> bool:
        return self._algorithm().is_private and getattr(self, "noise", None) != "simulated"

    def _algorithm(self) -> Algorithm:
        return self.default() if self.algorithm is None else algorithm_given(self.algorithm, self.default.__name__)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        plain: Any = type(type(self).__name__, (type(self),), {"__repr__": BaseEstimator.__repr__})  # it breaks lines
        shown = plain(**{name: without_values(value) for name, value in self.get_params(deep=False).items()})
        return str(shown.__repr__(N_CHAR_MAX))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> "Federated":
        """Choose what predictions are: arrays, or tables of pandas or polars with the classes as names of columns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            "default" means arrays, None leaves it as it is. The name is that of scikit-learn's transformers.

        Returns
        -------
        Federated
            The estimator itself.
        """
        if transform not in (None, "default", "pandas", "polars"):
            raise LimbeckError(f'transform must be "default", "pandas" or "polars", not {transform!r}')
        if transform is not None:
            self._output = transform
        return self

    def _shown(self, X: Any, predictions: Array, columns: Any) -> Any:
        """Predictions in the form that `set_output` chose."""
        form = getattr(self, "_output", "default")
        return predictions if form == "default" else labelled_like(X, predictions, columns, form)

    def _rows_to_predict(self, X: Any) -> Any:
        return rows_to_predict(self, X, self.result_ is not None and self._models()[0].schema is not None)

    def _models(self) -> list[Any]:
        return [self.result_.model] if self.result_.model else list(self.result_.models.values())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the estimator.

        Parameters
        ----------
        deep : bool
            Whether to add the parameters of the algorithm and of the parties' estimators.

        Returns
        -------
        dict of str to value
            The parameters by name.
        """
        params: dict[str, Any] = super().get_params(deep)
        if deep and self.algorithm is not None:
            with suppress(LimbeckError):  # which `fit` reports
                algorithm: Any = self._algorithm()
                params |= {f"{PART}{part.name}": getattr(algorithm, part.name) for part in fields(algorithm)}
        return params

    def set_params(self, **params: Any) -> "Federated":
        """Set parameters of the estimator.

        Parameters
        ----------
        **params : value
            The parameters by name. A name such as `algorithm__partitions` replaces the algorithm by a changed copy.

        Returns
        -------
        Federated
            The estimator itself.

        Raises
        ------
        LimbeckError
            If the algorithm has no such parameter.
        """
        own = {key: value for key, value in params.items() if not key.startswith(PART)}
        super().set_params(**own)
        parts = {key.removeprefix(PART): value for key, value in params.items() if key.startswith(PART)}
        if parts:
            algorithm: Any = self._algorithm()
            known = [part.name for part in fields(algorithm)]
            if unknown := [part for part in parts if part not in known]:
                raise LimbeckError(
                    f"{PART}{unknown[0]}: {algorithm.name} has no such parameter; {did_you_mean(unknown[0], known)}"
                )
            self.algorithm = replace(algorithm, **parts)
        return self

    def _set_aside(self, X: Array, y: Array, algorithm: Algorithm, rng: Any) -> tuple[Array, Any]:
        """Numbers of the private rows, and the public rows."""
        needed = algorithm.needs_public_rows or self.features is not None
        if not needed or self.public is not None:
            return np.arange(len(X)), self.public if needed else None
        if not isinstance(self.public_share, float | np.floating) or not 0 < self.public_share < 1:
            raise LimbeckError(f"public_share must be a share between 0 and 1, not {shown(self.public_share)}")
        count = max(1, round(self.public_share * len(X)))
        if count >= len(X):
            raise LimbeckError(f"n_samples={len(X)}: too few rows to set some aside as public; set public")
        order = rng.permutation(len(X))
        public, private = np.sort(order[:count]), np.sort(order[count:])
        open_rows = taken(X, public)
        return private, (open_rows, y[public]) if algorithm.needs_public_labels else open_rows

    def _partitioned(self, y: Array, algorithm: Algorithm, rng: Any) -> list[Array]:
        """Numbers of each party's rows, split by these classes."""
        if not isinstance(self.parties, int | np.integer) or self.parties < 1:
            raise LimbeckError(f"parties must be a whole number, at least 1, not {shown(self.parties)}")
        fewest = algorithm.min_rows
        parties = max(1, min(int(self.parties), len(y) // fewest))
        if parties < self.parties:
            message = (
                f"{len(y)} rows are split among {parties} parties, not {self.parties}: each needs at least {fewest}"
            )
            warnings.warn(message, LimbeckWarning, stacklevel=2)
        held: list[Array] = split_given(self.split).assign(y, {}, parties, rng)
        return [own for own in held if len(own)]
