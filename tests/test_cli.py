"""The program as its users call it: in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck import __version__
from program import limbeck

EXPERIMENT = """
[data]
name = "iris"
parties = 3
public = 0.3
test = 0.2
[model]
name = "random-forest"
n_estimators = 5
[algorithm]
name = "fedkt"
subsets = 2
"""


HEADLINE = re.compile(r"\S+\.toml: \S+ on .+, ")  # what a run does, before anything is checked


def arguments_in(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield name, parameter
    for each, inner in getattr(command, "commands", {}).items():
        yield from arguments_in(inner, f"{name} {each}")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    return tmp_path


def check_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One line on stderr, after the first line of a run; nothing on stdout, not 0, no traceback."""
    assert done.returncode not in (0, None)
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not HEADLINE.match(line)]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("limbeck: ")
    assert all(word in lines[0] for word in words), done.stderr


def test_run_writes_a_folder_and_prints_one_json_object(here: Path) -> None:
    done = limbeck(here, "run", "e.toml", "--json", "--out", "out", "--set", "algorithm.subsets=3")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert {"algorithm", "accuracy", "balanced_accuracy", "constant", "parties", "bytes", "rounds", "seconds"} <= set(
        answer
    )
    assert answer["epsilon"] is None
    assert answer["delta"] == 0
    assert answer["run"] == "out"
    assert [set(party) >= {"index", "rows", "model"} for party in answer["parties"]] == [True] * 3
    assert set(answer["bytes"]) == {"up", "down"}
    record = json.loads((here / "out" / "record.json").read_text())
    assert record["metrics"]["accuracy"] == answer["accuracy"]
    assert record["config"]["algorithm"]["subsets"] == 3
    assert (here / "out" / "model.onnx").stat().st_size > 0
    assert sorted(path.name for path in here.iterdir()) == ["e.toml", "out"]


def test_run_for_people_and_another_algorithm(here: Path) -> None:
    done = limbeck(here, "run", "e.toml", "--set", "algorithm.name=solo", "--processes", "1")
    assert done.returncode == 0, done.stderr
    assert "dropped algorithm.subsets = 2: solo has no such key" in done.stderr
    assert "constant predictor's accuracy" in done.stdout
    assert sorted(path.name for path in (here / "runs/e-solo-1/models").iterdir()) == [f"party-{p}.onnx" for p in range(3)]  # fmt: skip


def test_a_users_own_model_lies_beside_the_experiment(here: Path) -> None:
    (here / "mine.py").write_text(
        "from sklearn.tree import DecisionTreeClassifier as tree\ndef small(): return tree(max_depth=2)"
    )
    done = limbeck(here, "run", "e.toml", "--json", "--set", 'model={ name = "python:mine:small" }')
    assert done.returncode == 0, done.stderr
    assert {party["model"] for party in json.loads(done.stdout)["parties"]} == {"python:mine:small"}


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="no /dev/stdin here")
def test_an_experiment_can_come_from_a_pipe(here: Path) -> None:
    """A pipe can be read only once."""
    experiment = (
        'data = { name = "digits", parties = 2, public = 0.2, test = 0.2 }\n'
        'model = { name = "naive-bayes" }\nalgorithm = { name = "fedvote" }\n'
    )
    command = [sys.executable, "-m", "limbeck", "run", "/dev/stdin", "--out", "there"]
    done = subprocess.run(command, cwd=here, input=experiment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (here / "there" / "record.json").exists()


def test_help_describes_arguments(here: Path) -> None:
    done = limbeck(here, "run", "--help")
    assert done.returncode == 0, done.stderr
    assert "An experiment (TOML)." in done.stdout


def test_every_argument_has_a_help_text() -> None:
    from typer.main import get_command

    from limbeck.cli import app

    found = list(arguments_in(get_command(app), "limbeck"))
    assert len(found) > 10
    assert [(command, argument.name) for command, argument in found if not argument.help] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nope.toml"], ["nope.toml", "No such file"]),
        (["run", "e.toml", "--set", "data.partis=3"], ["e.toml", "'partis'", "'parties'"]),
        (["run", "e.toml", "--set", "model.name=random-forst"], ["'random-forst'", "'random-forest'"]),
        (["run", "e.toml", "--set", "model.max_dept=3"], ["e.toml: ", "'max_dept'", "'max_depth'"]),
        (["run", "e.toml", "--set", "data.name=irys"], ["e.toml: ", "'irys'", "'iris'"]),
        (["run", "e.toml", "--set", "algorithm.name=fedk"], ["'fedk'", "'fedkt'"]),
        (
            ["run", "e.toml", "--set", "algorithm.subsets=99"],
            ["e.toml: ", "a party has 25 rows, fewer than 99 subsets", "use at most 25"],
        ),
        (
            ["run", "e.toml", "--set", 'data.split={kind="dirichlet", min_rows=99}'],
            ["e.toml: ", "75 private rows", "min_rows = 25"],
        ),
        (["run", "e.toml", "--set", "data.public=5000"], ["e.toml: ", "data.public = 5000", "150"]),
        (
            ["run", "e.toml", "--set", 'data.public={name="digits", rows=9}'],
            ["e.toml: ", "data.public", "(8, 8)", "(4,)"],
        ),
        (["run", "e.toml", "--out", "e.toml/x"], ["cannot write to e.toml/x"]),
        (["run", "e.toml", "--out", "."], ["exists already"]),
        (["run", "e.toml", "--nonsense"], ["--nonsense"]),
        (["nonsense"], ["nonsense"]),
        (["data", "show", "irys"], ["'iris'"]),
        (["data", "split", "irys"], ["'iris'"]),
    ],
)
def test_bad_input_gets_one_line(here: Path, arguments: list[str], words: list[str]) -> None:
    quick = ["--processes", "1"] if arguments[0] == "run" else []
    check_refused(limbeck(here, *arguments, *quick), *words)
    assert [path.name for path in here.iterdir()] == ["e.toml"]


