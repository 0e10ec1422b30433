"""Points with colours and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.views.axes import CATEGORIES, DIM, INK, MARKERS, SMALL, apart, beside, line_height

if TYPE_CHECKING:
    from probpca.typing import Array

MOST_CLASSES = len(CATEGORIES) * len(MARKERS)
FEW = 12
"""Whole numbers that are so few are classes; more are a scale."""


def colour_rows(ax: Any, points: Array, labels: Any = None) -> list[Any]:
    """Draw points in one colour, by class, or on a scale."""
    size = 22 if len(points) <= 500 else 9
    style = {"s": size, "linewidths": 0.3, "edgecolors": "white", "zorder": 2}
    if labels is None:
        return [ax.scatter(*points.T, color=INK, alpha=0.8, **style)]
    if is_scale(labels):
        drawn = ax.scatter(*points.T, c=labels, cmap="viridis", **style)
        ax.figure.colorbar(drawn, ax=ax, shrink=0.8)
        return [drawn]
    drawn = []
    for k, label in enumerate(np.unique(labels)):
        colour, marker = CATEGORIES[k % len(CATEGORIES)], MARKERS[k % len(MARKERS)]
        here = points[labels == label]
        drawn.append(ax.scatter(*here.T, color=colour, marker=marker, label=str(label), alpha=0.85, **style))
    ax.legend(frameon=False, fontsize=SMALL, loc="best", handletextpad=0.2)
    return drawn


def is_scale(labels: Any) -> bool:
    """Are these numbers on a scale, and not classes?"""
    kind = labels.dtype.kind
    return kind == "f" or (kind in "iu" and np.unique(labels).size > FEW)


def name_points(ax: Any, points: Array, names: list[str], *, leftwards: Any = None, colour: str = DIM) -> list[Any]:
    """Write names beside points, moved up or down where they would lie on each other.

    They stand to the right, but to the left where ``leftwards`` is true: by default near the right edge.
    """
    if not names:
        return []
    ax.apply_aspect()
    _ = ax.viewLim  # limits follow the data only when they are asked for
    to_points = ax.transData + ax.transAxes.inverted()
    x, y = to_points.transform(points).T
    tall = ax.get_window_extent().height / ax.figure.dpi * 72
    leftwards = x > 0.8 if leftwards is None else np.asarray(leftwards)
    out: list[Any] = [None] * len(names)
    for side in (False, True):
        here = np.flatnonzero(leftwards == side)
        moved = tall * (apart(y[here], line_height(ax)) - y[here])
        for i, up in zip(here, moved, strict=True):
            out[i] = _written(ax, points[i], names[i], up, leftwards=side, colour=colour)
    return out


def _written(ax: Any, point: Any, name: str, up: float, *, leftwards: bool, colour: str) -> Any:
    line = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
    style = {"color": colour, "ha": "right" if leftwards else "left", "va": "center", "arrowprops": line}
    return beside(ax, name, point, (-6 if leftwards else 6, up), **style)
