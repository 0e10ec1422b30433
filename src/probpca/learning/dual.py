"""The dual fit: latent coordinates of the rows by maximum likelihood, loadings integrated out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.errors import ShapeError, require_finite
from probpca.learning.direct import gram_matrix
from probpca.linalg.rotations import fix_signs
from probpca.rows import as_block
from probpca.statistics import Stack

if TYPE_CHECKING:
    from probpca.typing import Array


class PrincipalCoordinates(NamedTuple):
    """Coordinates of the rows and the noise that is left."""

    latent: Array  # Z: (n, q)
    noise_variance: float


def principal_coordinates(x: Array, n_components: int, *, alpha: float = 1.0) -> PrincipalCoordinates:
    r"""Maximise ``dual_log_likelihood`` over the latent coordinates and the noise variance.

    With :math:`\kappa_1 \ge \dots \ge \kappa_n` the eigenvalues of the Gram matrix of the centred
    rows over d, and V its eigenvectors,

    .. math::
        \sigma^2 = \frac{1}{n - q} \sum_{i > q} \kappa_i, \qquad
        Z = V_q \left( (K_q - \sigma^2 I) / \alpha \right)^{1/2}

    Classical scaling, with the shrinkage that noise asks for. Lawrence (2005).
    """
    block = as_block(x)
    n, q = block.n_rows, n_components
    if not 1 <= q < n:
        msg = f"n_components must lie between 1 and n - 1 = {n - 1} in the dual view; got {q}."
        raise ShapeError(msg)
    _, gram = gram_matrix(Stack.of(block), np.float64, n_jobs=1)
    require_finite("the inner products of x", gram)
    values, vectors = np.linalg.eigh(gram / block.n_features)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    sigma2 = float(values[q:].sum()) / (n - q)
    scale = np.sqrt(np.maximum(values[:q] - sigma2, 0.0) / alpha)
    return PrincipalCoordinates(fix_signs(vectors[:, :q]) * scale, sigma2)
