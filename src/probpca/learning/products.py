"""Products of the sample covariance with a few vectors: one pass, no copy, no d x d matrix."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.rows.block import transposed
from probpca.scratch import scratch
from probpca.sources.local import map_blocks
from probpca.statistics import Sum

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.rows import Block
    from probpca.sources import Source
    from probpca.statistics import Stack
    from probpca.typing import Array, Floats


def covariance_product(
    source: Source, mean: Array, vectors: Array, weight: float, dtype: npt.DTypeLike = np.float64
) -> Array:
    """S V, with S the covariance about ``mean``: (d, k). Each row is read once."""
    folded = source.fold(partial(scatter_product, mean, np.ascontiguousarray(vectors, dtype)))
    return folded.value.T / weight


def projected_covariance(source: Source, mean: Array, vectors: Array, weight: float) -> Array:
    """V' S V: (k, k)."""
    return source.fold(partial(squared_image, mean, vectors)).value / weight


def gram_product(
    stack: Stack, mean: Array, vectors: Floats, *, n_jobs: int, dtype: npt.DTypeLike = np.float64
) -> Array:
    """K V, with K the inner products of centred rows over the number of rows: (n, k). Each column is read once."""
    w = stack.weight
    panels = list(stack.panels())
    share = -(-len(panels) // (2 * n_jobs))
    groups = [panels[i : i + share] for i in range(0, len(panels), share)]
    work = partial(_group_product, stack, mean, np.sqrt(w), np.ascontiguousarray(vectors, dtype))
    return sum(map_blocks(work, groups, n_jobs), np.zeros(vectors.shape)) / w.sum()


def _group_product(stack: Stack, mean: Array, roots: Array, vectors: Any, panels: list[slice]) -> Array:
    dtype = vectors.dtype
    total = np.zeros(vectors.shape)
    for columns in panels:
        panel = stack.panel(columns, dtype)
        panel -= mean[columns].astype(dtype)
        if stack.is_weighted:
            panel *= roots[:, None].astype(dtype)
        total += panel @ (panel.T @ vectors)
    return total


def outside_energy(source: Source, mean: Array, axes: Array, weight: float) -> float:
    """Mean squared distance of rows from ``mean`` + span(axes), as a sum of squares."""
    return float(source.fold(partial(squared_residuals, mean, axes)).value) / weight


def scatter_product(mean: Array, vectors: Any, block: Block) -> Sum:
    """Sum over rows of w V'(x - mean) (x - mean)': (k, d).

    Both products use a piece of rows while it is in the cache, in the precision of ``vectors``.
    """
    if block.is_sparse:
        return _sparse_scatter_product(mean, vectors, block)
    dtype, k = vectors.dtype, vectors.shape[1]
    total = np.zeros((k, block.n_features))
    for rows in block.pieces():
        centred = block.centred(rows, mean, dtype)
        image = centred @ vectors  # (rows, k)
        if block.weight is not None:
            image *= block.weight[rows, None].astype(dtype)
        total += np.matmul(image.T, centred, out=scratch("product", total.shape, dtype))
    return Sum(total)


def _sparse_scatter_product(mean: Array, vectors: Any, block: Block) -> Sum:
    """The same with implicit centring: the matrix stays sparse."""
    image = block.values @ vectors  # (b, k)
    image -= (mean @ vectors).astype(image.dtype)
    if block.weight is not None:
        image *= block.weight[:, None].astype(image.dtype)
    total = (transposed(block.values) @ image).astype(np.float64, copy=False)
    # A product with ones adds up long thin columns ten times as fast as a sum along them.
    total -= np.outer(mean, np.ones(len(image), image.dtype) @ image)
    return Sum(total.T)


def squared_image(mean: Array, vectors: Array, block: Block) -> Sum:
    """Sum over rows of w V'(x - mean) (x - mean)'V: (k, k)."""
    if block.is_sparse:
        return Sum(_weighted_products(block.values @ vectors - mean @ vectors, block.weight))
    total = np.zeros((vectors.shape[1], vectors.shape[1]))
    for rows in block.pieces():
        w = None if block.weight is None else block.weight[rows]
        total += _weighted_products(block.centred(rows, mean) @ vectors, w)
    return Sum(total)


def _weighted_products(image: Array, w: Array | None) -> Array:
    return image.T @ (image if w is None else w[:, None] * image)


def squared_residuals(mean: Array, axes: Array, block: Block) -> Sum:
    """Sum over rows of w |(I - U U')(x - mean)|^2."""
    total = 0.0
    for rows in block.pieces():
        rest = block.centred(rows, mean)
        rest -= (rest @ axes) @ axes.T
        rest -= (rest @ axes) @ axes.T  # once more: the first round leaves eps * |x| in the span
        total += float(block.weight_of(rows) @ np.einsum("ij,ij->i", rest, rest))
    return Sum(np.asarray(total))
