"""Those who judge are judged first: oracles agree with each other and can say no."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import (
    assert_moments_match,
    assert_never_falls,
    assert_within_errors,
    closed_form_oracle,
    dense_condition,
    dense_joint,
    dense_log_likelihood,
    dense_posterior,
    kl_divergence,
    precise_log_likelihood,
    random_covariance,
    random_model,
    spiked_rows,
)
from probpca.models import Gaussian


def test_assert_never_falls_can_fail():
    assert_never_falls([1.0, 3.0, 3.0, 9.0])
    with pytest.raises(AssertionError, match="fell by 1 at step 1"):
        assert_never_falls([1.0, 3.0, 2.0, 9.0])


def test_assert_within_errors_can_fail():
    assert_within_errors([1.0, 2.0], [1.5, 2.0], 0.1)
    with pytest.raises(AssertionError, match=r"off by 7\.0 standard errors"):
        assert_within_errors([1.0, 2.0], [1.7, 2.0], 0.1)


def test_assert_moments_match_can_fail(rng):
    covariance = random_covariance(rng, 3)
    draws = rng.multivariate_normal(np.ones(3), covariance, size=20_000)
    assert_moments_match(draws, np.ones(3), covariance)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_moments_match(draws, np.ones(3) + 0.1, covariance)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_moments_match(draws, np.ones(3), 1.1 * covariance)


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_exact_integers_and_dense_floats_agree(rng, noise):
    model = random_model(rng, noise=noise)
    x = rng.standard_normal((4, 7))
    assert_allclose(precise_log_likelihood(model, x), dense_log_likelihood(model, x), rtol=1e-12)


def test_more_digits_change_nothing(rng):
    model = random_model(rng, 12, 8, noise=1e-14)
    x = rng.standard_normal((3, 12))
    assert_allclose(precise_log_likelihood(model, x, bits=400), precise_log_likelihood(model, x), rtol=1e-15)


def test_conditioning_is_bayes_rule(rng):
    model = random_model(rng, d=1, q=1, noise=0.5)
    w, x = model.loadings.item(), 1.3
    mean, covariance = dense_posterior(model, [[x]])
    assert_allclose(covariance.item(), 1 / (1 + w**2 / 0.5))
    assert_allclose(mean.item(), covariance.item() * w / 0.5 * (x - model.mean.item()))
    assert_allclose(dense_condition(dense_joint(model), [1], [[2.0]])[0].item(), w * 2.0 + model.mean.item())


def test_divergence_is_an_average_log_ratio(rng):
    left, right = (Gaussian(rng.standard_normal(2), random_covariance(rng, 2)) for _ in range(2))
    draws = rng.multivariate_normal(left.mean, left.covariance, size=50_000)
    ratios = log_density(left, draws) - log_density(right, draws)
    assert_within_errors(ratios.mean(), kl_divergence(left, right), ratios.std() / np.sqrt(50_000))
    assert_allclose(kl_divergence(left, left), 0.0, atol=1e-12)


def log_density(gaussian, x):
    shift = x - gaussian.mean
    distance = np.einsum("ni,ij,nj->n", shift, np.linalg.inv(gaussian.covariance), shift)
    return -0.5 * (distance + np.linalg.slogdet(2 * np.pi * gaussian.covariance)[1])


def test_the_closed_form_is_a_maximum(rng):
    x = spiked_rows(rng, 60, 5, 2)
    model, values, best = closed_form_oracle(x, 2)
    assert_allclose(dense_log_likelihood(model, x).sum(), best, rtol=1e-12)
    assert values.shape == (5,)
    for _ in range(20):
        other = type(model)(
            model.mean + 0.03 * rng.standard_normal(5),
            model.loadings + 0.03 * rng.standard_normal((5, 2)),
            model.noise_variance * np.exp(0.03 * rng.standard_normal()),
        )
        assert dense_log_likelihood(other, x).sum() < best
