"""Maximum likelihood from the observed cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final, get_args

import numpy as np

from probpca.blocks import observe
from probpca.errors import DataError
from probpca.learning.checkpoint import Checkpoint, Saver, fingerprint
from probpca.learning.complete.spectrum import NOISE_FLOOR
from probpca.learning.components import given_count
from probpca.learning.describe import require_observed, warn_of_no_checkpoint
from probpca.learning.em.e_step import expect
from probpca.learning.em.gradient import ascend
from probpca.learning.em.incremental import Incremental
from probpca.learning.em.m_step import EM
from probpca.learning.loop import Iterated, Monitor, iterate, iterate_accelerated
from probpca.learning.missing.start import Fitted, first_model, search
from probpca.learning.result import ZERO_NOISE, FitResult, Regime, Settings, Status, turned_information
from probpca.models import LinearGaussian
from probpca.sources import open_source
from probpca.sources.engines.local import one_blas_thread
from probpca.statistics import Both, Columns, Distinct

if TYPE_CHECKING:
    from probpca.learning.components import Components
    from probpca.learning.result import Settings
    from probpca.sources import Source
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


SAMPLE_CELLS = 2**20
SAMPLE_ROWS = 1000
"""How much of rows that are not at hand is fitted first: a good start costs no pass then."""


def fit_missing(source: Source, n_components: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Fit PPCA to the observed-data likelihood: W, mu and s2 together, exactly.

    Rows that are not at hand are read once for a summary and a sample of them, whose fit is the start and
    says how many components there are, and then once an iteration.
    """
    if settings.solver in ("closed_form", *ZERO_NOISE, *get_args(Regime)):
        msg = (
            f"solver {settings.solver!r} needs complete rows; cells are missing here.\n"
            "Hint: solver='auto' (or 'px_em', 'em', 'gradient') learns from the cells that were observed."
        )
        raise DataError(msg)
    if settings.bias_correction:
        msg = (
            "bias_correction=True needs complete rows: its formulas are those of eigenvalues; cells are missing here.\n"
            "Hint: bias_correction=False."
        )
        raise DataError(msg)
    source = repeatable(source)
    with one_blas_thread():
        columns, sample = summarised(source, rng)
        problem = Problem.of(source, columns, settings, rng)
        checkpoint = None
        if settings.checkpoint is not None:
            known = fingerprint(problem.rows, problem.columns)
            checkpoint = Checkpoint(settings.checkpoint, problem.columns, repr(n_components), known)
        fitted = _resumed(problem, checkpoint) or _searched(problem, sample, n_components, checkpoint)
        state = fitted.ended.state
        model = state.principal()
        information = turned_information(problem.steps.gram_at(state), state.principal_rotation)
    if checkpoint is not None:
        checkpoint.remove()
    collapsed = float(model.noise_variance) <= 2 * problem.floor
    status = Status.NOISE_COLLAPSED if collapsed else fitted.ended.status
    trace = fitted.ended.trace
    cells = float(columns.observed.sum())
    empty = np.flatnonzero(columns.observed == 0)
    return FitResult(
        model, status, trace[-1], trace, len(trace) - 1, columns.rows, fitted.rule, cells, information, empty
    )


def summarised(source: Source, rng: np.random.Generator) -> tuple[Columns, Source | None]:
    """What is observed of each column, and some of the rows if they are not at hand."""
    if source.in_memory:
        return source.fold(Columns.of), None
    size = max(SAMPLE_CELLS // source.n_features, SAMPLE_ROWS)
    draw = partial(Distinct.of, size, int(rng.integers(2**63)))
    both = source.fold(partial(Both.of, Columns.of, draw))
    drawn = both.second
    return both.first, open_source(drawn.rows, weight=drawn.weight, n_jobs=source.n_jobs)


def repeatable(source: Source) -> Source:
    """Rows that can be read again: those of an iterator are kept."""
    return source if source.repeatable else source.keep()


def _resumed(problem: Problem, checkpoint: Checkpoint | None) -> Fitted | None:
    """Go on where an earlier process stopped."""
    saved = None if checkpoint is None else checkpoint.read()
    if checkpoint is None or saved is None:
        return None
    return Fitted(problem.run(saved.model, Saver(checkpoint, saved.rule, saved.trace)), saved.rule)


def _searched(
    problem: Problem, sample: Source | None, n_components: Components, checkpoint: Checkpoint | None
) -> Fitted:
    """Fit rows that are at hand; of others some, then all of them."""
    if sample is None:
        q = given_count(n_components)
        if q is None or checkpoint is None or problem.settings.n_init > 1:
            if checkpoint is not None:
                warn_of_no_checkpoint("while the number of components is looked for, or the best of several starts")
            return search(problem, n_components)
        start, rule = first_model(problem, q), "as given"
    else:
        settings = replace(problem.settings, watch=None)
        columns = sample.fold(Columns.of)
        small = search(Problem.of(sample, columns, settings, problem.rng), n_components)
        start, rule = small.ended.state, small.rule
        if rule != "as given":
            rule = f"{rule}, in a sample of {columns.rows:,.0f} rows"
    return Fitted(problem.run(start, None if checkpoint is None else Saver(checkpoint, rule)), rule)
