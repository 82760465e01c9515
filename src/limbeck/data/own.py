"""Rows from the user's own files: one file that is split among the parties, or one file for each party.

A schema turns tables (CSV, Parquet) into numbers. It comes from the public rows or from a file. NPZ files have numbers
already, as `x_train` and `y_train`. An NPY file has public rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from limbeck.data.arrays import as_float
from limbeck.data.draw import Draw, count_of, order
from limbeck.data.files import read_table, read_undecided
from limbeck.data.label_columns import classes_of, kind_of_tables, numbers_of, with_positive_last
from limbeck.data.labels import task_in
from limbeck.data.reading import UNSTATED, Reading
from limbeck.data.schema import Schema, read_schema, schema_of, schema_of_texts
from limbeck.data.sets import DataSet, load_file
from limbeck.data.table import Table
from limbeck.data.texts import column_of
from limbeck.data.tokens import Tokens
from limbeck.data.unknown_values import warn_of_unknown_values
from limbeck.errors import LimbeckError, did_you_mean
from limbeck.protocol.rows import Rows
from limbeck.protocol.task import MULTICLASS, Kind, Task

ARRAYS = (".npz", ".npy")
UNNAMED = ", which data.classes does not name"


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of the user's files, and how to read them.

    Parameters
    ----------
    private : sequence of Path
        Files of private rows.
    label : tuple of str
        Columns of tables that have the labels.
    classes : tuple of str, optional
        All classes, in order; by default those of the private and test rows.
    schema : Path, optional
        Schema file; by default the schema comes from the public rows.
    public : Path, optional
        File of public rows.
    test : Path, optional
        File of test rows.
    task : {"multiclass", "multilabel", "regression"}, optional
        Kind of the labels; by default found from them.
    limits : sequence of two floats, optional
        Public range of a numeric target.
    text : str, optional
        Column of texts of tables.
    tokens : Tokens, optional
        Rule of the texts.
    reading : Reading
        What is stated about tables.
    readings : sequence of Reading
        What is stated about each file of private rows; by default the same.
    row_id : str, optional
        Column of tables that names the rows.
    ignore : sequence of str
        Columns of tables that are left out.
    positive : str, optional
        The class of interest, one of two.
    """

    private: Sequence[Path]
    label: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    schema: Path | None = None
    public: Path | None = None
    test: Path | None = None
    task: Kind | None = None
    limits: Sequence[float] | None = None
    text: str | None = None
    tokens: Tokens | None = None
    reading: Reading = UNSTATED
    readings: Sequence[Reading] = ()
    row_id: str | None = None
    ignore: Sequence[str] = ()
    positive: str | None = None

    @property
    def are_arrays(self) -> bool:
        """Whether all files are NPZ or NPY files; an error if only some are."""
        kinds = {path.suffix.lower() in ARRAYS for path in (*self.private, self.public, self.test) if path}
        if len(kinds) > 1:
            raise LimbeckError("data: NPZ files and tables cannot be mixed in one experiment; use one kind")
        return kinds == {True}


