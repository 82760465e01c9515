"""Limbeck: federated learning by knowledge transfer.

The public API is `__all__`: the algorithms, `run`, `run_file`, `load`, `evaluate`, and the classes of their
parameters. `limbeck.sklearn` has the scikit-learn estimator.

Examples
--------
>>> import limbeck as lb
>>> lb.FedKT(partitions=1, subsets=10, privacy=lb.Privacy(level="L2", epsilon=3.0)).level
'L2'
"""

from typing import TYPE_CHECKING

from limbeck._version import __version__

if TYPE_CHECKING:
    from limbeck.algorithms.centralized import Centralized
    from limbeck.algorithms.ensemble import Ensemble
    from limbeck.algorithms.evaluation import FederatedEvaluation
    from limbeck.algorithms.fedavg import FedAvg
    from limbeck.algorithms.fedavgm import FedAvgM
    from limbeck.algorithms.feddf import FedDF
    from limbeck.algorithms.fedgen import FedGEN
    from limbeck.algorithms.fedkd import FedKD
    from limbeck.algorithms.fedkt import FedKT
    from limbeck.algorithms.fedkt_prox import FedKTAvg, FedKTProx
    from limbeck.algorithms.fedmd import FedMD
    from limbeck.algorithms.fedmd_private import FedMDLDP, FedMDNFDP, FedMDNP
    from limbeck.algorithms.fedprox import FedProx
    from limbeck.algorithms.fedridge import FedRidge
    from limbeck.algorithms.fedvote import FedVote
    from limbeck.algorithms.pate import Pate
    from limbeck.algorithms.pooled import Pooled
    from limbeck.algorithms.public_only import PublicOnly
    from limbeck.algorithms.scaffold import Scaffold
    from limbeck.algorithms.solo import Solo
    from limbeck.checks import check_algorithm
    from limbeck.errors import LimbeckError, LimbeckWarning
    from limbeck.experiments.evaluation import evaluate
    from limbeck.experiments.result import Predictor, load
    from limbeck.features.settings import Features
    from limbeck.models.torch import TorchModel
    from limbeck.models.trainers import Training
    from limbeck.privacy.calibration import Privacy
    from limbeck.privacy.ledger import Budget
    from limbeck.protocol.algorithm import Algorithm, Outcome
    from limbeck.protocol.recipe import Recipe
    from limbeck.python import Result, run, run_file
else:
    _HOMES = {
        "Algorithm": "limbeck.protocol.algorithm",
        "Budget": "limbeck.privacy.ledger",
        "Features": "limbeck.features.settings",
        "LimbeckError": "limbeck.errors",
        "LimbeckWarning": "limbeck.errors",
        "Outcome": "limbeck.protocol.algorithm",
        "Predictor": "limbeck.experiments.result",
        "Privacy": "limbeck.privacy.calibration",
        "Recipe": "limbeck.protocol.recipe",
        "Result": "limbeck.python",
        "TorchModel": "limbeck.models.torch",
        "Training": "limbeck.models.trainers",
        "check_algorithm": "limbeck.checks",
        "evaluate": "limbeck.experiments.evaluation",
        "load": "limbeck.experiments.result",
        "run": "limbeck.python",
        "run_file": "limbeck.python",
    }

    def __getattr__(name):
        """Import a name when it is used, so that `import limbeck` is fast. All other names are algorithms."""
        from importlib import import_module

        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        if name in __all__:
            from limbeck.algorithms import algorithms

            return next(algorithm for algorithm in algorithms().values() if algorithm.__name__ == name)
        raise AttributeError(f"module 'limbeck' has no attribute {name!r}")

    def __dir__():
        return sorted(__all__)


__all__ = [
    "Algorithm",
    "Budget",
    "Centralized",
    "Ensemble",
    "Features",
    "FedAvg",
    "FedAvgM",
    "FedDF",
    "FedGEN",
    "FedKD",
    "FedKT",
    "FedKTAvg",
    "FedKTProx",
    "FedMD",
    "FedMDLDP",
    "FedMDNFDP",
    "FedMDNP",
    "FedProx",
    "FedRidge",
    "FedVote",
    "FederatedEvaluation",
    "LimbeckError",
    "LimbeckWarning",
    "Outcome",
    "Pate",
    "Pooled",
    "Predictor",
    "Privacy",
    "PublicOnly",
    "Recipe",
    "Result",
    "Scaffold",
    "Solo",
    "TorchModel",
    "Training",
    "__version__",
    "check_algorithm",
    "evaluate",
    "load",
    "run",
    "run_file",
]
