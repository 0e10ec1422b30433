"""Drawing shared by all displays: one theme, figures and panels, text, points, bars, intervals, ellipses and curves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.displays.inputs import Group
    from probpca.learning.selection.result import Criterion
    from probpca.typing import Array, Index


@dataclass(frozen=True)
class Theme:
    """Colours, sizes and lengths of names in all figures. Sizes of text are in points, those of figures in inches."""

    ink: str = "#33415c"  # the data
    accent: str = "#c1440e"  # what stands out: choices, outliers, imputed cells
    faint: str = "#8d99ae"  # what the data are compared with
    unsure: str = "#9aa5b8"  # loadings whose interval holds zero
    unsure_name: str = "#6b7280"  # names of these features
    rule: str = "#c8ced8"  # zero lines and grids
    muted: str = "#5d6879"  # text beside the data
    paper: str = "#eef1f5"  # observed cells of a raster
    categories: tuple[str, ...] = (
        "#0072b2",
        "#d55e00",
        "#009e73",
        "#cc79a7",
        "#e69f00",
        "#56b4e9",
        "#333333",
        "#882255",
        "#999933",
        "#6a51a3",
    )
    """Groups, in the colours of Okabe and Ito and of Tol, which colour-blind readers can tell apart."""
    absent: str = "#b9bec7"  # rows whose group is missing
    markers: tuple[str, ...] = ("o", "^", "s", "D", "v", "P", "X")
    small: float = 8.5  # text beside the data
    figure: tuple[float, float] = (6.4, 4.0)  # a figure with one panel
    name_length: int = 28  # letters of a name beside the data
    short_name_length: int = 20  # the same where there is little room
    title_length: int = 60  # letters of a title above a panel
    name_gap: float = 6  # points between a name and its point
    threshold: float = 0.5  # height of the ratio 1 where curves of criteria share a panel of height 1

    def category(self, k: int) -> tuple[str, str]:
        """Colour and marker of the k-th group or curve: different ones for up to 70."""
        return self.categories[k % len(self.categories)], self.markers[
            (k + k // len(self.categories)) % len(self.markers)
        ]


THEME = Theme()


# Figures and panels


def pyplot() -> Any:
    """Import matplotlib, which only drawing needs."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError as error:
        msg = "displays need matplotlib, which is not installed.\nHint: pip install 'probpca[plot]'"
        raise ImportError(msg) from error
    return plt


def place(ax: Any, size: tuple[float, float] = THEME.figure) -> tuple[Any, Any]:
    """Figure and axes to draw in: ``ax`` if it is given, otherwise new ones."""
    plt = pyplot()
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")
    return ax.figure, ax


def panels(
    ax: Any, count: int, across: int, size: tuple[float, float], *, share: bool = False, heights: Any = None
) -> tuple[Any, Any]:
    """Figure and ``count`` axes: new ones, those given, or a grid in the place of the one axes that is given.

    ``share`` makes all panels share their x axis; ``heights`` are the relative heights of the lines of panels.
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
    """Position in its grid of the one axes that has to make room for several."""
    where = given[0].get_subplotspec() if given.size == 1 else None
    if where is None:
        msg = (
            f"ax must be {count} Axes, one for each panel, or a single one of a grid; got {given.size}.\n"
            f"Hint: figure, axes = plt.subplots({count})."
        )
        raise ShapeError(msg)
    given[0].set_axis_off()
    return where


def frame(ax: Any, title: str = "", *, x: str = "", y: str = "") -> None:
    """Title and labels of a panel, without the lines at its top and right."""
    if title:
        bold_title(ax, title, THEME.title_length)
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)
    ax.tick_params(labelsize=THEME.small)
    ax.spines[["top", "right"]].set_visible(False)


def bold_title(ax: Any, title: str, most: int = THEME.name_length, **style: Any) -> None:
    """Title at the left above a panel, of at most ``most`` letters."""
    ax.set_title(clipped(title, most), loc="left", fontsize=11, color=THEME.ink, fontweight="bold", **style)


def figure_title(figure: Any, title: str) -> None:
    """Title at the left above all panels of a figure."""
    figure.suptitle(title, x=0.02, ha="left", fontsize=11, color=THEME.ink, fontweight="bold")


def draw_key(figure: Any, ax: Any, handles: list[Any], *, inside: bool, loc: str) -> None:
    """Legend within ``ax``, or in one line above all panels at ``loc``."""
    if inside:
        ax.legend(handles=handles, frameon=False, fontsize=THEME.small)
    else:
        figure.legend(handles=handles, frameon=False, fontsize=THEME.small, ncols=len(handles), loc=loc)


# Axes


def whole_numbers(axis: Any, most: int = 9) -> None:
    """At most ``most`` ticks, at whole numbers only."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    axis.set_major_locator(MaxNLocator(integer=True, nbins=most, min_n_ticks=1))


