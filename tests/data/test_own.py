"""Users' own files: one rule for all parties, and every mismatch is an error with its file and column."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from limbeck.data.columns import Category, Number
from limbeck.data.draw import Draw, draw_parts
from limbeck.data.files import read_table
from limbeck.data.own import Files, public_rows, read_files
from limbeck.data.schema import Schema, read_schema, schema_of
from limbeck.data.sets import DataSet
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.protocol.task import Task

PUBLIC: dict[str, list[Any]] = {"age": [20, None, 40], "job": ["nurse", "clerk", None], "member": [True, False, True]}
SITE: dict[str, list[Any]] = {
    "age": [31, 32.5],
    "job": ["nurse", "pilot"],
    "member": [True, None],
    "income": ["high", "low"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "public.csv", PUBLIC)
    write(tmp_path / "a.csv", SITE)
    write(tmp_path / "b.parquet", {**SITE, "job": ["clerk", "clerk"]})
    return tmp_path


def write(path: Path, columns: dict[str, list[Any]]) -> Path:
    table = pa.table(columns)
    csv.write_csv(table, path) if path.suffix == ".csv" else parquet.write_table(table, path)
    return path


def files(folder: Path, **changes: Any) -> Files:
    private = [folder / "a.csv", folder / "b.parquet"]
    return Files(**{"private": private, "label": ("income",), "public": folder / "public.csv", **changes})


def test_the_stated_rule(folder: Path) -> None:
    """Median 30 for a missing age; clerk and nurse have columns, pilot and nothing are zeros; truth is a category."""
    own = read_files(files(folder))
    assert own.schema == Schema(
        (Number("age", 30.0), Category("job", ("clerk", "nurse")), Category("member", ("false", "true"))),
        "income",
        ("high", "low"),
    )
    assert own.private[0].x.tolist() == [[31, 0, 1, 0, 1], [32.5, 0, 0, 0, 0]]
    assert own.private[1].x.tolist() == [[31, 1, 0, 0, 1], [32.5, 1, 0, 0, 0]]
    assert own.public is not None
    assert own.public.x.tolist() == [[20, 0, 1, 0, 1], [30, 1, 0, 1, 0], [40, 0, 0, 0, 1]]
    assert [rows.y.tolist() for rows in own.private] == [[0, 1], [0, 1]]
    assert own.private[0].x.dtype == np.float32


def test_a_schema_survives_its_text(folder: Path) -> None:
    schema = read_files(files(folder)).schema
    assert schema is not None
    assert Schema.from_json(schema.to_json(), "here") == schema
    (folder / "schema.json").write_text(schema.to_json())
    assert read_schema(folder / "schema.json") == schema
    own = read_files(files(folder, schema=folder / "schema.json", public=None))
    assert own.schema == schema


def test_one_file_takes_its_schema_from_the_rows_that_will_be_public(tmp_path: Path) -> None:
    jobs = [f"job-{i}" for i in range(40)]
    path = write(tmp_path / "all.csv", {"job": jobs, "income": [i % 2 for i in range(40)]})
    own = read_files(Files([path], ("income",)), Draw(0.25), seed=3)
    assert own.schema is not None
    [column] = own.schema.columns
    data = DataSet(path.name, own.private[0].x, own.private[0].y, own.classes)
    public = draw_parts(data, Draw(0.25), None, seed=3).public
    assert public is not None
    assert isinstance(column, Category)
    assert len(column.values) == 10
    assert public.x.sum() == 10


def test_whole_numbers_are_one_category_whatever_their_type(tmp_path: Path) -> None:
    schema = Schema((Category("zip", ("100", "200")),), "y", ("0", "1"))
    table = read_table(write(tmp_path / "a.csv", {"zip": [100, 200, 300]}))
    assert schema.encode(table).tolist() == [[1, 0], [0, 1], [0, 0]]


def test_number_labels_are_ordered_by_size(tmp_path: Path) -> None:
    write(tmp_path / "public.csv", {"x": [1.0]})
    write(tmp_path / "a.csv", {"x": [1.0, 2.0, 3.0], "y": [10, 9, 2]})
    own = read_files(Files([tmp_path / "a.csv"], ("y",), public=tmp_path / "public.csv"))
    assert own.classes == ("2", "9", "10")
    assert own.private[0].y.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("name", "columns", "line"),
    [
        ("a.csv", {**SITE, "height": [1, 2]}, "a.csv has a column 'height' that the schema does not have"),
        ("a.csv", {k: v for k, v in SITE.items() if k != "job"}, "a.csv has no column 'job'"),
        ("a.csv", {k: v for k, v in SITE.items() if k != "income"}, "a.csv has no column 'income'"),
        ("a.csv", {**SITE, "age": ["young", "old"]}, "a.csv: the column 'age' holds 'young' in row 1, not a number"),
        ("a.csv", {**SITE, "age": [1.0, float("inf")]}, "a.csv: the column 'age' holds inf in row 2: too large"),
        ("a.csv", {**SITE, "income": ["high", None]}, "a.csv: row 2 has no label in 'income'"),
        ("b.parquet", {**SITE, "income": [1, 0]}, "b.parquet: the label 'income' holds numbers, in "),
        ("b.parquet", {**SITE, "age": [[1], [2]]}, "b.parquet: the column 'age' holds list<"),
        ("a.csv", {k: [] for k in SITE}, "a.csv has no rows"),
    ],
)
def test_a_mismatch_names_file_and_column(folder: Path, name: str, columns: dict[str, list[Any]], line: str) -> None:
    write(folder / name, columns)
    with pytest.raises(LimbeckError) as refusal:
        read_files(files(folder))
    assert line in str(refusal.value)


def test_files_that_cannot_be_read(folder: Path) -> None:
    (folder / "noise.parquet").write_text("hello")
    (folder / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    (folder / "twice.csv").write_text("a,a\n1,2\n")
    (folder / "rows.doc").write_text("a\n1\n")
    for name, line in [
        ("none.csv", "No such file"),
        ("noise.parquet", "is not readable"),
        ("ragged.csv", "row 2 has 3 values, but there are 2 columns"),
        ("twice.csv", "the column 'a' occurs twice"),
        ("rows.doc", "unknown kind of file"),
    ]:
        with pytest.raises(LimbeckError, match=line) as refusal:
            read_table(folder / name)
        assert name in str(refusal.value)


def test_what_is_missing_is_reported(folder: Path) -> None:
    with pytest.raises(LimbeckError, match=r"data\.label is missing"):
        read_files(files(folder, label=None))
    with pytest.raises(LimbeckError, match="categories come from the public rows"):
        read_files(files(folder, public=None))
    np.savez(folder / "c.npz", x_train=np.zeros((2, 3)), y_train=np.arange(2))
    with pytest.raises(LimbeckError, match="cannot be mixed"):
        read_files(files(folder, private=[folder / "a.csv", folder / "c.npz"]))


def test_a_column_of_names_is_no_category(folder: Path) -> None:
    names = pa.table({"name": [f"n{i}" for i in range(1001)]})
    csv.write_csv(names, folder / "names.csv")
    with (
        pytest.warns(LimbeckWarning, match="1001 different texts in 1001 public rows and is left out"),
        pytest.raises(LimbeckError, match="no column to learn from, beside the label 'y'; 'name' is left out"),
    ):
        schema_of(read_table(folder / "names.csv"), "y", ["a"])


def test_arrays_of_parties_share_their_classes(tmp_path: Path) -> None:
    for name, labels in (("a", [10, 2]), ("b", [9, 10])):
        np.savez(tmp_path / f"{name}.npz", x_train=np.zeros((2, 3)), y_train=np.array(labels))
    np.savez(tmp_path / "public.npz", x_train=np.ones((4, 3)), y_train=np.zeros(4, int))
    own = read_files(Files([tmp_path / "a.npz", tmp_path / "b.npz"], public=tmp_path / "public.npz"))
    assert own.classes == ("2", "9", "10")
    assert [rows.y.tolist() for rows in own.private] == [[2, 0], [1, 2]]
    np.savez(tmp_path / "public.npz", x_train=np.ones((4, 2)), y_train=np.zeros(4, int))
    with pytest.raises(LimbeckError, match=r"public.npz have the shape \(2,\)"):
        read_files(Files([tmp_path / "a.npz"], public=tmp_path / "public.npz"))


def test_text_means_the_same_in_every_file(tmp_path: Path) -> None:
    """Without other values in the column, true looks like a Boolean and 01234 like a number."""
    (tmp_path / "public.csv").write_text("flag,zip,size\ntrue,01234,1\nfalse,05678,2\nunknown,A1,NA\n")
    (tmp_path / "a.csv").write_text("zip,flag,size,y\n01234,true,1.0,01\n05678,false,1e2,02\n")
    own = read_files(Files([tmp_path / "a.csv"], ("y",), public=tmp_path / "public.csv"))
    assert own.classes == ("01", "02")
    assert own.private[0].x.tolist() == [[0, 1, 0, 1, 0, 0, 1], [1, 0, 0, 0, 1, 0, 100]]


def test_the_schema_of_public_rows_from_the_test_file_holds_nothing_private(tmp_path: Path) -> None:
    write(tmp_path / "private.csv", {"job": [f"secret-{i}" for i in range(20)], "y": [0, 1] * 10})
    write(tmp_path / "test.csv", {"job": [f"open-{i}" for i in range(20)], "y": [0, 1] * 10})
    files = Files([tmp_path / "private.csv"], ("y",), test=tmp_path / "test.csv")
    schema = read_files(files, Draw(0.5, "test")).schema
    assert schema is not None
    assert "secret" not in schema.to_json()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"columns": [{"kind": "nomber", "name": "a", "missing": 0}]},
            "columns.0: .* expected tags: 'number', 'category'",
        ),
        ({"columns": [{"kind": "category", "name": "a", "values": "abc"}]}, "values: Input should be a valid"),
        ({"columns": [{"kind": "category", "name": "a", "values": ["b", "b"]}]}, "values of a hold 'b' twice"),
        ({"columns": [{"kind": "number", "name": "a", "missing": 1e300}]}, "missing: Input should be less"),
        ({"columns": [{"kind": "number", "name": "a", "missing": float("nan")}]}, "missing: Input should be a finite"),
        ({"classes": "ab"}, "classes: Input should be a valid"),
        ({"columns": []}, "has no column to learn from, beside the label"),
        ({"columns": [{"kind": "number", "name": "a", "missing": 0}] * 2}, "hold 'a' twice"),
        ({"columns": [{"kind": "number", "name": "a"}]}, "missing: is missing"),
    ],
)
def test_a_wrong_schema_is_reported(tmp_path: Path, change: dict[str, Any], line: str) -> None:
    right = {"label": "y", "classes": ["0", "1"], "columns": [{"kind": "number", "name": "a", "missing": 0}]}
    (tmp_path / "schema.json").write_text(json.dumps(right | change))
    with pytest.raises(LimbeckError, match=line) as refusal:
        read_schema(tmp_path / "schema.json")
    assert "schema.json" in str(refusal.value)


def test_labels_spelled_differently_are_one_class(tmp_path: Path) -> None:
    (tmp_path / "public.csv").write_text("x,f\n1,true\n2,false\n")
    (tmp_path / "a.csv").write_text("x,f,y\n1,True,0\n2,False,1\n")
    write(tmp_path / "b.parquet", {"x": [1, 2], "f": [True, False], "y": [0.0, 1.0]})
    (tmp_path / "c.csv").write_text("x,f,y\n1,TRUE,0.0\n2,FALSE,1.0\n")
    own = read_files(
        Files([tmp_path / n for n in ("a.csv", "b.parquet", "c.csv")], ("y",), public=tmp_path / "public.csv")
    )
    assert own.classes == ("0", "1")
    assert [rows.y.tolist() for rows in own.private] == [[0, 1]] * 3
    assert [rows.x.tolist() for rows in own.private] == [[[1, 0, 1], [2, 1, 0]]] * 3


def test_public_numbers_are_scaled_like_private_ones(tmp_path: Path) -> None:
    """Where parties learn the labels of public rows, these have the unit of the private ones."""
    np.savez(tmp_path / "open.npz", x_train=np.zeros((3, 2), np.float32), y_train=np.array([10, 15, 40]))
    found = public_rows(tmp_path / "open.npz", None, Task("regression", 10.0, 20.0))
    assert found.y.tolist() == [0.0, 0.5, 1.0]
    assert public_rows(tmp_path / "open.npz", None).y.tolist() == [0, 1, 2]


def test_an_id_that_no_file_has_is_an_error(folder: Path) -> None:
    with pytest.raises(LimbeckError, match=r"data\.id: no file has a column 'jop'; did you mean 'job'\?"):
        read_files(files(folder, row_id="jop"))
