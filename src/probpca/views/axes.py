"""Where displays draw, and in which colours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.errors import ShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.typing import Array

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
