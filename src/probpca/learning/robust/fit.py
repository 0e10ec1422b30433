"""Robust fits of PPCA and factor analysis: to the rows, or to the rows and cells, that agree with each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import numpy as np

from probpca.available_memory import require_memory
from probpca.blocks import Block
from probpca.blocks.block import dense_precision, dense_values, joined
from probpca.errors import DataError
from probpca.learning.describe import can_learn, require_counted, summarise
from probpca.learning.robust.consistency import inflated, trimming_factor
from probpca.learning.robust.trimming import Trimming, medians
from probpca.learning.robust.wild_cells import CellTable, fit_student_cells, fit_wild_cells
from probpca.sources import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.learning.result import FitResult
    from probpca.learning.settings import Settings
    from probpca.learning.robust.wild_cells import Climbed
    from probpca.models import LinearGaussian
    from probpca.typing import Array

    Learn: TypeAlias = Callable[[Source, Any, Settings, np.random.Generator], FitResult]

Robust: TypeAlias = Literal["rows", "cells"]
NORMAL_MAD = 1.4826
"""Standard deviation of a Gaussian relative to its median absolute deviation."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class DenseRows:
    """Rows in memory, as dense arrays that robust fits read again and again."""

    values: Array  # NaN in missing cells: (n, d)
    weight: Array  # frequencies: (n,)
    precision: Array | None  # relative precisions of the cells, with geometric mean 1: (n, d)
    unit: float  # that the precisions were divided by
    like: Source

    @classmethod
    def of(cls, source: Source) -> DenseRows:
        """Load the rows of a source. Raises ``SourceError`` if they are in a cluster."""
        if source.n_rows is not None:
            size = 8 * source.n_rows * source.n_features
            require_memory("the rows of a robust fit", 4 * size, "fit a sample of the rows, or use robust=None")
        blocks = source.hold()
        if not blocks:
            msg = "at least 2 rows are needed to fit a model; got none."
            raise DataError(msg)
        block = joined(blocks)
        values, precision, unit = dense_values(block), None, 1.0
        if block.precision is not None:
            precision = np.where(np.isnan(values), 0.0, dense_precision(block))
            positive = precision[precision > 0]
            unit = float(np.exp(np.log(positive).mean())) if positive.size else 1.0
            precision = precision / unit
        return cls(values, np.array(block.weights), precision, unit, source)

    def source(self, used: Array | float = 1.0) -> Source:
        """Source of the rows, each with its weight times the share of it that is ``used``."""
        weight = self.weight * used
        precision = None if self.precision is None else self.precision * self.unit
        plain = bool((weight == 1).all())
        block = Block(self.values, None if plain else weight, precision)
        return Source.of_block(block, self.like.n_jobs, self.like.columns)

    def masked(self, hidden: Array, used: Array | float = 1.0) -> Source:
        """Source of the same rows without the ``hidden`` cells (n, d)."""
        return replace(self, values=np.where(hidden, np.nan, self.values)).source(used)


def fit_trimmed(
    source: Source, n_components: Any, settings: Settings, rng: np.random.Generator, *, learn: Learn, own_units: bool
) -> FitResult:
    r"""Fit a model by ``learn`` to the rows that agree best with each other: at least the share ``keep`` of them.

    Concentration steps (Rousseeuw & Van Driessen 1999) choose the rows nearest to the model by the chi-square p-values
    of their distances, and fit the model to them. Then all rows up to a quantile of chi-square are used, and the
    number of components is chosen again on them. The covariance of the model is multiplied by a factor that makes it
    that of all rows that follow a Gaussian. With ``keep=1`` this is the ordinary fit.

    ``own_units`` says that the columns have units of their own, so that distances are compared after scaling.
    """
    _require_plain(settings)
    rows, how = DenseRows.of(source), settings.trimming
    if how.keep >= 1:
        return learn(rows.source(), n_components, settings, rng)._replace(row_weight=np.ones(len(rows.values)))
    first = learn(rows.source(), n_components, replace(settings, watch=None), rng)
    scale = robust_scale(rows.values) if own_units else np.asarray(1.0)
    trimming = Trimming(rows.values / scale, rows.weight, rows.precision, how)
    trimmed = trimming.find(_in_units(first.model, scale, rows.unit, settings), rng)
    for _ in range(how.rechosen):
        result = _learn_used(learn, rows, trimmed.used, n_components, settings, rng)
        if result.model.n_components == trimmed.model.n_components:
            break
        trimmed = trimming.finish(_in_units(result.model, scale, rows.unit, settings))
        result = _learn_used(learn, rows, trimmed.used, n_components, settings, rng)
    weight = trimmed.used * rows.weight
    factor = trimming_factor(trimming.degrees, weight, how.level)
    plain = result.model.in_precision_unit(1 / rows.unit).rescale(1 / scale)
    distance = float(weight @ trimming.distances(plain))
    cells = float(weight @ trimming.degrees)
    gain = -0.5 * (cells * np.log(factor) + (1 / factor - 1) * distance)
    return _widened(result, factor, gain)._replace(row_weight=trimmed.used)


def _learn_used(
    learn: Learn, rows: DenseRows, used: Array, n_components: Any, settings: Settings, rng: np.random.Generator
) -> FitResult:
    source = rows.source(used)
    summary = summarise(source)
    return learn(source, n_components, settings, rng)


