"""Scree plot: variance of each component above the noise, and the curves of criteria."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import THEME, beside, draw_together, frame, panels, percent, plain_log, whole_numbers
from probpca.displays.inputs import (
    cells_of,
    eigenvalue_shares,
    noise_along,
    own_bic,
    require_choice,
    require_columns,
    require_fitted,
)
from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from probpca.learning.selection.result import Criterion, Selection
    from probpca.learning.uncertainty.estimate import ParameterUncertainty
    from probpca.typing import Array

MOST_NUMBERS = 15
"""Components whose percent are written above their bars."""
MOST_BARS = 20
"""Components that are drawn in percent."""


class ScreeDisplay:
    r"""Scree plot: the variance of each component, absolute or in percent, and the curves of selection criteria.

    .. math:: \lambda_k = \lVert w_k \rVert^2 + \sigma^2, \qquad \text{share}_k = \lambda_k / \operatorname{tr} C

    The dashed line is the noise variance :math:`\sigma^2`, which a component exceeds by its loadings; where features
    have their own noise, each component has its own line. Below are the curves of the criteria, each on its own scale,
    with rings around their choices. Create it with ``from_estimator``.

    Attributes
    ----------
    explained_variance : ndarray (q,)
        Variance along each component.
    explained_variance_ratio : ndarray (q,)
        Share of the total variance that each component explains.
    noise_variance : ndarray () or (q,)
        Noise variance, one for all components or along each of them.
    interval : tuple of ndarray (q,), or None
        Lower and upper ends of confidence intervals of the variances.
    selection : Selection or None
        The criteria and their choices.
    choices : dict
        Choice of each criterion, empty without criteria.
    shares : ndarray
        Shares of the variance of the components that are drawn in percent: those of the model first.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes of the variances.
    axes_ : ndarray of Axes
        All axes; the second is that of the criteria, if there are any.
    line_, noise_ : matplotlib artists
        The line of the variances and that of the noise.
    curves_ : list of artists
        One for each criterion that has a curve.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import PPCA, ScreeDisplay, select_n_components
    >>> X = load_iris().data
    >>> display = ScreeDisplay.from_estimator(PPCA(n_components=3).fit(X))
    >>> display.explained_variance_ratio.round(3)
    array([0.925, 0.053, 0.017])
    >>> found = select_n_components(X, ["bic", "cv", "parallel"], random_state=0)
    >>> display = ScreeDisplay.from_estimator(PPCA(n_components=3).fit(X), selection=found)
    >>> [curve.get_label() for curve in display.curves_], display.choices
    (['bic', 'cv', 'parallel'], {'bic': 3, 'cv': 3, 'parallel': 1})

    All components in percent of the variance, with those of the model in dark:

    >>> display = ScreeDisplay.from_estimator(PPCA(n_components=2).fit(X), X, units="percent")
    >>> (100 * display.shares).round(1)
    array([92.5,  5.3,  1.7,  0.5])
    """

    def __init__(  # noqa: PLR0913
        self,
        explained_variance: Array,
        explained_variance_ratio: Array,
        noise_variance: Any,
        *,
        interval: tuple[Array, Array] | None = None,
        selection: Selection | None = None,
        other_shares: Array | None = None,
        rule: str = "",
    ) -> None:
        """Store what ``plot`` draws; ``other_shares`` are those of components that the model does not have."""
        self.shares: Array = np.append(explained_variance_ratio, [] if other_shares is None else other_shares)
        self.rule = rule
        self.explained_variance, self.explained_variance_ratio = explained_variance, explained_variance_ratio
        self.noise_variance = np.asarray(noise_variance, dtype=np.float64)
        self.interval, self.selection = interval, selection

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any = None,
        *,
        units: str = "variance",
        selection: Selection | None = None,
        uncertainty: ParameterUncertainty | None = None,
        level: float = 0.95,
        scale: str = "log",
        ax: Any = None,
    ) -> ScreeDisplay:
        """Draw the variances of the components of a fit.

        Parameters
        ----------
        estimator : PPCA or BayesianPCA
            A fitted estimator.
        X : array, dataframe or None, default=None
            The training rows, without missing cells. With ``units="percent"`` the components that the model leaves out
            are drawn too, in a pale colour.
        units : "variance" or "percent", default="variance"
            "percent" draws bars of the share of the variance, and marks the number of components of the model.
        selection : Selection or None, default=None
            From ``select_n_components``: the criteria to draw below. None: in a new figure of variances BIC is drawn
            where it costs nothing, for a fit to complete rows, up to its number of components.
        uncertainty : ParameterUncertainty or None, default=None
            From ``estimator.uncertainty()``: adds intervals of the variances.
        level : float, default=0.95
            Probability of these intervals.
        scale : "log" or "linear", default="log"
            Axis of the variances; percent are always linear.
        ax : matplotlib Axes, two Axes or None, default=None
            Where to draw; the second Axes is for the criteria. None: in a new figure.

        Returns
        -------
        ScreeDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_choice("units", units, ("variance", "percent"))
        require_fitted(cls, estimator, "explained_variance_ratio_")
        variance = estimator.explained_variance_
        interval = None
        if uncertainty is not None:
            interval = uncertainty.explained_variance.interval(level)
            if interval[0].shape != variance.shape:
                msg = f"uncertainty must have {variance.size} components, as the estimator has; got {interval[0].size}."
                raise ShapeError(msg)
        if selection is None and units == "variance" and (ax is None or np.size(ax) > 1):
            selection = own_bic(estimator)
        made = cls(
            variance,
            estimator.explained_variance_ratio_,
            noise_along(estimator),
            interval=interval,
            selection=selection,
            other_shares=None if X is None else _other_shares(estimator, X),
            rule=estimator.rule_,
        )
        return made.plot(ax, scale=scale, units=units)

    @property
    def choices(self) -> dict[str, int]:
        """Number of components that each criterion chooses, by name; empty without criteria."""
        return {} if self.selection is None else self.selection.choices

    def plot(self, ax: Any = None, *, scale: str = "log", units: str = "variance") -> ScreeDisplay:
        """Draw the variances, and below them the criteria if there are any.

        Parameters
        ----------
        ax : matplotlib Axes, two Axes or None, default=None
            Where to draw. With criteria, two Axes, or one that is replaced by two. None: in a new figure.
        scale : "log" or "linear", default="log"
            Axis of the variances; percentages are always on a linear axis.
        units : "variance" or "percent", default="variance"
            Whether to draw variances, or bars of their share of the total variance.

        Returns
        -------
        ScreeDisplay
            The display itself.
        """
        curves = self._with_curves()
        count, size, heights = (2, (6.4, 5.6), (3, 2)) if curves else (1, THEME.figure, None)
        self.figure_, self.axes_ = panels(ax, count, 1, size, share=True, heights=heights)
        self.ax_, q = self.axes_[0], self.explained_variance.size
        furthest = self._furthest(curves)
        bars = units == "percent"
        if bars:
            furthest = max(furthest, min(self.shares.size, MOST_BARS))
            self._draw_percent(min(self.shares.size, furthest))
        else:
            self._draw_variances(np.arange(1, q + 1), scale)
        self._draw_choices()
        self.curves_ = draw_together(self.axes_[1], curves, furthest) if curves else []
        words = "% of variance" if bars else "variance of the component"
        frame(self.ax_, "Scree plot", x="" if curves else "component", y=words)
        for panel in self.axes_:
            panel.set_xlim(1 - max(0.5, 0.02 * furthest), furthest + (0.5 if bars else 0.4 + 0.06 * furthest))
            whole_numbers(panel.xaxis, 12)
        return self

    def _with_curves(self) -> list[Criterion]:
        """Criteria with a curve of two or more values."""
        return [] if self.selection is None else [c for c in self.selection.criteria if c.score.size > 1]

    def _furthest(self, curves: list[Criterion], after: int = 2) -> int:
        """The last component of the axes: all that were fitted or chosen, and ``after`` more of curves."""
        beyond = [min(c.choice + after, int(c.n_components[-1])) for c in curves if c.choice is not None]
        return max([self.explained_variance.size, *self.choices.values(), *beyond])

    def _draw_variances(self, counts: Any, scale: str) -> None:
        ax = self.ax_
        self.noise_ = self._draw_noise(counts)
        (self.line_,) = ax.plot(counts, self.explained_variance, "-o", color=THEME.ink, linewidth=1.3, markersize=5)
        if self.interval is not None:
            ax.vlines(counts, *self.interval, color=THEME.ink, linewidth=2.5, alpha=0.35)
        ax.set_yscale(scale)
        ax.margins(y=0.12)
        if scale == "log":
            plain_log(ax.yaxis, self.noise_variance.min(), self.explained_variance.max())
        self._draw_shares(counts)

    def _draw_percent(self, count: int) -> None:
        """Draw bars of the shares of the variance, those of the model dark, with the noise and the chosen number."""
        ax, q = self.ax_, self.explained_variance.size
        counts, heights = np.arange(1, count + 1), 100 * self.shares[:count]
        self.bars_ = ax.bar(counts, heights, width=0.7, color=np.where(counts <= q, THEME.ink, THEME.rule))
        (self.line_,) = ax.plot(counts, heights, "-o", color=THEME.faint, linewidth=1.1, markersize=3)
        total = self.explained_variance[0] / self.explained_variance_ratio[0]
        if self.interval is not None:
            ax.vlines(counts[:q], *(100 * end / total for end in self.interval), color=THEME.accent, linewidth=1.6)
        tops = heights if self.interval is None else np.append(100 * self.interval[1] / total, heights[q:])
        for j in range(count if count <= MOST_NUMBERS else 0):
            beside(ax, f"{heights[j]:.1f}", (counts[j], tops[j]), (0, 4), ha="center")
        ax.margins(y=0.12)
        if self.rule:
            ax.axvline(q + 0.5, color=THEME.accent, linewidth=1, linestyle="--")
            together = percent(float(self.explained_variance_ratio.sum()))
            words = f"{q} component{'s' * (q > 1)} ({self.rule}):\n{together} of variance"
            where = ax.get_xaxis_transform()
            beside(ax, words, (q + 0.5, 0.97), (5, 0), xycoords=where, va="top", color=THEME.accent)

    def _draw_noise(self, counts: Any) -> Any:
        """Draw one line for all components, or one for each if features have their own noise."""
        look = {"color": THEME.faint, "linestyle": "--", "linewidth": 1.2}
        noise, where = self.noise_variance, self.ax_.get_yaxis_transform()
        if noise.ndim == 0:
            drawn = self.ax_.axhline(float(noise), **look)
        else:
            drawn = self.ax_.hlines(noise, counts - 0.4, counts + 0.4, **look)
        beside(self.ax_, "noise", (1, noise.flat[-1]), (-2, -3), xycoords=where, ha="right", va="top")
        return drawn

    def _draw_shares(self, counts: Any, most: int = 15) -> None:
        """Write the cumulative share of variance beside each component, if there are at most ``most``."""
        if counts.size > most:
            return
        together = np.cumsum(self.explained_variance_ratio)
        tops = self.explained_variance if self.interval is None else self.interval[1]
        for j in range(counts.size):
            beside(self.ax_, percent(together[j]), (counts[j], tops[j]), (4, 4))
        beside(self.ax_, "% of variance (cumulative)", (1, 1), (-2, -3), xycoords="axes fraction", ha="right", va="top")

    def _draw_choices(self) -> None:
        where = self.ax_.get_xaxis_transform()
        for count in sorted(set(self.choices.values())):
            names = "\n".join(name for name, choice in self.choices.items() if choice == count)
            for panel in self.axes_:
                panel.axvline(count, color=THEME.accent, linewidth=0.9, alpha=0.6, zorder=0)
            beside(self.ax_, names, (count, 0.99), (3, 0), xycoords=where, va="top", color=THEME.accent)


def _other_shares(estimator: Any, X: Any) -> Array:
    """Shares of the variance of the components that the model does not have, from complete rows: (m,)."""
    cells = cells_of(estimator, X)
    require_columns(cells, estimator.n_features_in_)
    if np.isnan(cells).any():
        msg = (
            "X must not have missing cells: the variances of further components need complete rows.\n"
            "Hint: leave X out to draw the components of the model only."
        )
        raise DataError(msg)
    return eigenvalue_shares(cells if estimator.scale_ is None else cells / estimator.scale_)[estimator.n_components_ :]
