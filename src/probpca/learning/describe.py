"""Description of a table after one pass: whether it is complete, its number of rows, and sums over them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar, final

import numpy as np

from probpca.errors import DataError
from probpca.learning.settings import SampleSize
from probpca.result_tables import clip
from probpca.sources import open_source
from probpca.sources.engines.local import itself
from probpca.statistics import Both, ColumnSummary, Distinct, Sum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from probpca.blocks import Block
    from probpca.learning.settings import Settings
    from probpca.sources import Source
    from probpca.typing import Array

R = TypeVar("R", bound=Any)
FirstPass: TypeAlias = "Callable[[Source], Pass]"


class NothingToLearnError(DataError):
    """Too few rows or cells were observed, or they are all identical; more rows may help."""


LEAST_WEIGHT = 2 - 1e-9
"""Smallest total weight of the rows of a fit, two rows up to rounding: weights are frequencies."""
MOST_WEIGHT = 1e303
"""Largest total weight of the rows of a fit: sums over them must not overflow."""


LEAST_VARIANCE, MOST_VARIANCE = 1e-290, 1e290
"""Range of the largest variance of a column, in which variances a trillion times smaller keep their digits."""


class Variances(Protocol):
    """Protocol of sums that give the mean and the variance of each feature."""

    @property
    def mean(self) -> Array:
        """Mean of each feature: (d,)."""
        ...

    @property
    def variance(self) -> Array:
        """Variance of each feature: (d,)."""
        ...


class Sums(Variances, Protocol):
    """Protocol of sums over rows that give their number and their variances."""

    @property
    def count(self) -> int:
        """Number of rows with positive weight and at least one observed cell."""
        ...

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all features."""
        ...

    @property
    def complete(self) -> bool:
        """Whether every cell was observed, all with the same precision; if not, the sums may be NaN."""
        ...


class Pass(NamedTuple):
    """A pass over the rows: a function that summarises a block, and one that converts the merged summary to sums."""

    summarise: Callable[[Block], Any]
    finish: Callable[[Any], Sums] = itself


@final
@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """Result of the first pass over a table."""

    source: Source  # rows that can be read again if cells are missing
    sums: Any  # for complete rows the sums that the solver needs, else a ``ColumnSummary``
    complete: bool  # whether no cell is missing
    sample: Source | None = None  # a sample of the rows, if they are not in memory

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return _total_weight(self.sums)

    @property
    def obstacle(self) -> str:
        """Why methods for complete rows do not apply, as the end of a sentence; empty if they do."""
        if self.complete:
            return ""
        if self.summarise().missing.any():
            return "cells are missing here"
        info = self.source.info
        if info.sparse and not info.unstored_zero:
            return "cells that are not stored count as missing here"
        return "cells have weights here"

    def summarise(self) -> ColumnSummary:
        """Summary of each column; needs another pass if the first one computed other sums."""
        return self.sums if isinstance(self.sums, ColumnSummary) else self.source.fold(ColumnSummary.of)


def describe(
    source: Source, rng: np.random.Generator, first_pass: FirstPass | None = None, size: SampleSize = SampleSize()
) -> Description:
    """Read the rows once, and compute the sums that a solver of complete rows needs, or a summary of each column.

    ``first_pass`` makes the pass for the solver of complete rows; None always summarises the columns. A sample of
    rows that are not in memory is drawn in the same pass. Raises ``DataError`` unless values are finite, at least two
    rows differ, and the weights sum to at least 2.
    """
    if not source.repeatable and (first_pass is None or source.starts_incomplete()):
        source = source.keep()
    if first_pass is not None and (source.in_memory or not source.starts_incomplete()):
        sums, sample = _begin(first_pass(source), source, size.calibration)
        require_counted(sums)
        if sums.complete and _is_finite(sums):
            require_variation(sums, complete=True)
            return Description(source, sums, complete=True, sample=sample)
        if not source.repeatable:
            raise _not_finite_once()
    if source.in_memory:
        summary = summarise(source)
        return Description(source, summary, summary.complete)
    both = source.fold(partial(Both.of, ColumnSummary.of, draw_rows(source, rng, size)))
    summary, drawn = _usable(both.first, source), both.second
    return Description(source, summary, summary.complete, _source_of(drawn, source.n_jobs))


