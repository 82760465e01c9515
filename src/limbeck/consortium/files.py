"""Files that only their owner may read: mode 0600 in folders of mode 0700."""

import os
import secrets
from pathlib import Path

from limbeck.atomic_files import AtomicFile, make_private
from limbeck.errors import LimbeckError

FILE, FOLDER = 0o600, 0o700
SECRET_BYTES = 32


def private_folder(path: Path) -> Path:
    """The folder, made where it is missing, readable by its owner only."""
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    path.chmod(FOLDER)
    return path


def private_file(path: Path) -> Path:
    """The file, made empty where it is missing, readable by its owner only."""
    make_private(path)
    path.chmod(FILE)
    return path


def write_private(path: Path, data: bytes) -> None:
    """Write a whole file at once; it is readable by its owner only, from the start."""
    with AtomicFile(path, private=True) as file:
        file.write(data)


def kept_secret(path: Path) -> bytes:
    """The random bytes of a file, which is made where it is missing."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE)
    except FileExistsError:
        pass
    else:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
    data = path.read_bytes()
    if len(data) != SECRET_BYTES:
        raise LimbeckError(f"{path} holds {len(data)} bytes, not the {SECRET_BYTES} of a party's secret")
    return data
