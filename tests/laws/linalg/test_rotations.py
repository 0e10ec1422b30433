"""Signs are a convention, spans are not."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from probpca.linalg.rotations import fix_signs, orthonormal


@given(seed=st.integers(0, 2**32 - 1))
def test_fixed_signs_do_not_depend_on_the_signs_before(seed):
    rng = np.random.default_rng(seed)
    axes = rng.standard_normal((6, 3))
    fixed = fix_signs(axes)
    assert_array_equal(fix_signs(axes * rng.choice([-1.0, 1.0], size=3)), fixed)
    assert_array_equal(fix_signs(fixed), fixed)
    assert_array_equal(np.abs(fixed), np.abs(axes))
    assert (fixed.max(axis=0) == np.abs(axes).max(axis=0)).all()


@pytest.mark.parametrize(
    ("column", "fixed"),
    [([-2.0, 2.0], [2.0, -2.0]), ([2.0, -2.0], [2.0, -2.0]), ([0.0, 0.0], [0.0, 0.0]), ([1.0, -3.0], [-1.0, 3.0])],
)
def test_the_first_of_the_largest_entries_decides(column, fixed):
    assert_array_equal(fix_signs(np.array(column)[:, None])[:, 0], fixed)


@pytest.mark.parametrize("rounding", [-1e-15, 1e-15])
def test_rounding_does_not_decide_between_entries_of_the_same_size(rounding):
    axis = np.array([[-np.sqrt(0.5)], [np.sqrt(0.5) + rounding]])
    assert_array_equal(fix_signs(axis), -axis)


def test_orthonormal_keeps_the_span(rng):
    matrix = rng.standard_normal((7, 3))
    basis = orthonormal(matrix)
    assert_allclose(basis.T @ basis, np.eye(3), atol=1e-14)
    assert_allclose(basis @ (basis.T @ matrix), matrix, atol=1e-13)
