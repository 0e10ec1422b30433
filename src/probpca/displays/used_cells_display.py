"""What a robust fit used of its training rows: doubtful cells and unused rows, beside the missing cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import THEME, clipped, frame, panels, percent, whole_numbers
from probpca.displays.inputs import cells_of, names_of, require_choice, require_columns, require_fitted
from probpca.displays.missingness_display import RasterLimits, averaged, edges
from probpca.errors import DataError, ShapeError
from probpca.result_tables import several

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from probpca.typing import Array, Index


class UsedCellsDisplay:
    """Two maps of the training rows side by side: missing cells, and doubtful cells of a robust fit.

    A cell is doubtful if a fit with ``robust="cells"`` gave it a small weight: the darker the mark, the less it
    counted. Rows that the fit did not use are grey, and the bars above show the shares of each column. Doubtful cells
    and unused rows are not called wrong: they disagree with the others. Create it with ``from_estimator``.

    Attributes
    ----------
    missing : ndarray of bool (n, d)
        Which cells are missing.
    doubt : ndarray (n, d)
        One minus the weight of each observed cell in the rows that were used, 0 elsewhere.
    used : ndarray of bool (n,)
        Which rows the fit used.
    judges_cells : bool
        Whether the fit gave weights to cells; after ``robust="rows"`` no cell is doubtful.
    order : ndarray of int (n,)
        Positions of the rows from top to bottom.
    missing_shares, doubtful_shares : ndarray (d,)
        Share of missing cells of each column, and share of doubtful cells among those observed in the used rows.
    rasters_ : list of ndarray
        The two maps as they are drawn: large tables are averaged over ``row_edges_`` and ``column_edges_``.
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of Axes
        The axes: bars and map of missing cells, bars and map of doubtful cells.
    images_, bars_ : lists of matplotlib artists
        The maps, and the bars above them.

    Examples
    --------
    >>> from probpca import PPCA, UsedCellsDisplay
    >>> from probpca.datasets import load_fertility
    >>> X = load_fertility().complete().to_frame()
    >>> model = PPCA(n_components=3, robust="cells", random_state=0).fit(X)
    >>> display = UsedCellsDisplay.from_estimator(model, X)
    >>> bool((display.used == (model.row_weight_ > 0)).all()), display.doubt.shape
    (True, (192, 52))
    """

    def __init__(
        self,
        missing: Any,
        row_weight: Any,
        cell_weight: Any = None,
        feature_names: Sequence[str] | None = None,
        *,
        order: str = "used",
    ) -> None:
        """Store what ``plot`` draws."""
        require_choice("order", order, ("given", "used"))
        self.missing: npt.NDArray[np.bool_] = np.asarray(missing, dtype=bool)
        n, d = self.missing.shape
        self.used: npt.NDArray[np.bool_] = np.asarray(row_weight) > 0
        self.judges_cells = cell_weight is not None
        weight = np.ones((n, d)) if cell_weight is None else np.asarray(cell_weight, dtype=np.float64)
        if self.used.shape != (n,) or weight.shape != (n, d):
            msg = (
                f"the weights must be those of the rows, {n} x {d}; got weights of {self.used.size} rows and of cells "
                f"of shape {weight.shape}."
            )
            raise ShapeError(msg)
        counted = ~self.missing & self.used[:, None]
        self.doubt: Array = np.where(counted, 1.0 - weight, 0.0)
        self.feature_names = [f"x{j}" for j in range(d)] if feature_names is None else list(feature_names)
        self.missing_shares: Array = self.missing.mean(axis=0)
        self.doubtful_shares: Array = (self.doubt > 0.5).sum(axis=0) / np.maximum(counted.sum(axis=0), 1)
        self.order: Index = np.arange(n)
        if order == "used":
            self.order = np.lexsort(((self.doubt > 0.5).sum(axis=1), ~self.used))

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, feature_names: Any = None, order: str = "used", ax: Any = None
    ) -> UsedCellsDisplay:
        """Draw what a robust fit used of its training rows.

        Parameters
        ----------
        estimator : PPCA or FactorAnalysis
            An estimator fitted with ``robust="rows"`` or ``robust="cells"``.
        X : array, sparse matrix or dataframe
            The training rows, in their order.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        order : "used" or "given", default="used"
            "used" puts the rows that were used on top, those with the fewest doubtful cells first; "given" keeps the
            order of the rows.
        ax : matplotlib Axes or None, default=None
            Where to draw: the axes of a grid, whose place is divided. None: in a new figure.

        Returns
        -------
        UsedCellsDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator)
        rows = getattr(estimator, "row_weight_", None)
        if rows is None:
            msg = (
                f"{cls.__name__} needs a robust fit; this {type(estimator).__name__} used all rows and cells.\n"
                'Hint: fit with robust="rows" or robust="cells".'
            )
            raise DataError(msg)
        values = cells_of(estimator, X)
        require_columns(values, estimator.n_features_in_)
        if len(values) != rows.size:
            msg = f"X must be the {rows.size} training rows, in their order; got {len(values)} rows."
            raise ShapeError(msg)
        names = names_of(estimator, feature_names)
        return cls(np.isnan(values), rows, estimator.cell_weight_, names, order=order).plot(ax)

    def plot(self, ax: Any = None, *, limits: RasterLimits = RasterLimits()) -> UsedCellsDisplay:
        """Draw both maps, with bars for columns above them.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw: the axes of a grid, whose place is divided. None: in a new figure.
        limits : RasterLimits
            Largest number of rows and columns of the maps; larger tables are averaged.

        Returns
        -------
        UsedCellsDisplay
            The display itself.
        """
        self.figure_, self.axes_ = panels(ax, 4, 2, (8.6, 4.8), heights=(1, 5))
        n, d = self.missing.shape
        self.row_edges_, self.column_edges_ = edges(n, limits.most_rows), edges(d, limits.most_columns)
        self.rasters_ = [
            averaged(part[self.order], self.row_edges_, self.column_edges_) for part in (self.missing, self.doubt)
        ]
        looks = (THEME.ink, THEME.accent)
        self.images_ = [self._draw_map(self.axes_[2 + k], self.rasters_[k], colour) for k, colour in enumerate(looks)]
        self._mark_rows(self.axes_[3])
        shares = (self.missing_shares, self.doubtful_shares)
        titles = (
            f"Missing: {percent(float(self.missing.mean()))} of the cells",
            f"Doubtful: {percent(self._doubtful)} of the cells" if self.judges_cells else "Rows that were not used",
        )
        self.bars_ = [self._draw_columns(self.axes_[k], shares[k], looks[k], titles[k]) for k in range(2)]
        self.axes_[3].tick_params(axis="y", labelleft=False)
        for panel in self.axes_[2:]:
            self._name_columns(panel, limits.most_names)
        return self

    @property
    def _doubtful(self) -> float:
        """Share of doubtful cells among those observed in the rows that were used."""
        counted = int((~self.missing[self.used]).sum())
        return float((self.doubt > 0.5).sum() / max(counted, 1))

    def _draw_map(self, ax: Any, raster: Array, colour: str) -> Any:
        from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

        n, d = self.missing.shape
        look = {"vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
        colours = LinearSegmentedColormap.from_list("cells", [THEME.paper, colour])
        image = ax.imshow(raster, extent=(-0.5, d - 0.5, n, 0), cmap=colours, **look)
        frame(ax, y="rows" if ax is self.axes_[2] else "")
        ax.spines[:].set(visible=True, color=THEME.rule)
        whole_numbers(ax.yaxis)
        return image

    def _mark_rows(self, ax: Any) -> None:
        """Mark the rows that were not used: a faint band over the map, and their number below it."""
        n, d = self.missing.shape
        unused = averaged(~self.used[self.order, None], self.row_edges_, edges(1, 1))[:, 0]
        bands = np.zeros((unused.size, 1, 4))
        bands[..., :3] = [int(THEME.faint[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        bands[:, 0, 3] = 0.55 * unused
        ax.imshow(bands, extent=(-0.5, d - 0.5, n, 0), aspect="auto", interpolation="nearest")
        count = int((~self.used).sum())
        words = f"{several(count, 'row')} of {n:,} not used (grey)" if count else "all rows used"
        ax.set_xlabel(words, fontsize=9)

    def _draw_columns(self, ax: Any, shares: Array, colour: str, title: str) -> Any:
        width = 0.85 if shares.size <= 60 else 1.0
        bars = ax.bar(np.arange(shares.size), 100 * shares, color=colour, width=width)
        frame(ax, title, y="%")
        ax.set_xlim(-0.5, shares.size - 0.5)
        ax.tick_params(axis="x", labelbottom=False, length=0)
        ax.set_ylim(0, max(100 * float(shares.max()) * 1.1, 1))
        ax.locator_params(axis="y", nbins=3)
        return bars

    def _name_columns(self, ax: Any, most: int) -> None:
        d = len(self.feature_names)
        most = max(most // 2, 1)  # each map has half of the width
        step = 1 if d <= most else -(-d // 8)
        places = np.arange(0, d, step)
        names = [clipped(self.feature_names[j], THEME.short_name_length) for j in places]
        steep = max(map(len, names)) * len(names) > 36
        ax.set_xticks(places, names, rotation=90 if steep else 0, fontsize=THEME.small, color=THEME.muted)
