"""Numbers by which rows are told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

MIXER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: consecutive numbers land far apart


def mixed(words: Words, seed: int = 0) -> Words:
    """One key for each column of words: (w, n) to (n,). Equal columns have equal keys, others hardly ever."""
    keys = np.full(words.shape[1], seed, np.uint64)
    for word in words:
        keys = (keys ^ word) * MIXER
        keys ^= keys >> np.uint64(29)
    return keys
