"""The dual view: loadings integrated out, features independent, rows correlated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.errors import ShapeError
from probpca.inference.likelihood import log_likelihood
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.typing import Array


def dual_log_likelihood(latent: Array, alpha: float, noise_variance: float, x: Array) -> float:
    r"""Log-likelihood of the columns of x, given the latent coordinates of its rows.

    .. math:: p(X \mid Z) = \prod_j N(x_{:,j} \mid 0, \; \alpha Z Z^\top + \sigma^2 I_n)

    This is Bayesian regression on Z with weights of variance alpha. The algebra is that of the
    primal with the table turned on its side: O(n q) a column. ``x`` is taken as centred already.
    """
    latent, x = np.asarray(latent, dtype=np.float64), np.asarray(x, dtype=np.float64)
    if latent.ndim != 2 or x.ndim != 2 or len(latent) != len(x):
        msg = f"latent (n, q) and x (n, d) must have the same rows; got {latent.shape} and {x.shape}."
        raise ShapeError(msg)
    n = latent.shape[0]
    transposed = LinearGaussian(np.zeros(n), np.sqrt(alpha) * latent, np.asarray(noise_variance))
    return float(log_likelihood(transposed, x.T).sum())
