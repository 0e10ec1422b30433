"""Biplot: rows as points and features as arrows in the plane of two components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import (
    THEME,
    clipped,
    colour_rows,
    draw_group_regions,
    draw_groups_key,
    frame,
    label_points,
    make_room,
    name_points,
    place,
)
from probpca.displays.inputs import (
    chosen,
    component_title,
    correlations_with,
    deviations_of,
    groups_of,
    has_factors,
    names_of,
    noun_of,
    require_choice,
    require_fitted,
    require_level,
    require_same_factors,
    row_names,
    shown_loadings,
)
from probpca.displays.latent_display import MOST_GROUPS
from probpca.errors import DataError, ShapeError
from probpca.learning.uncertainty.estimate import largest_first

if TYPE_CHECKING:
    from probpca.learning.factor.uncertainty import FactorUncertainty
    from probpca.learning.uncertainty.estimate import ParameterUncertainty
    from probpca.typing import Array, Index

MEANING = {
    ("component", "loading"): "loading",
    ("component", "correlation"): "correlation with the component",
    ("factor", "loading"): "standardized loading",
    ("factor", "correlation"): "correlation with the factor",
}
"""What arrows show, by the kind of latent variables and by the units."""


class BiplotDisplay:
    r"""Biplot: rows as points at their component scores, and features as arrows at their loadings.

    A row far along an arrow has a large value of that feature: :math:`x_j \approx \mu_j + w_j^\top z`, for
    standardised columns in standard deviations. Bars at the tip of an arrow are intervals of its loadings; an arrow is
    pale if the intervals contain zero in both directions. For ``FactorAnalysis`` points are factor scores, and arrows
    loadings of the standardised columns on the rotated factors. Create it with ``from_estimator``.

    Attributes
    ----------
    scores : ndarray (n, 2)
        Component scores or factor scores of the rows.
    loadings : ndarray (n_features, 2)
        Loadings of the features, or their correlations with the components if ``units="correlation"``.
    low, high : ndarray (n_features, 2) or None
        Ends of the intervals of the loadings.
    shown : ndarray of int
        Positions of the features whose arrows are drawn, longest first.
    arrow_scale_ : float
        Length of an arrow on the axes of the scores, divided by the loading that it shows.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.
    points_, arrows_, names_, labels_ : lists of matplotlib artists
        Points of each group, arrows, names of the arrows, and labels of rows.
    group_ellipses_ : dict
        Ellipse of each group, by its position among the groups.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import BiplotDisplay, PPCA
    >>> iris = load_iris()
    >>> ppca = PPCA(n_components=2).fit(iris.data)
    >>> species = iris.target_names[iris.target]
    >>> display = BiplotDisplay.from_estimator(ppca, iris.data, feature_names=iris.feature_names, groups=species)
    >>> display.feature_names[display.shown[0]], [points.get_label() for points in display.points_]
    ('petal length (cm)', ['setosa', 'versicolor', 'virginica'])
    """

    def __init__(  # noqa: PLR0913
        self,
        scores: Array,
        loadings: Array,
        feature_names: list[str],
        *,
        interval: tuple[Array, Array] | None = None,
        labels: list[str] | None = None,
        groups: Any = None,
        units: str = "loading",
        most: int = 12,
        axis_labels: tuple[str, ...] = ("PC1", "PC2"),
        noun: str = "component",
    ) -> None:
        """Store what ``plot`` draws."""
        self.scores, self.loadings, self.feature_names = scores, loadings, feature_names
        self.low: Array | None = None if interval is None else interval[0]
        self.high: Array | None = None if interval is None else interval[1]
        self.labels = labels
        self.group = next(iter(groups_of(groups, len(scores), MOST_GROUPS)), None)
        self.units, self.axis_labels, self.noun = units, axis_labels, noun
        self.shown: Index = largest_first(np.hypot(*loadings.T), most)

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any,
        *,
        components: tuple[int, int] = (0, 1),
        uncertainty: ParameterUncertainty | FactorUncertainty | None = None,
        level: float = 0.95,
        units: str = "loading",
        feature_names: Any = None,
        labels: Any = None,
        groups: Any = None,
        group_ellipses: bool = False,
        most: int = 12,
        ax: Any = None,
    ) -> BiplotDisplay:
        """Draw rows and the longest arrows in the plane of two components.

        Parameters
        ----------
        estimator : PPCA, BayesianPCA or FactorAnalysis
            A fitted estimator.
        X : array, sparse matrix or dataframe
            Rows with the columns of the fit. NaN marks a missing cell.
        components : pair of int, default=(0, 1)
            Components on the horizontal and the vertical axis, counted from 0.
        uncertainty : ParameterUncertainty, FactorUncertainty or None, default=None
            From ``estimator.uncertainty()``: adds intervals of the loadings.
        level : float, default=0.95
            Probability of intervals and ellipses.
        units : "loading" or "correlation", default="loading"
            "correlation": the correlations of features and components. They are the loadings divided by the standard
            deviations of the features in the model, which suits features in different units; after
            ``standardize=True`` these are near 1. For ``FactorAnalysis`` "loading" is the loading of the standardised
            feature; correlations (``structure_``) differ from it only if the factors are correlated.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        labels : sequence of str, True or None, default=None
            Text beside the points, one for each row; True: the index of a pandas dataframe. Labels that would
            overlap are left out.
        groups : sequence, Series, Categorical or None, default=None
            Colour of each row: categories with a legend, or numbers (more than 20 different ones) with a colour
            bar. Rows whose group is missing are grey.
        group_ellipses : bool, default=False
            Whether to draw an ellipse for each group. It contains a share ``level`` of a Gaussian distribution with the
            mean and covariance of the component scores of the group.
        most : int, default=12
            Number of arrows to draw: the longest.
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.

        Returns
        -------
        BiplotDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "posterior")
        require_choice("units", units, ("loading", "correlation"))
        if estimator.n_components_ < 2:
            msg = (
                f"BiplotDisplay needs two {noun_of(estimator)}s; the model has 1.\n"
                "Hint: fit with n_components=2, or draw one with LatentDisplay and LoadingsDisplay."
            )
            raise ShapeError(msg)
        pair = chosen("components", components, estimator.n_components_)
        if len(pair) != 2:
            msg = f"components must be a pair; got {len(pair)}.\nHint: LatentDisplay and LoadingsDisplay can draw one."
            raise ShapeError(msg)
        scores = np.asarray(estimator.transform(X))[:, pair]
        loadings = correlations_with(estimator) if units == "correlation" else shown_loadings(estimator)
        made = cls(
            scores,
            loadings[:, pair],
            names_of(estimator, feature_names),
            interval=None if uncertainty is None else _interval(estimator, uncertainty, pair, level, units),
            labels=None if labels is None else row_names(X, labels, len(scores)),
            groups=groups,
            units=units,
            most=most,
            axis_labels=tuple(component_title(estimator, j) for j in pair),
            noun=noun_of(estimator),
        )
        return made.plot(ax, group_ellipses=group_ellipses, level=level)

    @property
    def sure(self) -> Any:
        """Whether the interval of at least one loading of each feature excludes zero: ndarray of bool (n_features,).

        True for all features if there are no intervals, and for Heywood cases, which have none.
        """
        if self.low is None or self.high is None:
            return np.ones(len(self.loadings), dtype=bool)
        return ~((self.low <= 0) & (self.high >= 0)).all(axis=1)

    def plot(self, ax: Any = None, *, group_ellipses: bool = False, level: float = 0.95) -> BiplotDisplay:
        """Draw rows as points and features as arrows.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.
        group_ellipses : bool, default=False
            Whether to draw an ellipse for each group. It contains a share ``level`` of a Gaussian distribution with the
            mean and covariance of the component scores of the group.
        level : float, default=0.95
            Share of each group that its ellipse contains.

        Returns
        -------
        BiplotDisplay
            The display itself.
        """
        given, level = ax is not None, require_level(level)
        self.figure_, self.ax_ = place(ax, (6.4, 4.8) if self.group is None else (7.4, 5.0))
        ax = self.ax_
        reach = np.abs(self.scores).max(initial=0.0) or 1.0
        longest = np.hypot(*self.loadings.T).max() or 1.0
        self.arrow_scale_ = float(0.9 * reach / longest)
        ax.axhline(0, color=THEME.rule, linewidth=0.8, zorder=0)
        ax.axvline(0, color=THEME.rule, linewidth=0.8, zorder=0)
        self.points_ = colour_rows(ax, self.scores, self.group, alpha=0.6)
        self.group_ellipses_ = draw_group_regions(ax, self.scores, self.group, level) if group_ellipses else {}
        tips = self.arrow_scale_ * self.loadings
        ax.update_datalim(1.1 * tips[self.shown])
        self.arrows_ = [self._draw_arrow(j, tips[j]) for j in self.shown]
        ax.set_aspect("equal", adjustable="datalim")
        ax.margins(0.08)
        frame(ax, "Biplot", x=self.axis_labels[0], y=self.axis_labels[1])
        self._draw_scale()
        draw_groups_key(ax, self.group, inside=given, beside_by=1.1)
        if self.group is not None and not given:
            self.figure_.draw_without_rendering()  # the key narrows the axes, in which names must find room
        drawn, names = tips[self.shown], [clipped(self.feature_names[j], THEME.short_name_length) for j in self.shown]
        make_room(ax, drawn, names, drawn[:, 0] < 0)
        self.names_ = name_points(ax, drawn, names, leftwards=drawn[:, 0] < 0, colour=THEME.ink)
        for name, j in zip(self.names_, self.shown, strict=True):
            name.set_color(THEME.ink if self.sure[j] else THEME.muted)
        labels = self.labels
        shafts = np.linspace(0, 1, 15)[:, None, None] * drawn  # (15, arrows, 2)
        self.labels_ = []
        if labels is not None:
            self.labels_ = label_points(ax, self.scores, labels, avoid=self.names_, obstacles=shafts.reshape(-1, 2))
        return self

    def _draw_arrow(self, j: int, tip: Array) -> Any:
        colour = THEME.ink if self.sure[j] else THEME.faint
        if self.low is not None and self.high is not None:
            (left, low), (right, high) = self.arrow_scale_ * self.low[j], self.arrow_scale_ * self.high[j]
            bars = {"color": colour, "alpha": 0.4, "linewidth": 1.4, "zorder": 2.5}
            self.ax_.plot([left, right], [tip[1], tip[1]], **bars)
            self.ax_.plot([tip[0], tip[0]], [low, high], **bars)
        style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
        return self.ax_.annotate("", tip, (0, 0), arrowprops=style, zorder=3)

    def _draw_scale(self) -> None:
        """Draw the axes of the arrows above and to the right."""
        factor = self.arrow_scale_
        both = (lambda score: score / factor, lambda loading: loading * factor)
        for axis in (
            self.ax_.secondary_xaxis("top", functions=both),
            self.ax_.secondary_yaxis("right", functions=both),
        ):
            # Ticks without a spine would look like a minus before the number.
            axis.tick_params(colors=THEME.ink, labelsize=THEME.small, length=0, pad=8)
            axis.spines[:].set_visible(False)
        words = f"arrows: {MEANING[self.noun, self.units]}"
        self.ax_.set_title(words, fontsize=THEME.small, color=THEME.ink, loc="right")


def _interval(estimator: Any, uncertainty: Any, pair: list[int], level: float, units: str) -> tuple[Array, Array]:
    low, high = uncertainty.loadings.interval(level)
    if max(pair) >= low.shape[1] or (units == "correlation" and len(low) != len(estimator.loadings_)):
        msg = (
            f"uncertainty must belong to this fit; got one with {low.shape[0]} features and {low.shape[1]} components."
        )
        raise ShapeError(msg)
    if has_factors(estimator):
        require_same_factors(estimator, uncertainty)
        if units == "correlation" and estimator.rotation_.is_oblique:
            msg = "intervals are those of loadings, not of correlations with oblique factors.\nHint: units='loading'."
            raise DataError(msg)
    elif units == "correlation":
        scale = deviations_of(estimator)[:, None]
        low, high = low / scale, high / scale
    return low[:, pair], high[:, pair]
