"""A few rows in place of many: never too much variance, too little by no more than is said, all of it counted."""

from functools import reduce

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from oracles import closed_form_oracle, dense_covariance, spiked_rows
from probpca.blocks import Block
from probpca.learning import Settings, Status
from probpca.learning.streaming.exact import Sketched
from probpca.sources.engines.local import one_blas_thread
from probpca.statistics import Sketch

SIZE, N, D = 6, 90, 20


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """These matrices are small: threads would only wait for each other."""
    with one_blas_thread():
        yield


def empty(size=SIZE, d=D):
    return Sketch.empty(size, d)


def streamed(batches, size=SIZE):
    """Sketches of batches, merged one after the other."""
    return reduce(lambda total, batch: total.merge(Sketch.of(size, Block(batch))), batches, empty(size))


def scatter(x, weight=None):
    """A'A, A the rows less their mean."""
    w = np.ones(len(x)) if weight is None else np.asarray(weight)
    centred = x - np.average(x, axis=0, weights=w)
    return (w[:, None] * centred).T @ centred


def assert_certified(sketch, wanted):
    """B'B <= A'A <= B'B + lost I, and the trace of A'A to the last digits."""
    rounding = 1e-12 * np.trace(wanted)
    errors = np.linalg.eigvalsh(wanted - sketch.factor.T @ sketch.factor)
    assert errors[0] >= -rounding
    assert errors[-1] <= sketch.lost + rounding
    assert_allclose(np.square(sketch.factor).sum() + sketch.dropped, np.trace(wanted), rtol=1e-10)
    assert_allclose(sketch.squares, np.diag(wanted), rtol=1e-9)
    assert len(sketch.factor) <= sketch.size


def weak_before_strong(rng):
    """Directions one after the other, each stronger than those before: what is dropped early is missed later."""
    return np.repeat(np.eye(D), 5, axis=0)[:N] * np.geomspace(1, 3, N)[:, None] + 1e-3 * rng.standard_normal((N, D))


def strong_before_weak(rng):
    return weak_before_strong(rng)[::-1].copy()


def by_turns(rng):
    """All directions alike, met by turns: every drop takes as much as it leaves."""
    return np.tile(np.eye(D), (5, 1))[:N] * rng.choice([-1.0, 1.0], (N, 1))


def drifting(rng):
    return np.cumsum(rng.standard_normal((N, D)), axis=0)


def plain(rng):
    return rng.standard_normal((N, D)) * np.geomspace(5, 0.1, D) + 3.0


def far_away(rng):
    return plain(rng) + 1e6


ORDERS = [weak_before_strong, strong_before_weak, by_turns, drifting, plain, far_away]


@pytest.mark.parametrize("size", [1, 6, 15])
@pytest.mark.parametrize("rows", ORDERS)
def test_what_is_lost_is_no_more_than_is_said_whatever_the_order(rng, rows, size):
    x = rows(rng)
    found = Sketch.of(size, Block(x))
    assert found.lost > 0
    assert_certified(found, scatter(x))


@pytest.mark.parametrize("batch", [1, 4, 7, 50])
@pytest.mark.parametrize("rows", ORDERS)
def test_the_certificate_holds_for_batches_of_any_size(rng, rows, batch):
    x = rows(rng)
    found = streamed(np.split(x, range(batch, N, batch)))
    assert_certified(found, scatter(x))
    assert_allclose(found.mean, x.mean(axis=0), rtol=1e-12, atol=1e-12)
    assert (found.weight, found.count) == (N, N)


def test_a_tenth_of_the_certificate_would_not_hold(rng):
    x = weak_before_strong(rng)
    found = streamed(np.split(x, range(1, N)))
    errors = np.linalg.eigvalsh(scatter(x) - found.factor.T @ found.factor)
    assert errors[-1] > 0.1 * found.lost


@pytest.mark.parametrize("rows", ORDERS)
def test_no_eigenvalue_is_above_the_true_one_nor_further_below_than_is_said(rng, rows):
    x = rows(rng)
    found = streamed(np.array_split(x, 9))
    true = np.linalg.eigvalsh(scatter(x))[::-1][:SIZE]
    ours = np.linalg.eigvalsh(found.factor @ found.factor.T)[::-1][:SIZE]
    rounding = 1e-9 * true[0]
    assert (ours <= true + rounding).all()
    assert (true <= ours + found.lost + rounding).all()


@pytest.mark.parametrize("batch", [1, 5, 40])
def test_rows_of_a_rank_that_fits_are_kept_exactly(rng, batch):
    x = rng.standard_normal((N, SIZE)) @ rng.standard_normal((SIZE, D)) + 2.0
    found, wanted = streamed(np.split(x, range(batch, N, batch))), scatter(x)
    assert_allclose(found.factor.T @ found.factor, wanted, atol=1e-8 * np.trace(wanted))
    assert found.lost <= found.dropped + 1e-300
    assert found.dropped < 1e-10 * np.trace(wanted)


def test_fewer_rows_than_fit_lose_nothing_at_all(rng):
    x = rng.standard_normal((SIZE - 1, D))
    found = streamed([x[:2], x[2:]])  # two rows, three, and the one that joins their means
    assert (found.dropped, found.lost) == (0.0, 0.0)
    assert_certified(found, scatter(x))


@pytest.mark.parametrize("cut", [3, 45, 80])
def test_a_merged_sketch_certifies_the_rows_of_both_in_either_order(rng, cut):
    x = weak_before_strong(rng)
    left, right = (Sketch.of(SIZE, Block(part)) for part in (x[:cut], x[cut:]))
    one, other = left.merge(right), right.merge(left)
    for found in (one, other):
        assert_certified(found, scatter(x))
        assert found.count == N
    assert_allclose(one.mean, other.mean, atol=1e-13)
    assert_allclose(one.factor.T @ one.factor, other.factor.T @ other.factor, atol=1e-10)
    assert_allclose((one.dropped, one.lost), (other.dropped, other.lost), rtol=1e-10)


