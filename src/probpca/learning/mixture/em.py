"""Expectation-maximisation of a mixture, and its extrapolation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, final

import numpy as np
from scipy.special import logsumexp

from probpca.learning.em.m_step import latent_moments, maximise
from probpca.learning.loop import Anderson, Coordinates, accelerate
from probpca.learning.mixture.e_step import expect_mixture
from probpca.linalg.rotations import cholesky_or_none
from probpca.models import Mixture

if TYPE_CHECKING:
    from probpca.learning.loop import Iterated, Monitor
    from probpca.learning.mixture.e_step import MixtureSums
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.statistics import Regression
    from probpca.typing import Array

LEAST_WEIGHT = 1e-300
"""Smallest weight of a cluster, whose logarithm is finite."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class MixtureEM:
    """EM of a mixture, with parameter expansion within each cluster.

    The likelihood of a mixture is unbounded: a cluster of at most q + 1 rows, or of equal rows, needs no noise. The
    noise variances therefore have a ``floor``, and a cluster with fewer than ``least_rows`` rows is left as it is.
    """

    floor: Array  # smallest noise variance of a cluster: () or (d,)
    least_rows: float

    def step(self, mixture: Mixture, source: Source) -> tuple[Mixture, float]:
        """Model after one iteration, and the log-likelihood of the given model."""
        sums = source.fold(partial(expect_mixture, mixture))
        return self.advance(mixture, sums), sums.log_likelihood

    def advance(self, mixture: Mixture, sums: MixtureSums) -> Mixture:
        """Model after one iteration, given the statistics of the E-step at ``mixture``."""
        clusters = tuple(map(self._cluster, mixture.clusters, sums.clusters))
        weights = np.maximum(sums.cluster_weights, LEAST_WEIGHT * max(sums.cluster_weights.max(), 1.0))
        return Mixture(weights / weights.sum(), clusters)

    def _cluster(self, model: LinearGaussian, sums: Regression) -> LinearGaussian:
        if sums.weight < self.least_rows:
            return model
        latent = latent_moments(sums)
        independent = cholesky_or_none(latent.covariance) is not None
        return maximise(model, sums, self.floor, None, latent if independent else None)


def fit_accelerated(em: MixtureEM, rows: Source, start: Mixture, monitor: Monitor) -> Iterated[Mixture]:
    """Repeat EM steps with extrapolation until convergence."""
    coordinates = MixtureCoordinates.around(start, em.floor)
    return accelerate(partial(em.step, source=rows), start, monitor, Anderson(coordinates))


@final
@dataclass(frozen=True, slots=True)
class MixtureCoordinates:
    """Parameters of a mixture as a vector: log weights, W and mu of each cluster, and the log noise variances."""

    clusters: tuple[Coordinates, ...]

    @classmethod
    def around(cls, mixture: Mixture, floor: Array) -> Self:
        """Coordinates with origins from the clusters of a mixture, in units of their average standard deviation."""
        trace = np.mean(
            [np.square(m.loadings).sum() / m.n_features + m.noise_variance.mean() for m in mixture.clusters]
        )
        unit, q, shared = np.sqrt(trace), mixture.n_components, mixture.clusters[0].noise_variance.ndim == 0
        return cls(tuple(Coordinates(m.mean, unit, q, shared, floor) for m in mixture.clusters))

    @property
    def n_noise(self) -> int:
        """Number of noise variances, which are last in a vector."""
        return len(self.clusters) * self.clusters[0].n_noise

    def flatten(self, mixture: Mixture) -> Array:
        """Convert a mixture to a vector."""
        vectors = [at.flatten(model) for at, model in zip(self.clusters, mixture.clusters, strict=True)]
        s = self.clusters[0].n_noise
        return np.concatenate([np.log(mixture.weights), *(v[:-s] for v in vectors), *(v[-s:] for v in vectors)])

    def place(self, vector: Array) -> Mixture | None:
        """Convert an extrapolated vector to a mixture whose noise variances are not below the smallest ones."""
        K = len(self.clusters)
        heads = vector[K : -self.n_noise].reshape(K, -1)
        noises = vector[-self.n_noise :].reshape(K, -1)
        models = tuple(at.place(np.concatenate(parts)) for at, *parts in zip(self.clusters, heads, noises, strict=True))
        weights = np.exp(vector[:K] - logsumexp(vector[:K]))
        return Mixture(weights, models) if weights.min() > LEAST_WEIGHT else None
