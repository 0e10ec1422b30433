"""The Student-t start: EM for multivariate t rows with missing cells."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_t

from oracles import dense_covariance, random_model, spiked_rows
from probpca.blocks import Block, observe
from probpca.learning import fit_ppca
from probpca.learning.robust.consistency import inflated
from probpca.learning.robust.student import StudentRows
from probpca.learning.settings import Settings


@pytest.fixture(params=["complete", "missing"])
def x(request, rng):
    rows = spiked_rows(rng, 80, 6, 2)
    if request.param == "missing":
        rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


def prepared(x, weight=None):
    return observe(Block(x, weight), np.nanmean(x, axis=0))


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_the_likelihood_is_that_of_the_dense_t_distribution(rng, x, noise):
    model, nu = random_model(rng, 6, 2, noise=noise), 4.0
    C, wanted = dense_covariance(model), 0.0
    for row in x:
        seen = ~np.isnan(row)
        if seen.any():
            wanted += multivariate_t.logpdf(row[seen], model.mean[seen], C[np.ix_(seen, seen)], df=nu)
    assert_allclose(StudentRows(prepared(x), 0.0, nu)(model)[1], wanted, rtol=1e-10)


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_no_step_lowers_the_likelihood(rng, x, noise):
    step, model, values = StudentRows(prepared(x), 1e-9, 3.0), random_model(rng, 6, 2, noise=noise), []
    for _ in range(25):
        model, value = step(model)
        values.append(value)
    assert np.diff(values).min() > -1e-9 * abs(values[-1])
    assert values[-1] > values[0] + 1


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_it_ends_where_no_other_scale_or_mean_is_likelier(rng, x, noise):
    step = StudentRows(prepared(x), 1e-9, 3.0)
    found = step.run(random_model(rng, 6, 2, noise=noise), 300, 0.0)
    value = step(found)[1]
    for factor in (0.97, 1.03):
        assert step(inflated(found, factor))[1] < value
    for shift in 0.03 * np.vstack([np.eye(6), -np.eye(6)]):
        assert step(replace(found, mean=found.mean + shift))[1] < value


def test_with_infinite_degrees_of_freedom_it_is_ppca(x):
    wanted = fit_ppca(x, 2, Settings(tol=1e-9)).model
    found = StudentRows(prepared(x), 1e-12, 1e9).run(wanted, 5, 0.0)
    assert_allclose(dense_covariance(found), dense_covariance(wanted), rtol=1e-4, atol=1e-5)


def test_a_row_of_weight_two_is_two_rows(rng, x):
    times = rng.integers(0, 3, len(x))
    model = random_model(rng, 6, 2)
    centre = np.nanmean(x, axis=0)
    step = StudentRows(observe(Block(x, times.astype(float)), centre), 0.0)
    again = StudentRows(observe(Block(np.repeat(x, times, axis=0)), centre), 0.0)
    (one, value), (two, other) = step(model), again(model)
    assert_allclose(value, other, rtol=1e-10)
    assert_allclose(dense_covariance(one), dense_covariance(two), rtol=1e-8)
