"""Maximum likelihood for rows with missing cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final, get_args

import numpy as np

from probpca.blocks import observe
from probpca.errors import DataError
from probpca.learning.checkpoint import Checkpoint, Saver, fingerprint
from probpca.learning.complete.spectrum import NOISE_FLOOR
from probpca.learning.components import EXACT_RANK, Count, Rule
from probpca.learning.describe import Description, Units, column_std, describe, warn_of_no_checkpoint
from probpca.learning.em.e_step import expect
from probpca.learning.em.gradient import ascend, gradient_of
from probpca.learning.em.incremental import Incremental
from probpca.learning.em.m_step import EM, relaxed
from probpca.learning.em.quasi_newton import Likelihood, LikelihoodSteps
from probpca.learning.factor.complete import about_ledermann, most_factors, require_rows
from probpca.learning.factor.pairwise import PairwiseFit
from probpca.learning.loop import Iterated, Monitor, accelerate, iterate
from probpca.learning.missing.start import Fitted, ScaledCovariance, by_criteria, first_model, search, tells_rank
from probpca.learning.result import FitResult, Status, collapsed_status
from probpca.learning.saddle_points import SaddleCheck
from probpca.learning.selection.correlations import choose_by_correlations
from probpca.learning.settings import ZERO_NOISE, Regime, Settings
from probpca.linalg.packed import turn_bordered
from probpca.models import LinearGaussian
from probpca.sources import Source
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from probpca.blocks import Block, Observed
    from probpca.learning.components import Components
    from probpca.learning.em.gradient import Gradient
    from probpca.learning.saddle_points import Step
    from probpca.learning.selection.criteria import Curve
    from probpca.learning.settings import FactorSettings
    from probpca.statistics import ColumnSummary, Regression
    from probpca.typing import Array, Index


def fit_missing(table: Description, wanted: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Fit a model to rows with missing cells by maximising the likelihood of the observed cells over its parameters.

    All features share one noise variance, or each has its own, as ``settings.noise`` says. For rows that are not in
    memory, a fit to a sample gives the number of components and the start; all rows are then read once per iteration.
    """
    _require_applicable(table, wanted, settings)
    if settings.noise == "shared":
        return _fit(table, wanted, settings, rng)
    require_rows(table.summarise().count, wanted)
    scaled, units = standardised_table(table)  # the likelihood does not depend on the units, but the start does
    return _fit(scaled, wanted, settings, rng).in_units(units)._replace(scale=None)


def criteria_of_missing(
    table: Description, names: Sequence[str], settings: Settings, rng: np.random.Generator
) -> list[Curve]:
    """Values of "bic" or "aic" of factor analysis for increasing numbers of factors, as ``fit_missing`` compares them.

    The rows are in memory.
    """
    require_rows(table.summarise().count, Rule(names[0]))
    scaled, units = standardised_table(table)
    with one_blas_thread():
        problem = Problem.of(scaled, settings, rng)
        most = min(problem.most_components, settings.search.missing)
        found = by_criteria(problem, most, *map(Rule, names))
    return [fitted.curve._replace(score=fitted.curve.score - units.log_volume) for fitted in found]


def standardised_table(table: Description) -> tuple[Description, Units]:
    """Description of the same rows with columns of unit variance."""
    summary = table.summarise()
    units = Units.of(summary)
    scale = 1 / units.scale
    sample = None if table.sample is None else table.sample.scaled(scale)
    scaled = Description(table.source.scaled(scale), summary.rescaled(scale), table.complete, sample)
    return scaled, units


