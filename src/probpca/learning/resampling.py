"""Rows drawn with replacement, and fits that begin near the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, final

import numpy as np

from probpca.errors import DataError
from probpca.learning.acceleration import iterate_accelerated
from probpca.rows import Block
from probpca.rows.block import joined
from probpca.sources.memory import held
from probpca.statistics import Columns

if TYPE_CHECKING:
    from probpca.learning.em import EM
    from probpca.learning.loop import Iterated, Monitor
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array

TRIES = 100


def frequencies(weight: Array, rng: np.random.Generator) -> Array:
    """How often each row is drawn, if as many are drawn with replacement as the weights count: (n,)."""
    total = weight.sum()
    return rng.multinomial(max(round(total), 1), weight / total).astype(np.float64)


def warm_fit(rows: Source, start: LinearGaussian, em: EM, monitor: Monitor) -> Iterated[LinearGaussian]:
    """Accelerated EM on prepared rows, from a model that is nearly theirs."""
    return iterate_accelerated(partial(em.step, source=rows), start, monitor, em.floor)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows at hand, some of which will be taken."""

    blocks: tuple[Block, ...]
    weight: Array  # (n,)
    n: float  # how many rows with something observed they count for
    cells: float  # how many observed cells
    complete: bool

    @classmethod
    def of(cls, source: Source) -> Self:
        """Look at the rows of a source once."""
        blocks = tuple(held(source))
        weight = np.concatenate([block.weights for block in blocks])
        n = float(weight.sum())
        if all(block.is_complete for block in blocks):
            return cls(blocks, weight, n, n * source.n_features, complete=True)
        columns = source.fold(Columns.of)
        return cls(blocks, weight, columns.rows, float(columns.observed.sum()), complete=False)

    def require_enough(self, q: int) -> None:
        """Raise ``DataError`` if resamples would have too few distinct rows for so many components."""
        needed, count = 2 * (q + 2), min(float(np.count_nonzero(self.weight)), self.n)
        if count < needed:
            msg = (
                f"resampling with {q} components needs at least {needed} rows; got {count:.6g}, as weights count them."
            )
            raise DataError(msg)

    def resampled(self, q: int, rng: np.random.Generator) -> Block:
        """Rows drawn with replacement, each kept once with its frequency."""
        counts = self._enough_frequencies(q + 2, rng)  # q components would explain fewer completely
        cuts = np.cumsum([block.n_rows for block in self.blocks])[:-1]
        parts = [_some(block, count) for block, count in zip(self.blocks, np.split(counts, cuts), strict=True)]
        return joined(parts)

    def _enough_frequencies(self, needed: int, rng: np.random.Generator) -> Array:
        for _ in range(TRIES):
            counts = frequencies(self.weight, rng)
            if np.count_nonzero(counts) >= needed:
                return counts
        msg = f"resamples need {needed} different rows, and have fewer: a few rows have nearly all of the weight."
        raise DataError(msg)


def _some(block: Block, counts: Array) -> Block:
    """The rows that were drawn."""
    present = np.flatnonzero(counts)
    precision = block.precision
    if precision is not None:
        precision = precision[np.repeat(counts > 0, np.diff(block.values.indptr)) if block.is_sparse else present]
    return Block(block.values[present], counts[present], precision, block.unstored_missing)
