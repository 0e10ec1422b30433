"""Eigenpairs by way of a small dense matrix: covariance, Gram matrix, or a root of the scatter."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

import numpy as np
from scipy.linalg import eigh, svd

from probpca.blocks import as_block
from probpca.errors import ShapeError, require_finite
from probpca.learning.complete.spectrum import (
    SINGLE_EPS,
    Certificate,
    Spectrum,
    resolution_of_rows,
    resolution_of_squares,
)
from probpca.learning.describe import require_variation
from probpca.linalg.block_krylov import block_krylov
from probpca.linalg.rotations import fix_signs, orthonormal
from probpca.scratch import workspace
from probpca.sources.engines.local import map_blocks, one_blas_thread
from probpca.statistics import Moments, Root, Stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.learning.describe import Description, Sums
    from probpca.learning.settings import DenseSettings, Settings
    from probpca.typing import Array, Floats

AnySums = TypeVar("AnySums", bound="Sums")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Gram:
    """Inner products of the centred rows, times the roots of their weights."""

    stack: Stack
    mean: Array  # (d,)
    products: Array  # (n, n)
    variance: Array  # of each feature: (d,)

    @classmethod
    def of_stack(cls, stack: Stack, dtype: type[np.floating[Any]], n_jobs: int) -> Gram:
        """A panel of columns at a time; it stops at a panel that is not finite."""
        return cls(stack, *gram_matrix(stack, dtype, n_jobs))

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.stack.n_rows

    @property
    def weight(self) -> float:
        """Total weight of the rows."""
        return float(self.stack.weight.sum())

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all features."""
        return float(np.trace(self.products)) / self.weight

    @property
    def complete(self) -> bool:
        """Whether every cell is observed and finite."""
        plain = all(block.precision is None and not block.unstored_missing for block in self.stack.blocks)
        return plain and bool(np.isfinite(self.mean).all())


def by_covariance(table: Description, k: int, settings: Settings, rng: np.random.Generator) -> Spectrum:
    """Top k of S itself: one pass over the rows, d^2 memory."""

    def solve(moments: Moments) -> Spectrum:
        total = moments.total_variance
        goal = Certificate(moments.weight, table.source.n_features, k, total, settings.tol)
        values, axes, certified = top_of_matrix(moments.covariance, goal, rng, settings.dense)
        tail, resolution = total - float(values.sum()), resolution_of_squares(values)
        n, mean = moments.weight, moments.mean
        return Spectrum(n, moments.count, mean, values, axes, tail, resolution, certified=certified)

    def double() -> Moments:
        return table.source.fold(Moments.of)

    return _single_if_safe(table, Moments, solve, double, settings.tol)


def by_gram(table: Description, k: int, settings: Settings, rng: np.random.Generator) -> Spectrum:
    """Top k by the n x n matrix of inner products of rows: one pass, columns a panel at a time.

    The dual of the covariance: its eigenvectors are the principal coordinates of the rows.
    """
    source = table.source

    def solve(gram: Gram) -> Spectrum:
        n, total = gram.weight, gram.total_variance
        goal = Certificate(n, source.n_features, k, total, settings.tol)
        values, coordinates, certified = top_of_matrix(gram.products / n, goal, rng, settings.dense)
        with one_blas_thread():
            axes = orthonormal(axes_of(gram.stack, gram.mean, coordinates, source.n_jobs))
        tail, resolution = total - float(values.sum()), resolution_of_squares(values)
        return Spectrum(n, gram.count, gram.mean, values, axes, tail, resolution, certified=certified)

    def double() -> Gram:
        return Gram.of_stack(source.fold(Stack.of), np.float64, source.n_jobs)

    return _single_if_safe(table, Gram, solve, double, settings.tol)


def by_svd(table: Description, k: int) -> Spectrum:
    """Top k by a triangular factor of the centred rows: twice the digits, several times the work."""
    root = table.sums if isinstance(table.sums, Root) else table.source.fold(Root.of)
    require_variation(root)  # squares of tiny values may vanish that a scatter about another point has kept
    _, singular, axes = svd(root.factor, full_matrices=False, lapack_driver="gesdd")
    values = np.zeros(max(k, singular.size))
    values[: singular.size] = singular**2 / root.weight
    if axes.shape[0] < k:
        axes = _completed(axes, k)
    tail = float(values[k:].sum())
    resolution = resolution_of_rows(root.total_variance, root.mean)
    return Spectrum(root.weight, root.count, root.mean, values[:k], axes[:k].T, tail, resolution)


def top_of_factor(factor: Array) -> tuple[Array, Array]:
    """All eigenpairs of B'B for a factor of few rows, largest first: (r,) and (d, r)."""
    _, singular, axes = svd(factor, full_matrices=False, lapack_driver="gesdd")
    return singular**2, axes.T


def top_of_matrix(
    matrix: Array, goal: Certificate, rng: np.random.Generator, settings: DenseSettings
) -> tuple[Array, Array, bool]:
    """The largest eigenpairs of a symmetric matrix, largest first, and whether they reach ``goal``."""
    m, k = matrix.shape[0], goal.k
    if m < settings.small or k > m / 8:
        # Waking BLAS threads costs more than it brings, and then they spin; they sleep on for the smallest matrices.
        with one_blas_thread() if 16 < m < settings.small else nullcontext():
            if m <= settings.tiny:  # numpy has less to do before it calls LAPACK
                values, vectors = np.linalg.eigh(matrix)
                values, vectors = values[-k:], vectors[:, -k:]
            else:
                values, vectors = eigh(matrix, subset_by_index=[m - k, m - 1], check_finite=False)
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1], True
    start = rng.standard_normal((m, min(k + 4, settings.block)))
    pairs = block_krylov(matrix.__matmul__, start, k, goal, scale=goal.total)
    return pairs.values, pairs.vectors.astype(np.float64, copy=False), pairs.finished


