"""Concentration steps: which rows they choose, and what they never do."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

from oracles import dense_covariance, random_model, spiked_rows
from probpca.inference import log_likelihood, outliers
from probpca.learning import fit_ppca
from probpca.learning.robust.trimming import Trimming, movement
from probpca.learning.settings import TrimmingSettings


def trimming(x, weight=None, precision=None, **options):
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, float)
    return Trimming(x, weight, precision, TrimmingSettings(**options))


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 90, 6, 2)


def with_holes(rng, x, share=0.2):
    x = x.copy()
    x[rng.random(x.shape) < share] = np.nan
    return x


@pytest.mark.parametrize("noise", [0.5, "diagonal"])
def test_concentration_never_lowers_the_likelihood_of_the_nearest_rows(rng, x, noise):
    x[:15] += 4 * rng.standard_normal((15, 6))
    rows = trimming(x, keep=0.7, movement=0.0)
    model, values = random_model(rng, 6, 2, noise=noise), []
    for _ in range(40):
        found = rows.concentrate(model, rows.trusted_rows, 1)
        values.append(found.value)
        model = found.model
    assert np.diff(values).min() > -1e-10 * abs(values[-1])
    chosen = found.used > 0
    assert chosen.sum() == np.ceil(0.7 * 90)
    assert values[-1] > values[0] + 0.1


@pytest.mark.parametrize("noise", [0.5, "diagonal"])
def test_distances_are_those_of_outliers(rng, x, noise):
    x = with_holes(rng, x)
    x[3] = np.nan
    model = random_model(rng, 6, 2, noise=noise)
    assert_allclose(trimming(x).distances(model), outliers(model, x).distance, rtol=1e-9, atol=1e-12)


def test_the_nearest_rows_have_the_largest_p_values(rng, x):
    x = with_holes(rng, x, 0.5)
    rows, model = trimming(x, keep=0.6), random_model(rng, 6, 2)
    distance = rows.distances(model)
    used, k = rows.nearest(distance), (~np.isnan(x)).sum(axis=1)
    scale = np.median((distance / chi2.ppf(0.5, np.maximum(k, 1)))[k > 0])
    p = np.where(k > 0, chi2.sf(distance / scale, np.maximum(k, 1)), -1)
    assert used.sum() == np.ceil(0.6 * (k > 0).sum())
    assert p[used > 0].min() >= p[(used == 0) & (k > 0)].max()
    assert used[k == 0].sum() == 0


def test_a_row_of_weight_two_is_two_rows(rng, x):
    times = rng.integers(0, 4, len(x))
    one, two = trimming(x, times, keep=0.5), trimming(np.repeat(x, times, axis=0), keep=0.5)
    start = random_model(rng, 6, 2)
    first, second = (rows.find(start, np.random.default_rng(5)) for rows in (one, two))
    assert_allclose(dense_covariance(first.model), dense_covariance(second.model), rtol=1e-6)
    assert_allclose(np.repeat(first.used, times), second.used, atol=1e-9)


def test_the_order_of_rows_does_not_matter(rng, x):
    x, order, start = with_holes(rng, x), rng.permutation(len(x)), random_model(rng, 6, 2)
    first = trimming(x).find(start, np.random.default_rng(1))
    second = trimming(x[order]).find(start, np.random.default_rng(1))
    assert_array_equal(first.used[order], second.used)


def test_starts_are_different_rows_of_positive_weight(rng, x):
    x = np.vstack([x, np.repeat(x[:1], 50, axis=0)])
    weight = np.r_[np.zeros(40), np.ones(100)]
    rows, drawn = trimming(x, weight), []
    for _ in range(30):
        places, _ = rows.random_rows(10, rng)
        assert len(np.unique(x[places], axis=0)) == 10
        drawn.append(places)
    assert min(map(min, drawn)) >= 40
    assert len(np.unique(np.concatenate(drawn))) > 40  # all rows come up sooner or later


def test_a_sample_of_different_rows_keeps_the_weights_of_equal_ones(rng, x):
    rows = trimming(np.repeat(x, 3, axis=0))
    some = rows.sampled(30, rng)
    assert some.values.shape == (30, 6)
    assert_array_equal(some.weight, np.full(30, 3.0))
    assert rows.sampled(1000, rng) is rows


def test_movement_is_zero_for_rotated_axes_only(rng):
    model = random_model(rng, 7, 3)
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert movement(model, replace(model, loadings=model.loadings @ rotation)) < 1e-7
    assert_allclose(movement(model, replace(model, noise_variance=model.noise_variance * 1.1)), np.log(1.1))
    assert movement(model, replace(model, mean=model.mean + 0.1)) > 0.1


def test_precisions_enter_distances_and_likelihoods(rng, x):
    precision = rng.uniform(0.5, 2.0, x.shape)
    model = random_model(rng, 6, 2)
    C = model.loadings @ model.loadings.T
    wanted = [
        (row - model.mean) @ np.linalg.solve(C + np.diag(float(model.noise_variance) / p), row - model.mean)
        for row, p in zip(x, precision, strict=True)
    ]
    assert_allclose(trimming(x, None, precision).distances(model), wanted)


def test_the_value_of_a_start_is_its_mean_log_density(rng, x):
    rows, model = trimming(x, keep=1.0), random_model(rng, 6, 2)
    assert_allclose(rows.concentrate(model, rows.trusted_rows, 1).value, log_likelihood(model, x).mean() / 6)


def test_distances_of_used_rows_are_those_from_models_without_them():
    rng = np.random.default_rng(4)
    x = spiked_rows(rng, 40, 6, 2)
    rows, used = trimming(x), np.ones(40)
    model = fit_ppca(x, 2).model
    without = [outliers(fit_ppca(np.delete(x, i, axis=0), 2).model, x[i : i + 1]).distance[0] for i in range(40)]
    raw, corrected = rows.distances(model), rows.distances(model, used)
    assert np.median(np.abs(np.log(corrected / without))) < 0.25 * np.median(np.abs(np.log(raw / without)))
    used[:10] = 0
    assert_array_equal(rows.distances(model, used)[:10], raw[:10])
    assert (rows.distances(model, used)[10:] > raw[10:]).all()


def test_choices_that_recur_end_the_steps(rng, x):
    rows, model = trimming(x, max_iter=50), random_model(rng, 6, 2)
    turns = iter([np.arange(90) % 2.0, np.arange(90) % 3 > 0] * 50)
    found = rows.concentrate(model, lambda *_: next(turns).astype(float), 50)
    assert found.converged