def test_a_sketch_merged_with_a_larger_one_keeps_its_size(rng):
    x = plain(rng)
    small, large = Sketch.of(4, Block(x[:30])), Sketch.of(15, Block(x[30:]))
    for found, size in ((small.merge(large), 4), (large.merge(small), 15)):
        assert found.size == size
        assert_certified(found, scatter(x))


def test_no_rows_change_nothing(rng):
    found = Sketch.of(SIZE, Block(plain(rng)))
    assert found.merge(empty()) is found
    begun = empty().merge(found)
    assert_array_equal(begun.factor, found.factor)
    assert_array_equal(begun.mean, found.mean)
    assert empty().merge(empty()).weight == 0.0


def test_weights_count_rows(rng):
    x = plain(rng)
    w = rng.integers(0, 4, N).astype(float)
    found = Sketch.of(SIZE, Block(x, w))
    assert_certified(found, scatter(x, w))
    assert_allclose(found.mean, np.average(x, axis=0, weights=w), rtol=1e-12)
    assert (found.weight, found.count) == (w.sum(), np.count_nonzero(w))


def test_rows_that_weigh_nothing_are_not_there(rng):
    x = plain(rng)
    w = np.repeat([1.0, 0.0], [N - 2 * SIZE, 2 * SIZE])
    found, wanted = Sketch.of(SIZE, Block(x, w)), Sketch.of(SIZE, Block(x[w > 0]))
    assert_allclose(found.factor.T @ found.factor, wanted.factor.T @ wanted.factor, atol=1e-10)
    assert (found.weight, found.count) == (wanted.weight, wanted.count)


def test_a_faded_sketch_certifies_faded_rows(rng):
    x = drifting(rng)
    early, late = x[:50], x[50:]
    found = Sketch.of(SIZE, Block(early)).faded(0.3).merge(Sketch.of(SIZE, Block(late)))
    w = np.repeat([0.3, 1.0], [50, N - 50])
    assert_certified(found, scatter(x, w))
    assert_allclose(found.weight, w.sum())


@pytest.mark.parametrize("form", [np.float32, sparse.csr_array])
def test_single_precision_and_sparse_rows_are_certified_too(rng, form):
    x = plain(rng) * (rng.random((N, D)) < 0.4)
    values = x.astype(form) if form is np.float32 else form(x)
    dense = values.astype(np.float64) if form is np.float32 else x
    before = dense.copy()
    assert_certified(Sketch.of(SIZE, Block(values)), scatter(dense))
    assert_array_equal(values if form is np.float32 else values.toarray(), before)


# The model that follows


def fitted(sketch, n_components):
    return Sketched(sketch).fit(n_components, Settings(), np.random.default_rng(0))


@pytest.mark.parametrize("rows", [weak_before_strong, plain, drifting])
def test_the_noise_variance_comes_from_all_of_the_energy(rng, rows):
    x = rows(rng)
    sketch = Sketch.of(SIZE, Block(x))
    found = fitted(sketch, 3)
    assert found.status is Status.SKETCHED
    total = scatter(x).trace() / N
    assert_allclose(dense_covariance(found.model).trace(), total, rtol=1e-10)
    held = np.linalg.eigvalsh(sketch.factor @ sketch.factor.T)[-3:].sum() / N
    assert_allclose(found.model.noise_variance, (total - held) / (D - 3), rtol=1e-10)


@pytest.mark.parametrize("rows", [weak_before_strong, plain, drifting])
def test_the_error_bounds_how_far_variances_are_below_the_true_ones(rng, rows):
    x = rows(rng)
    sketch = streamed(np.array_split(x, 30))
    true = closed_form_oracle(x, 3).values[:3]
    model, error = fitted(sketch, 3).model, Sketched(sketch).error
    found = np.square(model.loadings).sum(axis=0) + model.noise_variance
    assert (found <= true + 1e-10).all()
    assert (true <= found + error + 1e-10).all()
    assert_allclose(error, sketch.lost / N)


@pytest.mark.parametrize("batch", [1, 9, 90])
def test_a_sketch_that_loses_nothing_gives_the_closed_form(rng, batch):
    x = spiked_rows(rng, N, D, 3)
    found = fitted(streamed(np.split(x, range(batch, N, batch)), size=D + 2), 3)
    wanted = closed_form_oracle(x, 3)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, rtol=1e-8)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=1e-8)
    assert_allclose(found.model.mean, wanted.model.mean, atol=1e-10)


@pytest.mark.parametrize("batch", [10, 45])
def test_components_far_above_the_noise_survive_a_small_sketch(rng, batch):
    x = spiked_rows(rng, N, D, 2, noise=1e-3)
    found = fitted(streamed(np.split(x, range(batch, N, batch)), size=8), 2)
    wanted = closed_form_oracle(x, 2).model
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted), atol=1e-3)
    assert_allclose(found.model.noise_variance, wanted.noise_variance, rtol=0.02)


@pytest.mark.parametrize(("asked", "found"), [(None, 3), ("bic", 3), (0.9, 3)])
def test_the_number_of_components_is_read_from_the_sketch(rng, asked, found):
    x = spiked_rows(rng, 400, D, 3, noise=0.01, largest=3.0)
    assert fitted(Sketch.of(12, Block(x)), asked).model.n_components == found
