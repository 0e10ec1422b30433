"""Tables of time series: stacked series taken apart, and rows on a regular grid of time with absent ones added."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

import narwhals.stable.v2 as nw
import numpy as np

from probpca.available_memory import require_memory
from probpca.blocks.sequences import as_sequences, is_several
from probpca.blocks.time_grid import NANOSECONDS, Step, Words, find_step, given_step, places, require_order
from probpca.errors import DataError
from probpca.estimators.base import checked_matrix, like
from probpca.estimators.time_axis import TimeAxis, axis_of, without
from probpca.result_tables import frame_of
from probpca.sources.readers.frames import frame_values, is_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from probpca.blocks import Sequences
    from probpca.typing import Array, Index


class Reading(NamedTuple):
    """How time series are read from tables: the names of columns, and the step, which the fit finds."""

    time: Any = None  # column of time stamps; None: an index of pandas, or the only column of dates
    series: Any = None  # column that names the series of each row
    step: Any = None  # what the user gave, or a Step
    unit: str = ""  # of the time stamps
    names: tuple[str, ...] = ()  # of stacked series
    is_wide: bool = False  # whether stacked series are features of one sequence
    is_given: bool = False  # whether the user set the step, so that rows may lie between steps

    @property
    def season(self) -> int:
        """Number of steps of a season that the times suggest; 1 if they suggest none."""
        return self.step.season(self.unit) if isinstance(self.step, Step) else 1

    def record(self) -> dict[str, Any]:
        """Return what JSON can hold of this."""
        step = (
            {"unit": self.step.unit, "count": self.step.count, "month_end": self.step.month_end} if self.step else None
        )
        return {**self._asdict(), "step": step, "names": list(self.names)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Read what ``record`` returned."""
        step = None if record["step"] is None else Step(**record["step"])
        return cls(**{**record, "step": step, "names": tuple(record["names"])})


@final
@dataclass(frozen=True, eq=False)
class SeriesTable:
    """One sequence as it was given, and where its rows lie on the grid."""

    given: Any  # an array, or a dataframe with its column of times
    features: Any  # the same without the column of times
    axis: TimeAxis | None
    n_rows: int
    places: Index | None = None  # position of each row on the grid; None: rows follow each other

    def like(self, values: Array) -> Any:
        """Return values of the features as a table like the one that was given, with its column of times."""
        made = like(self.features, values)
        if self.axis is None or not self.axis.is_column or self.features is self.given:
            return made
        name = self.axis.name
        if nw.dependencies.is_pandas_dataframe(self.given):
            made.insert(list(self.given.columns).index(name), name, self.given[name])
            return made
        times = nw.from_native(self.given, eager_only=True).get_column(name)
        frame = nw.from_native(made, eager_only=True).with_columns(times)
        return frame.select(nw.from_native(self.given, eager_only=True).columns).to_native()


@final
@dataclass(frozen=True, eq=False)
class SeriesTables:
    """Time series on regular grids of time, and the form that answers about them take."""

    rows: Sequences  # absent rows are empty
    tables: list[SeriesTable]
    several: bool

    @property
    def n_inserted(self) -> int:
        """Number of rows that were absent."""
        return self.rows.n_steps - sum(table.n_rows for table in self.tables)

    def times(self, ahead: int = 0) -> list[Any]:
        """Times of all steps of each sequence, and of steps after the last one: (n + ahead,) each.

        Dates by the clock of their zone, or numbers.
        """
        found = []
        for table, n in zip(self.tables, self.rows.lengths.tolist(), strict=True):
            if table.axis is None:
                found.append(np.arange(n + ahead))
            else:
                stamps = table.axis.at(np.arange(1 - n, 1 + ahead))
                found.append(stamps.local() if stamps.unit else stamps.ticks)
        return found

    def split(self, values: Any, axis: int = 0) -> list[Any]:
        """Cut an array with an entry for each step of the grid into one for each sequence, without the absent rows."""
        parts = np.split(values, self.rows.starts[1:], axis=axis)
        kept = zip(parts, self.tables, strict=True)
        return [part if table.places is None else np.take(part, table.places, axis=axis) for part, table in kept]

    def answer(self, parts: Sequence[Any]) -> Any:
        """Return the answers about all sequences as a list, or the only one if a single sequence was given."""
        return list(parts) if self.several else parts[0]

    def arrays(self, values: Any, wrap: Callable[[Any, Any], Any] | None = None) -> Any:
        """Return an array with an entry for each step, cut; ``wrap`` gives it the form of a table of features."""
        parts = self.split(values)
        if wrap is not None:
            parts = [wrap(table.features, part) for part, table in zip(parts, self.tables, strict=True)]
        return self.answer(parts)

    def frames(self, values: Any, wrap: Callable[[Any, Any], Any]) -> Any:
        """Return values of all features in the form of the tables that were given."""
        parts = zip(self.split(values), self.tables, strict=True)
        return self.answer([table.like(wrap(table.features, part)) for part, table in parts])


