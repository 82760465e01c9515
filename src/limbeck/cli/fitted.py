"""Commands `limbeck predict` and `limbeck evaluate`, for models that a run wrote."""

from pathlib import Path
from typing import Annotated

import typer

from limbeck.cli.shared import AsJson, ReadingOption, console, stated
from limbeck.errors import LimbeckError

Model = Annotated[Path, typer.Argument(help="A model that a run wrote (ONNX).")]
Threshold = Annotated[
    float | None,
    typer.Option(help="Predict the second of two classes, or a label, from this probability on; default: 0.5."),
]
Cost = Annotated[
    str | None,
    typer.Option(
        metavar="FN,FP", help="What a missed positive and a false alarm cost: the threshold is FP / (FN + FP)."
    ),
]


def predict(
    model: Model,
    rows: Annotated[Path, typer.Argument(help="Rows with the same columns as the training rows: CSV, Parquet or NPZ.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A CSV file; default: print.")] = None,
    threshold: Threshold = None,
    cost: Cost = None,
    row_id: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="The column that names the rows; default: as in training."),
    ] = None,
    reading: ReadingOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --out if it exists.")] = False,
) -> None:
    """Predict the class of each row, with probabilities if the model has them."""
    from limbeck.data.reading import reading_in
    from limbeck.experiments.result import load
    from limbeck.experiments.thresholds import threshold_of
    from limbeck.report.predictions import check_output, write_predictions

    check_output(out, [model, rows], force)
    chosen = threshold_of(threshold, _costs(cost))
    how = reading_in(stated(reading)) if reading else None
    write_predictions(load(model), rows, out, chosen, row_id, how)


def evaluate(
    model: Model,
    rows: Annotated[Path, typer.Argument(help="Rows with labels: CSV, Parquet or NPZ (its x_test, y_test if any).")],
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The label column; default: that of the training rows.")
    ] = None,
    threshold: Threshold = None,
    cost: Cost = None,
    reading: ReadingOption = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model on rows with labels: all metrics with 95 % intervals, confusion matrix, and calibration."""
    from limbeck.experiments.evaluation import evaluate
    from limbeck.report.evaluation import evaluation_report

    found = evaluate(model, rows, label, threshold, _costs(cost), stated(reading) if reading else None)
    if as_json:
        typer.echo(found.to_json())
        return
    console().print(evaluation_report(found))


def _costs(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        missed, false_alarm = map(float, text.split(","))
    except ValueError as error:
        raise LimbeckError(f"--cost: {text!r} is not two numbers; write --cost 9,1") from error
    return missed, false_alarm