class Centred(NamedTuple):
    """Inner products of the rows of one panel of columns, and the mean and variance of those columns."""

    mean: Array
    products: Floats
    variance: Array


def gram_matrix(stack: Stack, dtype: type[np.floating[Any]], n_jobs: int) -> tuple[Array, Array, Array]:
    """Column means, inner products (n, n) of centred rows times the roots of their weights, and column variances."""
    w = stack.weight
    mean, variance = np.full(stack.n_features, np.nan), np.full(stack.n_features, np.nan)
    gram = np.zeros((stack.n_rows, stack.n_rows))
    panels = list(stack.panels())
    work = partial(_panel_products, stack, w, dtype)
    for columns, part in zip(panels, map_blocks(work, panels, n_jobs), strict=False):
        mean[columns], variance[columns] = part.mean, part.variance
        gram += part.products
        if not np.isfinite(part.mean).all():  # a cell is missing: the other panels need not be read
            break
    return mean, gram, variance


def _panel_products(stack: Stack, w: Array, dtype: type[np.floating[Any]], columns: slice) -> Centred:
    with workspace() as work:
        panel = stack.panel(columns, dtype, work)
        share = (w / w.sum()).astype(dtype)
        mean = np.zeros(panel.shape[1])
        for _ in range(2):  # the second round removes the rounding of the first
            centre = share @ panel
            panel -= centre
            mean += centre
        if stack.is_weighted:
            panel *= np.sqrt(w).astype(dtype)[:, None]
        variance = np.einsum("ij,ij->j", panel, panel, dtype=np.float64) / w.sum()
        return Centred(mean, panel @ panel.T, variance)


def axes_of(
    stack: Stack, mean: Array, coordinates: Array, n_jobs: int, dtype: type[np.floating[Any]] = np.float64
) -> Array:
    """Xc' V, up to the length of its columns: (d, k)."""
    weighted = coordinates * np.sqrt(stack.weight)[:, None]  # (n, k)
    shift = weighted.sum(axis=0)
    work = partial(_panel_axes, stack, weighted.astype(dtype))
    panels = map_blocks(work, list(stack.panels()), n_jobs)
    return np.concatenate(list(panels)) - np.outer(mean, shift)


def _panel_axes(stack: Stack, weighted: Floats, columns: slice) -> Floats:
    with workspace() as work:
        return stack.panel(columns, weighted.dtype.type, work).T @ weighted


def _completed(axes: Array, k: int) -> Array:
    """Append orthonormal rows: directions in which the data do not vary."""
    d = axes.shape[1]
    basis = np.linalg.qr(np.hstack([axes.T, np.eye(d, k)]))[0]
    return np.vstack([axes, basis[:, axes.shape[0] : k].T])


def within_single_range(total: float) -> bool:
    """Can float32 hold squares of values with this variance, and sums of many of them?"""
    return 1e-20 < total < 1e20


def _single_if_safe(
    table: Description,
    kind: type[AnySums],
    solve: Callable[[AnySums], Spectrum],
    double: Callable[[], AnySums],
    tol: float,
) -> Spectrum:
    """Solve by the sums of the first pass, unless these are float32 products that lose more than ``tol`` nats."""
    if isinstance(table.sums, kind):
        spectrum = solve(table.sums)
        if not table.source.single_precision or _single_was_enough(spectrum, tol):
            return spectrum
    sums = double()
    require_variation(sums)  # what float32 took for variation may have been rounding
    return solve(sums)


def _single_was_enough(spectrum: Spectrum, tol: float) -> bool:
    """Judge by the eigenvalues found.

    An error e |S| in S turns an axis by e l_1 / s2 at most, and the log-likelihood by half of its
    square for each component and row. The energy outside the axes must keep seven digits too: it is
    what is left of the trace.
    """
    d, k = spectrum.axes.shape
    error = SINGLE_EPS * spectrum.values[0]
    angle = error * (d - k) / max(spectrum.residual(k), error)
    return (
        within_single_range(spectrum.total)
        and error < 1e-7 * spectrum.residual(k)
        and 0.5 * spectrum.weight * k * angle**2 < tol
    )


class PrincipalCoordinates(NamedTuple):
    """Coordinates of the rows and the noise that is left."""

    latent: Array  # Z: (n, q)
    noise_variance: float


def principal_coordinates(x: Array, n_components: int, *, alpha: float = 1.0) -> PrincipalCoordinates:
    r"""Maximise ``dual_log_likelihood`` over the latent coordinates and the noise variance.

    With :math:`\kappa_1 \ge \dots \ge \kappa_n` the eigenvalues of the Gram matrix of the centred
    rows over d, and V its eigenvectors,

    .. math::
        \sigma^2 = \frac{1}{n - q} \sum_{i > q} \kappa_i, \qquad
        Z = V_q \left( (K_q - \sigma^2 I) / \alpha \right)^{1/2}

    Classical scaling, with the shrinkage that noise asks for. Lawrence (2005).
    """
    block = as_block(x)
    n, q = block.n_rows, n_components
    if not 1 <= q < n:
        msg = f"n_components must lie between 1 and n - 1 = {n - 1} in the dual view; got {q}."
        raise ShapeError(msg)
    _, gram, _ = gram_matrix(Stack.of(block), np.float64, n_jobs=1)
    require_finite("the inner products of x", gram)
    values, vectors = np.linalg.eigh(gram / block.n_features)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    sigma2 = float(values[q:].sum()) / (n - q)
    scale = np.sqrt(np.maximum(values[:q] - sigma2, 0.0) / alpha)
    return PrincipalCoordinates(fix_signs(vectors[:, :q]) * scale, sigma2)
