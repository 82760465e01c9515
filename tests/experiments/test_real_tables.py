"""A federation of files such as hospitals have: every site writes its own kind of file."""

import csv
import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.data.columns import Category, Number
from limbeck.data.dates import Date
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.result import Predictor
from limbeck.experiments.run import run, run_file
from limbeck.report.predictions import predictions

FILE = """
seed = 0
data = {{ label = "outcome", id = "patient", public = {{ path = "public.csv" }}, test = {{ path = "test.csv" }}{more} }}
model = {{ name = "decision-tree", max_depth = 4 }}
algorithm = {{ name = "fedvote" }}
party = [ {{ index = 0, data = "a.csv" }}, {{ index = 1, data = "b.tsv" }} ]
"""
COLUMNS = ("patient", "age", "crp", "ward", "seen", "outcome")


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows of a site; the outcome depends on CRP and the ward."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        crp, ward = round(float(rng.uniform(0, 20)), 1), str(rng.choice(["Süd", "north", "west"]))
        day = f"2024-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}"
        outcome = "yes" if crp + 5 * (ward == "Süd") > 12 else "no"
        values = (f"P{seed}-{i}", int(rng.integers(20, 90)), crp, ward, day, outcome)
        found.append(dict(zip(COLUMNS, values, strict=True)))
    return found


