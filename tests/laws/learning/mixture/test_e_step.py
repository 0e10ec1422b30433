"""E-step of a mixture: the sums of dense densities, row after row, in whatever form the rows are stored."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import logsumexp

from oracles import dense_observed_log_likelihood, dense_regression, precise_log_likelihood, punched, random_model
from probpca.blocks import Block, observe
from probpca.blocks.cells import FORMS
from probpca.learning.em.e_step import expect
from probpca.learning.mixture.e_step import expect_mixture
from probpca.models import LinearGaussian, Mixture
from probpca.sources import Source

K, D, Q, N = 3, 5, 2, 40
NOISES = [0.3, "diagonal"]
FIELDS = ("weight", "counts", "latent", "gram", "score", "squares")


def random_mixture(rng, noise=0.3, *, d=D, q=Q, k=K):
    clusters = tuple(random_model(rng, d, q, noise=noise, mean=1.5) for _ in range(k))
    return Mixture(rng.dirichlet(np.full(k, 5.0)), clusters)


def dense_log_joint(mixture, x, precision=None):
    densities = [dense_observed_log_likelihood(cluster, x, precision) for cluster in mixture.clusters]
    return np.stack(densities, axis=1) + np.log(mixture.weights)


def dense_sums(mixture, x, weight, precision=None):
    """Log-likelihood, entropy, and the sums of each cluster with responsibilities as weights of the rows."""
    joint = dense_log_joint(mixture, x, precision)
    total = logsumexp(joint, axis=1)
    share = np.exp(joint - total[:, None])
    seen = ~np.isnan(x).all(axis=1)
    entropy = -(weight[:, None] * share * np.log(share))[seen].sum()
    sums = [
        dense_regression(cluster, x, weight * r, precision)
        for cluster, r in zip(mixture.clusters, share.T, strict=True)
    ]
    return float((weight * total)[seen].sum()), float(entropy), sums


def assert_same_sums(found, wanted):
    value, entropy, clusters = wanted
    assert_allclose(found.log_likelihood, value, rtol=1e-11)
    assert_allclose(found.entropy, entropy, rtol=1e-8)
    for sums, dense in zip(found.clusters, clusters, strict=True):
        for name in FIELDS:
            wide = np.broadcast_to(getattr(sums, name), np.shape(dense[name]))
            assert_allclose(wide, dense[name], rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.fixture
def x(rng):
    x = punched(rng, 3 * rng.standard_normal((N, D)), 0.3)
    x[3] = np.nan
    x[5:9] = x[5]  # a pattern that recurs
    return x


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("form", [*FORMS, None])
def test_sums_are_those_of_dense_densities_in_every_form(rng, x, noise, form):
    mixture, weight = random_mixture(rng, noise), rng.uniform(0.5, 2.0, N)
    found = expect_mixture(mixture, observe(Block(x, weight), np.nanmean(x, axis=0), form=form))
    assert_same_sums(found, dense_sums(mixture, x, weight))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("form", ["masked", "stored"])
def test_sums_of_weighted_cells_are_those_of_dense_densities(rng, x, noise, form):
    mixture, precision = random_mixture(rng, noise), rng.uniform(0.2, 3.0, x.shape)
    precision[rng.random(x.shape) < 0.1] = 0.0
    values = Block(x, None, precision)
    if form == "stored":
        seen = ~np.isnan(x)
        stored = sparse.csr_array((x[seen], np.nonzero(seen)), shape=x.shape)
        values = Block(stored, None, precision[seen], unstored_missing=True)
    found = expect_mixture(mixture, observe(values, np.nanmean(x, axis=0)))
    dense = np.where(precision > 0, x, np.nan)
    assert_same_sums(found, dense_sums(mixture, dense, np.ones(N), np.where(precision > 0, precision, 1.0)))


@pytest.mark.parametrize("noise", NOISES)
def test_complete_rows_give_the_same_sums(rng, noise):
    mixture, x = random_mixture(rng, noise), 3 * rng.standard_normal((N, D))
    assert_same_sums(expect_mixture(mixture, observe(Block(x), x.mean(axis=0))), dense_sums(mixture, x, np.ones(N)))


@pytest.mark.parametrize("noise", NOISES)
def test_one_cluster_has_the_sums_of_its_model(rng, x, noise):
    model = random_model(rng, D, Q, noise=noise)
    rows = observe(Block(x), np.nanmean(x, axis=0))
    found, wanted = expect_mixture(Mixture(np.ones(1), (model,)), rows), expect(model, rows)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, rtol=1e-13)
    assert found.entropy == pytest.approx(0.0, abs=1e-12)
    for name in FIELDS:
        assert_allclose(getattr(found.clusters[0], name), getattr(wanted, name), rtol=1e-12, atol=1e-12, err_msg=name)


def test_sums_do_not_depend_on_where_rows_are_cut(rng, x):
    mixture, centre = random_mixture(rng), np.nanmean(x, axis=0)
    whole = expect_mixture(mixture, observe(Block(x), centre))
    parts = Source.of_blocks([observe(Block(x[a:b]), centre) for a, b in [(0, 7), (7, 8), (8, N)]], D)
    merged = parts.fold(partial(expect_mixture, mixture))
    assert_allclose(merged.log_likelihood, whole.log_likelihood, rtol=1e-13)
    assert_allclose(merged.entropy, whole.entropy, rtol=1e-10)
    for one, other in zip(merged.clusters, whole.clusters, strict=True):
        for name in FIELDS:
            assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10, atol=1e-10)


def test_scaled_sums_are_those_of_repeated_rows(rng, x):
    mixture, centre = random_mixture(rng), np.nanmean(x, axis=0)
    once, twice = (expect_mixture(mixture, observe(Block(rows), centre)) for rows in (x, np.vstack([x, x])))
    doubled = once.scaled(2.0)
    assert_allclose(doubled.log_likelihood, twice.log_likelihood)
    assert_allclose(doubled.entropy, twice.entropy)
    assert_allclose(doubled.clusters[1].gram, twice.clusters[1].gram)
    assert_allclose(doubled.cluster_weights, twice.cluster_weights)


@pytest.mark.parametrize("noise", [1e-9, 1e-5])
@pytest.mark.parametrize("holes", [False, True])
def test_little_noise_and_distant_clusters_keep_their_digits(rng, noise, holes):
    far = [LinearGaussian(shift * np.ones(D), rng.standard_normal((D, Q)), noise) for shift in (0.0, 1e4)]
    mixture = Mixture([0.5, 0.5], far)
    z = rng.standard_normal((8, Q))
    clean = np.vstack([z[:4] @ far[0].loadings.T, 1e4 + z[4:] @ far[1].loadings.T])
    x = clean + np.sqrt(noise) * rng.standard_normal(clean.shape)
    x = punched(rng, x, 0.2) if holes else x
    found = expect_mixture(mixture, observe(Block(x), np.nanmean(x, axis=0)))
    if holes:
        seen = [~np.isnan(row) for row in x]
        wanted = sum(
            float(precise_log_likelihood(far[i // 4].restrict(np.flatnonzero(s)), x[i : i + 1, s])[0])
            for i, s in enumerate(seen)
        )
    else:
        wanted = sum(float(precise_log_likelihood(far[i // 4], x[i : i + 1])[0]) for i in range(8))
    assert found.log_likelihood == pytest.approx(wanted + 8 * np.log(0.5), rel=1e-6)
