"""Expectation-maximisation: PPCA, its parameter-expanded form, and the zero-noise limit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.learning.em.e_step import expect, expect_zero_noise
from probpca.linalg.packed import unpack
from probpca.models import Gaussian, LinearGaussian
from probpca.models.gaussian import whitened

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
    noise: float | None = None  # the noise variance, if it is known

    def step(self, model: LinearGaussian, source: Source) -> tuple[LinearGaussian, float]:
        """The next model, and the log-likelihood of the given one."""
        sums = source.fold(partial(expect, model))
        return self.advance(model, sums), sums.log_likelihood

    def advance(self, model: LinearGaussian, sums: Regression) -> LinearGaussian:
        """The next model, given the sums at this one."""
        return maximise(model, sums, self.floor, self.noise, latent_moments(sums) if self.expand else None)


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
        cells = sums.cells
        error = max(float(sums.squares.sum()) / cells, self.floor)
        return maximise(model, sums, self.floor), -0.5 * cells * (LOG_2PI + np.log(error) + 1)


def maximise(
    model: LinearGaussian,
    sums: Regression,
    floor: float,
    noise: float | None = None,
    latent: Gaussian | None = None,
) -> LinearGaussian:
    """The M-step: regress cells on [z; 1], pool the residuals; or keep a ``noise`` variance that is known.

    ``latent`` is the distribution that latents had over the rows: they become standard normal ones.
    """
    change = sums.change()  # of [W'; mu']: (q + 1, d)
    sigma2 = float(sums.squares_after(change).sum()) / sums.cells if noise is None else noise
    mean, loadings = model.mean + change[-1], model.loadings + change[:-1].T
    if latent is not None:
        mean, loadings = whitened(mean, loadings, latent)
    return LinearGaussian(mean, loadings, np.asarray(max(sigma2, floor)))


def theta_of(model: LinearGaussian) -> Array:
    """The parameters of each feature, [W'; mu']: (q + 1, d)."""
    return np.vstack([model.loadings.T, model.mean])


def whitening_basis(latent: Gaussian) -> Array:
    """B with B' [z; 1] = [L^{-1} (z - m); 1], for latents N(m, L L'): the axes of ``LinearGaussian.whiten``."""
    q = latent.mean.size
    inverse = np.linalg.solve(np.linalg.cholesky(latent.covariance), np.eye(q))
    basis = np.eye(q + 1)
    basis[:q, :q] = inverse.T
    basis[q, :q] = -inverse @ latent.mean
    return basis


def latent_moments(sums: Regression) -> Gaussian:
    """Mean and covariance of the latents over rows: N(0, I) at the optimum."""
    second = unpack(sums.latent) / sums.weight
    nu = second[-1, :-1]
    return Gaussian(nu, second[:-1, :-1] - np.outer(nu, nu))