def test_nan_rows_get_one_line(here: Path, save: Callable[..., Path]) -> None:
    x = np.random.default_rng(0).random((50, 2))
    x[7, 1] = np.nan
    path = save("holes", x_train=x, y_train=np.arange(50) % 2)
    check_refused(limbeck(here, "run", "e.toml", "--set", "data.name=holes", "--processes", "1"), str(path), "row 7")


@pytest.mark.slow
def test_a_full_disk_keeps_nothing(here: Path) -> None:
    """A real one: a file system of 16 kB, where mounting is allowed."""
    tiny = here / "tiny"
    tiny.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tiny)], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs needs privileges that this user lacks")
    try:
        done = limbeck(here, "run", "e.toml", "--json", "--out", "tiny/run", "--set", "model.n_estimators=300")
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith("limbeck: cannot write tiny/run: No space left on device")
        assert done.stdout == ""
        assert list(tiny.iterdir()) == []
    finally:
        subprocess.run(["umount", str(tiny)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("after", [1.0, 4.0])
def test_ctrl_c_leaves_nothing(here: Path, after: float) -> None:
    """SIGINT to the whole group, as a terminal sends it; again where a library swallowed it, as a person would do.

    A shell tells 130 either way: Python ends itself by the signal when it came inside an `exec` of some library's
    import, though it was caught.
    """
    command = [sys.executable, "-m", "limbeck", "run", "e.toml", "--set", "model.n_estimators=20000"]
    started = subprocess.Popen(
        command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    time.sleep(after)
    os.killpg(started.pid, signal.SIGINT)
    try:
        out, err = started.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGINT)
        out, err = started.communicate(timeout=60)
    assert started.returncode in (130, -signal.SIGINT), err
    assert err.splitlines() == ["limbeck: interrupted; nothing was written"]
    assert out == ""
    assert [path.name for path in here.iterdir()] == ["e.toml"]


@pytest.mark.slow
def test_a_polite_kill_leaves_nothing(here: Path) -> None:
    """The program handles it like Ctrl-C, and ends in one of the same two ways."""
    command = [sys.executable, "-m", "limbeck", "run", "e.toml", "--set", "model.n_estimators=20000"]
    started = subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(4)
    started.send_signal(signal.SIGTERM)
    _, err = started.communicate(timeout=60)
    assert started.returncode in (130, -signal.SIGINT), err
    assert err.splitlines() == ["limbeck: interrupted; nothing was written"]
    assert [path.name for path in here.iterdir()] == ["e.toml"]


@pytest.mark.slow
def test_what_a_model_prints_is_not_our_answer(here: Path) -> None:
    done = limbeck(
        here,
        "run",
        "e.toml",
        "--json",
        "--set",
        "algorithm.name=solo",
        "--set",
        'model={ name = "svm", verbose = true }',
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["algorithm"] == "solo"


@pytest.mark.slow
def test_data_commands(here: Path, save: Callable[..., Path]) -> None:
    save("mine", x_train=np.zeros((6, 2)), y_train=np.arange(6) % 3, writer_train=np.arange(6))
    save("broken", x_train=np.zeros((6, 2)))
    listed = limbeck(here, "data", "list").stdout
    assert all(name in listed for name in ("digits", "breast-cancer", "wine", "iris", "mine"))
    assert "not usable" in listed
    shown = limbeck(here, "data", "show", "mine").stdout
    assert "6 training and 0 official test rows" in shown
    assert "writer: 6" in shown
    split = limbeck(here, "data", "split", "e.toml", "--picture", "split.png")
    assert "75 private, 45 public, 30 test rows" in split.stdout
    assert (here / "split.png").read_bytes().startswith(b"\x89PNG")
    assert "150 private" in limbeck(here, "data", "split", "iris", "--set", "data.parties=4").stdout


def test_version_and_help_need_no_heavy_library(here: Path) -> None:
    assert limbeck(here, "--version").stdout == f"limbeck {__version__}\n"
    assert "demo" in limbeck(here, "--help").stdout
    program = (
        "import sys, limbeck, limbeck.cli; print(*sorted({'numpy', 'sklearn', 'onnx', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "\n"


SITES = """
[data]
label = "kind"
public = { path = "files/public.csv" }
test = { path = "files/site-2.csv" }
[model]
name = "decision-tree"
[[party]]
index = 1
data = "files/site-1.csv"
model = { name = "logistic-regression" }
[[party]]
index = 0
data = "files/site-0.csv"
[algorithm]
name = "fedkt"
subsets = 2
"""


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    """Three sites that know different categories, and public rows that know all of them."""
    folder = tmp_path / "federation" / "files"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, colors in (("site-0", "rg"), ("site-1", "gb"), ("site-2", "rgb"), ("public", "rgb")):
        lines = [(rng.normal(), rng.choice(list(colors))) for _ in range(120)]
        rows = [f"{size:.3f},{color},{'big' if size + (color == 'g') > 0.5 else 'small'}" for size, color in lines]
        header, ends = (
            ("size,colour,kind", rows) if name != "public" else ("size,colour", [r.rsplit(",", 1)[0] for r in rows])
        )
        (folder / f"{name}.csv").write_text("\n".join([header, *ends]) + "\n")
    (tmp_path / "federation" / "sites.toml").write_text(SITES)
    return tmp_path


@pytest.mark.slow
def test_a_federation_of_files_and_its_predictions(sites: Path) -> None:
    done = limbeck(sites, "run", "federation/sites.toml", "--json", "--out", "out")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [party["model"] for party in answer["parties"]] == ["decision-tree", "logistic-regression"]
    assert answer["accuracy"] > 0.8 > answer["constant"]
    done = limbeck(sites, "predict", "out/model.onnx", "federation/files/site-2.csv", "-o", "predicted.csv")
    assert done.returncode == 0, done.stderr
    predicted = (sites / "predicted.csv").read_text().splitlines()
    truth = [line.rsplit(",", 1)[1] for line in (sites / "federation/files/site-2.csv").read_text().splitlines()[1:]]
    assert predicted[0] == "prediction,p(big),p(small)"
    hits = [line.split(",")[0] == kind for line, kind in zip(predicted[1:], truth, strict=True)]
    assert sum(hits) / len(hits) == pytest.approx(answer["accuracy"])
    printed = limbeck(sites, "predict", "out/model.onnx", "federation/files/public.csv").stdout
    assert len(printed.splitlines()) == 121


@pytest.mark.slow
def test_predictions_that_cannot_be_made_get_one_line(sites: Path) -> None:
    assert limbeck(sites, "run", "federation/sites.toml", "--json", "--out", "out").returncode == 0
    (sites / "other.csv").write_text("size,color\n1,r\n")
    (sites / "noise.onnx").write_text("hello")
    check_refused(limbeck(sites, "predict", "out/model.onnx", "other.csv"), "other.csv", "'color'")
    check_refused(limbeck(sites, "predict", "nowhere.onnx", "other.csv"), "nowhere.onnx", "No such file")
    check_refused(limbeck(sites, "predict", "noise.onnx", "other.csv"), "noise.onnx", "not a usable ONNX model")
    check_refused(
        limbeck(sites, "predict", "out/model.onnx", "federation/files/public.csv", "-o", "no/where.csv"), "no/where.csv"
    )
    assert not (sites / "no").exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("data.name=iris", ["rows come from one of", "data.name, [[party]] data"]),
        ("data.public=0.5", ["data.public", 'it must be a file too: { path = "public.csv" }']),
        ("data.label=kid", ["no column 'kid'", "'kind'"]),
        ("party.0.data=nowhere.csv", ["nowhere.csv", "No such file"]),
        ("party.0.index=2", ["index = 2, but there are 2 parties"]),
    ],
)
def test_wrong_files_get_one_line(sites: Path, setting: str, words: list[str]) -> None:
    check_refused(limbeck(sites, "run", "federation/sites.toml", "--processes", "1", "--set", setting), *words)


@pytest.mark.slow
def test_compare_answers_in_every_form_and_keeps_its_page(here: Path) -> None:
    command = ["compare", "e.toml", "--with", "solo,fedkt:subsets=999", "--seeds", "2"]
    answers = {form: limbeck(here, *command, form) for form in ("--json", "--csv", "--markdown")}
    assert all(done.returncode == 0 for done in answers.values()), answers
    fedkt, solo, fails = json.loads(answers["--json"].stdout)["lines"]
    assert fedkt["accuracy"]["mean"] > 0.5
    assert fedkt["accuracy"]["deviation"] >= 0
    assert (fedkt["epsilon"], solo["epsilon"]) == ({"server": None, "parties": None}, {})
    assert "fewer than 999 subsets" in fails["why_not"]
    head, fedkt, solo, fails = (line.split(",") for line in answers["--csv"].stdout.splitlines())
    assert dict(zip(head, fedkt, strict=False))["epsilon"] == "inf"
    assert dict(zip(head, solo, strict=False))["rounds"] == "0.0"
    assert "subsets" in fails[-1]
    assert "| solo |" in answers["--markdown"].stdout
    assert "fewer than 999 subsets" in answers["--markdown"].stdout
    files = {path.name for path in (here / "results").iterdir()}
    pictures = {"e-compare-rounds.png", "e-compare-bytes.png"}
    assert {"runs", "e-compare.md", "e-compare.json", "e-compare.csv"} | pictures <= files


@pytest.mark.slow
def test_sweep_shows_people_a_table_and_draws_what_was_swept(here: Path) -> None:
    done = limbeck(here, "sweep", "e.toml", "--over", "algorithm.partitions=1,2", "--seeds", "1", "--with", "solo")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines if line[:1] in (["fedkt"], ["solo"])] == [
        ["fedkt", "1"],
        ["fedkt", "2"],
        ["solo", "1"],
        ["solo", "2"],
    ]
    assert (here / "results/e-sweep-algorithm.partitions.png").exists()


@pytest.mark.slow
def test_results_from_elsewhere_are_merged_and_not_run_again(here: Path) -> None:
    limbeck(here, "compare", "e.toml", "--seeds", "1", "--out", "elsewhere", "--processes", "1")
    merged = limbeck(here, "results", "merge", "elsewhere")
    assert merged.stdout == "elsewhere: 1 new, 0 here already\n"
    again = limbeck(here, "compare", "e.toml", "--seeds", "1")
    assert again.returncode == 0
    assert "running" not in again.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "e.toml", "--with", "fedtk"], ["unknown algorithm 'fedtk'", "fedkt"]),
        (["compare", "e.toml", "--json", "--csv"], ["choose one"]),
        (["compare", "no.toml"], ["cannot read no.toml"]),
        (["compare", "e.toml", "--out", "e.toml"], ["cannot write to e.toml"]),
        (["sweep", "e.toml"], ["--over"]),
        (["sweep", "e.toml", "--over", "data.partys=1,2"], ["'partys'", "'parties'"]),
        (["results", "merge", "nowhere"], ["nowhere is not a results folder"]),
    ],
)
def test_wrong_comparisons_get_one_line(here: Path, arguments: list[str], words: list[str]) -> None:
    check_refused(limbeck(here, *arguments), *words)
    assert sorted(path.name for path in here.iterdir()) == ["e.toml"]


