"""Variational Bayesian PCA."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.learning.complete.iterative import condensed, is_worth_condensing
from probpca.learning.complete.leading_spectrum import leading_spectrum
from probpca.learning.complete.spectrum import model_of, noise_of
from probpca.learning.components import check_count
from probpca.learning.describe import column_std, describe, in_unit_variance, require_counted, rows_in_memory
from probpca.learning.em.e_step import expect, expect_believed
from probpca.learning.em.m_step import latent_moments, theta_of
from probpca.learning.loop import Monitor, iterate
from probpca.learning.missing.fit import Problem, noise_floor
from probpca.learning.missing.start import first_model
from probpca.learning.result import Status
from probpca.learning.settings import SearchLimits, Settings
from probpca.linalg.packed import identity, inverse, log_determinants, multiply, pack, traces
from probpca.models import LinearGaussian, ParameterBelief
from probpca.sources import open_source
from probpca.sources.engines.local import one_blas_thread
from probpca.statistics import Root

if TYPE_CHECKING:
    from probpca.learning.describe import Description, Units
    from probpca.learning.loop import Iterated
    from probpca.models import Gaussian
    from probpca.sources import Source
    from probpca.statistics import ColumnSummary, Regression
    from probpca.typing import Array, Index


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
    hundreds of steps are needed (Ilin & Raiko 2010). Every part raises the bound. A rise of the noise
    variance is doubled: without that, convergence takes hundreds of steps where components take most directions.
    """

    floor: float  # smallest noise variance

    def step(self, belief: ParameterBelief, source: Source) -> tuple[ParameterBelief, float]:
        """The next belief, and the lower bound at the given one."""
        sums = source.fold(partial(expect_believed, belief))
        return self.advance(belief, sums), sums.log_likelihood - divergence(belief)

    def advance(self, belief: ParameterBelief, sums: Regression) -> ParameterBelief:
        """The next belief, given the sums at this one."""
        before = float(belief.centre.noise_variance)
        learnt = with_faster_noise(self.learn(belief.centre, belief.precision, sums), before)
        return without_dead(learnt.turned(best_basis(learnt, latent_moments(sums))))

    def learn(self, model: LinearGaussian, precision: Array, sums: Regression) -> ParameterBelief:
        """Posterior of the parameters given the sums over rows at a model."""
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


def with_faster_noise(belief: ParameterBelief, before: float, largest: float = 1.2) -> ParameterBelief:
    r"""Double a rise of the logarithm of the noise variance, by a factor of at most ``largest``.

    Given all else the bound of N cells is :math:`-\tfrac N2 (\log \sigma^2 + s / \sigma^2)`, with s the variance that
    maximises it. It is flatter above s than below: at :math:`s^2 / \sigma_0^2` it is no lower than at
    :math:`\sigma_0^2 < s`.
    """
    best = float(belief.centre.noise_variance)
    if best <= before:
        return belief
    faster = np.asarray(best * min(best / before, largest))
    return replace(belief, centre=replace(belief.centre, noise_variance=faster))


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


def without_dead(belief: ParameterBelief, least_share: float = 0.01) -> ParameterBelief:
    """Remove components whose loadings are known only to be small; one is always kept.

    ``least_share`` is the share of a component's expected squared loadings that its mean loadings must make.
    """
    share = 1 - belief.loading_variance / belief.energy
    alive = np.flatnonzero(share > least_share)
    if alive.size == belief.n_components:
        return belief
    return belief.keep(alive) if alive.size else belief.keep(np.array([share.argmax()])).muted()


def divergence(belief: ParameterBelief) -> float:
    """Kullback-Leibler divergence of the belief from the prior, in which the density of a mean is 1."""
    q, d = belief.n_components, belief.n_known
    spread = belief.covariance[:, belief.covariance[-1] > 0]
    entropy = 0.5 * log_determinants(spread).sum() * (d / spread.shape[1]) + 0.5 * d * (q + 1 + LOG_2PI)
    return float(0.5 * belief.precision @ belief.energy - 0.5 * d * np.log(belief.precision).sum() - entropy)


class BeliefResult(NamedTuple):
    """Posterior of the parameters and how the fit that found it went."""

    belief: ParameterBelief  # in the units of the data, as the model
    model: LinearGaussian  # the distribution of a new row, doubt about parameters and all
    status: Status
    lower_bound: float  # of the log evidence, in nats
    trace: tuple[float, ...]  # the bound before each step
    n_iter: int
    weight: float  # number of rows, as their weights count them
    cells: float  # number of observed cells
    rule: str  # how the number of components was found
    empty: Index  # features of which nothing was observed
    notes: tuple[str, ...] = ()  # sentences about the choice of the number of components
    column_std: Array | None = None  # of each column, 0 if constant; None if standardised: (d,)
    scale: Array | None = None  # what columns were divided by before the fit: (d,); None if they were not
    sample: Source | None = None  # rows in memory, all or some, if those of the fit were not

    def in_units(self, units: Units) -> BeliefResult:
        """Convert a fit of columns that were divided by ``units.scale`` to the units of the data.

        Latent axes stay the principal axes of the scaled columns.
        """
        observed = units.observed
        shift = -float((observed - (observed > 0)) @ np.log(units.scale))  # cells, and the density of the means
        belief, trace = self.belief.rescale(units.scale), tuple(value + shift for value in self.trace)
        return self._replace(
            belief=belief,
            model=belief.predictive(),
            lower_bound=trace[-1],
            trace=trace,
            scale=units.scale,
            column_std=None,
            sample=None if self.sample is None else self.sample.scaled(units.scale),
        )

    @property
    def scaled_belief(self) -> ParameterBelief:
        """The belief about the columns as the fit saw them, divided by ``scale``: with one noise variance."""
        if self.scale is None:
            return self.belief
        belief = self.belief.rescale(1 / self.scale)
        return replace(belief, centre=belief.centre.isotropic())

    @property
    def scaled_model(self) -> LinearGaussian:
        """The distribution of a new row of the columns as the fit saw them, divided by ``scale``."""
        return self.model if self.scale is None else self.scaled_belief.predictive()


