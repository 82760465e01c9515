"""The estimator: scikit-learn's own checks, its tools, and what it says of bad input."""

import pickle
from typing import Any

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_estimators_pickle,
    check_fit_idempotent,
    check_n_features_in_after_fitting,
    parametrize_with_checks,
)

from limbeck.algorithms.fedavg import FedAvg
from limbeck.algorithms.fedkd import FedKD
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.solo import Solo
from limbeck.errors import LimbeckError, LimbeckWarning
from limbeck.experiments.run import run
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.recipe import Recipe
from limbeck.sklearn import FederatedClassifier, FederatedRegressor

X, Y = load_iris(return_X_y=True)
TREE = DecisionTreeClassifier(max_depth=4)
QUICK = FedKT(partitions=1, subsets=2)


def classifier(**changed: Any) -> FederatedClassifier:
    return FederatedClassifier(**{"algorithm": QUICK, "estimator": TREE, "random_state": 0, **changed})


def impossible(estimator: Any) -> dict[str, str]:
    """Checks of scikit-learn that a federation cannot pass."""
    reason = "rows are split among parties, and set aside as public, by position: repeated rows are other rows"
    found = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
    if isinstance(estimator.algorithm, FedMD):
        found["check_class_weight_classifiers"] = "parties digest a consensus on public rows, which have no weights"
    return found


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [FederatedClassifier(estimator=DecisionTreeClassifier())], expected_failed_checks=impossible
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        FederatedClassifier(),
        FederatedClassifier(algorithm=FedMD(rounds=1, start="none"), estimator=DecisionTreeClassifier()),
        FederatedClassifier(algorithm=Solo(), estimator=LogisticRegression()),
    ],
    ids=["default", "fedmd", "solo"],
)
def test_and_whatever_it_is_made_of(estimator: FederatedClassifier) -> None:
    check_estimator(estimator, expected_failed_checks=impossible(estimator))


def test_it_works_in_cross_validation_pipelines_and_searches() -> None:
    assert cross_val_score(classifier(), X, Y, cv=3).mean() > 0.85
    piped = make_pipeline(StandardScaler(), classifier(estimator=LogisticRegression()))
    assert piped.fit(X, Y).score(X, Y) > 0.75
    grid = {"algorithm__partitions": [1, 2], "estimator__max_depth": [1, 4]}
    search = GridSearchCV(classifier(), grid, cv=2).fit(X, Y)
    assert search.best_params_["estimator__max_depth"] == 4
    assert search.best_estimator_.algorithm.subsets == 2
    assert search.best_score_ > 0.85


def test_public_rows_are_not_printed() -> None:
    assert repr(FederatedClassifier(public=(X, Y))) == (
        "FederatedClassifier(public=(<ndarray of shape (150, 4)>,\n"
        "                            <ndarray of shape (150,)>))"
    )
    assert repr(FederatedRegressor(parties=5)) == "FederatedRegressor(parties=5)"
    assert "ndarray of shape (150, 4)" in FederatedClassifier(public=X)._repr_html_()


def test_groups_are_the_parties_and_travel_through_cross_validation() -> None:
    groups = np.array(["north", "south", "west"])[np.arange(len(Y)) % 3]
    fitted = classifier(public=X).fit(X, Y, groups=groups)
    parties = [(X[groups == name], Y[groups == name]) for name in np.unique(groups)]
    seed = fitted.result_.record.seed
    alone = run(QUICK, parties, public=X, models=TREE, seed=seed)
    assert alone.model is not None
    assert (alone.model.predict(X) == fitted.predict(X)).all()
    assert cross_val_score(classifier(), X, Y, cv=3, params={"groups": groups}).mean() > 0.8


