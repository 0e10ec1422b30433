"""Heat map of standardized loadings, with columns in the order of the factor on which they load most."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import (
    THEME,
    bold_title,
    clipped,
    draw_cells,
    figure_title,
    name_lines,
    place,
    signed_colours,
)
from probpca.displays.inputs import (
    by_structure,
    chosen,
    component_title,
    has_factors,
    listed,
    names_of,
    require_choice,
    require_fitted,
    rotation_of,
    standardized_loadings,
)
from probpca.errors import ShapeError
from probpca.result_tables import default_names

if TYPE_CHECKING:
    from probpca.typing import Array, Index


class LoadingsHeatmapDisplay:
    r"""Heat map of standardized loadings: a line for each column of the table, and a cell for each factor.

    Columns stand together with the others that load most on the same factor, largest loadings first, so that simple
    structure shows as blocks. A standardized loading is the change of a column, in standard deviations, when the factor
    rises by one; for uncorrelated factors, and for components of PCA, it is their correlation. The uniqueness of a
    column is the share of its variance that is noise. Create it with ``from_estimator``, or with ``from_loadings``
    for loadings that were rotated by ``probpca.models.rotate``.

    Attributes
    ----------
    loadings : ndarray (n_features, n_components)
        Standardized loadings.
    uniquenesses : ndarray (n_features,) or None
        Uniqueness of each column; None for principal components.
    order : ndarray of int
        Positions of the columns that are drawn, from top to bottom.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.
    image_ : matplotlib QuadMesh
        The cells of the loadings.
    numbers_ : list of matplotlib artists
        Numbers in the cells.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from probpca import FactorAnalysis, LoadingsHeatmapDisplay
    >>> wine = load_wine(as_frame=True).data
    >>> factors = FactorAnalysis(n_components=3, rotation="varimax").fit(wine)
    >>> display = LoadingsHeatmapDisplay.from_estimator(factors)
    >>> [display.feature_names[j] for j in display.order[:3]], display.title
    (['flavanoids', 'od280/od315_of_diluted_wines', 'total_phenols'], 'Standardized loadings, varimax rotation')
    """

    def __init__(  # noqa: PLR0913
        self,
        loadings: Array,
        feature_names: list[str],
        component_names: list[str],
        *,
        uniquenesses: Array | None = None,
        heywood: Any = (),
        in_order: bool = False,
        most: int = 40,
        title: str = "Standardized loadings",
    ) -> None:
        """Store what ``plot`` draws; ``heywood`` are the positions of columns without noise."""
        self.loadings, self.uniquenesses, self.heywood = loadings, uniquenesses, [int(j) for j in heywood]
        self.feature_names, self.component_names, self.title = feature_names, component_names, title
        largest = np.argsort(-np.abs(loadings).max(axis=1), kind="stable")[:most]
        self.order: Index = np.sort(largest) if in_order else by_structure(loadings, largest)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        components: Any = None,
        feature_names: Any = None,
        in_order: bool = False,
        most: int = 40,
        ax: Any = None,
    ) -> LoadingsHeatmapDisplay:
        """Draw the standardized loadings of a fit.

        Parameters
        ----------
        estimator : FactorAnalysis, PPCA or BayesianPCA
            A fitted estimator.
        components : int, sequence of int or None, default=None
            Factors or components to draw, counted from 0. None: all.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        in_order : bool, default=False
            Whether to keep the order of the table. False: columns that load most on the same factor stand together.
        most : int, default=40
            Number of columns to draw: those with the largest loadings.
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.

        Returns
        -------
        LoadingsHeatmapDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "loadings_", "explained_variance_ratio_")
        q, factors = estimator.n_components_, has_factors(estimator)
        shown = chosen("components", range(q) if components is None else components, q)
        made = cls(
            standardized_loadings(estimator)[:, shown],
            names_of(estimator, feature_names),
            [component_title(estimator, j).replace(" (", "\n").removesuffix(" of variance)") for j in shown],
            uniquenesses=estimator.uniquenesses_ if factors else None,
            heywood=estimator.heywood_features_ if factors else (),
            in_order=in_order,
            most=most,
            title=", ".join(filter(None, ["Standardized loadings", rotation_of(estimator)])),
        )
        return made.plot(ax)

    @classmethod
    def from_loadings(  # noqa: PLR0913
        cls,
        loadings: Any,
        *,
        feature_names: Any = None,
        component_names: Any = None,
        in_order: bool = False,
        most: int = 40,
        title: str = "Standardized loadings",
        ax: Any = None,
    ) -> LoadingsHeatmapDisplay:
        """Draw given loadings, such as those that ``probpca.models.rotate`` has rotated.

        Parameters
        ----------
        loadings : array-like of shape (n_features, n_components)
            Loadings of standardized columns.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: x0, x1, ...
        component_names : sequence of str or None, default=None
            Names of the factors. None: F1, F2, ...
        in_order : bool, default=False
            Whether to keep the order of the rows. False: columns that load most on the same factor stand together.
        most : int, default=40
            Number of columns to draw: those with the largest loadings.
        title : str, default="Standardized loadings"
            Title of the figure.
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.

        Returns
        -------
        LoadingsHeatmapDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        L = np.asarray(loadings, dtype=np.float64)
        if L.ndim != 2 or not L.size:
            msg = f"loadings must be a matrix with a line for each column of the table; got shape {L.shape}."
            raise ShapeError(msg)
        d, q = L.shape
        features = default_names(d) if feature_names is None else listed("feature_names", feature_names, d)
        factors = [f"F{k + 1}" for k in range(q)] if component_names is None else component_names
        names = listed("component_names", factors, q)
        return cls(L, features, names, in_order=in_order, most=most, title=title).plot(ax)

    def plot(self, ax: Any = None, *, numbers: str = "auto") -> LoadingsHeatmapDisplay:
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.
        numbers : "auto", "all" or "none", default="auto"
            Whether to write the loadings into their cells. "auto": with up to 60 columns and 12 factors.

        Returns
        -------
        LoadingsHeatmapDisplay
            The display itself.
        """
        require_choice("numbers", numbers, ("auto", "all", "none"))
        given, shown = ax is not None, self.loadings[self.order]
        (k, q), extra = shown.shape, self.uniquenesses is not None
        written = numbers == "all" or (numbers == "auto" and k <= 60 and q <= 12)
        self.figure_, self.ax_ = place(ax, self._size(k, q + 1.3 * extra))
        ax, self.numbers_ = self.ax_, []
        self.image_, drawn = draw_cells(
            ax, shown, signed_colours(), max(1.0, float(np.abs(shown).max())), written=written
        )
        self.numbers_ += drawn
        self._draw_uniquenesses(q, written=written)
        ax.set_xticks([*np.arange(q), *([q + 0.3] if extra else [])], self._heads(), fontsize=THEME.small)
        name_lines(ax, [self.feature_names[j] for j in self.order], fontsize=THEME.small)
        ax.set(xlim=(-0.5, q - 0.5 + 1.3 * extra), ylim=(k - 0.5, -0.5))
        ax.tick_params(length=0, labeltop=True, labelbottom=False)
        ax.spines[:].set_visible(False)
        ax.set_xlabel(self._note(), fontsize=THEME.small, color=THEME.accent if self.heywood else THEME.muted)
        if not written:
            self.figure_.colorbar(self.image_, ax=ax, shrink=0.5, label="standardized loading")
        if given:
            bold_title(ax, self.title, THEME.title_length, pad=12)
        else:
            figure_title(self.figure_, self.title)
        return self

    def _size(self, lines: int, across: float) -> tuple[float, float]:
        """Width and height of the figure, in inches."""
        longest = max(len(clipped(self.feature_names[j])) for j in self.order)
        return max(0.085 * longest + 0.68 * across + 0.4, 4.6), 0.25 * lines + 1.5

    def _heads(self) -> list[str]:
        heads = [clipped(name) if "\n" not in name else name for name in self.component_names]
        return heads if self.uniquenesses is None else [*heads, "unique-\nness"]

    def _draw_uniquenesses(self, q: int, *, written: bool) -> None:
        """Draw the uniquenesses in grey beside the loadings, those of Heywood cases in another colour."""
        if self.uniquenesses is None:
            return
        shown = self.uniquenesses[self.order, None]
        _, drawn = draw_cells(self.ax_, shown, [THEME.paper, THEME.faint], 1.0, written=written, at=q + 0.3, lowest=0.0)
        for text, j in zip(drawn, self.order, strict=False):
            if j in self.heywood:
                text.set(color=THEME.accent, fontweight="bold")
        self.numbers_ += drawn

    def _note(self) -> str:
        """What is not drawn, and which columns are Heywood cases, in lines as wide as the figure."""
        notes: list[str] = []
        hidden = len(self.loadings) - self.order.size
        if hidden:
            notes.append(f"({hidden:,} more columns with smaller loadings not shown)")
        if self.heywood:
            names = [clipped(self.feature_names[j], THEME.short_name_length) for j in self.heywood]
            said = f"Heywood: no noise in {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
            notes += wrap(said, int(8 * self.figure_.get_size_inches()[0]))
        return "\n".join(notes)
