"""Variances freed of the bias that many columns bring."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

from oracles import MONTE_CARLO, dense_log_likelihood, spiked_rows
from probpca import PPCA, DataError
from probpca.learning import Settings, fit_ppca
from probpca.learning.complete.bias_correction import unbiased
from probpca.sources import open_source


def biased(spikes, noise, n, d):
    """What the sample covariance of such a population tends to, by the formulas read forwards."""
    c, q, shrink = d / (n - 1), len(spikes), (n - 1) / n
    values = (spikes + noise) * (1 + c * noise / spikes)
    return shrink * values, shrink * noise * (1 - c * (q + noise * (1 / spikes).sum()) / (d - q))


@pytest.mark.parametrize(("n", "d"), [(200, 100), (100, 200), (1000, 20)])
def test_the_correction_undoes_the_bias(n, d):
    spikes, noise = np.array([30.0, 12.0, 6.0]), 2.0
    found = unbiased(*biased(spikes, noise, n, d), n, d)
    assert_allclose(found.spikes, spikes, rtol=1e-9)
    assert_allclose(found.noise, noise, rtol=1e-9)


def drawn(seed, n, d, spikes):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x[:, : len(spikes)] += rng.standard_normal((n, len(spikes))) * np.sqrt(spikes)
    return x


def test_noise_and_variances_of_simulated_tables_are_right_with_it_and_wrong_without():
    n, d, spikes, sets = 60, 120, np.array([20.0, 10.0]), 60
    plain, corrected = [], []
    for seed in range(sets):
        x = drawn(seed, n, d, spikes)
        for found, flag in ((plain, False), (corrected, True)):
            ppca = PPCA(2, bias_correction=flag).fit(x)
            found.append([ppca.noise_variance_, *ppca.explained_variance_])
    plain, corrected = np.array(plain), np.array(corrected)
    error = plain.std(axis=0) / np.sqrt(sets)
    truth = np.array([1.0, *(spikes + 1)])
    assert (np.abs(corrected.mean(axis=0) - truth) < np.array([4, 4, 4]) * error).all()
    assert plain.mean(axis=0)[0] < truth[0] - MONTE_CARLO * error[0]
    assert plain.mean(axis=0)[2] > truth[2] + 4 * error[2]


@given(
    n=st.integers(3, 60),
    d=st.integers(3, 60),
    q=st.integers(1, 2),
    seed=st.integers(0, 100),
)
def test_no_table_gives_variances_that_are_none(n, d, q, seed):
    values = np.sort(np.random.default_rng(seed).gamma(1.0, size=q) + 1.0)[::-1]
    found = unbiased(values, 1.0, n, d)
    assert np.isfinite(found.spikes).all()
    assert (found.spikes > 0).all()
    assert 1.0 <= found.noise <= 2 * n / (n - 1)
    assert (np.diff(found.spikes) <= 0).all()


def test_a_component_within_the_noise_is_left_where_it_can_just_be_detected():
    n, d = 101, 50
    found = unbiased(np.array([40.0, 1.2]), 1.0, n, d)
    assert_allclose(found.spikes[1], found.noise * np.sqrt(d / (n - 1)), rtol=1e-12)


def test_with_many_rows_there_is_nothing_to_correct():
    found = unbiased(np.array([9.0, 4.0]), 1.0, 1e9, 10)
    assert_allclose(found.spikes, [8.0, 3.0], rtol=1e-7)
    assert_allclose(found.noise, 1.0, rtol=1e-7)


@pytest.mark.parametrize("solver", ["auto", "svd", "px_em"])
@pytest.mark.parametrize("standardize", [False, True])
def test_the_log_likelihood_is_that_of_the_model_that_is_kept(rng, solver, standardize):
    x = spiked_rows(rng, 40, 15, 2) * np.geomspace(0.5, 2, 15)
    options = {"solver": solver, "standardize": standardize, "tol": 1e-9, "random_state": 0}
    plain, found = PPCA(2, **options).fit(x), PPCA(2, bias_correction=True, **options).fit(x)
    assert_allclose(found.log_likelihood_, dense_log_likelihood(found.model_, x).sum(), atol=1e-5)
    assert found.log_likelihood_ < plain.log_likelihood_
    assert_allclose(np.abs(found.components_ @ plain.components_.T).max(axis=1), 1.0, atol=0.02)


def test_batches_are_corrected_as_a_table_is(rng):
    x = spiked_rows(rng, 40, 15, 2)
    batches = PPCA(2, bias_correction=True)
    for batch in np.array_split(x, 4):
        batches.partial_fit(batch)
    found = PPCA(2, bias_correction=True).fit(x)
    assert_allclose(batches.noise_variance_, found.noise_variance_, rtol=1e-9)
    assert_allclose(batches.explained_variance_, found.explained_variance_, rtol=1e-9)


def test_units_do_not_matter():
    one, other = (unbiased(s * np.array([9.0, 4.0]), s, 30, 20) for s in (1.0, 1e-60))
    assert_allclose(other.spikes, 1e-60 * one.spikes, rtol=1e-12)


def test_missing_cells_are_refused(rng):
    x = spiked_rows(rng, 40, 15, 2)
    x[2, 3] = np.nan
    with pytest.raises(DataError, match=r"bias_correction=True needs complete rows(.|\n)*Hint"):
        PPCA(2, bias_correction=True).fit(x)


def test_a_table_without_noise_is_left_as_it_is(rng):
    x = np.outer(rng.standard_normal(20), np.ones(4))
    plain, found = (fit_ppca(open_source(x), 1, Settings(bias_correction=flag), rng) for flag in (False, True))
    assert found.log_likelihood == plain.log_likelihood


@pytest.mark.parametrize("solver", ["auto", "em"])
def test_the_trace_ends_with_the_log_likelihood_of_the_corrected_model(rng, solver):
    result = fit_ppca(spiked_rows(rng, 60, 20, 2), 2, Settings(solver, bias_correction=True), rng)
    assert result.trace[-1] == result.log_likelihood