def plain_log(axis: Any, low: float, high: float) -> None:
    """Enough ticks on a logarithmic axis, written as plain numbers if it spans fewer than four decades."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    decades = np.log10(high) - np.log10(low)
    if decades < 4:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,)))
        axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def root_scale(ax: Any, axis: str, highest: float, lowest: float = 0.0) -> None:
    """Show squares by their roots: large values leave room for small ones.

    The axis begins at 0, or below ``lowest`` if that is more than half of ``highest``.
    """
    low, top = (0.9 * lowest if lowest > 0.5 * highest else 0.0), 1.15 * highest
    getattr(ax, f"set_{axis}scale")("function", functions=(_root, np.square))
    getattr(ax, f"set_{axis}lim")(low, top)
    steps = [1, 2, 5] if low == 0 else np.arange(1, 10, 0.5)
    ticks: list[float] = [] if low else [0.0]
    nice = np.outer(10.0 ** np.arange(-3, 12), steps).ravel()
    for value in nice[(nice <= top) & (nice >= low)]:
        if not ticks or np.sqrt(value) - np.sqrt(ticks[-1]) >= 0.1 * (np.sqrt(top) - np.sqrt(low)):
            ticks.append(float(value))
    getattr(ax, f"set_{axis}ticks")(ticks, [f"{tick:,g}" for tick in ticks])


def _root(values: Any) -> Any:
    return np.sqrt(np.maximum(values, 0.0))


def name_lines(ax: Any, names: Sequence[str], **style: Any) -> None:
    """Names down the y axis, the first on top, one line for each."""
    ax.set_yticks(np.arange(len(names)), [clipped(name) for name in names], **style)
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)


# Text


def clipped(name: str, most: int = THEME.name_length) -> str:
    """A name of at most ``most`` letters, cut in the middle, in which ``$`` does not begin a formula."""
    plain = " ".join(name.split())
    if len(plain) > most:
        end = most // 3
        plain = f"{plain[: most - end - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}{plain[-end:].lstrip()}"
    return re.sub(r"(?<!\\)\$", r"\\$", plain)


def percent(share: float) -> str:
    """A share in percent with one decimal; just less than everything is not rounded to 100%."""
    return "> 99.9%" if 0.9995 <= share < 1 - 1e-12 else f"{100 * share:.1f}%"


def beside(ax: Any, words: str, point: Any, offset: Any, **style: Any) -> Any:
    """Text ``offset`` points away from a point, with a white rim, so that it is legible on whatever lies below."""
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    look = {"fontsize": THEME.small, "color": THEME.muted, "zorder": 4} | style
    rim = [withStroke(linewidth=2.2, foreground="white", alpha=0.85)]
    return ax.annotate(words, point, offset, textcoords="offset points", path_effects=rim, **look)


def apart(places: Sequence[float] | Array, gap: float, ends: tuple[float, float] = (-np.inf, np.inf)) -> Array:
    """Places nearest to those given, in the same order, at least ``gap`` apart, and between the ends: (k,).

    If there is too little room, the lower end is kept.
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


def _height_in_points(ax: Any) -> float:
    return float(ax.get_window_extent().height / ax.figure.dpi * 72)


def line_height(ax: Any) -> float:
    """Height of a line of text, as a share of the height of the axes."""
    return float(1.25 * THEME.small / _height_in_points(ax))


