"""Weights of cells: the probability that each follows the model, judged by its prediction from all other cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.special import chdtri, expit, logit

from probpca.blocks.cells import Group, MaskedCells
from probpca.inference.calibration import weighted_quantile
from probpca.inference.masked_rows import Parameters, doubled, latents
from probpca.learning.em.e_step import ResidualSums
from probpca.learning.em.m_step import latent_moments, maximise
from probpca.learning.robust.consistency import weighting_factor
from probpca.learning.robust.trimming import medians, movement
from probpca.learning.settings import WildCellSettings
from probpca.linalg.packed import doubled_sides, identity, inverse, outer_products, packed_size, unpack
from probpca.scratch import workspace

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.models import LinearGaussian
    from probpca.statistics import Regression
    from probpca.typing import Array

    Mask = npt.NDArray[np.bool_]

LOG_2PI = float(np.log(2 * np.pi))
NORMAL_MAD = 1.4826
"""Standard deviation of a Gaussian relative to its median absolute deviation."""
LEAST_SHARE = 1e-3
"""Smallest share of a residual that is due to the other cells; a cell of a smaller one predicts only itself."""
FARTHEST = 50.0
"""Largest log odds of a cell."""


class Judged(NamedTuple):
    """Posterior of the latent variables of all rows, with the residuals of the cells."""

    mean: Array  # m: (q, n)
    covariance: Array  # P, packed by rows: (q (q + 1) / 2, n)
    residual: Array  # x - mu - W m, 0 in missing cells: (d, n)
    doubt: Array  # w'Pw / psi, the posterior variance of the signal in units of the noise: (d, n)


@final
@dataclass(frozen=True, slots=True, eq=False)
class CellTable:
    """Rows in memory with a column per row, prepared for fits with weights of cells."""

    values: Array  # minus the centre, 0 in missing cells: (d, n)
    precision: Array  # relative precision of each cell as given, 0 if it is missing: (d, n)
    centre: Array  # (d,)
    weight: Array  # frequencies of the rows: (n,)

    @classmethod
    def of(cls, values: Array, weight: Array, precision: Array | None, centre: Array) -> CellTable:
        """Prepare rows (n, d) with NaN in missing cells."""
        seen = ~np.isnan(values)
        given = seen.astype(np.float64) if precision is None else np.where(seen, precision, 0.0)
        deviation = np.where(given > 0, values - centre, 0.0)
        return cls(np.ascontiguousarray(deviation.T), np.ascontiguousarray(given.T), centre, weight)

    @property
    def seen(self) -> Mask:
        """Whether each cell is observed: (d, n)."""
        return self.precision > 0

    def judge(self, model: LinearGaussian, omega: Array) -> Judged:
        """Posteriors of the rows if cells have the precisions ``omega``, (d, n)."""
        parameters, cells = Parameters.of(model, self.centre), self._cells(omega)
        found = latents(parameters, cells)
        m, P = found.mean, found.covariance[: packed_size(parameters.q)]
        fitted = model.loadings @ m + (model.mean - self.centre)[:, None]
        signal = (P.T @ doubled(parameters.loadings[:-1])).T
        noise = np.broadcast_to(model.noise_variance, self.centre.shape)[:, None]
        return Judged(m, P, np.where(self.seen, self.values - fitted, 0.0), signal / noise)

    def sums(self, model: LinearGaussian, omega: Array, judged: Judged, weight: Array, counts: Array) -> Regression:
        """Expected statistics for an M-step with cell precisions ``omega``, row weights and counts of cells (d,)."""
        parameters, cells = Parameters.of(model, self.centre), self._cells(omega)
        sums = ResidualSums(parameters)
        group = Group.of(cells, np.arange(weight.size), weight)
        covariance = np.zeros((packed_size(parameters.q + 1), weight.size))
        covariance[: len(judged.covariance)] = judged.covariance * weight
        with workspace() as work:
            sums.add(group, cells, judged.mean, covariance, work)
        sums.weight = float(weight.sum())
        return replace(sums.shrunk(), counts=counts)

    def _cells(self, omega: Array) -> MaskedCells:
        return MaskedCells.of(omega, omega * self.values)


def left_out(
    table: CellTable,
    model: LinearGaussian,
    omega: Array,
    judged: Judged,
    gram: Array | None = None,
    used: Array | float = 1.0,
) -> tuple[Array, Array]:
    r"""Residual of each cell predicted from all other cells, and its variance, both (d, n).

    .. math::
        r_{-ij} = \frac{r_{ij}}{g_{ij}}, \qquad
        v_{ij} = \psi_j \Big(\frac{1}{b_{ij}} + \frac{h_{ij}}{g_{ij}}\Big), \qquad
        g_{ij} = 1 - \omega_{ij} h_{ij}, \quad
        h_{ij} = w_j^\top P_i w_j / \psi_j + u_i t_i^\top A_j^{-1} t_i

    Here b is the precision of the cell as given and :math:`\omega` the one in the fit. The first part of h is exact:
    it leaves the cell out of the posterior of its row. The second one, if the matrices A of the regressions of the
    columns on t = [z; 1] are given as ``gram``, leaves it out of the parameters of its column, to which rows that are
    not ``used`` (u = 0) have not contributed.
    """
    leverage, noise = judged.doubt, np.broadcast_to(model.noise_variance, table.centre.shape)[:, None]
    column: Array | float = 0.0
    if gram is not None:
        t = np.vstack([judged.mean, np.ones(judged.mean.shape[1])])
        known = gram[-1] > 0  # columns that have cells in the rows that are used
        of_known = doubled_sides(inverse(np.where(known, gram, identity(len(t))))).T @ outer_products(t)
        column = np.where(known[:, None], of_known, 0.0)
    own = np.maximum(1.0 - omega * (leverage + column * used), LEAST_SHARE)
    given = np.where(table.seen, table.precision, 1.0)
    return judged.residual / own, noise * (1.0 / given + (leverage + column) / own)


@final
@dataclass(frozen=True, slots=True)
class WildCells:
    """Distribution of wild cells: of feature j they are N(mu_j, kappa C_jj), and say nothing about their row."""

    share: float
    spread: float  # kappa

    def log_density(self, model: LinearGaussian, deviation: Array) -> Array:
        """Log density of wild cells at deviations from the mean, (d, n)."""
        variance = self.spread * model.covariance.diag()[:, None]
        return -0.5 * (LOG_2PI + np.log(variance) + np.square(deviation) / variance)

    def tame(self, table: CellTable, model: LinearGaussian, residual: Array, variance: Array) -> Array:
        """Probability that each cell is not wild, given its leave-one-out residual and its variance: (d, n)."""
        log_tame = -0.5 * (LOG_2PI + np.log(variance) + np.square(residual) / variance)
        wild = logit(self.share) + self.log_density(model, table.values - (model.mean - table.centre)[:, None])
        return np.where(table.seen, expit(np.clip(log_tame - wild, -FARTHEST, FARTHEST)), 0.0)

    def lost(self, model: LinearGaussian, variance: Array) -> Array:
        """Mean square of the scores of tame cells under their weights, given the typical variance of cells: (d,)."""
        # A typical wild cell of the same column lies one standard deviation of the column away.
        wild = logit(self.share) + self.log_density(model, np.sqrt(model.covariance.diag())[:, None])

        def weight_of(z: Array) -> Array:
            log_tame = -0.5 * (LOG_2PI + np.log(variance)[:, None] + z * z)
            return np.asarray(expit(np.clip(log_tame - wild, -FARTHEST, FARTHEST)))

        return weighting_factor(weight_of)

    def refitted(self, table: CellTable, model: LinearGaussian, tame: Array, weight: Array, most: float) -> WildCells:
        """Share and spread of wild cells, given the probabilities that cells are not wild."""
        wild = (table.seen - tame) * weight
        total = float(wild.sum())
        share = total / max(float((table.seen * weight).sum()), 1.0)
        deviation = table.values - (model.mean - table.centre)[:, None]
        squares = np.square(deviation) / model.covariance.diag()[:, None]
        return WildCells(float(np.clip(share, 1e-3, most)), max(float((wild * squares).sum()) / max(total, 1e-12), 1.0))


class Climbed(NamedTuple):
    """End of a fit with weights of cells."""

    model: LinearGaussian
    tame: Array  # weight of each cell: (d, n)
    used: Array  # whether each row is used, 0 or 1: (n,)
    gram: Array  # matrices of the regressions of the columns, packed: (., d)
    n_iter: int
    converged: bool


def fit_student_cells(
    table: CellTable, model: LinearGaussian, floor: float, settings: WildCellSettings = WildCellSettings()
) -> Climbed:
    """Fit cells with Student's t distribution around the model, whose weights fall with the squared residual."""
    nu, used = settings.degrees, np.ones(table.weight.size)
    omega, gram, converged, steps = table.precision, np.empty((0, 0)), False, 0
    tame = table.seen.astype(np.float64)
    counts = tame @ table.weight
    for steps in range(1, settings.max_iter + 1):
        judged = table.judge(model, omega)
        noise = np.broadcast_to(model.noise_variance, table.centre.shape)[:, None]
        squares = table.precision * np.square(judged.residual) / noise + table.precision * judged.doubt
        tame = np.where(table.seen, (nu + 1) / (nu + squares), 0.0)
        omega = table.precision * tame
        sums = table.sums(model, omega, judged, table.weight, counts)
        gram, following = sums.gram, maximise(model, sums, floor, latent=latent_moments(sums))
        converged, model = steps > 2 and movement(model, following) < settings.movement, following
        if converged:
            break
    return Climbed(model, tame, used, gram, steps, converged)


