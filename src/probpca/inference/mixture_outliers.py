"""Outlier scores of rows under a mixture: p-values of their densities, and the cells that make them unusual."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logsumexp

from probpca.blocks import as_block
from probpca.blocks.block import dense_values
from probpca.inference.calibration import chi2_tail, log10_chi2_tail
from probpca.inference.likelihood import log_likelihood
from probpca.inference.outlier_scores import outliers

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.models import Mixture
    from probpca.typing import Array, Index


class MixtureOutliers(NamedTuple):
    """How unusual rows are under a mixture.

    Attributes
    ----------
    cluster : ndarray of int, shape (n,)
        Most probable cluster of each row.
    log_likelihood : ndarray of shape (n,)
        Log density of the observed cells.
    p_value : ndarray of shape (n,)
        Probability of a row of the mixture with the same observed cells and a density at most as large, rounded up.
    log10_p_value : ndarray of shape (n,)
        Base-10 logarithm of ``p_value``, also for values too small for a float.
    distance : ndarray of shape (n,)
        Squared Mahalanobis distance of each row from its most probable cluster.
    contributions : ndarray of shape (n, d)
        Contribution of each cell to ``distance``.
    cell_scores : ndarray of shape (n, d)
        Difference of each cell from its conditional mean given the other cells and the cluster, in standard
        deviations; NaN if missing.
    """

    cluster: Index
    log_likelihood: Array
    p_value: Array
    log10_p_value: Array
    distance: Array
    contributions: Array
    cell_scores: Array


def mixture_outliers(mixture: Mixture, x: Rows) -> MixtureOutliers:
    r"""Outlier scores of rows: p-values of their densities under the mixture, and scores of cells in their clusters.

    .. math:: P(p(X) \le p(x)) \;\le\; \sum_k \pi_k \, P(\pi_k \, p(X \mid k) \le p(x) \mid k)
        = \sum_k \pi_k \, P(\chi^2_{|O|} \ge D_k^2), \qquad
        \pi_k (2\pi)^{-|O|/2} |C_{k, OO}|^{-1/2} e^{-D_k^2 / 2} = p(x)

    The p-value is this bound. It is exact for one cluster, and nearly so for clusters that hardly overlap; where they
    overlap it is too large, so that fewer rows are called outliers. The mixture is treated as known: after a fit to
    few rows p-values of new rows are too small. A row without observed cells has a p-value of 1.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference.mixture_outliers import mixture_outliers
    >>> from probpca.models import LinearGaussian, Mixture
    >>> near = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 0.5)
    >>> far = LinearGaussian(np.full(2, 9.0), [[0.0], [1.0]], 0.5)
    >>> found = mixture_outliers(Mixture([0.75, 0.25], (near, far)), [[0.0, 0.0], [9.0, 9.5], [0.0, 4.5]])
    >>> found.p_value.round(4)
    array([1.  , 0.46, 0.  ])
    >>> found.cluster
    array([0, 1, 0])
    """
    block = as_block(x, mixture.n_features)
    observed = np.isfinite(dense_values(block)).sum(axis=1)
    densities = np.stack([log_likelihood(cluster, block) for cluster in mixture.clusters], axis=1)
    joint = densities + np.log(mixture.weights)
    whole = logsumexp(joint, axis=1)
    cluster = joint.argmax(axis=1)
    p, log10_p = np.empty(joint.shape), np.empty(joint.shape)
    distance = np.empty(block.n_rows)
    contributions, scores = np.empty((block.n_rows, mixture.n_features)), np.empty((block.n_rows, mixture.n_features))
    for k, model in enumerate(mixture.clusters):
        found = outliers(model, block)
        beyond = np.maximum(found.distance + 2.0 * (joint[:, k] - whole), 0.0)  # D_k^2 at which pi_k p(X | k) = p(x)
        p[:, k] = chi2_tail(beyond, observed)
        log10_p[:, k] = log10_chi2_tail(beyond, observed, p[:, k])
        here = cluster == k
        distance[here] = found.distance[here]
        contributions[here], scores[here] = found.contributions[here], found.cell_scores[here]
    ln10 = np.log(10.0)
    log10_p = logsumexp(ln10 * log10_p + np.log(mixture.weights), axis=1) / ln10
    empty = observed == 0
    return MixtureOutliers(
        cluster,
        whole,
        np.where(empty, 1.0, np.minimum(p @ mixture.weights, 1.0)),
        np.where(empty, 0.0, np.minimum(log10_p, 0.0)),
        distance,
        contributions,
        scores,
    )
