"""The profile likelihood is the likelihood at its best loadings, in whatever form the correlations come."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import approx_fprime

from oracles import closed_form_oracle, dense_log_likelihood, random_model
from probpca.blocks import Block
from probpca.inference import sample
from probpca.inference.likelihood import LOG_2PI
from probpca.learning.complete.spectrum import Certificate
from probpca.learning.factor.profile import CorrelationMatrix, FewRows, ManyColumns, Profile
from probpca.learning.settings import DenseSettings, KrylovSettings
from probpca.models import LinearGaussian
from probpca.sources import open_source
from probpca.statistics import Stack

Q = 3


def standardised(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def profile_of(z, q=Q):
    """Profile likelihood of standardised rows."""
    n, d = z.shape
    return Profile(CorrelationMatrix(z.T @ z / n, DenseSettings()), q, n, -0.5 * n * d * LOG_2PI, 1e-6)


@pytest.fixture
def z(rng):
    return standardised(sample(random_model(rng, 8, Q, noise="diagonal"), 60, rng=rng))


@pytest.mark.parametrize("noise", ["like the data", "small", "large"])
def test_it_is_the_log_likelihood_of_the_model_with_its_loadings(rng, z, noise):
    low, high = {"like the data": (0.1, 0.9), "small": (1e-6, 1e-4), "large": (5.0, 9.0)}[noise]
    x = np.log(rng.uniform(low, high, 8))
    profile = profile_of(z)
    point = profile.at(x)
    assert point.values.size < Q if noise == "large" else point.values.size == Q
    model = LinearGaussian(np.zeros(8), point.loadings(Q), np.exp(x))
    assert_allclose(profile.log_likelihood(point), dense_log_likelihood(model, z).sum(), rtol=1e-8)


def test_no_other_loadings_are_better(rng, z):
    x = np.log(rng.uniform(0.1, 0.9, 8))
    profile = profile_of(z)
    point = profile.at(x)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(5):
            other = point.loadings(Q) + size * rng.standard_normal((8, Q))
            model = LinearGaussian(np.zeros(8), other, np.exp(x))
            assert dense_log_likelihood(model, z).sum() < profile.log_likelihood(point)


@pytest.mark.parametrize("low", [1e-6, 0.1, 2.0])
def test_the_gradient_is_that_of_finite_differences(rng, z, low):
    x = np.log(low * rng.uniform(1.0, 4.0, 8))
    profile = profile_of(z)
    gradient = profile.at(x).gradient
    numeric = [approx_fprime(x, lambda v: profile.at(v).value, step) for step in (1e-6, -1e-6)]
    assert_allclose(gradient, np.mean(numeric, axis=0), rtol=1e-4, atol=1e-6 * np.exp(-x).max() ** 0.5)


def test_a_point_knows_the_eigenpair_that_follows_those_of_the_factors(rng, z):
    x = np.log(rng.uniform(0.1, 0.9, 8))
    scale = np.exp(-x / 2)
    values, vectors = np.linalg.eigh(z.T @ z / len(z) * np.outer(scale, scale))
    for q in range(1, 8):
        point = profile_of(z, q).at(x)
        m = point.values.size
        assert m == min(q, (values > 1).sum())
        assert_allclose(point.next_value, values[-m - 1], rtol=1e-10)
        assert_allclose(abs(point.next_axis @ vectors[:, -m - 1]), 1.0, rtol=1e-10)
    point = profile_of(z, 8).at(x - 9.0)
    assert point.values.size == 8
    assert point.next_value == 0


@pytest.mark.parametrize("q", [1, 3, 6])
def test_equal_noise_variances_give_the_likelihood_of_ppca(z, q):
    wanted = closed_form_oracle(z, q)
    profile = profile_of(z, q)
    point = profile.at(np.full(8, np.log(wanted.model.noise_variance)))
    assert_allclose(profile.log_likelihood(point), wanted.log_likelihood, rtol=1e-10)
    W = wanted.model.loadings
    assert_allclose(point.loadings(q) @ point.loadings(q).T, W @ W.T, atol=1e-8)


def forms(x, w, dense):
    """Every form of the correlations of rows with integer weights and a constant column, and the matrix itself."""
    mean = np.average(x, axis=0, weights=w)
    std = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=w))
    std[2] = 0.0
    varies = std > 0
    z = (x - mean)[:, varies] / std[varies]
    R = (z * w[:, None]).T @ z / w.sum()
    given = x if dense else sparse.csr_array(x)
    block = Block(given if dense else given.tocsr(), w)
    stack = Stack.of(block.take(slice(0, 20))).merge(Stack.of(block.take(slice(20, len(x)))))
    source = open_source(given, weight=w)
    return R, {
        "matrix": CorrelationMatrix(R, DenseSettings()),
        "few rows": FewRows(stack, mean, std, DenseSettings(), n_jobs=2),
        "many columns": ManyColumns(source, w.sum(), mean, std, KrylovSettings()),
    }


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", ["matrix", "few rows", "many columns"])
def test_every_form_has_the_eigenpairs_of_the_scaled_matrix(rng, name, kind):
    x = sample(random_model(rng, 60, Q, noise="diagonal"), 45, rng=rng)
    x[:, 2] = 7.0
    if kind == "sparse":
        x *= rng.random(x.shape) < 0.4
        x[:, 2] = 0.0
    w = rng.integers(1, 4, 45).astype(float)
    R, found = forms(x, w, kind == "dense")
    form = found[name]
    assert form.n_features == 59
    scale = rng.uniform(0.5, 30.0, 59)
    S = R * np.outer(scale, scale)
    goal = Certificate(w.sum(), 59, Q, np.trace(S), 1e-10)
    values, vectors = np.linalg.eigh(S)
    for near in (None, vectors[:, -2:] + 1e-3):
        told, axes = form.leading(scale, goal, near)
        assert told.size in (Q, Q + 1)
        told, axes = told[:Q], axes[:, :Q]
        assert_allclose(told, values[: -Q - 1 : -1], rtol=1e-9)
        assert_allclose(axes @ axes.T, vectors[:, -Q:] @ vectors[:, -Q:].T, atol=1e-5)
    chosen = np.array([58, 0, 30])
    assert_allclose(form.among(chosen), R[np.ix_(chosen, chosen)], atol=1e-12)
