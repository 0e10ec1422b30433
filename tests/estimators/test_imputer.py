"""PPCAImputer fills the holes of a table, and is a scikit-learn imputer like any other."""

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from oracles import dense_condition, dense_covariance, spiked_rows
from probpca import PPCA, DataError, FactorAnalysis, PPCAImputer, ProbpcaError, ShapeError
from probpca.models import Gaussian

NAMES = ["height", "width", "depth", "mass", "age", "price"]


@pytest.fixture
def complete(rng):
    return spiked_rows(rng, 60, 6, 2)


@pytest.fixture
def hidden(rng, complete):
    return rng.random(complete.shape) < 0.2


@pytest.fixture
def x(complete, hidden):
    return np.where(hidden, np.nan, complete)


@pytest.fixture
def empty(x):
    """A table of whose third column nothing is known."""
    x = x.copy()
    x[:, 2] = np.nan
    return x


# Some checks fit data that a model explains completely.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        PPCAImputer(n_components=1),
        PPCAImputer(),
        PPCAImputer(1, model="ppca"),
        PPCAImputer(1, model="ppca", standardize=False, add_indicator=True, keep_empty_features=True),
    ]
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


def test_tags_say_what_it_takes():
    tags = get_tags(PPCAImputer())
    assert tags.input_tags.allow_nan
    assert tags.input_tags.sparse
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]


ESTIMATORS = {
    "fa": (PPCAImputer(2, random_state=0), FactorAnalysis(2, random_state=0)),
    "ppca": (PPCAImputer(2, model="ppca", random_state=0), PPCA(2, standardize=True, random_state=0)),
    "unscaled ppca": (PPCAImputer(2, model="ppca", standardize=False, random_state=0), PPCA(2, random_state=0)),
}
"""Imputers, and the estimators that they use."""


@pytest.mark.parametrize("imputer", [imputer for imputer, _ in ESTIMATORS.values()], ids=ESTIMATORS)
def test_holes_are_filled_with_conditional_means(x, hidden, imputer):
    imputer = clone(imputer).fit(x)
    filled = imputer.transform(x)
    margin = Gaussian(imputer.estimator_.mean_, dense_covariance(imputer.estimator_.model_))
    for row, hole, answer in zip(x, hidden, filled, strict=True):
        mean, _ = dense_condition(margin, np.flatnonzero(~hole), row[~hole])
        assert_allclose(answer[hole], mean[0], atol=1e-9)
    assert_array_equal(filled[~hidden], x[~hidden])
    assert_array_equal(filled, clone(imputer).fit_transform(x))
    assert np.isnan(x[hidden]).all()  # what came in was not written to


def test_it_comes_far_nearer_than_means_of_columns(x, complete, hidden):
    wrong = (PPCAImputer().fit_transform(x) - complete)[hidden]
    assert np.square(wrong).mean() < 0.3 * np.square((SimpleImputer().fit_transform(x) - complete)[hidden]).mean()


