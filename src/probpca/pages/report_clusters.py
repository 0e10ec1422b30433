"""The report on a mixture: how many clusters there are and how sure that is, a profile of each, and its rows."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.clusters_display import axis_title
from probpca.displays.inputs import Categories, Group
from probpca.inference.mixture import impute_cells, responsibilities
from probpca.inference.posteriors import posterior_mean
from probpca.inference.separation import ClusterAxes, separating_axes
from probpca.pages.page import bundle, packed, packed_bits, packed_positions, rounded, row_data, write_page
from probpca.pages.report_charts import drawing_script
from probpca.pages.report_cluster_charts import cluster_charts
from probpca.pages.report_cluster_text import SURE, cluster_parts, cluster_sentences
from probpca.pages.report_rows import choose_columns, choose_rows, outlier_data

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.inference import MixtureOutliers
    from probpca.inference.imputation import ParameterCovariance
    from probpca.models import Mixture
    from probpca.pages.page import Table
    from probpca.pages.report import ReportSettings
    from probpca.typing import Array, Index


class ClusterFacts(NamedTuple):
    """Everything that the page of a mixture shows."""

    estimator: Any
    table: Table
    found: MixtureOutliers  # of all rows
    probability: Array  # of each cluster, for all rows: (n, K)
    axes: ClusterAxes  # of the plane in which rows are drawn
    points: Array  # rows in this plane: (n, 2)
    shown: Index  # positions of the rows on the page: (k,)
    columns: Index  # positions of the columns that the page shows of each of them, in order: (k, c)
    values: Array  # completed rows: (k, d)
    low: Array  # ends of the intervals of imputed cells: (k, d)
    high: Array
    latent: Array  # scores in the most probable cluster: (k, q)
    settings: ReportSettings
    training: bool  # whether the rows are those of the fit

    @property
    def model(self) -> Mixture:
        """The mixture."""
        model: Mixture = self.table.model
        return model

    @property
    def sizes(self) -> Index:
        """Number of rows whose most probable cluster is each: (K,)."""
        return np.bincount(self.found.cluster, minlength=self.model.n_clusters)

    @property
    def certainty(self) -> Array:
        """Probability of the most probable cluster of each row: (n,)."""
        return np.asarray(self.probability.max(axis=1))

    @property
    def unsure_first(self) -> Index:
        """Positions of the rows that may belong to several clusters, the least certain first."""
        unsure = np.flatnonzero(self.certainty < SURE)
        return unsure[np.argsort(self.certainty[unsure], kind="stable")]

    @property
    def n_unusual(self) -> int:
        """Number of rows with a p-value below that of the settings."""
        return int((self.found.p_value < self.settings.p).sum())

    @property
    def unusual_first(self) -> Index:
        """Positions of all rows, the least probable first: (n,)."""
        return np.argsort(self.found.log10_p_value, kind="stable")

    @property
    def shift(self) -> Array:
        """Means of the clusters, in standard deviations of all rows from their mean: (K, d)."""
        return self.table.scaled(self.model.means)


def ask_clusters(estimator: Any, X: Any, table: Table, settings: ReportSettings, *, training: bool) -> ClusterFacts:
    """Assign and judge all rows, choose those to show, and impute these."""
    model, cells = table.model, table.cells
    found = estimator.outliers(X, training=training)
    axes = separating_axes(model)
    n, d = cells.shape
    shown = choose_rows(found.log10_p_value, settings.limits.rows(n), settings.most_unusual)
    imputed = impute_cells(model, cells[shown], _doubts(estimator))
    low, high = imputed.interval(settings.level)
    with np.errstate(invalid="ignore"):
        wide = (high - low) / table.scale
    weight = np.where(np.isnan(cells[shown]), wide, np.abs(found.contributions[shown]))
    columns = choose_columns(weight, settings.limits.columns(shown.size, d))
    latent = np.empty((shown.size, model.n_components))
    for k, cluster in enumerate(model.clusters):
        rows = np.flatnonzero(found.cluster[shown] == k)
        latent[rows] = posterior_mean(cluster, cells[shown[rows]])
    points = axes.scores(model, cells)
    return ClusterFacts(
        estimator,
        table,
        found,
        responsibilities(model, cells),
        axes,
        points,
        shown,
        columns,
        imputed.values,
        low,
        high,
        latent,
        settings,
        training,
    )


def _doubts(estimator: Any) -> list[ParameterCovariance]:
    """Uncertainty of the parameters of each cluster, which the intervals of cells include."""
    doubts: list[ParameterCovariance] = estimator._state.doubts  # noqa: SLF001
    return doubts


def with_clusters(table: Table, facts: ClusterFacts) -> Table:
    """The table with its clusters as the first groups of rows."""
    names = tuple(f"C{k}" for k in range(facts.model.n_clusters))
    clusters = Group("cluster", Categories(names, facts.found.cluster.astype(np.int64), len(names)))
    return table._replace(groups=[clusters, *table.groups])


# Data for the scripts


def clusters_data(facts: ClusterFacts) -> dict[str, Any]:
    """Model and rows for the scripts of the page, encoded to save space; numbers of columns are in units of scale."""
    settings = facts.settings
    return {
        **row_data(facts.table, facts.shown),
        **_model_data(facts),
        **_cell_data(facts),
        **_judged_data(facts),
        "odd": settings.p,
        "sure": SURE,
        "first": int(np.searchsorted(facts.shown, facts.unusual_first[0])),
        "sentences": [sentence for _, _, sentence in cluster_sentences(facts)],
        "mostBars": settings.components.most_loadings,
    }


def _model_data(facts: ClusterFacts) -> dict[str, Any]:
    """The clusters, and how they look in the plane."""
    table, model, axes = facts.table, facts.model, facts.axes
    within = np.sqrt(np.stack([cluster.covariance.diag() for cluster in model.clusters])) / table.scale
    return {
        "features": table.features,
        "mean": rounded(model.mean, 12),
        "scale": rounded(table.scale, 12),
        "noun": table.noun,
        "sameUnits": bool(table.scale.max() < 5 * table.scale.min()),
        "components": model.n_components,
        "loadings": packed(model.loadings / table.scale[:, None]),
        "centres": packed(facts.shift),
        "within": packed(within),
        "weights": rounded(model.weights, 6),
        "axisTitles": [axis_title(axes, table.features, j).replace("\n", " ") for j in (0, 1)],
        "centre": [rounded(point) for point in axes.centre],
        "spread": [rounded(np.asarray(matrix)[[0, 1, 1], [0, 0, 1]]) for matrix in axes.covariance],
        "radius": float(np.sqrt(-2.0 * np.log(1.0 - facts.settings.level))),
    }


def _cell_data(facts: ClusterFacts) -> dict[str, Any]:
    """Cells of the rows, and the ends of the intervals of imputed ones."""
    table, columns, cells = facts.table, facts.columns, facts.table.cells[facts.shown]
    missing = np.take_along_axis(np.isnan(cells), columns, axis=1)
    ends = [np.take_along_axis(table.scaled(end), columns, axis=1)[missing] for end in (facts.low, facts.high)]
    is_whole = columns.shape[1] == len(table.features)
    return {
        "cellsPerRow": columns.shape[1],
        "columns": None if is_whole else packed_positions(columns),
        "values": packed(np.take_along_axis(table.scaled(facts.values), columns, axis=1)),
        "missing": packed_bits(missing),
        "missingCounts": packed_positions(np.isnan(cells).sum(axis=1)),
        "low": packed(ends[0]),
        "high": packed(ends[1]),
    }


def _judged_data(facts: ClusterFacts) -> dict[str, Any]:
    """Clusters of the rows, and how unusual they are."""
    found, shown = facts.found, facts.shown
    return {
        **outlier_data(found, shown, facts.columns),
        "latent": packed(facts.latent),
        "cluster": packed_positions(found.cluster[shown]),
        "probability": packed(facts.probability[shown]),
        "points": packed(facts.points[shown]),
    }


# The page


def cluster_report(  # noqa: PLR0913
    place: Path, estimator: Any, X: Any, table: Table, title: str, settings: ReportSettings, *, training: bool
) -> Path:
    """Write the report on a mixture; ``title`` is that of the page."""
    facts = ask_clusters(estimator, X, table, settings, training=training)
    facts = facts._replace(table=with_clusters(table, facts))
    data = {**clusters_data(facts), "charts": cluster_charts(facts)}
    lead = f"Report on clusters: {table.size}"
    parts = {"title": escape(title), "lead": escape(lead), **cluster_parts(facts)}
    own = ("groups.js", "report_axes.js", "report_model.js", "report_views.js", "report_clusters.js")
    scripts = [drawing_script(), bundle("reading.js", "words.js", "chooser.js", *own)]
    return write_page(place, "report_clusters", scripts, data, parts)
