"""The table that criteria look at: all rows in memory, or a sample of them."""

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
    """Rows in memory, and what to say of them if they are not all."""

    source: Source
    block: Block  # all of them in one
    whole: bool

    def told(self, rule: str) -> str:
        """A rule, and on what rows it was tried."""
        return rule if self.whole else f"{rule}, in a sample of {self.block.total_weight:,.0f} rows"


def at_hand(source: Source, rng: np.random.Generator, size: SampleSize = SampleSize()) -> AtHand:
    """The rows of a source in one block; of rows that are not at hand, and can be read again, a sample."""
    if source.in_memory or not source.repeatable:
        block = joined(source.hold())
        return AtHand(open_source(block, n_jobs=source.n_jobs), block, whole=True)
    drawn = source.fold(draw_rows(source, rng, size))
    block = Block(drawn.rows, drawn.weight)
    return AtHand(open_source(block, n_jobs=source.n_jobs), block, whole=len(drawn.rows) < size.of(source.n_features))


def table_of(block: Block, most_cells: int = 2**28) -> Array:
    """The cells as a dense array, missing ones NaN: (n, d); sparse rows have up to ``most_cells``, zeros counted."""
    if block.is_sparse and block.n_rows * block.n_features > most_cells:
        msg = (
            f"every cell of {block.n_rows:,} x {block.n_features:,} is looked at, those that are not stored too: "
            f"at most {most_cells:,} can be.\nHint: pass some of the rows, or n_components='bic'."
        )
        raise DataError(msg)
    return dense_values(block)
