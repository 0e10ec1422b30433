"""PPCA is a scikit-learn estimator like any other."""

import ast
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import probpca
from oracles import closed_form_oracle, dense_log_likelihood, spiked_rows
from probpca import PPCA, BayesianPCA, DataError, FactorAnalysis, LinearDynamicalSystem, MixturePPCA, PPCAImputer
from probpca.estimators.base import generator

NAMES = ["height", "width", "depth", "mass", "age", "price"]


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 60, 6, 2)


# Some checks fit data that a model explains completely, or that have two columns and one direction.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        PPCA(n_components=1),
        PPCA(1, standardize=True),
        PPCA(1, solver="px_em", max_iter=20),
        PPCA(1, robust="rows"),
        PPCA(1, robust="cells"),
        FactorAnalysis(1),
        FactorAnalysis(1, rotation="oblimin", scores="bartlett"),
    ]
)
@pytest.mark.filterwarnings("ignore:the noise variance of:UserWarning")
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_dataframes_go_in_and_come_out(x, frame):
    table = frame(dict(zip(NAMES, x.T, strict=True)))
    kind = "pandas" if frame is pd.DataFrame else "polars"
    ppca = PPCA(2).set_output(transform=kind)
    plain = PPCA(2).fit(x)
    for latent in (ppca.fit_transform(table), ppca.transform(table)):
        assert isinstance(latent, frame)
        assert list(latent.columns) == ["PC1", "PC2"]
        assert_allclose(latent.to_numpy(), plain.transform(x), atol=1e-9)
    assert_array_equal(ppca.feature_names_in_, NAMES)
    assert_array_equal(ppca.get_feature_names_out(), ["PC1", "PC2"])
    assert_allclose(ppca.score(table), plain.score(x))
    assert_allclose(ppca.inverse_transform(latent), plain.inverse_transform(plain.transform(x)), atol=1e-9)


def test_columns_in_another_order_are_refused(x):
    table = pd.DataFrame(x, columns=NAMES)
    ppca = PPCA(2).fit(table)
    with pytest.raises(ValueError, match="feature names should match"):
        ppca.transform(table[NAMES[::-1]])


def test_names_of_an_earlier_table_are_forgotten(x):
    ppca = PPCA(2).fit(pd.DataFrame(x, columns=NAMES)).fit(iter([x]))
    assert not hasattr(ppca, "feature_names_in_")


def test_a_clone_has_the_parameters_and_no_model(x):
    ppca = PPCA(2, solver="svd", tol=1e-5, random_state=3).fit(x)
    copy = clone(ppca)
    assert copy.get_params() == ppca.get_params()
    assert not hasattr(copy, "model_")


def test_a_pickle_predicts_the_same_bits(x):
    ppca = PPCA(2, solver="px_em", verbose=True, random_state=0).fit(x)
    data = pickle.dumps(ppca)
    assert b"tqdm" not in data
    assert_array_equal(pickle.loads(data).transform(x), ppca.transform(x))  # noqa: S301


def test_a_pipeline_scales_then_fits(x):
    pipeline = make_pipeline(StandardScaler(), PPCA(2)).fit(x)
    scaled = StandardScaler().fit_transform(x)
    assert_allclose(pipeline.score(x), closed_form_oracle(scaled, 2).log_likelihood / len(x))
    assert pipeline.transform(x).shape == (60, 2)


def test_a_grid_search_compares_held_out_log_likelihoods(x):
    counts = np.arange(1, 5)
    search = GridSearchCV(PPCA(), {"n_components": counts}, cv=KFold(3)).fit(x)
    wanted = [
        [
            dense_log_likelihood(closed_form_oracle(x[train], q).model, x[test]).mean()
            for train, test in KFold(3).split(x)
        ]
        for q in counts
    ]
    assert_allclose(search.cv_results_["mean_test_score"], np.mean(wanted, axis=1), rtol=1e-8)
    assert search.best_params_["n_components"] == 2


@pytest.mark.parametrize("last", [True, False], ids=["at the end", "in the middle"])
def test_weights_are_routed_through_a_pipeline(x, rng, last):
    times = rng.integers(0, 4, len(x))
    repeated = np.repeat(x, times, axis=0)
    with sklearn.config_context(enable_metadata_routing=True):
        ppca = PPCA(2).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        steps = [ppca] if last else [ppca, PPCA(1).set_fit_request(sample_weight=True)]
        if not last:
            steps[-1].set_score_request(sample_weight=True)
        pipeline = make_pipeline(*steps).fit(x, sample_weight=times)
        plain = make_pipeline(*(PPCA(step.n_components) for step in steps)).fit(repeated)
        assert_allclose(pipeline.score(x, sample_weight=times), plain.score(repeated), rtol=1e-9)


