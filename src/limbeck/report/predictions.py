"""Predictions as a CSV file."""

import csv
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError
from limbeck.experiments.result import Classifier


def write_predictions(model: Classifier, rows: Path, out: Path | None) -> None:
    """One line a row: the class, then the probability of each class; the file appears whole or not at all."""
    labels = model.predict(rows)
    scores = model.predict_proba(rows) if model.packed.has_probabilities else None
    header = ["prediction", *([f"p({name})" for name in model.classes_] if scores is not None else [])]
    lines = [[name, *([] if scores is None else map(_short, scores[row]))] for row, name in enumerate(labels)]
    if out is None:
        _write(sys.stdout, [header, *lines])
        return
    try:
        with tempfile.NamedTemporaryFile("w", dir=out.parent, newline="", delete=False, encoding="utf-8") as draft:
            _write(draft, [header, *lines])
        os.replace(draft.name, out)
    except OSError as error:
        raise LimbeckError(f"cannot write {out}: {error.strerror}") from error


def _write(file: Any, lines: list[list[str]]) -> None:
    csv.writer(file, lineterminator="\n").writerows(lines)


def _short(probability: float) -> str:
    return f"{probability:.6f}"
