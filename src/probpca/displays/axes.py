"""How figures look: colours, frames, bars, marks, ellipses and curves shared by all displays."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.errors import ShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.learning.selection.result import Criterion
    from probpca.typing import Array, Index

INK, CHOSEN, FAINT, LINE, DIM = "#33415c", "#c1440e", "#8d99ae", "#c8ced8", "#5d6879"
"""What is shown, what stands out of it, what is there to compare with, rules, and words beside."""
CATEGORIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333")
"""Okabe and Ito's colours, which people who do not see all colours tell apart."""
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
SMALL = 8.5
"""Size of words beside the data, in points."""
WORDS: dict[str, Any] = {"fontsize": SMALL, "color": DIM, "zorder": 4}
SIZE = (6.4, 4.0)
"""Of a figure with one panel, in inches."""
LONGEST, SHORTER, TITLE = 28, 20, 60
"""Letters of a name that are written: beside the data, where there is little room, and above a wide panel."""


def pyplot() -> Any:
    """Import matplotlib when something is drawn, for nothing else needs it."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError as error:
        msg = "figures are drawn by matplotlib, which is not installed.\nHint: pip install 'probpca[plot]'"
        raise ImportError(msg) from error
    return plt


def place(ax: Any, size: tuple[float, float] = SIZE) -> tuple[Any, Any]:
    """The figure and the axes to draw in: those given, or new ones."""
    plt = pyplot()
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")
    return ax.figure, ax


def panels(
    ax: Any, count: int, across: int, size: tuple[float, float], *, share: bool = False, heights: Any = None
) -> tuple[Any, Any]:
    """A figure and so many axes in it: new ones, those given, or parts of the one that is given.

    They may ``share`` what lies along them, and have ``heights`` in a certain proportion, one for each line of them.
    """
    plt, down = pyplot(), -(-count // across)
    if ax is None:
        figure = plt.figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(down, across, height_ratios=heights)
    else:
        given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if given.size == count:
            return given[0].figure, given
        figure, where = given[0].figure, _place_of(given, count)
        engine = figure.get_layout_engine()
        gaps = {"wspace": 0.35, "hspace": 0.45} if engine is None or engine.adjust_compatible else {}
        grid = where.subgridspec(down, across, height_ratios=heights, **gaps)
    axes = np.empty(count, dtype=object)
    for i in range(count):
        axes[i] = figure.add_subplot(grid[i], sharex=axes[0] if share else None)
        if share:
            axes[i].label_outer()
    return figure, axes


def _place_of(given: Any, count: int) -> Any:
    """Where the one axes is that has to make room for several."""
    where = given[0].get_subplotspec() if given.size == 1 else None
    if where is None:
        msg = (
            f"ax must be {count} Axes, one for each panel, or one of a grid that can be cut; got {given.size}.\n"
            f"Hint: figure, axes = plt.subplots({count})."
        )
        raise ShapeError(msg)
    given[0].set_axis_off()
    return where


def frame(ax: Any, title: str = "", *, x: str = "", y: str = "") -> None:
    """Words around the data, and no more lines than they need."""
    if title:
        ax.set_title(clipped(title, TITLE), loc="left", fontsize=11, color=INK, fontweight="bold")
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)
    ax.tick_params(labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)


def whole_numbers(axis: Any, most: int = 9) -> None:
    """Ticks of something that is counted."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    axis.set_major_locator(MaxNLocator(integer=True, nbins=most, min_n_ticks=1))


def clipped(name: str, most: int = LONGEST) -> str:
    """A name of no more letters than there is room for: of a longer one the beginning and the end, and no formulas."""
    plain = " ".join(name.split())
    if len(plain) > most:
        end = most // 3
        plain = f"{plain[: most - end - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}{plain[-end:].lstrip()}"
    return re.sub(r"(?<!\\)\$", r"\\$", plain)


