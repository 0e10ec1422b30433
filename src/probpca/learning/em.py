"""Expectation-maximisation: PPCA, its parameter-expanded form, and the zero-noise limit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from probpca.inference.likelihood import LOG_2PI
from probpca.learning.expectation import expect, expect_zero_noise
from probpca.models import Gaussian, LinearGaussian

if TYPE_CHECKING:
    from probpca.sources import Source
    from probpca.statistics import Regression
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True)
class EM:
    """E-step, M-step and, with ``expand``, the parameter expansion that removes the slow scale.

    Plain EM creeps when noise is small: the scale of component j converges at the rate
    ((l - s2)^2 + s2^2) / l^2. Expanded, at (s2 / l)^2 (Liu, Rubin & Wu 1998). Both are monotone.
    """

    floor: float  # smallest noise variance
    expand: bool = True

    def step(self, model: LinearGaussian, source: Source) -> tuple[LinearGaussian, float]:
        """The next model, and the log-likelihood of the given one."""
        sums = source.fold(partial(expect, model))
        following = maximise(model, sums, self.floor)
        if self.expand:
            following = following.whiten(latent_moments(sums))
        return following, sums.log_likelihood


@final
@dataclass(frozen=True, slots=True)
class ZeroNoiseEM:
    """Roweis' EM for PCA: latents by least squares, then loadings by least squares."""

    floor: float

    def step(self, model: LinearGaussian, source: Source) -> tuple[LinearGaussian, float]:
        """The next model, and the log-likelihood of the given one with its latents as parameters.

        That is -nd/2 (log 2 pi s2 + 1), s2 the mean squared residual: it rises as the
        reconstruction error falls.
        """
        sums = source.fold(partial(expect_zero_noise, model))
        cells = sums.weight * model.n_features
        error = max(float(sums.residual_squares.sum()) / cells, self.floor)
        return maximise(model, sums, self.floor), -0.5 * cells * (LOG_2PI + np.log(error) + 1)


def maximise(model: LinearGaussian, sums: Regression, floor: float) -> LinearGaussian:
    r"""The M-step: regress rows on [z; 1], pool the residuals.

    Solved for the change :math:`\Delta` of [W, mu] from the sums at the current parameters, so that
    the new residual :math:`r - \Delta [m; 1]` costs no second pass and loses no digits.
    """
    d, q = model.loadings.shape
    tt = np.block([[sums.latent_products, sums.latent[:, None]], [sums.latent, np.asarray([sums.weight])]])
    V = np.zeros((q + 1, q + 1))
    V[:q, :q] = sums.latent_covariance
    rt = np.column_stack([sums.residual_products, sums.residual])  # sum w r [m; 1]': (d, q + 1)
    old = np.column_stack([model.loadings, model.mean])
    change = _solve(tt + V, (rt - old @ V).T).T
    new = old + change
    squares = (
        sums.residual_squares
        - 2 * np.einsum("jk,jk->j", change, rt)
        + np.einsum("jk,jk->j", change @ tt, change)
        + np.einsum("jk,jk->j", new @ V, new)
    )
    sigma2 = max(float(squares.sum()) / (sums.weight * d), floor)
    return LinearGaussian(new[:, q], new[:, :q], np.asarray(sigma2))


def _solve(products: Array, right: Array) -> Array:
    """Solve the normal equations; the shortest of many solutions where latents are dependent."""
    try:
        return np.asarray(cho_solve(cho_factor(products), right))
    except LinAlgError:  # without noise, when there are fewer rows than latents
        return np.asarray(np.linalg.lstsq(products, right)[0])


def latent_moments(sums: Regression) -> Gaussian:
    """Mean and covariance of the latents over rows: N(0, I) at the optimum."""
    nu = sums.latent / sums.weight
    second = (sums.latent_products + sums.latent_covariance) / sums.weight
    return Gaussian(nu, second - np.outer(nu, nu))
