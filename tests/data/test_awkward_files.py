"""Files such as users have are read right, or refused in one line that names the file, the column and the row."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.awkward_files import PLAIN, write_all
from limbeck.data.columns import Category, Number
from limbeck.data.dates import Date
from limbeck.data.files import read_table, table_of
from limbeck.data.label_columns import class_numbers, classes_of
from limbeck.data.reading import Reading
from limbeck.data.schema import Schema, schema_of
from limbeck.data.table import Table
from limbeck.errors import LimbeckError, LimbeckWarning


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("awkward")
    write_all(path)
    (path / "plain.csv").write_text(PLAIN)
    return path


def read(path: Path, **stated: Any) -> tuple[Table, Schema, list[str]]:
    """The table, its schema, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LimbeckWarning)
        table = read_table(path, Reading(**stated))
        schema = schema_of(table, "outcome", classes_of([table], "outcome"), row_id="patient")
        schema.targets(table)
        schema.encode(table)
    return table, schema, [str(each.message) for each in caught]


@pytest.mark.parametrize(
    "name",
    [
        "semicolons.csv", "tabs.tsv", "bars.txt", "sep-line.csv", "quotes.csv", "windows-lines.csv",
        "spaced-header.csv", "german-dates.csv",
    ],
)  # fmt: skip
def test_the_form_of_a_file_changes_nothing(folder: Path, name: str) -> None:
    plain, schema, _ = read(folder / "plain.csv")
    table, other, found = read(folder / name)
    assert not found
    assert [type(column) for column in other.columns] == [Number, Number, Category, Date]
    np.testing.assert_array_equal(other.encode(table), schema.encode(plain))
    np.testing.assert_array_equal(other.targets(table), schema.targets(plain))
    assert table.texts("patient").tolist() == plain.texts("patient").tolist()


@pytest.mark.parametrize("name", ["latin-1.csv", "bom.csv", "utf-16.csv"])
def test_every_encoding_gives_the_same_names(folder: Path, name: str) -> None:
    _, schema, _ = read(folder / name)
    assert schema.columns[2] == Category("sex", ("m", "weiß"))


def test_one_line_of_another_encoding_does_not_change_the_others(tmp_path: Path) -> None:
    text = "name,y\n" + "Zoë,1\n" * 3
    (tmp_path / "a.csv").write_bytes(text.encode() + "Zoë,0\n".encode("latin-1"))
    assert set(read_table(tmp_path / "a.csv").columns["name"]) == {"Zoë"}


@pytest.mark.parametrize(
    ("name", "first"),
    [("below-limit.csv", [5.0, 90.0]), ("percent.csv", [0.12, 1.5]), ("thousands.csv", [1234.5, 1.5])],
)
def test_numbers_as_people_write_them(folder: Path, name: str, first: list[float]) -> None:
    table, schema, _ = read(folder / name)
    assert schema.encode(table)[:2, 1] == pytest.approx(first)