def test_a_row_of_weight_zero_is_as_if_it_were_not_there() -> None:
    weight, groups = np.random.default_rng(0).random(len(Y)), np.arange(len(Y)) % 2
    weight[::5] = 0
    left = weight > 0
    for given in ({}, {"groups": groups}):
        some = {key: value[left] for key, value in given.items()}
        one = classifier().fit(X, Y, sample_weight=weight, **given)
        other = classifier().fit(X[left], Y[left], sample_weight=weight[left], **some)
        assert (one.predict_proba(X) == other.predict_proba(X)).all()
    assert (one.predict_proba(X) != classifier().fit(X, Y, groups=groups).predict_proba(X)).any()
    with pytest.raises(ValueError, match="at least one non-zero"):
        classifier().fit(X, Y, sample_weight=0 * weight)


def test_a_regressor_takes_weights_too() -> None:
    target, weight = X[:, 3], (X[:, 3] > 1).astype(float)
    found = FederatedRegressor(random_state=0).fit(X, target, sample_weight=weight).predict(X)
    assert found.mean() > target.mean() + 0.1


def test_class_weights_move_predictions_to_a_class() -> None:
    def share(given: Any) -> float:
        fitted = classifier(estimator=LogisticRegression(), class_weight=given).fit(X, Y)
        return float((fitted.predict(X) == 1).mean())

    assert share({1: 1e-4}) < share(None) < share({0: 1e-4, 2: 1e-4})
    assert share("balanced") == share(None)
    with pytest.raises(LimbeckError, match="class_weights: there is no class 7; known: 0, 1, 2"):
        share({7: 1.0})


def test_private_algorithms_refuse_weights_outside_of_their_range() -> None:
    private = FedKT(partitions=1, subsets=5, privacy=Privacy(level="L2", epsilon=10.0))
    with pytest.raises(LimbeckError, match="at private levels every weight is a number from 0 to 1"):
        classifier(algorithm=private, classes=[0, 1, 2]).fit(X, Y, sample_weight=2 * np.ones(len(Y)))
    with pytest.raises(LimbeckError, match='"balanced" is computed from private labels'):
        classifier(algorithm=private, classes=[0, 1, 2], class_weight="balanced").fit(X, Y)


def test_a_share_of_the_rows_is_set_aside_as_public_and_is_nobodys() -> None:
    record = classifier(public_share=0.4).fit(X, Y).result_.record
    assert record.data["public"] == 60
    assert sum(party.rows for party in record.parties) == 90


def test_fewer_parties_get_rows_where_rows_are_few() -> None:
    few = np.r_[0:6, 50:56, 100:106]
    with pytest.warns(LimbeckWarning, match="14 rows are split among 2 parties, not 9: each needs at least 5"):
        record = classifier(parties=9, algorithm=FedKT(subsets=5)).fit(X[few], Y[few]).result_.record
    assert len(record.parties) == 2


def test_models_of_each_partys_own_decide_by_their_mean() -> None:
    fitted = classifier(algorithm=Solo(), split={"kind": "dirichlet", "beta": 0.5, "min_rows": 5}).fit(X, Y)
    own = [model.predict_proba(X) for model in fitted.result_.models.values()]
    assert np.allclose(fitted.predict_proba(X), np.mean(own, axis=0))
    assert len(own) == 3


def test_networks_can_be_its_estimators() -> None:
    algorithm = FedAvg(rounds=20, local=Recipe(epochs=2, batch=8))
    fitted = classifier(algorithm=algorithm, estimator={"name": "torch-mlp", "hidden": [16]}).fit(X, Y)
    assert fitted.score(X, Y) > 0.8
    assert fitted.result_.record.rounds == 20


def test_it_survives_pickling_and_the_same_seed_gives_the_same() -> None:
    fitted = classifier().fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    assert (classifier().fit(X, Y).predict_proba(X) == fitted.predict_proba(X)).all()


