"""Named data sets: those of scikit-learn, and NAME.npz files in the folder that LIMBECK_DATA names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from limbeck.data.arrays import as_float, check_arrays, column_names, data_folder, read_arrays
from limbeck.data.labels import check_numbers, check_several, columns_into, kind_of
from limbeck.data.mosaics import MOSAICS, mosaics_of
from limbeck.data.texts import holds_texts, texts_in, with_tokens
from limbeck.data.tokens import Tokens
from limbeck.errors import LimbeckError, did_you_mean
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.task import Kind

EMBEDDED = {
    "digits": "load_digits",
    "breast-cancer": "load_breast_cancer",
    "wine": "load_wine",
    "iris": "load_iris",
    "diabetes": "load_diabetes",
}
DIGITS_WHITE = 16
Labels = Literal["own", "shared"]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set with its classes and groups.

    Parameters
    ----------
    name : str
        Name of the set.
    x : array of shape (rows, ...)
        Training rows as stored; the method `rows` converts them to float32.
    y : array of shape (rows,) or (rows, classes)
        Labels: indices into `classes`; several labels a row as 1, 0 and -1 (unknown); or numbers.
    classes : tuple of str
        All classes; for numbers the name of the target.
    test_x : array of shape (test rows, ...), optional
        Official test rows.
    test_y : array of shape (test rows,), optional
        Labels of the official test rows.
    groups : mapping of str to array of shape (rows,)
        Groups of the training rows, for example the writer of each row.
    whole : str
        The stored set that the rows belong to.
    parts : frozenset of str, optional
        Classes of the stored set that the rows belong to; by default all.
    joined : tuple of DataSet
        The sets that this one joins, if there are several.
    tokens : Tokens, optional
        Rule that made the rows from texts.
    task : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    """

    name: str
    x: Array
    y: Array
    classes: tuple[str, ...]
    test_x: Array | None = None
    test_y: Array | None = None
    groups: Mapping[str, Array] = field(default_factory=dict)
    whole: str = ""
    parts: frozenset[str] | None = None
    joined: tuple["DataSet", ...] = ()
    tokens: Tokens | None = None
    task: Kind = "multiclass"

    def shares_rows_with(self, other: "DataSet") -> bool:
        """Whether both sets may contain the same stored row."""
        if self.joined:
            return any(part.shares_rows_with(other) for part in self.joined)
        if other.joined:
            return other.shares_rows_with(self)
        if not self.whole or self.whole != other.whole:
            return False
        return self.parts is None or other.parts is None or bool(self.parts & other.parts)

    def check_kind(self, other: "DataSet", key: str) -> None:
        """Raise LimbeckError unless the rows of both sets are texts, or are not, and have the same shape."""
        if (self.tokens is None) != (other.tokens is None):
            text, numbers = (self, other) if self.tokens else (other, self)
            raise LimbeckError(f"{key}: rows of {text.name} are texts, those of {numbers.name} are not")
        if other.x.shape[1:] != self.x.shape[1:]:
            raise LimbeckError(
                f"{key}: rows of {other.name} have the shape {other.x.shape[1:]}, "
                f"those of {self.name} {self.x.shape[1:]}"
            )

    def numbered(self, classes: Sequence[str], lack: str = "") -> "DataSet":
        """Copy whose labels are indices into other classes. Unnamed columns of several labels are in their order.

        Parameters
        ----------
        classes : sequence of str
            New classes; they must include those of the set.
        lack : str
            End of the error message if they do not.

        Returns
        -------
        DataSet
            The same rows with new labels.
        """
        is_unnamed = self.classes == tuple(map(str, range(len(classes)))) and not set(self.classes) <= set(classes)
        if self.task == "regression" or (self.task == "multilabel" and is_unnamed):
            return replace(self, classes=tuple(classes))
        for name in self.classes:
            if name not in classes:
                raise LimbeckError(f"{self.name} holds the class {name!r}{lack}")
        numbers = np.array([classes.index(name) for name in self.classes])

        def renumbered(y: Array) -> Array:
            return numbers[y] if self.task == "multiclass" else columns_into(y, numbers, len(classes))

        test_y = None if self.test_y is None else renumbered(self.test_y)
        return replace(self, classes=tuple(classes), y=renumbered(self.y), test_y=test_y)

    def rows(self, index: Any = ...) -> Rows:
        """Training rows of these indices as float32; by default all."""
        return Rows(as_float(self.x[index]), self.y[index])

    def test_rows(self, index: Any = ...) -> Rows:
        """Official test rows of these indices as float32; by default all."""
        assert self.test_x is not None
        assert self.test_y is not None
        return Rows(as_float(self.test_x[index]), self.test_y[index])

    @property
    def official_test(self) -> int:
        """Number of official test rows."""
        return 0 if self.test_x is None else len(self.test_x)


