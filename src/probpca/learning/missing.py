"""Maximum likelihood from the cells that were observed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from probpca.errors import DataError, ShapeError
from probpca.inference.coding import explained_variance_ratio
from probpca.learning.acceleration import iterate_accelerated
from probpca.learning.checks import require_observed
from probpca.learning.em import EM
from probpca.learning.expectation import expect
from probpca.learning.gradient import ascend
from probpca.learning.loop import Iterated, Monitor, iterate
from probpca.learning.results import FitResult, Regime, Settings, Status
from probpca.learning.selection import check_count, n_parameters
from probpca.learning.spectral import spectral_start
from probpca.learning.spectrum import NOISE_FLOOR
from probpca.learning.uncertainty import turned_information
from probpca.models import LinearGaussian
from probpca.rows import observe
from probpca.sources.local import one_blas_thread
from probpca.statistics import Columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.learning.closed_form import Components
    from probpca.rows import Block
    from probpca.sources import Source
    from probpca.typing import Array

LARGEST_BY_BIC = 20
PATIENCE = 2
"""Numbers of components in a row that may be worse than the best one before the search ends."""


class _Steps:
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


class _Problem(NamedTuple):
    """Rows and all that every fit to them has in common."""

    rows: Source  # prepared
    columns: Columns
    floor: float  # smallest noise variance
    settings: Settings
    rng: np.random.Generator
    steps: _Steps


class _Fitted(NamedTuple):
    ended: Iterated[LinearGaussian]
    rule: str


def fit_missing(source: Source, n_components: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Fit PPCA to the observed-data likelihood: W, mu and s2 together, exactly."""
    if settings.solver in ("closed_form", "em_zero_noise", *get_args(Regime)):
        msg = (
            f"solver {settings.solver!r} needs complete rows; cells are missing here.\n"
            "Hint: solver='auto' (or 'px_em', 'em', 'gradient') learns from the cells that were observed."
        )
        raise DataError(msg)
    if not source.repeatable:
        source = source.keep(_as_it_is)
    columns = source.fold(Columns.of)
    require_observed(source, columns)
    centre = columns.mean.astype(np.float32 if source.single_precision else np.float64).astype(np.float64)
    rows = source.keep(partial(observe, centre=centre))
    floor = NOISE_FLOOR * float(columns.squares.sum() / columns.weight.sum())
    with one_blas_thread():
        problem = _Problem(rows, columns, floor, settings, rng, _Steps(EM(floor, settings.solver != "em"), rows))
        fitted = _search(problem, n_components)
        state = fitted.ended.state
        model = state.principal()
        information = turned_information(problem.steps.gram_at(state), state.principal_rotation)
    status = Status.NOISE_COLLAPSED if float(model.noise_variance) <= 2 * floor else fitted.ended.status
    trace = fitted.ended.trace
    cells = float(columns.observed.sum())
    empty = np.flatnonzero(columns.observed == 0)
    return FitResult(
        model, status, trace[-1], trace, len(trace) - 1, columns.rows, fitted.rule, cells, information, empty
    )


def _search(problem: _Problem, n_components: Components) -> _Fitted:
    """Fit with the given number of components, or with the one that a criterion prefers."""
    d, rows = problem.rows.n_features, int(problem.columns.count)
    match n_components.item() if isinstance(n_components, np.generic) else n_components:
        case None | "bic":
            return _by_bic(problem, max(min(d - 1, rows - 2, LARGEST_BY_BIC), 1))
        case int(q) if not isinstance(q, bool):
            check_count(q, d)
            start = spectral_start(problem.rows, problem.columns, q, problem.rng)
            return _Fitted(_best(problem, start.model(q)), "as given")
        case float(share) if 0 < share < 1:
            return _by_share(problem, share, max(min(d - 1, rows - 2), 1))
        case "evidence":
            msg = "Minka's evidence needs complete rows; cells are missing here.\nHint: n_components='bic'."
            raise DataError(msg)
    msg = (
        "n_components must be an int from 1 to n_features - 1, a share of variance between 0 and 1, "
        f"'bic', 'evidence' or None; got {n_components!r}."
    )
    raise ShapeError(msg)


def _by_bic(problem: _Problem, most: int) -> _Fitted:
    """Ever more components, each fit started from the one before, until BIC has fallen twice."""
    d = problem.rows.n_features
    # A row with half of its cells observed counts for half a row.
    penalty = 0.5 * np.log(max(problem.columns.observed.sum() / d, 2.0))
    best, best_score, worse = None, -np.inf, 0
    for ended in _path(problem, most):
        q = ended.state.n_components
        collapsed = float(ended.state.noise_variance) <= 2 * problem.floor
        score = -np.inf if collapsed else ended.trace[-1] - penalty * n_parameters(d, q)
        if best is None or score > best_score:
            best, best_score, worse = ended, score, 0
        else:
            worse += 1
        if worse == PATIENCE or collapsed:
            break
    return _Fitted(best, "BIC")  # type: ignore[arg-type]


def _by_share(problem: _Problem, share: float, most: int) -> _Fitted:
    """Ever more components until they hold the share of the model's variance."""
    for ended in _path(problem, most):
        if explained_variance_ratio(ended.state).sum() >= share:
            break
    return _Fitted(ended, f"{share:.4g} of the variance")


def _path(problem: _Problem, most: int) -> Iterator[Iterated[LinearGaussian]]:
    """Fits with 1, 2, ... components."""
    start = spectral_start(problem.rows, problem.columns, min(most, LARGEST_BY_BIC), problem.rng)
    ended = _best(problem, start.model(1))
    yield ended
    for q in range(2, most + 1):
        if q > start.values.size:
            start = spectral_start(problem.rows, problem.columns, min(2 * q, most), problem.rng)
        ended = _best(problem, start.grown(ended.state))
        yield ended


def _best(problem: _Problem, model: LinearGaussian) -> Iterated[LinearGaussian]:
    """The best of ``n_init`` fits: the first from the given model, the others from around it."""
    best = _run(problem, model)
    size = np.sqrt(np.square(model.loadings).mean())
    for _ in range(problem.settings.n_init - 1):
        moved = model.loadings + size * problem.rng.standard_normal(model.loadings.shape)
        other = _run(problem, LinearGaussian(model.mean, moved, model.noise_variance))
        best = max(best, other, key=lambda ended: ended.trace[-1])
    return best


def _run(problem: _Problem, start: LinearGaussian) -> Iterated[LinearGaussian]:
    rows, floor, settings = problem.rows, problem.floor, problem.settings
    monitor = Monitor(settings.tol, settings.max_iter, settings.watch, steady=settings.solver != "gradient")
    start = LinearGaussian(start.mean, start.loadings, np.maximum(start.noise_variance, floor))
    match settings.solver:
        case "em":
            return iterate(problem.steps, start, monitor)
        case "gradient":
            return ascend(rows, start, floor, monitor)
        case _:
            return iterate_accelerated(problem.steps, start, monitor, floor)


def _as_it_is(block: Block) -> Block:
    return block
