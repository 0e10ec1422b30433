"""``probpca forecast``: the next rows of a table whose rows are time steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.cli.fit_commands import on_screen
from probpca.cli.run import finish, fresh, given_format, place_for_table, written
from probpca.cli.table import Table, open_table, require_column, survey
from probpca.cli.text import TextColumn, clip, is_terminal, note, numbers, several, table, words
from probpca.cli.times import Times, counted, time_column, times_after
from probpca.errors import DataError
from probpca.estimators import LinearDynamicalSystem
from probpca.sources.write import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.typing import Array


class Ahead(NamedTuple):
    """Forecast of the next rows."""

    time: str  # name of the column of time stamps
    times: list[Any]
    names: tuple[str, ...]
    mean: Array  # (steps, d)
    low: Array
    high: Array


def run(args: Any) -> None:
    """Learn a dynamical system from the table and forecast the rows after the last one."""
    place = place_for_table(args, args.table)
    looked = open_table(args.table, given_format(args))
    name = _time(args, looked)
    rows = looked.choose(name, args.exclude, args.numbers)
    rows, values, labels = _read(rows, name)
    for text in rows.about_labels():
        note(text)
    times = (
        times_after(labels, args.steps, f"{name} of {args.table}") if name else Times(counted(args.steps), even=True)
    )
    if not times.even:
        note(f"steps of {name} are not equally long; the forecast treats them as equal, and counts them.")
    if times.unknown:
        note(f"{name} {times.unknown}: whether rows are in order was not checked.")
    options = {"max_iter": args.max_iter, "verbose": is_terminal(), "random_state": args.seed}
    system = LinearDynamicalSystem(args.components, **options).fit(values)
    ahead = system.forecast(args.steps)
    found = Ahead(name or "step", times.following, rows.numbers, ahead.mean, *ahead.interval(args.level))
    facts = {"n_components": system.n_components_, "log_likelihood": system.log_likelihood_, "level": args.level}
    facts |= {"converged": system.converged_, "status": system.status_.value, "steps": args.steps}
    head = finish(args, place, _batches(found), lambda: facts)
    if head is None:
        return
    print(on_screen(system.summary(rows.numbers), system.status_))
    print(f"\nThe next {several(args.steps, 'step')}, with {100 * args.level:g} % intervals")
    print(_text(found))
    if place:
        print(f"\n{written(place, args.steps)}")


def _time(args: Any, looked: Table) -> str | None:
    """The column of time stamps: the given one, or one that is detected."""
    if args.time is not None:
        require_column(looked, args.time)
        name: str = args.time
        return name
    found = time_column(looked)
    if found is not None:
        note(f"{found} is used as the time; --time chooses another column.")
    return found


def _read(rows: Table, name: str | None) -> tuple[Table, Array, list[Any]]:
    """The table without empty columns, its numbers, and its time stamps."""
    if not rows.numbers:
        msg = f"{rows.place} has no column of numbers to forecast."
        raise DataError(msg)
    rows, found, _ = survey(rows, None)
    if found.n_rows < 3:
        msg = f"{rows.place} has {found.n_rows} rows; a forecast needs 3 or more."
        raise DataError(msg)
    blocks = rows.source(None, others=[] if name is None else [name]).hold()
    labels = [] if name is None else [label for block in blocks for label in block.others.column(name).to_pylist()]
    return rows, np.concatenate([block.values for block in blocks]).astype(np.float64), labels


def _batches(found: Ahead) -> Iterator[Any]:
    """One record batch of the time stamps, the expected values, then the ends of intervals."""
    columns: dict[str, Any] = {found.time: found.times, **dict(zip(found.names, found.mean.T, strict=True))}
    ends = fresh([f"{name}_{end}" for name in found.names for end in ("low", "high")], list(columns))
    columns |= dict(zip(ends[::2], found.low.T, strict=True)) | dict(zip(ends[1::2], found.high.T, strict=True))
    yield batch_of(columns).select([found.time, *found.names, *ends])


def _text(found: Ahead) -> str:
    """Table with one column for each series: the expected value and its interval."""
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
