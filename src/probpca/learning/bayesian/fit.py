"""Bayesian PCA by variational inference."""

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
from probpca.learning.describe import (
    column_std,
    describe,
    in_unit_precision,
    in_unit_variance,
    rows_in_memory,
)
from probpca.learning.em.e_step import expect, expect_believed
from probpca.learning.em.m_step import latent_moments, theta_of
from probpca.learning.loop import Monitor, iterate
from probpca.learning.missing.fit import Problem, noise_floor
from probpca.learning.missing.start import first_model
from probpca.learning.result import Status
from probpca.learning.settings import SearchLimits, Settings
from probpca.linalg.packed import identity, inverse, log_determinants, multiply, pack, traces
from probpca.models import LinearGaussian, ParameterBelief
from probpca.models.gaussian import latent_root
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
        before = float(belief.centre.noise_variance)
        learnt = with_faster_noise(self.learn(belief.centre, belief.precision, sums), before)
        return without_dead(learnt.turned(best_basis(learnt, latent_moments(sums))))

    def learn(self, model: LinearGaussian, precision: Array, sums: Regression) -> ParameterBelief:
        """Posterior of the parameters given the statistics of the E-step at a model."""
        noise = float(model.noise_variance)
        prior = noise * np.append(precision, 0.0)  # in units of the noise; flat prior of the mean
        known = sums.gram[-1] > 0
        gained = np.where(known, sums.gram, identity(prior.size))
        spread = np.where(known, inverse(gained + pack(np.diag(prior))[:, None]), 0.0)
        change = multiply(spread, sums.score - prior[:, None] * theta_of(model))
        spread *= noise
        squares = sums.squares_after(change) + traces(sums.gram, spread)  # (d,)
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


class BeliefResult(NamedTuple):
    """Result of a fit of Bayesian PCA: the posterior of the parameters, and how the fit ended.

    Attributes
    ----------
    belief : ParameterBelief
        Posterior of the parameters, in the units of the data.
    model : LinearGaussian
        Predictive distribution of a new row, which includes the uncertainty of the parameters.
    status : Status
        How the fit ended.
    lower_bound : float
        Lower bound on the log evidence, in nats.
    trace : tuple of float
        Lower bound before each iteration.
    n_iter : int
        Number of iterations.
    weight : float
        Total weight of the rows.
    cells : float
        Total weight of the observed cells.
    rule : str
        How many of the initial components were kept.
    empty : ndarray of int
        Positions of features without observed cells.
    notes : tuple of str
        Remarks on the choice of the number of components.
    column_std : ndarray of shape (d,) or None
        Standard deviation of each column, 0 if it is constant; None after standardising.
    scale : ndarray of shape (d,) or None
        Standard deviations that the columns were divided by; None without standardising.
    sample : Source or None
        Rows in memory, all or a sample, if the data of the fit were not in memory.
    """

    belief: ParameterBelief
    model: LinearGaussian
    status: Status
    lower_bound: float
    trace: tuple[float, ...]
    n_iter: int
    weight: float
    cells: float
    rule: str
    empty: Index
    notes: tuple[str, ...] = ()
    column_std: Array | None = None
    scale: Array | None = None
    sample: Source | None = None

    def in_units(self, units: Units) -> BeliefResult:
        """Convert a fit of columns divided by ``units.scale`` to the units of the data.

        Latent axes remain the principal axes of the scaled columns.
        """
        observed = units.observed
        shift = -float((observed - (observed > 0)) @ np.log(units.scale))  # of the cells and of the prior of the means
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

    def in_precision_unit(self, unit: float) -> BeliefResult:
        """Convert a fit with precisions of cells divided by ``unit`` to the precisions as given."""
        if unit == 1:
            return self
        belief = replace(self.belief, centre=self.belief.centre.in_precision_unit(unit))
        return self._replace(belief=belief, model=belief.predictive())

    @property
    def scaled_belief(self) -> ParameterBelief:
        """Posterior of the parameters for the columns divided by ``scale``, which have one noise variance."""
        if self.scale is None:
            return self.belief
        belief = self.belief.rescale(1 / self.scale)
        return replace(belief, centre=belief.centre.isotropic())

    @property
    def scaled_model(self) -> LinearGaussian:
        """Predictive distribution of a new row of the columns divided by ``scale``."""
        return self.model if self.scale is None else self.scaled_belief.predictive()


