"""What `import limbeck` offers: the public API."""

import subprocess
import sys

import pytest

import limbeck as lb
from limbeck.algorithms import algorithms

SNAPSHOT = """
Algorithm Budget Centralized Ensemble Features FedAvg FedAvgM FedDF FedGEN FedKD FedKT FedKTAvg FedKTProx FedMD
FedMDLDP FedMDNFDP FedMDNP FedProx FedRidge FedVote FederatedEvaluation LimbeckError LimbeckWarning Outcome Pate Pooled
Predictor Privacy PublicOnly Recipe Result Scaffold Solo TorchModel Training __version__ check_algorithm evaluate load
run run_file
"""


def test_the_public_api_is_what_it_was() -> None:
    """A change here is a change for users: it belongs into CHANGELOG.md."""
    assert sorted(lb.__all__) == SNAPSHOT.split()
    assert dir(lb) == sorted(lb.__all__)
    assert all(getattr(lb, name) is not None for name in lb.__all__)


def test_every_algorithm_is_part_of_it() -> None:
    assert {algorithm.__name__ for algorithm in algorithms().values()} <= set(lb.__all__)
    assert {lb.FedKT, lb.FedVote, lb.Solo, lb.Centralized} <= set(algorithms().values())


@pytest.mark.parametrize("name", ["FedKTT", "nothing", "Optional"])
def test_other_names_are_missing(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(lb, name)


def test_a_type_checker_knows_every_name_and_no_other() -> None:
    """`make lint` fails where a comment below is not needed: mypy then takes any name."""
    with pytest.raises(AttributeError, match="FedKTT"):
        _ = lb.FedKTT  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="subset"):
        lb.FedKT(subset=2)  # type: ignore[call-arg]


def test_importing_it_is_quick_because_nothing_is_loaded() -> None:
    program = "import limbeck, sys; print([n for n in ('numpy', 'sklearn', 'torch', 'onnx') if n in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
