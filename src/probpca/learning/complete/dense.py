"""Eigenpairs of the sample covariance from a dense matrix: covariance, Gram matrix, or a factor of the scatter."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

import numpy as np
from scipy.linalg import svd

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
from probpca.linalg.eigenpairs import largest_eigenpairs
from probpca.linalg.rotations import fix_signs, orthonormal
from probpca.scratch import workspace
from probpca.sources.engines.local import map_blocks, one_blas_thread
from probpca.statistics import Moments, Root, Stack, subtract_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.learning.describe import Description, Sums
    from probpca.learning.settings import DenseSettings, Settings
    from probpca.typing import Array, Floats

AnySums = TypeVar("AnySums", bound="Sums")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Gram:
    """Gram matrix of the centred rows: their inner products, times the square roots of their weights."""

    stack: Stack
    mean: Array  # (d,)
    products: Array  # (n, n)
    variance: Array  # of each feature: (d,)

    @classmethod
    def of_stack(cls, stack: Stack, dtype: type[np.floating[Any]], n_jobs: int) -> Gram:
        """Compute the Gram matrix panel by panel of columns, stopping at the first panel that is not finite."""
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
        return float(self.variance.sum())  # the trace of products in float32 would be less accurate

    @property
    def complete(self) -> bool:
        """Whether every cell is observed and finite."""
        plain = all(block.precision is None and not block.unstored_missing for block in self.stack.blocks)
        return plain and bool(np.isfinite(self.mean).all())


def by_covariance(table: Description, k: int, settings: Settings, rng: np.random.Generator) -> Spectrum:
    """Top k eigenpairs from the covariance matrix: one pass over the rows, d^2 memory."""

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
    """Top k eigenpairs from the n x n Gram matrix of the rows, in one pass over panels of columns.

    Its eigenvectors are the principal coordinates of the rows.
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
    """Top k eigenpairs from the singular values of the centred rows: twice the digits, several times the work."""
    root = table.sums if isinstance(table.sums, Root) else table.source.fold(Root.of)
    require_variation(root)  # squares of tiny deviations may underflow to zero here
    _, singular, axes = svd(root.factor, full_matrices=False, lapack_driver="gesdd")
    values = np.zeros(max(k, singular.size))
    values[: singular.size] = singular**2 / root.weight
    if axes.shape[0] < k:
        axes = _completed(axes, k)
    tail = float(values[k:].sum())
    resolution = resolution_of_rows(root.total_variance, root.mean, varies=root.variance > 0)
    return Spectrum(root.weight, root.count, root.mean, values[:k], axes[:k].T, tail, resolution)


def top_of_factor(factor: Array) -> tuple[Array, Array]:
    """All eigenpairs of B'B for a factor B with few rows, largest first: (r,) and (d, r)."""
    _, singular, axes = svd(factor, full_matrices=False, lapack_driver="gesdd")
    return singular**2, axes.T


def top_of_matrix(
    matrix: Array,
    goal: Certificate,
    rng: np.random.Generator,
    settings: DenseSettings,
    near: Array | None = None,
    *,
    more: int = 0,
) -> tuple[Array, Array, bool]:
    """Largest eigenpairs of a symmetric matrix, largest first, and whether they are as accurate as ``goal``.

    An iteration starts from the vectors ``near`` the wanted ones, if there are any, and random ones: (m, at most k).
    There are ``more`` pairs than ``goal`` asks for, as far as the matrix has them; these may be less accurate.
    """
    m, k = matrix.shape[0], min(goal.k + more, matrix.shape[0])
    if m < settings.small or k > m / 8:
        # Waking BLAS threads costs more than it gains, and then they spin; tiny matrices do not wake them.
        with one_blas_thread() if 16 < m < settings.small else nullcontext():
            values, vectors = largest_eigenpairs(matrix, k, settings.tiny)
        return np.maximum(values, 0.0), vectors, True
    start = starting_block(m, min(k + 4, settings.block), rng, near)
    pairs = block_krylov(matrix.__matmul__, start, k, goal, scale=goal.total)
    return pairs.values, pairs.vectors.astype(np.float64, copy=False), pairs.finished


def starting_block(m: int, width: int, rng: np.random.Generator, near: Array | None = None) -> Array:
    """Vectors to start an iteration from: those of ``near``, and random ones up to ``width``: (m, width)."""
    if near is None:
        return rng.standard_normal((m, width))
    return np.hstack([near, rng.standard_normal((m, max(width - near.shape[1], 1)))])


class Centred(NamedTuple):
    """Inner products of the rows over one panel of columns, with the mean and variance of those columns."""

    mean: Array
    products: Floats
    variance: Array


def gram_matrix(stack: Stack, dtype: type[np.floating[Any]], n_jobs: int) -> tuple[Array, Array, Array]:
    """Column means, Gram matrix (n, n) of the centred rows times the roots of their weights, and column variances."""
    w = stack.weight
    mean, variance = np.full(stack.n_features, np.nan), np.full(stack.n_features, np.nan)
    gram = np.zeros((stack.n_rows, stack.n_rows))
    panels = list(stack.panels())
    work = partial(_panel_products, stack, w, dtype)
    for columns, part in zip(panels, map_blocks(work, panels, n_jobs), strict=False):
        mean[columns], variance[columns] = part.mean, part.variance
        gram += part.products
        if not np.isfinite(part.mean).all():  # a cell is missing: no need to read the other panels
            break
    return mean, gram, variance


