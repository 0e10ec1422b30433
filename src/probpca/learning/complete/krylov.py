"""Eigenpairs of the sample covariance from products of the rows with blocks of vectors, without a square matrix."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.blocks.block import transposed
from probpca.learning.complete.dense import axes_of, within_single_range
from probpca.learning.complete.spectrum import (
    SINGLE_EPS,
    Certificate,
    Spectrum,
    resolution_of_squares,
)
from probpca.linalg.block_krylov import block_krylov
from probpca.linalg.rotations import orthonormal
from probpca.scratch import workspace
from probpca.sources.engines.local import map_blocks, one_blas_thread
from probpca.statistics import Sample, Stack, Sum

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from probpca.blocks import Block
    from probpca.learning.describe import Description
    from probpca.learning.settings import KrylovSettings, Settings
    from probpca.linalg.block_krylov import Ritz
    from probpca.sources import Source
    from probpca.statistics import ColumnSummary
    from probpca.typing import Array, Floats


def covariance_product(
    source: Source, mean: Array, vectors: Array, weight: float, dtype: npt.DTypeLike = np.float64
) -> Array:
    """Product S V with the covariance S about ``mean``, in one pass over the rows: (d, k)."""
    folded = source.fold(partial(scatter_product, mean, np.ascontiguousarray(vectors, dtype)))
    return folded.value.T / weight


def projected_covariance(source: Source, mean: Array, vectors: Array, weight: float) -> tuple[Array, float]:
    """Product V'S V (k, k) with the covariance S about ``mean``, and the trace of S, in one pass over the rows."""
    found = source.fold(partial(squared_image, mean, vectors)).value / weight
    return found[:-1].reshape(vectors.shape[1], -1), float(found[-1])


