"""Questions to a mixture: clusters of rows, densities, latent variables, missing cells, and samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from probpca.available_memory import require_memory
from probpca.blocks import as_block
from probpca.blocks.block import dense_values
from probpca.errors import DataError
from probpca.inference.imputation import draw_missing, impute_with_uncertainty
from probpca.inference.likelihood import log_likelihood
from probpca.inference.posteriors import posterior, posterior_mean
from probpca.inference.sampling import add_noise
from probpca.result_tables import NO_NAMES, Column, Names, ResultTable, Section, numbers, rest, shown_as_table, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.blocks import Rows
    from probpca.inference.imputation import ParameterCovariance
    from probpca.models import Gaussian, Mixture
    from probpca.typing import Array, Index

BISECTIONS = 40
"""Halvings of the interval that contains a quantile of a mixture."""


def log_joint(mixture: Mixture, x: Rows) -> Array:
    """Log density of each row together with each cluster, log pi_k + log p(x | k): (n, K)."""
    block = as_block(x, mixture.n_features)
    densities = np.stack([log_likelihood(cluster, block) for cluster in mixture.clusters], axis=1)
    return densities + np.log(mixture.weights)


def mixture_log_likelihood(mixture: Mixture, x: Rows) -> Array:
    r"""Log density of the observed cells of each row: (n,).

    .. math:: \log p(x) = \log \sum_k \pi_k \, p(x \mid k)

    Missing cells (NaN) are integrated out; a row without observed cells has log density 0.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import mixture_log_likelihood
    >>> from probpca.models import LinearGaussian, Mixture
    >>> cluster = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 1.0)
    >>> mixture_log_likelihood(Mixture([0.5, 0.5], (cluster, cluster)), np.zeros((1, 2))).round(4)
    array([-2.1845])
    """
    return np.asarray(logsumexp(log_joint(mixture, x), axis=1))


def responsibilities(mixture: Mixture, x: Rows) -> Array:
    r"""Probability of each cluster given the observed cells of each row: (n, K).

    .. math:: r_{ik} = \frac{\pi_k \, p(x_i \mid k)}{\sum_l \pi_l \, p(x_i \mid l)}

    A row without observed cells has the weights of the mixture.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import responsibilities
    >>> from probpca.models import LinearGaussian, Mixture
    >>> near = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 0.5)
    >>> far = LinearGaussian(np.full(2, 9.0), [[0.0], [1.0]], 0.5)
    >>> responsibilities(Mixture([0.75, 0.25], (near, far)), [[0.0, np.nan], [np.nan, np.nan]]).round(2)
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """
    values = log_joint(mixture, x)
    return np.asarray(np.exp(values - logsumexp(values, axis=1, keepdims=True)))


@shown_as_table
@final
@dataclass(frozen=True, slots=True, eq=False)
class MixturePosterior:
    """Posterior of the cluster of each row, and of its latent variables in each cluster.

    ``print`` and a notebook show the first rows; ``to_frame()`` has all.

    Attributes
    ----------
    responsibilities : ndarray of shape (n, K)
        Probability of each cluster.
    clusters : tuple of Gaussian
        For each cluster the distribution of the latent variables, if the row belongs to it.
    names : Names or None
        Names of the rows, for tables and dataframes.
    """

    responsibilities: Array
    clusters: tuple[Gaussian, ...]
    names: Names | None = None

    def to_dict(self) -> dict[str, Any]:
        """Responsibility of each cluster, and mean and standard deviation of each latent variable in it."""
        out: dict[str, Any] = {}
        for k, cluster in enumerate(self.clusters):
            out[f"C{k}"] = self.responsibilities[:, k]
            out |= {f"C{k}_{name}": values for name, values in cluster.to_dict().items()}
        return out

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return a dataframe with a line for every row, of the library of the input, or of ``backend``."""
        return (self.names or NO_NAMES).frame(self.to_dict(), backend)

    def table(self, most: int = 10) -> ResultTable:
        """Most probable cluster of the first ``most`` rows, its probability and the latent variables in it."""
        n, names = len(self.responsibilities), self.names or NO_NAMES
        rows = range(min(most, n))
        best = self.responsibilities[:most].argmax(axis=1)
        means = np.array([self.clusters[k].mean[i] for i, k in enumerate(best)]).reshape(len(best), -1)
        shown = min(means.shape[1], 4)
        columns = (
            words("row", names.row_names(rows)),
            Column("cluster", [f"{k}" for k in best]),
            numbers("probability", self.responsibilities[np.arange(len(best)), best]),
            *(numbers(f"PC{j + 1} mean", means[:, j]) for j in range(shown)),
        )
        return ResultTable(
            (Section("Most probable cluster, and latent variables in it", columns, rest(n - most, "more row")),)
        )