def fit_variational(
    rows: Any,
    n_components: int | None = None,
    settings: Settings = Settings(),
    rng: np.random.Generator | None = None,
    *,
    standardize: bool = False,
) -> BeliefResult:
    """Fit Bayesian PCA with at most ``n_components`` components by variational inference.

    Components that the data do not support are removed (automatic relevance determination). The posteriors of
    parameters and latent variables are approximated as independent, which gives a lower bound on the log evidence
    (Bishop 1999, Ilin & Raiko 2010). Missing cells (NaN) are allowed. Rows are read once per iteration.

    Parameters
    ----------
    rows : array, sparse matrix, dataframe, file name, iterable of batches, Dask or Spark collection
        The data, as accepted by ``open_source``.
    n_components : int or None
        Largest number of components; None for as many as the data allow, up to the limit in ``settings.search``.
    settings : Settings
        Tolerance and other options.
    rng : numpy.random.Generator or None
        Random number generator; None creates one with a random seed.
    standardize : bool
        Fit the columns scaled to unit variance. The posterior is then in the units of the data, with the principal
        axes of the scaled columns, and ``scale`` of the result holds the standard deviations.

    Returns
    -------
    BeliefResult
        The posterior of the parameters, the predictive distribution of a new row, and how the fit ended.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning import fit_variational
    >>> result = fit_variational(load_iris().data, 3)
    >>> result.rule, result.status.converged
    ('all 3 initial components kept', True)
    """
    rng = np.random.default_rng(rng)
    opened = open_source(rows)
    check_count(1 if n_components is None else n_components, opened.n_features)
    if standardize:
        return in_unit_variance(fit_variational, opened, n_components, settings, rng)
    source, unit = in_unit_precision(opened.loaded())
    with one_blas_thread():
        table = describe(source, rng, None, settings.sample)
        q = _most(table, settings.search) if n_components is None else n_components
        start = _start_complete(table, q, rng) if table.complete else _start_missing(table, q, settings, rng)
        em = VariationalEM(start.floor)
        monitor = Monitor(settings.tol, settings.max_iter, settings.watch)
        belief = _first_belief(em, start.rows, start.model)
        ended = iterate(partial(_step, em, start.rows, monitor), belief, monitor)
        final = ended.state.principal()
        bound = start.rows.fold(partial(expect_believed, final)).log_likelihood - divergence(final)
    # The rotation to principal axes of the mean loadings lowers the bound a little, because the prior is not rotated.
    ended = ended._replace(state=final, trace=(*ended.trace[:-1], bound))
    result = _result(ended, start.floor, table.summarise(), q).in_precision_unit(unit)
    return result._replace(sample=rows_in_memory(opened, table))


class _Start(NamedTuple):
    """Prepared rows, a starting model, and the smallest noise variance."""

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
    return _Start(problem.rows, _warm(first, q), float(problem.floor))


def _result(ended: Iterated[ParameterBelief], floor: float, summary: ColumnSummary, asked: int) -> BeliefResult:
    belief, trace = ended.state, ended.trace
    status = Status.BOUND_CONVERGED if ended.status.converged else Status.BOUND_MAX_ITER
    if float(belief.centre.noise_variance) <= 2 * floor:
        status = Status.NOISE_COLLAPSED
    rule = _rule(belief, asked)
    cells, empty = float(summary.observed.sum()), np.flatnonzero(summary.observed == 0)
    model, n_iter, n, std = belief.predictive(), len(trace) - 1, summary.total_weight, column_std(summary)
    return BeliefResult(belief, model, status, trace[-1], trace, n_iter, n, cells, rule, empty, column_std=std)


def _step(em: VariationalEM, rows: Source, monitor: Monitor, belief: ParameterBelief) -> tuple[ParameterBelief, float]:
    """One iteration; when a component is removed, earlier gains are discarded, as they do not predict later ones."""
    following, bound = em.step(belief, rows)
    if following.n_components < belief.n_components:
        monitor.forget()
    return following, bound


def _rule(belief: ParameterBelief, asked: int) -> str:
    q = belief.n_components
    if not belief.centre.loadings.any():
        return f"the data support none of {asked} components; one is kept"
    return f"{q} of {asked} initial components kept" if q < asked else f"all {asked} initial components kept"


def _most(table: Description, limits: SearchLimits) -> int:
    """Initial number of components if none is given; the fit removes those that the data do not support."""
    limit = limits.complete if table.complete else limits.missing
    return int(max(min(table.source.n_features - 1, table.summarise().total_weight - 2, limit), 1))


def _exact_start(table: Description, q: int, rng: np.random.Generator) -> LinearGaussian:
    """Maximum-likelihood model as a start.

    If some columns are exact combinations of others, there are directions without noise, in which the bound is not
    bounded above. The number of components is then reduced until some noise remains, unless the rows have low rank.
    """
    spectrum = leading_spectrum(table, q, Settings(), rng)
    most = max((k for k in range(1, q + 1) if not noise_of(spectrum, k).collapsed), default=0)
    return model_of(spectrum, most if 2 * (most + 1) > table.source.n_features else q)


def _warm(
    problem: Problem, q: int, least_steps: int = 3, most_steps: int = 20, settled: float = 0.95
) -> LinearGaussian:
    """Starting model by parameter-expanded EM from the leading eigenpairs, run until the noise variance settles.

    A posterior that starts with too small loadings, or with so much noise that weak components are lost, does not
    recover them. Too little noise does no harm: it increases while components are removed.
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
    """Posterior of the parameters given the latent variables at a model.

    ``smallest`` replaces the squared loadings, in units of the noise, of components beyond the rank of the rows.
    """
    sums = rows.fold(partial(expect, model))
    energy = np.maximum(np.square(model.loadings).sum(axis=0), smallest * float(model.noise_variance))
    learnt = em.learn(model, model.n_features / energy, sums)
    return without_dead(learnt.turned(best_basis(learnt, latent_moments(sums))))
