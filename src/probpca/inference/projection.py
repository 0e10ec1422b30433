"""Component scores, projections on the principal subspace, and reconstructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.blocks import as_block
from probpca.inference.masked_rows import group_posteriors
from probpca.inference.posteriors import posterior_mean
from probpca.models import LinearGaussian
from probpca.scratch import workspace

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.typing import Array


def encode(model: LinearGaussian, x: Rows) -> Array:
    r"""Posterior means of the latent variables of each row: (n, q).

    .. math:: E[z \mid x] = (I + W^\top \Psi^{-1} W)^{-1} W^\top \Psi^{-1} (x - \mu)

    Compared with ``project`` they are shrunk towards 0, the more the larger the noise. Missing cells (NaN) are left
    out. Costs O(d q) per row, O(d q^2) for rows with missing cells.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import encode
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 1.0)
    >>> encode(model, [[3.0, 5.0], [np.nan, 5.0]])
    array([[1.5],
           [0. ]])
    """
    return posterior_mean(model, x)


def decode(model: LinearGaussian, z: Array) -> Array:
    r"""Expected rows given latent variables: (..., d).

    .. math:: E[x \mid z] = W z + \mu

    ``z`` has shape (..., q).

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import decode
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.ones(2), [[2.0], [1.0]], 0.5)
    >>> decode(model, [[1.5]])
    array([[4. , 2.5]])
    """
    return z @ model.loadings.T + model.mean


def project(model: LinearGaussian, x: Rows, *, scale: Array | None = None) -> Array:
    r"""Coordinates of the orthogonal projection on the principal subspace, as in classical PCA: (n, q).

    .. math:: U^\top (x - \mu)

    with U the principal axes. For a row with missing cells, these are the coordinates of the point of the subspace
    nearest to its observed cells; if several are equally near, of the one nearest to the mean.

    With ``scale`` (d,), axes and distances are those of the columns divided by it, as after standardising; the model
    and the rows stay in the units of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import project
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[2.0], [0.0]], 0.5)
    >>> project(model, [[3.0, 5.0]])
    array([[3.]])
    """
    block = as_block(x, model.n_features)
    axes, unit = _scaled_axes(model, scale)
    out = np.empty((block.n_rows, axes.shape[1]))
    if not block.is_complete:
        noise = np.asarray(1.0) if scale is None else np.square(scale)  # unit noise in the scaled columns
        along_axes = LinearGaussian(model.mean, axes * unit, noise)
        for found in group_posteriors(along_axes, block):
            out[found.index] = found.least_squares().latent.T
        return out
    per_unit = axes / unit
    with workspace() as work:
        for rows in block.pieces():
            out[rows] = block.centred(rows, model.mean, work=work) @ per_unit
    return out


def reconstruct(model: LinearGaussian, x: Rows, *, scale: Array | None = None) -> Array:
    r"""Least-squares reconstruction: the point of the principal subspace nearest to each row, (n, d).

    .. math:: \mu + U U^\top (x - \mu)

    It is not shrunk. By contrast, ``decode(model, encode(model, x))`` is the conditional mean of the noise-free row,
    which is nearer to the mean. ``scale`` (d,) measures distances in columns divided by it, as in ``project``.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import reconstruct
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[2.0], [0.0]], 0.5)
    >>> reconstruct(model, [[3.0, 5.0]])
    array([[3., 0.]])
    """
    axes, unit = _scaled_axes(model, scale)
    return project(model, x, scale=scale) @ (axes * unit).T + model.mean


def _scaled_axes(model: LinearGaussian, scale: Array | None) -> tuple[Array, Array | float]:
    """Principal axes of the columns divided by ``scale``, (d, q), and ``scale`` as a column (d, 1), or 1."""
    if scale is None:
        return model.principal_axes[0], 1.0
    return model.rescale(1 / scale).principal_axes[0], scale[:, None]


def explained_variance(model: LinearGaussian) -> Array:
    r"""Variance of the model along each principal axis, largest first: (q,).

    .. math:: u_k^\top C u_k = s_k^2 + u_k^\top \Psi u_k, \qquad C = W W^\top + \Psi

    with :math:`s_k` the singular values of W. With a single noise variance these are the q largest eigenvalues of the
    covariance matrix C.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import explained_variance
    >>> from probpca.models import LinearGaussian
    >>> explained_variance(LinearGaussian(np.zeros(2), [[2.0], [0.0]], 0.5))
    array([4.5])
    """
    axes, _ = model.principal_axes
    noise = np.broadcast_to(model.noise_variance, (model.n_features,))
    signal = np.square(axes.T @ model.loadings).sum(axis=1)
    return np.asarray(signal + noise @ axes**2)


def explained_variance_ratio(model: LinearGaussian) -> Array:
    r"""Share of the total variance along each principal axis: (q,).

    .. math:: u_k^\top C u_k / \operatorname{tr} C, \qquad C = W W^\top + \Psi

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import explained_variance_ratio
    >>> from probpca.models import LinearGaussian
    >>> explained_variance_ratio(LinearGaussian(np.zeros(2), [[2.0], [0.0]], 0.5))
    array([0.9])
    """
    return explained_variance(model) / model.covariance.trace()