def _is_finite(sums: Sums) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(sums.total_variance))


def _begin(first: Pass, source: Source, size: int) -> tuple[Sums, Source | None]:
    """Sums of complete rows, and a sample of ``size`` rows if they are not in memory."""
    if source.in_memory or not size:
        return first.finish(source.fold(first.summarise)), None
    n = source.n_rows
    # A few more candidates than needed; all rows if their number is unknown.
    share = 1.0 if n is None else min(1.1 * size / max(n, 1), 1.0)
    both = source.fold(partial(Both.of, first.summarise, partial(Distinct.of, size, 0, share=share)))
    drawn = both.second
    if n is not None and share < 1.0 and not (len(drawn.rows) > size / 2 and drawn.weight.sum() < 2 * size):
        drawn = source.fold(partial(Distinct.of, size, 0))  # too few candidates: many rows are equal
    return first.finish(both.first), _source_of(drawn, source.n_jobs)


def _source_of(drawn: Distinct, n_jobs: int) -> Source | None:
    return open_source(drawn.rows, weight=drawn.weight, n_jobs=n_jobs) if len(drawn.rows) else None


def summarise(source: Source) -> ColumnSummary:
    """Summary of each column; raises ``DataError`` unless values are finite and at least two rows differ."""
    return _usable(source.fold(ColumnSummary.of), source)


def _usable(summary: ColumnSummary, source: Source) -> ColumnSummary:
    require_counted(summary)
    _require_finite(summary, source)
    require_variation(summary, complete=summary.complete)
    return summary


def column_std(sums: Variances) -> Array:
    """Standard deviation of each column, 0 if the column is constant up to rounding: (d,)."""
    deviation = np.sqrt(np.maximum(sums.variance, 0.0))  # rounding of float32 products may give a negative variance
    return np.where(deviation > Units.rounding * np.abs(sums.mean), deviation, 0.0)


def about_units(std: Array | None, names: Sequence[str], option: str, least_ratio: float = 10.0) -> list[str]:
    """Note that the standard deviations of columns differ more than tenfold, naming the option that standardises.

    Returns an empty list if they differ less, or are unknown. Constant columns are ignored.
    """
    if std is None or not (std > 0).any():
        return []
    low, high = int(np.where(std > 0, std, np.inf).argmin()), int(std.argmax())
    ratio = float(std[high]) / float(std[low])  # infinite, without a warning, if the smaller one is subnormal
    if not ratio > least_ratio:
        return []
    ends = f"{clip(names[high])} {std[high]:.3g}, {clip(names[low])} {std[low]:.3g}"
    differ = f"The standard deviations of the columns differ {ratio:,.0f}-fold ({ends})"
    what = "and columns with large ones dominate the components"
    return [f"{differ}, {what}. If their units are arbitrary, {option} gives all columns the same weight."]


def rows_in_memory(opened: Source, table: Description) -> Source | None:
    """Rows in memory after a fit to rows that were not: all rows if the fit had to load them, or a sample."""
    if opened.in_memory:
        return None
    return table.source if table.source.in_memory else table.sample


def in_unit_precision(source: Source) -> tuple[Source, float]:
    """Source with relative precisions of cells whose geometric mean is 1, and the unit that they were divided by.

    A common factor of all precisions changes only the unit of the noise variance. Solvers work in this unit, in which
    the noise variance is comparable with the variances of the columns. The unit is 1 if cells have no weights.
    """
    if not source.in_memory or all(block.precision is None for block in source.engine.hold()):
        return source, 1.0
    total, count = source.fold(_log_precision).value
    unit = float(np.exp(total / max(count, 1.0)))
    return source.with_precision_unit(unit), unit


