import io

from rich.console import Console

from limbeck.progress import Watcher


def test_a_line_when_piped_and_a_bar_on_a_terminal() -> None:
    piped, terminal = io.StringIO(), io.StringIO()
    assert list(Watcher(Console(file=piped))([1, 2, 3], 3)) == [1, 2, 3]
    assert list(Watcher(Console(file=terminal, force_terminal=True))([1, 2, 3], 3)) == [1, 2, 3]
    assert piped.getvalue().startswith("fitting 3 models: ")
    assert "3/3" in terminal.getvalue()


def test_short_work_that_comes_again_is_reported_once_when_piped() -> None:
    piped = io.StringIO()
    watcher = Watcher(Console(file=piped))
    assert [list(watcher([1], 1)) for _ in range(3)] == [[1]] * 3
    assert list(watcher([1, 2], 2)) == [1, 2]
    assert [line.split(":")[0] for line in piped.getvalue().splitlines()] == ["fitting 1 model", "fitting 2 models"]