def fit_wild_cells(
    table: CellTable,
    start: Climbed,
    floor: float,
    settings: WildCellSettings = WildCellSettings(),
    *,
    keep: float = 1.0,
) -> Climbed:
    """Fit with cells weighted by the probability that they are not wild, and without rows that do not fit.

    At least the share ``keep`` of the rows is used. Unless it is 1, they are chosen again every few steps.
    """
    model, tame, used, gram = start.model, start.tame, start.used, start.gram
    wild = WildCells(settings.share, settings.spread)
    omega, converged, steps = table.precision * tame, False, 0
    for steps in range(1, settings.max_iter + 1):
        weight = table.weight * used
        judged = table.judge(model, omega)
        cells = float((omega * weight).sum())
        if not cells:  # a few rows that contradict each other: all cells look wild
            break
        free = cells - table.centre.size * (model.n_components + 1)
        residual, variance = left_out(table, model, omega, judged, gram, used)
        variance *= cells / max(free, cells / 2)  # for the degrees of freedom of the parameters
        found = wild.tame(table, model, residual, variance)
        tame = tame + min(settings.free_steps / steps, 1.0) * (found - tame)
        wild = wild.refitted(table, model, tame, weight, settings.most)
        omega = table.precision * tame
        if keep < 1 and steps % settings.judge_rows == 0 and steps <= settings.judged_steps:
            used = used_rows(table, model, judged, np.square(residual) / variance, settings, keep)
            weight = table.weight * used
        sums = table.sums(model, omega, judged, weight, tame @ weight)
        gram, following = sums.gram, maximise(model, sums, floor, latent=latent_moments(sums))
        following = _widened(following, wild.lost(model, _typical(table, variance)))
        if model.noise_variance.ndim and steps <= settings.held_steps:
            # If half of the scores of a column are too small, it takes its wild cells for noise.
            ratio = _median_ratio(table, np.square(residual) / variance, weight)
            following = replace(following, noise_variance=following.noise_variance * np.minimum(ratio, 1.0))
        moved, model = movement(model, following), following
        converged = moved < settings.movement and steps > (2 * settings.judge_rows if keep < 1 else 2)
        if converged:
            break
    return Climbed(model, tame, used, gram, steps, converged)


