"""The comparison of two versions of Limbeck by `benchmarks/snapshot.py`."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "snapshot.py"
ROW = {"mechanism": "gaussian", "parameters": {"sigma": 9.0, "apart": 2.0}}
CASES: dict[str, Any] = {"fedkt": {"accuracy": 0.5, "ledger": [[ROW, 3]]}, "solo": {"accuracy": 0.25, "ledger": []}}


@pytest.fixture(scope="module")
def snapshot() -> Any:
    spec = spec_from_file_location("snapshot", SCRIPT)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compared(snapshot: Any, folder: Path, before: Any, after: Any) -> int:
    for name, cases in (("before", before), ("after", after)):
        (folder / name).write_text(json.dumps(cases))
    found = snapshot.compare(folder / "before", folder / "after")
    assert isinstance(found, int)
    return found


def test_a_difference_or_a_case_that_is_gone_fails_and_a_new_case_does_not(snapshot: Any, tmp_path: Path) -> None:
    assert compared(snapshot, tmp_path, CASES, CASES) == 0
    assert compared(snapshot, tmp_path, {"fedkt": CASES["fedkt"]}, CASES) == 0
    assert compared(snapshot, tmp_path, CASES, {"fedkt": CASES["fedkt"]}) == 1
    assert compared(snapshot, tmp_path, CASES, CASES | {"solo": {"accuracy": 0.3, "ledger": []}}) == 1


@pytest.mark.parametrize("whole", [True, False])
def test_former_names_are_read_and_what_has_no_counterpart_is_refused(
    snapshot: Any, tmp_path: Path, whole: bool
) -> None:
    row = {"mechanism": "gaussian", "parameters": {"sigma": 9.0, "l2_sensitivity": 2.0, "whole": whole}}
    former = CASES | {"fedkt": {"accuracy": 0.5, "ledger": [[row, 3]]}}
    if whole:
        assert compared(snapshot, tmp_path, former, CASES) == 0
    else:
        with pytest.raises(SystemExit, match="fedkt: noise on counts that are not whole cannot be compared"):
            compared(snapshot, tmp_path, former, CASES)
