"""Log densities are those of the full Gaussian, to the last digits that exist."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from oracles import (
    assert_within_errors,
    dense_covariance,
    dense_log_likelihood,
    precise_log_likelihood,
    random_model,
    random_rotation,
)
from probpca import ShapeError
from probpca.blocks import Block
from probpca.inference import log_likelihood, sample

SHAPES = [(7, 3), (4, 4), (3, 5)]
NOISES = [0.3, "diagonal"]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("shape", SHAPES)
def test_log_likelihood_equals_that_of_the_dense_gaussian(rng, shape, noise):
    model = random_model(rng, *shape, noise=noise)
    x = 3 * rng.standard_normal((20, shape[0]))
    assert_allclose(log_likelihood(model, x), dense_log_likelihood(model, x), rtol=1e-10)


@pytest.mark.parametrize("sigma2", [1.0, 1e-4, 1e-8, 1e-12, 1e-14])
@pytest.mark.parametrize("q", [2, 50, 200])
def test_log_likelihood_is_right_in_extended_precision(rng, q, sigma2):
    model = random_model(rng, q + 5, q, noise=sigma2)
    near, far = sample(model, 2, rng=rng), rng.standard_normal((1, q + 5))
    x = np.vstack([near, far, model.mean])
    # Terms of opposite sign make up the total: where it passes zero, its size is no yardstick.
    assert_allclose(log_likelihood(model, x), precise_log_likelihood(model, x), rtol=1e-8, atol=1e-8 * (q + 5))


def test_log_likelihood_is_right_when_noise_differs_by_many_orders(rng):
    model = random_model(rng, 8, 3)
    model = type(model)(model.mean, model.loadings, np.geomspace(1e-10, 1e4, 8))
    x = np.vstack([sample(model, 3, rng=rng), rng.standard_normal((1, 8))])
    assert_allclose(log_likelihood(model, x), precise_log_likelihood(model, x), rtol=1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_expected_log_likelihood_is_minus_the_entropy(rng, noise):
    model = random_model(rng, noise=noise)
    values = log_likelihood(model, sample(model, 20_000, rng=rng))
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * dense_covariance(model))[1]
    # Half of a chi-square with d degrees of freedom is all that varies.
    assert_within_errors(values.mean(), -entropy, np.sqrt(model.n_features / 2 / 20_000))
    assert_allclose(values.var(), model.n_features / 2, rtol=0.1)


@pytest.mark.parametrize(
    "form",
    [np.float32, np.asfortranarray, sparse.csr_array, np.ndarray.tolist, Block],
    ids=["float32", "columns", "sparse", "list", "block"],
)
@pytest.mark.parametrize("noise", NOISES)
def test_the_kind_of_rows_does_not_matter(rng, form, noise):
    model = random_model(rng, noise=noise)
    x = rng.integers(-9, 9, size=(40, 7)) / 4  # exact in float32 too
    assert_allclose(log_likelihood(model, form(x)), log_likelihood(model, x), rtol=1e-12)


def test_one_row_may_come_as_a_vector(rng):
    model, x = random_model(rng), rng.standard_normal(7)
    assert log_likelihood(model, x).shape == (1,)
    assert_allclose(log_likelihood(model, x), dense_log_likelihood(model, x), rtol=1e-12)


def test_no_rows_have_no_likelihoods(rng):
    assert log_likelihood(random_model(rng), np.empty((0, 7))).shape == (0,)


def test_rows_of_another_width_are_refused(rng):
    with pytest.raises(ShapeError, match="rows must have 7 features, as the model has; got 6"):
        log_likelihood(random_model(rng), np.ones((2, 6)))


def test_rows_beyond_one_piece_are_answered_like_the_first(rng):
    model = random_model(rng, d=3, q=1)
    x = rng.standard_normal((20_000, 3))
    together = log_likelihood(model, x)
    assert_allclose(together[::4999], log_likelihood(model, x[::4999]), rtol=1e-12)
    assert_allclose(together, dense_log_likelihood(model, x), rtol=1e-10)


def test_rotation_order_and_units_do_not_matter(rng):
    model, x = random_model(rng), rng.standard_normal((9, 7))
    order = rng.permutation(7)
    expected = log_likelihood(model, x)
    assert_allclose(log_likelihood(model.rotate(random_rotation(rng, 3)), x), expected, rtol=1e-12)
    assert_allclose(log_likelihood(model.restrict(order), x[:, order]), expected, rtol=1e-12)
    assert_allclose(log_likelihood(model.rescale(1e6), 1e6 * x), expected - 7 * np.log(1e6), rtol=1e-12)
