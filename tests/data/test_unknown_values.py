"""Private values that the public rows do not have: a warning at the site, and nothing for other rows."""

import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra tables is not installed")

from limbeck.data.files import read_table
from limbeck.data.own import Files, private_rows, read_files
from limbeck.data.schema import Schema, schema_of
from limbeck.errors import LimbeckWarning

PUBLIC = "age,sex\n20,m\n30,f\n40,f\n"
GOOD = "age,sex,ill\n25,m,yes\n,x,no\n"
OTHER = "age,sex,ill\n,male,yes\n,female,no\n"
EXPECTED = [
    "b.csv: the column 'age' is empty",
    "b.csv: no value of the column 'sex' is one of the public rows' (f, m); write the same words, or nothing is "
    "learned from it",
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name, text in {"public": PUBLIC, "a": GOOD, "b": OTHER}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def schema(here: Path) -> Schema:
    return schema_of(read_table(here / "public.csv"), "ill", ("no", "yes"))


def test_each_private_file_is_named_with_its_column(here: Path) -> None:
    files = Files([here / "a.csv", here / "b.csv"], ("ill",), public=here / "public.csv", test=here / "b.csv")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", LimbeckWarning)
        rows = read_files(files)
    assert [str(each.message).removeprefix(f"{here}/") for each in found] == EXPECTED  # not for the test rows
    np.testing.assert_array_equal(rows.private[1].x, [[30, 0, 0], [30, 0, 0]])


def test_a_party_is_warned_but_nobody_who_tests(here: Path) -> None:
    with pytest.warns(LimbeckWarning) as found:
        private_rows(here / "b.csv", ("no", "yes"), schema(here))
    assert [str(each.message).removeprefix(f"{here}/") for each in found] == EXPECTED
    with warnings.catch_warnings():
        warnings.simplefilter("error", LimbeckWarning)
        private_rows(here / "b.csv", ("no", "yes"), schema(here), clipped=False)
        private_rows(here / "a.csv", ("no", "yes"), schema(here))
