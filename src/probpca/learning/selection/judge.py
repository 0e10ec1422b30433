"""Ask every criterion for the number of components of one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks.block import joined
from probpca.errors import DataError, ShapeError
from probpca.learning.bayesian.fit import fit_variational
from probpca.learning.complete.closed_form import LARGEST_BY_BIC, leading_spectrum, most_pairs
from probpca.learning.components import COMPLETE_ONLY, RULES, check_count, need_complete_rows
from probpca.learning.describe import require_counted, require_observed, units
from probpca.learning.missing.fit import Problem, repeatable
from probpca.learning.missing.start import LARGEST_BY_BIC as LARGEST_BY_FITS, by_bic
from probpca.learning.progress import StageBar
from probpca.learning.result import Settings
from probpca.learning.selection.criteria import Curve, bic, evidence, gavish_donoho, n_above
from probpca.learning.selection.cross_validation import cross_validate
from probpca.learning.selection.parallel_analysis import parallel_analysis
from probpca.learning.selection.result import Criterion, Selection
from probpca.learning.selection.tables import at_hand
from probpca.sources import open_source, scaled
from probpca.statistics import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from probpca.blocks import Block
    from probpca.learning.complete.spectrum import Spectrum
    from probpca.sources import Source


SPECTRAL = ("evidence", "gavish_donoho")
"""Criteria that want every eigenvalue."""


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Rows at hand, and what several criteria share."""

    source: Source
    seed: int
    largest: int | None = None  # number of components to look at; None: as each criterion sees fit
    all_values: bool = True  # will anybody want every eigenvalue?
    tell: Callable[[str], None] | None = None

    @cached_property
    def block(self) -> Block:
        """All rows in one block."""
        return joined(self.source.hold())

    @cached_property
    def complete(self) -> bool:
        """Is every cell observed?"""
        return self.block.is_complete

    @cached_property
    def spectrum(self) -> Spectrum:
        """The eigenvalues of complete rows."""
        limit = self.source.n_features - 1 if self.all_values else max(LARGEST_BY_BIC, self.largest or 0)
        return leading_spectrum(self.source, most_pairs(self.source, limit), Settings(), self.rng("bic"))

    def rng(self, name: str) -> np.random.Generator:
        """A generator for one criterion, whoever else is asked."""
        return np.random.default_rng([self.seed, list(RULES).index(name)])

    def most(self, limit: int) -> int:
        """Numbers of components to try, at least one."""
        d, rows = self.source.n_features, self.block.total_weight
        return int(max(min(d - 1, rows - 2, limit if self.largest is None else self.largest), 1))


def judge(table: Table, name: str) -> Criterion:
    """Ask one criterion; DataError where it does not apply."""
    if name in COMPLETE_ONLY and not table.complete:
        raise need_complete_rows(name)
    if table.tell is not None:
        table.tell(RULES[name])
    return JUDGES[name](table)


def _by_bic(table: Table) -> Criterion:
    if table.complete:
        curve = bic(table.spectrum, min(table.most(LARGEST_BY_BIC), table.spectrum.values.size))
        return Criterion("bic", curve.best, *curve)
    problem = Problem.of(table.source, table.source.fold(Columns.of), Settings(), table.rng("bic"))
    found: Any = by_bic(problem, table.most(LARGEST_BY_FITS)).curve
    return Criterion("bic", found.best, *found)


def _by_evidence(table: Table) -> Criterion:
    curve = _up_to(evidence(table.spectrum), table.most(table.source.n_features))
    wide = table.block.total_weight <= table.source.n_features
    note = "with fewer rows than columns the approximation behind it is poor" if wide else ""
    return Criterion("evidence", curve.best, *curve, note=note)


def _by_cv(table: Table) -> Criterion:
    rng, jobs = table.rng("cv"), table.source.n_jobs
    scores = cross_validate(table.block, table.most(LARGEST_BY_FITS), rng, n_jobs=jobs, tell=table.tell)
    counts, best = np.arange(1, len(scores.rows) + 1), int(scores.mean.argmax()) + 1
    note = "" if best == scores.choice else f"{best} predicts best, but not clearly better"
    return Criterion("cv", scores.choice, counts, scores.mean, scores.shortfall()[1], note)


