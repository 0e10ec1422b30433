"""Outlier scores of rows under a mixture: p-values of their densities, and the cells to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from probpca.blocks import as_block
from probpca.inference.calibration import Calibration, Distances, matched
from probpca.inference.likelihood import log_likelihood
from probpca.inference.outlier_scores import CHI_SQUARE, Outliers, outliers, row_fields, table_of_outliers
from probpca.result_tables import (
    FIRST_ROWS,
    NO_NAMES,
    Column,
    Names,
    ResultTable,
    shown_as_table,
)

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.models import Mixture
    from probpca.typing import Array, Index

ROW_FIELDS = (
    "p_value",
    "log10_p_value",
    "model_p_value",
    "log10_model_p_value",
    "log_likelihood",
    "cluster",
    "distance",
)
"""Fields of ``MixtureOutliers`` with one number for each row."""


@shown_as_table
class MixtureOutliers(NamedTuple):
    r"""Outlier scores of rows under a mixture.

    The p-value of a row is the probability of a row whose density is as small, with the same observed cells:

    .. math:: p = \sum_k \pi_k \, P\big(\pi_k \, p_k(X) \le p(x)\big), \qquad X \sim N(\mu_k, C_k)

    It is exact for clusters that do not overlap and otherwise a little too large, at most by the factor K.
    ``print`` and a notebook show the rows with the smallest p-values; ``to_frame()`` has a line for every row.

    Attributes
    ----------
    p_value : ndarray of shape (n,)
        Probability of a density at most this small, calibrated to the training rows.
    log10_p_value : ndarray of shape (n,)
        Base-10 logarithm of ``p_value``, also for values too small for a float.
    model_p_value : ndarray of shape (n,)
        The same under the fitted mixture itself, as if its parameters were known.
    log10_model_p_value : ndarray of shape (n,)
        Base-10 logarithm of ``model_p_value``.
    log_likelihood : ndarray of shape (n,)
        Log density of the observed cells.
    cluster : ndarray of int, shape (n,)
        Most probable cluster.
    distance : ndarray of shape (n,)
        Squared Mahalanobis distance from that cluster.
    contributions : ndarray of shape (n, d)
        Signed contribution of each cell to ``distance``.
    cell_scores : ndarray of shape (n, d)
        Difference of each cell from its conditional mean in that cluster given the other cells, in standard deviations;
        NaN if missing.
    note : str
        Warning that outliers may mask each other, or that p-values are not calibrated; empty if there is none.
    names : Names or None
        Names of the rows and features, for tables and dataframes.
    """

    p_value: Array
    log10_p_value: Array
    model_p_value: Array
    log10_model_p_value: Array
    log_likelihood: Array
    cluster: Index
    distance: Array
    contributions: Array
    cell_scores: Array
    note: str = ""
    names: Names | None = None

    def to_dict(self) -> dict[str, Any]:
        """P-values, density and cluster of each row, by name, and ``top_feature``, whose cell contributes most."""
        return row_fields(self, ROW_FIELDS)

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return a dataframe with a line for every row, in the library of the input (pandas for arrays)."""
        return (self.names or NO_NAMES).frame(self.to_dict(), backend)

    def table(self, most: int = FIRST_ROWS, *, cells: int = 3) -> ResultTable:
        """The ``most`` least likely rows, each with the ``cells`` that differ most from what their cluster expects."""
        return table_of_outliers(self, self._clusters, most, cells)

    def _clusters(self, order: Index) -> Column:
        return Column("cluster", [f"C{self.cluster[i]}" for i in order])


