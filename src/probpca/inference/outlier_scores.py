"""Distances of rows from a model, with p-values that stay accurate far in the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.blocks import as_block
from probpca.blocks.block import dense_precision, dense_values
from probpca.inference.calibration import Calibration, Distances, chi2_tail, log10_chi2_tail, matched
from probpca.inference.masked_rows import group_posteriors
from probpca.scratch import workspace

if TYPE_CHECKING:
    from probpca.blocks import Block, Rows
    from probpca.models import LinearGaussian
    from probpca.typing import Array

CHI_SQUARE = Calibration(obstacle="no calibration was given")
"""The reference of a model whose rows are not known: its own Gaussian."""


class Outliers(NamedTuple):
    """Distances of rows from the model, with their probabilities and their causes.

    ``p_value`` refers distances to a distribution that was matched to the rows of the fit: it holds for rows with
    heavier tails than a Gaussian, and where rows are not many more than columns. For rows of the fit the distance is
    first corrected as if the row had been left out. ``model_p_value`` treats the fitted Gaussian as known and exact.
    Distances, their parts, contributions and scores are those of the row as it is.

    The observed cells of a row are judged, and degrees of freedom count them: k is their number, and r the number of
    latent directions that they determine, at most q. With nothing observed p-values are 1.
    """

    distance: Array  # D2 = T2 + Q: (n,), k degrees of freedom
    latent_distance: Array  # T2, within the principal subspace: (n,), r degrees of freedom
    residual_distance: Array  # Q, off the subspace, in units of the noise: (n,), k - r degrees of freedom
    p_value: Array  # P(a row at least this far off), calibrated: (n,)
    log10_p_value: Array  # the same, for values too small for a float: (n,)
    model_p_value: Array  # P(chi-square with k degrees of freedom at least D2): (n,)
    log10_model_p_value: Array  # (n,)
    latent_p_value: Array  # of T2 alone, calibrated: (n,)
    residual_p_value: Array  # of Q alone, calibrated: (n,)
    contributions: Array  # signed share of each cell in D2, rows sum to D2: (n, d)
    cell_scores: Array  # (x_j - E[x_j | the other cells]) / its standard deviation, NaN if missing: (n, d)
    note: str = ""  # what to be careful about: outliers that may hide each other, or p-values that are not calibrated


def outliers(
    model: LinearGaussian, x: Rows, calibration: Calibration = CHI_SQUARE, *, left_out_of: float | None = None
) -> Outliers:
    r"""Squared Mahalanobis distance of each row, its two independent parts and its cells.

    .. math:: D^2 = (x - \mu)^\top C^{-1} (x - \mu) = T^2 + Q, \qquad D^2 / (a k) \sim F(k, \nu)

    The scale a and the degrees of freedom :math:`\nu` are those of ``calibration``; without one ``p_value`` is the
    same as ``model_p_value``. ``left_out_of`` is the number of rows of the fit if x are among them, or, if cells are
    missing, the number of rows in which a feature was observed on average: p-values are then those of rows left out.

    With :math:`g = C^{-1}(x - \mu)` the contribution of cell j is :math:`(x - \mu)_j g_j`, and
    :math:`g_j / \sqrt{[C^{-1}]_{jj}}` is its leave-one-cell-out z-score, standard normal under
    the model. Costs O(d q) a row.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import Calibration, outliers
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(3), [[1.0], [1.0], [1.0]], 0.1)
    >>> rows = [[1.0, 1.0, 1.0], [1.0, 1.0, -2.0]]
    >>> found = outliers(model, rows)
    >>> found.p_value.round(4)
    array([0.8091, 0.    ])
    >>> int(found.contributions[1].argmax())
    2
    >>> outliers(model, rows, Calibration(scale=1.5, degrees=6.0)).p_value.round(4)
    array([0.8825, 0.0046])
    """
    block = as_block(x, model.n_features)
    found = _of_complete(model, block) if block.is_complete else _of_observed(model, block)
    inside, outside, k, rank = found.distances
    distance, judged = inside + outside, found.distances
    if left_out_of is not None and not calibration.obstacle:
        judged = judged.left_out(left_out_of)
    p, model_p = calibration.tail(judged.whole, k), chi2_tail(distance, k)
    return Outliers(
        distance,
        inside,
        outside,
        p,
        calibration.log10_tail(judged.whole, k, p),
        model_p,
        log10_chi2_tail(distance, k, model_p),
        calibration.tail(judged.inside, rank),
        calibration.tail(judged.outside, k - rank),
        found.contributions,
        found.scores,
        calibration.note,
    )


def calibrate(model: LinearGaussian, x: Rows) -> Calibration:
    """Match the reference distribution of p-values to the rows that a model was fitted to.

    Estimators do this at the end of a fit. See ``Calibration`` for the distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import calibrate, outliers
    >>> from probpca.learning import fit_ppca
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 6)) + rng.standard_normal((300, 6))
    >>> rows *= np.sqrt(rng.chisquare(8, (300, 1)))  # heavy tails
    >>> model = fit_ppca(rows, 2).model
    >>> found = outliers(model, rows, calibrate(model, rows), left_out_of=300)
    >>> int((found.model_p_value < 0.001).sum()), int((found.p_value < 0.001).sum())
    (5, 0)
    """
    block = as_block(x, model.n_features)
    found = _of_complete(model, block) if block.is_complete else _of_observed(model, block)
    w, k = block.weights, found.distances.degrees
    return matched(found.distances, float(w @ k) / block.n_features, block.weight)


class _Scores(NamedTuple):
    distances: Distances
    contributions: Array  # (n, d)
    scores: Array  # (n, d)

    @classmethod
    def empty(cls, n: int, d: int) -> _Scores:
        return cls(Distances.empty(n), np.empty((n, d)), np.empty((n, d)))


def _of_complete(model: LinearGaussian, block: Block) -> _Scores:
    d = model.n_features
    out = _Scores.empty(block.n_rows, d)
    inside, outside, degrees, rank = out.distances
    degrees[:], rank[:] = d, min(model.n_components, d)
    roots = np.sqrt(model.covariance.inverse_diag())  # (d,)
    with workspace() as work:
        for rows in block.pieces():
            centred = block.centred(rows, model.mean, work=work)
            coordinates = model.covariance.coordinates(centred)
            inside[rows], outside[rows] = model.covariance.split_distance_at(*coordinates)
            weighted = model.covariance.solve_at(*coordinates)  # g: (rows, d)
            out.contributions[rows] = centred * weighted
            out.scores[rows] = weighted / roots
    return out


def _of_observed(model: LinearGaussian, block: Block) -> _Scores:
    """Distances of the observed cells of each row, with as many degrees of freedom as cells."""
    out = _Scores.empty(block.n_rows, model.n_features)
    inside, outside, degrees, rank = out.distances
    centred, omega = dense_values(block) - model.mean, dense_precision(block)
    for found in group_posteriors(model, block):
        index, parameters, cells = found.index, found.parameters, found.cells
        best = found.least_squares()
        ones = np.ones((1, index.size))
        inside[index] = best.distance
        left = cells.residual(parameters.loadings, np.vstack([best.latent, ones])).row_squares() / found.noise
        rank[index], degrees[index] = best.rank, found.group.observed
        outside[index] = np.where(found.group.observed > best.rank, left, 0.0)
        weighted = found.latents.residual(parameters, cells).dense() / found.noise  # g: (b, d)
        out.contributions[index] = np.nan_to_num(centred[index] / found.scale) * weighted
        precise = omega[index] / found.noise
        diagonal = precise * np.maximum(1.0 - precise * found.signal_variance(), 1e-15)  # of C^{-1}
        out.scores[index] = weighted / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    out.scores[np.isnan(centred)] = np.nan
    return out
