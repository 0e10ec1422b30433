"""Maximum likelihood from the cells that were observed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np

from probpca.errors import DataError
from probpca.learning.problem import Problem
from probpca.learning.results import FitResult, Regime, Settings, Status
from probpca.learning.search import Fitted, search
from probpca.learning.uncertainty import turned_information
from probpca.sources import open_source
from probpca.sources.local import one_blas_thread
from probpca.statistics import Both, Columns, Sample

if TYPE_CHECKING:
    from probpca.learning.closed_form import Components
    from probpca.rows import Block
    from probpca.sources import Source

SAMPLE_CELLS = 2**22
SAMPLE_ROWS = 1000
"""How much of rows that are not at hand is fitted first: a good start costs no pass then."""


def fit_missing(source: Source, n_components: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Fit PPCA to the observed-data likelihood: W, mu and s2 together, exactly.

    Rows that are not at hand are read once for a summary and a sample of them, whose fit is the start and
    says how many components there are, and then once an iteration.
    """
    if settings.solver in ("closed_form", "em_zero_noise", *get_args(Regime)):
        msg = (
            f"solver {settings.solver!r} needs complete rows; cells are missing here.\n"
            "Hint: solver='auto' (or 'px_em', 'em', 'gradient') learns from the cells that were observed."
        )
        raise DataError(msg)
    if not source.repeatable:
        source = source.keep(_as_it_is)
    with one_blas_thread():
        if source.in_memory:
            problem = Problem.of(source, source.fold(Columns.of), settings, rng)
            fitted = search(problem, n_components)
        else:
            problem, fitted = _from_sample(source, n_components, settings, rng)
        state = fitted.ended.state
        model = state.principal()
        information = turned_information(problem.steps.gram_at(state), state.principal_rotation)
    collapsed = float(model.noise_variance) <= 2 * problem.floor
    status = Status.NOISE_COLLAPSED if collapsed else fitted.ended.status
    trace, columns = fitted.ended.trace, problem.columns
    cells = float(columns.observed.sum())
    empty = np.flatnonzero(columns.observed == 0)
    return FitResult(
        model, status, trace[-1], trace, len(trace) - 1, columns.rows, fitted.rule, cells, information, empty
    )


def _from_sample(
    source: Source, n_components: Components, settings: Settings, rng: np.random.Generator
) -> tuple[Problem, Fitted]:
    """Fit some of the rows, then all of them."""
    size = max(SAMPLE_CELLS // source.n_features, SAMPLE_ROWS)
    draw = partial(Sample.of, size, int(rng.integers(2**63)), n_columns=source.n_features)
    both = source.fold(partial(Both.of, Columns.of, draw))
    problem = Problem.of(source, both.first, settings, rng)
    sample = open_source(both.second.rows, n_jobs=source.n_jobs)
    small = search(Problem.of(sample, sample.fold(Columns.of), settings, rng), n_components)
    rule = small.rule if small.rule == "as given" else f"{small.rule}, in a sample of {sample.n_rows:,} rows"
    return problem, Fitted(problem.run(small.ended.state), rule)


def _as_it_is(block: Block) -> Block:
    return block
