"""One suite over every form that rows with missing cells can take: the sums must not tell them apart."""

from functools import cache, partial, reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from oracles import dense_regression, punched
from probpca.blocks import Block, observe
from probpca.blocks.cells import FORMS
from probpca.learning.em import e_step as home
from probpca.learning.em.e_step import expect
from probpca.models import LinearGaussian
from probpca.statistics import ColumnSummary

N, D, Q = 100, 26, 2
RNG = np.random.default_rng(11)
SHARES = [0.0, 0.05, 0.3, 0.6, 0.95]
CENTRE = np.round(8 * RNG.standard_normal(D)) / 8
MODEL = LinearGaussian(CENTRE + 0.3 * RNG.standard_normal(D), RNG.standard_normal((D, Q)), 0.4)
FACTORS = LinearGaussian(MODEL.mean, MODEL.loadings, np.geomspace(0.01, 10.0, D))
WEIGHTS = {"once": None, "fractions": RNG.uniform(0.1, 3.0, N), "some zero": RNG.integers(0, 4, N).astype(float)}


def table(share):
    """Numbers that float32 holds exactly, zeros among them; ten complete rows, and a pattern that ten rows share."""
    rng = np.random.default_rng(int(100 * share))
    x = punched(rng, rng.integers(-20, 20, (N, D)) / 8, share)
    x[:10] = rng.integers(-20, 20, (10, D)) / 8
    x[10:20] = np.where(np.isnan(x[20]), np.nan, x[:10])
    x[10:20, 4] = np.nan
    return x


@pytest.fixture(params=SHARES)
def share(request):
    return request.param


@pytest.fixture
def x(share):
    return table(share)


@cache
def definition(share, name, model=MODEL):
    """What the sums are by definition: slow, and wanted again and again."""
    return dense_regression(model, table(share), WEIGHTS[name])


@pytest.fixture(params=[0.0, np.inf], ids=["from sums", "from residuals"])
def route(request, monkeypatch):
    """Each of the two ways in which squares are summed."""
    monkeypatch.setattr(home, "CLEAR", request.param)


def stored(x, *, but=None):
    """A sparse matrix of the observed cells, zeros among them, or of all cells but those equal to ``but``."""
    keep = ~np.isnan(x) if but is None else x != but
    matrix = sparse.csr_array(keep.astype(x.dtype))
    matrix.data = x[keep]
    return matrix


def assert_same(found, wanted, tol=1e-10):
    names = wanted if isinstance(wanted, dict) else {name: getattr(wanted, name) for name in wanted.__slots__}
    for name, value in names.items():
        scale = max(np.abs(value).max(), 1.0)
        assert_allclose(getattr(found, name), value, rtol=tol, atol=tol * scale, err_msg=name)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("form", [None, *FORMS])
@pytest.mark.parametrize("name", WEIGHTS)
def test_every_form_gives_the_sums_of_their_definition(x, share, form, name):
    found = expect(MODEL, observe(Block(x, WEIGHTS[name]), CENTRE, form=form))
    assert_same(found, definition(share, name))


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("form", [None, *FORMS])
@pytest.mark.parametrize("name", WEIGHTS)
def test_every_form_gives_the_sums_with_a_noise_variance_for_each_feature(x, share, form, name):
    found = expect(FACTORS, observe(Block(x, WEIGHTS[name]), CENTRE, form=form))
    assert_same(found, definition(share, name, FACTORS))
    assert_allclose(found.cells, found.counts.sum())


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("form", [None, *FORMS])
def test_single_precision_cells_give_the_same_sums(x, form):
    single, double = (expect(MODEL, observe(Block(x.astype(t)), CENTRE, form=form)) for t in (np.float32, np.float64))
    assert_same(single, double)


def test_both_ways_to_sum_squares_agree(x, monkeypatch):
    found = []
    for clear in (0.0, np.inf):
        monkeypatch.setattr(home, "CLEAR", clear)
        found.append(expect(MODEL, observe(Block(x), CENTRE)))
    assert_same(*found)


def test_the_way_is_chosen_by_the_share_of_noise(x, monkeypatch):
    ways = []
    for name in ("_from_sums", "_from_residuals"):
        monkeypatch.setattr(
            home, name, partial(lambda call, name, *rest: ways.append(name) or call(*rest), getattr(home, name), name)
        )
    for noise in (1.0, 1e-9):
        expect(LinearGaussian(MODEL.mean, MODEL.loadings, noise), observe(Block(x), CENTRE))
    assert set(ways) == {"_from_sums", "_from_residuals"}
    assert ways == sorted(ways, reverse=True)


