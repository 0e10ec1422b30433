"""A cheap first model of rows with missing cells."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.linalg.krylov import block_krylov
from probpca.models import LinearGaussian
from probpca.statistics import Sum

if TYPE_CHECKING:
    from probpca.rows import Observed
    from probpca.sources import Source
    from probpca.statistics import Columns
    from probpca.typing import Array, Floats

PRODUCTS = 6
OVERSAMPLING = 4
ENOUGH = 2
"""Observed cells for each parameter of a feature from which on its start is read from them, if others have more."""


class Start(NamedTuple):
    """Axes and variances to begin with."""

    columns: Columns
    axes: Array  # scaled by the root of the observed share, orthonormal: (d, k)
    values: Array  # variances along them: (k,)
    share: Array  # of rows in which each feature was observed: (d,)

    def model(self, q: int) -> LinearGaussian:
        """The model of the first q axes."""
        d = self.share.size
        kept = self.values[:q]
        energy = float(self.share @ self.columns.variance)
        noise = max(energy - float(np.maximum(kept, 0.0).sum()), 0.05 * energy) * d / (self.share.sum() * max(d - q, 1))
        size = np.sqrt(np.maximum(kept - noise * self.share.mean(), 0.1 * noise * self.share.mean()))
        known = self.columns.observed >= min(ENOUGH * (q + 1), self.columns.observed.max() / 2)
        loadings = self.axes[:, :q] * size * np.where(known, 1 / np.sqrt(np.maximum(self.share, 1e-300)), 0.0)[:, None]
        return LinearGaussian(self.columns.mean, loadings, np.asarray(noise))

    def grown(self, model: LinearGaussian) -> LinearGaussian:
        """A fitted model with one more component: the next axis, less what the others hold of it."""
        fresh = self.model(model.n_components + 1).loadings[:, -1]
        basis = np.linalg.qr(model.loadings)[0]
        fresh = fresh - basis @ (basis.T @ fresh)
        return LinearGaussian(model.mean, np.column_stack([model.loadings, fresh]), model.noise_variance)


def spectral_start(rows: Source, columns: Columns, k: int, rng: np.random.Generator) -> Start:
    r"""Leading eigenpairs of the covariance that the observed cells estimate, by products alone.

    With :math:`\rho_j` the share of rows in which feature j was observed and :math:`S_0` the covariance of
    zero-filled rows, :math:`[S_0]_{jk}` is about :math:`\rho_j \rho_k C_{jk}` off the diagonal and
    :math:`\rho_j C_{jj}` on it. Scaled by :math:`(\rho_j \rho_k)^{-1/2}` and with its diagonal mended it
    estimates a matrix with the same leading subspace as C, in which rare features weigh little.
    """
    d = rows.n_features
    share = columns.observed / columns.rows
    root = np.sqrt(share)
    scale = np.divide(1.0, root, out=np.zeros(d), where=root > 0)
    excess = columns.variance * (1 - share) * (share > 0)

    def apply(vectors: Floats) -> Array:
        table = np.ascontiguousarray((scale[:, None] * vectors).T, np.float64)
        image = rows.fold(partial(_zero_filled_product, table)).value.T / columns.rows
        return scale[:, None] * image - excess[:, None] * vectors

    start = rng.standard_normal((d, min(k + OVERSAMPLING, d)))
    total = float(columns.variance.sum())
    # Eigenvalues may be negative here, and Krylov spaces do not mind.
    found = block_krylov(apply, start, min(k, d), _is_fair, scale=total, max_products=PRODUCTS)
    return Start(columns, found.vectors.astype(np.float64), found.values, share)


def _is_fair(values: Array, residuals: Array) -> bool:
    return bool((residuals[:-1] < 1e-2 * values[0]).all())


def _zero_filled_product(table: Array, block: Observed) -> Sum:
    """Sum over rows of w (V'y) y', y zero where nothing was observed: (k, d)."""
    total = np.zeros(table.shape)
    for part in block.parts:
        cells = part.cells.ready()
        cells.values.add_sums(cells.values.products(table) * part.weight, total)
    return Sum(total)
