"""A first experiment file for the user's own files: the answers to a few questions, and the file that they give."""

import json
import math
import os
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from limbeck.atomic_files import AtomicFile
from limbeck.data.schema import schema_of
from limbeck.errors import LimbeckError, LimbeckWarning, did_you_mean
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.looking import UserFiles, without
from limbeck.experiments.run import federation_of
from limbeck.experiments.splitting import split_rows
from limbeck.privacy.over_runs import check_site_names

PUBLIC_SHARE, TEST_SHARE = 0.25, 0.2
NO_ANSWER = "none"
SHOWN = 5  # classes in a warning
Prompt = Callable[[str, str], str]  # a question and the proposed answer


@dataclass(frozen=True, slots=True)
class Answers:
    """What a user decides before a first experiment; None is not decided yet.

    Parameters
    ----------
    label : str, optional
        Column to predict.
    row_id : str, optional
        Column that names the rows; empty if there is none.
    ignore : tuple of str
        Columns to leave out.
    positive : str, optional
        Class of interest, one of two.
    limits : tuple of two floats, optional
        Public range of a numeric target.
    epsilon : float, optional
        Epsilon for each row; 0 for no protection.
    delta : float
        Delta of epsilon.
    models : tuple of str
        Names of models: one for all parties, or one for each.
    parties : int, optional
        Number of parties among which one file is split.
    """

    label: str | None = None
    row_id: str | None = None
    ignore: tuple[str, ...] = ()
    positive: str | None = None
    limits: tuple[float, float] | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    models: tuple[str, ...] = ()
    parties: int | None = None


def completed(files: UserFiles, answers: Answers, ask: Prompt | None = None) -> Answers:
    """Complete the answers: ask for those that are missing, or take what the files suggest.

    Parameters
    ----------
    files : UserFiles
        The tables.
    answers : Answers
        What the user stated.
    ask : callable, optional
        Asks a question with a proposed answer; None takes the proposals.

    Returns
    -------
    Answers
        With a label, and all other answers.

    Raises
    ------
    LimbeckError
        If an answer is missing and cannot be found, or does not suit the files.
    """
    _check_number_of_parties(files, answers, asked=ask is not None)
    seen = without(files, answers.ignore)
    label = answers.label or _label(seen, ask)
    if label not in seen.common:
        raise LimbeckError(f"label: not all files have a column {label!r}; {did_you_mean(label, seen.common)}")
    _warn_of_lonely_classes(files, label)
    answers = replace(answers, label=label)
    if answers.row_id is None:
        found = seen.likely_id(label) or ""
        row_id = ask("Column that names the rows (nothing is learned from it)", found or NO_ANSWER) if ask else found
        answers = replace(answers, row_id="" if row_id == NO_ANSWER else row_id)
    if answers.row_id and answers.row_id not in seen.common:
        raise LimbeckError(
            f"id: not all files have a column {answers.row_id!r}; {did_you_mean(answers.row_id, seen.common)}"
        )
    if answers.epsilon is None:
        text = ask("Epsilon for each private row (0: no noise, for a first try)", "0") if ask else "0"
        answers = replace(answers, epsilon=_number(text, "epsilon"))
    if not math.isfinite(answers.epsilon or 0) or (answers.epsilon or 0) < 0:
        raise LimbeckError(f"epsilon = {answers.epsilon}: give a finite number above 0, or 0 for no noise")
    if answers.positive is None:
        answers = replace(answers, positive=_positive(files, label, answers, ask))
    if ask and not answers.models and not answers.epsilon and files.kind(label) != "regression":
        answers = replace(answers, models=(ask("Model of the parties", "random-forest"),))
    if ask and len(files.private) == 1 and answers.parties is None:
        answers = replace(
            answers, parties=int(_number(ask("Number of parties to split the file among", "3"), "parties"))
        )
    if answers.epsilon and answers.limits is None and files.kind(label) == "regression":
        answers = replace(answers, limits=_limits(label, ask))
    return answers


def _check_number_of_parties(files: UserFiles, answers: Answers, asked: bool) -> None:
    several = len(files.private)
    if several > 1 and answers.parties is not None:
        raise LimbeckError(f"--parties is for one file, which is split; each of these {several} files is a party")
    if several == 1 and answers.parties is None and not asked:
        raise LimbeckError("one file: give --parties 3 to split it among three parties, or the file of each party")
    parties = several if several > 1 else answers.parties or len(answers.models)
    if len(answers.models) > 1 and len(answers.models) != parties:
        raise LimbeckError(f"--model: {len(answers.models)} models for {parties} parties; give one, or one for each")


def _label(files: UserFiles, ask: Prompt | None) -> str:
    proposed, columns = files.likely_label, files.possible_labels or files.common
    if ask:
        proposal = proposed or (columns[-1] if columns else "")
        return ask(f"Column to predict ({', '.join(columns)})" if not proposed else "Column to predict", proposal)
    if proposed is None:
        raise LimbeckError(f"--label is missing: name the column to predict; columns: {', '.join(columns) or 'none'}")
    return proposed


