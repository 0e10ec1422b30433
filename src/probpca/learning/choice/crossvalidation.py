"""How many components predict cells that were held out?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.errors import DataError
from probpca.learning.checks import NothingToLearnError
from probpca.learning.choice.folds import Listed, deal
from probpca.learning.choice.heldout import Fold
from probpca.learning.choice.rows import table_of
from probpca.learning.results import Settings
from probpca.learning.search import PATIENCE
from probpca.sources.local import map_blocks, one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.models import LinearGaussian
    from probpca.rows import Block
    from probpca.typing import Array, Index

FOLDS = 5
LOOSE = 0.02
"""Log-likelihood, in nats a row, that the fits to folds may leave: scores differ by more where it matters."""


class Scores(NamedTuple):
    """Log density of the held-out cells of every row, for 1, 2, ... components."""

    rows: Array  # (m, n)
    weight: Array  # how often each row counts: (n,)
    cells: float  # number of held-out cells, as rows count

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
    def choice(self) -> int:
        """The fewest components that fall short of the best by no more than one standard error."""
        short, error = self.shortfall()
        return int(np.flatnonzero(short <= error)[0]) + 1


def cross_validate(
    block: Block,
    largest: int,
    rng: np.random.Generator,
    *,
    n_folds: int = FOLDS,
    n_jobs: int = 1,
    tell: Callable[[str], None] | None = None,
) -> Scores:
    """Fit ever more components to the cells outside of each fold, until the score has fallen twice in a row.

    Every observed cell is held out once. Fits are started from those with one component less.
    """
    if block.is_sparse and not block.unstored_missing:
        block = replace(block, values=table_of(block))
    cells = Listed.of(block)
    folds = deal(cells, n_folds, rng)
    seeds = rng.integers(2**63, size=n_folds)
    settings = Settings(tol=LOOSE * max(block.total_weight, 1.0), max_iter=200)
    with one_blas_thread():
        hold = partial(_hold_out, block, cells, folds, largest, settings)
        held = list(map_blocks(hold, list(enumerate(seeds)), n_jobs))
        models: list[LinearGaussian | None] = [None] * n_folds
        scores: list[Array] = []
        while len(scores) < largest and not _has_fallen(scores, block.weights):
            grown = list(map_blocks(_grown, list(zip(held, models, strict=True)), n_jobs))
            models = [model for model, _ in grown]
            scores.append(np.sum([score for _, score in grown], axis=0))
            if tell is not None:
                tell(f"cv: {len(scores)} components")
    counted = sum(float(block.weights[fold.held.rows].sum()) for fold in held)
    return Scores(np.array(scores), block.weights, counted)


def _hold_out(
    block: Block, cells: Listed, folds: Index, largest: int, settings: Settings, which: tuple[int, int]
) -> Fold:
    fold, seed = which
    try:
        return Fold.of(block, cells, folds == fold, largest, settings, np.random.default_rng(seed))
    except NothingToLearnError as error:
        msg = (
            f"cross-validation needs rows from which a model can be learned after a part of their cells was "
            f"held out; of {cells.rows.size} cells too few are left.\nHint: n_components='bic', or a number."
        )
        raise DataError(msg) from error


def _grown(work: tuple[Fold, LinearGaussian | None]) -> tuple[LinearGaussian, Array]:
    fold, before = work
    model = fold.grown(before)
    return model, fold.score(model)


def _has_fallen(scores: list[Array], weight: Array) -> bool:
    """Were the last ones all worse than one before?"""
    means = [float(score @ weight) for score in scores]
    return len(means) > PATIENCE and int(np.argmax(means)) < len(means) - PATIENCE
