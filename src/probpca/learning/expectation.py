"""The E-step: what rows say about latent variables, summed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.inference.posterior import encoder, posterior_covariance
from probpca.learning.observed import expect_observed
from probpca.linalg.packed import pack, unpack
from probpca.rows import Observed, as_block
from probpca.statistics import Regression

if TYPE_CHECKING:
    from probpca.models import LinearGaussian, ParameterBelief
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
    return _regress(model, block, _Latents(encoder(model), posterior_covariance(model), constant))


def expect_believed(belief: ParameterBelief, block: Block | Observed) -> Regression:
    """The same if parameters are known up to their spread; what stands for the log-likelihood is a lower bound."""
    model = belief.centre
    if isinstance(block, Observed):
        return expect_observed(model, block, belief.spread)
    d, q = model.loadings.shape
    summed = d * unpack(belief.spread[:, 0]) / float(model.noise_variance)  # of all features: (q + 1, q + 1)
    root = np.linalg.cholesky(np.eye(q) + model.loadings.T @ model.loadings / model.noise_variance + summed[:q, :q])
    inverse = np.linalg.solve(root, np.eye(q))
    P = inverse.T @ inverse
    constant = d * (LOG_2PI + float(np.log(model.noise_variance))) + 2 * float(np.log(np.diag(root)).sum())
    gain = model.loadings @ P / model.noise_variance
    return _regress(model, block, _Latents(gain, P, constant, -P @ summed[:q, q], summed))


def expect_zero_noise(model: LinearGaussian, block: Block) -> Regression:
    """The same in the limit of no noise: latents are the least-squares coordinates, without doubt.

    The likelihood diverges there: what is reported of it means nothing, and the caller looks at squares.
    """
    gain = np.asarray(np.linalg.pinv(model.loadings).T)  # W (W'W)^{-1}: (d, q)
    q = model.n_components
    return _regress(model, block, _Latents(gain, np.zeros((q, q)), 0.0))


class _Latents(NamedTuple):
    """What complete rows say about their latents: N(G'(x - mu) + c, P)."""

    gain: Array  # G: (d, q)
    covariance: Array  # P: (q, q)
    constant: float  # part of the log density that is the same for all rows, times -2
    offset: Array | float = 0.0  # c: (q,)
    spread: Array | float = 0.0  # of the parameters of all features, in units of the noise: (q + 1, q + 1)


def _regress(model: LinearGaussian, block: Block, latents: _Latents) -> Regression:
    """Sums of one pass over complete rows."""
    block = as_block(block, model.n_features)
    d, q = model.loadings.shape
    P = latents.covariance
    weight, tt = 0.0, np.zeros((q + 1, q + 1))
    residual, squares = np.zeros((q + 1, d)), np.zeros(d)
    for rows in block.pieces():
        w = block.weight_of(rows)
        rest = block.centred(rows, model.mean)
        t = np.ones((len(rest), q + 1))
        t[:, :q] = rest @ latents.gain + latents.offset  # [m; 1]: (rows, q + 1)
        rest -= t[:, :q] @ model.loadings.T  # r: (rows, d)
        wt = w[:, None] * t
        weight += float(w.sum())
        tt += wt.T @ t
        residual += wt.T @ rest
        squares += w @ np.square(rest, out=rest)
    distance = float((squares / model.noise_variance).sum() + np.trace(tt[:q, :q]) + (latents.spread * tt).sum())
    doubt = weight * (P @ model.loadings.T)  # sum w P w_j: (q, d)
    residual[:q] -= doubt
    squares += np.einsum("qd,dq->d", doubt, model.loadings)
    tt[:q, :q] += weight * P
    value = -0.5 * (weight * latents.constant + distance)
    packed = pack(tt)
    return Regression(weight, weight * d, value, packed, packed[:, None], residual, squares)
