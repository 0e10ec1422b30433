"""What is remembered of answers while they pass by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.cli.output import SCREEN, deliver, print_json
from probpca.cli.text import cells, several, table, wrap
from probpca.sources.files import arrow_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from probpca.typing import Array

SHOWN = 10
"""Rows that are shown of a long answer."""


@final
@dataclass(eq=False)
class Head:
    """The first rows of a table that passes by, or all of them."""

    limit: int | None = SHOWN
    n_rows: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def pass_on(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches, remembered as far as they are wanted."""
        for batch in batches:
            self.take(batch)
            yield batch

    def take(self, batch: Any) -> None:
        """Remember a batch."""
        room = batch.num_rows if self.limit is None else max(self.limit - self.n_rows, 0)
        for name, values in arrow_module("probpca.sources.arrow_tables").as_lists(batch.slice(0, room)).items():
            self.columns.setdefault(name, []).extend(values)
        self.n_rows += batch.num_rows

    def text(self) -> str:
        """The rows as a table, and how many more there are."""
        shown = table([cells(name, values) for name, values in self.columns.items()])
        left = self.n_rows - (self.n_rows if self.limit is None else min(self.limit, self.n_rows))
        return shown + (
            "\n" + wrap(f"... and {several(left, 'more row')}; --out FILE writes all of them") if left else ""
        )


@final
@dataclass(eq=False)
class Least:
    """The rows with the smallest scores of all that pass by."""

    count: int
    scores: Array = field(default_factory=lambda: np.empty(0))
    kept: list[Any] = field(default_factory=list)  # one entry a row, the smallest score first

    def take(self, scores: Array, entry: Any) -> None:
        """Look at more rows; ``entry(i)`` is what to remember of row i."""
        merged = np.concatenate([self.scores, scores])
        best = np.argsort(merged, kind="stable")[: self.count]
        before = len(self.scores)
        self.kept = [self.kept[i] if i < before else entry(int(i) - before) for i in best]
        self.scores = merged[best]


@final
@dataclass(eq=False)
class LeastRows:
    """The rows with the smallest scores, as a record batch: the smallest score first."""

    count: int
    scores: Array = field(default_factory=lambda: np.empty(0))
    rows: Any = None

    def take(self, scores: Array, batch: Any) -> None:
        """Look at more rows."""
        merged = np.concatenate([self.scores, scores])
        best = np.argsort(merged, kind="stable")[: self.count]
        self.rows = arrow_module("probpca.sources.arrow_tables").picked(self.rows, batch, best)
        self.scores = merged[best]


def finish(
    args: Any, place: Path | None, batches: Iterator[Any], found: Callable[[], Mapping[str, Any]]
) -> Head | None:
    """Send an answer where it should go; what is left to print for a person, if that is anything.

    ``found()`` is told to programs, together with the answer itself where no file takes it. It is asked
    after the last batch has passed.
    """
    head = Head(None if args.json and place is None else SHOWN)
    passing = head.pass_on(batches)
    if place is not None or args.out == SCREEN:
        deliver(passing, place)
    else:
        for _ in passing:
            pass
    if args.out == SCREEN:
        return None
    if args.json:
        answer = {"out": place} if place else {"data": head.columns}
        print_json({"command": args.command, "rows": head.n_rows, **found(), **answer})
        return None
    return head


def told_written(place: Path, n_rows: int) -> str:
    """A line about a file that was written."""
    return f"{place}: {several(n_rows, 'row')}"
