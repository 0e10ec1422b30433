"""The largest eigenpairs of the sample covariance, by the method that fits the shape of the data."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from probpca.learning.certificate import Certificate
from probpca.learning.checks import require_usable
from probpca.learning.direct import EPS, by_covariance, by_gram, by_svd
from probpca.learning.products import covariance_product, outside_energy
from probpca.learning.spectrum import Spectrum
from probpca.linalg.krylov import block_krylov
from probpca.sources.local import one_blas_thread
from probpca.statistics import Spread

if TYPE_CHECKING:
    from probpca.sources import Source
    from probpca.typing import Array

Regime: TypeAlias = Literal["covariance", "gram", "krylov", "svd"]

OVERSAMPLING = 4
SVD_LIMIT = 3000
"""Shorter side of a table for which a singular value decomposition is a reasonable last resort."""


def choose_regime(source: Source, k: int) -> Regime:
    """Pick by counted work: the eigenproblem of the shorter side, or products with k vectors."""
    n, d = source.n_rows, source.n_features
    if not source.repeatable:
        return "svd"
    if n is None or source.n_stored is None:
        return "covariance"
    short = min(n, d)
    # Costs of a multiplication relative to each other, measured: products with k vectors are made
    # about eight times, there and back; sparse ones run ten times slower; eigh takes about 5 m^3.
    direct = n * d * short + 5 * short**3
    iterative = 25 * source.n_stored * (k + OVERSAMPLING) * (10 if source.n_stored < n * d else 1)
    if iterative < direct and k < short / 5:
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


def by_krylov(source: Source, k: int, tol: float, rng: np.random.Generator) -> Spectrum:
    """Top k by products of the rows with blocks of k + 4 vectors: no copy, no square matrix.

    Products are made in float32 until the axes are right to single precision; one product in
    float64 then makes the eigenvalues right to double precision and certifies them.
    """
    spread = source.fold(Spread.of)
    n, d, mean = spread.weight, source.n_features, spread.mean
    total = float(spread.squares.sum()) / max(n, 1)
    require_usable(source, spread.count, mean, total)
    apply = partial(covariance_product, source, mean, weight=n)
    start = rng.standard_normal((d, k + OVERSAMPLING))
    exact = Certificate(n, d, k, total, tol)
    with one_blas_thread():
        single = partial(apply, dtype=np.float32)
        first = block_krylov(single, start, k + OVERSAMPLING, partial(_is_rough, exact), scale=total)
        pairs = block_krylov(apply, first.vectors, k, exact, scale=total)
    tail = total - float(pairs.values.sum())
    n_products = first.n_products + pairs.n_products
    return Spectrum(n, spread.count, mean, pairs.values, pairs.vectors, tail, 64 * EPS * pairs.values[0], n_products)


def _is_rough(exact: Certificate, values: Array, residuals: Array) -> bool:
    """Single precision has done what it can: either the goal is met or rounding hides the rest."""
    hidden = bool((residuals[: exact.k] < 1e-6 * values[0]).all())
    return hidden or exact(values, residuals)


def _with_safe_tail(source: Source, spectrum: Spectrum) -> Spectrum:
    """Compute the energy outside the axes anew if the difference that gave it has lost its digits."""
    d, k = spectrum.axes.shape
    noise = spectrum.residual(k) / (d - k)
    largest = float(spectrum.values[0])
    if noise * (d - k) > 1e-7 * spectrum.total:
        return spectrum
    short = min(spectrum.count, d)
    if noise < 1e-10 * largest and short <= SVD_LIMIT:
        return by_svd(source, k)
    tail = outside_energy(source, spectrum.mean, spectrum.axes, spectrum.weight)
    resolution = (32 * EPS) ** 2 * (spectrum.total + float(spectrum.mean @ spectrum.mean))
    return replace(spectrum, tail=tail, resolution=resolution)
