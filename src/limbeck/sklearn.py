"""Federated learning as scikit-learn estimators."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.fedvote import FedVote
from limbeck.data.splits import Split
from limbeck.errors import LimbeckError
from limbeck.experiments.arguments import (
    check_settings,
)
from limbeck.experiments.estimator_input import (
    fitted_rows,
)
from limbeck.features.settings import Features
from limbeck.federated import Federated
from limbeck.models.trainers import Training
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.release import Noise
from limbeck.protocol.rows import Array
from limbeck.protocol.streams import stream
from limbeck.protocol.task import Kind

__all__ = ["FederatedClassifier", "FederatedRegressor"]


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
    class_weight : mapping of class to float, "balanced" or None
        Weights of the classes, by default 1, scaled to at most 1; "balanced" is not for private algorithms.
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
        class_weight: Any = None,
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
        self.class_weight = class_weight
        self.noise = noise
        self.training = training
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "FederatedClassifier":
        """Run the algorithm on rows that are split among parties.

        Parameters
        ----------
        X : array of shape (rows, ...), sparse matrix or table
            The features.
        y : array of shape (rows,) or (rows, classes)
            The labels; with several labels a row 1, 0 and -1 (unknown).
        sample_weight : array of shape (rows,) or None
            Weights of the rows, at least 0; for private algorithms at most 1. Rows that are set aside as public have no
            weights.
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
        X, y = fitted_rows(self, X, y, self.public, self._is_private(), multi_output=True)
        y = column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y
        kind: Kind = "multilabel" if y.ndim == 2 else "multiclass"
        if kind == "multiclass":
            check_classification_targets(y)
        if hasattr(self, "result_"):
            del self.result_  # if fitting fails, the estimator is not fitted
        X, y, weight, names = self._per_row(X, y, sample_weight, groups)
        self.classes_ = self._classes(y)
        if len(self.classes_) < 2 and kind == "multiclass":  # nothing to learn
            self._set_aside(X, y, self._algorithm(), stream(0, "estimator"))
            self.result_: Any = None
            return self
        weighting = {} if self.class_weight is None else {"class_weights": self.class_weight}
        self.result_ = self._run(X, y, kind, weight, names, classes=self.classes_.tolist(), **weighting)
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

    def predict(self, X: Any) -> Any:
        """Predict classes.

        Parameters
        ----------
        X : array of shape (rows, ...), sparse matrix or table
            The features.

        Returns
        -------
        array or table of shape (rows,) or (rows, classes)
            The class of each row; with several labels a row 1 or 0 for each class.
        """
        shares = self._shares(X, votes=True)
        if self.result_ is not None and self._models()[0].task.kind == "multilabel":
            return self._shown(X, np.asarray(shares > 0.5, np.int64), self.classes_)
        return self._shown(X, np.asarray(self.classes_[shares.argmax(axis=1)]), ["prediction"])

    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities.

        Parameters
        ----------
        X : array of shape (rows, ...), sparse matrix or table
            The features.

        Returns
        -------
        array of shape (rows, classes)
            The probabilities, in the order of `classes_`.
        """
        return self._shown(X, self._shares(X, votes=False), self.classes_)

    def _shares(self, X: Any, votes: bool) -> Array:
        """Mean probabilities of the models; with `votes`, a model without probabilities counts as sure of its class."""
        check_is_fitted(self, "result_")
        rows = self._rows_to_predict(X)
        if self.result_ is None:
            return np.ones((rows.shape[0], 1))
        every = [model.votes(rows) if votes else model.predict_proba(rows) for model in self._models()]
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "FederatedRegressor":
        """Run the algorithm on rows that are split among parties.

        Parameters
        ----------
        X : array of shape (rows, ...), sparse matrix or table
            The features.
        y : array of shape (rows,)
            The numeric targets.
        sample_weight : array of shape (rows,) or None
            Weights of the rows, at least 0; for private algorithms at most 1. Rows that are set aside as public have no
            weights.
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
        X, y = fitted_rows(self, X, y, self.public, self._is_private(), y_numeric=True)
        if hasattr(self, "result_"):
            del self.result_
        X, y, weight, names = self._per_row(X, y, sample_weight, groups)
        self.result_: Any = self._run(X, np.asarray(y, np.float64), "regression", weight, names, limits=self.limits)
        return self

    def predict(self, X: Any) -> Any:
        """Predict numbers.

        Parameters
        ----------
        X : array of shape (rows, ...), sparse matrix or table
            The features.

        Returns
        -------
        array of shape (rows,)
            The number of each row.
        """
        check_is_fitted(self, "result_")
        rows = self._rows_to_predict(X)
        mean = np.mean([model.predict(rows) for model in self._models()], axis=0, dtype=np.float64)
        return self._shown(X, np.asarray(mean), ["prediction"])