@dataclass(frozen=True, slots=True)
class SplitRows:
    """All rows of an experiment: those of each party, the public rows and the test rows.

    Parameters
    ----------
    classes : tuple of str
        All classes; labels are indices into them.
    private : list of Rows
        Private rows of each party.
    public : Rows or None
        Public rows; their labels are 0 where they are unknown.
    test : Rows or None
        Test rows.
    schema : Schema, optional
        Schema, if the rows come from tables or texts.
    classes_are_private : bool
        Whether the classes were read from the labels of private rows.
    public_is_labelled : bool
        Whether the labels of the public rows are known.
    task : Task
        Kind of the labels. Labels of private and test rows are as algorithms learn them.
    own_tests : tuple of (Rows or None)
        Test rows of each party's own; empty if no party has any.
    """

    classes: tuple[str, ...]
    private: list[Rows]
    public: Rows | None
    test: Rows | None
    schema: Schema | None = None
    classes_are_private: bool = False
    public_is_labelled: bool = False
    task: Task = MULTICLASS
    own_tests: tuple[Rows | None, ...] = ()

    def for_task(self, kind: Kind, limits: Sequence[float] | None) -> "SplitRows":
        """Return the rows with their task; numeric targets are scaled to [0, 1].

        Parameters
        ----------
        kind : {"multiclass", "multilabel", "regression"}
            Kind of the labels.
        limits : sequence of two floats or None
            Public range of the target; None takes that of all targets, which are private.
        """
        tested = [self.test.y] if self.test else []
        task = task_in(kind, limits, [*(rows.y for rows in self.private), *tested])
        if kind != "regression":
            return replace(self, task=task)

        def scaled(rows: Rows) -> Rows:
            return replace(rows, y=task.scaled(rows.y))

        public = self.public and (scaled(self.public) if self.public_is_labelled else self.public)
        return replace(
            self,
            private=[scaled(rows) for rows in self.private],
            test=self.test and Rows(self.test.x, task.scaled(self.test.y, clipped=False)),
            public=public,
            task=task,
            classes_are_private=limits is None,
        )

    def clipped(self) -> "SplitRows":
        """Return the rows with private numbers clipped to their range; test rows keep the real numbers."""
        if self.task.kind != "regression":
            return self
        return replace(self, private=[replace(rows, y=np.clip(rows.y, 0, 1)) for rows in self.private])

    @property
    def are_tokens(self) -> bool:
        """Whether the rows are token numbers of texts."""
        return self.schema is not None and self.schema.text is not None


def read_files(files: Files, public: Draw | None = None, seed: int = 0) -> SplitRows:
    """Read all files and turn their rows into numbers.

    Parameters
    ----------
    files : Files
        Paths, and how to read them.
    public : Draw, optional
        Rows of a single private file that will become public; they give the schema if there is no public file.
    seed : int
        Seed of the experiment.

    Returns
    -------
    SplitRows
        One element of `private` for each file. Numbers in tables are scaled to their range, and not clipped yet.
    """
    return _arrays(files) if files.are_arrays else _tables(files, public, seed)


def _tables(files: Files, public: Draw | None, seed: int) -> SplitRows:
    schema = read_schema(files.schema) if files.schema else None
    label = files.label or (schema.labels if schema else ())
    if not label:
        raise LimbeckError("data.label is missing: name the column that has the classes or the numeric target")
    readings = files.readings or [files.reading] * len(files.private)
    private = [read_undecided(path, how) for path, how in zip(files.private, readings, strict=True)]
    test = read_undecided(files.test, files.reading) if files.test else None
    whole = test if public and public.part == "test" else private[0]
    open_rows = (
        read_table(files.public, files.reading) if files.public else _drawn(whole, files.private[0].name, public, seed)
    )
    like = schema.reading if schema else open_rows.reading if open_rows else Reading()
    private, test = [table.decided(like) for table in private], test and test.decided(like)
    if schema and sorted(schema.labels) != sorted(label):
        raise LimbeckError(f"data.label is {', '.join(label)}, but {files.schema} names {', '.join(schema.labels)}")
    check_id(files.row_id, [*private, *filter(None, [test, open_rows])], "data.id")
    limits = files.limits and (float(files.limits[0]), float(files.limits[1]))
    if schema and (files.task or schema.task, limits or schema.limits) != (schema.task, schema.limits):
        raise LimbeckError(f"data.task and data.range must be those of {files.schema}; remove them")
    if schema and schema.text:
        schema.text.check_encoder(files.tokens)
    if schema is None:
        if open_rows is None:
            raise LimbeckError("data.public is missing: categories come from the public rows, or from data.schema")
        schema = _schema_with_labels(open_rows, files, label, [*private, *([test] if test else [])])
    if files.positive is not None:
        schema = replace(schema, classes=with_positive_last(schema.classes, files.positive))
    named = files.classes or files.schema or schema.task == "multilabel"  # whose classes are the columns that are named
    known = (files.limits or files.schema) if schema.task == "regression" else named
    for table in private:
        warn_of_unknown_values(table, schema)
    return SplitRows(
        private=[rows_of(table, schema, clipped=False) for table in private],
        public=_unlabelled(open_rows, schema) if open_rows and files.public else None,
        test=rows_of(test, schema, clipped=False) if test else None,
        classes=schema.classes,
        schema=schema,
        classes_are_private=not known,
        task=Task(schema.task, *(schema.limits or ())),
    )