def _widths(ax: Any, names: list[str]) -> Array:
    """Widths of names with the gaps to their points, as shares of the width of the axes: (k,)."""
    total, found = ax.get_window_extent().width, []
    for name in names:
        tried = ax.text(0, 0, name, fontsize=THEME.small)
        found.append(tried.get_window_extent().width / total)
        tried.remove()
    return np.array(found) + THEME.name_gap * ax.figure.dpi / 72 / total


def _shares(ax: Any, points: Array) -> Any:
    """Positions of points as shares of the width and height of the axes: (2, n)."""
    ax.apply_aspect()
    _ = ax.viewLim  # limits follow the data only when they are read
    return (ax.transData + ax.transAxes.inverted()).transform(points).T


# Points and their names


def colour_rows(ax: Any, points: Array, group: Group | None = None, *, alpha: float = 0.85) -> list[Any]:
    """Draw points in one colour, by category with grey for missing ones, or by numbers with a colour bar."""
    style = {
        "s": 22 if len(points) <= 500 else 13,
        "linewidths": 0.3,
        "edgecolors": "white",
        "zorder": 2,
        "alpha": alpha,
    }
    if group is None:
        return [ax.scatter(*points.T, color=THEME.ink, **style)]
    if isinstance(group.by, np.ndarray):
        return _colour_by_number(ax, points, group.name, group.by, style)
    drawn = []
    for k, name in enumerate(group.by.names):
        colour, marker = THEME.category(k)
        if k >= group.by.n_proper:
            colour, marker = THEME.absent, "o"
        here = points[group.by.codes == k]
        drawn.append(ax.scatter(*here.T, color=colour, marker=marker, label=clipped(name), **style))
    return drawn


def _colour_by_number(ax: Any, points: Array, name: str, values: Array, style: dict[str, Any]) -> list[Any]:
    known = np.isfinite(values)
    drawn = ax.scatter(*points[known].T, c=values[known], cmap="viridis", **style)
    ax.figure.colorbar(drawn, ax=ax, shrink=0.8, label="" if name == "group" else clipped(name))
    if known.all():
        return [drawn]
    return [drawn, ax.scatter(*points[~known].T, color=THEME.absent, label="missing", **style)]


def group_regions(points: Array, group: Group | None, level: float) -> dict[int, tuple[Array, Region]]:
    """Mean and region of each category with three points or more: an ellipse that holds ``level`` of a Gaussian."""
    if group is None or isinstance(group.by, np.ndarray):
        msg = "group_ellipses needs groups that are categories.\nHint: groups=... with one category for each row."
        raise DataError(msg)
    out = {}
    for k in range(group.by.n_proper):
        here = points[group.by.codes == k]
        if len(here) > 2:
            out[k] = here.mean(axis=0), region_of(np.cov(here.T), level)
    return out


def draw_group_regions(ax: Any, points: Array, group: Group | None, level: float) -> dict[int, Any]:
    """Draw an ellipse around each category; returns them by position of the category."""
    drawn = {}
    for k, (centre, region) in group_regions(points, group, level).items():
        drawn[k] = _draw_region(ax, k, centre, region)
    ax.autoscale_view()
    return drawn


def draw_region(ax: Any, k: int, centre: Array, covariance: Array, level: float) -> Any:
    """Draw the ellipse that holds a Gaussian with probability ``level``, in the colour of the k-th group."""
    return _draw_region(ax, k, centre, region_of(covariance, level))


def _draw_region(ax: Any, k: int, centre: Array, region: Region) -> Any:
    patch = ellipse(centre, region)
    colour = THEME.category(k)[0]
    patch.set(facecolor=(*_rgb(colour), 0.07), edgecolor=(*_rgb(colour), 0.8), linewidth=1.1, zorder=1.5)
    reach = half_sides(region)
    ax.update_datalim([centre - reach, centre + reach])
    return ax.add_patch(patch)


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb  # noqa: PLC0415

    return to_rgb(colour)


def draw_groups_key(ax: Any, group: Group | None, *, inside: bool, beside_by: float = 1.02) -> None:
    """Legend of what has a label: within axes that were given, otherwise at their right, where it hides no point."""
    if not ax.get_legend_handles_labels()[1]:
        return
    title = None if group is None or group.name == "group" else clipped(group.name, THEME.short_name_length)
    place = {"loc": "best"} if inside else {"loc": "upper left", "bbox_to_anchor": (beside_by, 1), "borderaxespad": 0}
    ax.legend(frameon=False, fontsize=THEME.small, title=title, title_fontsize=THEME.small, handletextpad=0.2, **place)


