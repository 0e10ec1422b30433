"""``probpca forecast``: the next rows of a table whose rows are time steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.cli.fit_commands import on_screen
from probpca.cli.run import (
    finish,
    fresh,
    given_format,
    place_for_plot,
    place_for_table,
    write_figure,
    written,
)
from probpca.cli.screen import is_terminal, print_answer
from probpca.cli.table import Table, open_table, require_column, survey
from probpca.cli.text import TextColumn, note, numbers, screen_width, table, words, wrap
from probpca.cli.times import Times, counted, joined, part_of_year, time_column, times_after
from probpca.errors import DataError
from probpca.estimators import LinearDynamicalSystem
from probpca.inference.time_series.prediction import require_memory_for_steps
from probpca.result_tables import clip, several
from probpca.sources.write import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from probpca.typing import Array

FIRST_STEPS = 8
"""Steps that are shown."""
PANELS = 6
"""Series that are drawn."""


class Ahead(NamedTuple):
    """Forecast of the next rows."""

    time: str  # name of the column of time stamps
    times: list[Any]
    names: tuple[str, ...]
    mean: Array  # (steps, d)
    low: Array
    high: Array


class Stamps(NamedTuple):
    """Columns that hold the time stamps."""

    name: str | None = None  # None if rows are only counted; empty for a column without a name
    part: str | None = None  # the quarter or month that goes with a column of years

    @property
    def columns(self) -> list[str]:
        """Names of the columns in the file."""
        return [name for name in self if name is not None]

    @property
    def title(self) -> str:
        """Name of the column of time stamps in the forecast."""
        return "step" if self.name is None else self.part or self.name or "time"


def run(args: Any) -> None:
    """Learn a dynamical system from the table and forecast the rows after the last one."""
    require_memory_for_steps(args.steps)
    place = place_for_table(args, args.table)
    plot = None if args.plot is None else place_for_plot(args)
    looked = open_table(args.table, given_format(args))
    stamps = _stamps(args, looked)
    rows, values, labels = _read(looked.choose(stamps.name, [*args.exclude, *stamps.columns[1:]], args.numbers), stamps)
    for text in rows.about_labels():
        note(text)
    times = _times(args, stamps, labels)
    options = {"max_iter": args.max_iter, "verbose": is_terminal(), "random_state": args.seed}
    system = LinearDynamicalSystem(args.components, **options).fit(values)
    ahead = system.forecast(args.steps)
    found = Ahead(stamps.title, times.following, rows.numbers, ahead.mean, *ahead.interval(args.level))
    for text in _growth(system, ahead.mean, values, rows.numbers):
        note(text)
    if plot is not None:
        _draw(system, values, found, times, args.level, plot)
        args.written.append(plot)
    facts = {"n_components": system.n_components_, "log_likelihood": system.log_likelihood_, "level": args.level}
    facts |= {"converged": system.converged_, "status": system.status_.value, "steps": args.steps}
    facts |= {} if plot is None else {"plot": plot}
    if finish(args, place, _batches(found), lambda: facts) is None:
        return
    print_answer(on_screen(system.summary(rows.numbers, width=screen_width()), system))
    print_answer(f"\nThe next {several(args.steps, 'step')}, with {100 * args.level:g}% intervals")
    print_answer(_text(found))
    files = [written(place, args.steps)] if place else []
    files += [_drawn(plot, len(rows.numbers))] if plot else []
    print_answer("".join(f"\n{line}" for line in files), end="\n" if files else "")


def _growth(system: LinearDynamicalSystem, mean: Array, values: Array, names: tuple[str, ...]) -> list[str]:
    """A warning for forecasts that grow without bound, or that leave the observed range far behind."""
    modulus = float(np.abs(system.eigenvalues_).max(initial=0.0))
    if modulus >= 1:
        return [f"the forecast grows without bound: a mode has modulus {modulus:.4f}, which should be below 1."]
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)  # (d,)
    beyond = np.maximum(mean.max(axis=0) - high, low - mean.min(axis=0))
    far = np.flatnonzero(beyond > 3 * (high - low))
    return [f"the forecast of {names[int(far[0])]} goes far beyond the observed values."] if far.size else []


def _draw(system: LinearDynamicalSystem, values: Array, found: Ahead, times: Times, level: float, place: Path) -> None:
    """Draw the last part of the first series, and their forecasts."""
    from probpca.displays.forecast_display import ForecastDisplay  # noqa: PLC0415

    steps, n = len(found.times), len(values)
    axis = times.axis or range(1, n + steps + 1)
    display = ForecastDisplay.from_estimator(
        system,
        values,
        horizon=steps,
        most=PANELS,
        levels=[level] if level <= 0.5 else [0.5, level],
        times=np.asarray(axis),
        feature_names=list(found.names),
        last=max(60, 8 * steps),
    )
    last = display.axes_[-1]
    last.set_xlabel(found.time if times.axis else "step")
    if all(isinstance(time, float | int) and time == int(time) for time in axis):
        last.locator_params(axis="x", integer=True)
    write_figure(display.figure_, place)


def _drawn(place: Path, n_series: int) -> str:
    some = f"the first {PANELS} of {n_series:,} series" if n_series > PANELS else "the forecast"
    return wrap(f"A plot of {some} was saved to {place}.")


def _stamps(args: Any, looked: Table) -> Stamps:
    """The given column of time stamps, or the columns that are detected, with a note."""
    if args.time is not None:
        require_column(looked, args.time)
        return Stamps(args.time)
    name = time_column(looked)
    if name is None:
        return Stamps()
    part = part_of_year(looked, name)
    part = None if part in (*args.exclude, *args.numbers) else part
    both = f"columns {name} and {part} hold" if part else f"column {name or '(no name)'} holds"
    note(f"{both} the time stamps; --time chooses another column.")
    return Stamps(name, part)


def _times(args: Any, stamps: Stamps, labels: list[Any]) -> Times:
    """Time stamps of the forecast, with notes on steps that are not equal or cannot be read."""
    if stamps.name is None:
        return Times(counted(args.steps), even=True)
    column = f"column {stamps.columns[-1] or '(no name)'}"
    times = times_after(labels, args.steps, f"{column} of {args.table}")
    if not times.even:
        note(f"the time steps in {column} are not equally long; the forecast treats them as equal and counts them.")
    if times.unknown:
        note(f"{column} {times.unknown}: the order of the rows was not checked.")
    return times


def _read(rows: Table, stamps: Stamps) -> tuple[Table, Array, list[Any]]:
    """The table without empty columns, its numbers, and its time stamps."""
    if not rows.numbers:
        msg = f"{rows.place} has no numeric column to forecast."
        raise DataError(msg)
    rows, found, _ = survey(rows, None)
    if found.n_rows < 3:
        msg = f"{rows.place} has {found.n_rows} rows; a forecast needs 3 or more rows."
        raise DataError(msg)
    blocks = rows.source(None, others=stamps.columns).hold()
    labels, *parts = [
        [label for block in blocks for label in block.others.column(column).to_pylist()] for column in stamps.columns
    ] or [[]]
    labels = labels if stamps.part is None else joined(labels, parts[0], stamps.part)
    return rows, np.concatenate([block.values for block in blocks]).astype(np.float64), labels


def _batches(found: Ahead) -> Iterator[Any]:
    """One record batch of the time stamps, the expected values, then the ends of intervals."""
    columns: dict[str, Any] = {found.time: found.times, **dict(zip(found.names, found.mean.T, strict=True))}
    ends = fresh([f"{name}_{end}" for name in found.names for end in ("low", "high")], list(columns))
    columns |= dict(zip(ends[::2], found.low.T, strict=True)) | dict(zip(ends[1::2], found.high.T, strict=True))
    yield batch_of(columns).select([found.time, *found.names, *ends])


def _text(found: Ahead) -> str:
    """Table with one column for each series: the expected value and its interval; the first steps only."""
    left = len(found.times) - FIRST_STEPS
    shown = slice(FIRST_STEPS)
    columns = [words(found.time, found.times[shown])]
    ends = found.mean[shown].T, found.low[shown].T, found.high[shown].T
    for name, mean, low, high in zip(found.names, *ends, strict=True):
        together = numbers(name, np.concatenate([mean, low, high])).cells
        n = len(mean)
        width = max(map(len, together))
        texts = [
            f"{m:>{width}} ({a:>{width}} to {b:>{width}})"
            for m, a, b in zip(together[:n], together[n : 2 * n], together[2 * n :], strict=True)
        ]
        columns.append(TextColumn(clip(name), texts))
    more = f"\n... and {several(left, 'more step')}; --out FILE writes all of them"
    return table(columns) + (more if left > 0 else "")
