"""One suite over everything that is summed: cuts, order and the form of the rows must not matter."""

from functools import partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import multivariate_normal

from probpca.blocks import Block
from probpca.learning.complete.krylov import scatter_product, squared_residuals
from probpca.learning.em.e_step import expect, expect_zero_noise
from probpca.models import LinearGaussian
from probpca.statistics import ColumnSummary, Moments, Pairs, Root, Stack

N, D, Q = 40, 5, 2
FAR = 1e4  # from zero: raw second moments would have lost half of their digits there
RNG = np.random.default_rng(20)
ROWS = FAR + RNG.standard_normal((N, D)) @ RNG.standard_normal((D, D))
MODEL = LinearGaussian(ROWS.mean(axis=0) + 0.1, RNG.standard_normal((D, Q)), 0.3)
AXES = np.linalg.qr(RNG.standard_normal((D, Q)))[0]


class Kind(NamedTuple):
    """A summary of a block, what of it is compared, and the same from the definition."""

    summarise: Any
    seen: Any
    dense: Any


def mean_and_scatter(x, w):
    mean = w @ x / w.sum()
    centred = x - mean
    return {"weight": w.sum(), "mean": mean, "scatter": (centred.T * w) @ centred, "count": np.count_nonzero(w)}


def spread(x, w):
    whole = mean_and_scatter(x, w)
    return {**whole, "scatter": np.diag(whole["scatter"])}


def seen_stack(stack):
    rows = np.hstack([stack.panel(columns, np.float64).copy() for columns in stack.panels()])
    assert rows.shape == (stack.n_rows, stack.n_features)
    return mean_and_scatter(rows, stack.weight)


def seen_regression(sums):
    return {name: getattr(sums, name) for name in sums.__slots__}


def regression(x, w, gain, P):
    """The sums one row after the other."""
    theta = np.column_stack([MODEL.loadings, MODEL.mean])
    sums = {"latent": 0.0, "score": 0.0, "squares": 0.0}
    for row, weight in zip(x, w, strict=True):
        t = np.append(gain.T @ (row - MODEL.mean), 1.0)
        doubt = np.zeros((Q + 1, Q + 1))
        doubt[:Q, :Q] = P
        r = row - theta @ t
        parts = [np.outer(t, t) + doubt, np.outer(t, r) - doubt @ theta.T, r**2 + np.diag(theta @ doubt @ theta.T)]
        sums = {name: total + weight * part for (name, total), part in zip(sums.items(), parts, strict=True)}
    packed = sums["latent"][np.tril_indices(Q + 1)]
    return {**sums, "weight": w.sum(), "counts": np.array([w.sum()]), "latent": packed, "gram": packed[:, None]}


def posterior_regression(x, w):
    W, s2 = MODEL.loadings, MODEL.noise_variance
    M = W.T @ W + s2 * np.eye(Q)
    dense = multivariate_normal(MODEL.mean, W @ W.T + s2 * np.eye(D))
    sums = regression(x, w, W @ np.linalg.inv(M), s2 * np.linalg.inv(M))
    return {**sums, "log_likelihood": w @ dense.logpdf(x)}


def least_squares_regression(x, w):
    W = MODEL.loadings
    return regression(x, w, W @ np.linalg.inv(W.T @ W), np.zeros((Q, Q)))


def seen_squares(sums):
    """All but the log-likelihood, which means nothing without noise."""
    return {name: value for name, value in seen_regression(sums).items() if name != "log_likelihood"}


def products(x, w):
    centred = x - MODEL.mean
    return {"value": AXES.T @ (centred.T * w) @ centred}


def pairs(x, w):
    centred = x - MODEL.mean
    return {"counts": np.full((D, D), w.sum()), "products": (centred.T * w) @ centred}


def residuals(x, w):
    outside = (x - MODEL.mean) @ (np.eye(D) - AXES @ AXES.T)
    return {"value": w @ (outside**2).sum(axis=1)}


def seen_value(total):
    return {"value": total.value}


KINDS = {
    "Moments": Kind(Moments.of, lambda s: {n: getattr(s, n) for n in s.__slots__}, mean_and_scatter),
    "ColumnSummary": Kind(
        ColumnSummary.of,
        lambda s: {"weight": s.total_weight, "mean": s.mean, "scatter": s.squares, "count": s.count},
        spread,
    ),
    "Root": Kind(
        Root.of,
        lambda s: {"weight": s.weight, "mean": s.mean, "scatter": s.factor.T @ s.factor, "count": s.count},
        mean_and_scatter,
    ),
    "Pairs": Kind(partial(Pairs.of, MODEL.mean), lambda s: {"counts": s.counts, "products": s.products}, pairs),
    "Stack": Kind(Stack.of, seen_stack, mean_and_scatter),
    "Regression": Kind(partial(expect, MODEL), seen_regression, posterior_regression),
    "Regression without noise": Kind(partial(expect_zero_noise, MODEL), seen_squares, least_squares_regression),
    "Sum of products": Kind(partial(scatter_product, MODEL.mean, AXES), seen_value, products),
    "Sum of residuals": Kind(partial(squared_residuals, MODEL.mean, AXES), seen_value, residuals),
}
WEIGHTS = {"once": None, "fractions": RNG.uniform(0.1, 3.0, N), "some zero": RNG.integers(0, 4, N).astype(float)}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


