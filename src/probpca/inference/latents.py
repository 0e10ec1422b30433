"""What the observed cells of rows say about their latent variables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, final
from weakref import WeakKeyDictionary

import numpy as np

from probpca.linalg.packed import bordered_order, chunks, factor, inner_products, packed_size
from probpca.scratch import scratch

if TYPE_CHECKING:
    from probpca.models import LinearGaussian
    from probpca.rows.protocol import Cells, Residual
    from probpca.typing import Array, Index

KEPT_BYTES = 2**23
"""What tables of several models may take together; larger ones are kept for the last model only."""
_lock = Lock()
_arranged: WeakKeyDictionary[LinearGaussian, Tables] = WeakKeyDictionary()


@final
@dataclass(frozen=True, eq=False)
class Tables:
    """A model as products with cells want it: one column per feature, the mean less the centre of the cells.

    Parameters that are known up to a ``spread`` enter by their expected outer products.
    """

    loadings: Array  # W' and below it mu - centre: (q + 1, d)
    noise: Array  # sigma2: ()
    centre: Array  # (d,)
    spread: Array | None = None  # covariance of [w_j; mu_j], packed by rows: (., d), or (., 1) if all are the same

    @classmethod
    def of(cls, model: LinearGaussian, centre: Array, spread: Array | None = None) -> Tables:
        """Arrange a model; once for all blocks that have the same centre."""
        with _lock:
            known = _arranged.get(model)
            if known is None or known.centre is not centre or known.spread is not spread:
                if (1 + len(_arranged)) * model.loadings.nbytes * (model.n_components + 3) > 2 * KEPT_BYTES:
                    _arranged.clear()
                theta = np.vstack([model.loadings.T, model.mean - centre])
                known = cls(theta, model.noise_variance, centre, spread)
                _ = known.products
                _arranged[model] = known
            return known

    @property
    def q(self) -> int:
        """Number of components."""
        return len(self.loadings) - 1

    @cached_property
    def encoder(self) -> Array:
        """W' Psi^{-1}: (q, d)."""
        return self.loadings[:-1] / self.noise

    @cached_property
    def products(self) -> Array:
        """Entries of E[w w'] / psi, and of -E[mu w] / psi as their border: (q (q + 1) / 2 + q, d)."""
        table = np.empty((packed_size(self.q + 1) - 1, self.centre.size))
        for out, row, column in zip(table, *bordered_order(self.q), strict=True):
            np.multiply(self.loadings[row], self.encoder[column], out=out)
            if self.spread is not None:
                np.add(out, self.spread[packed_size(row) + column] / self.noise, out=out)
            if row == self.q:
                np.negative(out, out=out)
        return table


@final
@dataclass(frozen=True, eq=False)
class Latents:
    """The posterior N(m, P) of every row, in this thread's scratch. Rows of one pattern share a P."""

    mean: Array  # m: (q, b)
    covariance: (
        Array  # P, or P + m m' if that was asked for, packed by rows, and q + 1 rows of room: (., b or patterns)
    )
    logdet: Array  # log |I + W' Omega Psi^{-1} W|: (b,), or (patterns,)
    explained: Array  # h' P h, h = W' Omega Psi^{-1} (x - mu): (b,)
    pattern: Index | None

    def of_rows(self, per_pattern: Array) -> Array:
        """Spread what is known per pattern over the rows."""
        return per_pattern if self.pattern is None else per_pattern[..., self.pattern]

    def residual(self, tables: Tables, cells: Cells) -> Residual:
        """Omega (x - mu - W m) of the observed cells."""
        return cells.residual(tables.loadings, np.vstack([self.mean, np.ones(self.mean.shape[1])]))


def latents(tables: Tables, cells: Cells, *, joint: bool = False) -> Latents:
    r"""Condition the prior N(0, I) on the observed cells.

    .. math::
        P_i = \Big(I + \sum_{j} \omega_{ij} w_j w_j^\top / \psi_j\Big)^{-1}, \qquad
        m_i = P_i \sum_j \omega_{ij} w_j (x_{ij} - \mu_j) / \psi_j

    All precisions are one product of the mask with the outer products of the rows of W. With
    ``joint`` the covariances come as P + m m', at no cost, unless rows share patterns.
    """
    q = tables.q
    bordered = cells.mask.products(tables.products)
    border = np.flatnonzero(bordered_order(q)[0] == q)
    h = cells.values.products(tables.encoder)
    if cells.pattern is not None:
        return _by_pattern(bordered, border, h, cells.pattern)
    bordered[border] += h
    b = bordered.shape[1]
    mean, covariance = np.empty((q, b)), scratch("latent covariance", (packed_size(q + 1), b), np.float64)
    logdet, explained = np.empty(b), np.empty(b)
    for chunk in chunks(b, q):
        found = factor(bordered[:, chunk], q, add=1.0)
        mean[:, chunk] = found.solution
        logdet[chunk] = found.logdet
        explained[chunk] = np.einsum("ib,ib->b", found.half, found.half)
        inner_products(found.root if joint else found.root[:q], covariance[:, chunk])
    return Latents(mean, covariance, logdet, explained, None)


def _by_pattern(bordered: Array, border: Index, h: Array, pattern: Index) -> Latents:
    """One factor a pattern, two products with it a row."""
    q, patterns = len(h), bordered.shape[1]
    h += bordered[border][:, pattern]
    bordered[border] = 0.0
    covariance, root = np.empty((packed_size(q + 1), patterns)), np.empty((q, q, patterns))
    logdet = np.empty(patterns)
    for chunk in chunks(patterns, q):
        found = factor(bordered[:, chunk], q, add=1.0)
        logdet[chunk] = found.logdet
        root[:, :, chunk] = found.root[:q]
        inner_products(found.root[:q], covariance[:, chunk])
    of_rows = root[:, :, pattern]  # L^{-1}
    half = np.einsum("ijb,jb->ib", of_rows, h)
    mean = np.einsum("ijb,ib->jb", of_rows, half)
    return Latents(mean, covariance, logdet, np.einsum("ib,ib->b", half, half), pattern)