def read_tables(
    estimator: Any, X: Any, inputs: Any = None, *, reading: Reading, reset: bool = False
) -> tuple[SeriesTables, Reading]:
    """Read one sequence or several after scikit-learn's checks of shape and names; NaN is a missing cell.

    Returns the sequences on their grids, and the reading with the step that they have.
    """
    X, reading = _unstacked(X, reading, reset=reset)
    several = is_several(X)
    given = list(X) if several else [X]
    axes = [axis_of(x, reading.time if reset or (is_frame(x) and _has(x, reading.time)) else None) for x in given]
    features = [without(x, [a.name] if a is not None and a.is_column else []) for x, a in zip(given, axes, strict=True)]
    for x, axis in zip(features, axes, strict=True):
        if axis is not None and axis.is_column and x.shape[1] == 0:
            msg = f"the table has no column beside the times in column {axis.name}.\nHint: time= names another column."
            raise DataError(msg)
    options: dict[str, Any] = {"accept_sparse": False, "ensure_all_finite": "allow-nan"}
    options |= {} if several else {"ensure_min_samples": 3 if reset else 1}
    matrices = [checked_matrix(estimator, x, reset=reset and k == 0, **options) for k, x in enumerate(features)]
    axes, at, reading = _on_grid(axes, reading, first=reset)
    if inputs is not None and any(place is not None for place in at):
        msg = (
            "inputs must be known at every step, but some steps have no row.\n"
            "Hint: insert the absent rows, with NaN in their cells, and pass their inputs."
        )
        raise DataError(msg)
    filled = [_filled(matrix, place) for matrix, place in zip(matrices, at, strict=True)]
    rows = as_sequences(filled if several else filled[0], None, inputs)
    tables = list(map(SeriesTable, given, features, axes, map(len, matrices), at))
    return SeriesTables(rows, tables, several), reading


def tables_of(estimator: Any, X: Any, inputs: Any = None) -> SeriesTables:
    """Read tables as the fit of an estimator did."""
    reading: Reading = estimator._state.reading  # noqa: SLF001
    return read_tables(estimator, X, inputs, reading=reading)[0]


def _has(X: Any, name: Any) -> bool:
    return name is not None and name in nw.from_native(X, eager_only=True).columns


def _filled(matrix: Array, at: Index | None) -> Array:
    """The rows with empty ones at the steps that have none."""
    if at is None:
        return matrix
    n, d = int(at[-1]) + 1, matrix.shape[1]
    require_memory(f"{n:,} steps of {d:,} columns", 4 * 8 * n * d, "set a longer step")
    filled = np.full((n, d), np.nan, dtype=matrix.dtype)
    filled[at] = matrix
    return filled


def _on_grid(
    axes: list[TimeAxis | None], reading: Reading, *, first: bool
) -> tuple[list[TimeAxis | None], list[Index | None], Reading]:
    """The axes with their common step, the place of each row on its grid, and the reading with the step."""
    known = [axis for axis in axes if axis is not None]
    if not known:
        if first and reading.step is not None:
            msg = (
                "step= needs times, but the rows have none.\nHint: pass a dataframe with an index or a column of dates."
            )
            raise DataError(msg)
        return axes, [None] * len(axes), reading
    if first and reading.step is not None:
        reading = reading._replace(is_given=True, unit=known[0].stamps.unit)
        reading = reading._replace(step=given_step(reading.step, known[0].stamps, _words(known[0])))
    step = _common_step(known, reading)
    given = reading.is_given and step is not None
    dated = [axis and replace(axis, step=step or axis.step) for axis in axes]
    found = [None if axis is None else places(axis.stamps, step, _words(axis), given=given) for axis in dated]
    kept = [None if at is None or at[-1] == len(at) - 1 else at for at in found]
    return dated, kept, reading._replace(step=step, unit=known[0].stamps.unit) if first else reading


