"""Parallel analysis: eigenvalues beside those of shuffled columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.linalg import eigvalsh

from probpca.errors import DataError
from probpca.learning.selection.criteria import Curve
from probpca.learning.selection.tables import table_of
from probpca.sources.engines.local import map_blocks, one_blas_thread

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True)
class ParallelSettings:
    """How columns are shuffled and compared."""

    permutations: int = 50
    quantile: float = 0.95  # of the eigenvalues of shuffled columns, which those of the rows must exceed
    most_rows: int = 2**22  # to which weighted rows may be repeated
    rounding: float = 1e-9  # relative excess that does not count: uncorrelated columns keep their eigenvalues


def parallel_analysis(
    block: Block,
    largest: int,
    rng: np.random.Generator,
    *,
    n_jobs: int = 1,
    settings: ParallelSettings = ParallelSettings(),
) -> Curve:
    """Each eigenvalue over the 95 % quantile that it has when the columns are shuffled, each by itself (Horn 1965).

    Shuffled columns keep their variances, so that noise that differs between columns is not taken for components.
    Components are kept up to the first one whose ratio is not above 1.
    """
    table = _repeated(block, settings.most_rows)
    table -= table.mean(axis=0)
    counts = np.arange(1, min(largest, *table.shape) + 1)
    with one_blas_thread():
        shuffled = map_blocks(partial(_shuffled_values, table, counts.size), rng.spawn(settings.permutations), n_jobs)
        null = np.quantile(np.array(list(shuffled)), settings.quantile, axis=0)
    found = leading_values(table, counts.size)
    clear = null > settings.rounding * max(float(found[0]), 1e-300)
    return Curve(counts, np.divide(found, (1 + settings.rounding) * null, out=np.zeros(counts.size), where=clear))


def leading_values(table: Array, k: int) -> Array:
    """The k largest eigenvalues of the covariance of centred rows, by the smaller of the two matrices: (k,)."""
    n, d = table.shape
    matrix = table @ table.T if n < d else table.T @ table
    m = len(matrix)
    values = eigvalsh(matrix, subset_by_index=[m - k, m - 1], overwrite_a=True, check_finite=False)
    return np.asarray(np.maximum(values[::-1], 0.0) / n)


def _shuffled_values(table: Array, k: int, rng: np.random.Generator) -> Array:
    return leading_values(rng.permuted(table, axis=0), k)


def _repeated(block: Block, most_rows: int) -> Array:
    """The complete rows, each as often as it counts: (n, d)."""
    table = table_of(block)
    if block.weight is None:
        return table
    times = np.rint(block.weight)
    if not np.array_equal(times, block.weight):
        msg = (
            "parallel analysis shuffles rows, so that their weights must be whole numbers; "
            f"the smallest given is {block.weight.min():g}.\nHint: n_components='bic' takes any weights."
        )
        raise DataError(msg)
    if times.sum() > max(most_rows, 4 * times.size):
        msg = f"parallel analysis would repeat {times.size:,} rows to {times.sum():,.0f}.\nHint: n_components='bic'."
        raise DataError(msg)
    return np.repeat(table, times.astype(np.intp), axis=0)
