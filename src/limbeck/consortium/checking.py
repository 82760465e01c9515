"""Checks of a party's rows, done once by their owner before the party connects.

The folder records what was checked. The rows are not checked again while a request is answered, because a refusal would
reveal something about them to the server.
"""

import json
from dataclasses import asdict
from typing import Any

from limbeck.algorithms import algorithm_named
from limbeck.consortium.files import write_private
from limbeck.consortium.party import CHECKED, NO_LIMIT, PartyFolder
from limbeck.data.arrays import check_finite
from limbeck.errors import LimbeckError
from limbeck.experiments.weighting import check_uses_weights
from limbeck.privacy.sampling import load_opendp


def check(folder: PartyFolder) -> None:
    """Check the settings, the rows, the model and the ledger, and record that in the folder.

    Parameters
    ----------
    folder : PartyFolder
        The party's folder.

    Raises
    ------
    LimbeckError
        If one of them cannot be used.
    """
    from limbeck.models.smoke_test import smoke_test
    from limbeck.models.tasks import for_task

    settings = folder.settings
    if not settings.is_decided:
        raise LimbeckError(f"{folder.path / 'party.toml'}: {NO_LIMIT}")
    for each in settings.agree:
        kind = algorithm_named(each.algorithm)
        each.bounds(kind)
        if folder.join.class_weights is not None:
            check_uses_weights(kind, [settings.model], None, folder.join.task.kind)
    if settings.noise == "secure" and any("L2" in (each.levels or ()) for each in settings.agree):
        load_opendp()  # at L2 the party draws noise
    facts = _facts(folder)
    folder.read_features(tried=False)
    for file in _files(folder):
        _check_rows(folder, file)
    smoke_test(
        for_task(settings.model, folder.join.task.kind), folder.public(False).x.shape[1:], len(folder.join.classes)
    )
    folder.ledger_store("", None).close()
    _ = folder.secret
    write_private(folder.path / CHECKED, json.dumps(facts, indent=1).encode())


def _files(folder: PartyFolder) -> list[str]:
    """Files of the party's own rows."""
    return [folder.settings.data, *([folder.settings.test] if folder.settings.test is not None else [])]


def _check_rows(folder: PartyFolder, file: str) -> None:
    """Raise unless the rows of a file can be read, have the shape of the public rows, and are finite."""
    x, row = folder.raw_rows(file).x, folder.raw_public.x.shape[1:]
    if x.shape[1:] != row:
        raise LimbeckError(f"{file} has rows of shape {x.shape[1:]}, the public rows have the shape {row}")
    check_finite(x, file)


def is_as_checked(folder: PartyFolder) -> bool:
    """Whether the files of rows and their settings are those that were checked; if none were, check them now."""
    if not (folder.path / CHECKED).exists():
        check(folder)
        return True
    try:
        return bool(json.loads((folder.path / CHECKED).read_bytes()) == _facts(folder))
    except (OSError, ValueError, LimbeckError):
        return False


def _facts(folder: PartyFolder) -> dict[str, Any]:
    """Path, size and time of the files of rows, and the settings that determine what is read from them."""
    settings = {key: folder.table.get(key) for key in ("data", "label", "ignore", "reading", "model")}
    settings["features"] = folder.join.features
    settings["task"] = asdict(folder.join.task)
    found: dict[str, Any] = {**settings, **_state(folder, folder.settings.data)}
    if folder.settings.test is not None:
        found["test"] = _state(folder, folder.settings.test)
    return json.loads(json.dumps(found, default=str))  # type: ignore[no-any-return]


def _state(folder: PartyFolder, file: str) -> dict[str, Any]:
    path = (folder.path / file).resolve()
    try:
        state = path.stat()
    except OSError as error:
        raise LimbeckError(f"cannot read {path}: {error.strerror}") from error
    return {"path": str(path), "size": state.st_size, "changed": state.st_mtime_ns}
