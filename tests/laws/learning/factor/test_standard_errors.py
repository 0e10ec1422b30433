"""Standard errors of rotated factor solutions agree with dense calculations and with refitted samples."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize, root

from factor_oracles import dense_fit, dense_value_and_gradient
from oracles import dense_covariance, punched, random_model, random_rotation
from probpca.errors import DataError, ShapeError
from probpca.learning.factor.information import expected_information
from probpca.learning.factor.standard_errors import rotation_jacobian, standard_errors
from probpca.models import LinearGaussian


class Turned(NamedTuple):
    loadings: np.ndarray
    correlations: np.ndarray


def quartimin(A):
    """Oblique rotation of two factors, by the angles of the two columns of T."""

    def rotated(angles):
        T = np.array([np.cos(angles), np.sin(angles)])
        return A @ np.linalg.inv(T).T, T.T @ T

    def slope(angles):
        cos, sin, (L, Phi) = np.cos(angles), np.sin(angles), rotated(angles)
        size = np.sin(angles[1] - angles[0])
        own = A @ np.array([cos, sin])  # along the columns of T
        of_first = np.column_stack([L[:, 0] * Phi[0, 1] / size, L[:, 1] * Phi[0, 1] / size - own[:, 0] / size])
        of_second = np.column_stack([own[:, 1] / size - L[:, 0] * Phi[0, 1] / size, -L[:, 1] * Phi[0, 1] / size])
        weight = L * np.square(L[:, ::-1])
        return np.array([(weight * of_first).sum(), (weight * of_second).sum()])

    start = minimize(lambda v: np.prod(np.square(rotated(v)[0]), axis=1).sum(), [0.2, 1.8]).x
    return Turned(*rotated(root(slope, start, tol=1e-14).x))


def echelon(A):
    """Orthogonal rotation after which the first features do not load on the last factors."""
    turn = np.linalg.qr(A[: A.shape[1]].T)[0]
    L = A @ turn
    return Turned(L * np.sign(np.diag(L)), np.eye(A.shape[1]))


def canonical(A):
    """Orthogonal rotation after which L' U^{-1} L is diagonal, with U the uniquenesses."""
    u = 1 - np.square(A).sum(axis=1)
    L = A @ np.linalg.svd(A / np.sqrt(u)[:, None], full_matrices=False)[2].T
    return Turned(L * np.sign(L.sum(axis=0)), np.eye(A.shape[1]))


@pytest.fixture
def model(rng):
    return random_model(rng, 6, 2, noise="diagonal")


def dense_errors(model, rotate, n):
    """Delta method by differences of the whole map from (W, log psi), with the pseudo-inverse of the information."""
    d, q = model.loadings.shape
    first = rotate(standardised(model.loadings, model.noise_variance)).loadings

    def solution(v):
        W, psi = v[: d * q].reshape(d, q), np.exp(v[d * q :])
        found = rotate(standardised(W, psi))
        sign = np.sign((found.loadings * first).sum(axis=0))
        share = psi / (np.square(W).sum(axis=1) + psi)
        return np.concatenate(
            [(found.loadings * sign).ravel(), (found.correlations * np.outer(sign, sign)).ravel(), share]
        )

    point = np.concatenate([model.loadings.ravel(), np.log(model.noise_variance)])
    J = np.array([solution(point + h) - solution(point - h) for h in 1e-5 * np.eye(point.size)]).T / 2e-5
    covariance = J @ np.linalg.pinv(expected_information(model, n), rcond=1e-10, hermitian=True) @ J.T
    errors = np.sqrt(np.maximum(np.diag(covariance), 0))
    return errors[: d * q].reshape(d, q), errors[d * q : -d].reshape(q, q), errors[-d:]


def standardised(W, psi):
    return W / np.sqrt(np.square(W).sum(axis=1) + psi)[:, None]


@pytest.mark.parametrize(("ours", "theirs"), [(None, canonical), (echelon, echelon), (quartimin, quartimin)])
def test_errors_are_those_of_the_delta_method(model, ours, theirs):
    found = standard_errors(model, 300, ours)
    loadings, correlations, shares = dense_errors(model, theirs, 300)
    assert_allclose(found.loadings.standard_error, loadings, rtol=1e-5, atol=1e-9)
    assert_allclose(found.factor_correlations.standard_error, correlations, rtol=1e-5, atol=1e-9)
    assert_allclose(found.uniquenesses.standard_error, shares, rtol=1e-6)
    solution = theirs(standardised(model.loadings, model.noise_variance))
    assert_allclose(np.abs(found.loadings.value), np.abs(solution.loadings), atol=1e-7)
    assert_allclose(found.uniquenesses.value, model.noise_variance / np.diag(dense_covariance(model)))


@pytest.mark.parametrize("rotate", [None, echelon])
def test_axes_units_and_mean_do_not_matter(rng, model, rotate):
    other = model.rotate(random_rotation(rng, 2)).rescale(np.geomspace(1e-3, 1e3, 6))
    found, same = (standard_errors(m, 200, rotate) for m in (model, other))
    assert_allclose(same.loadings.standard_error, found.loadings.standard_error, rtol=1e-5, atol=1e-9)
    assert_allclose(same.uniquenesses.standard_error, found.uniquenesses.standard_error, rtol=1e-8)


def test_four_times_the_rows_halve_the_errors(model):
    few, many = (standard_errors(model, n).loadings.standard_error for n in (100, 400))
    assert_allclose(few, 2 * many, rtol=1e-10)


