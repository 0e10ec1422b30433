"""Bayesian PCA by variational inference."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.learning.bayesian.bound import Bound
from probpca.learning.bayesian.variational_em import Pending, VariationalEM, best_basis, divergence
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
from probpca.learning.em.m_step import latent_moments
from probpca.learning.loop import Iterated, Monitor, StoppingRule, accelerate, iterate
from probpca.learning.missing.fit import Problem, noise_floor
from probpca.learning.missing.start import first_model
from probpca.learning.quasi_newton import QuasiNewton
from probpca.learning.result import Status
from probpca.learning.settings import SearchLimits, Settings
from probpca.sources import open_source
from probpca.sources.engines.local import one_blas_thread
from probpca.statistics import Root

if TYPE_CHECKING:
    from probpca.learning.describe import Description, Units
    from probpca.models import LinearGaussian, ParameterBelief
    from probpca.sources import Source
    from probpca.statistics import ColumnSummary, Regression
    from probpca.typing import Array, Index


STOPPING = StoppingRule(expected=0.2)
"""Quasi-Newton steps underestimate the remaining gain where components are hardly distinguishable."""


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
        monitor = Monitor(settings.tol, settings.max_iter, settings.watch, rule=STOPPING)
        ended = _run(start, monitor, quick=_has_slow_directions(table))
        final = ended.state.principal()
        bound = ended.trace[-1] + divergence(ended.state) - divergence(final)
    # The rotation to principal axes of the mean loadings lowers the bound a little, because the prior is not rotated.
    ended = ended._replace(state=final, trace=(*ended.trace[:-1], bound))
    result = _result(ended, start.floor, table.summarise(), q).in_precision_unit(unit)
    return result._replace(sample=rows_in_memory(opened, table))


class _Start(NamedTuple):
    """Prepared rows, a starting model, and the smallest noise variance."""

    rows: Source
    model: LinearGaussian
    floor: float
    covariance: Array | None = None  # estimated from the observed cells: (d, d)


def _start_complete(table: Description, q: int, rng: np.random.Generator) -> _Start:
    if is_worth_condensing(table.source):
        table = condensed(replace(table, sums=table.source.fold(Root.of)))
    return _Start(table.source, _exact_start(table, q, rng), noise_floor(table.summarise()))


def _start_missing(table: Description, q: int, settings: Settings, rng: np.random.Generator) -> _Start:
    problem = Problem.of(table, settings, rng)
    first = problem
    if table.sample is not None:
        first = Problem.of(describe(table.sample, rng), replace(settings, watch=None), rng)
    return _Start(problem.rows, _warm(first, q), float(problem.floor), problem.covariance.relative)


def _run(start: _Start, monitor: Monitor, *, quick: bool) -> Iterated[ParameterBelief]:
    """Run sweeps until their gains are small; with quasi-Newton steps between them if these are ``quick``."""
    em = VariationalEM(start.floor)
    first = _first(em, start.rows, start.model)
    sweeps = _Sweeps(em, start.rows, monitor)
    if quick:
        steps = QuasiNewton(Bound(sweeps.sums_at, first, start.floor, start.covariance))
        ended = accelerate(sweeps, first, monitor, steps)
    else:
        ended = iterate(sweeps, first, monitor)
    return Iterated(ended.state.belief, ended.status, ended.trace)


def _has_slow_directions(table: Description, least: float = 0.5) -> bool:
    """Whether quasi-Newton steps may save sweeps: with missing cells, and not many more columns than rows.

    ``least`` is the mean number of observed cells of a column, as a share of the number of columns. With fewer, the
    covariances of the parameters and the prior decide how far a sweep goes. Sweeps find the best ones, but the
    gradient at given ones does not know them.
    """
    return not table.complete and float(table.summarise().observed.mean()) >= least * table.source.n_features


@final
class _Sweeps:
    """Sweeps of variational EM that keep the statistics of the last one.

    When a component is removed, earlier gains are discarded, as they do not predict later ones.
    """

    def __init__(self, em: VariationalEM, rows: Source, monitor: Monitor) -> None:
        self._em, self._rows, self._monitor = em, rows, monitor
        self._state: Pending | None = None
        self._sums: Regression | None = None
        self._most = 0

    def __call__(self, state: Pending) -> tuple[Pending, float]:
        """State after one sweep, and the lower bound at the given one."""
        self._state = self._sums = None  # freed early: large if there are many features
        belief = state.belief
        if belief.n_components < self._most:
            self._monitor.forget()
        self._most = belief.n_components
        self._state, self._sums = state, self._rows.fold(partial(expect_believed, belief))
        return self._em.sweep(belief, self._sums), self._sums.log_likelihood - divergence(belief)

    def sums_at(self, state: Pending) -> Regression:
        """Statistics of the E-step at a state, the last one."""
        if self._sums is None or self._state is not state:
            self(state)
        return self._sums  # type: ignore[return-value]


def _result(ended: Iterated[ParameterBelief], floor: float, summary: ColumnSummary, asked: int) -> BeliefResult:
    belief, trace = ended.state, ended.trace
    status = Status.BOUND_CONVERGED if ended.status.converged else Status.BOUND_MAX_ITER
    if float(belief.centre.noise_variance) <= 2 * floor:
        status = Status.NOISE_COLLAPSED
    rule = _rule(belief, asked)
    cells, empty = float(summary.observed.sum()), np.flatnonzero(summary.observed == 0)
    model, n_iter, n, std = belief.predictive(), len(trace) - 1, summary.total_weight, column_std(summary)
    return BeliefResult(belief, model, status, trace[-1], trace, n_iter, n, cells, rule, empty, column_std=std)


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
    problem: Problem, q: int, least_steps: int = 1, most_steps: int = 20, settled: float = 0.95
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


def _first(em: VariationalEM, rows: Source, model: LinearGaussian, smallest: float = 1e-8) -> Pending:
    """Posterior of the parameters given the latent variables at a model.

    ``smallest`` replaces the squared loadings, in units of the noise, of components beyond the rank of the rows.
    """
    sums = rows.fold(partial(expect, model))
    energy = np.maximum(np.square(model.loadings).sum(axis=0), smallest * float(model.noise_variance))
    learnt = em.learn(model, model.n_features / energy, sums)
    return Pending(learnt, best_basis(learnt, latent_moments(sums)))