def with_robust_noise(table: CellTable, found: Climbed, floor: float) -> LinearGaussian:
    """Model with a noise variance for each column, from the median of its squared leave-one-out scores."""
    model, omega = found.model, table.precision * found.tame
    residual, variance = left_out(table, model, omega, table.judge(model, omega), found.gram, found.used)
    ratio = _median_ratio(table, np.square(residual) / variance, table.weight * found.used)
    return replace(model, noise_variance=np.maximum(ratio * float(model.noise_variance), floor))


def _median_ratio(table: CellTable, squares: Array, weight: Array) -> Array:
    """Median of the squared scores of the cells of each column, relative to Gaussian ones; 1 if unknown: (d,)."""
    ratio = medians(np.where(table.seen, squares, np.nan).T, weight) / chdtri(1, 0.5)
    return np.where(ratio > 0, ratio, 1.0)


def _typical(table: CellTable, variance: Array) -> Array:
    """Median variance of the observed cells of each column: (d,)."""
    found = medians(np.where(table.seen, variance, np.nan).T, table.weight)
    return np.where(found > 0, found, 1.0)


def _widened(model: LinearGaussian, lost: Array) -> LinearGaussian:
    """Model whose noise is divided by the mean squares that weights leave of it, at least a half."""
    share = lost.mean() if model.noise_variance.ndim == 0 else lost
    return replace(model, noise_variance=model.noise_variance / np.maximum(share, 0.5))


def used_rows(
    table: CellTable, model: LinearGaussian, judged: Judged, squares: Array, settings: WildCellSettings, keep: float
) -> Array:
    """Rows, 1 or 0, neither far away within the subspace nor full of large scores; at least the share ``keep``.

    ``squares`` are the squared leave-one-out scores of the cells, (d, n).
    """
    q, seen = model.n_components, table.seen
    counts = seen.sum(axis=0)
    some = (counts > 0) & (table.weight > 0)

    def middle_of(values: Array, share: float = 0.5) -> float:
        return weighted_quantile(values[some], table.weight[some], share)

    mean = (np.minimum(squares, chdtri(1, 1 - settings.bound)) * seen).sum(axis=0) / np.maximum(counts, 1)
    middle = middle_of(mean)
    spread = max(NORMAL_MAD * middle_of(np.abs(mean - middle)), 1e-12)
    # I - P is the variance of the posterior means.
    means = np.linalg.inv(np.eye(q) * (1 + 1e-9) - unpack(judged.covariance))
    inside = np.einsum("in,nij,jn->n", judged.mean, means, judged.mean)
    scale = max(middle_of(inside) / chdtri(q, 0.5), 1e-12)
    far = inside / (chdtri(q, 1 - settings.row_level) * scale)
    worst = np.maximum((mean - middle) / (settings.row_cut * spread), far)
    return np.asarray(some & (worst <= max(1.0, middle_of(worst, keep))), dtype=np.float64)
