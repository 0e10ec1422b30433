"""Posterior and likelihood of rows with missing cells, computed in groups of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.blocks import observe
from probpca.blocks.block import with_units
from probpca.blocks.cells import FormSettings
from probpca.cached_property import cached_property
from probpca.errors import DataError
from probpca.linalg.low_rank import SplitDistance
from probpca.linalg.packed import (
    by_rows,
    chunks,
    doubled_sides,
    factor,
    identity,
    inner_products,
    outer_products,
    packed_size,
    sample,
    solve,
    unpack,
)
from probpca.linalg.rotations import symmetric_root, triangular_root
from probpca.scratch import workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from probpca.blocks import Block
    from probpca.blocks.cells import Cells, Group, Residual
    from probpca.models import LinearGaussian, ParameterBelief
    from probpca.scratch import Workspace
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True)
class StiffSettings:
    """When and how posteriors are computed by orthogonal transformations, which take more time and keep more digits."""

    information: float = 1e8  # largest entry of the precision that the cells of a row add, above which digits are lost
    cells: int = 2**23  # largest group of rows; only sparse rows with very few observed cells are in larger groups
    chunk_cells: int = 2**21  # entries of the matrices that are factored at a time


STIFF = StiffSettings()
ONE_PASS = FormSettings(few=0.07)
"""Forms of rows that are used once: sparse ones must make up for the time that it takes to find their cells."""


@final
@dataclass(frozen=True, eq=False)
class Parameters:
    """Parameters of a model with a column per feature, for products with cells that have a centre subtracted.

    If the parameters have a posterior ``covariance``, expected outer products are used.
    """

    loadings: Array  # W', followed by the row mu - centre: (q + 1, d)
    noise: Array  # sigma2: () or (d,)
    centre: Array  # subtracted from the cells: (d,)
    information: Array  # E[w_j w_j'] / psi_j, packed by columns: (q (q + 1) / 2, d)
    covariance: Array | None = None  # of [w_j; mu_j], packed by rows: (., d), or (., 1) if features share it

    @classmethod
    def of(cls, model: LinearGaussian, centre: Array) -> Parameters:
        """Parameters of a model for cells from which ``centre`` was subtracted."""
        theta = np.vstack([model.loadings.T, model.mean - centre])
        return cls(theta, model.noise_variance, centre, model.cell_information)

    @classmethod
    def of_belief(cls, belief: ParameterBelief, centre: Array) -> Parameters:
        """Parameters with a posterior distribution, for cells from which ``centre`` was subtracted."""
        return replace(cls.of(belief.centre, centre), information=belief.cell_information, covariance=belief.covariance)

    @property
    def q(self) -> int:
        """Number of components."""
        return len(self.loadings) - 1

    @cached_property
    def encoder(self) -> Array:
        """Product W' Psi^{-1}: (q, d)."""
        return self.loadings[:-1] / self.noise

    @cached_property
    def offset(self) -> Array | None:
        """Expected value E[(mu_j - centre_j) w_j] / psi_j: (q, d); None if it is zero for all features."""
        shift = self.loadings[-1]
        if self.covariance is None:
            return shift * self.encoder if shift.any() else None
        start = packed_size(self.q)
        return shift * self.encoder + self.covariance[start : start + self.q] / self.noise

    def information_and_score(self, cells: Cells) -> tuple[Array, Array]:
        """Precision that the cells of each row add to that of z, and the score of z at zero.

        The precisions, W' Omega Psi^{-1} W, are packed by columns: (q (q + 1) / 2, b or patterns). The score is
        W' Omega Psi^{-1} (x - mu): (q, b).
        """
        score, offset, k = cells.values.products(self.encoder), self.offset, len(self.information)
        if offset is None:
            return cells.mask.products(self.information), score
        with workspace() as work:  # one product is faster than two
            both = work.array("summed over cells", (k + self.q, offset.shape[1]))
            both[:k], both[k:] = self.information, offset
            found = cells.mask.products(both)
        score -= found[k:] if cells.pattern is None else found[k:, cells.pattern]
        return found[:k], score


