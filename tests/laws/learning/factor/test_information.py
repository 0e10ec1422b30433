"""The information about loadings and noise is what derivatives of the likelihood say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from factor_oracles import dense_value_and_gradient
from oracles import dense_covariance, punched, random_model, random_rotation
from probpca.errors import DataError
from probpca.learning.factor.information import (
    covariance_root,
    expected_information,
    observed_information,
    rotations_of,
)
from probpca.models import LinearGaussian


@pytest.fixture(params=[1, 2, 3])
def model(rng, request):
    return random_model(rng, 7, request.param, noise="diagonal", mean=0.0)


def moves_of(model):
    """Derivatives of the covariance by (W, log psi), one matrix each."""
    d = model.n_features
    of_loadings = [np.outer(e, w) + np.outer(w, e) for e in np.eye(d) for w in model.loadings.T]
    return np.array([*of_loadings, *(np.diag(p * e) for e, p in zip(np.eye(d), model.noise_variance, strict=True))])


def population_gradient(model, weight):
    """Gradient of the expected log-likelihood of rows of ``model``, as a function of another model."""
    S = dense_covariance(model)

    def gradient(at):
        P, shift = np.linalg.inv(dense_covariance(at)), model.mean - at.mean
        A = 0.5 * weight * (P @ (S + np.outer(shift, shift)) @ P - P)
        return weight * P @ shift, 2 * A @ at.loadings, np.diag(A) * at.noise_variance

    return gradient


def test_expected_information_is_that_of_a_gaussian(model):
    P, moves = np.linalg.inv(dense_covariance(model)), moves_of(model)
    weighted = P @ moves  # P dC
    expected = 0.5 * 300 * np.einsum("aij,bji->ab", weighted, weighted)
    assert_allclose(expected_information(model, 300), expected, rtol=1e-9, atol=1e-9)


def test_observed_information_of_the_population_is_the_expected_one(model):
    found = observed_information(model, population_gradient(model, 300))
    expected = expected_information(model, 300)
    assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_expected_information_is_the_average_of_the_observed_one(rng):
    model, n = random_model(rng, 4, 1, noise="diagonal"), 4000
    x = rng.standard_normal((n, 1)) @ model.loadings.T + rng.standard_normal((n, 4)) * np.sqrt(model.noise_variance)
    x += model.mean

    def gradient(at):  # of complete rows, from their moments
        P, shift = np.linalg.inv(dense_covariance(at)), x.mean(axis=0) - at.mean
        A = 0.5 * n * (P @ (np.cov(x.T, bias=True) + np.outer(shift, shift)) @ P - P)
        return n * P @ shift, 2 * A @ at.loadings, np.diag(A) * at.noise_variance

    found, expected = observed_information(model, gradient) / n, expected_information(model, n) / n
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


def test_missing_cells_lose_information(rng):
    model = random_model(rng, 5, 1, noise="diagonal")
    x = rng.standard_normal((150, 1)) @ model.loadings.T + rng.standard_normal((150, 5)) * np.sqrt(model.noise_variance)
    holed = punched(rng, x + model.mean, 0.3)
    lost = expected_information(model, 150) - observed_information(
        model, lambda at: dense_value_and_gradient(at, holed)[1]
    )
    assert np.trace(lost) > 0


def test_it_is_zero_along_the_rotations_alone(model):
    d, q = model.loadings.shape
    information, count = expected_information(model, 100), q * (q - 1) // 2
    values = np.linalg.eigvalsh(information)
    assert (np.abs(values[:count]) < 1e-12 * values[-1]).all()
    assert values[count] > 1e-7 * values[-1]
    moves = np.zeros((count, d * q + d))
    moves[:, : d * q] = rotations_of(model.loadings).reshape(count, d * q)
    assert count == 0 or np.linalg.matrix_rank(moves) == count  # numpy 2.0 knows no rank of nothing
    assert_allclose(moves @ information, 0, atol=1e-11 * values[-1])


def test_the_root_is_that_of_a_generalised_inverse(model):
    information = expected_information(model, 100)
    root = covariance_root(information, model.loadings, np.array([], dtype=int))
    assert_allclose(information @ root @ root.T @ information, information, rtol=1e-6, atol=1e-8 * information.max())


def test_covariances_do_not_depend_on_the_inverse_or_the_axes(rng, model):
    information, moves = expected_information(model, 100), moves_of(model).reshape(-1, 49)
    pseudo = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
    expected = moves.T @ pseudo @ moves  # of the entries of W W' + Psi
    none = np.array([], dtype=int)
    turned = model.rotate(random_rotation(rng, model.n_components))
    for other in model, turned:
        root = covariance_root(expected_information(other, 100), other.loadings, none)
        assert_allclose(np.square(moves_of(other).reshape(-1, 49).T @ root).sum(axis=1), np.diag(expected), rtol=1e-6)


def test_fixed_noise_and_features_without_loadings_have_no_errors(rng):
    model = random_model(rng, 6, 2, noise="diagonal")
    loadings = model.loadings.copy()
    loadings[5] = 0.0
    model = LinearGaussian(model.mean, loadings, model.noise_variance)
    information = expected_information(model, 100)
    root = covariance_root(information, model.loadings, np.array([1]))
    dropped = [10, 11, 12 + 1, 12 + 5]
    assert not root[dropped].any()
    kept = np.setdiff1d(np.arange(18), dropped)
    part = information[np.ix_(kept, kept)]
    assert_allclose(part @ root[kept] @ root[kept].T @ part, part, rtol=1e-6, atol=1e-8 * part.max())


def test_what_rows_do_not_determine_is_refused(rng):
    model = random_model(rng, 4, 2, noise="diagonal")  # more parameters than covariances
    with pytest.raises(DataError, match="is singular"):
        covariance_root(expected_information(model, 100), model.loadings, np.array([], dtype=int))
    # Information from differences is not exactly singular.
    nearly = expected_information(model, 100) + 1e-6 * np.eye(12)
    with pytest.raises(DataError, match="11 parameters of 2 factors are more than the 10 variances and covariances"):
        covariance_root(nearly, model.loadings, np.array([], dtype=int))
    covariance_root(nearly, model.loadings, np.array([0]))  # a noise variance less
    model = random_model(rng, 6, 2, noise="diagonal")
    with pytest.raises(DataError, match="not at a maximum"):
        covariance_root(-expected_information(model, 100), model.loadings, np.array([], dtype=int))
