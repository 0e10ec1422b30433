"""The Gaussian with any covariance maximises the likelihood of the observed cells."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from factor_oracles import dense_gaussian, factor_rows
from oracles import assert_never_falls, dense_condition, punched, random_covariance
from probpca.blocks import Block
from probpca.errors import DataError
from probpca.learning.factor.patterns import Patterns, expect_filled
from probpca.learning.factor.unrestricted_gaussian import UnrestrictedSettings, unrestricted_gaussian
from probpca.models import Gaussian
from probpca.sources import open_source
from probpca.statistics import Moments

TIGHT = UnrestrictedSettings(tol=1e-12)


@pytest.fixture
def x(rng):
    return punched(rng, factor_rows(rng, n=80, d=5), 0.2)


def patterns_of(x, weight=None):
    d = x.shape[1]
    return Patterns.of(np.arange(d), np.zeros(d), np.ones(d), Block(x, weight))


def test_complete_rows_have_the_closed_form(rng):
    x, w = factor_rows(rng), rng.integers(1, 4, 200).astype(float)
    found = unrestricted_gaussian(open_source(x, weight=w))
    mean, S = np.average(x, axis=0, weights=w), np.cov(x.T, fweights=w.astype(int), bias=True)
    assert_allclose(found.mean, mean, rtol=1e-12)
    assert_allclose(found.covariance, S, rtol=1e-10, atol=1e-12)
    assert_allclose(found.log_likelihood, w @ multivariate_normal(mean, S).logpdf(x), rtol=1e-11)
    assert found.weight == w.sum()
    assert not found.missing


def test_independent_features_have_univariate_likelihoods(x):
    cells = (column[~np.isnan(column)] for column in x.T)
    expected = sum(norm(cell.mean(), cell.std()).logpdf(cell).sum() for cell in cells)
    assert_allclose(unrestricted_gaussian(x).baseline_log_likelihood, expected, rtol=1e-12)


@pytest.mark.parametrize("share", [0.2, 0.5])  # steps are extrapolated with many missing cells
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_of_the_dense_likelihood_vanishes(rng, weighted, share):
    x = punched(rng, factor_rows(rng, n=300, d=5), share)
    w = rng.uniform(0.5, 3.0, len(x)) if weighted else None
    found = unrestricted_gaussian(open_source(x, weight=w), TIGHT)
    value, of_mean, of_covariance = dense_gaussian(found.mean, found.covariance, x, w)
    std = np.sqrt(np.diag(found.covariance))
    assert_allclose(found.log_likelihood, value, rtol=1e-11)
    assert np.abs(of_mean * std).max() < 1e-4
    assert np.abs(of_covariance * np.outer(std, std)).max() < 1e-4


def test_a_dense_optimiser_finds_the_same_maximum(rng):
    x = punched(rng, factor_rows(rng, n=40, d=3), 0.3)
    lower = np.tril_indices(3)

    def parts(v):
        root = np.zeros((3, 3))
        root[lower] = v[3:]
        return v[:3], root @ root.T

    start = np.concatenate([np.nanmean(x, axis=0), np.diag(np.nanstd(x, axis=0))[lower]])
    best = minimize(lambda v: -dense_gaussian(*parts(v), x)[0], start, method="BFGS")
    found = unrestricted_gaussian(x)
    assert_allclose(found.log_likelihood, -best.fun, atol=1e-5)
    assert_allclose(found.covariance, parts(best.x)[1], rtol=0.01, atol=1e-3)


def test_expected_sums_are_those_of_conditional_gaussians(rng, x):
    d, n = x.shape[1], len(x)
    model, w = Gaussian(rng.standard_normal(d), random_covariance(rng, d)), rng.uniform(0.5, 2.0, n)
    x[0], x[1, 1:], w[1] = np.nan, np.nan, 0.0
    shift, squares = np.zeros(d), np.zeros((d, d))
    for row, weight in zip(x[1:], w[1:], strict=True):
        seen, full, spread = ~np.isnan(row), row.copy(), np.zeros((d, d))
        unseen = np.flatnonzero(~seen)
        if unseen.size:
            mean, spread[np.ix_(unseen, unseen)] = dense_condition(model, np.flatnonzero(seen), row[seen])
            full[unseen] = mean[0]
        shift += weight * (full - model.mean)
        squares += weight * (np.outer(full - model.mean, full - model.mean) + spread)
    found = expect_filled(model.mean, model.covariance, patterns_of(x, w))
    assert_allclose(found.shift, shift, rtol=1e-10)
    assert_allclose(found.squares, squares, rtol=1e-10, atol=1e-10)
    assert_allclose(found.log_likelihood, dense_gaussian(model.mean, model.covariance, x[1:], w[1:])[0], rtol=1e-12)
    assert_allclose(found.weight, w[1:].sum())


def test_steps_never_lower_the_likelihood(x):
    rows, mean, C, trace = patterns_of(x), np.zeros(x.shape[1]), 9 * np.eye(x.shape[1]), []
    for _ in range(30):
        sums = expect_filled(mean, C, rows)
        shift = sums.shift / sums.weight
        mean, C = mean + shift, sums.squares / sums.weight - np.outer(shift, shift)
        trace.append(sums.log_likelihood)
    assert_never_falls(trace)
    assert trace[-1] > trace[0] + 1


def test_repeated_rows_count_as_weights_and_empty_rows_not_at_all(rng, x):
    w = rng.integers(0, 3, len(x))
    weighted = unrestricted_gaussian(open_source(x, weight=w.astype(float)), TIGHT)
    repeated = unrestricted_gaussian(np.vstack([np.repeat(x, w, axis=0), np.full((3, x.shape[1]), np.nan)]), TIGHT)
    assert_allclose(weighted.log_likelihood, repeated.log_likelihood, rtol=1e-11)
    assert_allclose(weighted.covariance, repeated.covariance, rtol=1e-5, atol=1e-8)
    assert weighted.weight == repeated.weight == w.sum()
    assert_allclose(weighted.missing, repeated.missing)


def test_order_units_and_cuts_do_not_matter(rng, x):
    found, scale = unrestricted_gaussian(x, TIGHT), np.geomspace(1e-6, 1e6, x.shape[1])
    rows, columns = rng.permutation(len(x)), rng.permutation(x.shape[1])
    other = unrestricted_gaussian((x * scale + 1)[rows][:, columns], TIGHT)
    observed = (~np.isnan(x)).sum(axis=0)
    assert_allclose(other.log_likelihood, found.log_likelihood - observed @ np.log(scale), rtol=1e-10)
    assert_allclose(other.correlations, found.correlations[np.ix_(columns, columns)], atol=1e-5)
    batches = unrestricted_gaussian(iter([x[:30], x[30:31], x[31:]]), TIGHT)
    assert_allclose(batches.log_likelihood, found.log_likelihood, rtol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_dependent_columns_have_no_maximum(rng, share):
    x = factor_rows(rng, n=60, d=4)
    x[:, 3] = x[:, 0] - 2 * x[:, 1]
    x = punched(rng, x, share)
    found = unrestricted_gaussian(x)
    assert not found.is_bounded
    assert "has no maximum" in found.note


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_fewer_rows_than_features_have_no_maximum(rng, share):
    x = punched(rng, factor_rows(rng, n=6, d=8), share)
    assert not unrestricted_gaussian(x).is_bounded


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_constant_and_empty_columns_are_left_out(rng, share):
    x = punched(rng, factor_rows(rng, n=60, d=4), share)
    if share:
        x[7] = np.nan  # a row with nothing but the constant
    more = np.column_stack([np.full(60, 3.0), x, np.full(60, np.nan)]) if share else np.column_stack([np.ones(60), x])
    found, alone = unrestricted_gaussian(more), unrestricted_gaussian(x)
    assert_allclose(found.log_likelihood, alone.log_likelihood, rtol=1e-10)
    assert found.features.tolist() == [1, 2, 3, 4]
    assert found.weight == alone.weight
    assert found.names == ["x1", "x2", "x3", "x4"]
    assert found.note.endswith("left out: x0, x5." if share else "left out: x0.")


def test_features_that_never_meet_are_named(rng):
    x = factor_rows(rng, n=60, d=4)
    x[:30, 1], x[30:, 3] = np.nan, np.nan
    assert "x1 and x3 were never observed in the same row" in unrestricted_gaussian(x).note


def test_moments_are_enough_for_complete_rows(rng, x):
    complete = factor_rows(rng)
    found, same = unrestricted_gaussian(Moments.of(Block(complete))), unrestricted_gaussian(complete)
    assert_allclose(found.log_likelihood, same.log_likelihood, rtol=1e-13)
    assert unrestricted_gaussian(found) is found
    with pytest.raises(DataError, match="pass the rows themselves"):
        unrestricted_gaussian(Moments.of(Block(x)))


def test_what_cannot_be_fitted_is_refused(rng, x):
    with pytest.raises(DataError, match="at most 3 features; got 5"):
        unrestricted_gaussian(x, UnrestrictedSettings(largest=3))
    with pytest.raises(DataError, match="cells of equal weight"):
        unrestricted_gaussian(open_source(x, cell_weight=rng.uniform(1, 2, x.shape)))
    with pytest.raises(DataError, match="infinity"):
        unrestricted_gaussian(np.where(np.isnan(x), np.inf, x))


def test_any_source_will_do(tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    unstored = open_source(sparse.csr_array(np.nan_to_num(x)), unstored_missing=True)
    for rows in (tmp_path / "x.npy", unstored, open_source(x, n_jobs=2)):
        assert_allclose(unrestricted_gaussian(rows).log_likelihood, unrestricted_gaussian(x).log_likelihood, rtol=1e-10)


def test_cells_of_weight_zero_are_missing(x):
    zero = open_source(np.nan_to_num(x), cell_weight=(~np.isnan(x)).astype(float))
    assert_allclose(unrestricted_gaussian(zero).log_likelihood, unrestricted_gaussian(x).log_likelihood, rtol=1e-10)


def test_too_few_iterations_are_noted(x):
    assert "not converged after 2 iterations" in unrestricted_gaussian(x, UnrestrictedSettings(max_iter=2)).note
