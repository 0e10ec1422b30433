"""Which rows, and which cells of them, the model finds hard to believe."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.inference.tails import chi2_tail, log10_chi2_tail
from probpca.rows import as_block

if TYPE_CHECKING:
    from probpca.models import LinearGaussian
    from probpca.rows import Rows
    from probpca.typing import Array


class Outliers(NamedTuple):
    """Distances of rows from the model, with their probabilities and their causes.

    Probabilities are exact for new rows and known parameters.
    """

    distance: Array  # D2 = T2 + Q: (n,), chi-square with d degrees of freedom
    latent_distance: Array  # T2, within the principal subspace: (n,), min(q, d) degrees
    residual_distance: Array  # Q, off the subspace, in units of the noise: (n,), d - q degrees
    p_value: Array  # P(D2 at least this large): (n,)
    log10_p_value: Array  # the same, for values too small for a float: (n,)
    latent_p_value: Array  # (n,)
    residual_p_value: Array  # (n,)
    contributions: Array  # signed share of each cell in D2, rows sum to D2: (n, d)
    cell_scores: Array  # (x_j - E[x_j | the other cells]) / its standard deviation: (n, d)


def outliers(model: LinearGaussian, x: Rows) -> Outliers:
    r"""Squared Mahalanobis distance of each row, its two independent parts and its cells.

    .. math:: D^2 = (x - \mu)^\top C^{-1} (x - \mu) = T^2 + Q

    With :math:`g = C^{-1}(x - \mu)` the contribution of cell j is :math:`(x - \mu)_j g_j`, and
    :math:`g_j / \sqrt{[C^{-1}]_{jj}}` is its leave-one-cell-out z-score, standard normal under
    the model. Costs O(d q) a row.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import LinearGaussian, outliers
    >>> model = LinearGaussian(np.zeros(3), [[1.0], [1.0], [1.0]], 0.1)
    >>> found = outliers(model, [[1.0, 1.0, 1.0], [1.0, 1.0, -2.0]])
    >>> found.p_value.round(4)
    array([0.8091, 0.    ])
    >>> int(found.contributions[1].argmax())
    2
    """
    block = as_block(x, model.n_features)
    d = model.n_features
    r = min(model.n_components, d)
    inside, outside = np.empty(block.n_rows), np.empty(block.n_rows)
    contributions, scores = np.empty((block.n_rows, d)), np.empty((block.n_rows, d))
    spread = np.sqrt(model.covariance.inverse_diag())  # (d,)
    for rows in block.pieces():
        centred = block.centred(rows, model.mean)
        coordinates = model.covariance.coordinates(centred)
        inside[rows], outside[rows] = model.covariance.split_distance_at(*coordinates)
        weighted = model.covariance.solve_at(*coordinates)  # g: (rows, d)
        contributions[rows] = centred * weighted
        scores[rows] = weighted / spread
    distance = inside + outside
    return Outliers(
        distance,
        inside,
        outside,
        chi2_tail(distance, d),
        log10_chi2_tail(distance, d),
        chi2_tail(inside, r),
        chi2_tail(outside, d - r),
        contributions,
        scores,
    )