@pytest.mark.parametrize(("imputer", "estimator"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_it_fills_as_the_estimator_does(rng, imputer, estimator):
    x = 2 * rng.standard_normal((300, 2)) @ rng.standard_normal((2, 6)) + rng.standard_normal((300, 6))
    x[rng.random(x.shape) < 0.2] = np.nan
    assert_allclose(clone(imputer).fit_transform(x), clone(estimator).fit(x).impute(x), atol=1e-10)


@pytest.mark.parametrize("model", ["fa", "ppca"])
def test_units_of_columns_do_not_matter(x, model):
    scale, shift = np.geomspace(1e-3, 1e3, 6), np.arange(6)
    imputer = PPCAImputer(2, model=model, random_state=0)
    filled = imputer.fit_transform(x * scale + shift)
    assert_allclose((filled - shift) / scale, imputer.fit_transform(x), atol=1e-6)


def test_factor_analysis_does_not_depend_on_standardize(x):
    filled = [PPCAImputer(2, standardize=flag, random_state=0).fit_transform(x) for flag in (True, False)]
    assert_array_equal(*filled)


def test_noise_has_the_floor_that_few_cells_cannot_fall_below(rng):
    x = rng.standard_normal((60, 5))
    x[:, 1] = 2 * x[:, 0] + 1e-6 * x[:, 2]  # the noise of both would be zero
    x[::3, 0] = np.nan
    imputer = PPCAImputer(1, random_state=0).fit(x)
    cells, variance = np.isfinite(x).sum(axis=0), np.nanvar(x, axis=0)
    noise = imputer.model_.noise_variance
    assert (noise >= 0.1 / cells * variance * (1 - 1e-9)).all()
    assert_allclose(noise[:2], (0.1 / cells * variance)[:2], rtol=0.02)


@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_a_rule_asks_for_eight_cells_a_parameter(rng, holes):
    x = rng.standard_normal((40, 5)) @ rng.standard_normal((5, 20)) + 0.3 * rng.standard_normal((40, 20))
    x[rng.random(x.shape) < holes] = np.nan
    cells = np.isfinite(x).sum() / 20
    imputer = PPCAImputer(random_state=0).fit(x)
    assert imputer.estimator_.n_components_ == int(cells / 8) - 1 < 5
    assert FactorAnalysis("bic", random_state=0).fit(x).n_components_ == 5


def test_a_rule_goes_beyond_the_ledermann_bound(rng):
    x = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 4)) + 0.3 * rng.standard_normal((400, 4))
    x[rng.random(x.shape) < 0.1] = np.nan
    assert FactorAnalysis("bic", random_state=0).fit(x).n_components_ == 1  # the bound for four columns
    assert PPCAImputer(random_state=0).fit(x).estimator_.n_components_ > 1


@pytest.mark.parametrize(("model", "given"), [("fa", 0.9), ("fa", "evidence"), ("ppca", "aic"), ("ppca", 1.0)])
def test_a_number_or_rule_that_the_model_does_not_know_is_an_error_that_names_the_parameter(x, model, given):
    with pytest.raises(DataError, match="The 'n_components' parameter of PPCAImputer must be"):
        PPCAImputer(given, model=model).fit(x)


def test_a_model_that_is_unknown_is_an_error(x):
    with pytest.raises(DataError, match=r"'model' parameter of PPCAImputer must be a str among \{'fa', 'ppca'\}"):
        PPCAImputer(model="pca").fit(x)


@pytest.mark.parametrize(
    ("model", "estimator"),
    [("fa", FactorAnalysis(2, floor=0.1 / 60)), ("ppca", PPCA(2, standardize=True))],
    ids=["fa", "ppca"],
)
def test_a_complete_table_comes_back_and_teaches_how_to_fill_others(complete, x, hidden, model, estimator):
    imputer = PPCAImputer(2, model=model).fit(complete)
    assert_array_equal(imputer.transform(complete), complete)
    assert_allclose(imputer.transform(x), estimator.fit(complete).impute(x), atol=1e-10)
    assert_array_equal(imputer.transform(x)[~hidden], complete[~hidden])


def test_rows_never_seen_are_filled_alone_as_together(x):
    imputer = PPCAImputer(2).fit(x[:40])
    together = imputer.transform(x[40:])
    assert_allclose(np.vstack([imputer.transform(row[None]) for row in x[40:]]), together, atol=1e-10)
    assert_allclose(imputer.transform(np.full((1, 6), np.nan))[0], imputer.estimator_.mean_)


def test_a_column_that_is_missing_only_later_is_filled_from_the_others(complete):
    imputer = PPCAImputer(2).fit(complete)
    later = complete.copy()
    later[:, 3] = np.nan
    filled = imputer.transform(later)
    assert np.corrcoef(filled[:, 3], complete[:, 3])[0, 1] > 0.9


