"""What every algorithm gives at every level, to compare two versions of Limbeck: model bits, ledger, epsilon, accuracy.

    .venv/bin/python benchmarks/snapshot.py take snapshot.json     # under three minutes on two cores
    .venv/bin/python benchmarks/snapshot.py compare benchmarks/snapshot.json snapshot.json

Digits and breast-cancer, five unlike parties, simulated noise, one seed. A case is a method with its parameters.
"""

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError
from limbeck.experiments.config import Experiment, check_table
from limbeck.experiments.run import run_experiment

FOREST = {"name": "random-forest", "n_estimators": 10, "max_depth": 6}
NETWORK = {"name": "torch-mlp", "hidden": [16], "recipe": {"epochs": 3}}
SHORT = {"epochs": 2, "batch": 32}
FEDMD = {"rounds": 3, "alignment": 60, "pretrain": SHORT, "fine_tune": SHORT, "digest": SHORT, "revisit": SHORT}
KD = {"local": SHORT, "distil": {"epochs": 3, "batch": 64}}


def private(level: str, **noise: Any) -> dict[str, Any]:
    return {"privacy": {"level": level, **noise}}


def vote(**parameters: Any) -> dict[str, Any]:
    return {"name": "fedvote", **parameters}


def paper(**parameters: Any) -> dict[str, Any]:
    return {"name": "fedkt", **parameters}


