"""The largest eigenpairs of the sample covariance, by the method that fits the shape of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from probpca.learning.direct import SMALL_MATRIX, by_covariance, by_gram, by_svd
from probpca.learning.krylov import OVERSAMPLING, by_krylov, is_sparse
from probpca.learning.products import outside_energy
from probpca.learning.spectrum import Spectrum, resolution_of_rows

if TYPE_CHECKING:
    import numpy as np

    from probpca.learning.results import Regime
    from probpca.sources import Source

SVD_CELLS = 2e8
SVD_LIMIT = 3000
"""Shorter side of a table for which a singular value decomposition is a reasonable last resort."""


def choose_regime(source: Source, k: int) -> Regime:
    """Pick by counted work: the eigenproblem of the shorter side, or products with k vectors."""
    n, d = source.n_rows, source.n_features
    if not source.repeatable:
        return "svd"
    if n is None or source.n_stored is None:
        return "covariance" if d <= SVD_LIMIT or k >= d / 5 else "krylov"
    short = min(n, d)
    # Costs of a multiplication relative to each other, measured: products with k vectors are made
    # about eight times, there and back; sparse ones run ten times slower; eigh takes about 5 m^3.
    direct = n * d * short + 5 * short**3
    iterative = 25 * source.n_stored * (k + OVERSAMPLING) * (10 if is_sparse(source) else 1)
    if short >= SMALL_MATRIX and iterative < direct and k < short / 5:
        return "krylov"
    return "covariance" if d <= n else "gram"


def solve_spectrum(source: Source, k: int, regime: Regime, tol: float, rng: np.random.Generator) -> Spectrum:
    """The k largest eigenpairs of S.

    ``tol`` bounds, in nats, what an iterative method may leave of the log-likelihood with k
    components. Where eigenvalues matter that squared data cannot resolve, the energy outside the
    axes is summed afresh, or a decomposition of the rows themselves takes over.
    """
    match regime:
        case "covariance":
            spectrum = by_covariance(source, k, tol, rng)
        case "gram":
            spectrum = by_gram(source, k, tol, rng)
        case "krylov":
            spectrum = by_krylov(source, k, tol, rng)
        case "svd":
            return by_svd(source, k)
    return _with_safe_tail(source, spectrum)


def _with_safe_tail(source: Source, spectrum: Spectrum) -> Spectrum:
    """Compute the energy outside the axes anew if the difference that gave it has lost its digits."""
    d, k = spectrum.axes.shape
    noise = spectrum.residual(k) / (d - k)
    largest = float(spectrum.values[0])
    if noise * (d - k) > 1e-7 * spectrum.total:
        return spectrum
    short, cells = min(spectrum.count, d), spectrum.count * d
    if noise < 1e-10 * largest and short <= SVD_LIMIT and cells <= SVD_CELLS:
        return by_svd(source, k)
    tail = outside_energy(source, spectrum.mean, spectrum.axes, spectrum.weight)
    resolution = resolution_of_rows(spectrum.total, spectrum.mean)
    return replace(spectrum, tail=tail, resolution=resolution)