def test_many_rows_are_filled_some_at_a_time(x, empty, monkeypatch):
    imputer = PPCAImputer(2, keep_empty_features=True).fit(empty)
    wanted = imputer.transform(x)
    monkeypatch.setattr(PPCAImputer, "_cells_at_a_time", 20)
    assert_allclose(imputer.transform(x), wanted, atol=1e-10)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("kind", [np.array, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.filterwarnings("ignore:Skipping features", "ignore:no observed cells")
def test_empty_columns_and_indicators_are_as_scikit_learn_has_them(empty, x, keep, add, kind):
    options = {"keep_empty_features": keep, "add_indicator": add}
    empty[:, 5] = 1.0 + np.arange(len(empty))  # complete at the fit: it gets no indicator
    frame = pd.DataFrame(empty, columns=NAMES)
    ours, theirs = PPCAImputer(2, **options).fit(kind(empty)), SimpleImputer(**options).fit(kind(empty))
    for rows in (empty, x):
        mine, other = (np.asarray(_dense(imputer.transform(kind(rows)))) for imputer in (ours, theirs))
        assert mine.shape == other.shape
        seen = ~np.isnan(rows if keep else np.delete(rows, 2, axis=1))
        assert_array_equal(mine[:, : seen.shape[1]][seen], other[:, : seen.shape[1]][seen])
        assert_array_equal(mine[:, seen.shape[1] :], other[:, seen.shape[1] :])
    assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
    named = [imputer.fit(frame).get_feature_names_out() for imputer in (ours, theirs)]
    assert_array_equal(*named)
    assert_array_equal(ours.empty_features_, [2])
    if keep:
        assert_array_equal(ours.transform(frame)[:, 2], 0)


def _dense(table):
    return table.toarray() if sparse.issparse(table) else table


def test_columns_that_are_left_out_are_named_in_a_warning(empty):
    with pytest.warns(UserWarning, match=r"left out: \[2\](.|\n)*Hint: keep_empty_features"):
        PPCAImputer(2).fit(empty)
    with pytest.warns(UserWarning, match="depth"):
        imputer = PPCAImputer(2).fit(pd.DataFrame(empty, columns=NAMES))
    assert_array_equal(imputer.estimator_.feature_names_in_, np.delete(NAMES, 2))
    assert imputer.estimator_.n_features_in_ == 5


def test_an_empty_column_teaches_nothing(empty):
    filled = PPCAImputer(2, keep_empty_features=True).fit_transform(empty)
    assert_allclose(np.delete(filled, 2, axis=1), PPCAImputer(2).fit_transform(np.delete(empty, 2, axis=1)), atol=1e-10)


def test_limits_hold_for_what_is_filled_in_and_for_nothing_else(x, hidden):
    free = PPCAImputer(2).fit_transform(x)
    low, high = np.quantile(free[hidden], [0.2, 0.8])
    held = PPCAImputer(2, min_value=low, max_value=high).fit_transform(x)
    assert_allclose(held[hidden], np.clip(free[hidden], low, high), atol=1e-9)
    assert_array_equal(held[~hidden], x[~hidden])
    assert (x[~hidden] > high).any()
    floor = np.full(6, -np.inf)
    floor[1] = 100.0
    held = PPCAImputer(2, min_value=floor, max_value=list(np.full(6, 1e3))).fit_transform(x)
    assert_array_equal(held[hidden[:, 1], 1], 100)
    assert_allclose(np.delete(held, 1, axis=1), np.delete(free, 1, axis=1), atol=1e-9)


def test_limits_hold_for_empty_columns_too(empty):
    filled = PPCAImputer(2, min_value=[-9, -9, 3, -9, -9, -9], keep_empty_features=True).fit_transform(empty)
    assert_array_equal(filled[:, 2], 3)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"min_value": [0.0, 1.0]}, ShapeError, r"min_value must have shape \(\) or \(6,\); got \(2,\)"),
        ({"max_value": np.zeros((6, 1))}, ShapeError, "max_value must have shape"),
        ({"min_value": 2.0, "max_value": 1.0}, DataError, "min_value must not exceed max_value"),
        ({"min_value": np.full(6, np.nan)}, DataError, "min_value must not exceed max_value"),
        ({"min_value": "low"}, DataError, "'min_value' parameter of PPCAImputer"),
        (
            {"n_components": 6},
            ShapeError,
            r"less than the number of columns with observed values, n_features=6; got 6(.|\n)*Hint",
        ),
        ({"n_components": 1.5}, DataError, "'n_components' parameter of PPCAImputer"),
        ({"standardize": "yes"}, DataError, "'standardize' parameter"),
        ({"add_indicator": 2}, DataError, "'add_indicator' parameter"),
    ],
    ids=str,
)
def test_parameters_that_mean_nothing_are_refused(x, parameters, error, message):
    with pytest.raises(error, match=message):
        PPCAImputer(**parameters).fit(x)


