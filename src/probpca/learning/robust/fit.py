"""Robust fits of PPCA and factor analysis: to the rows, or to the rows and cells, that agree with each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import numpy as np

from probpca.available_memory import require_memory
from probpca.blocks import Block, observe
from probpca.blocks.block import dense_precision, dense_values, joined
from probpca.cached_property import cached_property
from probpca.errors import DataError, SourceError
from probpca.inference.calibration import Calibration
from probpca.learning.describe import NothingToLearnError, can_learn, summarise
from probpca.learning.em.e_step import expect
from probpca.learning.result import Status, collapsed_status
from probpca.learning.robust.consistency import inflated, trimming_factor
from probpca.learning.robust.trimming import Trimming, medians
from probpca.learning.robust.wild_cells import (
    NORMAL_MAD,
    CellTable,
    fit_student_cells,
    fit_wild_cells,
    with_robust_noise,
)
from probpca.learning.settings import TrimmingSettings
from probpca.learning.training_distances import training_distances
from probpca.linalg.packed import identity, turn_bordered
from probpca.models import LinearGaussian
from probpca.sources import Source
from probpca.statistics import ColumnSummary, Sum

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from probpca.learning.result import FitResult
    from probpca.learning.robust.wild_cells import Climbed
    from probpca.learning.settings import Settings
    from probpca.typing import Array

    Mask = npt.NDArray[np.bool_]

    Learn: TypeAlias = Callable[[Source, Any, Settings, np.random.Generator], FitResult]

Robust: TypeAlias = Literal["rows", "cells"]


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
        if not source.local:
            msg = (
                "a robust fit reads the rows again and again in this process; these are in a cluster.\n"
                "Hint: fit a sample of the rows in memory, or use robust=None."
            )
            raise SourceError(msg)
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
            precision = None if (positive == 1).all() else precision / unit  # ones only say what is missing
        return cls(values, np.array(block.weights), precision, unit, source)

    def source(self, used: Array | float = 1.0) -> Source:
        """Source of the rows, each with its weight times the share of it that is ``used``."""
        weight = self.weight * used
        precision = None if self.precision is None else self.precision * self.unit
        plain = bool((weight == 1).all())
        block = Block(self.values, None if plain else weight, precision)
        return Source.of_block(block, self.like.n_jobs, self.like.columns)

    def masked(self, hidden: Mask, used: Array | float = 1.0) -> Source:
        """Source of the same rows without the ``hidden`` cells (n, d)."""
        return replace(self, values=np.where(hidden, np.nan, self.values)).source(used)


def fit_robust(  # noqa: PLR0913
    source: Source,
    n_components: Any,
    settings: Settings,
    rng: np.random.Generator,
    *,
    how: Robust,
    learn: Learn,
    own_units: bool,
) -> FitResult:
    """Fit a model by ``learn`` to the "rows", or to the "cells", that agree with each other.

    ``own_units`` says that the columns have units of their own, so that they must be scaled to be compared.
    """
    fit = fit_trimmed if how == "rows" else fit_cellwise
    return fit(source, n_components, settings, rng, learn=learn, own_units=own_units)


def reference(result: FitResult, how: Robust, settings: TrimmingSettings = TrimmingSettings()) -> Calibration:
    """Reference distribution of p-values after a robust fit: chi-square, scaled by the rows and cells that it used."""
    cells = result.model.n_features * result.weight if result.cells is None else result.cells
    empty = 0 if result.empty is None else len(result.empty)
    n = float(cells / max(result.model.n_features - empty, 1))
    found = training_distances(result.model, result.sample, n)
    share = settings.level if how == "rows" and settings.keep < 1 else 1.0
    return found if isinstance(found, Calibration) else found.scaled(0.5 * share)


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
    scale = robust_scale(rows.values, rows.weight) if own_units else np.asarray(1.0)
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
    status = result.status if trimmed.converged else Status.ROBUST_MAX_ITER
    found = _widened(result, factor, gain)
    return found._replace(row_weight=trimmed.used, status=status, sample=rows.source(trimmed.used))


def _learn_used(
    learn: Learn, rows: DenseRows, used: Array, n_components: Any, settings: Settings, rng: np.random.Generator
) -> FitResult:
    source = rows.source(used)
    if not can_learn(source.fold(ColumnSummary.of)):
        n = np.count_nonzero(used)
        msg = (
            f"robust='rows' needs rows that agree and still vary; the {n} rows that agree best are identical.\n"
            "Hint: a larger keep, or robust=None."
        )
        raise NothingToLearnError(msg)
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


def robust_scale(values: Array, weight: Array) -> Array:
    """Median absolute deviation of each column, as the standard deviation of a Gaussian; 1 if constant: (d,)."""
    deviation = np.abs(values - medians(values, weight))
    scale = NORMAL_MAD * medians(deviation, weight)
    # Half of the cells are equal: the mean size of the others is all that is left.
    total = weight @ ~np.isnan(values)
    squares = weight @ np.where(np.isnan(values), 0.0, np.square(deviation))
    rest = np.sqrt(np.divide(squares, total, out=np.zeros_like(total), where=total > 0))
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
    """Fit a model by ``learn`` in which each cell counts by the probability that it follows the model.

    Cells far from the median of their column are hidden from a first fit. Student's t for cells and the trimming of
    rows, unless ``keep`` is 1, give the start of the fit with weights of cells. The number of components is chosen on
    the first fit, and again on the cells that follow the model.

    ``own_units`` says that the columns have units of their own, so that they are scaled by their spread.
    """
    _require_plain(settings)
    _require_hidden_cells(settings)
    rows, how = DenseRows.of(source), settings.wild_cells
    summarise(rows.source())
    centre, spread = medians(rows.values, rows.weight), robust_scale(rows.values, rows.weight)
    far = np.abs(rows.values - centre) > how.hidden * spread
    quiet, tame = replace(settings, watch=None), rows.masked(far)
    first = _learn_tame(learn, tame, n_components, quiet, rng)
    q, most = first.model.n_components, min(source.n_features - 1, tame.fold(ColumnSummary.of).count - 2)
    if not isinstance(n_components, Integral) and q < most:
        # Hiding far cells hides a weak component, and then the cells that it explains look wild: start with one more.
        first = learn(tame, q + 1, quiet, rng)
    fit = _CellFit(rows, spread if own_units else np.asarray(1.0), settings)
    found = fit.run(fit.units(first.model), rng)
    for _ in range(settings.trimming.rechosen):
        tame = rows.masked(found.tame.T < 0.5, found.used)
        result = _learn_tame(learn, tame, n_components, settings, rng)
        if result.model.n_components == found.model.n_components:
            break
        found = fit.go_on(fit.units(result.model), found)
    if own_units and settings.noise == "shared":
        variance = found.model.covariance.diag()
        fit = _CellFit(rows, fit.scale * np.sqrt(variance), settings)
        found = fit.go_on(fit.units(found.model.rescale(fit.scale / np.sqrt(variance))), found)
    return fit.finished(found, result)


def _learn_tame(
    learn: Learn, tame: Source, n_components: Any, settings: Settings, rng: np.random.Generator
) -> FitResult:
    _require_variation(tame)
    return learn(tame, n_components, settings, rng)


def _require_variation(tame: Source) -> None:
    """Raise ``NothingToLearnError`` if the cells that are left of the rows do not vary."""
    if not can_learn(tame.fold(ColumnSummary.of)):
        msg = (
            "robust='cells' needs cells that agree and still vary; in each column those that agree are equal, or "
            "hardly any agree. It is not for columns in which most cells have the same value, nor for a few rows.\n"
            "Hint: robust='rows', or robust=None."
        )
        raise NothingToLearnError(msg)


@final
@dataclass(frozen=True, eq=False)
class _CellFit:
    """Fits with weights of cells to rows divided by ``scale``, (d,) or ()."""

    rows: DenseRows
    scale: Array
    settings: Settings

    @cached_property
    def table(self) -> CellTable:
        """The rows divided by the scale."""
        values = self.rows.values / self.scale
        return CellTable.of(values, self.rows.weight, self.rows.precision, medians(values, self.rows.weight))

    @cached_property
    def floor(self) -> float:
        """Smallest noise variance of a column."""
        if self.settings.noise == "per_feature":
            return self.settings.factor.floor  # of columns with a variance of about 1
        return self.settings.wild_cells.least_noise * float(
            np.square(robust_scale(self.rows.values, self.rows.weight) / self.scale).mean()
        )

    @property
    def keep(self) -> float:
        """Smallest share of the rows to use."""
        return self.settings.trimming.keep

    def units(self, model: LinearGaussian) -> LinearGaussian:
        """Model in the units of this fit."""
        return _in_units(model, self.scale, self.rows.unit, self.settings)

    def run(self, start: LinearGaussian, rng: np.random.Generator) -> Climbed:
        """Fit from a start that no single far cell has influenced."""
        how = self.settings.wild_cells
        # With a noise variance for each column, one that has many wild cells would take them for noise.
        shared = start.isotropic() if start.noise_variance.ndim else start
        found = fit_student_cells(self.table, shared, self.floor, how)
        if self.keep < 1:
            untrusted = (found.tame < how.untrusted).T
            _require_variation(self.rows.masked(untrusted))
            values = np.where(untrusted, np.nan, self.rows.values / self.scale)
            trimming = Trimming(values, self.rows.weight, self.rows.precision, self.settings.trimming)
            trimmed = trimming.find(found.model, rng)
            found = found._replace(model=trimmed.model, used=np.ceil(trimmed.used))
        if start.noise_variance.ndim:
            found = found._replace(model=with_robust_noise(self.table, found, self.floor))
        return fit_wild_cells(self.table, found, self.floor, how, keep=self.keep)

    def go_on(self, start: LinearGaussian, found: Climbed) -> Climbed:
        """Fit from another model, with the weights that were found."""
        q, d = start.n_components, start.n_features
        if q != found.model.n_components:
            found = found._replace(gram=np.repeat(identity(q + 1), d, axis=1) * float(found.tame.sum() / d))
        found = found._replace(model=start)
        return fit_wild_cells(self.table, found, self.floor, self.settings.wild_cells, keep=self.keep)

    def finished(self, found: Climbed, result: FitResult) -> FitResult:
        """Result in the units of the data; what a fit to the tame cells found completes it."""
        rotation, unit = found.model.canonical_rotation, self.rows.unit
        model, empty = found.model.rotate(rotation), np.flatnonzero(found.gram[-1] == 0)
        mean, loadings = model.mean.copy(), model.loadings.copy()
        mean[empty], loadings[empty] = 0.0, 0.0
        model = LinearGaussian(mean, loadings, model.noise_variance).rescale(self.scale).in_precision_unit(unit)
        tame = self.rows.masked(found.tame.T < 0.5, found.used)
        value = tame.fold(partial(_log_likelihood, model)).value
        collapsed = bool((model.noise_variance <= 2 * self.floor * np.square(self.scale) * unit).all())
        status = Status.ROBUST_CONVERGED if found.converged else Status.ROBUST_MAX_ITER
        low = np.flatnonzero(found.model.noise_variance <= 2 * self.floor) if model.noise_variance.ndim else empty[:0]
        return result._replace(
            model=model,
            status=collapsed_status(result.rule) if collapsed else status,
            log_likelihood=float(value[0]),
            trace=(float(value[0]),),
            n_iter=found.n_iter,
            cells=float(value[1]),
            weight=float(self.rows.weight @ found.used),
            information=turn_bordered(found.gram, rotation) * unit,
            empty=empty,
            scale=np.broadcast_to(self.scale, mean.shape).copy() if result.scale is not None else None,
            heywood=None if result.heywood is None else low,
            moments=None,
            sample=tame,
            row_weight=found.used,
            cell_weight=found.tame.T,
        )


def _log_likelihood(model: LinearGaussian, block: Block) -> Sum:
    """Log-likelihood of the observed cells of a block, and their number, weighted: (2,)."""
    sums = expect(model, observe(block, model.mean))
    return Sum(np.array([sums.log_likelihood, sums.cells]))


def _require_hidden_cells(settings: Settings) -> None:
    """Raise ``DataError`` for solvers that cannot leave out cells."""
    if settings.solver not in ("auto", "em", "px_em", "gradient"):
        msg = (
            f"robust='cells' leaves out cells, which solver={settings.solver!r} cannot.\n"
            "Hint: solver='auto', or robust='rows'."
        )
        raise DataError(msg)
