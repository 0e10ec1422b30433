"""Commands that answer a question about each row: impute, transform, score, outliers; and sample, which draws rows."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.cli.clusters import assign
from probpca.cli.run import (
    Answer,
    Fitted,
    Least,
    LeastRows,
    Opened,
    finish,
    fresh,
    open_both,
    open_model,
    place_for_table,
    shown_progress,
    written,
)
from probpca.cli.screen import print_answer
from probpca.cli.table import require_column
from probpca.cli.text import TextColumn, counts, left_of, note, numbers, one_line, screen_width, table, words, wrap
from probpca.errors import DataError
from probpca.estimators.summary import whole_items
from probpca.inference.calibration import RARE, probability
from probpca.inference.imputation import Imputed
from probpca.result_tables import GAP, clip, several
from probpca.sources.write import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from probpca.typing import Array, Floats

WORST_ROWS = 10
"""Outliers that are shown."""
FIRST_CELLS = 10
"""Imputed cells that are shown."""


def run(args: Any) -> None:
    """Run one of the commands."""
    commands = {"impute": _impute, "transform": _transform, "score": _score, "outliers": _outliers, "sample": _sample}
    commands[args.command](args)


class Cell(NamedTuple):
    """One cell that was filled in, with the ends of its interval."""

    row: Any
    column: str
    value: float
    low: float
    high: float


@dataclass
class Completion:
    """Completed rows, block by block; the first cells and the number of all that were missing are remembered."""

    opened: Opened
    level: float
    intervals: bool  # are they wanted?
    limits: tuple[Array, Array]  # smallest and largest value that may be filled in, of each column: (d,) each
    n_cells: int = 0
    n_rows: int = 0  # rows with a missing cell
    n_empty: int = 0  # rows without any value
    n_seen: int = 0  # all rows
    cells: list[Cell] = field(default_factory=list)  # the first ones
    spread: list[Cell] = field(default_factory=list)  # the first ones, two of a row at most
    least: Array = field(init=False)  # smallest observed value of each column: (d,)
    n_negative: Array = field(init=False)  # negative values that were filled in, of each column: (d,)

    def __post_init__(self) -> None:
        """Begin with nothing seen."""
        self.least = np.full(len(self.opened.features), np.inf)
        self.n_negative = np.zeros(len(self.opened.features), dtype=np.intp)

    def question(self, values: Floats) -> tuple[Array, tuple[Array, Array] | None]:
        """Completed values, and the ends of their intervals if these are wanted, from one posterior."""
        estimator = self.opened.fitted.estimator
        clip = partial(self._clipped, np.isnan(values))
        if self.opened.fitted.is_mixture:  # whose cells are not Gaussian
            completed = clip(estimator.impute(values))
            if not self.intervals:
                return completed, None
            low, high = map(clip, estimator.impute_interval(values, self.level))
            return completed, (low, high)
        if not self.intervals:
            return clip(estimator.impute(values, training=self.opened.training)), None
        imputed = Imputed(*estimator.impute(values, return_std=True, training=self.opened.training))
        low, high = map(clip, imputed.interval(self.level))
        return clip(imputed.values), (low, high)

    def _clipped(self, missing: Array, answer: Array) -> Array:
        """The answer within the limits where a cell is missing, and as it is elsewhere."""
        return np.where(missing, np.clip(answer, *self.limits), answer)

    def answers(self, watch: Any, exact: Iterable[str] = ()) -> Iterator[Answer]:
        """Completed values and intervals of each block; blocks carry the ``exact`` features too."""
        for answer in self.opened.ask(self.question, watch, exact):
            self._remember(answer)
            yield answer

    def batches(self, watch: Any, *, intervals: bool) -> Iterator[Any]:
        """Record batches with all columns in their places, and the ends of intervals behind them."""
        opened = self.opened
        exact, types = opened.table.file.kept_types(opened.features)
        ends = opened.fresh([f"{name}_{end}" for name in opened.features for end in ("low", "high")])
        for answer in self.answers(watch, exact):
            values, interval = answer.found
            columns = dict(zip(opened.features, values.T, strict=True))
            carried = answer.block.others
            columns |= {} if carried is None else {name: carried.column(name) for name in [*opened.others, *exact]}
            columns = {name: columns[name] for name in opened.table.names}
            if intervals and interval is not None:
                low, high = interval
                columns |= dict(zip(ends, np.stack([low, high], axis=2).reshape(len(low), -1).T, strict=True))
            yield batch_of(columns, types)

    def facts(self) -> dict[str, Any]:
        """Facts for programs."""
        return {"filled_cells": self.n_cells, "filled_rows": self.n_rows, "negative_cells": self.unlikely()}

    def unlikely(self) -> dict[str, int]:
        """Columns that are never negative where they are observed, and the number of negative values filled in."""
        odd = (self.n_negative > 0) & (self.least >= 0) & np.isfinite(self.least)
        return {self.opened.features[j]: int(self.n_negative[j]) for j in np.flatnonzero(odd)}

    def remark(self) -> str:
        """Remark on columns that are never negative and were filled with negative values; empty if there are none."""
        found = self.unlikely()
        if not found:
            return ""
        some = ", ".join(f"{name} ({count:,})" for name, count in list(found.items())[:5])
        more = f" and {several(len(found) - 5, 'more column')}" if len(found) > 5 else ""
        option = shlex.join(f"{name}=0" for name in list(found)[:5])
        return (
            f"negative values were imputed in columns that are never negative: {some}{more}; --min-value {option} "
            "sets these values to 0."
        )

    def _remember(self, answer: Answer) -> None:
        """Count missing cells, and remember the first of them if intervals are known."""
        missing, (values, interval) = np.isnan(answer.block.values), answer.found
        self.n_seen += len(missing)
        self.n_cells += int(missing.sum())
        self.n_rows += int(missing.any(axis=1).sum())
        self.least = np.fmin(self.least, np.fmin.reduce(answer.block.values, axis=0, initial=np.inf))
        self.n_negative += (missing & (values < 0)).sum(axis=0)
        self.n_empty += int(missing.all(axis=1).sum())
        if interval is None or len(self.spread) >= FIRST_CELLS:
            return
        labels, (low, high) = self.opened.labels(answer), interval
        two_of_a_row = missing & (np.cumsum(missing, axis=1) <= 2)
        for kept, some in ((self.cells, missing), (self.spread, two_of_a_row)):
            for i, j in np.argwhere(some)[: FIRST_CELLS - len(kept)]:
                ends = float(low[i, j]), float(high[i, j])
                kept.append(Cell(labels[i], self.opened.features[j], values[i, j], *ends))

    def __str__(self) -> str:
        """Table of all cells, or of the first ones if they are many, two of a row at most."""
        shown = self.cells if self.n_cells <= FIRST_CELLS else self.spread
        rows, columns, values, low, high = zip(*shown, strict=True)
        titles = ("imputed", f"{100 * self.level:g}% from", "to")
        found = [numbers(title, ends, (low, high)) for title, ends in zip(titles, (values, low, high), strict=True)]
        width = left_of(found) // 2 - GAP
        text = table([words("row", rows, width), words("column", columns, width), *found])
        left = self.n_cells - len(shown)
        more = f"... and {several(left, 'more cell')}\n" if left else ""
        return f"{text}\n{more}\n{wrap('--out FILE writes the completed table; --intervals adds the intervals to it.')}"

    def summary(self) -> str:
        """How many cells were missing, and in which rows nothing is known."""
        if not self.n_cells:
            return "No cell is missing: there is nothing to impute."
        share = self.n_cells / (self.n_seen * len(self.opened.features))
        cells = f"{several(self.n_cells, 'missing cell')} imputed in {several(self.n_rows, 'row')}"
        empty = f"; {several(self.n_empty, 'row')} without any value got the column means" if self.n_empty else ""
        return f"{cells} ({share:.1%} of the table){empty}."


def _limits(args: Any, opened: Opened) -> tuple[Array, Array]:
    """Smallest and largest value that may be filled in, of each column: (d,) each."""
    features = opened.features
    low, high = np.full(len(features), -np.inf), np.full(len(features), np.inf)
    for bound, option, given in ((low, "--min-value", args.min_value), (high, "--max-value", args.max_value)):
        for name, value in sorted(given, key=lambda pair: pair[0] != ""):  # one column before all columns
            if name and name not in features:
                require_column(opened.table, name)
                msg = f"{option} {name}={value:g}: this column is not part of the model, so it is not imputed."
                raise DataError(msg)
            bound[[features.index(name)] if name else slice(None)] = value
    if (low > high).any():
        j = int(np.argmax(low > high))
        msg = f"--min-value must not exceed --max-value; got {low[j]:g} and {high[j]:g} for column {features[j]!r}."
        raise DataError(msg)
    return low, high


def _impute(args: Any) -> None:
    """Write the completed table, or show what was filled in."""
    place = place_for_table(args, args.model, args.table)
    opened = open_both(args)
    shown = place is None and args.out != "-" and not args.json
    completion = Completion(opened, args.level, intervals=args.intervals or shown, limits=_limits(args, opened))
    with shown_progress() as watch:
        if shown:
            for _ in completion.answers(watch):
                pass
        else:
            shown = (
                finish(args, place, completion.batches(watch, intervals=args.intervals), completion.facts) is not None
            )
    if remark := completion.remark():
        note(remark)
    if not shown:
        return
    print_answer(wrap(completion.summary()))
    if place:
        print_answer(written(place, completion.n_seen))
    elif completion.cells:
        print_answer(f"\n{completion}")


class Ends(NamedTuple):
    """The rows at both ends of one component."""

    low: Least
    high: Least

    def text(self, name: str) -> str:
        """Two lines, with as many whole names of rows as fit the screen."""
        low = [f"{clip(row)} {score:+.1f}" for row, score in zip(self.low.kept, self.low.scores, strict=True)]
        high = [f"{clip(row)} {-score:+.1f}" for row, score in zip(self.high.kept, self.high.scores, strict=True)]
        blank = " " * len(name)
        return "\n".join([one_line(f"{name}  lowest   ", low), one_line(f"{blank}  highest  ", high)])


def _transform(args: Any) -> None:
    """Write the scores of each row on the components, or show some of them."""
    place = place_for_table(args, args.model, args.table)
    opened = open_both(args)
    if opened.fitted.is_mixture:
        assign(args, place, opened)
        return
    q, names = opened.fitted.estimator.n_components_, opened.fitted.estimator.get_feature_names_out()
    ends = [Ends(Least(3), Least(3)) for _ in range(min(q, 3))]
    with shown_progress() as watch:
        head = finish(args, place, _latents(opened, watch, ends), lambda: {"n_components": q})
    if head is None:
        return
    if not place:
        others = set(opened.others)
        scores = [name for name in head.columns if name not in others]
        label = opened.label if opened.label in head.columns else None
        if label is not None:
            head.columns[label] = opened.shown(head.columns[label])
        print_answer(head.text(scores if label is None else [label, *scores]), end="\n\n")
    what = opened.fitted.component
    print_answer(wrap(f"Rows with the lowest and highest {what} scores (in standard deviations)"))
    for name, end in zip(names, ends, strict=False):
        print_answer(end.text(name))
    if q > len(ends):
        print_answer(f"... and {several(q - len(ends), f'more {what}')}")
    if place:
        print_answer(f"\n{written(place, head.n_rows)}")


def _latents(opened: Opened, watch: Any, ends: list[Ends]) -> Iterator[Any]:
    estimator = opened.fitted.estimator
    names = opened.fresh(list(estimator.get_feature_names_out()))
    for answer in opened.ask(estimator.transform, watch):
        labels = opened.labels(answer)
        for end, z in zip(ends, answer.found.T, strict=False):
            end.low.offer(z, labels)
            end.high.offer(-z, labels)
        yield batch_of({**opened.carried(answer.block), **dict(zip(names, answer.found.T, strict=True))})


@dataclass
class Scores:
    """Log-likelihoods, block by block; their sum and the least probable rows are remembered."""

    opened: Opened
    least: Least = field(default_factory=partial(Least, 5))
    total: float = 0.0
    n_rows: int = 0

    def batches(self, watch: Any) -> Iterator[Any]:
        """Record batches of labels and scores."""
        name = self.opened.fresh(["log_likelihood"])[0]
        for answer in self.opened.ask(self.opened.fitted.estimator.score_samples, watch):
            scores = answer.found
            self.least.offer(scores, self.opened.labels(answer))
            self.total += float(scores.sum())
            self.n_rows += len(scores)
            yield batch_of({**self.opened.carried(answer.block), name: scores})

    def facts(self) -> dict[str, Any]:
        """Facts for programs."""
        return {"log_likelihood": self.total, "mean_log_likelihood": self.total / self.n_rows}


def _score(args: Any) -> None:
    """Write the log-likelihood of each row, or show that of the whole table."""
    place = place_for_table(args, args.model, args.table)
    scores = Scores(open_both(args))
    with shown_progress() as watch:
        head = finish(args, place, scores.batches(watch), scores.facts)
    if head is None:
        return
    print_answer(f"{'log-likelihood':<18}{scores.total:,.2f}  ({scores.total / scores.n_rows:.4f} per row)")
    print_answer("\nLeast likely rows: they fit the model worst")
    print_answer(table([words("row", scores.least.kept), numbers("log-likelihood", scores.least.scores)]))
    if place:
        print_answer(f"\n{written(place, head.n_rows)}")


OF_COMPONENTS = ("p_value", "log10_p", "model_p_value", "log10_model_p", "D2", "T2", "residual")
"""Scores of rows under a model with components."""
OF_MIXTURES = ("p_value", "log10_p", "model_p_value", "log10_model_p", "cluster", "probability", "log_likelihood", "D2")
"""Scores of rows under a mixture."""
CELLS = tuple(f"{what}_{k + 1}" for k in range(3) for what in ("cell", "z"))
"""The three cells of a row that differ most from what the others predict, and by how many standard deviations."""


@dataclass
class Judgement:
    """Outlier scores, block by block; the number of rare rows and the worst rows are remembered."""

    opened: Opened
    worst: LeastRows
    names: dict[str, str] = field(init=False)  # of the columns that are added, new to the table
    n_rows: int = 0
    n_rare: int = 0

    def __post_init__(self) -> None:
        """Find names that the table does not have."""
        added = ["row", *(OF_MIXTURES if self.opened.fitted.is_mixture else OF_COMPONENTS), *CELLS]
        self.names = dict(zip(added, self.opened.fresh(added), strict=True))

    def question(self, values: Floats) -> dict[str, Any]:
        """Distances of rows, and the three cells of each that contribute most, column by column."""
        fitted = self.opened.fitted
        found: Any = fitted.estimator.outliers(values, training=self.opened.training)
        p = [found.p_value, found.log10_p_value, found.model_p_value, found.log10_model_p_value]
        if fitted.is_mixture:
            certainty = fitted.estimator.predict_proba(values).max(axis=1)
            scores = dict(
                zip(OF_MIXTURES, [*p, found.cluster, certainty, found.log_likelihood, found.distance], strict=True)
            )
        else:
            distances = [found.distance, found.latent_distance, found.residual_distance]
            scores = dict(zip(OF_COMPONENTS, [*p, *distances], strict=True))
        return scores | self._worst_cells(found.cell_scores)

    def _worst_cells(self, scores: Array) -> dict[str, Any]:
        """Names and scores of the three cells of each row with the largest ones; fewer if there are fewer columns."""
        features = np.array(self.opened.fitted.features, dtype=object)
        size = np.nan_to_num(np.abs(scores), nan=-1.0)
        columns: list[Any] = []
        for place in np.argsort(-size, axis=1, kind="stable")[:, :3].T:
            z = np.take_along_axis(scores, place[:, None], axis=1)[:, 0]
            columns += [np.where(np.isnan(z), None, features[place]), z]
        return dict(zip(CELLS, columns, strict=False))

    def batches(self, watch: Any) -> Iterator[Any]:
        """Record batches of row numbers, labels and scores, in the order of the table."""
        for answer in self.opened.ask(self.question, watch):
            found = answer.found
            self.n_rows += len(found["p_value"])
            self.n_rare += int((found["p_value"] < RARE).sum())
            columns = {self.names[name]: values for name, values in found.items()}
            number = {self.names["row"]: answer.row_numbers}
            batch = batch_of({**number, **self.opened.carried(answer.block), **columns})
            self.worst.offer(found["log10_p"], batch)
            yield batch

    def worst_batch(self, watch: Any) -> Iterator[Any]:
        """One record batch of the worst rows, the worst first."""
        for _ in self.batches(watch):
            pass
        yield self.worst.rows

    def facts(self) -> dict[str, Any]:
        """Facts for programs."""
        return {
            "judged_rows": self.n_rows,
            "rare_rows": self.n_rare,
            "rare_below": RARE,
            "rare_by_chance": RARE * self.n_rows,
            "training": self.opened.training,
            "note": self.note,
        }

    @property
    def note(self) -> str:
        """What to be careful about."""
        return str(self.opened.fitted.estimator.calibration_.note)

    def summary(self) -> str:
        """How many rows are rare, how they were judged, and what to be careful about."""
        have = "has" if self.n_rare == 1 else "have"
        rare = f"{self.n_rare:,} of {several(self.n_rows, 'row')} {have} a p-value below {RARE}"
        said = [f"{rare}; about {RARE * self.n_rows:.2g} would be expected by chance.", self.opened.judged]
        return "\n".join(map(wrap, [*said, *([f"note: {self.note}"] if self.note else [])]))

    def text(self, most: int) -> str:
        """The worst rows as a table."""
        names, label = self.names, self.opened.label
        rows = self.worst.rows.slice(0, most).to_pydict()
        if label in self.opened.fitted.features:
            label = None  # a feature; its cell is among those that may be named
        elif label is not None and [*map(str, rows[label])] == [*map(str, rows[names["row"]])]:
            label = None  # the numbers of the rows, which are there already
        shown = [counts(names["row"], rows[names["row"]])]
        if label is not None:
            shown += [words(label or "(no name)", self.opened.shown(rows[label]), screen_width() // 4)]
        for value, log10 in (("p_value", "log10_p"), ("model_p_value", "log10_model_p")):
            shown += [TextColumn(names[value], [*map(probability, rows[names[log10]])])]
        if "cluster" in names:
            shown += [words(names["cluster"], [f"C{k}" for k in rows[names["cluster"]]])]
        shown += [numbers(names["D2"], rows[names["D2"]])]
        cells = _cells([rows[names[name]] for name in CELLS if names[name] in rows], left_of(shown))
        rest = [numbers(names[name], rows[names[name]]) for name in ("T2", "residual") if name in names]
        fit = sum(column.width + GAP for column in rest) <= left_of([*shown, cells]) + GAP
        return table([*shown, cells, *rest] if fit else [*shown, cells])


def _cells(columns: list[list[Any]], room: int) -> TextColumn:
    """The cells that contribute most to the distance of each row, as many as there is room for."""
    title = "unusual cells (sd)"
    texts = [_cells_of_row(line, max(room, len(title))) for line in zip(*columns, strict=True)]
    return TextColumn(title, texts, right=False)


def _cells_of_row(line: tuple[Any, ...], room: int) -> str:
    """Whole names of columns, as many as there is room for; the name of one column alone may be shortened."""
    found = [(cell, f" {z:+.1f}") for cell, z in zip(line[::2], line[1::2], strict=True) if cell is not None]
    return whole_items([clip(cell, min(28, room - len(z))) + z for cell, z in found], room)


def _outliers(args: Any) -> None:
    """Write the outlier scores of each row, or show the worst rows."""
    place = place_for_table(args, args.model, args.table)
    judgement = Judgement(open_both(args), LeastRows(args.top or WORST_ROWS))
    with shown_progress() as watch:
        batches = judgement.batches if args.top is None else judgement.worst_batch
        head = finish(args, place, batches(watch), judgement.facts)
    if head is None:
        return
    print_answer(judgement.text(WORST_ROWS if place else judgement.worst.count))
    print_answer(f"\n{judgement.summary()}")
    if not place:
        print_answer("probpca outliers --help explains the columns.")
    if place:
        print_answer(f"\n{written(place, head.n_rows)}")


def _sample(args: Any) -> None:
    """Draw rows and write or show them."""
    place = place_for_table(args, args.model)
    fitted = open_model(args.model)
    head = finish(args, place, _draws(fitted, args.rows, args.seed), lambda: {"seed": args.seed})
    if head is not None:
        print_answer(written(place, head.n_rows) if place else head.text())


def _draws(fitted: Fitted, n: int, seed: int) -> Iterator[Any]:
    """Draw 100,000 rows at a time, each piece with its own seed; the first piece is what the library would draw."""
    for k, start in enumerate(range(0, n, 100_000)):
        state = np.random.default_rng([seed, k]) if k else seed
        drawn = fitted.estimator.sample(min(100_000, n - start), random_state=state)
        rows, labels = drawn if fitted.is_mixture else (drawn, None)
        cluster = {} if labels is None else {fresh(["cluster"], fitted.features)[0]: labels}
        yield batch_of({**cluster, **dict(zip(fitted.features, rows.T, strict=True))})