def test_components_are_counted_against_columns_that_are_known(empty):
    with pytest.raises(ShapeError, match="observed values, n_features=5; got 5"):
        PPCAImputer(5).fit(empty)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, np.nan, 2.0]], "at least 2 rows"),
        ([[1.0, 2.0], [1.0, np.nan]], "no variation"),
    ],
)
def test_tables_from_which_nothing_can_be_learned_are_refused(rows, message):
    with pytest.raises(DataError, match=message):
        PPCAImputer(keep_empty_features=True).fit(rows)


def test_a_failed_fit_is_no_fit(x):
    imputer = PPCAImputer(2).fit(x)
    with pytest.raises(ValueError, match="infinity"):
        imputer.fit(np.where(np.isnan(x), np.inf, x))
    with pytest.raises(NotFittedError):
        imputer.transform(x)


def test_infinity_is_refused_later_too(x):
    with pytest.raises(ValueError, match="infinity"):
        PPCAImputer(2).fit(x).transform(np.full((1, 6), np.inf))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_dataframes_come_out_if_they_are_asked_for(x, frame):
    table = frame(dict(zip(NAMES, x.T, strict=True)))
    kind = "pandas" if frame is pd.DataFrame else "polars"
    plain = PPCAImputer(2, add_indicator=True).fit(table)
    assert type(plain.transform(table)) is np.ndarray  # as SimpleImputer
    imputer = PPCAImputer(2, add_indicator=True).set_output(transform=kind)
    for filled in (imputer.fit_transform(table), imputer.transform(table)):
        assert isinstance(filled, frame)
        assert list(filled.columns) == [*NAMES, *(f"missingindicator_{name}" for name in NAMES)]
        assert_allclose(filled.to_numpy(), plain.transform(table), atol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        imputer.transform(table[NAMES[::-1]])


def test_a_dataframe_keeps_its_index(x):
    table = pd.DataFrame(x, columns=NAMES, index=np.arange(60) * 10)
    filled = PPCAImputer(2).set_output(transform="pandas").fit_transform(table)
    assert_array_equal(filled.index, table.index)


def test_the_model_inside_answers_for_the_same_dataframe(x):
    table = pd.DataFrame(x, columns=NAMES)
    imputer = PPCAImputer(2).set_output(transform="pandas").fit(table)
    low, high = imputer.estimator_.impute_interval(table)
    filled = imputer.transform(table)
    assert ((low <= filled) & (filled <= high)).all(axis=None)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_nulls_are_missing_cells(x, hidden, frame):
    numbers = np.round(10 * x)
    columns = {
        name: [None if np.isnan(value) else int(value) for value in column]
        for name, column in zip(NAMES, numbers.T, strict=True)
    }
    table = frame(columns).convert_dtypes() if frame is pd.DataFrame else frame(columns)
    filled = PPCAImputer(2).fit_transform(table)
    assert_allclose(filled, PPCAImputer(2).fit_transform(numbers), atol=1e-9)
    assert_array_equal(filled[~hidden], numbers[~hidden])


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("add", [False, True])
def test_float32_stays_float32(x, hidden, kind, add):
    single = x.astype(np.float32)
    filled = PPCAImputer(2, add_indicator=add).fit_transform(kind(single))
    assert filled.dtype == np.float32
    table = _dense(filled)[:, :6]
    assert_array_equal(table[~hidden], single[~hidden])
    assert_allclose(table, PPCAImputer(2).fit_transform(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_a_sparse_matrix_stays_sparse(x, rng, kind):
    x[(rng.random(x.shape) < 0.5) & ~np.isnan(x)] = 0.0
    thin = kind(x)
    filled = PPCAImputer(2).fit_transform(thin)
    assert sparse.issparse(filled)
    assert filled.nnz == thin.nnz
    assert isinstance(filled, sparse.sparray) == isinstance(thin, sparse.sparray)
    assert_allclose(filled.toarray(), PPCAImputer(2).fit_transform(x), atol=1e-8)
    assert np.isnan(thin.toarray()).any()


def test_parts_of_a_cell_that_are_stored_apart_are_added(x):
    once = sparse.csr_array(np.where(np.isnan(x), np.nan, x))
    twice = sparse.csr_array(
        (np.repeat(once.data / 2, 2), np.repeat(once.indices, 2), 2 * once.indptr), shape=once.shape
    )
    imputer = PPCAImputer(2, model="ppca", random_state=0)
    assert_allclose(imputer.fit_transform(twice).toarray(), imputer.fit_transform(x), atol=1e-8)
    assert twice.nnz == 2 * once.nnz


def test_weights_are_rows_that_are_there_more_than_once(x, rng):
    times = rng.integers(0, 3, len(x))
    weighted = PPCAImputer(2, tol=1e-9).fit(x, sample_weight=times)
    repeated = PPCAImputer(2, tol=1e-9).fit(np.repeat(x, times, axis=0))
    assert_allclose(weighted.transform(x), repeated.transform(x), atol=1e-4)


def test_a_column_known_only_in_rows_without_weight_is_empty(x):
    x[:40, 2] = np.nan
    weight = np.r_[np.ones(40), np.zeros(20)]
    options = {"keep_empty_features": True, "add_indicator": True}
    imputer = PPCAImputer(2, **options).fit(x, sample_weight=weight)
    assert_array_equal(imputer.empty_features_, [2])
    assert_allclose(imputer.transform(x), PPCAImputer(2, **options).fit(x[:40]).transform(x), atol=1e-9)


def test_weights_are_routed_through_a_pipeline(x, complete, rng):
    y = complete[:, 0] > np.median(complete[:, 0])
    weight = rng.integers(1, 4, len(x))
    with sklearn.config_context(enable_metadata_routing=True):
        steps = (
            PPCAImputer(2).set_fit_request(sample_weight=True),
            LogisticRegression().set_fit_request(sample_weight=True),
        )
        pipeline = make_pipeline(*steps).fit(x, y, sample_weight=weight)
    assert pipeline[0].estimator_.n_samples_ == weight.sum()
    assert_allclose(pipeline[0].transform(x), PPCAImputer(2).fit(x, sample_weight=weight).transform(x), atol=1e-9)


@pytest.mark.parametrize("classifier", [LogisticRegression(), HistGradientBoostingClassifier(max_iter=10)])
def test_a_classifier_learns_from_what_it_completes(x, complete, classifier):
    y = complete[:, 0] > np.median(complete[:, 0])
    pipeline = make_pipeline(PPCAImputer(2, add_indicator=True), classifier).fit(x[:40], y[:40])
    assert pipeline.score(x[40:], y[40:]) > 0.7


def test_a_grid_search_goes_over_components(x, complete):
    y = complete[:, 0] > np.median(complete[:, 0])
    pipeline = make_pipeline(PPCAImputer(random_state=0), LogisticRegression())
    search = GridSearchCV(pipeline, {"ppcaimputer__n_components": [1, 2, np.int64(3), None]}, cv=3, error_score="raise")
    search.fit(x, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_column_transformer_gives_it_the_numbers(x):
    table = pd.DataFrame(x, columns=NAMES).assign(colour=["red", "blue"] * 30)
    imputer = PPCAImputer(2, model="ppca", random_state=0)
    columns = make_column_transformer((imputer, NAMES), (OneHotEncoder(), ["colour"]))
    filled = columns.fit_transform(table)
    assert_allclose(filled[:, :6], imputer.fit_transform(x), atol=1e-9)
    assert list(columns.get_feature_names_out()[:2]) == ["ppcaimputer__height", "ppcaimputer__width"]


def test_a_clone_has_the_parameters_and_a_pickle_the_bits(x):
    imputer = PPCAImputer(2, min_value=np.zeros(6), add_indicator=True, random_state=0).fit(x)
    copy = clone(imputer)
    assert not hasattr(copy, "estimator_")
    assert copy.get_params().keys() == imputer.get_params().keys()
    assert_array_equal(copy.min_value, imputer.min_value)
    assert_array_equal(pickle.loads(pickle.dumps(imputer)).transform(x), imputer.transform(x))  # noqa: S301


def test_parameters_reach_the_model_inside(x):
    given = {"n_components": 2, "tol": 1e-5, "max_iter": 77, "n_init": 2, "n_jobs": 1, "random_state": 3}
    inside = PPCAImputer(**given, model="ppca", standardize=False).fit(x).estimator_
    assert {name: inside.get_params()[name] for name in given} == given
    assert isinstance(inside, PPCA)
    assert not inside.standardize
    inside = PPCAImputer(**given).fit(x).estimator_
    assert {name: inside.get_params()[name] for name in given} == given
    assert isinstance(inside, FactorAnalysis)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        PPCAImputer(2, max_iter=1).fit(x)


def test_before_a_fit_nothing_can_be_filled_in(x):
    for ask in (lambda: PPCAImputer().transform(x), PPCAImputer().get_feature_names_out):
        with pytest.raises(NotFittedError):
            ask()


@st.composite
def tables(draw):
    """Rows of any shape and rank, with or without noise, and holes in them."""
    n, d = draw(st.integers(1, 25)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    rank = draw(st.integers(1, d))
    x = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))
    x += draw(st.sampled_from([0.0, 1e-6, 1.0])) * rng.standard_normal((n, d))
    x[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]))] = np.nan
    return x * 10.0 ** draw(st.integers(-8, 8))