@pytest.mark.slow
def test_epsilon_by_every_accountant(here: Path) -> None:
    arguments = ["privacy", "epsilon", "--mechanism", "laplace", "--gamma", "0.05", "--queries", "40"]
    answer = json.loads(limbeck(here, *arguments, "--json").stdout)
    assert (answer["accountant"], answer["delta"], answer["data_dependent"]) == ("pld", 1e-5, False)
    assert answer["epsilon"] == min(answer["all"].values()) == answer["all"]["pld"]
    assert answer["all"]["moments"] == pytest.approx(3.2391, abs=5e-5)
    twice = json.loads(
        limbeck(here, *arguments, "--partitions", "2", "--unit", "example", "--orders", "32", "--json").stdout
    )
    assert twice["all"]["moments"] == pytest.approx(4.7026, abs=5e-5)
    heavy = json.loads(limbeck(here, *arguments, "--partitions", "2", "--json").stdout)
    assert heavy["all"]["kov"] > twice["all"]["kov"]
    shown = limbeck(here, *arguments, "--classes", "2", "--voters", "25").stdout
    assert "binary" in shown
    assert "1.178" in shown


@pytest.mark.slow
def test_a_tiny_epsilon_is_not_printed_as_0(here: Path) -> None:
    arguments = ["privacy", "epsilon", "--mechanism", "laplace", "--gamma", "5e-10", "--queries", "1"]
    done = limbeck(here, *arguments, "--accountant", "basic")
    assert "1e-09 at delta 1e-05" in " ".join(done.stdout.split())


