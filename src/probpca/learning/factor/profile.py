"""Profile likelihood of factor analysis: the log-likelihood of the noise variances, with the best loadings for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, final

import numpy as np

from probpca.learning.complete.dense import axes_of, starting_block, top_of_matrix
from probpca.learning.complete.krylov import covariance_product
from probpca.learning.complete.spectrum import Certificate
from probpca.linalg.block_krylov import block_krylov
from probpca.scratch import workspace
from probpca.sources.engines.local import map_blocks

if TYPE_CHECKING:
    from probpca.learning.settings import DenseSettings, KrylovSettings
    from probpca.sources import Source
    from probpca.statistics import Stack
    from probpca.typing import Array, Index


class CorrelationOperator(Protocol):
    """Protocol of the correlation matrix R of the columns, in whatever form it is cheapest."""

    @property
    def n_features(self) -> int:
        """Number of features d."""
        ...

    def leading(self, scale: Array, goal: Certificate, near: Array | None = None) -> tuple[Array, Array]:
        """Largest eigenpairs of D R D with D = diag(``scale``), largest first, as accurate as ``goal`` asks.

        An iteration starts from the vectors ``near``. Returns values (k,) and vectors (d, k), or one pair more, which
        may be less accurate.
        """
        ...

    def among(self, features: Index) -> Array:
        """Correlations among some of the features: (m, m)."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class CorrelationMatrix:
    """The matrix R itself."""

    matrix: Array  # (d, d)
    dense: DenseSettings
    rng: np.random.Generator = field(default_factory=partial(np.random.default_rng, 0))

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return len(self.matrix)

    def leading(self, scale: Array, goal: Certificate, near: Array | None = None) -> tuple[Array, Array]:
        """Largest eigenpairs of D R D and the next one, directly or by iteration."""
        scaled = self.matrix * scale
        scaled *= scale[:, None]
        values, axes, _ = top_of_matrix(scaled, goal, self.rng, self.dense, near, more=1)
        return values, axes

    def among(self, features: Index) -> Array:
        """Correlations among some of the features: (m, m)."""
        return self.matrix[np.ix_(features, features)]


@final
@dataclass(frozen=True, slots=True, eq=False)
class FewRows:
    """Few rows with many columns: R is not computed, but the Gram matrix of the rows, again for each D."""

    stack: Stack
    mean: Array  # of all features: (d,)
    std: Array  # of all features, 0 if constant: (d,)
    dense: DenseSettings
    n_jobs: int
    rng: np.random.Generator = field(default_factory=partial(np.random.default_rng, 0))

    @property
    def n_features(self) -> int:
        """Number of features that are not constant."""
        return int(np.count_nonzero(self.std))

    def leading(self, scale: Array, goal: Certificate, near: Array | None = None) -> tuple[Array, Array]:  # noqa: ARG002
        """Largest eigenpairs of D R D, from those of its Gram matrix."""
        varies, n = self.std > 0, goal.n
        factor = np.zeros(varies.size)
        factor[varies] = scale / self.std[varies]
        work = partial(_scaled_products, self.stack, self.mean, factor)
        gram = sum(map_blocks(work, list(self.stack.panels()), self.n_jobs), np.zeros((self.stack.n_rows,) * 2))
        values, coordinates, _ = top_of_matrix(gram / n, goal, self.rng, self.dense)
        axes = factor[:, None] * axes_of(self.stack, self.mean, coordinates, self.n_jobs)
        return values, axes[varies] / np.sqrt(n * np.maximum(values, np.finfo(float).tiny))

    def among(self, features: Index) -> Array:
        """Correlations among some of the features: (m, m)."""
        chosen = np.flatnonzero(self.std)[features]
        columns = [self.stack.panel(slice(j, j + 1), np.float64)[:, 0] for j in chosen]
        rows = (np.column_stack(columns) - self.mean[chosen]) / self.std[chosen]
        w = self.stack.weight
        return np.asarray((rows * w[:, None]).T @ rows / w.sum())


