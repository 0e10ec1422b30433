"""The fit to pairwise correlations is that to complete rows, or near the maximum, and a start for the fit to cells."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from factor_oracles import dense_value_and_gradient, factor_rows
from oracles import punched
from probpca.blocks import as_block
from probpca.learning import Settings, fit_factor_analysis
from probpca.learning.components import Count
from probpca.learning.factor.complete import fit_moments
from probpca.learning.factor.pairwise import PairwiseFit, pairwise_correlations
from probpca.models import LinearGaussian
from probpca.sources import open_source
from probpca.statistics import ColumnSummary, Moments, Pairs

SETTINGS = Settings(tol=1e-8, noise="per_feature")


def pairwise(x, rng):
    source = open_source(x)
    return PairwiseFit.of(source, source.fold(ColumnSummary.of), SETTINGS, rng)


def pairs_of(x):
    return Pairs.of(np.nanmean(x, axis=0), as_block(x))


def test_of_complete_rows_it_is_the_fit_to_them(rng):
    x = factor_rows(rng)
    found, moments = pairwise(x, rng), Moments.of(as_block(x))
    assert_allclose(found.moments.scatter, moments.scatter, rtol=1e-10, atol=1e-10 * np.abs(moments.scatter).max())
    factor = replace(SETTINGS.factor, floor=SETTINGS.factor.least_start)
    wanted = fit_moments(moments, Count(2), replace(SETTINGS, factor=factor), rng).model
    assert_allclose(found.model(2).covariance.dense(), wanted.covariance.dense(), rtol=1e-6)


def test_correlations_are_those_of_the_rows_with_both_columns(rng):
    x = punched(rng, factor_rows(rng), 0.1)
    R = pairwise_correlations(pairs_of(x), 1e-6)
    covariance, mean = np.empty(R.shape), np.nanmean(x, axis=0)
    for j, k in np.ndindex(R.shape):
        both = ~np.isnan(x[:, [j, k]]).any(axis=1)
        covariance[j, k] = np.mean((x[both, j] - mean[j]) * (x[both, k] - mean[k]))
    std = np.sqrt(np.diag(covariance))
    assert_allclose(R, covariance / np.outer(std, std), atol=1e-12)


def test_correlations_that_contradict_each_other_are_made_to_agree():
    # The first column is like the second, the second like the third, but the third is opposite to the first.
    z = np.random.default_rng(0).standard_normal(200)
    nothing = np.full(200, np.nan)
    x = np.vstack([np.c_[z, z, nothing], np.c_[nothing, z, z], np.c_[z, nothing, -z]])
    R = pairwise_correlations(pairs_of(x), 1e-6)
    assert_allclose(np.diag(R), 1.0)
    assert_allclose(R, R.T, rtol=1e-14)
    assert np.linalg.eigvalsh(R)[0] > 1e-7
    assert R[0, 1] > 0.3 > -0.3 > R[0, 2]


def test_pairs_that_never_met_are_uncorrelated():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 1)) + 2.0 * rng.standard_normal((100, 4))
    x[:50, 0] = x[50:, 1] = np.nan
    assert pairwise_correlations(pairs_of(x), 1e-6)[0, 1] == 0


def test_constant_and_empty_columns_get_no_loadings(rng):
    x = punched(rng, factor_rows(rng), 0.1)
    model = pairwise(np.column_stack([x, np.full(len(x), 3.0), np.full(len(x), np.nan)]), rng).model(2)
    assert_array_equal(model.loadings[6:], 0.0)
    assert model.noise_variance[7] == 1
    assert np.isfinite(model.mean).all()


def test_the_fit_to_cells_starts_at_least_as_high(rng):
    x = punched(rng, factor_rows(rng), 0.1)
    at_start = dense_value_and_gradient(pairwise(x, rng).model(2), x)[0]
    found = fit_factor_analysis(x, 2, SETTINGS, rng)
    assert found.trace[0] >= at_start - 1e-8 * abs(at_start)


@pytest.mark.parametrize("seed", range(4))
def test_a_fit_to_cells_is_not_below_that_of_the_factor_of_two_columns(seed):
    # A pair of columns that are nearly the same hides from principal components, which see the other five.
    rng = np.random.default_rng(seed)
    many = 0.6 * rng.standard_normal((200, 1)) + 0.8 * rng.standard_normal((200, 5))
    pair = rng.standard_normal((200, 1)) + 0.02 * rng.standard_normal((200, 2))
    x = punched(rng, np.hstack([many, pair]), 0.03)
    W = np.zeros((7, 1))
    W[5:] = 1.0
    noise = np.where(np.arange(7) < 5, np.nanvar(x, axis=0), 0.02**2)
    alone = dense_value_and_gradient(LinearGaussian(np.nanmean(x, axis=0), W, noise), x)[0]
    assert fit_factor_analysis(x, 1, Settings(), rng).log_likelihood > alone
