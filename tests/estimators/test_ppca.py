"""What a fitted PPCA says agrees with the dense Gaussian, and where scikit-learn's PCA does not."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from oracles import closed_form_oracle, dense_condition, dense_joint, dense_posterior, spiked_rows
from probpca import PPCA, BayesianPCA
from probpca.models import Gaussian
from probpca.sources import open_source

NAMES = ["height", "width", "depth", "mass", "age", "price"]


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 80, 6, 2)


@pytest.fixture
def ppca(x):
    return PPCA(2, random_state=0).fit(pd.DataFrame(x, columns=NAMES))


@pytest.fixture
def dense(x):
    return closed_form_oracle(x, 2).model


def named(x):
    return pd.DataFrame(x, columns=NAMES)


def test_attributes_have_the_shapes_and_values_of_the_closed_form(ppca, x, dense):
    _, values, _ = closed_form_oracle(x, 2)
    assert ppca.components_.shape == (2, 6)
    assert ppca.loadings_.shape == (6, 2)
    assert_allclose(ppca.components_ @ ppca.components_.T, np.eye(2), atol=1e-12)
    assert (np.take_along_axis(ppca.components_, np.abs(ppca.components_).argmax(axis=1)[:, None], 1) > 0).all()
    assert_allclose(ppca.mean_, x.mean(axis=0))
    assert_allclose(ppca.explained_variance_, values[:2], rtol=1e-9)
    assert_allclose(ppca.explained_variance_ratio_, values[:2] / values.sum(), rtol=1e-9)
    assert_allclose(ppca.noise_variance_, values[2:].mean(), rtol=1e-9)
    assert isinstance(ppca.noise_variance_, float)
    assert (ppca.n_components_, ppca.n_features_in_, ppca.n_samples_) == (2, 6, 80)
    assert ppca.converged_
    assert_allclose(ppca.trace_, [ppca.log_likelihood_])
    assert_allclose(ppca.get_covariance(), dense.covariance.dense(), atol=1e-9)


def test_precision_is_the_inverse_of_covariance(ppca):
    assert_allclose(ppca.get_covariance() @ ppca.get_precision(), np.eye(6), atol=1e-10)


def test_scores_are_those_of_the_dense_gaussian(ppca, x, dense):
    logpdf = multivariate_normal(dense.mean, dense.covariance.dense()).logpdf(x)
    assert_allclose(ppca.score_samples(named(x)), logpdf, rtol=1e-9)
    assert_allclose(ppca.score(named(x)), logpdf.mean(), rtol=1e-9)
    assert_allclose(ppca.log_likelihood(named(x)), logpdf.sum(), rtol=1e-9)
    assert_allclose(ppca.log_likelihood_, logpdf.sum(), rtol=1e-9)
    assert_allclose(ppca.score(named(x[:1])), logpdf[0], rtol=1e-9)
    w = np.arange(80)
    assert_allclose(ppca.score(named(x), sample_weight=w), w @ logpdf / w.sum(), rtol=1e-9)


def test_transform_is_the_posterior_mean_and_project_the_projection(ppca, x):
    mean, covariance = dense_posterior(ppca.model_, x)
    belief = ppca.posterior(named(x))
    assert_allclose(ppca.transform(named(x)), mean, atol=1e-10)
    assert_allclose(belief.mean, mean, atol=1e-10)
    assert_allclose(belief.covariance, np.broadcast_to(covariance, (80, 2, 2)), atol=1e-10)
    classical = PCA(2).fit(x)
    assert_allclose(np.abs(ppca.project(named(x))), np.abs(classical.transform(x)), atol=1e-8)
    assert_allclose(ppca.reconstruct(named(x)), classical.inverse_transform(classical.transform(x)), atol=1e-8)
    assert_allclose(ppca.inverse_transform(mean), mean @ ppca.loadings_.T + ppca.mean_)


@pytest.mark.parametrize("known", [["width", "mass"], [1, 3]], ids=["names", "positions"])
def test_condition_takes_names_or_positions(ppca, x, known):
    margin = Gaussian(ppca.mean_, ppca.get_covariance())
    mean, covariance = dense_condition(margin, [1, 3], x[:4, [1, 3]])
    predicted = ppca.condition(known, x[:4, [1, 3]])
    assert_allclose(predicted.mean, mean, atol=1e-9)
    assert_allclose(predicted.covariance.dense(), covariance, atol=1e-9)
    assert_allclose(ppca.condition("mass", x[:4, [3]]).mean, ppca.condition([3], x[:4, [3]]).mean)


def test_joint_is_that_of_data_and_latents(ppca):
    assert_allclose(ppca.joint().covariance, dense_joint(ppca.model_).covariance)


def test_draws_have_the_shapes_that_were_asked_for(ppca, x):
    assert ppca.sample(7).shape == (7, 6)
    assert ppca.explore(named(x[:3]), 5).shape == (5, 3, 6)


def test_outliers_of_a_dataframe_point_at_the_cell(ppca, x):
    x[7, 4] += 50
    found = ppca.outliers(named(x))
    assert found.p_value.argmin() == 7
    assert found.contributions.shape == (80, 6)
    assert NAMES[np.abs(found.cell_scores[7]).argmax()] == "age"


def test_sparse_float32_sources_and_weights_give_the_same_model(x, rng):
    x = x * (rng.random(x.shape) < 0.7)
    times = rng.integers(0, 4, 80)
    plain = PPCA(2, tol=1e-9).fit(x)
    thin, single = PPCA(2, tol=1e-9).fit(sparse.csr_array(x)), PPCA(2, tol=1e-9).fit(x.astype(np.float32))
    assert_allclose(thin.get_covariance(), plain.get_covariance(), atol=1e-6)
    assert_allclose(single.get_covariance(), plain.get_covariance(), atol=1e-4)
    assert_allclose(PPCA(2, tol=1e-9).fit(open_source(x)).get_covariance(), plain.get_covariance(), atol=1e-6)
    assert_allclose(thin.transform(sparse.csr_array(x)), plain.transform(x), atol=1e-6)
    assert_allclose(plain.transform(open_source(x)), plain.transform(x))
    weighted = PPCA(2, tol=1e-9).fit(x, sample_weight=times)
    repeated = PPCA(2, tol=1e-9).fit(np.repeat(x, times, axis=0))
    assert_allclose(weighted.get_covariance(), repeated.get_covariance(), atol=1e-6)
    assert_allclose(weighted.log_likelihood_, repeated.log_likelihood_)
    assert weighted.n_samples_ == times.sum()


def test_with_fewer_rows_than_features_the_likelihood_is_larger_than_that_of_scikit_learn(rng):
    n, d, q = 30, 100, 3
    x = spiked_rows(rng, n, d, q, noise=1.0)
    ours, theirs = PPCA(q).fit(x), PCA(q, svd_solver="full").fit(x)
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
    assert_allclose(ours.noise_variance_, values[q:].sum() / n / (d - q), rtol=1e-9)
    # scikit-learn divides by min(n, d) - q, as if directions without rows had no noise.
    assert_allclose(theirs.noise_variance_, values[q:].sum() / (n - 1) / (n - q), rtol=1e-9)
    assert_allclose(ours.score(x) * n, closed_form_oracle(x, q).log_likelihood, rtol=1e-9)
    assert ours.score(x) > theirs.score(x) + 1


def test_the_covariance_is_that_of_the_data_where_whitening_spoils_that_of_scikit_learn(x):
    total = np.trace(np.cov(x.T, ddof=0))
    assert_allclose(np.trace(PPCA(2).fit(x).get_covariance()), total, rtol=1e-9)
    plain, white = PCA(2).fit(x).get_covariance(), PCA(2, whiten=True).fit(x).get_covariance()
    assert_allclose(plain * 79 / 80, PPCA(2).fit(x).get_covariance(), atol=1e-8)
    assert np.abs(white - plain).max() > 0.1


def test_the_summary_says_what_matters(ppca):
    text = ppca.summary()
    largest = NAMES[np.abs(ppca.components_[0]).argmax()]
    for part in ("80 rows x 6 features", "2 components (as given)", largest, "noise variance", ppca.status_.value):
        assert part in text
    assert f"{ppca.noise_variance_:.6g}" in text
    assert f"{ppca.explained_variance_ratio_.sum():.1%}" in text


def test_columns_without_names_are_numbered_in_the_summary(x):
    assert f"x{np.abs(PPCA(1).fit(x).components_[0]).argmax()} +" in PPCA(1).fit(x).summary()


def test_a_rule_is_named_in_the_summary(x):
    assert "(parallel analysis)" in PPCA().fit(x).summary()
    assert "(BIC)" in PPCA("bic").fit(x).summary()
    assert "(at least 0.9 of the variance)" in PPCA(0.9).fit(x).summary()


def test_a_fit_that_is_not_the_maximum_warns_and_is_kept(x):
    with pytest.warns(ConvergenceWarning, match="max_iter was reached first"):
        short = PPCA(2, solver="em", max_iter=2, tol=0, random_state=0).fit(x)
    assert not short.converged_
    assert short.n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match="explain the data completely"):
        PPCA(3).fit(x[:3])


@pytest.mark.parametrize("solver", ["em", "px_em", "em_zero_noise", "gradient", "covariance", "gram", "krylov", "svd"])
def test_every_solver_ends_at_the_same_model(x, solver):
    ppca = PPCA(2, solver=solver, tol=1e-7, max_iter=20_000, random_state=0).fit(x)
    assert_allclose(ppca.log_likelihood_, closed_form_oracle(x, 2).log_likelihood, atol=1e-5)
    assert_allclose(ppca.score(x) * 80, ppca.log_likelihood_, rtol=1e-9)
    assert_array_equal(np.argsort(-ppca.explained_variance_), [0, 1])


@pytest.mark.parametrize("ask", ["transform", "score", "posterior", "outliers", "explore", "project", "reconstruct"])
def test_before_a_fit_nothing_can_be_asked(x, ask):
    with pytest.raises(NotFittedError):
        getattr(PPCA(), ask)(x)


# Units


USARRESTS_STD = (4.355510, 83.33766, 14.47476, 9.366385)  # Murder, Assault, UrbanPop, Rape


@pytest.mark.parametrize("estimator", [PPCA(1), BayesianPCA(1, random_state=0)])
@pytest.mark.parametrize("holes", [False, True])
def test_columns_of_very_different_scale_get_a_note(rng, estimator, holes):
    x = (rng.standard_normal((50, 1)) + rng.standard_normal((50, 4))) * USARRESTS_STD
    x[rng.random(x.shape) < 0.05 * holes] = np.nan
    frame = pd.DataFrame(x, columns=["Murder", "Assault", "UrbanPop", "Rape"])
    said = clone(estimator).fit(frame).summary()
    assert "-fold (Assault " in said
    assert "standardize=True gives all columns the same weight" in said
    assert "-fold (" not in clone(estimator).set_params(standardize=True).fit(frame).summary()
    assert "-fold (" not in clone(estimator).fit(x / USARRESTS_STD).summary()


def test_constant_columns_do_not_count_as_columns_of_another_scale(rng):
    x = rng.standard_normal((40, 4))
    x[:, 2] = 1e6
    assert "-fold (" not in PPCA(1).fit(x).summary()


def test_the_note_on_units_is_that_of_a_stream_and_of_a_file_too(rng, tmp_path):
    x = rng.standard_normal((40, 4)) * [1.0, 1, 1, 50]
    streamed = PPCA(1).partial_fit(x[:20]).partial_fit(x[20:])
    streamed.to_file(tmp_path / "model.npz")
    for fitted in (PPCA(1).fit(x), streamed, PPCA.from_file(tmp_path / "model.npz")):
        assert_allclose(fitted.column_std_, x.std(axis=0), rtol=1e-9)
        assert "-fold (x3 " in fitted.summary()
