"""Federated learning as scikit-learn estimators."""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.fedvote import FedVote
from limbeck.data.labels import classes_for_split
from limbeck.data.splits import Split
from limbeck.errors import LimbeckError, LimbeckWarning, did_you_mean, shown
from limbeck.experiments.arguments import (
    algorithm_given,
    check_settings,
    groups_given,
    processes_given,
    seed_given,
    split_given,
)
from limbeck.features.settings import Features
from limbeck.models.trainers import Training
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream
from limbeck.protocol.task import Kind
from limbeck.python import run

__all__ = ["FederatedClassifier", "FederatedRegressor"]

PART = "algorithm__"


class Federated(BaseEstimator):  # type: ignore[misc]
    """What the estimators share: rows are split among simulated parties, and an algorithm runs."""

    algorithm: Algorithm | str | Mapping[str, Any] | None
    default: ClassVar[type[Algorithm]]

    def _run(self, X: Array, y: Array, kind: Kind, groups: Any, **given: Any) -> Any:
        """Split the rows among parties, and run the algorithm."""
        check_settings(noise=self.noise, training=self.training, features=self.features)
        seed, processes = seed_given(self.random_state), processes_given(self.n_jobs)
        rng, algorithm = stream(seed, "estimator"), self._algorithm()
        rows, public = self._set_aside(X, y, algorithm, rng)
        if groups is None:
            held = self._partitioned(classes_for_split(y[rows], kind), algorithm, rng)
        else:
            names = groups_given(groups, len(X))
            held = [np.flatnonzero(names[rows] == name) for name in np.unique(names)]
            if lacking := [str(name) for name, own in zip(np.unique(names), held, strict=True) if not len(own)]:
                raise LimbeckError(f"group {lacking[0]}: all its rows are set aside as public; set public")
        with warnings.catch_warnings():
            if self.public is None:
                warnings.filterwarnings("ignore", "the public rows suit", LimbeckWarning)  # same source
            return run(
                algorithm,
                [(X[rows[own]], y[rows[own]]) for own in held],
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

    def _algorithm(self) -> Algorithm:
        return self.default() if self.algorithm is None else algorithm_given(self.algorithm, self.default.__name__)

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
        return private, (X[public], y[public]) if algorithm.needs_public_labels else X[public]

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


class FederatedClassifier(ClassifierMixin, Federated):  # type: ignore[misc]
    """Federated learning as a scikit-learn classifier.

    All parties run in this process, so it is for research, not for sites that may not share rows. The rows are split
    among simulated parties, an algorithm runs, and the final model predicts.

    Parameters
    ----------
    algorithm : Algorithm, str, mapping or None
        The federated learning algorithm, its name or its table; None means `FedVote()`. Its
        parameters can be set as `algorithm__partitions`.
    estimator : estimator, str, mapping or list of these
        What the parties and the server train, one for all or one for each party: a scikit-learn estimator, a model's
        name or its table.
    server_estimator : estimator, str, mapping or None
        What the server trains; None means the estimator of the first party.
    parties : int
        Number of parties, if `fit` gets no `groups`. There are fewer if rows are too few for the algorithm.
    split : Split, mapping or None
        How rows are split among the parties, for example `{"kind": "dirichlet", "beta": 0.5}`; None means evenly.
    public : array, (X, y) or None
        The public rows, without or with labels; None sets some of the rows aside.
    public_share : float
        Share of the rows that is set aside at random as public, if `public` is None and some are needed.
    features : Features or None
        The features that all rows are mapped to; None keeps the rows as they are.
    classes : sequence or None
        All classes; None takes those in y. A run with secure noise needs them. With several labels a row, the names of
        the columns.
    noise : {"secure", "simulated"} or None
        Where noise comes from; None means secure if the algorithm is private.
    training : Training or None
        The trainer and the device of networks; None means the default.
    random_state : int, RandomState or None
        The seed of all random numbers, except secure noise.
    n_jobs : int or None
        Number of processes that train; None means one, -1 one for each core.
    verbose : int
        Whether to show a progress bar on stderr: 0 for none.

    Attributes
    ----------
    classes_ : array of shape (classes,)
        The classes.
    result_ : Result or None
        The result of the run, whose record has rounds, bytes and epsilon; None if there is only one class.

    Notes
    -----
    If every party ends with a model of its own, the mean of their probabilities decides.

    Examples
    --------
    >>> from limbeck import FedVote
    >>> from limbeck.sklearn import FederatedClassifier
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(90, centers=3, cluster_std=0.1, random_state=0)
    >>> classifier = FederatedClassifier(FedVote(), "decision-tree", parties=3, random_state=0)
    >>> classifier.fit(X, y).score(X, y)
    1.0
    """

    default = FedVote

    def __init__(
        self,
        algorithm: Algorithm | str | Mapping[str, Any] | None = None,
        estimator: Any = "random-forest",
        *,
        server_estimator: Any = None,
        parties: int = 3,
        split: Split | Mapping[str, Any] | None = None,
        public: Any = None,
        public_share: float = 0.2,
        features: Features | None = None,
        classes: Any = None,
        noise: Noise | None = None,
        training: Training | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.estimator = estimator
        self.server_estimator = server_estimator
        self.parties = parties
        self.split = split
        self.public = public
        self.public_share = public_share
        self.features = features
        self.classes = classes
        self.noise = noise
        self.training = training
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> "FederatedClassifier":
        """Run the algorithm on rows that are split among parties.

        Parameters
        ----------
        X : array of shape (rows, ...)
            The features.
        y : array of shape (rows,) or (rows, classes)
            The labels; with several labels a row 1, 0 and -1 (unknown).
        groups : array of shape (rows,) or None
            The party of each row; None splits the rows among `parties`.

        Returns
        -------
        FederatedClassifier
            The fitted estimator itself.

        Raises
        ------
        LimbeckError
            If a parameter is wrong, or the run is not possible.
        """
        X, y = validate_data(self, X, y, allow_nd=True, multi_output=True)
        y = column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y
        kind: Kind = "multilabel" if y.ndim == 2 else "multiclass"
        if kind == "multiclass":
            check_classification_targets(y)
        if hasattr(self, "result_"):
            del self.result_  # if fitting fails, the estimator is not fitted
        self.classes_ = self._classes(y)
        if len(self.classes_) < 2 and kind == "multiclass":  # nothing to learn
            self._set_aside(X, y, self._algorithm(), stream(0, "estimator"))
            self.result_: Any = None
            return self
        self.result_ = self._run(X, y, kind, groups, classes=self.classes_.tolist())
        return self

    def _classes(self, y: Array) -> Array:
        """All classes, given or those in y."""
        check_settings(classes=self.classes)
        if y.ndim == 2:
            return np.arange(y.shape[1]) if self.classes is None else np.asarray(self.classes)
        found = np.unique(y if self.classes is None else self.classes)
        if self.classes is not None and len(found) < len(self.classes):
            raise LimbeckError(f"classes contains a class twice: {list(self.classes)}")
        if unnamed := set(y.tolist()) - set(found.tolist()):
            raise LimbeckError(f"classes lacks {min(unnamed)!r}, which is a label in y; list all classes")
        if self.classes is None and self._algorithm().is_private and self.noise != "simulated":
            raise LimbeckError("classes is missing: classes read from private labels would become public")
        return np.asarray(found)

    def predict(self, X: Any) -> Array:
        """Predict classes.

        Parameters
        ----------
        X : array of shape (rows, ...)
            The features.

        Returns
        -------
        array of shape (rows,) or (rows, classes)
            The class of each row; with several labels a row 1 or 0 for each class.
        """
        shares = self._shares(X, votes=True)
        if self.result_ is not None and self._models()[0].task.kind == "multilabel":
            return np.asarray(shares > 0.5, np.int64)
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Array:
        """Predict probabilities.

        Parameters
        ----------
        X : array of shape (rows, ...)
            The features.

        Returns
        -------
        array of shape (rows, classes)
            The probabilities, in the order of `classes_`.
        """
        return self._shares(X, votes=False)

    def _shares(self, X: Any, votes: bool) -> Array:
        """Mean probabilities of the models; with `votes`, a model without probabilities counts as sure of its class."""
        check_is_fitted(self, "result_")
        X = validate_data(self, X, reset=False, allow_nd=True)
        if self.result_ is None:
            return np.ones((len(X), 1))
        every = [model.votes(X) if votes else model.predict_proba(X) for model in self._models()]
        return np.asarray(np.mean(every, axis=0, dtype=np.float64))


class FederatedRegressor(RegressorMixin, Federated):  # type: ignore[misc]
    """Federated learning as a scikit-learn regressor.

    All parties run in this process, so it is for research, not for sites that may not share rows. The rows are split
    among simulated parties, an algorithm runs, and the final model predicts.

    Parameters
    ----------
    algorithm : Algorithm, str, mapping or None
        The federated learning algorithm, its name or its table; None means `FedRidge()`. Its
        parameters can be set as `algorithm__gram`.
    estimator : estimator, str, mapping or list of these
        What the parties and the server train, one for all or one for each party: a scikit-learn regressor, a model's
        name or its table.
    server_estimator : estimator, str, mapping or None
        What the server trains; None means the estimator of the first party.
    parties : int
        Number of parties, if `fit` gets no `groups`. There are fewer if rows are too few for the algorithm.
    split : Split, mapping or None
        How rows are split among the parties; splits by class use tenths of the rows by their target. None means evenly.
    public : array, (X, y) or None
        The public rows, without or with targets; None sets some of the rows aside.
    public_share : float
        Share of the rows that is set aside at random as public, if `public` is None and some are needed.
    features : Features or None
        The features that all rows are mapped to; None keeps the rows as they are.
    limits : (low, high) or None
        The public range of the target; None takes that of y. A run with secure noise needs it.
    noise : {"secure", "simulated"} or None
        Where noise comes from; None means secure if the algorithm is private.
    training : Training or None
        The trainer and the device of networks; None means the default.
    random_state : int, RandomState or None
        The seed of all random numbers, except secure noise.
    n_jobs : int or None
        Number of processes that train; None means one, -1 one for each core.
    verbose : int
        Whether to show a progress bar on stderr: 0 for none.

    Attributes
    ----------
    result_ : Result
        The result of the run, whose record has rounds, bytes and epsilon.

    Notes
    -----
    If every party ends with a model of its own, the mean of their predictions counts.

    Examples
    --------
    >>> from limbeck.sklearn import FederatedRegressor
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(200, 3, random_state=0)
    >>> regressor = FederatedRegressor(parties=3, random_state=0).fit(X, y)
    >>> regressor.score(X, y) > 0.8
    True
    """

    default = FedRidge

    def __init__(
        self,
        algorithm: Algorithm | str | Mapping[str, Any] | None = None,
        estimator: Any = "random-forest",
        *,
        server_estimator: Any = None,
        parties: int = 3,
        split: Split | Mapping[str, Any] | None = None,
        public: Any = None,
        public_share: float = 0.2,
        features: Features | None = None,
        limits: tuple[float, float] | None = None,
        noise: Noise | None = None,
        training: Training | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.estimator = estimator
        self.server_estimator = server_estimator
        self.parties = parties
        self.split = split
        self.public = public
        self.public_share = public_share
        self.features = features
        self.limits = limits
        self.noise = noise
        self.training = training
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> "FederatedRegressor":
        """Run the algorithm on rows that are split among parties.

        Parameters
        ----------
        X : array of shape (rows, ...)
            The features.
        y : array of shape (rows,)
            The numeric targets.
        groups : array of shape (rows,) or None
            The party of each row; None splits the rows among `parties`.

        Returns
        -------
        FederatedRegressor
            The fitted estimator itself.

        Raises
        ------
        LimbeckError
            If a parameter is wrong, or the run is not possible.
        """
        X, y = validate_data(self, X, y, allow_nd=True, y_numeric=True)
        if hasattr(self, "result_"):
            del self.result_
        self.result_: Any = self._run(X, np.asarray(y, np.float64), "regression", groups, limits=self.limits)
        return self

    def predict(self, X: Any) -> Array:
        """Predict numbers.

        Parameters
        ----------
        X : array of shape (rows, ...)
            The features.

        Returns
        -------
        array of shape (rows,)
            The number of each row.
        """
        check_is_fitted(self, "result_")
        X = validate_data(self, X, reset=False, allow_nd=True)
        return np.asarray(np.mean([model.predict(X) for model in self._models()], axis=0, dtype=np.float64))
