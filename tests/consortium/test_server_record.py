"""What the record of a run between organisations says, and what stays at the server."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")

from limbeck.consortium.coordinator import _record, _write
from limbeck.consortium.experiment import PreparedRun, prepare_run
from limbeck.data.sets import load
from limbeck.engines.flower.engine import Consortium, Flower
from limbeck.engines.journal import Journal
from limbeck.engines.traffic import RequestTraffic
from limbeck.models.jobs import Fit
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.mechanisms import Laplace, PostProcessing, Unprotected
from limbeck.protocol.algorithm import Outcome
from limbeck.protocol.release import Asked, release_row
from limbeck.protocol.site import Site
from limbeck.report.statement import statement

NAMES = {0: "north", 1: "south"}
TIMING = {"run": "adult-1-3f2a", "date": "2026-01-31"}
REFUSAL = "refused: the level was not agreed"
REJECTED = "values from -2.2 to 1.4, outside of -1 to 1"


def plan(folder: Path, privacy: str) -> PreparedRun:
    iris = load("iris")
    np.savez(folder / "public.npz", x_train=iris.x[::5], y_train=iris.y[::5])
    np.savez(folder / "test.npz", x_train=iris.x[1::5], y_train=iris.y[1::5])
    file = folder / "experiment.toml"
    file.write_text(
        '[data]\npublic = "public.npz"\ntest = "test.npz"\nclasses = ["0", "1", "2"]\n[model]\n'
        f'name = "decision-tree"\n[algorithm]\nname = "fedkt"\nprivacy = {privacy}\n'
    )
    return prepare_run(file)


def written(folder: Path, privacy: str, level: str, size: int) -> dict[str, Any]:
    """The files of a run of two requests; replies to the first were of this size."""
    read = plan(folder, privacy)
    site = Site(public=read.public_rows, classes=3, model=read.configuration.model, seed=0, trainer=PoolTrainer(1))
    journal = Journal(folder / f"{size}.sqlite", new=True)
    journal.note(0, 1, REFUSAL)
    consortium = Consortium("run", read.terms(2), {0: b"", 1: b""})
    engine = Flower(read.configuration.algorithm, site, consortium, cast(Any, None), journal, 1.0, 2)
    seen: Any = PostProcessing() if level == "L2" else Unprotected()
    rows = [release_row(f"party {party}", 0, 0, "students", seen, "server", Asked()) for party in NAMES]
    noisy = release_row("party 1", 0, 1, "labels", Laplace(0.1, "example"), "public", Asked(5, 3, 3))  # from a seed
    engine.releases = [asdict(row) for row in [*rows, *[noisy] * (level == "L2")]]
    engine.rejections = [f"request 0: party 0: {REJECTED}"] * (level != "L0")
    engine.traffic.exchanges = [
        RequestTraffic("TrainStudents", {0: 90, 1: 90}, {0: size, 1: 700}, True, False, 1.5, ()),
        RequestTraffic("InstallModel", {0: 800, 1: 800}, {0: 60, 1: 60}, False, True, 0.5, ()),
    ]
    public = read.public
    [model] = site.train([Fit(site.model, public.x, np.arange(len(public)) % 3)])
    home = folder / f"home-{size}"
    record, owner = _record(read, engine, Outcome(model), NAMES, journal, TIMING | {"seconds": float(size)})
    _write(home, read, Outcome(model), record, owner)
    return {path.name: path.read_bytes() for path in home.iterdir()} | {"statement": statement(record)}


PRIVATE = {"L1": '{ level = "L1", epsilon = 2.0 }', "L2": '{ level = "L2", epsilon = 2.0 }'}


def test_the_size_of_an_unprotected_reply_and_the_seconds_stay_at_the_server(tmp_path: Path) -> None:
    one, two = (written(tmp_path, PRIVATE["L1"], "L1", size) for size in (4835, 5917))
    assert one.pop("owner.json") != two.pop("owner.json")
    assert one == two
    record = json.loads(one["record.json"])
    assert record["real"]
    assert record["bytes"] == {"up": None, "down": 1780}
    assert [exchange["up"] for exchange in record["exchanges"]] == [None, None], "any turn from the first on"
    assert record["metrics"] is not None
    assert record["timing"] == {"engine": "flower", **TIMING}
    assert [party["name"] for party in record["parties"]] == ["north", "south"]


def test_the_server_keeps_the_rest_for_itself(tmp_path: Path) -> None:
    files = written(tmp_path, PRIVATE["L1"], "L1", 4835)
    owner = json.loads(files["owner.json"])
    assert owner["bytes"]["up"] == 4835 + 700 + 120
    assert owner["timing"]["seconds"] == 4835
    assert owner["remarks"] == [f"turn 0: south: {REFUSAL}"]
    assert REFUSAL not in files["record.json"].decode()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "home-4835").iterdir()}
    assert set(modes.values()) == {0o600}
    assert "`owner.json` is for the server only" in files["statement"]


def test_sizes_of_what_was_released_are_reported(tmp_path: Path) -> None:
    record = json.loads(written(tmp_path, PRIVATE["L2"], "L2", 4835)["record.json"])
    assert record["bytes"] == {"up": 4835 + 700 + 120, "down": 1780}


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_what_was_wrong_with_a_reply_stands_in_no_private_record(tmp_path: Path, level: str) -> None:
    """Not even where a party says of itself that its noise came from a seed."""
    assert REJECTED not in written(tmp_path, PRIVATE[level], level, 4835)["record.json"].decode()


def test_a_run_without_privacy_withholds_nothing(tmp_path: Path) -> None:
    files = written(tmp_path, '{ level = "L0" }', "L0", 4835)
    assert "owner.json" not in files
    record = json.loads(files["record.json"])
    assert record["bytes"]["up"] == 4835 + 700 + 120
    assert record["timing"]["seconds"] == 4835
    assert record["remarks"] == [f"turn 0: south: {REFUSAL}"]
