"""Variational EM: sweeps that update the posteriors of latent variables and of parameters in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.cached_property import cached_property
from probpca.inference.likelihood import LOG_2PI
from probpca.learning.em.e_step import expect_believed
from probpca.learning.em.m_step import latent_moments, theta_of
from probpca.linalg.packed import identity, inverse, log_determinants, multiply, pack, traces
from probpca.models import LinearGaussian, ParameterBelief
from probpca.models.gaussian import latent_root

if TYPE_CHECKING:
    from probpca.models import Gaussian
    from probpca.sources import Source
    from probpca.statistics import Regression
    from probpca.typing import Array


@final
@dataclass(frozen=True, eq=False)
class Pending:
    """Posterior of the parameters with a change of latent axes, which is made when it is asked for."""

    learnt: ParameterBelief
    basis: Array  # (q + 1, q + 1)

    @cached_property
    def belief(self) -> ParameterBelief:
        """Posterior after the change, without irrelevant components."""
        return without_dead(self.learnt.turned(self.basis))


@final
@dataclass(frozen=True, slots=True)
class VariationalEM:
    r"""Variational EM: alternating updates of the posteriors of latent variables and parameters.

    .. math::
        q(z_i) = N(m_i, P_i), \quad
        P_i^{-1} = I + \tau \sum_{j \in O_i} E[w_j w_j^\top], \quad
        m_i = \tau P_i \sum_{j \in O_i} (\hat w_j x_{ij} - E[w_j \mu_j])

    .. math::
        q(\theta_j) = N(\hat\theta_j, \Sigma_j), \quad
        \Sigma_j^{-1} = \operatorname{diag}(\alpha, 0) + \tau A_j, \quad
        \hat\theta_j = \tau \Sigma_j \sum_{i \in R_j} x_{ij} E[t_i]

    Each step also maximises the bound over the noise variance and the precisions :math:`\alpha`, and over changes of
    the latent axes: the optimal one makes latent variables N(0, I) on average and :math:`E[W^\top W]` diagonal, which
    saves hundreds of steps (Ilin & Raiko 2010). No part decreases the bound. An increase of the noise variance is
    doubled, which saves hundreds of steps if the components span most directions.
    """

    floor: float  # smallest noise variance

    def step(self, belief: ParameterBelief, source: Source) -> tuple[ParameterBelief, float]:
        """Posterior after one iteration, and the lower bound at the given one."""
        sums = source.fold(partial(expect_believed, belief))
        return self.advance(belief, sums), sums.log_likelihood - divergence(belief)

    def advance(self, belief: ParameterBelief, sums: Regression) -> ParameterBelief:
        """Posterior after one iteration, given the statistics of the E-step at ``belief``."""
        return self.sweep(belief, sums).belief

    def sweep(self, belief: ParameterBelief, sums: Regression) -> Pending:
        """Posterior after one iteration, whose change of latent axes is still to be made."""
        before = float(belief.centre.noise_variance)
        learnt = with_faster_noise(self.learn(belief.centre, belief.precision, sums), before)
        return Pending(learnt, best_basis(learnt, latent_moments(sums)))

    def learn(self, model: LinearGaussian, precision: Array, sums: Regression) -> ParameterBelief:
        """Posterior of the parameters given the statistics of the E-step at a model."""
        noise = float(model.noise_variance)
        prior = noise * np.append(precision, 0.0)  # in units of the noise; flat prior of the mean
        known = sums.gram[-1] > 0
        gained = np.where(known, sums.gram, identity(prior.size))
        spread = np.where(known, inverse(gained + pack(np.diag(prior))[:, None]), 0.0)
        right = sums.score - prior[:, None] * theta_of(model)
        change = multiply(spread, right)  # so that gram @ change = right - prior * change
        spread *= noise
        less = np.einsum("kd,kd->d", change, right - prior[:, None] * change - 2 * sums.score)
        squares = sums.squares + less + traces(sums.gram, spread)  # (d,)
        sigma2 = max(float(squares.sum()) / sums.cells, self.floor)
        mean, loadings = model.mean + change[-1], model.loadings + change[:-1].T
        return ParameterBelief(LinearGaussian(mean, loadings, np.asarray(sigma2)), spread, precision)


def with_faster_noise(belief: ParameterBelief, before: float, largest: float = 1.2) -> ParameterBelief:
    r"""Double an increase of the log noise variance over ``before``, limited to a factor of ``largest``.

    As a function of the noise variance alone, the bound for N cells is
    :math:`-\tfrac N2 (\log \sigma^2 + s / \sigma^2)` with maximum at s. It is flatter above s than below: its value at
    :math:`s^2 / \sigma_0^2` is not lower than at :math:`\sigma_0^2 < s`.
    """
    best = float(belief.centre.noise_variance)
    if best <= before:
        return belief
    faster = np.asarray(best * min(best / before, largest))
    return replace(belief, centre=replace(belief.centre, noise_variance=faster))


def best_basis(belief: ParameterBelief, latent: Gaussian) -> Array:
    """Change of latent axes that makes latent variables N(0, I) on average and E[W'W] diagonal: (q + 1, q + 1)."""
    W, q = belief.centre.loadings, belief.n_components
    root = latent_root(latent)
    second = W.T @ W + belief.summed_covariance
    _, rotation = np.linalg.eigh(root.T @ second @ root)
    basis = np.eye(q + 1)
    basis[:q, :q] = root @ rotation[:, ::-1]
    basis[:q, q] = latent.mean
    return basis


def without_dead(belief: ParameterBelief, least_share: float = 0.01) -> ParameterBelief:
    """Remove irrelevant components, whose loadings are indistinguishable from zero; one is always kept.

    A component is relevant if its squared mean loadings are at least ``least_share`` of its expected squared loadings.
    """
    share = 1 - belief.loading_variance / belief.energy
    alive = np.flatnonzero(share > least_share)
    if alive.size == belief.n_components:
        return belief
    return belief.keep(alive) if alive.size else belief.keep(np.array([share.argmax()])).muted()


def divergence(belief: ParameterBelief) -> float:
    """Kullback-Leibler divergence of the posterior from the prior, whose density of the means is 1."""
    q, d = belief.n_components, belief.n_known
    spread = belief.covariance[:, belief.covariance[-1] > 0]
    entropy = 0.5 * log_determinants(spread).sum() * (d / spread.shape[1]) + 0.5 * d * (q + 1 + LOG_2PI)
    return float(0.5 * belief.precision @ belief.energy - 0.5 * d * np.log(belief.precision).sum() - entropy)
