"""Posterior of the latent variables of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.blocks import as_block
from probpca.errors import DataError
from probpca.inference.likelihood import LOG_2PI
from probpca.inference.masked_rows import group_posteriors
from probpca.linalg.packed import unpack
from probpca.models import Gaussian
from probpca.scratch import workspace

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.models import LinearGaussian
    from probpca.typing import Array


def posterior(model: LinearGaussian, x: Rows) -> Gaussian:
    r"""Posterior distribution of the latent variables given each row, :math:`z \mid x \sim N(m, P)`.

    .. math::
        P = (I + W^\top \Psi^{-1} W)^{-1}, \qquad m = P \, W^\top \Psi^{-1} (x - \mu)

    For complete rows the covariance does not depend on x, and all rows share one matrix as a read-only view
    (n, q, q); rows with missing cells (NaN) have their own. A row without observed cells has the prior N(0, I). Costs
    O(d q) per row, O(d q^2) for rows with missing cells. Tipping & Bishop (1999), eq. 6.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import posterior
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 1.0)
    >>> belief = posterior(model, [[3.0, 5.0]])
    >>> belief.mean, belief.std.round(3)
    (array([[1.5]]), array([[0.707]]))
    """
    block = as_block(x, model.n_features)
    q = model.n_components
    if not block.is_complete:
        mean, covariance = np.empty((block.n_rows, q)), np.empty((block.n_rows, q, q))
        for found in group_posteriors(model, block):
            mean[found.index] = found.latents.mean.T
            covariance[found.index] = unpack(found.covariance)
        return Gaussian(mean, covariance)
    shared = np.broadcast_to(posterior_covariance(model), (block.n_rows, q, q))
    return Gaussian(posterior_mean(model, block), shared)


def posterior_mean(model: LinearGaussian, x: Rows) -> Array:
    """Posterior mean of z given each row: (n, q)."""
    block = as_block(x, model.n_features)
    if not block.is_complete:
        means = np.empty((block.n_rows, model.n_components))
        for found in group_posteriors(model, block):
            means[found.index] = found.mean().T
        return means
    gain = encoder(model)  # (d, q)
    if block.is_sparse:
        return np.asarray(block.values @ gain) - model.mean @ gain
    out = np.empty((block.n_rows, model.n_components))
    with workspace() as work:
        for rows in block.pieces():
            out[rows] = block.centred(rows, model.mean, work=work) @ gain
    return out


def encoder(model: LinearGaussian) -> Array:
    """Matrix G (d, q) that gives the posterior mean m = G'(x - mu) of a complete row."""
    scale, axes, singular, rotation = model.covariance.whitened
    shrunk = (axes * (singular / (1.0 + singular**2))) @ rotation.T  # (d, q)
    return shrunk / (scale if scale.ndim == 0 else scale[:, None])


def posterior_covariance(model: LinearGaussian) -> Array:
    r"""Posterior covariance of the latent variables given a complete row: (q, q).

    .. math:: P = (I + W^\top \Psi^{-1} W)^{-1}

    It is the same for all complete rows.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import posterior_covariance
    >>> from probpca.models import LinearGaussian
    >>> posterior_covariance(LinearGaussian(np.zeros(2), [[1.0], [0.0]], 1.0))
    array([[0.5]])
    """
    _, _, singular, rotation = model.covariance.whitened
    q, r = rotation.shape
    known = (rotation / (1.0 + singular**2)) @ rotation.T
    # With fewer features than components, unobserved directions keep their prior variance.
    return known if q == r else known + np.eye(q) - rotation @ rotation.T


def posterior_root(model: LinearGaussian) -> Array:
    """Square root R of the posterior covariance, P = R R': (q, q)."""
    _, _, singular, rotation = model.covariance.whitened
    q, r = rotation.shape
    known = rotation / np.sqrt(1.0 + singular**2)  # (q, r)
    return known if q == r else known @ rotation.T + np.eye(q) - rotation @ rotation.T


def free_energy(model: LinearGaussian, x: Rows, latent: Gaussian) -> Array:
    r"""Free energy (evidence lower bound) of each complete row for a Gaussian Q over its latent variables: (n,).

    .. math:: F = E_Q[\log p(x, z)] + H(Q) = \log p(x) - KL(Q \,\|\, p(z \mid x))

    It equals the log-likelihood if Q is the posterior, and is lower for any other Q. Neither an E-step nor an M-step
    decreases its sum. ``latent`` holds Q: means (n, q) and covariances (n, q, q). Neal & Hinton (1998).

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import free_energy, log_likelihood, posterior
    >>> from probpca.models import LinearGaussian
    >>> model, rows = LinearGaussian(np.zeros(2), [[2.0], [1.0]], 0.5), np.eye(2)
    >>> bool(np.allclose(free_energy(model, rows, posterior(model, rows)), log_likelihood(model, rows)))
    True
    """
    block = as_block(x, model.n_features)
    if not block.is_complete:
        msg = "the free energy needs complete rows; some cells are NaN."
        raise DataError(msg)
    W, psi = model.loadings, model.noise_variance
    d, q = W.shape
    m, P = latent.mean, latent.covariance  # (n, q), (n, q, q)
    weighted = W / (psi if psi.ndim == 0 else psi[:, None])
    doubt = np.einsum("nij,ij->n", P, W.T @ weighted)  # tr(W P W' Psi^-1)
    squares = np.empty(block.n_rows)
    with workspace() as work:
        for rows in block.pieces():
            rest = block.centred(rows, model.mean, work=work)
            rest -= m[rows] @ W.T
            squares[rows] = (rest**2 / psi).sum(axis=1)
    log_psi = np.log(np.broadcast_to(psi, (d,))).sum()
    data = d * LOG_2PI + log_psi + squares + doubt
    prior = q * LOG_2PI + np.square(m).sum(axis=1) + np.trace(P, axis1=1, axis2=2)
    distinct = P[:1] if P.strides[0] == 0 else P  # rows may share one covariance
    entropy = q * (LOG_2PI + 1) + np.linalg.slogdet(distinct)[1]
    return np.asarray(0.5 * (entropy - data - prior))
