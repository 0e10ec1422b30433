"""P-values of a mixture: uniform for clusters apart, never too small for clusters that overlap, finite far away."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import chi2, kstest, multivariate_normal

from oracles import dense_covariance, punched, random_model
from probpca.inference import (
    Calibration,
    mixture_log_likelihood,
    mixture_outliers,
    outliers,
    responsibilities,
    sample_mixture,
)
from probpca.inference.mixture_outlier_scores import calibrate_mixture
from probpca.models import LinearGaussian, Mixture

D, Q = 5, 2


def apart(rng, distance=20.0):
    clusters = [random_model(rng, D, Q, noise="diagonal") for _ in range(3)]
    moved = (LinearGaussian(c.mean + distance * k, c.loadings, c.noise_variance) for k, c in enumerate(clusters))
    return Mixture([0.5, 0.3, 0.2], tuple(moved))


def overlapping(rng, distance):
    clusters = tuple(
        LinearGaussian(distance * rng.standard_normal(D), rng.standard_normal((D, Q)), rng.uniform(0.3, 1.5, D))
        for _ in range(3)
    )
    return Mixture([0.5, 0.3, 0.2], clusters)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_one_cluster_has_the_p_values_of_its_model(rng, share):
    model = random_model(rng, D, Q)
    x = punched(rng, 3 * rng.standard_normal((30, D)), share)
    x[0], x[1] = np.nan, 1e3
    one, other = mixture_outliers(Mixture(np.ones(1), (model,)), x), outliers(model, x)
    p_values = ("p_value", "log10_p_value", "model_p_value", "log10_model_p_value")
    for name in (*p_values, "distance", "contributions", "cell_scores"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-8, atol=1e-9)
    assert one.log10_p_value[1] < -1000
    calibration = Calibration(scale=1.3, degrees=7.0)
    one = mixture_outliers(Mixture(np.ones(1), (model,)), x, calibration, left_out_of=np.array([50.0]))
    other = outliers(model, x, calibration, left_out_of=50.0)
    assert_allclose(one.p_value, other.p_value, rtol=1e-8)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_p_values_of_clusters_apart_are_uniform(rng, share):
    mixture = apart(rng)
    x = punched(rng, sample_mixture(mixture, 2000, rng=rng)[0], share)
    x = x[~np.isnan(x).all(axis=1)]
    assert kstest(mixture_outliers(mixture, x).p_value, "uniform").statistic < 0.04


@pytest.mark.parametrize(("distance", "most"), [(3.0, 1.5), (0.5, 3.0)])
def test_p_values_of_overlapping_clusters_are_uniform_or_too_large(rng, distance, most):
    mixture = overlapping(rng, distance)
    p = mixture_outliers(mixture, sample_mixture(mixture, 40_000, rng=rng)[0]).p_value
    for level in (0.01, 0.1, 0.5):
        share, error = (p < level).mean(), np.sqrt(level * (1 - level) / len(p))
        assert share < level + 4 * error
        assert share > level / most - 4 * error


def test_p_values_bound_the_probability_of_a_smaller_density(rng):
    mixture = overlapping(rng, 1.0)
    densities = mixture_log_likelihood(mixture, sample_mixture(mixture, 100_000, rng=rng)[0])
    found = mixture_outliers(mixture, sample_mixture(mixture, 30, rng=rng)[0])
    for value, p in zip(found.log_likelihood, found.p_value, strict=True):
        exact = (densities <= value).mean()
        assert exact <= p + 4 * np.sqrt(exact / 100_000)


def test_p_values_of_equal_clusters_are_too_large_by_no_more_than_their_number(rng):
    model = random_model(rng, D, Q)
    mixture, x = Mixture([0.5, 0.5], (model, model)), 2 * rng.standard_normal((200, D))
    found, exact = mixture_outliers(mixture, x).p_value, outliers(model, x).p_value
    assert (found >= exact * (1 - 1e-9)).all()
    assert (found[exact < 0.1] <= 4 * exact[exact < 0.1]).all()


def test_rows_far_from_all_clusters_have_finite_logarithms(rng):
    mixture = apart(rng)
    found = mixture_outliers(mixture, np.full((1, D), 1e4))
    assert found.p_value[0] == 0.0
    assert np.isfinite(found.log10_p_value[0])
    nearest = min((1e4 - c.mean) @ np.linalg.solve(dense_covariance(c), 1e4 - c.mean) for c in mixture.clusters)
    assert found.log10_p_value[0] == pytest.approx(-nearest / 2 / np.log(10), rel=0.05)


def test_missing_cells_are_integrated_out(rng):
    mixture = overlapping(rng, 3.0)
    x = punched(rng, sample_mixture(mixture, 30, rng=rng)[0], 0.2)
    x[0] = np.nan
    found = mixture_outliers(mixture, x)
    assert_allclose([found.p_value[0], found.log10_p_value[0]], [1.0, 0.0], atol=1e-12)
    assert_array_equal(found.cluster, responsibilities(mixture, x).argmax(axis=1))
    for i in range(1, 30):
        seen = np.flatnonzero(np.isfinite(x[i]))
        densities = [
            multivariate_normal(c.mean[seen], dense_covariance(c)[np.ix_(seen, seen)]).logpdf(x[i, seen])
            for c in mixture.clusters
        ]
        assert_allclose(found.log_likelihood[i], logsumexp(densities, b=mixture.weights))
        cut = mixture_outliers(mixture.restrict(seen), x[i : i + 1, seen])
        assert_allclose(found.p_value[i], cut.p_value[0], rtol=1e-9)
        assert_allclose(found.contributions[i].sum(), found.distance[i])


def test_the_calibration_undoes_a_common_scale(rng):
    mixture = apart(rng)
    wide = Mixture(
        mixture.weights,
        tuple(LinearGaussian(c.mean, 1.5 * c.loadings, 2.25 * c.noise_variance) for c in mixture.clusters),
    )
    x = sample_mixture(wide, 3000, rng=rng)[0]
    calibration = calibrate_mixture(mixture, x, 3000 * mixture.weights)
    assert calibration.scale == pytest.approx(2.25, rel=0.15)
    fresh = sample_mixture(wide, 2000, rng=rng)[0]
    found = mixture_outliers(mixture, fresh, calibration)
    assert kstest(found.p_value, "uniform").statistic < 0.05
    assert kstest(found.model_p_value, "uniform").statistic > 0.2


def test_the_cells_to_blame_are_those_of_the_nearest_cluster(rng):
    mixture = apart(rng)
    x = mixture.clusters[1].mean[None].repeat(2, axis=0)
    x[1, 3] += 10 * np.sqrt(mixture.clusters[1].noise_variance[3])
    found = mixture_outliers(mixture, x)
    assert_array_equal(found.cluster, [1, 1])
    assert np.abs(found.cell_scores[1]).argmax() == 3
    assert found.contributions[1].sum() == pytest.approx(found.distance[1])
    assert "C1" in str(found)
    frame = found.to_frame()
    assert frame["top_feature"][1] == "x3"
    assert list(frame["cluster"]) == [1, 1]


def test_degrees_of_freedom_are_observed_cells(rng):
    model = random_model(rng, D, Q)
    x = np.array([[1.0, np.nan, np.nan, np.nan, np.nan]]) + model.mean
    variance = dense_covariance(model)[0, 0]
    found = mixture_outliers(Mixture(np.ones(1), (model,)), x)
    assert found.p_value[0] == pytest.approx(chi2.sf(1 / variance, 1))