def fit_variational(
    rows: Any,
    n_components: int | None = None,
    settings: Settings = Settings(),
    rng: np.random.Generator | None = None,
    *,
    standardize: bool = False,
) -> BeliefResult:
    """Fit Bayesian PCA with at most ``n_components`` components; those that are not supported are removed.

    The posterior of parameters and latent variables is approximated as independent, which makes a bound on the log
    evidence computable (variational Bayes; Bishop 1999, Ilin & Raiko 2010). Rows are read as by the missing-data EM,
    once a step. ``standardize`` fits columns scaled to unit variance: the belief is in the units of the data, with the
    principal axes of the scaled columns, and ``scale`` holds their standard deviations.
    """
    rng = np.random.default_rng(rng)
    source = open_source(rows)
    check_count(1 if n_components is None else n_components, source.n_features)
    if standardize:
        return in_unit_variance(fit_variational, source, n_components, settings, rng)
    with one_blas_thread():
        table = describe(source, rng, None, settings.sample)
        require_counted(table.summarise())
        q = _most(table, settings.search) if n_components is None else n_components
        start = _start_complete(table, q, rng) if table.complete else _start_missing(table, q, settings, rng)
        em = VariationalEM(start.floor)
        monitor = Monitor(settings.tol, settings.max_iter, settings.watch)
        belief = _first_belief(em, start.rows, start.model)
        ended = iterate(partial(_step, em, start.rows, monitor), belief, monitor)
    return _result(ended, start.floor, table.summarise(), q)._replace(sample=rows_in_memory(source, table))


class _Start(NamedTuple):
    """Prepared rows, a model to begin with, and the smallest noise variance."""

    rows: Source
    model: LinearGaussian
    floor: float


def _start_complete(table: Description, q: int, rng: np.random.Generator) -> _Start:
    if is_worth_condensing(table.source):
        table = condensed(replace(table, sums=table.source.fold(Root.of)))
    return _Start(table.source, _exact_start(table, q, rng), noise_floor(table.summarise()))


def _start_missing(table: Description, q: int, settings: Settings, rng: np.random.Generator) -> _Start:
    problem = Problem.of(table, settings, rng)
    first = problem
    if table.sample is not None:
        first = Problem.of(describe(table.sample, rng), replace(settings, watch=None), rng)
    return _Start(problem.rows, _warm(first, q), problem.floor)


def _result(ended: Iterated[ParameterBelief], floor: float, summary: ColumnSummary, asked: int) -> BeliefResult:
    belief, trace = ended.state.principal(), ended.trace
    status = Status.BOUND_CONVERGED if ended.status.converged else Status.BOUND_MAX_ITER
    if float(belief.centre.noise_variance) <= 2 * floor:
        status = Status.NOISE_COLLAPSED
    rule = _rule(belief, asked)
    cells, empty = float(summary.observed.sum()), np.flatnonzero(summary.observed == 0)
    model, n_iter, n, std = belief.predictive(), len(trace) - 1, summary.total_weight, column_std(summary)
    return BeliefResult(belief, model, status, trace[-1], trace, n_iter, n, cells, rule, empty, column_std=std)


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


def _most(table: Description, limits: SearchLimits) -> int:
    """Components to begin with if nobody says how many: the fit removes those that the rows do not support."""
    limit = limits.complete if table.complete else limits.missing
    return int(max(min(table.source.n_features - 1, table.summarise().total_weight - 2, limit), 1))


def _exact_start(table: Description, q: int, rng: np.random.Generator) -> LinearGaussian:
    """The maximum of the likelihood.

    A few columns that depend on others leave directions without noise, in which the bound has no end: as many
    components as leave some noise, then. Rows in few directions altogether have no noise to leave.
    """
    spectrum = leading_spectrum(table, q, Settings(), rng)
    most = max((k for k in range(1, q + 1) if not noise_of(spectrum, k).collapsed), default=0)
    return model_of(spectrum, most if 2 * (most + 1) > table.source.n_features else q)


def _warm(
    problem: Problem, q: int, least_steps: int = 3, most_steps: int = 20, settled: float = 0.95
) -> LinearGaussian:
    """Parameter-expanded EM from the leading eigenpairs, until the noise settles.

    A posterior that begins with too small loadings, or with so much noise that weak ones are lost in it, never finds
    them again. Too little noise does no harm: it grows while components are removed.
    """
    settings = problem.settings
    model, monitor = first_model(problem, q), Monitor(settings.tol, settings.max_iter, settings.watch)
    for taken in range(1, min(most_steps, settings.max_iter) + 1):
        before = model.noise_variance
        model, log_likelihood = problem.steps(model)
        monitor.record(log_likelihood)
        if taken >= least_steps and model.noise_variance > settled * before:
            break
    return model


def _first_belief(em: VariationalEM, rows: Source, model: LinearGaussian, smallest: float = 1e-8) -> ParameterBelief:
    """Posterior of the parameters given the latents at a model.

    ``smallest`` are the squared loadings, in units of the noise, of a component that rows of lower rank do not have.
    """
    sums = rows.fold(partial(expect, model))
    energy = np.maximum(np.square(model.loadings).sum(axis=0), smallest * float(model.noise_variance))
    learnt = em.learn(model, model.n_features / energy, sums)
    return without_dead(learnt.turned(best_basis(learnt, latent_moments(sums))))
