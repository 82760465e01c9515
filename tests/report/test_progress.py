import io

from rich.console import Console

from limbeck.report.progress import Watcher


def test_a_line_when_piped_and_a_bar_on_a_terminal() -> None:
    piped, terminal = io.StringIO(), io.StringIO()
    assert list(Watcher(Console(file=piped))([1, 2, 3], 3)) == [1, 2, 3]
    assert list(Watcher(Console(file=terminal, force_terminal=True))([1, 2, 3], 3)) == [1, 2, 3]
    assert piped.getvalue().startswith("fitting 3 models: ")
    assert "3/3" in terminal.getvalue()
