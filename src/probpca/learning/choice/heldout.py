"""One fold of cells: a fit to the others, and what it says about these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse

from probpca.inference.latents import Tables, latents
from probpca.inference.likelihood import LOG_2PI
from probpca.learning.problem import Problem
from probpca.learning.spectral import spectral_start
from probpca.linalg.packed import doubled_sides, identity, outer_products, packed_size
from probpca.sources.memory import InMemory
from probpca.statistics import Columns

if TYPE_CHECKING:
    from probpca.learning.choice.folds import Listed
    from probpca.learning.results import Settings
    from probpca.learning.spectral import Start
    from probpca.models import LinearGaussian
    from probpca.rows import Block
    from probpca.typing import Array, Index

CHUNK = 2**16
"""Cells that are scored at a time."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Rows without the cells of one fold, and those cells."""

    problem: Problem
    start: Start
    held: Listed  # cells held out, of columns that have others

    @classmethod
    def of(
        cls, block: Block, cells: Listed, out: Any, largest: int, settings: Settings, rng: np.random.Generator
    ) -> Fold:
        """Hold out those of the observed cells that the mask ``out`` names."""
        source = InMemory(_without(block, cells, out))
        columns = source.fold(Columns.of)
        problem = Problem.of(source, columns, settings, rng)
        held = cells.take(out)
        # Nothing is known about a column without training cells: what is said of it says nothing about q.
        held = held.take(columns.observed[held.columns] > 0)
        return cls(problem, spectral_start(problem.rows, columns, largest, rng), held)

    def grown(self, before: LinearGaussian | None) -> LinearGaussian:
        """A fit with one component more than the model ``before`` has; from None with one."""
        first = self.start.model(1) if before is None else self.start.grown(before)
        return self.problem.best(first).state

    def score(self, model: LinearGaussian) -> Array:
        r"""Log density of the cells held out, each given the training cells of its row, summed over rows: (n,).

        .. math:: x_{ij} \mid x_{O_i} \sim N(\mu_j + w_j^\top m_i,\; \sigma^2 / \omega_{ij} + w_j^\top P_i w_j)
        """
        out, first = np.zeros(self.held.shape[0]), 0
        empty = np.ones(out.size, bool)
        kept: Any = self.problem.rows
        for observed in kept.blocks:
            tables = Tables.of(model, observed.centre)
            for part in observed.parts:
                found, rows = latents(tables, part.cells.ready()), first + part.rows
                covariance = found.of_rows(found.covariance[: packed_size(tables.q)])
                out[rows] = _densities(model, self.held, rows, found.mean, covariance)
                empty[rows] = False
            first += observed.n_rows
        rows, q = np.flatnonzero(empty), model.n_components  # their latents keep the prior
        prior = np.broadcast_to(identity(q), (packed_size(q), rows.size))
        out[rows] = _densities(model, self.held, rows, np.zeros((q, rows.size)), prior)
        return out


def _densities(model: LinearGaussian, held: Listed, rows: Index, mean: Array, covariance: Array) -> Array:
    """Sums over the cells of some rows, whose latents are N(mean, covariance): (rows,)."""
    where, which = held.of_rows(rows)
    W, s2 = model.loadings.T, float(model.noise_variance)
    table, total = doubled_sides(outer_products(W)), np.zeros(rows.size)
    for begin in range(0, where.size, CHUNK):
        at, i = where[begin : begin + CHUNK], which[begin : begin + CHUNK]
        j = held.columns[at]
        fitted = model.mean[j] + np.einsum("qc,qc->c", mean[:, i], W[:, j])
        noise = s2 if held.precision is None else s2 / held.precision[at]
        variance = noise + np.einsum("pc,pc->c", covariance[:, i], table[:, j])
        value = np.square(held.values[at] - fitted) / variance + np.log(variance) + LOG_2PI
        total += np.bincount(i, -0.5 * value, rows.size)
    return total


def _without(block: Block, cells: Listed, out: Any) -> Block:
    """The block with some of its observed cells missing."""
    if not block.is_sparse:
        values = np.array(block.values)
        values[cells.rows[out], cells.columns[out]] = np.nan
        return replace(block, values=values)
    kept = cells.take(~out)
    values = sparse.csr_array((kept.values, kept.columns, kept.pointers), shape=kept.shape)
    return replace(block, values=values, precision=kept.precision)
