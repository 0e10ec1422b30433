"""What one worker sees: a block of rows, as they come or prepared for missing cells."""

from probpca.rows.block import Block, Rows, as_block
from probpca.rows.observe import Observed, observe
from probpca.rows.sequences import Sequences, as_sequences

__all__ = ["Block", "Observed", "Rows", "Sequences", "as_block", "as_sequences", "observe"]
