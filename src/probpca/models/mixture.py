"""Mixtures of linear-Gaussian models: rows from several clusters, each with its own components."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.errors import DataError, ShapeError, require_finite, require_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.models.gaussian import LinearGaussian
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, eq=False)
class Mixture:
    r"""Mixture of linear-Gaussian models, one for each cluster.

    .. math:: x \sim \sum_{k=1}^K \pi_k \, N(\mu_k, \; W_k W_k^\top + \Psi_k)

    With single noise variances, :math:`\Psi_k = \sigma^2_k I`, this is a mixture of PPCA (Tipping & Bishop 1999); with
    one per feature, a mixture of factor analysers (Ghahramani & Hinton 1996). All clusters have the same number of
    components.

    Attributes
    ----------
    weights : ndarray of shape (K,)
        Probability pi of each cluster.
    clusters : tuple of LinearGaussian
        Model of the rows of each cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.models import LinearGaussian, Mixture
    >>> near = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 0.5)
    >>> far = LinearGaussian(np.full(2, 9.0), [[0.0], [1.0]], 0.5)
    >>> mixture = Mixture([0.75, 0.25], (near, far))
    >>> mixture.n_clusters, mixture.n_features, mixture.mean
    (2, 2, array([2.25, 2.25]))
    """

    weights: Array
    clusters: tuple[LinearGaussian, ...]

    def __post_init__(self) -> None:
        """Convert the weights to read-only float64 and check that shapes and values agree."""
        weights = np.array(self.weights, dtype=np.float64)
        weights.setflags(write=False)
        require_finite("weights", weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "clusters", tuple(self.clusters))
        if not self.clusters:
            msg = "a mixture needs at least one cluster; got none."
            raise ShapeError(msg)
        require_shape("weights", weights, (len(self.clusters),))
        kinds = {(*cluster.loadings.shape, cluster.noise_variance.ndim) for cluster in self.clusters}
        if len(kinds) > 1:
            shapes = sorted({cluster.loadings.shape for cluster in self.clusters})
            msg = (
                "all clusters must have loadings of one shape, and the same kind of noise variance; "
                f"got shapes {', '.join(map(str, shapes))}."
            )
            raise ShapeError(msg)
        if not ((weights > 0).all() and abs(weights.sum() - 1) < 1e-6):
            msg = f"weights must be positive and sum to 1; got a sum of {weights.sum():.6g}, least {weights.min():.3g}."
            raise DataError(msg)

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.clusters)

    @property
    def n_features(self) -> int:
        """Number of observed features d."""
        return self.clusters[0].n_features

    @property
    def n_components(self) -> int:
        """Number of components q of each cluster."""
        return self.clusters[0].n_components

    @property
    def means(self) -> Array:
        """Mean of each cluster: (K, d)."""
        return np.stack([cluster.mean for cluster in self.clusters])

    @property
    def loadings(self) -> Array:
        """Loadings of each cluster: (K, d, q)."""
        return np.stack([cluster.loadings for cluster in self.clusters])

    @property
    def noise_variance(self) -> Array:
        """Noise variance of each cluster, (K,), or one for each of its features, (K, d)."""
        return np.stack([cluster.noise_variance for cluster in self.clusters])

    @property
    def explained(self) -> Array:
        """Share of the variance of each cluster that its components explain: (K,).

        With one noise variance per feature, each feature counts in its own standard deviations in the cluster: the
        share is the average communality and does not depend on units.
        """
        signal = np.square(self.loadings).sum(axis=2)
        total = signal + self.noise_variance.reshape(self.n_clusters, -1)
        if self.noise_variance.ndim == 1:
            return np.asarray(signal.sum(axis=1) / total.sum(axis=1))
        return np.divide(signal, total, out=np.zeros(total.shape), where=total > 0).mean(axis=1)

    @property
    def mean(self) -> Array:
        """Mean of all rows: (d,)."""
        return self.weights @ self.means

    @property
    def cluster_covariances(self) -> Array:
        """Dense covariance of each cluster: (K, d, d)."""
        return np.stack([cluster.covariance.dense() for cluster in self.clusters])

    @property
    def covariance(self) -> Array:
        """Dense covariance of all rows, within and between clusters: (d, d)."""
        shift = self.means - self.mean
        within = np.einsum("k,kij->ij", self.weights, self.cluster_covariances)
        return np.asarray(within + (self.weights[:, None] * shift).T @ shift)

    def prepare(self) -> None:
        """Compute the decompositions that questions about rows share, before several threads would do so."""
        for cluster in self.clusters:
            cluster.prepare()

    def restrict(self, features: Index) -> Mixture:
        """Marginal model of the features at the given positions."""
        return replace(self, clusters=tuple(cluster.restrict(features) for cluster in self.clusters))

    def rescale(self, scale: Array) -> Mixture:
        """Model of the rows ``scale * x``, for one scale per feature (d,) or a single number."""
        return replace(self, clusters=tuple(cluster.rescale(scale) for cluster in self.clusters))

    def in_precision_unit(self, unit: float) -> Mixture:
        """Model of the same cells with all of their relative precisions multiplied by a constant."""
        return replace(self, clusters=tuple(cluster.in_precision_unit(unit) for cluster in self.clusters))

    def rotate(self, rotations: Sequence[Array]) -> Mixture:
        """Equivalent model with rotated latent axes, one orthogonal matrix (q, q) for each cluster."""
        turned = zip(self.clusters, rotations, strict=True)
        return replace(self, clusters=tuple(cluster.rotate(rotation) for cluster, rotation in turned))

    def ordered(self, order: Index) -> Mixture:
        """Model with the clusters in another order."""
        return Mixture(self.weights[order], tuple(self.clusters[k] for k in order))