def label_points(
    ax: Any,
    points: Array,
    labels: Sequence[str],
    *,
    avoid: Sequence[Any] = (),
    obstacles: Array | None = None,
    most: int = 400,
) -> list[Any]:
    """Write labels beside points where they overlap neither each other nor other points; the rest are left out.

    Points far from the centre come first: they are the ones that readers ask about. ``avoid`` are other texts,
    ``obstacles`` other points (m, 2), and at most ``most`` labels are tried.
    """
    ax.figure.draw_without_rendering()  # the layout decides how much room there is
    per_point = ax.figure.dpi / 72
    where = ax.transData.transform(points)  # (n, 2), pixels
    box = ax.get_window_extent()
    taken = [_extent(text) for text in avoid]
    every = np.vstack([where, where[:0] if obstacles is None else ax.transData.transform(obstacles)])
    dots = np.hstack([every - 2 * per_point, every + 2 * per_point])  # left, low, right, high
    written = []
    far = np.linalg.norm((where - where.mean(axis=0)) / [box.width, box.height], axis=1)
    for i in np.argsort(-far, kind="stable")[:most]:
        name = clipped(labels[i], THEME.short_name_length)
        if not name:
            continue
        text = beside(ax, name, points[i], (0, 0), fontsize=THEME.small - 1, va="bottom")
        size = text.get_window_extent()
        spot = _free_spot(where[i], (size.width, size.height), per_point, box, taken, np.delete(dots, i, axis=0))
        if spot is None:
            text.remove()
            continue
        (x, y), extent = spot
        text.set_position((x, y))
        taken.append(extent)
        written.append(text)
    return written


def _extent(text: Any) -> tuple[float, float, float, float]:
    """Left, low, right and high end of a text in pixels, without the line to its point."""
    from matplotlib.text import Text  # noqa: PLC0415

    box = Text.get_window_extent(text)
    return box.x0, box.y0, box.x1, box.y1


def _free_spot(
    point: Array, size: tuple[float, float], per_point: float, box: Any, taken: Sequence[Any], dots: Array
) -> tuple[tuple[float, float], tuple[float, float, float, float]] | None:
    """Offset in points, and extent in pixels, of a label that is free: right of the point, left, above or below."""
    (wide, high), gap = size, 4 * per_point
    shifts = ((gap, -high / 2), (-gap - wide, -high / 2), (-wide / 2, gap), (-wide / 2, -gap - high))
    for dx, dy in shifts:
        x, y = point[0] + dx, point[1] + dy
        extent = (x, y, x + wide, y + high)
        if x < box.x0 or y < box.y0 or extent[2] > box.x1 or extent[3] > box.y1:
            continue
        if not (_meets(extent, np.reshape(taken, (-1, 4))) or _meets(extent, dots)):
            return (dx / per_point, dy / per_point), extent
    return None


def _meets(extent: tuple[float, float, float, float], others: Array) -> bool:
    left, low, right, high = others.T
    return bool(((left < extent[2]) & (right > extent[0]) & (low < extent[3]) & (high > extent[1])).any())


def name_points(
    ax: Any, points: Array, names: list[str], *, leftwards: Any = None, colour: str = THEME.muted
) -> list[Any]:
    """Write names beside points, moved up or down where they would overlap.

    They stand to the right, but to the left where ``leftwards`` is true: by default near the right edge.
    """
    if not names:
        return []
    written = [clipped(name) for name in names]
    (x, y), wide = _shares(ax, points), _widths(ax, written)
    tall, line = _height_in_points(ax), line_height(ax)
    left = x + wide > 1 if leftwards is None else np.asarray(leftwards)
    up = np.empty(len(names))
    for here in _overlapping(np.where(left, x - wide, x), wide):
        up[here] = tall * (apart(y[here], line, (line / 2, 1 - line / 2)) - y[here])
    line_to_point = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
    style = {"color": colour, "va": "center"}
    return [
        beside(
            ax,
            name,
            point,
            (-THEME.name_gap if back else THEME.name_gap, rise),
            ha="right" if back else "left",
            arrowprops=line_to_point if abs(rise) > THEME.small / 2 else None,  # a short one would look like a minus
            **style,
        )
        for name, point, back, rise in zip(written, points, left, up, strict=True)
    ]