def test_private_labels_need_named_classes() -> None:
    private = FedKT(partitions=1, subsets=5, queries=5, privacy=Privacy(level="L1", epsilon=10.0))
    with pytest.raises(LimbeckError, match="classes is missing"):
        classifier(algorithm=private).fit(X, Y)
    record = classifier(algorithm=private, classes=[0, 1, 2]).fit(X, Y).result_.record
    assert record.epsilon["public"] <= 10


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parties": 0}, "parties must be a whole number, at least 1, not 0"),
        ({"parties": "3"}, "parties must be a whole number, at least 1, not '3'"),
        ({"algorithm": FedKT}, "algorithm must be an algorithm such as"),
        ({"split": "dirichlet"}, "split must be a table such as"),
        ({"split": {"kind": "dirichlet", "bta": 1.0}}, "split: unknown key 'bta'; did you mean 'beta'"),
        ({"algorithm__consistent": "maybe"}, "consistent = 'maybe'"),
        ({"classes": [0, 1, 2, 2]}, "classes contains a class twice"),
        ({"classes": [0, 1]}, "classes lacks 2, which is a label in y"),
        ({"public_share": 1.5}, "public_share must be a share between 0 and 1"),
        ({"split": {"kind": "dirichle"}}, "split: unknown kind 'dirichle'; did you mean 'dirichlet'"),
        ({"algorithm__partition": 1}, "algorithm__partition: fedkt has no such parameter; did you mean 'partitions'"),
        ({"estimator": "forest"}, "unknown model 'forest'"),
    ],
)
def test_bad_parameters_get_one_clear_line(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(LimbeckError, match=message):
        classifier().set_params(**changed).fit(X, Y)


def test_what_failed_to_fit_is_not_fitted() -> None:
    fitted = classifier().fit(X, Y)
    with pytest.raises(LimbeckError, match="sends the weights of a network"):
        fitted.set_params(algorithm=FedAvg()).fit(X, Y)
    with pytest.raises(NotFittedError):
        fitted.predict(X)


def test_classes_stand_in_order_however_they_were_named() -> None:
    plain, named = classifier().fit(X, Y), classifier(classes=[2, 0, 1]).fit(X, Y)
    assert named.classes_.tolist() == [0, 1, 2]
    assert (named.predict_proba(X) == plain.predict_proba(X)).all()


def test_groups_of_another_length_are_refused() -> None:
    with pytest.raises(LimbeckError, match=r"groups must have the shape \(150,\), a party for each row"):
        classifier().fit(X, Y, groups=[0, 1, 2])
    with pytest.raises(LimbeckError, match="groups contains None or NaN"):
        classifier().fit(X, Y, groups=[None, *Y[1:]])


NUMBERS = X[:, 0]
FEATURES = X[:, 1:]
SEVERAL = np.stack([Y == 0, Y > 0, X[:, 0] > 5.8], axis=1).astype(int)


@pytest.mark.slow
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [FederatedRegressor(estimator=DecisionTreeRegressor())], expected_failed_checks=impossible
)
def test_scikit_learns_own_checks_of_regressors(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        FederatedRegressor(algorithm=FedKD(mechanism="none"), estimator=DecisionTreeRegressor()),
        FederatedRegressor(algorithm=FedMD(rounds=1, start="none"), estimator=DecisionTreeRegressor()),
        FederatedRegressor(algorithm=Solo(), estimator=Ridge()),
    ],
    ids=["fedkd", "fedmd", "solo"],
)
def test_and_of_whatever_regressors_are_made_of(estimator: FederatedRegressor) -> None:
    check_estimator(estimator, expected_failed_checks=impossible(estimator))


def test_a_regressor_works_in_cross_validation_pipelines_and_searches() -> None:
    plain = FederatedRegressor(random_state=0)
    shuffled = KFold(3, shuffle=True, random_state=0)
    assert cross_val_score(plain, FEATURES, NUMBERS, cv=shuffled).mean() > 0.5
    piped = make_pipeline(StandardScaler(), FederatedRegressor(Solo(), Ridge(), random_state=0))
    assert piped.fit(FEATURES, NUMBERS).score(FEATURES, NUMBERS) > 0.7
    with pytest.raises(LimbeckError, match=r"algorithm must be an algorithm such as lb\.FedRidge"):
        FederatedRegressor(algorithm=3).fit(FEATURES, NUMBERS)  # type: ignore[arg-type]
    grid = {"algorithm__gram": ["public", "private"]}
    search = GridSearchCV(FederatedRegressor(FedRidge(), random_state=0), grid, cv=shuffled)
    assert search.fit(FEATURES, NUMBERS).best_score_ > 0.5


