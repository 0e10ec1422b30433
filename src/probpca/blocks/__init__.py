"""Blocks of rows that one worker processes, the same rows prepared for missing cells, and time series."""

from probpca.blocks.block import Block, Rows, as_block
from probpca.blocks.cells import Observed, observe
from probpca.blocks.sequences import Sequences, as_sequences

__all__ = ["Block", "Observed", "Rows", "Sequences", "as_block", "as_sequences", "observe"]