def _panel_products(stack: Stack, w: Array, dtype: type[np.floating[Any]], columns: slice) -> Centred:
    with workspace() as work:
        panel = stack.panel(columns, dtype, work)
        mean = subtract_mean(panel, w)
        if stack.is_weighted:
            panel *= np.sqrt(w).astype(dtype)[:, None]
        variance = np.einsum("ij,ij->j", panel, panel, dtype=np.float64) / w.sum()
        return Centred(mean, panel @ panel.T, variance)


def axes_of(
    stack: Stack, mean: Array, coordinates: Array, n_jobs: int, dtype: type[np.floating[Any]] = np.float64
) -> Array:
    """Product Xc'V of the centred rows with their principal coordinates, up to the length of its columns: (d, k)."""
    weighted = coordinates * np.sqrt(stack.weight)[:, None]  # (n, k)
    work = partial(_panel_axes, stack, mean, weighted.astype(dtype))
    panels = map_blocks(work, list(stack.panels()), n_jobs)
    return np.concatenate(list(panels)).astype(np.float64, copy=False)


def _panel_axes(stack: Stack, mean: Array, weighted: Floats, columns: slice) -> Floats:
    with workspace() as work:
        panel = stack.panel(columns, weighted.dtype.type, work)
        panel -= mean[columns].astype(panel.dtype)
        return panel.T @ weighted


def _completed(axes: Array, k: int) -> Array:
    """Append orthonormal directions in which the data do not vary, up to k."""
    d = axes.shape[1]
    basis = np.linalg.qr(np.hstack([axes.T, np.eye(d, k)]))[0]
    return np.vstack([axes, basis[:, axes.shape[0] : k].T])


def within_single_range(total: float) -> bool:
    """Whether squares of values with this total variance, and their sums, are within the range of float32."""
    return 1e-20 < total < 1e20


def _single_if_safe(
    table: Description,
    kind: type[AnySums],
    solve: Callable[[AnySums], Spectrum],
    double: Callable[[], AnySums],
    tol: float,
) -> Spectrum:
    """Solve from the sums of the first pass; recompute them in float64 if float32 would lose more than ``tol`` nats."""
    if isinstance(table.sums, kind):
        spectrum = solve(table.sums)
        if not table.source.single_precision or _single_was_enough(spectrum, tol):
            return spectrum
    sums = double()
    require_variation(sums)  # variation found in float32 may have been rounding error
    return solve(sums)


def _single_was_enough(spectrum: Spectrum, tol: float) -> bool:
    """Whether float32 products were accurate enough, judged by the eigenvalues.

    An error e |S| in S turns an axis by at most e l_1 / s2, which lowers the log-likelihood by half of its square
    per component and row. The variance outside the axes, a difference from the trace, must keep enough digits too.
    """
    d, k = spectrum.axes.shape
    error = SINGLE_EPS * spectrum.values[0]
    angle = error * (d - k) / max(spectrum.residual(k), error)
    return (
        within_single_range(spectrum.total)
        and error < 5e-8 * spectrum.residual(k)
        and 0.5 * spectrum.weight * k * angle**2 < tol
    )


class PrincipalCoordinates(NamedTuple):
    """Maximum-likelihood estimates of dual PPCA.

    Attributes
    ----------
    latent : ndarray of shape (n, q)
        Latent coordinates Z of the rows.
    noise_variance : float
        Noise variance.
    """

    latent: Array
    noise_variance: float


def principal_coordinates(x: Array, n_components: int, *, alpha: float = 1.0) -> PrincipalCoordinates:
    r"""Fit dual PPCA: maximise ``dual_log_likelihood`` over the latent coordinates and the noise variance.

    With :math:`\kappa_1 \ge \dots \ge \kappa_n` the eigenvalues and V the eigenvectors of the Gram matrix of the
    centred rows divided by d,

    .. math::
        \sigma^2 = \frac{1}{n - q} \sum_{i > q} \kappa_i, \qquad
        Z = V_q \left( (K_q - \sigma^2 I) / \alpha \right)^{1/2}

    This is classical multidimensional scaling with shrinkage for the noise. ``x`` has shape (n, d), and ``alpha`` is
    the prior variance of the weights. Lawrence (2005).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning import principal_coordinates
    >>> found = principal_coordinates(load_iris().data, 2)
    >>> found.latent.shape, round(found.noise_variance, 4)
    ((150, 2), 0.0257)
    """
    block = as_block(x)
    n, q = block.n_rows, n_components
    if not 1 <= q < n:
        msg = f"n_components must lie between 1 and n - 1 = {n - 1} in dual PPCA; got {q}."
        raise ShapeError(msg)
    _, gram, _ = gram_matrix(Stack.of(block), np.float64, n_jobs=1)
    require_finite("the inner products of x", gram)
    values, vectors = np.linalg.eigh(gram / block.n_features)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    sigma2 = float(values[q:].sum()) / (n - q)
    scale = np.sqrt(np.maximum(values[:q] - sigma2, 0.0) / alpha)
    return PrincipalCoordinates(fix_signs(vectors[:, :q]) * scale, sigma2)
