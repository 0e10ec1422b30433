"""Scree plot: variance of each component above the noise, or eigenvalues above chance, and curves of criteria."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import THEME, beside, draw_together, frame, panels, percent, plain_log, whole_numbers
from probpca.displays.inputs import (
    cells_of,
    eigenvalue_shares,
    has_factors,
    noise_along,
    own_bic,
    require_choice,
    require_columns,
    require_fitted,
    scree_of_fit,
    scree_of_rows,
)
from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from probpca.learning.selection.parallel_analysis import Scree
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

    For ``FactorAnalysis``, and by ``from_data`` before any fit, the scree plot shows the eigenvalues of the
    correlations of the columns. The dashed line is that of parallel analysis: eigenvalues above it are larger than 95%
    of those of tables of the same size with independent columns.

    Attributes
    ----------
    explained_variance : ndarray (q,)
        Variance along each component, or eigenvalues of the correlations.
    explained_variance_ratio : ndarray (q,)
        Share of the total variance that each component explains.
    noise_variance : ndarray () or (q,)
        Noise variance, one for all components or along each of them; NaN with eigenvalues of the correlations.
    by_chance : ndarray (q,) or None
        95% quantiles of the eigenvalues of independent columns.
    n_components : int
        Number of components or factors of the model, or of eigenvalues above chance.
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
        The line of the variances, and that of the noise or of chance.
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

    Parallel analysis, before any fit:

    >>> from sklearn.datasets import load_wine
    >>> display = ScreeDisplay.from_data(load_wine().data)
    >>> display.n_components, display.explained_variance[:4].round(1), display.by_chance[:4].round(1)
    (3, array([4.7, 2.5, 1.4, 0.9]), array([1.6, 1.4, 1.3, 1.2]))
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
        by_chance: Array | None = None,
        n_components: int | None = None,
    ) -> None:
        """Store what ``plot`` draws; ``other_shares`` are those of components that the model does not have."""
        self.by_chance = by_chance
        self.n_components = explained_variance.size if n_components is None else n_components
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
        scale: str | None = None,
        sample_weight: Any = None,
        ax: Any = None,
    ) -> ScreeDisplay:
        """Draw the variances of the components of a fit, or the eigenvalues of the correlations for factor analysis.

        Parameters
        ----------
        estimator : PPCA, BayesianPCA or FactorAnalysis
            A fitted estimator.
        X : array, dataframe or None, default=None
            The training rows, without missing cells. With ``units="percent"`` the components that the model leaves out
            are drawn too, in a pale colour. ``FactorAnalysis`` needs them, with or without missing cells, only after a
            fit to rows with missing cells or with more than 200 columns.
        units : "variance" or "percent", default="variance"
            "percent" draws bars of the share of the variance, and marks the number of components of the model.
        selection : Selection or None, default=None
            From ``select_n_components``: the criteria to draw below. None: in a new figure of variances BIC is drawn
            where it costs nothing, for a fit to complete rows, up to its number of components.
        uncertainty : ParameterUncertainty or None, default=None
            From ``PPCA.uncertainty``: adds intervals of the variances.
        level : float, default=0.95
            Probability of these intervals.
        scale : "log", "linear" or None, default=None
            Axis of the variances; percent are always linear. None: "log" for variances, "linear" for eigenvalues.
        sample_weight : array-like of shape (n,) or None, default=None
            For ``FactorAnalysis``: the weights that the fit had, if ``X`` is given.
        ax : matplotlib Axes, two Axes or None, default=None
            Where to draw; the second Axes is for the criteria. None: in a new figure.

        Returns
        -------
        ScreeDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_choice("units", units, ("variance", "percent"))
        require_fitted(cls, estimator, "explained_variance_ratio_")
        if has_factors(estimator):
            if uncertainty is not None:
                msg = "a scree plot of factor analysis has no intervals of eigenvalues.\nHint: omit uncertainty."
                raise DataError(msg)
            q = estimator.n_components_
            found = scree_of_fit(estimator, X, max(MOST_BARS, q + 5), sample_weight)
            made = cls._of_scree(found, q, f"{q} factor{'s' * (q > 1)} ({estimator.rule_})", selection)
            return made.plot(ax, scale=scale, units=units)
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

    @classmethod
    def from_data(  # noqa: PLR0913
        cls,
        X: Any,
        *,
        most: int = MOST_BARS,
        units: str = "variance",
        selection: Selection | None = None,
        sample_weight: Any = None,
        missing: str = "nan",
        scale: str | None = None,
        ax: Any = None,
    ) -> ScreeDisplay:
        """Draw the eigenvalues of the correlations of a table, with the threshold of parallel analysis.

        With missing cells the correlations are those of pairs of columns, scaled to be equally uncertain.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            The rows; NaN marks a missing cell.
        most : int, default=20
            Number of eigenvalues to draw: the largest.
        units : "variance" or "percent", default="variance"
            "percent": eigenvalues as a share of the variance of the standardised columns.
        selection : Selection or None, default=None
            From ``select_n_components``: criteria to draw below.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequency of each row.
        missing : "nan" or "unstored", default="nan"
            With "unstored" the cells that a sparse matrix does not store are missing too; with "nan" they are zero.
        scale : "log", "linear" or None, default=None
            Axis of the eigenvalues. None: "linear".
        ax : matplotlib Axes, two Axes or None, default=None
            Where to draw; the second Axes is for the criteria. None: in a new figure.

        Returns
        -------
        ScreeDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_choice("units", units, ("variance", "percent"))
        found = scree_of_rows(X, most, sample_weight=sample_weight, missing=missing)
        words = f"{found.n_above} above chance"
        return cls._of_scree(found, found.n_above, words, selection).plot(ax, scale=scale, units=units)

    @classmethod
    def _of_scree(cls, found: Scree, count: int, rule: str, selection: Selection | None) -> ScreeDisplay:
        """Eigenvalues of the correlations, of which ``count`` are kept for a reason."""
        more: Any = {"by_chance": found.by_chance, "n_components": count, "selection": selection, "rule": rule}
        return cls(found.values, found.values / found.n_features, np.nan, **more)

    @property
    def choices(self) -> dict[str, int]:
        """Number of components that each criterion chooses, by name; empty without criteria."""
        return {} if self.selection is None else self.selection.choices

    def plot(self, ax: Any = None, *, scale: str | None = None, units: str = "variance") -> ScreeDisplay:
        """Draw the variances, and below them the criteria if there are any.

        Parameters
        ----------
        ax : matplotlib Axes, two Axes or None, default=None
            Where to draw. With criteria, two Axes, or one that is replaced by two. None: in a new figure.
        scale : "log", "linear" or None, default=None
            Axis of the variances; percentages are always on a linear axis. None: "log" for variances, "linear" for
            eigenvalues.
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
        if self.by_chance is not None:
            self._draw_eigenvalues(self.by_chance, "linear" if bars else scale or "linear", percent=bars)
        elif bars:
            furthest = max(furthest, min(self.shares.size, MOST_BARS))
            self._draw_percent(min(self.shares.size, furthest))
        else:
            self._draw_variances(np.arange(1, q + 1), scale or "log")
        self._draw_choices()
        self.curves_ = draw_together(self.axes_[1], curves, furthest) if curves else []
        x, y = self._words(percent=bars)
        frame(self.ax_, "Scree plot", x="" if curves else x, y=y)
        for panel in self.axes_:
            panel.set_xlim(1 - max(0.5, 0.02 * furthest), furthest + (0.5 if bars else 0.4 + 0.06 * furthest))
            whole_numbers(panel.xaxis, 12)
        return self

    def _words(self, *, percent: bool) -> tuple[str, str]:
        """Labels of the axes."""
        if self.by_chance is None:
            return "component", "% of variance" if percent else "variance of the component"
        return "factor", "eigenvalue, % of variance" if percent else "eigenvalue of the correlations"

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

    def _draw_eigenvalues(self, by_chance: Array, scale: str, *, percent: bool) -> None:
        """Draw eigenvalues, filled where they are kept, and the line that they exceed by chance in 5% of all tables."""
        ax, counts = self.ax_, np.arange(1, by_chance.size + 1)
        unit = 100 * self.explained_variance_ratio[0] / self.explained_variance[0] if percent else 1.0
        values, kept = unit * self.explained_variance, counts <= self.n_components
        (self.noise_,) = ax.plot(counts, unit * by_chance, color=THEME.accent, linestyle="--", linewidth=1.2)
        (self.line_,) = ax.plot(counts, values, color=THEME.ink, linewidth=1.3)
        fill = np.where(kept, THEME.ink, "white")
        self.points_ = ax.scatter(counts, values, s=32, color=fill, edgecolors=THEME.ink, zorder=3)
        ax.set_yscale(scale)
        ax.margins(y=0.08)
        if scale == "linear":
            ax.set_ylim(bottom=0)
        top = 0.74 if self.choices else 0.97  # below the names of criteria
        if self.rule:
            ax.axvline(self.n_components + 0.5, color=THEME.ink, linewidth=0.8, linestyle=":", zorder=0)
            late = self.n_components > 0.6 * counts.size
            look = {"va": "top", "ha": "right" if late else "left", "color": THEME.ink}
            where, place = ax.get_xaxis_transform(), (self.n_components + 0.5, top)
            beside(ax, self.rule, place, (-5 if late else 5, 0), xycoords=where, **look)
        self.noise_.set_label("parallel analysis: 95% of tables\nof independent columns")
        ax.legend(handles=[self.noise_], frameon=False, fontsize=THEME.small, labelcolor=THEME.accent, loc="best")

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