@given(
    x=tables(), q=st.sampled_from([None, 1, 3, 0.8]), standardize=st.booleans(), keep=st.booleans(), add=st.booleans()
)
@settings(max_examples=60)
def test_whatever_comes_in_no_hole_comes_out(x, q, standardize, keep, add):
    imputer = PPCAImputer(q, standardize=standardize, keep_empty_features=keep, add_indicator=add, max_iter=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "no observed cells")
        try:
            filled = imputer.fit_transform(x)
        except ProbpcaError:
            return
    assert np.isfinite(filled).all()
    assert filled.shape == (len(x), len(imputer.get_feature_names_out()))
    known = x if keep else x[:, ~np.isnan(x).all(axis=0)]
    seen = ~np.isnan(known)
    assert_array_equal(filled[:, : known.shape[1]][seen], known[seen])


CODES = {"nan": np.nan, "-999": -999, "-999.5": -999.5, "zero": 0, "pandas.NA": pd.NA}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", ["array", "integers", "float32", "pandas", "sparse"])
@pytest.mark.filterwarnings("ignore:Skipping features", "ignore:no observed cells", "ignore:.*stopping criterion")
def test_missing_values_are_those_of_scikit_learn(empty, keep, code, kind):
    if (kind, code) in {("sparse", "zero"), ("sparse", "pandas.NA")} or (
        kind == "integers" and code not in ("-999", "zero")
    ):
        pytest.skip("there is no such table, or scikit-learn fails on it")
    marked = np.nan if code == "pandas.NA" else CODES[code]
    whole = np.round(8 * empty) + 0.0
    whole[whole == 0] = 1.0
    rows = np.where(np.isnan(whole), marked, whole)
    table = {
        "array": lambda x: x,
        "integers": lambda x: x.astype(int),
        "float32": lambda x: x.astype(np.float32),
        "pandas": lambda x: pd.DataFrame(x, columns=NAMES),
        "sparse": sparse.csr_array,
    }[kind](rows)
    options = {"missing_values": CODES[code], "keep_empty_features": keep, "add_indicator": True}
    peers = [SimpleImputer(**options)]
    if kind not in ("sparse", "pandas") and code != "pandas.NA":  # IterativeImputer writes into read-only frames
        peers.append(IterativeImputer(max_iter=1, **options))
    ours = PPCAImputer(2, **options).fit(table)
    for theirs in peers:
        theirs.fit(table)
        mine, other = (np.asarray(_dense(imputer.transform(table))) for imputer in (ours, theirs))
        assert mine.shape == other.shape
        assert not np.isnan(mine).any()
        width = 6 if keep else 5
        seen = ~np.isnan(whole if keep else np.delete(whole, 2, axis=1))
        assert_array_equal(mine[:, :width][seen], other[:, :width][seen])
        assert_array_equal(mine[:, width:], other[:, width:])
        assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
        assert ours.__sklearn_tags__().input_tags.allow_nan or not theirs.__sklearn_tags__().input_tags.allow_nan
    bare = table.to_numpy() if kind == "pandas" else table
    assert_array_equal(_dense(ours.indicator_.transform(bare)), np.isnan(whole)[:, ours.indicator_.features_])
    plain = PPCAImputer(2, keep_empty_features=keep, add_indicator=True).fit_transform(
        whole.astype(np.float32) if kind == "float32" else whole
    )
    assert_allclose(np.asarray(_dense(ours.transform(table))), plain, rtol=1e-12)


