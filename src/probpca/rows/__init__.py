"""What one worker sees: a block of rows, and buffers that it may use again."""

from probpca.rows.block import Block, Rows, as_block

__all__ = ["Block", "Rows", "as_block"]
