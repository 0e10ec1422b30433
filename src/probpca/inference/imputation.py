"""Imputation of missing cells from the observed cells of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy.special import stdtrit

from probpca.blocks import Block, as_block, observe
from probpca.blocks.block import dense_values
from probpca.errors import DataError, ShapeError
from probpca.inference.masked_rows import Parameters, group_posteriors, sample_latents, variational_posteriors
from probpca.inference.projection import decode
from probpca.linalg.packed import doubled_sides, identity, inverse, outer_products, packed_size
from probpca.models.gaussian import central_interval
from probpca.scratch import workspace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from probpca.blocks import Observed, Rows
    from probpca.inference.masked_rows import GroupPosterior
    from probpca.models import LinearGaussian, ParameterBelief
    from probpca.typing import Array, Index


class Imputed(NamedTuple):
    """Imputed table with the standard deviation of every cell.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        Observed cells as they are, and missing cells replaced by their conditional means.
    std : ndarray of shape (n, d)
        Standard deviation of each imputed cell; 0 for observed cells.
    """

    values: Array
    std: Array

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends of intervals, (n, d) each, that contain missing values with probability ``level``."""
        return central_interval(self.values, self.std, level)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ParameterCovariance:
    r"""Covariance :math:`\Sigma_j` of the estimated parameters :math:`[w_j; \mu_j]` of each feature.

    With t = [z; 1] and :math:`\psi_j` the noise variance, the variance of a missing cell is

    .. math:: \psi_j + w_j^\top P w_j + \operatorname{tr}(\Sigma_j E[t t^\top])
    """

    noise: Array  # psi: () or (d,)
    covariance: Array  # Sigma_j, packed by rows: (., d), or (., 1) if features share it

    @classmethod
    def of_fit(cls, model: LinearGaussian, information: Array, inflation: float | Array) -> ParameterCovariance:
        r"""Covariance of the parameters of a maximum-likelihood fit.

        Given the latent variables it is :math:`\Sigma_j = \psi_j A_j^{-1}`, with ``information``
        :math:`A_j = \sum_{i \in R_j} E[t_i t_i^\top]`. The maximum-likelihood noise variance, which is too small, is
        multiplied by ``inflation`` to correct for the degrees of freedom of the parameters.
        """
        noise = np.asarray(inflation * model.noise_variance)
        known = information[-1] > 0
        covariance = noise * inverse(np.where(known, information, identity(model.n_components + 1)))
        return cls(noise, covariance).without(np.flatnonzero(~known))

    def without(self, unknown: Index) -> ParameterCovariance:
        """Copy with infinite variances of features that were never observed, whose means are unknown."""
        if unknown.size == 0:
            return self
        covariance = self.covariance.copy()
        covariance[:, unknown] = 0.0
        covariance[-1, unknown] = np.inf
        return ParameterCovariance(self.noise, covariance)


def impute(model: LinearGaussian, x: Rows) -> Array:
    r"""Replace every missing cell (NaN) by its conditional mean given the observed cells of its row: (n, d).

    .. math:: E[x_j \mid x_O] = \mu_j + w_j^\top m

    with m the posterior mean of z given the observed cells :math:`x_O`. Observed cells are returned unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import impute
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[2.0], [1.0]], 0.5)
    >>> impute(model, [[4.5, np.nan]])
    array([[4.5, 2. ]])
    """
    block = as_block(x, model.n_features)
    return _completed(block, group_posteriors(model, block))


def impute_training(belief: ParameterBelief, x: Rows) -> Array:
    """Impute the training rows of a variational fit with the posterior of their latent variables in that fit: (n, d).

    It predicts missing cells of these rows better than the predictive model, which treats every row as new.
    """
    block = as_block(x, belief.centre.n_features)
    return _completed(block, variational_posteriors(belief, block))


def impute_with_uncertainty(model: LinearGaussian, x: Rows, uncertainty: ParameterCovariance | None = None) -> Imputed:
    r"""Impute missing cells with their standard deviations.

    .. math:: \operatorname{Var}[x_j \mid x_O] = \sigma^2 + w_j^\top P w_j

    If ``uncertainty`` is given, the variance includes the uncertainty of the parameters.
    """
    block = as_block(x, model.n_features)
    noise, covariance = (
        (model.noise_variance, None) if uncertainty is None else (uncertainty.noise, uncertainty.covariance)
    )
    return _completed_with_uncertainty(block, group_posteriors(model, block), noise, covariance)


