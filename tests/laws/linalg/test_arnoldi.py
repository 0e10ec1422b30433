"""The leading eigenpair from a few products is that of a full decomposition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probpca.linalg.arnoldi import leading_eigenpair


def matrix_with(rng, values):
    """Matrix that is not symmetric, with these eigenvalues."""
    basis = rng.standard_normal((len(values), len(values)))
    return basis @ np.diag(values) @ np.linalg.inv(basis)


@pytest.mark.parametrize("top", [1.2, 2.0, 6.0])
def test_a_leading_eigenvalue_apart_from_the_others_is_found(rng, top):
    J = matrix_with(rng, [top, *np.ones(10), *rng.uniform(0, 0.95, 29)])
    value, vector = leading_eigenpair(J.__matmul__, rng.standard_normal(40), 25, above=1.01)
    assert_allclose(value, top, rtol=1e-4)
    assert_allclose(J @ vector, top * vector, atol=1e-3)
    assert_allclose(np.linalg.norm(vector), 1.0)


def test_as_many_products_as_columns_give_the_eigenvalue_of_the_matrix(rng):
    J = rng.standard_normal((6, 6))
    value, _ = leading_eigenpair(J.__matmul__, rng.standard_normal(6), 6, above=-np.inf)
    assert_allclose(value, np.linalg.eigvals(J).real.max(), rtol=1e-9)


def test_the_products_end_when_they_span_an_invariant_subspace(rng):
    seen = []

    def apply(vector):
        seen.append(vector)
        return np.where(np.arange(30) < 15, 1.5, 0.5) * vector

    value, _ = leading_eigenpair(apply, rng.standard_normal(30), 20, above=2.0)
    assert_allclose(value, 1.5)
    assert len(seen) < 5


def test_one_number_is_its_own_eigenvalue():
    assert leading_eigenpair(lambda vector: 3 * vector, np.ones(1), 5, above=1.0)[0] == pytest.approx(3.0)


def test_the_zero_matrix_has_eigenvalue_zero(rng):
    assert leading_eigenpair(np.zeros_like, rng.standard_normal(4), 3, above=1.0)[0] == 0.0


@pytest.mark.parametrize(("bulk", "most"), [(0.1, 6), (0.3, 8), (0.6, 12)])
def test_few_products_are_enough_if_all_eigenvalues_are_far_below_the_limit(rng, bulk, most):
    seen, values = [], rng.uniform(0, bulk, 300)

    def apply(vector):
        seen.append(vector)
        return values * vector

    assert leading_eigenpair(apply, rng.standard_normal(300), 50, above=1.01)[0] <= bulk
    assert len(seen) <= most


@pytest.mark.parametrize("bulk", [0.1, 0.5, 0.9])
def test_an_eigenvalue_above_the_limit_is_not_missed_by_ending_early(bulk):
    for seed in range(50):
        rng = np.random.default_rng(seed)
        values = np.array([1.05, *rng.uniform(0, bulk, 299)])
        assert leading_eigenpair(values.__mul__, rng.standard_normal(300), 50, above=1.01)[0] > 1.01


def test_negative_eigenvalues_do_not_hide_one_above_the_limit():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        values = np.array([1.5, *rng.uniform(-0.9, 0.1, 299)])
        assert leading_eigenpair(values.__mul__, rng.standard_normal(300), 30, above=1.01)[0] > 1.01