def cases() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Name, data set, model, algorithm."""
    for name in ("solo", "centralized", "ensemble", "public-only", "pate", "pooled"):
        yield name, "digits", FOREST, {"name": name}
    for mechanism, noise in (("laplace", {"gamma": 0.1}), ("gumbel", {"epsilon": 5.0}), ("gaussian", {"sigma": 9.0})):
        level = private("L2", mechanism=mechanism, **noise)
        yield f"pate L2 {mechanism}", "digits", FOREST, {"name": "pate", "queries": 50, "teachers": 8, **level}
    yield from fedkt()
    yield from fedvote()
    yield from fedmd()
    yield from fedkd()
    yield from iterative()


def fedkt() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    mixtures: dict[str, dict[str, Any]] = {
        "laplace": {"gamma": 0.1},
        "gumbel": {"epsilon": 8.0},
        "gaussian": {"sigma": 9.0},
        "confident-gaussian": {"sigma": 3.0},
    }
    yield "fedkt L0", "digits", FOREST, paper()
    yield "fedkt L0 without consistent voting", "digits", FOREST, paper(consistent=False)
    yield "fedkt L0 networks", "digits", NETWORK, paper(subsets=2)
    for level in ("L1", "L2"):
        for mechanism, noise in mixtures.items():
            asked = private(level, mechanism=mechanism, **noise)
            yield f"fedkt {level} {mechanism}", "digits", FOREST, paper(queries=50, **asked)
    binary = private("L2", mechanism="laplace", gamma=0.1, adjacency="add-remove")
    yield "fedkt L2 add-remove", "breast-cancer", FOREST, paper(queries=40, partitions=1, **binary)
    people = private("L2", epsilon=20.0, rows_per_person=3)
    yield "fedkt L2 people", "breast-cancer", FOREST, paper(queries=40, **people)


def fedvote() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    equal = {"weights": "equal"}
    yield "fedvote L0", "digits", FOREST, vote()
    yield "fedvote L0 two classes", "breast-cancer", FOREST, vote()
    yield "fedvote L0 equal", "digits", FOREST, vote(**equal)
    yield "fedvote L0 leader", "digits", FOREST, vote(labels="leader")
    yield "fedvote L0 uniform", "digits", FOREST, vote(prior="uniform")
    yield "fedvote L0 half", "digits", FOREST, vote(queries=0.5)
    yield "fedvote L0 networks", "digits", NETWORK, vote()
    for rule in ("median", "trimmed", "filtered"):
        yield f"fedvote L0 {rule}", "digits", FOREST, vote(**equal, consensus=rule)
    for data in ("digits", "breast-cancer"):
        for label, noise in (("epsilon", {"epsilon": 8.0}), ("sigma", {"mechanism": "gaussian", "sigma": 1.0})):
            yield f"fedvote L1 {data} {label}", data, FOREST, vote(**private("L1", **noise))
    given = vote(prior=[1.0, 2.0], **private("L1", epsilon=8.0))
    yield "fedvote L1 given prior", "breast-cancer", FOREST, given


def fedmd() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    yield "fedmd", "digits", NETWORK, {"name": "fedmd", **FEDMD}
    yield "fedmd forests", "digits", FOREST, {"name": "fedmd", **FEDMD}
    yield "fedmd pretrained", "digits", NETWORK, {"name": "fedmd", **FEDMD, "start": "pretrained"}
    yield "fedmd none", "digits", NETWORK, {"name": "fedmd", **FEDMD, "start": "none"}
    yield "fedmd alone", "digits", NETWORK, {"name": "fedmd", **FEDMD, "score_format": "none"}
    for score_format in ("softmax", "argmax"):
        yield f"fedmd {score_format}", "digits", NETWORK, {"name": "fedmd", **FEDMD, "score_format": score_format}
    yield "fedmd accuracy", "digits", NETWORK, {"name": "fedmd", **FEDMD, "weights": "accuracy"}
    yield "fedmd list", "digits", NETWORK, {"name": "fedmd", **FEDMD, "weights": [1.0, 2.0, 3.0, 4.0, 5.0]}
    for rule in ("median", "trimmed"):
        yield f"fedmd {rule}", "digits", NETWORK, {"name": "fedmd", **FEDMD, "consensus": rule}
    yield "fedmd-np", "digits", NETWORK, {"name": "fedmd-np", **FEDMD}
    for label, sampled in (("number", {"sampled": 30}), ("share", {"sampled": 0.5, "replacement": False})):
        yield f"fedmd-nfdp {label}", "digits", NETWORK, {"name": "fedmd-nfdp", **FEDMD, **sampled}
    yield "fedmd-nfdp population", "digits", NETWORK, {"name": "fedmd-nfdp", **FEDMD, "sampled": 30, "population": 40}
    yield "fedmd-ldp", "digits", NETWORK, {"name": "fedmd-ldp", **FEDMD}
    yield "fedmd-ldp sigma", "digits", NETWORK, {"name": "fedmd-ldp", **FEDMD, "sigma": 3.0, "score_format": "softmax"}
    yield "fedmd-ldp zero", "digits", NETWORK, {"name": "fedmd-ldp", **FEDMD, "sigma": 0.0}


def fedkd() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    settings: dict[str, dict[str, Any]] = {
        "": {},
        "none": {"mechanism": "none"},
        "floats": {"mechanism": "none", "scale": None},
        "l2": {"mechanism": "none", "norm": "l2"},
        "kl": {"mechanism": "none", "temperature": 3.0},
        "equal": {"weights": "equal", "gamma": 10.0},
        "noisy counts": {"weights_release": "noisy"},
        "party": {"noised_by": "party", "gamma": 10.0},
        "party gaussian": {"noised_by": "party", "mechanism": "gaussian", "epsilon": 100.0, "weights": "equal"},
        "gaussian": {"mechanism": "gaussian", "sigma": 1.0},
        "gaussian epsilon": {"mechanism": "gaussian", "epsilon": 50.0, "weights_release": "noisy", "scale": None},
        "labels": {"transfer": "labels"},
        "labels L1": {"transfer": "labels", "queries": 50, **private("L1", epsilon=20.0)},
    }
    for label, parameters in settings.items():
        yield f"fedkd {label}".strip(), "digits", NETWORK, {"name": "fedkd", **KD, **parameters}
    yield "fedkd forests", "digits", FOREST, {"name": "fedkd", "mechanism": "none"}


def iterative() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    rounds = {"rounds": 3, "local": {"epochs": 2, "batch": 32}}
    for name in ("fedavg", "fedavgm", "fedprox"):
        yield name, "digits", NETWORK, {"name": name, **rounds}
    yield "fedavg sampled", "digits", NETWORK, {"name": "fedavg", **rounds, "participation": 0.5}
    yield "scaffold", "digits", NETWORK, {"name": "scaffold", "rounds": 3}
    yield "feddf", "digits", NETWORK, {"name": "feddf", **rounds, "distil": {"epochs": 2}}
    yield "fedgen", "digits", NETWORK, {"name": "fedgen", **rounds, "drawn": 200}
    start = {"subsets": 2}
    yield "fedkt-avg", "digits", NETWORK, {"name": "fedkt-avg", "start": start, "then": rounds}
    yield "fedkt-prox", "digits", NETWORK, {"name": "fedkt-prox", "start": start, "then": rounds}


def figures_of(data: str, model: dict[str, Any], algorithm: dict[str, Any]) -> dict[str, Any]:
    """What a run gave: digests of models, the ledger summed over rounds, epsilon by observer, accuracy, bytes up."""
    split = {"kind": "dirichlet", "beta": 0.5, "min_rows": 20}
    table = {
        "seed": 3,
        "noise": "simulated",
        "data": {"name": data, "parties": 5, "split": split, "public": 0.2, "test": 0.2},
        "model": model,
        "algorithm": algorithm,
    }
    result = run_experiment(check_table(Experiment, table, "snapshot"), table, processes=2)
    models = [result.model] if result.model else list(result.models.values())
    record = result.record
    return {
        "models": [hashlib.sha256(each.onnx).hexdigest()[:16] for each in models],
        "accuracy": record.metrics.accuracy if record.metrics else None,
        "epsilon": {who: str(value) for who, value in record.epsilon.items()},
        "delta": record.delta,
        "guarantees": [[e["observer"], e["unit"], e["adjacency"], str(e["epsilon"])] for e in record.privacy],
        "ledger": ledger_of(record.ledger),
        "rounds": record.rounds,
    }


def ledger_of(rows: Any) -> list[list[Any]]:
    """What left whom, under which parameters, to whom, and how many queries in all."""
    total: dict[str, int] = {}
    for row in rows:
        summary = ("site", "mechanism", "parameters", "sensitivity", "unit", "adjacency", "observer", "voters")
        key = json.dumps({name: row[name] for name in summary}, sort_keys=True)
        total[key] = total.get(key, 0) + row["queries"]
    return [[json.loads(key), queries] for key, queries in sorted(total.items())]


def take(path: Path, only: str = "") -> None:
    found = {}
    for name, data, model, algorithm in cases():
        if only not in name:
            continue
        began = time.perf_counter()
        try:
            found[name] = figures_of(data, model, algorithm)
            summary = f"{found[name]['accuracy']:.4f}"
        except LimbeckError as error:
            summary = f"LimbeckError: {error}"
            found[name] = {"error": str(error)}
        print(f"{name:40} {summary} ({time.perf_counter() - began:.1f} s)", flush=True)
    path.write_text(json.dumps(found, indent=1, sort_keys=True))


def read(path: Path) -> Any:
    """A snapshot in today's names: what was "nothing-private" is "post-processing", `apart` is `l2_sensitivity`.

    Noise on counts that were not `whole` has no counterpart today, so such a snapshot is refused.
    """
    found = json.loads(path.read_text().replace('"nothing-private"', '"post-processing"'))
    for name, case in found.items():
        for row, _ in case.get("ledger", ()):
            if row["parameters"].pop("whole", True) is not True:
                raise SystemExit(f"{path}: {name}: noise on counts that are not whole cannot be compared")
            row["parameters"] = {"l2_sensitivity" if key == "apart" else key: v for key, v in row["parameters"].items()}
        case.get("ledger", []).sort(key=json.dumps)
    return found


def compare(before: Path, after: Path) -> int:
    """Print every difference, cases that are gone among them; the exit code says whether there is one."""
    old, new = read(before), read(after)
    differences = 0
    for name in new:
        if name not in old:
            print(f"{name}: new")
            continue
        for key, value in old[name].items():
            if new[name].get(key) != value:
                differences += 1
                print(f"{name}: {key}\n  before {value}\n  after  {new[name].get(key)}")
    for name in sorted(set(old) - set(new)):
        differences += 1
        print(f"{name}: gone")
    print(f"{len(new)} cases, {differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    if sys.argv[1] == "take":
        take(Path(sys.argv[2]), *sys.argv[3:])
    else:
        sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3])))
