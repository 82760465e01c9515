"""The rows of an experiment, split among its parties."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from limbeck.data.arrays import as_float
from limbeck.data.draw import Draw, FromFile, draw_parts
from limbeck.data.label_columns import with_positive_last
from limbeck.data.labels import classes_for_split
from limbeck.data.own import UNNAMED, Files, SplitRows, private_rows, read_files
from limbeck.data.reading import Reading
from limbeck.data.schema import schema_of_texts
from limbeck.data.sets import DataSet, joined, load, load_file
from limbeck.errors import LimbeckError
from limbeck.experiments.config import Source
from limbeck.experiments.data_table import Data
from limbeck.features.sentences import rule_of_texts
from limbeck.protocol.rows import Rows
from limbeck.protocol.streams import stream


def split_rows(experiment: Source, base: Path = Path()) -> SplitRows:
    """Load the rows of an experiment and split them among its parties.

    Parameters
    ----------
    experiment : Source
        Where the rows come from: named data sets, one file, or one file for each party.
    base : Path
        Folder that paths are relative to.

    Returns
    -------
    SplitRows
        Rows of each party, public rows and test rows.

    Examples
    --------
    >>> source = Source(data={"name": "iris", "parties": 3, "public": 30, "test": 0.2})
    >>> [len(rows) for rows in split_rows(source).private]
    [30, 30, 30]
    """
    config, seed, kind = experiment.data, experiment.seed, experiment.kind
    algorithm, features = (getattr(experiment, key, None) for key in ("algorithm", "features"))
    rule = rule_of_texts(config.text, algorithm, features, base)
    if isinstance(config.name, list):
        assert config.labels is not None
        return _data_set(joined([load(name, rule, kind) for name in config.name], config.labels), config, seed, base)
    if config.name is not None:
        return _data_set(load(config.name, rule, kind), config, seed, base)
    if config.path is not None and Path(config.path).suffix.lower() == ".npz":
        data = replace(load_file(base / config.path, rule, kind), name=Path(config.path).name)
        if config.classes is not None:
            data = data.numbered(config.classes, UNNAMED)
        split = _data_set(data, config, seed, base)
        known = config.limits if data.task == "regression" else config.classes
        return replace(split, classes_are_private=known is None)
    files = Files(
        private=[base / path for path in experiment.files or [str(config.path)]],
        label=config.labels_of_tables,
        task=kind,
        limits=config.limits,
        classes=tuple(config.classes) if config.classes else None,
        schema=base / config.schema_file if config.schema_file else None,
        public=base / config.public.path if isinstance(config.public, FromFile) else None,
        test=base / config.test.path if isinstance(config.test, FromFile) else None,
        text=config.text.column if config.text else None,
        tokens=rule,
        reading=config.reading,
        readings=experiment.readings if experiment.files else (),
        row_id=config.row_id,
        ignore=config.ignore,
        positive=config.positive,
    )
    drawn = config.public if isinstance(config.public, Draw) else None
    own = read_files(files, drawn, seed)
    if config.text and not own.are_tokens:
        raise LimbeckError(f"data.text: {files.private[0]} holds no texts; remove data.text")
    if experiment.files:
        for key, source in (("public", config.public), ("test", config.test)):
            if isinstance(source, Draw):
                raise LimbeckError(
                    f'data.{key}: if each party has a file, it must be a file too: {{ path = "{key}.csv" }}'
                )
        files_of_tests = [base / path if path else None for path in experiment.test_files]
        return _with_own_tests(own.clipped(), files_of_tests, experiment.readings)
    [rows] = own.private
    test_x, test_y = (own.test.x, own.test.y) if own.test else (None, None)
    data = DataSet(files.private[0].name, rows.x, rows.y, own.classes, test_x, test_y, task=own.task.kind)
    split = _split(data, config, seed)
    public = own.public or split.public
    split = replace(split, public=public, classes_are_private=own.classes_are_private, task=own.task)
    return replace(split, schema=own.schema).clipped()


def _with_own_tests(rows: SplitRows, files: Sequence[Path | None], readings: Sequence[Reading]) -> SplitRows:
    """Read the parties' own test rows; without common test rows, all of them together are the test rows."""
    pairs = zip(files, readings, strict=False)  # no files if no party has test rows
    own = tuple(None if path is None else _own_test(path, rows, how) for path, how in pairs)
    there = [each for each in own if each is not None]
    if rows.test is None and there:
        pooled = Rows(np.concatenate([each.x for each in there]), np.concatenate([each.y for each in there]))
        rows = replace(rows, test=pooled)
    return replace(rows, own_tests=own)


def _own_test(path: Path, rows: SplitRows, how: Reading) -> Rows:
    own = private_rows(path, rows.classes, rows.schema, None, rows.task, False, how)
    if own.x.shape[1:] != (shape := rows.private[0].x.shape[1:]):
        raise LimbeckError(f"{path} has rows of shape {own.x.shape[1:]}, the private rows have shape {shape}")
    return own


def _data_set(data: DataSet, config: Data, seed: int, base: Path) -> SplitRows:
    """Split a data set of arrays; its public rows may come from a file of arrays."""
    if isinstance(config.test, FromFile):
        raise LimbeckError(
            "data.test: a test file needs tables of private rows, in data.path or [[party]] data, not arrays"
        )
    if config.text and data.tokens is None:
        raise LimbeckError(f"data.text: {data.name} holds no texts; remove data.text")
    if config.positive is not None:
        data = data.numbered(with_positive_last(data.classes, config.positive), UNNAMED)
    split = _split(data, config, seed).for_task(data.task, config.limits)
    if data.tokens:
        split = replace(split, schema=schema_of_texts(data.tokens, split.classes, split.task))
    if not isinstance(config.public, FromFile):
        return split
    public = load_file(base / config.public.path, data.tokens)
    data.check_kind(public, "data.public")
    return replace(split, public=Rows(as_float(public.x), public.y))


def _split(data: DataSet, config: Data, seed: int) -> SplitRows:
    public, test = (source if isinstance(source, Draw) else None for source in (config.public, config.test))
    parts = draw_parts(data, public, test, seed)
    groups = {name: members[parts.private] for name, members in data.groups.items()}
    labels = classes_for_split(data.y[parts.private], data.task)
    held = config.split.assign(labels, groups, config.parties, stream(seed, "split"))
    first = len(parts.classes) - len(data.classes)  # classes of the public rows come before those of the private rows
    private = [data.rows(parts.private[rows]) for rows in held]
    return SplitRows(
        classes=parts.classes,
        private=[replace(rows, y=rows.y + first) for rows in private] if first else private,
        public=parts.public,
        test=parts.test,
        public_is_labelled=public is not None and (public.name in (None, data.name) or public.labels is not None),
    )
