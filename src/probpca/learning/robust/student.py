"""Multivariate Student-t rows: a start of robust fits, because single distant rows hardly move it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.special import gammaln

from probpca.inference.masked_rows import Parameters, latents
from probpca.learning.em.e_step import ResidualSums
from probpca.learning.em.m_step import latent_moments, maximise
from probpca.learning.robust.consistency import inflated
from probpca.scratch import workspace

if TYPE_CHECKING:
    from probpca.blocks import Observed
    from probpca.blocks.cells import Residual
    from probpca.models import LinearGaussian
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class StudentRows:
    r"""EM for rows with a multivariate t distribution, with missing cells and given degrees of freedom.

    .. math:: x_O \sim t_\nu(\mu_O, C_O), \qquad u_i = \frac{\nu + k_i}{\nu + D_i^2}

    A row with k observed cells at the squared distance D2 from the model gets the weight u. The M-step is that of PPCA
    with rows weighted by u, except that the posterior covariances of the latent variables have no weight u: given u,
    they are proportional to 1 / u. The scale matrix C = W W' + Psi is smaller than the covariance of the rows.
    """

    rows: Observed
    floor: float | Array  # smallest noise variance: () or (d,)
    degrees: float = 3.0  # nu

    def __call__(self, model: LinearGaussian) -> tuple[LinearGaussian, float]:
        """Model after a step, and the total log-likelihood of the given model."""
        parameters, nu, value, cells_by_feature = Parameters.of(model, self.rows.centre), self.degrees, 0.0, 0.0
        sums, total = ResidualSums(parameters), 0.0
        log_noise = np.broadcast_to(np.log(model.noise_variance), self.rows.centre.shape)
        with workspace() as work:
            for group in self.rows.groups:
                cells, w = group.cells.ready(work), group.weight
                found = latents(parameters, cells, work=work)
                d2 = squared_distances(found.residual(parameters, cells), model) + np.square(found.mean).sum(axis=0)
                u = (nu + group.observed) / (nu + d2)
                sums.add(group.reweighted(w * u), cells, found.mean, found.take_covariance(w), work)
                sums.count(group, found)
                total += float(w @ u)
                cells_by_feature += group.counts @ log_noise
                value += float(w @ (log_density(nu, d2, group.observed) - 0.5 * found.of_rows(found.logdet)))
                value += 0.5 * float(w @ np.broadcast_to(group.log_precision, w.shape))
        regression = sums.shrunk()
        expanded = replace(regression, weight=total)
        latent = latent_moments(expanded)
        scatter = latent.covariance * (total / regression.weight)
        new = maximise(model, regression, self.floor, latent=replace(latent, covariance=scatter))
        # The mean of u would be 1 if the scale were right (Kent, Tyler & Vardi 1994).
        return inflated(new, regression.weight / total), value - 0.5 * cells_by_feature

    def run(self, start: LinearGaussian, steps: int, movement: float = 1e-2) -> LinearGaussian:
        """Model after at most so many steps, fewer if the log noise variance hardly changes."""
        model = start
        for _ in range(steps):
            following, _ = self(model)
            moved, model = np.abs(np.log(following.noise_variance / model.noise_variance)).max(), following
            if moved < movement:
                break
        return model


def squared_distances(residual: Residual, model: LinearGaussian) -> Array:
    """Sum of squared residuals of each row in units of the noise: (b,)."""
    noise = model.noise_variance
    return residual.row_squares() / noise if noise.ndim == 0 else residual.row_squares(1 / noise)


def log_density(nu: float, distance: Array, degrees: Array) -> Array:
    """Log density of Student's t with a scale matrix of determinant 1, at squared distances: (n,)."""
    constant = gammaln((nu + degrees) / 2) - gammaln(nu / 2) - 0.5 * degrees * np.log(nu * np.pi)
    return np.asarray(constant - 0.5 * (nu + degrees) * np.log1p(distance / nu))