def _positive(files: UserFiles, label: str, answers: Answers, ask: Prompt | None) -> str | None:
    """Class of interest of two; private rows are counted for it only if nothing protects them."""
    if files.kind(label) == "regression":
        return None
    likely = files.likely_positive(label, counted=not answers.epsilon)
    if likely is None or ask is None:
        return likely
    return ask(f"The positive class ({', '.join(files.classes(label))})", likely)


def _warn_of_lonely_classes(files: UserFiles, label: str) -> None:
    if files.kind(label) == "regression":
        return
    for where, names in files.lonely_classes(label).items():
        more = f" and {len(names) - SHOWN} others" if len(names) > SHOWN else ""
        warnings.warn(
            f"{where}: no other file has the {label} {' or '.join(map(repr, names[:SHOWN]))}{more}; if they are "
            "other words for the classes of the other files, write the same words",
            LimbeckWarning,
            stacklevel=3,
        )


def _limits(label: str, ask: Prompt | None) -> tuple[float, float]:
    if ask is None:
        raise LimbeckError(
            f"--range is missing: {label!r} holds numbers; with an epsilon give the lowest and the highest number that "
            "may be public, such as --range 0,100"
        )
    return limits_in(ask(f"Lowest and highest number of {label}, which become public (such as 0,100)", ""))


def limits_in(text: str) -> tuple[float, float]:
    """Range from text.

    Examples
    --------
    >>> limits_in("0,100")
    (0.0, 100.0)
    """
    numbers = [_number(part, "range") for part in text.split(",")]
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise LimbeckError(f"range: {text!r}: write the lowest and a higher number, such as 0,100")
    return numbers[0], numbers[1]


def _number(text: str, key: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise LimbeckError(f"{key}: {text!r} is not a number") from error


def write_experiment(files: UserFiles, answers: Answers, file: Path) -> None:
    """Write an experiment file, if its rows can be read and its noise can be calibrated.

    Parameters
    ----------
    files : UserFiles
        The tables.
    answers : Answers
        Complete answers.
    file : Path
        The new file.
    """
    check_new(file)
    text = experiment_text(files, answers, file)
    table = tomllib.loads(text)
    experiment = check_table(Experiment, table, str(file))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimbeckWarning)  # limbeck check shows them
        federation_of(experiment, table, split_rows(experiment, file.parent), base=file.parent).planned()
    try:
        with AtomicFile(file) as output:
            output.write(text.encode())
    except OSError as error:
        raise LimbeckError(f"cannot write {file}: {error.strerror or error}") from error


def check_new(file: Path) -> None:
    """Raise LimbeckError if a file exists already, or cannot become an experiment."""
    if file.exists():
        raise LimbeckError(f"{file} exists already; give another name with --out, or remove it")
    if not file.parent.is_dir():
        raise LimbeckError(f"{file}: the folder {file.parent} does not exist; make it first")
    if file.suffix != ".toml":
        raise LimbeckError(f"{file}: the name of an experiment ends in .toml")


def experiment_text(files: UserFiles, answers: Answers, file: Path) -> str:
    """Write the text of an experiment file.

    Parameters
    ----------
    files : UserFiles
        The tables.
    answers : Answers
        Complete answers.
    file : Path
        The file that it will be; paths in it are relative to its folder.

    Returns
    -------
    str
        TOML with comments.
    """
    assert answers.label is not None
    parts = [
        f"# Written by limbeck init. Next: limbeck check {file.name}, then limbeck run {file.name}\n\nseed = 0\n",
        "\n[data]\n" + _lines(_data(files, answers, file)),
        _model(files, answers),
        _algorithm(files, answers),
        *_parties(files, answers, file),
    ]
    return "".join(parts)


def _model(files: UserFiles, answers: Answers) -> str:
    """Table `[model]`; none for FedRidge, which trains none."""
    if not answers.models and (answers.epsilon or files.kind(str(answers.label)) == "regression"):
        return ""
    name = answers.models[0] if answers.models else "random-forest"
    whose = "the server" if len(answers.models) > 1 else "every party"
    return f"\n[model]                   # of {whose}\nname = {_toml(name)}\n"


def _data(files: UserFiles, answers: Answers, file: Path) -> list[tuple[str, Any, str]]:
    """Keys of `[data]`, their values, and comments."""
    assert answers.label is not None
    label, one = answers.label, len(files.private) == 1
    found: list[tuple[str, Any, str]] = []
    if one:
        found += [("path", _relative(files.private[0].where, file), "split among the parties, to try methods")]
        found += [("parties", answers.parties, "")]
    found += [("label", label, "the column to predict"), *_target(files, answers)]
    if answers.row_id:
        found += [("id", answers.row_id, "names the rows; nothing is learned from it")]
    ignored = left_out(files, answers)
    if ignored:
        found += [("ignore", list(ignored), "; ".join(dict.fromkeys(ignored.values())))]
    if files.reading:
        found += [("reading", files.reading, "how all files are written")]
    return found + _public_and_test(files, answers, file)


