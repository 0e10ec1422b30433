"""EM as two ascents of one function: neither step lowers the free energy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import dense_log_likelihood, random_model, spiked_rows
from probpca.inference import free_energy, posterior
from probpca.learning.em.m_step import EM
from probpca.sources import open_source


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 60, 7, 3)


def test_after_an_expectation_step_the_free_energy_is_the_log_likelihood(x, rng):
    model = random_model(rng, 7, 3)
    assert_allclose(free_energy(model, x, posterior(model, x)), dense_log_likelihood(model, x), rtol=1e-10)


@pytest.mark.parametrize("expand", [False, True])
def test_neither_step_lowers_the_free_energy(x, rng, expand):
    model = random_model(rng, 7, 3)
    before = -np.inf
    for _ in range(15):
        belief = posterior(model, x)
        after_expectation = free_energy(model, x, belief).sum()
        assert after_expectation >= before - 1e-9 * abs(after_expectation)
        following, _ = EM(1e-300, expand=False).step(model, open_source(x))
        before = free_energy(following, x, belief).sum()
        assert before >= after_expectation
        model = EM(1e-300, expand=expand).step(model, open_source(x))[0]


def test_the_loadings_solve_the_normal_equations_and_are_not_their_product(x, rng):
    model = random_model(rng, 7, 3)
    belief = posterior(model, x)
    m, P = belief.mean, belief.covariance
    s1 = (x - model.mean).T @ m  # sum y E[z]'
    s2 = m.T @ m + P.sum(axis=0)  # sum E[zz']

    def expected(W):
        """The part of E log p(x, z) that W has a say in."""
        residual = x - model.mean - m @ W.T
        return -0.5 / model.noise_variance * (np.square(residual).sum() + np.trace(W @ P.sum(axis=0) @ W.T))

    assert expected(s1 @ np.linalg.inv(s2)) > expected(model.loadings) > expected(s1 @ s2)
