from typing import Any

import pytest

from limbeck.errors import LimbeckError
from limbeck.experiments.overrides import override

TABLE: dict[str, Any] = {
    "algorithm": {"name": "fedkt", "subsets": 5},
    "model": {"name": "random-forest", "max_depth": 6, "n_estimators": 9},
    "party": [{"index": 3, "model": {"name": "svm", "C": 2.0}}],
}


def test_values_are_toml_and_otherwise_text() -> None:
    changed, notes = override(
        TABLE, ["algorithm.subsets=7", "data.public=0.5", "data.name=digits", 'x={ a = "b" }', "party.0.index=4"]
    )
    assert changed["algorithm"]["subsets"] == 7
    assert changed["data"] == {"public": 0.5, "name": "digits"}
    assert changed["x"] == {"a": "b"}
    assert changed["party"][0]["index"] == 4
    assert notes == []
    assert TABLE["algorithm"]["subsets"] == 5


def test_another_algorithm_drops_the_keys_that_it_lacks() -> None:
    changed, notes = override(TABLE, ["algorithm.name=solo"])
    assert changed["algorithm"] == {"name": "solo"}
    assert notes == ["dropped algorithm.subsets = 5: solo has no such key"]


def test_another_model_keeps_the_keys_that_it_shares() -> None:
    changed, notes = override(TABLE, ["model.name=xgboost", "party.0.model.name=knn"])
    assert changed["model"] == {"name": "xgboost", "max_depth": 6, "n_estimators": 9}
    assert notes == ["dropped party.0.model.C = 2.0: knn has no such key"]


def test_a_key_set_beside_the_new_name_is_not_dropped() -> None:
    changed, _ = override(TABLE, ["algorithm.subset=7", "algorithm.name=solo"])
    assert changed["algorithm"] == {"name": "solo", "subset": 7}


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("algorithm", "write --set key.path=value"),
        ("=3", "write --set key.path=value"),
        ("algorithm.subsets.x=3", "algorithm.subsets is 5, not a table"),
        ("party.7.index=3", "there are 1 such tables, numbered from 0"),
        ("party.x.index=3", "there are 1 such tables"),
        ("algorithm.name=fedk", "unknown algorithm 'fedk'"),
    ],
)
def test_what_cannot_be_set_is_reported(setting: str, line: str) -> None:
    with pytest.raises(LimbeckError, match=line):
        override(TABLE, [setting])
