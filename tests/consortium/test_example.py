"""`make demo-network`: a server and three parties as programs of their own, from the first folder to the last model."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")
pytest.importorskip("opendp", reason="the extra privacy is not installed")

from limbeck.experiments.result import load
from limbeck.privacy.ledger import read_ledger

EXAMPLE = Path(__file__).parents[2] / "examples" / "network.py"


@pytest.mark.slow
def test_three_parties_end_with_one_model_and_only_noisy_sums_have_left(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    parties = [tmp_path / "demo" / name for name in ("clinic", "lab", "university")]
    found = [load(next((party / "models").glob("*.onnx"))).packed.data for party in parties]
    assert len(set(found)) == 1
    for party in parties:
        rows = [row for _, _, row in read_ledger(party / "ledger.sqlite")]
        assert {row.mechanism for row in rows} == {"gaussian-sum", "post-processing"}
        assert {row.noise for row in rows if row.mechanism == "gaussian-sum"} == {"secure"}
        assert (party / "predicted.csv").read_text().count("\n") == 141
    assert "epsilon is 3.998" in (tmp_path / "demo" / "server" / "runs" / "experiment-1" / "privacy.md").read_text()
