"""Models by name, as experiment files name them; their other keys are the estimator's own parameters."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from limbeck.errors import LimbeckError, did_you_mean
from limbeck.imports import is_own, own
from limbeck.models.sklearn import SklearnModel


@dataclass(frozen=True, slots=True)
class Named:
    """Where a named model's class lies. Those that measure distances or follow gradients see scaled columns."""

    where: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    scaled: bool = False

    def classifier(self) -> Any:
        module, name = self.where.split(":")
        try:
            return getattr(import_module(module), name)
        except ImportError as error:
            raise LimbeckError(f"this model needs a package: pip install 'limbeck[{module}]'") from error


NAMED = {
    "random-forest": Named("sklearn.ensemble:RandomForestClassifier"),
    "extra-trees": Named("sklearn.ensemble:ExtraTreesClassifier"),
    "decision-tree": Named("sklearn.tree:DecisionTreeClassifier"),
    "logistic-regression": Named("sklearn.linear_model:LogisticRegression", {"max_iter": 1000}, scaled=True),
    "svm": Named("sklearn.svm:SVC", scaled=True),
    "knn": Named("sklearn.neighbors:KNeighborsClassifier", scaled=True),
    "naive-bayes": Named("sklearn.naive_bayes:GaussianNB"),
    "mlp": Named("sklearn.neural_network:MLPClassifier", {"max_iter": 300}, scaled=True),
    "xgboost": Named("xgboost:XGBClassifier"),
    "lightgbm": Named("lightgbm:LGBMClassifier", {"verbose": -1}),
}


def model_from(description: Mapping[str, Any]) -> SklearnModel:
    """The model of `{name = ..., parameter = value}`; the name `python:package.module:factory` is the user's own."""
    name = str(description["name"])
    parameters = {key: value for key, value in description.items() if key != "name"}
    known = parameters_of(name)
    for key in parameters:
        if key not in known:
            raise LimbeckError(f"model {name!r} has no parameter {key!r}; {did_you_mean(key, known)}")
    if is_own(name):
        return SklearnModel(own(name)(**parameters), dict(description))
    named = NAMED[name]
    estimator = named.classifier()(**{**named.defaults, **parameters})
    return SklearnModel(_scaled(estimator) if named.scaled else estimator, dict(description))


def parameters_of(name: str) -> set[str]:
    """The keys that a model takes beside its name."""
    if is_own(name):
        return set(inspect.signature(own(name)).parameters)
    if name not in NAMED:
        raise LimbeckError(f"unknown model {name!r}; {did_you_mean(name, NAMED)}")
    return set(NAMED[name].classifier()().get_params())


def _scaled(estimator: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), estimator)