def _scaled_products(stack: Stack, mean: Array, factor: Array, columns: slice) -> Array:
    """Inner products of the centred rows over a panel of columns, each multiplied by a factor: (n, n)."""
    with workspace() as work:
        panel = stack.panel(columns, np.float64, work)
        panel -= mean[columns]
        panel *= factor[columns]
        if stack.is_weighted:
            panel *= np.sqrt(stack.weight)[:, None]
        return np.asarray(panel @ panel.T)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ManyColumns:
    """Rows with many columns, wherever they are stored: R is only multiplied with vectors, in passes over the rows."""

    source: Source
    weight: float
    mean: Array  # of all features: (d,)
    std: Array  # of all features, 0 if constant: (d,)
    krylov: KrylovSettings
    rng: np.random.Generator = field(default_factory=partial(np.random.default_rng, 0))

    @property
    def n_features(self) -> int:
        """Number of features that are not constant."""
        return int(np.count_nonzero(self.std))

    def leading(self, scale: Array, goal: Certificate, near: Array | None = None) -> tuple[Array, Array]:
        """Largest eigenpairs of D R D, by block Krylov iteration."""
        start = starting_block(goal.d, min(goal.k + self.krylov.oversampling, goal.d), self.rng, near)
        apply = partial(self._product, scale)
        found = block_krylov(apply, start, goal.k, goal, scale=goal.total)
        return found.values, np.asarray(found.vectors, np.float64)

    def _product(self, scale: Array, vectors: Array) -> Array:
        """Product D R D V: (d, k)."""
        varies = self.std > 0
        factor = (scale / self.std[varies])[:, None]
        placed = np.zeros((varies.size, vectors.shape[1]))
        placed[varies] = factor * vectors
        return factor * covariance_product(self.source, self.mean, placed, self.weight)[varies]

    def among(self, features: Index) -> Array:
        """Correlations among some of the features: (m, m)."""
        chosen = np.zeros((self.n_features, features.size))
        chosen[features, np.arange(features.size)] = 1.0
        return self._product(np.ones(self.n_features), chosen)[features]


class Point(NamedTuple):
    r"""The profile likelihood at some noise variances, with the eigenpairs of S* that determine it.

    With :math:`A = S^* - U T U^\top` and :math:`B = I - U U^\top`, the gradient of F is diag(B - A).
    """

    log_noise: Array  # log psi: (d,)
    value: float  # F, -2/n times the log-likelihood up to a constant
    outside: Array  # diagonal of A: (d,)
    uncovered: Array  # diagonal of B: (d,)
    values: Array  # eigenvalues t_k > 1, at most q: (m,)
    axes: Array  # their eigenvectors U: (d, m)
    next_value: float  # the eigenvalue that follows these; 0 if it is not known
    next_axis: Array  # its eigenvector: (d,)

    @property
    def gradient(self) -> Array:
        """Derivative of F with respect to the log noise variances: (d,)."""
        return self.uncovered - self.outside

    def loadings(self, q: int) -> Array:
        """Loadings of standardised columns that maximise the likelihood, the columns beyond m zero: (d, q)."""
        W = np.zeros((self.log_noise.size, q))
        m = self.values.size
        W[:, :m] = np.exp(self.log_noise / 2)[:, None] * self.axes * np.sqrt(self.values - 1)
        return W


@final
@dataclass(frozen=True, slots=True)
class Profile:
    r"""Log-likelihood of the noise variances of standardised columns, maximised over the loadings of q factors.

    With R the correlation matrix, and the q largest eigenpairs :math:`(t_k, u_k)` of
    :math:`S^* = \Psi^{-1/2} R \Psi^{-1/2}`, those with :math:`t_k > 1` only,

    .. math::
        F = \sum_j \log \psi_j + \sum_k (\log t_k - t_k + 1) + \sum_j 1 / \psi_j, \qquad
        W = \Psi^{1/2} U (T - I)^{1/2}

    and the log-likelihood is a constant minus n/2 F. Joereskog (1967), "Some contributions to maximum likelihood
    factor analysis".
    """

    correlations: CorrelationOperator
    q: int
    weight: float  # total weight n of the rows
    offset: float  # log-likelihood where F = 0
    accuracy: float  # loss of log-likelihood by inexact eigenpairs that is accepted, in nats

    def log_likelihood(self, point: Point) -> float:
        """Total log-likelihood of the rows."""
        return self.offset - 0.5 * self.weight * point.value

    def at(self, log_noise: Array, near: Point | None = None) -> Point:
        """Evaluate F; an iterative eigensolver starts from the eigenvectors of the point ``near``."""
        x, precision = log_noise, np.exp(-log_noise)
        start = near.axes if near is not None and near.axes.shape[1] else None
        values, axes = self._pairs(precision, self.q, self.accuracy, start)
        m = int((values[: self.q] > 1).sum())
        known = m < values.size
        following = float(values[m]) if known else 0.0, axes[:, m] if known else np.zeros(x.size)
        values, axes = values[:m], axes[:, :m]
        squares = axes * axes
        value = float(x.sum() + (np.log(values) - values + 1).sum() + precision.sum())
        return Point(x, value, precision - squares @ values, 1 - squares.sum(axis=1), values, axes, *following)

    def leading(self, k: int, accuracy: float) -> tuple[Array, Array]:
        """Largest k eigenpairs of the correlation matrix itself, with a loss of at most ``accuracy`` nats."""
        values, axes = self._pairs(np.ones(self.correlations.n_features), k, accuracy)
        return values[:k], axes[:, :k]

    def _pairs(self, precision: Array, k: int, accuracy: float, start: Array | None = None) -> tuple[Array, Array]:
        goal = Certificate(self.weight, precision.size, k, float(precision.sum()), accuracy)
        return self.correlations.leading(np.sqrt(precision), goal, start)