def mixture_posterior(mixture: Mixture, x: Rows) -> MixturePosterior:
    """Posterior of the cluster and of the latent variables of each row, given its observed cells.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import mixture_posterior
    >>> from probpca.models import LinearGaussian, Mixture
    >>> near = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 1.0)
    >>> far = LinearGaussian(np.full(2, 9.0), [[0.0], [1.0]], 1.0)
    >>> found = mixture_posterior(Mixture([0.5, 0.5], (near, far)), [[3.0, 0.0]])
    >>> found.responsibilities.round(2), found.clusters[0].mean
    (array([[1., 0.]]), array([[1.5]]))
    """
    block = as_block(x, mixture.n_features)
    clusters = tuple(posterior(cluster, block) for cluster in mixture.clusters)
    return MixturePosterior(responsibilities(mixture, block), clusters)


def weighted_scores(mixture: Mixture, x: Rows) -> Array:
    """Posterior means of the latent variables in each cluster times its probability, side by side: (n, K q).

    Latent variables of different clusters mean different things, so that a sum over clusters would mean nothing.
    """
    block = as_block(x, mixture.n_features)
    scores = np.stack([posterior_mean(cluster, block) for cluster in mixture.clusters], axis=1)  # (n, K, q)
    return np.asarray((responsibilities(mixture, block)[:, :, None] * scores).reshape(block.n_rows, -1))


