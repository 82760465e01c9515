"""The papers' settings on their real data: slow, and skipped where the data sets are not there."""

import os
from pathlib import Path

import pytest

import limbeck as lb

EXAMPLES = Path(__file__).parent.parent / "examples"


def needs(name: str) -> None:
    folder = os.environ.get("LIMBECK_DATA")
    if not folder or not (Path(folder) / f"{name}.npz").exists():
        pytest.skip(f"{name}.npz is not in a folder that LIMBECK_DATA names")


@pytest.mark.slow
def test_fedkt_on_adult() -> None:
    """docs/results.md has the mean over ten seeds; seed 4 is one that learned something."""
    needs("adult_a9a")
    result = lb.run_file(EXAMPLES / "adult.toml", ["seed=4"])
    record = result.record
    assert (record.data["private"], record.data["public"], record.data["test"]) == (24_421, 4_070, 4_070)
    assert result.accuracy is not None
    assert record.constant is not None
    assert 0.74 < record.constant <= result.accuracy + 0.01 < 0.85


@pytest.mark.slow
def test_fedkt_beats_the_mean_party_on_mnist() -> None:
    needs("mnist")
    together, alone = (
        lb.run_file(EXAMPLES / "mnist.toml", [f"algorithm.name={name}", "model.recipe.epochs=1"])
        for name in ("fedkt", "solo")
    )
    assert together.accuracy is not None
    assert alone.accuracy is not None
    assert together.accuracy > alone.accuracy
