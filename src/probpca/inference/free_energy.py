"""The bound that EM climbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.errors import DataError
from probpca.inference.likelihood import LOG_2PI
from probpca.rows import as_block

if TYPE_CHECKING:
    from probpca.models import Gaussian, LinearGaussian
    from probpca.rows import Rows
    from probpca.typing import Array


def free_energy(model: LinearGaussian, x: Rows, latent: Gaussian) -> Array:
    r"""F(Q, theta) of each row, for any Gaussian belief Q about its latents: (n,).

    .. math:: F = E_Q[\log p(x, z)] + H(Q) = \log p(x) - KL(Q \,\|\, p(z \mid x))

    Equal to the log-likelihood when Q is the posterior, below it for every other Q. Neither an
    E-step nor an M-step lowers its sum. Neal & Hinton (1998).
    """
    block = as_block(x, model.n_features)
    if not block.is_complete:
        msg = "the free energy is that of complete rows; some cells are NaN."
        raise DataError(msg)
    W, psi = model.loadings, model.noise_variance
    d, q = W.shape
    m, P = latent.mean, latent.covariance  # (n, q), (n, q, q)
    weighted = W / (psi if psi.ndim == 0 else psi[:, None])
    doubt = np.einsum("nij,ij->n", P, W.T @ weighted)  # tr(W P W' Psi^-1)
    squares = np.empty(block.n_rows)
    for rows in block.pieces():
        rest = block.centred(rows, model.mean)
        rest -= m[rows] @ W.T
        squares[rows] = (rest**2 / psi).sum(axis=1)
    log_psi = np.log(np.broadcast_to(psi, (d,))).sum()
    data = d * LOG_2PI + log_psi + squares + doubt
    prior = q * LOG_2PI + np.square(m).sum(axis=1) + np.trace(P, axis1=1, axis2=2)
    distinct = P[:1] if P.strides[0] == 0 else P  # all rows may share one
    entropy = q * (LOG_2PI + 1) + np.linalg.slogdet(distinct)[1]
    return np.asarray(0.5 * (entropy - data - prior))
