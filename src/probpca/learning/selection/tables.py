"""Rows in memory for criteria that need them: all rows, or a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from probpca.blocks import Block
from probpca.blocks.block import dense_values, joined
from probpca.errors import DataError
from probpca.learning.describe import draw_rows
from probpca.learning.settings import SampleSize
from probpca.sources import open_source

if TYPE_CHECKING:
    import numpy as np

    from probpca.sources import Source
    from probpca.typing import Array


class AtHand(NamedTuple):
    """Rows in memory: all rows of a source, or a sample."""

    source: Source
    block: Block  # the same rows as one block
    whole: bool  # whether these are all rows

    def told(self, rule: str) -> str:
        """Description of a rule, with the size of the sample if it was applied to one."""
        return rule if self.whole else f"{rule}, in a sample of {self.block.total_weight:,.0f} rows"


def at_hand(source: Source, rng: np.random.Generator, size: SampleSize = SampleSize()) -> AtHand:
    """Load the rows of a source into one block; a sample if they are not in memory and can be read repeatedly.

    Rows of small files are all loaded.
    """
    source = source.loaded()
    if source.in_memory or not source.repeatable:
        block = joined(source.hold())
        return AtHand(open_source(block, n_jobs=source.n_jobs), block, whole=True)
    drawn = source.fold(draw_rows(source, rng, size))
    block = Block(drawn.rows, drawn.weight)
    return AtHand(open_source(block, n_jobs=source.n_jobs), block, whole=len(drawn.rows) < size.of(source.n_features))


def table_of(block: Block, most_cells: int = 2**28) -> Array:
    """Cells as a dense array with NaN for missing ones, (n, d); sparse rows may have at most ``most_cells`` cells."""
    if block.is_sparse and block.n_rows * block.n_features > most_cells:
        msg = (
            f"this criterion needs all cells of a sparse table, at most {most_cells:,}; "
            f"got {block.n_rows:,} x {block.n_features:,}.\nHint: pass some of the rows, or use n_components='bic'."
        )
        raise DataError(msg)
    return dense_values(block)
