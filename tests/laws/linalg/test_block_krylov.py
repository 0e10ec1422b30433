"""Eigenpairs from products alone are those of the full matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import random_rotation
from probpca.linalg.block_krylov import block_krylov


def with_spectrum(rng, values):
    axes = random_rotation(rng, len(values))
    return (axes * values) @ axes.T, axes


def below(tol):
    return lambda values, residuals: bool((residuals[:-1] <= tol * values[0]).all())


def never(_values, _residuals):
    return False


def solve(matrix, k, rng, *, finished=None, **options):
    start = rng.standard_normal((len(matrix), k + 2))
    return block_krylov(lambda block: matrix @ block, start, k, finished or below(1e-11), **options)


def assert_honest(found, matrix):
    """Orthonormal vectors, and residuals that are what they claim to be."""
    size = np.abs(found.values).max()
    assert_allclose(found.vectors.T @ found.vectors, np.eye(found.values.size), atol=1e-12)
    true = np.linalg.norm((matrix / size) @ found.vectors - found.vectors * (found.values / size), axis=0)
    assert_allclose(found.residuals / size, true, atol=1e-13)


@pytest.mark.parametrize(
    "values",
    [
        np.geomspace(1.0, 1e-3, 60),
        1.0 / np.arange(1, 61),
        np.r_[np.geomspace(100.0, 10.0, 5), np.linspace(1.0, 0.9, 55)],
    ],
    ids=["geometric", "slow", "spiked"],
)
def test_pairs_equal_those_of_the_dense_decomposition(rng, values):
    matrix, _ = with_spectrum(rng, values)
    dense, vectors = np.linalg.eigh(matrix)
    found = solve(matrix, 5, rng)
    assert found.finished
    assert_allclose(found.values, dense[::-1][:5], rtol=1e-12)
    assert_allclose(np.abs(found.vectors.T @ vectors[:, ::-1][:, :5]), np.eye(5), atol=1e-8)
    assert_honest(found, matrix)


def test_unfinished_pairs_report_the_residuals_they_have(rng):
    matrix, _ = with_spectrum(rng, 1.0 / np.arange(1, 61))
    found = solve(matrix, 5, rng, finished=never, max_products=3)
    assert not found.finished
    assert found.n_products == 3
    assert found.residuals.max() > 1e-4
    assert_honest(found, matrix)
    bounds = np.linalg.eigvalsh(matrix)[::-1][:5]
    assert (found.values <= bounds * (1 + 1e-12)).all()
    assert (bounds - found.values <= found.residuals + 1e-12).all()


@pytest.mark.parametrize("rank", [1, 4, 12])
def test_a_low_rank_matrix_ends_by_itself(rng, rank):
    values = np.r_[np.geomspace(5.0, 1.0, rank), np.zeros(40 - rank)]
    matrix, _ = with_spectrum(rng, values)
    found = solve(matrix, 6, rng, finished=never, max_products=60)
    assert found.finished
    assert found.n_products < 60
    assert_allclose(found.values, values[:6], atol=1e-13)
    assert_honest(found, matrix)


@pytest.mark.parametrize("copies", [3, 8])
def test_ties_are_found_with_their_subspace(rng, copies):
    values = np.r_[np.full(copies, 4.0), np.linspace(1.0, 0.1, 50 - copies)]
    matrix, axes = with_spectrum(rng, values)
    found = solve(matrix, copies, rng)
    span = axes[:, :copies]
    assert_allclose(found.values, 4.0, rtol=1e-12)
    assert_allclose(found.vectors @ found.vectors.T, span @ span.T, atol=1e-9)


def test_a_cut_through_a_cluster_still_finds_the_values(rng):
    values = np.r_[5.0, 2.0 + 1e-9 * np.arange(6)[::-1], np.linspace(1.0, 0.1, 40)]
    matrix, axes = with_spectrum(rng, values)
    found = solve(matrix, 3, rng)
    assert_allclose(found.values, values[:3], rtol=1e-8)
    assert_allclose(np.square(axes[:, 1:7].T @ found.vectors[:, 1:]).sum(axis=0), 1.0, rtol=1e-9)


def test_equal_eigenvalues_everywhere_are_no_trouble(rng):
    found = solve(3.0 * np.eye(20), 4, rng, finished=never)
    assert found.finished
    assert_allclose(found.values, 3.0, rtol=1e-14)


@pytest.mark.parametrize("unit", [1e-200, 1e-100, 1.0, 1e100, 1e200])
def test_units_change_values_and_nothing_else(rng, unit):
    matrix, _ = with_spectrum(rng, np.geomspace(1.0, 1e-3, 60))
    seed = 11
    plain = solve(matrix, 5, np.random.default_rng(seed))
    scaled = solve(unit * matrix, 5, np.random.default_rng(seed), scale=unit)
    assert scaled.n_products == plain.n_products
    assert_allclose(scaled.values / unit, plain.values, rtol=1e-13)
    assert_honest(scaled, unit * matrix)


def test_restarting_loses_no_accuracy(rng):
    matrix, _ = with_spectrum(rng, 1.0 / np.arange(1, 201))
    roomy = solve(matrix, 4, np.random.default_rng(5))
    cramped = solve(matrix, 4, np.random.default_rng(5), max_basis=30)
    assert cramped.finished
    assert cramped.n_products > roomy.n_products
    assert_allclose(cramped.values, np.linalg.eigvalsh(matrix)[::-1][:4], rtol=1e-12)
    assert_honest(cramped, matrix)


def test_wanting_every_pair_gives_every_pair(rng):
    matrix, _ = with_spectrum(rng, np.geomspace(1.0, 1e-2, 8))
    found = block_krylov(lambda block: matrix @ block, rng.standard_normal((8, 3)), 8, never)
    assert found.finished
    assert_allclose(found.values, np.linalg.eigvalsh(matrix)[::-1], rtol=1e-12)
    assert_honest(found, matrix)


@pytest.mark.parametrize("error", [1e-4, 1e-7, 1e-10])
def test_a_start_near_the_answer_keeps_values_right_to_the_last_digits(rng, error):
    values = np.r_[10.0, 8.0, 6.0, np.linspace(1.0, 0.1, 57)]
    matrix, axes = with_spectrum(rng, values)
    start = np.hstack([axes[:, :3] + error * rng.standard_normal((60, 3)), rng.standard_normal((60, 2))])
    found = block_krylov(lambda block: matrix @ block, start, 3, below(1e-8))
    assert_allclose(found.values, values[:3], rtol=1e-13)
    assert_allclose(np.abs(found.vectors.T @ axes[:, :3]), np.eye(3), atol=1e-7)


def test_a_start_in_single_precision_gives_pairs_in_single_precision(rng):
    values = np.r_[10.0, 8.0, 6.0, np.linspace(1.0, 0.1, 57)]
    matrix, axes = with_spectrum(rng, values)
    single = matrix.astype(np.float32)
    start = rng.standard_normal((60, 5)).astype(np.float32)
    found = block_krylov(lambda block: single @ block, start, 3, below(1e-5))
    assert found.finished
    assert found.vectors.dtype == np.float32
    assert_allclose(found.values, values[:3], rtol=1e-5)
    assert_allclose(np.abs(found.vectors.T @ axes[:, :3]), np.eye(3), atol=1e-4)