def _overlapping(start: Array, wide: Array) -> list[Index]:
    """Positions of names in groups: names of different groups do not overlap sideways."""
    order = np.argsort(start, kind="stable")
    ends = np.maximum.accumulate((start + wide)[order])
    return np.split(order, np.flatnonzero(start[order][1:] > ends[:-1]) + 1)


def make_room(ax: Any, points: Array, names: list[str], leftwards: Any, rounds: int = 8) -> None:
    """Widen the axes, in ``rounds`` because a name grows with them, until names beside points fit."""
    wide = _widths(ax, [clipped(name) for name in names])
    for _ in range(rounds):
        _shares(ax, points)
        low, high = ax.get_xlim()
        ends = points[:, 0] + np.where(leftwards, -wide, wide) * (high - low)
        ends = ends[(ends < low) | (ends > high)]
        ax.update_datalim(np.column_stack([ends, np.zeros(ends.size)]), updatey=False)
        ax.autoscale_view()


# Bars


def lying_bars(ax: Any, values: Array, above: Any, names: list[str], words: str) -> Any:
    """One bar below the other, each with its name."""
    bars = ax.barh(np.arange(values.size), values, color=np.where(above, THEME.accent, THEME.ink), height=0.65)
    ax.axvline(0, color=THEME.rule, linewidth=1)
    frame(ax, x=words)
    name_lines(ax, names)
    ax.tick_params(axis="y", length=0)
    _explain_colours(ax, above)
    return bars


def upright_bars(ax: Any, values: Array, above: Any, names: list[str], words: str, *, most_names: int = 12) -> Any:
    """Bars side by side, at most ``most_names`` of them with a name."""
    places = np.arange(values.size)
    bars = ax.bar(places, values, color=np.where(above, THEME.accent, THEME.ink), width=0.8)
    ax.axhline(0, color=THEME.rule, linewidth=1)
    frame(ax, y=words)
    named = places[:: max(-(-places.size // most_names), 1)]
    written = [clipped(names[j], THEME.short_name_length) for j in named]
    ax.set_xticks(named, written, rotation=90 if sum(map(len, written)) > 75 else 0)
    _explain_colours(ax, above)
    return bars


def _explain_colours(ax: Any, above: Any) -> None:
    """A legend of the colours that are there; without any bar, a note that the row is empty."""
    from matplotlib.patches import Patch  # noqa: PLC0415

    sides = (
        (THEME.accent, "higher than the other cells predict", above.any()),
        (THEME.ink, "lower", (~above).any()),
    )
    key = [Patch(color=colour, label=words) for colour, words, present in sides if present]
    if key:
        ax.legend(handles=key, frameon=False, fontsize=THEME.small)
    else:
        ax.set(xticks=[], yticks=[])
        beside(ax, "no cell of this row was observed", (0, 1), (8, -8), xycoords="axes fraction", va="top")


# Cells of a matrix


def signed_colours() -> list[str]:
    """Colours of negative numbers, of zero and of positive numbers, for ``draw_cells``."""
    return [THEME.accent, "white", THEME.ink]


def draw_cells(  # noqa: PLR0913
    ax: Any,
    values: Array,
    colours: list[str],
    most: float,
    *,
    written: bool,
    at: float = 0.0,
    lowest: float | None = None,
) -> tuple[Any, list[Any]]:
    """Draw a matrix as coloured cells, a line for each row, beginning at x = ``at``; returns cells and numbers.

    Colours go from ``lowest``, by default minus ``most``, to ``most``. If ``written``, each cell holds its number,
    which is pale if it is near zero.
    """
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    (n, m), low = values.shape, -most if lowest is None else lowest
    look = {"cmap": LinearSegmentedColormap.from_list("cells", colours), "vmin": low, "vmax": most}
    edges = np.arange(m + 1) - 0.5 + at, np.arange(n + 1) - 0.5
    cells = ax.pcolormesh(*edges, values, edgecolors="white", linewidth=1.0, **look)
    numbers = []
    for i, k in np.ndindex(n, m) if written else ():
        size = abs(values[i, k]) / most
        colour = (
            "black" if lowest is not None else "white" if size > 0.6 else "black" if size > 0.25 else THEME.unsure_name
        )
        words = f"{values[i, k]:.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")
        style = {"ha": "center", "va": "center", "fontsize": THEME.small - 0.5, "color": colour}
        numbers.append(ax.text(k + at, i, words, **style))
    return cells, numbers


# Intervals and limits


def draw_endless(draw: Any, places: Any, low: Array, high: Array, **style: Any) -> None:
    """Draw infinite intervals from edge to edge by ``axhline`` or ``axvline``: without a bar a point looks certain."""
    for where in np.asarray(places)[np.isinf(low) & np.isinf(high)]:
        draw(where, **style)


def draw_limits(ax: Any, axis: str, places: Array, words: list[str]) -> None:
    """Dashed lines across an axis, each with its words unless they would overlap those before."""
    free = -np.inf
    for where, said in zip(places, words, strict=True):
        if not np.isfinite(where):
            continue
        draw = ax.axvline if axis == "x" else ax.axhline
        draw(where, color=THEME.ink, linewidth=0.9, linestyle="--", zorder=1)
        share = _shares(ax, np.array([[where, where]]))["xy".index(axis), 0]
        if share < free:
            continue
        if axis == "x":
            beside(ax, said, (where, 1), (3, -2), xycoords=ax.get_xaxis_transform(), va="top")
            free = share + _widths(ax, [said])[0]
        else:
            # Outside: within the axes the names of points would cover it.
            beside(ax, said, (1, where), (3, 0), xycoords=ax.get_yaxis_transform(), va="center")
            free = share + line_height(ax)


# Ellipses


class Region(NamedTuple):
    """An ellipse as matplotlib describes it: full lengths of its axes, and the angle of the first in degrees."""

    width: float
    height: float
    angle: float


def region_of(covariance: Array, level: float) -> Region:
    """The smallest region of the plane that holds a centred Gaussian with probability ``level``."""
    values, vectors = np.linalg.eigh(covariance)
    reach = -2.0 * np.log1p(-level)  # the quantile of chi-square with two degrees of freedom
    height, width = 2.0 * np.sqrt(reach * values)
    return Region(float(width), float(height), float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))))


