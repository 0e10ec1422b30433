"""Rows with missing cells: every answer is that of the Gaussian of the cells that were observed."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import chi2, kstest, norm

from oracles import (
    assert_moments_match,
    assert_within_errors,
    dense_condition,
    dense_covariance,
    dense_observed_log_likelihood,
    dense_observed_posterior,
    observed_parts,
    precise_log_likelihood,
    punched,
    random_model,
)
from probpca import DataError
from probpca.blocks import Block
from probpca.inference import (
    encode,
    explore,
    impute,
    log_likelihood,
    outliers,
    posterior,
    project,
    reconstruct,
    sample,
    sample_latent,
)
from probpca.inference.imputation import ParameterCovariance, draw_missing, impute_with_uncertainty, noise_inflation
from probpca.inference.masked_rows import group_posteriors
from probpca.learning.result import complete_information
from probpca.linalg.packed import pack
from probpca.models import Gaussian, LinearGaussian

NEAR = {"rtol": 1e-9, "atol": 1e-10}
DRAWS = 20_000
NAN = np.nan


@pytest.fixture(params=[(7, 3), (5, 1), (3, 5)], ids=lambda shape: f"d{shape[0]}q{shape[1]}")
def shape(request):
    return request.param


@pytest.fixture
def x(rng, model):
    """Rows with four cells in ten missing; a complete row, one with a single cell, one with none."""
    rows = punched(rng, model.mean + 2 * rng.standard_normal((25, model.n_features)), 0.4)
    rows[0] = np.arange(model.n_features)
    rows[1], rows[2] = NAN, NAN
    rows[1, 1] = 0.7
    rows[5, 0], rows[5, -1] = 1.1, NAN
    return rows


def given_observed(model, row):
    """Missing positions, and mean and covariance of those cells given the observed ones."""
    seen = np.flatnonzero(~np.isnan(row))
    missing = np.flatnonzero(np.isnan(row))
    whole = Gaussian(model.mean, dense_covariance(model))
    if seen.size == 0:
        return missing, whole.mean, whole.covariance
    mean, covariance = dense_condition(whole, seen, row[seen])
    return missing, mean[0], covariance


# How probable


def test_the_log_likelihood_is_that_of_the_observed_cells(model, x):
    assert_allclose(log_likelihood(model, x), dense_observed_log_likelihood(model, x), **NEAR)


@pytest.mark.parametrize("sigma2", [1.0, 1e-4, 1e-8])
@pytest.mark.parametrize("q", [2, 20])
def test_it_is_right_in_extended_precision(rng, q, sigma2):
    model = random_model(rng, q + 6, q, noise=sigma2)
    near, far = sample(model, 6, rng=rng), rng.standard_normal((2, q + 6))
    x = punched(rng, np.vstack([near, far]), 0.3)
    wanted = [precise_log_likelihood(model.restrict(~np.isnan(row)), row[~np.isnan(row)]).item() for row in x]
    assert_allclose(log_likelihood(model, x), wanted, rtol=1e-8, atol=1e-8 * (q + 6))


def test_it_is_right_when_noise_differs_by_many_orders(rng):
    model = LinearGaussian(np.zeros(8), rng.standard_normal((8, 3)), np.geomspace(1e-8, 1e4, 8))
    x = punched(rng, np.vstack([sample(model, 6, rng=rng), rng.standard_normal((2, 8))]), 0.3)
    wanted = [precise_log_likelihood(model.restrict(~np.isnan(row)), row[~np.isnan(row)]).item() for row in x]
    assert_allclose(log_likelihood(model, x), wanted, rtol=1e-8, atol=1e-7)


def test_precisions_of_cells_divide_the_noise(rng):
    model = random_model(rng, 6, 2)
    x = punched(rng, model.mean + rng.standard_normal((20, 6)), 0.3)
    omega = rng.uniform(0.2, 4.0, x.shape) * (rng.random(x.shape) < 0.8)
    found, wanted = posterior(model, Block(x, None, omega)), dense_observed_posterior(model, x, omega)
    assert_allclose(
        log_likelihood(model, Block(x, None, omega)), dense_observed_log_likelihood(model, x, omega), **NEAR
    )
    assert_allclose(found.mean, wanted.mean, **NEAR)
    assert_allclose(found.covariance, wanted.covariance, **NEAR)


def test_precisions_go_with_one_noise_variance(rng):
    model = random_model(rng, 4, 2, noise="diagonal")
    with pytest.raises(DataError, match="cell weights need a model with one noise variance"):
        log_likelihood(model, Block(np.ones((3, 4)), None, np.ones((3, 4))))


# Latent variables


def test_the_posterior_is_that_of_the_observed_cells(model, x):
    found, wanted = posterior(model, x), dense_observed_posterior(model, x)
    assert_allclose(found.mean, wanted.mean, **NEAR)
    assert_allclose(found.covariance, wanted.covariance, **NEAR)
    assert_allclose(encode(model, x), wanted.mean, **NEAR)


def test_a_cell_more_never_adds_doubt(rng, model, x):
    more = np.where(np.isnan(x) & (rng.random(x.shape) < 0.5), 0.0, x)
    gained = posterior(model, x).covariance - posterior(model, more).covariance
    assert np.linalg.eigvalsh(gained).min() > -1e-12


def test_latents_have_the_moments_of_their_posterior(model, x, rng):
    rows = x[[1, 2, 5]]
    wanted = dense_observed_posterior(model, rows)
    draws = sample_latent(model, rows, DRAWS, rng=rng)
    for i in range(3):
        assert_moments_match(draws[:, i], wanted.mean[i], wanted.covariance[i])


def test_neighbours_have_the_moments_of_the_posterior_predictive(model, x, rng):
    rows, W = x[[1, 2, 5]], model.loadings
    belief = dense_observed_posterior(model, rows)
    draws = explore(model, rows, DRAWS, rng=rng)
    noise = np.diag(np.broadcast_to(model.noise_variance, model.mean.shape))
    for i in range(3):
        assert_moments_match(draws[:, i], model.mean + W @ belief.mean[i], W @ belief.covariance[i] @ W.T + noise)


@pytest.mark.parametrize("sigma2", [1e-6, 1e-12])
def test_draws_are_finite_where_noise_is_tiny_and_cells_too_few(rng, sigma2):
    model = random_model(rng, 8, 4, noise=sigma2)
    x = punched(rng, sample(model, 100, rng=rng), 0.6)
    assert np.isfinite(sample_latent(model, x, 3, rng=rng)).all()
    assert np.isfinite(draw_missing(model, x, rng=rng)).all()


# Missing cells


def test_missing_cells_are_imputed_by_their_conditional_mean_and_deviation(model, x):
    found = impute_with_uncertainty(model, x)
    assert_array_equal(found.values, impute(model, x))
    for row, values, std in zip(x, *found, strict=True):
        missing, mean, covariance = given_observed(model, row)
        assert_allclose(values[missing], mean, **NEAR)
        assert_allclose(std[missing], np.sqrt(np.diag(covariance)), **NEAR)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_observed_cells_come_back_bit_for_bit(model, x, dtype):
    x = x.astype(dtype)
    x[3:5, 0], x[6, -1] = -0.0, np.finfo(dtype).tiny
    seen = ~np.isnan(x)
    for values in (impute(model, x), impute_with_uncertainty(model, x).values):
        assert not np.isnan(values).any()
        assert_array_equal(values[seen].view(np.int64), x[seen].astype(np.float64).view(np.int64))
    assert_array_equal(impute_with_uncertainty(model, x).std[seen], 0.0)
    assert (impute_with_uncertainty(model, x).std[~seen] > 0).all()


def test_rows_to_impute_are_left_as_they_are(model, x):
    before = x.copy()
    impute(model, x)
    assert_array_equal(x, before)


def test_drawn_cells_have_the_joint_distribution_of_the_missing_ones(model, x, rng):
    for row in x[[1, 2, 5]]:
        missing, mean, covariance = given_observed(model, row)
        draws = draw_missing(model, np.tile(row, (DRAWS, 1)), rng=rng)
        assert_moments_match(draws[:, missing], mean, covariance)
        seen = ~np.isnan(row)
        assert_array_equal(draws[:, seen], np.tile(row[seen], (DRAWS, 1)))


def test_intervals_hold_as_much_as_they_promise(model, rng):
    truth = sample(model, 4000, rng=rng)
    x = punched(rng, truth, 0.4)
    low, high = impute_with_uncertainty(model, x).interval(0.8)
    inside = ((low <= truth) & (truth <= high))[np.isnan(x)]
    # Cells of one row are dependent: count rows, not cells.
    assert_within_errors(inside.mean(), 0.8, np.sqrt(0.8 * 0.2 / 4000))
    assert_array_equal(low[~np.isnan(x)], truth[~np.isnan(x)])
    assert_array_equal(high[~np.isnan(x)], truth[~np.isnan(x)])


def test_an_interval_is_that_of_the_normal_distribution(model, x):
    found = impute_with_uncertainty(model, x)
    low, high = found.interval(0.9)
    assert_allclose(high - found.values, norm.ppf(0.95) * found.std, atol=1e-12)
    assert_allclose(found.values - low, norm.ppf(0.95) * found.std, atol=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 2.0, NAN])
def test_levels_that_are_no_probabilities_are_refused(level):
    with pytest.raises(DataError, match="level must lie between 0 and 1"):
        impute_with_uncertainty(LinearGaussian(np.zeros(2), np.ones((2, 1)), 1.0), [[NAN, 1.0]]).interval(level)


# Doubt about parameters


def random_information(rng, model):
    d, q = model.loadings.shape
    roots = rng.standard_normal((d, q + 1, 3 * q + 9))
    return roots @ np.swapaxes(roots, 1, 2)


def random_doubt(rng, model, inflation=1.3):
    return ParameterCovariance.of_fit(model, pack(random_information(rng, model)), inflation)


def test_doubt_about_parameters_adds_what_regression_says(model, x, rng):
    information = random_information(rng, model)
    doubt = ParameterCovariance.of_fit(model, pack(information), 1.3)
    found, belief = impute_with_uncertainty(model, x, doubt), dense_observed_posterior(model, x)
    noise = 1.3 * np.broadcast_to(model.noise_variance, model.mean.shape)
    for i, j in zip(*np.nonzero(np.isnan(x)), strict=True):
        t = np.append(belief.mean[i], 1.0)
        second = np.outer(t, t)
        second[:-1, :-1] += belief.covariance[i]
        w = model.loadings[j]
        parameters = noise[j] * np.trace(np.linalg.solve(information[j], second))
        assert_allclose(found.std[i, j] ** 2, noise[j] + w @ belief.covariance[i] @ w + parameters, rtol=1e-8)
    assert_array_equal(found.values, impute(model, x))
    assert_array_equal(found.std[~np.isnan(x)], 0.0)


def test_it_never_makes_anything_surer(model, x, rng):
    plain, doubtful = (
        impute_with_uncertainty(model, x).std,
        impute_with_uncertainty(model, x, random_doubt(rng, model)).std,
    )
    assert (doubtful[np.isnan(x)] > plain[np.isnan(x)]).all()


def test_it_vanishes_as_rows_grow(model, x):
    d, q = model.loadings.shape
    plain, gaps = impute_with_uncertainty(model, x).std, []
    for n in (1e2, 1e4, 1e6):
        inflation = noise_inflation(n * d, n, d, q) if q < d else 1.0
        doubt = ParameterCovariance.of_fit(model, complete_information(n, q), inflation)
        gaps.append(np.abs(impute_with_uncertainty(model, x, doubt).std - plain).max())
    assert gaps[1] < 0.02 * gaps[0]
    assert gaps[2] < 0.02 * gaps[1]


def test_of_a_feature_that_was_never_observed_nothing_is_known_and_of_the_others_no_less(model, x, rng):
    information = pack(random_information(rng, model))
    wanted = impute_with_uncertainty(model, x, ParameterCovariance.of_fit(model, information, 1.3)).std
    information[:, 0] = 0.0
    found = impute_with_uncertainty(model, x, ParameterCovariance.of_fit(model, information, 1.3)).std
    assert_array_equal(found[:, 0], np.where(np.isnan(x[:, 0]), np.inf, 0.0))
    assert_array_equal(found[:, 1:], wanted[:, 1:])


# Outliers


def dense_outliers(model, row):
    """D2, T2 and Q of the observed cells, with their degrees of freedom."""
    seen = np.flatnonzero(~np.isnan(row))
    psi = np.broadcast_to(model.noise_variance, model.mean.shape)[seen]
    centred = (row[seen] - model.mean[seen]) / np.sqrt(psi)
    axes, singular, _ = np.linalg.svd(model.loadings[seen] / np.sqrt(psi)[:, None], full_matrices=False)
    along = axes.T @ centred
    inside = (along**2 / (1 + singular**2)).sum()
    outside = ((centred - axes @ along) ** 2).sum()
    return inside, outside, along.size, seen.size


def test_distances_and_their_probabilities_count_the_observed_cells(model, x):
    found = outliers(model, x)
    for i, (row, (seen, part)) in enumerate(zip(x, observed_parts(model, x), strict=True)):
        rest = row[seen] - part.mean
        distance = rest @ np.linalg.solve(part.covariance, rest) if seen.size else 0.0
        inside, outside, rank, degrees = dense_outliers(model, row) if seen.size else (0.0, 0.0, 0, 0)
        assert_allclose(found.distance[i], distance, **NEAR)
        assert_allclose(found.latent_distance[i], inside, **NEAR)
        assert_allclose(found.residual_distance[i], outside, **NEAR)
        for name, value, freedom in [
            ("p_value", distance, degrees),
            ("latent_p_value", inside, rank),
            ("residual_p_value", outside, degrees - rank),
        ]:
            wanted = chi2.sf(value, freedom) if freedom else 1.0
            assert_allclose(getattr(found, name)[i], wanted, rtol=1e-7, err_msg=name)
    assert_allclose(found.log10_p_value, np.log10(found.p_value), rtol=1e-9, atol=1e-12)


def test_distances_without_eigenvalues_are_the_same(model, x):
    found, block = outliers(model, x), Block(x)
    for group in group_posteriors(model, block):
        inside, outside = group.split_distance()
        assert_allclose(inside, found.latent_distance[group.index], rtol=1e-7, atol=1e-9)
        assert_allclose(outside, found.residual_distance[group.index], rtol=1e-7, atol=1e-7)


def test_contributions_add_up_and_missing_cells_have_none(model, x):
    found = outliers(model, x)
    assert_allclose(found.contributions.sum(axis=1), found.distance, **NEAR)
    assert_array_equal(found.contributions[np.isnan(x)], 0.0)
    assert_array_equal(np.isnan(found.cell_scores), np.isnan(x))


def test_cell_scores_are_predictions_from_the_other_observed_cells(model, x):
    scores = outliers(model, x).cell_scores
    whole = Gaussian(model.mean, dense_covariance(model))
    for i, j in zip(*np.nonzero(~np.isnan(x)), strict=True):
        others = np.setdiff1d(np.flatnonzero(~np.isnan(x[i])), j)
        mean, variance = whole.mean[j], whole.covariance[j, j]
        if others.size:
            cross = np.linalg.solve(whole.covariance[np.ix_(others, others)], whole.covariance[others, j])
            mean, variance = (
                mean + cross @ (x[i, others] - whole.mean[others]),
                variance - cross @ whole.covariance[others, j],
            )
        assert_allclose(scores[i, j], (x[i, j] - mean) / np.sqrt(variance), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_p_values_are_uniform_under_the_model(rng, noise):
    model = random_model(rng, 9, 3, noise=noise)
    x = punched(rng, sample(model, 5000, rng=rng), 0.4)
    count = (~np.isnan(x)).sum(axis=1)
    found = outliers(model, x)
    for p, judged in [(found.p_value, 0), (found.latent_p_value, 0), (found.residual_p_value, 3)]:
        assert kstest(p[count > judged], "uniform").pvalue > 1e-3
        assert_array_equal(p[count <= judged], 1.0)
    assert min(kstest(column[~np.isnan(column)], "norm").pvalue for column in found.cell_scores.T) > 1e-4


def test_they_are_not_if_missing_cells_counted_as_observed(rng):
    model = random_model(rng, 9, 3)
    x = punched(rng, sample(model, 5000, rng=rng), 0.4)
    assert kstest(chi2.sf(outliers(model, x).distance, 9), "uniform").pvalue < 1e-6


def test_a_spoilt_cell_stands_out_among_the_observed_ones(rng):
    model = random_model(rng, d=12, q=2, noise=0.01)
    x = sample(model, 12, rng=rng)
    x[np.arange(12), np.arange(12)] += 5.0
    x[np.arange(12), (np.arange(12) + 5) % 12] = NAN
    found = outliers(model, x)
    assert_array_equal(np.nanargmax(np.abs(found.cell_scores), axis=1), np.arange(12))
    assert (found.p_value < 1e-10).all()


# Rows that say nothing


def test_a_row_with_nothing_observed_keeps_the_prior(model):
    empty = np.full((1, model.n_features), NAN)
    belief, found, q = posterior(model, empty), outliers(model, empty), model.n_components
    assert_array_equal(belief.mean, np.zeros((1, q)))
    assert_allclose(belief.covariance, np.eye(q)[None], atol=1e-15)
    assert log_likelihood(model, empty).item() == 0.0
    assert [p.item() for p in (found.p_value, found.latent_p_value, found.residual_p_value)] == [1.0, 1.0, 1.0]
    assert (found.distance.item(), found.log10_p_value.item()) == (0.0, 0.0)
    assert_allclose(impute(model, empty)[0], model.mean, rtol=1e-15)
    assert_allclose(impute_with_uncertainty(model, empty).std[0], np.sqrt(np.diag(dense_covariance(model))), rtol=1e-12)
    assert_array_equal(project(model, empty), 0.0)
    assert_allclose(reconstruct(model, empty)[0], model.mean, rtol=1e-15)


# Projection


def nearest(model, row):
    """The point of the principal subspace nearest to the observed cells, and of those the one nearest to the mean."""
    seen = ~np.isnan(row)
    axes, _ = model.principal_axes
    coordinates = np.linalg.lstsq(axes[seen], row[seen] - model.mean[seen])[0]
    return coordinates, model.mean + axes @ coordinates


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_projection_is_least_squares_on_the_observed_cells(rng, noise):
    model = random_model(rng, 8, 3, noise=noise)
    x = punched(rng, 3 * rng.standard_normal((40, 8)), 0.4)
    x = x[(~np.isnan(x)).sum(axis=1) >= 3]
    wanted = [nearest(model, row) for row in x]
    assert_allclose(project(model, x), [coordinates for coordinates, _ in wanted], rtol=1e-6, atol=1e-7)
    assert_allclose(reconstruct(model, x), [point for _, point in wanted], rtol=1e-6, atol=1e-7)


def test_a_row_with_too_few_cells_is_met_where_it_is_observed(rng):
    model = random_model(rng, 8, 4)
    x = punched(rng, rng.standard_normal((40, 8)), 0.75)
    x = x[(~np.isnan(x)).sum(axis=1) <= 4]
    found = reconstruct(model, x)
    assert_allclose(found[~np.isnan(x)], x[~np.isnan(x)], atol=1e-6)
    assert_allclose(found, [nearest(model, row)[1] for row in x], atol=1e-6)  # of all such points nearest to the mean


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_projection_of_a_complete_row_is_that_of_the_complete_formula(rng, noise):
    model = random_model(rng, 8, 3, noise=noise)
    rows = rng.standard_normal((5, 8))
    company = np.vstack([rows, np.full((1, 8), NAN)])
    assert_allclose(project(model, company)[:5], project(model, rows), **NEAR)
    assert_allclose(reconstruct(model, company)[:5], reconstruct(model, rows), **NEAR)


# Company


def asked(model, rows):
    """All that is answered row by row."""
    belief, found = posterior(model, rows), outliers(model, rows)
    imputed = impute_with_uncertainty(model, rows)
    return {
        "log_likelihood": log_likelihood(model, rows),
        "mean": belief.mean,
        "covariance": belief.covariance,
        "values": imputed.values,
        "std": imputed.std,
        "distance": found.distance,
        "latent_distance": found.latent_distance,
        "p_value": found.p_value,
        "contributions": found.contributions,
        "cell_scores": found.cell_scores,
    }


def crowd(rng, d=40):
    """Complete rows, rows with few holes, with half of their cells, with few, and with a shared pattern."""
    counts = np.repeat([d, d - 2, d // 2, 2, 0], [6, 70, 70, 70, 2])
    x = rng.standard_normal((counts.size, d))
    x[np.argsort(rng.random(x.shape), axis=1) >= counts[:, None]] = NAN
    shared = np.where(rng.random(d) < 0.5, NAN, rng.standard_normal((8, d)))
    return rng.permutation(np.vstack([x, shared]))


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_answers_do_not_depend_on_the_company_of_a_row(rng, noise):
    model = random_model(rng, 40, 3, noise=noise)
    x = crowd(rng)
    together = asked(model, x)
    for i in range(0, len(x), 5):
        for name, answer in asked(model, x[i : i + 1]).items():
            assert_allclose(together[name][i], answer[0], rtol=1e-8, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_cells_that_a_sparse_matrix_does_not_store_are_missing_if_so_declared(rng, noise):
    model = random_model(rng, 40, 3, noise=noise)
    x = crowd(rng)
    thin = sparse.csr_array((~np.isnan(x)).astype(float))
    thin.data = x[~np.isnan(x)]
    few = np.flatnonzero(np.diff(thin.indptr) < 5)
    for rows in (np.arange(len(x)), few):
        sparsely = asked(model, Block(thin[rows], unstored_missing=True))
        for name, answer in asked(model, x[rows]).items():
            assert_allclose(sparsely[name], answer, rtol=1e-8, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_stored_zeros_are_observed(rng, noise):
    model = random_model(rng, 6, 2, noise=noise)
    x = punched(rng, rng.integers(-1, 2, (30, 6)).astype(float), 0.4)
    thin = sparse.csr_array((~np.isnan(x)).astype(float))
    thin.data = x[~np.isnan(x)]
    sparsely = asked(model, Block(thin, unstored_missing=True))
    for name, answer in asked(model, x).items():
        assert_allclose(sparsely[name], answer, rtol=1e-8, atol=1e-9, err_msg=name)


def test_a_cell_of_precision_zero_is_answered_as_missing(rng):
    model = random_model(rng, 6, 2)
    x, omega = rng.standard_normal((9, 6)), np.where(rng.random((9, 6)) < 0.6, 1.0, 0.0)
    weighted = asked(model, Block(x, None, omega))
    for name, answer in asked(model, np.where(omega > 0, x, NAN)).items():
        assert_allclose(weighted[name], answer, rtol=1e-8, atol=1e-9, err_msg=name)


def test_contributions_of_precise_cells_add_up_too(rng):
    model = random_model(rng, 6, 2)
    x, omega = rng.standard_normal((9, 6)), rng.uniform(0.3, 3.0, (9, 6))
    found = outliers(model, Block(x, None, omega))
    wanted = [row - part.mean for row, (_, part) in zip(x, observed_parts(model, x, omega), strict=True)]
    covariances = [part.covariance for _, part in observed_parts(model, x, omega)]
    distance = [rest @ np.linalg.solve(C, rest) for rest, C in zip(wanted, covariances, strict=True)]
    assert_allclose(found.distance, distance, **NEAR)
    assert_allclose(found.contributions.sum(axis=1), distance, **NEAR)


def test_single_precision_rows_are_answered_like_their_values_in_double(rng):
    model = random_model(rng, 6, 2)
    model = replace(model, mean=np.round(model.mean * 64) / 64)
    x = punched(rng, np.round(64 * rng.standard_normal((30, 6))) / 64, 0.3)
    single = asked(model, x.astype(np.float32))
    for name, answer in asked(model, x).items():
        assert_allclose(single[name], answer, rtol=1e-9, atol=1e-10, err_msg=name)


def test_the_order_of_cells_in_memory_does_not_matter():
    # Rows sorted by pattern may begin and end as if they were in order: many tables are needed to meet one.
    model = LinearGaussian(np.zeros(3), np.ones((3, 1)), 0.2)
    for seed in range(150):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((int(rng.integers(20, 100)), 3))
        holed = np.flatnonzero(rng.random(len(x)) < 0.5)
        x[holed, rng.integers(3, size=holed.size)] = NAN
        by_columns = np.asfortranarray(x)
        assert_allclose(impute(model, by_columns), impute(model, x), rtol=1e-12)
        assert_allclose(log_likelihood(model, by_columns), log_likelihood(model, x), rtol=1e-12)