def gram_product(
    stack: Stack, mean: Array, vectors: Floats, *, n_jobs: int, dtype: npt.DTypeLike = np.float64
) -> Array:
    """Product K V with K the Gram matrix of centred rows over their number, in one pass over the columns: (n, k)."""
    w = stack.weight
    panels = list(stack.panels())
    share = -(-len(panels) // (2 * n_jobs))
    groups = [panels[i : i + share] for i in range(0, len(panels), share)]
    work = partial(_group_product, stack, mean, np.sqrt(w), np.ascontiguousarray(vectors, dtype))
    return sum(map_blocks(work, groups, n_jobs), np.zeros(vectors.shape)) / w.sum()


def _group_product(stack: Stack, mean: Array, roots: Array, vectors: Any, panels: list[slice]) -> Array:
    dtype = vectors.dtype
    total = np.zeros(vectors.shape)
    with workspace() as work:
        for columns in panels:
            panel = stack.panel(columns, dtype, work)
            panel -= mean[columns].astype(dtype)
            if stack.is_weighted:
                panel *= roots[:, None].astype(dtype)
            total += panel @ (panel.T @ vectors)
    return total


def outside_energy(source: Source, mean: Array, axes: Array, weight: float) -> float:
    """Mean squared distance of the rows from the affine subspace ``mean`` + span(axes), as a sum of squares."""
    return float(source.fold(partial(squared_residuals, mean, axes)).value) / weight


def scatter_product(mean: Array, vectors: Any, block: Block) -> Sum:
    """Sum over rows of w V'(x - mean) (x - mean)': (k, d).

    Both products use a piece of rows while it is in cache, in the precision of ``vectors``.
    """
    if block.is_sparse:
        return _sparse_scatter_product(mean, vectors, block)
    dtype, k = vectors.dtype, vectors.shape[1]
    total = np.zeros((k, block.n_features))
    with workspace() as work:
        for rows in block.pieces():
            centred = block.centred(rows, mean, dtype, work)
            image = centred @ vectors  # (rows, k)
            if block.weight is not None:
                image *= block.weight[rows, None].astype(dtype)
            total += np.matmul(image.T, centred, out=work.array("product", total.shape, dtype))
    return Sum(total)


def _sparse_scatter_product(mean: Array, vectors: Any, block: Block) -> Sum:
    """Scatter product of sparse rows with implicit centring, so that the matrix stays sparse."""
    image = block.values @ vectors  # (b, k)
    _subtract(image, (mean @ vectors).astype(image.dtype))
    if block.weight is not None:
        image *= block.weight[:, None].astype(image.dtype)
    total = (transposed(block.values) @ image).astype(np.float64, copy=False)
    # A product with ones sums long thin columns ten times faster than a sum along them.
    total -= np.outer(mean, np.ones(len(image), image.dtype) @ image)
    return Sum(total.T)


def _subtract(image: Floats, row: Floats, together: int = 64) -> None:
    """Subtract a short row from all rows of a matrix, many at a time, because loops over few numbers are slow."""
    whole = len(image) // together * together
    many = image[:whole].reshape(-1, together * row.size)
    many -= np.tile(row, together)
    image[whole:] -= row


def squared_image(mean: Array, vectors: Array, block: Block) -> Sum:
    """Sums over rows of w V'(x - mean) (x - mean)'V, flattened, and of w |x - mean|^2: (k^2 + 1,)."""
    if block.is_sparse:
        image = block.values @ vectors
        _subtract(image, mean @ vectors)
        return Sum(np.append(_weighted_products(image, block.weight), _sparse_square(mean, block)))
    total, square = np.zeros((vectors.shape[1], vectors.shape[1])), 0.0
    with workspace() as work:
        for rows in block.pieces():
            w = None if block.weight is None else block.weight[rows]
            centred = block.centred(rows, mean, work=work)
            total += _weighted_products(centred @ vectors, w)
            square += float(block.weight_of(rows) @ np.einsum("ij,ij->i", centred, centred))
    return Sum(np.append(total, square))


def _sparse_square(mean: Array, block: Block) -> float:
    """Sum over sparse rows of w |x - mean|^2."""
    values, w = block.values, block.weight
    rest, of_cell = values.data - mean[values.indices], None if w is None else np.repeat(w, np.diff(values.indptr))
    np.square(rest, out=rest)
    counts = np.bincount(values.indices, minlength=mean.size)
    stored = counts if of_cell is None else np.bincount(values.indices, of_cell, mean.size)
    zeros = np.where(counts < block.n_rows, block.total_weight - stored, 0.0)  # a difference would be rounded
    return float((rest.sum() if of_cell is None else of_cell @ rest) + zeros @ np.square(mean))


def _weighted_products(image: Array, w: Array | None) -> Array:
    return image.T @ (image if w is None else w[:, None] * image)


def squared_residuals(mean: Array, axes: Array, block: Block) -> Sum:
    """Sum over rows of w |(I - U U')(x - mean)|^2."""
    total = 0.0
    with workspace() as work:
        for rows in block.pieces():
            rest = block.centred(rows, mean, work=work)
            rest -= (rest @ axes) @ axes.T
            rest -= (rest @ axes) @ axes.T  # a second round: the first leaves eps * |x| in the span
            total += float(block.weight_of(rows) @ np.einsum("ij,ij->i", rest, rest))
    return Sum(np.asarray(total))


class Found(NamedTuple):
    """Eigenpairs of S, the number of products used, and whether they are as accurate as requested."""

    values: Array  # (k,)
    axes: Array  # (d, k)
    total: float  # trace of S
    n_products: int
    certified: bool


def by_krylov(table: Description, k: int, settings: Settings, rng: np.random.Generator) -> Spectrum:
    """Top k eigenpairs by block Krylov iteration with blocks of k + 4 vectors.

    Products with dense rows are computed in float32 until the axes are accurate enough. One pass in float64 then
    makes their variances, and the variance outside them, accurate to double precision. If float32 is not accurate
    enough, the iteration continues in float64.
    """
    summary = table.summarise()
    source, mean = _without_constants(table.source, summary)
    n, total = summary.total_weight, summary.total_variance
    work = _Work(source, mean, n, Certificate(n, source.n_features, k, total, settings.tol), settings.krylov)
    with one_blas_thread():
        found = _from_rows(work, rng) if is_wide(source, k, settings.krylov) else _from_columns(work, rng)
    tail = found.total - float(found.values.sum())
    resolution = resolution_of_squares(found.values)
    return Spectrum(
        n, summary.count, summary.mean, found.values, found.axes, tail, resolution, found.n_products, found.certified
    )


def _without_constants(source: Source, summary: ColumnSummary) -> tuple[Source, Array]:
    """Rows and their mean, with zeros in the constant columns of sparse rows if these are far from zero.

    Implicit centring would leave the rounding errors of their values.
    """
    varies = summary.variance > 0
    if not source.is_sparse or _is_near_zero(summary.mean[~varies], summary.total_variance):
        return source, summary.mean
    return source.scaled(varies.astype(np.float64)), np.where(varies, summary.mean, 0.0)


class _Work(NamedTuple):
    """The eigenproblem: rows, their mean and total weight, required accuracy and options."""

    source: Source
    mean: Array
    total_weight: float
    goal: Certificate
    settings: KrylovSettings


def is_wide(source: Source, k: int, settings: KrylovSettings) -> bool:
    """Whether columns outnumber rows so much that vectors with an entry per row are better; rows must exceed k."""
    n = source.n_rows
    wide = settings.wide_single if source.single_precision else settings.wide
    return n is not None and k + 1 < n and wide * n < source.n_features and not source.is_sparse


def _from_columns(work: _Work, rng: np.random.Generator) -> Found:
    """Eigenvectors of the covariance, with an entry per feature; each product reads the rows once."""
    source, mean, total_weight, goal, settings = work
    b = goal.k + settings.oversampling
    narrow = settings.sparse_block if source.is_sparse else settings.single_block if source.single_precision else b
    width = min(b, narrow)
    sample = source.fold(partial(Sample.of, settings.sampled * width, int(rng.integers(2**63))))
    apply = partial(covariance_product, source, mean, weight=total_weight)
    found, good = _iterate(work, apply, _start(_leading(sample.rows - mean, width), rng))
    vectors = found.vectors.astype(np.float64, copy=False)
    if good or source.single_precision:
        return _in_double(work, vectors[:, : goal.k], found.n_products, certified=good or found.finished)
    return Found(found.values, vectors, goal.total, found.n_products, found.finished)


def _in_double(work: _Work, vectors: Array, n_products: int, *, certified: bool) -> Found:
    """Eigenpairs within a span, and the total variance, from one pass over the rows in float64.

    Sums over float32 rows, and axes found in float32, are not accurate enough for the variance outside the axes.
    """
    basis = orthonormal(vectors)
    covariance, total = projected_covariance(work.source, work.mean, basis, work.total_weight)
    values, rotation = np.linalg.eigh(covariance)
    return Found(values[::-1], basis @ rotation[:, ::-1], total, n_products, certified)


def _from_rows(work: _Work, rng: np.random.Generator) -> Found:
    """Eigenvectors of the Gram matrix, with an entry per row; each product reads the columns once."""
    source, mean, total_weight, goal, settings = work
    stack = source.fold(Stack.of)
    b = min(goal.k + settings.oversampling, mean.size)
    chosen = rng.choice(mean.size, min(settings.sampled * b, mean.size), replace=False)
    columns = np.concatenate([block.values[:, chosen] for block in stack.blocks]) - mean[chosen]
    apply = partial(gram_product, stack, mean, n_jobs=source.n_jobs)
    found, good = _iterate(work, apply, _start(_leading(columns.T, b), rng))
    coordinates = orthonormal(found.vectors[:, : goal.k].astype(np.float64))
    image = axes_of(stack, mean, coordinates, source.n_jobs, source.dtype if good else np.float64)  # Xc'V
    if good or source.single_precision:
        return _in_double(work, image, found.n_products, certified=good or found.finished)
    axes, singular, _ = np.linalg.svd(image, full_matrices=False)
    return Found(singular**2 / total_weight, axes, goal.total, found.n_products, found.finished)


def _iterate(work: _Work, apply: Callable[..., Floats], start: Floats) -> tuple[Ritz, bool]:
    """Iterate in float32, and in float64 if needed; also returns whether float32 was accurate enough."""
    goal, n_products = work.goal, 0
    if _single_precision_pays(work):
        single = partial(apply, dtype=np.float32)
        first = block_krylov(single, start, goal.k + 1, partial(_is_rough, goal), scale=goal.total)
        if _is_good(goal, first.values, first.residuals):
            return first, True
        start, n_products = first.vectors, first.n_products
    pairs = block_krylov(apply, start.astype(np.float64), goal.k, goal, scale=goal.total)
    return pairs._replace(n_products=n_products + pairs.n_products), False


def _single_precision_pays(work: _Work) -> bool:
    """Whether to use float32: the table is large and dense, and its values are within range."""
    source, total = work.source, work.goal.total
    large = source.n_stored is None or source.n_stored > work.settings.large
    near_zero = _is_near_zero(work.mean, total)
    castable = source.single_precision or not source.is_sparse
    return large and near_zero and castable and within_single_range(total)


def _is_near_zero(mean: Array, total: float) -> bool:
    """Whether means are within a thousand standard deviations of zero, given the total variance."""
    return float(np.abs(mean).max(initial=0.0)) < 1e3 * np.sqrt(total)


def _leading(data: Array, b: int) -> Array:
    """The b leading right singular directions of some rows: (b, length)."""
    _, vectors = np.linalg.eigh(data @ data.T)
    return vectors[:, : -b - 1 : -1].T @ data


def _start(data: Array, rng: np.random.Generator) -> Floats:
    """Starting vectors: combinations of some rows, which are near the leading axes, plus a random part.

    The random part ensures that no axis is missed because it occurs only in other rows.
    """
    random = rng.standard_normal(data.shape) * (0.3 / np.sqrt(data.shape[1]))
    size = np.linalg.norm(data, axis=1, keepdims=True)
    random += data / np.where(size > 0, size, 1.0)
    return random.T.astype(np.float32)


def _is_rough(goal: Certificate, values: Array, residuals: Array) -> bool:
    """Whether float32 has reached its limit: the goal is met, or rounding errors dominate the residuals."""
    hidden = bool((residuals[: goal.k] < 1e-6 * values[0]).all())
    return hidden or _is_good(goal, values, residuals)


def _is_good(goal: Certificate, values: Array, residuals: Array) -> bool:
    """Whether the goal is met even with residuals increased by the rounding error of float32."""
    return values.size > goal.k and goal(values, residuals + SINGLE_EPS * values[0])
