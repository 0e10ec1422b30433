"""Outlying rows: distances from the model, control charts, and the cells that make a row unusual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2

from probpca.displays.axes import (
    THEME,
    bold_title,
    draw_limits,
    frame,
    lying_bars,
    name_points,
    place,
    root_scale,
    upright_bars,
    whole_numbers,
)
from probpca.displays.inputs import by_name, default_names, names_of, require_choice, require_fitted, row_names
from probpca.errors import DataError
from probpca.learning.uncertainty.estimate import largest_first

if TYPE_CHECKING:
    from probpca.inference.outlier_scores import Outliers
    from probpca.typing import Array, Index


class OutlierDisplay:
    """Rows by their distance from the model, or the cells of one row.

    "distances" shows the distance within the principal subspace against that off it, "chart" the whole distance row
    by row, both with limits that a row of the model exceeds with probability ``p``; "cells" shows which
    cells make one row unusual. Create it with ``from_estimator``.

    The distance of a row with missing cells has another distribution: the row is drawn at the distance of a complete
    row with the same p-value, so that limits mean the same for all rows.

    Attributes
    ----------
    outliers : Outliers
        The answer of ``estimator.outliers``.
    points : ndarray (n, 2)
        Squared distances within and off the subspace, as drawn.
    whole : ndarray (n,)
        Squared distances, as drawn.
    limits : dict
        "latent", "residual" and "whole": chi-square quantiles of the squared distances, one for each ``p``.
    figure_, ax_
        matplotlib Figure and Axes.
    points_, bars_ : artists
    cells_ : ndarray
        Positions of the cells whose bars are drawn.

    Examples
    --------
    >>> from probpca import OutlierDisplay, PPCA
    >>> from probpca.datasets import load_fertility
    >>> table = load_fertility().complete()
    >>> ppca = PPCA(n_components=3).fit(table.values)
    >>> display = OutlierDisplay.from_estimator(ppca, table.values, names=table.countries)
    >>> [display.names[i] for i in display.beyond()[:3]]
    ['Kuwait', 'Macao SAR, China', 'Yemen, Rep.']
    """

    def __init__(
        self,
        outliers: Outliers,
        n_components: int,
        *,
        p: Any = 0.01,
        names: list[str] | None = None,
        feature_names: list[str] | None = None,
    ) -> None:
        """Store what ``plot`` draws."""
        n, d = outliers.contributions.shape
        self.outliers, self.p = outliers, np.sort(np.atleast_1d(np.asarray(p, dtype=np.float64)))[::-1]
        if not ((self.p > 0) & (self.p < 1)).all():
            msg = f"p must lie between 0 and 1; got {p}."
            raise DataError(msg)
        self.names = [str(i) for i in range(n)] if names is None else names
        self.feature_names = default_names(d) if feature_names is None else feature_names
        degrees = {"latent": min(n_components, d), "residual": d - n_components, "whole": d}
        self.limits = {part: chi2.isf(self.p, count) for part, count in degrees.items()}
        o, incomplete = outliers, np.isnan(outliers.cell_scores).any(axis=1)
        latent = _comparable(o.latent_distance, o.latent_p_value, degrees["latent"], incomplete)
        residual = _comparable(o.residual_distance, o.residual_p_value, degrees["residual"], incomplete)
        self.points: Array = np.column_stack([latent, residual])
        self.whole = _comparable(o.distance, o.p_value, d, incomplete)

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any,
        *,
        kind: str | None = None,
        row: Any = None,
        p: Any = 0.01,
        names: Any = None,
        feature_names: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> OutlierDisplay:
        """Draw the rows of ``X``, or the cells of one ``row``, given by position or name.

        ``kind`` is "distances" (the default), "chart", or "cells" (if a row is given). ``p`` may be several
        probabilities. ``options`` are those of ``plot``.
        """
        require_fitted(cls, estimator, "outliers")
        found = estimator.outliers(X)
        made = cls(
            found,
            estimator.n_components_,
            p=p,
            names=row_names(X, names, len(found.distance)),
            feature_names=names_of(estimator, feature_names),
        )
        return made.plot(ax, kind=kind, row=row, **options)

    def beyond(self, kind: str = "distances") -> Index:
        """Positions of the rows beyond a limit of the smallest ``p``, as this kind draws it; least probable first."""
        found, smallest = self.outliers, self.p[-1]
        if kind == "chart":
            strange = found.p_value < smallest
        else:
            strange = (found.latent_p_value < smallest) | (found.residual_p_value < smallest)
        order = np.argsort(found.log10_p_value, kind="stable")
        return order[strange[order]]

    def plot(
        self,
        ax: Any = None,
        *,
        kind: str | None = None,
        row: Any = None,
        most: int | None = None,
        measure: str = "contributions",
        in_order: bool = False,
    ) -> OutlierDisplay:
        """Draw in a new figure or in ``ax``.

        ``most`` is the number of rows that are named (8 by default) or of cells that are shown (20 by default).
        ``measure`` of cells is "contributions", which sum to the squared distance, or "cell_scores", the distance of
        each cell from its prediction by the others. The largest stand first; ``in_order=True`` shows all cells in the
        order of the columns of the table, which suits years.
        """
        kind = kind or ("distances" if row is None else "cells")
        require_choice("kind", kind, ("distances", "chart", "cells"))
        require_choice("measure", measure, ("contributions", "cell_scores"))
        if kind == "cells":
            self._draw_cells(ax, self._row(row), measure, most, in_order=in_order)
        elif kind == "chart":
            self._draw_chart(ax, 8 if most is None else most)
        else:
            self._draw_distances(ax, 8 if most is None else most)
        return self

    def _row(self, row: Any) -> int:
        """Position of a row given by position or name; by default of the least probable."""
        if row is None:
            return int(np.argmin(self.outliers.log10_p_value))
        return by_name("row", row, self.names)[0]

    def _draw_distances(self, ax: Any, most: int) -> None:
        self.figure_, self.ax_ = place(ax)
        ax = self.ax_
        for axis, values, part in zip("xy", self.points.T, ("latent", "residual"), strict=True):
            root_scale(ax, axis, self._highest(values, part))
        flagged = self.beyond("distances")
        self._draw_points(self.points, flagged)
        self._name(self.points, flagged[:most])
        for axis, part in zip("xy", ("latent", "residual"), strict=True):
            draw_limits(ax, axis, self.limits[part], self._limit_words)
        frame(ax, x="$T^2$, within the principal subspace", y="$Q$, off the subspace")

    def _draw_chart(self, ax: Any, most: int) -> None:
        self.figure_, self.ax_ = place(ax)
        root_scale(self.ax_, "y", self._highest(self.whole, "whole"))
        points, flagged = np.column_stack([np.arange(self.whole.size), self.whole]), self.beyond("chart")
        self._draw_points(points, flagged)
        self._name(points, flagged[:most])
        draw_limits(self.ax_, "y", self.limits["whole"], self._limit_words)
        whole_numbers(self.ax_.xaxis)
        frame(self.ax_, x="row", y="squared distance from the model, $D^2$")

    @property
    def _limit_words(self) -> list[str]:
        """Words beside the limits."""
        return [f"p = {p:g}" for p in self.p]

    def _highest(self, values: Array, part: str) -> float:
        """The highest value to show: all rows, and limits with the words above them."""
        limits = self.limits[part]
        return float(max([values.max(initial=1e-3), *(1.2 * limits[np.isfinite(limits)])]))

    def _draw_points(self, points: Array, flagged: Index) -> None:
        """Draw all rows faint and those beyond a limit in colour."""
        ax, beyond = self.ax_, np.zeros(len(points), dtype=bool)
        beyond[flagged] = True
        size = 18 if len(points) <= 2000 else 5
        style = {"s": size, "linewidths": 0.3, "edgecolors": "white", "clip_on": False}
        quiet = ax.scatter(*points[~beyond].T, color=THEME.faint, zorder=2.6, **style)
        loud = ax.scatter(*points[beyond].T, color=THEME.accent, zorder=3, **style)
        self.points_ = [quiet, loud]

    def _name(self, points: Array, rows: Index) -> None:
        name_points(self.ax_, points[rows], [self.names[i] for i in rows], colour=THEME.ink)

    def _draw_cells(self, ax: Any, row: int, measure: str, most: int | None, *, in_order: bool) -> None:
        values, scores = getattr(self.outliers, measure)[row], self.outliers.cell_scores[row]
        seen = np.flatnonzero(~np.isnan(scores))
        count = (seen.size if in_order else 20) if most is None else most
        shown = seen[largest_first(values[seen], min(count, seen.size))]
        self.cells_ = np.sort(shown) if in_order else shown
        self.figure_, self.ax_ = place(ax, THEME.figure if in_order else (6.4, max(3.0, 0.22 * shown.size + 1.2)))
        names = [self.feature_names[j] for j in self.cells_]
        words = "standard deviations" if measure == "cell_scores" else "contribution to the squared distance"
        draw = upright_bars if in_order else lying_bars
        self.bars_ = draw(self.ax_, values[self.cells_], scores[self.cells_] > 0, names, words)
        bold_title(self.ax_, self.names[row])
        told = f"$D^2$ = {self.outliers.distance[row]:.4g},   $\\log_{{10}} p$ = {self.outliers.log10_p_value[row]:.1f}"
        self.ax_.set_title(told, loc="right", fontsize=9, color=THEME.muted)


def _comparable(distance: Array, p_value: Array, degrees: int, incomplete: Any) -> Array:
    """Squared distances, where an incomplete row has that of a complete row with the same p-value: (n,)."""
    out = np.array(distance)
    if incomplete.any() and degrees > 0:
        same = chi2.isf(np.maximum(p_value[incomplete], 1e-300), degrees)  # finite, however small p is
        out[incomplete] = np.maximum(out[incomplete], same)
    return out
