"""The E-step: what rows say about latent variables, summed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.inference.posterior import encoder, posterior_covariance
from probpca.learning.observed import expect_observed
from probpca.linalg.packed import pack
from probpca.rows import Observed, as_block
from probpca.statistics import Regression

if TYPE_CHECKING:
    from probpca.models import LinearGaussian
    from probpca.rows import Block
    from probpca.typing import Array


def expect(model: LinearGaussian, block: Block | Observed) -> Regression:
    """Summarise rows at the given parameters: every iterative solver consumes this.

    The log-likelihood comes free: x'C^{-1}x = r'Psi^{-1}r + m'm, with r the residual at the
    posterior mean m.
    """
    if isinstance(block, Observed):
        return expect_observed(model, block)
    constant = model.n_features * LOG_2PI + model.covariance.logdet()
    return _regress(model, encoder(model), posterior_covariance(model), block, constant)


def expect_zero_noise(model: LinearGaussian, block: Block) -> Regression:
    """The same in the limit of no noise: latents are the least-squares coordinates, without doubt.

    The likelihood diverges there: what is reported of it means nothing, and the caller looks at squares.
    """
    gain = np.asarray(np.linalg.pinv(model.loadings).T)  # W (W'W)^{-1}: (d, q)
    q = model.n_components
    return _regress(model, gain, np.zeros((q, q)), block, 0.0)


def _regress(model: LinearGaussian, gain: Array, P: Array, block: Block, constant: float) -> Regression:
    """Sums of one pass over complete rows, with latents m = G'(x - mu) of covariance P."""
    block = as_block(block, model.n_features)
    d, q = model.loadings.shape
    weight, tt = 0.0, np.zeros((q + 1, q + 1))
    residual, squares = np.zeros((q + 1, d)), np.zeros(d)
    for rows in block.pieces():
        w = block.weight_of(rows)
        rest = block.centred(rows, model.mean)
        t = np.ones((len(rest), q + 1))
        t[:, :q] = rest @ gain  # [m; 1]: (rows, q + 1)
        rest -= t[:, :q] @ model.loadings.T  # r: (rows, d)
        wt = w[:, None] * t
        weight += float(w.sum())
        tt += wt.T @ t
        residual += wt.T @ rest
        squares += w @ np.square(rest, out=rest)
    distance = float((squares / model.noise_variance).sum() + np.trace(tt[:q, :q]))
    doubt = weight * (P @ model.loadings.T)  # sum w P w_j: (q, d)
    residual[:q] -= doubt
    squares += np.einsum("qd,dq->d", doubt, model.loadings)
    tt[:q, :q] += weight * P
    value = -0.5 * (weight * constant + distance)
    packed = pack(tt)
    return Regression(weight, weight * d, value, packed, packed[:, None], residual, squares)
