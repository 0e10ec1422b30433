"""Rows with holes, and what the model puts into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.axes import CHOSEN, FAINT, INK, LINE, SHORTER, SMALL, clipped, draw_endless, frame, panels
from probpca.displays.inputs import by_name, names_of, require_fitted, row_names, some_rows, table_of, tried_level
from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from probpca.typing import Array, Index

MOST = 4
"""Rows that are drawn if none are chosen: those that lack most, but are not empty."""
MOST_NAMES, FEWEST_NAMES = 60, 12
"""Features that stand one below the other: in the height of a figure, and in each of its panels at least."""
ACROSS = 3
"""Panels in a line, where features stand one below the other."""
UNITS = ("auto", "data", "standard")


class ImputedRow(NamedTuple):
    """What one panel shows, in the units of the data."""

    name: str
    observed: Array  # NaN where nothing was: (d,)
    imputed: Array  # NaN where something was observed: (d,)
    low: Array  # (d,)
    high: Array  # (d,)
    fitted: Array  # what the model takes the row for without noise: (d,)


class ImputationDisplay:
    """Observed cells as points, missing ones as intervals, and what the model takes the row for as a line.

    Of features side by side, more than can be read, those are drawn that have the widest intervals, and it is said how
    many are not. Make it with ``from_estimator``.

    Attributes
    ----------
    rows : tuple of ImputedRow
        What is drawn, one panel for each.
    scale, centre : ndarray (n_features,)
        Panels show (value - centre) / scale.
    shown_ : ndarray
        Positions of the features that are drawn.
    figure_, ax_, axes_
        matplotlib Figure, the first Axes, and all of them.

    Examples
    --------
    >>> from probpca import ImputationDisplay, PPCA
    >>> from probpca.datasets import load_fertility
    >>> table = load_fertility()
    >>> ppca = PPCA(n_components=3, random_state=0).fit(table.values)
    >>> display = ImputationDisplay.from_estimator(
    ...     ppca, table.values, rows="Serbia", names=table.countries, positions=table.years
    ... )
    >>> bool(display.rows[0].low[0] < display.rows[0].imputed[0] < display.rows[0].high[0])
    True
    """

    def __init__(
        self,
        rows: tuple[ImputedRow, ...],
        feature_names: list[str],
        *,
        positions: Any = None,
        centre: Any = 0.0,
        scale: Any = 1.0,
        level: float = 0.95,
    ) -> None:
        """Remember what is to be drawn; ``plot`` draws it."""
        d = len(feature_names)
        self.rows, self.feature_names, self.level = rows, feature_names, level
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
        level: float = 0.95,
        names: Any = None,
        feature_names: Any = None,
        positions: Any = None,
        units: str = "auto",
        value_name: str = "value",
        ax: Any = None,
    ) -> ImputationDisplay:
        """Draw some rows of ``X``, by position or name, each in a panel; by default those that lack most.

        ``positions`` are places of the features on a scale, as years. Without them features stand side by side, and
        ``units`` "auto" shows them in standard deviations of the model from its mean; "data" in their own.
        """
        require_fitted(cls, estimator, "impute_interval", "transform")
        values = table_of(X, unstored_missing=getattr(estimator, "missing", "nan") == "unstored")
        if units not in UNITS:
            msg = f"units must be one of {', '.join(UNITS)}; got {units!r}."
            raise DataError(msg)
        known = row_names(X, names, len(values))
        shown = _lacking(values) if rows is None else by_name("rows", rows, known)
        scaled = units == "standard" or (units == "auto" and positions is None)
        made = cls(
            _imputed_rows(
                estimator, some_rows(X, values, shown), values[shown], [known[i] for i in shown], tried_level(level)
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
        """Draw in a new figure, or in the given axes: one for each row."""
        count = len(self.rows)
        self.shown_ = self._chosen(count)
        across, size = self._layout(count)
        self.figure_, self.axes_ = panels(ax, count, across, size)
        self.ax_ = self.axes_[0]
        for k, (row, place) in enumerate(zip(self.rows, self.axes_, strict=True)):
            if self.positions is None:
                self._draw_across(row, place, named=k % across == 0 or ax is not None)
                frame(place, clipped(row.name, SHORTER), x=value_name + self._hidden(row))
            else:
                self._draw_along(row, place)
                frame(place, clipped(row.name), y=value_name)
        self._draw_key(inside=ax is not None or (count == 1 and self.positions is not None))
        return self

    def _chosen(self, count: int) -> Index:
        """All features if they can be read; else some, the same in all panels."""
        d = len(self.feature_names)
        if self.positions is not None or d <= MOST_NAMES:
            return np.arange(d)
        down = -(-count // ACROSS)
        return most_telling([self._scaled(row) for row in self.rows], max(MOST_NAMES // down, FEWEST_NAMES))

    def _hidden(self, row: ImputedRow) -> str:
        """How many cells of a row are not drawn, in words."""
        rest = np.delete(np.isnan(row.observed), self.shown_)
        if not rest.size:
            return ""
        filled = f"{rest.sum():,} of them filled in" if rest.any() else "all of them observed"
        return f"\n{rest.size:,} more columns are not shown,\n{filled}"

    def _layout(self, count: int) -> tuple[int, tuple[float, float]]:
        """Panels side by side, and the size of the figure in inches."""
        if self.positions is None:
            across = min(count, ACROSS)
            down = -(-count // across)
            labels = 0.07 * max(len(clipped(self.feature_names[j])) for j in self.shown_)
            tall = 0.22 * self.shown_.size + 1.1
            return across, (max(6.4, labels + 2.6 * across), max(tall * down + 0.3, 3.4))
        across = 1 if count < 3 else 2
        down = -(-count // across)
        return across, (6.4 if across == 1 else 9.0, max(2.3 * down + 0.6, 3.4))

    def _draw_along(self, row: ImputedRow, ax: Any) -> None:
        """Features along a scale, values upwards."""
        x, (observed, imputed, low, high, fitted) = self.positions, self._scaled(row)
        many = len(self.feature_names) > 80
        ax.plot(x, fitted, color=FAINT, linewidth=1.4)
        bars = {"color": CHOSEN, "linewidth": 1 if many else 2.2, "alpha": 0.35}
        ax.vlines(x, low, high, **bars)
        draw_endless(ax.axvline, x, low, high, **bars)
        ax.plot(x, imputed, "o", markersize=2 if many else 4, markerfacecolor="white", color=CHOSEN)
        ax.plot(x, observed, "o", markersize=2 if many else 4, color=INK)

    def _draw_across(self, row: ImputedRow, ax: Any, *, named: bool) -> None:
        """Features one below the other, values sideways."""
        y = np.arange(self.shown_.size)
        observed, imputed, low, high, fitted = (values[self.shown_] for values in self._scaled(row))
        ax.axvline(0, color=LINE, linewidth=0.8, zorder=0)
        ax.plot(fitted, y, "|", color=FAINT, markersize=11, markeredgewidth=1.8)
        bars = {"color": CHOSEN, "linewidth": 2.2, "alpha": 0.35}
        ax.hlines(y, low, high, **bars)
        draw_endless(ax.axhline, y, low, high, **bars)
        ax.plot(imputed, y, "o", markersize=5, markerfacecolor="white", color=CHOSEN)
        ax.plot(observed, y, "o", markersize=4.5, color=INK)
        ax.set_yticks(y, [clipped(self.feature_names[j]) for j in self.shown_] if named else [""] * y.size)
        ax.set_ylim(y.size - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)

    def _scaled(self, row: ImputedRow) -> list[Array]:
        return [(values - self.centre) / self.scale for values in row[1:]]

    def _draw_key(self, *, inside: bool) -> None:
        from matplotlib.lines import Line2D  # noqa: PLC0415

        line: dict[str, Any] = {"marker": "|", "linestyle": "none"} if self.positions is None else {}
        key = [
            Line2D([], [], color=INK, marker="o", linestyle="none", markersize=4, label="observed"),
            Line2D([], [], color=CHOSEN, marker="o", markerfacecolor="white", markersize=4, linewidth=2.2),
            Line2D([], [], color=FAINT, linewidth=1.4, markersize=9, label="the row as the model sees it", **line),
        ]
        key[1].set_label(f"filled in, with {100 * self.level:.4g} % interval")
        if inside:
            self.ax_.legend(handles=key, frameon=False, fontsize=SMALL)
        else:
            self.figure_.legend(handles=key, frameon=False, fontsize=SMALL, ncols=3, loc="outside upper left")


def _imputed_rows(estimator: Any, rows: Any, observed: Array, names: list[str], level: float) -> tuple[ImputedRow, ...]:
    """Ask the estimator about the rows that are shown, and no others."""
    missing = np.isnan(observed)
    filled = np.asarray(estimator.impute(rows))
    low, high = (np.asarray(end) for end in estimator.impute_interval(rows, level))
    fitted = estimator.inverse_transform(np.asarray(estimator.transform(rows)))
    parts = (np.where(missing, end, np.nan) for end in (filled, low, high))
    return tuple(ImputedRow(*row) for row in zip(names, observed, *parts, fitted, strict=True))


def most_telling(rows: list[list[Array]], most: int) -> Index:
    """Positions of some features, as they stand in the table: (most,).

    First come those filled in, by the widest interval that they have in any row; then those of which nothing is known,
    whose intervals have no ends; then those observed furthest from what the model takes them for.
    """
    observed, _, low, high, fitted = (np.stack(part) for part in zip(*rows, strict=True))
    width = np.nan_to_num(high - low, nan=-1.0, posinf=0.0).max(axis=0)
    away = np.nan_to_num(np.abs(observed - fitted)).max(axis=0)
    return np.sort(np.lexsort((-away, -width))[:most])


def _lacking(values: Array) -> list[int]:
    """Rows that lack most cells but not all; the first ones if there are none."""
    lacking = np.isnan(values).sum(axis=1)
    lacking[lacking == values.shape[1]] = 0
    order = np.argsort(-lacking, kind="stable")[:MOST]
    some = order[lacking[order] > 0]
    return [int(i) for i in np.sort(some if some.size else order)]
