"""Rotated axes of the latent variables, and factor scores along them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, final

import numpy as np

from probpca.blocks import as_block
from probpca.inference.conditioning import joint
from probpca.inference.masked_rows import group_posteriors
from probpca.inference.posteriors import posterior_mean
from probpca.models import Gaussian
from probpca.scratch import workspace

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.models import LinearGaussian
    from probpca.typing import Array

ScoreKind: TypeAlias = Literal["regression", "bartlett"]


def bartlett_scores(model: LinearGaussian, x: Rows) -> Array:
    r"""Bartlett's factor scores: the latent variables that maximise the density of each row, without a prior: (n, q).

    .. math:: \hat z = (W^\top \Psi^{-1} W)^{-1} W^\top \Psi^{-1} (x - \mu)

    They are conditionally unbiased, :math:`E[\hat z \mid z] = z`, while posterior means are shrunk towards 0. Missing
    cells (NaN) are left out; if the observed cells do not determine the latent variables, the scores are those of
    smallest norm. Bartlett (1937).

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import bartlett_scores
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[1.0], [0.0]], [1.0, 2.0])
    >>> bartlett_scores(model, [[3.0, 5.0], [np.nan, 5.0]])
    array([[3.],
           [0.]])
    """
    block = as_block(x, model.n_features)
    if not block.is_complete:
        scores = np.empty((block.n_rows, model.n_components))
        for found in group_posteriors(model, block):
            scores[found.index] = found.least_squares().latent.T
        return scores
    scale, axes, singular, rotation = model.covariance.whitened
    known = singular > 1e-12 * singular.max(initial=0.0)
    gain = (axes[:, known] / singular[known]) @ rotation[:, known].T  # (d, q)
    gain /= scale if scale.ndim == 0 else scale[:, None]
    out = np.empty((block.n_rows, model.n_components))
    with workspace() as work:
        for rows in block.pieces():
            out[rows] = block.centred(rows, model.mean, work=work) @ gain
    return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class LatentAxes:
    r"""Factors in which questions about rows are answered, :math:`f = T^\top z` with z the latent variables of a model.

    If T is orthogonal, factors are uncorrelated; in an oblique rotation their correlations are :math:`T^\top T`.
    """

    rotation: Array | None = None  # T: (q, q); None for the latent variables themselves
    scores: ScoreKind = "regression"

    def of_latent(self, latent: Array) -> Array:
        """Factors of given latent variables: (..., q)."""
        return latent if self.rotation is None else latent @ self.rotation

    def to_latent(self, factors: Array) -> Array:
        """Latent variables of given factors: (..., q)."""
        return factors if self.rotation is None else np.asarray(np.linalg.solve(self.rotation.T, factors.T).T)

    def loadings(self, loadings: Array) -> Array:
        """Loadings of the factors, given those of the latent variables: (d, q)."""
        return loadings if self.rotation is None else np.asarray(np.linalg.solve(self.rotation, loadings.T).T)

    def covariance(self, covariance: Array) -> Array:
        """Covariances of the factors of each row, given those of the latent variables: (n, q, q)."""
        if self.rotation is None:
            return covariance
        distinct = covariance[:1] if covariance.strides[0] == 0 else covariance  # rows may share one matrix
        return np.broadcast_to(self.rotation.T @ distinct @ self.rotation, covariance.shape)

    def encode(self, model: LinearGaussian, x: Rows) -> Array:
        """Scores of each row: posterior means, also called regression scores, or Bartlett's scores: (n, q)."""
        return self.of_latent((bartlett_scores if self.scores == "bartlett" else posterior_mean)(model, x))

    def joint(self, model: LinearGaussian) -> Gaussian:
        """Joint distribution of a row x and its factors, of size d + q."""
        whole, d = joint(model), model.n_features
        if self.rotation is None:
            return whole
        turn = np.eye(whole.mean.size)
        turn[d:, d:] = self.rotation
        return Gaussian(whole.mean, turn.T @ whole.covariance @ turn)
