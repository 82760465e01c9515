from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Rows
from limbeck.report.pictures import class_counts, save_split_picture, split_table

COUNTS = np.array([[100, 0, 1], [25, 3, 0]])


def test_counts() -> None:
    x = np.zeros((3, 1))
    parties = [Rows(x, np.array([0, 0, 2])), Rows(x, np.array([1, 1, 1]))]
    assert class_counts(parties, 4).tolist() == [[2, 0, 1, 0], [0, 3, 0, 0]]


def test_more_is_darker_and_none_is_a_dot() -> None:
    console = Console(width=60)
    with console.capture() as capture:
        console.print(split_table(COUNTS, ["a", "b", "c"]))
    first, second = capture.get().splitlines()[-2:]
    assert first.split() == ["0", "101", "100", "█", "·", "1", "░"]
    assert second.split() == ["1", "28", "25", "▒", "3", "░", "·"]


def test_many_classes_become_a_strip_that_fits() -> None:
    counts = np.arange(3 * 62).reshape(3, 62) * 1000
    console = Console(width=80)
    with console.capture() as capture:
        console.print(split_table(counts, [str(i) for i in range(62)], console.width))
    lines = capture.get().splitlines()
    assert all(len(line) <= 80 and "…" not in line for line in lines)
    assert lines[-1].split()[-1].endswith("█")


def test_a_png(tmp_path: Path) -> None:
    save_split_picture(COUNTS, ["a", "b", "c"], tmp_path / "split.png")
    assert (tmp_path / "split.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(LimbeckError, match="cannot write"):
        save_split_picture(COUNTS, ["a", "b", "c"], tmp_path / "nowhere" / "split.png")