@final
@dataclass(frozen=True, eq=False)
class Latents:
    """Posterior N(m, P) of the latent variables of every row. Rows with the same pattern share P."""

    mean: Array  # m: (q, b)
    covariance: Array  # P, or P + m m' if ``joint``, packed by rows, with q + 1 spare rows: (., b or patterns)
    logdet: Array  # log |I + W' Omega Psi^{-1} W|: (b,), or (patterns,)
    explained: Array  # h' P h, h = W' Omega Psi^{-1} (x - mu): (b,)
    pattern: Index | None

    def of_rows(self, per_pattern: Array) -> Array:
        """Values of the rows (b,), given values of the patterns."""
        return per_pattern if self.pattern is None else per_pattern[..., self.pattern]

    def take_covariance(self, weight: Array) -> Array:
        """Sums of w P over the rows of each pattern, or w P of each row, followed by zeros; overwrites the covariances.

        For posteriors that are not ``joint``.
        """
        taken = self.covariance
        taken[packed_size(len(self.mean)) :] = 0.0
        taken *= weight if self.pattern is None else np.bincount(self.pattern, weight, taken.shape[1])
        return taken

    def residual(self, parameters: Parameters, cells: Cells) -> Residual:
        """Residuals omega (x - mu - W m) of the observed cells."""
        return cells.residual(parameters.loadings, np.vstack([self.mean, np.ones(self.mean.shape[1])]))


def latents(parameters: Parameters, cells: Cells, *, joint: bool = False, work: Workspace | None = None) -> Latents:
    r"""Posterior of the latent variables given the observed cells of each row.

    .. math::
        P_i = \Big(I + \sum_{j} \omega_{ij} w_j w_j^\top / \psi_j\Big)^{-1}, \qquad
        m_i = P_i \sum_j \omega_{ij} w_j (x_{ij} - \mu_j) / \psi_j

    The precisions of all rows are one matrix product of the mask with the outer products of the rows of W. With
    ``joint`` the second moments P + m m' are returned in place of P, at no extra cost, unless rows share patterns.
    With a workspace the covariances are in its buffer "latent covariance".
    """
    information, h = parameters.information_and_score(cells)
    if is_stiff(information) and parameters.centre.size * len(cells.observed()) <= STIFF.cells:
        return _latents_by_rotation(parameters, cells, joint=joint)
    if cells.pattern is not None:
        return _latents_by_pattern(information, h, cells.pattern)
    q, b = h.shape
    shape = packed_size(q + 1), b
    covariance = np.empty(shape) if work is None else work.array("latent covariance", shape)
    mean, logdet, explained = np.empty((q, b)), np.empty(b), np.empty(b)
    with workspace() as own:
        for chunk in chunks(b, q):
            found = factor(information[:, chunk], h[:, chunk], 1.0, own)
            mean[:, chunk] = found.solution
            logdet[chunk] = found.logdet
            explained[chunk] = np.einsum("ib,ib->b", found.half, found.half)
            inner_products(found.root if joint else found.root[:q], covariance[:, chunk])
    return Latents(mean, covariance, logdet, explained, None)


def is_stiff(information: Array) -> bool:
    """Whether Cholesky factors of I + A lose half of the digits for some of the packed matrices A."""
    return bool(information.max(initial=0.0) > STIFF.information)  # the largest entry is on the diagonal


