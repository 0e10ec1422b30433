"""Block-tridiagonal matrices do what dense ones do, for as many blocks and as long a memory as you like."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import random_covariance
from probpca.linalg.packed import pack
from probpca.linalg.tridiagonal import BlockTridiagonal, accumulate, accumulated, solve_bidiagonal

NEAR = {"rtol": 1e-9, "atol": 1e-10}
SIZES = [(1, 1), (1, 3), (2, 2), (9, 1), (9, 3), (150, 2)]


@pytest.fixture(params=SIZES, ids=lambda size: f"n{size[0]}q{size[1]}")
def size(request):
    return request.param


@pytest.fixture(params=["whole", "gaps", "apart"])
def touching(request, rng, size):
    """Which block touches the next: all, some, none."""
    n = size[0]
    return {"whole": np.ones(n - 1, bool), "gaps": rng.random(n - 1) < 0.6, "apart": np.zeros(n - 1, bool)}[
        request.param
    ]


@pytest.fixture
def parts(rng, size):
    """Diagonal blocks (n, q, q) and the block below, of a positive matrix whatever touches."""
    n, q = size
    below = rng.standard_normal((q, q))
    margin = 2.2 * np.linalg.norm(below, 2) * np.eye(q)
    return np.stack([random_covariance(rng, q) + margin for _ in range(n)]), below


def dense(diagonal, below, touching):
    """The whole matrix: (n q, n q)."""
    n, q, _ = diagonal.shape
    whole = np.zeros((n, q, n, q))
    for t in range(n):
        whole[t, :, t] = diagonal[t]
    for t in np.flatnonzero(touching):
        whole[t + 1, :, t], whole[t, :, t + 1] = below, below.T
    return whole.reshape(n * q, n * q)


@pytest.fixture
def whole(parts, touching):
    return dense(*parts, touching)


@pytest.fixture
def factored(parts, touching):
    diagonal, below = parts
    return BlockTridiagonal.factor(pack(diagonal), below, touching)


def test_solutions_and_determinants_are_those_of_the_whole_matrix(rng, size, whole, factored):
    h = rng.standard_normal(size)
    assert_allclose(whole @ factored.solve(h).ravel(), h.ravel(), **NEAR)
    assert_allclose(factored.logdet, np.linalg.slogdet(whole)[1], **NEAR)


def test_the_factor_is_that_of_the_whole_matrix(rng, size, whole, factored):
    root, h = np.linalg.cholesky(whole), rng.standard_normal((3, *size))
    assert_allclose(factored.pivots.ravel(), np.diag(root), **NEAR)
    assert_allclose(factored.backward(h).reshape(3, -1) @ root, h.reshape(3, -1), **NEAR)


def test_solving_leaves_the_right_hand_side_alone(rng, size, factored):
    h = rng.standard_normal((2, *size))
    before = h.copy()
    factored.solve(h[0])
    factored.backward(h)
    assert_array_equal(h, before)


def test_blocks_of_the_inverse_are_those_of_the_whole_inverse(size, touching, whole, factored):
    n, q = size
    inverse = np.linalg.inv(whole).reshape(n, q, n, q)
    found = factored.inverse_blocks()
    for t in range(n):
        assert_allclose(found.diagonal[:, :, t], inverse[t, :, t], **NEAR)
        beside = inverse[t, :, t + 1] if t < n - 1 and touching[t] else np.zeros((q, q))
        assert_allclose(found.beside[:, :, t], beside, **NEAR)


def test_last_roots_are_roots_of_the_inverse_where_a_chain_ends(size, touching, whole, factored):
    n, q = size
    inverse = np.linalg.inv(whole).reshape(n, q, n, q)
    ends = np.flatnonzero(~np.append(touching, False))
    roots = factored.last_roots(ends)
    assert_allclose(roots @ np.swapaxes(roots, 1, 2), inverse[ends, :, ends], **NEAR)


@pytest.mark.parametrize("at", [0, 4, 8])
def test_a_matrix_that_is_not_positive_has_no_factor(at):
    diagonal = np.ones((1, 9))
    assert BlockTridiagonal.factor(diagonal, np.zeros((1, 1)), np.ones(8, bool)) is not None
    diagonal[0, at] = -1.0
    assert BlockTridiagonal.factor(diagonal, np.zeros((1, 1)), np.ones(8, bool)) is None


def test_blocks_that_touch_too_much_have_no_factor():
    assert BlockTridiagonal.factor(np.ones((1, 3)), -np.ones((1, 1)) * 1.01, np.ones(2, bool)) is None


# Chains


def chain(gain, own):
    """Sigma_t = S_t + G_t Sigma_{t+1} G_t', one step at a time."""
    sigma = np.zeros_like(own)
    following = np.zeros(own.shape[:2])
    for t in reversed(range(own.shape[2])):
        following = own[:, :, t] + gain[:, :, t] @ following @ gain[:, :, t].T
        sigma[:, :, t] = following
    return sigma


