"""Expectation-maximisation for PPCA: plain, parameter-expanded, and in the limit of zero noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.learning.complete.spectrum import log_likelihood_of, spectrum_of_span
from probpca.learning.em.e_step import expect, expect_zero_noise
from probpca.linalg.packed import unpack
from probpca.models import Gaussian, LinearGaussian
from probpca.models.gaussian import latent_root, whitened

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.sources import Source
    from probpca.statistics import Regression
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True)
class EM:
    """EM for PPCA; with ``expand``, parameter-expanded EM (PX-EM), which converges much faster.

    Plain EM is slow if the noise is small: the scale of a component with eigenvalue l converges at the rate
    ((l - s2)^2 + s2^2) / l^2. With parameter expansion the rate is (s2 / l)^2 (Liu, Rubin & Wu 1998). Neither
    decreases the log-likelihood.
    """

    floor: float  # smallest noise variance
    expand: bool = True
    noise: float | None = None  # fixed noise variance; None to estimate it

    def step(self, model: LinearGaussian, source: Source) -> tuple[LinearGaussian, float]:
        """Model after one iteration, and the log-likelihood of the given model."""
        sums = source.fold(partial(expect, model))
        return self.advance(model, sums), sums.log_likelihood

    def advance(self, model: LinearGaussian, sums: Regression) -> LinearGaussian:
        """Model after one iteration, given the statistics of the E-step at ``model``."""
        return maximise(model, sums, self.floor, self.noise, latent_moments(sums) if self.expand else None)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ZeroNoiseEM:
    """EM for classical PCA (Roweis 1998): alternating least squares for latent variables and loadings."""

    floor: float
    varies: npt.NDArray[np.bool_] | bool = True  # which columns are not constant: (d,)

    def step(self, model: LinearGaussian, source: Source) -> tuple[LinearGaussian, float]:
        """Model after one iteration, and the largest log-likelihood of PPCA with the span of the given loadings.

        An iteration multiplies the span by the sample covariance, which decreases none of the variances within it.
        """
        sums = source.fold(partial(expect_zero_noise, model))
        value = log_likelihood_of(spectrum_of_span(model, sums, varies=self.varies), model.n_components)
        return maximise(model, sums, self.floor), value


def maximise(
    model: LinearGaussian,
    sums: Regression,
    floor: float,
    noise: float | None = None,
    latent: Gaussian | None = None,
) -> LinearGaussian:
    """M-step: regress the cells on [z; 1] and pool the residuals, or keep a fixed ``noise`` variance.

    If ``latent``, the distribution of the latent variables over the rows, is given, the model is transformed so that
    it becomes standard normal (parameter expansion).
    """
    change = sums.change()  # change of [W'; mu']: (q + 1, d)
    sigma2 = float(sums.squares_after(change).sum()) / sums.cells if noise is None else noise
    mean, loadings = model.mean + change[-1], model.loadings + change[:-1].T
    if latent is not None:
        mean, loadings = whitened(mean, loadings, latent)
    return LinearGaussian(mean, loadings, np.asarray(max(sigma2, floor)))


def theta_of(model: LinearGaussian) -> Array:
    """Parameters of each feature as a matrix [W'; mu']: (q + 1, d)."""
    return np.vstack([model.loadings.T, model.mean])


def whitening_basis(latent: Gaussian) -> Array:
    """Matrix B with B'[z; 1] = [L^{-1} (z - m); 1], which standardises latent variables N(m, L L')."""
    q = latent.mean.size
    inverse = np.linalg.solve(latent_root(latent), np.eye(q))
    basis = np.eye(q + 1)
    basis[:q, :q] = inverse.T
    basis[q, :q] = -inverse @ latent.mean
    return basis


def latent_moments(sums: Regression) -> Gaussian:
    """Mean and covariance of the latent variables over the rows; 0 and I at the optimum."""
    second = unpack(sums.latent) / sums.weight
    nu = second[-1, :-1]
    return Gaussian(nu, second[:-1, :-1] - np.outer(nu, nu))