def test_epsilon_from_votes_is_marked_as_private(here: Path) -> None:
    np.save(here / "votes.npy", np.array([[50, 0]] * 30 + [[45, 5]] * 40 + [[35, 15]] * 30))
    arguments = ["privacy", "epsilon", "--mechanism", "laplace", "--gamma", "0.1", "--votes", "votes.npy"]
    moments = json.loads(limbeck(here, *arguments, "--accountant", "moments", "--json").stdout)
    assert moments["epsilon"] == pytest.approx(4.6604, abs=5e-5)
    assert moments["data_dependent"] is True
    best = json.loads(limbeck(here, *arguments, "--json").stdout)
    assert best["data_dependent"] is False
    assert "as private as they are" in limbeck(here, *arguments).stdout


@pytest.mark.slow
def test_wrong_privacy_queries_get_one_line(here: Path) -> None:
    np.save(here / "nan.npy", np.array([[3, 4], [5, np.nan]]))
    wrong = {
        "--mechanism laplace --gamma 0 --queries 4": ["gamma must be above 0"],
        "--mechanism laplace --gamma 1 --votes nan.npy": ["nan.npy: row 1"],
        "--mechanism gaussian --sigma 1 --queries 4 --accountant kov": ["kov: gaussian"],
        "--mechanism laplace --gamma 1 --queries 4 --accountant kof": ["unknown accountant", "'kov'"],
    }
    for arguments, words in wrong.items():
        check_refused(limbeck(here, "privacy", "epsilon", *arguments.split()), *words)


def test_wrong_privacy_settings_get_one_line_and_spend_nothing(here: Path) -> None:
    settings = ("algorithm.privacy={level='L1', gamma=0.0}", "algorithm.queries=999", "budget=3")
    message = (["algorithm", "gamma = 0"], ["queries = 999", "45 public rows"], ["budget = {"])
    for setting, words in zip(settings, message, strict=True):
        check_refused(limbeck(here, "run", "e.toml", "--processes", "1", "--set", setting), *words)
        assert sorted(path.name for path in here.iterdir()) == ["e.toml"]
