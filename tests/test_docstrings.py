"""Everything public is documented; the public API has parameters, returns and an example that runs."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import limbeck

ROOT = Path(__file__).parent.parent
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
GUIDE = ROOT / "docs" / "algorithms.md"
METHODS = (property, classmethod, staticmethod, FunctionType)
TRITON = {"limbeck.models.stacked.half_convolution"}  # needs Triton, which torch brings for GPUs only
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def modules() -> Iterator[ModuleType]:
    yield limbeck
    for found in pkgutil.walk_packages(limbeck.__path__, "limbeck."):
        if not found.name.endswith("__main__") and (found.name not in TRITON or find_spec("triton")):
            yield importlib.import_module(found.name)


def public_members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Public classes and functions that a module defines, and the public methods of the classes."""
    for name, found in vars(module).items():
        if name.startswith("_") or getattr(found, "__module__", "") != module.__name__:
            continue
        if inspect.isfunction(found) or inspect.isclass(found):
            yield f"{module.__name__}.{name}", found
        if inspect.isclass(found):
            for method, value in vars(found).items():
                if not method.startswith("_") and isinstance(value, METHODS):
                    yield f"{module.__name__}.{name}.{method}", getattr(found, method)


def extension_points() -> Iterator[tuple[str, Any]]:
    """Classes and functions that the guide for own algorithms imports."""
    for code in CODE.findall(GUIDE.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("limbeck"):
                home = importlib.import_module(str(node.module))
                yield from ((alias.name, getattr(home, alias.name)) for alias in node.names)


def api() -> dict[str, Any]:
    """The public API: `limbeck.__all__`, the estimators, and what own algorithms extend."""
    from limbeck import sklearn

    named = {name: getattr(limbeck, name) for name in limbeck.__all__ if name != "__version__"}
    named |= {name: getattr(sklearn, name) for name in sklearn.__all__}
    named |= dict(extension_points())
    return {name: found for name, found in sorted(named.items()) if inspect.isclass(found) or inspect.isfunction(found)}


def sections(text: str) -> dict[str, str]:
    """The sections of a NumPy docstring by name."""
    parts = SECTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("module", list(modules()), ids=lambda module: module.__name__)
def test_everything_public_is_documented(module: ModuleType) -> None:
    assert [name for name, found in public_members(module) if not inspect.getdoc(found)] == []


@pytest.mark.parametrize("name", api())
def test_the_api_has_parameters_returns_and_an_example(name: str) -> None:
    found = api()[name]
    text = found.__doc__ or ""
    parts = sections(inspect.cleandoc(text))
    error = inspect.isclass(found) and issubclass(found, BaseException)
    parameters = [] if error else [p for p in inspect.signature(found).parameters if p not in ("args", "kwargs")]
    listed = re.findall(r"^([\w, *]+) : ", parts.get("Parameters", ""), re.MULTILINE)
    assert [each.strip() for line in listed for each in line.split(",")] == parameters
    if inspect.isfunction(found) and found.__annotations__.get("return") not in (None, "None"):
        assert "Returns" in parts
    assert ">>>" in parts.get("Examples", "")


def test_an_undocumented_function_is_found() -> None:
    planted = ModuleType("planted")
    exec(
        "def documented():\n    'Says so.'\n\ndef silent(): ...\n\nclass Quiet:\n    def method(self): ...",
        vars(planted),
    )
    for value in vars(planted).values():
        if inspect.isfunction(value) or inspect.isclass(value):
            value.__module__ = "planted"
    names = [name for name, found in public_members(planted) if not inspect.getdoc(found)]
    assert names == ["planted.silent", "planted.Quiet", "planted.Quiet.method"]
