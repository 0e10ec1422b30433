"""Data at the edge: too few rows, too few directions, columns that do not move."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from oracles import dense_covariance, precise_log_likelihood, spiked_rows
from probpca import PPCA, DataError, ShapeError
from probpca.learning import Settings, Status, fit_ppca
from probpca.sources import open_source

REGIMES = ["covariance", "gram", "krylov", "svd"]
ITERATIVE = ["em", "px_em", "em_zero_noise", "gradient"]
FLOOR = 1e-12  # of the mean variance, as the status says


def fit(x, q, solver="auto", tol=1e-9, max_iter=3000):
    return fit_ppca(open_source(x), q, Settings(solver, tol, max_iter), np.random.default_rng(0))


def rows_of_rank(rng, n, d, rank):
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + 5


@pytest.mark.parametrize("solver", [*REGIMES, "auto", "em", "px_em", "em_zero_noise"])
@pytest.mark.parametrize(
    ("n", "d", "rank", "q"),
    [(30, 8, 2, 2), (30, 8, 2, 4), (4, 10, 3, 3), (3, 10, 3, 5), (2, 6, 1, 1), (2, 6, 1, 5)],
)
def test_rows_that_are_explained_completely_end_at_the_floor(rng, solver, n, d, rank, q):
    x = rows_of_rank(rng, n, d, rank)
    found = fit(x, q, solver, tol=1e-3)
    assert found.model.n_components == q
    assert np.isfinite(found.log_likelihood)
    assert found.status is Status.NOISE_COLLAPSED
    assert not found.status.converged
    assert_allclose(found.model.noise_variance, FLOOR * x.var(axis=0).mean(), rtol=1.0)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize(("n", "d", "q"), [(4, 10, 3), (3, 10, 5), (2, 6, 5)])
def test_no_more_rows_than_components_plus_one_is_always_such_a_case(rng, regime, n, d, q):
    x = rng.standard_normal((n, d))
    found = fit(x, q, regime)
    assert found.status is Status.NOISE_COLLAPSED
    assert found.model.loadings.shape == (d, q)
    assert_allclose(found.log_likelihood, precise_log_likelihood(found.model, x).sum(), rtol=1e-5)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize(("n", "d"), [(50, 6), (20, 5)])
def test_one_component_less_than_features_fits_any_gaussian(rng, regime, n, d):
    x = rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
    assert_allclose(dense_covariance(fit(x, d - 1, regime).model), np.cov(x.T, ddof=0), atol=1e-8)


@pytest.mark.parametrize("solver", ["auto", *REGIMES, *ITERATIVE])
def test_constant_columns_are_given_the_noise_and_no_loading(rng, solver):
    x = spiked_rows(rng, 60, 8, 2)
    x[:, [1, 5]] = 7.0
    found = fit(x, 2, solver)
    assert_allclose(found.model.mean[[1, 5]], 7.0)
    assert_allclose(found.model.loadings[[1, 5]], 0.0, atol=1e-4)
    assert found.status.converged


@pytest.mark.parametrize("regime", REGIMES)
def test_tied_eigenvalues_leave_the_likelihood_unique(regime):
    d, value = 8, 4.0
    x = np.sqrt(d * value) * np.vstack([np.eye(d), -np.eye(d)])  # S = value * I
    found = fit(x, 3, regime)
    assert_allclose(dense_covariance(found.model), value * np.eye(d), atol=1e-9 * value)
    assert_allclose(found.log_likelihood, -0.5 * len(x) * d * (np.log(2 * np.pi * value) + 1), rtol=1e-12)


@pytest.mark.parametrize("solver", ["auto", "krylov", "em", "gradient"])
@pytest.mark.parametrize("q", [5, 6, 100])
def test_as_many_components_as_features_are_refused_with_a_hint(rng, solver, q):
    with pytest.raises(ShapeError, match=rf"between 1 and n_features - 1 = 4; got {q}(.|\n)*Hint: n_components=4"):
        fit(rng.standard_normal((20, 5)), q, solver)


@pytest.mark.parametrize("solver", ["auto", "em"])
@pytest.mark.parametrize("q", [0, -1])
def test_no_components_are_refused(rng, solver, q):
    with pytest.raises(ShapeError, match=f"got {q}"):
        fit(rng.standard_normal((20, 5)), q, solver)


SOLVERS = ["auto", *REGIMES, *ITERATIVE]


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_row_is_refused(rng, solver):
    with pytest.raises(DataError, match="at least 2 rows"):
        fit(rng.standard_normal((1, 5)), 2, solver)


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_column_is_refused(rng, solver):
    with pytest.raises(ShapeError, match="at least 2; got 1"):
        fit(rng.standard_normal((9, 1)), 1, solver)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e8])
def test_identical_rows_are_refused(solver, value):
    with pytest.raises(DataError, match="all rows are identical"):
        fit(np.full((10, 4), value), 2, solver)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (-np.inf, r"infinity \(1 cell\), first in column 3"),
        (1e200, r"too large(.|\n)*Hint: change the units"),
    ],
    ids=["infinity", "huge"],
)
def test_cells_that_cannot_be_used_are_named(rng, solver, cell, message):
    x = rng.standard_normal((40, 5))
    x[7, 3] = cell
    with pytest.raises(DataError, match=message):
        fit(x, 2, solver)


@pytest.mark.parametrize("solver", ["closed_form", "covariance", "gram", "krylov", "svd", "em_zero_noise"])
def test_solvers_for_complete_rows_say_so(rng, solver):
    x = rng.standard_normal((40, 5))
    x[7, 3] = np.nan
    why = "cells are missing here"
    with pytest.raises(DataError, match=rf"solver '{solver}' needs complete rows; {why}.\nHint: solver='auto'"):
        fit(x, 2, solver)


@pytest.mark.parametrize(
    "options", [{"solver": "closed_form"}, {"bias_correction": True}, {"n_components": "evidence"}]
)
def test_methods_for_complete_rows_say_what_rows_lack(rng, options):
    x = rng.standard_normal((40, 5))
    weight = rng.uniform(0.5, 2.0, x.shape)
    ppca = PPCA(**{"n_components": 2, **options})
    with pytest.raises(DataError, match=r"needs complete rows.*; cells have weights here\.\nHint"):
        ppca.fit(x, cell_weight=weight)
    weight[3, 1] = 0.0
    with pytest.raises(DataError, match=r"needs complete rows.*; cells are missing here\.\nHint"):
        ppca.fit(x, cell_weight=weight)
    with pytest.raises(DataError, match=r"needs complete rows.*; cells that are not stored count as missing here\."):
        ppca.set_params(missing="unstored").fit(sparse.csr_array(x))


def test_zero_noise_em_finds_the_rank_of_any_such_rows():
    for seed in (186, 20240229, *range(30)):
        x = rows_of_rank(np.random.default_rng(seed), 30, 8, 2)
        assert fit(x, 4, "em_zero_noise", tol=1e-3).status is Status.NOISE_COLLAPSED
