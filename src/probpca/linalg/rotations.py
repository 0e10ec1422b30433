"""Orthonormal bases and the one sign convention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from probpca.typing import Array


def fix_signs(axes: Array) -> Array:
    """Flip columns so that the entry largest in magnitude is positive.

    The first such entry decides when several are equally large.
    """
    largest = np.abs(axes).argmax(axis=0)
    signs = np.sign(axes[largest, np.arange(axes.shape[1])])
    return axes * np.where(signs == 0, 1.0, signs)


def orthonormal(matrix: Array) -> Array:
    """An orthonormal basis of the column span, by Householder QR."""
    return np.linalg.qr(matrix)[0]