def _target(files: UserFiles, answers: Answers) -> list[tuple[str, Any, str]]:
    label = str(answers.label)
    if files.kind(label) == "regression":
        comment = "numbers outside count as the nearest one; it becomes public"
        limits = [("range", list(answers.limits), comment)] if answers.limits else []
        return [("task", "regression", "the label is a number"), *limits]
    classes = list(files.classes(label))
    if 2 * len(classes) > sum(map(len, files.labelled)):
        raise LimbeckError(
            f"label: {label!r} has {len(classes)} different values, nearly one a row; name another column"
        )
    found: list[tuple[str, Any, str]] = [("classes", classes, "found in the labels of these files; they become public")]
    if answers.positive is not None:
        found.append(("positive", answers.positive, "the class of interest; metrics such as sensitivity are about it"))
    return found


def left_out(files: UserFiles, answers: Answers) -> dict[str, str]:
    """Columns from which nothing is learned, each with the reason.

    Parameters
    ----------
    files : UserFiles
        The tables.
    answers : Answers
        Complete answers.

    Returns
    -------
    dict of str to str
        Reasons by column: not wanted, not in all files, or empty or nearly unique in the public rows.
    """
    label, row_id = str(answers.label), answers.row_id or None
    found = dict.fromkeys(answers.ignore, "not wanted")
    found |= {name: "not in all files" for name in files.not_shared(label) if name not in (row_id, *found)}
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", LimbeckWarning)
        schema = schema_of(files.public or files.private[0], label, (), None, "multiclass", None, row_id, tuple(found))
    for each in noted:  # those about other columns than the ones that are left out
        if not any(f"the column {name!r}" in str(each.message) for name in schema.ignored):
            warnings.warn(str(each.message), each.category, stacklevel=2)
    return found | {name: "empty, or nearly every row has another text" for name in schema.ignored if name not in found}


def _public_and_test(files: UserFiles, answers: Answers, file: Path) -> list[tuple[str, Any, str]]:
    rows = len(files.private[0])
    drawn: Any = max(1, round(PUBLIC_SHARE * rows)) if answers.epsilon else PUBLIC_SHARE
    what = "a number" if answers.epsilon else "a share"
    public = (
        ("public", {"path": _relative(files.public.where, file)}, "rows that all parties have; no secrets")
        if files.public
        else ("public", drawn, f"{what} of the file's rows, which become public")
    )
    if files.test:
        return [public, ("test", {"path": _relative(files.test.where, file)}, "rows that test the final model")]
    return [
        public,
        *([("test", TEST_SHARE, "a share of the file's rows tests the models")] if len(files.private) == 1 else []),
    ]


def _algorithm(files: UserFiles, answers: Answers) -> str:
    if answers.epsilon:
        privacy = {"level": "L2", "epsilon": answers.epsilon, "delta": answers.delta}
        return (
            "\n# FedRidge: each party sends one sum over its rows, with noise that hides each row (level L2).\n"
            "# A smaller epsilon protects better. FedRidge trains no models.\n"
            f'[algorithm]\nname = "fedridge"\nprivacy = {_toml(privacy)}\n'
        )
    if files.kind(str(answers.label)) == "regression":
        if answers.models:
            why = "each party sends its model's predictions on the public rows, here without noise"
            return f'\n# FedKD: {why}.\n[algorithm]\nname = "fedkd"\nmechanism = "none"\n'
        why = "each party sends one sum over its rows, here without noise"
        return f'\n# FedRidge: {why}.\n[algorithm]\nname = "fedridge"\n'
    return (
        "\n[algorithm]\n"
        'name = "fedvote"          # each party sends its model\'s predictions on the public rows, without noise;\n'
        '                          # with noise for each row: name = "fedridge",\n'
        '                          # privacy = { level = "L2", epsilon = 3.0, delta = 1e-5 }\n'
    )


def _parties(files: UserFiles, answers: Answers, file: Path) -> list[str]:
    several = len(files.private) > 1
    if not several and len(answers.models) < 2:
        return []
    stems = [Path(table.where).stem for table in files.private]
    named = several and _are_names(stems)
    found = []
    for index in range(len(files.private) if several else len(answers.models)):
        keys: dict[str, Any] = {"index": index}
        if several:
            keys |= {**({"name": stems[index]} if named else {}), "data": _relative(files.private[index].where, file)}
        if len(answers.models) > 1:
            keys["model"] = {"name": answers.models[index]}
        found.append("\n[[party]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items()))
    return found


def _are_names(stems: list[str]) -> bool:
    try:
        check_site_names(stems)
    except LimbeckError:
        return False
    return True


def _relative(where: str, file: Path) -> str:
    path = Path(where)
    return Path(os.path.relpath(path.parent.resolve() / path.name, file.parent.resolve())).as_posix()


def _lines(keys: list[tuple[str, Any, str]]) -> str:
    """Lines of a table, with the comments in one column."""
    lines = [f"{key} = {_toml(value)}" for key, value, _ in keys]
    width = max((len(line) for line in lines if len(line) < 60), default=0)
    return "".join(
        f"{line:{width}}   # {comment}\n" if comment else f"{line}\n"
        for line, (_, _, comment) in zip(lines, keys, strict=True)
    )


def _toml(value: Any) -> str:
    """A value as TOML in one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
