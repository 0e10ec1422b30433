"""Four forms of the same cells: the same products, each row in one group, each group in the form that suits it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from oracles import punched
from probpca.blocks import Block, observe
from probpca.blocks.cells import FORMS, DenseResidual, FormSettings, Holes, MaskedCells, Patterns, Stored, StoredCells

COMMON = FormSettings().common
N, D = 90, 11
SHARES = [0.0, 0.05, 0.3, 0.6, 0.95]
CENTRE = np.arange(D) / 8
NEAR = {"rtol": 1e-12, "atol": 1e-12}
ORDERS = np.ascontiguousarray, np.asfortranarray
KINDS = {"patterns": Patterns, "holes": Holes, "stored": StoredCells, "masked": MaskedCells}


@pytest.fixture(params=SHARES)
def x(request, rng):
    """Numbers that float32 holds exactly, with missing cells; the last rows have two patterns."""
    table = punched(rng, rng.integers(-40, 40, (N, D)) / 8, request.param)
    table[-20:, 3] = np.nan
    table[-20:, :3] = table[-20:, 4:] = 1.25
    table[-10:, 5] = np.nan
    return table


@pytest.fixture(params=[np.float64, np.float32])
def dtype(request):
    return request.param


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


def whole(observed):
    """The one group of a small table, and its rows."""
    (group,) = observed.groups
    return group, group.cells.ready(), group.index


def dense(x, rows, centre=CENTRE):
    """Omega and omega y from the definition: (b, d) each."""
    seen = ~np.isnan(x[rows])
    return seen.astype(float), np.where(seen, x[rows] - centre, 0.0)


def of_rows(cells, per_pattern):
    return per_pattern if cells.pattern is None else per_pattern[:, cells.pattern]


def summed(cells, moments):
    """Moments of rows, summed over the rows of each pattern where there are patterns."""
    if cells.pattern is None:
        return moments
    return np.stack([moments[:, cells.pattern == k].sum(axis=1) for k in range(cells.pattern.max() + 1)], axis=1)


def sums(operator, moments):
    """Added to what is there."""
    out = np.full((len(moments), D), 0.5)
    operator.add_sums(moments, out)
    return out - 0.5


def test_products_from_features_to_rows_are_those_of_dense_tables(rng, x, dtype, form):
    group, cells, rows = whole(observe(Block(x.astype(dtype)), CENTRE, form=form))
    omega, y = dense(x, rows)
    table = rng.standard_normal((4, D))
    assert isinstance(group.cells, KINDS[form])
    assert_allclose(of_rows(cells, cells.mask.products(table)), table @ omega.T, **NEAR)
    assert_allclose(cells.values.products(table), table @ y.T, rtol=1e-12, atol=1e-11)


def test_sums_from_rows_to_features_are_those_of_dense_tables(rng, x, dtype, form):
    group, cells, rows = whole(observe(Block(x.astype(dtype)), CENTRE, form=form))
    omega, y = dense(x, rows)
    moments, w = rng.standard_normal((4, rows.size)), rng.uniform(0.5, 2.0, rows.size)
    assert_allclose(sums(cells.mask, summed(cells, moments)), moments @ omega, rtol=1e-12, atol=1e-11)
    assert_allclose(sums(cells.values, moments), moments @ y, rtol=1e-12, atol=1e-11)
    assert_allclose(cells.square_sums(w), w @ y**2, **NEAR)
    assert_allclose(group.squares, (y**2).sum(axis=0), **NEAR)
    assert_array_equal(group.observed, omega.sum(axis=1))
    assert_array_equal(group.log_precision, 0.0)


def test_large_matrices_are_multiplied_slab_by_slab(rng, x, dtype):
    table = rng.standard_normal((4, D))
    _, cells, rows = whole(observe(Block(x.astype(dtype)), CENTRE, form="masked"))
    moments = rng.standard_normal((4, rows.size))
    asked = cells.mask.products(table), sums(cells.mask, moments), cells.values.products(table)
    stored = observe(Block(x.astype(dtype)), CENTRE, form="masked").groups[0].cells
    mask, values = (replace(m, whole_cells=0, slab_cells=3 * rows.size).ready() for m in (stored.mask, stored.values))
    assert mask.entries.dtype == np.uint8
    for one, other in zip(asked, (mask.products(table), sums(mask, moments), values.products(table)), strict=True):
        assert_allclose(other, one, rtol=1e-12, atol=1e-11)


def test_residuals_are_those_of_the_observed_cells(rng, x, dtype, form):
    _, cells, rows = whole(observe(Block(x.astype(dtype)), CENTRE, form=form))
    omega, y = dense(x, rows)
    left, right = rng.standard_normal((3, D)), rng.standard_normal((3, rows.size))
    rest, w, moments = omega * (y - right.T @ left), rng.random(rows.size), rng.standard_normal((2, rows.size))
    found = cells.residual(left, right)
    assert_allclose(found.dense(), rest, **NEAR)
    assert_allclose(found.row_squares(), (rest**2).sum(axis=1), **NEAR)
    assert_allclose(found.column_squares(w), w @ rest**2, **NEAR)
    assert_allclose(found.sums(moments), moments @ rest, rtol=1e-12, atol=1e-11)


def test_the_order_of_cells_in_memory_does_not_matter(rng, x, dtype, form):
    by_row, by_column = (whole(observe(Block(order(x.astype(dtype))), CENTRE, form=form))[1] for order in ORDERS)
    _, one, rows = whole(observe(Block(np.ascontiguousarray(x)), CENTRE, form=form))
    table, moments = rng.standard_normal((4, D)), rng.standard_normal((4, rows.size))
    for other in (by_row, by_column):
        assert_allclose(other.values.products(table), one.values.products(table), **NEAR)
        assert_allclose(sums(other.values, moments), sums(one.values, moments), rtol=1e-12, atol=1e-11)
        assert_allclose(other.residual(table, moments).dense(), one.residual(table, moments).dense(), **NEAR)


@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
def test_precisions_weigh_masks_values_and_squares(rng, x, thin):
    omega = rng.uniform(0.2, 3.0, x.shape) * (rng.random(x.shape) < 0.8)
    if thin:
        keep = ~np.isnan(x) & (rng.random(x.shape) < 0.12)
        keep[0, 0], x = False, np.where(keep, x, np.nan)
        stored = sparse.csr_array(keep.astype(float))
        stored.data = x[keep]
        block = Block(stored, None, omega[keep], unstored_missing=True)
    else:
        block = Block(x, None, omega)
    omega = np.where(np.isnan(x), 0.0, omega)
    group, cells, rows = whole(observe(block, CENTRE, keep_empty=True))
    assert isinstance(group.cells, StoredCells if thin else MaskedCells)
    y, table, moments = np.nan_to_num(x - CENTRE)[rows], rng.standard_normal((3, D)), rng.random((3, rows.size))
    w, omega = moments[0], omega[rows]
    assert_allclose(cells.mask.products(table), table @ omega.T, **NEAR)
    assert_allclose(cells.values.products(table), table @ (omega * y).T, rtol=1e-12, atol=1e-11)
    assert_allclose(sums(cells.mask, moments), moments @ omega, **NEAR)
    assert_allclose(sums(cells.values, moments), moments @ (omega * y), rtol=1e-12, atol=1e-11)
    assert_allclose(cells.square_sums(w), w @ (omega * y**2), **NEAR)
    assert_allclose(group.log_precision, np.log(np.where(omega > 0, omega, 1.0)).sum(axis=1), **NEAR)
    assert_array_equal(group.observed, np.count_nonzero(omega, axis=1))
    left, right = rng.standard_normal((2, D)), rng.standard_normal((2, rows.size))
    rest = y - right.T @ left
    found = cells.residual(left, right)
    assert_allclose(found.dense(), omega * rest, **NEAR)
    assert_allclose(found.row_squares(), (omega * rest**2).sum(axis=1), **NEAR)
    assert_allclose(found.column_squares(w), w @ (omega * rest**2), **NEAR)


def rows_seen(rng, n, d, count):
    """A table in which ``count`` cells of each row are observed, anywhere."""
    hidden = np.argsort(rng.random((n, d)), axis=1) >= count
    return np.where(hidden, np.nan, rng.standard_normal((n, d)))


WIDE = 80
TABLES = {
    "complete rows": (lambda rng: rng.standard_normal((100, WIDE)), Patterns),
    "few patterns": (lambda rng: np.repeat(rows_seen(rng, 5, WIDE, 30), 2 * COMMON, axis=0), Patterns),
    "few missing": (lambda rng: rows_seen(rng, 100, WIDE, WIDE - 4), Holes),
    "few observed": (lambda rng: rows_seen(rng, 100, WIDE, 4), StoredCells),
    "half observed": (lambda rng: rows_seen(rng, 100, WIDE, 30), MaskedCells),
}


@pytest.mark.parametrize(("table", "kind"), TABLES.values(), ids=TABLES)
def test_a_table_goes_to_the_form_that_suits_it(rng, table, kind):
    x = table(rng)
    (group,) = observe(Block(x), np.zeros(WIDE)).groups
    assert type(group.cells) is kind
    assert_array_equal(np.sort(group.index), np.arange(len(x)))


def test_each_row_of_a_mixed_table_goes_where_its_like_go(rng):
    tables = [(table(rng), kind) for table, kind in TABLES.values()]
    owner = np.concatenate([np.full(len(x), k) for k, (x, _) in enumerate(tables)])
    order = rng.permutation(owner.size)
    x, owner = np.vstack([x for x, _ in tables])[order], owner[order]
    groups = observe(Block(x), np.zeros(WIDE)).groups
    assert_array_equal(np.sort(np.concatenate([group.index for group in groups])), np.arange(len(x)))
    for group in groups:
        assert {tables[k][1] for k in owner[group.index]} == {type(group.cells)}


def test_a_form_is_not_made_for_a_handful_of_rows(rng):
    few = FormSettings().own_rows // 2
    x = np.vstack([rows_seen(rng, few, WIDE, WIDE - 4), rows_seen(rng, few, WIDE, 4), rows_seen(rng, 100, WIDE, 30)])
    assert {type(group.cells) for group in observe(Block(x), np.zeros(WIDE)).groups} == {MaskedCells}


def test_rows_of_one_pattern_are_computed_as_one(rng):
    x = np.repeat(rows_seen(rng, 5, WIDE, 30), COMMON, axis=0)[rng.permutation(5 * COMMON)]
    (group,) = observe(Block(x), np.zeros(WIDE)).groups
    assert group.cells.mask.entries.shape == (WIDE, 5)
    assert (np.diff(group.cells.pattern) >= 0).all()
    assert_array_equal(group.cells.mask.entries[:, group.cells.pattern].T, ~np.isnan(x[group.index]))


def test_two_patterns_with_one_key_are_told_apart(rng):
    def mixed(word):
        key = word * np.uint64(0x9E3779B97F4A7C15)
        return key ^ (key >> np.uint64(29))

    with np.errstate(over="ignore"):
        first, other, last = rng.integers(1, 2**63, 3, dtype=np.uint64)
        words = np.array([[first, last], [other, last ^ mixed(first) ^ mixed(other)]])
    mask = np.unpackbits(words.view(np.uint8), axis=1).astype(bool)  # (2, 128)
    x = np.where(np.tile(mask, (2 * COMMON, 1)), rng.standard_normal((4 * COMMON, 128)), np.nan)
    (group,) = observe(Block(x), np.zeros(128)).groups
    assert isinstance(group.cells, Patterns)
    assert_array_equal(group.cells.mask.entries[:, group.cells.pattern].T, ~np.isnan(x[group.index]))


@pytest.mark.parametrize(("density", "kind"), [(0.05, StoredCells), (0.5, MaskedCells)])
def test_a_sparse_table_stays_sparse_as_long_as_it_is_thin(rng, density, kind):
    values = sparse.random_array((200, 40), density=density, format="csr", random_state=rng)
    groups = observe(Block(values, unstored_missing=True), np.zeros(40)).groups
    assert {type(group.cells) for group in groups} == {kind}
    rows = np.concatenate([group.index for group in groups])
    assert_array_equal(np.sort(rows), np.flatnonzero(np.diff(values.indptr)))


@given(seed=st.integers(0, 2**16), n=st.integers(0, 200), d=st.integers(1, 20), share=st.floats(0.0, 1.0))
@settings(max_examples=40)
@pytest.mark.parametrize("kept", [False, True], ids=["empty rows left out", "empty rows kept"])
def test_every_row_is_in_exactly_one_part(kept, seed, n, d, share):
    x = punched(np.random.default_rng(seed), np.ones((n, d)), share)
    found = observe(Block(x), np.zeros(d), keep_empty=kept)
    rows = np.concatenate([np.empty(0, int), *(group.index for group in found.groups)])
    wanted = np.arange(n) if kept else np.flatnonzero(~np.isnan(x).all(axis=1))
    assert_array_equal(np.sort(rows), wanted)
    assert found.n_rows == n


@pytest.mark.parametrize("form", [None, *FORMS])
@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
def test_rows_with_nothing_observed_are_left_out_unless_asked_for(rng, form, thin):
    x = rows_seen(rng, 150, WIDE, 4)
    x[::3] = np.nan
    values = x
    if thin:
        values = sparse.csr_array((~np.isnan(x)).astype(float))
        values.data = x[~np.isnan(x)]
    for kept, wanted in [(False, np.flatnonzero(np.arange(150) % 3)), (True, np.arange(150))]:
        groups = observe(Block(values, unstored_missing=thin), np.zeros(WIDE), keep_empty=kept, form=form).groups
        assert_array_equal(np.sort(np.concatenate([group.index for group in groups])), wanted)
        for group in groups:
            assert_array_equal(group.observed, (~np.isnan(x[group.index])).sum(axis=1))


@pytest.mark.parametrize("form", [None, *FORMS])
def test_large_blocks_are_cut_into_parts_that_keep_their_rows(rng, form):
    x = rows_seen(rng, 150, WIDE, 30)
    whole_sum = sum(group.squares for group in observe(Block(x), np.zeros(WIDE), form=form).groups)
    settings = FormSettings(group_rows=(4, 16))
    groups = observe(Block(x), np.zeros(WIDE), form=form, settings=settings).groups
    assert len(groups) > 5
    assert_array_equal(np.sort(np.concatenate([group.index for group in groups])), np.arange(150))
    assert_allclose(sum(group.squares for group in groups), whole_sum, rtol=1e-12)


@pytest.mark.parametrize("width", [1, 7, WIDE - 1, WIDE, 100])
def test_slabs_of_features_do_not_matter(rng, width):
    x = rows_seen(rng, 50, WIDE, WIDE - 4)
    rows, wanted = np.arange(50), dense(x, np.arange(50), np.zeros(WIDE))
    settings = FormSettings(slab_features=width)
    (group,) = observe(Block(x), np.zeros(WIDE), form="holes", settings=settings).groups
    by_feature, by_row, out = (
        rng.standard_normal((3, WIDE)),
        rng.standard_normal((2, 50)),
        rng.standard_normal((2, WIDE)),
    )
    assert_allclose(group.cells.mask.products(by_feature), by_feature @ wanted[0].T, **NEAR)
    total = out + by_row @ wanted[0]
    group.cells.mask.add_sums(by_row, out)
    assert_allclose(out, total, **NEAR)
    assert_array_equal(group.observed, wanted[0].sum(axis=1))
    left, right = rng.standard_normal((2, WIDE)), rng.standard_normal((2, rows.size))
    assert_allclose(group.cells.residual(left, right).dense(), wanted[0] * (wanted[1] - right.T @ left), **NEAR)


@pytest.mark.parametrize("form", FORMS)
def test_sums_of_a_feature_that_was_never_observed_are_exactly_zero(rng, form):
    x = rows_seen(rng, 50, WIDE, WIDE - 4)
    x[:, 5] = np.nan
    (group,) = observe(Block(x, rng.random(50)), np.zeros(WIDE), form=form).groups
    out = np.zeros((1, WIDE))
    group.cells.mask.add_sums(summed(group.cells, group.weight[None]), out)
    assert_array_equal(np.flatnonzero(out == 0), [5])
    assert_array_equal(np.flatnonzero(group.counts == 0), [5])


@pytest.mark.parametrize("cells", [1, 100, 2**20])
def test_the_parts_of_a_sparse_product_do_not_matter(rng, cells):
    values = sparse.random_array((20, 40), density=0.1, format="csr", random_state=rng)
    operator = Stored(values, cached_cells=cells)
    by_feature, by_row, out = (
        rng.standard_normal((30, 40)),
        rng.standard_normal((30, 20)),
        rng.standard_normal((30, 40)),
    )
    assert_allclose(operator.products(by_feature), by_feature @ values.toarray().T, **NEAR)
    total = out + by_row @ values.toarray()
    operator.add_sums(by_row, out)
    assert_allclose(out, total, **NEAR)


def test_sparse_tables_are_cut_too(rng):
    values = sparse.random_array((500, 40), density=0.05, format="csr", random_state=rng)
    block = Block(values, rng.random(500), unstored_missing=True)
    whole_sum = observe(block, np.ones(40)).groups[0].squares
    groups = observe(block, np.ones(40), settings=FormSettings(stored_cells=100)).groups
    assert len(groups) > 3
    assert_allclose(sum(group.squares for group in groups), whole_sum, rtol=1e-12)
    sliced = observe(block, np.ones(40), form="masked", settings=FormSettings(sparse_slice=1)).groups
    assert len(sliced) > 3
    assert_array_equal(np.sort(np.concatenate([p.index for p in sliced])), np.flatnonzero(np.diff(values.indptr)))
    assert_allclose(sum(group.squares for group in sliced), whole_sum, rtol=1e-12)


@pytest.mark.parametrize("form", [None, *FORMS])
def test_reweighted_rows_are_rows_of_that_weight(rng, x, form):
    w = rng.integers(0, 4, N).astype(float)
    block, again = (observe(Block(x, weight), CENTRE, form=form) for weight in (None, w))
    for found, wanted in zip(block.reweighted(w).groups, again.groups, strict=True):
        assert_array_equal(found.index, wanted.index)
        assert_array_equal(found.weight, w[found.index])
        assert_allclose(found.squares, wanted.squares, **NEAR)


def test_single_precision_is_stored_and_double_precision_multiplied(rng):
    x = rows_seen(rng, 100, WIDE, 30).astype(np.float32)
    for form in FORMS:
        group, cells, _ = whole(observe(Block(x), np.zeros(WIDE), form=form))
        kept = group.cells.stored if form == "stored" else group.cells.values.entries
        assert kept.dtype == np.float32
        assert cells.values.entries.dtype == np.float64
    assert observe(Block(x), np.zeros(WIDE), form="masked").groups[0].cells.mask.entries.itemsize == 1


@pytest.mark.parametrize("form", [None, *FORMS])
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_deviations_of_single_precision_cells_are_not_rounded(rng, form, kind, offset):
    x = rows_seen(rng, 100, WIDE, 30)
    x = (x + offset + rng.standard_normal(WIDE)).astype(np.float32)
    block, double = (Block(kind(values)) for values in (x, x.astype(np.float64)))
    found = observe(block, np.nanmean(x, axis=0, dtype=np.float64), form=form)
    assert_array_equal(found.centre, found.centre.astype(np.float32))
    wanted = observe(double, found.centre, form=form)
    left, right = rng.standard_normal((3, WIDE)), rng.standard_normal((3, 100))
    for mine, theirs in zip(found.groups, wanted.groups, strict=True):
        mine_ready, b = mine.cells.ready(), theirs.index.size
        for cells in (mine.cells, mine_ready):
            assert_array_equal(cells.values.products(left), theirs.cells.values.products(left))
            residual, other = (one.residual(left, right[:, :b]).dense() for one in (cells, theirs.cells))
            assert_array_equal(residual, other)
        assert_allclose(mine.squares, theirs.squares, rtol=1e-14)


def test_squares_of_single_precision_cells_are_summed_in_double(rng):
    values = (1 + rng.random((3, 50_000))).astype(np.float32)
    wanted = np.square(values.astype(np.float64)).sum(axis=1)
    for weight in (np.ones(50_000), np.full(50_000, 2.0)):
        found = DenseResidual(values, None).column_squares(weight)
        assert_allclose(found, wanted * weight[0], rtol=1e-12)
