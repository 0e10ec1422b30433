"""The front door of learning: rows in, a fitted model and its story out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np

from probpca.learning.complete.bias_correction import without_bias
from probpca.learning.complete.closed_form import choose_components, closed_form
from probpca.learning.complete.krylov import covariance_product, outside_energy
from probpca.learning.complete.spectrum import (
    NOISE_FLOOR,
    Spectrum,
    log_likelihood_of,
    model_of,
    noise_of,
    resolution_of_rows,
)
from probpca.learning.components import check_count, given_count, is_by_rows
from probpca.learning.describe import MissingCellsError, boiled_down, require_usable, units, warn_of_no_checkpoint
from probpca.learning.em.e_step import expect, expect_zero_noise
from probpca.learning.em.gradient import ascend
from probpca.learning.em.incremental import Incremental
from probpca.learning.em.m_step import EM, ZeroNoiseEM
from probpca.learning.loop import Iterated, Monitor, iterate
from probpca.learning.missing.fit import fit_missing
from probpca.learning.result import ZERO_NOISE, FitResult, Iterative, Settings, Status, turned_information
from probpca.learning.selection.judge import choose_by_rows
from probpca.linalg.rotations import orthonormal
from probpca.models import LinearGaussian
from probpca.sources import open_source, scaled
from probpca.statistics import Spread

if TYPE_CHECKING:
    from probpca.learning.components import Components
    from probpca.learning.result import Settings
    from probpca.sources import Source
    from probpca.typing import Array

START_STEPS = 3
"""Products with the covariance that turn random directions into a start."""


def fit_ppca(source: Source, n_components: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Fit PPCA by maximum likelihood, to complete rows or to the cells of rows that were observed."""
    source = open_source(source)
    check_count(1, source.n_features)
    if is_by_rows(n_components):
        source, q, rule = choose_by_rows(source, str(n_components), rng)
        return fit_ppca(source, q, settings, rng)._replace(rule=rule)
    if not source.incomplete:
        try:
            result = fit_complete(source, n_components, settings, rng)
            return without_bias(result) if settings.bias_correction else result
        except MissingCellsError:
            pass
    return fit_missing(source, n_components, settings, rng)


def fit_complete(source: Source, n_components: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Fit PPCA to complete rows with the solver that ``settings`` name."""
    if settings.solver not in get_args(Iterative):
        return closed_form(source, n_components, settings, rng)
    if settings.checkpoint is not None:
        warn_of_no_checkpoint("where no cell is missing")
    rows = source if settings.solver.startswith("incremental") else boiled_down(source)
    spread = rows.fold(Spread.of)
    require_usable(source, spread.count, spread.mean, spread.total)
    q, rule = _count(rows, n_components, settings, rng)
    floor = NOISE_FLOOR * spread.total / source.n_features
    ended = _run(rows, _start(rows, spread, q, rng), floor, settings)
    model, value, status = ended.state.principal(), ended.trace[-1], ended.status
    if settings.solver in ZERO_NOISE:
        spectrum = rayleigh_ritz(rows, spread, model.loadings)
        model, value = model_of(spectrum, q), log_likelihood_of(spectrum, q)
    if float(model.noise_variance) <= 2 * floor:
        status = Status.NOISE_COLLAPSED
    return FitResult(model, status, value, ended.trace, len(ended.trace) - 1, spread.weight, rule)


def _run(rows: Source, start: LinearGaussian, floor: float, settings: Settings) -> Iterated[LinearGaussian]:
    monitor = Monitor(settings.tol, settings.max_iter, settings.watch, steady=settings.solver != "gradient")
    match settings.solver:
        case "em":
            return iterate(partial(EM(floor, expand=False).step, source=rows), start, monitor)
        case "px_em":
            return iterate(partial(EM(floor).step, source=rows), start, monitor)
        case "em_zero_noise":
            return iterate(partial(ZeroNoiseEM(floor).step, source=rows), start, monitor)
        case "incremental":
            return Incremental(expect, floor).run(rows, start, monitor)
        case "incremental_zero_noise":
            return Incremental(expect_zero_noise, floor, noise_free=True).run(rows, start, monitor)
        case _:
            return ascend(rows, start, floor, monitor)


def _start(rows: Source, spread: Spread, q: int, rng: np.random.Generator) -> LinearGaussian:
    """A few power steps from random directions, and the noise that they leave.

    From a start with too much noise, weak components first shrink to nothing, and stay there for as
    long as the gains of coming back are too small to be noticed.
    """
    span = rng.standard_normal((rows.n_features, q))
    for _ in range(START_STEPS):
        span = covariance_product(rows, spread.mean, orthonormal(span), spread.weight)
    spectrum = rayleigh_ritz(rows, spread, span)
    loadings = spectrum.axes * np.sqrt(spectrum.values)
    return LinearGaussian(spread.mean, loadings, np.asarray(noise_of(spectrum, q).variance))


def _count(rows: Source, n_components: Components, settings: Settings, rng: np.random.Generator) -> tuple[int, str]:
    """The number of components, by the spectrum if it has to be chosen."""
    q = given_count(n_components)
    if q is not None:
        check_count(q, rows.n_features)
        return q, "as given"
    chosen = choose_components(rows, n_components, settings, rng)
    return chosen.n_components, chosen.rule


def rayleigh_ritz(rows: Source, spread: Spread, span: Array) -> Spectrum:
    """The best model within a given span: its principal axes, their variances, the rest as noise."""
    basis = orthonormal(span)
    image = covariance_product(rows, spread.mean, basis, spread.weight)
    values, rotation = np.linalg.eigh(basis.T @ image)
    axes = basis @ rotation[:, ::-1]
    tail = outside_energy(rows, spread.mean, axes, spread.weight)
    values = np.maximum(values[::-1], 0.0)
    resolution = resolution_of_rows(float(values.sum()) + tail, spread.mean)
    return Spectrum(spread.weight, spread.count, spread.mean, values, axes, tail, resolution)


def fit_standardized(
    source: Source, n_components: Components, settings: Settings, rng: np.random.Generator
) -> FitResult:
    """PPCA of x / std, with loadings and noise mapped back: one noise variance per feature.

    A constant column keeps its unit. The log-likelihood is that of the data, not of the scaled
    columns: it differs by the logarithm of the change of units.
    """
    std, observed = units(source)
    result = fit_ppca(scaled(source, 1 / std), n_components, settings, rng)
    shift = -float(observed @ np.log(std))
    model = result.model.rescale(std)
    information = result.information
    if information is not None:
        information = turned_information(information, model.principal_rotation)
    model = model.principal()
    return result._replace(
        model=model,
        information=information,
        log_likelihood=result.log_likelihood + shift,
        trace=tuple(value + shift for value in result.trace),
    )
