"""A first experiment: what the files suggest, what is asked, and the file that comes of it."""

import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra tables is not installed")
pytest.importorskip("opendp", reason="the extra privacy is not installed")

sys.path.insert(0, str(Path(__file__).parent.parent / "data"))

from awkward_files import PLAIN, with_column, with_semicolons  # type: ignore[import-not-found]

from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.check import check_experiment
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.looking import UserFiles, look_at
from limbeck.experiments.record import RunRecord
from limbeck.experiments.run import run_file
from limbeck.experiments.starting import Answers, completed, left_out, write_experiment

FIRST, *ROWS = PLAIN.strip().split("\n")


def rows(start: int, stop: int) -> str:
    return "\n".join([FIRST, *ROWS[start:stop], ""])


def unlabelled(start: int, stop: int) -> str:
    """Public rows: neither the ID nor the outcome."""
    return "\n".join(",".join(line.split(",")[1:-1]) for line in rows(start, stop).strip().split("\n")) + "\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    texts = {"a.csv": rows(0, 40), "b.csv": rows(40, 80), "public.csv": unlabelled(80, 120), "test.csv": rows(90, 110)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def seen(here: Path, *names: str, public: str | None = "public.csv", **stated: Any) -> UserFiles:
    return look_at(
        [here / name for name in names or ("a.csv", "b.csv")], here / public if public else None, None, stated
    )


def written(here: Path, files: UserFiles, answers: Answers | None = None) -> dict[str, Any]:
    file = here / "experiment.toml"
    write_experiment(files, completed(files, answers or Answers(models=("decision-tree",))), file)
    return read_toml(file)


def ran(here: Path) -> RunRecord:
    """Check the experiment, then run it."""
    file = here / "experiment.toml"
    table = read_toml(file)
    found = check_experiment(check_table(Experiment, table, str(file)), table, file)
    assert (found.missing_extras, found.warnings) == ((), ())
    return run_file(file, processes=1).record


def test_the_label_and_the_id_are_found(here: Path) -> None:
    table = written(here, seen(here))
    assert table["data"] == {
        "label": "outcome",
        "classes": ["no", "yes"],
        "positive": "yes",
        "id": "patient",
        "public": {"path": "public.csv"},
    }
    assert [party["name"] for party in table["party"]] == ["a", "b"]
    assert ran(here).algorithm == "fedvote"


def test_rows_with_noise_name_their_classes(here: Path) -> None:
    table = written(here, seen(here), Answers(epsilon=2.0, positive="no"))
    assert table["algorithm"] == {"name": "fedridge", "privacy": {"level": "L2", "epsilon": 2.0, "delta": 1e-5}}
    assert (table["data"]["classes"], table["data"]["positive"]) == (["no", "yes"], "no")
    record = ran(here)
    assert (record.real, record.data["classes"]) == (True, ["yes", "no"])


def test_one_format_of_all_files_is_stated(here: Path) -> None:
    for name in ("a.csv", "b.csv", "public.csv"):
        (here / name).write_text(with_semicolons((here / name).read_text()))
    table = written(here, seen(here))
    assert table["data"]["reading"] == {"separator": ";", "decimal": ","}
    ran(here)


def test_each_file_may_have_its_own_format_and_columns(here: Path) -> None:
    (here / "a.csv").write_text(with_semicolons(rows(0, 40)))
    (here / "b.csv").write_text(with_column(rows(40, 80), "ward", ["x y"] * 40))
    table = written(here, seen(here))
    assert "reading" not in table["data"]
    assert table["data"]["ignore"] == ["ward"]
    ran(here)


def test_a_numeric_target(here: Path) -> None:
    table = written(here, seen(here), Answers(label="age", models=("decision-tree", "knn")))
    assert table["data"]["task"] == "regression"
    assert [party["model"]["name"] for party in table["party"]] == ["decision-tree", "knn"]
    ran(here)