def check_id(row_id: str | None, tables: Sequence[Table], key: str) -> None:
    """Raise if no table has the column that names the rows; `key` is its name in the message."""
    names = dict.fromkeys(name for table in tables for name in table.columns)
    if row_id is not None and row_id not in names:
        raise LimbeckError(f"{key}: no file has a column {row_id!r}; {did_you_mean(row_id, list(names))}")


def _schema_with_labels(open_rows: Table, files: Files, label: tuple[str, ...], tables: Sequence[Table]) -> Schema:
    """Schema of public rows; task, classes and range are given, or found from the labels in a simulation."""
    task = files.task or (
        "multilabel" if len(label) > 1 else "regression" if files.limits else kind_of_tables(tables, label[0])
    )
    features = open_rows.without(*files.ignore, *filter(None, [files.row_id]))
    text = None if files.text is None else column_of(features, label, files.text, files.tokens or Tokens())
    left = files.row_id, files.ignore
    if task == "multiclass":
        found = files.classes or classes_of(tables, label[0])
        return schema_of(open_rows, label[0], found, text, task, None, *left)
    if task == "multilabel":
        named = files.classes or label  # the columns, possibly in another order
        return schema_of(open_rows, named, named, text, task, None, *left)
    targets = [numbers_of(table, label[0]) for table in tables] if files.limits is None else []
    limits = task_in(task, files.limits, targets)
    return schema_of(open_rows, label[0], label, text, task, (limits.low, limits.high), *left)


def _drawn(table: Table | None, own_name: str, public: Draw | None, seed: int) -> Table | None:
    """The rows of a table that `draw_parts` will draw as public; the data set has the name of the private file."""
    if public is not None and public.name is not None:
        raise LimbeckError(
            f"data.public: the private rows are a table, so public rows cannot come from the data set {public.name!r}"
        )
    if public is None or table is None:
        return None
    count = count_of(public.amount, len(table))
    if not 1 <= count <= len(table):
        raise LimbeckError(f"data.public = {public.amount}: choose from 1 to {len(table)} rows, or a share")
    return table.take(order(len(table), own_name, public.part, seed)[:count]).decided()


def public_rows(path: Path, schema: Schema | None, task: Task | None = None, how: Reading | None = None) -> Rows:
    """Read a file of public rows.

    Parameters
    ----------
    path : Path
        A table, or an NPZ or NPY file.
    schema : Schema or None
        Schema of a table; None for arrays.
    task : Task, optional
        Kind of their labels, if these are used.
    how : Reading, optional
        What is stated about a table.

    Returns
    -------
    Rows
        Public rows. Labels of an NPZ file are used only if all parties agreed to that; without labels they are 0.
    """
    if schema is not None and not _is_npz_of(path, schema):
        return _unlabelled(read_table(path, how), schema)
    if path.suffix.lower() not in ARRAYS:
        raise LimbeckError(f"{path} is a table, but the consortium has no schema; use an NPZ or NPY file")
    data = _loaded(path, schema, task.kind if task else None)
    return Rows(as_float(data.x), task.scaled(data.y) if task and task.kind == "regression" else data.y)


def private_rows(
    path: Path,
    classes: Sequence[str],
    schema: Schema | None,
    label: str | None = None,
    task: Task = MULTICLASS,
    clipped: bool = True,
    how: Reading | None = None,
    ignore: Sequence[str] = (),
) -> Rows:
    """Read a party's private rows.

    Parameters
    ----------
    path : Path
        A table or an NPZ file.
    classes : sequence of str
        Classes of the consortium, in order.
    schema : Schema or None
        Schema of a table; None for arrays.
    label : str, optional
        The party's own name of the label column, if it differs from the schema's.
    task : Task
        Kind of the labels, for arrays; a schema has its own.
    clipped : bool
        Whether numeric targets are clipped to their range; those of test rows are not.
    how : Reading, optional
        What the party states about a table.
    ignore : sequence of str
        Columns of a table that are left out.

    Returns
    -------
    Rows
        Rows with class numbers of the consortium.
    """
    if schema is not None and not _is_npz_of(path, schema):
        table = read_table(path, how, schema.reading).without(*ignore)
        if clipped:  # rows of a party, not the coordinator's test rows
            warn_of_unknown_values(table, schema)
        return rows_of(with_label(table, schema, label), schema, clipped)
    if path.suffix.lower() != ".npz":
        raise LimbeckError(f"{path}: the consortium uses arrays: give an NPZ file with x_train and y_train")
    rows = _loaded(path, schema, task.kind).numbered(classes, f"; the consortium's are {', '.join(classes)}").rows()
    return Rows(rows.x, task.scaled(rows.y, clipped)) if task.kind == "regression" else rows