def test_refitted_samples_vary_as_much(rng):
    W = np.array([[0.8, 0.0], [0.7, 0.1], [0.6, 0.0], [0.1, 0.7], [0.0, 0.6], [0.0, 0.5], [0.4, 0.4]])
    model, n, d = LinearGaussian(np.zeros(7), W, 1 - np.square(W).sum(axis=1)), 1000, 7
    factor, start = (
        np.linalg.cholesky(dense_covariance(model)),
        np.concatenate([W.ravel(), np.log(model.noise_variance)]),
    )

    def refitted():
        S = np.cov((rng.standard_normal((n, d)) @ factor.T).T, bias=True)

        def objective(v):
            W, psi = v[:14].reshape(d, 2), np.exp(v[14:])
            P = np.linalg.inv(W @ W.T + np.diag(psi))
            A = P - P @ S @ P
            value = np.trace(P @ S) - np.linalg.slogdet(P)[1]
            return value, np.concatenate([(2 * A @ W).ravel(), np.diag(A) * psi])

        v = minimize(objective, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-12}).x
        A = standardised(v[:14].reshape(d, 2), np.exp(v[14:]))
        return np.append(echelon(A).loadings.ravel(), 1 - np.square(A).sum(axis=1))

    spread = np.std([refitted() for _ in range(200)], axis=0)
    found = standard_errors(model, n, echelon)
    ratio = spread / np.append(found.loadings.standard_error.ravel(), found.uniquenesses.standard_error)
    ratio = ratio[np.isfinite(ratio)]
    # The relative error of a standard deviation of 200 draws is 1 / 20; the bound of each is six such errors.
    assert abs(ratio.mean() - 1) < 0.05
    assert np.abs(ratio - 1).max() < 0.3


def test_with_missing_cells_errors_come_from_the_gradient(rng):
    x = rng.standard_normal((120, 1)) + 0.7 * rng.standard_normal((120, 4))
    model = dense_fit(x, 1)
    complete = standard_errors(model, len(x))
    same = standard_errors(model, len(x), gradient=lambda m: dense_value_and_gradient(m, x)[1])
    assert (complete.information, same.information) == ("expected", "observed")
    assert_allclose(same.loadings.standard_error, complete.loadings.standard_error, rtol=0.2)
    holed = punched(rng, x, 0.3)
    model, scale = dense_fit(holed, 1), np.geomspace(1e-2, 1e2, 4)
    lost = standard_errors(model, len(x), gradient=lambda m: dense_value_and_gradient(m, holed)[1])
    assert lost.loadings.standard_error.mean() > 1.1 * complete.loadings.standard_error.mean()
    units = standard_errors(model.rescale(scale), 0, gradient=lambda m: dense_value_and_gradient(m, holed * scale)[1])
    assert_allclose(units.loadings.standard_error, lost.loadings.standard_error, rtol=1e-5)


def test_heywood_features_have_no_errors_and_the_others_hold_their_noise_fixed(model):
    found = standard_errors(model, 100, echelon, heywood=[2])
    free = standard_errors(model, 100, echelon)
    assert np.isnan(found.loadings.standard_error[2]).all()
    assert np.isnan(found.uniquenesses.standard_error[2])
    others = np.delete(np.arange(6), 2)
    assert (found.uniquenesses.standard_error[others] <= free.uniquenesses.standard_error[others] * (1 + 1e-9)).all()
    assert "No noise is left in 1 feature" in str(found)
    tiny = LinearGaussian(model.mean, model.loadings, np.where(np.arange(6) == 2, 1e-6, model.noise_variance))
    assert np.isfinite(standard_errors(tiny, 100, echelon, heywood=[2]).loadings.standard_error[others]).all()


def test_constant_features_do_not_matter(model):
    more = LinearGaussian(
        np.append(model.mean, 5.0), np.vstack([model.loadings, np.zeros(2)]), [*model.noise_variance, 1e-6]
    )
    for rotate in (None, echelon):
        found, expected = standard_errors(more, 100, rotate), standard_errors(model, 100, rotate)
        assert_allclose(found.loadings.standard_error[:6], expected.loadings.standard_error, rtol=1e-6)
        assert np.isnan(found.loadings.standard_error[6]).all()
        assert np.isnan(found.uniquenesses.standard_error[6])


def test_order_and_signs_of_the_factors_are_those_of_the_solution(rng, model):
    """A rotation that returns factors in any order and with any signs."""

    def restless(A):
        found, order, signs = quartimin(A), rng.permutation(2), rng.choice([-1.0, 1.0], 2)
        return Turned(
            (found.loadings * signs)[:, order], (found.correlations * np.outer(signs, signs))[np.ix_(order, order)]
        )

    A = standardised(model.loadings, model.noise_variance)
    (loadings, _), found = rotation_jacobian(A, restless)
    (steady, _), expected = rotation_jacobian(A, quartimin)
    order = np.abs(loadings.T @ steady).argmax(axis=1)
    signs = np.sign((loadings * steady[:, order]).sum(axis=0))
    assert_allclose(found[:, :6], expected[:, :6][:, :, order] * signs, atol=1e-3)


def test_a_rotation_that_jumps_has_no_errors(model):
    def jumping(A):
        return Turned(A + (A[0, 0] > first), np.eye(2))

    first = standardised(model.loadings, model.noise_variance)[0, 0]
    with pytest.raises(DataError, match="jumps to another minimum"):
        standard_errors(model, 100, jumping)


def test_a_single_noise_variance_is_refused(rng):
    with pytest.raises(ShapeError, match="one noise variance per feature"):
        standard_errors(random_model(rng), 100)
