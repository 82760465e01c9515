"""Shared fixtures: small real federations, and a data folder made for the test."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("steady")


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that LIMBECK_DATA names."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("LIMBECK_DATA", str(folder))
    return folder


@pytest.fixture
def save(data_folder: Path) -> Callable[..., Path]:
    """Save arrays as a data set: `save("name", x_train=..., y_train=...)`."""

    def saved(name: str, **arrays: Any) -> Path:
        path = data_folder / f"{name}.npz"
        np.savez(path, **arrays)
        return path

    return saved


@pytest.fixture
def tests_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes find the models in factories.py too."""
    here = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))