@pytest.mark.parametrize("code", [None, pd.NA, np.float32("nan"), float("nan")])
def test_null_marks_are_nan(x, code):
    table = pd.DataFrame(x, columns=NAMES)
    expected = PPCAImputer(2, model="ppca", random_state=0).fit_transform(x)
    imputer = PPCAImputer(2, model="ppca", missing_values=code, random_state=0)
    for rows in (
        x,
        table,
        table.convert_dtypes(),
        table.astype(object).where(table.notna(), None),
        table.astype("Float64"),
    ):
        assert_allclose(imputer.fit_transform(rows), expected, rtol=1e-12)  # columns may lie apart in memory
    assert_array_equal(clone(imputer).fit(x).transform(x), expected)


def test_with_a_code_nan_is_an_error_as_in_scikit_learn(x):
    for imputer in (PPCAImputer(missing_values=-999), SimpleImputer(missing_values=-999)):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            imputer.fit(x)
    coded = np.where(np.isnan(x), -999, x)
    imputer = PPCAImputer(missing_values=-999).fit(coded)
    for rows in (x, np.ma.array(coded, mask=coded > 3), pd.DataFrame(x).astype("Float64")):
        with pytest.raises(DataError, match=r"contains NaN.*missing_values=-999.\nHint: replace NaN by -999"):
            imputer.transform(rows)
    with pytest.raises(DataError, match="missing_values=0 needs a dense X; got a sparse matrix"):
        PPCAImputer(missing_values=0).fit(sparse.csr_array(coded))


