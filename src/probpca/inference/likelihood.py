"""Log-likelihood of rows, with the latent variables integrated out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.blocks import as_block
from probpca.errors import ShapeError
from probpca.inference.masked_rows import group_posteriors
from probpca.models import LinearGaussian
from probpca.scratch import workspace

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.typing import Array

LOG_2PI = float(np.log(2 * np.pi))


def log_likelihood(model: LinearGaussian, x: Rows) -> Array:
    r"""Log density of the observed cells of each row: (n,).

    .. math::
        \log p(x) = -\tfrac12 \left[ d \log 2\pi + \log|C| + T^2 + Q \right], \qquad C = W W^\top + \Psi

    Here :math:`T^2` and Q are the squared distances inside and outside the span of W. Both are sums of squares, so
    that the result is accurate for any noise variance. Missing cells (NaN) are integrated out; a row without observed
    cells has log density 0. Costs O(d q) per row, O(d q^2) for rows with missing cells.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import log_likelihood
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 1.0)
    >>> log_likelihood(model, np.zeros((1, 2))).round(4)
    array([-2.1845])
    """
    block = as_block(x, model.n_features)
    covariance = model.covariance
    constant = model.n_features * LOG_2PI + covariance.logdet()
    out = np.empty(block.n_rows)
    if not block.is_complete:
        for found in group_posteriors(model, block):
            out[found.index] = found.log_likelihood()
        return out
    with workspace() as work:
        for rows in block.pieces():
            out[rows] = covariance.squared_mahalanobis(block.centred(rows, model.mean, work=work))
    return -0.5 * (constant + out)


def dual_log_likelihood(latent: Array, alpha: float, noise_variance: float, x: Array) -> float:
    r"""Log-likelihood of dual PPCA: of the columns of x given the latent coordinates of its rows.

    .. math:: p(X \mid Z) = \prod_j N(x_{:,j} \mid 0, \; \alpha Z Z^\top + \sigma^2 I_n)

    This is Bayesian linear regression of every column on Z, with the weights integrated out under the prior
    :math:`N(0, \alpha I)`. ``latent`` is Z (n, q), and ``x`` (n, d) must be centred. Costs O(n q) per column.
    Lawrence (2005).

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import dual_log_likelihood
    >>> round(dual_log_likelihood(np.ones((2, 1)), 1.0, 1.0, np.array([[1.0], [-1.0]])), 4)
    -3.3872
    """
    latent, x = np.asarray(latent, dtype=np.float64), np.asarray(x, dtype=np.float64)
    if latent.ndim != 2 or x.ndim != 2 or len(latent) != len(x):
        msg = f"latent (n, q) and x (n, d) must have the same number of rows; got shapes {latent.shape} and {x.shape}."
        raise ShapeError(msg)
    n = latent.shape[0]
    transposed = LinearGaussian(np.zeros(n), np.sqrt(alpha) * latent, np.asarray(noise_variance))
    return float(log_likelihood(transposed, x.T).sum())