def contractions(rng, q, n, radius):
    """Gains that are rotations, shrunk by ``radius``: (q, q, n)."""
    turns = np.linalg.qr(rng.standard_normal((n, q, q)))[0]
    return np.ascontiguousarray(np.moveaxis(radius * turns, 0, -1))


def covariances(rng, q, n):
    factor = rng.standard_normal((n, q, q))
    return np.ascontiguousarray(np.moveaxis(factor @ np.swapaxes(factor, 1, 2), 0, -1))


@pytest.mark.parametrize("radius", [0.0, 0.5, 0.9, 0.999, 1.0, 1.001])
@pytest.mark.parametrize(("n", "q"), [(1, 2), (63, 1), (64, 2), (127, 3), (128, 2), (129, 2), (700, 3)])
def test_a_chain_is_summed_as_a_loop_would(rng, n, q, radius):
    gain, own = contractions(rng, q, n, radius), covariances(rng, q, n)
    wanted = chain(gain, own)
    found = accumulated(gain, own)
    assert_allclose(found.diagonal, wanted, rtol=1e-11, atol=1e-11)
    beside = np.einsum("icn,cjn->ijn", gain[:, :, :-1], wanted[:, :, 1:])
    assert_allclose(found.beside[:, :, :-1], beside, rtol=1e-11, atol=1e-11)
    assert_array_equal(found.beside[:, :, -1], np.zeros((q, q)))


def test_one_slow_direction_among_fast_ones_is_not_forgotten(rng):
    n, q = 600, 3
    turn = np.linalg.qr(rng.standard_normal((q, q)))[0]
    gain = np.tile((turn * [0.9999, 0.1, 0.0] @ turn.T)[:, :, None], n)
    own = covariances(rng, q, n)
    assert_allclose(accumulate(gain, own), chain(gain, own), rtol=1e-11)


@pytest.mark.parametrize("lane", [1, 3, 64, 10_000])
def test_the_length_of_a_lane_changes_nothing(rng, lane):
    gain, own = contractions(rng, 2, 300, 0.97), covariances(rng, 2, 300)
    assert_allclose(accumulate(gain, own, (lane, lane)), chain(gain, own), rtol=1e-11)


def test_a_chain_that_breaks_starts_anew(rng):
    gain, own = contractions(rng, 2, 400, 0.99), covariances(rng, 2, 400)
    gain[:, :, [100, 250]] = 0.0
    assert_allclose(accumulate(gain, own)[:, :, :101], accumulate(gain[:, :, :101], own[:, :, :101]), rtol=1e-11)


@pytest.mark.parametrize("rank", [1, 3])
def test_sums_are_symmetric_and_have_no_negative_variance(rng, rank):
    n, q = 500, 3
    gain, factor = contractions(rng, q, n, 0.99), rng.standard_normal((n, q, rank)) * [[[1.0], [1e-6], [1e-9]]]
    own = np.moveaxis(factor @ np.swapaxes(factor, 1, 2), 0, -1)
    found = np.moveaxis(accumulate(gain, np.ascontiguousarray(own)), -1, 0)
    size = np.abs(found).max(axis=(1, 2))
    assert (np.abs(found - np.swapaxes(found, 1, 2)).max(axis=(1, 2)) <= 1e-14 * size).all()
    assert (np.linalg.eigvalsh(found)[:, 0] >= -1e-14 * size).all()


@pytest.mark.parametrize(("n", "q"), [(1, 1), (1, 3), (2, 2), (50, 1), (200, 4)])
def test_a_recursion_is_one_triangular_solve(rng, n, q):
    gain, right = 0.5 * rng.standard_normal((n, q, q)), rng.standard_normal((n, q))
    wanted = [right[0]]
    for t in range(1, n):
        wanted.append(gain[t] @ wanted[-1] + right[t])
    assert_allclose(solve_bidiagonal(gain, right), wanted, rtol=1e-10, atol=1e-12)


def test_the_first_gain_does_not_count(rng):
    gain, right = rng.standard_normal((4, 2, 2)), rng.standard_normal((4, 2))
    other = gain.copy()
    other[0] = np.nan
    assert_array_equal(solve_bidiagonal(other, right), solve_bidiagonal(gain, right))


@pytest.mark.parametrize("n", [1, 2, 17])
def test_many_right_hand_sides_are_solved_as_one_by_one(rng, n):
    q = 3
    factor = rng.standard_normal((n, q, q))
    diagonal = factor @ factor.transpose(0, 2, 1) + 3 * np.eye(q)
    touching = rng.random(n - 1) < 0.8
    matrix = BlockTridiagonal.factor(pack(diagonal), 0.3 * rng.standard_normal((q, q)), touching)
    right = rng.standard_normal((9, n, q))
    wanted = np.array([matrix.solve(one) for one in right])
    assert_allclose(matrix.solve(right), wanted, rtol=1e-11, atol=1e-12)
    assert_allclose(matrix.solve(right, many=8), wanted, rtol=1e-11, atol=1e-12)
