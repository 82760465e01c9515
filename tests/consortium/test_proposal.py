"""The first party.toml: limits that are those of the invitation, in TOML that says exactly that."""

import tomllib
from dataclasses import asdict
from typing import Any

import pytest

from limbeck.algorithms import algorithm_named
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedmd_private import FedMDLDP, FedMDNFDP
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.fedvote import FedVote
from limbeck.consortium.agreement import read_parameters
from limbeck.consortium.joining import Join
from limbeck.consortium.party import PartySettings
from limbeck.consortium.proposal import settings_for
from limbeck.errors import LimbeckError
from limbeck.experiments.config import check_table
from limbeck.features.settings import Features
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.ledger import Budget
from limbeck.privacy.mechanisms import Subsample
from limbeck.protocol.disclosures import Facts, planned_releases
from limbeck.protocol.recipe import Recipe
from limbeck.tables import from_table
from party_folders import invitation


def proposed(algorithm: dict[str, Any]) -> dict[str, Any]:
    join = Join("a", 0, "localhost:1", "-----BEGIN CERTIFICATE-----", "0", ["0", "1"], None, False, algorithm)
    return tomllib.loads(settings_for(join))


@pytest.mark.parametrize(
    ("algorithm", "budget"),
    [
        ({"name": "fedkt", "privacy": {"level": "L1", "epsilon": 3.0}}, Budget(3.0, observer="public", unit="party")),
        ({"name": "fedkt", "privacy": {"level": "L2", "epsilon": 3.0, "delta": 1e-7}}, Budget(3.0, 1e-7, "server")),
        ({"name": "fedvote", "privacy": {"level": "L1", "epsilon": 3.0}}, Budget(3.0, observer="public", unit="party")),
        ({"name": "fedridge", "privacy": {"level": "L2", "epsilon": 3.0}}, Budget(3.0, 1e-5, "server")),
        (
            {"name": "fedkt", "privacy": {"level": "L2", "epsilon": 3, "rows_per_person": 4}},
            Budget(3.0, 1e-5, "server", "example", 4),
        ),
        (
            {"name": "fedkd", "mechanism": "gaussian", "epsilon": 2.0, "privacy": {"level": "L0", "epsilon": None}},
            Budget(2.0, 1e-5, "server"),
        ),
        (
            {"name": "fedkd", "mechanism": "gaussian", "epsilon": 2.0, "noised_by": "server"},
            Budget(2.0, observer="public", unit="party"),
        ),
        ({"name": "fedmd-ldp", "epsilon": 2.0}, Budget(2.0, 1e-5, "server")),
    ],
)
def test_an_invitations_epsilon_is_an_active_budget_and_the_most_of_one_run(
    algorithm: dict[str, Any], budget: Budget
) -> None:
    settings = check_table(PartySettings, proposed(algorithm), "party.toml")
    assert settings.budget == budget
    [agreed] = settings.agree
    assert agreed.cap == budget
    assert settings.is_decided


@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "fedkt"},
        {"name": "fedvote"},
        {"name": "fedkt", "privacy": {"level": "L2", "mechanism": "gaussian", "sigma": 50.0}},
        {"name": "fedmd-ldp", "sigma": 0.0},
        {"name": "fedavg"},
    ],
)
def test_where_no_epsilon_is_named_the_owner_must_choose(algorithm: dict[str, Any]) -> None:
    settings = check_table(PartySettings, proposed(algorithm), "party.toml")
    assert (settings.budget, settings.unprotected, settings.is_decided) == (None, False, False)
    assert settings.agree[0].cap is None


def test_either_choice_is_a_line_that_only_needs_its_mark_removed() -> None:
    join = Join("a", 0, "localhost:1", "-----BEGIN CERTIFICATE-----", "0", ["0", "1"], None, False, {"name": "fedkt"})
    text = settings_for(join)
    unprotected = tomllib.loads(text.replace("# unprotected", "unprotected"))
    assert check_table(PartySettings, unprotected, "party.toml").unprotected
    limited = text
    for key in ("[budget]", "epsilon", "delta", "observer", "unit", "rows_per_person"):
        limited = limited.replace(f"# {key}", key, 1)
    assert check_table(PartySettings, tomllib.loads(limited), "party.toml").budget == Budget(3.0, 1e-5, "server")


def test_a_subset_of_an_agreed_number_of_rows_has_a_budget_that_one_run_fits_into() -> None:
    algorithm = FedMDNFDP(sampled=5, population=30, start="none", rounds=1)
    budget = check_table(PartySettings, proposed(invitation(algorithm)), "party.toml").budget
    assert budget is not None
    assert (budget.epsilon, budget.delta) == Subsample(5, 30).guarantee()
    planned = planned_releases(algorithm.disclosures, Facts(9, 3, 1, "secure"))
    once = [row for row in planned if row.site == "party 0"]
    assert budget.spent(once) <= budget.epsilon < budget.spent([*once, *once])


@pytest.mark.parametrize(
    "algorithm",
    [
        FedKT(),
        FedKT(partitions=1, subsets=8, privacy=Privacy("L2", epsilon=4.0)),
        FedKT(queries=7, consistent=False, privacy=Privacy("L2", mechanism="laplace", gamma=0.05)),
        FedVote(queries=0.5, labels="leader", weights="equal", consensus="filtered"),
        FedVote(subsets=8, prior=[0.25, 0.75], privacy=Privacy("L1", epsilon=4.0)),
        FedRidge(features=Features("standard", 20), privacy=Privacy("L2", epsilon=4.0)),
        FedMD(weights=[1.0, 0.25], digest=Recipe(epochs=3, learning_rate=1e-4), start="none"),
        FedMDLDP(epsilon=1.5, delta=1e-6, score_format="softmax"),
    ],
)
def test_every_parameter_that_is_not_usual_stands_in_the_file_exactly(algorithm: Any) -> None:
    [agreed] = proposed(invitation(algorithm))["agree"]
    kind = algorithm_named(algorithm.name)
    assert from_table(kind, agreed["parameters"]) == algorithm
    assert read_parameters(kind, agreed["parameters"]).difference(algorithm) is None


def test_an_invitation_cannot_set_anything_of_its_own_nor_make_a_party_import_code() -> None:
    hostile = 'x"\n[budget]\nepsilon = 1e9\n#'
    table = proposed({"name": "python:nowhere_to_be_found:Thing", hostile: {hostile: [hostile, 1.5]}, "none": None})
    assert "budget" not in table
    assert table["agree"][0]["parameters"] == {hostile: {hostile: [hostile, 1.5]}}
    assert proposed({"name": f"python:{hostile}"})["agree"][0]["algorithm"] == f"python:{hostile}"


def test_what_this_limbeck_cannot_run_or_toml_cannot_express_is_refused_in_one_line() -> None:
    none = invitation(FedMD()) | {"pretrain": asdict(Recipe(epochs=20, batch=128))}
    for algorithm, message in (
        ({"name": "fedkt", "unheard": 1}, "cannot run the invitation's algorithm: unknown key 'unheard'"),
        ({"name": "fedxx"}, "cannot run the invitation's algorithm: unknown algorithm"),
        (none, "the invitation sets pretrain.patience to null"),
    ):
        with pytest.raises(LimbeckError) as error:
            proposed(algorithm)
        assert message in str(error.value)
        assert "\n" not in str(error.value)
