"""Public rows that are alike, near or strange are distinguished."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from limbeck.data.sets import load
from limbeck.data.suitability import coverage, suitability, two_sides
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.report.suitability import save_suitability_picture, suitability_report

RNG = np.random.default_rng(0)
CLOUD = RNG.normal(size=(900, 5)).astype(np.float32)


def test_the_same_rows_are_perfect() -> None:
    fit = suitability(*two_sides("digits", "digits"))
    assert fit.assessment == "perfect"
    assert fit.auc < 0.6
    assert fit.coverage > 0.9


def test_rows_among_the_public_ones_are_good_though_they_can_be_distinguished() -> None:
    fit = suitability(CLOUD, 0.2 * CLOUD[:300])
    assert fit.assessment == "good"
    assert fit.auc > 0.6


def test_rows_far_away_are_poor_and_constant_columns_are_counted() -> None:
    public = CLOUD.copy()
    public[:, 3] = 7
    fit = suitability(public, CLOUD[:300] + 40)
    assert (fit.assessment, fit.constant_columns, fit.features) == ("poor", 1, 5)
    assert fit.coverage == coverage(public, CLOUD[:300] + 40) == 0


def test_it_is_reported_in_words_and_pictures(tmp_path: Path) -> None:
    fit = suitability(CLOUD, CLOUD[:200] + 40)
    console = Console(width=140)
    with console.capture() as capture:
        console.print(suitability_report(fit))
    assert "poor. Most private rows have no public neighbour" in capture.get()
    save_suitability_picture(fit, tmp_path / "fit.png")
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")


def test_files_and_bad_input(tmp_path: Path) -> None:
    for name, shift in (("public", 0), ("site", 1)):
        lines = [f"{i % 7 + shift},{'ab'[i % 2]},{i % 2}" for i in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,c,y", *lines]))
    public, private = two_sides(str(tmp_path / "public.csv"), str(tmp_path / "site.csv"), "y")
    assert public.shape == private.shape == (40, 3)
    with pytest.raises(LimbeckError, match="public rows have 5 values, private rows 4"):
        suitability(CLOUD, CLOUD[:, :4])
    with pytest.raises(LimbeckError, match="at least 4"):
        suitability(CLOUD, CLOUD[:3])


def test_a_run_warns_of_strange_public_rows() -> None:
    import limbeck as lb

    y = (CLOUD[:, 0] > 0).astype(int)
    parties = [(CLOUD[:300], y[:300]), (CLOUD[300:600], y[300:600])]
    with pytest.warns(LimbeckWarning, match="suit 2 of 2 parties poorly"):
        lb.run(lb.FedKT(subsets=2), parties, public=CLOUD[600:] + 40, models="naive-bayes", processes=1)


def test_femnists_digits_have_mnists_polarity(save: Callable[..., Path]) -> None:
    images = np.stack([np.full((28, 28), shade, np.uint8) for shade in (255, 250, 0)])
    save(
        "femnist",
        x_train=images,
        y_train=np.array([3, 11, 9]),
        x_test=images,
        y_test=np.array([3, 11, 9]),
        writer_train=np.array([1, 2, 3]),
    )
    digits = load("femnist-digits")
    assert digits.classes == ("3", "9")
    assert digits.x[:, 0, 0].tolist() == [0, 255]
    assert (digits.y.tolist(), digits.official_test, digits.groups["writer"].tolist()) == ([0, 1], 2, [1, 3])
