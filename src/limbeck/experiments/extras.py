"""Which extras an experiment needs that are not installed, found without importing them."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from limbeck.data.draw import FromFile
from limbeck.data.files import EXCEL, SUFFIXES
from limbeck.errors import missing_extra
from limbeck.experiments.config import Experiment
from limbeck.models.trainers import is_network
from limbeck.protocol.learning import Model

OF_MODELS = ("xgboost", "lightgbm")


def missing_extras(experiment: Experiment) -> list[str]:
    """Find the extras that a run needs and that are not installed.

    Parameters
    ----------
    experiment : Experiment
        The checked experiment.

    Returns
    -------
    list of str
        For each, what needs it and the command that installs it.
    """
    parts = [experiment.data.public, experiment.data.test]
    paths = [
        *experiment.files,
        experiment.data.path or "",
        *(part.path for part in parts if isinstance(part, FromFile)),
    ]
    kinds = {Path(path).suffix.lower() for path in paths}
    is_real = experiment.algorithm.is_private and experiment.noise_source == "secure"
    tables = [
        ("reading tables", "tables", "pyarrow", bool(kinds & {*SUFFIXES})),
        ("reading Excel files", "excel", "fastexcel", bool(kinds & {*EXCEL})),
    ]
    return _missing(tables) + extras_of(experiment.models, is_real)


def extras_of(models: Sequence[Model], is_real: bool) -> list[str]:
    """Find the extras that models and secure noise need and that are not installed.

    Parameters
    ----------
    models : sequence of Model
        The models.
    is_real : bool
        Whether there is secure noise.

    Returns
    -------
    list of str
        For each, what needs it and the command that installs it.
    """
    names = {model.name for model in models}
    return _missing(
        [
            ("a network", "torch", "torch", any(map(is_network, models))),
            ("secure noise", "privacy", "opendp", is_real),
            *((f"the model {name}", name, name, name in names) for name in OF_MODELS),
        ]
    )


def _missing(needs: Sequence[tuple[str, str, str, bool]]) -> list[str]:
    return [
        str(missing_extra(what, extra)) for what, extra, module, needed in needs if needed and not find_spec(module)
    ]
