"""Component scores of rows, with regions of their posteriors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import (
    THEME,
    beside,
    colour_rows,
    draw_group_regions,
    draw_groups_key,
    ellipse,
    frame,
    half_sides,
    label_points,
    name_points,
    place,
    region_of,
    whole_numbers,
)
from probpca.displays.inputs import (
    by_name,
    chosen,
    component_title,
    groups_of,
    has_factors,
    noun_of,
    require_fitted,
    require_level,
    row_names,
)
from probpca.errors import DataError, ShapeError
from probpca.inference.posteriors import posterior_covariance
from probpca.models.gaussian import central_interval

if TYPE_CHECKING:
    from probpca.typing import Array, Index

MOST_GROUPS = 20
"""Categories with a colour of their own; the rarest of more are drawn as one, "other"."""


class LatentDisplay:
    r"""Score plot: component scores or factor scores of rows, with their uncertainty.

    The score of a row is the posterior mean m of its latent variables z; in ``FactorAnalysis`` these are the rotated
    factors. Its region is the ellipse that contains z with probability ``level``; P is the posterior covariance:

    .. math:: (z - m)^\top P^{-1} (z - m) \le \chi^2_{2, \text{level}}

    Complete rows share one posterior covariance, whose region is drawn once, in a corner. A row with missing cells has
    its own. With one component rows are sorted by it, with intervals. Create it with ``from_estimator``.

    Attributes
    ----------
    mean : ndarray (n, 2) or (n, 1)
        Component scores or factor scores of the rows.
    covariance : ndarray (n, 2, 2) or (n, 1, 1)
        Posterior covariance of each row.
    shared : ndarray (2, 2) or None
        The posterior covariance that all complete rows share.
    prior : ndarray (2, 2)
        Covariance of the latent variables of a row without observed cells: the correlations of oblique factors, and
        otherwise the identity.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.
    points_ : list of matplotlib artists
        Points of each group.
    ellipses_ : dict
        Ellipse of each row that has one drawn, by its position; ``key_`` is that of complete rows.
    group_ellipses_ : dict
        Ellipse of each group, by its position among the groups.
    labels_ : list of artists
        Labels that are drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import LatentDisplay, PPCA
    >>> iris = load_iris()
    >>> species = iris.target_names[iris.target]
    >>> ppca = PPCA(n_components=2).fit(iris.data)
    >>> display = LatentDisplay.from_estimator(ppca, iris.data, groups=species, group_ellipses=True)
    >>> display.mean.shape, [points.get_label() for points in display.points_]
    ((150, 2), ['setosa', 'versicolor', 'virginica'])
    >>> display.ax_.get_xlabel()
    'PC1 (92.5% of variance)'
    """

    def __init__(  # noqa: PLR0913
        self,
        mean: Array,
        covariance: Array,
        *,
        shared: Array | None = None,
        labels: list[str] | None = None,
        groups: Any = None,
        axis_labels: tuple[str, ...] = ("PC1", "PC2"),
        prior: Array | None = None,
        noun: str = "component",
    ) -> None:
        """Store what ``plot`` draws; ``noun`` is what a latent variable is called."""
        self.mean, self.covariance, self.shared, self.noun = mean, covariance, shared, noun
        self.prior: Array = np.eye(mean.shape[1]) if prior is None else prior
        self.labels = [str(i) for i in range(len(mean))] if labels is None else labels
        self.group = next(iter(groups_of(groups, len(mean), MOST_GROUPS)), None)
        self.axis_labels = axis_labels

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any,
        *,
        components: Any = None,
        labels: Any = None,
        groups: Any = None,
        annotate: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> LatentDisplay:
        """Draw rows by one or two of their components, counted from 0.

        Parameters
        ----------
        estimator : PPCA, BayesianPCA or FactorAnalysis
            A fitted estimator.
        X : array, sparse matrix or dataframe
            Rows with the columns of the fit. NaN marks a missing cell.
        components : int, pair of int or None, default=None
            Components to draw, counted from 0. None: the first two.
        labels : sequence of str, True or None, default=None
            Text beside the points, one for each row; True: the index of a pandas dataframe. Labels that would
            overlap are left out.
        groups : sequence, Series, Categorical or None, default=None
            Colour of each row: categories with a legend, or numbers (more than 20 different ones) with a colour
            bar. Rows whose group is missing are grey.
        annotate : positions, labels or None, default=None
            Rows to label, by position or label, instead of all.
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.
        **options
            ``level``, ``ellipses``, ``most_ellipses`` and ``group_ellipses`` of ``plot``.

        Returns
        -------
        LatentDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "posterior")
        belief = estimator.posterior(X)
        q = belief.mean.shape[1]
        pair = chosen("components", range(min(q, 2)) if components is None else components, q)
        if len(pair) > 2:
            msg = f"components must be one or two; got {len(pair)}."
            raise ShapeError(msg)
        plane = np.ix_(pair, pair)
        made = cls(
            belief.mean[:, pair],
            belief.covariance[:, plane[0], plane[1]],
            shared=_of_complete_rows(estimator)[plane],
            labels=row_names(X, labels, len(belief.mean)),
            groups=groups,
            axis_labels=tuple(component_title(estimator, j) for j in pair),
            prior=estimator.factor_correlations_[plane] if has_factors(estimator) else None,
            noun=noun_of(estimator),
        )
        wanted = ("all" if labels is not None else ()) if annotate is None else annotate
        return made.plot(ax, annotate=wanted, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        level: float = 0.95,
        ellipses: Any = "auto",
        most_ellipses: int = 30,
        group_ellipses: bool = False,
        annotate: Any = (),
    ) -> LatentDisplay:
        """Draw component scores and their regions.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.
        level : float, default=0.95
            Probability of the regions and of the ellipses of groups.
        ellipses : "auto", "all", "none", or positions or labels of rows, default="auto"
            Rows whose posterior regions are drawn. "auto": rows with missing cells, unless there are more than
            ``most_ellipses``.
        most_ellipses : int, default=30
            Largest number of regions that "auto" draws.
        group_ellipses : bool, default=False
            Whether to draw an ellipse for each group. It contains a share ``level`` of a Gaussian distribution with the
            mean and covariance of the component scores of the group.
        annotate : "all", or positions or labels of rows, default=()
            Rows to label, as far as there is room.

        Returns
        -------
        LatentDisplay
            The display itself.
        """
        level = require_level(level)
        every = isinstance(annotate, str) and annotate == "all"
        named = by_name("annotate", annotate, self.labels) if np.size(annotate) and not every else []
        shown = self._with_ellipses(ellipses, most_ellipses)
        self.figure_, self.ax_ = place(ax, (6.4, 4.4) if self.group is None else (7.4, 4.6))
        self.ellipses_: dict[int, Any] = {}
        self.group_ellipses_: dict[int, Any] = {}
        self.key_: Any = None
        if self.mean.shape[1] == 1:
            points = self._draw_ranks(level)
        else:
            points = self.mean
            self._draw_plane(shown, level, equal=ax is None)
        draw_groups_key(self.ax_, self.group, inside=ax is not None)
        if self.mean.shape[1] == 2:
            if group_ellipses:
                self.group_ellipses_ = draw_group_regions(self.ax_, points, self.group, level)
            if not (group_ellipses or (isinstance(ellipses, str) and ellipses in ("none", "all"))):
                self._draw_key(level)
        if every:
            self.labels_ = label_points(self.ax_, points, self.labels, avoid=self.ax_.texts)
        else:
            self.labels_ = name_points(self.ax_, points[named], [self.labels[i] for i in named], colour=THEME.ink)
        return self

    def _draw_plane(self, shown: Index, level: float, *, equal: bool) -> None:
        """Draw ellipses and points in the plane of two components."""
        self._draw_ellipses(shown, level)
        self.points_ = colour_rows(self.ax_, self.mean, self.group)
        self._ring(self.mean)
        frame(self.ax_, f"{self.noun.capitalize()} scores", x=self.axis_labels[0], y=self.axis_labels[1])
        if equal:
            self.ax_.set_aspect("equal", adjustable="datalim")

    @property
    def complete(self) -> Any:
        """Whether each row has the posterior covariance of a complete row: ndarray of bool (n,)."""
        if self.shared is None:
            return np.zeros(len(self.mean), dtype=bool)
        return np.isclose(self.covariance, self.shared, rtol=1e-6, atol=1e-12).all(axis=(1, 2))

    def _with_ellipses(self, ellipses: Any, most: int) -> Index:
        """Positions of the rows that get an ellipse of their own, the least certain first."""
        if not isinstance(ellipses, str) or ellipses not in ("auto", "all", "none"):
            if isinstance(ellipses, str) and ellipses not in self.labels:
                msg = f"ellipses must be one of auto, all, none, or rows; got {ellipses!r}."
                raise DataError(msg)
            return np.array(by_name("ellipses", ellipses, self.labels), dtype=np.intp)
        if ellipses == "none":
            return np.empty(0, dtype=np.intp)
        order = np.argsort(-np.linalg.det(self.covariance), kind="stable")
        if ellipses == "all":
            return order
        incomplete = order[~self.complete[order]]
        return incomplete if incomplete.size <= most else incomplete[:0]

    def _draw_ellipses(self, rows: Index, level: float) -> None:
        """Draw one ellipse for each row, and a single one for all empty rows."""
        empty = [i for i in rows if self._is_prior(i)]
        for i in rows:
            drawn = ellipse(self.mean[i], region_of(self.covariance[i], level))
            drawn.set(facecolor="none", edgecolor=THEME.accent, linewidth=0.9, alpha=0.55, zorder=1)
            self.ellipses_[int(i)] = drawn
            if i in empty[1:]:
                continue
            self.ax_.add_patch(drawn)
            if i in empty:
                drawn.set(edgecolor=THEME.faint, linestyle="--", alpha=1.0)
                words = f"{len(empty)} empty row{'s' * (len(empty) > 1)}"
                foot = (self.mean[i, 0], self.mean[i, 1] - drawn.height / 2)
                beside(self.ax_, words, foot, (0, 4), ha="center")

    def _is_prior(self, i: int) -> bool:
        return not self.mean[i].any() and np.allclose(self.covariance[i], self.prior, rtol=0, atol=1e-12)

    def _draw_key(self, level: float) -> None:
        """Draw the region of complete rows, to scale, in the corner where it covers the fewest rows."""
        if self.shared is None or not self.complete.any():
            return
        self.figure_.draw_without_rendering()  # a legend takes room from the axes
        region = region_of(self.shared, level)
        reach, middle = half_sides(region), self.mean.mean(axis=0)
        self.ax_.update_datalim(
            [middle - 2 * reach, middle + 2 * reach]
        )  # few rows may lie closer together than the region is wide
        self.ax_.autoscale_view()
        self.ax_.apply_aspect()
        limits = np.array([self.ax_.get_xlim(), self.ax_.get_ylim()])  # (2, 2)
        room = (limits[:, 1] - limits[:, 0]) * (0.02, 0.07) + reach
        corners = [
            np.where([right, top], limits[:, 1] - room, limits[:, 0] + room) for top in (0, 1) for right in (0, 1)
        ]
        hidden = [(np.abs(self.mean - corner) < 1.5 * reach).all(axis=1).sum() for corner in corners]
        centre = corners[int(np.argmin(hidden))]
        self.key_ = ellipse(centre, region)
        self.key_.set(facecolor="none", edgecolor=THEME.ink, linewidth=1.2)
        self.ax_.add_patch(self.key_)
        words = f"{100 * level:.4g}% region of each complete row"
        side = "left" if centre[0] < limits[0].mean() else "right"
        edge = (centre[0] - reach[0] if side == "left" else centre[0] + reach[0], centre[1] - reach[1])
        beside(self.ax_, words, edge, (0, -3), ha=side, va="top")

    def _ring(self, points: Array) -> None:
        """Draw rows with missing cells as hollow points, or rings if groups have colours; not if all rows have some."""
        rows = np.flatnonzero(~self.complete)
        inside, size = ("white", 16) if self.group is None else ("none", 45)
        style = {"facecolors": inside, "edgecolors": THEME.accent, "linewidths": 1.0, "zorder": 3}
        if rows.size and self.complete.any():
            self.ax_.scatter(*points[rows].T, s=size, label="with missing cells", **style)

    def _draw_ranks(self, level: float) -> Array:
        """Draw rows in the order of their one component, with intervals; returns the points: (n, 2)."""
        order = np.argsort(self.mean[:, 0], kind="stable")
        rank = np.empty(order.size)
        rank[order] = np.arange(1, order.size + 1)
        low, high = central_interval(self.mean[:, 0], np.sqrt(self.covariance[:, 0, 0]), level)
        colours = np.where(self.complete, THEME.faint, THEME.accent)
        self.ax_.vlines(rank, low, high, color=colours, linewidth=1, alpha=0.6, zorder=1)
        points = np.column_stack([rank, self.mean[:, 0]])
        self.points_ = colour_rows(self.ax_, points, self.group)
        self._ring(points)
        words = f"{self.axis_labels[0]}, {100 * level:.4g}% interval"
        frame(self.ax_, f"{self.noun.capitalize()} scores", x="rank of the row", y=words)
        whole_numbers(self.ax_.xaxis)
        return points


def _of_complete_rows(estimator: Any) -> Array:
    """Posterior covariance that all complete rows share: (q, q)."""
    covariance = posterior_covariance(estimator.model_)
    if not has_factors(estimator):
        return covariance
    turn = estimator.rotation_matrix_
    return np.asarray(turn.T @ covariance @ turn)
