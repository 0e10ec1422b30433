"""Cross-validation of held-out cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy import sparse

from probpca.blocks.block import observed_cells, row_of_cell
from probpca.blocks.cells import patterns
from probpca.errors import DataError
from probpca.inference.likelihood import LOG_2PI
from probpca.inference.masked_rows import Parameters, latents
from probpca.learning.describe import NothingToLearnError, describe
from probpca.learning.missing.fit import Problem
from probpca.learning.missing.start import spectral_start
from probpca.learning.selection.tables import table_of
from probpca.learning.settings import FoldSettings, Settings
from probpca.linalg.packed import doubled_sides, identity, outer_products, packed_size
from probpca.sources import open_source
from probpca.sources.engines.local import map_blocks, one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.blocks import Block
    from probpca.learning.missing.start import Start
    from probpca.models import LinearGaussian
    from probpca.typing import Array, Index


class Listed(NamedTuple):
    """Observed cells, row after row."""

    rows: Index  # ascending: (N,)
    columns: Index  # (N,)
    values: Array  # (N,)
    precision: Array | None  # omega: (N,); None: 1
    shape: tuple[int, int]

    @classmethod
    def of(cls, block: Block) -> Listed:
        """List the observed cells of a dense block, or of a sparse one whose unstored cells are missing."""
        omega, seen = block.precision, observed_cells(block)
        stored = block.values.data if block.is_sparse else block.values
        if block.is_sparse:
            rows, columns = row_of_cell(block.values)[seen], block.values.indices[seen].astype(np.intp)
        else:
            rows, columns = np.nonzero(seen)
        precision = None if omega is None else omega[seen].astype(np.float64)
        return cls(rows, columns, stored[seen].astype(np.float64), precision, block.values.shape)

    def take(self, which: Any) -> Listed:
        """Some of them, as a mask or as ascending positions."""
        precision = None if self.precision is None else self.precision[which]
        return Listed(self.rows[which], self.columns[which], self.values[which], precision, self.shape)

    @property
    def pointers(self) -> Index:
        """Where the cells of each row begin, and where the last ones end: (n + 1,)."""
        return np.searchsorted(self.rows, np.arange(self.shape[0] + 1))

    def of_rows(self, rows: Index) -> tuple[Index, Index]:
        """Positions of the cells of some rows, and for each of them which of these rows it is in."""
        pointers = self.pointers
        lengths = np.diff(pointers)[rows]
        which = np.repeat(np.arange(rows.size), lengths)
        begins = pointers[rows] - np.cumsum(lengths) + lengths
        return begins[which] + np.arange(which.size), which


def deal(cells: Listed, n_folds: int, rng: np.random.Generator) -> Index:
    """The fold of each observed cell: (N,).

    Columns are shuffled; the observed cells of a row are then dealt to the folds in turn, each row beginning one
    fold later than the one before it in a random order. A row with r cells loses r / K of them, up to rounding, in
    each of the K folds. So does a column of a complete table, whose rows then have K different sets of cells held
    out, which makes the fits quick.
    """
    n, d = cells.shape
    rows = cells.rows
    turn = np.lexsort((rng.permutation(d)[cells.columns], rows))
    folds = np.empty(rows.size, np.intp)
    folds[turn] = np.arange(rows.size) - cells.pointers[rows]  # sorting within rows leaves each row its range
    first = np.empty(n, np.intp)
    first[_order(cells, rng)] = np.arange(n)
    folds = (folds + first[rows]) % n_folds
    _spread(folds, cells, n_folds)
    return folds


def _order(cells: Listed, rng: np.random.Generator, most_cells: int = 2**26) -> Index:
    """Rows at random within their pattern, so that the columns of each pattern lose as much as each other.

    Tables with more than ``most_cells`` cells, observed or not, are not sorted by pattern.
    """
    n, d = cells.shape
    shuffled = rng.permutation(n)
    if n * d > most_cells:
        return shuffled
    observed = np.zeros((n, d), bool)
    observed[cells.rows, cells.columns] = True
    return np.lexsort((shuffled, patterns(observed, certain=True)[0]))


def _spread(folds: Index, cells: Listed, n_folds: int) -> None:
    """Move a cell of every column whose cells, two or more, all lie in one fold."""
    d = cells.shape[1]
    low, high = np.full(d, n_folds), np.full(d, -1)
    np.minimum.at(low, cells.columns, folds)
    np.maximum.at(high, cells.columns, folds)
    for column in np.flatnonzero((np.bincount(cells.columns, minlength=d) > 1) & (low == high)):
        cell = int(np.flatnonzero(cells.columns == column)[0])
        beside = np.flatnonzero(cells.rows == cells.rows[cell])
        others = folds[beside[beside != cell]]
        free = [f for f in range(n_folds) if f != folds[cell] and not (others.size and (others == f).all())]
        if free:
            folds[cell] = free[0]


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
        table = describe(open_source(_without(block, cells, out), n_jobs=1), rng)
        problem = Problem.of(table, settings, rng, settings.folds.least_noise)
        held = cells.take(out)
        # Nothing is known about a column without training cells: what is said of it says nothing about q.
        held = held.take(table.summarise().observed[held.columns] > 0)
        return cls(problem, spectral_start(problem.rows, table.summarise(), largest, rng), held)

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
        for observed in self.problem.rows.hold():
            parameters = Parameters.of(model, observed.centre)
            for group in observed.groups:
                found, rows = latents(parameters, group.cells.ready()), first + group.index
                covariance = found.of_rows(found.covariance[: packed_size(parameters.q)])
                out[rows] = _densities(model, self.held, rows, found.mean, covariance)
                empty[rows] = False
            first += observed.n_rows
        rows, q = np.flatnonzero(empty), model.n_components  # their latents keep the prior
        prior = np.broadcast_to(identity(q), (packed_size(q), rows.size))
        out[rows] = _densities(model, self.held, rows, np.zeros((q, rows.size)), prior)
        return out


def _densities(
    model: LinearGaussian, held: Listed, rows: Index, mean: Array, covariance: Array, chunk: int = 2**16
) -> Array:
    """Sums over the cells of some rows, whose latents are N(mean, covariance): (rows,). ``chunk`` cells at a time."""
    where, which = held.of_rows(rows)
    W, s2 = model.loadings.T, float(model.noise_variance)
    table, total = doubled_sides(outer_products(W)), np.zeros(rows.size)
    for begin in range(0, where.size, chunk):
        at, i = where[begin : begin + chunk], which[begin : begin + chunk]
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


class Scores(NamedTuple):
    """Log density of the held-out cells of every row, for 1, 2, ... components."""

    rows: Array  # (m, n)
    weight: Array  # how often each row counts: (n,)
    cells: float  # number of held-out cells, as rows count
    negligible: float = 0.0  # difference of means that counts for nothing

    def with_one_more(self, scores: Array) -> Scores:
        """Add the log densities for one component more: (n,)."""
        return self._replace(rows=np.vstack([self.rows, scores]))

    @property
    def mean(self) -> Array:
        """Log density of a cell, on average: (m,)."""
        return self.rows @ self.weight / self.cells

    def shortfall(self) -> tuple[Array, Array]:
        """How much lower than the best mean each one is, and the standard error of that difference: (m,), (m,).

        Rows are independent, their cells are not: the error is that of a sum of differences of rows.
        """
        w, n = self.weight, self.weight.sum()
        difference = self.rows[self.mean.argmax()] - self.rows  # (m, n)
        centre = difference @ w / n
        spread = np.square(difference - centre[:, None]) @ w / max(n - 1, 1)
        return n * centre / self.cells, np.sqrt(n * spread) / self.cells

    @property
    def leader(self) -> int:
        """The fewest components whose mean is as high as any, up to a negligible difference."""
        return int(np.flatnonzero(self.mean >= self.mean.max() - self.negligible)[0]) + 1

    @property
    def choice(self) -> int:
        """The fewest components that fall short of the best by at most one standard error or a negligible difference.

        Never a number that predicts worse than a smaller one: a few cells that a model finds impossible make its
        standard error as large as its shortfall.
        """
        short, error = self.shortfall()
        rising = self.mean >= np.maximum.accumulate(self.mean)
        return int(np.flatnonzero(rising & (short <= np.maximum(error, self.negligible)))[0]) + 1


def cross_validate(
    block: Block,
    largest: int,
    rng: np.random.Generator,
    *,
    how: FoldSettings = FoldSettings(),
    n_jobs: int = 1,
    tell: Callable[[str], None] | None = None,
) -> Scores:
    """Fit ever more components to the cells outside of each fold, until many in a row were no better than fewer.

    Every observed cell is held out once. Fits are started from those with one component less.
    """
    if block.is_sparse and not block.unstored_missing:
        block = replace(block, values=table_of(block))
    cells = Listed.of(block)
    folds = deal(cells, how.count, rng)
    n = max(block.total_weight, 1.0)
    settings = Settings(tol=how.tolerance * n, max_iter=200, folds=how)
    with one_blas_thread():
        hold = partial(_hold_out, block, cells, folds, largest, settings)
        held = list(map_blocks(hold, list(enumerate(rng.spawn(how.count))), n_jobs))
        counted = sum(float(block.weights[fold.held.rows].sum()) for fold in held)
        if counted == 0:
            raise _too_few(cells)
        models: list[LinearGaussian | None] = [None] * how.count
        scores = Scores(np.empty((0, block.n_rows)), block.weights, counted, how.negligible * n / counted)
        for q in range(1, largest + 1):
            if tell is not None:
                tell(f"cv: {q} of at most {largest} components")
            grown = list(map_blocks(_grown, list(zip(held, models, strict=True)), n_jobs))
            models = [model for model, _ in grown]
            scores = scores.with_one_more(np.sum([score for _, score in grown], axis=0))
            if q >= how.least and q - scores.leader >= how.patience:
                break
    return scores


def _hold_out(
    block: Block, cells: Listed, folds: Index, largest: int, settings: Settings, which: tuple[int, np.random.Generator]
) -> Fold:
    fold, rng = which
    try:
        return Fold.of(block, cells, folds == fold, largest, settings, rng)
    except NothingToLearnError as error:
        raise _too_few(cells) from error


def _too_few(cells: Listed) -> DataError:
    return DataError(
        f"cross-validation needs rows from which a model can be learned after a part of their cells was "
        f"held out; of {cells.rows.size} cells too few are left.\nHint: n_components='bic', or a number."
    )


def _grown(work: tuple[Fold, LinearGaussian | None]) -> tuple[LinearGaussian, Array]:
    fold, before = work
    model = fold.grown(before)
    return model, fold.score(model)
