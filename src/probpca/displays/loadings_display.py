"""Loadings and how sure they are, one panel for each component."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.axes import clipped, draw_endless, pyplot
from probpca.displays.inputs import require_fitted
from probpca.errors import ShapeError
from probpca.learning.uncertainty.estimate import largest_first

if TYPE_CHECKING:
    from probpca.learning.uncertainty.estimate import ParameterUncertainty
    from probpca.typing import Array, Index

SURE, UNSURE, LINE = "#33415c", "#9aa5b8", "#c8ced8"
MOST = 25
"""Features that are shown of one component."""
WIDTH, ROW, HEAD = 3.2, 0.23, 1.35
"""Of a panel, of one feature in it, and of what stands above and below, in inches."""
N_DRAWS = 200
"""Resampled fits, where intervals need them."""
ACROSS = 3
"""Panels in a row of the figure."""


class Loadings(NamedTuple):
    """What one panel shows."""

    title: str
    names: tuple[str, ...]
    values: Array  # (k,)
    low: Array  # (k,)
    high: Array  # (k,)
    n_hidden: int  # smaller loadings that are not shown

    @property
    def sure(self) -> Any:
        """Which intervals do not hold zero: (k,)."""
        return (self.low > 0) | (self.high < 0)


class LoadingsDisplay:
    """Loadings as points with bars for their intervals, largest first, one panel for each component.

    Filled points have an interval that does not hold zero. Make it with ``from_estimator``, or if the intervals
    are known already with ``from_uncertainty``.

    Attributes
    ----------
    panels : tuple of Loadings
        What is drawn.
    figure_ : matplotlib Figure
    axes_ : ndarray of Axes
        One for each component; the first is ``ax_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import LoadingsDisplay, PPCA
    >>> iris = load_iris()
    >>> sure = PPCA(n_components=2).fit(iris.data).uncertainty()
    >>> display = LoadingsDisplay.from_uncertainty(sure, feature_names=iris.feature_names)
    >>> display.panels[0].names[0]
    'petal length (cm)'
    >>> ppca = PPCA(n_components=2).fit(iris.data)
    >>> display = LoadingsDisplay.from_estimator(ppca, iris.data, n_draws=20, random_state=0, component=1)
    >>> display.ax_.get_title(loc="left")
    'component 2'
    """

    def __init__(self, panels: tuple[Loadings, ...], caption: str = "") -> None:
        """Remember what is to be drawn; ``plot`` draws it."""
        self.panels, self.caption = panels, caption

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any = None,
        *,
        n_draws: int = N_DRAWS,
        random_state: Any = None,
        component: Any = None,
        feature_names: Any = None,
        level: float = 0.95,
        most: int = MOST,
        in_order: bool = False,
        ax: Any = None,
    ) -> LoadingsDisplay:
        """Ask a fit for its ``uncertainty``, and draw it as ``from_uncertainty`` does.

        ``X`` are the rows of the fit, to be resampled ``n_draws`` times; many complete rows need not be given.
        """
        require_fitted(cls, estimator, "uncertainty")
        return cls.from_uncertainty(
            estimator.uncertainty(X, n_draws=n_draws, random_state=random_state),
            component=component,
            feature_names=feature_names,
            level=level,
            most=most,
            in_order=in_order,
            ax=ax,
        )

    @classmethod
    def from_uncertainty(  # noqa: PLR0913
        cls,
        uncertainty: ParameterUncertainty,
        *,
        component: Any = None,
        feature_names: Any = None,
        level: float = 0.95,
        most: int = MOST,
        in_order: bool = False,
        ax: Any = None,
    ) -> LoadingsDisplay:
        """Draw the ``most`` largest loadings of all components, or of those whose positions, from 0, are given.

        The largest stand first; with ``in_order`` they stand as the columns of the table do, which suits years.
        """
        names = uncertainty.names(feature_names)
        chosen = uncertainty.chosen(component)
        shown = [largest_first(uncertainty.loadings.value[:, j], most) for j in chosen]
        shown = [np.sort(features) for features in shown] if in_order else shown
        panels = tuple(
            loadings_of(uncertainty, names, j, features, level) for j, features in zip(chosen, shown, strict=True)
        )
        return cls(panels, f"loading, and its {100 * level:.4g} % interval").plot(ax)

    def plot(self, ax: Any = None) -> LoadingsDisplay:
        """Draw in a new figure, or in the given axes: as many as there are components."""
        self.figure_, self.axes_ = _axes(self.panels, ax)
        self.ax_ = self.axes_[0]
        for panel, place in zip(self.panels, self.axes_, strict=True):
            _draw(panel, place, self.caption)
        return self


def loadings_of(
    uncertainty: ParameterUncertainty, names: list[str], j: int, shown: Index, level: float = 0.95
) -> Loadings:
    """Some loadings of component j with their intervals."""
    values = uncertainty.loadings.value[:, j]
    low, high = (end[:, j] for end in uncertainty.loadings.interval(level))
    variance = uncertainty.explained_variance
    ends = "{:.3g} .. {:.3g}".format(*(end[j] for end in variance.interval(level)))
    title = f"component {j + 1}\nvariance {variance.value[j]:.3g}  ({ends})"
    names_shown = tuple(names[i] for i in shown)
    return Loadings(title, names_shown, values[shown], low[shown], high[shown], values.size - shown.size)


def _axes(panels: tuple[Loadings, ...], ax: Any) -> tuple[Any, Any]:
    count = len(panels)
    if ax is not None:
        given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if given.size != count:
            msg = f"ax must be one Axes for each of {count} components; got {given.size}."
            raise ShapeError(msg)
        return given[0].figure, given
    columns = min(count, ACROSS)
    rows = -(-count // columns)
    longest = max(len(panel.names) for panel in panels)
    labels = 0.075 * max(len(clipped(name)) for panel in panels for name in panel.names)
    size = ((WIDTH + labels) * columns, (ROW * longest + HEAD) * rows)
    figure, grid = pyplot().subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    axes = grid.ravel()
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def _draw(panel: Loadings, ax: Any, caption: str) -> None:
    """Zero as a line, intervals as bars, loadings as points; what may be zero is pale."""
    places = np.arange(len(panel.names))
    colours = np.where(panel.sure, SURE, UNSURE)
    ax.axvline(0.0, color=LINE, linewidth=1, zorder=0)
    ax.hlines(places, panel.low, panel.high, color=colours, linewidth=1.8)
    draw_endless(ax.axhline, places, panel.low, panel.high, color=UNSURE, linewidth=1.8)
    ax.scatter(panel.values, places, s=26, color=np.where(panel.sure, SURE, "white"), edgecolors=colours, zorder=3)
    ax.set_yticks(places, [clipped(name) for name in panel.names], fontsize=8)
    for label, sure in zip(ax.get_yticklabels(), panel.sure, strict=True):
        label.set_color("black" if sure else "#6b7280")
    ax.set_ylim(len(places) - 0.4, -0.6)
    title, _, under = panel.title.partition("\n")
    ax.set_title(title, loc="left", fontsize=11, color=SURE, fontweight="bold", pad=18)
    ax.annotate(under, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=8.5)
    hidden = f"\n{panel.n_hidden} smaller ones are not shown" if panel.n_hidden else ""
    ax.set_xlabel(caption + hidden, fontsize=8.5)
    ax.xaxis.set_major_locator(pyplot().MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=LINE, linewidth=0.4, alpha=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
