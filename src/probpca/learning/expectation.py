"""The E-step: what rows say about latent variables, summed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.inference.posterior import encoder, posterior_covariance
from probpca.rows import as_block
from probpca.statistics import Regression

if TYPE_CHECKING:
    from probpca.models import LinearGaussian
    from probpca.rows import Block
    from probpca.typing import Array


def expect(model: LinearGaussian, block: Block) -> Regression:
    """Summarise a block at the given parameters: every iterative solver consumes this.

    The log-likelihood comes free: x'C^{-1}x = r'Psi^{-1}r + m'm, with r the residual at the
    posterior mean m.
    """
    P = posterior_covariance(model)
    sums = _regress(model, encoder(model), P, block)
    constant = model.n_features * LOG_2PI + model.covariance.logdet()
    distance = (sums.residual_squares / model.noise_variance).sum() + np.trace(sums.latent_products)
    return sums.scored(-0.5 * (sums.weight * constant + float(distance)))


def expect_zero_noise(model: LinearGaussian, block: Block) -> Regression:
    """The same in the limit of no noise: latents are the least-squares coordinates, without doubt.

    The likelihood diverges there; what is reported is zero, and the caller looks at residuals.
    """
    gain = np.asarray(np.linalg.pinv(model.loadings).T)  # W (W'W)^{-1}: (d, q)
    q = model.n_components
    return _regress(model, gain, np.zeros((q, q)), block)


def _regress(model: LinearGaussian, gain: Array, P: Array, block: Block) -> Regression:
    """Sums of one pass, with latents m = G'(x - mu) of covariance P."""
    block = as_block(block, model.n_features)
    d, q = model.loadings.shape
    total = Regression.zero(d, q)
    for rows in block.pieces():
        w = block.weight_of(rows)
        rest = block.centred(rows, model.mean)
        m = rest @ gain  # (rows, q)
        rest -= m @ model.loadings.T  # r: (rows, d)
        wm = w[:, None] * m
        weight = float(w.sum())
        part = Regression(
            weight, 0.0, wm.sum(axis=0), wm.T @ m, weight * P, w @ rest, rest.T @ wm, w @ np.square(rest, out=rest)
        )
        total = total.merge(part)
    return total