def ellipse(centre: Any, region: Region) -> Any:
    """The matplotlib patch of a region."""
    from matplotlib.patches import Ellipse  # noqa: PLC0415

    return Ellipse(tuple(centre), region.width, region.height, angle=region.angle)


def half_sides(region: Region) -> Array:
    """Half the width and half the height of the box around an ellipse: (2,)."""
    turn = np.radians(region.angle)
    cosine, sine = np.cos(turn), np.sin(turn)
    return np.hypot([region.width * cosine, region.width * sine], [region.height * sine, region.height * cosine]) / 2


# Curves of criteria

RATIOS = {"parallel": "eigenvalue, ratio to chance", "gavish_donoho": "singular value, ratio to threshold"}
"""Labels of the axes of criteria that keep a component if a ratio exceeds 1."""


def draw_rings(ax: Any, x: Any, y: Any, colour: str = THEME.accent, width: float = 2) -> None:
    """Rings around chosen points."""
    style = {"markersize": 9, "markerfacecolor": "none", "markeredgecolor": colour, "markeredgewidth": width}
    ax.plot(x, y, "o", **style)


def draw_curve(ax: Any, criterion: Criterion, *, beyond: int = 6) -> None:
    """One criterion in its own units with its threshold and its choice, and at least ``beyond`` counts after it."""
    choice = criterion.choice or 1
    shown = slice(0, max(2 * choice, choice + beyond))
    counts, values = criterion.n_components[shown], criterion.shown[shown]
    ax.plot(counts, values, color=THEME.ink, marker="o", markersize=3.5, linewidth=1.3)
    if criterion.standard_error is not None:
        error = criterion.standard_error[shown]
        ax.fill_between(counts, values - error, values + error, color=THEME.ink, alpha=0.15, linewidth=0)
    ax.axvline(choice, color=THEME.accent, linewidth=0.8, alpha=0.5, zorder=0)
    here = counts == choice
    draw_rings(ax, counts[here], values[here])
    unit = f"{criterion.unit} below the best" if criterion.in_nats else RATIOS[criterion.name]
    frame(ax, f"{criterion.name}: {choice}", x=f"number of {criterion.counts}", y=unit)
    whole_numbers(ax.xaxis, 7)
    if not criterion.in_nats:
        ax.axhline(1.0, color=THEME.faint, linewidth=1, linestyle="--")
        if (values > 0).all():
            ax.set_yscale("log")
            plain_log(ax.yaxis, values.min(), values.max())
    elif values.size > 3:
        near = _near(values)
        ax.set_yscale("symlog", linthresh=near)
        ax.set_ylim(top=0.4 * near)
        _plain_depths(ax.yaxis, float(values.min()), near)


