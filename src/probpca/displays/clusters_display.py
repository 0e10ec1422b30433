"""Clusters of a mixture: rows and ellipses in the plane that separates the clusters best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import (
    THEME,
    beside,
    clipped,
    colour_rows,
    draw_groups_key,
    draw_region,
    frame,
    label_points,
    name_points,
    percent,
    place,
)
from probpca.displays.inputs import (
    Categories,
    Group,
    by_name,
    cells_of,
    names_of,
    require_columns,
    require_fitted,
    require_level,
    row_names,
)
from probpca.errors import DataError, ShapeError
from probpca.inference.separation import ClusterAxes, column_axes, separating_axes
from probpca.result_tables import several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.typing import Array


class ClustersDisplay:
    r"""Rows coloured by their cluster, with an ellipse of the model of each cluster.

    The plane is the one in which the clusters are furthest apart: its axes are the first two of Fisher's discriminant
    analysis of the fitted mixture, with scores in standard deviations within clusters. It does not depend on the units
    of the columns, and it is known whatever cells are missing. With two clusters only one axis separates them; the
    second is the one with the largest variance within clusters. The ellipse of a cluster contains a share ``level`` of
    its marginal distribution in the plane:

    .. math:: \{y : (y - V^\top \mu_k)^\top (V^\top C_k V)^{-1} (y - V^\top \mu_k) \le \chi^2_{2, \text{level}}\}

    A row with missing cells is drawn where their conditional means place it. Create it with ``from_estimator``.

    Attributes
    ----------
    axes : ClusterAxes
        The axes of the plane, and the means and covariances of the clusters in it.
    points : ndarray (n, 2)
        Rows in the plane.
    probability : ndarray (n, n_clusters)
        Probability of each cluster for each row.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.
    points_ : list of matplotlib artists
        Points of each cluster.
    ellipses_ : list of matplotlib artists
        Ellipse of each cluster.
    labels_ : list of artists
        Labels of rows that are drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import ClustersDisplay, MixturePPCA
    >>> X = load_iris(as_frame=True).data
    >>> mixture = MixturePPCA(n_clusters=3, n_components=1, random_state=0).fit(X)
    >>> display = ClustersDisplay.from_estimator(mixture, X)
    >>> len(display.ellipses_), display.points.shape
    (3, (150, 2))
    >>> display = ClustersDisplay.from_estimator(mixture, X, features=["petal length (cm)", "petal width (cm)"])
    >>> display.ax_.get_xlabel()
    'petal length (cm)'
    """

    def __init__(
        self,
        axes: ClusterAxes,
        points: Array,
        probability: Array,
        weights: Array,
        *,
        labels: list[str] | None = None,
        axis_labels: Sequence[str] = ("axis 1", "axis 2"),
    ) -> None:
        """Store what ``plot`` draws; ``weights`` are the probabilities of the clusters."""
        self.axes, self.points, self.probability, self.weights = axes, points, probability, weights
        self.labels = [str(i) for i in range(len(points))] if labels is None else labels
        self.axis_labels = tuple(axis_labels)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        features: Any = None,
        labels: Any = None,
        annotate: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> ClustersDisplay:
        """Draw rows and the clusters of a fitted mixture.

        Parameters
        ----------
        estimator : MixturePPCA
            A fitted mixture.
        X : array, sparse matrix or dataframe
            Rows with the columns of the fit. NaN marks a missing cell.
        features : pair of str or int, or None, default=None
            Two columns that are the axes, by name or position. None: the two axes that separate the clusters best.
        labels : sequence of str, True or None, default=None
            Text beside the points, one for each row; True: the index of a pandas dataframe. Labels that would
            overlap are left out.
        annotate : positions, labels or None, default=None
            Rows to label, by position or label, instead of all.
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.
        **options
            ``level`` and ``sure`` of ``plot``.

        Returns
        -------
        ClustersDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "predict_proba", "criteria_")
        names, cells = names_of(estimator), cells_of(estimator, X)
        require_columns(cells, len(names))
        if features is None:
            axes = separating_axes(estimator.model_)
            axis_labels = [axis_title(axes, names, j) for j in range(2)]
        else:
            pair = by_name("features", features, names)
            if len(pair) != 2:
                msg = f"features must be two columns; got {len(pair)}."
                raise ShapeError(msg)
            axes, axis_labels = column_axes(estimator.model_, np.array(pair)), [names[j] for j in pair]
        made = cls(
            axes,
            axes.scores(estimator.model_, cells),
            np.asarray(estimator.predict_proba(X)),
            estimator.weights_,
            labels=row_names(X, labels, len(cells)),
            axis_labels=axis_labels,
        )
        wanted = ("all" if labels is not None else ()) if annotate is None else annotate
        return made.plot(ax, annotate=wanted, **options)

    def plot(self, ax: Any = None, *, level: float = 0.95, sure: float = 0.9, annotate: Any = ()) -> ClustersDisplay:
        """Draw rows, and the ellipses of the clusters.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.
        level : float, default=0.95
            Share of a cluster that its ellipse contains.
        sure : float, default=0.9
            Rows whose most probable cluster has a smaller probability have a ring around them.
        annotate : "all", or positions or labels of rows, default=()
            Rows to label, as far as there is room.

        Returns
        -------
        ClustersDisplay
            The display itself.
        """
        level = require_level(level)
        if not 0 <= sure <= 1:
            msg = f"sure must lie between 0 and 1; got {sure}."
            raise DataError(msg)
        every = isinstance(annotate, str) and annotate == "all"
        named = by_name("annotate", annotate, self.labels) if np.size(annotate) and not every else []
        self.figure_, self.ax_ = place(ax, (7.6, 4.6))
        group = clusters_group(self.probability.argmax(axis=1), self.weights)
        self.points_ = colour_rows(self.ax_, self.points, group)
        self.ellipses_ = [
            draw_region(self.ax_, k, centre, covariance, level)
            for k, (centre, covariance) in enumerate(zip(self.axes.centre, self.axes.covariance, strict=True))
        ]
        self.ax_.autoscale_view()
        self._ring(sure)
        frame(self.ax_, "Clusters", x=self.axis_labels[0], y=self.axis_labels[1])
        draw_groups_key(self.ax_, group, inside=ax is not None)
        self._name_clusters()
        if every:
            self.labels_ = label_points(self.ax_, self.points, self.labels, avoid=self.ax_.texts)
        else:
            texts = [self.labels[i] for i in named]
            self.labels_ = name_points(self.ax_, self.points[named], texts, colour=THEME.ink)
        return self

    def _ring(self, sure: float) -> None:
        """Draw rings around rows that may belong to several clusters."""
        unsure = self.probability.max(axis=1) < sure
        if unsure.any():
            words = f"probability below {sure:g} ({unsure.sum():,})"
            style = {"facecolors": "none", "edgecolors": THEME.ink, "linewidths": 0.8, "zorder": 3}
            self.ax_.scatter(*self.points[unsure].T, s=52, label=words, **style)

    def _name_clusters(self) -> None:
        """Write the name of each cluster at its mean."""
        for k, centre in enumerate(self.axes.centre):
            style = {"ha": "center", "va": "center", "fontsize": 10, "fontweight": "bold", "zorder": 4}
            beside(self.ax_, f"C{k}", centre, (0, 0), color=THEME.category(k)[0], **style)


def clusters_group(labels: Array, weights: Array) -> Group:
    """Clusters as categories of rows, whose names say how large they are."""
    counts = np.bincount(labels, minlength=len(weights))
    shares = zip(counts.tolist(), weights.tolist(), strict=True)
    names = [f"C{k}: {percent(share)}, {several(count, 'row')}" for k, (count, share) in enumerate(shares)]
    return Group("cluster", Categories(tuple(names), np.asarray(labels, dtype=np.int64), len(names)))


def axis_title(axes: ClusterAxes, names: Sequence[str], j: int, most: int = 2) -> str:
    """Title of an axis: its share of the separation, and below it the columns with the largest correlations with it."""
    what = f"{percent(axes.share[j])} of the separation" if axes.share[j] > 0 else "spread within clusters"
    size = np.abs(axes.correlation[:, j])
    largest = np.argsort(-size, kind="stable")[:most]
    signs = np.where(axes.correlation[:, j] > 0, "+", "\N{MINUS SIGN}")
    columns = [f"{clipped(names[i], THEME.short_name_length)} {signs[i]}" for i in largest if size[i] > 0]
    return f"axis {j + 1}, {what}\n({', '.join(columns)})"