def _log_precision(block: Block) -> Sum:
    """Sum of the logarithms of the positive precisions of cells, and their number: (2,)."""
    if block.precision is None:
        return Sum(np.array([0.0, block.values.size]))
    positive = block.precision > 0
    return Sum(np.array([np.log(block.precision, where=positive, out=np.zeros(positive.shape)).sum(), positive.sum()]))


def draw_rows(source: Source, rng: np.random.Generator, size: SampleSize) -> Callable[[Block], Distinct]:
    """Function that samples rows of a block, independent of the order of rows and of the cuts between blocks."""
    return partial(Distinct.of, size.of(source.n_features), int(rng.integers(2**63)))


def repeatable(source: Source) -> Source:
    """Source that can be read repeatedly; rows of an iterator and of small files are loaded into memory."""
    return source.loaded() if source.repeatable else source.keep()


def warn_of_no_checkpoint(when: str) -> None:
    """Warn that no checkpoint is written, so that an interrupted fit starts from the beginning."""
    warnings.warn(
        f"no checkpoint is written {when}; an interrupted fit starts from the beginning.", UserWarning, stacklevel=2
    )


def can_learn(sums: Sums) -> bool:
    """Whether at least two rows differ, and the weights sum to at least 2."""
    least = 4 * np.finfo(float).eps * np.abs(sums.mean)  # smaller deviations are rounding errors of the mean
    varies = np.sqrt(np.maximum(sums.variance, 0.0)) > least
    return sums.count >= 2 and _total_weight(sums) >= LEAST_WEIGHT and bool(varies.any())


def _total_weight(sums: Any) -> float:
    return float(sums.total_weight if isinstance(sums, ColumnSummary) else sums.weight)


def require_counted(sums: Any) -> None:
    """Raise ``DataError`` if there are at least two rows, but their weights sum to less than 2, or nearly overflow."""
    total = _total_weight(sums)
    if not total <= MOST_WEIGHT:
        hint = "Hint: divide the weights by their mean."
        msg = f"sample_weight must sum to at most {MOST_WEIGHT:g}; got {total:.3g}.\n{hint}"
        raise DataError(msg)
    if sums.count < 2 or total >= LEAST_WEIGHT:
        return
    msg = (
        f"sample_weight must sum to at least 2, because weights are frequencies; got {total:.3g}.\n"
        "Hint: divide the weights by their mean, so that they sum to the number of rows. If they sum to 1, multiply "
        "them by the number of rows."
    )
    raise NothingToLearnError(msg)


def require_variation(sums: Sums, *, complete: bool = True) -> None:
    """Raise ``NothingToLearnError`` unless at least two rows differ, and their weights sum to at least 2."""
    if can_learn(sums):
        _require_range(float(np.max(sums.variance)))
        return
    require_counted(sums)
    if sums.count < 2:
        which = f"n_samples={sums.count}" if complete else f"{sums.count}"
        rows = "2 rows are needed" if complete else "2 rows with observed cells are needed"
        msg = f"at least {rows} to fit a model; got {which}."
        raise NothingToLearnError(msg)
    what = "all rows are identical" if complete else "all observed values of each column are identical"
    msg = f"{what}: there is no variation to explain.\nHint: check that the data were read correctly."
    raise NothingToLearnError(msg)


