"""Maximum likelihood from the cells that were observed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np

from probpca.errors import DataError
from probpca.learning.checkpoint import Checkpoint, Saver
from probpca.learning.checks import warn_of_no_checkpoint
from probpca.learning.fingerprint import fingerprint
from probpca.learning.problem import Problem
from probpca.learning.results import ZERO_NOISE, FitResult, Regime, Settings, Status
from probpca.learning.search import Fitted, first_model, search
from probpca.learning.selection import given_count
from probpca.learning.uncertainty import turned_information
from probpca.sources import open_source
from probpca.sources.local import one_blas_thread
from probpca.sources.memory import as_it_is
from probpca.statistics import Both, Columns, Distinct

if TYPE_CHECKING:
    from probpca.learning.closed_form import Components
    from probpca.sources import Source

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
    return source if source.repeatable else source.keep(as_it_is)


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
