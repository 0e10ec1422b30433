"""Bayesian PCA: a belief about parameters in place of the best ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.learning.em import latent_moments, theta_of
from probpca.learning.expectation import expect_believed
from probpca.linalg.packed import identity, inverse, log_determinants, multiply, pack, traces
from probpca.models import LinearGaussian, ParameterBelief

if TYPE_CHECKING:
    from probpca.models import Gaussian
    from probpca.sources import Source
    from probpca.statistics import Regression
    from probpca.typing import Array

DEAD = 0.01
"""Share of what is expected of a component's squared loadings that its mean loadings make, below which it is dead."""


@final
@dataclass(frozen=True, slots=True)
class VariationalEM:
    r"""Latents given the belief about parameters, parameters given that about latents, in turn.

    .. math::
        q(z_i) = N(m_i, P_i), \quad
        P_i^{-1} = I + \tau \sum_{j \in O_i} E[w_j w_j^\top], \quad
        m_i = \tau P_i \sum_{j \in O_i} (\hat w_j x_{ij} - E[w_j \mu_j])

    .. math::
        q(\theta_j) = N(\hat\theta_j, \Sigma_j), \quad
        \Sigma_j^{-1} = \operatorname{diag}(\alpha, 0) + \tau A_j, \quad
        \hat\theta_j = \tau \Sigma_j \sum_{i \in R_j} x_{ij} E[t_i]

    Then the noise variance and the precisions :math:`\alpha` that fit best, and in between a change of latent axes
    that makes latents N(0, I) on average and :math:`E[W^\top W]` diagonal: no other is better, and without it
    hundreds of steps are needed (Ilin & Raiko 2010). Every part raises the bound.
    """

    floor: float  # smallest noise variance

    def step(self, belief: ParameterBelief, source: Source) -> tuple[ParameterBelief, float]:
        """The next belief, and the lower bound at the given one."""
        sums = source.fold(partial(expect_believed, belief))
        return self.advance(belief, sums), sums.log_likelihood - divergence(belief)

    def advance(self, belief: ParameterBelief, sums: Regression) -> ParameterBelief:
        """The next belief, given the sums at this one."""
        learnt = self.learn(belief.centre, belief.precision, sums)
        return without_dead(learnt.turned(best_basis(learnt, latent_moments(sums))))

    def learn(self, model: LinearGaussian, precision: Array, sums: Regression) -> ParameterBelief:
        """What rows say about parameters, given the latents at a model."""
        prior = np.append(precision, 0.0)  # flat for the mean
        tau = 1.0 / float(model.noise_variance)
        known = sums.gram[-1] > 0
        gained = np.where(known, tau * sums.gram, identity(prior.size))
        spread = np.where(known, inverse(gained + pack(np.diag(prior))[:, None]), 0.0)
        change = multiply(spread, tau * sums.score - prior[:, None] * theta_of(model))
        squares = sums.squares_after(change) + traces(sums.gram, spread)  # (d,)
        sigma2 = max(float(squares.sum()) / sums.cells, self.floor)
        mean, loadings = model.mean + change[-1], model.loadings + change[:-1].T
        return ParameterBelief(LinearGaussian(mean, loadings, np.asarray(sigma2)), spread, precision)


def best_basis(belief: ParameterBelief, latent: Gaussian) -> Array:
    """The change of latent axes after which latents are N(0, I) on average and E[W'W] is diagonal: (q + 1, q + 1)."""
    W, q = belief.centre.loadings, belief.n_components
    root = np.linalg.cholesky(latent.covariance)
    second = W.T @ W + belief.summed_spread
    _, rotation = np.linalg.eigh(root.T @ second @ root)
    basis = np.eye(q + 1)
    basis[:q, :q] = root @ rotation[:, ::-1]
    basis[:q, q] = latent.mean
    return basis


def without_dead(belief: ParameterBelief) -> ParameterBelief:
    """Forget components whose loadings are nothing but doubt; one is always kept."""
    share = 1 - belief.doubt / belief.energy
    alive = np.flatnonzero(share > DEAD)
    if alive.size == belief.n_components:
        return belief
    return belief.keep(alive) if alive.size else belief.keep(np.array([share.argmax()])).muted()


def divergence(belief: ParameterBelief) -> float:
    """Kullback-Leibler divergence of the belief from the prior, in which the density of a mean is 1."""
    q, d = belief.n_components, belief.n_known
    spread = belief.spread[:, belief.spread[-1] > 0]
    entropy = 0.5 * log_determinants(spread).sum() * (d / spread.shape[1]) + 0.5 * d * (q + 1 + LOG_2PI)
    return float(0.5 * belief.precision @ belief.energy - 0.5 * d * np.log(belief.precision).sum() - entropy)