@pytest.mark.parametrize("code", [10**19, 10**30, Fraction(-1, 2)])
def test_a_mark_may_be_a_number_of_any_type_and_size(x, code, tmp_path):
    coded = np.where(np.isnan(x), float(code), x)
    imputer = PPCAImputer(2, missing_values=code, random_state=0)
    expected = PPCAImputer(2, random_state=0).fit_transform(x)
    assert_array_equal(imputer.fit_transform(coded), expected)
    imputer.to_file(tmp_path / "imputer.npz")
    assert_array_equal(PPCAImputer.from_file(tmp_path / "imputer.npz").transform(coded), expected)


@pytest.mark.parametrize("code", ["NA", np.inf, True, [1.0], 1j, 10**400])
def test_marks_that_are_no_number_are_refused(x, code):
    with pytest.raises(DataError, match=r"missing_values must be a finite number(.|\n)*Hint"):
        PPCAImputer(missing_values=code).fit(x)


def test_no_bound_is_none(x):
    free = PPCAImputer(2).fit_transform(x)
    assert_array_equal(PPCAImputer(2, min_value=None, max_value=None).fit_transform(x), free)
    assert_array_equal(PPCAImputer(2, min_value=-np.inf, max_value=np.inf).fit_transform(x), free)
    bounded = PPCAImputer(2, min_value=None, max_value=0.5).fit_transform(x)
    assert_array_equal(bounded, np.where(np.isnan(x), np.minimum(free, 0.5), x))
    with pytest.raises(DataError, match="min_value must not exceed"):
        PPCAImputer(2, max_value=np.ma.array(np.ones(6), mask=np.eye(6)[0])).fit(x)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array, pd.DataFrame], ids=["array", "sparse", "pandas"])
