"""Which rows have the same cells observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.blocks.block import mixed

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.typing import Index

    Mask = npt.NDArray[np.bool_]

COMMON = 4
"""Rows that share a pattern from which on it is handled as one."""
GLANCE = 512
"""Rows that are compared first, to see whether patterns recur."""


def _recur(mask: Mask) -> bool:
    """Do patterns of some rows come again among them?"""
    some = mask[:: max(len(mask) // GLANCE, 1)]
    return np.unique(np.packbits(some, axis=1), axis=0).shape[0] < 0.98 * len(some) or len(mask) < GLANCE


def _all_different(n: int) -> tuple[Index, Mask]:
    return np.arange(n), np.zeros(n, np.bool_)


def patterns(mask: Mask, *, certain: bool) -> tuple[Index, Mask]:
    """Number of each row's pattern, and which patterns are common; a glance decides, unless it must be ``certain``."""
    if not (certain or _recur(mask)):
        return _all_different(len(mask))
    packed = np.packbits(mask, axis=1)
    wide = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    wide[:, : packed.shape[1]] = packed
    keys = mixed(wide.view(np.uint64).T)
    _, first, pattern, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    if not np.array_equal(packed, packed[first[pattern]]):  # two patterns with one key: very rare
        _, pattern, counts = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
    return pattern.astype(np.intp), counts >= COMMON
