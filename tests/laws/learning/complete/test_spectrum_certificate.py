"""What approximate eigenpairs leave of the log-likelihood is known, in nats, before it is paid."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import closed_form_oracle
from probpca.learning import Settings, fit_ppca
from probpca.learning.complete.spectrum import Certificate
from probpca.linalg.block_krylov import block_krylov
from probpca.sources import open_source

N = 1000.0
SPECTRA = {
    "slow": lambda d: 1.0 / np.arange(1, d + 1),
    "spikes": lambda d: np.concatenate([[50.0, 20.0, 9.0, 4.0], np.ones(d - 4)]),
    "fast": lambda d: 2.0 ** -np.arange(d),
    "nearly tied": lambda d: np.concatenate([[5.0, 4.0, 3.0, 2.0, 1.99], np.linspace(1, 0.5, d - 5)]),
}


def best_with(theta, total, d):
    """The log-likelihood of the best model whose span holds Ritz values ``theta``, up to a constant."""
    k = theta.size
    return -0.5 * N * (np.log(theta).sum() + (d - k) * np.log((total - theta.sum()) / (d - k)))


@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_bounds_what_is_missing(spectrum, seed):
    d, k = 120, 4
    rng = np.random.default_rng(seed)
    values = spectrum(d)
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    S = axes * values @ axes.T
    certificate = Certificate(N, d, k, values.sum(), 1e-3)
    best = best_with(values[:k], values.sum(), d)
    steps = []

    def look(theta, residuals):
        steps.append((best - best_with(theta[:k], values.sum(), d), certificate.missing(theta, residuals)))
        return certificate(theta, residuals)

    block_krylov(S.__matmul__, rng.standard_normal((d, k + 4)), k, look, scale=values.sum())
    missing, bound = np.array(steps).T
    # Before the Ritz values have found their eigenvalues nobody can bound them; from then on it holds.
    near = bound < 0.05 * N
    assert near.any()
    assert (missing[near] <= bound[near] + 1e-9 * N).all()
    assert missing[-1] <= 1e-3


@cache
def slow_decay(n, d):
    x = np.random.default_rng(0).standard_normal((n, d)) * np.sqrt(1.0 / np.arange(1, d + 1))
    return x, closed_form_oracle(x, 5).log_likelihood


@pytest.mark.parametrize("tol", [1e-1, 1e-4, 1e-7])
@pytest.mark.parametrize(("n", "d", "solver"), [(300, 450, "krylov"), (450, 420, "covariance"), (410, 900, "gram")])
def test_an_iterative_solver_ends_within_tol_of_the_maximum(n, d, solver, tol):
    x, wanted = slow_decay(n, d)
    found = fit_ppca(open_source(x), 5, Settings(solver, tol), np.random.default_rng(1))
    assert_allclose(found.log_likelihood, wanted, atol=tol + 1e-12 * abs(wanted))


def test_exact_eigenpairs_lack_nothing():
    certificate = Certificate(N, 10, 2, 12.0, 1e-3)
    assert certificate.missing(np.array([4.0, 2.0, 1.0]), np.zeros(3)) == 0.0
    assert certificate(np.array([4.0, 2.0, 1.0]), np.zeros(3))
    assert not certificate(np.array([4.0, 2.0, 1.0]), np.full(3, 0.1))
