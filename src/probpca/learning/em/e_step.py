"""E-step: expected sufficient statistics of complete rows and of rows with missing cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.blocks import Observed, as_block
from probpca.inference.likelihood import LOG_2PI
from probpca.inference.masked_rows import Parameters, latents
from probpca.inference.posteriors import encoder, posterior_covariance
from probpca.linalg.packed import multiply, pack, packed_size, row_order, traces, unpack
from probpca.scratch import workspace
from probpca.statistics import Regression

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.blocks.cells import Cells, Group
    from probpca.inference.masked_rows import Latents
    from probpca.models import LinearGaussian, ParameterBelief
    from probpca.scratch import Workspace
    from probpca.typing import Array, Index

CLEAR = 1e-4
"""Share of noise in the variance above which differences of sums of squares are accurate enough."""


def _expect_observed(parameters: Parameters, block: Observed) -> Regression:
    """Expected statistics of a block with missing cells at the given parameters.

    If the parameters have a posterior covariance, the log-likelihood is replaced by its variational lower bound for
    independent posteriors of latent variables and parameters.

    Each group of rows needs two matrix products: of the mask with outer products of loadings, and of moments of the
    latent variables with the mask. Squared residuals follow from the sums unless the noise is small, in which case
    they are summed residual by residual.
    """
    W = parameters.loadings[:-1]
    clear = bool((parameters.noise > CLEAR * np.einsum("kd,kd->d", W, W)).all())
    with workspace() as work:
        return (_from_sums if clear else _from_residuals)(parameters, block.groups, work)


class _Sums:
    """Sums over the groups of a block that do not depend on how residuals are summed."""

    def __init__(self, parameters: Parameters) -> None:
        q, d = parameters.q, parameters.centre.size
        self.parameters, self.noise = parameters, parameters.noise
        self.weight, self.constant, self.distance = 0.0, 0.0, 0.0
        self.counts = np.zeros(d)
        self.latent = np.zeros(packed_size(q + 1))
        self.gram = np.zeros((packed_size(q + 1), d))
        self.right = np.zeros((q + 1, d))
        self.squares = np.zeros(d)

    def count(self, group: Group, found: Latents) -> None:
        """Add rows, cells, and the part of the log-likelihood that does not involve residuals."""
        self.weight += group.total_weight
        self.counts += group.counts
        self.constant += float((group.counts * (LOG_2PI + np.log(self.noise))).sum())
        self.constant += float(group.weight @ (found.of_rows(found.logdet) - group.log_precision))

    def regression(self, score: Array, squares: Array) -> Regression:
        value = -0.5 * (self.constant + self.distance)
        return Regression(self.weight, self.counts, value, self.latent, self.gram, score, squares)


def _from_sums(parameters: Parameters, groups: tuple[Group, ...], work: Workspace) -> Regression:
    """Expected statistics from sums of y and of its squares, converted to sums of residuals."""
    sums = ProductSums(parameters)
    for group in groups:
        cells, w = group.cells.ready(work), group.weight
        found = latents(parameters, cells, joint=True, work=work)
        sums.add(cells, found, w)
        sums.squares += group.squares
        sums.distance -= float(w @ found.explained)
        sums.count(group, found)
    mean = parameters.loadings[-1]
    centred = sums.squares - mean * (2 * sums.right[-1] - mean * sums.gram[-1])  # of x - mu: (d,)
    sums.distance += float((centred / sums.noise).sum())
    if parameters.covariance is not None:
        sums.distance += float((parameters.covariance[-1] * sums.gram[-1] / sums.noise).sum())
    return sums.expected()


class ProductSums(_Sums):
    """Sums of products of cells and latent variables, for noise that is not small."""

    def add(self, cells: Cells, found: Latents, w: Array) -> None:
        """Add one group given its second moments P + m m', which are overwritten, and the weights of its rows."""
        moments, weighted = _moments(found, w)
        cells.mask.add_sums(moments, self.gram)  # A: (p, d)
        cells.values.add_sums(weighted, self.right)  # sum w omega y [m; 1]: (q + 1, d)
        self.latent += moments.sum(axis=1)

    def expected(self) -> Regression:
        """Expected statistics; ``squares`` must hold the sums of w omega y^2."""
        theta = self.parameters.loadings
        fitted = multiply(self.gram, theta)
        squares = self.squares + np.einsum("kd,kd->d", theta, fitted - 2 * self.right)
        return self.regression(self.right - fitted, squares)


def _from_residuals(parameters: Parameters, groups: tuple[Group, ...], work: Workspace) -> Regression:
    """Expected statistics from separate sums of residuals at the posterior means and of posterior covariances."""
    sums = ResidualSums(parameters)
    for group in groups:
        cells, w = group.cells.ready(work), group.weight
        found = latents(parameters, cells, work=work)
        sums.add(group, cells, found.mean, found.take_covariance(w), work)
        sums.distance += float(w @ np.square(found.mean).sum(axis=0))
        sums.count(group, found)
    sums.distance += float((sums.squares / sums.noise).sum())
    if parameters.covariance is not None:
        spread = traces(sums.gram, np.broadcast_to(parameters.covariance, sums.gram.shape))
        sums.distance += float((spread / sums.noise).sum())
    return sums.shrunk()