def test_one_column_is_filled_with_its_mean_as_by_scikit_learn(kind, tmp_path):
    rows = kind(np.array([[1.0], [np.nan], [4.0], [np.nan], [7.0]]))
    for options in ({}, {"add_indicator": True}):
        ours, theirs = PPCAImputer(**options), SimpleImputer(**options)
        assert_array_equal(_dense(ours.fit_transform(rows)), _dense(theirs.fit_transform(rows)))
        assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
    assert ours.n_iter_ == 0
    assert not hasattr(ours, "estimator_")
    assert not hasattr(ours, "model_")
    ours.to_file(tmp_path / "imputer.npz")
    assert_array_equal(
        _dense(PPCAImputer.from_file(tmp_path / "imputer.npz").transform(rows)), _dense(ours.transform(rows))
    )
    with pytest.raises(ShapeError, match="n_features=1; got 1"):
        PPCAImputer(1).fit(rows)


def test_the_mean_of_one_column_takes_weights_and_bounds():
    rows, weight = np.array([[1.0], [np.nan], [4.0]]), [3, 1, 1]
    assert_allclose(PPCAImputer().fit(rows, sample_weight=weight).transform(rows)[1], 1.75)
    assert_array_equal(PPCAImputer(max_value=2.0).fit_transform(rows), [[1.0], [2.0], [4.0]])
    assert_array_equal(PPCAImputer().fit_transform([[3.0], [np.nan]]), [[3.0], [3.0]])  # no variation is needed


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.filterwarnings("ignore:Skipping features", "ignore:no observed cells")
def test_columns_of_which_at_most_one_was_observed(keep):
    for rows in (np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, np.nan]]), np.full((3, 4), np.nan)):
        ours, theirs = (
            imputer(keep_empty_features=keep).fit_transform(rows) for imputer in (PPCAImputer, SimpleImputer)
        )
        assert_array_equal(ours, theirs)


def test_files_keep_the_mark_of_missing_cells(x, tmp_path):
    for code in (-999, 0.0, None, pd.NA, np.nan):
        rows = x if not isinstance(code, int | float) or np.isnan(code) else np.where(np.isnan(x), code, x)
        imputer = PPCAImputer(2, missing_values=code, add_indicator=True).fit(rows)
        imputer.to_file(tmp_path / "imputer.npz")
        assert_array_equal(PPCAImputer.from_file(tmp_path / "imputer.npz").transform(rows), imputer.transform(rows))
