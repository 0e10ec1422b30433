"""``probpca forecast``: the next rows of a table whose rows are time steps."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.blocks.time_grid import Words, find_step, require_order
from probpca.cli.fit_commands import on_screen
from probpca.cli.run import (
    finish,
    fresh,
    given_format,
    place_for,
    place_for_plot,
    place_for_table,
    write_figure,
    written,
)
from probpca.cli.screen import is_terminal, print_answer
from probpca.cli.table import Table, open_table, require_column, survey
from probpca.cli.text import TextColumn, note, numbers, screen_width, table, words, wrap
from probpca.cli.times import Labels, Times, joined, part_of_year, read_labels, time_column, times_after
from probpca.errors import DataError
from probpca.estimators import LinearDynamicalSystem
from probpca.estimators.backtest import span_words
from probpca.inference.time_series.prediction import require_memory_for_steps
from probpca.result_tables import clip, several
from probpca.sources.files import written_format
from probpca.sources.write import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.inference.time_series.backtest import Backtest
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
    typed: list[Any] | None = None  # times as dates, for files that hold dates
    series: tuple[str, list[str]] | None = None  # name of the column of series, and the series of each row


class Given(NamedTuple):
    """Sequences on their grids, and the times that follow."""

    names: tuple[str, ...]  # of the features
    sequences: list[Array]  # of shape (n, d), with empty rows at steps without a row
    times: list[Times]  # of each sequence
    stacked: tuple[str, list[str]] | None = None  # column of series and their names, if they are sequences

    @property
    def rows(self) -> Array | list[Array]:
        """What is fitted."""
        return self.sequences if self.stacked else self.sequences[0]


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
    page = None if args.report is None else _place_for_page(args)
    looked = open_table(args.table, given_format(args))
    stamps = _stamps(args, looked)
    apart = [] if args.series is None else [args.series]
    rows = looked.choose(stamps.name, [*args.exclude, *stamps.columns[1:], *apart], args.numbers)
    given = _read(args, rows, stamps)
    for text in rows.about_labels():
        note(text)
    season = given.times[0].season
    options = {"max_iter": args.max_iter, "verbose": is_terminal(), "random_state": args.seed}
    options |= {"seasonal_periods": season} if season > 1 and args.components != "cv" else {}
    system = LinearDynamicalSystem(args.components, **options).fit(given.rows)
    found = _ahead(args, system, given, stamps.title)
    judged = _backtest(args, options, given, stamps.name)
    for text in (*_far_beyond(found.mean, np.vstack(given.sequences), given.names), *_doubts(judged)):
        note(text)
    if plot is not None:
        _draw(system, given, found, args, plot)
        args.written.append(plot)
    if page is not None:
        _write_page(system, given, args, page)
    if finish(args, place, _batches(found, place), lambda: _facts(args, system, judged, plot)) is None:
        return
    print_answer(on_screen(system.summary(given.names, width=screen_width()), system))
    if judged is not None:
        print_answer(wrap(f"backtest          {judged.sentence()}", indent=" " * 18))
    print_answer(f"\nThe next {several(args.steps, 'step')}, with {100 * args.level:g}% intervals")
    print_answer(_text(found))
    files = [written(place, len(found.times))] if place else []
    files += [_drawn(plot, len(given.names))] if plot else []
    files += [wrap(f"A report was written to {page}. Open it in a browser.")] if page else []
    print_answer("".join(f"\n{line}" for line in files), end="\n" if files else "")


def _backtest(args: Any, options: dict[str, Any], given: Given, time: str | None) -> Backtest | None:
    """Forecasts of the same model from earlier rows; None if there are too few rows."""
    longest = max(map(len, given.sequences))
    horizon = min(args.steps, max(longest // 4, 1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # which the fit to all rows has shown
            quiet = LinearDynamicalSystem(args.components, **{**options, "verbose": False})
            found = quiet.backtest(given.rows, horizon, level=args.level)
    except DataError:
        return None
    steps = longest - int(found.origins.min()) if given.stacked is None else horizon
    return replace(found, span=span_words(given.times[0].step, steps, time))


def _place_for_page(args: Any) -> Path:
    """Path of the report, which is checked before the fit."""
    if args.series is not None:
        msg = "--report shows a single sequence, and --series may give several.\nHint: omit one of them."
        raise DataError(msg)
    return place_for(args.report, force=args.force, reads=[args.table], suffixes=(".html", ".htm"))


def _write_page(system: LinearDynamicalSystem, given: Given, args: Any, place: Path) -> None:
    from probpca.pages.series_report import SeriesReportSettings, series_report  # noqa: PLC0415

    settings = SeriesReportSettings(level=args.level)
    named: dict[str, Any] = {
        "feature_names": list(given.names),
        "times": given.times[0].axis or None,
        "title": Path(args.table).name,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        series_report(system, given.sequences[0], place, horizon=args.steps, settings=settings, **named)
    args.written.append(place)


def _doubts(judged: Backtest | None) -> tuple[str, ...]:
    """What speaks against relying on the forecast, by the backtest."""
    return ("there are too few rows to test forecasts on the past.",) if judged is None else judged.notes


def _facts(args: Any, system: LinearDynamicalSystem, judged: Backtest | None, plot: Path | None) -> dict[str, Any]:
    """What a program is told beside the forecasts."""
    facts = {"n_components": system.n_components_, "log_likelihood": system.log_likelihood_, "level": args.level}
    facts |= {"converged": system.converged_, "status": system.status_.value, "steps": args.steps}
    facts |= {} if plot is None else {"plot": plot}
    if judged is None:
        return facts
    errors = {f"relative_error_{name}": value for name, value in judged.relative_error.items()}
    found = {"horizon": judged.horizon, "n_forecasts": judged.n_origins, "coverage": judged.mean_coverage, **errors}
    return facts | {"backtest": {name: value if value == value else None for name, value in found.items()}}  # noqa: PLR0124


def _ahead(args: Any, system: LinearDynamicalSystem, given: Given, title: str) -> Ahead:
    """Forecasts of all sequences below each other."""
    forecasts = system.forecast(args.steps)
    parts = [(one.mean, *one.interval(args.level)) for one in (forecasts if given.stacked else [forecasts])]
    labels = [label for times in given.times for label in times.following]
    typed = [label for times in given.times for label in times.typed or []]
    series = None
    if given.stacked:
        name, names = given.stacked
        series = name, [one for one in names for _ in range(args.steps)]
    mean, low, high = map(np.vstack, zip(*parts, strict=True))
    return Ahead(title, labels, given.names, mean, low, high, typed if len(typed) == len(labels) else None, series)


def _far_beyond(mean: Array, values: Array, names: tuple[str, ...]) -> list[str]:
    """A warning for forecasts that leave the observed range far behind."""
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)  # (d,)
    beyond = np.maximum(mean.max(axis=0) - high, low - mean.min(axis=0))
    far = np.flatnonzero(beyond > 3 * (high - low))
    return [f"the forecast of {names[int(far[0])]} goes far beyond the observed values."] if far.size else []


def _draw(system: LinearDynamicalSystem, given: Given, found: Ahead, args: Any, place: Path) -> None:
    """Draw the last part of the first series, and their forecasts."""
    from probpca.displays.forecast_display import ForecastDisplay  # noqa: PLC0415

    values, times, steps, level = given.sequences[0], given.times[0], args.steps, args.level
    axis = times.axis or range(1, len(values) + steps + 1)
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
    if name is None or name in (*args.exclude, *args.numbers):
        return Stamps()
    part = part_of_year(looked, name)
    part = None if part in (*args.exclude, *args.numbers) else part
    both = f"columns {name} and {part} hold" if part else f"column {name or '(no name)'} holds"
    note(f"{both} the time stamps; --time chooses another column.")
    return Stamps(name, part)


def _read(args: Any, rows: Table, stamps: Stamps) -> Given:
    """Read the numbers and the times, take stacked series apart, and add empty rows where steps have none."""
    if not rows.numbers:
        msg = f"{rows.place} has no numeric column to forecast."
        raise DataError(msg)
    rows, found, _ = survey(rows, None)
    if found.n_rows < 3:
        msg = f"{rows.place} has {found.n_rows} rows; a forecast needs 3 or more rows."
        raise DataError(msg)
    apart = [] if args.series is None else [args.series]
    blocks = rows.source(None, others=[*stamps.columns, *apart]).hold()
    kept = [[label for b in blocks for label in b.others.column(name).to_pylist()] for name in stamps.columns + apart]
    series = kept.pop() if apart else None
    labels = joined(kept[0], kept[1], stamps.part) if stamps.part is not None else kept[0] if kept else None
    values = np.concatenate([block.values for block in blocks]).astype(np.float64)
    column = f"column {(stamps.columns or [''])[-1] or '(no name)'}"
    words = Words(
        f"{column} of {args.table}",
        "--step",
        "--series",
        "; --time chooses another column, --exclude COLUMN counts the rows",
    )
    read = Labels(None) if labels is None else read_labels(labels)
    if read.unknown:
        note(f"{column} {read.unknown}: the order of the rows was not checked.")
    if series is not None:
        return stacked_series(args, read, words, values, series, rows.numbers)
    times = times_after(read, args.steps, words, args.step)
    return Given(rows.numbers, [_on_grid(values, times, column)], [times])


def stacked_series(
    args: Any, read: Labels, words: Words, values: Array, series: list[Any], names: tuple[str, ...]
) -> Given:
    """Series of one column as columns of one sequence, series of several columns as sequences."""
    absent = next((row for row, name in enumerate(series, 1) if name is None or str(name).strip() == ""), None)
    if absent is not None:
        msg = f"column {args.series} must name a series in each row; row {absent:,} has none."
        raise DataError(msg)
    which: dict[str, list[int]] = {}
    for row, name in enumerate(series):
        which.setdefault(str(name), []).append(row)
    stamps = read.stamps
    parts = {name: None if stamps is None else replace(stamps, ticks=stamps.ticks[r]) for name, r in which.items()}
    for name, part in parts.items():
        if part is not None:
            require_order(part, words._replace(where=f"{words.where}, series {name},"))
    if values.shape[1] == 1:
        return _side_by_side(args, read, words, values[:, 0], which)
    sequences, times = [], []
    step = args.step
    if step is None and stamps is not None:
        step = find_step(replace(stamps, ticks=np.unique(stamps.ticks)), words)
    for name, part in parts.items():
        times.append(times_after(read._replace(stamps=part), args.steps, words, step))
        sequences.append(_on_grid(values[which[name]], times[-1], f"series {clip(name)}"))
    return Given(names, sequences, times, (args.series, list(which)))


def _side_by_side(args: Any, read: Labels, words: Words, values: Array, which: dict[str, list[int]]) -> Given:
    """One column for each series and one row for each time that any of them has."""
    if read.stamps is None:
        ticks = np.empty(len(values), np.int64)
        for rows in which.values():
            ticks[rows] = np.arange(len(rows))
        union, at = np.unique(ticks, return_inverse=True)
    else:
        union, at = np.unique(read.stamps.ticks, return_inverse=True)
        read = read._replace(stamps=replace(read.stamps, ticks=union))
    wide = np.full((len(union), len(which)), np.nan)
    for j, rows in enumerate(which.values()):
        wide[at[rows], j] = values[rows]
    times = times_after(read, args.steps, words, args.step)
    return Given(tuple(which), [_on_grid(wide, times, words.where)], [times])


def _on_grid(values: Array, times: Times, where: str) -> Array:
    """The rows with empty ones at the steps that have none, and a note about them."""
    if times.places is None or times.places[-1] == len(values) - 1:
        return values
    filled = np.full((int(times.places[-1]) + 1, values.shape[1]), np.nan)
    filled[times.places] = values
    absent = len(filled) - len(values)
    have, count = ("has", "counts as an empty row") if absent == 1 else ("have", "count as empty rows")
    note(f"{absent:,} of {len(filled):,} steps in {where.partition(' of ')[0]} {have} no row and {count}.")
    return filled


def _batches(found: Ahead, place: Path | None) -> Iterator[Any]:
    """One record batch of the series, the time stamps, the expected values, then the ends of intervals."""
    dated = found.typed is not None and place is not None and written_format(place) in ("parquet", "feather")
    columns: dict[str, Any] = {} if found.series is None else dict([found.series])
    columns |= {found.time: found.typed if dated else found.times}
    first = list(columns)
    columns |= dict(zip(found.names, found.mean.T, strict=True))
    ends = fresh([f"{name}_{end}" for name in found.names for end in ("low", "high")], list(columns))
    columns |= dict(zip(ends[::2], found.low.T, strict=True)) | dict(zip(ends[1::2], found.high.T, strict=True))
    yield batch_of(columns).select([*first, *found.names, *ends])


def _text(found: Ahead) -> str:
    """Table with one column for each series: the expected value and its interval; the first steps only."""
    left = len(found.times) - FIRST_STEPS
    shown = slice(FIRST_STEPS)
    columns = [] if found.series is None else [words(found.series[0], found.series[1][shown])]
    columns.append(words(found.time, found.times[shown]))
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
