"""P-values of rows under a mixture hold what they promise, and agree with those of a single model."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from probpca.inference import mixture_log_likelihood, outliers, responsibilities, sample_mixture
from probpca.inference.mixture_outlier_scores import mixture_outliers
from probpca.models import LinearGaussian, Mixture


def mixture(K, d=4, q=1, *, apart=3.0):
    rng = np.random.default_rng(K)
    clusters = [
        LinearGaussian(apart * rng.standard_normal(d), rng.standard_normal((d, q)), rng.uniform(0.3, 1.5, d))
        for _ in range(K)
    ]
    return Mixture(rng.dirichlet(np.full(K, 5.0)), tuple(clusters))


def holed(x):
    x[np.random.default_rng(9).random(x.shape) < 0.2] = np.nan
    x[0] = np.nan
    return x


def test_one_cluster_has_the_chi_square_p_values():
    model = mixture(1)
    x = holed(sample_mixture(model, 50, rng=np.random.default_rng(0))[0])
    x[1] = 1e3
    found, expected = mixture_outliers(model, x), outliers(model.clusters[0], x)
    assert_allclose(found.p_value, expected.model_p_value, rtol=1e-6)
    assert_allclose(found.log10_p_value, expected.log10_model_p_value, rtol=1e-6, atol=1e-9)
    assert found.log10_p_value[1] < -1000
    for name in ("distance", "contributions", "cell_scores"):
        assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize(("apart", "most"), [(30.0, 1.0), (3.0, 1.5), (0.5, 3.0)])
def test_p_values_are_uniform_or_too_large(apart, most):
    model = mixture(3, apart=apart)
    x, _ = sample_mixture(model, 40_000, rng=np.random.default_rng(1))
    p = mixture_outliers(model, x).p_value
    for level in (0.01, 0.1, 0.5):
        share, error = (p < level).mean(), np.sqrt(level * (1 - level) / len(p))
        assert share < level + 4 * error
        assert share > level / most - 4 * error


def test_they_bound_the_probability_of_a_smaller_density():
    model = mixture(3, apart=1.0)
    draws = sample_mixture(model, 100_000, rng=np.random.default_rng(2))[0]
    densities = mixture_log_likelihood(model, draws)
    x = sample_mixture(model, 30, rng=np.random.default_rng(3))[0]
    found = mixture_outliers(model, x)
    for i in range(30):
        exact = (densities <= found.log_likelihood[i]).mean()
        assert exact <= found.p_value[i] + 4 * np.sqrt(exact / 100_000)


def test_missing_cells_are_integrated_out():
    model = mixture(2)
    x = holed(sample_mixture(model, 30, rng=np.random.default_rng(4))[0])
    found = mixture_outliers(model, x)
    assert_allclose([found.p_value[0], found.log10_p_value[0]], [1.0, 0.0], atol=1e-12)
    assert_array_equal(found.cluster, responsibilities(model, x).argmax(axis=1))
    for i in range(1, 30):
        seen = np.flatnonzero(np.isfinite(x[i]))
        parts = [
            multivariate_normal(c.mean[seen], c.covariance.dense()[np.ix_(seen, seen)]).logpdf(x[i, seen])
            for c in model.clusters
        ]
        assert_allclose(found.log_likelihood[i], logsumexp(parts, b=model.weights))
        cut = mixture_outliers(model.restrict(seen), x[i : i + 1, seen])
        assert_allclose(found.p_value[i], cut.p_value[0], rtol=1e-9)
        assert_allclose(found.contributions[i].sum(), found.distance[i])
        assert_allclose(10.0 ** found.log10_p_value[i], found.p_value[i])
