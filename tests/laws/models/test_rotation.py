"""Rotations explain the same covariance, reach the minimum of their criterion, and do not depend on the given axes."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine

from oracles import random_rotation
from probpca import PPCA, BayesianPCA, DataError, ShapeError
from probpca.models import Rotation, rotate
from probpca.models.rotation import METHODS, Geomin, Oblimin, Orthomax, RotationSettings, criterion_of

ROTATIONS = [method for method in METHODS if method != "none"]
ORTHOGONAL = [method for method in ROTATIONS if not METHODS[method].oblique]
OBLIQUE = [method for method in ROTATIONS if METHODS[method].oblique]
MINIMISED = [method for method in ROTATIONS if method != "promax"]
TIGHT = {"tol": 1e-12}


@pytest.fixture
def loadings(rng):
    """Loadings of 12 features on 3 factors, with a structure that is neither simple nor absent: (12, 3)."""
    simple = np.kron(np.eye(3), rng.uniform(0.5, 0.9, size=(4, 1)))
    return (simple + rng.uniform(-0.25, 0.25, size=(12, 3))) @ random_rotation(rng, 3)


def defined(method, L, *, gamma=0.0, delta=0.01):
    """Value of the criterion of a method, sum by sum."""
    d, q = L.shape
    S = np.square(L)
    if method.startswith("geomin"):
        return sum(np.prod([S[j, k] + delta for k in range(q)]) ** (1 / q) for j in range(d))
    if method == "oblimin":
        pairs = [(k, m) for k in range(q) for m in range(q) if k != m]
        return sum(S[:, k] @ S[:, m] - gamma / d * S[:, k].sum() * S[:, m].sum() for k, m in pairs) / 4
    weight = {"quartimax": 0.0, "varimax": 1.0, "equamax": q / 2}[method]
    return -sum(S[:, k] @ S[:, k] - weight / d * S[:, k].sum() ** 2 for k in range(q)) / 4


def random_axes(rng, method, q):
    """A matrix T that the method could choose."""
    T = rng.standard_normal((q, q))
    return T / np.linalg.norm(T, axis=0) if METHODS[method].oblique else np.linalg.qr(T)[0]


def rotated_by(T, A):
    return A @ np.linalg.inv(T).T


def matched(L, reference):
    """The columns of L in the order and with the signs of those of another matrix that they resemble most."""
    order = [np.abs(L.T @ column).argmax() for column in reference.T]
    return L[:, order] * np.sign(np.einsum("jk,jk->k", L[:, order], reference))


# What a rotation is


@pytest.mark.parametrize("method", ORTHOGONAL)
def test_orthogonal_rotations_are_orthogonal(loadings, method):
    found = rotate(loadings, method)
    assert found.converged
    assert not found.is_oblique
    assert_allclose(found.matrix.T @ found.matrix, np.eye(3), atol=1e-14)
    assert_array_equal(found.correlations, np.eye(3))
    assert_allclose(found.loadings, loadings @ found.matrix, atol=1e-14)


@pytest.mark.parametrize("method", OBLIQUE)
def test_oblique_factors_have_unit_variances(loadings, method):
    found = rotate(loadings, method)
    assert found.converged
    assert found.is_oblique
    assert_allclose(found.correlations, found.matrix.T @ found.matrix, atol=1e-15)
    assert_allclose(np.diag(found.correlations), 1.0, atol=1e-14)
    assert np.abs(found.correlations - np.eye(3)).max() > 0.01
    assert_allclose(found.loadings, rotated_by(found.matrix, loadings), atol=1e-14)


@pytest.mark.parametrize("method", METHODS)
def test_rotations_explain_the_same_covariance(loadings, method):
    found = rotate(loadings, method)
    L, Phi = found.loadings, found.correlations
    assert_allclose(L @ Phi @ L.T, loadings @ loadings.T, atol=1e-12)
    assert_allclose(found.explained.sum(), np.square(loadings).sum(), rtol=1e-13)
    assert_allclose(found.explained, np.diag(Phi @ L.T @ L), rtol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_the_structure_holds_covariances_of_features_and_rotated_factors(rng, loadings, method):
    # Uncorrelated factors of a sample, exactly: features A z and rotated factors T'z.
    z = np.linalg.qr(rng.standard_normal((50, 3)))[0] * np.sqrt(50)
    found = rotate(loadings, method)
    covariance = (z @ loadings.T).T @ (z @ found.matrix) / 50
    assert_allclose(found.structure, covariance, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_loadings_in_other_units_are_rotated_alike(rng, loadings, method):
    found, units = rotate(loadings, method), rng.uniform(0.1, 100, size=(12, 1))
    assert_allclose(found.apply(loadings), found.loadings, atol=1e-14)
    assert_allclose(found.apply(units * loadings), units * found.loadings, rtol=1e-10, atol=1e-10)
    assert found.apply(loadings[:1]).shape == (1, 3)


def test_none_leaves_the_loadings_as_they_are(loadings):
    found = rotate(loadings, "none")
    assert_array_equal(found.loadings, loadings)
    assert_array_equal(found.matrix, np.eye(3))
    assert (found.converged, found.n_iter, found.criterion) == (True, 0, 0.0)


# The minimum


CRITERIA = [Orthomax(0.0), Orthomax(1.0), Orthomax(1.5), Oblimin(0.0), Oblimin(-0.5), Geomin(0.01), Geomin(0.3)]


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_the_gradient_of_a_criterion_is_that_of_finite_differences(loadings, criterion):
    gradient, step = criterion(loadings)[1], 1e-6
    for j, k in np.ndindex(loadings.shape):
        nudge = np.zeros(loadings.shape)
        nudge[j, k] = step
        difference = criterion(loadings + nudge)[0] - criterion(loadings - nudge)[0]
        assert_allclose(gradient[j, k], difference / (2 * step), atol=1e-8)


@pytest.mark.parametrize("method", MINIMISED)
def test_a_criterion_has_the_value_of_its_definition(loadings, method):
    value = 0.3 if method == "oblimin" else 0.02
    definition = defined(method, loadings, gamma=value, delta=value)
    assert_allclose(criterion_of(method, 3, value)(loadings)[0], definition, rtol=1e-12)


@pytest.mark.parametrize("method", MINIMISED)
def test_no_random_rotation_has_a_lower_criterion(rng, loadings, method):
    found = rotate(loadings, method, kaiser=False)
    assert_allclose(found.criterion, defined(method, found.loadings), rtol=1e-12)
    others = [defined(method, rotated_by(random_axes(rng, method, 3), loadings)) for _ in range(200)]
    assert min(others) >= found.criterion


@pytest.mark.parametrize("method", MINIMISED)
def test_the_criterion_rises_in_all_directions_from_the_minimum(rng, loadings, method):
    found = rotate(loadings, method, kaiser=False, **TIGHT)
    for _ in range(20):
        turn = rng.standard_normal((3, 3))
        for size in (1e-3, -1e-3, 1e-2, -1e-2):
            T = found.matrix + size * turn
            T = T / np.linalg.norm(T, axis=0) if found.is_oblique else np.linalg.qr(T)[0]
            assert defined(method, rotated_by(T, loadings)) > found.criterion


@pytest.mark.parametrize(("method", "weight"), [("quartimax", 0.0), ("varimax", 1.0)])
def test_two_factors_are_rotated_by_the_angle_of_the_textbooks(rng, method, weight):
    # Kaiser (1958), eq. 22 for varimax: the angle of a rotation of two factors in closed form.
    A = rng.standard_normal((9, 2))
    u, v = np.square(A[:, 0]) - np.square(A[:, 1]), 2 * A[:, 0] * A[:, 1]
    above = 2 * (u @ v - weight * u.sum() * v.sum() / 9)
    below = u @ u - v @ v - weight * (u.sum() ** 2 - v.sum() ** 2) / 9
    angle = np.arctan2(above, below) / 4
    T = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    found = rotate(A, method, kaiser=False, **TIGHT)
    assert_allclose(found.criterion, defined(method, A @ T), rtol=1e-12)
    sizes = np.abs(found.matrix)
    assert min(np.abs(sizes - np.abs(T)).max(), np.abs(sizes - np.abs(T)[:, ::-1]).max()) < 1e-9


@pytest.mark.parametrize("method", ROTATIONS)
def test_perfect_simple_structure_is_recovered(rng, method):
    simple = np.kron(np.eye(4), np.array([[0.9], [0.8], [0.7], [0.5]])) * np.repeat([1.0, 0.9, 0.8, 0.7], 4)[:, None]
    found = rotate(simple @ random_rotation(rng, 4), method, **TIGHT)
    assert_allclose(found.loadings, simple, atol=1e-10)
    assert_allclose(found.correlations, np.eye(4), atol=1e-10)


@pytest.mark.parametrize("method", ["oblimin", "geomin"])
def test_correlated_factors_with_perfect_simple_structure_are_recovered(rng, method):
    simple = np.kron(np.eye(3), np.array([[0.9], [0.8], [0.7]])) * np.repeat([1.0, 0.9, 0.8], 3)[:, None]
    Phi = np.array([[1.0, 0.5, 0.3], [0.5, 1.0, 0.2], [0.3, 0.2, 1.0]])
    A = simple @ np.linalg.cholesky(Phi) @ random_rotation(rng, 3)
    # The minimum of geomin is at the structure only in the limit of a small delta.
    found = rotate(A, method, delta=1e-5 if method == "geomin" else None, n_init=3)
    L = matched(found.loadings, simple)
    assert_allclose(L, simple, atol=0.01)
    assert_allclose(np.linalg.pinv(L) @ A @ A.T @ np.linalg.pinv(L).T, Phi, atol=0.01)


@pytest.mark.parametrize("method", ROTATIONS)
def test_symmetric_loadings_are_not_left_at_a_saddle_point(method):
    # The principal axes, a general factor and a contrast, are exactly between the groups.
    found = rotate([[0.7, 0.5], [0.7, 0.5], [0.7, -0.5], [0.7, -0.5]], method, **TIGHT)
    L = found.loadings
    assert_allclose(L[:2], L[2:, ::-1], atol=1e-9)
    assert (L[:2, 0] > 0.8).all()
    assert (np.abs(L[:2, 1]) < 0.15).all()


def test_more_starts_are_never_worse(rng):
    worse = 0
    for _ in range(5):
        A = rng.standard_normal((10, 4))
        one, ten = (rotate(A, "geomin_orthogonal", n_init=n) for n in (1, 10))
        assert ten.criterion <= one.criterion + 1e-9
        assert rotate(A, "geomin_orthogonal").criterion == ten.criterion
        worse += one.criterion > ten.criterion + 1e-3
    assert worse > 0


def test_a_criterion_without_a_minimum_is_not_called_converged(rng):
    for _ in range(5):
        found = rotate(rng.standard_normal((12, 3)), "oblimin", gamma=2.0)
        assert not found.converged
        assert np.isfinite(found.criterion)
        assert np.linalg.norm(np.linalg.inv(found.matrix)) < RotationSettings().condition


@pytest.mark.parametrize("method", ROTATIONS)
def test_too_few_iterations_are_not_called_converged(loadings, method):
    found = rotate(loadings, method, max_iter=2)
    assert not found.converged
    assert found.n_iter == 2
    L = found.loadings
    assert_allclose(L @ found.correlations @ L.T, loadings @ loadings.T, atol=1e-12)


# Promax


def test_promax_fits_powers_of_varimax_by_least_squares(loadings):
    first, found = rotate(loadings, "varimax", **TIGHT), rotate(loadings, "promax", power=3.0, **TIGHT)
    L = first.loadings
    U = np.linalg.inv(L.T @ L) @ L.T @ (np.sign(L) * np.abs(L) ** 3)
    U = U * np.sqrt(np.diag(np.linalg.inv(U.T @ U)))
    T = matched(found.matrix, first.matrix)
    assert_allclose(matched(found.loadings, L @ U), L @ U, atol=1e-9)
    assert_allclose(T.T @ T, np.linalg.inv(U.T @ U), atol=1e-9)
    assert found.criterion == first.criterion


def test_promax_with_a_power_near_one_is_varimax(loadings):
    first, found = rotate(loadings, "varimax"), rotate(loadings, "promax", power=1 + 1e-9)
    assert_allclose(found.loadings, first.loadings, atol=1e-7)
    assert_allclose(found.correlations, np.eye(3), atol=1e-7)


def test_promax_takes_large_loadings_and_powers(loadings):
    found = rotate(1e50 * loadings, "promax", power=20.0)
    assert_allclose(found.matrix, rotate(loadings, "promax", power=20.0).matrix, atol=1e-6)


# What must not matter


@pytest.mark.parametrize("method", ROTATIONS)
def test_the_given_axes_do_not_matter(rng, loadings, method):
    first, found = rotate(loadings, method), rotate(loadings @ random_rotation(rng, 3), method)
    assert_allclose(found.loadings, first.loadings, atol=1e-6)
    assert_allclose(found.correlations, first.correlations, atol=1e-6)


@pytest.mark.parametrize("method", ROTATIONS)
def test_the_order_of_features_does_not_matter(rng, loadings, method):
    order = rng.permutation(12)
    assert_allclose(rotate(loadings[order], method).loadings, rotate(loadings, method).loadings[order], atol=1e-6)


@pytest.mark.parametrize("method", ROTATIONS)
@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1e30])
def test_units_do_not_matter(loadings, method, unit):
    delta = 0.01 if METHODS[method].n_init > 1 else None
    first = rotate(loadings, method, delta=delta)
    found = rotate(unit * loadings, method, delta=delta and delta * unit**2)
    assert found.converged
    assert_allclose(found.matrix, first.matrix, atol=1e-6)


@pytest.mark.parametrize("method", MINIMISED)
def test_kaiser_makes_features_count_equally(rng, loadings, method):
    units = rng.uniform(0.1, 10.0, size=(12, 1))
    equal, found = (rotate(A, method, kaiser=True, **TIGHT) for A in (loadings, units * loadings))
    assert_allclose(matched(found.matrix, equal.matrix), equal.matrix, atol=1e-8)
    rows = np.linalg.norm(loadings, axis=1, keepdims=True)
    assert_allclose(found.criterion, defined(method, equal.loadings / rows), rtol=1e-12)


@pytest.mark.parametrize("method", ROTATIONS)
def test_kaiser_is_the_default_where_it_is_in_r(loadings, method):
    default, equal, raw = (rotate(loadings, method, kaiser=kaiser) for kaiser in (None, True, False))
    expected = equal if method in ("varimax", "promax") else raw
    assert_array_equal(default.loadings, expected.loadings)
    assert np.abs(equal.loadings - raw.loadings).max() > 1e-4


def test_results_are_the_same_in_every_call_and_follow_the_generator(rng):
    A = rng.standard_normal((10, 4))
    first, again = rotate(A, "geomin"), rotate(A, "geomin")
    assert_array_equal(first.matrix, again.matrix)
    drawn = [rotate(A, "geomin", n_init=1, rng=np.random.default_rng(seed)).matrix for seed in (1, 1, 2)]
    assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


# Order and signs


@pytest.mark.parametrize("method", ROTATIONS)
def test_factors_are_ordered_by_explained_variance_and_have_positive_sums(rng, method):
    for _ in range(5):
        found = rotate(rng.standard_normal((8, 3)), method, n_init=1)
        assert (np.diff(found.explained) <= 0).all()
        assert (found.loadings.sum(axis=0) > 0).all()


def test_equal_factors_are_ordered_by_their_first_features(rng):
    simple = np.kron(np.eye(3), np.array([[0.9], [0.8]]))
    for _ in range(5):
        shuffled = rng.permutation(6)
        found = rotate(simple[shuffled] @ random_rotation(rng, 3), "quartimax")
        large = [np.flatnonzero(column > 0.85)[0] for column in found.loadings.T]
        assert large == sorted(large)


def test_the_largest_loading_is_positive_if_loadings_sum_to_zero(rng):
    contrast = np.array([[-0.8, 0.0], [0.4, 0.0], [0.4, 0.0], [0.0, -0.5], [0.0, 0.6], [0.0, -0.1]])
    for _ in range(5):
        found = rotate(contrast @ random_rotation(rng, 2), "varimax", **TIGHT)
        assert_allclose(found.loadings, contrast * [-1.0, 1.0], atol=1e-9)


# Starts


@pytest.mark.parametrize("method", MINIMISED)
def test_a_minimum_is_a_start_that_needs_no_iteration(loadings, method):
    found = rotate(loadings, method)
    again = rotate(loadings, method, start=found.matrix)
    assert again.n_iter == 0
    assert_allclose(again.loadings, found.loadings, atol=1e-13)


@pytest.mark.parametrize("method", ROTATIONS)
def test_a_near_start_saves_iterations_and_ends_at_the_same_minimum(rng, loadings, method):
    found, moved = rotate(loadings, method, **TIGHT), loadings + 1e-5 * rng.standard_normal(loadings.shape)
    afresh, near = rotate(moved, method, **TIGHT), rotate(moved, method, start=found.matrix, **TIGHT)
    assert_allclose(near.loadings, afresh.loadings, atol=1e-9)
    assert_allclose(near.loadings, found.loadings, atol=1e-3)
    assert near.n_iter <= afresh.n_iter


def test_a_start_is_the_only_one_unless_more_are_asked_for(rng):
    A = rng.standard_normal((10, 4))
    starts = [random_rotation(rng, 4) for _ in range(8)]
    alone = [rotate(A, "geomin_orthogonal", start=start).criterion for start in starts]
    assert max(alone) > min(alone) + 1e-3
    best = rotate(A, "geomin_orthogonal", start=starts[np.argmax(alone)], n_init=10)
    assert best.criterion <= max(alone) - 1e-3


# Unusual loadings


@pytest.mark.parametrize("method", ROTATIONS)
def test_a_single_factor_gets_only_its_sign(method):
    found = rotate([[-0.5], [-0.7], [0.1]], method)
    assert_allclose(found.loadings, [[0.5], [0.7], [-0.1]], atol=1e-15)
    assert_allclose(found.matrix, [[-1.0]])
    assert found.converged


@pytest.mark.parametrize("method", ROTATIONS)
def test_features_without_loadings_change_nothing(loadings, method):
    # The means of columns, which the criteria of other methods contain, count all features.
    padded = np.vstack([loadings, np.zeros((2, 3))])
    found = rotate(padded, method)
    assert found.converged
    assert_array_equal(found.loadings[12:], np.zeros((2, 3)))
    if method in ("quartimax", "oblimin", "geomin", "geomin_orthogonal"):
        assert_allclose(found.loadings[:12], rotate(loadings, method).loadings, atol=1e-6)


@pytest.mark.parametrize("method", ORTHOGONAL)
@pytest.mark.parametrize("shape", [(8, 2, 2), (2, 2, 2), (1, 1, 3), (8, 0, 2)])
def test_orthogonal_rotations_need_no_independent_columns(rng, method, shape):
    d, rank, empty = shape
    A = np.hstack([rng.standard_normal((d, rank)), np.zeros((d, empty))])
    found = rotate(A, method)
    assert found.converged
    assert_allclose(found.matrix.T @ found.matrix, np.eye(rank + empty), atol=1e-14)
    assert_allclose(found.loadings @ found.loadings.T, A @ A.T, atol=1e-13)


@pytest.mark.parametrize("method", OBLIQUE)
def test_oblique_rotations_say_that_columns_must_be_independent(loadings, method):
    with pytest.raises(
        DataError, match=rf"{method} needs .*independent columns; the rank of these 4 columns is 3.\nHin"
    ):
        rotate(np.column_stack([loadings, loadings.sum(axis=1)]), method)


@pytest.mark.parametrize("method", METHODS)
def test_loadings_of_principal_components_can_be_rotated(method):
    X = load_wine().data
    for estimator in (PPCA(3, standardize=True), BayesianPCA(3, standardize=True)):
        A = estimator.fit(X).loadings_
        found = rotate(A, method)
        L = found.loadings
        assert found.converged
        assert_allclose(L @ found.correlations @ L.T, A @ A.T, atol=1e-12)


def test_lists_and_single_precision_are_taken(loadings):
    single = loadings.astype(np.float32)
    assert rotate(single).loadings.dtype == np.float64
    assert_array_equal(rotate(single.tolist()).loadings, rotate(single).loadings)


# Mistakes


@pytest.mark.parametrize(
    ("A", "error", "message"),
    [
        ([0.5, 0.6], ShapeError, r"loadings must be a matrix .*; got shape \(2,\)"),
        (np.zeros((0, 2)), ShapeError, r"got shape \(0, 2\)"),
        (np.zeros((2, 0)), ShapeError, r"got shape \(2, 0\)"),
        ([[0.5, np.nan]], DataError, "loadings must be finite; got 1 entries"),
        ([[0.5, np.inf]], DataError, "loadings must be finite; got 1 entries"),
        ([["a", "b"]], DataError, "loadings must be a matrix of numbers; got a list"),
        ([[1e70, 1.0]], DataError, r"between 1e-60 and 1e\+60; it is 1e\+70.\nHint: use other units"),
        ([[1e-70, 0.0]], DataError, "it is 1e-70"),
    ],
)
def test_unusable_loadings_are_named(A, error, message):
    with pytest.raises(error, match=message):
        rotate(A)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "verimax"}, DataError, "method must be one of none, varimax, .*geomin_orthogonal; got 'verimax'"),
        ({"method": None}, DataError, "method must be one of .*; got None"),
        ({"gamma": 0.5}, DataError, "gamma is an option of oblimin, not of varimax; got gamma=0.5"),
        ({"delta": 0.1}, DataError, "delta is an option of geomin and geomin_orthogonal, not of varimax"),
        ({"method": "oblimin", "power": 3}, DataError, "power is an option of promax, not of oblimin"),
        ({"method": "none", "power": 3}, DataError, "power is an option of promax, not of none"),
        ({"method": "none", "kaiser": True}, DataError, "kaiser has no meaning for method 'none'"),
        ({"method": "none", "n_init": 2}, DataError, "n_init has no meaning"),
        ({"method": "none", "start": np.eye(3)}, DataError, "start has no meaning"),
        ({"method": "oblimin", "gamma": np.nan}, DataError, "gamma must be a finite number; got nan"),
        ({"method": "oblimin", "gamma": np.inf}, DataError, "gamma must be a finite number; got inf"),
        ({"method": "geomin", "delta": 0}, DataError, "delta must be a finite number above 0; got 0"),
        ({"method": "promax", "power": 1}, DataError, "power must be a finite number above 1; got 1"),
        ({"method": "promax", "power": "4"}, DataError, "power must be a finite number above 1; got '4'"),
        ({"kaiser": 1}, DataError, "kaiser must be True, False or None; got 1"),
        ({"tol": 0.0}, DataError, "tol must be a finite number above 0; got 0.0"),
        ({"n_init": 0}, DataError, "n_init must be a whole number, at least 1; got 0"),
        ({"max_iter": 1.5}, DataError, "max_iter must be a whole number, at least 1; got 1.5"),
        ({"start": np.eye(2)}, ShapeError, r"start must have shape \(3, 3\); got \(2, 2\)"),
        ({"start": np.nan * np.eye(3)}, DataError, "start must be finite"),
        ({"start": np.ones((3, 3))}, DataError, "start must have columns that are far from linearly dependent"),
    ],
)
def test_unusable_options_are_named(loadings, options, error, message):
    with pytest.raises(error, match=message):
        rotate(loadings, **options)


@pytest.mark.parametrize("power", [50, 300, 1e6])
def test_promax_says_when_powers_leave_no_factors(power):
    A = np.random.default_rng(0).standard_normal((6, 3))  # several factors lead on the same feature
    with pytest.raises(
        DataError, match=r"promax with power=.* makes factors linearly dependent.*\nHint: a lower power"
    ):
        rotate(A, "promax", power=power)


def test_a_rotation_is_checked_and_never_changes(loadings):
    found = rotate(loadings)
    with pytest.raises(FrozenInstanceError):
        found.method = "oblimin"
    with pytest.raises(ValueError, match="read-only"):
        found.loadings[0, 0] = 1.0
    with pytest.raises(ShapeError, match=r"matrix must have shape \(3, 3\); got \(2, 2\)"):
        replace(found, matrix=np.eye(2))
    with pytest.raises(ShapeError, match=r"correlations must have shape \(3, 3\); got \(2, 2\)"):
        replace(found, correlations=np.eye(2))
    with pytest.raises(ShapeError, match=r"loadings must be a matrix"):
        replace(found, loadings=np.ones(3))
    with pytest.raises(DataError, match="matrix must be finite"):
        replace(found, matrix=np.nan * np.eye(3))
    with pytest.raises(DataError, match="method must be one of"):
        replace(found, method="verimax")
    with pytest.raises(ShapeError, match=r"a column for each of the 3 factors.*got shape \(12, 2\)"):
        found.apply(loadings[:, :2])


def test_a_rotation_does_not_share_memory_with_what_it_was_made_of():
    eye = np.eye(2)
    made = Rotation("none", eye, eye, eye, 0.0, 0, True)
    eye[0, 0] = 7.0
    assert_array_equal(made.matrix, np.eye(2))