def text_of(found: list[dict[str, Any]], separator: str = ",", columns: tuple[str, ...] = COLUMNS) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, delimiter=separator, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Site a writes semicolons, decimal commas, Windows-1252, `<5` and Yes; site b tabs and another order of columns."""
    site = [{**row, "crp": str(row["crp"]).replace(".", ",")} for row in rows(1, 150)]
    site[3] = {**site[3], "crp": "<5", "outcome": "no"}
    first = [{**row, "outcome": row["outcome"].capitalize()} for row in site]
    (tmp_path / "a.csv").write_bytes(text_of(first, ";").encode("cp1252"))
    (tmp_path / "b.tsv").write_text(text_of(rows(2, 150), "\t", COLUMNS[::-1]), encoding="utf-8-sig")
    (tmp_path / "public.csv").write_text(text_of(rows(3, 120), columns=COLUMNS[:-1]), encoding="utf-8")
    (tmp_path / "test.csv").write_text(text_of(rows(4, 100)), encoding="utf-8")
    (tmp_path / "new.csv").write_text(text_of(rows(5, 7), columns=COLUMNS[:-1]), encoding="utf-8")
    (tmp_path / "fed.toml").write_text(FILE.format(more=', positive = "yes"'))
    return tmp_path


def trained(folder: Path, *settings: str) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LimbeckWarning)
        result = run_file(folder / "fed.toml", settings)
    return result, [str(each.message) for each in caught]


def test_files_of_different_kinds_make_one_federation(folder: Path) -> None:
    result, found = trained(folder)
    assert result.accuracy > 0.9
    assert result.model.classes_.tolist() == ["no", "yes"]
    schema = result.model.schema
    assert [type(column) for column in schema.columns] == [Number, Number, Category, Date]
    assert any(
        "the labels 'yes', 'Yes' in 'outcome' count as one class" in line or "'no', 'No'" in line for line in found
    )


def test_predictions_name_their_rows(folder: Path) -> None:
    result, _ = trained(folder)
    lines = list(csv.reader(io.StringIO(predictions(result.model, folder / "new.csv"))))
    assert lines[0] == ["patient", "prediction", "p(no)", "p(yes)"]
    assert [line[0] for line in lines[1:]] == [f"P5-{i}" for i in range(7)]
    (folder / "reversed.csv").write_text(text_of(rows(5, 7)[::-1], columns=(*COLUMNS[3::-1], "seen")))
    again = list(csv.reader(io.StringIO(predictions(result.model, folder / "reversed.csv"))))
    assert again[1:] == lines[:0:-1]


def test_the_positive_class_is_the_second_one(folder: Path) -> None:
    result, _ = trained(folder, "data.positive=no")
    assert result.model.classes_.tolist() == ["yes", "no"]
    with pytest.raises(LimbeckError, match=r"positive = 'maybe'.* one of two classes; the classes are no, yes"):
        trained(folder, "data.positive=maybe")


def test_a_date_never_becomes_a_category(folder: Path) -> None:
    """Nor does an ID, although both differ in nearly every public row."""
    (folder / "fed.toml").write_text(FILE.format(more="").replace('id = "patient", ', ""))
    result, found = trained(folder)
    assert any(
        "the column 'patient' holds 120 different texts in 120 public rows and is left out" in line for line in found
    )
    assert len(result.model.schema.features) == 8
    assert result.model.schema.ignored == ("patient",)


def test_python_takes_the_same_files_by_the_same_schema(folder: Path) -> None:
    result, _ = trained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimbeckWarning)
        alone = run(
            result_algorithm(),
            {"a": folder / "a.csv", "b": str(folder / "b.tsv")},
            public=folder / "public.csv",
            test=folder / "test.csv",
            label="outcome",
            row_id="patient",
            models={"name": "decision-tree", "max_depth": 4},
        )
    assert alone.model is not None
    assert alone.model.schema == result.model.schema
    assert alone.accuracy == result.accuracy
    assert (alone.model.predict(folder / "new.csv") == result.model.predict(folder / "new.csv")).all()


def result_algorithm() -> Any:
    from limbeck.algorithms.fedvote import FedVote

    return FedVote()


@pytest.mark.parametrize("form", ["pandas", "polars", "pyarrow"])
def test_columns_of_frames_count_by_name(folder: Path, form: str) -> None:
    """The order of columns changes nothing, in a party or in new rows; a lacking or further column is named."""
    module = pytest.importorskip(form)
    make = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[form]

    def frame(found: list[dict[str, Any]], columns: tuple[str, ...]) -> Any:
        return getattr(module, make)({name: [row[name] for row in found] for name in columns})

    features, label = COLUMNS[1:-1], [row["outcome"] for row in rows(1, 100)]
    models: list[Predictor] = []
    for order in (features, features[::-1]):
        result = run(
            result_algorithm(),
            [(frame(rows(1, 100), order), label), (frame(rows(1, 100), features), label)],
            public=frame(rows(3, 100), features),
            models="decision-tree",
        )
        assert result.model is not None
        models.append(result.model)
    new = rows(5, 50)
    expected = models[0].predict(frame(new, features))
    assert (models[1].predict(frame(new, features[::-1])) == expected).all()
    with pytest.raises(LimbeckError, match="X has no column 'ward'"):
        models[0].predict(frame(new, ("age", "crp", "seen")))
    with pytest.raises(LimbeckError, match="X has a column 'patient' that the schema does not have"):
        models[0].predict(frame(new, COLUMNS[:-1]))


def test_a_table_without_labels_needs_the_name_of_the_label(folder: Path) -> None:
    with pytest.raises(LimbeckError, match=r"^party 0: give label=, the name of the label column.* seen, outcome"):
        run("fedvote", [folder / "a.csv", folder / "b.tsv"], public=folder / "public.csv")


def test_a_party_may_lack_all_dates() -> None:
    pandas = pytest.importorskip("pandas")
    found = [pandas.DataFrame(rows(seed, 40)).drop(columns=["patient", "ward"]) for seed in (1, 2, 3)]
    found[0]["seen"] = None
    result = run("fedvote", found[:2], public=found[2].drop(columns="outcome"), label="outcome", models="decision-tree")
    assert isinstance(result.model.schema.columns[2], Date)  # type: ignore[union-attr]
    found[0]["seen"] = 3.0
    with pytest.raises(LimbeckError, match=r"^party 0: the column 'seen' holds '3' in row 1, not a date"):
        run("fedvote", found[:2], public=found[2].drop(columns="outcome"), label="outcome", models="decision-tree")


def test_arrays_have_no_names_that_a_schema_could_match(folder: Path) -> None:
    result, _ = trained(folder)
    with pytest.raises(LimbeckError, match="trained on tables with the columns age, crp, ward, seen"):
        result.model.predict(np.zeros((3, 4)))


def test_private_rows_decide_nothing_about_columns(folder: Path) -> None:
    """Each odd private row leaves the schema, and the numbers of all other rows, as they are."""
    from limbeck.data.own import Files, read_files

    def read() -> Any:
        stated = {"label": ("outcome",), "classes": ("no", "yes"), "row_id": "patient", "public": folder / "public.csv"}
        return read_files(Files([folder / "a.csv"], **stated))  # type: ignore[arg-type]

    before, lines = read(), (folder / "a.csv").read_bytes().decode("cp1252").split("\n")
    for odd in (
        "P;1;<5;?;2024-01-01;YES",
        "P;;;;;no",
        "P;1.234;12 %;'x';2023-12-31T10:00;No ",
        "Ω;1;1e5;\u00e9;2024-02-29;yes",
    ):
        (folder / "a.csv").write_bytes("\n".join([lines[0], odd, *lines[2:]]).encode())
        after = read()
        assert after.schema == before.schema
        np.testing.assert_array_equal(after.private[0].x[1:], before.private[0].x[1:])
        np.testing.assert_array_equal(after.private[0].y[1:], before.private[0].y[1:])


def test_a_party_states_how_its_own_file_is_read(folder: Path) -> None:
    """Site a writes day and month with slashes, which nobody can know."""
    lines = (folder / "a.csv").read_bytes().decode("cp1252").split("\n")
    slashed = [re.sub(r"(\d{4})-(\d\d)-(\d\d)", r"\3/\2/\1", line) for line in lines]
    before, _ = trained(folder)
    (folder / "a.csv").write_bytes("\n".join(slashed).encode("cp1252"))
    with pytest.raises(LimbeckError, match=r"a\.csv: the column 'seen' holds '.*' in row \d+, not a date such as"):
        trained(folder)
    after, _ = trained(folder, 'party.0.reading={dates="%d/%m/%Y"}')
    assert after.accuracy == before.accuracy


@pytest.mark.parametrize("odd", ["1,5", "1.5", "<5"])
def test_a_private_row_of_a_frame_never_changes_how_another_is_read(odd: str) -> None:
    pd = pytest.importorskip("pandas")
    from limbeck.experiments.tables_given import TableArguments, numbers_given

    public = pd.DataFrame({"crp": [1.5, 2.5, 3.0], "age": [20, 30, 40]})
    private = pd.DataFrame({"crp": ["1,234", odd, "7"], "age": [1, 2, 3]})
    [(_, (x, _))], *_ = numbers_given(
        [("north", (private, [0, 1, 0]))], public, None, TableArguments(), [0, 1], is_private=True, needs_labels=False
    )
    assert x[[0, 2], 0].tolist() == [1234.0, 7.0]


@pytest.mark.parametrize(("labels", "classes"), [(["01", "02"], ["01", "02"]), (["1", "2.0"], [1, 2])])
def test_codes_are_classes_of_text_and_numbers_are_numbers(labels: list[str], classes: list[Any]) -> None:
    """A label with a leading zero is a code, in Python as in files."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"crp": [1.0, 2.0] * 20, "y": labels * 20})
    result = run(result_algorithm(), [table, table], public=table[["crp"]], models="decision-tree", label="y")
    assert result.model is not None
    assert result.model.classes_.tolist() == classes
