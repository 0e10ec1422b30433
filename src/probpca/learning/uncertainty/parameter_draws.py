"""Random draws of the parameters by fits to resampled rows, for multiple imputation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, final

import numpy as np

from probpca.available_memory import OBJECT_BYTES, require_memory
from probpca.blocks import Block, observe
from probpca.blocks.block import joined
from probpca.errors import DataError, SourceError
from probpca.learning.describe import in_unit_precision
from probpca.learning.em.m_step import EM
from probpca.learning.loop import Monitor, iterate_accelerated
from probpca.models import LinearGaussian
from probpca.sources import Source
from probpca.sources.engines.local import map_blocks, one_blas_thread
from probpca.statistics import ColumnSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.blocks import Observed
    from probpca.learning.loop import Iterated
    from probpca.typing import Array


LARGEST_TOTAL = 1e18
"""Largest total weight of rows that are resampled: counts must be 64-bit integers."""


def require_rows_in_memory(source: Source) -> None:
    """Raise ``SourceError`` unless the rows are in memory."""
    if not source.in_memory:
        msg = "drawing parameters needs rows in memory; these are read in batches.\nHint: pass one matrix."
        raise SourceError(msg)


def bytes_of_draws(count: int, d: int, q: int) -> int:
    """Memory for draws of the parameters and for the generators that they are made with."""
    return int(count) * (2 * OBJECT_BYTES + 8 * (d * (q + 1) + 1))


def require_memory_for_draws(count: int, d: int, q: int) -> None:
    """Raise ``NotEnoughMemoryError`` if draws of the parameters do not fit into memory."""
    what = f"{count:,} draws of the parameters of {d:,} columns and {q:,} components"
    require_memory(what, bytes_of_draws(count, d, q), "use fewer draws")


def draw_parameters(
    source: Source, model: LinearGaussian, inflation: float | Array, rngs: Sequence[np.random.Generator | int]
) -> list[LinearGaussian]:
    """Draw plausible models by bootstrap: fits to resampled rows, started from ``model``.

    The noise variance is fixed at its value corrected for degrees of freedom, because fits to resampled rows would
    underestimate it and make intervals too narrow. Each generator or seed makes one draw, independent of the others.
    """
    require_rows_in_memory(source)
    unit = np.sqrt(model.noise_variance)
    source = source.scaled(np.broadcast_to(1 / unit, (model.n_features,)))
    start = model.rescale(1 / unit)
    start = LinearGaussian(start.mean, start.loadings, np.asarray(inflation))
    rows = source.keep(partial(observe, centre=start.mean))
    with one_blas_thread():
        models = map_blocks(partial(_resampled_fit, rows.hold(), start), list(rngs), rows.n_jobs)
        return [drawn.rescale(unit) for drawn in models]


def _resampled_fit(
    blocks: list[Observed],
    start: LinearGaussian,
    rng: np.random.Generator | int,
    *,
    tol: float = 0.05,
    max_iter: int = 30,
) -> LinearGaussian:
    """Fit a model to rows drawn with replacement, with frequencies as weights.

    The error left by ``tol`` and ``max_iter`` is small compared with the variation by resampling.
    """
    weights = [_weight_of_rows(block) for block in blocks]
    counts = frequencies(np.concatenate(weights), np.random.default_rng(rng))
    cuts = np.cumsum([weight.size for weight in weights])[:-1]
    drawn = [block.reweighted(count) for block, count in zip(blocks, np.split(counts, cuts), strict=True)]
    noise = start.noise_variance
    rows = Source.of_blocks(drawn, start.n_features)
    return warm_fit(rows, start, EM(noise, noise=noise), Monitor(tol, max_iter)).state


def _weight_of_rows(block: Observed) -> Array:
    """Weights of all rows of a block; 0 for rows without observed cells."""
    weight = np.zeros(block.n_rows)
    for group in block.groups:
        weight[group.index] = group.weight
    return weight


def frequencies(weight: Array, rng: np.random.Generator) -> Array:
    """Random frequencies of the rows, drawn with replacement as many times as the sum of the weights: (n,)."""
    total = weight.sum()
    if total > LARGEST_TOTAL:
        msg = (
            f"resampling draws as many rows as the weights sum to, at most {LARGEST_TOTAL:.0e}; got {total:.3g}.\n"
            "Hint: sample_weight counts rows; divide the weights by their mean."
        )
        raise DataError(msg)
    return rng.multinomial(max(round(total), 1), weight / total).astype(np.float64)


def warm_fit(rows: Source, start: LinearGaussian, em: EM, monitor: Monitor) -> Iterated[LinearGaussian]:
    """Run accelerated EM on prepared rows, from a model that is close to the optimum."""
    return iterate_accelerated(partial(em.step, source=rows), start, monitor, em.floor)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows in memory that can be resampled."""

    blocks: tuple[Block, ...]
    weight: Array  # weights of the rows: (n,)
    n: float  # total weight of rows with observed cells
    cells: float  # total weight of the observed cells
    complete: bool  # whether no cell is missing
    precision_unit: float = 1.0  # what the relative precisions of the cells were divided by

    @classmethod
    def of(cls, source: Source) -> Self:
        """Make a table of the rows of a source, in one pass."""
        source, unit = in_unit_precision(source)
        blocks = tuple(source.hold())
        weight = np.concatenate([block.weights for block in blocks])
        n = float(weight.sum())
        if all(block.is_complete for block in blocks):
            return cls(blocks, weight, n, n * source.n_features, complete=True)
        summary = source.fold(ColumnSummary.of)
        return cls(
            blocks, weight, summary.total_weight, float(summary.observed.sum()), complete=False, precision_unit=unit
        )

    def require_enough(self, q: int) -> None:
        """Raise ``DataError`` if resamples would have too few distinct rows for q components."""
        needed, count = 2 * (q + 2), min(float(np.count_nonzero(self.weight)), self.n)
        if count < needed:
            msg = f"resampling with {q} components needs at least {needed} rows, counted by weight; got {count:.6g}."
            raise DataError(msg)

    def resampled(self, q: int, rng: np.random.Generator) -> Block:
        """Draw rows with replacement; each is returned once, with its frequency as weight."""
        counts = self._enough_frequencies(q + 2, rng)  # q components would explain fewer rows completely
        cuts = np.cumsum([block.n_rows for block in self.blocks])[:-1]
        parts = [_some(block, count) for block, count in zip(self.blocks, np.split(counts, cuts), strict=True)]
        return joined(parts)

    def _enough_frequencies(self, needed: int, rng: np.random.Generator, n_tries: int = 100) -> Array:
        for _ in range(n_tries):
            counts = frequencies(self.weight, rng)
            if np.count_nonzero(counts) >= needed:
                return counts
        msg = f"resamples need {needed} distinct rows; got fewer, because a few rows have nearly all of the weight."
        raise DataError(msg)


def _some(block: Block, counts: Array) -> Block:
    """Block of the rows that were drawn, with their frequencies."""
    present = np.flatnonzero(counts)
    precision = block.precision
    if precision is not None:
        precision = precision[np.repeat(counts > 0, np.diff(block.values.indptr)) if block.is_sparse else present]
    return Block(block.values[present], counts[present], precision, block.unstored_missing)