def _in_units(model: LinearGaussian, scale: Array, unit: float, settings: Settings) -> LinearGaussian:
    """Model of rows divided by ``scale``, with the noise of the settings."""
    scaled = model.in_precision_unit(1 / unit).rescale(1 / scale)
    return scaled.isotropic() if settings.noise == "shared" and scaled.noise_variance.ndim else scaled


def _widened(result: FitResult, factor: float, gain: float) -> FitResult:
    """Result with the covariance of its model multiplied by a factor, which changes the log-likelihood by ``gain``."""
    root = np.sqrt(factor)
    return result._replace(
        model=inflated(result.model, factor),
        scale=None if result.scale is None else result.scale * root,
        column_std=None if result.column_std is None else result.column_std * root,
        log_likelihood=result.log_likelihood + gain,
        trace=tuple(value + gain for value in result.trace),
        moments=None,  # those of the rows that are used, which the model no longer fits best
    )


def robust_scale(values: Array) -> Array:
    """Median absolute deviation of each column, for a Gaussian its standard deviation; 1 for a constant column: (d,)."""
    deviation = np.abs(values - medians(values))
    scale = NORMAL_MAD * medians(deviation)
    # Half of the cells are equal: the mean size of the others is all that is left.
    seen = np.maximum((~np.isnan(values)).sum(axis=0), 1)
    rest = np.sqrt(np.nansum(np.square(deviation), axis=0) / seen)
    scale = np.where(scale > 0, scale, rest)
    return np.where(scale > 0, scale, 1.0)


def _require_plain(settings: Settings) -> None:
    """Raise ``DataError`` for options of an ordinary fit that a robust one does not have."""
    if settings.bias_correction:
        msg = (
            "bias_correction=True is for ordinary fits: it assumes that all rows were used.\n"
            "Hint: bias_correction=False, or robust=None."
        )
        raise DataError(msg)
    if settings.checkpoint is not None:
        msg = "a robust fit writes no checkpoint.\nHint: checkpoint=None, or robust=None."
        raise DataError(msg)


def fit_cellwise(
    source: Source, n_components: Any, settings: Settings, rng: np.random.Generator, *, learn: Learn, own_units: bool
) -> FitResult:
    """Fit a model in which each cell counts by the probability that it follows the model.

    Cells far from the median of their column are hidden from a first fit. Student's t for cells and the trimming of
    rows give the start of the fit with weights of cells. The number of components is chosen on the first fit, and again
    on the cells that follow the model.
    """
    _require_plain(settings)
    rows, how = DenseRows.of(source), settings.wild_cells
    summarise(rows.source())
    centre, spread = medians(rows.values), robust_scale(rows.values)
    far = np.abs(rows.values - centre) > how.hidden * spread
    first = learn(rows.masked(far), n_components, replace(settings, watch=None), rng)
    scale = spread if own_units else np.asarray(1.0)
    fit = _CellFit(CellTable.of(rows.values / scale, rows.weight, rows.precision, centre / scale), rows, scale, settings)
    found = fit.run(_in_units(first.model, scale, rows.unit, settings), rng)
    result = first
    for _ in range(settings.trimming.rechosen):
        result = learn(rows.masked(found.tame.T < 0.5, found.used), n_components, settings, rng)
        if result.model.n_components == found.model.n_components:
            break
        found = fit.go_on(_in_units(result.model, scale, rows.unit, settings), found)
    return fit.finished(found, result)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _CellFit:
    table: CellTable
    rows: DenseRows
    scale: Array
    settings: Settings

    @property
    def floor(self) -> float:
        spread = robust_scale(self.rows.values) / self.scale
        return self.settings.wild_cells.least_noise * float(np.mean(np.square(spread)))

    @property
    def trims(self) -> bool:
        return self.settings.trimming.keep < 1

    def run(self, start: LinearGaussian, rng: np.random.Generator) -> Climbed:
        how = self.settings.wild_cells
        found = fit_student_cells(self.table, start, self.floor, how)
        if self.trims:
            untrusted = (found.tame < how.untrusted).T
            values = np.where(untrusted, np.nan, self.rows.values / self.scale)
            trimming = Trimming(values, self.rows.weight, self.rows.precision, self.settings.trimming)
            trimmed = trimming.find(found.model, rng)
            found = found._replace(model=trimmed.model, used=trimmed.used)
        return fit_wild_cells(self.table, found, self.floor, how, judge_rows=self.trims)

    def go_on(self, start: LinearGaussian, found: Climbed) -> Climbed:
        how = self.settings.wild_cells
        begun = fit_student_cells(self.table, start, self.floor, replace(how, max_iter=3))
        begun = begun._replace(model=start, used=found.used, tame=found.tame)
        return fit_wild_cells(self.table, begun, self.floor, how, judge_rows=self.trims)

    def finished(self, found: Climbed, result: FitResult) -> FitResult:
        model = found.model.rotate(found.model.canonical_rotation).rescale(self.scale).in_precision_unit(self.rows.unit)
        used = found.tame.T > 0.5
        return result._replace(model=model, row_weight=found.used, cell_weight=found.tame.T)
