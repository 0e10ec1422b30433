"""A diagonal plus a low-rank matrix answers every question as the full matrix does."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from probpca.linalg.low_rank import DiagPlusLowRank

SHAPES = [(6, 1), (6, 3), (5, 5), (4, 7)]
NEAR = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture(params=SHAPES, ids=lambda shape: f"d{shape[0]}q{shape[1]}")
def factor(request, rng):
    return rng.standard_normal(request.param)


@pytest.fixture(params=["scalar", "vector"])
def diagonal(request, rng, factor):
    return np.asarray(0.4) if request.param == "scalar" else rng.uniform(0.1, 3.0, size=len(factor))


@pytest.fixture
def compact(diagonal, factor):
    return DiagPlusLowRank(diagonal, factor)


@pytest.fixture
def full(diagonal, factor):
    return np.diag(np.broadcast_to(diagonal, len(factor))) + factor @ factor.T


@pytest.fixture
def rows(rng, factor):
    return rng.standard_normal((9, len(factor)))


@pytest.mark.parametrize(
    ("name", "dense"),
    [
        ("logdet", lambda C: np.linalg.slogdet(C)[1]),
        ("trace", np.trace),
        ("diag", np.diag),
        ("inverse_diag", lambda C: np.diag(np.linalg.inv(C))),
        ("dense", lambda C: C),
        ("dense_inverse", np.linalg.inv),
    ],
)
def test_summaries_equal_those_of_the_full_matrix(compact, full, name, dense):
    assert_allclose(getattr(compact, name)(), dense(full), **NEAR)


def test_solve_equals_that_of_the_full_matrix(compact, full, rows):
    assert_allclose(compact.solve(rows), np.linalg.solve(full, rows.T).T, **NEAR)


def test_squared_distance_equals_that_of_the_full_matrix(compact, full, rows):
    expected = np.einsum("ni,ij,nj->n", rows, np.linalg.inv(full), rows)
    assert_allclose(compact.squared_mahalanobis(rows), expected, **NEAR)


def test_parts_of_the_distance_are_those_of_the_oblique_projections(compact, full, diagonal, factor, rows):
    # Of all points F b, the one nearest in the metric of the diagonal splits the row in two.
    weighted = factor / np.sqrt(np.broadcast_to(diagonal, len(factor)))[:, None]
    white = rows / np.sqrt(diagonal)
    outside = white - white @ np.linalg.pinv(weighted).T @ weighted.T
    distance = np.einsum("ni,ij,nj->n", rows, np.linalg.inv(full), rows)
    parts = compact.split_distance(rows)
    assert_allclose(parts.outside, np.square(outside).sum(axis=1), rtol=1e-9, atol=1e-12)
    assert_allclose(parts.inside, distance - np.square(outside).sum(axis=1), rtol=1e-9, atol=1e-12)


def test_asking_leaves_the_rows_alone(compact, rows):
    before = rows.copy()
    compact.split_distance(rows)
    compact.solve(rows)
    assert (rows == before).all()


def test_inverse_times_factor_equals_factor_times_small_inverse(rng):
    W, sigma2 = rng.standard_normal((8, 3)), 0.2
    small = np.linalg.inv(W.T @ W + sigma2 * np.eye(3))
    inverse = DiagPlusLowRank(np.asarray(sigma2), W)
    assert_allclose(inverse.solve(W.T).T, W @ small, **NEAR)
    assert_allclose(inverse.inverse_diag().sum(), (8 - 3) / sigma2 + np.trace(small), **NEAR)


def test_distance_survives_a_diagonal_that_the_inversion_lemma_does_not(rng):
    axes = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    rest = np.linalg.qr(np.hstack([axes, rng.standard_normal((6, 1))]))[0][:, 2:]
    tiny = 1e-14
    row = 3.0 * axes[:, :1].T + 5.0 * np.sqrt(tiny) * rest.T
    lemma = (row @ row.T - row @ axes @ axes.T @ row.T / (1 + tiny)).item() / tiny
    distance = DiagPlusLowRank(np.asarray(tiny), axes).squared_mahalanobis(row).item()
    assert_allclose(distance, 9.0 / (1 + tiny) + 25.0, rtol=1e-6)
    assert abs(lemma - distance) > 1e-3


def precise_inverse(diagonal, factor):
    with mpmath.workdps(60):
        F = mpmath.matrix(factor.tolist())
        inverse = (F * F.T + mpmath.diag([mpmath.mpf(float(v)) for v in np.broadcast_to(diagonal, len(factor))])) ** -1
        return np.array(inverse.tolist(), dtype=np.float64)


ALONE = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 1.5], [0.0, 0.7]])
"""The first coordinate has a column for itself: its unit vector lies in the span of the factor."""


@pytest.mark.parametrize("tiny", [1e-2, 1e-8, 1e-12, 1e-14])
@pytest.mark.parametrize(
    "shape_of",
    [
        lambda rng: rng.standard_normal((5, 5)),
        lambda rng: rng.standard_normal((4, 7)),
        lambda rng: rng.standard_normal((7, 3)),
        lambda rng: ALONE @ np.linalg.qr(rng.standard_normal((2, 2)))[0],
        lambda _: ALONE + 1e-7 * np.eye(4, 2, -1),
    ],
    ids=["square", "wide", "tall", "alone", "almost alone"],
)
def test_inverse_diagonal_is_right_in_extended_precision(rng, shape_of, tiny):
    factor = shape_of(rng)
    compact, exact = DiagPlusLowRank(np.asarray(tiny), factor), precise_inverse(tiny, factor)
    assert_allclose(compact.inverse_diag(), np.diag(exact), rtol=1e-12)
    assert_allclose(compact.dense_inverse(), exact, rtol=0, atol=1e-12 * np.abs(exact).max())


def test_inverse_diagonal_is_right_when_the_diagonal_differs_by_many_orders(rng):
    diagonal, factor = np.geomspace(1e-12, 1e3, 5), rng.standard_normal((5, 2))
    exact = np.diag(precise_inverse(diagonal, factor))
    assert_allclose(DiagPlusLowRank(diagonal, factor).inverse_diag(), exact, rtol=1e-9)


def test_inner_products_say_all_that_distances_depend_on(compact, rows):
    inside, outside = compact.split_distance_of(*compact.inner_products(rows))
    assert_allclose(inside, compact.split_distance(rows).inside, rtol=1e-8)
    assert_allclose(outside, compact.split_distance(rows).outside, rtol=1e-8, atol=1e-11)


def test_inner_products_are_good_enough_where_noise_is_at_its_floor(rng):
    """Noise of 1e-12 of the variance: the difference keeps two digits, which suffice to compare rows."""
    factor = rng.standard_normal((30, 2)) * 1e6
    compact, rows = DiagPlusLowRank(np.asarray(1.0), factor), rng.standard_normal((50, 2)) @ factor.T
    rows += rng.standard_normal(rows.shape)
    found, wanted = compact.split_distance_of(*compact.inner_products(rows)), compact.split_distance(rows)
    assert_allclose(found.inside, wanted.inside, rtol=1e-6)
    assert_allclose(found.outside, wanted.outside, rtol=0.02)


def test_a_component_without_loadings_takes_no_part(rng):
    factor = np.column_stack([rng.standard_normal(5), np.zeros(5)])
    compact, rows = DiagPlusLowRank(np.asarray(0.5), factor), rng.standard_normal((7, 5))
    inside, outside = compact.split_distance_of(*compact.inner_products(rows))
    assert_allclose(inside + outside, compact.squared_mahalanobis(rows))