class ImputedCells(NamedTuple):
    """Rows whose missing cells are distributed as mixtures of Gaussians, one for each cluster."""

    values: Array  # observed cells, and conditional means of missing ones: (n, d)
    row: Index  # row of each missing cell: (m,)
    column: Index  # column of each missing cell: (m,)
    weights: Array  # probability of each cluster, for each missing cell: (K, m)
    means: Array  # mean in each cluster: (K, m)
    stds: Array  # standard deviation in each cluster: (K, m)

    @property
    def std(self) -> Array:
        """Standard deviation of each missing cell; 0 for observed cells: (n, d)."""
        out, mean = np.zeros(self.values.shape), self.values[self.row, self.column]
        with np.errstate(invalid="ignore"):
            variance = (self.weights * (np.square(self.stds) + np.square(self.means - mean))).sum(axis=0)
        out[self.row, self.column] = np.sqrt(variance)
        return out

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Ends of intervals between quantiles of the mixtures; both ends of an observed cell are its value."""
        if not 0 < level < 1:
            msg = f"level must lie between 0 and 1; got {level}."
            raise DataError(msg)
        ends = []
        for p in ((1 - level) / 2, (1 + level) / 2):
            out = self.values.copy()
            out[self.row, self.column] = mixture_quantile(p, self.weights, self.means, self.stds)
            ends.append(out)
        return ends[0], ends[1]


def impute_cells(
    mixture: Mixture, x: Rows, uncertainty: Sequence[ParameterCovariance | None] | None = None
) -> ImputedCells:
    """Distributions of all missing cells given the observed cells of their rows.

    ``uncertainty`` holds the uncertainty of the parameters of each cluster.
    """
    block = as_block(x, mixture.n_features)
    values = dense_values(block)
    row, column = np.nonzero(np.isnan(values))
    weights = responsibilities(mixture, block)[row].T
    means, stds = np.empty(weights.shape), np.empty(weights.shape)
    for k, cluster in enumerate(mixture.clusters):
        found = impute_with_uncertainty(cluster, block, None if uncertainty is None else uncertainty[k])
        means[k], stds[k] = found.values[row, column], found.std[row, column]
    values[row, column] = (weights * means).sum(axis=0)
    return ImputedCells(values, row, column, weights, means, stds)


def impute_mixture(mixture: Mixture, x: Rows) -> Array:
    r"""Replace every missing cell (NaN) by its conditional mean given the observed cells of its row: (n, d).

    .. math:: E[x_j \mid x_O] = \sum_k r_k (\mu_{kj} + w_{kj}^\top m_k)

    with :math:`m_k` the posterior mean of the latent variables in cluster k. Observed cells are returned unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import impute_mixture
    >>> from probpca.models import LinearGaussian, Mixture
    >>> near = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 0.5)
    >>> far = LinearGaussian(np.full(2, 9.0), [[0.0], [1.0]], 0.5)
    >>> impute_mixture(Mixture([0.75, 0.25], (near, far)), [[9.0, np.nan]]).round(2)
    array([[9., 9.]])
    """
    return impute_cells(mixture, x).values


def mixture_quantile(p: float, weights: Array, means: Array, stds: Array) -> Array:
    """Quantiles of mixtures of Gaussians with K parts each, given arrays (K, m): (m,).

    A quantile lies between the smallest and the largest of those of the parts, which is halved until it is found.
    """
    with np.errstate(invalid="ignore"):
        own = means + stds * ndtri(p)
    used = weights > 1e-12
    low = np.where(used, own, np.inf).min(axis=0, initial=np.inf)
    high = np.where(used, own, -np.inf).max(axis=0, initial=-np.inf)
    finite = np.isfinite(low) & np.isfinite(high)  # features that were never observed have infinite intervals
    a, b, w, m, s = low[finite], high[finite], weights[:, finite], means[:, finite], stds[:, finite]
    for _ in range(BISECTIONS):
        middle = 0.5 * (a + b)
        under = (w * ndtr((middle - m) / s)).sum(axis=0) < p
        a, b = np.where(under, middle, a), np.where(under, b, middle)
    out = low if p < 0.5 else high
    out[finite] = 0.5 * (a + b)
    return out


def sample_mixture(mixture: Mixture, n: int, *, rng: np.random.Generator) -> tuple[Array, Index]:
    """Draw ``n`` independent rows (n, d) from the mixture, and return the number of the cluster of each (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import sample_mixture
    >>> from probpca.models import LinearGaussian, Mixture
    >>> near = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 0.5)
    >>> far = LinearGaussian(np.full(2, 9.0), [[0.0], [1.0]], 0.5)
    >>> rows, labels = sample_mixture(Mixture([0.75, 0.25], (near, far)), 5, rng=np.random.default_rng(0))
    >>> rows.shape, labels
    ((5, 2), array([0, 0, 0, 0, 1]))
    """
    d, q = mixture.n_features, mixture.n_components
    require_memory(f"{n:,} rows of {d:,} columns", 8 * int(n) * (2 * d + q), "draw fewer rows at a time")
    labels = rng.choice(mixture.n_clusters, n, p=mixture.weights / mixture.weights.sum())
    out = np.empty((n, d))
    for k, cluster in enumerate(mixture.clusters):
        rows = np.flatnonzero(labels == k)
        latent = rng.standard_normal((rows.size, q))
        out[rows] = add_noise(cluster, latent @ cluster.loadings.T + cluster.mean, rng)
    return out, labels


def draw_cells(mixture: Mixture, x: Rows, *, rng: np.random.Generator) -> Array:
    """Replace every missing cell by a random draw from its distribution given the observed cells: (n, d).

    The cluster of a row is drawn first, then its latent variables, then its cells.
    """
    block = as_block(x, mixture.n_features)
    out = dense_values(block)
    incomplete = np.flatnonzero(np.isnan(out).any(axis=1))
    if not incomplete.size:
        return out
    some = block.pick(incomplete)
    share = np.cumsum(responsibilities(mixture, some), axis=1)
    labels = (rng.random((incomplete.size, 1)) > share[:, :-1]).sum(axis=1)
    for k, cluster in enumerate(mixture.clusters):
        rows = np.flatnonzero(labels == k)
        if rows.size:
            out[incomplete[rows]] = draw_missing(cluster, some.pick(rows), rng=rng)
    return out
