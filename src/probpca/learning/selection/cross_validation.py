"""Cross-validation with held-out cells."""

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
    """List of observed cells, in the order of the rows."""

    rows: Index  # row of each cell, ascending: (N,)
    columns: Index  # column of each cell: (N,)
    values: Array  # (N,)
    precision: Array | None  # omega: (N,); None if all are 1
    shape: tuple[int, int]  # of the table

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
        """Selected cells, given by a mask or by ascending positions."""
        precision = None if self.precision is None else self.precision[which]
        return Listed(self.rows[which], self.columns[which], self.values[which], precision, self.shape)

    @property
    def pointers(self) -> Index:
        """Position of the first cell of each row, followed by the number of cells: (n + 1,)."""
        return np.searchsorted(self.rows, np.arange(self.shape[0] + 1))

    def of_rows(self, rows: Index) -> tuple[Index, Index]:
        """Positions of the cells of the given rows, and for each cell the index of its row among them."""
        pointers = self.pointers
        lengths = np.diff(pointers)[rows]
        which = np.repeat(np.arange(rows.size), lengths)
        begins = pointers[rows] - np.cumsum(lengths) + lengths
        return begins[which] + np.arange(which.size), which


def deal(cells: Listed, n_folds: int, rng: np.random.Generator) -> Index:
    """Assign each observed cell to a fold: (N,).

    Columns are shuffled, and the observed cells of each row are assigned to the K folds in turn; each row starts one
    fold after the row before it in a random order. In each fold a row, and a column of a complete table, loses 1 / K
    of its cells up to rounding. Complete rows then have only K patterns of held-out cells, which makes the fits fast.
    """
    n, d = cells.shape
    rows = cells.rows
    turn = np.lexsort((rng.permutation(d)[cells.columns], rows))
    folds = np.empty(rows.size, np.intp)
    folds[turn] = np.arange(rows.size) - cells.pointers[rows]  # sorting within rows keeps the range of each row
    first = np.empty(n, np.intp)
    first[_order(cells, rng)] = np.arange(n)
    folds = (folds + first[rows]) % n_folds
    _spread(folds, cells, n_folds)
    return folds


def _order(cells: Listed, rng: np.random.Generator, most_cells: int = 2**26) -> Index:
    """Random order of the rows within each pattern, so that the columns of a pattern lose equally many cells.

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
    """Move one cell of every column with at least two cells that are all in the same fold to another fold."""
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
    """One fold: the rows without its cells, and the held-out cells."""

    problem: Problem
    start: Start
    held: Listed  # held-out cells of columns that have training cells

    @classmethod
    def of(
        cls, block: Block, cells: Listed, out: Any, largest: int, settings: Settings, rng: np.random.Generator
    ) -> Fold:
        """Hold out the observed cells selected by the mask ``out``."""
        table = describe(open_source(_without(block, cells, out), n_jobs=1), rng)
        problem = Problem.of(table, settings, rng, settings.folds.least_noise)
        held = cells.take(out)
        # The prediction of a column without training cells does not depend on q.
        held = held.take(table.summarise().observed[held.columns] > 0)
        return cls(problem, spectral_start(problem.covariance, largest, rng), held)

    def grown(self, before: LinearGaussian | None) -> LinearGaussian:
        """Model with one component more than ``before``, or with one if it is None, from a few EM steps.

        If the last of them still gains much, the fit is finished.
        """
        problem, how, value, gain = self.problem, self.problem.settings.folds, -np.inf, 0.0
        model = problem.placed(self.start.model(1) if before is None else self.start.grown(before))
        for _ in range(how.steps):
            following, now = problem.steps(model)
            model, value, gain = following, now, now - value
        much = how.gain * float(problem.summary.observed.sum())
        return self.finished(model) if gain > much else model

    def finished(self, model: LinearGaussian) -> LinearGaussian:
        """Model after the remaining iterations of a fit."""
        return self.problem.solve(model).state

    def score(self, model: LinearGaussian) -> Array:
        r"""Log density of the held-out cells given the training cells of their row, summed for each row: (n,).

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
        rows, q = np.flatnonzero(empty), model.n_components  # without training cells the posterior is the prior
        prior = np.broadcast_to(identity(q), (packed_size(q), rows.size))
        out[rows] = _densities(model, self.held, rows, np.zeros((q, rows.size)), prior)
        return out


def _densities(
    model: LinearGaussian, held: Listed, rows: Index, mean: Array, covariance: Array, chunk: int = 2**16
) -> Array:
    """Log densities of held-out cells, summed for each row, given the posterior of its latent variables: (rows,)."""
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
    """Block with the selected observed cells made missing."""
    if not block.is_sparse:
        values = np.array(block.values)
        values[cells.rows[out], cells.columns[out]] = np.nan
        return replace(block, values=values)
    kept = cells.take(~out)
    values = sparse.csr_array((kept.values, kept.columns, kept.pointers), shape=kept.shape)
    return replace(block, values=values, precision=kept.precision)