class _Parts(NamedTuple):
    """Distances of rows from each cluster, and what else their densities are made of."""

    found: tuple[Outliers, ...]
    degrees: Array  # number of observed cells: (n,)
    constants: Array  # log density at the mean of the cluster, times -2: (K, n)
    log_weights: Array  # (K,)
    n_components: int

    @classmethod
    def of(cls, mixture: Mixture, x: Rows) -> _Parts:
        block = as_block(x, mixture.n_features)
        found = tuple(outliers(cluster, block) for cluster in mixture.clusters)
        densities = np.stack([log_likelihood(cluster, block) for cluster in mixture.clusters])
        constants = -2 * densities - np.stack([one.distance for one in found])
        degrees = (~np.isnan(found[0].cell_scores)).sum(axis=1).astype(np.float64)
        return cls(found, degrees, constants, np.log(mixture.weights), mixture.n_components)

    @property
    def distances(self) -> list[Distances]:
        """Distances from each cluster."""
        rank = np.minimum(self.degrees, self.n_components)
        return [Distances(one.latent_distance, one.residual_distance, self.degrees, rank) for one in self.found]

    @property
    def whole(self) -> Array:
        """Squared distances from the clusters: (K, n)."""
        return np.stack([one.distance for one in self.found])

    def log_joint(self, distances: Array) -> Array:
        """Log density together with each cluster at the given squared distances: (K, n)."""
        return self.log_weights[:, None] - 0.5 * (self.constants + distances)

    def log10_tail(self, distances: Array, calibration: Calibration) -> Array:
        """Base-10 logarithm of the p-value of rows at the given squared distances (K, n): (n,)."""
        value = logsumexp(self.log_joint(distances), axis=0)
        beyond = np.maximum(2 * (self.log_weights[:, None] - value) - self.constants, 0.0)
        tails = np.stack([calibration.log10_tail(one, self.degrees) for one in beyond])
        return np.asarray(logsumexp((tails + self.log_weights[:, None] / np.log(10)) * np.log(10), axis=0) / np.log(10))


def mixture_outliers(
    mixture: Mixture, x: Rows, calibration: Calibration = CHI_SQUARE, *, left_out_of: Array | None = None
) -> MixtureOutliers:
    """Outlier scores of rows under a mixture.

    ``calibration`` is the reference distribution of squared distances from clusters, as made by
    ``calibrate_mixture``. If the rows were part of the training data, ``left_out_of`` holds the number of training rows
    of each cluster, (K,), and p-values are based on leave-one-out distances.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import mixture_outliers
    >>> from probpca.models import LinearGaussian, Mixture
    >>> near = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 0.5)
    >>> far = LinearGaussian(np.full(2, 9.0), [[0.0], [1.0]], 0.5)
    >>> found = mixture_outliers(Mixture([0.75, 0.25], (near, far)), [[0.0, 0.0], [4.5, 4.5], [9.0, 9.0]])
    >>> found.p_value.round(3), found.cluster
    (array([1. , 0. , 0.5]), array([0, 0, 1]))
    """
    parts = _Parts.of(mixture, x)
    whole = parts.whole
    joint = parts.log_joint(whole)
    total = logsumexp(joint, axis=0)
    judged = whole
    if left_out_of is not None and not calibration.obstacle:
        judged = _left_out(parts, np.exp(joint - total), left_out_of)
    log10_p, log10_model_p = parts.log10_tail(judged, calibration), parts.log10_tail(whole, Calibration())
    cluster, rows = joint.argmax(axis=0), np.arange(total.size)
    contributions, scores = (
        np.stack([getattr(one, name) for one in parts.found])[cluster, rows]
        for name in ("contributions", "cell_scores")
    )
    return MixtureOutliers(
        10.0**log10_p,
        log10_p,
        10.0**log10_model_p,
        log10_model_p,
        total,
        cluster,
        whole[cluster, rows],
        contributions,
        scores,
        calibration.note,
    )


def calibrate_mixture(mixture: Mixture, x: Rows, n: Array) -> Calibration:
    """Match the reference distribution of squared distances to training rows, each by its most probable cluster.

    ``n`` is the number of training rows of each cluster in which a feature was observed on average: (K,).
    """
    block = as_block(x, mixture.n_features)
    parts = _Parts.of(mixture, block)
    cluster = parts.log_joint(parts.whole).argmax(axis=0)
    rows = np.arange(cluster.size)
    distances = parts.distances
    found = Distances(
        *(np.stack([getattr(one, name) for one in distances])[cluster, rows] for name in Distances._fields)
    )
    return matched(found, np.maximum(n, 2.0)[cluster], block.weight)


def _left_out(parts: _Parts, share: Array, n: Array) -> Array:
    """Leave-one-out distances from each cluster, of which a row is a part as far as it belongs to it: (K, n)."""
    counts = np.maximum(n, 2.0)[:, None] / np.maximum(share, 1e-3)
    return np.stack([one.left_out(count).whole for one, count in zip(parts.distances, counts, strict=True)])
