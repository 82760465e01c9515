"""ONNX converters for XGBoost and LightGBM, whose classifiers have scikit-learn's interface."""

from functools import cache
from importlib import import_module
from typing import Any

BOOSTERS = {  # package: classifier, skl2onnx's alias, the name of onnxmltools' module
    "xgboost": ("XGBClassifier", "XGBoostXGBClassifier", "XGBoost"),
    "lightgbm": ("LGBMClassifier", "LightGbmLGBMClassifier", "LightGbm"),
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
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes as shapes

    classifier, alias, name = BOOSTERS[package]
    module = import_module(f"onnxmltools.convert.{package}.operator_converters.{name}")
    convert = getattr(module, f"convert_{package}")
    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    update_registered_converter(getattr(import_module(package), classifier), alias, shapes, convert, options=options)
