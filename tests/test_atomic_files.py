from pathlib import Path

import pytest

from limbeck.atomic_files import AtomicFile


def write(path: Path, fails: bool) -> None:
    with AtomicFile(path) as file:
        file.write(b"half")
        if fails:
            raise KeyboardInterrupt


def test_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "x", fails=True)
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "deep" / "x", fails=False)
    assert (tmp_path / "deep" / "x").read_bytes() == b"half"
    assert (tmp_path / "deep" / "x").stat().st_mode & 0o444 == 0o444
