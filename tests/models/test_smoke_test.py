from typing import ClassVar

import numpy as np
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import StackingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from limbeck.errors import LimbeckError
from limbeck.models.named import CLASSIFIERS, model_from
from limbeck.models.sklearn import SklearnModel
from limbeck.models.smoke_test import smoke_test
from limbeck.protocol.recipe import Recipe
from limbeck.protocol.rows import Array


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize(("row", "classes"), [((1,), 2), ((30,), 2), ((8, 8), 10)])
def test_every_named_model_passes(name: str, row: tuple[int, ...], classes: int) -> None:
    smoke_test(model_from({"name": name}), row, classes)


def test_a_model_without_a_converter_is_refused() -> None:
    with pytest.raises(LimbeckError, match="'python:factories:unconvertible' cannot be packed as ONNX: Unable to find"):
        smoke_test(model_from({"name": "python:factories:unconvertible"}), (4,), 3)


def test_a_wrong_value_of_a_parameter_is_refused() -> None:
    with pytest.raises(LimbeckError, match="'random-forest' cannot be fitted: The 'max_depth' parameter"):
        smoke_test(model_from({"name": "random-forest", "max_depth": "six"}), (4,), 3)


def test_a_model_that_needs_more_rows_than_features_passes() -> None:
    smoke_test(SklearnModel(QuadraticDiscriminantAnalysis()), (20,), 2)


def test_many_neighbours_and_stacks_pass() -> None:
    smoke_test(model_from({"name": "knn", "n_neighbors": 20}), (30,), 2)
    smoke_test(SklearnModel(StackingClassifier([("tree", DecisionTreeClassifier()), ("bayes", GaussianNB())])), (5,), 3)


def test_a_model_that_votes_otherwise_when_packed_is_refused() -> None:
    class TwoFaced:
        name = "two-faced"
        description: ClassVar = {"name": "two-faced"}

        def fit(self, x: Array, y: Array, classes: int, seed: int, recipe: Recipe | None = None) -> "TwoFaced":
            self.model = model_from({"name": "decision-tree"}).fit(x, y, classes, seed)
            return self

        def vote(self, x: Array) -> Array:
            return np.roll(self.model.vote(x), 1)

        def scores(self, x: Array) -> Array:
            return self.model.scores(x)

        def pack(self) -> bytes:
            return self.model.pack()

    with pytest.raises(LimbeckError, match="predicts the same class for only"):
        smoke_test(TwoFaced(), (4,), 3)