@dataclass(frozen=True, slots=True)
class View:
    """Some classes of a stored set, each made of one or several stored classes.

    The stored classes remain available as the group `subclass`.

    Parameters
    ----------
    whole : str
        Name of the stored set.
    classes : mapping of str to tuple of str
        Stored classes of each class of the view.
    inverted : bool
        Invert byte images. Ink and paper are the other way round in FEMNIST than in MNIST.
    """

    whole: str
    classes: Mapping[str, tuple[str, ...]]
    inverted: bool = False

    def of(self, data: DataSet) -> DataSet:
        """Rows of a stored set that belong to the view, with the view's classes."""
        names = [name for name, parts in self.classes.items() if set(parts) & set(data.classes)]
        number = {stored: position for position, name in enumerate(names) for stored in self.classes[name]}
        renumbered = np.array([number.get(stored, -1) for stored in data.classes])
        y = renumbered[data.y]
        test_y = None if data.test_y is None else renumbered[data.test_y]
        return DataSet(
            name=f"{data.name} {names[0]} to {names[-1]}",
            x=self._seen(data.x[y >= 0]),
            y=y[y >= 0],
            classes=tuple(names),
            test_x=None if data.test_x is None or test_y is None else self._seen(data.test_x[test_y >= 0]),
            test_y=None if test_y is None else test_y[test_y >= 0],
            groups={"subclass": data.y[y >= 0], **{name: of[y >= 0] for name, of in data.groups.items()}},
            whole=data.whole,
            parts=frozenset(number),
        )

    def _seen(self, x: Array) -> Array:
        return 255 - x if self.inverted else x


CIFAR_SUPERCLASSES = {
    "aquatic mammals": (4, 30, 55, 72, 95),
    "fish": (1, 32, 67, 73, 91),
    "flowers": (54, 62, 70, 82, 92),
    "food containers": (9, 10, 16, 28, 61),
    "fruit and vegetables": (0, 51, 53, 57, 83),
    "household electrical devices": (22, 39, 40, 86, 87),
}
VIEWS = {
    "femnist-digits": View("femnist", {str(digit): (str(digit),) for digit in range(10)}, inverted=True),
    "femnist-letters": View(
        "femnist", {letter: (str(10 + i), str(36 + i)) for i, letter in enumerate("abcdef")}, inverted=True
    ),
    "cifar100-subclasses": View("cifar100", {str(fine): (str(fine),) for fine in (0, 2, 20, 63, 71, 82)}),
    "cifar100-superclasses": View(
        "cifar100", {name: tuple(map(str, fine)) for name, fine in CIFAR_SUPERCLASSES.items()}
    ),
}


def names() -> list[str]:
    """Names of all data sets that `load` can load now, embedded sets first."""
    folder = data_folder()
    stored = sorted(path.stem for path in folder.glob("*.npz")) if folder else []
    views = [view for view in VIEWS if VIEWS[view].whole in stored]
    known = {*stored, *views}
    return [*EMBEDDED, *stored, *views, *(name for name in MOSAICS if MOSAICS[name].source in known)]


def load(name: str, tokens: Tokens | None = None, task: Kind | None = None) -> DataSet:
    """Load a data set by name, and check it.

    Parameters
    ----------
    name : str
        An embedded set, a stored set, or a view of one.
    tokens : Tokens, optional
        Rule for the rows of a set of texts.
    task : {"multiclass", "multilabel", "regression"}, optional
        Kind of the labels; by default found from them.

    Returns
    -------
    DataSet
        A set whose rows and labels have matching lengths and no NaN or infinity.

    Examples
    --------
    >>> iris = load("iris")
    >>> iris.x.shape, iris.classes
    ((150, 4), ('setosa', 'versicolor', 'virginica'))
    """
    if name in EMBEDDED:
        return _of_task(_embedded(name), task)
    if name in VIEWS:
        return _of_task(VIEWS[name].of(load(VIEWS[name].whole)), task)
    if name in MOSAICS:
        return _of_task(_mosaics(name), task)
    path = path_of(name)
    return _from_arrays(name, path, read_arrays(path), tokens, task)


