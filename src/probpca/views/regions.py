"""Regions of the plane that hold a Gaussian point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from probpca.typing import Array


class Region(NamedTuple):
    """An ellipse, as matplotlib wants it: full lengths of its axes, and the angle of the first in degrees."""

    width: float
    height: float
    angle: float


def region_of(covariance: Array, level: float) -> Region:
    """The smallest region of the plane that holds a Gaussian point with probability ``level``."""
    values, vectors = np.linalg.eigh(covariance)
    reach = -2.0 * np.log1p(-level)  # the quantile of chi-square with two degrees of freedom
    height, width = 2.0 * np.sqrt(reach * values)
    return Region(float(width), float(height), float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))))


def ellipse(centre: Any, region: Region) -> Any:
    """Ink for a region."""
    from matplotlib.patches import Ellipse  # noqa: PLC0415

    return Ellipse(tuple(centre), region.width, region.height, angle=region.angle)


def half_sides(region: Region) -> Array:
    """Of the box around it: (2,)."""
    turn = np.radians(region.angle)
    cosine, sine = np.cos(turn), np.sin(turn)
    return np.hypot([region.width * cosine, region.width * sine], [region.height * sine, region.height * cosine]) / 2
