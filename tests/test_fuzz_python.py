"""Whatever people pass to the Python API: it works, or one line names the argument.

To add an argument, add it to `RUN`, or to the fields below. To add kinds of values, such as tables of other libraries,
add them to `values` or `wrong_rows`.
"""

import datetime
import warnings
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse
from sklearn.datasets import make_blobs

import limbeck as lb
from limbeck.algorithms import algorithms
from limbeck.sklearn import FederatedClassifier, FederatedRegressor

X, Y = make_blobs(20, centers=2, n_features=3, cluster_std=0.5, random_state=0)
GOOD: dict[str, Any] = {
    "algorithm": "fedvote",
    "parties": [(X[:10], Y[:10]), (X[10:], Y[10:])],
    "public": X,
    "models": "decision-tree",
    "test": (X, Y),
    "processes": 1,
}
RUN = (
    *("algorithm", "parties", "public", "models", "server_model", "test", "features", "seed", "classes", "task"),
    *("limits", "noise", "budget", "ledger", "training", "processes", "watch", "progress", "class_weights", "positive"),
)
TABLES = ("parties", "public", "test", "label", "row_id", "ignore", "reading", "schema", "classes", "positive")
MODEL = ("model", "classifier", "recipe")
NAMES = {"parties": ("party",), "models": MODEL, "server_model": MODEL, "estimator": MODEL, "algorithm": ("fedkt",)}
NAMES |= {"server_estimator": MODEL, "split": ("kind",), "limits": ("task",)}
NAMES |= {"reading": ("separator", "missing"), "label": ("column",), "row_id": ("ID",), "class_weights": ("class",)}
QUICK = settings(max_examples=5, suppress_health_check=list(HealthCheck))
LONG = settings(max_examples=400, suppress_health_check=list(HealthCheck))


class Strange:
    """An object that no argument expects, and that refuses even to be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "<strange>"


values = st.one_of(
    st.sampled_from(
        [
            *(
                None,
                True,
                False,
                0,
                1,
                -1,
                2**70,
                10**400,
                0.5,
                1e42,
                float("nan"),
                float("inf"),
                1j,
                "",
                "x",
                "fedvote",
            ),
            *(
                b"x",
                [],
                [0],
                [[0, 1]],
                (),
                (1, 2, 3),
                {},
                {"name": "fedkt"},
                {"kind": "iid"},
                {1: 2},
                {"name": 3},
                set(),
            ),
            *(object(), Strange(), int, lambda: 3, Path("no/such/file"), Fraction(1, 3), datetime.date(2024, 1, 1)),
            *(np.array(3), np.float32(2), np.int8(1), np.str_("x"), np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0))),
            *(np.array([None, 1]), np.array(["a", "b"]), np.zeros((2, 2, 2))),
            *(np.array(["2020-01-01"], "datetime64[D]"), np.zeros(3, [("a", int)]), np.ma.masked_array([1.0], [True])),
        ]
    ),
    st.lists(st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=4), st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=2),
    st.text(max_size=8),
    st.integers(),
    st.floats(),
)
wrong_rows = st.one_of(
    values,
    arrays.arrays(
        st.one_of(arrays.scalar_dtypes(), st.just(np.dtype(object))),
        arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
)


def odd_tables() -> list[Any]:
    """Tables that go wrong somewhere, and sparse matrices."""
    frame, polars = pd.DataFrame(X, columns=list("abc")), pytest.importorskip("polars")
    found = [
        frame,
        frame.assign(y=Y),
        frame.assign(a="x"),
        frame.assign(a=[None, "x", 3, 2.5, b"z"] * 4),
        frame.assign(a=[[1]] * 20),
        frame.assign(a=pd.to_datetime("2024-01-01", utc=True)),
        frame.assign(a=pd.Categorical(["u", "v"] * 10)),
        frame.assign(a=1j),
        frame.assign(a=pd.Timedelta(1, "h")),
        frame.assign(a=np.nan),
        frame.assign(a=1e300),
        frame.set_axis(["a", "a", "b"], axis=1),
        frame.set_axis(["", " ", "b"], axis=1),
        frame.set_axis([1, 2.5, None], axis=1),
        frame.set_axis(pd.MultiIndex.from_product([["u"], ["a", "b", "c"]]), axis=1),
        frame.iloc[:0],
        frame[[]],
        frame.round().astype("Int64"),
        frame["a"],
        sparse.csr_matrix(X),
        sparse.coo_array(X.astype(bool)),
        sparse.csr_matrix((0, 3)),
        sparse.csr_matrix([[np.nan, 0, 1]]),
    ]
    return [*found, polars.DataFrame(X), polars.DataFrame({"a": [[1]]}), polars.DataFrame(), frame.to_records()]


tables = st.sampled_from(odd_tables())


def error_of(call: Any) -> Exception | None:
    """The error that users may see; any other is a failure of the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except (TypeError, ValueError) as error:
        return error
    return None


def check(call: Any, *names: str) -> None:
    """Call something: it may raise a LimbeckError, TypeError or ValueError of one line that has one of the names."""
    if error := error_of(call):
        text = str(error)
        assert any(name.lower() in text.lower() for name in names), f"{type(error).__name__}: {text}"
        assert "\n" not in text or "X" in names, text  # scikit-learn's own errors about X and y have several lines


def hints(name: str) -> tuple[str, ...]:
    return (name, name.replace("_", " "), *NAMES.get(name, ()))


