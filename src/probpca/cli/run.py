"""Parts that commands share: model and table, answers block by block, and the output."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.atomic_write import appearing, descriptor, is_stream, require_writable
from probpca.cli.screen import is_terminal, print_json, table_output
from probpca.cli.table import Input, Table, infinite_cell, matched, open_table, row_names
from probpca.cli.text import cells, note, table as text_table, wrap
from probpca.errors import DataError, FileFormatError, SourceError
from probpca.estimators import PPCA, BayesianPCA, FactorAnalysis, MixturePPCA
from probpca.estimators.storage import write_estimator
from probpca.learning.progress import ProgressBar
from probpca.models.archive import open_regular
from probpca.models.serialization import read_record, reading
from probpca.printable_text import printable_line
from probpca.result_tables import LONGEST_NAME, clip, default_names, several
from probpca.sources import TableFormat
from probpca.sources.files import FORMATS, READ_ONLY, Stamp, written_format
from probpca.sources.write import stream_batches, take_rows, write_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from probpca.blocks import Block
    from probpca.sources.source import Watch
    from probpca.typing import Array, Floats, Index


class Fitted(NamedTuple):
    """An estimator that takes bare arrays, and the names of the columns that it was fitted to."""

    estimator: Any
    names: tuple[str, ...] | None
    table: Stamp | None = None  # the file that it was fitted to, as it was then
    table_format: TableFormat = TableFormat()  # how that file was read

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns to print."""
        return self.names or tuple(default_names(self.estimator.model_.n_features))

    @property
    def component(self) -> str:
        """What the model calls one of its latent variables."""
        return "factor" if isinstance(self.estimator, FactorAnalysis) else "component"

    @property
    def is_mixture(self) -> bool:
        """Whether the model has clusters."""
        return isinstance(self.estimator, MixturePPCA)


class Answer(NamedTuple):
    """The answer about one block of rows."""

    start: int  # number of rows before them
    block: Block
    found: Any

    @property
    def row_numbers(self) -> Index:
        """Numbers of the rows in the table, counted from 1."""
        return np.arange(self.start + 1, self.start + self.block.n_rows + 1)


class Opened(NamedTuple):
    """A model and a table with the same columns."""

    fitted: Fitted
    table: Table
    features: tuple[str, ...]  # columns of the table that the model sees, in its order
    label: str | None  # the column that names rows
    training: bool = False  # is it the table that the model was fitted to?

    @property
    def judged(self) -> str:
        """How p-values take the rows of the table, and why."""
        if self.training:
            return "The model was fitted to these rows: each p-value is computed as if its row had been left out."
        if self.fitted.table is None:
            why = "the model does not record which file it was fitted to"
        elif self.fitted.table.path == self.table.place.resolve():
            same = self.fitted.table == Stamp.of_table(self.table.place)
            why = f"{self.table.place} {'is read with other options than in' if same else 'has changed since'} the fit"
        else:
            why = f"the model was fitted to {self.fitted.table.path.name}"
        return f"The p-values treat the rows as new to the model: {why}."

    @property
    def others(self) -> list[str]:
        """Names of the columns that the model does not see."""
        known = set(self.features)
        return [name for name in self.table.names if name not in known]

    def ask(
        self, question: Callable[[Floats], Any], watch: Watch | None = None, exact: Iterable[str] = ()
    ) -> Iterator[Answer]:
        """Ask about every block of rows, in threads; the answers come in order.

        Blocks carry the other columns, the labels, and those of the features that are ``exact``, as they stand
        in the file.
        """
        estimator = self.fitted.estimator
        estimator.model_.prepare()  # once, before the threads would each do it
        carried = dict.fromkeys([*self.others, *exact, *filter(None, [self.label])])
        source = self.table.source(estimator.n_jobs, watch, numbers=self.features, others=list(carried))
        start = 0
        for block, found in source.answers(partial(_asked, question)):
            if isinstance(found, _Infinite):
                raise infinite_cell(self.table.place, start + found.row, self.features[found.column])
            yield Answer(start, block, found)
            start += block.n_rows
        if start == 0:
            msg = f"{self.table.place} has no rows."
            raise DataError(msg)

    def carried(self, block: Block) -> dict[str, Any]:
        """The other columns of a block, by name."""
        return {name: block.others.column(name) for name in self.others}

    def labels(self, answer: Answer) -> list[Any]:
        """Names of rows; those without a name, or with a name that repeats, get their number, counted from 1."""
        given = self.given_labels(answer.block)
        count = Counter(given)
        return [_named(label, number, count[label]) for number, label in enumerate(given, answer.start + 1)]

    def given_labels(self, block: Block) -> list[Any]:
        """Names of rows by the column that names them; None for all rows if no column names them."""
        if self.label is None:
            return [None] * block.n_rows
        return self.shown(block.others.column(self.label).to_pylist())

    def shown(self, labels: Sequence[Any]) -> list[Any]:
        """Names of rows for a person: 1950.0 in a column of numbers is shown as 1950."""
        numeric = any(column.name == self.label and column.kind == "numbers" for column in self.table.columns)
        return [re.sub(r"\.0*$", "", str(label)) if numeric and label is not None else label for label in labels]

    def fresh(self, names: Sequence[str]) -> list[str]:
        """Names for new columns that no column of the table has."""
        return fresh(names, self.table.names)


