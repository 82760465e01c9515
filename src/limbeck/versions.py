"""Versions of Limbeck, Python and the libraries that affect results."""

from importlib.metadata import PackageNotFoundError, version
from platform import python_version

from limbeck._version import __version__

VERSIONED = ("numpy", "scikit-learn", "onnx", "onnxruntime", "skl2onnx", "xgboost", "xgboost-cpu", "lightgbm", "torch")


def versions() -> dict[str, str]:
    """Return the installed version of each of them, by name."""
    found = {"limbeck": __version__, "python": python_version()}
    for package in VERSIONED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
