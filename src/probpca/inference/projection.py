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


def project(model: LinearGaussian, x: Rows) -> Array:
    """Coordinates along the principal axes, U'(x - mu), as classical PCA has them: (n, q).

    Of a row with missing cells: those of the point of the principal subspace that is nearest to its
    observed cells, and nearest to the mean if these leave a choice.
    """
    block = as_block(x, model.n_features)
    axes, _ = model.principal_axes
    out = np.empty((block.n_rows, axes.shape[1]))
    if not block.is_complete:
        along_axes = LinearGaussian(model.mean, axes, np.asarray(1.0))
        for found in group_posteriors(along_axes, block):
            out[found.index] = found.least_squares().latent.T
        return out
    with workspace() as work:
        for rows in block.pieces():
            out[rows] = block.centred(rows, model.mean, work=work) @ axes
    return out


def reconstruct(model: LinearGaussian, x: Rows) -> Array:
    """The point of the principal subspace nearest to each row, mu + U U'(x - mu): (n, d).

    Not shrunk: the least-squares reconstruction. ``decode(model, encode(model, x))`` is the
    conditional mean of the noise-free row instead, which lies nearer to the mean.
    """
    axes, _ = model.principal_axes
    return project(model, x) @ axes.T + model.mean


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