def regress_on(
    model: LinearGaussian, block: Observed, mean: Array, covariance: Array, squares: Array
) -> tuple[Regression, Array]:
    """Expected statistics of rows given the means (q, n) and packed covariances (., n) of their latent variables.

    For complete rows the covariances of some rows may represent all. The log-likelihood is left out, because it
    depends on how the latent variables were inferred. Also returns the squared residuals of each feature at the
    means, summed over the rows: (d,).
    """
    counts = max(block.n_rows, 1)
    clear = bool((model.noise_variance > CLEAR * squares / counts).all())
    kind = _Products if clear and all(_is_one_pattern(group.cells) for group in block.groups) else ResidualSums
    sums = kind(Parameters.of(model, block.centre), squares)
    k, size = packed_size(model.n_components), packed_size(model.n_components + 1)
    with workspace() as work:
        for group in block.groups:
            cells, w = group.cells.ready(work), group.weight
            if _is_one_pattern(cells):  # rows may share covariances with others: use the average
                latent_covariance = np.zeros((size, 1))
                latent_covariance[:k, 0] = covariance.mean(axis=1) * w.sum()
            else:
                latent_covariance = work.array("weighted covariance", (size, w.size))
                np.multiply(covariance[:, group.place], w, out=latent_covariance[:k])
                latent_covariance[k:] = 0.0
                if cells.pattern is not None:
                    latent_covariance = by_pattern(latent_covariance, cells.pattern)
            sums.add(group, cells, mean[:, group.place], latent_covariance, work)
            sums.weight += group.total_weight
            sums.counts += group.counts
    return sums.shrunk(), sums.squares


class ResidualSums(_Sums):
    """Sums of residuals at the means of the latent variables, and of their covariances."""

    def __init__(self, parameters: Parameters, total: Array | None = None) -> None:
        super().__init__(parameters)
        self.theta, self.total = parameters.loadings, total
        self.latent_covariance = np.zeros(self.gram.shape)

    def add(self, group: Group, cells: Cells, mean: Array, latent_covariance: Array, work: Workspace) -> None:
        """Add one group, given w P of each of its rows, or the sum of w P over the rows of each pattern."""
        w = group.weight
        m = np.vstack([mean, np.ones(mean.shape[1])])
        rest = cells.residual(self.theta, m)
        known = _outer(m, w, cells, work)  # w m m': (p, b), or sums over patterns
        cells.mask.add_sums(latent_covariance, self.latent_covariance)  # sum w omega P: (p, d)
        cells.mask.add_sums(known, self.gram)
        self.right += rest.sums(w * m)
        self.latent += known.sum(axis=1) + latent_covariance.sum(axis=1)
        self.squares += rest.column_squares(w)

    def shrunk(self) -> Regression:
        """Expected statistics: residuals at the means plus the contribution of the covariances."""
        self.gram += self.latent_covariance
        shrink = multiply(self.latent_covariance, self.theta)
        squares = self.squares + np.einsum("kd,kd->d", self.theta, shrink)
        return self.regression(self.right - shrink, squares)


def _moments(found: Latents, w: Array) -> tuple[Array, Array]:
    """Packed w E[t t'] of each row, or summed over patterns, and w [m; 1] of each row."""
    q, b = found.mean.shape
    k = packed_size(q)
    if found.pattern is None:
        moments = found.covariance  # P + m m', followed by spare rows for the border
        moments[k:-1] = found.mean
        moments[-1] = 1.0
        moments *= w
        return moments, moments[k:]
    weighted, t = np.vstack([found.mean * w, w]), np.vstack([found.mean, np.ones(b)])
    if found.covariance.shape[1] == 1:
        moments = pack(weighted @ t.T)[:, None]
    else:
        rows, columns = row_order(q + 1)
        moments = by_pattern(weighted[rows] * t[columns], found.pattern)
    moments[:k] += found.covariance[:k] * moments[-1]
    return moments, weighted


class _Products(ResidualSums):
    """Sums of residuals of complete rows whose noise is not small, computed from sums of products."""

    def add(self, group: Group, cells: Cells, mean: Array, latent_covariance: Array, work: Workspace) -> None:
        """Add one group, given w P of each of its rows, or the sum of w P over the rows of each pattern."""
        m = np.vstack([mean, np.ones(mean.shape[1])])
        known = _outer(m, group.weight, cells, work)
        cells.mask.add_sums(latent_covariance, self.latent_covariance)
        cells.mask.add_sums(known, self.gram)
        cells.values.add_sums(group.weight * m, self.right)  # sum w y [m; 1]
        self.latent += known.sum(axis=1) + latent_covariance.sum(axis=1)

    def shrunk(self) -> Regression:
        """Expected statistics, with residuals at the means computed from sums of products."""
        fitted = multiply(self.gram, self.theta)
        self.squares = self.total + np.einsum("kd,kd->d", self.theta, fitted - 2 * self.right)
        self.right = self.right - fitted
        return super().shrunk()


