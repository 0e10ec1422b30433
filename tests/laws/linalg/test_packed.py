"""Packed matrices do what dense ones do, one at a time or many."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import random_covariance
from probpca.linalg import packed as home
from probpca.linalg.packed import (
    by_columns,
    by_rows,
    chunks,
    doubled_sides,
    factor,
    identity,
    inner_products,
    inverse,
    log_determinants,
    multiply,
    outer_products,
    pack,
    packed_size,
    row_order,
    sample,
    scaled_outer_products,
    solve,
    traces,
    turn,
    unpack,
)

SIZES = range(1, 9)
NEAR = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(params=SIZES)
def q(request):
    return request.param


@pytest.fixture(params=[1, 100])
def matrices(request, rng, q):
    return np.stack([random_covariance(rng, q) for _ in range(request.param)])


@pytest.fixture
def right(rng, matrices):
    return rng.standard_normal(matrices.shape[:2])  # (b, q)


@pytest.fixture(params=[2**20, 1], ids=["one chunk", "many chunks"])
def cut(request, monkeypatch):
    monkeypatch.setattr(home, "BATCH", home.BatchSettings(chunk_cells=request.param))


def in_columns(matrices):
    """Entries in the order that the factorisation reads: (entries, b)."""
    return pack(matrices)[by_columns(matrices.shape[-1])]


def test_packing_is_undone_by_unpacking(matrices, q):
    assert pack(matrices).shape == (packed_size(q), len(matrices))
    assert_array_equal(unpack(pack(matrices)), matrices)
    assert_array_equal(unpack(pack(matrices[0])), matrices[0])


def test_entries_come_by_rows(matrices, q):
    for entry, i, j in zip(pack(matrices), *row_order(q), strict=True):
        assert_array_equal(entry, matrices[:, i, j])
    assert list(row_order(3)[0]) == [0, 1, 1, 2, 2, 2]


def test_entries_in_the_order_by_columns_come_column_by_column(matrices, q):
    lower = [matrices[:, i, j] for j in range(q) for i in range(j, q)]
    assert_array_equal(in_columns(matrices), lower)
    assert_array_equal(in_columns(matrices)[by_rows(q)], pack(matrices))


def test_scaled_outer_products_come_by_columns(right):
    scale = np.linspace(1, 2, len(right))[:, None]
    wanted = right[:, :, None] * right[:, None, :] / scale[:, :, None]
    assert_allclose(scaled_outer_products(right.T, (right / scale).T), in_columns(wanted), **NEAR)


def test_multiplying_is_a_product_of_each_matrix_with_its_vector(matrices, right):
    wanted = np.einsum("bij,bj->ib", matrices, right)
    assert_allclose(multiply(pack(matrices), right.T), wanted, **NEAR)


def test_one_matrix_multiplies_all_vectors(rng, q):
    matrix, vectors = random_covariance(rng, q), rng.standard_normal((q, 9))
    assert_allclose(multiply(pack(matrix)[:, None], vectors), matrix @ vectors, **NEAR)


@pytest.mark.usefixtures("cut")
def test_turning_is_a_product_from_both_sides(rng, matrices, q):
    basis = rng.standard_normal((q, q))
    assert_allclose(unpack(turn(pack(matrices), basis)), basis.T @ matrices @ basis, **NEAR)


def test_one_matrix_is_turned_as_many_are(rng, q):
    matrix, basis = random_covariance(rng, q), rng.standard_normal((q, q))
    one, many = (turn(np.tile(pack(matrix)[:, None], count), basis) for count in (1, 3))
    assert one.shape == (packed_size(q), 1)
    assert_allclose(unpack(one[:, 0]), basis.T @ matrix @ basis, **NEAR)
    assert_allclose(many, np.tile(one, 3), **NEAR)


def test_the_identity_is_that_of_one_matrix_which_stands_for_many(matrices, q):
    assert_array_equal(unpack(identity(q)), np.eye(q)[None])
    assert_array_equal(unpack(pack(matrices) + identity(q)), matrices + np.eye(q))


def test_traces_are_those_of_products(rng, matrices, q):
    others = np.stack([random_covariance(rng, q) for _ in matrices])
    wanted = np.einsum("bij,bji->b", matrices, others)
    assert_allclose(traces(pack(matrices), pack(others)), wanted, **NEAR)
    assert_allclose(traces(pack(others), pack(matrices)), wanted, **NEAR)
    assert_allclose((doubled_sides(pack(matrices)) * pack(others)).sum(axis=0), wanted, **NEAR)


def test_sides_are_doubled_and_diagonals_are_not(matrices, q):
    doubled = unpack(doubled_sides(pack(matrices)))
    assert_array_equal(doubled, matrices * (2 - np.eye(q)))


def test_outer_products_are_those_of_each_vector_with_itself(right):
    found = outer_products(right.T)
    assert_array_equal(unpack(found), right[:, :, None] * right[:, None, :])


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("unit", [1.0, 1e-120, 1e120])
def test_log_determinants_are_the_dense_ones(matrices, q, unit):
    wanted = np.linalg.slogdet(matrices)[1] + q * np.log(unit)
    assert_allclose(log_determinants(unit * pack(matrices)), wanted, **NEAR)


def test_solving_equals_dense_solving(matrices, right):
    wanted = np.linalg.solve(matrices, right[:, :, None])[:, :, 0]
    assert_allclose(solve(pack(matrices), right.T), wanted.T, **NEAR)


@pytest.mark.usefixtures("cut")
def test_samples_have_mean_and_covariance_of_their_precision_matrix(matrices, right, q):
    noise = np.concatenate([np.zeros((1, q)), np.eye(q)])[:, :, None] * np.ones(len(matrices))
    mean, *moved = sample(pack(matrices), right.T, noise)
    assert_allclose(mean, np.linalg.solve(matrices, right[:, :, None])[:, :, 0].T, **NEAR)
    roots = np.stack(moved) - mean  # (q, q, b), the effect of each standard normal number
    assert_allclose(np.einsum("kib,kjb->bij", roots, roots), np.linalg.inv(matrices), **NEAR)


@pytest.mark.usefixtures("cut")
def test_inverses_are_the_dense_ones(matrices):
    assert_allclose(unpack(inverse(pack(matrices))), np.linalg.inv(matrices), **NEAR)


@pytest.mark.parametrize("add", [0.0, 1.0])
def test_a_factor_is_that_of_cholesky_and_all_that_follows_from_it(matrices, right, q, add):
    wanted = matrices + add * np.eye(q)
    found = factor(in_columns(matrices), right.T, add)
    root = np.linalg.inv(np.linalg.cholesky(wanted))
    assert_allclose(np.moveaxis(found.root[:q], -1, 0), root, **NEAR)
    assert_allclose(found.logdet, np.linalg.slogdet(wanted)[1], **NEAR)
    assert_allclose(found.half, np.einsum("bij,bj->ib", root, right), **NEAR)
    assert_allclose(found.solution, np.linalg.solve(wanted, right[:, :, None])[:, :, 0].T, **NEAR)
    quadratic = np.einsum("bi,bij,bj->b", right, np.linalg.inv(wanted), right)
    assert_allclose(np.square(found.half).sum(axis=0), quadratic, **NEAR)


def test_a_factor_without_a_right_hand_side_is_the_same(matrices, right, q):
    with_right, without = factor(in_columns(matrices), right.T), factor(in_columns(matrices))
    assert_array_equal(without.root, with_right.root[:q])
    assert_array_equal(without.logdet, with_right.logdet)


def test_inner_products_are_the_inverse_and_with_the_solution_its_second_moment(matrices, right, q):
    found = factor(in_columns(matrices), right.T)
    b = len(matrices)
    plain, joint = (inner_products(found.root[:rows], np.empty((packed_size(q), b))) for rows in (q, q + 1))
    P = np.linalg.inv(matrices)
    m = np.einsum("bij,bj->bi", P, right)
    assert_allclose(unpack(plain), P, **NEAR)
    assert_allclose(unpack(joint), P + m[:, :, None] * m[:, None, :], **NEAR)


def test_the_parts_of_a_batch_cover_it_once_and_in_order(monkeypatch):
    monkeypatch.setattr(home, "BATCH", home.BatchSettings(chunk_cells=1))
    found = chunks(100, 5)
    assert len(found) > 3
    assert np.concatenate([np.arange(100)[part] for part in found]).tolist() == list(range(100))
    assert chunks(0, 5) == []


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_singular_matrices_give_finite_answers_that_solve_what_can_be_solved(rng, rank):
    roots = rng.standard_normal((30, 5, rank))
    singular = roots @ np.swapaxes(roots, 1, 2)
    right = np.einsum("bij,bj->bi", singular, rng.standard_normal((30, 5)))  # within the range
    found = solve(pack(singular), right.T)
    assert np.isfinite(found).all()
    assert_allclose(np.einsum("bij,jb->bi", singular, found), right, rtol=1e-6, atol=1e-6)
    assert np.isfinite(inverse(pack(singular))).all()
    assert np.isfinite(factor(in_columns(singular), right.T).logdet).all()


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_units_of_a_matrix_do_not_matter(rng, unit):
    matrices = np.stack([random_covariance(rng, 4) for _ in range(5)])
    right = rng.standard_normal((4, 5))
    assert_allclose(solve(unit * pack(matrices), unit * right), solve(pack(matrices), right), rtol=1e-10)
    assert_allclose(unit * inverse(unit * pack(matrices)), inverse(pack(matrices)), rtol=1e-10)


def test_no_matrices_have_no_solutions():
    assert solve(np.empty((6, 0)), np.empty((3, 0))).shape == (3, 0)
    assert inverse(np.empty((6, 0))).shape == (6, 0)
    assert log_determinants(np.empty((6, 0))).shape == (0,)


def test_a_diagonal_entry_that_rounding_made_negative_is_zero_up_to_rounding():
    exact = np.outer([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]) + np.diag([0.0, 1.0, 1.0])
    rounded = exact.copy()
    rounded[0, 0] = -1e-17
    many = pack(np.stack([rounded] * 40 + [np.eye(3)]))  # more than are solved one by one
    assert np.isfinite(inverse(many)).all()
    assert_allclose(unpack(inverse(many))[:40, 1:, 1:], [np.linalg.inv(exact[1:, 1:])] * 40, rtol=1e-12)
    assert_allclose(unpack(inverse(many))[40], np.eye(3), rtol=1e-12)