def _by_parallel(table: Table) -> Criterion:
    jobs = table.source.n_jobs
    curve = parallel_analysis(table.block, table.most(LARGEST_BY_BIC), table.rng("parallel"), n_jobs=jobs)
    note = "" if curve.score[0] > 1 else "no eigenvalue exceeds what shuffled columns give; one is the least there is"
    return Criterion("parallel", n_above(curve), *curve, note=note)


def _by_threshold(table: Table) -> Criterion:
    curve = _up_to(gavish_donoho(table.spectrum), table.most(table.source.n_features))
    note = "" if curve.score[0] > 1 else "no singular value exceeds the threshold; one is the least there is"
    return Criterion("gavish_donoho", n_above(curve), *curve, note=note)


def _by_relevance(table: Table) -> Criterion:
    largest = table.most(LARGEST_BY_FITS)
    result = fit_variational(table.source, largest, Settings(), table.rng("ard"))
    return Criterion("ard", result.model.n_components, note=result.rule)


JUDGES: dict[str, Callable[[Table], Criterion]] = {
    "bic": _by_bic,
    "evidence": _by_evidence,
    "cv": _by_cv,
    "ard": _by_relevance,
    "parallel": _by_parallel,
    "gavish_donoho": _by_threshold,
}


def _up_to(curve: Curve, most: int) -> Curve:
    return Curve(curve.n_components[:most], curve.score[:most])


def select(
    source: Source,
    names: Sequence[str] | None,
    rng: np.random.Generator,
    *,
    largest: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Selection:
    """Ask several criteria, or with None all of them; of those the ones that do not apply say why."""
    check_count(1, source.n_features)
    rows = at_hand(source, rng)
    _require_usable(rows.source)
    asked = list(RULES) if names is None else list(dict.fromkeys(names))
    spectral = any(name in SPECTRAL for name in asked)
    table = Table(rows.source, int(rng.integers(2**63)), largest, spectral, tell)
    criteria = []
    for name in asked:
        try:
            criteria.append(judge(table, name))
        except (DataError, ShapeError) as error:
            if names is not None:
                raise
            criteria.append(Criterion(name, note=str(error).split("\n", 1)[0]))
    note = "" if rows.whole else " (a sample)"
    return Selection(tuple(criteria), rows.block.total_weight, source.n_features, note)


def _require_usable(source: Source) -> None:
    columns = source.fold(Columns.of)
    require_observed(source, columns)
    require_counted(columns)


def choose_by_rows(source: Source, name: str, rng: np.random.Generator) -> tuple[Source, int, str]:
    """The number of components by one criterion that looks at rows, the rule in words, and the rows to go on with.

    Rows that can be read only once are in memory afterwards.
    """
    rows = at_hand(source, rng)
    _require_usable(rows.source)
    found: Any = judge(Table(rows.source, int(rng.integers(2**63))), name).choice
    return rows.source if not source.repeatable else source, int(found), rows.told(RULES[name])


def open_rows(X: Any, sample_weight: Any, missing: str, n_jobs: int | None) -> Source:
    """Make a source of whatever holds rows."""
    if missing not in ("nan", "unstored"):
        msg = f"missing must be 'nan' or 'unstored'; got {missing!r}."
        raise DataError(msg)
    return open_source(X, weight=sample_weight, unstored_missing=missing == "unstored", n_jobs=n_jobs)


def ask(
    source: Source, criteria: Any, rng: np.random.Generator, *, largest: Any, standardize: bool, verbose: Any
) -> Selection:
    """Ask the criteria of these names, one name, or with None all of them."""
    names = _names(criteria)
    _check_largest(largest)
    if standardize:
        source = repeatable(source)
        source = scaled(source, 1 / units(source)[0])
    with StageBar(enabled=bool(verbose)) as bar:
        return select(source, names, rng, largest=largest, tell=bar)


def _names(criteria: Any) -> list[str] | None:
    if criteria is None:
        return None
    names = [criteria] if isinstance(criteria, str) else list(criteria)
    unknown = [name for name in names if name not in RULES]
    if unknown or not names:
        what = repr(unknown[0]) if unknown else "none of them"
        msg = f"criteria must be among {', '.join(map(repr, RULES))}; got {what}."
        raise DataError(msg)
    return names


def _check_largest(largest: Any) -> None:
    number = isinstance(largest, Integral) and not isinstance(largest, bool | np.bool_)
    if largest is not None and not (number and largest >= 1):
        msg = f"max_components must be a whole number, 1 or more, or None; got {largest!r}."
        raise ShapeError(msg)
