"""Limbeck: federated learning by knowledge transfer."""

from typing import TYPE_CHECKING, Any

from limbeck._version import __version__ as __version__

if TYPE_CHECKING:
    from limbeck.algorithms.centralized import Centralized as Centralized
    from limbeck.algorithms.ensemble import Ensemble as Ensemble
    from limbeck.algorithms.fedavg import FedAvg as FedAvg
    from limbeck.algorithms.fedavgm import FedAvgM as FedAvgM
    from limbeck.algorithms.feddf import FedDF as FedDF
    from limbeck.algorithms.fedgen import FedGEN as FedGEN
    from limbeck.algorithms.fedkd import FedKD as FedKD
    from limbeck.algorithms.fedkt import FedKT as FedKT
    from limbeck.algorithms.fedkt_prox import FedKTAvg as FedKTAvg
    from limbeck.algorithms.fedkt_prox import FedKTProx as FedKTProx
    from limbeck.algorithms.fedmd import FedMD as FedMD
    from limbeck.algorithms.fedprox import FedProx as FedProx
    from limbeck.algorithms.pate import Pate as Pate
    from limbeck.algorithms.public_only import PublicOnly as PublicOnly
    from limbeck.algorithms.scaffold import Scaffold as Scaffold
    from limbeck.algorithms.solo import Solo as Solo
    from limbeck.algorithms.voting import Voting as Voting
    from limbeck.checks import check_algorithm as check_algorithm
    from limbeck.errors import LimbeckError as LimbeckError
    from limbeck.errors import LimbeckWarning as LimbeckWarning
    from limbeck.experiments.result import load as load
    from limbeck.experiments.run import run as run
    from limbeck.experiments.run import run_file as run_file
    from limbeck.models.torch import TorchModel as TorchModel
    from limbeck.models.trainers import Training as Training
    from limbeck.privacy.calibration import Privacy as Privacy
    from limbeck.privacy.ledger import Budget as Budget
    from limbeck.protocol.recipe import Recipe as Recipe

_ELSEWHERE = {
    "Budget": "limbeck.privacy.ledger",
    "LimbeckError": "limbeck.errors",
    "LimbeckWarning": "limbeck.errors",
    "Privacy": "limbeck.privacy.calibration",
    "Recipe": "limbeck.protocol.recipe",
    "TorchModel": "limbeck.models.torch",
    "Training": "limbeck.models.trainers",
    "Voting": "limbeck.algorithms.voting",
    "check_algorithm": "limbeck.checks",
    "load": "limbeck.experiments.result",
    "run": "limbeck.experiments.run",
    "run_file": "limbeck.experiments.run",
}


def __getattr__(name: str) -> Any:
    """Names are imported where they are used: `import limbeck` costs nothing. Algorithms go by their class names."""
    from importlib import import_module

    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    if name[:1].isupper():
        from limbeck.algorithms import algorithms

        for algorithm in algorithms().values():
            if algorithm.__name__ == name:
                return algorithm
    raise AttributeError(f"module 'limbeck' has no attribute {name!r}")


def __dir__() -> list[str]:
    from limbeck.algorithms import algorithms

    return ["__version__", *_ELSEWHERE, *(algorithm.__name__ for algorithm in algorithms().values())]
