"""E-step of a mixture: responsibilities of the clusters, and the sums from which each of them is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.special import logsumexp

from probpca.inference.likelihood import LOG_2PI
from probpca.inference.masked_rows import Parameters, latents
from probpca.learning.em.e_step import CLEAR, ProductSums, ResidualSums, by_pattern
from probpca.scratch import workspace

if TYPE_CHECKING:
    from probpca.blocks import Observed
    from probpca.blocks.cells import Cells, Group
    from probpca.inference.masked_rows import Latents
    from probpca.models import Mixture
    from probpca.statistics import Regression
    from probpca.typing import Array

NEGLIGIBLE = 1e-12
"""Responsibilities below this are zero, so that sums over the rows of a cluster have no subnormal entries."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class MixtureSums:
    r"""Sufficient statistics of a mixture, mergeable over blocks of rows.

    Attributes
    ----------
    log_likelihood : float
        Log-likelihood of the rows at the current parameters.
    entropy : float
        Entropy :math:`-\sum_i w_i \sum_k r_{ik} \log r_{ik}` of the responsibilities, in nats.
    clusters : tuple of Regression
        Statistics of each cluster, with the responsibilities as weights of the rows; their own log-likelihoods are 0.
    """

    log_likelihood: float
    entropy: float
    clusters: tuple[Regression, ...]

    def merge(self, other: MixtureSums) -> MixtureSums:
        """Sums over both sets of rows."""
        merged = tuple(mine.merge(theirs) for mine, theirs in zip(self.clusters, other.clusters, strict=True))
        return MixtureSums(self.log_likelihood + other.log_likelihood, self.entropy + other.entropy, merged)

    def scaled(self, factor: float) -> MixtureSums:
        """Sums multiplied by ``factor``."""
        scaled = tuple(cluster.scaled(factor) for cluster in self.clusters)
        return MixtureSums(self.log_likelihood * factor, self.entropy * factor, scaled)

    @property
    def cluster_weights(self) -> Array:
        """Sum of the responsibilities of each cluster: (K,)."""
        return np.array([cluster.weight for cluster in self.clusters])


def expect_mixture(mixture: Mixture, block: Observed) -> MixtureSums:
    r"""E-step: responsibilities of the clusters for each row, and expected sums of each cluster.

    .. math::
        r_{ik} = \frac{\pi_k \, p(x_i \mid k)}{\sum_l \pi_l \, p(x_i \mid l)}

    Only observed cells count. Costs K times an E-step of one model.
    """
    densities = Densities(mixture, block.centre)
    sums = [_ClusterSums(parameters, clear=clear) for parameters, clear in densities.clusters]
    value = entropy = 0.0
    with workspace() as work:
        for group in block.groups:
            cells = group.cells.ready(work)
            squares = cells.squares
            found, log_joint = densities.of_rows(group, cells, squares.products(densities.precision))
            total = logsumexp(log_joint, axis=0)
            log_joint -= total
            share = np.exp(log_joint)
            value += float(group.weight @ total)
            entropy -= float(group.weight @ np.einsum("kb,kb->b", share, np.maximum(log_joint, -1e3)))
            share[share < NEGLIGIBLE] = 0.0
            share *= group.weight
            y_squared, counts = np.zeros((2, len(sums), block.n_features))
            squares.add_sums(share, y_squared)
            of_patterns = share if cells.pattern is None else by_pattern(share, cells.pattern)
            cells.presence.add_sums(of_patterns, counts)
            for k, cluster in enumerate(sums):
                cluster.add(group.reweighted(share[k]), cells, found[k], y_squared[k], counts[k])
    return MixtureSums(value, entropy, tuple(cluster.expected() for cluster in sums))


@final
class Densities:
    r"""Parameters of all clusters, arranged for the densities of rows with missing cells.

    With h the score of the latent variables at zero and P their covariance, the squared distance of a row is

    .. math:: (x - \mu)^\top C^{-1} (x - \mu) = (x - \mu)^\top \Psi^{-1} (x - \mu) - h^\top P h

    over its observed cells. The difference loses digits if the noise is small, or if the cluster is far from the
    centre of the table; the distance is then a sum of squared residuals.
    """

    def __init__(self, mixture: Mixture, centre: Array) -> None:
        """Arrange the parameters for cells from which ``centre`` was subtracted."""
        parts = [Parameters.of(model, centre) for model in mixture.clusters]
        self.clusters = [(part, _is_clear(part)) for part in parts]
        self.log_weights = np.log(mixture.weights)
        noise = np.stack([np.broadcast_to(part.noise, centre.shape) for part in parts])
        mean = np.stack([part.loadings[-1] for part in parts])  # mu - centre
        self.precision = 1 / noise  # (K, d)
        self._shift = mean / noise
        self._constant, self._log_noise = mean**2 / noise, np.log(noise)

    def of_rows(self, group: Group, cells: Cells, squares: Array) -> tuple[list[Latents], Array]:
        """Posteriors of the latent variables in each cluster, and log pi_k + log p(x | k): (K, b).

        ``squares`` holds the sums of omega y^2 / psi_k over the cells of each row: (K, b).
        """
        shift = _of_rows(cells.mask.products(self._constant), cells)
        log_noise = _of_rows(cells.presence.products(self._log_noise), cells)
        distances = squares - 2 * cells.values.products(self._shift) + shift  # of x - mu
        found, log_joint = [], np.empty(distances.shape)
        for k, (parameters, clear) in enumerate(self.clusters):
            latent = latents(parameters, cells, joint=clear)
            if clear:
                distance = distances[k] - latent.explained
            else:
                left = latent.residual(parameters, cells).row_squares(self.precision[k])
                distance = left + np.square(latent.mean).sum(axis=0)
            constant = group.observed * LOG_2PI + log_noise[k] - group.log_precision
            log_joint[k] = self.log_weights[k] - 0.5 * (constant + latent.of_rows(latent.logdet) + distance)
            found.append(latent)
        return found, log_joint


def _of_rows(products: Array, cells: Cells) -> Array:
    """Values of the rows, given values of the rows or of their patterns: (K, b)."""
    return products if cells.pattern is None else products[:, cells.pattern]


def _is_clear(parameters: Parameters) -> bool:
    """Whether differences of sums of squares keep enough digits."""
    size = np.einsum("kd,kd->d", parameters.loadings, parameters.loadings)  # of W and of mu - centre
    return bool((parameters.noise > CLEAR * size).all())


@final
class _ClusterSums:
    """Sums over the groups of a block for one cluster, whose responsibilities are the weights of the rows."""

    def __init__(self, parameters: Parameters, *, clear: bool) -> None:
        self._sums = ProductSums(parameters) if clear else ResidualSums(parameters)

    def add(self, group: Group, cells: Cells, found: Latents, squares: Array, counts: Array) -> None:
        """Add one group with the posterior of its latent variables, which is overwritten."""
        w, sums = group.weight, self._sums
        sums.weight += float(w.sum())
        sums.counts += counts
        if isinstance(sums, ProductSums):
            sums.add(cells, found, w)
            sums.squares += squares
            return
        with workspace() as work:
            sums.add(group, cells, found.mean, found.take_covariance(w), work)

    def expected(self) -> Regression:
        """Expected statistics of the cluster."""
        return self._sums.expected() if isinstance(self._sums, ProductSums) else self._sums.shrunk()