def apart(places: Sequence[float] | Array, gap: float, ends: tuple[float, float] = (-np.inf, np.inf)) -> Array:
    """Places as near as can be to those given, in the same order, at least ``gap`` apart, and within the ends: (k,).

    If they do not fit in, the first end is kept.
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415

    wanted = np.asarray(places, dtype=np.float64)
    if wanted.size == 0:
        return wanted
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(wanted.size)
    out = np.empty(wanted.size)
    level = np.asarray(isotonic_regression(wanted[order] - steps).x)
    out[order] = np.maximum(np.minimum(level, ends[1] - steps[-1]), ends[0]) + steps
    return out


def line_height(ax: Any, points: float = SMALL) -> float:
    """Height of a line of text, as a share of the height of the axes."""
    height = ax.get_window_extent().height / ax.figure.dpi * 72
    return float(1.25 * points / height)


def line_width(ax: Any, words: str, points: float = SMALL) -> float:
    """Width of a line of text, as a share of the width of the axes."""
    tried = ax.text(0, 0, words, fontsize=points)
    width = tried.get_window_extent().width
    tried.remove()
    return float(width / ax.get_window_extent().width)


def plain_log(axis: Any, low: float, high: float) -> None:
    """Ticks of a logarithmic axis as people write numbers, and enough of them."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    decades = np.log10(high) - np.log10(low)
    if decades < 4:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,)))
        axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def percent(share: float) -> str:
    """A share in words; what lacks little to all of it is not said to be all."""
    if 0.9995 <= share < 1 - 1e-12:
        return "> 99.9 %"
    return f"{100 * share:.1f} %" if share >= 0.985 else f"{100 * share:.0f} %"


def beside(ax: Any, words: str, point: Any, offset: Any, **style: Any) -> Any:
    """Words so many points away from a place, legible on whatever lies below."""
    return ax.annotate(words, point, offset, textcoords="offset points", path_effects=halo(), **(WORDS | style))


def halo() -> list[Any]:
    """A white rim around letters."""
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    return [withStroke(linewidth=2.2, foreground="white", alpha=0.85)]


def root_scale(ax: Any, axis: str, highest: float) -> None:
    """Show squares by their roots, from 0 to ``highest``: what is large leaves room for what is small."""
    top = 1.15 * highest
    getattr(ax, f"set_{axis}scale")("function", functions=(_root, np.square))
    getattr(ax, f"set_{axis}lim")(0, top)
    ticks, nice = [0.0], np.outer(10.0 ** np.arange(-3, 12), [1, 2, 5]).ravel()
    for value in nice[nice <= top]:
        if np.sqrt(value) - np.sqrt(ticks[-1]) >= 0.1 * np.sqrt(top):
            ticks.append(float(value))
    getattr(ax, f"set_{axis}ticks")(ticks, [f"{tick:g}" for tick in ticks])


def _root(values: Any) -> Any:
    return np.sqrt(np.maximum(values, 0.0))


MOST_TICKS = 12
HIGHER, LOWER = "higher than the other cells let expect", "lower"
EMPTY = "no cell of this row was observed"