def _latents_by_rotation(parameters: Parameters, cells: Cells, *, joint: bool) -> Latents:
    r"""Posterior of the latent variables by QR of the matrices :math:`[\Omega^{1/2} \Psi^{-1/2} W; I]`.

    Their condition numbers are square roots of those of the precisions :math:`I + W^\top \Omega \Psi^{-1} W`. If the
    parameters have a posterior covariance, its square roots are further rows of W.
    """
    q, d, pattern = parameters.q, parameters.centre.size, cells.pattern
    W, values = _whitened_rows(parameters)  # (r, d, q), (r, d)
    roots = np.sqrt(cells.mask.products(np.eye(d))).T  # (b or patterns, d)
    of_row = np.arange(len(roots)) if pattern is None else pattern
    weighted = cells.residual(parameters.loadings[-1:], np.ones((1, of_row.size))).dense()
    y = weighted / (np.where(roots > 0, roots, 1.0)[of_row] * np.sqrt(parameters.noise))  # (b, d)
    half, mean = np.empty((of_row.size, q)), np.empty((of_row.size, q))
    logdet, covariance = np.empty(len(roots)), np.zeros((packed_size(q + 1), len(roots)))
    step = max(STIFF.chunk_cells // (W.size + q * q), 1)
    for start in range(0, len(roots), step):
        some = slice(start, min(start + step, len(roots)))
        rows = np.flatnonzero((of_row >= start) & (of_row < some.stop))
        matrices = (roots[some, None, :, None] * W).reshape(some.stop - start, -1, q)
        identities = np.broadcast_to(np.eye(q), (some.stop - start, q, q))
        basis, R = np.linalg.qr(np.concatenate([matrices, identities], axis=1))
        right = roots[of_row[rows], None, :] * values
        right[:, 0] += y[rows]
        half[rows] = np.einsum("bkq,bk->bq", basis[of_row[rows] - start, :-q], right.reshape(rows.size, -1))
        mean[rows] = np.linalg.solve(R[of_row[rows] - start], half[rows][..., None])[..., 0]
        logdet[some] = 2 * np.log(np.abs(np.diagonal(R, axis1=1, axis2=2))).sum(axis=1)
        inner_products(np.linalg.inv(R).transpose(2, 1, 0), covariance[:, some])
    latent = mean.T.copy()
    if joint and pattern is None:
        covariance[: packed_size(q)] += outer_products(latent)
    return Latents(latent, covariance, logdet, np.square(half).sum(axis=1), pattern)


def _whitened_rows(parameters: Parameters) -> tuple[Array, Array]:
    """Rows S of a matrix with S'S = E[w w'] / psi for each feature, (r, d, q), and v with S'v = -Cov[w, mu] / psi."""
    W = parameters.loadings[:-1].T
    root = np.sqrt(np.broadcast_to(parameters.noise, (len(W),)))
    if parameters.covariance is None:
        return W[None] / root[:, None], np.zeros((1, len(W)))
    spread = symmetric_root(unpack(np.broadcast_to(parameters.covariance, (len(parameters.covariance), len(W)))))
    rows = np.concatenate([W[None], spread[:, :-1].transpose(2, 0, 1)])  # (q + 2, d, q)
    return rows / root[:, None], np.concatenate([np.zeros((1, len(W))), -spread[:, -1].T]) / root


def _latents_by_pattern(information: Array, h: Array, pattern: Index) -> Latents:
    """Posterior of rows that share patterns, with one Cholesky factor per pattern."""
    q, patterns = len(h), information.shape[1]
    covariance, root = np.empty((packed_size(q + 1), patterns)), np.empty((q, q, patterns))
    logdet = np.empty(patterns)
    with workspace() as work:
        for chunk in chunks(patterns, q):
            found = factor(information[:, chunk], None, 1.0, work)
            logdet[chunk] = found.logdet
            root[:, :, chunk] = found.root
            inner_products(found.root, covariance[:, chunk])
    if patterns == 1:
        half = root[:, :, 0] @ h
        mean = root[:, :, 0].T @ half
    else:
        of_rows = root[:, :, pattern]  # L^{-1}
        half = np.einsum("ijb,jb->ib", of_rows, h)
        mean = np.einsum("ijb,ib->jb", of_rows, half)
    return Latents(mean, covariance, logdet, np.einsum("ib,ib->b", half, half), pattern)


def sample_latents(parameters: Parameters, cells: Cells, noise: Array) -> Array:
    """Draws from the posterior of the latent variables of each row, made from standard normal numbers: (k, q, b)."""
    information, h = parameters.information_and_score(cells)
    q = parameters.q
    if is_stiff(information):
        found = _latents_by_rotation(parameters, cells, joint=False)
        covariance = found.of_rows(found.covariance[: packed_size(q)])
        return found.mean + np.einsum("bij,kjb->kib", triangular_root(unpack(covariance)), noise)
    if cells.pattern is None:
        return sample(information[by_rows(q)] + identity(q), h, noise)
    root = factor(information, None, 1.0).root  # L^{-1} of each pattern
    if root.shape[2] == 1:
        return np.asarray(root[:, :, 0].T @ (root[:, :, 0] @ h + noise))
    of_rows = root[:, :, cells.pattern]
    return np.einsum("ijb,kib->kjb", of_rows, np.einsum("ijb,jb->ib", of_rows, h) + noise)


class LeastSquares(NamedTuple):
    """Least-squares estimates of latent variables from the observed cells, without a prior."""

    latent: Array  # estimates: (q, b)
    rank: Index  # number of latent directions that the cells determine: (b,)
    distance: Array  # T2 = x' U (I + S^2)^{-1} U' x, in units of the noise: (b,)


@final
@dataclass(frozen=True, eq=False)
class GroupPosterior:
    """Posterior of a group of rows, in units in which all features have the same noise variance."""

    group: Group
    cells: Cells
    parameters: Parameters
    scale: Array  # unit of each feature: () or (d,)

    @property
    def index(self) -> Index:
        """Positions of the rows in the block: (b,)."""
        return self.group.index

    @cached_property
    def latents(self) -> Latents:
        """Posterior of the latent variables."""
        return latents(self.parameters, self.cells)

    def mean(self) -> Array:
        """Posterior mean of each row, computed without the covariance: (q, b)."""
        information, score = self.parameters.information_and_score(self.cells)
        if self.cells.pattern is not None or is_stiff(information):
            return self.latents.mean
        q = self.parameters.q
        return solve(information[by_rows(q)] + identity(q), score)

    def sample(self, noise: Array) -> Array:
        """Draws from the posterior of each row, made from standard normal numbers: (k, b, q)."""
        return sample_latents(self.parameters, self.cells, noise.transpose(0, 2, 1)).transpose(0, 2, 1)

    @property
    def covariance(self) -> Array:
        """Posterior covariance of each row, packed by rows: (q (q + 1) / 2, b)."""
        return self.latents.of_rows(self.latents.covariance[: packed_size(self.parameters.q)])

    @property
    def noise(self) -> float:
        """Noise variance in the units of the group."""
        return float(self.parameters.noise)

    def distance(self) -> Array:
        """Squared Mahalanobis distance of each row, |x - mu - W m|^2 / sigma2 + |m|^2: (b,).

        The posterior mean m minimises this sum, so that errors of m enter squared. The sum of T2 and Q has no such
        protection, if the observed cells hardly determine one of the latent directions.
        """
        found = self.latents
        left = found.residual(self.parameters, self.cells).row_squares() / self.noise
        return np.asarray(left + np.square(found.mean).sum(axis=0))

    def log_likelihood(self) -> Array:
        """Log density of the observed cells of each row: (b,)."""
        found = self.latents
        distance = self.distance()
        constant = self.group.observed * (np.log(2 * np.pi) + np.log(self.noise)) - self.group.log_precision
        if self.scale.ndim:
            units = self.cells.mask.products(2 * np.log(self.scale)[None])[0]
            constant = constant + (units if self.cells.pattern is None else units[self.cells.pattern])
        return -0.5 * (constant + found.of_rows(found.logdet) + distance)

    def predicted(self, latent: Array) -> Array:
        """Predicted rows W z + mu, in the units of the data: (b, d)."""
        fitted = latent.T @ self.parameters.loadings[:-1] + self.parameters.loadings[-1]
        return (fitted + self.centre) * self.scale

    @property
    def centre(self) -> Array:
        """Centre that was subtracted from the rows, in the units of the group: (d,)."""
        return self.parameters.centre

    def signal_variance(self) -> Array:
        """Posterior variance w_j' P w_j of the signal of each cell, in the units of the group: (b, d)."""
        return self.covariance.T @ doubled(self.parameters.loadings[:-1])

    def split_distance(self, negligible: float = 1e-12) -> SplitDistance:
        r"""Squared distances T2 and Q of each row, several times faster than by ``least_squares``.

        With A the information and h the score of a row, :math:`T^2 = h^\top A^{-1} (I + A)^{-1} h`. A ``negligible``
        share of the largest entry of A is added to its diagonal, so that unobserved directions contribute nothing.
        Q is the difference of D2 and T2, which loses digits if it is far smaller than T2: accurate enough for
        quantiles.
        """
        q = self.parameters.q
        information, h = self.parameters.information_and_score(self.cells)
        information = (information if self.cells.pattern is None else information[:, self.cells.pattern])[by_rows(q)]
        latent = solve(information + identity(q), h)  # posterior mean: (q, b)
        residual = self.cells.residual(self.parameters.loadings, np.vstack([latent, np.ones((1, h.shape[1]))]))
        whole = residual.row_squares() / self.noise + np.square(latent).sum(axis=0)
        ridge = negligible * information.max(axis=0) + np.finfo(np.float64).tiny
        inside = np.einsum("ib,ib->b", h, solve(information + ridge * identity(q), latent))
        return SplitDistance(inside, np.maximum(whole - inside, 0.0))

    def least_squares(self, negligible: float = 1e-12) -> LeastSquares:
        """Least-squares estimates of the latent variables; minimum-norm ones if they are not unique.

        A direction whose eigenvalue is below a ``negligible`` share of the largest counts as not observed.
        """
        q = self.parameters.q
        information, h = self.parameters.information_and_score(self.cells)
        information = (information if self.cells.pattern is None else information[:, self.cells.pattern])[by_rows(q)]
        values, vectors = np.linalg.eigh(unpack(information))  # (b, q), (b, q, q)
        most = np.minimum(self.group.observed, q)[:, None]
        used = (np.arange(q, 0, -1) <= most) & (values > negligible * values[:, -1:])
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=used)
        along = np.einsum("bij,ib->bj", vectors, h)
        latent = np.einsum("bij,bj->ib", vectors, along * inverse)
        distance = (along**2 * inverse / (1.0 + values)).sum(axis=1)
        return LeastSquares(latent, used.sum(axis=1), distance)


