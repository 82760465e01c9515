"""Federated learning as a scikit-learn estimator."""

import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from limbeck.algorithms.fedvote import FedVote
from limbeck.data.splits import Iid, Split
from limbeck.errors import LimbeckError, LimbeckWarning, did_you_mean
from limbeck.experiments.config import split_in
from limbeck.experiments.run import run
from limbeck.features.settings import Features
from limbeck.models.trainers import Training
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream

__all__ = ["FederatedClassifier"]

PART = "algorithm__"


class FederatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Federated learning as a scikit-learn classifier.

    All parties run in this process, so it is for research, not for sites that may not share rows. The rows are split
    among simulated parties, an algorithm runs, and the final model predicts.

    Parameters
    ----------
    algorithm : Algorithm or None
        The federated learning algorithm; None means `FedVote()`. Its parameters can be set as `algorithm__partitions`.
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
        All classes; None takes those in y. A run with secure noise needs them.
    noise : {"secure", "simulated"} or None
        Where noise comes from; None means secure if the algorithm is private.
    training : Training or None
        The trainer and the device of networks; None means the default.
    random_state : int, RandomState or None
        The seed of all random numbers, except secure noise.
    n_jobs : int or None
        Number of processes that train; None means one, -1 one for each core.

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

    def __init__(
        self,
        algorithm: Algorithm | None = None,
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

    def fit(self, X: Any, y: Any, groups: Any = None) -> "FederatedClassifier":
        """Run the algorithm on rows that are split among parties.

        Parameters
        ----------
        X : array of shape (rows, ...)
            The features.
        y : array of shape (rows,)
            The labels.
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
        X, y = validate_data(self, X, y, allow_nd=True)
        check_classification_targets(y)
        if hasattr(self, "result_"):
            del self.result_  # if fitting fails, the estimator is not fitted
        self.classes_ = np.unique(y if self.classes is None else self.classes)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rng = stream(seed, "estimator")
        algorithm = FedVote() if self.algorithm is None else self.algorithm
        if isinstance(algorithm, type) or not hasattr(algorithm, "lead"):
            raise LimbeckError(f"algorithm must be an algorithm such as FedVote(), not {algorithm!r}")
        if self.classes is not None and len(self.classes_) < len(self.classes):
            raise LimbeckError(f"classes contains a class twice: {list(self.classes)}")
        if unnamed := set(y.tolist()) - set(self.classes_.tolist()):
            raise LimbeckError(f"classes lacks {min(unnamed)!r}, which is a label in y; list all classes")
        if self.classes is None and algorithm.is_private and self.noise != "simulated":
            raise LimbeckError("classes is missing: classes read from private labels would become public")
        rows, public = self._set_aside(X, y, algorithm, rng)
        if groups is None:
            held = self._partitioned(y[rows], algorithm, rng)
        else:
            names = _group_names(groups, len(X))
            held = [np.flatnonzero(names[rows] == name) for name in np.unique(names)]
            if lacking := [str(name) for name, own in zip(np.unique(names), held, strict=True) if not len(own)]:
                raise LimbeckError(f"group {lacking[0]}: all its rows are set aside as public; set public")
        if len(self.classes_) < 2:  # nothing to learn
            self.result_: Any = None
            return self
        with warnings.catch_warnings():
            if self.public is None:
                warnings.filterwarnings("ignore", "the public rows suit", LimbeckWarning)  # same source
            self.result_ = run(
                algorithm,
                [(X[rows[own]], y[rows[own]]) for own in held],
                public=public,
                models=self.estimator,
                server_model=self.server_estimator,
                features=self.features,
                seed=seed,
                classes=self.classes_.tolist(),
                noise=self.noise,
                training=self.training,
                processes=effective_n_jobs(self.n_jobs),
            )
        return self

    def predict(self, X: Any) -> Array:
        """Predict classes.

        Parameters
        ----------
        X : array of shape (rows, ...)
            The features.

        Returns
        -------
        array of shape (rows,)
            The class of each row.
        """
        chosen = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[chosen])

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
        check_is_fitted(self, "result_")
        X = validate_data(self, X, reset=False, allow_nd=True)
        if self.result_ is None:
            return np.ones((len(X), 1))
        models = [self.result_.model] if self.result_.model else list(self.result_.models.values())
        return np.asarray(np.mean([model.predict_proba(X) for model in models], axis=0, dtype=np.float64))

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
        if deep and is_dataclass(self.algorithm):
            params |= {f"{PART}{part.name}": getattr(self.algorithm, part.name) for part in fields(self.algorithm)}
        return params

    def set_params(self, **params: Any) -> "FederatedClassifier":
        """Set parameters of the estimator.

        Parameters
        ----------
        **params : value
            The parameters by name. A name such as `algorithm__partitions` replaces the algorithm by a changed copy.

        Returns
        -------
        FederatedClassifier
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
            algorithm: Any = FedVote() if self.algorithm is None else self.algorithm
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
        if not 0 < self.public_share < 1:
            raise LimbeckError(f"public_share must be a share between 0 and 1, not {self.public_share}")
        count = max(1, round(self.public_share * len(X)))
        if count >= len(X):
            raise LimbeckError(f"n_samples={len(X)}: too few rows to set some aside as public; set public")
        order = rng.permutation(len(X))
        public, private = np.sort(order[:count]), np.sort(order[count:])
        return private, (X[public], y[public]) if algorithm.needs_public_labels else X[public]

    def _partitioned(self, y: Array, algorithm: Algorithm, rng: Any) -> list[Array]:
        """Numbers of each party's rows."""
        if not isinstance(self.parties, int | np.integer) or self.parties < 1:
            raise LimbeckError(f"parties must be a whole number, at least 1, not {self.parties!r}")
        fewest = algorithm.min_rows
        parties = max(1, min(int(self.parties), len(y) // fewest))
        if parties < self.parties:
            message = (
                f"{len(y)} rows are split among {parties} parties, not {self.parties}: each needs at least {fewest}"
            )
            warnings.warn(message, LimbeckWarning, stacklevel=2)
        numbers = np.searchsorted(self.classes_, y)
        held: list[Array] = self._split().assign(numbers, {}, parties, rng)
        return [own for own in held if len(own)]

    def _split(self) -> Split:
        if self.split is None:
            return Iid()
        if not isinstance(self.split, Mapping):
            if not hasattr(self.split, "kind"):
                raise LimbeckError(f'split must be a table such as {{"kind": "dirichlet"}}, not {self.split!r}')
            return self.split
        try:
            return split_in(dict(self.split))
        except LimbeckError as error:
            raise LimbeckError(f"split: {error}") from error


def _group_names(groups: Any, rows: int) -> Array:
    """The party of each row."""
    names = np.asarray(groups)
    if names.ndim != 1 or len(names) != rows:
        raise LimbeckError(f"groups must have the shape ({rows},), a party for each row, not {names.shape}")
    if any(name is None or name != name for name in names.tolist()):
        raise LimbeckError("groups contains None or NaN: every row needs a party")
    return np.array([str(name) for name in names.tolist()]) if names.dtype == object else names