def _require_range(variance: float) -> None:
    """Raise ``DataError`` for a largest variance of the columns whose square, or least noise, loses digits."""
    if LEAST_VARIANCE <= variance <= MOST_VARIANCE:
        return
    how = "divide by 1e100" if variance > MOST_VARIANCE else "multiply by 1e100"
    msg = (
        f"the largest variance of a column must lie between {LEAST_VARIANCE:g} and {MOST_VARIANCE:g}; it is "
        f"{variance:.3g}.\nHint: change the units of the data, for example {how}."
    )
    raise DataError(msg)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _FirstInfinite:
    """Number of rows, and the first of their cells that is infinite, by row and column: mergeable."""

    n_rows: int
    cell: tuple[int, int] | None

    @classmethod
    def of(cls, block: Block) -> _FirstInfinite:
        """Look at one block."""
        values = block.values.tocsr() if block.is_sparse else block.values
        infinite = np.isinf(values.data if block.is_sparse else values)
        if block.precision is not None:
            infinite &= block.precision > 0
        if block.is_sparse:
            cells = values.tocoo()
            rows, columns = cells.row[infinite], cells.col[infinite]
        else:
            rows, columns = np.nonzero(infinite)
        return cls(block.n_rows, min(zip(rows.tolist(), columns.tolist(), strict=True), default=None))

    def merge(self, other: _FirstInfinite) -> _FirstInfinite:
        """First infinite cell of both sets of rows, the other ones below."""
        later = None if other.cell is None else (self.n_rows + other.cell[0], other.cell[1])
        return _FirstInfinite(self.n_rows + other.n_rows, self.cell or later)


def _require_finite(summary: ColumnSummary, source: Source) -> None:
    if summary.is_finite:
        return
    n_infinite = int(summary.infinite.sum())
    if n_infinite:
        cells = "1 cell" if n_infinite == 1 else f"{n_infinite} cells"
        msg = (
            f"observed values must be finite; X contains infinity ({cells}), first in {_first_infinite(source)}.\n"
            "Hint: use NaN for missing values."
        )
    else:
        raise sums_overflow()
    raise DataError(msg)


def sums_overflow() -> DataError:
    """Error for finite values whose sums of squares are not finite."""
    return DataError(
        "the sums of the squared values, times their weights, must be below 1e308; these are too large.\n"
        "Hint: change the units of the data, for example divide by 1e100, or use smaller weights."
    )


def _first_infinite(source: Source) -> str:
    """Column and row of the first infinite cell, found by another pass over the rows."""
    row, column = source.fold(_FirstInfinite.of).cell or (0, 0)
    name = "" if source.columns is None else f" ({source.columns[column]!r})"
    return f"column {column}{name}, row {row}, both counted from 0"


def _not_finite_once() -> DataError:
    return DataError(
        "rows must be finite; X contains NaN or infinity.\n"
        "Hint: NaN means missing, which needs rows that can be read more than once; infinity is not allowed."
    )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Change of units in which every column is divided by its standard deviation."""

    scale: Array  # standard deviation of each column, 1 if it is constant: (d,)
    observed: Array  # total weight of the observed cells of each column: (d,)

    # The computed mean of a long constant column has a relative error of some hundred eps, which is not variation.
    rounding: ClassVar[float] = 1e-13

    @classmethod
    def of(cls, summary: ColumnSummary) -> Units:
        """Units from a summary of the columns."""
        deviation = column_std(summary)
        return cls(np.where(deviation > 0, deviation, 1.0), summary.observed)

    @property
    def log_volume(self) -> float:
        """Log-likelihood of the scaled cells minus that of the data."""
        return float(self.observed @ np.log(self.scale))


def standardised(source: Source) -> tuple[Source, Units]:
    """Source of the same rows with columns of unit variance, and the units; constant columns are not scaled."""
    source = repeatable(source)
    units = Units.of(summarise(source))
    return source.scaled(1 / units.scale), units


def in_unit_variance(
    fit: Callable[..., R], source: Source, n_components: Any, settings: Settings, rng: np.random.Generator
) -> R:
    """Fit columns scaled to unit variance with the function ``fit``, and convert the result to the units of the data.

    Latent axes are the principal axes of the scaled columns. Constant columns are not scaled. The log-likelihood is
    that of the data, which differs from that of the scaled columns by the log-determinant of the scaling.
    """
    scaled, units = standardised(source)
    result: R = fit(scaled, n_components, settings, rng)
    if scaled.in_memory and not source.in_memory:
        result = result._replace(sample=scaled)
    return result.in_units(units)
