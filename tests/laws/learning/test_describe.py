"""The first pass over a table finds whether it is complete, as a value, and wastes nothing."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from oracles import spiked_rows
from probpca import DataError
from probpca.blocks import Block
from probpca.learning import Settings, fit_ppca
from probpca.learning.complete.closed_form import first_pass
from probpca.learning.components import Count
from probpca.learning.describe import describe
from probpca.learning.fit import plan
from probpca.learning.missing.fit import fit_missing
from probpca.sources import open_source
from probpca.statistics import ColumnSummary, Moments, Root

SOLVERS = ("covariance", "gram", "krylov", "svd")


def described(rows, solver="auto", **options):
    source = open_source(rows, **options)
    return describe(source, np.random.default_rng(0), partial(first_pass, Count(1), Settings(solver)))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, np.float32], ids=["dense", "sparse", "single"])
def test_complete_rows_are_known_as_such(rng, solver, kind):
    table = described(kind(spiked_rows(rng, 40, 6, 2)), solver)
    assert table.complete
    assert table.sample is None


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("row", [0, 39, 1500], ids=["first", "early", "late"])
def test_a_missing_cell_is_found_wherever_it_is(rng, solver, row):
    x = spiked_rows(rng, 2000, 6, 2)
    x[row, 3] = np.nan
    table = described(x, solver)
    assert not table.complete
    assert_allclose(table.summarise().mean, np.nanmean(x, axis=0))
    assert_allclose(table.summarise().variance, np.nanvar(x, axis=0))
    assert plan(table, Settings()) is fit_missing


@pytest.mark.parametrize("solver", SOLVERS)
def test_precisions_and_cells_that_are_not_stored_are_not_complete(rng, solver):
    x = spiked_rows(rng, 40, 6, 2)
    assert not described(x, solver, cell_weight=np.full(x.shape, 2.0)).complete
    assert not described(sparse.csr_array(x), solver, unstored_missing=True).complete


@pytest.mark.parametrize(
    ("solver", "kind"), [("covariance", Moments), ("svd", Root), ("krylov", ColumnSummary)], ids=str
)
def test_the_first_pass_sums_what_the_solver_begins_with(rng, solver, kind):
    assert isinstance(described(spiked_rows(rng, 40, 6, 2), solver).sums, kind)


@pytest.mark.parametrize("n", [40, 40_000])
def test_complete_rows_are_read_once(rng, n):
    reads = []
    x = spiked_rows(rng, n, 6, 2)
    source = replace(open_source(x, n_jobs=1), prepare=lambda block: reads.append(block.n_rows) or block)
    fit_ppca(source, 2, Settings("covariance"), rng)
    assert sum(reads) == n


def test_a_late_missing_cell_costs_no_product_of_later_rows(rng, monkeypatch):
    """Rows after the first missing cell of a block are not multiplied in vain."""
    x = spiked_rows(rng, 40_000, 6, 2)
    x[1200, 0] = np.nan
    products = []
    monkeypatch.setattr(np, "matmul", lambda a, b, out: products.append(len(b)) or np.dot(a, b, out=out))
    moments = Moments.of(Block(x))
    assert not moments.complete
    assert sum(products) <= 16_384  # the first piece is the last


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("solver", SOLVERS)
def test_values_that_cannot_be_used_are_refused_after_one_more_pass(rng, value, solver):
    x = spiked_rows(rng, 40, 6, 2)
    x[30, 2] = value
    with pytest.raises(DataError, match=r"infinity \(1 cell\), first in column 2|too large"):
        described(x, solver)


def test_single_precision_that_overflows_is_summed_in_double(rng):
    x = (1e25 * spiked_rows(rng, 60, 5, 2)).astype(np.float32)
    found, wanted = (fit_ppca(rows, 2, Settings("covariance"), rng) for rows in (x, x.astype(np.float64)))
    assert_allclose(found.model.loadings, wanted.model.loadings, rtol=1e-6)


def test_rows_can_be_anything_that_opens_and_defaults_are_enough(rng):
    x = spiked_rows(rng, 50, 5, 2)
    assert_allclose(fit_ppca(x, 2).log_likelihood, fit_ppca(open_source(x), 2, Settings(), rng).log_likelihood)
    assert fit_ppca(x).rule == "parallel analysis"


@pytest.mark.parametrize("holes", [False, True])
def test_a_change_of_units_is_the_same_for_every_source(rng, holes, tmp_path):
    x = spiked_rows(rng, 60, 5, 2) * np.geomspace(1e-3, 1e3, 5)
    x[rng.random(x.shape) < 0.1 * holes] = np.nan
    np.save(tmp_path / "x.npy", x)
    fit = partial(fit_ppca, n_components=2, settings=Settings(tol=1e-9), standardize=True)
    found = [fit(rows).log_likelihood for rows in (x, tmp_path / "x.npy", iter([x[:20], x[20:]]))]
    assert_allclose(found, found[0], rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-160, 1e-155, 1e-147, 1e147, 1e153])
@pytest.mark.parametrize("solver", [*SOLVERS, "auto"])
@pytest.mark.parametrize("holes", [False, True])
def test_units_in_which_variances_lose_digits_are_refused_by_name(rng, unit, solver, holes):
    x = unit * spiked_rows(rng, 40, 6, 2)
    if holes:
        x[3, 2] = np.nan
    with pytest.raises(DataError, match=r"(variance of a column|squared values)(.|\n)*Hint: change the units"):
        described(x, solver)


@pytest.mark.parametrize("unit", [1e-140, 1e140])
@pytest.mark.parametrize("holes", [False, True])
def test_units_that_are_not_refused_do_not_matter(rng, unit, holes):
    x = spiked_rows(rng, 40, 6, 2)
    if holes:
        x[rng.random(x.shape) < 0.1] = np.nan
    plain, found = (fit_ppca(c * x, 2, rng=np.random.default_rng(0)).model for c in (1.0, unit))
    assert_allclose(found.loadings / unit, plain.loadings, rtol=1e-6)
    assert_allclose(found.noise_variance / unit**2, plain.noise_variance, rtol=1e-8)
