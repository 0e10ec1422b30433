"""Axes along which the clusters of a mixture are apart, for pictures of rows and clusters in a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import eigh, null_space, svd

from probpca.inference.mixture import impute_mixture

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.models import Mixture
    from probpca.typing import Array, Index

NO_SEPARATION = 1e-9
"""Ratio of the variances between and within clusters below which an axis does not separate them."""


class ClusterAxes(NamedTuple):
    """Axes in the space of the rows, and the clusters of a mixture seen along them.

    Attributes
    ----------
    origin : ndarray of shape (d,)
        The row whose scores are 0.
    directions : ndarray of shape (d, m)
        Coefficients of the columns: the scores of a row x are (x - origin) @ directions.
    share : ndarray of shape (m,)
        Share of the separation of the clusters that each axis has; 0 for axes along which their means are equal.
    correlation : ndarray of shape (d, m)
        Correlation of each column with the scores, over all rows of the model.
    centre : ndarray of shape (K, m)
        Scores of the means of the clusters.
    covariance : ndarray of shape (K, m, m)
        Covariance of the scores in each cluster.
    """

    origin: Array
    directions: Array
    share: Array
    correlation: Array
    centre: Array
    covariance: Array

    def scores(self, mixture: Mixture, x: Rows) -> Array:
        """Scores of rows, (n, m); missing cells count as their conditional means."""
        return np.asarray((impute_mixture(mixture, x) - self.origin) @ self.directions)


def separating_axes(mixture: Mixture, count: int = 2) -> ClusterAxes:
    r"""The ``count`` uncorrelated axes that separate the clusters best: those of Fisher's discriminant analysis.

    .. math:: \max_v \; \frac{v^\top B v}{v^\top S v}, \qquad
        B = \sum_k \pi_k (\mu_k - \mu)(\mu_k - \mu)^\top, \quad S = \sum_k \pi_k (W_k W_k^\top + \Psi_k)

    They do not depend on the units of the columns, and scores have a standard deviation of 1 within clusters. K
    clusters are apart along at most K - 1 axes; axes beyond these are those of the largest variance within clusters
    relative to the noise. Costs O(d K^2 q^2): no matrix of d x d numbers is formed.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference.separation import separating_axes
    >>> from probpca.models import LinearGaussian, Mixture
    >>> left = LinearGaussian(np.array([-1.0, 0.0, 0.0]), [[0.0], [2.0], [0.0]], 1.0)
    >>> right = LinearGaussian(np.array([1.0, 0.0, 0.0]), [[0.0], [2.0], [0.0]], 1.0)
    >>> axes = separating_axes(Mixture([0.5, 0.5], (left, right)))
    >>> np.abs(axes.directions.T).round(3)
    array([[1.   , 0.   , 0.   ],
           [0.   , 0.447, 0.   ]])
    >>> axes.share
    array([1., 0.])
    """
    weights, origin, d = mixture.weights, mixture.mean, mixture.n_features
    noise = weights @ np.broadcast_to(np.reshape(mixture.noise_variance, (len(weights), -1)), (len(weights), d))
    unit = np.sqrt(np.where(noise > 0, noise, 1.0))  # in which the noise of all columns is 1
    root = np.sqrt(weights)
    between = ((mixture.means - origin) * root[:, None]).T / unit[:, None]  # (d, K)
    within = np.concatenate([w * a for w, a in zip(root, mixture.loadings, strict=True)], axis=1) / unit[:, None]
    basis = _basis(np.hstack([between, within]), count)
    B, A = basis.T @ between, basis.T @ within
    S = np.eye(basis.shape[1]) + A @ A.T
    ratio, vectors = eigh(B @ B.T, S)
    ratio, vectors = ratio[::-1], vectors[:, ::-1]
    apart = ratio > NO_SEPARATION
    found = _completed(vectors[:, apart][:, :count], S, count)
    share = np.zeros(count)
    share[: apart.sum()] = (ratio[apart] / ratio[apart].sum())[:count]
    scaled = basis @ found  # directions in units of the noise: (d, count)
    total = scaled + between @ (between.T @ scaled) + within @ (within.T @ scaled)
    variance = 1.0 + np.square(between).sum(axis=1) + np.square(within).sum(axis=1)
    correlation = total / np.sqrt(np.outer(variance, (scaled * total).sum(axis=0)))
    sign = np.sign(correlation[np.abs(correlation).argmax(axis=0), np.arange(count)])
    return _seen(mixture, origin, scaled / unit[:, None] * sign, share, correlation * sign)


def column_axes(mixture: Mixture, features: Index) -> ClusterAxes:
    """Some columns as axes, in their own units."""
    chosen = np.zeros((mixture.n_features, len(features)))
    chosen[features, np.arange(len(features))] = 1.0
    dense = mixture.restrict(features).covariance
    std = np.sqrt(np.diag(dense))
    correlation = np.full(chosen.shape, np.nan)
    correlation[features] = dense / np.outer(std, std)
    return _seen(mixture, np.zeros(mixture.n_features), chosen, np.zeros(len(features)), correlation)


def _basis(columns: Array, count: int) -> Array:
    """Orthonormal basis of the span of some columns, with ``count`` vectors or more: (d, r)."""
    left, size, _ = svd(columns, full_matrices=False)
    basis = left[:, size > 1e-10 * max(size.max(initial=0.0), 1e-300)]
    while basis.shape[1] < count:  # the column that the others describe least
        new = np.eye(len(basis))[np.square(basis).sum(axis=1).argmin()]
        new -= basis @ (basis.T @ new)
        basis = np.column_stack([basis, new / np.linalg.norm(new)])
    return np.asarray(basis)


def _completed(found: Array, S: Array, count: int) -> Array:
    """Directions that are followed by those of the largest variance that are uncorrelated with them: (r, count)."""
    free = np.eye(len(S)) if not found.shape[1] else null_space((S @ found).T)
    vectors = eigh(free.T @ S @ free)[1]
    more = free @ vectors[:, ::-1][:, : count - found.shape[1]]
    return np.hstack([found, more / np.sqrt((more * (S @ more)).sum(axis=0))])


def _seen(mixture: Mixture, origin: Array, directions: Array, share: Array, correlation: Array) -> ClusterAxes:
    """The clusters along some axes."""
    centre = (mixture.means - origin) @ directions
    covariance = []
    for cluster in mixture.clusters:
        loadings = directions.T @ cluster.loadings
        noise = np.broadcast_to(cluster.noise_variance, len(directions))
        covariance.append(loadings @ loadings.T + (directions.T * noise) @ directions)
    return ClusterAxes(origin, directions, share, correlation, centre, np.stack(covariance))