def _common_step(axes: list[TimeAxis], reading: Reading) -> Step | None:
    """The step that the user gave, or that of the fit, or the smallest one of all sequences."""
    for axis in axes:
        require_order(axis.stamps, _words(axis))
    wanted = _in_unit(reading.step, reading.unit, axes[0].stamps.unit)
    if reading.is_given and wanted is not None:
        return wanted
    found = [step for axis in axes if (step := find_step(axis.stamps, _words(axis))) is not None]
    steps = found if wanted is None else [wanted, *found]
    if not steps:
        return None
    least = wanted or min(steps, key=lambda step: step.count)
    for step in steps:
        if step.unit != least.unit or abs(step.count / least.count - round(step.count / least.count)) > 1e-3:
            unit = axes[0].stamps.unit
            msg = (
                f"all sequences must have the same step; got {least.words(unit)} and {step.words(unit)}.\n"
                "Hint: resample them, or fit them apart."
            )
            raise DataError(msg)
    return least


def _in_unit(step: Step | None, unit: str, other: str) -> Step | None:
    """The step of a fit for time stamps in another unit; None if those are of another kind."""
    if step is None or bool(unit) != bool(other):
        return None
    if step.unit != "instant" or unit == other:
        return step
    return replace(step, count=step.count * NANOSECONDS[unit] / NANOSECONDS[other])


def _words(axis: TimeAxis) -> Words:
    if axis.is_column:
        return Words(f"column {axis.name}")
    numbers = axis.kind in ("range", "number")
    more = "; X.reset_index(drop=True) counts the rows instead" if numbers else ""
    return Words("the index", otherwise=more)


# Stacked series


def _unstacked(X: Any, reading: Reading, *, reset: bool) -> tuple[Any, Reading]:
    """Series that are stacked in one table, as columns if there is one value in a row, else as a list of tables."""
    name = reading.series
    if name is None or (not reset and not (is_frame(X) and _has(X, name))):
        return X, reading
    if not is_frame(X) or not _has(X, name):
        columns = nw.from_native(X, eager_only=True).columns if is_frame(X) else "an array has none"
        msg = f"series must be the name of a column; got {name!r}. The columns are: {columns}."
        raise DataError(msg)
    labels = nw.from_native(X, eager_only=True).get_column(name).to_list()
    which: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        if label is None or label != label:  # noqa: PLR0124 a missing name
            msg = f"column {name} must name a series in each row; row {row + 1:,} has none."
            raise DataError(msg)
        which.setdefault(str(label), []).append(row)
    table = without(X, [name])
    axis = axis_of(table, reading.time)
    if axis is not None and axis.is_column and str(axis.name) in which:
        msg = f"no series may be called like the column of times; got {axis.name} in column {name}.\nHint: rename it."
        raise DataError(msg)
    plain = without(table, [axis.name] if axis is not None and axis.is_column else [])
    if reset:
        reading = reading._replace(names=tuple(which), is_wide=plain.shape[1] == 1)
    if not reading.is_wide:
        return [_some(table, rows) for rows in which.values()], reading
    return _wide(plain, axis, which, reading.names), reading


def _some(table: Any, rows: list[int]) -> Any:
    if nw.dependencies.is_pandas_dataframe(table):
        return table.iloc[rows]
    return nw.from_native(table, eager_only=True)[rows].to_native()


def _wide(plain: Any, axis: TimeAxis | None, which: dict[str, list[int]], names: tuple[str, ...]) -> Any:
    """One column for each series, and a row for each time that any of them has."""
    unknown = [name for name in which if name not in names]
    if unknown:
        msg = f"series {unknown[0]} was not in the table of the fit, which has {', '.join(names[:10])}."
        raise DataError(msg)
    values = np.asarray(frame_values(plain)[0])[:, 0]
    # An index that counts the rows of all series says nothing about their times.
    stamps = None if axis is None or axis.kind == "range" else axis.stamps
    ticks = np.empty(len(values), np.int64) if stamps is None else stamps.ticks
    for name, rows in which.items():
        if stamps is None:
            ticks[rows] = np.arange(len(rows))
        else:
            require_order(replace(stamps, ticks=ticks[rows]), Words(f"the time of series {name}"))
    times, at = np.unique(ticks, return_inverse=True)
    out = np.full((len(times), len(names)), np.nan)
    for j, name in enumerate(names):
        rows = which.get(name, [])
        out[at[rows], j] = values[rows]
    backend = nw.from_native(plain, eager_only=True).implementation.value
    columns: dict[str, Any] = {name: out[:, j] for j, name in enumerate(names)}
    if axis is None or stamps is None:
        return frame_of(columns, backend)
    new = replace(stamps, ticks=times)
    if not axis.is_column:
        return frame_of(columns, backend, axis.index(new))
    frame = nw.from_native(frame_of(columns, backend), eager_only=True)
    return frame.select(axis.column(new, backend), *names).to_native()
