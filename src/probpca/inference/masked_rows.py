"""Posterior and likelihood of rows with missing cells, part by part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np

from probpca.blocks import observe
from probpca.blocks.block import with_units
from probpca.errors import DataError
from probpca.linalg.packed import (
    bordered_order,
    chunks,
    doubled_sides,
    factor,
    inner_products,
    outer_products,
    packed_size,
    row_order,
    unpack,
)
from probpca.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.blocks import Block
    from probpca.blocks.masked.forms import Cells, Part, Residual
    from probpca.models import LinearGaussian
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


NEGLIGIBLE = 1e-12
"""Share of the largest eigenvalue below which a direction of the latents counts as not observed."""


class LeastSquares(NamedTuple):
    """Latents that fit the observed cells best, without a prior."""

    latent: Array  # (q, b)
    rank: Index  # number of latent directions that the cells determine: (b,)
    distance: Array  # T2 = x' U (I + S^2)^{-1} U' x, in units of the noise: (b,)


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """Some rows, in units in which all features have the same noise, and their latents."""

    part: Part
    cells: Cells
    tables: Tables
    scale: Array  # unit of each feature: () or (d,)

    @property
    def rows(self) -> Index:
        """Positions in the block: (b,)."""
        return self.part.rows

    @cached_property
    def latents(self) -> Latents:
        """The posterior of the latents."""
        return latents(self.tables, self.cells)

    @property
    def covariance(self) -> Array:
        """Posterior covariance of each row, packed by rows: (q (q + 1) / 2, b)."""
        return self.latents.of_rows(self.latents.covariance[: packed_size(self.tables.q)])

    @property
    def noise(self) -> float:
        """The noise variance, in these units."""
        return float(self.tables.noise)

    def log_likelihood(self) -> Array:
        """Log density of the observed cells of each row: (b,)."""
        found = self.latents
        distance = found.residual(self.tables, self.cells).row_squares() / self.noise
        distance += np.square(found.mean).sum(axis=0)
        constant = self.part.observed * (np.log(2 * np.pi) + np.log(self.noise)) - self.part.log_precision
        if self.scale.ndim:
            units = self.cells.mask.products(2 * np.log(self.scale)[None])[0]
            constant = constant + (units if self.cells.pattern is None else units[self.cells.pattern])
        return -0.5 * (constant + found.of_rows(found.logdet) + distance)

    def predicted(self, latent: Array) -> Array:
        """W z + mu of every feature, in the units of the data: (b, d)."""
        fitted = latent.T @ self.tables.loadings[:-1] + self.tables.loadings[-1]
        return (fitted + self.centre) * self.scale

    @property
    def centre(self) -> Array:
        """What was subtracted from the rows, in these units: (d,)."""
        return self.tables.centre

    def doubt(self) -> Array:
        """w_j' P w_j of each row and feature, in these units: (b, d)."""
        return self.covariance.T @ doubled(self.tables.loadings[:-1])

    def least_squares(self) -> LeastSquares:
        """The best latents without a prior, the shortest of many if there are many."""
        q = self.tables.q
        rows, columns = row_order(q)
        W = self.tables.loadings[:-1]
        gram = self.cells.mask.products(W[rows] * self.tables.encoder[columns])
        gram = gram if self.cells.pattern is None else gram[:, self.cells.pattern]
        h = self.cells.values.products(self.tables.encoder)
        shift = self.cells.mask.products(self.tables.loadings[-1] * self.tables.encoder)
        h -= shift if self.cells.pattern is None else shift[:, self.cells.pattern]
        values, vectors = np.linalg.eigh(unpack(gram))  # (b, q), (b, q, q)
        most = np.minimum(self.part.observed, q)[:, None]
        used = (np.arange(q, 0, -1) <= most) & (values > NEGLIGIBLE * values[:, -1:])
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=used)
        along = np.einsum("bij,ib->bj", vectors, h)
        latent = np.einsum("bij,bj->ib", vectors, along * inverse)
        distance = (along**2 * inverse / (1.0 + values)).sum(axis=1)
        return LeastSquares(latent, used.sum(axis=1), distance)


def doubled(loadings: Array) -> Array:
    """Entries of w w' such that a sum over packed entries of P is w'P w: (q (q + 1) / 2, d)."""
    return doubled_sides(outer_products(loadings))


def seen(model: LinearGaussian, block: Block) -> Iterator[Seen]:
    """Cut a block with missing cells into parts, each asked by itself."""
    scale = np.sqrt(model.noise_variance) if model.noise_variance.ndim else np.asarray(1.0)
    if scale.ndim:
        if block.precision is not None:
            msg = "cell weights go with one noise variance for all features; this model has one per feature."
            raise DataError(msg)
        block, model = replace(block, values=with_units(block.values, 1 / scale)), model.rescale(1 / scale)
        model = replace(model, noise_variance=np.asarray(1.0))
    centre = model.mean.astype(block.values.dtype).astype(np.float64)
    tables = Tables.of(model, centre)
    for part in observe(block, centre, keep_empty=True).parts:
        yield Seen(part, part.cells.ready(), tables, scale)
