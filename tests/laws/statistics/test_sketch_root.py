"""A root of the scatter holds what the scatter itself has lost."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

from probpca.blocks import Block
from probpca.statistics import Moments, Root

D = 6
SMALLEST = 1e-9


def orthogonal_design(rng, n=64, d=D):
    """Centred columns, orthonormal to rounding: rows times diag(s) Q' have exactly the singular values s."""
    design = rng.standard_normal((n, d))
    design = np.linalg.qr(design - design.mean(axis=0))[0]
    return design - design.mean(axis=0)


def rows_with(rng, singular):
    rotation = np.linalg.qr(rng.standard_normal((D, D)))[0]
    return orthogonal_design(rng) * singular @ rotation.T


def test_singular_values_far_below_the_largest_survive(rng):
    singular = np.geomspace(1.0, SMALLEST, D)
    root = Root.of(Block(rows_with(rng, singular)))
    assert_allclose(np.linalg.svd(root.factor, compute_uv=False), singular, rtol=1e-5)


def test_the_scatter_matrix_loses_them(rng):
    singular = np.geomspace(1.0, SMALLEST, D)
    values = np.linalg.eigvalsh(Moments.of(Block(rows_with(rng, singular))).scatter)
    assert abs(values[0] - SMALLEST**2) > 0.5 * SMALLEST**2


@given(cuts=st.lists(st.integers(0, 64), max_size=4), seed=st.integers(0, 99))
def test_they_survive_any_cut(cuts, seed):
    singular = np.geomspace(1.0, SMALLEST, D)
    x = rows_with(np.random.default_rng(seed), singular)
    total = Root.of(Block(x[:0]))
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 64], strict=True):
        total = total.merge(Root.of(Block(x[start:stop])))
    assert_allclose(np.linalg.svd(total.factor, compute_uv=False), singular, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 3, D, D + 1, 5000])
def test_a_factor_has_no_more_rows_than_the_data_or_the_features(rng, n):
    root = Root.of(Block(rng.standard_normal((n, D))))
    assert root.factor.shape[1] == D
    assert root.factor.shape[0] <= min(n, D)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [2, D, 300])
def test_a_few_rows_stand_for_all_of_them(rng, n, weighted):
    x = rng.standard_normal((n, D)) @ rng.standard_normal((D, D)) + 1e4
    w = rng.uniform(0.1, 3, n) if weighted else np.ones(n)
    rows, weight = Root.of(Block(x, w)).as_rows()
    assert len(rows) <= 2 * D
    mean = w @ x / w.sum()
    scatter = ((x - mean).T * w) @ (x - mean)
    assert_allclose(weight.sum(), w.sum())
    assert_allclose(weight @ rows / weight.sum(), mean, rtol=1e-12)
    assert_allclose(((rows - mean).T * weight) @ (rows - mean), scatter, atol=1e-9 * scatter.max())


def test_moments_have_the_covariance_over_n(rng):
    x = rng.standard_normal((50, D)) + 7
    moments = Moments.of(Block(x))
    assert_allclose(moments.covariance, np.cov(x.T, ddof=0), rtol=1e-12)
    assert_allclose(np.trace(moments.covariance), np.square(x - x.mean(axis=0)).sum() / 50)


def test_products_in_single_precision_are_added_up_in_double(rng):
    x = rng.standard_normal((200_000, 3)).astype(np.float32)
    single = Moments.of(Block(x), dtype=np.float32)
    exact = x.astype(np.float64).T @ x.astype(np.float64)
    assert single.scatter.dtype == np.float64
    assert_allclose(np.diag(single.scatter), np.diag(exact), rtol=1e-5)
