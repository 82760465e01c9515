"""The exception and the warning of Limbeck."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class LimbeckError(ValueError):
    """An error that the user can correct.

    The message is one line: what is wrong, where (file, key, party), and what would be right. It is a `ValueError`.

    Examples
    --------
    >>> import limbeck as lb
    >>> try:
    ...     lb.FedKT(subsets=0)
    ... except lb.LimbeckError as error:
    ...     print(error)
    subsets = 0: Input should be greater than or equal to 1
    """


class LimbeckWarning(UserWarning):
    """A warning about something that is allowed but probably not intended.

    Examples
    --------
    >>> import warnings
    >>> import limbeck as lb
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", lb.LimbeckWarning)  # stop instead of printing a warning
    """


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise a `LimbeckError` instead of errors of reading or decoding a file.

    Parameters
    ----------
    path : Path
        The file, which the message names.

    Raises
    ------
    LimbeckError
        If the file cannot be read, or is not UTF-8 text.

    Examples
    --------
    >>> with reading(Path("no.toml")):
    ...     text = Path("no.toml").read_text()
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: cannot read no.toml: No such file or directory
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise LimbeckError(f"{path} is not UTF-8 text") from error
    except OSError as error:
        raise LimbeckError(f"cannot read {path}: {error.strerror or error}") from error


def missing_extra(what: str, extra: str) -> LimbeckError:
    """Make the error for a package that is not installed.

    Parameters
    ----------
    what : str
        What needs the package.
    extra : str
        The extra of Limbeck that installs it.

    Returns
    -------
    LimbeckError
        The error, whose message gives the command that installs the extra.

    Examples
    --------
    >>> print(missing_extra("a picture", "plot"))
    a picture needs the extra `plot`: in Limbeck's folder, pip install -c constraints.txt -e '.[plot]'
    """
    command = f"pip install -c constraints.txt -e '.[{extra}]'"
    return LimbeckError(f"{what} needs the extra `{extra}`: in Limbeck's folder, {command}")


@contextmanager
def located(file: Path) -> Iterator[None]:
    """Name a file in errors about what it describes, unless they name it already.

    Parameters
    ----------
    file : Path
        For example an experiment file.

    Raises
    ------
    LimbeckError
        The error, with the file before its message.

    Examples
    --------
    >>> with located(Path("a.toml")):
    ...     raise LimbeckError("algorithm.queries = 50, but there are 40 public rows; use at most 40")
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: a.toml: algorithm.queries = 50, but there are 40 public rows; use at most 40
    """
    try:
        yield
    except LimbeckError as error:
        if str(file) in str(error):
            raise
        raise LimbeckError(f"{file}: {error}") from error


def shown(value: object, most: int = 100) -> str:
    """Write any value in one short line, for an error message.

    Parameters
    ----------
    value : object
        The value.
    most : int
        The largest number of characters.

    Returns
    -------
    str
        Its `repr`, or its type if that fails.

    Examples
    --------
    >>> shown("long " * 100, most=12)
    "'long long l…"
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a user's object may raise anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else f"{text[:most]}…"


def path_given(given: object, name: str) -> Path:
    """Return an argument that is a path.

    Parameters
    ----------
    given : object
        The argument.
    name : str
        Its name, for the message.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    LimbeckError
        If it is no path.

    Examples
    --------
    >>> path_given(5, "folder")
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: folder must be a path, not 5
    """
    if not isinstance(given, str | os.PathLike):
        raise LimbeckError(f"{name} must be a path, not {shown(given)}")
    return Path(given)


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Suggest a known name for an unknown one.

    Parameters
    ----------
    name : str
        The unknown name.
    choices : iterable of str
        The known names.

    Returns
    -------
    str
        The most similar name as a question, or the list of all names if none is similar.

    Examples
    --------
    >>> did_you_mean("fedkd2", ["fedkd", "solo"])
    "did you mean 'fedkd'?"
    >>> did_you_mean("majority", ["fedkd", "solo"])
    'known: fedkd, solo'
    """
    known = sorted(choices)
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(known)}" if known else "there are none"
