"""Expectation-maximisation for PPCA and factor analysis: plain, parameter-expanded, and without noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """EM; with ``expand``, parameter-expanded EM (PX-EM), which converges much faster.

    The noise variance is a single one (PPCA) or one for each feature (factor analysis), as that of the model.

    Plain EM is slow if the noise is small: the scale of a component with eigenvalue l converges at the rate
    ((l - s2)^2 + s2^2) / l^2. With parameter expansion the rate is (s2 / l)^2 (Liu, Rubin & Wu 1998). Neither
    decreases the log-likelihood.
    """

    floor: float | Array  # smallest noise variance: () or (d,)
    expand: bool = True
    noise: Array | None = None  # fixed noise variance, () or (d,); None to estimate it

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
    floor: float | Array,
    noise: Array | None = None,
    latent: Gaussian | None = None,
) -> LinearGaussian:
    """M-step: regress the cells on [z; 1]; their residuals give the noise, unless its variance ``noise`` is fixed.

    If ``latent``, the distribution of the latent variables over the rows, is given, the model is transformed so that
    it becomes standard normal (parameter expansion).
    """
    change = sums.change()  # change of [W'; mu']: (q + 1, d)
    psi = pooled_noise(sums.squares_after(change), sums, model.noise_variance, floor) if noise is None else noise
    mean, loadings = model.mean + change[-1], model.loadings + change[:-1].T
    if latent is not None:
        mean, loadings = whitened(mean, loadings, latent)
    return LinearGaussian(mean, loadings, psi)


def pooled_noise(squares: Array, sums: Regression, noise: Array, floor: float | Array) -> Array:
    """Noise variance that maximises the likelihood given the expected squared residuals of each feature (d,).

    A single one if ``noise``, the current variance, is a single one; otherwise one for each feature, which a feature
    without observed cells keeps.
    """
    if noise.ndim == 0:
        return np.maximum(squares.sum() / sums.cells, floor)
    counts = np.broadcast_to(sums.counts, squares.shape)
    return np.maximum(np.divide(squares, counts, out=np.array(noise), where=counts > 0), floor)


def relaxed(
    share: Array,
    floor: Array,
    model: LinearGaussian,
    following: LinearGaussian,
    *,
    least: float = 0.01,
    farthest: float = 2.0,
) -> LinearGaussian:
    r"""Model after an EM step whose change of the log noise variances of the features is enlarged.

    Near the optimum an EM step moves :math:`\log \psi_j` by about the share :math:`1 - h_j` of its distance from the
    optimum, with the leverage

    .. math:: h_j = v_j^\top \Big(I + \sum_k \rho_k v_k v_k^\top\Big)^{-1} v_j, \qquad v_j = w_j / \sqrt{\psi_j}

    and ``share`` :math:`\rho_k` of the rows in which feature k was observed. The change is divided by
    :math:`1 - h_j`, at least ``least``, and limited to ``farthest`` unless EM itself goes farther. The
    log-likelihood may fall, as after other overrelaxed steps (Salakhutdinov & Roweis 2003).
    """
    white = model.loadings / np.sqrt(model.noise_variance)[:, None]  # v: (d, q)
    precision = np.eye(model.n_components) + white.T @ (share[:, None] * white)
    leverage = np.einsum("jk,jk->j", white, np.linalg.solve(precision, white.T).T)
    move = np.log(following.noise_variance / model.noise_variance)
    most = np.maximum(np.abs(move), farthest)
    move = np.clip(move / np.maximum(1 - leverage, least), -most, most)
    return replace(following, noise_variance=np.maximum(model.noise_variance * np.exp(move), floor))


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