def _outer(m: Array, w: Array, cells: Cells, work: Workspace) -> Array:
    """Packed w m m' of each row, or summed over the rows of each pattern; may be stored in the workspace."""
    weighted = m * w
    if _is_one_pattern(cells):
        return pack(weighted @ m.T)[:, None]
    products = work.array("outer products", (packed_size(len(m)), m.shape[1]))
    for out, i, j in zip(products, *row_order(len(m)), strict=True):
        np.multiply(weighted[i], m[j], out=out)
    return products if cells.pattern is None else by_pattern(products, cells.pattern)


def _is_one_pattern(cells: Cells) -> bool:
    return cells.pattern is not None and cells.pattern[0] == cells.pattern[-1]


def by_pattern(of_rows: Array, pattern: Index) -> Array:
    """Sums over the rows of each pattern, for rows sorted by pattern: (p, patterns)."""
    starts = np.flatnonzero(np.diff(pattern, prepend=-1))
    return np.add.reduceat(of_rows, starts, axis=1)


def expect(model: LinearGaussian, block: Block | Observed) -> Regression:
    """E-step: expected sufficient statistics and log-likelihood of rows at the parameters of a model.

    The log-likelihood needs no extra pass, because x'C^{-1}x = r'Psi^{-1}r + m'm with r the residual at the
    posterior mean m.
    """
    if isinstance(block, Observed):
        return _expect_observed(Parameters.of(model, block.centre), block)
    constant = model.n_features * LOG_2PI + model.covariance.logdet()
    return _regress(model, block, _Latents(encoder(model), posterior_covariance(model), constant))


def expect_believed(belief: ParameterBelief, block: Block | Observed) -> Regression:
    """E-step of variational Bayes: expected statistics of rows, with a lower bound in place of the log-likelihood."""
    model = belief.centre
    if isinstance(block, Observed):
        return _expect_observed(Parameters.of_belief(belief, block.centre), block)
    d, q = model.loadings.shape
    summed = (
        d * unpack(belief.covariance[:, 0]) / float(model.noise_variance)
    )  # summed over the features: (q + 1, q + 1)
    root = np.linalg.cholesky(np.eye(q) + model.loadings.T @ model.loadings / model.noise_variance + summed[:q, :q])
    inverse = np.linalg.solve(root, np.eye(q))
    P = inverse.T @ inverse
    constant = d * (LOG_2PI + float(np.log(model.noise_variance))) + 2 * float(np.log(np.diag(root)).sum())
    gain = model.loadings @ P / model.noise_variance
    return _regress(model, block, _Latents(gain, P, constant, -P @ summed[:q, q], summed))


def expect_zero_noise(model: LinearGaussian, block: Block) -> Regression:
    """E-step in the limit of zero noise, where the latent variables are least-squares coordinates.

    The likelihood diverges in this limit: ``log_likelihood`` of the result is not meaningful, only ``squares`` is.
    """
    gain = np.asarray(np.linalg.pinv(model.loadings).T)  # W (W'W)^{-1}: (d, q)
    q = model.n_components
    return _regress(model, block, _Latents(gain, np.zeros((q, q)), 0.0))


class _Latents(NamedTuple):
    """Posterior N(G'(x - mu) + c, P) of the latent variables of complete rows."""

    gain: Array  # G: (d, q)
    covariance: Array  # P: (q, q)
    constant: float  # part of the log density that is the same for all rows, times -2
    offset: Array | float = 0.0  # c: (q,)
    parameter_covariance: Array | float = (
        0.0  # of the parameters of all features, in units of the noise: (q + 1, q + 1)
    )


def _regress(model: LinearGaussian, block: Block, latents: _Latents) -> Regression:
    """Expected statistics of complete rows, in one pass."""
    block = as_block(block, model.n_features)
    d, q = model.loadings.shape
    P = latents.covariance
    weight, tt = 0.0, np.zeros((q + 1, q + 1))
    residual, squares = np.zeros((q + 1, d)), np.zeros(d)
    with workspace() as work:
        for rows in block.pieces():
            w = block.weight_of(rows)
            rest = block.centred(rows, model.mean, work=work)
            t = np.ones((len(rest), q + 1))
            t[:, :q] = rest @ latents.gain + latents.offset  # [m; 1]: (rows, q + 1)
            rest -= t[:, :q] @ model.loadings.T  # r: (rows, d)
            wt = w[:, None] * t
            weight += float(w.sum())
            tt += wt.T @ t
            residual += wt.T @ rest
            squares += w @ np.square(rest, out=rest)
    distance = float(
        (squares / model.noise_variance).sum() + np.trace(tt[:q, :q]) + (latents.parameter_covariance * tt).sum()
    )
    latent_covariance = weight * (P @ model.loadings.T)  # sum w P w_j: (q, d)
    residual[:q] -= latent_covariance
    squares += np.einsum("qd,dq->d", latent_covariance, model.loadings)
    tt[:q, :q] += weight * P
    value = -0.5 * (weight * latents.constant + distance)
    packed = pack(tt)
    return Regression(weight, np.array([weight]), value, packed, packed[:, None], residual, squares)
