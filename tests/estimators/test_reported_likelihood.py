"""The likelihood that a fit reports is that of its own model for the rows it was fitted to."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from oracles import dense_observed_log_likelihood, dense_variational_bound
from probpca import PPCA, BayesianPCA, LinearDynamicalSystem, PPCAImputer
from probpca.blocks import Block
from probpca.inference import log_likelihood
from probpca.learning.settings import SOLVERS

INCOMPLETE = ("auto", "px_em", "em", "gradient", "incremental")
KINDS = ("plain", "constant column", "far from zero", "low rank")
SHAPES = {"tall": (60, 6), "wide": (8, 20), "very tall": (300, 4)}


def table(kind, shape, dtype=np.float64, share=0.0):
    rng = np.random.default_rng(1)
    n, d = SHAPES[shape]
    x = 3 * rng.standard_normal((n, 2)) @ rng.standard_normal((2, d)) + 5
    if kind != "low rank":
        x += 0.3 * rng.standard_normal((n, d))
    if kind == "constant column":
        x[:, 1] = 7.3
    if kind == "far from zero":
        x += 1e5
    x = x.astype(dtype)
    x[rng.random(x.shape) < share] = np.nan
    return x


def weights_of(name, x):
    rng = np.random.default_rng(2)
    row = rng.choice([0.0, 0.5, 1.0, 2.0], len(x)) if name == "rows" else None
    cell = rng.uniform(0.2, 5, x.shape) if name == "cells" else None
    return row, cell


def fitted(estimator, *args, **weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(*args, **weights)


def likelihood_of_rows(ppca, x, row=None, cell=None):
    """Sum of w log p(x) under the fitted model, with the weights of the fit."""
    row = np.ones(x.shape[0]) if row is None else row
    if cell is None:
        return float(row @ ppca.score_samples(x))
    scale = np.ones(x.shape[1]) if ppca.scale_ is None else ppca.scale_
    model = ppca.model_.rescale(1 / scale).isotropic()  # one noise variance, as cells with precisions need
    found = log_likelihood(model, Block(x / scale, precision=cell))
    return float(row @ (found - (~np.isnan(x) & (cell > 0)) @ np.log(scale)))


def assert_reported(ppca, x, tolerance=1e-8, **weights):
    wanted, size = likelihood_of_rows(ppca, x, **weights), x.shape[0] * x.shape[1]
    assert abs(ppca.log_likelihood_ - wanted) <= tolerance * max(abs(wanted), size, 1.0)
    assert ppca.trace_[-1] == ppca.log_likelihood_


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
def test_of_complete_rows(kind, shape, dtype, standardize, solver):
    x = table(kind, shape, dtype)
    for name in ("none", "rows"):
        row, _ = weights_of(name, x)
        ppca = PPCA(2, solver=solver, standardize=standardize, random_state=0, max_iter=200)
        assert_reported(fitted(ppca, x, sample_weight=row), x, row=row)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("weighted", ["none", "rows", "cells"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_of_incomplete_and_weighted_rows(kind, shape, dtype, standardize, weighted, share):
    x = table(kind, shape, dtype, share)
    row, cell = weights_of(weighted, x)
    for solver in INCOMPLETE:
        ppca = PPCA(2, solver=solver, standardize=standardize, random_state=0, max_iter=100)
        assert_reported(fitted(ppca, x, sample_weight=row, cell_weight=cell), x, row=row, cell=cell)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("missing", ["nan", "unstored"])
def test_of_sparse_rows(kind, dtype, standardize, missing):
    x = table(kind, "tall", dtype)
    x[np.random.default_rng(3).random(x.shape) < 0.4] = 0
    x = sparse.csr_array(x)
    for solver in ("auto", "krylov", "svd", "px_em", "gradient") if missing == "nan" else INCOMPLETE:
        ppca = PPCA(2, solver=solver, standardize=standardize, missing=missing, random_state=0)
        assert_reported(fitted(ppca, x), x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_of_files_batches_and_streams(tmp_path, kind, dtype, standardize, share):
    x = table(kind, "tall", dtype, share)
    np.save(tmp_path / "x.npy", x)
    parts = np.array_split(x, 3)
    for rows in (tmp_path / "x.npy", parts, iter(parts)):
        assert_reported(fitted(PPCA(2, standardize=standardize, random_state=0), rows), x)
    if share and standardize:
        return  # partial_fit does not take this
    ppca = PPCA(2, standardize=standardize, random_state=0)
    for part in parts:
        ppca.partial_fit(part)
    # Sums of squares keep three digits of the rounding errors of float32, which are the noise of rows of low rank.
    assert_reported(ppca, x, 1e-3 if kind == "low rank" and dtype is np.float32 else 1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_components", [2, None])
def test_after_bias_correction(kind, shape, solver, n_components):
    x = table(kind, shape)
    for standardize in (False, True):
        ppca = PPCA(n_components, solver=solver, standardize=standardize, bias_correction=True, random_state=0)
        assert_reported(fitted(ppca, x), x)


@pytest.mark.parametrize("share", [0.0, 0.1])
@pytest.mark.parametrize("n_components", [None, "bic", "cv", "ard", 0.9])
def test_with_a_chosen_number_of_components(share, n_components):
    for kind in KINDS:
        x = table(kind, "tall", share=share)
        assert_reported(fitted(PPCA(n_components, random_state=0), x), x)


@pytest.mark.parametrize("size", [(4000, 100), (400, 1000), (700, 700)])
@pytest.mark.parametrize("solver", ["auto", "krylov"])
@pytest.mark.parametrize("offset", [0.0, 2.5, 1000.0])
def test_of_large_tables_in_single_precision(size, solver, offset):
    rng = np.random.default_rng(4)
    x = 0.4 * rng.standard_normal((size[0], 3)) @ rng.standard_normal((3, size[1])) + rng.standard_normal(size) + offset
    x = x.astype(np.float32)
    assert_reported(PPCA(3, solver=solver, random_state=0).fit(x), x)


@pytest.mark.parametrize("seed", [20791, 20028, 20288, 20814, 20987])
def test_digits_are_kept_where_the_noise_collapses(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 50)), int(rng.integers(3, 9))
    q = d - 1
    x = 1e3 * (rng.standard_normal((n, q)) @ rng.standard_normal((q, d)) + 1)
    x[rng.random(x.shape) < 0.5] = np.nan
    for rows in (x, x.astype(np.float32)):
        ppca = fitted(PPCA(q, random_state=0), rows)
        assert_reported(ppca, rows)


def test_the_likelihood_of_rows_is_that_of_dense_gaussians():
    x = table("plain", "tall", share=0.3)
    _, cell = weights_of("cells", x)
    ppca = PPCA(2, random_state=0).fit(x, cell_weight=cell)
    wanted = dense_observed_log_likelihood(ppca.model_, x, cell).sum()
    np.testing.assert_allclose(ppca.log_likelihood_, wanted, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("weighted", ["none", "rows", "cells"])
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_the_bound_of_bayesian_pca_is_that_of_its_posterior(kind, shape, standardize, weighted, share):
    x = table(kind, shape, share=share)
    row, cell = weights_of(weighted, x)
    bayes = fitted(BayesianPCA(3, standardize=standardize, random_state=0), x, sample_weight=row, cell_weight=cell)
    belief, scale = bayes.belief_, np.ones(x.shape[1]) if bayes.scale_ is None else bayes.scale_
    scaled = belief.rescale(1 / scale) if standardize else belief
    observed = (np.ones(len(x)) if row is None else row) @ ~np.isnan(x)
    units = (observed - (observed > 0)) @ np.log(scale)  # of the cells, and of the flat prior of the means
    wanted = dense_variational_bound(scaled, x / scale, row, cell) - units
    assert abs(bayes.lower_bound_ - wanted) <= 1e-8 * max(abs(wanted), x.size)
    assert bayes.trace_[-1] == bayes.lower_bound_


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_an_imputer_reports_that_of_its_inner_model(share):
    x = table("plain", "tall", share=share)
    row, _ = weights_of("rows", x)
    assert_reported(PPCAImputer(2, random_state=0).fit(x, sample_weight=row).estimator_, x, row=row)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("n_components", [1, 2])
def test_a_dynamical_system_reports_that_of_its_filter(kind, dtype, share, n_components):
    x = table(kind, "tall", dtype, share)
    system = fitted(LinearDynamicalSystem(n_components, random_state=0, max_iter=30), x)
    wanted = system.log_likelihood(x)
    assert abs(system.log_likelihood_ - wanted) <= 1e-8 * max(abs(wanted), x.size)
    assert system.trace_[-1] == system.log_likelihood_