def test_a_numeric_target_with_noise_needs_a_range(here: Path) -> None:
    with pytest.raises(LimbeckError, match="--range is missing: 'age' holds numbers"):
        completed(seen(here), Answers(label="age", epsilon=2.0))
    table = written(here, seen(here), Answers(label="age", epsilon=2.0, limits=(0.0, 100.0)))
    assert table["data"]["range"] == [0.0, 100.0]


@pytest.mark.parametrize(("epsilon", "public"), [(0.0, 0.25), (3.0, 30)])
def test_one_file_is_split(here: Path, epsilon: float, public: float) -> None:
    (here / "all.csv").write_text(PLAIN)
    files = seen(here, "all.csv", public=None)
    table = written(here, files, Answers(label="outcome", parties=3, epsilon=epsilon, models=("decision-tree",)))
    assert (table["data"]["path"], table["data"]["parties"], table["data"]["public"]) == ("all.csv", 3, public)
    assert len(ran(here).parties) == 3


def test_remarks_and_unwanted_columns_are_left_out(here: Path) -> None:
    for name, first in (("a.csv", 0), ("b.csv", 40), ("public.csv", 80)):
        text = with_column((here / name).read_text(), "remark", [f"seen by Dr {first + i}" for i in range(40)])
        (here / name).write_text(text)
    files = seen(here)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LimbeckWarning)  # the reason is in the answer
        found = left_out(files, completed(files, Answers(ignore=("sex",))))
    assert found == {"sex": "not wanted", "remark": "empty, or nearly every row has another text"}


def test_names_that_toml_must_quote(here: Path) -> None:
    wild = 'a "b" \\ \x7f = ü'
    for name in ("a.csv", "b.csv"):
        quoted = wild.replace('"', '""')
        (here / name).write_text(with_column((here / name).read_text(), f'"{quoted}"', ["1"] * 40))
    assert written(here, seen(here), Answers(label="outcome"))["data"]["ignore"] == [wild]


def test_paths_are_relative_to_the_file(here: Path) -> None:
    files = seen(here)
    (here / "new").mkdir()
    write_experiment(files, completed(files, Answers(models=("knn",))), here / "new" / "experiment.toml")
    table = tomllib.loads((here / "new" / "experiment.toml").read_text())
    assert [party["data"] for party in table["party"]] == ["../a.csv", "../b.csv"]


def test_only_what_is_missing_is_asked(here: Path) -> None:
    asked = []

    def ask(question: str, proposed: str) -> str:
        asked.append((question.split(" (")[0], proposed))
        return proposed

    found = completed(seen(here), Answers(models=("knn",)), ask)
    assert asked == [
        ("Column to predict", "outcome"),
        ("Column that names the rows", "patient"),
        ("Epsilon for each private row", "0"),
        ("The positive class", "yes"),
    ]
    assert found == Answers("outcome", "patient", positive="yes", epsilon=0.0, models=("knn",))


def test_a_person_may_answer_that_no_column_names_the_rows(here: Path) -> None:
    answers = iter(["none", "0", "yes", "svm"])
    found = completed(seen(here), Answers(label="outcome"), lambda *_: next(answers))
    assert (found.row_id, found.models) == ("", ("svm",))