def impute_training_with_uncertainty(belief: ParameterBelief, x: Rows, uncertainty: ParameterCovariance) -> Imputed:
    """Impute the training rows of a variational fit as ``impute_training`` does, with standard deviations."""
    block = as_block(x, belief.centre.n_features)
    posteriors = variational_posteriors(belief, block)
    return _completed_with_uncertainty(block, posteriors, uncertainty.noise, uncertainty.covariance)


def _completed(block: Block, posteriors: Iterable[GroupPosterior]) -> Array:
    out = dense_values(block)
    for found in posteriors:
        _fill(out, found, found.predicted(found.latents.mean))
    return out


def _completed_with_uncertainty(
    block: Block, posteriors: Iterable[GroupPosterior], noise: Array, covariance: Array | None
) -> Imputed:
    values = dense_values(block)
    std = np.zeros(values.shape)
    for found in posteriors:
        variance = found.signal_variance() * np.square(found.scale) + noise
        if covariance is not None:
            # The last entry belongs to the mean, and is infinite for a feature that was never observed.
            moments = doubled_sides(_second_moments(found))
            variance = variance + moments[:-1].T @ covariance[:-1] + covariance[-1]
        _fill(std, found, np.sqrt(variance), where=values)
        _fill(values, found, found.predicted(found.latents.mean))
    return Imputed(values, std)


def draw_missing(model: LinearGaussian, x: Rows, *, rng: np.random.Generator) -> Array:
    """Replace every missing cell by a random draw from its distribution given the observed cells: (n, d)."""
    return MissingCells.of(as_block(x, model.n_features), model.mean).draw(model, rng=rng)


@final
@dataclass(frozen=True, slots=True, eq=False)
class MissingCells:
    """Rows prepared once for draws of their missing cells from several models."""

    values: Array  # NaN in missing cells: (n, d)
    rows: Index  # position of the row of each missing cell, among the incomplete rows
    columns: Index  # column of each missing cell
    incomplete: Index  # positions of the rows with missing cells
    observed: Observed  # observed cells of the incomplete rows

    @classmethod
    def of(cls, block: Block, centre: Array) -> MissingCells:
        """Prepare the rows of a block; their cells are stored as deviations from ``centre`` (d,)."""
        values = dense_values(block)
        missing = np.isnan(values)
        incomplete = np.flatnonzero(missing.any(axis=1))
        rows, columns = np.nonzero(missing[incomplete])
        observed = observe(Block(values[incomplete]), centre, keep_empty=True)
        return cls(values, rows, columns, incomplete, observed)

    def draw(self, model: LinearGaussian, *, rng: np.random.Generator) -> Array:
        """Replace every missing cell by a random draw from its distribution given the observed cells: (n, d)."""
        latent = rng.standard_normal((self.incomplete.size, model.n_components))
        parameters = Parameters.of(model, self.observed.centre)
        with workspace() as work:
            for group in self.observed.groups:
                noise = latent[group.index].T[None]
                latent[group.index] = sample_latents(parameters, group.cells.ready(work), noise)[0].T
        drawn, std = self.values.copy(), np.sqrt(np.broadcast_to(model.noise_variance, model.mean.shape))
        noise = rng.standard_normal(self.rows.size) * std[self.columns]
        drawn[self.incomplete[self.rows], self.columns] = decode(model, latent)[self.rows, self.columns] + noise
        return drawn


def _second_moments(found: GroupPosterior) -> Array:
    """Posterior second moments E[t t'] with t = [z; 1], packed by rows: ((q + 1)(q + 2) / 2, b)."""
    q, b = found.latents.mean.shape
    t = np.vstack([found.latents.mean, np.ones(b)])
    moments = outer_products(t)
    moments[: packed_size(q)] += found.covariance
    return moments


def _fill(out: Array, found: GroupPosterior, answer: Array, where: Array | None = None) -> None:
    """Write values into the missing cells of the rows of a group."""
    missing = np.isnan((out if where is None else where)[found.index])
    rows, columns = np.nonzero(missing)
    out[found.index[rows], columns] = answer[rows, columns]


