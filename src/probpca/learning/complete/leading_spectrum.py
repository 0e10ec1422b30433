"""The largest eigenpairs of the covariance of complete rows, by the eigensolver that suits their shape."""

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
    """The k largest eigenpairs of the sample covariance.

    ``settings.tol`` bounds, in nats, what an iterative method may leave of the log-likelihood with k components.
    Where eigenvalues matter that squared data cannot resolve, the energy outside the axes is summed afresh, or a
    decomposition of the rows themselves takes over.
    """
    return _with_safe_tail(table, leading_pairs(table, k, settings, rng), settings)


def leading_pairs(table: Description, k: int, settings: Settings, rng: np.random.Generator) -> Spectrum:
    """The k largest eigenpairs, for those who do not need the energy outside of them to its last digits."""
    match regime_of(table.source, k, settings):
        case "covariance":
            return by_covariance(table, k, settings, rng)
        case "gram":
            return by_gram(table, k, settings, rng)
        case "krylov":
            return by_krylov(table, k, settings, rng)
    return by_svd(table, k)


def regime_of(source: Source, k: int, settings: Settings) -> Regime:
    """The eigensolver that the settings name, or the one with the least work."""
    named = settings.solver in get_args(Regime)
    regime: Regime = settings.solver if named else choose_regime(source, k, settings)  # type: ignore[assignment]
    if regime == "gram" and source.n_rows is not None and k >= source.n_rows:
        return "svd"  # the inner products of so few rows have fewer axes than are wanted
    return regime


def choose_regime(source: Source, k: int, settings: Settings = Settings()) -> Regime:
    """Pick by counted work: the eigenproblem of the shorter side, or products with k vectors."""
    n, d = source.n_rows, source.n_features
    if not source.repeatable:
        return "svd"
    if n is None or source.n_stored is None:
        return "covariance" if d <= settings.dense.svd_side or k >= d / 5 else "krylov"
    short = min(n, d)
    # Costs of a multiplication relative to each other, measured: products with k vectors are made
    # about eight times, there and back; sparse ones run ten times slower; eigh takes about 5 m^3.
    direct = n * d * short + 5 * short**3
    iterative = 25 * source.n_stored * (k + settings.krylov.oversampling) * (10 if source.is_sparse else 1)
    if short >= settings.dense.small and iterative < direct and k < short / 5:
        return "krylov"
    return "covariance" if d <= n else "gram"


def _with_safe_tail(table: Description, spectrum: Spectrum, settings: Settings) -> Spectrum:
    """Compute the energy outside the axes anew if the difference that gave it has lost its digits."""
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
    resolution = resolution_of_rows(spectrum.total, spectrum.mean)
    return replace(spectrum, tail=tail, resolution=resolution)


def most_pairs(source: Source, limit: int) -> int:
    """At most ``limit`` eigenpairs, and no more than the rows can have."""
    rows = source.n_features if source.n_rows is None else source.n_rows
    return max(min(source.n_features - 1, rows - 1, limit), 1)
