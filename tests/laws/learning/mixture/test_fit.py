"""Fits of mixtures: likelihoods that rise, the same maximum by every road, and degenerate tables."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from oracles import assert_never_falls, dense_covariance, punched, spiked_rows_with_holes
from probpca import DataError, ShapeError
from probpca.blocks import observe
from probpca.inference import mixture_log_likelihood, responsibilities, sample_mixture
from probpca.learning import Settings, Status, fit_factor_analysis, fit_mixture, fit_ppca
from probpca.learning.em.m_step import EM
from probpca.learning.loop import Monitor, iterate
from probpca.learning.mixture.em import MixtureCoordinates, MixtureEM, fit_accelerated
from probpca.learning.mixture.start import k_means
from probpca.learning.settings import SampleSize
from probpca.models import LinearGaussian, Mixture
from probpca.sources import open_source

NOISES = ["shared", "per_feature"]
D, Q = 6, 1


def separate_clusters(rng, noise="shared", *, k=3, d=D, q=Q, distance=6.0):
    """A mixture whose clusters hardly overlap."""
    clusters = []
    for _ in range(k):
        variance = rng.uniform(0.2, 1.0, d) if noise == "per_feature" else 0.5
        clusters.append(LinearGaussian(distance * rng.standard_normal(d), rng.standard_normal((d, q)), variance))
    return Mixture(np.arange(k, 0, -1) / np.arange(k + 1).sum(), clusters)


def rows_of(mixture, n, rng, share=0.2):
    x, labels = sample_mixture(mixture, n, rng=rng)
    return punched(rng, x, share), labels


def fit(x, k=3, q=Q, **options):
    settings = Settings(**{"noise": "shared", "tol": 1e-6, "max_iter": 2000, "n_init": 5, **options})
    return fit_mixture(x, k, q, settings, np.random.default_rng(0))


def prepared(x):
    return open_source(x).keep(partial(observe, centre=np.nanmean(x, axis=0)))


@pytest.fixture
def clustered(rng):
    return rows_of(separate_clusters(rng), 300, rng)


# The maximum


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_log_likelihood_never_falls(rng, noise, share):
    x, _ = rows_of(separate_clusters(rng, noise, distance=1.0), 150, rng, share)
    found = fit(x, noise=noise, max_iter=150, n_init=2)
    assert len(found.trace) > 5
    assert_never_falls(found.trace)
    start = replace(found.model, weights=np.full(3, 1 / 3))
    floor = np.full(found.model.clusters[0].noise_variance.shape, 1e-6)
    plain = iterate(partial(MixtureEM(floor, Q + 2).step, source=prepared(x)), start, Monitor(1e-6, 30))
    assert_never_falls(plain.trace)


@pytest.mark.parametrize("noise", NOISES)
def test_extrapolated_steps_end_at_a_fixed_point_no_lower_than_plain_ones_reach(rng, noise):
    x, _ = rows_of(separate_clusters(rng, noise), 200, rng)
    floor = np.full(() if noise == "shared" else (D,), 1e-6)
    em, rows, start = MixtureEM(floor, Q + 2), prepared(x), separate_clusters(np.random.default_rng(20240229), noise)
    plain = iterate(partial(em.step, source=rows), start, Monitor(1e-6, 300))
    fast = fit_accelerated(em, rows, start, Monitor(1e-6, 2000))
    assert fast.trace[-1] >= plain.trace[-1] - 1e-5
    more = iterate(partial(em.step, source=rows), fast.state, Monitor(1e-9, 100))
    assert more.trace[-1] <= fast.trace[-1] + 1e-3


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_one_cluster_of_shared_noise_is_ppca(rng, share):
    x = punched(rng, spiked_rows_with_holes(rng, 80, D, 2, share=0.0), share)
    found, wanted = fit(x, 1, 2), fit_ppca(x, 2, Settings(tol=1e-6, max_iter=2000), np.random.default_rng(0))
    assert found.log_likelihood == pytest.approx(wanted.log_likelihood, rel=1e-12)
    assert_allclose(dense_covariance(found.model.clusters[0]), dense_covariance(wanted.model), rtol=1e-10, atol=1e-10)
    assert_array_equal(found.model.weights, [1.0])


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_one_cluster_of_own_noise_is_factor_analysis(rng, share):
    x = punched(rng, spiked_rows_with_holes(rng, 80, D, 2, share=0.0, noise=0.5), share)
    found = fit(x, 1, 2, noise="per_feature", n_init=1)
    wanted = fit_factor_analysis(x, 2, Settings(tol=1e-6, max_iter=2000), np.random.default_rng(0))
    assert found.log_likelihood == pytest.approx(wanted.log_likelihood, abs=1e-5)
    assert_allclose(dense_covariance(found.model.clusters[0]), dense_covariance(wanted.model), atol=1e-3)


@pytest.mark.parametrize("noise", [0.5, "each"])
def test_a_step_of_one_cluster_is_a_step_of_its_model(rng, noise):
    x = spiked_rows_with_holes(rng, 60, D, 2)
    variance = rng.uniform(0.2, 1.0, D) if noise == "each" else noise
    model, floor = LinearGaussian(np.nanmean(x, axis=0), rng.standard_normal((D, 2)), variance), np.asarray(1e-9)
    found, value = MixtureEM(floor, 4).step(Mixture(np.ones(1), (model,)), prepared(x))
    wanted, expected = EM(floor).step(model, prepared(x))
    assert value == pytest.approx(expected, rel=1e-13)
    for name in ("mean", "loadings", "noise_variance"):
        assert_allclose(getattr(found.clusters[0], name), getattr(wanted, name), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("noise", NOISES)
def test_separate_clusters_are_found_with_their_parameters(rng, noise):
    mixture = separate_clusters(rng, noise)
    x, labels = rows_of(mixture, 2000, rng)
    found = fit(x, noise=noise, tol=1e-3)
    assert found.status is Status.CONVERGED
    assert (responsibilities(found.model, x).argmax(axis=1) == labels).mean() > 0.97
    assert_allclose(found.model.weights, mixture.weights, atol=0.05)
    assert_allclose(found.model.means, mixture.means, atol=0.3)
    assert_allclose(found.model.cluster_covariances, mixture.cluster_covariances, atol=0.5)
    assert found.log_likelihood == pytest.approx(mixture_log_likelihood(found.model, x).sum(), rel=1e-9)
    assert found.log_likelihood > mixture_log_likelihood(mixture, x).sum()


def test_clusters_are_in_order_of_weight_along_canonical_axes(clustered):
    found = fit(clustered[0], q=2).model
    assert (np.diff(found.weights) <= 0).all()
    for cluster in found.clusters:
        assert_allclose(cluster.loadings, cluster.canonical().loadings, atol=1e-9)


def test_units_of_columns_do_not_matter_with_own_noise(clustered):
    scale = np.geomspace(1e-3, 1e4, D)
    plain, scaled = (fit(rows, noise="per_feature", tol=1e-4) for rows in (clustered[0], clustered[0] * scale))
    cells = (~np.isnan(clustered[0])).sum(axis=0)
    assert scaled.log_likelihood == pytest.approx(plain.log_likelihood - cells @ np.log(scale), abs=1e-3)
    assert_allclose(scaled.model.means, plain.model.means * scale, rtol=1e-4, atol=1e-4)
    assert_allclose(scaled.criteria.bic - scaled.log_likelihood, plain.criteria.bic - plain.log_likelihood)
    assert_allclose(scaled.column_std, plain.column_std * scale)


@pytest.mark.parametrize("noise", NOISES)
def test_weights_are_repeated_rows(clustered, rng, noise):
    x = clustered[0][:120]
    times = rng.integers(0, 3, len(x))
    weighted, repeated = (
        fit(open_source(x, weight=times.astype(float)), noise=noise),
        fit(np.repeat(x, times, axis=0), noise=noise),
    )
    assert weighted.log_likelihood == pytest.approx(repeated.log_likelihood, abs=1e-3)
    assert weighted.weight == repeated.weight
    assert weighted.criteria.bic[0] == pytest.approx(repeated.criteria.bic[0], abs=1e-3)


@pytest.mark.parametrize("noise", NOISES)
def test_a_common_factor_of_cell_weights_changes_the_unit_of_the_noise_alone(clustered, rng, noise):
    x = clustered[0][:120]
    omega = rng.uniform(0.5, 2.0, x.shape)
    one, seven = (fit(open_source(x, cell_weight=unit * omega), noise=noise) for unit in (1.0, 7.0))
    assert seven.log_likelihood == pytest.approx(one.log_likelihood, abs=1e-6)
    assert_allclose(seven.model.noise_variance, 7 * one.model.noise_variance, rtol=1e-6)


def test_sparse_rows_are_the_same_rows(clustered):
    x = clustered[0]
    seen = ~np.isnan(x)
    stored = sparse.csr_array((x[seen], np.nonzero(seen)), shape=x.shape)
    dense, thin = fit(x), fit(open_source(stored, unstored_missing=True))
    assert thin.log_likelihood == pytest.approx(dense.log_likelihood, abs=1e-5)


def test_threads_and_files_find_the_same_maximum(clustered, tmp_path):
    x = clustered[0]
    np.save(tmp_path / "rows.npy", x)
    small = SampleSize(cells=200 * D, rows=200)
    wanted = fit(x)
    for rows in (open_source(x, n_jobs=2), tmp_path / "rows.npy", [x[:100], x[100:]]):
        found = fit(rows, sample=small)
        assert found.log_likelihood == pytest.approx(wanted.log_likelihood, abs=1e-4)
        assert_allclose(found.model.means, wanted.model.means, atol=1e-3)


def test_the_same_generator_gives_the_same_fit(clustered):
    one, two = (fit(clustered[0], noise="per_feature", tol=1e-3) for _ in range(2))
    assert one.trace == two.trace


# Numbers of clusters and components


def test_bic_chooses_the_numbers_of_separate_clusters(rng):
    x, _ = rows_of(separate_clusters(rng, q=2, k=2), 300, rng, 0.1)
    found = fit(x, None, None, tol=1e-3, n_init=2)
    assert (found.model.n_clusters, found.model.n_components) == (2, 2)
    assert found.rule == "clusters and components by BIC"
    best = found.criteria.best("bic")
    assert (found.criteria.n_clusters[best], found.criteria.n_components[best]) == (2, 2)
    assert found.criteria.log_likelihood[best] == pytest.approx(found.log_likelihood)


def test_criteria_are_those_of_their_definition(clustered):
    x = clustered[0]
    found = fit(x, 2, 2, noise="per_feature")
    share = responsibilities(found.model, x)
    seen = ~np.isnan(x).all(axis=1)
    p = 2 * (D * 2 - 1 + D + D + 1) - 1
    bic = found.log_likelihood - 0.5 * p * np.log((~np.isnan(x)).sum() / D)
    assert found.criteria.n_parameters[0] == p
    assert found.criteria.bic[0] == pytest.approx(bic)
    entropy = -(share * np.log(np.maximum(share, 1e-300)))[seen].sum()
    assert found.criteria.icl[0] == pytest.approx(bic - entropy, abs=1e-6)


@pytest.mark.parametrize(
    ("k", "q", "error"), [(0, 1, ShapeError), (2, 0, ShapeError), (2, D, ShapeError), ("aic", 1, DataError)]
)
def test_sizes_that_make_no_sense_are_refused(clustered, k, q, error):
    with pytest.raises(error, match=r"n_clusters|n_components"):
        fit(clustered[0], k, q)


# Degenerate tables


@pytest.mark.parametrize("noise", NOISES)
def test_repeated_rows_give_a_finite_likelihood_and_a_flag(rng, noise):
    x = np.vstack([spiked_rows_with_holes(rng, 200, D, 2, noise=0.5), np.tile(np.full(D, 40.0), (12, 1))])
    found = fit(x, 2, 1, noise=noise, tol=1e-3)
    assert np.isfinite(found.log_likelihood)
    assert_allclose(found.model.weights[1], 12 / 212, atol=1e-6)
    assert_array_equal(found.degenerate, [False, True])
    assert found.status is Status.DEGENERATE_CLUSTERS


@pytest.mark.parametrize("noise", NOISES)
def test_more_clusters_than_distinct_rows_give_a_finite_likelihood_and_a_flag(rng, noise):
    x = np.repeat(rng.standard_normal((4, 3)), 10, axis=0)
    found = fit(x, 6, 1, noise=noise, tol=1e-3, n_init=2)
    assert np.isfinite(found.log_likelihood)
    assert found.status is Status.DEGENERATE_CLUSTERS


@pytest.mark.parametrize("noise", NOISES)
def test_constant_and_empty_columns_and_rows_do_no_harm(clustered, noise):
    x = clustered[0].copy()
    x[:5] = np.nan
    plain = fit(x, noise=noise, tol=1e-3)
    more = np.column_stack([x, np.full(len(x), 7.0), np.full(len(x), np.nan)])
    found = fit(more, noise=noise, tol=1e-3)
    assert np.isfinite(found.log_likelihood)
    assert_array_equal(found.empty, [D + 1])
    assert_allclose(found.model.means[:, D], 7.0)
    share, wanted = responsibilities(found.model, more), responsibilities(plain.model, x)
    assert (share.argmax(axis=1) == wanted.argmax(axis=1)).mean() > 0.98


# Pieces


def test_a_better_mixture_that_is_passed_over_as_degenerate_is_named(rng):
    x = rng.standard_normal((200, 4))
    constant = x.copy()
    constant[:100, :3] = 0.0
    found = fit(constant, None, 1, noise="per_feature")
    assert found.model.n_clusters == 1
    best = int(np.argmax(found.criteria.bic))
    assert found.criteria.degenerate[best]
    assert f"BIC of {found.criteria.n_clusters[best]} clusters of 1 component is larger" in found.notes[0]
    assert found.status is Status.CONVERGED
    assert fit(x, None, 1, noise="per_feature").notes == ()


def test_a_fit_that_was_cut_short_says_so_in_words_of_mixtures(clustered):
    x, _ = clustered
    found = fit(x, max_iter=1)
    assert found.status is Status.MIXTURE_MAX_ITER
    assert not found.status.converged


def test_coordinates_are_those_of_the_mixture(rng):
    for noise in NOISES:
        mixture, other = (separate_clusters(rng, noise) for _ in range(2))
        floor = np.full(() if noise == "shared" else (D,), 1e-3)
        at = MixtureCoordinates.around(other, floor)
        vector = at.flatten(mixture)
        back = at.place(vector)
        for name in ("weights", "means", "loadings", "noise_variance"):
            assert_allclose(getattr(back, name), getattr(mixture, name), rtol=1e-12)
        assert vector.size == 3 + 3 * (D * Q + D) + at.n_noise
        low = vector.copy()
        low[-at.n_noise :] = -100.0
        assert_allclose(at.place(low).noise_variance, 1e-3)


def test_k_means_finds_separate_clouds_and_respects_weights(rng):
    points = np.vstack([rng.standard_normal((20, 2)), rng.standard_normal((20, 2)) + 30.0, np.full((5, 2), 1e6)])
    weight = np.repeat([1.0, 0.0], [40, 5])
    labels = k_means(points, weight, 2, rng)
    assert np.unique(labels[:20]).size == np.unique(labels[20:40]).size == 1
    assert labels[0] != labels[20]
    assert_array_equal(k_means(np.zeros((6, 2)), np.ones(6), 3, rng) < 3, np.full(6, True))