def _plain_depths(axis: Any, lowest: float, near: float) -> None:
    """Ticks at 0 and at round numbers down to ``lowest``, written as plain numbers; the scale is linear to ``near``."""
    from matplotlib.ticker import NullLocator  # noqa: PLC0415

    transform = axis.get_transform().transform
    nice = np.outer(10.0 ** np.arange(np.floor(np.log10(near)) - 1, 16), [1, 2, 5]).ravel()
    ticks = [0.0]
    least = 0.15 * -float(transform(lowest))
    for value in nice[nice <= -lowest]:
        if transform(-ticks[-1]) - transform(-value) >= least:
            ticks.append(float(value))
    axis.set_ticks(
        [-tick for tick in ticks], [f"{-tick:,g}".replace("-", "\N{MINUS SIGN}") if tick else "0" for tick in ticks]
    )
    axis.set_minor_locator(NullLocator())


def draw_together(ax: Any, criteria: Sequence[Criterion], furthest: int) -> list[Any]:
    """Curves of criteria up to ``furthest`` components in one panel, each on its own scale, with rings on choices."""
    lines = []
    for k, criterion in enumerate(criteria):
        colour, marker = THEME.category(k)
        counts, at = criterion.n_components[criterion.n_components <= furthest], heights(criterion, furthest)
        style = {"color": colour, "marker": marker, "markersize": 3.5, "linewidth": 1.2, "label": criterion.name}
        lines += ax.plot(counts, at, **style)
        here = counts == criterion.choice
        draw_rings(ax, counts[here], at[here], colour, 1.6)
    if not all(criterion.in_nats for criterion in criteria):
        ax.axhline(THEME.threshold, color=THEME.faint, linewidth=1, linestyle="--", zorder=0)
        where = ax.get_yaxis_transform()
        beside(ax, "ratio 1", (1, THEME.threshold), (-2, 3), xycoords=where, ha="right")
    alone = len(lines) == 1
    frame(
        ax, x="number of components", y=f"{criteria[0].name} criterion" if alone else "criteria, each\non its own scale"
    )
    ax.set(ylim=(-0.08, 1.12), yticks=[])
    look = {"loc": "lower left", "bbox_to_anchor": (0, 0.98), "handlelength": 1.6, "columnspacing": 1.2}
    if not alone:
        ax.legend(frameon=False, fontsize=THEME.small, ncols=len(lines), borderaxespad=0.2, **look)
    return lines


def heights(criterion: Criterion, furthest: int) -> Array:
    """Scores up to ``furthest`` components on a scale from 0 to 1, the larger the higher: (m,).

    Scores in nats have the best at 1, and the scale is wider near it, because the first ones are often very low.
    Ratios have 1 at ``Theme.threshold``.
    """
    values = criterion.shown[criterion.n_components <= furthest]
    if criterion.in_nats:
        depth = np.arcsinh(-values / _near(values))
        return np.asarray(1 - depth / (depth.max() or 1.0))
    above = np.log(values) if (values > 0).all() else values - 1
    return np.asarray(THEME.threshold * (1 + above / (np.abs(above).max() or 1.0)))


def _near(values: Array) -> float:
    """Distance to the best value within which the upper two thirds of the values lie."""
    return max(-float(np.sort(values)[values.size // 3]), 1e-12)