def test_a_quoted_value_may_have_a_separator_and_a_new_line(folder: Path) -> None:
    table, schema, _ = read(folder / "quoted-newline.csv")
    assert table.columns["sex"][2] == "f\nemale, or so"
    assert len(table) == 120
    assert "f\nemale, or so" in schema.columns[2].values  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("word-for-missing.csv", "the column 'crp' holds numbers and 'n.d.', which counts as missing"),
        ("blanks-and-case.csv", "the labels 'yes', 'YES', 'Yes' in 'outcome' count as one class, 'yes'"),
        ("index-column.csv", "column 1 has no name and is left out"),
        ("empty-column.csv", "the column 'remark' is empty in the public rows and is left out"),
        ("remarks.csv", "the column 'remark' holds 120 different texts in 120 public rows and is left out"),
    ],
)
def test_a_change_gives_a_warning(folder: Path, name: str, warning: str) -> None:
    table, schema, [found] = read(folder / name)
    assert warning in found
    assert name in found or name == "blanks-and-case.csv"
    assert [column.name for column in schema.columns] == ["age", "crp", "sex", "seen"]
    assert schema.classes == ("no", "yes")
    assert np.isfinite(schema.encode(table)).all()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("unclear-dates.csv", "the column 'seen' holds dates such as '01/01/2024', whose day and month cannot be dist"),
        ("mixed-types.csv", "the column 'dose' holds numbers, but '0 mg at 0 h' in row 1 and 39 other texts"),
        ("comma-and-point.csv", "the column 'dose' has decimal commas and 'crp' decimal points; set decimal"),
        ("duplicate-names.csv", "the column 'age' occurs twice; rename one"),
        ("too-many-values.csv", "row 9 has 7 values, but there are 6 columns"),
        ("no-rows.csv", "no-rows.csv has no rows"),
        ("empty.csv", "empty.csv is empty"),
        ("no-label.csv", "row 2 has no label in 'outcome'"),
        ("excel-named-csv.csv", "is an Excel file or an archive, not text"),
        ("zeros.csv", "is not a text file: it holds zero bytes"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(folder: Path, name: str, line: str) -> None:
    with pytest.raises(LimbeckError) as refusal:
        read(folder / name)
    assert line in str(refusal.value)
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_wrong_value_of_another_file_names_file_column_and_row(folder: Path) -> None:
    _, schema, _ = read(folder / "plain.csv")
    with pytest.raises(LimbeckError, match=r"wrong-value\.csv: the column 'age' holds 'old' in row 17, not a number"):
        schema.encode(read_table(folder / "wrong-value.csv", like=schema.reading))


def test_dates_as_stated(folder: Path) -> None:
    table, schema, _ = read(folder / "unclear-dates.csv", dates="%m/%d/%Y")
    assert schema.encode(table)[:2, 1:].tolist() == [[0.0, 1.0, 0.0], [32.0, 2.0, 4.0]]  # Monday, Friday


def test_one_row_is_enough(folder: Path) -> None:
    table, schema, _ = read(folder / "one-row.csv")
    assert schema.encode(table).shape == (1, 6)


def test_many_rows(folder: Path) -> None:
    table, schema, _ = read(folder / "many-rows.csv")
    assert schema.encode(table).shape == (200_000, 2)


@pytest.mark.parametrize("decimal", [",", "."])
def test_a_private_row_never_changes_how_another_is_read(tmp_path: Path, decimal: str) -> None:
    """Whatever one row holds, all other rows are the same numbers: the decimal mark is that of the public rows."""
    like = Reading(";", decimal)  # type: ignore[arg-type]
    odd = ["1,5", "1.5", "1.234,5", "<5", "12 %", "n.d.", "", "31.12.2020", "é", '"a;b"']
    for value in odd:
        (tmp_path / "a.csv").write_bytes(f"x;y\n1{decimal}234;2\n{value};3\n".encode("latin-1"))
        table = read_table(tmp_path / "a.csv", like=like)
        assert table.numbers("x")[0][0] == 1.234
        assert table.columns["y"].tolist() == ["2", "3"]


def test_excel_files_are_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("fastexcel")
    from datetime import date

    workbook = openpyxl.Workbook()
    for row in (
        ["age", "seen", "sex", "outcome"],
        [30, date(2024, 1, 1), "f", "no"],
        [41.5, date(2024, 2, 2), "m", "yes"],
    ):
        workbook.active.append(row)
    workbook.create_sheet("second").append(["x"])
    workbook.save(tmp_path / "a.xlsx")
    table = read_table(tmp_path / "a.xlsx")
    schema = schema_of(table, "outcome", ("no", "yes"))
    assert schema.encode(table).tolist() == [[30, 0, 1, 0, 1, 0], [41.5, 32, 2, 4, 0, 1]]
    with pytest.raises(LimbeckError, match=r"a\.xlsx has no sheet 'third'; it has 'Sheet', 'second'"):
        read_table(tmp_path / "a.xlsx", Reading(sheet="third"))


def test_stated_marks_are_missing_in_every_file(tmp_path: Path) -> None:
    (tmp_path / "public.csv").write_text("age,sex\n20,f\n-999,m\n40,unknown\n")
    (tmp_path / "new.csv").write_text("age,sex\n-999,unknown\n")
    schema = schema_of(read_table(tmp_path / "public.csv", Reading(missing=("-999", "unknown"))), "y", ("a", "b"))
    assert schema.columns == (Number("age", 30.0), Category("sex", ("f", "m")))
    assert schema.encode(read_table(tmp_path / "new.csv")).tolist() == [[30, 0, 0]]
    assert Schema.from_json(schema.to_json(), "here") == schema


def test_quoted_decimal_commas_between_commas(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('age,crp\n20,"1,5"\n30,"2,25"\n')
    assert read_table(tmp_path / "a.csv").numbers("crp")[0].tolist() == [1.5, 2.25]


def test_a_late_text_among_numbers_of_an_excel_file_is_not_lost(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("fastexcel")
    workbook = openpyxl.Workbook()
    for value in ("x", *[1.5] * 1500, "n.d."):
        workbook.active.append([value])
    workbook.save(tmp_path / "a.xlsx")
    numbers, others = read_table(tmp_path / "a.xlsx").numbers("x")
    assert (numbers[:1500] == 1.5).all()
    assert others == {"n.d.": 1500}


@pytest.mark.parametrize(
    ("rows", "row"),
    [
        ('a,"fine\nb,x\nc,"ok"\n', 1),
        ('a,x\nb,"never closed\nc,y\n', 2),
        ('a,x\nb,5" pipe\n', 2),
        ('"two\nlines",x\nb,"y"z\n', 2),
    ],
)
def test_a_quotation_mark_never_swallows_rows(tmp_path: Path, rows: str, row: int) -> None:
    (tmp_path / "a.csv").write_text("name,remark\n" + rows)
    with pytest.raises(
        LimbeckError, match=rf"a\.csv: row {row} has a quotation mark within a value, or none at its end"
    ):
        read_table(tmp_path / "a.csv")


def test_quotation_marks_may_be_doubled_and_lines_may_end_as_on_any_system(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'name;remark\r"a ""b""; c";x\rd;""\r')
    table = read_table(tmp_path / "a.csv")
    assert table.columns["name"].tolist() == ['a "b"; c', "d"]
    assert table.columns["remark"].tolist() == ["x", None]


@pytest.mark.parametrize("odd", ["2021-02-30", "unknown", "0001-01-01T00:00:00+14:00"])
def test_one_odd_date_makes_no_category(tmp_path: Path, odd: str) -> None:
    (tmp_path / "a.csv").write_text(
        "seen,age\n" + "".join(f"2021-0{1 + i % 9}-11,{i}\n" for i in range(60)) + f"{odd},3\n"
    )
    with pytest.warns(LimbeckWarning, match=f"holds dates and '{re.escape(odd)}', which counts as missing"):
        schema = schema_of(table := read_table(tmp_path / "a.csv"), "y", ("a", "b"))
    assert isinstance(schema.columns[0], Date)
    assert np.isfinite(schema.encode(table)).all()
    assert Schema.from_json(schema.to_json(), "here") == schema


def test_a_site_may_write_dates_in_another_clear_form(folder: Path, tmp_path: Path) -> None:
    """With points, or as stated for the experiment: the public rows stay dates."""
    schema = schema_of(read_table(folder / "plain.csv", Reading(dates="%d.%m.%Y")), "outcome", ("no", "yes"))
    assert isinstance(schema.columns[-1], Date)
    (tmp_path / "b.csv").write_text(
        "patient,age,crp,sex,seen,outcome\nP1,30,1.5,f,11.01.2024,no\nP2,30,1.5,f,2024-01-11,no\n"
    )
    first, second = schema.encode(read_table(tmp_path / "b.csv").without("patient"))
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize(
    ("key", "value"),
    [("dates", "%d/%d/%Y"), ("encoding", "rot13"), ("encoding", "hex"), ("separator", "§"), ("separator", "ab")],
)
def test_a_wrong_key_of_reading_is_named(key: str, value: str) -> None:
    with pytest.raises(LimbeckError, match=f"{key} = '{re.escape(value)}'"):
        Reading(**{key: value})  # type: ignore[arg-type]


def test_labels_are_compared_each_by_itself() -> None:
    def numbered(classes: list[str], labels: list[str]) -> list[int]:
        return list(class_numbers(classes, Table("a", {"y": np.array(labels, object)}), "y"))

    assert numbered(["01", "1", "2"], ["01", "1", "2"]) == [0, 1, 2]
    assert numbered(["01", "1", "2"], ["01", "1", "0 1"]) == [0, 1, 0]
    assert numbered(["10", "20"], ["10.0", "1 0"]) == [0, 0]
    assert numbered(["no", "yes"], ["YES", " no"]) == [1, 0]


@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_of_other_files_than_csv_may_have_either_mark(decimal: str) -> None:
    """Excel's own numbers have a point, and its texts may have a comma, whatever the public rows have."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"crp": pd.Series([1.5, "2,25", "<5", None, 3], dtype=object)})
    table = table_of(frame, "X").decided(Reading(";", decimal))  # type: ignore[arg-type]
    np.testing.assert_array_equal(table.numbers("crp")[0], [1.5, 2.25, 5.0, np.nan, 3.0])
