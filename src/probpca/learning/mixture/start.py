"""Starting values of a mixture: clusters of rows found by k-means, and a model of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.blocks import observe
from probpca.inference.imputation import impute
from probpca.inference.projection import encode
from probpca.learning.em.m_step import EM
from probpca.learning.loop import Monitor, iterate
from probpca.learning.missing.start import ScaledCovariance, spectral_start
from probpca.models import LinearGaussian, Mixture
from probpca.sources import Source
from probpca.statistics import ColumnSummary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.blocks import Block
    from probpca.learning.settings import MixtureSettings
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True, eq=False)
class StartingRows:
    """Rows in memory from which mixtures are started, with PPCA models of all of them.

    Missing cells cost nothing here: k-means sees posterior means of latent variables, or imputed rows.
    """

    block: Block
    wide: LinearGaussian  # PPCA with as many components as separate clusters may need
    base: LinearGaussian  # PPCA with as many components as each cluster has
    floor: Array  # smallest noise variance: () or (d,)
    settings: MixtureSettings

    @property
    def spaces(self) -> tuple[Array, ...]:
        """Points to be clustered in turn.

        Latent variables in units of the data, and imputed rows, show clusters that are far apart, and nearly always the
        same ones. Whitened latent variables also show those that differ along weak components, and vary.
        """
        white = encode(self.wide, self.block)
        weight = self.block.weights / self.block.total_weight
        variance = weight @ np.square(white - weight @ white)
        white /= np.sqrt(np.maximum(variance, np.finfo(float).tiny))
        latent = white * np.sqrt(np.square(self.wide.loadings).sum(axis=0))
        if self.block.n_rows * self.block.n_features > self.settings.imputed_cells:
            return latent, white, white
        return latent, white, impute(self.base, self.block), white, white

    def mixtures(self, n_clusters: int, count: int, rng: np.random.Generator) -> Iterator[Mixture]:
        """Yield starting models from k-means in the spaces in turn, ``count`` times; nearly equal ones once."""
        spaces, weight = self.spaces, self.block.weights
        known: list[Index] = []
        for i in range(count):
            labels = k_means(spaces[i % len(spaces)], weight, n_clusters, rng)
            if all(agreement(labels, other, weight, n_clusters) < self.settings.same_start for other in known):
                known.append(labels)
                yield self.mixture(labels, n_clusters)

    def mixture(self, labels: Index, n_clusters: int) -> Mixture:
        """Mixture whose clusters are models of groups of rows, given the number of the group of each row."""
        weight, rng = self.block.weights, np.random.default_rng(0)
        groups = [np.flatnonzero((labels == k) & (weight > 0)) for k in range(n_clusters)]
        clusters = tuple(self._cluster(self.block.pick(rows), rng) for rows in groups)
        sizes = np.array([weight[rows].sum() for rows in groups]) + 1.0
        return Mixture(sizes / sizes.sum(), clusters)

    def _cluster(self, rows: Block, rng: np.random.Generator) -> LinearGaussian:
        """Model of a group of rows: PPCA after a few steps, or the model of all rows around the mean of the group."""
        base, q = self.base, self.base.n_components
        if not rows.n_rows:
            return self._with_noise(base)
        summary = ColumnSummary.of(rows)
        mean = np.where(summary.observed > 0, summary.mean, base.mean)
        if (
            summary.total_weight <= 2 * q + 2
            or (summary.observed == 0).any()
            or np.count_nonzero(summary.variance) <= q
        ):
            return self._with_noise(replace(base, mean=mean))
        source = Source.of_block(rows).keep(partial(observe, centre=summary.mean))
        start = spectral_start(ScaledCovariance(source, summary), q, rng).model(q)
        least = float(self.settings.least_noise * base.noise_variance)
        step = partial(EM(np.asarray(least)).step, source=source)
        ended = iterate(
            step,
            replace(start, noise_variance=np.maximum(start.noise_variance, least)),
            Monitor(1.0, self.settings.group_steps),
        )
        return self._with_noise(ended.state)

    def _with_noise(self, model: LinearGaussian) -> LinearGaussian:
        """Model with as many noise variances as the mixture has, and none of them too small."""
        least = self.settings.least_noise * self.base.noise_variance
        noise = np.maximum(np.maximum(model.noise_variance, least), self.floor)
        return replace(model, noise_variance=np.broadcast_to(noise, self.floor.shape))


def agreement(labels: Index, other: Index, weight: Array, n_clusters: int) -> float:
    """Share of the rows that are in corresponding clusters of two partitions, whatever the clusters are called."""
    table = np.bincount(labels * n_clusters + other, weight, n_clusters**2).reshape(n_clusters, n_clusters)
    return float(min(table.max(axis=0).sum(), table.max(axis=1).sum()) / table.sum())


def k_means(points: Array, weight: Array, n_clusters: int, rng: np.random.Generator, max_iter: int = 30) -> Index:
    """Number of the cluster of each point (n,), by k-means++ and Lloyd's algorithm with weights of the points."""
    if n_clusters == 1:
        return np.zeros(len(points), np.intp)
    order = np.lexsort(points.T[::-1])  # draws then depend neither on the order of rows nor on their repetition
    centres = _spread_centres(points[order], weight[order], n_clusters, rng)
    labels = np.full(len(points), -1)
    for _ in range(max_iter):
        before, labels = labels, _squared_distances(points, centres).argmin(axis=1)
        if (labels == before).all():
            break
        total = np.bincount(labels, weight, n_clusters)
        sums = np.stack([np.bincount(labels, weight * column, n_clusters) for column in points.T], axis=1)
        centres = np.where(total[:, None] > 0, sums / np.maximum(total, np.finfo(float).tiny)[:, None], centres)
    return labels


def _spread_centres(points: Array, weight: Array, n_clusters: int, rng: np.random.Generator) -> Array:
    """Points drawn in turn, each with probability proportional to its squared distance from those before."""
    chosen = [int(rng.choice(len(points), p=weight / weight.sum()))]
    nearest = np.full(len(points), np.inf)
    for _ in range(n_clusters - 1):
        nearest = np.minimum(nearest, _squared_distances(points, points[chosen[-1:]])[:, 0]) * (weight > 0)
        size = nearest * weight
        total = float(size.sum())
        chosen.append(int(rng.choice(len(points), p=size / total if total > 0 else weight / weight.sum())))
    return points[chosen]


def _squared_distances(points: Array, centres: Array) -> Array:
    """Squared distances of points (n, p) from centres (K, p): (n, K)."""
    products = np.square(points).sum(axis=1)[:, None] - 2 * points @ centres.T + np.square(centres).sum(axis=1)
    return np.maximum(products, 0.0)
