"""Ends between which a Gaussian value lies, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.special import ndtri

from probpca.errors import DataError

if TYPE_CHECKING:
    from probpca.typing import Array


def central_interval(mean: Array, std: Array, level: float) -> tuple[Array, Array]:
    """Lower and upper ends that hold each value with probability ``level``."""
    if not 0 < level < 1:
        msg = f"level must lie between 0 and 1; got {level}."
        raise DataError(msg)
    width = ndtri(0.5 + level / 2) * std
    return mean - width, mean + width
