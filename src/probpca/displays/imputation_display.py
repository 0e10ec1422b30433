"""Imputed rows: observed cells, imputed cells with intervals, and the fitted row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.axes import THEME, clipped, draw_endless, draw_key, frame, name_lines, panels
from probpca.displays.inputs import (
    by_name,
    cells_of,
    has_factors,
    names_of,
    require_choice,
    require_fitted,
    require_level,
    row_names,
    some_rows,
)
from probpca.errors import ShapeError

if TYPE_CHECKING:
    from probpca.typing import Array, Index


@dataclass(frozen=True)
class ImputationLayout:
    """Limits of the panels in which features stand one below the other."""

    across: int = 3  # panels side by side
    most_features: int = 60  # in the height of the figure
    fewest_features: int = 12  # in each panel, however many panels there are


class ImputedRow(NamedTuple):
    """The content of one panel, in the units of the data."""

    name: str
    observed: Array  # NaN where missing: (d,)
    imputed: Array  # NaN where observed: (d,)
    low: Array  # (d,)
    high: Array  # (d,)
    fitted: Array  # the row in the model, without noise: (d,)


class ImputationDisplay:
    r"""Imputed values: observed cells as points, imputed cells with intervals, and the fitted row as a line.

    An imputed cell is drawn at its conditional mean :math:`E[x_j \mid x_O]` given the observed cells of its row. If
    there are too many features to read, those with the widest intervals are drawn, and the figure says how many are
    not shown. Create it with ``from_estimator``.

    Attributes
    ----------
    rows : tuple of ImputedRow
        Observed and imputed cells of each panel.
    scale, centre : ndarray (n_features,)
        Panels show (value - centre) / scale.
    shown_ : ndarray of int
        Positions of the features that are drawn.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The first axes.
    axes_ : ndarray of Axes
        All axes.

    Examples
    --------
    >>> from probpca import ImputationDisplay, PPCA
    >>> from probpca.datasets import load_fertility
    >>> table = load_fertility()
    >>> ppca = PPCA(n_components=3, random_state=0).fit(table.values)
    >>> display = ImputationDisplay.from_estimator(
    ...     ppca, table.values, rows="Serbia", labels=table.countries, positions=table.years
    ... )
    >>> bool(display.rows[0].low[0] < display.rows[0].imputed[0] < display.rows[0].high[0])
    True
    """

    def __init__(  # noqa: PLR0913
        self,
        rows: tuple[ImputedRow, ...],
        feature_names: list[str],
        *,
        positions: Any = None,
        centre: Any = 0.0,
        scale: Any = 1.0,
        level: float = 0.95,
        layout: ImputationLayout = ImputationLayout(),
    ) -> None:
        """Store what ``plot`` draws."""
        d = len(feature_names)
        self.rows, self.feature_names, self.level, self.layout = rows, feature_names, level, layout
        self.positions = None if positions is None else np.asarray(positions)
        if self.positions is not None and self.positions.shape != (d,):
            msg = f"positions must be one for each of {d} features; got shape {self.positions.shape}."
            raise ShapeError(msg)
        self.centre = np.broadcast_to(np.asarray(centre, dtype=np.float64), (d,))
        self.scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), (d,))

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any,
        *,
        rows: Any = None,
        most: int = 4,
        level: float = 0.95,
        labels: Any = None,
        feature_names: Any = None,
        positions: Any = None,
        units: str = "auto",
        value_name: str = "value",
        ax: Any = None,
    ) -> ImputationDisplay:
        """Draw the observed and imputed cells of some rows, one panel for each row.

        Parameters
        ----------
        estimator : PPCA, BayesianPCA or FactorAnalysis
            A fitted estimator.
        X : array, sparse matrix or dataframe
            Rows with the columns of the fit. NaN marks a missing cell.
        rows : int, str, sequence of them, or None, default=None
            Rows to draw, by position or label. None: the ``most`` rows with the largest number of missing cells.
        most : int, default=4
            Number of rows to draw if ``rows`` is None.
        level : float, default=0.95
            Probability of the intervals of imputed cells.
        labels : sequence of str, True or None, default=None
            Names of the rows; True: the index of a pandas dataframe. None: row numbers, or the index if it is text.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        positions : sequence of float or None, default=None
            Positions of the features on the horizontal axis, such as years. None: features are listed one below the
            other.
        units : "auto", "data" or "standard", default="auto"
            "data": values in the units of the data. "standard": in standard deviations from the mean of the model.
            "auto": "data" if ``positions`` are given, otherwise "standard".
        value_name : str, default="value"
            Label of the axis of values.
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each row. None: in a new figure.

        Returns
        -------
        ImputationDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "impute_interval", "transform")
        values = cells_of(estimator, X)
        require_choice("units", units, ("auto", "data", "standard"))
        known = row_names(X, labels, len(values))
        shown = _most_missing(values, most) if rows is None else by_name("rows", rows, known)
        scaled = units == "standard" or (units == "auto" and positions is None)
        made = cls(
            _imputed_rows(
                estimator, some_rows(X, values, shown), values[shown], [known[i] for i in shown], require_level(level)
            ),
            names_of(estimator, feature_names),
            positions=positions,
            centre=estimator.mean_ if scaled else 0.0,
            scale=np.sqrt(estimator.model_.covariance.diag()) if scaled else 1.0,
            level=level,
        )
        words = "standard deviations from the mean" if scaled else value_name
        return made.plot(ax, value_name=words)

    def plot(self, ax: Any = None, *, value_name: str = "value") -> ImputationDisplay:
        """Draw one panel for each row.

        Parameters
        ----------
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each row. None: in a new figure.
        value_name : str, default="value"
            Label of the axis of values.

        Returns
        -------
        ImputationDisplay
            The display itself.
        """
        count = len(self.rows)
        self.shown_ = self._chosen(count)
        across, size = self._layout(count)
        self.figure_, self.axes_ = panels(ax, count, across, size)
        self.ax_ = self.axes_[0]
        for k, (row, place) in enumerate(zip(self.rows, self.axes_, strict=True)):
            if self.positions is None:
                self._draw_across(row, place, named=k % across == 0 or ax is not None)
                frame(place, clipped(row.name, THEME.short_name_length), x=value_name + self._hidden(row))
            else:
                self._draw_along(row, place)
                frame(place, clipped(row.name), y=value_name)
        self._draw_key(inside=ax is not None or (count == 1 and self.positions is not None))
        return self

    def _chosen(self, count: int) -> Index:
        """Positions of the features to draw: all if they can be read, otherwise the same ones in all panels."""
        d = len(self.feature_names)
        if self.positions is not None or d <= self.layout.most_features:
            return np.arange(d)
        down = -(-count // self.layout.across)
        room = max(self.layout.most_features // down, self.layout.fewest_features)
        return most_telling([self._scaled(row) for row in self.rows], room)

    def _hidden(self, row: ImputedRow) -> str:
        """A note on the cells of a row that are not drawn."""
        rest = np.delete(np.isnan(row.observed), self.shown_)
        if not rest.size:
            return ""
        filled = f"{rest.sum():,} of them imputed" if rest.any() else "all of them observed"
        return f"\n({rest.size:,} more columns not shown,\n{filled})"

    def _layout(self, count: int) -> tuple[int, tuple[float, float]]:
        """Number of panels side by side, and the size of the figure in inches."""
        if self.positions is None:
            down = -(-count // self.layout.across)
            across = -(-count // down)  # as even as possible
            labels = 0.07 * max(len(clipped(self.feature_names[j])) for j in self.shown_)
            tall = 0.22 * self.shown_.size + 1.1
            return across, (max(6.4, labels + 2.6 * across), max(tall * down + 0.3, 3.4))
        across = 1 if count < 3 else 2
        down = -(-count // across)
        return across, (6.4 if across == 1 else 9.0, max(2.3 * down + 0.6, 3.4))

    def _draw_along(self, row: ImputedRow, ax: Any) -> None:
        """Draw features along a scale and values upwards."""
        x, (observed, imputed, low, high, fitted) = self.positions, self._scaled(row)
        many = len(self.feature_names) > 80
        ax.plot(x, fitted, color=THEME.faint, linewidth=1.4)
        bars = {"color": THEME.accent, "linewidth": 1 if many else 2.2, "alpha": 0.35}
        ax.vlines(x, low, high, **bars)
        draw_endless(ax.axvline, x, low, high, **bars)
        ax.plot(x, imputed, "o", markersize=2 if many else 4, markerfacecolor="white", color=THEME.accent)
        ax.plot(x, observed, "o", markersize=2 if many else 4, color=THEME.ink)

    def _draw_across(self, row: ImputedRow, ax: Any, *, named: bool) -> None:
        """Draw features one below the other and values sideways."""
        y = np.arange(self.shown_.size)
        observed, imputed, low, high, fitted = (values[self.shown_] for values in self._scaled(row))
        ax.axvline(0, color=THEME.rule, linewidth=0.8, zorder=0)
        ax.plot(fitted, y, "|", color=THEME.faint, markersize=11, markeredgewidth=1.8)
        bars = {"color": THEME.accent, "linewidth": 2.2, "alpha": 0.35}
        ax.hlines(y, low, high, **bars)
        draw_endless(ax.axhline, y, low, high, **bars)
        ax.plot(imputed, y, "o", markersize=5, markerfacecolor="white", color=THEME.accent)
        ax.plot(observed, y, "o", markersize=4.5, color=THEME.ink)
        name_lines(ax, [self.feature_names[j] if named else "" for j in self.shown_])
        ax.tick_params(axis="y", length=0)

    def _scaled(self, row: ImputedRow) -> list[Array]:
        return [(values - self.centre) / self.scale for values in row[1:]]

    def _draw_key(self, *, inside: bool) -> None:
        from matplotlib.lines import Line2D  # noqa: PLC0415

        line: dict[str, Any] = {"marker": "|", "linestyle": "none"} if self.positions is None else {}
        key = [
            Line2D([], [], color=THEME.ink, marker="o", linestyle="none", markersize=4, label="observed"),
            Line2D([], [], color=THEME.accent, marker="o", markerfacecolor="white", markersize=4, linewidth=2.2),
            Line2D([], [], color=THEME.faint, linewidth=1.4, markersize=9, label="fitted by the model", **line),
        ]
        key[1].set_label(f"imputed, with {100 * self.level:.4g}% interval")
        draw_key(self.figure_, self.ax_, key, inside=inside, loc="outside upper left")


def _imputed_rows(estimator: Any, rows: Any, observed: Array, names: list[str], level: float) -> tuple[ImputedRow, ...]:
    """Impute the rows that are shown, and no others."""
    missing = np.isnan(observed)
    filled = np.asarray(estimator.impute(rows))
    low, high = (np.asarray(end) for end in estimator.impute_interval(rows, level))
    # Bartlett's scores, which factor analysis may return, follow the noise of rows with few observed cells.
    latent = estimator.posterior(rows).mean if has_factors(estimator) else estimator.transform(rows)
    fitted = estimator.inverse_transform(np.asarray(latent))
    parts = (np.where(missing, end, np.nan) for end in (filled, low, high))
    return tuple(ImputedRow(*row) for row in zip(names, observed, *parts, fitted, strict=True))


def most_telling(rows: list[list[Array]], most: int) -> Index:
    """Positions of the ``most`` most informative features, in the order of the table: (most,).

    First come imputed features, by their widest interval in any row; then those with infinite intervals; then observed
    ones, by their distance from the fitted value.
    """
    observed, _, low, high, fitted = (np.stack(part) for part in zip(*rows, strict=True))
    width = np.nan_to_num(high - low, nan=-1.0, posinf=0.0).max(axis=0)
    away = np.nan_to_num(np.abs(observed - fitted)).max(axis=0)
    return np.sort(np.lexsort((-away, -width))[:most])


def _most_missing(values: Array, most: int) -> list[int]:
    """The ``most`` rows with the most missing cells, without empty rows; the first rows if none has a missing cell."""
    lacking = np.isnan(values).sum(axis=1)
    lacking[lacking == values.shape[1]] = 0
    order = np.argsort(-lacking, kind="stable")[:most]
    some = order[lacking[order] > 0]
    return [int(i) for i in np.sort(some if some.size else order)]
