"""ONNX converters for XGBoost and LightGBM, whose estimators have scikit-learn's interface."""

from functools import cache
from importlib import import_module
from typing import Any

from limbeck.errors import missing_extra

BOOSTERS = {  # package: prefix of its classes and of skl2onnx's aliases, the name of onnxmltools' module
    "xgboost": ("XGB", "XGBoostXGB", "XGBoost"),
    "lightgbm": ("LGBM", "LightGbmLGBM", "LightGbm"),
}


def register_boosters(estimator: Any) -> None:
    """Register converters in skl2onnx for the boosters that an estimator is or contains."""
    for part in (estimator, *estimator.get_params().values()):
        package = type(part).__module__.split(".")[0]
        if package in BOOSTERS:
            _register(package)


@cache
def _register(package: str) -> None:
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes,
        calculate_linear_regressor_output_shapes,
    )

    prefix, alias, name = BOOSTERS[package]
    try:
        module = import_module(f"onnxmltools.convert.{package}.operator_converters.{name}")
    except ImportError as error:
        raise missing_extra("onnxmltools", package) from error
    convert, made = getattr(module, f"convert_{package}"), import_module(package)
    shapes, options = (
        calculate_linear_classifier_output_shapes,
        {"nocl": [True, False], "zipmap": [True, False, "columns"]},
    )
    update_registered_converter(
        getattr(made, f"{prefix}Classifier"), f"{alias}Classifier", shapes, convert, options=options
    )
    shapes = calculate_linear_regressor_output_shapes
    update_registered_converter(getattr(made, f"{prefix}Regressor"), f"{alias}Regressor", shapes, convert)
