"""``probpca forecast``: what comes next in a table whose rows are steps of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.cli.answering import fresh
from probpca.cli.commands.fit import fitted_to_screen
from probpca.cli.gathering import finish, told_written
from probpca.cli.output import is_watched, note, place_for_table
from probpca.cli.survey import look_at
from probpca.cli.tables import Table, open_table, require_column
from probpca.cli.text import TextColumn, clip, numbers, several, table, words
from probpca.cli.times import Times, counted, time_column, times_after
from probpca.errors import DataError
from probpca.estimators import LinearDynamicalSystem
from probpca.sources.files import arrow_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.typing import Array

LEAST = 3
"""Steps from which something can be learned."""


class Ahead(NamedTuple):
    """The next rows."""

    time: str  # how the column of time is called
    times: list[Any]
    names: tuple[str, ...]
    mean: Array  # (steps, d)
    low: Array
    high: Array


def run(args: Any) -> None:
    """Learn a dynamical system from the table and go on from its last row."""
    place = place_for_table(args)
    looked = open_table(args.table)
    name = _time(args, looked)
    rows = looked.choose(name, args.exclude)
    rows, values, labels = _read(rows, name)
    times = (
        times_after(labels, args.steps, f"{name} of {args.table}") if name else Times(counted(args.steps), even=True)
    )
    if not times.even:
        note(f"steps of {name} are not equally long; the forecast takes them as if they were, and counts them.")
    if times.unknown:
        note(f"{name} {times.unknown}: whether rows are in order was not checked.")
    options = {"max_iter": args.max_iter, "verbose": is_watched(), "random_state": args.seed}
    system = LinearDynamicalSystem(args.components, **options).fit(values)
    ahead = system.forecast(args.steps)
    found = Ahead(name or "step", times.following, rows.numbers, ahead.mean, *ahead.interval(args.level))
    facts = {"n_components": system.n_components_, "log_likelihood": system.log_likelihood_, "level": args.level}
    facts |= {"converged": system.converged_, "status": system.status_.value, "steps": args.steps}
    head = finish(args, place, _batches(found), lambda: facts)
    if head is None:
        return
    print(fitted_to_screen(system.summary(rows.numbers)))
    print(f"\nThe next {several(args.steps, 'step')}, with {100 * args.level:g} % intervals")
    print(_told(found))
    if place:
        print(f"\n{told_written(place, args.steps)}")


def _time(args: Any, looked: Table) -> str | None:
    """The column of time: as it was given, or found."""
    if args.time is not None:
        require_column(looked.place, [column.name for column in looked.columns], args.time)
        name: str = args.time
        return name
    found = time_column(looked)
    if found is not None:
        note(f"{found} is taken for the time; --time names another column.")
    return found


def _read(rows: Table, name: str | None) -> tuple[Table, Array, list[Any]]:
    """The table without columns that are empty, its numbers, and the labels of time."""
    if not rows.numbers:
        msg = f"{rows.place} has no column of numbers to forecast."
        raise DataError(msg)
    rows, found, _ = look_at(rows, None)
    if found.n_rows < LEAST:
        msg = f"{rows.place} has {found.n_rows} rows; a forecast needs {LEAST} or more."
        raise DataError(msg)
    opened = arrow_module("probpca.sources.arrow_tables").ArrowTable.of(rows.place, rows.numbers)
    values: list[Any] = []
    labels: list[Any] = []
    for batch in opened.batches():
        values.append(opened.values(batch))
        labels += batch.column(name).to_pylist() if name is not None else []
    return rows, np.concatenate(values).astype(np.float64), labels


def _batches(found: Ahead) -> Iterator[Any]:
    """The time, the expected values, then the ends of intervals."""
    columns: dict[str, Any] = {found.time: found.times, **dict(zip(found.names, found.mean.T, strict=True))}
    ends = fresh([f"{name}_{end}" for name in found.names for end in ("low", "high")], list(columns))
    columns |= dict(zip(ends[::2], found.low.T, strict=True)) | dict(zip(ends[1::2], found.high.T, strict=True))
    batch = arrow_module("probpca.sources.arrow_tables").batch_of(columns)
    yield batch.select([found.time, *found.names, *ends])


def _told(found: Ahead) -> str:
    """One column for each series: what is expected, and from where to where."""
    columns = [words(found.time, found.times)]
    for name, mean, low, high in zip(found.names, found.mean.T, found.low.T, found.high.T, strict=True):
        together = numbers(name, np.concatenate([mean, low, high])).cells
        n = len(mean)
        width = max(map(len, together))
        texts = [
            f"{m:>{width}} ({a:>{width}} to {b:>{width}})"
            for m, a, b in zip(together[:n], together[n : 2 * n], together[2 * n :], strict=True)
        ]
        columns.append(TextColumn(clip(name), texts))
    return table(columns)