def check_run(name: str, value: Any) -> None:
    is_pool = value is None or (isinstance(value, int | np.integer) and value > 1)
    assume(name != "processes" or not is_pool)  # which takes seconds to start
    assume(name != "watch" or not callable(value))  # its errors are its own
    keys = [str(key) for key in value] if isinstance(value, dict) and name == "parties" else []
    check(lambda: lb.run(**{**GOOD, name: value}), *hints(name), *keys)


@pytest.mark.parametrize("name", RUN)
@QUICK
@given(value=values)
def test_run(name: str, value: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.getbasetemp())  # a ledger may have any name
        check_run(name, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
@LONG
@given(value=st.one_of(values, wrong_rows))
def test_run_for_long(name: str, value: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.getbasetemp())
        check_run(name, value)


@settings(QUICK, max_examples=10)
@given(x=wrong_rows, y=wrong_rows)
@example(x=X, y=np.array([np.nan, np.inf] * 10))
@example(x=np.where(X[3] == X, 1e42, X), y=Y)
@example(x=X.astype(str), y=Y)
def test_rows_and_labels(x: Any, y: Any) -> None:
    check(lambda: lb.run(**{**GOOD, "parties": [(X, Y), (x, Y)]}), "party 1")
    check(lambda: lb.run(**{**GOOD, "parties": [(X, Y), (X, y)]}), "party 1", "y")
    check(lambda: lb.run(**{**GOOD, "test": (x, y)}), "test", "y")


@pytest.mark.parametrize("name", TABLES)
@QUICK
@given(value=st.one_of(values, tables))
def test_run_with_tables(name: str, value: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
    good = {**GOOD, "parties": {"north": frame[:10], "south": frame[10:]}, "public": frame, "test": frame, "label": "y"}
    keys = [str(key) for key in value] if isinstance(value, dict) and name == "parties" else []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.getbasetemp())
        check(lambda: lb.run(**{**good, name: value}), *hints(name), *keys)


@settings(QUICK, max_examples=10)
@given(party=st.one_of(tables, values), weight=st.one_of(values, wrong_rows))
def test_rows_of_tables_and_weights(party: Any, weight: Any) -> None:
    frame = pd.DataFrame(X, columns=list("abc"))
    check(lambda: lb.run(**{**GOOD, "parties": [(frame, Y), (party, Y)], "public": frame, "test": None}), "party")
    check(lambda: lb.run(**{**GOOD, "parties": [(X, Y), (party, Y)]}), "party")
    check(lambda: lb.run(**{**GOOD, "parties": [(X, Y), (X, Y, weight)]}), "party 1", "weight")


@pytest.fixture(scope="module")
def model() -> lb.Predictor:
    found = lb.run(**GOOD).model
    assert found is not None
    return found


@settings(QUICK, max_examples=10)
@given(x=st.one_of(wrong_rows, tables))
def test_predict(x: Any, model: lb.Predictor) -> None:
    for predict in (model.predict, model.predict_proba, model.predict_both):
        check(lambda predict=predict: predict(x), "predict", "X", str(x))


@settings(QUICK, max_examples=10)
@given(path=values)
def test_load(path: Any) -> None:
    check(lambda: lb.load(path), "path", "read", str(path))


def check_estimator(kind: Any, data: st.DataObject) -> None:
    parameters = sorted(kind().get_params(deep=False))
    name, value = data.draw(st.sampled_from(parameters)), data.draw(values)
    good = {"estimator": "decision-tree", "parties": 2, "random_state": 0, "n_jobs": 1}
    assume(name != "n_jobs" or not isinstance(value, int) or value == 1)
    check(lambda: kind(**{**good, name: value}).fit(X, Y).predict(X), *hints(name))


@pytest.mark.parametrize("kind", [FederatedClassifier, FederatedRegressor])
@settings(QUICK, max_examples=10)
@given(data=st.data())
def test_estimators(kind: Any, data: st.DataObject) -> None:
    check_estimator(kind, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FederatedClassifier, FederatedRegressor])
@LONG
@given(data=st.data())
def test_estimators_for_long(kind: Any, data: st.DataObject) -> None:
    check_estimator(kind, data)


@pytest.mark.parametrize("kind", [FederatedClassifier, FederatedRegressor])
@settings(QUICK, max_examples=3)
@given(x=st.one_of(wrong_rows, tables), y=wrong_rows, groups=values, weight=st.one_of(values, wrong_rows))
def test_fit_and_predict(kind: Any, x: Any, y: Any, groups: Any, weight: Any) -> None:
    made = kind(estimator="decision-tree", parties=2, random_state=0, n_jobs=1)
    rows = ("X", "input", "array", "sample", "feature", "rows", "dimension")
    check(lambda: made.fit(x, Y), *rows)
    check(lambda: made.fit(X, y), *rows, "y", "label")
    check(lambda: made.fit(X, Y, groups=groups), "group", "rows")
    check(lambda: made.fit(X, Y, sample_weight=weight), "weight", "array")
    check(lambda: made.fit(X, Y).predict(x), *rows)


KINDS = [lb.Privacy, lb.Budget, lb.Features, lb.Training, lb.Recipe, *algorithms().values()]


def check_parameters(kind: Any, data: st.DataObject) -> None:
    given = {"epsilon": 1.0} if kind is lb.Budget else {}
    name = data.draw(st.sampled_from([field.name for field in fields(kind) if field.init] or [""]))
    if name:
        check(lambda: kind(**{**given, name: data.draw(values)}), name)


@pytest.mark.parametrize("kind", KINDS)
@QUICK
@given(data=st.data())
def test_parameters(kind: Any, data: st.DataObject) -> None:
    check_parameters(kind, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@LONG
@given(data=st.data())
def test_parameters_for_long(kind: Any, data: st.DataObject) -> None:
    check_parameters(kind, data)
