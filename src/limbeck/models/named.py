"""Models by name, as in experiment files; all other keys of a model's table are its parameters."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from limbeck.errors import LimbeckError, did_you_mean, missing_extra
from limbeck.imports import is_own, own
from limbeck.models.prior_corrected import PriorCorrected
from limbeck.models.sklearn import SklearnModel
from limbeck.models.tfidf_linear import TfidfLinear
from limbeck.protocol.learning import Model
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.task import Kind
from limbeck.tables import check_keys, from_table

if TYPE_CHECKING:
    from limbeck.models.torch import TorchModel


@dataclass(frozen=True, slots=True)
class Named:
    """Estimators behind the name of a model.

    Parameters
    ----------
    where : str
        `module:class` of the classifier; empty if there is none.
    regressor : str
        `module:class` of the regressor; empty if there is none.
    defaults : mapping
        Parameters with another default than the class has.
    scaled : bool
        Whether columns are standardized first, for models that use distances or gradients.
    """

    where: str
    regressor: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    scaled: bool = False

    def imported(self, task: Kind = "multiclass") -> Any:
        """Import the class for a task, or raise LimbeckError that says what to install."""
        module, name = (self.regressor if task == "regression" or not self.where else self.where).split(":")
        try:
            return getattr(import_module(module), name)
        except ImportError as error:
            raise missing_extra("this model", module) from error

    def estimator(self, parameters: Mapping[str, Any], task: Kind = "multiclass") -> Any:
        """Unfitted estimator with the given parameters."""
        kind = self.imported(task)
        known = kind().get_params()
        if unknown := [key for key in parameters if key not in known]:
            raise LimbeckError(f"{kind.__name__} has no parameter {unknown[0]!r}; {did_you_mean(unknown[0], known)}")
        estimator = kind(**{**self.defaults, **parameters})
        return make_pipeline(StandardScaler(), estimator) if self.scaled else estimator


NAMED = {
    "random-forest": Named("sklearn.ensemble:RandomForestClassifier", "sklearn.ensemble:RandomForestRegressor"),
    "extra-trees": Named("sklearn.ensemble:ExtraTreesClassifier", "sklearn.ensemble:ExtraTreesRegressor"),
    "decision-tree": Named("sklearn.tree:DecisionTreeClassifier", "sklearn.tree:DecisionTreeRegressor"),
    "logistic-regression": Named("sklearn.linear_model:LogisticRegression", defaults={"max_iter": 1000}, scaled=True),
    "linear-regression": Named("", "sklearn.linear_model:Ridge", scaled=True),
    "svm": Named("sklearn.svm:SVC", "sklearn.svm:SVR", scaled=True),
    "knn": Named("sklearn.neighbors:KNeighborsClassifier", "sklearn.neighbors:KNeighborsRegressor", scaled=True),
    "naive-bayes": Named("sklearn.naive_bayes:GaussianNB"),
    "mlp": Named(
        "sklearn.neural_network:MLPClassifier", "sklearn.neural_network:MLPRegressor", {"max_iter": 300}, scaled=True
    ),
    "xgboost": Named("xgboost:XGBClassifier", "xgboost:XGBRegressor"),
    "lightgbm": Named("lightgbm:LGBMClassifier", "lightgbm:LGBMRegressor", {"verbose": -1}),
}


CLASSIFIERS = [name for name, named in NAMED.items() if named.where]
PRIOR_CORRECTED, TFIDF_LINEAR = "prior-corrected", "tfidf-linear"
BUILDER = {"shape", "classes"}
NETWORKS = {"cnn": "cnn", "torch-mlp": "torch_mlp", "vgg-9": "vgg_9", "resnet-8": "resnet_8", "conv-net": "conv_net"}
TEXT_NETWORKS = {"text-cnn": "text_cnn", "bag-of-embeddings": "bag_of_embeddings"}
FEDMD_MNIST = (  # FedMD's Table 1: filters and dropout
    *(((128, 256), 0.2), ((128, 384), 0.2), ((128, 512), 0.2), ((256, 256), 0.3), ((256, 512), 0.4)),
    *(((64, 128, 256), 0.2), ((64, 128, 192), 0.2), ((128, 192, 256), 0.2), ((128, 128, 128), 0.3)),
    ((128, 128, 192), 0.3),
)
FEDMD_CIFAR = (  # FedMD's Table 2
    *(((128, 256), 0.2), ((128, 128, 192), 0.2), ((64, 64, 64), 0.2), ((128, 64, 64), 0.3), ((64, 64, 128), 0.4)),
    *(((64, 128, 256), 0.2), ((64, 128, 192), 0.2), ((128, 192, 256), 0.2), ((128, 128, 128), 0.3)),
    ((64, 64, 64, 64), 0.2),
)
PRESETS: dict[str, dict[str, Any]] = {
    f"fedmd-{environment}-{number}": {"name": "conv-net", "filters": filters, "dropout": dropout, "mean": mean}
    for environment, table, mean in (("mnist", FEDMD_MNIST, 0.1307), ("cifar", FEDMD_CIFAR, 0.4734))
    for number, (filters, dropout) in enumerate(table)
}


def model_from(description: Mapping[str, Any]) -> Model:
    """Model from its table in an experiment file.

    Parameters
    ----------
    description : mapping
        The key `name`, and the parameters of the model. Networks also take a table `recipe`. The name
        `python:package.module:factory` calls a function of the user.

    Returns
    -------
    Model
        The model, before any fit.

    Raises
    ------
    LimbeckError
        If the name or a parameter is unknown, or a package is missing.

    Examples
    --------
    >>> model_from({"name": "random-forest", "max_depth": 6}).name
    'random-forest'
    """
    name = str(description["name"])
    parameters = {key: value for key, value in description.items() if key != "name"}
    if name == PRIOR_CORRECTED:
        check_keys(parameters, parameters_of(name))
        if not isinstance(parameters.get("model"), Mapping):
            raise LimbeckError(
                f'model {name!r}: the key model is missing; write a table such as {{ name = "random-forest" }}'
            )
        return PriorCorrected(model_from(parameters["model"]), parameters.get("prior", "uniform"), dict(description))
    if name in PRESETS:
        made = model_from({**PRESETS[name], **parameters})
        return replace(cast("TorchModel", made), description=dict(description))
    known = parameters_of(name)
    for key in parameters:
        if key not in known and not _takes_any(name):
            raise LimbeckError(f"model {name!r} has no parameter {key!r}; {did_you_mean(key, known)}")
    if name in NAMED:
        return SklearnModel(NAMED[name].estimator(parameters), dict(description))
    if name == TFIDF_LINEAR:
        return TfidfLinear(**parameters, description=dict(description))
    recipe = _recipe(parameters.pop("recipe", {}))
    if name in NETWORKS or name in TEXT_NETWORKS:
        return _network(partial(_architecture(name), **parameters), recipe, description)
    return _own_model(own(name), parameters, recipe, description)


def adapted(thing: Any) -> Model:
    """Model from a user's own estimator, network or function that builds a network.

    Parameters
    ----------
    thing : Any
        A scikit-learn classifier, a torch module, a function of `shape` and `classes`, or a model (returned as it is).

    Returns
    -------
    Model
        The model, with a default recipe if it is a network.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> adapted(DecisionTreeClassifier()).name
    'DecisionTreeClassifier'
    """
    if hasattr(thing, "description"):
        return cast(Model, thing)
    if _is_network(thing) or _is_builder(thing):
        return _network(thing, Recipe(), {})
    return SklearnModel(thing)


def parameters_of(name: str) -> set[str]:
    """Keys that a model takes beside its name.

    Parameters
    ----------
    name : str
        Name of the model.

    Returns
    -------
    set of str
        The keys.

    Raises
    ------
    LimbeckError
        If the name is unknown, or a package is missing.

    Examples
    --------
    >>> sorted(parameters_of("prior-corrected"))
    ['model', 'prior']
    """
    if name == PRIOR_CORRECTED:
        return {"model", "prior"}
    if name == TFIDF_LINEAR:
        return set(inspect.signature(TfidfLinear).parameters) - {"description"}
    if name in NAMED:
        return set(NAMED[name].imported()().get_params())
    if not is_own(name) and name not in NETWORKS and name not in TEXT_NETWORKS:
        known = [*NAMED, *NETWORKS, *PRESETS, *TEXT_NETWORKS, PRIOR_CORRECTED, TFIDF_LINEAR]
        raise LimbeckError(f"unknown model {name!r}; {did_you_mean(name, known)}")
    make = own(name) if is_own(name) else _architecture(name)
    return {"recipe", *inspect.signature(make).parameters} - BUILDER


def reads_tokens(name: str) -> bool:
    """Whether a model suits token numbers of texts; users' own models may.

    Parameters
    ----------
    name : str
        Name of the model.

    Returns
    -------
    bool
        False for models that take a token number as a quantity.

    Examples
    --------
    >>> reads_tokens("text-cnn"), reads_tokens("random-forest")
    (True, False)
    """
    return name not in NAMED and name not in NETWORKS and name not in PRESETS


def _takes_any(name: str) -> bool:
    """Whether a user's own factory takes keys that its signature does not name."""
    return is_own(name) and any(p.kind is p.VAR_KEYWORD for p in inspect.signature(own(name)).parameters.values())


