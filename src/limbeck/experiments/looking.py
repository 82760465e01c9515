"""A first look at the user's files: which column is the label, which names the rows, and what all files share."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from limbeck.data.columns import ID
from limbeck.data.dates import form_of
from limbeck.data.files import SUFFIXES, read_table
from limbeck.data.label_columns import alike, classes_of, kind_of_tables, labels_of
from limbeck.data.numbers import decimals_of
from limbeck.data.own import ARRAYS
from limbeck.data.reading import reading_in
from limbeck.data.table import Table
from limbeck.errors import LimbeckError
from limbeck.protocol.task import Kind

MIN_CLASSES, MAX_CLASSES = 2, 20  # different values of a column that may be a label
POSITIVE = {"yes", "y", "ja", "j", "oui", "true", "positive", "pos", "ill", "sick", "case", "event", "dead", "died"}
NEGATIVE_NUMBERS = ("0", "-1")  # beside them 1 is the positive class
USUAL = {"separator": ",", "decimal": "."}  # of a plain CSV file
PUBLIC_ROWS = (
    "public rows are rows without secrets that all parties have, with the same columns but for the label; the parties' "
    "predictions on them are what the parties share"
)


@dataclass(frozen=True, slots=True)
class UserFiles:
    """The tables of a user who starts an experiment.

    Parameters
    ----------
    private : tuple of Table
        The file of each party, or one file that is split.
    public : Table or None
        Public rows.
    test : Table or None
        Test rows.
    stated : mapping
        What the user states about how files are read.
    """

    private: tuple[Table, ...]
    public: Table | None = None
    test: Table | None = None
    stated: Mapping[str, Any] | None = None

    @property
    def tables(self) -> list[Table]:
        """All tables."""
        return [*self.private, *filter(None, (self.public, self.test))]

    @property
    def labelled(self) -> list[Table]:
        """Tables that must have labels."""
        return [*self.private, *filter(None, (self.test,))]

    @property
    def common(self) -> list[str]:
        """Columns that all labelled tables have, in the order of the first."""
        return [name for name in self.private[0].columns if all(name in table.columns for table in self.labelled)]

    @property
    def likely_label(self) -> str | None:
        """The only column, beside IDs, that all labelled tables have and the public rows lack; None if not just one."""
        if self.public is None:
            return None
        lacking = [name for name in self.common if name not in self.public.columns and not self._names_rows(name)]
        return lacking[0] if len(lacking) == 1 else None

    @property
    def possible_labels(self) -> list[str]:
        """Columns with so few different values that they may be classes."""
        found = {name: {text for table in self.labelled for text in table.texts(name)} for name in self.common}
        return [name for name, texts in found.items() if MIN_CLASSES <= len(texts - {None}) <= MAX_CLASSES]

    def likely_id(self, label: str) -> str | None:
        """The column that names the rows: all its values differ, and it has the name of an ID or holds codes."""
        return next((name for name in self.common if name != label and self._names_rows(name)), None)

    def _names_rows(self, name: str) -> bool:
        columns = [table.texts(name) for table in self.private]
        if not all(len(set(texts)) == len(texts) > 1 and None not in set(texts) for texts in columns):
            return False
        return ID.fullmatch(name) is not None or all(self._holds_codes(table, name) for table in self.private)

    def _holds_codes(self, table: Table, name: str) -> bool:
        """Whether texts are single words, and neither numbers nor dates."""
        _, others = table.numbers(name)
        texts = table.texts(name)
        is_text = len(others) == len(texts) and not any(" " in text for text in texts)
        return is_text and form_of(texts, table.reading.dates, table.where) is None

    def not_shared(self, label: str) -> list[str]:
        """Columns that some file lacks."""
        every = dict.fromkeys(name for table in self.tables for name in table.columns if name != label)
        return [name for name in every if not all(name in table.columns for table in self.tables)]

    def kind(self, label: str) -> Kind:
        """Whether the label has classes or numbers."""
        for table in self.labelled:
            table.column(label)
        return kind_of_tables(self.labelled, label)

    def classes(self, label: str) -> tuple[str, ...]:
        """Classes of the labels."""
        return classes_of(self.labelled, label)

    def likely_positive(self, label: str, counted: bool) -> str | None:
        """The class of interest of two: by its name, else the rarer one if `counted`; None if there are not two."""
        classes = self.classes(label)
        if len(classes) != 2:
            return None
        named = [name for name in classes if alike(name) in POSITIVE]
        if len(named) == 1:
            return named[0]
        if classes[0] in NEGATIVE_NUMBERS or not counted:
            return classes[1]
        held = Counter(alike(name) for table in self.labelled for name in labels_of(table, label))
        return min(reversed(classes), key=lambda name: held[alike(name)])

    def lonely_classes(self, label: str) -> dict[str, list[str]]:
        """Classes that only one of several files has, by file: other words for the same class, or an error."""
        if len(self.labelled) < 2:
            return {}
        held = {table.where: {alike(name): name for name in labels_of(table, label)} for table in self.labelled}
        times = Counter(name for each in held.values() for name in each)
        lonely = {where: sorted(each[name] for name in each if times[name] == 1) for where, each in held.items()}
        return {where: names for where, names in lonely.items() if names}

    @property
    def reading(self) -> dict[str, Any]:
        """What must be stated about reading: as stated, and what is found alike in all files but is not usual."""
        found = dict(self.stated or {})
        texts = [table for table in self.tables if table.reading.separator is not None]
        separators = {table.reading.separator for table in texts}
        marks = {mark for table in texts for mark in decimals_of(_texts(table))}
        if len(separators) == 1:
            [separator] = separators
            usual = "," if separator == ";" else "."
            decimal = marks.pop() if len(marks) == 1 else usual
            for key, value in (("separator", separator), ("decimal", decimal)):
                if value != USUAL[key]:
                    found.setdefault(key, value)
            if separator == ";" and decimal == ".":
                found.setdefault("decimal", decimal)
        return found


def look_at(
    private: Sequence[Path],
    public: Path | None = None,
    test: Path | None = None,
    stated: Mapping[str, Any] | None = None,
) -> UserFiles:
    """Read the files of a user who starts an experiment.

    Parameters
    ----------
    private : sequence of Path
        The file of each party, or one file that is split.
    public : Path, optional
        File of public rows.
    test : Path, optional
        File of test rows.
    stated : mapping, optional
        What the user states about reading, as in `[data.reading]`.

    Returns
    -------
    UserFiles
        The tables.

    Raises
    ------
    LimbeckError
        If a file is not a table or is given twice, or public rows are missing.
    """
    paths = [*private, *filter(None, (public, test))]
    for path in paths:
        if path.suffix.lower() in ARRAYS:
            raise LimbeckError(
                f"{path}: limbeck init is for tables ({', '.join(SUFFIXES)}); see docs/data.md for arrays"
            )
    known = [path.resolve() for path in paths]
    if twice := next((path for path in paths if known.count(path.resolve()) > 1), None):
        raise LimbeckError(f"{twice} is given twice; each party, the public rows and the test rows have their own file")
    if len(private) > 1 and public is None:
        raise LimbeckError(f"--public is missing: {PUBLIC_ROWS}")
    how = reading_in(stated or {})
    tables = {path: read_table(path, how) for path in paths}
    given = tuple(tables[path] for path in private)
    return UserFiles(given, tables[public] if public else None, tables[test] if test else None, stated)


def _texts(table: Table) -> list[Any]:
    return [column for column in table.columns.values() if column.dtype == object]


def without(files: UserFiles, names: Sequence[str]) -> UserFiles:
    """Leave out columns of all tables.

    Parameters
    ----------
    files : UserFiles
        The tables.
    names : sequence of str
        Names of columns, which need not be there.

    Returns
    -------
    UserFiles
        Tables without these columns.
    """
    return replace(
        files,
        private=tuple(table.without(*names) for table in files.private),
        public=files.public and files.public.without(*names),
        test=files.test and files.test.without(*names),
    )