def test_iterators_and_sources_of_batches_are_fitted(x):
    plain = PPCA(2).fit(x)
    for rows in (iter(np.array_split(x, 4)), (part for part in np.array_split(x, 4))):
        streamed = PPCA(2).fit(rows)
        assert streamed.n_features_in_ == 6
        assert_allclose(streamed.get_covariance(), plain.get_covariance(), atol=1e-9)


def test_the_same_random_state_gives_the_same_answer(x):
    for solver in ("px_em", "gradient", "krylov"):
        first, second = (PPCA(2, solver=solver, random_state=5).fit(x) for _ in range(2))
        assert_array_equal(first.loadings_, second.loadings_)
    ppca = PPCA(2, random_state=5).fit(x)
    assert_array_equal(ppca.sample(4), ppca.sample(4))
    assert_array_equal(ppca.explore(x[:2], 3), ppca.explore(x[:2], 3))
    assert not np.array_equal(ppca.sample(4, random_state=1), ppca.sample(4, random_state=2))


@pytest.mark.parametrize("state", [np.random.RandomState(3), np.random.default_rng(3), 3, None])
def test_a_random_state_of_any_kind_will_do(x, state):
    assert PPCA(2, solver="px_em", random_state=state).fit(x).sample(3).shape == (3, 6)


def test_a_bar_is_shown_on_demand_only(x, capsys):
    PPCA(2, solver="px_em", random_state=0).fit(x)
    quiet = capsys.readouterr()
    assert quiet.out == quiet.err == ""
    PPCA(2, solver="px_em", random_state=0, verbose=True).fit(x)
    loud = capsys.readouterr()
    assert loud.out == ""
    assert "ll " in loud.err
    assert "remaining gain" in loud.err


ESTIMATORS = [PPCA, BayesianPCA, FactorAnalysis, LinearDynamicalSystem, MixturePPCA, PPCAImputer]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimator_is_made_of_few_classes_without_hidden_attributes(kind):
    ours = [one for one in kind.__mro__ if one.__module__.startswith("probpca.")]
    assert len(ours) <= 3
    assert not any("__getattr__" in vars(one) or "__getattribute__" in vars(one) for one in ours)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_fit_leaves_one_private_state_and_what_scikit_learn_notes(x, kind):
    fitted = kind(2).fit(pd.DataFrame(x, columns=NAMES))
    assert set(vars(fitted)) - set(kind(2).get_params()) == {"_fitted", "n_features_in_", "feature_names_in_"}


@pytest.mark.parametrize("seed", [0, 7, np.int64(7)])
def test_whole_numbers_lead_to_the_same_random_numbers_as_ever(seed):
    drawn = np.random.default_rng(np.random.RandomState(int(seed)).randint(2**31 - 1)).random(3)
    for _ in range(2):  # the second time from the start again
        assert_array_equal(generator(seed).random(3), drawn)


@pytest.mark.parametrize("wrong", ["today", 1.5, -1, [1, "a"]])
def test_an_invalid_random_state_raises_a_clear_error(x, wrong):
    with pytest.raises(DataError, match="random_state"):
        PPCA(2).fit(x).sample(2, random_state=wrong)
    with pytest.raises(DataError, match="random_state"):
        PPCA(2, random_state=wrong).fit(x)


def test_the_private_name_of_scikit_learn_that_is_imported_does_what_is_needed():
    """Has been tried with scikit-learn 1.7, the oldest that is supported, and 1.9, the newest."""
    from sklearn.utils._set_output import _get_output_config  # noqa: PLC0415

    system = LinearDynamicalSystem(1)
    assert _get_output_config("transform", system)["dense"] == "default"
    assert _get_output_config("transform", system.set_output(transform="pandas"))["dense"] == "pandas"
    with sklearn.config_context(transform_output="polars"):
        assert _get_output_config("transform", LinearDynamicalSystem(1))["dense"] == "polars"


def test_no_other_private_module_of_scikit_learn_is_imported():
    found = set()
    for path in Path(probpca.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.startswith("sklearn") and "._" in module:
                found.update((module, alias.name) for alias in node.names)
    assert found == {("sklearn.utils._set_output", "_get_output_config")}