def lying_bars(ax: Any, values: Array, above: Any, names: list[str], words: str) -> Any:
    """One below the other, each with its name."""
    places = np.arange(values.size)
    bars = ax.barh(places, values, color=np.where(above, CHOSEN, INK), height=0.65)
    ax.axvline(0, color=LINE, linewidth=1)
    frame(ax, x=words)
    ax.set_yticks(places, [clipped(name) for name in names])
    ax.set_ylim(max(values.size, 1) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    _tell_colours(ax, above)
    return bars


def upright_bars(ax: Any, values: Array, above: Any, names: list[str], words: str) -> Any:
    """Side by side, with as many names as there is room for."""
    places = np.arange(values.size)
    bars = ax.bar(places, values, color=np.where(above, CHOSEN, INK), width=0.8)
    ax.axhline(0, color=LINE, linewidth=1)
    frame(ax, y=words)
    shown = places[:: max(-(-places.size // MOST_TICKS), 1)]
    written = [clipped(names[j], SHORTER) for j in shown]
    ax.set_xticks(shown, written, rotation=90 if sum(map(len, written)) > 75 else 0)
    _tell_colours(ax, above)
    return bars


def _tell_colours(ax: Any, above: Any) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415

    sides = ((CHOSEN, HIGHER, above.any()), (INK, LOWER, (~above).any()))
    key = [Patch(color=colour, label=words) for colour, words, present in sides if present]
    if key:
        ax.legend(handles=key, frameon=False, fontsize=SMALL)
    else:
        ax.set(xticks=[], yticks=[])
        beside(ax, EMPTY, (0, 1), (8, -8), xycoords="axes fraction", va="top")


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


RING = {"markersize": 9, "markerfacecolor": "none", "markeredgecolor": CHOSEN, "markeredgewidth": 2}
BEYOND = 6
"""Numbers of components that are shown after a choice, at least."""
THRESHOLD = 0.5
"""Where 1 stands, which ratios must exceed, if curves share a panel of height 1."""


def draw_curve(ax: Any, criterion: Criterion) -> None:
    """One curve in its own units, what it must exceed, and the choice."""
    choice = criterion.choice or 1
    shown = slice(0, max(2 * choice, choice + BEYOND))
    counts, values = criterion.n_components[shown], criterion.shown[shown]
    ax.plot(counts, values, color=INK, marker="o", markersize=3.5, linewidth=1.3)
    if criterion.standard_error is not None:
        error = criterion.standard_error[shown]
        ax.fill_between(counts, values - error, values + error, color=INK, alpha=0.15, linewidth=0)
    ax.axvline(choice, color=CHOSEN, linewidth=0.8, alpha=0.5, zorder=0)
    here = counts == choice
    ax.plot(counts[here], values[here], "o", **RING)
    unit = f"{criterion.unit}, less the best" if criterion.in_nats else criterion.unit
    frame(ax, f"{criterion.name}: {choice}", x="components", y=unit)
    whole_numbers(ax.xaxis, 7)
    if not criterion.in_nats:
        ax.axhline(1.0, color=FAINT, linewidth=1, linestyle="--")
        if (values > 0).all():
            ax.set_yscale("log")
            plain_log(ax.yaxis, values.min(), values.max())
    elif values.size > 3:
        near = _near(values)
        ax.set_yscale("symlog", linthresh=near)
        ax.set_ylim(top=0.4 * near)


def draw_together(ax: Any, criteria: Sequence[Criterion], furthest: int) -> list[Any]:
    """Curves up to so many components in one panel, each on a scale of its own, with rings around choices."""
    lines = []
    for k, criterion in enumerate(criteria):
        colour, marker = CATEGORIES[k % len(CATEGORIES)], MARKERS[k % len(MARKERS)]
        counts, at = criterion.n_components[criterion.n_components <= furthest], heights(criterion, furthest)
        style = {"color": colour, "marker": marker, "markersize": 3.5, "linewidth": 1.2, "label": criterion.name}
        lines += ax.plot(counts, at, **style)
        here = counts == criterion.choice
        ax.plot(counts[here], at[here], "o", **(RING | {"markeredgecolor": colour, "markeredgewidth": 1.6}))
    if not all(criterion.in_nats for criterion in criteria):
        ax.axhline(THRESHOLD, color=FAINT, linewidth=1, linestyle="--", zorder=0)
        where = ax.get_yaxis_transform()
        beside(ax, "ratios: 1", (1, THRESHOLD), (-2, 3), xycoords=where, ha="right")
    frame(ax, x="components", y="criteria, each\non its own scale")
    ax.set(ylim=(-0.08, 1.12), yticks=[])
    look = {"loc": "lower left", "bbox_to_anchor": (0, 0.98), "handlelength": 1.6, "columnspacing": 1.2}
    ax.legend(frameon=False, fontsize=SMALL, ncols=len(lines), borderaxespad=0.2, **look)
    return lines


def heights(criterion: Criterion, furthest: int) -> Array:
    """Scores up to so many components on a scale from 0 to 1: what is larger stands higher: (m,).

    Those in nats have the best at 1 and what is near it magnified, for the first ones are often very low; ratios have
    1 at ``THRESHOLD``.
    """
    values = criterion.shown[criterion.n_components <= furthest]
    if criterion.in_nats:
        depth = np.arcsinh(-values / _near(values))
        return np.asarray(1 - depth / (depth.max() or 1.0))
    above = np.log(values) if (values > 0).all() else values - 1
    return np.asarray(THRESHOLD * (1 + above / (np.abs(above).max() or 1.0)))


def _near(values: Array) -> float:
    """How far below the best a third of the curve is, at least."""
    return max(-float(np.sort(values)[values.size // 3]), 1e-12)
