"""Iterative solvers for complete rows: EM, parameter-expanded EM, the zero-noise limit and gradient ascent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from probpca.learning.complete.bias_correction import without_bias
from probpca.learning.complete.closed_form import choose_components
from probpca.learning.complete.krylov import covariance_product, outside_energy
from probpca.learning.complete.spectrum import (
    NOISE_FLOOR,
    Spectrum,
    log_likelihood_of,
    model_of,
    noise_of,
    resolution_of_rows,
    spectrum_of_span,
)
from probpca.learning.components import Count
from probpca.learning.describe import Description, Pass, warn_of_no_checkpoint
from probpca.learning.em.e_step import expect, expect_zero_noise
from probpca.learning.em.gradient import ascend
from probpca.learning.em.incremental import Incremental
from probpca.learning.em.m_step import EM, ZeroNoiseEM
from probpca.learning.loop import Monitor, iterate
from probpca.learning.result import FitResult, collapsed_status
from probpca.learning.saddle_points import SaddleCheck
from probpca.learning.settings import ZERO_NOISE
from probpca.linalg.rotations import orthonormal
from probpca.models import LinearGaussian
from probpca.sources import open_source
from probpca.statistics import ColumnSummary, Root

if TYPE_CHECKING:
    from probpca.learning.components import Components
    from probpca.learning.loop import Iterated
    from probpca.learning.settings import Settings
    from probpca.sources import Source
    from probpca.typing import Array


def condense(settings: Settings, source: Source) -> Pass:
    """First pass of an iterative solver: a factor of the scatter matrix for many rows, else a summary of columns."""
    many = is_worth_condensing(source) and not settings.solver.startswith("incremental")
    return Pass(Root.of if many else ColumnSummary.of)


def is_worth_condensing(source: Source, most_features: int = 2000) -> bool:
    """Whether there are so many rows that a factor of their scatter matrix is a smaller table."""
    many = source.n_rows is None or source.n_rows > 2 * source.n_features
    return many and source.n_features <= most_features


def condensed(table: Description) -> Description:
    """Description of few weighted rows with the same mean and scatter matrix, to which solvers fit the same model."""
    if not isinstance(table.sums, Root):
        return table
    rows, weight = table.sums.as_rows()
    source = open_source(rows, weight=weight, n_jobs=table.source.n_jobs)
    return Description(source, source.fold(ColumnSummary.of), complete=True)


def fit_iteratively(table: Description, wanted: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Fit PPCA to complete rows by the iterative solver named in the settings."""
    if settings.checkpoint is not None:
        warn_of_no_checkpoint("if no cell is missing")
    n, table = table.total_weight, condensed(table)
    rows, summary = table.source, table.summarise()
    count = _count(table, wanted, settings, rng)
    q, rule = count.q, count.rule
    floor = NOISE_FLOOR * summary.total_variance / rows.n_features
    ended = _run(rows, summary, _start(rows, summary, q, floor, rng), floor, settings)
    model, trace, status = ended.state.principal(), ended.trace, ended.status
    if settings.solver in ZERO_NOISE or settings.bias_correction:
        sums = rows.fold(partial(expect_zero_noise, ended.state))
        spectrum = spectrum_of_span(ended.state, sums, varies=summary.variance > 0)
        model, value = model_of(spectrum, q), log_likelihood_of(spectrum, q)
        trace = tuple(value + (earlier - trace[-1]) for earlier in trace)  # incremental EM knows only gains
    if float(model.noise_variance) <= 2 * floor:
        status = collapsed_status(rule)
    result = FitResult(model, status, trace[-1], trace, len(trace) - 1, n, rule, notes=count.notes)
    return without_bias(result) if settings.bias_correction else result


def _count(table: Description, wanted: Components, settings: Settings, rng: np.random.Generator) -> Count:
    """Number of components as given, or chosen from the spectrum."""
    if isinstance(wanted, Count):
        return wanted
    chosen = choose_components(table, wanted, settings, rng)
    return Count(chosen.n_components, chosen.rule, chosen.notes)


def _run(
    rows: Source, summary: ColumnSummary, start: LinearGaussian, floor: float, settings: Settings
) -> Iterated[LinearGaussian]:
    """Run the solver named in the settings, and again if it ends at a saddle point."""
    solve = partial(_solve, rows, summary, floor, settings)
    if settings.solver in ZERO_NOISE:
        return solve(start, ())
    step = partial(EM(floor).step, source=rows)
    check = SaddleCheck(step, step, floor, settings.tol, settings.saddle, slow=True)
    return check.fit(solve, start, (), settings.max_iter)


def _solve(
    rows: Source,
    summary: ColumnSummary,
    floor: float,
    settings: Settings,
    start: LinearGaussian,
    trace: tuple[float, ...],
) -> Iterated[LinearGaussian]:
    """Run the solver named in the settings until its gains are small; ``trace`` holds earlier log-likelihoods."""
    steady = settings.solver != "gradient"
    monitor = Monitor(settings.tol, settings.max_iter, settings.watch, steady=steady, trace=trace)
    pieces = settings.incremental_rows
    match settings.solver:
        case "em":
            return iterate(partial(EM(floor, expand=False).step, source=rows), start, monitor)
        case "px_em":
            return iterate(partial(EM(floor).step, source=rows), start, monitor)
        case "em_zero_noise":
            return iterate(partial(ZeroNoiseEM(floor, summary.variance > 0).step, source=rows), start, monitor)
        case "incremental":
            return Incremental(expect, floor, piece_rows=pieces).run(rows, start, monitor)
        case "incremental_zero_noise":
            solver = Incremental(expect_zero_noise, floor, noise_free=True, piece_rows=pieces)
            return solver.run(rows, start, monitor)
        case _:
            return ascend(rows, start, floor, monitor)


def _start(
    rows: Source, summary: ColumnSummary, q: int, floor: float, rng: np.random.Generator, n_products: int = 3
) -> LinearGaussian:
    """Starting model from a few power iterations on random directions, with the remaining variance as noise.

    A start with too much noise would make weak components vanish, from where EM recovers them only very slowly.
    """
    span = rng.standard_normal((rows.n_features, q))
    for _ in range(n_products):
        span = covariance_product(rows, summary.mean, orthonormal(span), summary.total_weight)
    spectrum = rayleigh_ritz(rows, summary, span)
    loadings = spectrum.axes * np.sqrt(spectrum.values)
    return LinearGaussian(summary.mean, loadings, np.asarray(max(noise_of(spectrum, q).variance, floor)))


def rayleigh_ritz(rows: Source, summary: ColumnSummary, span: Array) -> Spectrum:
    """Rayleigh-Ritz approximation: principal axes and variances within a given span, the rest as noise."""
    basis, weight = orthonormal(span), summary.total_weight
    image = covariance_product(rows, summary.mean, basis, weight)
    values, rotation = np.linalg.eigh(basis.T @ image)
    axes = basis @ rotation[:, ::-1]
    tail = outside_energy(rows, summary.mean, axes, weight)
    values = np.maximum(values[::-1], 0.0)
    resolution = resolution_of_rows(float(values.sum()) + tail, summary.mean, varies=summary.variance > 0)
    return Spectrum(weight, summary.count, summary.mean, values, axes, tail, resolution)