@pytest.mark.parametrize("form", [None, *FORMS])
def test_complete_rows_give_the_sums_of_the_complete_formulas(form):
    x = table(0.0)[:10]
    found, wanted = expect(MODEL, observe(Block(x), CENTRE, form=form)), expect(MODEL, Block(x))
    assert_allclose(found.gram, np.broadcast_to(wanted.gram, found.gram.shape), rtol=1e-10, atol=1e-10)
    assert_allclose(found.counts, np.broadcast_to(wanted.counts, found.counts.shape))
    names = {name: getattr(wanted, name) for name in wanted.__slots__ if name not in ("gram", "counts")}
    assert_same(found, names)


@pytest.mark.parametrize("form", [None, *FORMS])
@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_cells_that_a_sparse_matrix_does_not_store_can_be_missing(x, form, weight):
    thin = Block(stored(x), weight, unstored_missing=True)
    assert_same(expect(MODEL, observe(thin, CENTRE, form=form)), expect(MODEL, observe(Block(x, weight), CENTRE)))


@pytest.mark.parametrize("form", [None, *FORMS])
def test_cells_that_a_sparse_matrix_does_not_store_are_zeros_otherwise(x, form):
    x[(np.abs(x) < 1) | (RNG.random(x.shape) < 0.5)] = 0.0
    thin = Block(stored(x, but=0.0))
    assert np.isnan(thin.values.data).any() == np.isnan(x).any()
    assert_same(expect(MODEL, observe(thin, CENTRE, form=form)), expect(MODEL, observe(Block(x), CENTRE)))


def test_a_thin_sparse_matrix_with_stored_nan_is_the_table_without_those_cells():
    x = table(0.95)[20:]
    matrix = stored(x)
    unlucky = RNG.random(matrix.data.size) < 0.2
    full = np.flatnonzero(np.diff(matrix.indptr) > 1)
    unlucky &= np.isin(np.repeat(np.arange(len(x)), np.diff(matrix.indptr)), full)
    unlucky[matrix.indptr[full]] = False  # every row keeps a cell
    rows = np.repeat(np.arange(len(x)), np.diff(matrix.indptr))
    x[rows[unlucky], matrix.indices[unlucky]] = matrix.data[unlucky] = np.nan
    assert unlucky.any()
    assert_same(expect(MODEL, observe(Block(matrix, unstored_missing=True), CENTRE)), dense_regression(MODEL, x))


def precisions(x):
    return RNG.uniform(0.2, 4.0, x.shape) * (RNG.random(x.shape) < 0.9)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_precisions_divide_the_noise_cell_by_cell(x, weight):
    omega = precisions(x)
    found = expect(MODEL, observe(Block(x, weight, omega), CENTRE))
    assert_same(found, dense_regression(MODEL, x, weight, omega))


@pytest.mark.usefixtures("route")
def test_precisions_of_stored_cells_do_so_too(x):
    x = x[~np.isnan(x).all(axis=1)]
    omega = precisions(x)
    omega[np.arange(len(x)), np.isnan(x).argmin(axis=1)] = 1.5  # every row keeps a cell
    thin = Block(stored(x), None, omega[~np.isnan(x)], unstored_missing=True)
    assert_same(expect(MODEL, observe(thin, CENTRE)), dense_regression(MODEL, x, None, omega))


def test_precision_zero_is_a_missing_cell(x):
    gone = RNG.random(x.shape) < 0.3
    with_zero = observe(Block(x, None, np.where(gone, 0.0, 1.0)), CENTRE)
    assert_same(expect(MODEL, with_zero), expect(MODEL, observe(Block(np.where(gone, np.nan, x)), CENTRE)))


def test_precision_one_changes_nothing(x):
    ones = observe(Block(x, None, np.ones(x.shape)), CENTRE)
    assert_same(expect(MODEL, ones), expect(MODEL, observe(Block(x), CENTRE)))


@given(cuts=st.lists(st.integers(0, N), min_size=1, max_size=4), share=st.sampled_from(SHARES), weighted=st.booleans())
@settings(max_examples=15)
def test_where_the_rows_are_cut_does_not_matter(cuts, share, weighted):
    block = Block(table(share), WEIGHTS["some zero"] if weighted else None)
    blocks = [block.take(slice(a, b)) for a, b in pairwise([0, *sorted(cuts), N])]
    merged = reduce(lambda left, right: left.merge(right), [expect(MODEL, observe(b, CENTRE)) for b in blocks])
    assert_same(merged, expect(MODEL, observe(block, CENTRE)))
    columns = reduce(lambda left, right: left.merge(right), map(ColumnSummary.of, blocks))
    assert_same(columns, ColumnSummary.of(block))


