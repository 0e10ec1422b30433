"""Biplot: rows as points and features as arrows in the plane of two components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import THEME, clipped, colour_rows, frame, make_room, name_points, place
from probpca.displays.inputs import chosen, names_of, require_choice, require_fitted
from probpca.displays.latent_display import component_title
from probpca.errors import ShapeError
from probpca.learning.uncertainty.estimate import largest_first

if TYPE_CHECKING:
    from probpca.learning.uncertainty.estimate import ParameterUncertainty
    from probpca.typing import Array, Index


class BiplotDisplay:
    r"""Posterior means of two latent variables as points, and the loadings of the features as arrows.

    A row far along an arrow has a large value of that feature: :math:`x_j \approx \mu_j + w_j^\top z`, for
    standardised columns in standard deviations. Bars at the tip of an arrow are intervals of its loadings; an arrow is
    pale if they hold zero in both directions. Create it with ``from_estimator``.

    Attributes
    ----------
    scores : ndarray (n, 2)
    loadings : ndarray (n_features, 2)
        In ``units``: those of ``loadings_``, or correlations of features with latent variables.
    low, high : ndarray (n_features, 2) or None
        Ends of the intervals of the loadings.
    shown : ndarray
        Positions of the features whose arrows are drawn, longest first.
    arrow_scale_ : float
        Length of an arrow on the axes of the scores over its length in ``units``.
    figure_, ax_
        matplotlib Figure and Axes.
    points_, arrows_, names_ : lists of artists

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import BiplotDisplay, PPCA
    >>> iris = load_iris()
    >>> ppca = PPCA(n_components=2).fit(iris.data)
    >>> display = BiplotDisplay.from_estimator(ppca, iris.data, feature_names=iris.feature_names)
    >>> display.feature_names[display.shown[0]]
    'petal length (cm)'
    """

    def __init__(  # noqa: PLR0913
        self,
        scores: Array,
        loadings: Array,
        feature_names: list[str],
        *,
        interval: tuple[Array, Array] | None = None,
        labels: Any = None,
        units: str = "loading",
        most: int = 12,
        axis_labels: tuple[str, ...] = ("component 1", "component 2"),
    ) -> None:
        """Store what ``plot`` draws."""
        self.scores, self.loadings, self.feature_names = scores, loadings, feature_names
        self.low: Array | None = None if interval is None else interval[0]
        self.high: Array | None = None if interval is None else interval[1]
        self.labels = None if labels is None else np.asarray(labels)
        self.units, self.axis_labels = units, axis_labels
        self.shown: Index = largest_first(np.hypot(*loadings.T), most)

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any,
        *,
        components: tuple[int, int] = (0, 1),
        uncertainty: ParameterUncertainty | None = None,
        level: float = 0.95,
        units: str = "loading",
        feature_names: Any = None,
        labels: Any = None,
        most: int = 12,
        ax: Any = None,
    ) -> BiplotDisplay:
        """Draw rows and the ``most`` longest arrows in the plane of two ``components``, counted from 0.

        ``units="correlation"`` divides loadings by the standard deviations of the features in the model, which suits
        features in different units; after ``standardize=True`` these are near 1. ``uncertainty``, from
        ``estimator.uncertainty()``, adds intervals of the loadings at this ``level``.
        """
        require_fitted(cls, estimator, "posterior")
        require_choice("units", units, ("loading", "correlation"))
        if estimator.n_components_ < 2:
            msg = (
                "BiplotDisplay needs two components; the model has 1.\n"
                "Hint: fit with n_components=2, or draw one with LatentDisplay and LoadingsDisplay."
            )
            raise ShapeError(msg)
        pair = chosen("components", components, estimator.n_components_)
        if len(pair) != 2:
            msg = f"components must be two; got {len(pair)}.\nHint: LatentDisplay and LoadingsDisplay draw one."
            raise ShapeError(msg)
        scale = _deviations(estimator)[:, None] if units == "correlation" else 1.0
        made = cls(
            np.asarray(estimator.transform(X))[:, pair],
            estimator.loadings_[:, pair] / scale,
            names_of(estimator, feature_names),
            interval=None if uncertainty is None else _interval(uncertainty, pair, level, scale),
            labels=labels,
            units=units,
            most=most,
            axis_labels=tuple(component_title(estimator, j) for j in pair),
        )
        return made.plot(ax)

    @property
    def sure(self) -> Any:
        """Which features have a loading whose interval excludes zero; all of them without intervals: (n_features,)."""
        if self.low is None or self.high is None:
            return np.ones(len(self.loadings), dtype=bool)
        return ((self.low > 0) | (self.high < 0)).any(axis=1)

    def plot(self, ax: Any = None) -> BiplotDisplay:
        """Draw in a new figure or in ``ax``."""
        self.figure_, self.ax_ = place(ax, (6.4, 4.8))
        ax = self.ax_
        reach = np.abs(self.scores).max(initial=0.0) or 1.0
        longest = np.hypot(*self.loadings.T).max() or 1.0
        self.arrow_scale_ = float(0.9 * reach / longest)
        ax.axhline(0, color=THEME.rule, linewidth=0.8, zorder=0)
        ax.axvline(0, color=THEME.rule, linewidth=0.8, zorder=0)
        self.points_ = colour_rows(ax, self.scores, self.labels)
        for points in self.points_:
            points.set_alpha(0.5)
        tips = self.arrow_scale_ * self.loadings
        ax.update_datalim(1.1 * tips[self.shown])
        self.arrows_ = [self._draw_arrow(j, tips[j]) for j in self.shown]
        ax.set_aspect("equal", adjustable="datalim")
        ax.margins(0.08)
        drawn, names = tips[self.shown], [clipped(self.feature_names[j], THEME.short_name_length) for j in self.shown]
        make_room(ax, drawn, names, drawn[:, 0] < 0)
        self.names_ = name_points(ax, drawn, names, leftwards=drawn[:, 0] < 0, colour=THEME.ink)
        for name, j in zip(self.names_, self.shown, strict=True):
            name.set_color(THEME.ink if self.sure[j] else THEME.muted)
        frame(ax, x=self.axis_labels[0], y=self.axis_labels[1])
        self._draw_scale()
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
            axis.tick_params(colors=THEME.ink, labelsize=THEME.small)
            axis.spines[:].set_visible(False)
        words = "correlation with the component" if self.units == "correlation" else "loading"
        self.ax_.set_title(words, fontsize=THEME.small, color=THEME.ink, loc="right")


def _deviations(estimator: Any) -> Array:
    """Standard deviations of the features in the model, in the units of ``loadings_``: (d,)."""
    deviations = np.sqrt(estimator.model_.covariance.diag())
    return deviations if estimator.scale_ is None else deviations / estimator.scale_


def _interval(uncertainty: ParameterUncertainty, pair: list[int], level: float, scale: Any) -> tuple[Array, Array]:
    low, high = uncertainty.loadings.interval(level)
    if max(pair) >= low.shape[1] or (np.ndim(scale) and len(low) != len(scale)):
        msg = f"uncertainty is of {low.shape[0]} features and {low.shape[1]} components: those of another fit."
        raise ShapeError(msg)
    return low[:, pair] / scale, high[:, pair] / scale
