"""What is compared: the file's own method first, methods and swept values as they are written."""

from pathlib import Path
from typing import Any

import pytest

from limbeck.errors import LimbeckError
from limbeck.experiments.plan import ComparedMethod, methods_in, plan

FILE = """
seed = 3
[data]
name = "iris"
parties = 3
public = 0.3
test = 0.2
[model]
name = "naive-bayes"
[algorithm]
name = "fedkt"
subsets = 4
queries = 20
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "e.toml"
    path.write_text(FILE)
    return path


def settings_of(lines: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(line.method, dict(line.swept)) for line in lines]


def algorithm(line: ComparedMethod) -> Any:
    return line.runs[0].experiment.algorithm


def test_the_files_own_method_comes_first_and_seeds_go_on_from_its_own(file: Path) -> None:
    planned = plan(file, ["solo", "pate"], seeds=3)
    assert settings_of(planned.lines) == [("fedkt", {}), ("solo", {}), ("pate", {})]
    assert [cached.experiment.seed for cached in planned.lines[1].runs] == [3, 4, 5]
    assert len(planned.runs) == 9


def test_a_method_keeps_what_it_has_in_common_with_the_file(file: Path) -> None:
    _, pate, fewer = plan(file, ["pate", "fedkt:partitions=1:subsets=2"], seeds=1).lines
    assert algorithm(pate).queries == 20
    assert (algorithm(fewer).partitions, algorithm(fewer).subsets, algorithm(fewer).queries) == (1, 2, 20)


def test_a_line_that_describes_the_same_under_another_name_stays_but_runs_once(file: Path) -> None:
    planned = plan(file, ["fedkt", "fedkt:subsets=4", "solo"], seeds=1)
    assert settings_of(planned.lines) == [("fedkt", {}), ("fedkt:subsets=4", {}), ("solo", {})]
    assert len(planned.runs) == 2


def test_swept_values_are_combined_and_a_method_without_the_key_runs_once(file: Path) -> None:
    planned = plan(file, ["solo"], ["algorithm.partitions=1,2", "data.parties=3,4"], seeds=2)
    assert [line.swept for line in planned.lines if line.method == "fedkt"] == [
        {"algorithm.partitions": s, "data.parties": n} for s in (1, 2) for n in (3, 4)
    ]
    assert len(planned.lines) == 8
    assert len(planned.runs) == (4 + 2) * 2


def test_values_may_be_tables_text_and_switches(file: Path) -> None:
    over = ['data.split={kind="iid"},{kind="dirichlet", beta=0.5, min_rows=2}', "algorithm.consistent=true,false"]
    planned = plan(file, over=over, seeds=1)
    assert [line.swept["algorithm.consistent"] for line in planned.lines] == [True, False, True, False]
    assert [line.runs[0].experiment.data.split.kind for line in planned.lines] == ["iid", "iid", *["dirichlet"] * 2]


def test_methods_are_parted_by_commas_outside_of_brackets() -> None:
    assert methods_in("solo, fedkt:partitions=1:subsets=2,python:mine:Mine:k=[[1,2],[3]]:j='a,b'") == [
        "solo",
        "fedkt:partitions=1:subsets=2",
        "python:mine:Mine:k=[[1,2],[3]]:j='a,b'",
    ]


def test_own_algorithms_are_named_with_their_colons(file: Path) -> None:
    _, own = plan(file, ["python:misbehaving:Moody"], seeds=1).lines
    assert type(algorithm(own)).__name__ == "Moody"


@pytest.mark.parametrize(
    ("methods", "over", "settings_of"),
    [
        (["fedkd1"], [], "unknown algorithm 'fedkd1'"),
        (["fedkt:partitons=1"], [], "unknown key 'partitons'; did you mean 'partitions'"),
        (["fedkt:partitions=0"], [], "e.toml, fedkt:partitions=0: algorithm: partitions = 0: Input should be"),
        (["fedkt:partitions=1:solo"], [], "write a name, then its parameters"),
        (["fedkt:=1"], [], "write a name, then its parameters"),
        (["fedkt:name=solo"], [], "write a name, then its parameters"),
        (['so"lo'], [], 'unknown algorithm .so"lo.'),
        ([], ["seed=1,2"], "every line runs at several seeds already"),
        ([], ["algorithm.partitions"], "write --over key.path=value,value"),
        ([], ["algorithm.partitions=1,,2"], "write --over key.path=value,value"),
        ([], ["data.parties=3", "data.parties=4"], "--over data.parties occurs twice"),
        ([], ["algorithm.partitons=1,2"], "unknown key 'partitons'"),
        ([], ["data.parties=three"], "data.parties"),
    ],
)
def test_what_is_wrong_is_reported_before_anything_runs(
    file: Path, methods: list[str], over: list[str], settings_of: str
) -> None:
    with pytest.raises(LimbeckError, match=settings_of):
        plan(file, methods, over)


def test_empty_methods_and_no_seeds_are_reported(file: Path) -> None:
    with pytest.raises(LimbeckError, match="--with solo,,pate"):
        methods_in("solo,,pate")
    with pytest.raises(LimbeckError, match="--seeds 0"):
        plan(file, seeds=0)


def test_a_setting_of_the_algorithm_is_for_the_methods_that_have_it(file: Path) -> None:
    settings = ["algorithm.queries=20", "algorithm.rounds=2"]  # fedkt has no rounds, fedmd no queries, solo neither
    own, fedmd, solo = plan(file, ["fedmd", "solo"], seeds=1, settings=settings).lines
    assert algorithm(own).queries == 20
    assert algorithm(fedmd).rounds == 2
    assert solo.method == "solo"
    notes = plan(file, ["fedmd", "solo"], seeds=2, settings=settings, over=["data.parties=2,3"]).notes
    assert list(notes) == [
        "algorithm.subsets is not for fedmd, solo: no such key",
        "algorithm.queries is not for fedmd, solo: no such key",
        "algorithm.rounds is not for fedkt, solo: no such key",
    ]
    with pytest.raises(LimbeckError, match="unknown key 'subset'"):
        plan(file, ["fedmd", "solo"], settings=["algorithm.subset=2"])


def test_a_former_key_of_one_method_may_be_a_key_of_another(file: Path) -> None:
    found = plan(file, ["pate", "solo"], seeds=1, settings=["algorithm.teachers=3"])
    assert algorithm(found.lines[1]).teachers == 3
    assert "algorithm.teachers is not for fedkt, solo: no such key" in found.notes
    with pytest.raises(LimbeckError, match=r"e.toml: algorithm: voting is now .* of name = \"fedvote\""):
        plan(file, ["pate", "solo"], settings=["algorithm.voting={}"])  # no method has it


def test_an_error_names_the_compared_method_that_it_is_about(file: Path) -> None:
    with pytest.raises(LimbeckError, match=r"e.toml, pate: algorithm: teachers = 0"):
        plan(file, ["pate"], settings=["algorithm.teachers=0"])


def test_keys_that_another_name_drops_are_noted(file: Path) -> None:
    notes = plan(file, ["fedkt"], seeds=1, settings=["algorithm.name=solo"]).notes
    assert notes[0] == "dropped algorithm.subsets = 4: solo has no such key"
