"""Run the benchmarks, store what they measure, and write it into README.md.

LIMBECK_DATA=... python benchmarks/run_all.py run     what this machine can measure, into measured_cpu.json or _gpu.json
python benchmarks/run_all.py page                     README.md from both files
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measured import Measured

HERE = Path(__file__).parent
PAGE, BEGIN, END = HERE / "README.md", "<!-- measured: begin -->", "<!-- measured: end -->"
SCRIPTS = {
    "cpu": ["start", "averaging", "pool", "rounds", "fedkt_adult", "cluster", "votes", "sums", "parties", "network"],
    "gpu": ["gpu"],
}
PACKAGES = ("numpy", "scikit-learn", "torch", "onnxruntime")


def machine() -> dict[str, Any]:
    """What the measurements depend on."""
    found: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if (gpu := gpu_name()) is not None:
        found["gpu"] = gpu
    return found


def gpu_name() -> str | None:
    if find_spec("torch") is None:
        return None
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def commit() -> str:
    """Short name of the version that is measured."""
    shown = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True)
    return shown.stdout.strip() or "unknown"


def run(kind: str, names: list[str]) -> dict[str, Any]:
    """Run scripts one after the other, each in a process of its own; one that fails is reported and left out."""
    found: dict[str, Any] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(), "machine": machine()}
    found |= {"scripts": {}, "failed": []}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or SCRIPTS[kind]:
            print(f"== {name}", flush=True)
            file, began = Path(folder) / f"{name}.json", time.perf_counter()
            ended = subprocess.run([sys.executable, str(HERE / f"{name}.py"), "--json", str(file)])
            if ended.returncode:
                found["failed"].append(name)
                continue
            seconds = round(time.perf_counter() - began, 1)
            found["scripts"][name] = {"seconds": seconds, "rows": json.loads(file.read_text())}
    return found


def store(kind: str, found: dict[str, Any], scripts: dict[str, Any]) -> Path:
    """Write measurements; those of scripts that were not run now stay with the date and version of their own."""
    file = HERE / f"measured_{kind}.json"
    about = {key: found[key] for key in ("date", "commit", "machine")}
    fresh = {name: {**script, **about} for name, script in found["scripts"].items()}
    file.write_text(json.dumps({**scripts, **fresh}, indent=1) + "\n")
    return file


def stored(kind: str) -> dict[str, Any]:
    """Measurements by script."""
    file = HERE / f"measured_{kind}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}".replace(",", " ")


def line(row: Measured) -> str:
    beside = f"{row.beside}: {number(row.other)} {row.unit}" if row.other is not None else ""
    ratio = f"{number(row.ratio)}" if row.ratio is not None else ""
    goal = "" if row.at_most is None else f"{row.at_most:g}: {'met' if row.met else '**not met**'}"
    return f"| {row.what} | {number(row.value)} {row.unit} | {beside} | {ratio} | {goal} |"


def tables() -> Iterator[str]:
    """The part of the page that is made from the measurements."""
    for kind in SCRIPTS:
        for name, script in sorted(stored(kind).items(), key=lambda item: SCRIPTS[kind].index(item[0])):
            about = [f"{key} {value}" for key, value in script["machine"].items()]
            how = ", ".join([script["date"], script["commit"], f"{script['seconds']} s", *about])
            yield f"**`python benchmarks/{name}.py`** ({how})\n"
            yield "| what | Limbeck | beside it | ratio | goal, at most |"
            yield "| --- | ---: | --- | ---: | --- |"
            yield from (line(Measured(**row)) for row in script["rows"])
            yield ""


def page(text: str) -> str:
    """README.md with the tables of the measurements."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n" + "\n".join(tables()) + f"\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "page"])
    parser.add_argument("names", nargs="*", help="scripts to run; default: all of this kind of machine")
    args, failed = parser.parse_args(), []
    if args.what == "run":
        kind = "gpu" if gpu_name() else "cpu"
        began = time.perf_counter()
        found = run(kind, args.names)
        print(f"written: {store(kind, found, stored(kind))}, in {time.perf_counter() - began:.0f} s")
        failed = found["failed"]
    PAGE.write_text(page(PAGE.read_text()))
    if failed:
        sys.exit(f"failed, and left as before: {', '.join(failed)}")


if __name__ == "__main__":
    main()
