"""Outlying rows: distances from the model, control charts, and the cells that make a row unusual."""

from __future__ import annotations

from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

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
from probpca.displays.inputs import by_name, names_of, noun_of, require_choice, require_fitted, row_names
from probpca.errors import DataError
from probpca.inference.calibration import RARE, Calibration, probability
from probpca.inference.outlier_scores import CHI_SQUARE
from probpca.learning.uncertainty.estimate import largest_first
from probpca.result_tables import default_names

if TYPE_CHECKING:
    from probpca.inference.outlier_scores import Outliers
    from probpca.typing import Array, Index

SMALL = {"fontsize": 9, "color": THEME.muted}
"""Look of the words about a panel."""
NOTE_LENGTH = 84
"""Letters of a line of the note below a panel."""
FAR_LIMIT = 5.0
"""A limit that is more than this many times as large as every distance is not drawn: it would squeeze all points."""


class OutlierDisplay:
    r"""Outlier map: rows by their distance from the model; or the cells that make one row unusual.

    .. math:: D^2 = (x - \mu)^\top C^{-1} (x - \mu) = T^2 + Q

    ``kind="distances"`` shows the score distance :math:`T^2`, within the components or factors, against the residual
    distance Q from them; "chart" shows :math:`D^2` row by row. Dashed limits are exceeded by chance with probability
    ``p``. "cells" shows which cells make one row unusual. The least likely rows are labelled. Create it with
    ``from_estimator``.

    P-values are calibrated, and limits with them. A row with missing cells, and a row of the fit, is drawn at the
    distance of a complete new row with the same p-value, so that limits mean the same for all rows.

    Attributes
    ----------
    outliers : Outliers
        The result of ``estimator.outliers``.
    points : ndarray (n, 2)
        Squared score and residual distances, as drawn.
    whole : ndarray (n,)
        Squared distances, as drawn.
    limits : dict
        "latent", "residual" and "whole": squared distances of new rows that have these p-values, one for each ``p``.
    ranking : ndarray of int (n,)
        Positions of the rows, the least probable first.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.
    points_, bars_ : matplotlib artists
        The points of rows, or the bars of cells.
    cells_ : ndarray of int
        Positions of the cells whose bars are drawn.

    Examples
    --------
    >>> from probpca import OutlierDisplay, PPCA
    >>> from probpca.datasets import load_fertility
    >>> table = load_fertility().complete()
    >>> ppca = PPCA(n_components=3).fit(table.values)
    >>> display = OutlierDisplay.from_estimator(ppca, table.values, labels=table.countries)
    >>> [display.labels[i] for i in display.ranking[:3]]
    ['Kuwait', 'Macao SAR, China', 'Yemen, Rep.']
    """

    def __init__(  # noqa: PLR0913
        self,
        outliers: Outliers,
        n_components: int,
        *,
        calibration: Calibration = CHI_SQUARE,
        training: bool = False,
        p: Any = RARE,
        labels: list[str] | None = None,
        feature_names: list[str] | None = None,
        noun: str = "component",
    ) -> None:
        """Store what ``plot`` draws; ``calibration`` is that of the p-values of ``outliers``."""
        self.noun = noun
        n, d = outliers.contributions.shape
        self.outliers, self.p = outliers, np.sort(np.atleast_1d(np.asarray(p, dtype=np.float64)))[::-1]
        if not ((self.p > 0) & (self.p < 1)).all():
            msg = f"p must lie between 0 and 1; got {p}."
            raise DataError(msg)
        self.labels = [str(i) for i in range(n)] if labels is None else labels
        self.feature_names = default_names(d) if feature_names is None else feature_names
        degrees = {"latent": min(n_components, d), "residual": d - n_components, "whole": d}
        self.limits = {part: calibration.exceeded(self.p, count) for part, count in degrees.items()}
        self.ranking: Index = np.argsort(outliers.log10_p_value, kind="stable")
        moved = np.isnan(outliers.cell_scores).any(axis=1) | training
        drawn = partial(_comparable, calibration, moved)
        latent = drawn(outliers.latent_distance, outliers.latent_p_value, degrees["latent"])
        residual = drawn(outliers.residual_distance, outliers.residual_p_value, degrees["residual"])
        self.points: Array = np.column_stack([latent, residual])
        self.whole = drawn(outliers.distance, outliers.p_value, d)

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any,
        *,
        kind: str | None = None,
        row: Any = None,
        p: Any = RARE,
        training: bool = True,
        labels: Any = None,
        feature_names: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> OutlierDisplay:
        """Draw rows by their distance from the model, or the cells of one row.

        Parameters
        ----------
        estimator : PPCA, BayesianPCA or FactorAnalysis
            A fitted estimator.
        X : array, sparse matrix or dataframe
            Rows with the columns of the fit. NaN marks a missing cell.
        kind : "distances", "chart", "cells" or None, default=None
            "distances": score distance against residual distance. "chart": squared distance, row by row. "cells": the
            cells of one row. None: "cells" if ``row`` is given, otherwise "distances".
        row : int, str or None, default=None
            The row whose cells are drawn, by position or label.
        p : float or sequence of float, default=0.001
            P-values at which limits are drawn.
        training : bool, default=True
            Whether ``X`` are training rows; p-values are then those of rows that are left out of the fit.
        labels : sequence of str, True or None, default=None
            Names of the rows; True: the index of a pandas dataframe. None: row numbers, or the index if it is text.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.
        **options
            ``most``, ``measure`` and ``in_order`` of ``plot``.

        Returns
        -------
        OutlierDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "outliers", "calibration_")
        found = estimator.outliers(X, training=training)
        made = cls(
            found,
            estimator.n_components_,
            calibration=estimator.calibration_,
            training=training,
            p=p,
            labels=row_names(X, labels, len(found.distance)),
            feature_names=names_of(estimator, feature_names),
            noun=noun_of(estimator),
        )
        return made.plot(ax, kind=kind, row=row, **options)

    def beyond(self, kind: str = "distances") -> Index:
        """Positions of the rows beyond the limit of the smallest ``p``, the least probable first: ndarray of int.

        ``kind`` is "distances" or "chart": the plot whose limits count.
        """
        found, smallest = self.outliers, self.p[-1]
        if kind == "chart":
            strange = found.p_value < smallest
        else:
            strange = (found.latent_p_value < smallest) | (found.residual_p_value < smallest)
        return self.ranking[strange[self.ranking]]

    def by_chance(self, kind: str = "distances") -> float:
        """Number of rows expected beyond the limit of the smallest ``p`` by chance alone: a float.

        ``kind`` is "distances" or "chart": the plot whose limits count.
        """
        inside = (1.0 - self.p[-1]) ** (1 if kind == "chart" else 2)  # within one limit, or within both
        return float((1.0 - inside) * self.whole.size)

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
        """Draw the rows, or the cells of one row.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.
        kind : "distances", "chart", "cells" or None, default=None
            "distances": score distance against residual distance. "chart": squared distance, row by row. "cells": the
            cells of one row. None: "cells" if ``row`` is given, otherwise "distances".
        row : int, str or None, default=None
            The row whose cells are drawn, by position or label.
        most : int or None, default=None
            Number of rows to label (None: 8), or of cells to draw (None: 20).
        measure : "contributions" or "cell_scores", default="contributions"
            What to draw for the cells of one row: contributions, which add up to the squared distance, or the
            difference of each cell from its prediction given the other cells, in standard deviations.
        in_order : bool, default=False
            Whether to draw all cells in the order of the columns, as suits years. False: the largest come first.

        Returns
        -------
        OutlierDisplay
            The display itself.
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
            return int(self.ranking[0])
        return by_name("row", row, self.labels)[0]

    def _draw_distances(self, ax: Any, most: int) -> None:
        self.figure_, self.ax_ = place(ax)
        ax = self.ax_
        for axis, values, part in zip("xy", self.points.T, ("latent", "residual"), strict=True):
            root_scale(ax, axis, self._highest(values, part), values.min(initial=np.inf))
        self._draw_points(self.points, self.beyond("distances"))
        self._name(self.points, self.ranking[:most])
        for axis, part in zip("xy", ("latent", "residual"), strict=True):
            self._draw_limits(axis, part)
        frame(
            ax,
            "Outlier map",
            x=f"score distance $T^2$ (within the {self.noun}s)",
            y=f"residual distance $Q$ (from the {self.noun}s)",
        )
        self._tell("distances")

    def _draw_chart(self, ax: Any, most: int) -> None:
        self.figure_, self.ax_ = place(ax)
        root_scale(self.ax_, "y", self._highest(self.whole, "whole"), self.whole.min(initial=np.inf))
        points = np.column_stack([np.arange(self.whole.size), self.whole])
        self._draw_points(points, self.beyond("chart"))
        self._name(points, self.ranking[:most])
        self._draw_limits("y", "whole")
        whole_numbers(self.ax_.xaxis)
        frame(self.ax_, "Outlier chart", x="row", y="squared distance from the model, $D^2$")
        self._tell("chart")

    def _tell(self, kind: str) -> None:
        """Write how many rows lie beyond the limits above the panel, and warnings below it."""
        count, n = self.beyond(kind).size, self.whole.size
        told = f"{count:,} of {n:,} {'row' if n == 1 else 'rows'} beyond p = {self.p[-1]:g}"
        self.ax_.set_title(f"{told} ({self.by_chance(kind):.2g} expected by chance)", loc="right", **SMALL)
        if self.outliers.note:
            words = "\n".join(wrap(self.outliers.note, NOTE_LENGTH))
            self.ax_.annotate(
                words, (0, 0), (0, -34), "axes fraction", "offset points", va="top", **SMALL | {"fontsize": 8}
            )

    def _draw_limits(self, axis: str, part: str) -> None:
        """Draw the limits that are on the panel, with words beside them."""
        limits, top = self.limits[part], getattr(self.ax_, f"get_{axis}lim")()[1]
        shown = limits < top
        draw_limits(self.ax_, axis, limits[shown], [f"p = {p:g}" for p in self.p[shown]])

    def _highest(self, values: Array, part: str) -> float:
        """The highest value to show: all rows, and limits with the words above them unless they are far off."""
        limits, largest = self.limits[part], values.max(initial=1e-3)
        near = limits[limits < FAR_LIMIT * largest]
        return float(max([largest, *(1.2 * near)]))

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
        name_points(self.ax_, points[rows], [self.labels[i] for i in rows], colour=THEME.ink)

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
        bold_title(self.ax_, self.labels[row])
        told = f"$D^2$ = {self.outliers.distance[row]:.4g},   p = {probability(self.outliers.log10_p_value[row])}"
        self.ax_.set_title(told, loc="right", **SMALL)


def _comparable(calibration: Calibration, moved: Any, distance: Array, p_value: Array, degrees: int) -> Array:
    """Squared distances, where rows that are ``moved`` have that of a complete new row with the same p-value: (n,)."""
    out = np.array(distance)
    if moved.any() and degrees > 0:
        same = calibration.exceeded(np.maximum(p_value[moved], 1e-300), degrees)
        out[moved] = np.where(p_value[moved] > 0, same, np.maximum(out[moved], same))
    return out
