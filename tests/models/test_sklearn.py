import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from limbeck.data.sets import load
from limbeck.errors import LimbeckError
from limbeck.models.constant import Constant
from limbeck.models.onnx import PackedModel
from limbeck.models.sklearn import FittedSklearn, SklearnModel

ESTIMATORS = [
    LinearSVC(),
    RidgeClassifier(),
    HistGradientBoostingClassifier(max_iter=5),
    make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=300)),
    make_pipeline(MinMaxScaler(), XGBClassifier(n_estimators=5)),
    BaggingClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=3),
    VotingClassifier(
        [("a", LogisticRegression(max_iter=300)), ("b", DecisionTreeClassifier())],
        voting="soft",
        flatten_transform=False,
    ),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_any_classifier_or_pipeline_with_or_without_probabilities(estimator: object) -> None:
    data = load("wine")
    fitted = SklearnModel(estimator).fit(data.x, data.y, 3, seed=0)
    packed = PackedModel(fitted.pack())
    assert (packed.vote(data.x) == fitted.vote(data.x)).mean() > 0.98
    assert packed.has_probabilities == hasattr(estimator, "predict_proba")
    if not packed.has_probabilities:
        assert np.array_equal(packed.scores(data.x), np.eye(3)[packed.vote(data.x)])


def test_images_are_flattened() -> None:
    data = load("digits")
    assert data.x.shape[1:] == (8, 8)
    fitted = SklearnModel(DecisionTreeClassifier()).fit(data.x, data.y, 10, seed=0)
    assert (PackedModel(fitted.pack()).vote(data.x) == data.y).all()


def test_one_class_makes_a_constant() -> None:
    x = np.random.default_rng(0).random((5, 3)).astype(np.float32)
    fitted = SklearnModel(LogisticRegression()).fit(x, np.full(5, 2), 4, seed=0)
    assert fitted == Constant(label=2, classes=4, features=3)
    packed = PackedModel(fitted.pack())
    assert packed.vote(x).tolist() == [2] * 5
    assert packed.scores(x).tolist() == fitted.scores(x).tolist() == [[0, 0, 1, 0]] * 5
    assert packed.vote(x[:0]).shape == (0,)


def test_the_estimator_given_is_never_touched() -> None:
    data, estimator = load("iris"), DecisionTreeClassifier()
    SklearnModel(estimator).fit(data.x, data.y, 3, seed=7)
    assert estimator.random_state is None
    assert not hasattr(estimator, "tree_")


@pytest.mark.parametrize("estimator", [XGBClassifier(n_jobs=8), make_pipeline(MinMaxScaler(), LGBMClassifier())])
def test_a_fit_keeps_to_one_core(estimator: object) -> None:
    fitted = SklearnModel(estimator).fit(load("iris").x, load("iris").y, 3, seed=0)
    assert isinstance(fitted, FittedSklearn)
    jobs = {key: value for key, value in fitted.estimator.get_params().items() if key.endswith("n_jobs")}
    assert set(jobs.values()) == {1}


def test_a_seed_that_the_user_chose_stays() -> None:
    data = load("iris")
    model = SklearnModel(DecisionTreeClassifier(random_state=3, splitter="random"))
    assert model.fit(data.x, data.y, 3, seed=1).pack() == model.fit(data.x, data.y, 3, seed=2).pack()


@pytest.mark.parametrize("thing", [3, LogisticRegression, MinMaxScaler()])
def test_what_is_no_classifier_is_refused(thing: object) -> None:
    with pytest.raises(LimbeckError, match="must be a scikit-learn classifier"):
        SklearnModel(thing)
