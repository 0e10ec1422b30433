"""Loadings with their intervals, one panel for each component."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.axes import (
    THEME,
    bold_title,
    clipped,
    draw_endless,
    figure_title,
    name_lines,
    panels,
    percent,
    pyplot,
)
from probpca.displays.inputs import chosen, has_factors, require_fitted, rotation_of
from probpca.errors import ShapeError
from probpca.learning.factor.uncertainty import FactorUncertainty, factor_name
from probpca.learning.uncertainty.estimate import largest_first
from probpca.models.rotation import explained_variance

if TYPE_CHECKING:
    from typing import TypeAlias

    from probpca.learning.uncertainty.estimate import ParameterUncertainty
    from probpca.typing import Array, Index

    Uncertainty: TypeAlias = ParameterUncertainty | FactorUncertainty


class Loadings(NamedTuple):
    """The content of one panel."""

    title: str
    names: tuple[str, ...]
    values: Array  # (k,)
    low: Array  # (k,)
    high: Array  # (k,)
    n_hidden: int  # smaller loadings that are not shown

    @property
    def sure(self) -> Any:
        """Which intervals exclude zero: (k,)."""
        return (self.low > 0) | (self.high < 0)

    @property
    def unsure(self) -> Any:
        """Which intervals contain zero; neither these nor those that are unknown exclude it: (k,)."""
        return (self.low <= 0) & (self.high >= 0)


class LoadingsDisplay:
    r"""Loadings with intervals: points with bars, largest first, one panel for each component.

    The loading :math:`w_{jk}` is the change of feature j, in its units (in standard deviations after
    ``standardize=True``), when component k rises by one standard deviation. Filled points have an interval that
    excludes zero. For ``FactorAnalysis`` these are the standardized loadings on the rotated factors. Create it with
    ``from_estimator``, or with ``from_uncertainty`` if the intervals are known already.

    Attributes
    ----------
    panels : tuple of Loadings
        Loadings, intervals and names of each panel.
    figure_ : matplotlib Figure
        The figure.
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
    'PC2'
    """

    def __init__(self, panels: tuple[Loadings, ...], caption: str = "", title: str = "Loadings with intervals") -> None:
        """Store what ``plot`` draws."""
        self.panels, self.caption, self.title = panels, caption, title

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, n_draws: int = 200, random_state: Any = None, **options: Any
    ) -> LoadingsDisplay:
        """Compute the uncertainty of the loadings of a fit and draw them.

        Parameters
        ----------
        estimator : PPCA or FactorAnalysis
            A fitted estimator; its method ``uncertainty`` computes the intervals.
        X : array, sparse matrix, dataframe or None, default=None
            The training rows, which the bootstrap resamples. Not needed if ``uncertainty`` uses large-sample formulas,
            or after a fit with ``keep_source=True``. ``FactorAnalysis`` needs them only after a fit with missing cells.
        n_draws : int, default=200
            Number of bootstrap samples of ``PPCA``. Intervals of ``FactorAnalysis`` need none.
        random_state : int, RandomState, Generator or None, default=None
            Determines which rows are drawn. None: the ``random_state`` of the estimator.
        **options
            ``component``, ``feature_names``, ``level``, ``most``, ``in_order`` and ``ax`` of ``from_uncertainty``.

        Returns
        -------
        LoadingsDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "uncertainty")
        if has_factors(estimator):
            rotation = rotation_of(estimator)
            return cls.from_uncertainty(estimator.uncertainty(X), **{"rotation": rotation} | options)
        return cls.from_uncertainty(estimator.uncertainty(X, n_draws=n_draws, random_state=random_state), **options)

    @classmethod
    def from_uncertainty(  # noqa: PLR0913
        cls,
        uncertainty: Uncertainty,
        *,
        component: Any = None,
        feature_names: Any = None,
        level: float = 0.95,
        most: int = 25,
        in_order: bool = False,
        rotation: str = "",
        ax: Any = None,
    ) -> LoadingsDisplay:
        """Draw loadings with their confidence intervals.

        Parameters
        ----------
        uncertainty : ParameterUncertainty or FactorUncertainty
            The result of ``PPCA.uncertainty`` or ``FactorAnalysis.uncertainty``.
        component : int, sequence of int or None, default=None
            Components to draw, counted from 0. None: all.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        level : float, default=0.95
            Probability of the confidence intervals.
        most : int, default=25
            Number of loadings to draw for each component: the largest.
        in_order : bool, default=False
            Whether to keep the order of the columns, as suits years. False: the largest loadings come first.
        rotation : str, default=""
            Rotation of the factors, for the title.
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each component. None: in a new figure.

        Returns
        -------
        LoadingsDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        names = uncertainty.names(feature_names)
        positions = _chosen(uncertainty, component)
        shown = [largest_first(uncertainty.loadings.value[:, j], most) for j in positions]
        shown = [np.sort(features) for features in shown] if in_order else shown
        drawn = tuple(loadings_of(uncertainty, names, j, one, level) for j, one in zip(positions, shown, strict=True))
        what = "standardized loading" if isinstance(uncertainty, FactorUncertainty) else "loading"
        caption, title = f"{what} with {100 * level:.4g}% interval", f"{what.capitalize()}s with intervals"
        return cls(drawn, caption, f"{title}, {rotation}" if rotation else title).plot(ax)

    def plot(self, ax: Any = None) -> LoadingsDisplay:
        """Draw one panel for each component.

        Parameters
        ----------
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each component. None: in a new figure.

        Returns
        -------
        LoadingsDisplay
            The display itself.
        """
        self.figure_, self.axes_ = _axes(self.panels, ax)
        self.ax_ = self.axes_[0]
        for panel, place in zip(self.panels, self.axes_, strict=True):
            _draw(panel, place, self.caption)
        if ax is None:
            figure_title(self.figure_, self.title)
        return self


def loadings_of(uncertainty: Uncertainty, names: list[str], j: int, shown: Index, level: float = 0.95) -> Loadings:
    """The loadings of component j on the ``shown`` features, with their intervals."""
    values = uncertainty.loadings.value[:, j]
    low, high = (end[:, j] for end in uncertainty.loadings.interval(level))
    names_shown = tuple(names[i] for i in shown)
    hidden = values.size - shown.size
    return Loadings(_title(uncertainty, j, level), names_shown, values[shown], low[shown], high[shown], hidden)


def _title(uncertainty: Uncertainty, j: int, level: float) -> str:
    """Name of a component, and below it its variance with an interval, or its share of the variance."""
    if isinstance(uncertainty, FactorUncertainty):
        L, Phi = uncertainty.loadings.value, uncertainty.factor_correlations.value
        return f"{factor_name(j)}\n{percent(float(explained_variance(L, Phi)[j] / len(L)))} of variance"
    variance = uncertainty.explained_variance
    ends = "{:.3g} to {:.3g}".format(*(end[j] for end in variance.interval(level)))
    return f"{uncertainty.component_name(j)}\nvariance {variance.value[j]:.3g} ({ends})"


def _chosen(uncertainty: Uncertainty, component: Any) -> list[int]:
    """Positions of the given components or factors, counted from 0; all of them for None."""
    if not isinstance(uncertainty, FactorUncertainty):
        return uncertainty.chosen(component)
    q = uncertainty.loadings.value.shape[1]
    return chosen("component", range(q) if component is None else component, q)


def _axes(shown: tuple[Loadings, ...], ax: Any, across: int = 3) -> tuple[Any, Any]:
    """The given axes, or a new figure with at most ``across`` panels side by side."""
    count = len(shown)
    if ax is not None and np.size(ax) != count:
        msg = f"ax must be one Axes for each of {count} components; got {np.size(ax)}."
        raise ShapeError(msg)
    across = min(count, across)
    longest = max(len(panel.names) for panel in shown)
    labels = 0.075 * max(len(clipped(name)) for panel in shown for name in panel.names)
    size = ((3.2 + labels) * across, (0.23 * longest + 1.35) * -(-count // across))  # inches
    figure, axes = panels(ax, count, across, size)
    if ax is None:
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    return figure, axes


def _draw(panel: Loadings, ax: Any, caption: str) -> None:
    """Draw zero as a line, intervals as bars and loadings as points, pale if the interval contains zero."""
    places = np.arange(len(panel.names))
    colours = np.where(panel.unsure, THEME.unsure, THEME.ink)
    ax.axvline(0.0, color=THEME.rule, linewidth=1, zorder=0)
    ax.hlines(places, panel.low, panel.high, color=colours, linewidth=1.8)
    draw_endless(ax.axhline, places, panel.low, panel.high, color=THEME.unsure, linewidth=1.8)
    ax.scatter(panel.values, places, s=26, color=np.where(panel.sure, THEME.ink, "white"), edgecolors=colours, zorder=3)
    name_lines(ax, panel.names, fontsize=8)
    for label, unsure in zip(ax.get_yticklabels(), panel.unsure, strict=True):
        label.set_color(THEME.unsure_name if unsure else "black")
    title, _, under = panel.title.partition("\n")
    bold_title(ax, title, pad=18)
    ax.annotate(under, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=THEME.small)
    hidden = f"\n({panel.n_hidden:,} smaller loadings not shown)" if panel.n_hidden else ""
    hidden += "\n(without a line: no standard error)" if np.isnan(panel.low).any() else ""
    ax.set_xlabel(caption + hidden, fontsize=THEME.small)
    ax.xaxis.set_major_locator(pyplot().MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=THEME.rule, linewidth=0.4, alpha=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
