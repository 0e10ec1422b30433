"""The largest eigenpairs of the sample covariance, by the method that fits the shape of the data."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from probpca.learning.certificate import Certificate
from probpca.learning.checks import require_usable
from probpca.learning.direct import SMALL_MATRIX, by_covariance, by_gram, by_svd, within_single_range
from probpca.learning.products import covariance_product, outside_energy
from probpca.learning.spectrum import Spectrum, resolution_of_rows, resolution_of_squares
from probpca.linalg.krylov import block_krylov
from probpca.sources.local import one_blas_thread
from probpca.statistics import Sample, Spread

if TYPE_CHECKING:
    from probpca.learning.results import Regime
    from probpca.sources import Source
    from probpca.typing import Array, Floats

OVERSAMPLING = 4
SPARSE_BLOCK = 4
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
    iterative = 25 * source.n_stored * (k + OVERSAMPLING) * (10 if _is_sparse(source) else 1)
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


def by_krylov(source: Source, k: int, tol: float, rng: np.random.Generator) -> Spectrum:
    """Top k by products of the rows with blocks of k + 4 vectors: no copy, no square matrix.

    Products with dense rows are made in float32 until the axes are right to single precision; one
    product in float64 then makes the eigenvalues right to double precision and certifies them.
    """
    spread = source.fold(Spread.of)
    n, d, mean = spread.weight, source.n_features, spread.mean
    total = float(spread.squares.sum()) / n if n else 0.0
    require_usable(source, spread.count, mean, total)
    apply = partial(covariance_product, source, mean, weight=n)
    # Sparse products with several vectors cost as much as one after the other: a narrow block needs fewer.
    width = min(SPARSE_BLOCK, k + OVERSAMPLING) if _is_sparse(source) else k + OVERSAMPLING
    start = _start(source, mean, width, rng)
    exact = Certificate(n, d, k, total, tol)
    n_products = 0
    with one_blas_thread():
        if _single_precision_pays(source, mean, total):
            single = partial(apply, dtype=np.float32)
            first = block_krylov(single, start, k + 1, partial(_is_rough, exact), scale=total)
            start, n_products = first.vectors, first.n_products
        pairs = block_krylov(apply, start.astype(np.float64), k, exact, scale=total)
    tail = total - float(pairs.values.sum())
    n_products += pairs.n_products
    axes = pairs.vectors.astype(np.float64, copy=False)
    return Spectrum(
        n,
        spread.count,
        mean,
        pairs.values,
        axes,
        tail,
        resolution_of_squares(pairs.values),
        n_products,
        pairs.finished,
    )


def _single_precision_pays(source: Source, mean: Array, total: float) -> bool:
    """Casting keeps what matters, and is free: a piece of dense rows is copied anyway."""
    near_zero = float(np.abs(mean).max()) < 1e3 * np.sqrt(total)
    return near_zero and within_single_range(total) and (source.single_precision or not _is_sparse(source))


def _is_sparse(source: Source) -> bool:
    return source.n_rows is not None and source.n_stored != source.n_rows * source.n_features


def _start(source: Source, mean: Array, b: int, rng: np.random.Generator) -> Floats:
    """Vectors to begin with: a few rows, which lean towards the leading axes already, and some chance.

    The random part sees to it that no axis is out of reach because only other rows have it.
    """
    rows = source.fold(partial(Sample.of, b, int(rng.integers(2**63)))).rows - mean
    random = rng.standard_normal((b, mean.size))
    random *= 0.3 / np.sqrt(mean.size)
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    random[: len(rows)] += rows / np.where(size > 0, size, 1.0)
    return random.T.astype(np.float32)


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
    short, cells = min(spectrum.count, d), spectrum.count * d
    if noise < 1e-10 * largest and short <= SVD_LIMIT and cells <= SVD_CELLS:
        return by_svd(source, k)
    tail = outside_energy(source, spectrum.mean, spectrum.axes, spectrum.weight)
    resolution = resolution_of_rows(spectrum.total, spectrum.mean)
    return replace(spectrum, tail=tail, resolution=resolution)
