"""Curves of the criteria that choose a number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.views.axes import (
    CATEGORIES,
    CHOSEN,
    FAINT,
    INK,
    MARKERS,
    SMALL,
    beside,
    frame,
    plain_log,
    whole_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.learning.choice.selection import Criterion
    from probpca.typing import Array

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