class Scores(NamedTuple):
    """Log densities of the held-out cells of every row, for 1, 2, ... components."""

    rows: Array  # sum for each number of components and row: (m, n)
    weight: Array  # weight of each row: (n,)
    cells: float  # total weight of the held-out cells
    negligible: float = 0.0  # difference of means that is ignored

    def with_one_more(self, scores: Array) -> Scores:
        """Append the log densities (n,) for one more component."""
        return self._replace(rows=np.vstack([self.rows, scores]))

    def replaced(self, q: int, scores: Array) -> Scores:
        """Replace the log densities (n,) for q components."""
        rows = self.rows.copy()
        rows[q - 1] = scores
        return self._replace(rows=rows)

    @property
    def mean(self) -> Array:
        """Mean log density of a held-out cell: (m,)."""
        return self.rows @ self.weight / self.cells

    def shortfall(self) -> tuple[Array, Array]:
        """Difference of each mean from the best, (m,), and the standard error of that difference, (m,).

        Standard errors treat rows as independent, but not the cells of a row.
        """
        w, n = self.weight, self.weight.sum()
        difference = self.rows[self.mean.argmax()] - self.rows  # (m, n)
        centre = difference @ w / n
        spread = np.square(difference - centre[:, None]) @ w / max(n - 1, 1)
        return n * centre / self.cells, np.sqrt(n * spread) / self.cells

    @property
    def leader(self) -> int:
        """Smallest number of components whose mean equals the best up to a negligible difference."""
        return int(np.flatnonzero(self.mean >= self.mean.max() - self.negligible)[0]) + 1

    @property
    def choice(self) -> int:
        """Smallest number of components within one standard error, or a negligible difference, of the best.

        Numbers that predict worse than a smaller one are excluded: a few cells with an extremely low density make the
        standard error as large as the difference.
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
    """Cross-validate 1, 2, ... components, up to ``largest`` or until several in a row bring no improvement.

    Every observed cell is held out once. Each fit starts from the one with one component less. A few steps tell which
    numbers are far from the best; the fits with the others are finished.
    """
    if block.is_sparse and not block.unstored_missing:
        block = replace(block, values=table_of(block))
    cells = Listed.of(block)
    folds = deal(cells, how.count, rng)
    n = max(block.total_weight, 1.0)
    settings = Settings(tol=how.tolerance * n, max_iter=how.max_iter, folds=how)
    with one_blas_thread():
        hold = partial(_hold_out, block, cells, folds, largest, settings)
        held = list(map_blocks(hold, list(enumerate(rng.spawn(how.count))), n_jobs))
        counted = sum(float(block.weights[fold.held.rows].sum()) for fold in held)
        if counted == 0:
            raise _too_few(cells)
        path: list[tuple[LinearGaussian, ...]] = []
        scores = Scores(np.empty((0, block.n_rows)), block.weights, counted, how.negligible * n / counted)
        for q in range(1, largest + 1):
            if tell is not None:
                tell(f"cv: {q} of at most {largest} components")
            before = path[-1] if path else (None,) * how.count
            grown = list(map_blocks(_grown, list(zip(held, before, strict=True)), n_jobs))
            path.append(tuple(model for model, _ in grown))
            scores = scores.with_one_more(np.sum([score for _, score in grown], axis=0))
            if q >= how.least and q - scores.leader >= how.patience:
                break
        return _with_finished(scores, partial(_finished, held, path, n_jobs))


def _with_finished(scores: Scores, finish: Callable[[int], Array]) -> Scores:
    """Finish the fits within a standard error of the best, and that with one component less than the choice.

    Other fits may gain as much as the finished ones did at most.
    """
    rough, most, done = scores.mean, 0.0, set[int]()
    while True:
        short, error = scores.shortfall()
        near = np.flatnonzero(short - most <= error) + 1
        candidates = [int(scores.mean.argmax()) + 1, scores.leader, scores.choice, max(scores.choice - 1, 1), *near]
        q = next((int(q) for q in candidates if q not in done), None)
        if q is None:
            return scores
        scores = scores.replaced(q, finish(q))
        done.add(q)
        most = max(most, float(scores.mean[q - 1] - rough[q - 1]))


def _finished(held: list[Fold], path: list[tuple[LinearGaussian, ...]], n_jobs: int, q: int) -> Array:
    """Log densities of the held-out cells, summed for each row, with finished fits of q components: (n,)."""
    return np.sum(list(map_blocks(_finish, list(zip(held, path[q - 1], strict=True)), n_jobs)), axis=0)


def _finish(work: tuple[Fold, LinearGaussian]) -> Array:
    fold, model = work
    return fold.score(fold.finished(model))


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
        f"cross-validation needs enough cells to fit a model after some were held out; got {cells.rows.size} "
        "observed cells.\nHint: use n_components='bic', or a number."
    )


def _grown(work: tuple[Fold, LinearGaussian | None]) -> tuple[LinearGaussian, Array]:
    fold, before = work
    model = fold.grown(before)
    return model, fold.score(model)