def with_label(table: Table, schema: Schema, label: str | None) -> Table:
    """Copy of a table in which a label column of another name has the name that the schema knows.

    Parameters
    ----------
    table : Table
        A table.
    schema : Schema
        The schema.
    label : str or None
        The table's own name of the label column; None means that of the schema.

    Returns
    -------
    Table
        The table. If it has also a column of the schema's name, that column is left out.

    Raises
    ------
    LimbeckError
        If the column is missing, or models learn from it.
    """
    known = schema.labels[0]
    if label is None or label == known:
        return table
    if label in [column.name for column in schema.columns]:
        raise LimbeckError(f"label: models learn from the column {label!r}; the labels are in {known!r} by the schema")
    return table.renamed(label, known)


def _is_npz_of(path: Path, schema: Schema) -> bool:
    """Whether a file is an NPZ file of texts that a schema describes."""
    return schema.text is not None and path.suffix.lower() == ".npz"


def _loaded(path: Path, schema: Schema | None, task: Kind | None = None) -> DataSet:
    """Read a file of arrays, which holds texts if there is a schema."""
    data = load_file(path, schema.text.rule if schema and schema.text else None, task)
    if schema is not None and data.tokens is None:
        raise LimbeckError(f"{path} holds no texts: it must have the arrays text_train.bytes and text_train.ends")
    return data


def rows_of(table: Table, schema: Schema, clipped: bool = True) -> Rows:
    """Turn a table into rows with labels; `clipped` says whether numeric targets are clipped to their range."""
    return Rows(schema.encode(table), schema.targets(table, clipped))


def _unlabelled(table: Table, schema: Schema) -> Rows:
    return Rows(schema.encode(table), np.zeros(len(table), np.int64))


def _arrays(files: Files) -> SplitRows:
    sets = [load_file(path, files.tokens, files.task) for path in files.private]
    test = load_file(files.test, files.tokens, files.task) if files.test else None
    public = load_file(files.public, files.tokens) if files.public else None
    task = sets[0].task
    every = [*sets, *filter(None, [public, test])]
    for data in every:
        if data.task != task and data is not public:
            raise LimbeckError(f"{data.name} is for {data.task}, {sets[0].name} for {task}; set data.task")
        sets[0].check_kind(data, "data")
    tokens = sets[0].tokens
    found = {name for data in every if data is not public for name in data.classes}
    classes = files.classes or (tuple(sorted(found, key=_by_number)) if task == "multiclass" else _in_order(sets))
    classes = with_positive_last(classes, files.positive)
    sets = [data.numbered(classes, UNNAMED) for data in sets]
    test = test.numbered(classes, UNNAMED) if test else None
    return SplitRows(
        private=[data.rows() for data in sets],
        public=Rows(as_float(public.x), np.zeros(len(public.x), np.int64)) if public else None,
        test=(test.test_rows() if test.official_test else test.rows()) if test else None,
        classes=classes,
        schema=schema_of_texts(tokens, classes) if tokens else None,
        classes_are_private=files.classes is None,
    ).for_task(task, files.limits)


def _in_order(sets: Sequence[DataSet]) -> tuple[str, ...]:
    """All classes of several sets, in the order of their first appearance."""
    return tuple(dict.fromkeys(name for data in sets for name in data.classes))


def _by_number(name: str) -> tuple[bool, float, str]:
    """Sort key: numbers by value, then text alphabetically."""
    number = name.lstrip("-").isdigit()
    return (not number, float(name) if number else 0.0, name)