@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
def test_precisions_are_cut_with_their_rows(x, thin):
    omega = precisions(x)
    omega[np.arange(N), np.isnan(x).argmin(axis=1)] = 1.5  # every row keeps a cell
    block = Block(stored(x), None, omega[~np.isnan(x)], unstored_missing=True) if thin else Block(x, None, omega)
    blocks = [block.take(slice(a, b)) for a, b in pairwise([0, 7, 8, 61, N])]
    merged = reduce(lambda left, right: left.merge(right), [expect(MODEL, observe(b, CENTRE)) for b in blocks])
    assert_same(merged, expect(MODEL, observe(block, CENTRE)))
    columns = reduce(lambda left, right: left.merge(right), map(ColumnSummary.of, blocks))
    assert_same(columns, ColumnSummary.of(block))


def test_the_centre_is_of_no_consequence(x):
    here, there = (expect(MODEL, observe(Block(x), centre)) for centre in (CENTRE, CENTRE + 3.0))
    assert_same(here, there, 1e-9)


def test_a_row_of_weight_zero_vanishes(x):
    w = WEIGHTS["some zero"]
    weighted, without = observe(Block(x, w), CENTRE), observe(Block(x[w > 0], w[w > 0]), CENTRE)
    assert_same(expect(MODEL, weighted), expect(MODEL, without))


def test_a_weight_is_a_repeated_row(x):
    w = WEIGHTS["some zero"]
    repeated = observe(Block(np.repeat(x, w.astype(int), axis=0)), CENTRE)
    assert_same(expect(MODEL, observe(Block(x, w), CENTRE)), expect(MODEL, repeated))


def test_rows_with_nothing_observed_add_nothing(x):
    padded = np.vstack([np.full((7, D), np.nan), x, np.full((70, D), np.nan)])
    assert_same(expect(MODEL, observe(Block(padded), CENTRE)), expect(MODEL, observe(Block(x), CENTRE)))
    nothing = expect(MODEL, observe(Block(padded[:7]), CENTRE))
    assert_same(nothing.merge(expect(MODEL, observe(Block(x), CENTRE))), expect(MODEL, observe(Block(x), CENTRE)))


def columns_of(x, w, omega):
    """The summary of each column from its definition."""
    seen = ~np.isnan(x) & (omega > 0)
    some = seen.any(axis=1)
    sums = {"total_weight": w[some].sum(), "observed": w @ seen, "precision": w @ (seen * omega)}
    mean, squares = np.zeros(D), np.zeros(D)
    for j in np.flatnonzero(sums["precision"]):
        cells, weight = x[seen[:, j], j], (w * omega[:, j])[seen[:, j]]
        mean[j] = np.average(cells, weights=weight)
        squares[j] = weight @ (cells - mean[j]) ** 2
    return {**sums, "mean": mean, "squares": squares}


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("precise", [False, True], ids=["alike", "precisions"])
def test_columns_are_summarised_by_their_observed_cells(x, weight, precise):
    omega = precisions(x) if precise else None
    wanted = columns_of(x, np.ones(N) if weight is None else weight, np.ones(x.shape) if omega is None else omega)
    assert_same(ColumnSummary.of(Block(x, weight, omega)), wanted)
    thin = Block(stored(x), weight, None if omega is None else omega[~np.isnan(x)], unstored_missing=True)
    assert_same(ColumnSummary.of(thin), wanted)


def test_columns_of_a_sparse_table_with_zeros_are_those_of_the_dense_one(x):
    x[np.abs(x) < 1] = 0.0
    for weight in WEIGHTS.values():
        assert_same(ColumnSummary.of(Block(stored(x, but=0.0), weight)), ColumnSummary.of(Block(x, weight)))


def test_columns_far_from_zero_keep_their_digits():
    x = table(0.3)
    near, far = ColumnSummary.of(Block(x)), ColumnSummary.of(Block(x + 2.0**30))
    assert_allclose(far.squares, near.squares, rtol=1e-9)
    assert_allclose(far.mean - 2.0**30, near.mean, atol=1e-6)
