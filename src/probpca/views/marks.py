"""Points with colours and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.views.axes import (
    CATEGORIES,
    DIM,
    INK,
    MARKERS,
    SMALL,
    apart,
    beside,
    clipped,
    line_height,
    line_width,
)

if TYPE_CHECKING:
    from probpca.typing import Array, Index

MOST_CLASSES = len(CATEGORIES) * len(MARKERS)
FEW = 12
"""Whole numbers that are so few are classes; more are a scale."""
AWAY = 6
"""Of a name from its point, in points."""
ROUNDS = 8
"""Of widening axes: each leaves a part of what is lacking."""


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
        drawn.append(ax.scatter(*here.T, color=colour, marker=marker, label=clipped(str(label)), alpha=0.85, **style))
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
    written = [clipped(name) for name in names]
    (x, y), wide = _shares(ax, points), _widths(ax, written)
    tall, line = ax.get_window_extent().height / ax.figure.dpi * 72, line_height(ax)
    left = x + wide > 1 if leftwards is None else np.asarray(leftwards)
    up = np.empty(len(names))
    for here in _side_by_side(np.where(left, x - wide, x), wide):
        up[here] = tall * (apart(y[here], line, (line / 2, 1 - line / 2)) - y[here])
    return [
        _written(ax, points[i], written[i], up[i], leftwards=bool(left[i]), colour=colour) for i in range(len(names))
    ]


def make_room(ax: Any, points: Array, names: list[str], leftwards: Any) -> None:
    """Widen the axes until names beside points fit in."""
    wide = _widths(ax, [clipped(name) for name in names])
    for _ in range(ROUNDS):  # the wider the axes, the wider a name is in units of the data
        _shares(ax, points)
        low, high = ax.get_xlim()
        ends = points[:, 0] + np.where(leftwards, -wide, wide) * (high - low)
        ends = ends[(ends < low) | (ends > high)]
        ax.update_datalim(np.column_stack([ends, np.zeros(ends.size)]), updatey=False)
        ax.autoscale_view()


def _widths(ax: Any, names: list[str]) -> Array:
    """Of names and of what parts them from their points, as shares of the width of the axes: (k,)."""
    away = AWAY * ax.figure.dpi / 72 / ax.get_window_extent().width
    return np.array([line_width(ax, name) + away for name in names])


def _side_by_side(start: Array, wide: Array) -> list[Index]:
    """Positions of the names that may lie on each other, group by group: each begins where no other one is."""
    order = np.argsort(start, kind="stable")
    ends = np.maximum.accumulate((start + wide)[order])
    return np.split(order, np.flatnonzero(start[order][1:] > ends[:-1]) + 1)


def _shares(ax: Any, points: Array) -> Any:
    """Where points are within the axes, as shares of its width and height: (2, n)."""
    ax.apply_aspect()
    _ = ax.viewLim  # limits follow the data only when they are asked for
    return (ax.transData + ax.transAxes.inverted()).transform(points).T


def draw_endless(draw: Any, places: Any, low: Array, high: Array, **style: Any) -> None:
    """Intervals that hold everything, from edge to edge by ``axhline`` or ``axvline``: a point alone looks certain."""
    for place in np.asarray(places)[np.isinf(low) & np.isinf(high)]:
        draw(place, **style)


def draw_limits(ax: Any, axis: str, places: Array, words: list[str]) -> None:
    """Dashed lines across an axis, with words but where these would lie on those of the one before."""
    free = -np.inf
    for place, said in zip(places, words, strict=True):
        if not np.isfinite(place):
            continue
        draw = ax.axvline if axis == "x" else ax.axhline
        draw(place, color=INK, linewidth=0.9, linestyle="--", zorder=1)
        share = _shares(ax, np.array([[place, place]]))["xy".index(axis), 0]
        if share < free:
            continue
        if axis == "x":
            beside(ax, said, (place, 1), (3, -2), xycoords=ax.get_xaxis_transform(), va="top")
            free = share + _widths(ax, [said])[0]
        else:
            beside(ax, said, (1, place), (0, 3), xycoords=ax.get_yaxis_transform(), ha="right")
            free = share + line_height(ax)


def _written(ax: Any, point: Any, name: str, up: float, *, leftwards: bool, colour: str) -> Any:
    line = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
    style = {"color": colour, "ha": "right" if leftwards else "left", "va": "center", "arrowprops": line}
    return beside(ax, name, point, (-AWAY if leftwards else AWAY, up), **style)
