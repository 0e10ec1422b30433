"""Missing cells of a table: where they are, by column and by pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.axes import THEME, beside, bold_title, clipped, frame, percent, place, whole_numbers
from probpca.displays.inputs import (
    cells_of,
    listed,
    names_of,
    require_choice,
    require_columns,
    require_fitted,
    table_of,
)
from probpca.errors import DataError, ShapeError
from probpca.result_tables import default_names
from probpca.sources.readers.frames import order_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.typing import Array, Index


@dataclass(frozen=True)
class RasterLimits:
    """Limits of what a raster of missing cells can show."""

    most_rows: int = 400  # longer tables are averaged over rows
    most_columns: int = 400  # wider tables are averaged over columns
    most_names: int = 40  # of columns that are all named
    visible: float = 0.035  # share of the rows, and two rows at least, from which a pattern is counted at the side


class Pattern(NamedTuple):
    """Rows with the same missing cells, one below the other."""

    first: int  # position in the order that is drawn
    n_rows: int
    n_missing: int  # cells of each row


class MissingnessDisplay:
    """Missing-data map: the missing cells of a table as dark marks, with the share of each column above.

    If rows are sorted by pattern, the rows of the largest patterns are counted at the side; in the given order, the
    side shows the share of missing cells in each row. Create it with ``from_data`` or ``from_estimator``.

    Attributes
    ----------
    missing : ndarray of bool (n, d)
        Which cells are missing.
    order : ndarray of int (n,)
        Positions of the rows from top to bottom.
    shares : ndarray (d,)
        Share of missing cells of each column.
    patterns : list of Pattern
        In the order that is drawn; empty if rows keep their order.
    raster_ : ndarray
        Shares of missing cells as they are drawn: large tables are averaged over ``row_edges_`` and ``column_edges_``.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes of the map.
    axes_ : ndarray of Axes
        All axes: map, columns, rows.
    image_, bars_ : matplotlib artists
        The map, and the bars above and beside it.

    Examples
    --------
    >>> from probpca import MissingnessDisplay
    >>> from probpca.datasets import load_fertility
    >>> table = load_fertility()
    >>> display = MissingnessDisplay.from_data(table.values, feature_names=table.years)
    >>> display.patterns[0]
    Pattern(first=0, n_rows=192, n_missing=0)
    >>> from probpca import PPCA
    >>> MissingnessDisplay.from_estimator(PPCA(2, random_state=0).fit(table.values), table.values[:20]).missing.shape
    (20, 52)
    """

    def __init__(self, missing: Any, feature_names: list[str] | None = None, *, order: str = "pattern") -> None:
        """Store what ``plot`` draws."""
        self.missing: npt.NDArray[np.bool_] = np.asarray(missing, dtype=bool)
        if self.missing.ndim != 2 or 0 in self.missing.shape:
            msg = f"missing must be a table of rows and columns; got shape {self.missing.shape}."
            raise ShapeError(msg)
        require_choice("order", order, ("given", "pattern"))
        n, d = self.missing.shape
        self.feature_names = default_names(d) if feature_names is None else feature_names
        self.shares: Array = self.missing.mean(axis=0)
        self.order: Index
        self.patterns: list[Pattern]
        self.order, self.patterns = _by_pattern(self.missing) if order == "pattern" else (np.arange(n), [])

    @classmethod
    def from_data(
        cls,
        X: Any,
        *,
        feature_names: Any = None,
        order: str = "pattern",
        missing: str = "nan",
        ax: Any = None,
    ) -> MissingnessDisplay:
        """Draw the missing cells of a table.

        Parameters
        ----------
        X : array, sparse matrix or dataframe
            Rows in memory. NaN marks a missing cell.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of a dataframe, or x0, x1, ...
        order : "pattern" or "given", default="pattern"
            "pattern" sorts rows with the same missing cells together, complete rows on top; "given" keeps the order of
            the rows.
        missing : "nan" or "unstored", default="nan"
            With "unstored" the cells that a sparse matrix does not store are missing too; with "nan" they are zero.
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.

        Returns
        -------
        MissingnessDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        if missing not in ("nan", "unstored"):
            msg = f"missing must be 'nan' or 'unstored'; got {missing!r}."
            raise DataError(msg)
        values = table_of(X, unstored_missing=missing == "unstored")
        known = _columns(X) if feature_names is None else feature_names
        names = None if known is None else listed("feature_names", known, values.shape[1])
        return cls(np.isnan(values), names, order=order).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, feature_names: Any = None, order: str = "pattern", ax: Any = None
    ) -> MissingnessDisplay:
        """Draw the missing cells of rows for a fitted estimator, with the columns of the fit in their order.

        Parameters
        ----------
        estimator : PPCA, BayesianPCA or FactorAnalysis
            A fitted estimator. Its parameter ``missing`` says which cells are missing.
        X : array, sparse matrix or dataframe
            Rows with the columns of the fit. NaN marks a missing cell.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        order : "pattern" or "given", default="pattern"
            "pattern" sorts rows with the same missing cells together, complete rows on top; "given" keeps the order of
            the rows.
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.

        Returns
        -------
        MissingnessDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator)
        values = cells_of(estimator, X)
        names, given = getattr(estimator, "feature_names_in_", None), _columns(X)
        if names is not None and given is not None:
            moved = order_of(list(given), list(names))
            values = values if moved is None else values[:, moved]
        require_columns(values, estimator.n_features_in_)
        return cls(np.isnan(values), names_of(estimator, feature_names), order=order).plot(ax)

    def plot(self, ax: Any = None, *, limits: RasterLimits = RasterLimits()) -> MissingnessDisplay:
        """Draw the map, with bars for columns above it and for rows beside it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw the map; the bars get axes of their own beside it. None: in a new figure.
        limits : RasterLimits
            Largest number of rows and columns of the map; larger tables are averaged.

        Returns
        -------
        MissingnessDisplay
            The display itself.
        """
        self.figure_, self.ax_ = place(ax, (6.4, 4.4))
        n, d = self.missing.shape
        self.row_edges_, self.column_edges_ = edges(n, limits.most_rows), edges(d, limits.most_columns)
        self.raster_ = averaged(self.missing[self.order], self.row_edges_, self.column_edges_)
        extent = (-0.5, d - 0.5, n, 0)
        look = {"cmap": _cells(), "vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
        self.image_ = self.ax_.imshow(self.raster_, extent=extent, **look)
        above = self.ax_.inset_axes((0, 1.03, 1, 0.16), sharex=self.ax_)
        side = self.ax_.inset_axes((1.02, 0, 0.16, 1), sharey=self.ax_)
        self.axes_ = np.array([self.ax_, above, side])
        self._draw_columns(above)
        self._draw_rows(side, limits.visible)
        frame(self.ax_, y="rows, sorted by pattern" if self.patterns else "rows")
        self.ax_.spines[:].set(visible=True, color=THEME.rule)
        whole_numbers(self.ax_.yaxis)
        self._name_columns(limits.most_names)
        return self

    def _draw_columns(self, ax: Any) -> None:
        self.bars_ = ax.bar(
            np.arange(self.shares.size),
            100 * self.shares,
            color=THEME.ink,
            width=0.85 if self.shares.size <= 60 else 1.0,
        )
        frame(ax, y="missing, %")
        bold_title(ax, "Missing-data map", THEME.title_length)
        total = f"{percent(self.missing.mean())} of {self.missing.size:,} cells are missing"
        ax.set_title(total, loc="right", fontsize=9, color=THEME.muted)
        ax.tick_params(axis="x", labelbottom=False, length=0)
        ax.set_ylim(0, max(100 * self.shares.max() * 1.1, 1))
        ax.locator_params(axis="y", nbins=3, prune="lower")

    def _draw_rows(self, ax: Any, visible: float) -> None:
        """Draw the counts of the larger patterns, or the share of missing cells of each row."""
        n, d = self.missing.shape
        ax.tick_params(axis="y", labelleft=False, length=0)
        if not self.patterns:
            share = 100 * self.raster_ @ np.diff(self.column_edges_) / d
            ax.stairs(share, self.row_edges_, orientation="horizontal", fill=True, color=THEME.ink)
            frame(ax, x="missing, %")
            ax.locator_params(axis="x", nbins=3, prune="lower")
            return
        ax.set_axis_off()
        gap = max(0.1, 0.006 * n)
        for pattern in self.patterns:
            if pattern.n_rows >= max(visible * n, 2):
                ends = pattern.first + gap, pattern.first + pattern.n_rows - gap
                ax.plot([0.03, 0.03], ends, color=THEME.accent, linewidth=1.5, solid_capstyle="butt")
                words = {0: "complete", d: "empty"}.get(pattern.n_missing, f"with {pattern.n_missing} missing")
                beside(ax, f"{pattern.n_rows:,} {words}", (0.03, sum(ends) / 2), (5, 0), va="center")
        ax.set_xlim(0, 1)

    def _name_columns(self, most: int) -> None:
        d = len(self.feature_names)
        step = -(-d // most) if d <= 2 * most else -(-d // 12)
        places = np.arange(0, d, step)
        names = [clipped(self.feature_names[j], THEME.short_name_length) for j in places]
        steep = max(map(len, names)) * len(names) > 75
        self.ax_.set_xticks(places, names, rotation=90 if steep else 0, fontsize=THEME.small, color=THEME.muted)


def edges(count: int, most: int) -> Index:
    """Where to cut ``count`` rows into at most ``most`` groups of nearly equal length: (groups + 1,)."""
    groups = min(count, most)
    return np.asarray(np.arange(groups + 1) * count // groups, dtype=np.intp)


def averaged(missing: Any, rows: Index, columns: Index) -> Array:
    """Share of missing cells within each rectangle: (rows - 1, columns - 1)."""
    counts = np.add.reduceat(missing, rows[:-1], axis=0, dtype=np.float64)
    counts = np.add.reduceat(counts, columns[:-1], axis=1)
    return np.asarray(counts / np.outer(np.diff(rows), np.diff(columns)))


def _columns(X: Any) -> Any:
    """Names of the columns of a dataframe; None for other tables."""
    return getattr(X, "column_names", getattr(X, "columns", None))  # of pyarrow, columns are the values


def _by_pattern(missing: Any) -> tuple[Index, list[Pattern]]:
    """Order of rows by their number of missing cells, with equal patterns together, and these patterns."""
    packed = np.packbits(missing, axis=1)
    keys = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, code, sizes = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    lacking = missing[first].sum(axis=1)  # (patterns,)
    places = np.lexsort((np.arange(first.size), -sizes, lacking))
    rank = np.empty_like(places)
    rank[places] = np.arange(places.size)
    starts = np.concatenate([[0], np.cumsum(sizes[places])[:-1]])
    found = [Pattern(int(s), int(sizes[p]), int(lacking[p])) for s, p in zip(starts, places, strict=True)]
    return np.argsort(rank[code], kind="stable"), found


def _cells() -> Any:
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    return LinearSegmentedColormap.from_list("missing", [THEME.paper, THEME.ink])
