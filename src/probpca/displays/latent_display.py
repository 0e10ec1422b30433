"""Rows in the space of the latent variables, with regions of their posteriors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import (
    THEME,
    beside,
    colour_rows,
    ellipse,
    frame,
    half_sides,
    name_points,
    percent,
    place,
    region_of,
    whole_numbers,
)
from probpca.displays.inputs import by_name, chosen, require_fitted, require_level, row_names
from probpca.errors import DataError, ShapeError
from probpca.inference.posteriors import posterior_covariance
from probpca.models.gaussian import central_interval

if TYPE_CHECKING:
    from probpca.typing import Array, Index


class LatentDisplay:
    """Posterior means of two latent variables, with the regions that hold them.

    Complete rows share one posterior covariance, whose region is drawn once, in a corner. A row with missing cells has
    its own. With one latent variable rows stand in its order, with intervals. Create it with ``from_estimator``.

    Attributes
    ----------
    mean : ndarray (n, 2) or (n, 1)
    covariance : ndarray (n, 2, 2) or (n, 1, 1)
    shared : ndarray (2, 2) or None
        The covariance of complete rows.
    figure_, ax_
        matplotlib Figure and Axes.
    points_ : list of artists
        One for each label.
    ellipses_ : dict
        Ellipse of each row that has one drawn, by its position; ``key_`` is that of complete rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import LatentDisplay, PPCA
    >>> iris = load_iris()
    >>> display = LatentDisplay.from_estimator(PPCA(n_components=2).fit(iris.data), iris.data, labels=iris.target)
    >>> display.mean.shape
    (150, 2)
    """

    def __init__(
        self,
        mean: Array,
        covariance: Array,
        *,
        shared: Array | None = None,
        labels: Any = None,
        names: list[str] | None = None,
        axis_labels: tuple[str, ...] = ("component 1", "component 2"),
    ) -> None:
        """Store what ``plot`` draws."""
        self.mean, self.covariance, self.shared = mean, covariance, shared
        self.labels = None if labels is None else np.asarray(labels)
        self.names = [str(i) for i in range(len(mean))] if names is None else names
        self.axis_labels = axis_labels
        if self.labels is not None and self.labels.shape != (len(mean),):
            msg = f"labels must be one for each of the {len(mean)} rows; got shape {self.labels.shape}."
            raise ShapeError(msg)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        components: Any = None,
        labels: Any = None,
        names: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> LatentDisplay:
        """Draw rows by one or two of their latent variables, ``components``, counted from 0.

        ``labels`` colour rows: classes, or numbers on a scale. ``names`` are those of the rows. ``options`` are those
        of ``plot``.
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
            shared=posterior_covariance(estimator.model_)[plane],
            labels=labels,
            names=row_names(X, names, len(belief.mean)),
            axis_labels=tuple(component_title(estimator, j) for j in pair),
        )
        return made.plot(ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        level: float = 0.95,
        ellipses: Any = "auto",
        most_ellipses: int = 100,
        annotate: Any = (),
    ) -> LatentDisplay:
        """Draw in a new figure or in ``ax``, with regions at this ``level``.

        ``ellipses`` are drawn for rows with missing cells ("auto": the ``most_ellipses`` least certain), for "all" or
        "none", or for rows given by position or name. ``annotate`` names rows, given by position or name.
        """
        level = require_level(level)
        named = by_name("annotate", annotate, self.names) if np.size(annotate) else []
        shown = self._with_ellipses(ellipses, most_ellipses)
        self.figure_, self.ax_ = place(ax, (6.4, 4.4))
        self.ellipses_: dict[int, Any] = {}
        self.key_: Any = None
        if self.mean.shape[1] == 1:
            self._draw_ranks(level, named)
            return self
        self._draw_ellipses(shown, level)
        self.points_ = colour_rows(self.ax_, self.mean, self.labels)
        self._ring(self.mean, shown)
        frame(self.ax_, x=self.axis_labels[0], y=self.axis_labels[1])
        if ax is None:
            self.ax_.set_aspect("equal", adjustable="datalim")
        name_points(self.ax_, self.mean[named], [self.names[i] for i in named], colour=THEME.ink)
        if not (isinstance(ellipses, str) and ellipses in ("none", "all")):
            self._draw_key(level)
        return self

    @property
    def complete(self) -> Any:
        """Which rows have the posterior covariance of a complete row: (n,)."""
        if self.shared is None:
            return np.zeros(len(self.mean), dtype=bool)
        return np.isclose(self.covariance, self.shared, rtol=1e-6, atol=1e-12).all(axis=(1, 2))

    def _with_ellipses(self, ellipses: Any, most: int) -> Index:
        """Positions of the rows that get an ellipse of their own, the least certain first."""
        if not isinstance(ellipses, str) or ellipses not in ("auto", "all", "none"):
            if isinstance(ellipses, str) and ellipses not in self.names:
                msg = f"ellipses must be one of auto, all, none, or rows; got {ellipses!r}."
                raise DataError(msg)
            return np.array(by_name("ellipses", ellipses, self.names), dtype=np.intp)
        if ellipses == "none":
            return np.empty(0, dtype=np.intp)
        order = np.argsort(-np.linalg.det(self.covariance), kind="stable")
        return order if ellipses == "all" else order[~self.complete[order]][:most]

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
                words = f"{len(empty)} row{'s' * (len(empty) > 1)}, nothing observed"
                foot = (self.mean[i, 0], self.mean[i, 1] - drawn.height / 2)
                beside(self.ax_, words, foot, (0, 4), ha="center")

    def _is_prior(self, i: int) -> bool:
        return not self.mean[i].any() and np.allclose(self.covariance[i], np.eye(2), rtol=0, atol=1e-12)

    def _draw_key(self, level: float) -> None:
        """Draw the region of complete rows, to scale, in the corner where it covers the fewest rows."""
        if self.shared is None or not self.complete.any():
            return
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
        words = f"{100 * level:.4g} % region of a complete row"
        side = "left" if centre[0] < limits[0].mean() else "right"
        edge = (centre[0] - reach[0] if side == "left" else centre[0] + reach[0], centre[1] - reach[1])
        beside(self.ax_, words, edge, (0, -3), ha=side, va="top")

    def _ring(self, points: Array, rows: Index) -> None:
        """Draw rows with missing cells as hollow points."""
        rows = rows[~self.complete[rows]]
        style = {"facecolors": "white", "edgecolors": THEME.accent, "linewidths": 1.0, "zorder": 3}
        if rows.size and self.shared is not None:
            self.ax_.scatter(*points[rows].T, s=16, label="cells missing", **style)
            self.ax_.legend(frameon=False, fontsize=THEME.small, handletextpad=0.2)

    def _draw_ranks(self, level: float, named: list[int]) -> None:
        """Draw rows in the order of their one latent variable, with intervals."""
        order = np.argsort(self.mean[:, 0], kind="stable")
        rank = np.empty(order.size)
        rank[order] = np.arange(1, order.size + 1)
        low, high = central_interval(self.mean[:, 0], np.sqrt(self.covariance[:, 0, 0]), level)
        colours = np.where(self.complete, THEME.faint, THEME.accent)
        self.ax_.vlines(rank, low, high, color=colours, linewidth=1, alpha=0.6, zorder=1)
        points = np.column_stack([rank, self.mean[:, 0]])
        self.points_ = colour_rows(self.ax_, points, self.labels)
        self._ring(points, np.flatnonzero(~self.complete))
        name_points(self.ax_, points[named], [self.names[i] for i in named])
        words = f"{self.axis_labels[0]}, {100 * level:.4g} % interval"
        frame(self.ax_, x="row, in order", y=words)
        whole_numbers(self.ax_.xaxis)


def component_title(estimator: Any, j: int) -> str:
    """Name of a component and its share of variance."""
    return f"component {j + 1}   ({percent(estimator.explained_variance_ratio_[j])} of variance)"
