"""Numbers as short text that a script can read back."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from probpca.typing import Array


def packed(values: Array) -> str:
    """Single precision without its last byte, in base 64: four letters a number, relative error below 2e-5."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, dtype=np.float32)
    rounded = single.view(np.uint32).ravel() + np.uint32(0x80)
    return b64encode(rounded.astype(">u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()).decode()


def packed_bits(mask: Any) -> str:
    """True and False, eight in a byte, in base 64."""
    return b64encode(np.packbits(np.asarray(mask, dtype=bool).ravel()).tobytes()).decode()


def rounded(values: Iterable[float], digits: int = 7) -> list[float | None]:
    """Numbers with so many significant digits; None, which JSON has, for those that are not finite."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values]
