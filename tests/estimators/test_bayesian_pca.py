"""BayesianPCA speaks as PPCA does, and what it says follows from its belief."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from forged_models import packed, unpacked, written
from oracles import (
    assert_within_errors,
    dense_condition,
    dense_covariance,
    dense_observed_log_likelihood,
    dense_observed_posterior,
    punched,
    spiked_rows,
)
from probpca import PPCA, BayesianPCA, DataError, FileFormatError, ProbpcaError, ShapeError, SourceError
from probpca.inference.imputation import impute_with_uncertainty
from probpca.learning import Status
from probpca.linalg.packed import unpack
from probpca.models import Gaussian, LinearGaussian
from probpca.sources import open_source

NAMES = ["height", "width", "depth", "mass", "age", "price"]
STREAMS = {"partial_fit", "set_partial_fit_request", "merge", "stream_", "sketch_error_"}
OF_THE_LIKELIHOOD = {"log_likelihood_", "information_", "source_", "parameter_draws_", "uncertainty"}


def with_holes(rng, n=40, share=0.25, noise=0.3):
    """Rows, the same with cells missing, and which."""
    x = spiked_rows(rng, n, 6, 2, noise=noise)
    hidden = rng.random(x.shape) < share
    return x, np.where(hidden, np.nan, x), hidden


@pytest.fixture
def table(rng):
    return with_holes(rng)


@pytest.fixture
def x(table):
    return table[1]


@pytest.fixture
def hidden(table):
    return table[2]


@pytest.fixture(params=[False, True], ids=["plain", "standardized"])
def fitted(request, x):
    return BayesianPCA(3, standardize=request.param, random_state=0).fit(x)


def covariances(belief):
    """Covariance of the parameters of every feature: (d, q + 1, q + 1)."""
    size = belief.n_components + 1
    return np.broadcast_to(unpack(belief.covariance), (belief.centre.n_features, size, size))


# scikit-learn


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([BayesianPCA(), BayesianPCA(1, standardize=True)])
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


def test_it_has_all_that_ppca_has_but_for_streams():
    ours, theirs = ({name for name in dir(kind) if not name.startswith("_")} for kind in (BayesianPCA, PPCA))
    assert theirs - ours <= STREAMS | OF_THE_LIKELIHOOD  # the belief says how sure it is
    assert "relevance_" in ours


QUESTIONS = {
    "transform": (40, 2),
    "project": (40, 2),
    "reconstruct": (40, 6),
    "score_samples": (40,),
    "impute": (40, 6),
    "fit_transform": (40, 2),
}


@pytest.mark.parametrize(("ask", "shape"), QUESTIONS.items())
def test_every_question_about_rows_has_an_answer(table, x, ask, shape):
    bayesian = BayesianPCA(2, random_state=0).fit(x)
    for rows in (x, table[0]):
        answer = getattr(bayesian, ask)(rows)
        assert answer.shape == shape
        assert np.isfinite(answer).all()


def test_every_other_question_has_an_answer(table, x):
    bayesian = BayesianPCA(2, random_state=0).fit(x)
    assert bayesian.posterior(x).covariance.shape == (40, 2, 2)
    assert bayesian.outliers(table[0]).p_value.shape == (40,)
    assert bayesian.sample(7).shape == (7, 6)
    assert bayesian.explore(x[:3], 5).shape == (5, 3, 6)
    assert bayesian.joint().covariance.shape == (8, 8)
    assert bayesian.inverse_transform(np.zeros((3, 2))).shape == (3, 6)
    assert np.isfinite(bayesian.score(x))
    assert_allclose(bayesian.log_likelihood(x), 40 * bayesian.score(x))
    assert_allclose(bayesian.get_covariance() @ bayesian.get_precision(), np.eye(6), atol=1e-10)
    assert_array_equal(bayesian.get_feature_names_out(), ["PC1", "PC2"])


ASKED_TOO_EARLY = ["transform", "score", "posterior", "outliers", "impute", "impute_draws", "impute_interval"]


@pytest.mark.parametrize("ask", ASKED_TOO_EARLY)
def test_before_a_fit_nothing_can_be_asked(x, ask):
    with pytest.raises(NotFittedError):
        getattr(BayesianPCA(), ask)(x)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_dataframes_go_in_and_come_out(x, frame):
    rows = frame(dict(zip(NAMES, x.T, strict=True)))
    kind = "pandas" if frame is pd.DataFrame else "polars"
    bayesian, plain = BayesianPCA(2, random_state=0).set_output(transform=kind), BayesianPCA(2, random_state=0).fit(x)
    for latent in (bayesian.fit_transform(rows), bayesian.transform(rows)):
        assert isinstance(latent, frame)
        assert list(latent.columns) == ["PC1", "PC2"]
        assert_allclose(latent.to_numpy(), plain.transform(x), atol=1e-9)
    assert_array_equal(bayesian.feature_names_in_, NAMES)
    mean, std = bayesian.impute(rows, return_std=True)
    for answer, wanted in zip((mean, std), plain.impute(x, return_std=True), strict=True):
        assert isinstance(answer, frame)
        assert list(answer.columns) == NAMES
        assert_allclose(answer.to_numpy(), wanted, atol=1e-9)
    assert_allclose(bayesian.condition("mass", [[1.0]]).mean, plain.condition([3], [[1.0]]).mean)


def test_columns_in_another_order_are_refused(x):
    rows = pd.DataFrame(x, columns=NAMES)
    with pytest.raises(ValueError, match="feature names should match"):
        BayesianPCA(2).fit(rows).transform(rows[NAMES[::-1]])


def test_a_pipeline_scales_then_fits(x):
    scaled = StandardScaler().fit_transform(x)
    latent = make_pipeline(StandardScaler(), BayesianPCA(2, random_state=0)).fit_transform(x)
    assert_allclose(latent, BayesianPCA(2, random_state=0).fit(scaled).transform(scaled))


def test_weights_are_routed_through_a_pipeline(table, rng):
    complete, times = table[0], rng.integers(1, 4, 40)
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = BayesianPCA(2, tol=1e-8).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(weighted).fit(complete, sample_weight=times)
    repeated = BayesianPCA(2, tol=1e-8).fit(np.repeat(complete, times, axis=0))
    assert_allclose(pipeline[-1].get_covariance(), repeated.get_covariance(), atol=1e-6)
    assert pipeline[-1].n_samples_ == times.sum()


def test_a_clone_has_the_parameters_and_no_belief(x):
    bayesian = BayesianPCA(2, standardize=True, tol=1e-5, random_state=3).fit(x)
    copy = clone(bayesian)
    assert copy.get_params() == bayesian.get_params()
    assert not {"model_", "belief_"} & set(vars(copy))


def test_a_pickle_says_the_same_bits(x):
    bayesian = BayesianPCA(2, verbose=True, random_state=0).fit(x)
    data = pickle.dumps(bayesian)
    assert b"tqdm" not in data
    back = pickle.loads(data)  # noqa: S301
    assert_array_equal(back.impute(x, return_std=True), bayesian.impute(x, return_std=True))
    assert_array_equal(back.impute_draws(x, 2, random_state=1), bayesian.impute_draws(x, 2, random_state=1))


def test_a_bar_is_shown_on_demand_only(x, capsys):
    quiet = BayesianPCA(2, random_state=0).fit(x)
    silence = capsys.readouterr()
    assert silence.out == silence.err == ""
    loud = BayesianPCA(2, random_state=0, verbose=True).fit(x)
    assert capsys.readouterr().err != ""
    assert_array_equal(loud.loadings_, quiet.loadings_)


@pytest.mark.parametrize("state", [np.random.RandomState(3), np.random.default_rng(3), 3, None])
def test_a_random_state_of_any_kind_will_do(x, state):
    assert BayesianPCA(2, random_state=state).fit(x).sample(3).shape == (3, 6)


def test_the_same_random_state_gives_the_same_answer(x):
    first, again = (BayesianPCA(3, random_state=5).fit(x) for _ in range(2))
    assert_array_equal(again.loadings_, first.loadings_)
    assert_array_equal(again.trace_, first.trace_)
    assert_array_equal(again.belief_.covariance, first.belief_.covariance)
    assert_array_equal(again.impute_draws(x, 2), first.impute_draws(x, 2))
    assert_array_equal(again.sample(4), first.sample(4))


# What is left of a fit


def test_attributes_say_what_is_believed(fitted, x):
    belief, q = fitted.belief_, fitted.n_components_
    assert q == belief.n_components == 2
    assert_array_equal(fitted.mean_, belief.centre.mean)
    scale = fitted.scale_ if fitted.standardize else np.ones(6)
    assert_allclose(scale[:, None] * fitted.loadings_, belief.centre.loadings, rtol=1e-12)
    assert_allclose(scale**2 * fitted.noise_variance_, np.broadcast_to(belief.centre.noise_variance, (6,)), rtol=1e-12)
    assert isinstance(fitted.noise_variance_, float)
    assert (fitted.scale_ is None) == (not fitted.standardize)
    assert_allclose(fitted.components_ @ fitted.components_.T, np.eye(q), atol=1e-12)
    assert_allclose(dense_covariance(fitted.model_), dense_covariance(belief.predictive()))
    assert (fitted.n_features_in_, fitted.n_samples_, fitted.n_observed_) == (6, 40, (~np.isnan(x)).sum())
    assert fitted.converged_
    assert fitted.status_ is Status.BOUND_CONVERGED
    assert fitted.trace_[-1] == fitted.lower_bound_
    assert fitted.n_iter_ == len(fitted.trace_) - 1
    assert fitted.empty_features_.size == 0


def test_relevance_is_the_expected_squared_loading(fitted):
    unit = (fitted.scale_ if fitted.standardize else np.ones(6))[:, None, None]
    doubt = np.einsum("jkk->k", (covariances(fitted.belief_) / unit**2)[:, :2, :2])
    squares = np.square(fitted.loadings_).sum(axis=0)
    assert_allclose(fitted.relevance_, (squares + doubt) / 6, rtol=1e-10)
    assert (np.diff(squares) < 0).all()  # by mean loadings components are sorted always


def test_components_are_sorted_by_relevance_where_rows_are_complete(rng):
    bayesian = BayesianPCA(5).fit(spiked_rows(rng, 60, 8, 4, largest=30.0, noise=0.05))
    assert bayesian.n_components_ == 4
    assert (np.diff(bayesian.relevance_) < 0).all()
    assert (np.diff(bayesian.explained_variance_) < 0).all()


def test_explained_variance_is_that_of_a_new_row_along_each_axis(fitted):
    unit = fitted.scale_ if fitted.standardize else np.ones(6)
    covariance = fitted.get_covariance() / np.outer(unit, unit)
    along = np.einsum("kd,de,ke->k", fitted.components_, covariance, fitted.components_)
    assert_allclose(fitted.explained_variance_, along, rtol=1e-9)
    assert_allclose(fitted.explained_variance_ratio_, along / np.trace(covariance), rtol=1e-9)


def test_the_summary_says_what_matters(x):
    bayesian = BayesianPCA(5, random_state=0).fit(pd.DataFrame(x, columns=NAMES))
    text = bayesian.summary()
    largest = NAMES[np.abs(bayesian.components_[0]).argmax()]
    parts = (
        "BayesianPCA: 40 rows x 6 features",
        "2 components (2 of 5 initial components kept)",
        largest,
        "lower bound",
    )
    for part in (*parts, bayesian.status_.value, f"{bayesian.noise_variance_:.6g}", f"{bayesian.lower_bound_:,.2f}"):
        assert part in text
    assert "log-likelihood" not in text
    assert "6 features scaled to unit variance, 2 components" in BayesianPCA(2, standardize=True).fit(x).summary()


def test_where_nothing_is_relevant_all_questions_have_answers(rng):
    x = punched(rng, rng.standard_normal((80, 6)), 0.2)
    bayesian = BayesianPCA(4, random_state=0).fit(x)
    assert "1 component (the data support none of 4 components; one is kept)" in bayesian.summary()
    assert bayesian.converged_
    assert_allclose(bayesian.components_ @ bayesian.components_.T, [[1.0]])
    assert bayesian.relevance_[0] < 1e-10
    values, std = bayesian.impute(x, return_std=True)
    hidden = np.isnan(x)
    assert_allclose(values[hidden], np.broadcast_to(np.nanmean(x, axis=0), x.shape)[hidden], rtol=1e-6)
    counts = (~hidden).sum(axis=0)
    wanted = np.sqrt(bayesian.noise_variance_ * (1 + 1 / counts))
    assert_allclose(std[hidden], np.broadcast_to(wanted, x.shape)[hidden], rtol=1e-5)
    assert np.isfinite(bayesian.transform(x)).all()
    assert np.isfinite(bayesian.impute_draws(x, 2)).all()
    assert np.isfinite(bayesian.score(x))


# What it says of rows


def test_scores_are_those_of_the_dense_predictive(table, x, fitted):
    wanted = multivariate_normal(fitted.mean_, dense_covariance(fitted.belief_.predictive())).logpdf(table[0])
    assert_allclose(fitted.score_samples(table[0]), wanted, rtol=1e-9)
    assert_allclose(fitted.score_samples(x), dense_observed_log_likelihood(fitted.model_, x), rtol=1e-9)


def test_observed_cells_are_returned_bit_for_bit(x, hidden):
    for kind in (np.float64, np.float32):
        rows = (1e3 * x).astype(kind)
        bayesian = BayesianPCA(2).fit(rows)
        low, high = bayesian.impute_interval(rows)
        for filled in (bayesian.impute(rows), bayesian.impute_draws(rows, 1)[0], low, high):
            assert_array_equal(filled[~hidden], rows[~hidden])
            assert np.isfinite(filled).all()
        assert_array_equal(bayesian.impute(rows, return_std=True)[1][~hidden], 0)


def test_missing_cells_are_conditional_means_with_doubt_about_parameters_counted(fitted, x, hidden):
    values, std = fitted.impute(x, return_std=True)
    latent, spread = dense_observed_posterior(fitted.model_, x), covariances(fitted.belief_)
    noise = np.broadcast_to(fitted.belief_.centre.noise_variance, (6,))
    for i, j in zip(*np.nonzero(hidden), strict=True):
        t, w = np.append(latent.mean[i], 1.0), fitted.model_.loadings[j]
        second = np.outer(t, t)
        second[:-1, :-1] += latent.covariance[i]
        assert_allclose(values[i, j], w @ latent.mean[i] + fitted.mean_[j], rtol=1e-8)
        variance = noise[j] + w @ latent.covariance[i] @ w + np.trace(spread[j] @ second)
        assert_allclose(std[i, j], np.sqrt(variance), rtol=1e-8)
    low, high = fitted.impute_interval(x)
    assert_allclose(high - low, 2 * 1.959964 * std, rtol=1e-6)


# Rows of the fit


def dense_training(bayesian, x):
    """Means and standard deviations of all cells by the latents of the fit, one row and one cell after the other."""
    belief, d = bayesian.belief_, x.shape[1]
    W, mu, q = belief.centre.loadings, belief.centre.mean, belief.n_components
    psi, doubt = np.broadcast_to(belief.centre.noise_variance, (d,)), covariances(belief)
    mean, std = np.zeros(x.shape), np.zeros(x.shape)
    for i, row in enumerate(x):
        precision, right = np.eye(q), np.zeros(q)
        for j in np.flatnonzero(~np.isnan(row)):
            precision += (np.outer(W[j], W[j]) + doubt[j, :q, :q]) / psi[j]
            right += (W[j] * row[j] - W[j] * mu[j] - doubt[j, :q, q]) / psi[j]
        P = np.linalg.inv(precision)
        m = P @ right
        t = np.append(m, 1.0)
        for j in range(d):
            mean[i, j] = mu[j] + W[j] @ m
            variance = psi[j] + W[j] @ P @ W[j] + t @ doubt[j] @ t + np.trace(doubt[j, :q, :q] @ P)
            std[i, j] = np.sqrt(variance)
    return mean, std


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_rows_of_the_fit_are_imputed_by_the_latents_of_the_fit(rng, x, hidden, standardize, weighted):
    weight = rng.integers(1, 4, len(x)) if weighted else None
    bayesian = BayesianPCA(3, standardize=standardize, random_state=0).fit(x + 5, sample_weight=weight)
    mean, std = dense_training(bayesian, x + 5)
    values, doubt = bayesian.impute(x + 5, return_std=True, training=True)
    assert_allclose(values, np.where(hidden, mean, x + 5), rtol=1e-9)
    assert_allclose(doubt, np.where(hidden, std, 0.0), rtol=1e-9)
    assert_array_equal(bayesian.impute(x + 5, training=True), values)
    low, high = bayesian.impute_interval(x + 5, 0.9, training=True)
    assert_allclose(high - low, 2 * 1.644854 * doubt, rtol=1e-6)
    assert not np.allclose(bayesian.impute(x + 5)[hidden], values[hidden], rtol=1e-6)


def test_the_latents_of_a_fit_to_complete_rows_fill_in_some_of_their_cells(table, x, hidden):
    bayesian = BayesianPCA(3, random_state=0).fit(table[0])
    assert bayesian.belief_.covariance.shape[1] == 1  # one for all features
    mean, std = dense_training(bayesian, x)
    values, doubt = bayesian.impute(x, return_std=True, training=True)
    assert_allclose(values[hidden], mean[hidden], rtol=1e-9)
    assert_allclose(doubt[hidden], std[hidden], rtol=1e-9)


def stored(x):
    """The observed cells of a table, and nothing else, as a sparse matrix."""
    seen = np.nonzero(~np.isnan(x))
    return sparse.coo_array((x[seen], seen), shape=x.shape).tocsr()


@pytest.mark.parametrize("standardize", [False, True])
def test_rows_of_the_fit_may_lie_anywhere(x, tmp_path, standardize):
    bayesian = BayesianPCA(2, standardize=standardize, missing="unstored", random_state=0).fit(x)
    wanted, doubt = bayesian.impute(x, return_std=True, training=True)
    np.save(tmp_path / "rows.npy", x)
    for rows in (stored(x), open_source(x), tmp_path / "rows.npy", [x[:7], x[7:]]):
        assert_allclose(bayesian.impute(rows, training=True), wanted, rtol=1e-9)
        assert_allclose(bayesian.impute(rows, return_std=True, training=True)[1], doubt, rtol=1e-9)
    frame = bayesian.impute(pd.DataFrame(x), training=True)
    assert isinstance(frame, pd.DataFrame)
    assert_allclose(frame.to_numpy(), wanted)
    bayesian.impute(x, out=tmp_path / "filled.npy", training=True)
    assert_allclose(np.load(tmp_path / "filled.npy"), wanted)
    assert_allclose(bayesian.impute(x[5:9], training=True), wanted[5:9])  # some of the rows will do
    bayesian.to_file(tmp_path / "fitted.npz")
    assert_array_equal(BayesianPCA.from_file(tmp_path / "fitted.npz").impute(x, training=True), wanted)


@pytest.mark.filterwarnings("ignore:no observed cells in")
def test_a_column_that_was_never_observed_has_no_limits_in_rows_of_the_fit(x):
    x[:, 3] = np.nan
    values, std = BayesianPCA(2, random_state=0).fit(x).impute(x, return_std=True, training=True)
    assert_array_equal(values[:, 3], 0)
    assert_array_equal(std[:, 3], np.inf)
    assert np.isfinite(np.delete(std, 3, axis=1)).all()


def ratings(rng, n=400, d=200, q=3):
    """A sparse table of ratings: some people rate much, some things are rated often; and which are held out."""
    rate = np.outer(rng.lognormal(0, 1, n), np.exp(-4 * np.arange(d) / d) + 0.02)
    seen, held_out = rng.random((n, d)) < -np.expm1(-0.1 * rate / rate.mean()), rng.random((n, d)) < 0.2
    seen[np.arange(d), np.arange(d)], held_out[np.arange(d), np.arange(d)] = True, False  # something is known of all
    loadings = 0.55 * 0.75 ** np.arange(q)[:, None] * rng.standard_normal((q, d))
    x = 3.5 + 0.55 * rng.standard_normal(d) + rng.standard_normal((n, q)) @ loadings
    return np.where(seen, x + 0.85 * rng.standard_normal((n, d)), np.nan), seen & held_out


def test_ratings_are_predicted_better_by_the_latents_of_the_fit():
    errors, inside = [], []
    for seed in range(8):
        x, held_out = ratings(np.random.default_rng(seed))
        known = stored(np.where(held_out, np.nan, x))
        bayesian = BayesianPCA(8, missing="unstored", random_state=0).fit(known)
        guesses = [bayesian.impute(known, training=training)[held_out] for training in (False, True)]
        errors.append([np.sqrt(np.square(guess - x[held_out]).mean()) for guess in guesses])
        low, high = bayesian.impute_interval(known, training=True)
        inside.append(((low < x) & (x < high))[held_out].mean())
    new, training = np.transpose(errors)
    assert (training < 1.001 * new).all()
    assert training.mean() < 0.999 * new.mean()
    assert 0.92 < np.mean(inside) < 0.98


@pytest.mark.parametrize("standardize", [False, True])
def test_for_ppca_the_latents_of_the_fit_are_those_of_the_model(x, standardize):
    ppca = PPCA(2, standardize=standardize, random_state=0).fit(x)
    for training, new in zip(
        (*ppca.impute(x, return_std=True, training=True), *ppca.impute_interval(x, training=True)),
        (*ppca.impute(x, return_std=True), *ppca.impute_interval(x)),
        strict=True,
    ):
        assert_array_equal(training, new)
    assert_array_equal(ppca.impute(x, training=True), ppca.impute(x))


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
@pytest.mark.parametrize("wrong", ["yes", 1, None, np.array([True, False])])
def test_whether_rows_are_those_of_the_fit_is_true_or_false(x, kind, wrong):
    fitted = kind(2, random_state=0).fit(x)
    for ask in (fitted.impute, fitted.impute_interval):
        with pytest.raises(DataError, match=r"training must be True or False; got(.|\n)*Hint: True says"):
            ask(x, training=wrong)


def test_conditioning_agrees_with_imputing(fitted, x, hidden):
    margin = Gaussian(fitted.mean_, fitted.get_covariance())
    for row, gone, filled in zip(x, hidden, fitted.impute(x), strict=True):
        known = np.flatnonzero(~gone)
        if 0 < known.size < 6:
            predicted = fitted.condition(known, row[None, known])
            assert_allclose(predicted.mean[0], filled[gone], rtol=1e-8)
            mean, covariance = dense_condition(margin, known, row[known])
            assert_allclose(predicted.mean, mean, rtol=1e-8)
            assert_allclose(predicted.covariance.dense(), covariance, atol=1e-9)


def test_intervals_cover_as_often_as_they_say_on_a_simulated_table(rng):
    complete, x, hidden = with_holes(rng, n=120)
    low, high = BayesianPCA(4, random_state=0).fit(x).impute_interval(x, 0.9)
    covered = ((low < complete) & (complete < high))[hidden]
    assert_within_errors(covered.mean(), 0.9, np.sqrt(0.09 / covered.size))


def test_with_few_rows_missing_cells_are_predicted_better_than_by_maximum_likelihood():
    errors = []
    for seed in range(3):
        complete, x, hidden = with_holes(np.random.default_rng(seed), n=15, share=0.3, noise=0.5)
        guesses = (BayesianPCA(4, random_state=0).fit(x).impute(x), PPCA(3, random_state=0).fit(x).impute(x))
        errors.append([np.sqrt(np.square(guess - complete)[hidden].mean()) for guess in guesses])
    ours, theirs = np.mean(errors, axis=0)
    assert ours < 0.9 * theirs


# Draws


def test_draws_are_repeatable_and_do_not_depend_on_how_many_are_asked_for(x):
    bayesian = BayesianPCA(2, random_state=0).fit(x)
    assert not hasattr(bayesian, "source_")
    three, again = (bayesian.impute_draws(x, 3, random_state=5) for _ in range(2))
    assert_array_equal(three, again)
    assert_array_equal(bayesian.impute_draws(x, 2, random_state=5), three[:2])
    assert not np.array_equal(bayesian.impute_draws(x, 3, random_state=6), three)
    assert not np.array_equal(three[0], three[1])


@pytest.mark.parametrize("standardize", [False, True])
def test_draws_scatter_around_the_mean_as_much_as_is_unknown(rng, standardize):
    _, x, hidden = with_holes(rng, n=25, noise=0.5)
    x = x * np.geomspace(0.01, 100, 6) if standardize else x
    bayesian = BayesianPCA(2, standardize=standardize, random_state=0).fit(x)
    tables = bayesian.impute_draws(x, 1000, random_state=1)
    mean, std = (answer[hidden] for answer in bayesian.impute(x, return_std=True))
    spread = tables.std(axis=0)[hidden]
    assert_array_equal(tables[:, ~hidden], np.broadcast_to(x[~hidden], (1000, (~hidden).sum())))
    assert_within_errors(np.mean((tables.mean(axis=0)[hidden] - mean) / std), 0, 0.05)
    assert 0.9 < np.median(spread / std) < 1.15
    sure = LinearGaussian(bayesian.mean_, bayesian.loadings_, bayesian.noise_variance_)  # were the parameters known
    assert np.median(spread / impute_with_uncertainty(sure, x).std[hidden]) > 1.03


def test_parameters_of_draws_differ(x):
    drawn = BayesianPCA(2, random_state=0).fit(x)._parameters(3)
    assert len({model.loadings.tobytes() for model in drawn}) == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b, x: b.impute_draws(x, 0), ShapeError, "at least 1; got 0"),
        (lambda b, x: b.impute_draws(open_source(x), 1), SourceError, "takes a matrix of rows"),
        (lambda b, x: b.impute(x[:, :3]), ValueError, "X has 3 features, but BayesianPCA is expecting 6"),
        (lambda b, x: b.impute_interval(x, 1.0), DataError, "level must lie between 0 and 1"),
        (lambda b, x: b.fit_transform(iter([x])), SourceError, "read once"),
        (lambda b, _: b.condition("mass", [[1.0]]), ShapeError, "no column is called 'mass'"),
        (lambda b, _: b.sample(-1), ShapeError, "must not be negative"),
    ],
)
def test_what_cannot_be_answered_is_refused(x, call, error, message):
    with pytest.raises(error, match=message):
        call(BayesianPCA(2).fit(x), x)


# Files


@pytest.mark.parametrize(
    "parameters", [{}, {"n_components": 2, "random_state": 3}, {"standardize": True}, {"missing": "unstored"}], ids=str
)
@pytest.mark.parametrize("frame", [True, False])
def test_what_was_written_is_read_back_to_the_last_bit(x, tmp_path, parameters, frame):
    rows = pd.DataFrame(x, columns=NAMES) if frame else x
    bayesian = BayesianPCA(**parameters).fit(rows)
    bayesian.to_file(tmp_path / "fitted.npz")
    back = BayesianPCA.from_file(tmp_path / "fitted.npz")
    for ask in ("transform", "score_samples", "impute"):
        assert_array_equal(getattr(back, ask)(rows), getattr(bayesian, ask)(rows))
    for one, other in zip(back.impute(rows, return_std=True), bayesian.impute(rows, return_std=True), strict=True):
        assert_array_equal(one, other)
    draws = (one.impute_draws(rows, 2, random_state=1) for one in (back, bayesian))
    assert_array_equal(*draws)
    for name in ("trace_", "relevance_", "noise_variance_", "empty_features_", "loadings_"):
        assert_array_equal(getattr(back, name), getattr(bayesian, name))
    for name in ("lower_bound_", "n_iter_", "n_components_", "n_samples_", "n_observed_", "rule_", "status_"):
        assert getattr(back, name) == getattr(bayesian, name)
    assert back.get_params() == bayesian.get_params()
    assert back.summary() == bayesian.summary()
    assert list(getattr(back, "feature_names_in_", [])) == (NAMES if frame else [])


@pytest.mark.filterwarnings("ignore:no observed cells in")
def test_an_empty_column_survives_its_file(x, tmp_path):
    x[:, 3] = np.nan
    BayesianPCA(2).fit(x).to_file(tmp_path / "fitted.npz")
    back = BayesianPCA.from_file(tmp_path / "fitted.npz")
    assert_array_equal(back.empty_features_, [3])
    values, std = back.impute(x, return_std=True)
    assert_array_equal(values[:, 3], 0)
    assert_array_equal(std[:, 3], np.inf)
    assert np.isfinite(np.delete(std, 3, axis=1)).all()


def test_files_of_another_kind_are_refused(x, tmp_path):
    path = tmp_path / "fitted.npz"
    PPCA(2).fit(x).to_file(path)
    with pytest.raises(FileFormatError, match="holds a PPCA, not a BayesianPCA"):
        BayesianPCA.from_file(path)
    BayesianPCA(2).fit(x).to_file(path)
    with pytest.raises(FileFormatError, match="holds a BayesianPCA, not a PPCA"):
        PPCA.from_file(path)


@pytest.mark.parametrize("keep", [0, 10, 200, -20])
def test_a_damaged_file_is_refused(x, tmp_path, keep):
    path = tmp_path / "fitted.npz"
    BayesianPCA(2).fit(x).to_file(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match="cannot be read as a probpca file"):
        BayesianPCA.from_file(path)


@pytest.mark.parametrize(
    ("part", "wrong", "message"),
    [
        ("covariance", None, "holds no valid model: the arrays must include covariance"),
        ("precision", None, "holds no valid model: the arrays must include precision"),
        ("loadings", None, "holds no valid model: the arrays must include loadings"),
        ("trace_", None, "holds no valid model: the arrays must include trace_"),
        ("precision", np.zeros(2), "precision must be at least 2.2"),
        ("covariance", np.zeros((2, 2)), "covariance must have shape"),
    ],
)
def test_a_file_that_lacks_a_part_says_which(x, tmp_path, part, wrong, message):
    path = tmp_path / "fitted.npz"
    header, arrays = unpacked(written(BayesianPCA(2).fit(x), path))
    del arrays[part]
    path.write_bytes(packed(header, arrays if wrong is None else {**arrays, part: wrong}))
    with pytest.raises(FileFormatError, match=message):
        BayesianPCA.from_file(path)


def test_an_estimator_without_a_fit_or_with_a_generator_cannot_be_written(x, tmp_path):
    with pytest.raises(NotFittedError):
        BayesianPCA(2).to_file(tmp_path / "fitted.npz")
    with pytest.raises(FileFormatError, match="random_state must be an int or None"):
        BayesianPCA(2, random_state=np.random.default_rng(0)).fit(x).to_file(tmp_path / "fitted.npz")
    assert list(tmp_path.iterdir()) == []


# What cannot be fitted


ROWS = np.random.default_rng(0).standard_normal((20, 5))


def with_cell(value):
    x = ROWS.copy()
    x[3, 2] = value
    return x


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (with_cell(np.inf), DataError, "infinity"),
        (sparse.csr_array(with_cell(np.inf)), DataError, "infinity"),
        (np.where(np.eye(20, 5) > 0, np.nan, with_cell(np.inf)), DataError, r"infinity \(1 cell\)"),
        (np.full((6, 4), np.nan), DataError, "at least 2 rows with observed cells are needed"),
        (np.array([["a", "b"], ["c", "d"]]), ValueError, "which are text"),
        (np.empty((0, 5)), ValueError, "0 sample"),
        (ROWS[:1], ValueError, "minimum of 2 is required"),
        (ROWS[:, :1], ValueError, "minimum of 2 is required"),
        (np.ones((4, 3)), DataError, "identical"),
        (ROWS + 1j, ValueError, "Complex data not supported"),
        (iter([]), SourceError, "at least one batch"),
    ],
)
def test_rows_that_cannot_be_fitted(rows, error, message):
    bayesian = BayesianPCA(1)
    with pytest.raises(error, match=message):
        bayesian.fit(rows)
    assert not hasattr(bayesian, "model_")


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "bic", 0.5, [2], 2.0])
def test_numbers_of_components_that_mean_nothing(wrong):
    with pytest.raises(DataError, match="'n_components' parameter of BayesianPCA must be"):
        BayesianPCA(wrong).fit(ROWS)


@pytest.mark.parametrize("q", [5, 6, 50])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("value", [0.0, np.nan])
def test_more_components_than_a_gaussian_can_have(q, standardize, value):
    with pytest.raises(ShapeError, match=rf"between 1 and n_features - 1 = 4; got {q}(.|\n)*Hint: n_components=4"):
        BayesianPCA(q, standardize=standardize).fit(with_cell(value))


@pytest.mark.parametrize(
    "parameters",
    [{"tol": -1.0}, {"max_iter": 0}, {"n_jobs": "two"}, {"random_state": "today"}, {"missing": "zero"}],
    ids=str,
)
def test_other_parameters_that_mean_nothing(parameters):
    (name,) = parameters
    with pytest.raises(DataError, match=f"'{name}' parameter of BayesianPCA"):
        BayesianPCA(2, **parameters).fit(ROWS)


def test_a_failed_fit_is_no_fit(x):
    bayesian = BayesianPCA(2).fit(x)
    with pytest.raises(DataError, match="infinity"):
        bayesian.fit(np.where(np.isnan(x), np.inf, x))
    for ask in ("transform", "impute", "impute_draws", "summary"):
        with pytest.raises(NotFittedError):
            getattr(bayesian, ask)(*([] if ask == "summary" else [x]))


def test_a_fit_that_is_not_finished_warns_and_is_kept(x):
    with pytest.warns(ConvergenceWarning, match="max_iter was reached first"):
        short = BayesianPCA(2, max_iter=2, tol=0).fit(x)
    assert not short.converged_
    assert short.n_iter_ == 2
    assert np.isfinite(short.impute(x)).all()


def test_an_empty_column_is_warned_of(x):
    x[:, 3] = np.nan
    with pytest.warns(UserWarning, match=r"no observed cells in 1 of 6 columns \(first: 3\)"):
        bayesian = BayesianPCA(2).fit(x)
    assert_array_equal(bayesian.empty_features_, [3])
    low, high = bayesian.impute_interval(x)
    assert_array_equal(low[:, 3], -np.inf)
    assert_array_equal(high[:, 3], np.inf)


def test_rows_may_come_in_batches_or_from_a_file(x, tmp_path):
    plain = BayesianPCA(2, tol=1e-8, random_state=0).fit(x)
    np.save(tmp_path / "rows.npy", x)
    for rows in (np.array_split(x, 3), iter(np.array_split(x, 3)), tmp_path / "rows.npy", open_source(x)):
        found = BayesianPCA(2, tol=1e-8, random_state=0).fit(rows)
        assert_allclose(found.get_covariance(), plain.get_covariance(), atol=1e-4)
        assert found.n_features_in_ == 6


def test_what_a_sparse_table_does_not_store_may_be_missing(x):
    seen = np.nonzero(~np.isnan(x))
    thin = sparse.coo_array((x[seen], seen), shape=x.shape).tocsr()
    ours, dense = BayesianPCA(2, missing="unstored", random_state=0).fit(thin), BayesianPCA(2, random_state=0).fit(x)
    assert ours.n_observed_ == dense.n_observed_ == thin.nnz
    for ask in ("transform", "score_samples", "impute"):
        assert_allclose(getattr(ours, ask)(thin), getattr(dense, ask)(x), atol=1e-8)


@st.composite
def tables(draw):
    """Rows of any rank, scale and offset, some of whose cells are missing."""
    n, d, rank = draw(st.integers(2, 25)), draw(st.integers(2, 12)), draw(st.integers(0, 6))
    noise, offset = draw(st.sampled_from([0.0, 1e-6, 1.0])), draw(st.sampled_from([0.0, 1e3]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    x = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d)) + offset
    x = punched(rng, x * 10.0 ** draw(st.integers(-60, 60)), draw(st.sampled_from([0.02, 0.3, 0.8])))
    x[0, 0] = np.nan
    return x


@given(x=tables(), standardize=st.booleans())
def test_whatever_is_observed_numbers_are_finite_or_an_error_has_a_name(x, standardize):
    bayesian = BayesianPCA(standardize=standardize, max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "no observed cells")
        try:
            bayesian.fit(x)
        except ProbpcaError:
            return
    numbers = [bayesian.mean_, bayesian.loadings_, bayesian.components_, bayesian.noise_variance_, bayesian.relevance_]
    numbers += [bayesian.trace_, bayesian.transform(x), bayesian.score(x), bayesian.impute(x)]
    numbers += [bayesian.impute_draws(x, 1), bayesian.impute(x, training=True)]
    for training in (False, True):
        std = bayesian.impute(x, return_std=True, training=training)[1]
        numbers.append(np.delete(std, bayesian.empty_features_, axis=1))
    for number in numbers:
        assert np.isfinite(number).all()
    assert np.min(bayesian.noise_variance_) > 0
    assert bayesian.summary()
