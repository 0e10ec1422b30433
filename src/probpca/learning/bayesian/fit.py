"""Variational Bayesian PCA."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.learning.complete.closed_form import choose_components
from probpca.learning.complete.spectrum import model_of, noise_of
from probpca.learning.components import check_count
from probpca.learning.describe import boiled_down, require_counted, require_observed, units
from probpca.learning.em.e_step import expect, expect_believed
from probpca.learning.em.m_step import EM, latent_moments, theta_of
from probpca.learning.loop import Monitor, iterate
from probpca.learning.missing.fit import Problem, noise_floor, repeatable, summarised
from probpca.learning.missing.start import first_model
from probpca.learning.result import Settings, Status
from probpca.linalg.packed import identity, inverse, log_determinants, multiply, pack, traces
from probpca.models import LinearGaussian, ParameterBelief
from probpca.sources import open_source, scaled
from probpca.sources.engines.local import one_blas_thread
from probpca.statistics import Columns, Sum

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.learning.loop import Iterated
    from probpca.models import Gaussian
    from probpca.sources import Source
    from probpca.statistics import Regression
    from probpca.typing import Array, Index

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
    second = W.T @ W + belief.summed_covariance
    _, rotation = np.linalg.eigh(root.T @ second @ root)
    basis = np.eye(q + 1)
    basis[:q, :q] = root @ rotation[:, ::-1]
    basis[:q, q] = latent.mean
    return basis


def without_dead(belief: ParameterBelief) -> ParameterBelief:
    """Forget components whose loadings are nothing but doubt; one is always kept."""
    share = 1 - belief.loading_variance / belief.energy
    alive = np.flatnonzero(share > DEAD)
    if alive.size == belief.n_components:
        return belief
    return belief.keep(alive) if alive.size else belief.keep(np.array([share.argmax()])).muted()


def divergence(belief: ParameterBelief) -> float:
    """Kullback-Leibler divergence of the belief from the prior, in which the density of a mean is 1."""
    q, d = belief.n_components, belief.n_known
    spread = belief.covariance[:, belief.covariance[-1] > 0]
    entropy = 0.5 * log_determinants(spread).sum() * (d / spread.shape[1]) + 0.5 * d * (q + 1 + LOG_2PI)
    return float(0.5 * belief.precision @ belief.energy - 0.5 * d * np.log(belief.precision).sum() - entropy)


MOST_COMPLETE, MOST_MISSING = 50, 20
"""Components to begin with if nobody says how many: the fit removes those that the rows do not support."""
WARM_STEPS = 3
"""Steps of maximum likelihood at first: a belief that begins with too small loadings never finds them again."""

SMALLEST = 1e-8
"""Squared loadings of a component that rows of lower rank do not have, in units of the noise."""


class BeliefResult(NamedTuple):
    """What is believed after the rows were seen, and how it came about."""

    belief: ParameterBelief
    model: LinearGaussian  # the distribution of a new row, doubt about parameters and all
    status: Status
    lower_bound: float  # of the log evidence, in nats
    trace: tuple[float, ...]  # the bound before each step
    n_iter: int
    weight: float  # number of rows, as their weights count them
    cells: float  # number of observed cells
    rule: str  # how the number of components was found
    empty: Index  # features of which nothing was observed


def fit_variational(
    source: Source, n_components: int | None, settings: Settings, rng: np.random.Generator
) -> BeliefResult:
    """Fit Bayesian PCA with at most ``n_components`` components; those that are not supported are removed.

    Parameters and latents are believed to be independent, which makes the bound on the log evidence computable
    (variational Bayes; Bishop 1999, Ilin & Raiko 2010). Rows are read as by the missing-data EM, once a step.
    """
    source = repeatable(open_source(source))
    check_count(1 if n_components is None else n_components, source.n_features)
    with one_blas_thread():
        columns, sample = summarised(source, rng)
        require_observed(source, columns)
        require_counted(columns)
        complete = _is_complete(source, columns)
        q = _most(columns, complete=complete) if n_components is None else n_components
        if complete:
            floor = noise_floor(columns)
            rows = boiled_down(source)
            start = _exact_start(rows, q, rng)
        else:
            problem = Problem.of(source, columns, settings, rng)
            rows, floor = problem.rows, problem.floor
            start = _warm(problem if sample is None else _problem_of(sample, settings, rng), q)
        em = VariationalEM(floor)
        monitor = Monitor(settings.tol, settings.max_iter, settings.watch)
        ended = iterate(partial(_step, em, rows, monitor), _first_belief(em, rows, start), monitor)
    return _result(ended, floor, columns, q)


def fit_variational_standardized(
    source: Source, n_components: int | None, settings: Settings, rng: np.random.Generator
) -> BeliefResult:
    """The same of x / std, told in the units of the data: one noise variance per feature."""
    source = repeatable(open_source(source))
    std, observed = units(source)
    result = fit_variational(scaled(source, 1 / std), n_components, settings, rng)
    shift = -float((observed - (observed > 0)) @ np.log(std))  # cells, and the density of the means
    belief, trace = result.belief.rescale(std).principal(), tuple(value + shift for value in result.trace)
    return result._replace(belief=belief, model=belief.predictive(), lower_bound=trace[-1], trace=trace)


def _result(ended: Iterated[ParameterBelief], floor: float, columns: Columns, asked: int) -> BeliefResult:
    belief, trace = ended.state.principal(), ended.trace
    status = Status.BOUND_CONVERGED if ended.status.converged else Status.BOUND_MAX_ITER
    if float(belief.centre.noise_variance) <= 2 * floor:
        status = Status.NOISE_COLLAPSED
    rule = _rule(belief, asked)
    cells, empty = float(columns.observed.sum()), np.flatnonzero(columns.observed == 0)
    return BeliefResult(
        belief, belief.predictive(), status, trace[-1], trace, len(trace) - 1, columns.rows, cells, rule, empty
    )


def _step(em: VariationalEM, rows: Source, monitor: Monitor, belief: ParameterBelief) -> tuple[ParameterBelief, float]:
    """One step; while a component dies gains grow, and say nothing about those after its death."""
    following, bound = em.step(belief, rows)
    if following.n_components < belief.n_components:
        monitor.forget()
    return following, bound


def _rule(belief: ParameterBelief, asked: int) -> str:
    q = belief.n_components
    if not belief.centre.loadings.any():
        return f"none of {asked} is relevant, one is kept"
    return f"{q} of {asked} are relevant" if q < asked else f"all of {asked} are relevant"


def _is_complete(source: Source, columns: Columns) -> bool:
    """Is every cell of every row observed, with one precision? Another pass is made only if that may be."""
    whole = np.allclose(columns.observed, columns.rows, rtol=1e-12, atol=0)
    return bool(whole and source.fold(_lacking).value.sum() == 0)


def _lacking(block: Block) -> Sum:
    return Sum(np.array([float(not block.is_complete or block.precision is not None)]))


def _most(columns: Columns, *, complete: bool) -> int:
    limit = MOST_COMPLETE if complete else MOST_MISSING
    return int(max(min(columns.mean.size - 1, columns.rows - 2, limit), 1))


def _problem_of(source: Source, settings: Settings, rng: np.random.Generator) -> Problem:
    return Problem.of(source, source.fold(Columns.of), settings, rng)


def _exact_start(rows: Source, q: int, rng: np.random.Generator) -> LinearGaussian:
    """The maximum of the likelihood.

    A few columns that depend on others leave directions without noise, in which the bound has no end: as many
    components as leave some noise, then. Rows in few directions altogether have no noise, and are told to have none.
    """
    spectrum = choose_components(rows, q, Settings(), rng).spectrum
    most = max((k for k in range(1, q + 1) if not noise_of(spectrum, k).collapsed), default=0)
    return model_of(spectrum, most if 2 * (most + 1) > rows.n_features else q)


def _warm(problem: Problem, q: int) -> LinearGaussian:
    """A few steps of parameter-expanded EM from the leading eigenpairs."""
    model, em = first_model(problem, q), EM(problem.floor)
    for _ in range(WARM_STEPS):
        model, _ = em.step(model, problem.rows)
    return model


def _first_belief(em: VariationalEM, rows: Source, model: LinearGaussian) -> ParameterBelief:
    """What the rows say about parameters, given the latents at a model."""
    sums = rows.fold(partial(expect, model))
    energy = np.maximum(np.square(model.loadings).sum(axis=0), SMALLEST * float(model.noise_variance))
    learnt = em.learn(model, model.n_features / energy, sums)
    return without_dead(learnt.turned(best_basis(learnt, latent_moments(sums))))
