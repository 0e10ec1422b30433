"""Consistency factors: what trimming and weights take from variances, they give back."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

from oracles import dense_covariance, random_model
from probpca.learning.robust.consistency import chi2_quantile, inflated, trimming_factor, weighting_factor


@pytest.mark.parametrize("share", [0.5, 0.75, 0.975])
def test_the_nearest_gaussian_rows_times_the_factor_have_the_covariance_of_all(rng, share):
    d = 4
    x = rng.standard_normal((200_000, d))
    near = x[np.square(x).sum(axis=1) <= chi2.ppf(share, d)]
    factor = trimming_factor(np.full(len(near), float(d)), np.ones(len(near)), share)
    assert_allclose(factor * near.T @ near / len(near), np.eye(d), atol=0.02)


def test_rows_with_different_numbers_of_cells_count_by_their_cells(rng):
    k = rng.integers(1, 9, 1000)
    weight = rng.integers(0, 3, 1000).astype(float)
    inner = 0.0
    for size in range(1, 9):
        mean = chi2.expect(lambda t: t, (size,), ub=chi2.ppf(0.8, size), conditional=True)
        inner += mean * weight[k == size].sum()
    assert_allclose(trimming_factor(k.astype(float), weight, 0.8), (weight @ k) / inner, rtol=1e-8)


def test_all_rows_need_no_factor():
    assert trimming_factor(np.array([3.0, 5.0]), np.ones(2), 1.0) == 1.0


def test_quantiles_are_those_of_chi_square():
    k = np.arange(1.0, 40.0)
    assert_allclose(chi2_quantile(0.37, k), chi2.ppf(0.37, k))


def test_weights_that_cut_off_large_scores_leave_the_variance_of_the_truncated_normal():
    z, cut = np.linspace(-8, 8, 200_001), 2.0
    density = np.exp(-0.5 * z * z)
    smooth = lambda t: 1 / (1 + np.exp(4 * (np.abs(t) - cut)))  # noqa: E731
    wanted = (smooth(z) * density * z * z).sum() / (smooth(z) * density).sum()
    assert_allclose(weighting_factor(lambda t: smooth(t)[None], nodes=64), [wanted], rtol=0.02)
    assert_allclose(weighting_factor(lambda t: np.ones((3, t.size))), np.ones(3))


def test_an_inflated_model_has_a_multiple_of_the_covariance(rng):
    model = random_model(rng, noise="diagonal")
    assert_allclose(dense_covariance(inflated(model, 1.7)), 1.7 * dense_covariance(model))