def assert_same(got, wanted, rtol=1e-9):
    assert got.keys() >= wanted.keys() or wanted.keys() >= got.keys()
    for name in got.keys() & wanted.keys():
        scale = max(np.abs(wanted[name]).max(), 1.0)
        assert_allclose(got[name], wanted[name], rtol=rtol, atol=rtol * scale, err_msg=name)


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_a_summary_equals_its_definition(kind, weight):
    w = np.ones(N) if weight is None else weight
    assert_same(kind.seen(kind.summarise(Block(ROWS, weight))), kind.dense(ROWS, w))


@given(cuts=st.lists(st.integers(0, N), min_size=1, max_size=4), weighted=st.booleans())
@settings(max_examples=15)
@pytest.mark.parametrize("name", KINDS)
def test_where_the_rows_are_cut_does_not_matter(name, cuts, weighted):
    kind = KINDS[name]
    block = Block(ROWS, WEIGHTS["some zero"] if weighted else None)
    edges = [0, *sorted(cuts), N]
    parts = [kind.summarise(block.take(slice(a, b))) for a, b in pairwise(edges)]
    merged = reduce(lambda left, right: left.merge(right), parts)
    assert_same(kind.seen(merged), kind.seen(kind.summarise(block)))


def test_merging_is_associative_and_commutative(kind):
    a, b, c = (kind.summarise(Block(ROWS[rows])) for rows in (slice(0, 3), slice(3, 30), slice(30, N)))
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    assert_same(kind.seen(left), kind.seen(right))
    assert_same(kind.seen(c.merge(b).merge(a)), kind.seen(left))


def test_merging_leaves_both_summaries_as_they_were(kind):
    a, b = kind.summarise(Block(ROWS[:9])), kind.summarise(Block(ROWS[9:]))
    before = kind.seen(a), kind.seen(b)
    before = [{name: np.copy(value) for name, value in seen.items()} for seen in before]
    a.merge(b)
    assert_same(kind.seen(a), before[0], rtol=0)
    assert_same(kind.seen(b), before[1], rtol=0)


def test_a_weight_is_a_repeated_row(kind):
    times = WEIGHTS["some zero"].astype(int)
    weighted = kind.seen(kind.summarise(Block(ROWS, times.astype(float))))
    repeated = kind.seen(kind.summarise(Block(np.repeat(ROWS, times, axis=0))))
    weighted.pop("count", None)  # of different rows, not of their copies
    assert_same(weighted, repeated)


def test_a_row_of_weight_zero_vanishes(kind):
    w = WEIGHTS["some zero"]
    assert_same(kind.seen(kind.summarise(Block(ROWS, w))), kind.seen(kind.summarise(Block(ROWS[w > 0], w[w > 0]))))


def test_a_block_of_weight_zero_changes_nothing(kind):
    some, none = kind.summarise(Block(ROWS)), kind.summarise(Block(ROWS[:3], np.zeros(3)))
    assert_same(kind.seen(none.merge(some)), kind.seen(some))
    assert_same(kind.seen(some.merge(none)), kind.seen(some))


@pytest.mark.parametrize("form", [np.float32, np.asfortranarray, sparse.csr_array], ids=["float32", "F", "sparse"])
def test_the_form_of_the_rows_does_not_matter(kind, form):
    x = (ROWS - FAR).astype(np.float32).astype(np.float64) * (np.abs(ROWS - FAR) > 0.5)
    # Deviations of float32 rows may be rounded to float32; nothing worse may happen to them.
    rtol = 1e-6 if form is np.float32 else 1e-9
    for weight in (None, WEIGHTS["fractions"]):
        shaped = x.astype(form) if form is np.float32 else form(x)
        assert_same(kind.seen(kind.summarise(Block(shaped, weight))), kind.seen(kind.summarise(Block(x, weight))), rtol)


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_products_of_sparse_rows_about_their_mean_are_those_of_dense_ones(weight):
    x = (ROWS - FAR) * (np.abs(ROWS - FAR) > 0.5)
    mean = np.average(x, axis=0, weights=weight)
    dense, thin = (scatter_product(mean, AXES, Block(form(x), weight)) for form in (np.asarray, sparse.csr_array))
    assert_allclose(thin.value, dense.value, atol=1e-9 * np.abs(dense.value).max())


@given(cut=st.integers(0, N))
@settings(max_examples=10)
def test_flawed_cells_are_counted_whatever_the_cut(cut):
    x = ROWS.copy()
    x[3, 4], x[10, 2], x[11, 3], x[39, 1] = np.nan, np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        found = ColumnSummary.of(Block(x[:cut])).merge(ColumnSummary.of(Block(x[cut:])))
    assert_array_equal(found.missing, np.bincount([4, 1], minlength=x.shape[1]))
    assert_array_equal(found.infinite, np.bincount([2, 3], minlength=x.shape[1]))
    assert not found.complete
    assert not found.is_finite


@pytest.mark.parametrize("kind", [Moments, Root, ColumnSummary])
def test_sums_of_rescaled_rows_are_rescaled_sums(kind):
    scale = np.geomspace(1e-3, 1e3, D)
    rescaled, wanted = kind.of(Block(ROWS)).rescaled(scale), kind.of(Block(ROWS * scale))
    assert_allclose(rescaled.mean, wanted.mean, rtol=1e-12)
    assert_allclose(rescaled.variance, wanted.variance, rtol=1e-8)
    assert_allclose(rescaled.variance, (ROWS * scale).var(axis=0), rtol=1e-8)
