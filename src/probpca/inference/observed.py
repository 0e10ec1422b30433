"""Questions about rows with missing cells, part by part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.errors import DataError
from probpca.inference.latents import Tables, latents
from probpca.linalg.packed import doubled_sides, outer_products, packed_size, row_order, unpack
from probpca.rows import observe
from probpca.rows.block import with_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.inference.latents import Latents
    from probpca.models import LinearGaussian
    from probpca.rows import Block
    from probpca.rows.observe import Part
    from probpca.rows.protocol import Cells
    from probpca.typing import Array, Index

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
