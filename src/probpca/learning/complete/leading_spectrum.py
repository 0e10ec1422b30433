"""Largest eigenpairs of the covariance of complete rows, by the eigensolver that is fastest for their shape."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from probpca.learning.complete.dense import by_covariance, by_gram, by_svd
from probpca.learning.complete.krylov import by_krylov, outside_energy
from probpca.learning.complete.spectrum import Spectrum, resolution_of_rows
from probpca.learning.settings import Regime, Settings

if TYPE_CHECKING:
    import numpy as np

    from probpca.learning.describe import Description
    from probpca.sources import Source


def leading_spectrum(table: Description, k: int, settings: Settings, rng: np.random.Generator) -> Spectrum:
    """Compute the k largest eigenpairs of the sample covariance, and the variance outside their span.

    ``settings.tol`` bounds the loss of log-likelihood with k components, in nats, by an iterative method. If
    eigenvalues are too small to be resolved in squared data, the variance outside the axes is computed again as a sum
    of squares, or the singular values of the rows are used.
    """
    return _with_safe_tail(table, leading_pairs(table, k, settings, rng), settings)


def leading_pairs(table: Description, k: int, settings: Settings, rng: np.random.Generator) -> Spectrum:
    """Compute the k largest eigenpairs, without an accurate variance outside their span."""
    match regime_of(table.source, k, settings):
        case "covariance":
            return by_covariance(table, k, settings, rng)
        case "gram":
            return by_gram(table, k, settings, rng)
        case "krylov":
            return by_krylov(table, k, settings, rng)
    return by_svd(table, k)


def regime_of(source: Source, k: int, settings: Settings) -> Regime:
    """Eigensolver named in the settings, or else the one with the least work."""
    named = settings.solver in get_args(Regime)
    regime: Regime = settings.solver if named else choose_regime(source, k, settings)  # type: ignore[assignment]
    if regime == "gram" and source.n_rows is not None and k >= source.n_rows:
        return "svd"  # the Gram matrix of so few rows has fewer axes than requested
    return regime


def choose_regime(source: Source, k: int, settings: Settings = Settings()) -> Regime:
    """Eigensolver with the least estimated work: dense, of the shorter side, or products with k vectors."""
    n, d = source.n_rows, source.n_features
    if not source.repeatable:
        return "svd"
    if n is None or source.n_stored is None:
        return "covariance" if d <= settings.dense.svd_side or k >= d / 5 else "krylov"
    short = min(n, d)
    # Measured relative costs: products with k vectors are needed about eight times, in both directions; sparse
    # products are ten times slower per cell; eigh takes about 5 m^3.
    direct = n * d * short + 5 * short**3
    iterative = 25 * source.n_stored * (k + settings.krylov.oversampling) * (10 if source.is_sparse else 1)
    if short >= settings.dense.small and iterative < direct and k < short / 5:
        return "krylov"
    return "covariance" if d <= n else "gram"


def _with_safe_tail(table: Description, spectrum: Spectrum, settings: Settings) -> Spectrum:
    """Recompute the variance outside the axes as a sum of squares if the difference from the trace is inaccurate."""
    if regime_of(table.source, spectrum.values.size, settings) == "svd":
        return spectrum  # a sum of squares already
    d, k = spectrum.axes.shape
    noise = spectrum.residual(k) / (d - k)
    largest = float(spectrum.values[0])
    if noise * (d - k) > 1e-7 * spectrum.total:
        return spectrum
    short, cells = min(spectrum.count, d), spectrum.count * d
    if noise < 1e-10 * largest and short <= settings.dense.svd_side and cells <= settings.dense.svd_cells:
        return by_svd(table, k)
    tail = outside_energy(table.source, spectrum.mean, spectrum.axes, spectrum.weight)
    resolution = resolution_of_rows(spectrum.total, spectrum.mean, varies=table.sums.variance > 0)
    return replace(spectrum, tail=tail, resolution=resolution)


def most_pairs(source: Source, limit: int) -> int:
    """Number of eigenpairs that are available, at most ``limit``."""
    rows = source.n_features if source.n_rows is None else source.n_rows
    return max(min(source.n_features - 1, rows - 1, limit), 1)