def doubled(loadings: Array) -> Array:
    """Packed outer products of the rows w of W whose inner product with a packed P is w'P w: (q (q + 1) / 2, d)."""
    return doubled_sides(outer_products(loadings))


def group_posteriors(
    model: LinearGaussian, block: Block, settings: FormSettings = ONE_PASS
) -> Iterator[GroupPosterior]:
    """Yield the posteriors of groups of rows of a block with missing cells; ``settings`` control the grouping."""
    scale = _noise_units(model, block)
    if scale.ndim:
        model = replace(model.rescale(1 / scale), noise_variance=np.asarray(1.0))
    return _groups(partial(Parameters.of, model), model.mean, block, scale, settings)


def variational_posteriors(belief: ParameterBelief, block: Block) -> Iterator[GroupPosterior]:
    r"""Yield the variational posteriors of the latent variables of training rows, in groups of rows.

    .. math::
        q(z_i) = N(m_i, P_i), \quad
        P_i^{-1} = I + \sum_{j \in O_i} E[w_j w_j^\top] / \psi_j, \quad
        m_i = P_i \sum_{j \in O_i} (\hat w_j x_{ij} - E[w_j \mu_j]) / \psi_j

    Only for the rows that the posterior of the parameters was fitted to. ``log_likelihood`` of these groups is
    not meaningful.
    """
    scale = _noise_units(belief.centre, block)
    if scale.ndim:
        belief = belief.rescale(1 / scale)
        belief = replace(belief, centre=replace(belief.centre, noise_variance=np.asarray(1.0)))
    return _groups(partial(Parameters.of_belief, belief), belief.centre.mean, block, scale)


def _noise_units(model: LinearGaussian, block: Block) -> Array:
    """Units in which all features have the same noise variance: (), or (d,) if their noise variances differ."""
    if not model.noise_variance.ndim:
        return np.asarray(1.0)
    if block.precision is not None:
        msg = "cell weights need a model with one noise variance for all features; this one has one per feature."
        raise DataError(msg)
    return np.sqrt(model.noise_variance)


def _groups(
    arrange: Callable[[Array], Parameters],
    mean: Array,
    block: Block,
    scale: Array,
    settings: FormSettings = ONE_PASS,
) -> Iterator[GroupPosterior]:
    """Yield the groups of a block divided by ``scale``; ``arrange`` makes the parameters for a given centre."""
    values = block.values.astype(np.float64, copy=False)  # a deviation from the mean in float32 would be rounded
    block = replace(block, values=with_units(values, 1 / scale) if scale.ndim else values)
    parameters = arrange(mean)
    for group in observe(block, mean, keep_empty=True, settings=settings).groups:
        yield GroupPosterior(group, group.cells.ready(), parameters, scale)