class Pooled(NamedTuple):
    """Estimate pooled over several imputed tables by Rubin's rules, made by ``pool``.

    Attributes
    ----------
    estimate : ndarray
        Mean of the estimates.
    variance : ndarray
        Total variance, within and between the imputed tables.
    degrees : ndarray
        Degrees of freedom of the t distribution; infinite if the estimates do not differ.
    fraction_missing : ndarray
        Fraction of the information about the estimate that is missing.
    """

    estimate: Array
    variance: Array
    degrees: Array
    fraction_missing: Array

    @property
    def std_error(self) -> Array:
        """Standard error of the estimate."""
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends of the confidence interval at ``level``, by the t distribution."""
        if not 0 < level < 1:
            msg = f"level must lie between 0 and 1; got {level}."
            raise DataError(msg)
        # With fewer than 0.001 degrees of freedom the interval is infinite.
        quantile = stdtrit(np.clip(self.degrees, 1e-3, 1e12), 0.5 + level / 2)
        width = np.where(self.std_error > 0, quantile * self.std_error, 0.0)
        return self.estimate - width, self.estimate + width


def pool(estimates: Any, variances: Any, df_complete: float | None = None) -> Pooled:
    r"""Pool estimates from m imputed tables, and their squared standard errors, by Rubin's rules.

    .. math::
        \bar Q = \tfrac1m \sum Q_k, \qquad T = \bar U + (1 + \tfrac1m) B, \qquad
        \nu = (m - 1) \left(1 + \frac{\bar U}{(1 + 1/m) B}\right)^2

    with :math:`\bar U` the mean of the squared standard errors ``variances`` within tables, and B the variance of the
    ``estimates`` between them; the first axis of both is that of the tables. ``df_complete``, the degrees of freedom
    of the estimate from a complete table, corrects :math:`\nu` for small samples (Barnard & Rubin 1999).

    Examples
    --------
    >>> from probpca.inference import pool
    >>> pooled = pool([1.0, 1.2, 0.8], [0.1, 0.1, 0.1], df_complete=50)
    >>> round(float(pooled.estimate), 3), round(float(pooled.std_error), 3), round(float(pooled.degrees), 1)
    (1.0, 0.392, 10.8)
    """
    q, u = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if q.shape != u.shape or q.ndim < 1 or len(q) < 2:
        msg = f"pool needs at least 2 estimates, and a variance for each; got shapes {q.shape} and {u.shape}."
        raise ShapeError(msg)
    if not (np.isfinite(q).all() and np.isfinite(u).all() and (u >= 0).all()):
        msg = "estimates and variances must be finite, and variances not negative."
        raise DataError(msg)
    m = len(q)
    within, between = u.mean(axis=0), (1 + 1 / m) * q.var(axis=0, ddof=1)
    total = within + between
    share = np.divide(between, total, out=np.zeros_like(total), where=total > 0)  # gamma
    degrees = np.divide(m - 1.0, share**2, out=np.full_like(total, np.inf), where=share > 0)
    if df_complete is not None and not df_complete > 0:
        msg = f"df_complete must be positive; got {df_complete}."
        raise DataError(msg)
    if df_complete is not None and np.isfinite(df_complete):
        observed = (df_complete + 1) / (df_complete + 3) * df_complete * (1 - share)
        degrees = 1 / (1 / degrees + np.divide(1.0, observed, out=np.full_like(total, np.inf), where=observed > 0))
    return Pooled(q.mean(axis=0), total, degrees, _fraction(share, degrees))


def _fraction(share: Array, degrees: Array) -> Array:
    """Fraction of missing information, corrected for a small number of tables."""
    odds = np.divide(share, 1 - share, out=np.full_like(share, np.inf), where=share < 1)
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(odds), 1.0, (odds + 2 / (degrees + 3)) / (odds + 1))


def noise_inflation(cells: float, rows: float, d: int, q: int, least_free: float = 0.1) -> float:
    """Factor that corrects the maximum-likelihood noise variance for degrees of freedom.

    Residuals of complete rows have (n - q - 1)(d - q) degrees of freedom, not n (d - q), because q loadings and a mean
    were fitted to each feature. With missing cells, the number of observed cells replaces n d. At least a share
    ``least_free`` of the residual cells counts as free. Without cells the factor is 1.
    """
    if cells <= 0:
        return 1.0
    residual = max(cells - rows * q, least_free * cells)
    free = max(residual - (q + 1) * (d - q), least_free * residual)
    return residual / free


def noise_inflation_by_feature(counts: Array, q: int, least_free: float = 0.1) -> Array:
    """Factors that correct the maximum-likelihood noise variance of each feature for degrees of freedom: (d,).

    Of the N_j observed cells of a feature, q + 1 are taken by its loadings and its mean. At least a share
    ``least_free`` of them counts as free.
    """
    free = np.maximum(counts - q - 1, least_free * counts)
    return np.divide(counts, free, out=np.ones_like(counts), where=free > 0)