def _mosaics(name: str) -> DataSet:
    """Mosaics of a named set, with the labels of some classes."""
    made = MOSAICS[name]
    source = load(made.source)
    classes, known = source.classes[made.first : made.last + 1], slice(made.first, made.last + 1)
    parts = [(source.x, source.y, "train"), (source.test_x, source.test_y, "test")]
    (x, y), *tested = [
        mosaics_of(x, y, len(source.classes), part) for x, y, part in parts if x is not None and y is not None
    ]
    test_x, test_y = tested[0] if tested else (None, None)
    test_y = None if test_y is None else test_y[:, known]
    whole = {"whole": source.whole, "parts": source.parts, "task": "multilabel"}
    return DataSet(name, x, y[:, known], classes, test_x, test_y, **whole)  # type: ignore[arg-type]


def _of_task(data: DataSet, task: Kind | None) -> DataSet:
    if task not in (None, data.task):
        raise LimbeckError(f'data.task = "{task}": {data.name} is for "{data.task}"')
    return data


def joined(sets: Sequence[DataSet], labels: Labels) -> DataSet:
    """Join several data sets into one, with a group `domain` for the set of each row.

    Parameters
    ----------
    sets : sequence of DataSet
        Sets of the same row shape, without common rows.
    labels : {"shared", "own"}
        Classes of one name are one class (shared), or every set has its own classes (own).

    Returns
    -------
    DataSet
        All rows.
    """
    for one, other in combinations(sets, 2):
        one.check_kind(other, "data.name")
        if other.task != one.task:
            raise LimbeckError(f"data.name: {one.name} is for {one.task}, {other.name} for {other.task}")
        if other.shares_rows_with(one):
            raise LimbeckError(f"data.name: rows of {other.name} are rows of {one.name} too; name only one of them")
    if labels == "own":
        sets = [replace(data, classes=tuple(f"{data.name} {name}" for name in data.classes)) for data in sets]
    classes = tuple(dict.fromkeys(name for data in sets for name in data.classes))
    sets = [data.numbered(classes) for data in sets]
    tested = [data.test_rows() for data in sets if data.official_test]
    return DataSet(
        name=" and ".join(data.name for data in sets),
        x=np.concatenate([as_float(data.x) for data in sets]),
        y=np.concatenate([data.y for data in sets]),
        classes=classes,
        test_x=np.concatenate([rows.x for rows in tested]) if tested else None,
        test_y=np.concatenate([rows.y for rows in tested]) if tested else None,
        groups={"domain": np.repeat(np.arange(len(sets)), [len(data.x) for data in sets])},
        joined=tuple(sets),
        task=sets[0].task,
        tokens=sets[0].tokens,
    )


def path_of(name: str) -> Path:
    """Path of the file of a stored data set; an error if there is none."""
    folder = data_folder()
    path = folder / f"{name}.npz" if folder else None
    if path is None or not path.is_file() or path.parent != folder:
        hint = "" if folder else " (LIMBECK_DATA is not set, so only the embedded sets are known)"
        raise LimbeckError(f"unknown data set {name!r}; {did_you_mean(name, names())}{hint}")
    return path


def rows_in(path: Path) -> Array:
    """Rows of an NPY file, or of `x`, `x_train` or `x_test` of an NPZ file; labels are not needed."""
    if path.suffix.lower() != ".npz":
        return load_file(path).x
    if not path.is_file():
        raise LimbeckError(f"cannot read {path}: no such file")
    arrays = read_arrays(path)
    for key in ("x", "x_train", "x_test"):
        if key in arrays:
            if arrays[key].ndim < 2 or arrays[key].dtype.kind not in "fiub":
                raise LimbeckError(f"{path}: {key} must hold numbers in at least two dimensions")
            return arrays[key]
    raise LimbeckError(f"{path} has no array x, x_train or x_test; it has {', '.join(sorted(arrays))}")