def _fit(table: Description, wanted: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    given = isinstance(wanted, Count)
    if wanted == Rule("parallel"):
        parallel = choose_by_correlations(table, settings, rng)
        wanted = Count(parallel.n_components, Rule("parallel").words, parallel.notes)
    with one_blas_thread():
        problem = Problem.of(table, settings, rng)
        checkpoint = None if settings.checkpoint is None else _checkpoint(problem, wanted, settings.checkpoint)
        fitted = _resumed(problem, checkpoint) or _searched(problem, table.sample, wanted, checkpoint)
        state = fitted.ended.state
        rotation = state.canonical_rotation
        model = state.rotate(rotation)
        information = turn_bordered(problem.steps.sums_at(state).gram, rotation)
    if checkpoint is not None:
        checkpoint.remove()
    collapsed, heywood = problem.is_collapsed(model), problem.heywood(model)
    rule, notes = fitted.rule, wanted.notes if isinstance(wanted, Count) else fitted.notes
    if collapsed and settings.noise == "shared" and not given and tells_rank(problem, model.n_components):
        rule, notes = EXACT_RANK, ()
    if settings.noise == "per_feature":
        notes = (*notes, *about_ledermann(model.n_components, int((column_std(problem.summary) > 0).sum())))
        status = Status.DEPENDENT_COLUMNS if collapsed else fitted.ended.status
    else:
        status = collapsed_status(rule) if collapsed else fitted.ended.status
    trace, summary = fitted.ended.trace, problem.summary
    cells, empty = float(summary.observed.sum()), np.flatnonzero(summary.observed == 0)
    n_iter, n = len(trace) - 1, summary.total_weight
    result = FitResult(model, status, trace[-1], trace, n_iter, n, rule, cells, information, empty, notes)
    return result._replace(heywood=heywood)


def _require_applicable(table: Description, wanted: Components, settings: Settings) -> None:
    if settings.solver in ("closed_form", *ZERO_NOISE, *get_args(Regime)):
        msg = (
            f"solver {settings.solver!r} needs complete rows; {table.obstacle}.\n"
            "Hint: solver='auto' (or 'px_em', 'em', 'gradient') learns from the observed cells."
        )
        raise DataError(msg)
    if settings.bias_correction:
        msg = (
            f"bias_correction=True needs complete rows, because it corrects eigenvalues; {table.obstacle}.\n"
            "Hint: use bias_correction=False."
        )
        raise DataError(msg)
    if isinstance(wanted, Rule):
        wanted.require_complete(table.obstacle)


def _checkpoint(problem: Problem, wanted: Components, path: Path) -> Checkpoint:
    settings = problem.settings
    asked = {"n_components": wanted.asked, "solver": settings.solver, "tol": settings.tol, "n_init": settings.n_init}
    asked |= {} if settings.noise == "shared" else {"noise": settings.noise}
    return Checkpoint(path, problem.summary, asked, fingerprint(problem.rows, problem.summary))


def _resumed(problem: Problem, checkpoint: Checkpoint | None) -> Fitted | None:
    """Continue the fit of an interrupted process from its checkpoint; None if there is none."""
    saved = None if checkpoint is None else checkpoint.read()
    if checkpoint is None or saved is None:
        return None
    return Fitted(problem.run(saved.model, Saver(checkpoint, saved.rule, saved.trace)), saved.rule)


def _searched(problem: Problem, sample: Source | None, wanted: Components, checkpoint: Checkpoint | None) -> Fitted:
    """Fit rows in memory; for other rows, fit a sample first and then all rows."""
    if sample is None:
        if not isinstance(wanted, Count) or checkpoint is None or problem.settings.n_init > 1:
            if checkpoint is not None:
                warn_of_no_checkpoint("during a search for the number of components or with n_init > 1")
            return search(problem, wanted)
        start, rule, notes = first_model(problem, wanted.q), wanted.rule, wanted.notes
    else:
        table = describe(sample, problem.rng, None, problem.settings.sample)
        small = search(Problem.of(table, replace(problem.settings, watch=None), problem.rng), wanted)
        start, rule, notes = small.ended.state, small.rule, small.notes
        if not isinstance(wanted, Count) and rule != EXACT_RANK:
            rule = f"{rule}, in a sample of {table.summarise().total_weight:,.0f} rows"
    return Fitted(problem.run(start, None if checkpoint is None else Saver(checkpoint, rule)), rule, notes)


@final
class Steps:
    """EM steps that keep the statistics of the last one."""

    def __init__(self, em: EM, rows: Source) -> None:
        """Set the method and the prepared rows."""
        self._em, self._rows = em, rows
        self._model: LinearGaussian | None = None
        self._sums: Regression | None = None

    def __call__(self, model: LinearGaussian) -> tuple[LinearGaussian, float]:
        """Model after one iteration, and the log-likelihood of the given model."""
        self._model = self._sums = None  # freed early: large if there are many features
        self._model, self._sums = model, self._rows.fold(partial(expect, model))
        return self._em.advance(model, self._sums), self._sums.log_likelihood

    def expanded(self, model: LinearGaussian) -> tuple[LinearGaussian, float]:
        """Model after an iteration of parameter-expanded EM, whatever the method, and the log-likelihood of the given.

        Statistics that were kept serve again, and others do not replace them.
        """
        kept = self._sums if self._model is model else None
        sums = self._rows.fold(partial(expect, model)) if kept is None else kept
        return replace(self._em, expand=True).advance(model, sums), sums.log_likelihood

    def sums_at(self, model: LinearGaussian) -> Regression:
        """Statistics of the E-step at a model."""
        if self._sums is None or self._model is not model:
            self(model)
        return self._sums  # type: ignore[return-value]

    def gradient_at(self, model: LinearGaussian) -> tuple[Gradient, Array]:
        """Gradient of the log-likelihood at a model, and the total weight of the observed cells of each feature."""
        sums = self.sums_at(model)
        return gradient_of(model, sums), np.broadcast_to(sums.gram[-1], model.mean.shape)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Prepared rows and options that all fits to them share."""

    rows: Source
    summary: ColumnSummary
    floor: Array  # smallest noise variance: () if features share it, or (d,)
    settings: Settings
    rng: np.random.Generator
    steps: Steps
    sampled: Source | None  # rows in memory, all or a sample, as given
    prepare: Callable[[Block], Observed]
    covariance: ScaledCovariance

    @classmethod
    def of(
        cls, table: Description, settings: Settings, rng: np.random.Generator, least_noise: float = NOISE_FLOOR
    ) -> Problem:
        """Prepare the rows of a table; ``least_noise`` is the smallest noise variance relative to the mean variance."""
        source, summary = table.source, table.summarise()
        centre = summary.mean.astype(source.dtype).astype(np.float64)
        prepare = partial(observe, centre=centre)
        rows = source.keep(prepare)
        shared = settings.noise == "shared"
        floor = np.asarray(noise_floor(summary, least_noise)) if shared else noise_floors(summary, settings.factor)
        steps = Steps(EM(floor, settings.solver != "em"), rows)
        sampled = source if source.in_memory else table.sample
        return cls(rows, summary, floor, settings, rng, steps, sampled, prepare, ScaledCovariance(rows, summary))

    @property
    def most_components(self) -> int:
        """Largest number of components that a rule may choose."""
        summary, d = self.summary, self.rows.n_features
        most = min(d - 1, summary.count - 2)
        if self.floor.ndim:
            varies = column_std(summary) > 0
            cells = float(summary.observed.sum()) / d
            most = min(most, most_factors(int(varies.sum()), cells, self.settings.factor))
        return max(most, 1)

    def is_collapsed(self, model: LinearGaussian) -> bool:
        """Whether no noise is left, so that the likelihood has no maximum.

        If each feature has its own noise variance, features may be at the smallest one as long as no combination of
        them is constant, so that there are at most as many as components. Any features may be there if the smallest
        noise variance is large enough for the likelihood to have a maximum.
        """
        if not self.floor.ndim:
            return bool(model.noise_variance <= 2 * self.floor)
        low = self.heywood(model)
        if self.settings.factor.floor_cells or low.size < 2:
            return False
        white = model.loadings[low] / np.sqrt(model.noise_variance[low])[:, None]
        # A combination of the features varies less than their noise.
        return bool(low.size > model.n_components or np.linalg.svd(white, compute_uv=False)[-1] < 1)

    def heywood(self, model: LinearGaussian) -> Index:
        """Positions of features that vary and have the smallest noise variance, if each feature has its own."""
        if not self.floor.ndim:
            return np.empty(0, np.intp)
        low = model.noise_variance <= self.settings.factor.at_floor * self.floor
        return np.flatnonzero(low & (column_std(self.summary) > 0))

    def with_own_noise(self, model: LinearGaussian) -> LinearGaussian:
        """Start with a noise variance for each feature if the model is to have that: what the loadings leave."""
        if not self.floor.ndim or model.noise_variance.ndim:
            return model
        least, constant = (
            self.settings.factor.first_noise,
            (column_std(self.summary) == 0) & (self.summary.observed > 0),
        )
        explained = np.square(model.loadings).sum(axis=1)
        shrunk = np.sqrt(np.minimum(1.0, (1 - least) / np.maximum(explained, 1e-300)))
        noise = np.where(constant, self.floor, np.clip(1 - explained, least, 1.0))
        return LinearGaussian(model.mean, model.loadings * shrunk[:, None], noise)

    def pairwise_fit(self) -> PairwiseFit | None:
        """Fits to pairwise correlations, as starts; None if all features share their noise or they cost too much."""
        few = self.rows.n_features <= self.settings.factor.pairwise_features
        if not self.floor.ndim or self.sampled is None or not few or not column_std(self.summary).any():
            return None
        # The first start does not depend on chance.
        return PairwiseFit.of(self.sampled, self.summary, self.settings, np.random.default_rng(0))

    def likelier(self, model: LinearGaussian, pairwise: PairwiseFit | None) -> LinearGaussian:
        """Of a start and the fit to pairwise correlations with as many factors, the one of higher likelihood."""
        if pairwise is None:
            return model
        starts = [self.placed(start) for start in (model, pairwise.model(model.n_components))]
        values = [self.rows.fold(partial(expect, start)).log_likelihood for start in starts]
        return starts[int(np.argmax(values))]

    def placed(self, start: LinearGaussian) -> LinearGaussian:
        """Start whose noise variances are as many as those of the model, and not below the smallest ones."""
        start = self.with_own_noise(start)
        return replace(start, noise_variance=np.maximum(start.noise_variance, self.floor))

    def best(self, model: LinearGaussian) -> Iterated[LinearGaussian]:
        """Best of ``n_init`` fits, the first started from the given model, the others from random points near it."""
        model = self.with_own_noise(model)
        best = self.run(model)
        for _ in range(self.settings.n_init - 1):
            size = np.sqrt(np.square(model.loadings).mean())
            moved = model.loadings + size * self.rng.standard_normal(model.loadings.shape)
            other = self.run(LinearGaussian(model.mean, moved, model.noise_variance))
            best = max(best, other, key=lambda ended: ended.trace[-1])
        return best

    def within(self, tol: float) -> Problem:
        """Problem with the same rows, whose fits end when their remaining gain is below a larger ``tol``."""
        return replace(self, settings=replace(self.settings, tol=max(tol, self.settings.tol), watch=None))

    def run(self, start: LinearGaussian, saver: Saver | None = None) -> Iterated[LinearGaussian]:
        """Run the solver named in the settings from ``start``, and again if it ends at a saddle point."""
        start = self.placed(start)
        trace, settings = () if saver is None else saver.trace, self.settings
        step = self.steps.expanded
        slow = settings.solver in ("em", "gradient", "incremental") or self.floor.ndim > 0
        probe = self._probe(start.n_components) or step
        check = SaddleCheck(step, probe, self.floor, settings.tol, settings.saddle, slow)
        ended = check.fit(partial(self.solve, saver=saver), start, trace, settings.max_iter)
        return self._at_floor(step, ended) if self.floor.ndim else ended

    def _at_floor(self, step: Step, ended: Iterated[LinearGaussian]) -> Iterated[LinearGaussian]:
        """Set noise variances that EM lowers towards their floor to the floor, if the likelihood does not fall."""
        model = ended.state
        noise, (following, value) = model.noise_variance, step(model)
        low = noise <= self.settings.factor.near_floor * self.floor
        falling = low & (following.noise_variance < noise)
        if not falling.any():
            return ended
        placed = replace(model, noise_variance=np.where(falling, self.floor, noise))
        reached = step(placed)[1]
        if reached < value:
            return ended
        return ended._replace(state=placed, trace=(*ended.trace, reached))

    def solve(
        self, start: LinearGaussian, trace: tuple[float, ...] = (), saver: Saver | None = None
    ) -> Iterated[LinearGaussian]:
        """Run the solver named in the settings until its gains are small, at a maximum or a saddle point.

        ``trace`` holds earlier log-likelihoods.
        """
        start = self.placed(start)
        settings = self.settings
        monitor = Monitor(
            settings.tol, settings.max_iter, settings.watch, steady=settings.solver != "gradient", trace=trace
        )
        steps = self.steps if saver is None else saver.saving(self.steps)
        match settings.solver:
            case "em":
                return iterate(steps, start, monitor)
            case "incremental":
                solver = Incremental(expect, self.floor, piece_rows=settings.incremental_rows)
                return solver.run(self.rows, start, monitor, saver)
            case "gradient":
                if saver is not None:
                    warn_of_no_checkpoint("by solver='gradient'")
                return ascend(self.rows, start, self.floor, monitor)
            case _:
                share = self.summary.observed / self.summary.total_weight
                relax = partial(relaxed, share, self.floor) if self.floor.ndim else None
                covariance = None if self.floor.ndim else self.covariance.relative
                extrapolation = LikelihoodSteps(Likelihood(self.steps.gradient_at, start, self.floor, covariance))
                return accelerate(steps, start, monitor, extrapolation, relax)

    def _probe(self, q: int) -> Step | None:
        """EM step on a sample of the rows; None if a sample would hardly be smaller."""
        summary, limits, d = self.summary, self.settings.saddle, self.rows.n_features
        cells = max(limits.cells, limits.cells_per_parameter * (q + 1) * d)
        count = int(cells * (summary.total_weight / summary.observed.sum())) + 1  # whatever the unit of the weights
        if self.sampled is None or 3 * count > summary.count:  # it would have to be prepared, too
            return None
        sample = [Source.of_block(block, self.rows.n_jobs) for block in self.sampled.spread(count)]
        blocks = [block for part in sample for block in part.keep(self.prepare).hold()]
        return partial(EM(self.floor).step, source=Source.of_blocks(blocks, d, self.rows.n_jobs))


def noise_floor(summary: ColumnSummary, share: float = NOISE_FLOOR) -> float:
    """Smallest noise variance of a model of these columns: ``share`` times their mean variance."""
    return share * float(summary.squares.sum() / summary.precision.sum())


def noise_floors(summary: ColumnSummary, settings: FactorSettings) -> Array:
    """Smallest noise variance of each feature, a share of its variance, or of 1 if it is constant: (d,)."""
    return settings.floors(summary.observed) * np.where(column_std(summary) > 0, summary.variance, 1.0)
