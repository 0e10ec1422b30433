"""Fit indices are what their definitions say, by dense likelihoods."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, multivariate_normal, ncx2

from factor_oracles import dense_fit, dense_gaussian, factor_rows
from oracles import dense_covariance, punched, random_model
from probpca.blocks import Block
from probpca.errors import DataError, ShapeError
from probpca.learning import fit_ppca
from probpca.learning.factor.fit_indices import fit_indices, noncentrality
from probpca.learning.factor.unrestricted_gaussian import UnrestrictedSettings, unrestricted_gaussian
from probpca.models import LinearGaussian
from probpca.statistics import Moments


@pytest.fixture
def x(rng):
    return factor_rows(rng, n=100, d=6)


@pytest.fixture
def holed(rng, x):
    return punched(rng, x, 0.2)


def near(rng, x, q=1):
    """A factor model whose covariance is like that of the rows; laws of the indices need no maximum."""
    std = np.nanstd(x, axis=0)
    W = 0.5 * std[:, None] * rng.uniform(0.5, 1.0, (x.shape[1], q))
    return LinearGaussian(np.nanmean(x, axis=0) + 0.1 * std, W, 0.7 * std**2)


def test_chi_square_is_twice_the_likelihood_ratio(rng, x):
    model, n = near(rng, x), len(x)
    found = fit_indices(model, x)
    mean, S = x.mean(axis=0), np.cov(x.T, bias=True)
    value = multivariate_normal(model.mean, dense_covariance(model)).logpdf(x).sum()
    unrestricted = multivariate_normal(mean, S).logpdf(x).sum()
    baseline = multivariate_normal(mean, np.diag(np.diag(S))).logpdf(x).sum()
    assert_allclose(found.log_likelihood, value, rtol=1e-11)
    assert_allclose(found.chi_square, 2 * (unrestricted - value), rtol=1e-9)
    assert_allclose(found.baseline_chi_square, 2 * (unrestricted - baseline), rtol=1e-9)
    assert_allclose(found.p_value, chi2.sf(found.chi_square, found.df), rtol=1e-9)
    assert_allclose(found.aic, 2 * found.n_parameters - 2 * value, rtol=1e-11)
    assert_allclose(found.bic, np.log(n) * found.n_parameters - 2 * value, rtol=1e-11)


def test_with_missing_cells_likelihoods_are_those_of_the_observed_cells(rng, holed):
    model, free = near(rng, holed), unrestricted_gaussian(holed, UnrestrictedSettings(tol=1e-10))
    found = fit_indices(model, holed)
    assert_allclose(found.log_likelihood, dense_gaussian(model.mean, dense_covariance(model), holed)[0], rtol=1e-11)
    assert_allclose(found.unrestricted_log_likelihood, free.log_likelihood, rtol=1e-9)
    assert_allclose(found.missing, np.isnan(holed).mean())
    assert "RMSEA, CFI and TLI estimate something else" in found.note


@pytest.mark.parametrize("noise", ["diagonal", 0.3])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_degrees_of_freedom_are_the_codimension_of_the_covariances(rng, noise, q):
    model, d = random_model(rng, 7, q, noise=noise), 7
    lower, psi = np.tril_indices(d), np.broadcast_to(model.noise_variance, (d,))
    moves = [np.outer(a, w) + np.outer(w, a) for a in np.eye(d) for w in model.loadings.T]
    moves += [np.diag(a) for a in np.eye(d)] if noise == "diagonal" else [np.eye(d)]
    rank = np.linalg.matrix_rank(np.array([move[lower] for move in moves]))
    x = rng.standard_normal((50, q)) @ model.loadings.T + rng.standard_normal((50, d)) * np.sqrt(psi) + model.mean
    found = fit_indices(model, x)
    assert found.df == d * (d + 1) // 2 - rank
    assert found.n_parameters == rank + d


def test_rmsea_and_its_interval_invert_the_noncentral_chi_square(rng, x):
    found = fit_indices(near(rng, x), x)
    low, high = (end**2 * found.df * len(x) for end in found.rmsea_interval)
    assert low > 0
    assert_allclose(ncx2.cdf(found.chi_square, found.df, [low, high]), [0.95, 0.05], rtol=1e-8)
    assert_allclose(ncx2.mean(found.df, found.rmsea**2 * found.df * len(x)), found.chi_square, rtol=1e-10)


def test_a_good_fit_has_an_rmsea_of_zero_within_its_interval():
    assert noncentrality(20.0, 43, 0.95) == 0.0
    assert noncentrality(20.0, 43, 0.05) == 0.0  # chi-square is below its 5% quantile
    assert noncentrality(40.0, 43, 0.95) == 0.0
    assert_allclose(ncx2.cdf(40.0, 43, noncentrality(40.0, 43, 0.05)), 0.05, rtol=1e-8)


@pytest.mark.parametrize("p", [0.05, 0.95])
def test_noncentralities_of_huge_tables_are_those_of_the_normal_limit(p):
    # Noncentral chi-square: mean f + c, variance 2 f + 4 c.
    c = noncentrality(1e8, 100, p)
    assert_allclose((1e8 - 100 - c) / np.sqrt(200 + 4 * c), {0.05: -1.6449, 0.95: 1.6449}[p], atol=1e-3)


def test_relative_indices_are_0_for_independent_and_1_for_unrestricted_features(rng, x):
    free, model = unrestricted_gaussian(x), near(rng, x)
    assert fit_indices(model, free, free.baseline_log_likelihood).cfi == 0
    perfect = fit_indices(model, free, free.log_likelihood)
    assert perfect.cfi == 1
    assert perfect.chi_square == perfect.rmsea == 0
    ratio = free.log_likelihood - free.baseline_log_likelihood
    # Halfway per degree of freedom between the baseline and a perfect model: chi2 / f = (chi2_0 / f_0 + 1) / 2.
    half = free.log_likelihood - 0.5 * perfect.df * (2 * ratio / perfect.baseline_df + 1) / 2
    assert_allclose(fit_indices(model, free, half).tli, 0.5, rtol=1e-9)


def test_the_residual_counts_correlations_variances_and_means(rng, x):
    model, S, d = near(rng, x), np.cov(x.T, bias=True), x.shape[1]
    C, squares = dense_covariance(model), []
    for j in range(d):
        squares.append((x[:, j].mean() - model.mean[j]) ** 2 / S[j, j])
        squares.extend((S[j, k] - C[j, k]) ** 2 / (S[j, j] * S[k, k]) for k in range(j + 1))
    assert_allclose(fit_indices(model, x).srmr, np.sqrt(np.mean(squares)), rtol=1e-10)


def test_units_do_not_matter(rng, holed):
    model, scale = near(rng, holed), np.geomspace(1e-5, 1e5, 6)
    found, other = fit_indices(model, holed), fit_indices(model.rescale(scale), holed * scale)
    for name in ("chi_square", "rmsea", "cfi", "tli", "srmr", "baseline_chi_square"):
        assert_allclose(getattr(other, name), getattr(found, name), rtol=1e-5)


def test_moments_and_the_unrestricted_gaussian_say_the_same_as_rows(rng, x):
    model = near(rng, x)
    found = fit_indices(model, x).to_dict()
    for rows in (Moments.of(Block(x)), unrestricted_gaussian(x)):
        assert_allclose(list(fit_indices(model, rows).to_dict().values())[:10], list(found.values())[:10], rtol=1e-9)


def test_bartlett_replaces_the_number_of_rows(rng, x):
    model = near(rng, x)
    plain, found = fit_indices(model, x), fit_indices(model, x, correction="bartlett")
    n = 100 - 1 - (2 * 6 + 5) / 6
    assert_allclose(found.chi_square, plain.chi_square * (n - 2 / 3) / 100, rtol=1e-10)
    assert_allclose(found.baseline_chi_square, plain.baseline_chi_square * n / 100, rtol=1e-10)
    assert_allclose(found.rmsea**2, (found.chi_square - found.df) / (found.df * (n - 2 / 3)), rtol=1e-10)
    assert "Bartlett's small-sample factor" in str(found)
    assert found.bic == plain.bic


def test_bartlett_needs_complete_and_enough_rows(rng, x, holed):
    model = near(rng, x)
    with pytest.raises(DataError, match="needs complete rows; 18% of the cells are missing"):
        fit_indices(model, holed, correction="bartlett")
    with pytest.raises(DataError, match=r"needs more than 4\.5 rows"):
        fit_indices(model, x[:4], correction="bartlett")
    with pytest.raises(DataError, match="must be 'bartlett' or None; got 'yuan'"):
        fit_indices(model, x, correction="yuan")


@pytest.mark.parametrize(("q", "words"), [(3, "no degrees"), (4, "negative degrees")])
def test_nothing_is_tested_without_degrees_of_freedom(rng, x, q, words):
    found = fit_indices(near(rng, x, q), x)
    assert found.df <= 0
    assert np.isnan([found.p_value, found.rmsea, *found.rmsea_interval, found.cfi, found.tli]).all()
    assert np.isfinite([found.srmr, found.aic, found.bic]).all()
    assert words in found.note
    assert "\nRMSEA             -\n" in str(found)
    assert ", p = " not in str(found)


def test_as_many_factors_as_covariances_determine_leave_no_misfit(rng):
    x = rng.standard_normal((60, 1)) + rng.standard_normal((60, 3))
    found = fit_indices(dense_fit(x, 1), x)
    assert found.df == 0
    assert_allclose([found.chi_square, found.srmr], 0, atol=1e-6)


def test_singular_covariances_leave_nothing_to_compare_with(rng, x):
    found = fit_indices(near(rng, x), x[:5])
    assert np.isnan([found.chi_square, found.p_value, found.rmsea, found.cfi, found.tli]).all()
    assert np.isfinite([found.srmr, found.aic, found.bic]).all()
    assert "has no maximum" in found.note


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_constant_features_are_left_out(rng, x, share):
    x = punched(rng, x, share)
    model = near(rng, x)
    W, psi = np.vstack([np.zeros(1), model.loadings]), np.append(1e-6, model.noise_variance)
    more = LinearGaussian(np.append(5.0, model.mean), W, psi)
    found = fit_indices(more, np.column_stack([np.full(100, 5.0), x]), 123.0, heywood=[0])
    expected = fit_indices(model, x).to_dict()
    values = found.to_dict()
    assert "left out: x0" in values.pop("note")
    assert "Heywood" not in found.note
    del expected["note"]
    assert_allclose([v for v in values.values() if v is not None], [v for v in expected.values() if v is not None])


def test_doubts_are_noted(rng, x):
    model = near(rng, x)
    assert "No noise is left in x1, x4 (Heywood case)" in fit_indices(model, x, heywood=[1, 4]).note
    noise = rng.standard_normal(x.shape)
    assert "hardly correlated" in fit_indices(near(rng, noise), noise).note
    assert fit_indices(model, x).note == ""


def test_what_does_not_belong_together_is_refused(rng, x, holed):
    model = near(rng, x)
    with pytest.raises(DataError, match=r"must be at most .* unrestricted"):
        fit_indices(model, x, 1000.0)
    with pytest.raises(ShapeError, match="must have 6 features, as the model has; got 5"):
        fit_indices(model, x[:, :5])
    with pytest.raises(DataError, match="log_likelihood is needed"):
        fit_indices(model, unrestricted_gaussian(holed))


def test_it_counts_for_ppca_too(x):
    result = fit_ppca(x, 2)
    found = fit_indices(result.model, x, result.log_likelihood)
    assert found.n_parameters == 6 * 2 - 1 + 1 + 6
    assert_allclose(found.log_likelihood, fit_indices(result.model, x).log_likelihood, rtol=1e-10)


def test_it_prints_and_becomes_a_dataframe(rng, holed):
    found = fit_indices(near(rng, holed), holed)
    assert str(found).startswith("Fit of 1 factor: 100 rows x 6 features, 18% of the cells missing")
    assert "<table" in found._repr_html_()
    frame = found.to_frame()
    assert len(frame) == 1
    assert frame["rmsea_high"][0] == found.rmsea_interval[1]
    assert found.to_frame(backend="polars")["df"].to_list() == [found.df]