def _own_model(make: Callable[..., Any], parameters: dict[str, Any], recipe: Recipe, description: Any) -> Model:
    if _is_builder(make):
        return _network(partial(make, **parameters), recipe, description)
    try:
        thing = make(**parameters)
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        raise LimbeckError(f"model {description['name']!r}: {type(error).__name__}: {reason}") from error
    if _is_network(thing):
        return _network(thing, recipe, description)
    if "recipe" in description:
        raise LimbeckError(f"model {description['name']!r} is not trained in epochs and takes no recipe")
    return cast(Model, thing) if hasattr(thing, "description") else SklearnModel(thing, dict(description))


def _network(network: Any, recipe: Recipe, description: Mapping[str, Any]) -> Model:
    from limbeck.models.torch import TorchModel

    return TorchModel(network, recipe, dict(description))


def _recipe(table: Any) -> Recipe:
    if not isinstance(table, Mapping):
        raise LimbeckError(f"recipe = {table!r}: write a table, such as {{ epochs = 10, batch = 32 }}")
    try:
        return from_table(Recipe, table)
    except LimbeckError as error:
        raise LimbeckError(f"recipe: {error}") from error


def _architecture(name: str) -> Callable[..., Any]:
    try:
        networks = import_module(f"limbeck.models.{'text_networks' if name in TEXT_NETWORKS else 'networks'}")
    except ImportError as error:
        raise missing_extra(f"the model {name!r}", "torch") from error
    architecture: Callable[..., Any] = getattr(networks, {**NETWORKS, **TEXT_NETWORKS}[name])
    return architecture


def _is_builder(thing: Any) -> bool:
    """Whether this is a function of a row's shape and the number of classes, which makes a network."""
    return inspect.isfunction(thing) and set(inspect.signature(thing).parameters) >= BUILDER


def _is_network(thing: Any) -> bool:
    return any(kind.__module__.startswith("torch.nn.") for kind in type(thing).__mro__)
