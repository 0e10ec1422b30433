"""The E-step of rows with missing cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.inference.latents import Tables, latents
from probpca.inference.likelihood import LOG_2PI
from probpca.linalg.packed import multiply, packed_size, row_order
from probpca.statistics import Regression

if TYPE_CHECKING:
    from probpca.inference.latents import Latents
    from probpca.models import LinearGaussian
    from probpca.rows import Observed
    from probpca.rows.observe import Part
    from probpca.typing import Array, Index

CLEAR = 1e-4
"""Share of noise in the variance from which on differences of sums of squares keep enough digits."""


def expect_observed(model: LinearGaussian, block: Observed) -> Regression:
    """Summarise a block with missing cells at the given parameters, with one noise variance.

    Two matrix products per part of the block: the mask with outer products of loadings, and moments
    of latents with the mask. Where the noise is a fair share of the variance, squared residuals
    follow from the sums; where it is small they are summed residual by residual.
    """
    tables = Tables.of(model, block.centre)
    clear = float(model.noise_variance) > CLEAR * np.square(model.loadings).sum(axis=1).max()
    summarise = _from_sums if clear else _from_residuals
    total = Regression.zero(model.n_features, model.n_components)
    for part in block.parts:
        total = total.merge(summarise(tables, part))
    return total


def _from_sums(tables: Tables, part: Part) -> Regression:
    """Sums of y and of its squares, turned into those of residuals."""
    cells, w = part.cells.ready(), part.weight
    found = latents(tables, cells, joint=True)
    moments, weighted = _moments(found, w)
    gram = cells.mask_sums(moments)  # A: (p, d)
    right = cells.value_sums(weighted)  # sum w omega y [m; 1]: (q + 1, d)
    theta = tables.loadings
    fitted = multiply(gram, theta)
    squares = part.squares
    mean = theta[-1]
    distance = (squares - mean * (2 * right[-1] - mean * gram[-1])) / tables.noise  # of x - mu: (d,)
    squares = squares + np.einsum("kd,kd->d", theta, fitted - 2 * right)
    explained = float(w @ found.explained)
    value, count = _log_likelihood(tables, part, found, float(distance.sum()) - explained)
    latent = moments.sum(axis=1)
    return Regression(float(w.sum()), count, value, latent, gram, right - fitted, squares)


def _from_residuals(tables: Tables, part: Part) -> Regression:
    """Residuals at the posterior mean and the doubt about it, each summed by itself."""
    cells, w, q = part.cells.ready(), part.weight, tables.q
    found = latents(tables, cells)
    doubt = found.covariance
    doubt[packed_size(q) :] = 0.0
    doubt *= w if found.pattern is None else np.bincount(found.pattern, w)
    uncertain = cells.mask_sums(doubt)  # sum w omega P: (p, d)
    m = np.vstack([found.mean, np.ones(found.mean.shape[1])])
    rest = found.residual(tables, cells)
    shrink = multiply(uncertain, tables.loadings)
    squares = rest.column_squares(w)
    distance = float((squares / tables.noise).sum()) + float(w @ np.square(found.mean).sum(axis=0))
    squares += np.einsum("kd,kd->d", tables.loadings, shrink)
    rows, columns = row_order(q + 1)
    known = m[rows] * m[columns] * w  # w m m': (p, b)
    known = known if found.pattern is None else _by_pattern(known, found.pattern)
    gram = cells.mask_sums(known) + uncertain
    value, count = _log_likelihood(tables, part, found, distance)
    latent = known.sum(axis=1) + doubt.sum(axis=1)
    return Regression(float(w.sum()), count, value, latent, gram, rest.sums(w * m) - shrink, squares)


def _moments(found: Latents, w: Array) -> tuple[Array, Array]:
    """Entries of w E[t t'], of each row or summed over patterns, and w [m; 1] of each row."""
    q, b = found.mean.shape
    k = packed_size(q)
    if found.pattern is None:
        moments = found.covariance  # P + m m', with room for the rest below
        moments[k:-1] = found.mean
        moments[-1] = 1.0
        moments *= w
        return moments, moments[k:]
    weighted = np.vstack([found.mean * w, w])
    rows, columns = row_order(q + 1)
    products = weighted[rows] * np.vstack([found.mean, np.ones(b)])[columns]
    moments = _by_pattern(products, found.pattern)
    moments[:k] += found.covariance[:k] * moments[-1]
    return moments, weighted


def _by_pattern(of_rows: Array, pattern: Index) -> Array:
    """Sums over the rows of each pattern; rows are sorted by it: (p, patterns)."""
    starts = np.flatnonzero(np.diff(pattern, prepend=-1))
    return np.add.reduceat(of_rows, starts, axis=1)


def _log_likelihood(tables: Tables, part: Part, found: Latents, distance: float) -> tuple[float, float]:
    """Log-likelihood of the part, and how many cells it has, both as rows count."""
    w = part.weight
    count = float(w @ part.observed)
    logdet = float(w @ (found.of_rows(found.logdet) - part.log_precision))
    return -0.5 * (count * (LOG_2PI + float(np.log(tables.noise))) + logdet + distance), count
