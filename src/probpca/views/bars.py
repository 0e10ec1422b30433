"""Signed bars of the cells of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.views.axes import CHOSEN, INK, LINE, SHORTER, SMALL, beside, clipped, frame

if TYPE_CHECKING:
    from probpca.typing import Array

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