def test_a_regressor_predicts_in_the_unit_of_the_target_and_within_its_range() -> None:
    fitted = FederatedRegressor(random_state=0).fit(FEATURES, 1000 * NUMBERS)
    assert np.abs(fitted.predict(FEATURES) - 1000 * NUMBERS).mean() < 400
    narrow = FederatedRegressor(limits=(5.0, 6.0), random_state=0).fit(FEATURES, NUMBERS).predict(FEATURES)
    assert ((narrow >= 5) & (narrow <= 6)).all()
    alone = FederatedRegressor(Solo(), "decision-tree", random_state=0).fit(FEATURES, NUMBERS)
    each = [model.predict(FEATURES) for model in alone.result_.models.values()]
    assert np.allclose(alone.predict(FEATURES), np.mean(each, axis=0))
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert (again.predict(FEATURES) == fitted.predict(FEATURES)).all()


def test_private_targets_need_a_range() -> None:
    private = FederatedRegressor(FedRidge(privacy=Privacy("L2", epsilon=4.0)), random_state=0)
    with pytest.raises(LimbeckError, match=r"the range of the target would be read from private labels: .*limits="):
        private.fit(FEATURES, NUMBERS)
    record = private.set_params(limits=(4.0, 8.0)).fit(FEATURES, NUMBERS).result_.record
    assert record.epsilon["public"] <= 4


def test_a_classifier_learns_several_labels_a_row() -> None:
    for algorithm in (None, FedRidge(), Solo()):
        fitted = FederatedClassifier(algorithm, "decision-tree", random_state=0).fit(X, SEVERAL)
        assert fitted.predict(X).shape == fitted.predict_proba(X).shape == (150, 3)
        assert (fitted.predict(X) == SEVERAL).mean() > 0.85
        assert fitted.classes_.tolist() == [0, 1, 2]
    unknown = SEVERAL.copy()
    unknown[::4, 2] = -1
    named = FederatedClassifier(FedRidge(), classes=["a", "b", "c"], random_state=0).fit(X, unknown)
    assert named.classes_.tolist() == ["a", "b", "c"]
    assert (named.predict(X) == SEVERAL).mean() > 0.85
    split = {"kind": "dirichlet", "beta": 0.5, "min_rows": 5}
    assert len(FederatedClassifier(Solo(), TREE, split=split, random_state=0).fit(X, SEVERAL).result_.models) == 3


