"""Distances of rows from a model, with p-values that stay accurate far in the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaincc, gammaln

from probpca.blocks import as_block
from probpca.blocks.block import dense_precision, dense_values
from probpca.inference.masked_rows import group_posteriors
from probpca.scratch import workspace

if TYPE_CHECKING:
    from probpca.blocks import Block, Rows
    from probpca.models import LinearGaussian
    from probpca.typing import Array

SMALLEST_TAIL = 1e-290


def chi2_tail(distance: Array, degrees: int | Array) -> Array:
    """P(chi2 > distance), degrees of freedom being one for all or one each; 1 when there are none."""
    half = 0.5 * np.asarray(degrees)
    return np.where(half > 0, gammaincc(np.where(half > 0, half, 1.0), 0.5 * distance), 1.0)


def log10_chi2_tail(distance: Array, degrees: int | Array) -> Array:
    """Log10 of P(chi2 > distance), accurate far beyond the smallest float."""
    degrees = np.broadcast_to(np.asarray(degrees, dtype=np.float64), distance.shape)
    tail = chi2_tail(distance, degrees)
    tiny = tail < SMALLEST_TAIL
    out = np.log10(np.where(tiny, 1.0, tail))
    far = tiny & np.isfinite(distance)
    out[tiny] = -np.inf
    out[far] = _log_upper_gamma(0.5 * degrees[far], 0.5 * distance[far]) / np.log(10.0)
    return out


def _log_upper_gamma(a: Array, x: Array, terms: int = 200) -> Array:
    """Log of Gamma(a, x) / Gamma(a) for x well above a, by Lentz's continued fraction."""
    b = x + 1.0 - a
    c = np.full_like(x, 1e300)
    d = 1.0 / b
    h = d.copy()
    for i in range(1, terms):
        factor = -i * (i - a)
        b = b + 2.0
        d = 1.0 / (factor * d + b)
        c = b + factor / c
        h *= d * c
    return np.asarray(a * np.log(x) - x - gammaln(a) + np.log(h))


class Outliers(NamedTuple):
    """Distances of rows from the model, with their probabilities and their causes.

    Probabilities are exact for new rows and known parameters. Of a row with missing cells the
    observed ones are judged, and degrees of freedom count them: d is their number, and q the
    number of latent directions that they determine. With nothing observed p-values are 1.
    """

    distance: Array  # D2 = T2 + Q: (n,), chi-square with d degrees of freedom
    latent_distance: Array  # T2, within the principal subspace: (n,), min(q, d) degrees
    residual_distance: Array  # Q, off the subspace, in units of the noise: (n,), d - q degrees
    p_value: Array  # P(D2 at least this large): (n,)
    log10_p_value: Array  # the same, for values too small for a float: (n,)
    latent_p_value: Array  # (n,)
    residual_p_value: Array  # (n,)
    contributions: Array  # signed share of each cell in D2, rows sum to D2: (n, d)
    cell_scores: Array  # (x_j - E[x_j | the other cells]) / its standard deviation, NaN if missing: (n, d)


def outliers(model: LinearGaussian, x: Rows) -> Outliers:
    r"""Squared Mahalanobis distance of each row, its two independent parts and its cells.

    .. math:: D^2 = (x - \mu)^\top C^{-1} (x - \mu) = T^2 + Q

    With :math:`g = C^{-1}(x - \mu)` the contribution of cell j is :math:`(x - \mu)_j g_j`, and
    :math:`g_j / \sqrt{[C^{-1}]_{jj}}` is its leave-one-cell-out z-score, standard normal under
    the model. Costs O(d q) a row.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import outliers
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(3), [[1.0], [1.0], [1.0]], 0.1)
    >>> found = outliers(model, [[1.0, 1.0, 1.0], [1.0, 1.0, -2.0]])
    >>> found.p_value.round(4)
    array([0.8091, 0.    ])
    >>> int(found.contributions[1].argmax())
    2
    """
    block = as_block(x, model.n_features)
    found = _of_complete(model, block) if block.is_complete else _of_observed(model, block)
    distance = found.inside + found.outside
    return Outliers(
        distance,
        found.inside,
        found.outside,
        chi2_tail(distance, found.degrees),
        log10_chi2_tail(distance, found.degrees),
        chi2_tail(found.inside, found.rank),
        chi2_tail(found.outside, found.degrees - found.rank),
        found.contributions,
        found.scores,
    )


class _Distances(NamedTuple):
    inside: Array  # T2: (n,)
    outside: Array  # Q: (n,)
    contributions: Array  # (n, d)
    scores: Array  # (n, d)
    degrees: Array  # of freedom of D2: (n,)
    rank: Array  # of freedom of T2: (n,)

    @classmethod
    def empty(cls, n: int, d: int) -> _Distances:
        vectors, tables = [np.empty(n) for _ in range(4)], [np.empty((n, d)) for _ in range(2)]
        return cls(vectors[0], vectors[1], tables[0], tables[1], vectors[2], vectors[3])


def _of_complete(model: LinearGaussian, block: Block) -> _Distances:
    d = model.n_features
    out = _Distances.empty(block.n_rows, d)
    out.degrees[:], out.rank[:] = d, min(model.n_components, d)
    roots = np.sqrt(model.covariance.inverse_diag())  # (d,)
    with workspace() as work:
        for rows in block.pieces():
            centred = block.centred(rows, model.mean, work=work)
            coordinates = model.covariance.coordinates(centred)
            out.inside[rows], out.outside[rows] = model.covariance.split_distance_at(*coordinates)
            weighted = model.covariance.solve_at(*coordinates)  # g: (rows, d)
            out.contributions[rows] = centred * weighted
            out.scores[rows] = weighted / roots
    return out


def _of_observed(model: LinearGaussian, block: Block) -> _Distances:
    """Distances of the observed cells of each row, with as many degrees of freedom as cells."""
    out = _Distances.empty(block.n_rows, model.n_features)
    centred, omega = dense_values(block) - model.mean, dense_precision(block)
    for found in group_posteriors(model, block):
        index, parameters, cells = found.index, found.parameters, found.cells
        best = found.least_squares()
        ones = np.ones((1, index.size))
        out.inside[index] = best.distance
        outside = cells.residual(parameters.loadings, np.vstack([best.latent, ones])).row_squares() / found.noise
        out.rank[index], out.degrees[index] = best.rank, found.group.observed
        out.outside[index] = np.where(found.group.observed > best.rank, outside, 0.0)
        weighted = found.latents.residual(parameters, cells).dense() / found.noise  # g: (b, d)
        out.contributions[index] = np.nan_to_num(centred[index] / found.scale) * weighted
        precise = omega[index] / found.noise
        diagonal = precise * np.maximum(1.0 - precise * found.signal_variance(), 1e-15)  # of C^{-1}
        out.scores[index] = weighted / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    out.scores[np.isnan(centred)] = np.nan
    return out
