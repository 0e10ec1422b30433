"""Resampled fits against fits to rows that were repeated by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import orthogonal_procrustes, subspace_angles

from oracles import random_rotation, spiked_rows
from probpca import PPCA, DataError, SourceError
from probpca.blocks import Block
from probpca.learning.uncertainty import bootstrap
from probpca.learning.uncertainty.asymptotic import asymptotic_uncertainty, bias_of_variances
from probpca.learning.uncertainty.bootstrap import Bootstrap, aligned, bootstrap_uncertainty, principal_angles
from probpca.learning.uncertainty.parameter_draws import Table, frequencies
from probpca.sources import Source, open_source

NAMES = ("explained_variance", "noise_variance", "loadings", "components", "mean")
SEEDS = list(range(20))


def resample(x, q, seeds=SEEDS, *, standardize=False, weight=None, n_jobs=1, **how):
    """The uncertainty of a fit, and the fit."""
    ppca = PPCA(q, standardize=standardize, bias_correction=how.get("corrected", False), random_state=0)
    ppca.fit(x, sample_weight=weight)
    source = open_source(x, weight=weight, n_jobs=n_jobs)
    return bootstrap_uncertainty(source, scaled_model(ppca), seeds, Bootstrap(ppca.scale_, **how)), ppca


def scaled_model(ppca):
    """The model of the columns as the fit saw them."""
    return ppca.model_.rescale(1 / ppca.scale_).isotropic() if ppca.standardize else ppca.model_


def repeated(x, seed):
    """The rows that a seed draws, each as often as it was drawn."""
    counts = frequencies(np.ones(len(x)), np.random.default_rng(seed))
    return np.repeat(x, counts.astype(int), axis=0)


def dense_fit(x, q):
    """Mean, explained variances, noise variance and axes by one eigendecomposition."""
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    return x.mean(axis=0), values[: -q - 1 : -1], values[:-q].mean(), vectors[:, : -q - 1 : -1]


def drawn(x, q, seed, *, standardize=False):
    """One draw, and the fit that it is compared with."""
    ppca = PPCA(q, standardize=standardize, random_state=0, tol=1e-7).fit(x)
    return bootstrap._draw(Table.of(open_source(x)), scaled_model(ppca), Bootstrap(ppca.scale_), seed), ppca


@pytest.mark.parametrize("shape", [(40, 6), (12, 30)], ids=["long", "wide"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_draw_is_the_fit_to_repeated_rows(rng, shape, seed):
    x = spiked_rows(rng, *shape, 2)
    found, ppca = drawn(x, 2, seed)
    mean, lam, noise, axes = dense_fit(repeated(x, seed), 2)
    axes = axes * np.sign(np.einsum("dj,dj->j", axes, ppca.components_.T))
    assert_allclose(found.mean, mean, atol=1e-10)
    assert_allclose(found.explained_variance, lam, rtol=1e-8)
    assert_allclose(found.noise_variance, noise, rtol=1e-8)
    assert_allclose(found.axes, axes, atol=1e-7)
    assert_allclose(found.loadings, axes * np.sqrt(lam - noise), atol=1e-7)
    assert_allclose(found.angles, np.degrees(subspace_angles(ppca.components_.T, axes)), atol=1e-5)


def test_a_standardised_draw_is_scaled_by_its_own_deviations(rng):
    x = spiked_rows(rng, 40, 6, 2) * np.geomspace(0.01, 100, 6)
    found, ppca = drawn(x, 2, 3, standardize=True)
    rows = repeated(x, 3)
    std = rows.std(axis=0)
    mean, lam, noise, axes = dense_fit(rows / std, 2)
    axes = axes * np.sign(np.einsum("dj,dj->j", axes, ppca.components_.T))
    assert_allclose(found.noise_variance, noise, rtol=1e-8)
    assert_allclose(found.mean, mean * std, rtol=1e-8)
    assert_allclose(found.explained_variance, lam, rtol=1e-8)
    assert_allclose(found.axes, axes, atol=1e-7)
    assert_allclose(found.loadings, axes * np.sqrt(lam - noise), atol=1e-7)
    assert_allclose(found.angles, np.degrees(subspace_angles(ppca.components_.T, axes)), atol=1e-5)


@pytest.mark.parametrize("standardize", [False, True])
def test_a_draw_of_rows_with_holes_is_the_fit_to_repeated_rows(rng, standardize):
    x = spiked_rows(rng, 80, 6, 2, noise=0.5) * (np.geomspace(0.1, 10, 6) if standardize else 1.0)
    x[rng.random(x.shape) < 0.2] = np.nan
    found, ppca = drawn(x, 2, 4, standardize=standardize)
    fit = PPCA(2, standardize=standardize, random_state=0, tol=1e-8).fit(repeated(x, 4))
    sure, _ = resample(x, 2, standardize=standardize)
    loadings = aligned(fit.loadings_, ppca.loadings_, "signs")
    # A hundredth of a nat is left: a seventh of a standard error in one direction, less in most.
    for name, exact in ("loadings", loadings), ("mean", fit.mean_), ("noise_variance", fit.noise_variance_):
        assert (abs(getattr(found, name) - exact) < 0.15 * getattr(sure, name).standard_error).all(), name
    assert found.converged


def test_standard_errors_and_angles_are_those_of_the_draws(rng):
    x = spiked_rows(rng, 40, 6, 2)
    sure, ppca = resample(x, 2)
    table = Table.of(open_source(x))
    draws = [bootstrap._draw(table, ppca.model_, Bootstrap(), seed) for seed in SEEDS]
    small = np.sqrt(40 / 39)
    for name in ("loadings", "mean", "explained_variance"):
        spread = np.std([getattr(draw, name) for draw in draws], axis=0, ddof=1)
        assert_allclose(getattr(sure, name).standard_error, small * spread, rtol=1e-6)
        assert_allclose(getattr(sure, name).value, getattr(ppca, f"{name}_"), atol=1e-12)
    spread = np.std([draw.axes.T for draw in draws], axis=0, ddof=1)
    assert_allclose(sure.components.standard_error, small * spread, rtol=1e-6)
    assert_allclose(sure.components.value, ppca.components_)
    logs = np.log([draw.noise_variance for draw in draws])
    centre = ppca.noise_variance_**2 / np.exp(np.median(logs))
    assert_allclose(sure.noise_variance.value - sure.noise_variance.bias, centre)
    assert_allclose(sure.noise_variance.standard_error, small * centre * logs.std(ddof=1))
    assert_allclose(sure.subspace_angles, [draw.angles for draw in draws])
    assert_allclose(sure.stability, np.quantile([draw.angles.max() for draw in draws], [0.5, 0.95]))
    lam = bias_of_variances(ppca.explained_variance_, ppca.noise_variance_, 40, 6)
    assert_allclose(sure.explained_variance.bias, lam.explained_variance)
    assert sure.noise_variance.positive
    assert sure.explained_variance.positive
    assert (sure.method, sure.n_draws, sure.n_unconverged, sure.mean.df) == ("bootstrap", 20, 0, 39)


def test_variances_that_were_freed_of_their_bias_are_not_freed_again(rng):
    x = spiked_rows(rng, 40, 15, 2, noise=0.5)
    sure, ppca = resample(x, 2, corrected=True)
    plain, _ = resample(x, 2)
    draws = [PPCA(2, bias_correction=True).fit(repeated(x, seed)) for seed in SEEDS]
    for name in ("explained_variance", "noise_variance"):
        estimate = getattr(sure, name)
        assert not np.any(estimate.bias)
        assert np.any(getattr(plain, name).bias)
        assert_allclose(estimate.value, getattr(ppca, f"{name}_"))
    spread = np.std([draw.explained_variance_ for draw in draws], axis=0, ddof=1)
    assert_allclose(sure.explained_variance.standard_error, np.sqrt(40 / 39) * spread, rtol=1e-6)
    formula = asymptotic_uncertainty(ppca.model_, 40, corrected=True)
    assert not np.any(formula.explained_variance.bias)
    assert not np.any(formula.noise_variance.bias)


def test_many_gaussian_rows_have_the_errors_of_the_formulas(rng):
    x = spiked_rows(rng, 3000, 6, 2, noise=0.5)
    sure, ppca = resample(x, 2, range(200))
    formula = asymptotic_uncertainty(ppca.model_, 3000)
    for name in NAMES:
        ratio = getattr(sure, name).standard_error / getattr(formula, name).standard_error
        assert_allclose(ratio, 1.0, atol=6 / np.sqrt(2 * 200), err_msg=name)


def test_missing_cells_leave_more_open(rng):
    x = spiked_rows(rng, 60, 6, 2, noise=0.5)
    holed = np.where(rng.random(x.shape) < 0.4, np.nan, x)
    full, part = (resample(rows, 2, range(60))[0] for rows in (x, holed))
    for name in NAMES:
        assert getattr(part, name).standard_error.mean() > 1.1 * getattr(full, name).standard_error.mean(), name
    assert part.stability.median > full.stability.median


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_threads_and_other_draws_change_nothing(rng, holes):
    x = spiked_rows(rng, 60, 5, 2)
    x[rng.random(x.shape) < holes] = np.nan
    one, two = (resample(x, 2, n_jobs=n_jobs)[0] for n_jobs in (1, 2))
    for name in NAMES:
        assert_array_equal(getattr(one, name).standard_error, getattr(two, name).standard_error)
    some = resample(x, 2, SEEDS[5:12])[0]
    assert_array_equal(some.subspace_angles, one.subspace_angles[5:12])
    assert not np.array_equal(resample(x, 2, SEEDS[1:])[0].mean.standard_error, one.mean.standard_error)


def test_units_and_the_order_of_columns_do_not_matter(rng):
    x = spiked_rows(rng, 40, 6, 2)
    order = rng.permutation(6)
    plain, scaled_up = resample(x, 2)[0], resample(100 * x, 2)[0]
    moved = resample(x[:, order], 2)[0]
    assert_allclose(scaled_up.loadings.standard_error, 100 * plain.loadings.standard_error, rtol=1e-6)
    assert_allclose(scaled_up.noise_variance.interval(), 1e4 * np.array(plain.noise_variance.interval()), rtol=1e-6)
    assert_allclose(scaled_up.subspace_angles, plain.subspace_angles, rtol=1e-5)
    assert_allclose(moved.loadings.standard_error, plain.loadings.standard_error[order], rtol=1e-6)
    assert_allclose(moved.subspace_angles, plain.subspace_angles, rtol=1e-5)


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_units_of_columns_change_only_the_mean_of_a_standardised_fit(rng, holes):
    x = spiked_rows(rng, 40, 6, 2)
    x[rng.random(x.shape) < holes] = np.nan
    unit = np.geomspace(0.01, 100, 6)
    plain, scaled_up = (resample(x * by, 2, standardize=True)[0] for by in (1.0, unit))
    assert_allclose(scaled_up.subspace_angles, plain.subspace_angles, rtol=1e-5)
    for name in ("explained_variance", "noise_variance", "loadings", "components"):
        for part in ("value", "standard_error", "bias"):
            one, other = (getattr(getattr(sure, name), part) for sure in (scaled_up, plain))
            assert_allclose(one, other, rtol=1e-5, err_msg=name)
    assert_allclose(scaled_up.mean.value, unit * plain.mean.value, rtol=1e-9)
    assert_allclose(scaled_up.mean.standard_error, unit * plain.mean.standard_error, rtol=1e-6)


def test_rows_may_come_sparse_in_float32_or_in_several_blocks(rng):
    x = spiked_rows(rng, 40, 6, 2)
    plain, ppca = resample(x, 2)
    for source, rtol in (
        (open_source(sparse.csr_array(x)), 1e-6),
        (open_source(x.astype(np.float32)), 1e-2),
        (open_source(x).scaled(np.ones(6)), 1e-6),
        (Source.of_blocks([Block(x[:25]), Block(x[25:])], 6), 1e-6),
        (Source.of_blocks([Block(sparse.csr_array(x[:9])), Block(sparse.csr_array(x[9:]))], 6), 1e-6),
    ):
        found = bootstrap_uncertainty(source, ppca.model_, SEEDS)
        assert_allclose(found.loadings.standard_error, plain.loadings.standard_error, rtol=rtol)


def test_cells_that_are_not_stored_are_missing_if_they_should_be(rng):
    x = spiked_rows(rng, 40, 6, 2)
    seen = rng.random(x.shape) < 0.8
    dense, ppca = resample(np.where(seen, x, np.nan), 2)
    precise = rng.uniform(0.5, 2.0, x.shape)
    thin = sparse.csr_array(np.where(seen, x, 0.0))
    found = bootstrap_uncertainty(open_source(thin, unstored_missing=True), ppca.model_, SEEDS)
    assert_allclose(found.loadings.standard_error, dense.loadings.standard_error, rtol=1e-6)
    weighted = [
        bootstrap_uncertainty(open_source(rows, cell_weight=precise, **options), ppca.model_, SEEDS)
        for rows, options in ((np.where(seen, x, np.nan), {}), (thin, {"unstored_missing": True}))
    ]
    assert_allclose(weighted[0].mean.standard_error, weighted[1].mean.standard_error, rtol=1e-6)
    assert abs(weighted[0].mean.standard_error / dense.mean.standard_error - 1).max() > 1e-3


@pytest.mark.parametrize(("n", "d", "q"), [(30, 6, 1), (30, 6, 5), (20, 50, 3), (12, 9, 4)])
def test_every_shape_has_finite_intervals(rng, n, d, q):
    x = spiked_rows(rng, n, d, q)
    sure, _ = resample(x, q)
    for name in NAMES:
        low, high = getattr(sure, name).interval(0.95)
        assert np.isfinite(low).all(), name
        assert (low < high).all(), name
    assert ("rows for 50 features" in sure.note) == (d > n)
    assert sure.subspace_angles.shape == (20, q)


def test_frequencies_draw_as_many_rows_as_weights_count():
    weight = np.array([3.0, 0.0, 1.0, 2.0])
    counts = frequencies(weight, np.random.default_rng(0))
    assert counts.sum() == 6
    assert counts[1] == 0
    mean = np.mean([frequencies(weight, np.random.default_rng(seed)) for seed in range(2000)], axis=0)
    assert_allclose(mean, weight, atol=6 * np.sqrt(1.5 / 2000))


def test_weights_are_frequencies(rng):
    x = spiked_rows(rng, 30, 5, 2)
    weight = rng.integers(1, 4, 30).astype(float)
    n = weight.sum()
    sure, _ = resample(x, 2, range(300), weight=weight)
    spread = np.sqrt(np.cov(x.T, fweights=weight.astype(int)).diagonal() / n)
    assert sure.mean.df == n - 1
    assert_allclose(sure.mean.standard_error, spread, rtol=6 / np.sqrt(2 * 300))


@pytest.mark.parametrize("unit", [1e-140, 1e-100, 1e100, 1e140])
@pytest.mark.parametrize("share", [0.0, 0.1], ids=["complete", "missing"])
def test_no_unit_is_too_small_or_too_large(rng, unit, share):
    x = spiked_rows(rng, 40, 6, 2)
    x[rng.random(x.shape) < share] = np.nan
    (plain, _), (found, _) = (resample(c * x, 2, range(4)) for c in (1.0, unit))
    for name, factor in (("loadings", unit), ("mean", unit), ("explained_variance", unit**2), ("components", 1.0)):
        expected = factor * getattr(plain, name).standard_error
        assert_allclose(getattr(found, name).standard_error, expected, rtol=1e-5, err_msg=name)


def test_weights_that_sum_to_more_rows_than_can_be_drawn_are_refused_by_name(rng):
    x = spiked_rows(rng, 30, 5, 2)
    with pytest.raises(DataError, match=r"at most 1e\+18; got 3e\+20(.|\n)*Hint: sample_weight counts rows"):
        resample(x, 2, weight=np.full(30, 1e19))


def test_draws_that_do_not_converge_are_counted(rng):
    x = spiked_rows(rng, 40, 6, 2)
    x[rng.random(x.shape) < 0.3] = np.nan
    sure, _ = resample(x, 2, max_iter=1)
    assert sure.n_unconverged == 20
    assert "20 of 20 bootstrap fits stopped before they had converged" in str(sure)


def test_somebody_may_watch(rng):
    seen, x = [], spiked_rows(rng, 30, 5, 2)
    model = PPCA(2).fit(x).model_
    bootstrap_uncertainty(open_source(x), model, [1, 2, 3], watch=lambda *progress: seen.append(progress))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_too_few_rows_are_refused(rng):
    x = spiked_rows(rng, 9, 5, 3)
    with pytest.raises(DataError, match="3 components needs at least 10 rows, counted by weight; got 9"):
        resample(x, 3)
    weight = np.full(12, 1e-9)
    weight[0] = 100.0
    x = spiked_rows(rng, 12, 5, 2)
    model = PPCA(2).fit(x).model_
    with pytest.raises(DataError, match="resamples need 4 distinct rows"):
        bootstrap_uncertainty(open_source(x, weight=weight), model, SEEDS)
    with pytest.raises(DataError, match=r"counted by weight; got 1\.2"):
        bootstrap_uncertainty(open_source(x, weight=np.full(12, 0.1)), model, SEEDS)


def test_rows_in_batches_are_refused(rng):
    x = spiked_rows(rng, 30, 5, 2)
    with pytest.raises(SourceError, match="needs rows in memory"):
        bootstrap_uncertainty(open_source([x, x]), PPCA(2).fit(x).model_, SEEDS)


def test_an_unknown_alignment_is_refused(rng):
    with pytest.raises(DataError, match="align must be one of signs, procrustes; got 'order'"):
        resample(spiked_rows(rng, 30, 5, 2), 2, align="order")


@pytest.mark.parametrize("align", ["signs", "procrustes"])
def test_aligning_undoes_a_change_of_signs(rng, align):
    target = rng.standard_normal((7, 3))
    assert_allclose(aligned(target * [1, -1, -1], target, align), target, atol=1e-12)


def test_procrustes_undoes_a_rotation_and_signs_do_not(rng):
    target, rotation = rng.standard_normal((7, 3)), random_rotation(rng, 3)
    assert_allclose(aligned(target @ rotation, target, "procrustes"), target, atol=1e-12)
    assert abs(aligned(target @ rotation, target, "signs") - target).max() > 0.1
    other = rng.standard_normal((7, 3))
    assert_allclose(aligned(other, target, "procrustes"), other @ orthogonal_procrustes(other, target)[0], atol=1e-12)


def test_turned_draws_leave_out_what_a_rotation_explains(rng):
    axes = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    x = rng.standard_normal((200, 2)) @ axes.T * 3 + 0.3 * rng.standard_normal((200, 6))  # two equal variances
    signs, turned = (resample(x, 2, range(60), align=align)[0] for align in ("signs", "procrustes"))
    assert turned.loadings.standard_error.mean() < 0.5 * signs.loadings.standard_error.mean()
    assert_array_equal(turned.subspace_angles, signs.subspace_angles)
    assert "rotated towards those of the fit" in str(turned)
    assert "turned" not in str(signs)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, np.pi / 2])
def test_angles_are_right_whether_small_or_large(rng, size):
    basis = np.linalg.qr(rng.standard_normal((9, 9)))[0]
    axes, outside = basis[:, :3], basis[:, 3:6]
    turn = np.array([size, size / 2, 0.0])
    others = axes * np.cos(turn) + outside * np.sin(turn)
    found = principal_angles(axes @ random_rotation(rng, 3), others @ random_rotation(rng, 3))
    assert_allclose(found, np.degrees(turn), rtol=1e-6, atol=1e-13)
    random = np.linalg.qr(rng.standard_normal((9, 3)))[0]
    assert_allclose(principal_angles(axes, random), np.degrees(subspace_angles(axes, random)), rtol=1e-10)
