"""The linear auto-encoder: rows to codes and back."""

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
    """The code of each row, its posterior mean, shrunk towards 0 as the noise demands: (n, q)."""
    return posterior_mean(model, x)


def decode(model: LinearGaussian, z: Array) -> Array:
    """Row without noise that belongs to a code, W z + mu: (..., d)."""
    return z @ model.loadings.T + model.mean


def project(model: LinearGaussian, x: Rows, *, scale: Array | None = None) -> Array:
    """Coordinates along the principal axes, U'(x - mu), as classical PCA has them: (n, q).

    Of a row with missing cells: those of the point of the principal subspace that is nearest to its
    observed cells, and nearest to the mean if these leave a choice. With ``scale``, (d,), axes and distances
    are those of the columns divided by it; model and rows are in the units of the data.
    """
    block = as_block(x, model.n_features)
    axes, unit = _scaled_axes(model, scale)
    out = np.empty((block.n_rows, axes.shape[1]))
    if not block.is_complete:
        noise = np.asarray(1.0) if scale is None else np.square(scale)  # distances are in units of the noise
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
    """The point of the principal subspace nearest to each row, mu + U U'(x - mu): (n, d).

    Not shrunk: the least-squares reconstruction. ``decode(model, encode(model, x))`` is the
    conditional mean of the noise-free row instead, which lies nearer to the mean. ``scale`` is that of ``project``.
    """
    axes, unit = _scaled_axes(model, scale)
    return project(model, x, scale=scale) @ (axes * unit).T + model.mean


def _scaled_axes(model: LinearGaussian, scale: Array | None) -> tuple[Array, Array | float]:
    """Principal axes of the columns divided by ``scale``, (d, q), and the unit of each of their rows, (d, 1)."""
    if scale is None:
        return model.principal_axes[0], 1.0
    return model.rescale(1 / scale).principal_axes[0], scale[:, None]


def explained_variance(model: LinearGaussian) -> Array:
    """Variance of the data along each principal axis: (q,).

    With one noise variance these are the q largest eigenvalues of C, largest first.
    """
    axes, _ = model.principal_axes
    noise = np.broadcast_to(model.noise_variance, (model.n_features,))
    signal = np.square(axes.T @ model.loadings).sum(axis=1)
    return np.asarray(signal + noise @ axes**2)


def explained_variance_ratio(model: LinearGaussian) -> Array:
    """Share of the total variance tr C along each principal axis: (q,)."""
    return explained_variance(model) / model.covariance.trace()
