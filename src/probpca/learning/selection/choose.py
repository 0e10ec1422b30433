"""Choosing the number of components by one criterion, or comparing several."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks.block import joined
from probpca.cached_property import cached_property
from probpca.errors import DataError, ShapeError
from probpca.learning.bayesian.fit import fit_variational
from probpca.learning.complete.leading_spectrum import leading_spectrum, most_pairs
from probpca.learning.components import EXACT_RANK, SELECTION_RULES, Count, Rule, check_count
from probpca.learning.describe import column_std, describe, in_unit_precision, standardised
from probpca.learning.factor.complete import about_ledermann, ledermann_bound
from probpca.learning.factor.fit import factor_criteria
from probpca.learning.missing.fit import Problem
from probpca.learning.missing.start import by_criteria
from probpca.learning.progress import ProgressBar, StageBar
from probpca.learning.selection.correlations import choose_by_correlations
from probpca.learning.selection.criteria import Curve, bic, evidence, exact_rank, gavish_donoho, n_above
from probpca.learning.selection.cross_validation import cross_validate
from probpca.learning.selection.result import Criterion, Selection
from probpca.learning.selection.tables import at_hand
from probpca.learning.settings import Settings
from probpca.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from probpca.blocks import Block
    from probpca.learning.complete.spectrum import Spectrum
    from probpca.learning.describe import Description
    from probpca.sources import Source


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Rows in memory, with the computations that several criteria share."""

    source: Source
    described: Description
    rng: dict[str, np.random.Generator]  # one for each criterion, independent of which others are computed
    largest: int | None = None  # largest number of components to try; None for the default of each criterion
    all_values: bool = True  # whether a criterion needs all eigenvalues
    tell: Callable[[str], None] | None = None  # called with the name of each stage
    settings: Settings = field(default_factory=Settings)

    @classmethod
    def of(cls, source: Source, rng: np.random.Generator, **options: Any) -> Table:
        """Describe the rows of a source, and make a random number generator for each criterion."""
        source, _ = in_unit_precision(source)
        described = describe(source, rng)
        each = dict(zip(SELECTION_RULES, rng.spawn(len(SELECTION_RULES)), strict=True))
        return cls(source, described, each, **options)

    @cached_property
    def block(self) -> Block:
        """All rows in one block."""
        return joined(self.source.hold())

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenvalues of the covariance of complete rows."""
        limit = self.source.n_features - 1 if self.all_values else max(self.settings.search.complete, self.largest or 0)
        return leading_spectrum(self.described, most_pairs(self.source, limit), self.settings, self.rng["bic"])

    @cached_property
    def rank(self) -> int | None:
        """Rank of complete rows without noise, which every criterion then chooses; None if there is noise."""
        if not self.described.complete:
            return None
        rank = exact_rank(self.spectrum, single=self.source.rounded_to_single)
        limit = self.settings.search.complete if self.largest is None else self.largest
        return rank if rank is not None and rank <= limit else None

    @cached_property
    def factor_curves(self) -> dict[str, Curve]:
        """BIC and AIC of factor analysis for 1, 2, ... factors, by name; both from the same fits."""
        search, names = self.settings.search, ("bic", "aic")
        if self.largest is not None:
            search = replace(search, complete=self.largest, missing=self.largest)
        curves = factor_criteria(self.described, names, replace(self.settings, search=search), self.rng["fa_bic"])
        return {f"fa_{name}": curve for name, curve in zip(names, curves, strict=True)}

    def most(self, limit: int) -> int:
        """Largest number of components to try, at least one."""
        d, rows = self.source.n_features, self.block.total_weight
        return int(max(min(d - 1, rows - 2, limit if self.largest is None else self.largest), 1))


def judge(table: Table, name: str) -> Criterion:
    """Apply one criterion to a table; raises ``DataError`` if it is not applicable."""
    Rule(name).require_complete(table.described.obstacle)
    if table.tell is not None:
        table.tell(SELECTION_RULES[name])
    if table.rank is not None:
        return Criterion(name, table.rank, note=EXACT_RANK)
    return JUDGES[name](table)


def _by_bic(table: Table) -> Criterion:
    if table.described.complete:
        curve = bic(table.spectrum, min(table.most(table.settings.search.complete), table.spectrum.values.size))
        return Criterion("bic", curve.best, *curve)
    problem = Problem.of(table.described, table.settings, table.rng["bic"])
    (found,) = by_criteria(problem, table.most(table.settings.search.missing), Rule("bic"))
    note = EXACT_RANK if found.rule == EXACT_RANK else ""
    return Criterion("bic", found.ended.state.n_components, *found.curve, note=note)


def _by_evidence(table: Table) -> Criterion:
    curve = _up_to(evidence(table.spectrum), table.most(table.source.n_features))
    wide = table.block.total_weight <= table.source.n_features
    note = "with fewer rows than columns the approximation behind it is poor" if wide else ""
    return Criterion("evidence", curve.best, *curve, note=note)


def _by_cv(table: Table) -> Criterion:
    settings, jobs = table.settings, table.source.n_jobs
    most = table.most(settings.search.missing)
    scores = cross_validate(table.block, most, table.rng["cv"], how=settings.folds, n_jobs=jobs, tell=table.tell)
    counts, best = np.arange(1, len(scores.rows) + 1), int(scores.mean.argmax()) + 1
    note = "" if best == scores.choice else f"{best} predicts best, but only slightly better"
    return Criterion("cv", scores.choice, counts, scores.mean, scores.shortfall()[1], note)


def _by_parallel(table: Table) -> Criterion:
    found = choose_by_correlations(table.described, table.settings, table.rng["parallel"], table.largest)
    return Criterion("parallel", found.n_components, *found.curve, note=" ".join(found.notes))


def _by_threshold(table: Table) -> Criterion:
    curve = _up_to(gavish_donoho(table.spectrum), table.most(table.source.n_features))
    note = "" if curve.score[0] > 1 else "no singular value exceeds the threshold; one component is the minimum"
    return Criterion("gavish_donoho", n_above(curve), *curve, note=note)


def _by_relevance(table: Table) -> Criterion:
    largest = table.most(table.settings.search.missing)
    result = fit_variational(table.source, largest, table.settings, table.rng["ard"])
    return Criterion("ard", result.model.n_components, note=result.rule)


def _by_factors(name: str, table: Table) -> Criterion:
    curve = table.factor_curves[name]
    varying = int((column_std(table.described.sums) > 0).sum())
    notes = about_ledermann(curve.best, varying)
    if curve.best == ledermann_bound(varying):
        notes = ("the largest number that the Ledermann bound allows",)
    elif curve.best == curve.n_components[-1]:
        notes = ("the largest number tried", *notes)
    return Criterion(name, curve.best, *curve, note=" ".join(notes))


JUDGES: dict[str, Callable[[Table], Criterion]] = {
    "bic": _by_bic,
    "evidence": _by_evidence,
    "cv": _by_cv,
    "ard": _by_relevance,
    "parallel": _by_parallel,
    "gavish_donoho": _by_threshold,
    "fa_bic": partial(_by_factors, "fa_bic"),
    "fa_aic": partial(_by_factors, "fa_aic"),
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
    """Compute several criteria, or all if ``names`` is None; those that do not apply get a note with the reason.

    ``largest`` limits the number of components, and ``tell`` is called with the name of each stage.
    """
    check_count(1, source.n_features)
    rows = at_hand(source, rng)
    asked = list(SELECTION_RULES) if names is None else list(dict.fromkeys(names))
    spectral = any(name in ("evidence", "gavish_donoho") for name in asked)
    table = Table.of(rows.source, rng, largest=largest, all_values=spectral, tell=tell)
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


def choose_by_rows(source: Source, wanted: Rule, settings: Settings, rng: np.random.Generator) -> tuple[Source, Count]:
    """Choose the number of components by a criterion that needs the rows, and return the rows to fit and the choice.

    Rows that can be read only once are loaded into memory.
    """
    rows = at_hand(source, rng, settings.sample)
    fresh = Settings(search=settings.search, folds=settings.folds)
    with StageBar(enabled=isinstance(settings.watch, ProgressBar)) as bar:
        found = judge(Table.of(rows.source, rng, settings=fresh, tell=bar, all_values=False), wanted.name)
    rule = EXACT_RANK if found.note == EXACT_RANK else rows.told(wanted.words)
    count = Count(found.choice, rule)  # type: ignore[arg-type]
    return rows.source if not source.repeatable else source, count


def open_rows(X: Any, sample_weight: Any, missing: str, n_jobs: int | None) -> Source:
    """Make a source of rows with weights; ``missing`` is "nan", or "unstored" for unstored cells of sparse rows too."""
    if missing not in ("nan", "unstored"):
        msg = f"missing must be 'nan' or 'unstored'; got {missing!r}."
        raise DataError(msg)
    return open_source(X, weight=sample_weight, unstored_missing=missing == "unstored", n_jobs=n_jobs)


def ask(
    source: Source, criteria: Any, rng: np.random.Generator, *, largest: Any, standardize: bool, verbose: Any
) -> Selection:
    """Compute the criteria with the given names, a single one, or all of them if ``criteria`` is None."""
    names = _names(criteria)
    _check_largest(largest)
    if standardize:
        source, _ = standardised(source)
    with StageBar(enabled=bool(verbose)) as bar:
        return select(source, names, rng, largest=largest, tell=bar)


def _names(criteria: Any) -> list[str] | None:
    if criteria is None:
        return None
    names = [criteria] if isinstance(criteria, str) else list(criteria)
    unknown = [name for name in names if name not in SELECTION_RULES]
    if unknown or not names:
        what = repr(unknown[0]) if unknown else "an empty list"
        msg = f"criteria must be one or more of {', '.join(map(repr, SELECTION_RULES))}; got {what}."
        raise DataError(msg)
    return names


def _check_largest(largest: Any) -> None:
    number = isinstance(largest, Integral) and not isinstance(largest, bool | np.bool_)
    if largest is not None and not (number and largest >= 1):
        msg = f"max_components must be an int of at least 1, or None; got {largest!r}."
        raise ShapeError(msg)
