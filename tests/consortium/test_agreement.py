"""What a party agrees to about parameters: exact values, ranges and choices; what is not named has its default value."""

from typing import Any

import pytest

from limbeck.algorithms import algorithms
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedmd_private import FedMDLDP
from limbeck.algorithms.fedvote import FedVote
from limbeck.consortium.agreement import changed, read_parameters
from limbeck.errors import LimbeckError
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.recipe import Recipe

AGREED = {"subsets": {"min": 5, "max": 9}, "privacy": {"level": "L2", "epsilon": 1}}
RIGHT = FedKT(subsets=5, privacy=Privacy("L2", epsilon=1.0))


def difference(algorithm: Any, agreed: dict[str, Any]) -> str | None:
    return read_parameters(type(algorithm), agreed).difference(algorithm)


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        (RIGHT, None),
        (FedKT(subsets=9, privacy=Privacy("L2", epsilon=1.0)), None),
        (FedKT(subsets=10, privacy=Privacy("L2", epsilon=1.0)), "subsets"),
        (FedKT(subsets=4, privacy=Privacy("L2", epsilon=1.0)), "subsets"),
        (FedKT(subsets=5, partitions=3, privacy=Privacy("L2", epsilon=1.0)), "partitions"),
        (FedKT(subsets=5, queries=1, privacy=Privacy("L2", epsilon=1.0)), "queries"),  # one row is not all of them
        (FedKT(subsets=5, privacy=Privacy("L2", epsilon=1.1)), "privacy.epsilon"),
        (FedKT(subsets=5, privacy=Privacy("L2", epsilon=1.0, delta=1e-4)), "privacy.delta"),
        (FedKT(subsets=5, privacy=Privacy("L2", epsilon=1.0), consistent=False), "consistent"),
        (FedKT(subsets=5, privacy=Privacy("L2", "laplace", epsilon=1.0)), "privacy.mechanism"),
        (FedKT(subsets=5), "privacy.level"),
    ],
)
def test_what_is_named_is_bounded_and_the_rest_has_its_default(asked: FedKT, key: str | None) -> None:
    assert difference(asked, AGREED) == key


@pytest.mark.parametrize(
    ("agreed", "asked", "key"),
    [
        ({"consensus": {"one_of": ["median", "mean"]}}, FedVote(consensus="median"), None),
        ({"consensus": {"one_of": ["median", "mean"]}}, FedVote(consensus="trimmed"), "consensus"),
        ({"labels": "leader"}, FedVote(), "labels"),
        ({"prior": {"one_of": ["uniform", [0.25, 0.75]]}}, FedVote(prior=[0.25, 0.75]), None),
        ({"prior": {"one_of": ["uniform", [0.25, 0.75]]}}, FedVote(prior=[0.75, 0.25]), "prior"),
        ({"privacy": {}}, FedKT(privacy=Privacy("L2", epsilon=1.0)), "privacy.level"),
        ({"privacy": {"one_of": [{}, {"level": "L2", "epsilon": 1.0}]}}, FedKT(), None),
        (
            {"privacy": {"one_of": [{}, {"level": "L2", "epsilon": 1.0}]}},
            FedKT(privacy=Privacy("L2", gamma=1.0)),
            "privacy",
        ),
        ({"trimmed": {"max": 0.25}, "consensus": "trimmed"}, FedVote(consensus="trimmed", trimmed=0.3), "trimmed"),
        ({"queries": {"min": 1, "max": 30}}, FedKT(queries=1.0), "queries"),
        ({"queries": {"min": 1, "max": 30}}, FedKT(queries=30), None),
        ({"queries": {"min": 0.1, "max": 1.0}}, FedKT(queries=1), "queries"),
        ({"subsets": {"min": 2}}, FedKT(subsets=999), None),
        ({"subsets": {"max": 4}}, FedKT(subsets=5), "subsets"),
    ],
)
def test_tables_choices_and_ranges(agreed: dict[str, Any], asked: Any, key: str | None) -> None:
    assert difference(asked, agreed) == key


def test_a_recipe_is_compared_with_the_algorithms_own_default() -> None:
    """FedMD digests with batches of 256: a recipe with the batch of `Recipe()` is another one."""
    agreed = {"digest": {"epochs": 3}}
    assert difference(FedMD(digest=Recipe(epochs=3, batch=256)), agreed) is None
    assert difference(FedMD(digest=Recipe(epochs=3)), agreed) == "digest.batch"
    assert difference(FedMD(fine_tune=Recipe(epochs=25, batch=32, learning_rate=1e30)), {}) == "fine_tune.learning_rate"
    assert difference(FedMDLDP(start="pretrained", epsilon=1.0), {"epsilon": 1.0}) == "start"


@pytest.mark.parametrize("name", sorted(algorithms()))
def test_no_parameters_are_an_algorithm_as_it_is_by_default(name: str) -> None:
    usual: Any = algorithms()[name]()
    assert changed(usual) == {}
    assert difference(usual, {}) is None


@pytest.mark.parametrize(
    "algorithm",
    [RIGHT, FedKT(queries=7), FedVote(prior=[0.5, 0.5], queries=3), FedMD(digest=Recipe(epochs=3), weights=[1.0, 2.0])],
)
def test_what_was_changed_is_agreed_to_and_nothing_else(algorithm: Any) -> None:
    agreed = changed(algorithm)
    assert difference(algorithm, agreed) is None
    for key in agreed:
        less = {k: v for k, v in agreed.items() if k != key}
        assert str(difference(algorithm, less)).startswith(key)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"subset": 5}, "unknown key 'subset'; did you mean 'subsets'?"),
        ({"privacy": {"levl": "L2"}}, "privacy: unknown key 'levl'; did you mean 'level'?"),
        ({"subsets": "many"}, "subsets = 'many'"),
        ({"privacy": {"level": "L9"}}, "privacy.level = 'L9'"),
        ({"subsets": {"min": 1.5}}, "subsets = 1.5"),
        ({"subsets": {"min": True}}, "a range needs two numbers"),
        ({"consistent": {"max": "x"}}, "a range needs two numbers"),
        ({"subsets": {"at_most": 3}}, "write a value, { min = .., max = .. } or { one_of = [..] }"),
        ({"subsets": {"one_of": [1, "x"]}}, "subsets = 'x'"),
    ],
)
def test_a_wrong_agreement_is_reported_in_one_line(table: dict[str, Any], message: str) -> None:
    with pytest.raises(LimbeckError) as error:
        read_parameters(FedKT, table)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
