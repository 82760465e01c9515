"""Files that only their owner may read, in folders of mode 0700."""

import secrets
from contextlib import suppress
from pathlib import Path

from limbeck.atomic_files import AtomicFile, write_secret
from limbeck.errors import LimbeckError

FOLDER = 0o700
SECRET_BYTES = 32


def new_folder(path: Path) -> Path:
    """Create a folder that only its owner may read; an error if it has files."""
    if path.exists() and any(path.iterdir()):
        raise LimbeckError(f"{path} is not empty: name a new folder")
    return private_folder(path)


def private_folder(path: Path) -> Path:
    """Make a folder readable by its owner only; create it if it does not exist."""
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    path.chmod(FOLDER)
    return path


def write_private(path: Path, data: bytes) -> None:
    """Write a file atomically; only its owner may ever read it."""
    with AtomicFile(path, private=True) as file:
        file.write(data)


def read_or_create_secret(path: Path) -> bytes:
    """Random bytes of a file, which is created if it does not exist."""
    with suppress(FileExistsError):
        write_secret(path, secrets.token_bytes(SECRET_BYTES))
    data = path.read_bytes()
    if len(data) != SECRET_BYTES:
        raise LimbeckError(f"{path} holds {len(data)} bytes, not the {SECRET_BYTES} of a party's secret")
    return data