@pytest.mark.parametrize(
    ("names", "public", "answers", "message"),
    [
        (("a.csv", "b.csv"), None, {}, "--public is missing: public rows are rows without secrets"),
        (("a.csv", "a.csv"), "public.csv", {}, "a.csv is given twice"),
        (("a.csv",), None, {}, "one file: give --parties 3"),
        (
            ("a.csv",),
            None,
            {"parties": 2},
            "--label is missing: name the column to predict; columns: crp, sex, outcome",
        ),
        (("a.csv", "b.csv"), "public.csv", {"parties": 2}, "--parties is for one file"),
        (("a.csv", "b.csv"), "public.csv", {"label": "outcomes"}, "did you mean 'outcome'?"),
        (("a.csv", "b.csv"), "public.csv", {"label": "patient"}, "'patient' has 80 different values, nearly one a row"),
        (("a.csv", "b.csv"), "public.csv", {"row_id": "patients"}, "did you mean 'patient'?"),
        (("a.csv", "b.csv"), "public.csv", {"models": ("svm",) * 3}, "--model: 3 models for 2 parties"),
        (("a.csv", "b.csv"), "public.csv", {"models": ("forest",)}, "unknown model 'forest'"),
        (("a.csv", "b.csv"), "public.csv", {"positive": "maybe"}, "the classes are no, yes"),
        (("a.csv", "b.csv"), "public.csv", {"epsilon": 1.0, "delta": 2.0}, "delta = 2.0"),
        (("a.csv", "b.npz"), "public.csv", {}, "limbeck init is for tables"),
    ],
)
def test_a_wrong_answer_gets_one_line_and_writes_nothing(
    here: Path, names: tuple[str, ...], public: str | None, answers: dict[str, Any], message: str
) -> None:
    with pytest.raises(LimbeckError) as error:
        written(here, seen(here, *names, public=public), Answers(**answers))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (here / "experiment.toml").exists()


def test_rows_that_cannot_be_read_alike_write_nothing(here: Path) -> None:
    (here / "b.csv").write_text(rows(40, 80).replace(",f,", ",f,", 1).replace("60,6.5", "sixty,6.5"))
    with pytest.raises(LimbeckError, match=r"b\.csv: the column 'age' holds 'sixty'"):
        written(here, seen(here))
    assert not (here / "experiment.toml").exists()


def test_a_file_is_never_overwritten(here: Path) -> None:
    (here / "experiment.toml").write_text("seed = 1\n")
    with pytest.raises(LimbeckError, match="exists already"):
        written(here, seen(here))
    assert (here / "experiment.toml").read_text() == "seed = 1\n"


@pytest.mark.parametrize("name", ["a.csv", "b.csv"])
@pytest.mark.parametrize(("yes", "no"), [("YES", "no"), ("yes", "NO"), ("Yes", "No")])
def test_the_positive_class_does_not_follow_the_spelling(here: Path, name: str, yes: str, no: str) -> None:
    for each in ("a.csv", "b.csv"):
        text = (here / each).read_text()
        (here / each).write_text(text.replace(",yes\n", f",{yes}\n").replace(",no\n", f",{no}\n"))
    (here / name).write_text((here / name).read_text().replace(f",{no}\n", ",nO\n", 1))
    with pytest.warns(LimbeckWarning, match="count as one class"):
        data = written(here, seen(here))["data"]
    assert (data["classes"], data["positive"]) == ([no, yes], yes)


def test_without_a_usual_name_the_rarer_class_is_positive_unless_rows_are_protected(here: Path) -> None:
    for each in ("a.csv", "b.csv"):
        text = (here / each).read_text()
        (here / each).write_text(text.replace(",yes\n", ",slow\n").replace(",no\n", ",fast\n"))
    files = seen(here)
    held = [row.split(",")[-1] for each in files.private for row in Path(each.where).read_text().split()[1:]]
    assert completed(files, Answers()).positive == min(("slow", "fast"), key=held.count)
    assert completed(files, Answers(epsilon=1.0)).positive == "slow"


def test_a_file_with_other_words_for_the_classes_is_named(here: Path) -> None:
    text = (here / "b.csv").read_text()
    (here / "b.csv").write_text(text.replace(",yes\n", ",ja\n").replace(",no\n", ",nein\n"))
    with pytest.warns(LimbeckWarning, match=r"b\.csv: no other file has the outcome 'ja' or 'nein'"):
        completed(seen(here), Answers())


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), -1.0])
def test_epsilon_is_a_finite_number(here: Path, epsilon: float) -> None:
    with pytest.raises(LimbeckError, match=r"epsilon = .*: give a finite number"):
        completed(seen(here), Answers(epsilon=epsilon))