@pytest.mark.parametrize(
    ("y", "changed", "message"),
    [
        (SEVERAL + 1, {}, "with several labels a row, every label is 1"),
        (SEVERAL, {"algorithm": QUICK}, 'fedkt is for task = "multiclass", not "multilabel"'),
        (SEVERAL, {"algorithm": FedRidge(), "classes": ["a", "b"]}, "every y has one column for each class"),
        (SEVERAL, {"algorithm": FedRidge(), "classes": ["a", "b", "a"]}, "classes contains 'a' twice"),
    ],
)
def test_wrong_labels_get_one_clear_line(y: Any, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(LimbeckError, match=message):
        classifier(**changed).fit(X, y)


def hospital(rows: int = 240) -> tuple[Any, Any]:
    """A table with text, a date, missing values and reordered columns, and its labels."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 80, rows).astype(float),
            "ward": np.array(["north", "south", None], object)[rng.integers(0, 3, rows)],
            "seen": [f"2024-0{1 + i % 9}-11" for i in range(rows)],
            "crp": rng.normal(size=rows),
        }
    )
    labels = np.where(table["crp"] + (table["ward"] == "north") > 0.4, "yes", "no")
    table.loc[::17, "age"] = np.nan
    return table, labels


@pytest.mark.parametrize("public", [False, True])
def test_a_table_with_text_and_missing_values_is_read_by_a_schema(public: bool) -> None:
    table, labels = hospital()
    fitted = classifier(public=table.iloc[:50] if public else None).fit(table, labels)
    assert list(fitted.feature_names_in_) == ["age", "ward", "seen", "crp"]
    assert fitted.n_features_in_ == 4
    assert fitted.score(table, labels) > 0.9
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert (again.predict(table[["crp", "seen", "ward", "age"]]) == fitted.predict(table)).all()
    with pytest.raises(LimbeckError, match="X has no column 'ward'"):
        fitted.predict(table.drop(columns="ward"))


def test_polars_and_arrow_give_the_same_as_pandas() -> None:
    polars, table = pytest.importorskip("polars"), hospital()
    expected = classifier().fit(*table).predict_proba(table[0])
    for other in (polars.from_pandas(table[0]), polars.from_pandas(table[0]).to_arrow()):
        assert (classifier().fit(other, table[1]).predict_proba(other) == expected).all()


def test_a_regressor_takes_tables_too() -> None:
    table, _ = hospital()
    fitted = FederatedRegressor(random_state=0).fit(table, table["crp"] * 2)
    assert fitted.score(table, table["crp"] * 2) > 0.8


def test_sparse_matrices_give_the_same_as_dense_ones() -> None:
    sparse = csr_matrix(X)
    assert (classifier().fit(sparse, Y).predict_proba(sparse) == classifier().fit(X, Y).predict_proba(X)).all()


def test_predictions_can_be_tables() -> None:
    pd, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = pd.DataFrame(X, columns=list("abcd"), index=np.arange(len(X)) + 7)
    fitted = classifier().fit(table, Y).set_output(transform="pandas")
    shares = fitted.predict_proba(table)
    assert list(shares.columns) == [0, 1, 2]
    assert list(shares.index) == list(table.index)
    assert list(fitted.predict(table).index) == list(table.index)
    assert isinstance(fitted.set_output(transform="polars").predict_proba(table), polars.DataFrame)
    assert isinstance(fitted.set_output(transform="default").predict(table), np.ndarray)
    with pytest.raises(LimbeckError, match="transform must be"):
        fitted.set_output(transform="numpy")  # type: ignore[arg-type]


def test_scikit_learns_checks_hold_for_a_fitted_pickled_and_reloaded_estimator(tmp_path: Any) -> None:
    fitted = classifier().fit(X, Y)
    joblib.dump(fitted, tmp_path / "fitted.joblib")
    fitted.predict(X)
    joblib.dump(fitted, tmp_path / "used.joblib")
    for name in ("fitted", "used"):
        again = joblib.load(tmp_path / f"{name}.joblib")
        assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
        for check in (check_n_features_in_after_fitting, check_fit_idempotent, check_estimators_pickle):
            check("FederatedClassifier", again)


def test_a_used_estimator_survives_a_search_in_several_processes() -> None:
    fitted = classifier().fit(X, Y)
    fitted.predict(X)
    search = GridSearchCV(fitted, {"estimator__max_depth": [1, 4]}, cv=2, n_jobs=2).fit(X, Y)
    assert search.best_params_["estimator__max_depth"] == 4


def test_at_a_private_level_no_value_decides_whether_a_schema_is_used() -> None:
    """A table goes through the schema of the public rows, with and without a missing private value."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=list("abcd"))
    private = FedRidge(privacy=Privacy(level="L2", epsilon=8.0))
    schemas = []
    for value in (table.iloc[5, 0], np.nan):
        table.iloc[5, 0] = value
        fitted = classifier(algorithm=private, classes=[0, 1, 2], public=table.iloc[50:100]).fit(table, Y)
        schemas.append(fitted.result_.model.schema)
    assert schemas[0] is not None
    assert schemas[0] == schemas[1]