def is_file_of_texts(path: Path) -> bool:
    """Whether a file is an NPZ file of texts."""
    return path.suffix.lower() == ".npz" and path.is_file() and holds_texts(read_arrays(path))


def file_of_texts(path: Path, length: int) -> list[str] | None:
    """Texts of an NPZ file, its test rows if it has no training rows; None if it holds no texts."""
    arrays = read_arrays(path)
    part = next((part for part in ("train", "test") if f"text_{part}.bytes" in arrays), None)
    return None if part is None else texts_in(arrays, part, length, str(path))


def load_file(path: Path, tokens: Tokens | None = None, task: Kind | None = None) -> DataSet:
    """Read a data set from a file of arrays.

    Parameters
    ----------
    path : Path
        An NPZ file with `x_train` (or texts) and `y_train`, or an NPY file of rows without labels.
    tokens : Tokens, optional
        Rule for the rows of a set of texts.
    task : {"multiclass", "multilabel", "regression"}, optional
        Kind of the labels; by default found from them.

    Returns
    -------
    DataSet
        The set. Rows of an NPY file are memory-mapped and have the class "unlabelled".
    """
    if not path.is_file():
        raise LimbeckError(f"cannot read {path}: no such file")
    if path.suffix.lower() == ".npz":
        return _from_arrays(str(path), path, read_arrays(path), tokens, task)
    try:
        x = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise LimbeckError(f"{path} is not an NPY file of plain numbers") from error
    if not x.ndim:
        raise LimbeckError(f"{path} has a single value, not rows")
    arrays = {"x_train": x, "y_train": np.zeros(len(x), np.int64)}
    check_arrays(path, "train", arrays)
    return DataSet(str(path), x, arrays["y_train"], ("unlabelled",))


def _embedded(name: str) -> DataSet:
    import sklearn.datasets

    bunch: Any = getattr(sklearn.datasets, EMBEDDED[name])()
    x = bunch.images / DIGITS_WHITE if name == "digits" else bunch.data
    if name == "diabetes":
        return DataSet(name, x.astype(np.float32), bunch.target, ("progression",), whole=name, task="regression")
    return DataSet(name, x.astype(np.float32), bunch.target, tuple(map(str, bunch.target_names)), whole=name)


def _from_arrays(
    name: str, path: Path, arrays: dict[str, Array], tokens: Tokens | None = None, wanted: Kind | None = None
) -> DataSet:
    tokens = (tokens or Tokens()) if holds_texts(arrays) else None
    arrays = with_tokens(arrays, tokens, str(path)) if tokens else arrays
    for key in ("x_train", "y_train"):
        if key not in arrays:
            raise LimbeckError(f"{path} has no array {key}; it has {', '.join(sorted(arrays))}")
    if "x_test" not in arrays:
        arrays.pop("y_test", None)
    for part in ("train", "test"):
        if f"x_{part}" in arrays:
            check_arrays(path, part, arrays)
    groups = {
        key.removesuffix("_train"): value
        for key, value in arrays.items()
        if key.endswith("_train") and key not in ("x_train", "y_train") and value.shape == (len(arrays["x_train"]),)
    }
    test_x, train, test = arrays.get("x_test"), arrays["y_train"], arrays.get("y_test", arrays["y_train"])
    task = wanted or kind_of(train, f"{path}: y_train")
    if (task == "multilabel") != (train.ndim == 2):
        raise LimbeckError(f'{path}: y_train has the shape {train.shape}, which is not for task = "{task}"')
    if task == "multiclass":
        labels = np.unique(np.concatenate([train, test]))
        names = tuple(map(str, labels))
        train, test = np.searchsorted(labels, train), np.searchsorted(labels, test)
    elif task == "multilabel":
        names = column_names(path, arrays)
        train, test = check_several(train, f"{path}: y_train"), check_several(test, f"{path}: y_test")
    else:
        names = ("target",)
        train, test = check_numbers(train, f"{path}: y_train"), check_numbers(test, f"{path}: y_test")
    test_y = None if test_x is None else test
    return DataSet(name, arrays["x_train"], train, names, test_x, test_y, groups, name, task=task, tokens=tokens)
