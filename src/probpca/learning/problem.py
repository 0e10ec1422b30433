"""Rows with missing cells, and fits to them from a given start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.learning.acceleration import iterate_accelerated
from probpca.learning.checks import require_observed, warn_of_no_checkpoint
from probpca.learning.em import EM
from probpca.learning.expectation import expect
from probpca.learning.gradient import ascend
from probpca.learning.incremental import Incremental
from probpca.learning.loop import Iterated, Monitor, iterate
from probpca.learning.spectrum import NOISE_FLOOR
from probpca.models import LinearGaussian
from probpca.rows import observe

if TYPE_CHECKING:
    from probpca.learning.checkpoint import Saver
    from probpca.learning.results import Settings
    from probpca.sources import Source
    from probpca.statistics import Columns
    from probpca.typing import Array


@final
class Steps:
    """Steps of EM, which remember what the last of them summed up."""

    def __init__(self, em: EM, rows: Source) -> None:
        self._em, self._rows = em, rows
        self._model: LinearGaussian | None = None
        self._gram: Array | None = None

    def __call__(self, model: LinearGaussian) -> tuple[LinearGaussian, float]:
        """The next model, and the log-likelihood of the given one."""
        self._model = self._gram = None  # large where features are many
        sums = self._rows.fold(partial(expect, model))
        self._model, self._gram = model, sums.gram
        return self._em.advance(model, sums), sums.log_likelihood

    def gram_at(self, model: LinearGaussian) -> Array:
        """Sums of E[t t'] at a model: (., d)."""
        if self._gram is None or self._model is not model:
            self(model)
        return self._gram  # type: ignore[return-value]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Prepared rows and all that every fit to them has in common."""

    rows: Source
    columns: Columns
    floor: float  # smallest noise variance
    settings: Settings
    rng: np.random.Generator
    steps: Steps

    @classmethod
    def of(cls, source: Source, columns: Columns, settings: Settings, rng: np.random.Generator) -> Problem:
        """Prepare rows; ``columns`` is their summary."""
        require_observed(source, columns)
        centre = columns.mean.astype(np.float32 if source.single_precision else np.float64).astype(np.float64)
        rows = source.keep(partial(observe, centre=centre))
        floor = noise_floor(columns)
        return cls(rows, columns, floor, settings, rng, Steps(EM(floor, settings.solver != "em"), rows))

    def best(self, model: LinearGaussian) -> Iterated[LinearGaussian]:
        """The best of ``n_init`` fits: the first from the given model, the others from around it."""
        best = self.run(model)
        size = np.sqrt(np.square(model.loadings).mean())
        for _ in range(self.settings.n_init - 1):
            moved = model.loadings + size * self.rng.standard_normal(model.loadings.shape)
            other = self.run(LinearGaussian(model.mean, moved, model.noise_variance))
            best = max(best, other, key=lambda ended: ended.trace[-1])
        return best

    def run(self, start: LinearGaussian, saver: Saver | None = None) -> Iterated[LinearGaussian]:
        """Fit with the solver that the settings name."""
        settings = self.settings
        steady, trace = settings.solver != "gradient", () if saver is None else saver.trace
        monitor = Monitor(settings.tol, settings.max_iter, settings.watch, steady=steady, trace=trace)
        steps = self.steps if saver is None else saver.saving(self.steps)
        start = LinearGaussian(start.mean, start.loadings, np.maximum(start.noise_variance, self.floor))
        match settings.solver:
            case "em":
                return iterate(steps, start, monitor)
            case "incremental":
                return Incremental(expect, self.floor).run(self.rows, start, monitor, saver)
            case "gradient":
                if saver is not None:
                    warn_of_no_checkpoint("by solver='gradient'")
                return ascend(self.rows, start, self.floor, monitor)
            case _:
                return iterate_accelerated(steps, start, monitor, self.floor)


def noise_floor(columns: Columns) -> float:
    """The smallest noise variance that is taken for one."""
    return NOISE_FLOOR * float(columns.squares.sum() / columns.weight.sum())