def _named(label: Any, number: int, count: int) -> Any:
    """Label of a row that ``count`` rows share, with its number unless the label alone identifies the row."""
    where = f"row {number:,}"
    if _is_blank(label):
        return where
    return label if count == 1 else f"{clip(label, LONGEST_NAME - len(where) - 3)} ({where})"


def _is_blank(label: Any) -> bool:
    return label is None or not str(label).strip() or (isinstance(label, float) and math.isnan(label))


class _Infinite(NamedTuple):
    """Where a block has an infinite cell."""

    row: int
    column: int


def _asked(question: Callable[[Floats], Any], block: Block) -> tuple[Block, Any]:
    infinite = np.argwhere(np.isinf(block.values))
    return block, _Infinite(*map(int, infinite[0])) if len(infinite) else question(block.values)


def fresh(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names, with underscores added until each of them is new."""
    known, out = set(taken), []
    for name in names:
        while name in known:
            name += "_"  # noqa: PLW2901
        known.add(name)
        out.append(name)
    return out


def open_both(args: Any) -> Opened:
    """Open the model and the table of a command."""
    fitted = open_model(args.model, args.jobs)
    given = Input.find(args.table)
    remembered = fitted.table_format.only_for(given.kind)
    chosen = given_format(args, remembered)
    if used := format_options(_shared(chosen, remembered)):
        note(f"the table is read as in the fit, with {shlex.join(used)}.")
    table = open_table(given, chosen)
    names = matched(table, fitted.names, fitted.estimator.model_.n_features)
    if (fitted.names is None) == table.named:
        which = "the table" if fitted.names else "the model"
        note(f"the columns of {which} have no names; columns are matched by position.")
    training = table.stored and fitted.table is not None and fitted.table == Stamp.of_table(table.place)
    training = training and chosen == remembered
    return Opened(fitted, table, names, row_names(table, names, args.id), training)


def given_format(args: Any, remembered: TableFormat = TableFormat()) -> TableFormat:
    """How the options of a command say that a table is read; what they leave open is as remembered."""
    options = {field.name: getattr(args, field.name) for field in fields(TableFormat)}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "thousands" in given:
        given["thousands"] = {"space": " ", "none": None}.get(given["thousands"], given["thousands"])
    return replace(remembered, **given)


def _shared(chosen: TableFormat, remembered: TableFormat) -> TableFormat:
    """The settings that were remembered and are still chosen."""
    stored, now = remembered.record(), chosen.record()
    return TableFormat(**{name: value for name, value in stored.items() if now.get(name) == value})


def format_options(table_format: TableFormat) -> list[str]:
    """The options that make a command read a table so."""
    parts: list[str] = []
    for name, value in table_format.record().items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            parts.append(option if value else f"--no-{option[2:]}")
        else:
            values = value if isinstance(value, list) else [value]
            parts += [option, *("space" if text == " " else str(text) for text in values)]
    return parts


def open_model(path: str, n_jobs: int | None = None) -> Fitted:
    """Read a model that ``probpca fit`` wrote."""
    place = Path(path)
    if place.suffix.lower() in FORMATS | READ_ONLY or place.suffix.lower() == ".gz":
        msg = f"{place} is a table, not a model.\nHint: the model comes first: probpca COMMAND MODEL TABLE."
        raise FileFormatError(msg)
    if place.is_dir():
        msg = f"{place} is a folder, not a model.\nHint: probpca fit TABLE saves a model, by default as model.npz."
        raise FileFormatError(msg)
    with open_regular(place) as file:
        if file.read(2) != b"PK":
            msg = f"{place} is not a model.\nHint: probpca fit TABLE saves a model, by default as model.npz."
            raise FileFormatError(msg)
    kinds: dict[Any, Any] = {kind.__name__: kind for kind in (PPCA, BayesianPCA, FactorAnalysis, MixturePPCA)}
    header = read_record(place)[0]
    kind = header["kind"]
    if kind not in kinds:
        *others, last = kinds
        needed = f"a {', a '.join(others)} or a {last}"
        msg = f"{place} holds a {kind}; the model must be {needed}.\nHint: probpca fit saves one."
        raise FileFormatError(msg)
    estimator = kinds[kind].from_file(place)
    estimator.n_jobs = n_jobs
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        del estimator.feature_names_in_
    with reading(place):
        table_format = TableFormat.from_record(header.get(FORMAT, {}))
    return Fitted(
        estimator, None if names is None else tuple(map(str, names)), _read_stamp(header.get(STAMP)), table_format
    )


STAMP = "table"
"""Name, in the header of a model, of the stamp of the table that it was fitted to."""


FORMAT = "table_format"
"""Name, in the header of a model, of the settings with which its table was read."""


def write_model(estimator: Any, out: Path, stamp: Stamp | None, table_format: TableFormat) -> None:
    """Write a model that remembers which file it was fitted to, unless that is unknown, and how the file was read."""
    table = None if stamp is None else [str(stamp.path), stamp.size, stamp.modified]
    write_estimator(estimator, out, **{STAMP: table, FORMAT: table_format.record()})


def _read_stamp(stored: Any) -> Stamp | None:
    if stored is None:
        return None
    path, size, modified = stored
    return Stamp(Path(path), size, modified)


def place_for(out: str, *, force: bool, reads: Iterable[str] = (), suffixes: tuple[str, ...] = ()) -> Path:
    """Check the file to write before anything is computed; ``suffixes`` are allowed, by default those of tables."""
    place = Path(out)
    if os.path.isdir(place):  # noqa: PTH112  # unlike Path.is_dir it never raises
        msg = f"{place} is a folder, not a file.\nHint: add a file name, such as {place / 'result.csv'}."
        raise SourceError(msg)
    if not suffixes:
        written_format(place)
    elif out == "-" or descriptor(place) == 1:
        msg = (
            "only tables can be written to standard output, which takes what this command prints.\n"
            f"Hint: give the name of a file that ends in {' or '.join(suffixes)}."
        )
        raise SourceError(msg)
    elif place.suffix.lower() not in suffixes:
        msg = (
            f"the name of {place} must end in {' or '.join(suffixes)}.\n"
            f"Hint: for example {place.with_suffix(suffixes[0])}."
        )
        raise SourceError(msg)
    require_writable(place)  # first, because it names what is wrong with a name that cannot be looked up
    if any(place.exists() and Path(read).exists() and place.samefile(read) for read in reads):
        msg = f"{place} is an input of this command and cannot be overwritten.\nHint: choose another name for --out."
        raise SourceError(msg)
    if place.exists() and not force and not is_stream(place):
        msg = f"{place} already exists.\nHint: choose another name, or overwrite it with --force."
        raise SourceError(msg)
    return place


def place_for_table(args: Any, *reads: str) -> Path | None:
    """Check the file for the answer of a command that reads other files; None if it goes to the screen."""
    if args.out is not None and descriptor(Path(args.out)) == 1:
        args.out = "-"
    if args.safe_cells:
        _require_csv(args.out)
    if args.out is None or args.out == "-":
        return None
    place = place_for(args.out, force=args.force, reads=reads)
    if written_format(place) == "npy":
        note(f"{place} will contain the numeric columns only: .npy files hold no text and no column names.")
    return place


def _require_csv(out: str | None) -> None:
    """Raise ``SourceError`` unless the answer is written as CSV, whose cells a spreadsheet may run as formulas."""
    if out is None:
        msg = "--safe-cells needs a table to write.\nHint: --out FILE.csv, or --out - for standard output."
        raise SourceError(msg)
    if out != "-" and written_format(Path(out)) != "csv":
        msg = (
            f"--safe-cells applies to CSV; got --out {out}.\n"
            "Hint: leave it out: programs do not take cells of such a file for formulas."
        )
        raise SourceError(msg)


def place_for_plot(args: Any) -> Path:
    """Check the file for a figure, and that matplotlib is there to draw it, before anything is computed."""
    from probpca.displays.axes import pyplot  # noqa: PLC0415

    place = place_for(args.plot, force=args.force, reads=[args.table], suffixes=(".png", ".svg", ".pdf"))
    try:
        pyplot()
    except ImportError as error:
        msg = "--plot needs matplotlib.\nHint: pip install 'probpca[plot]'."
        raise SourceError(msg) from error
    return place


def write_figure(figure: Any, place: Path) -> None:
    """Write a matplotlib figure in the format that the name of the file says."""
    with appearing(place) as part:
        figure.savefig(part, format=place.suffix[1:].lower(), dpi=150)


@contextmanager
def shown_progress() -> Iterator[Watch | None]:
    """Progress of a pass over a file, to be passed as ``watch``; None if there is no terminal to show it."""
    if not is_terminal():
        yield None
        return
    with ProgressBar(enabled=True) as bar:
        yield bar.parts


def print_facts(found: Mapping[str, Any]) -> None:
    """Print one JSON object with numbers in full, and null for those that are not finite."""
    print_json(_plain(found))


def _plain(value: Any) -> Any:
    """Value in types that JSON knows."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


@final
@dataclass(eq=False)
class Head:
    """The first rows of a long answer, or all of them."""

    limit: int | None = 10
    n_rows: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def watch(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Pass record batches on, and remember their first rows."""
        for batch in batches:
            room = batch.num_rows if self.limit is None else max(self.limit - self.n_rows, 0)
            for name, values in batch.slice(0, room).to_pydict().items() if room else ():
                self.columns.setdefault(name, []).extend(values)
            self.n_rows += batch.num_rows
            yield batch

    def text(self, names: Sequence[str] = ()) -> str:
        """The rows as a table of some columns, by default of all, and how many more there are."""
        shown = text_table([cells(name or "(no name)", self.columns[name]) for name in names or self.columns])
        left = 0 if self.limit is None else max(self.n_rows - self.limit, 0)
        more = "\n" + wrap(f"... and {several(left, 'more row')}; --out FILE writes all rows")
        return shown + (more if left else "")


@final
@dataclass(eq=False)
class Least:
    """The entries with the smallest scores of all that were offered, the smallest first."""

    count: int
    scores: Array = field(default_factory=lambda: np.empty(0))
    kept: list[Any] = field(default_factory=list)

    def offer(self, scores: Array, entries: Sequence[Any]) -> None:
        """Consider more entries."""
        both = np.concatenate([self.scores, scores])
        best = np.argsort(both, kind="stable")[: self.count]
        before = len(self.scores)
        self.kept = [self.kept[i] if i < before else entries[i - before] for i in best]
        self.scores = both[best]


@final
@dataclass(eq=False)
class LeastRows:
    """The rows with the smallest scores of all that were offered, as a record batch, the smallest score first."""

    count: int
    scores: Array = field(default_factory=lambda: np.empty(0))
    rows: Any = None

    def offer(self, scores: Array, batch: Any) -> None:
        """Consider more rows."""
        both = np.concatenate([self.scores, scores])
        best = np.argsort(both, kind="stable")[: self.count]
        self.rows = take_rows(self.rows, batch, best)
        self.scores = both[best]


def finish(
    args: Any, place: Path | None, batches: Iterable[Any], facts: Callable[[], Mapping[str, Any]]
) -> Head | None:
    """Send an answer to its file, to the screen as CSV, or to a program as JSON.

    Returns the head of the answer if something is left to print for a person. ``facts()`` goes into the JSON
    object, together with the answer itself if no file takes it; it is called after the last batch.
    """
    head = Head(0) if place is not None else Head(None) if args.json else Head()
    passing = head.watch(batches)
    if place is not None:
        write_batches(place, passing, safe_cells=args.safe_cells)
        args.written.append(place)
    elif args.out == "-":
        with table_output() as stream:
            stream_batches(stream, passing, safe_cells=args.safe_cells)
        return None
    else:
        for _ in passing:
            pass
    if args.json:
        answer = {"out": place} if place else {"data": head.columns}
        print_facts({"command": args.command, "rows": head.n_rows, **facts(), **answer})
        return None
    return head


def written(place: Path, n_rows: int) -> str:
    """A line about a file that was written."""
    return f"{several(n_rows, 'row')} written to {printable_line(str(place))}"
