"""Tables of results: text for a terminal, HTML for a notebook, and dataframes of the library of the input."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

import numpy as np

from probpca.printable_text import printable_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = TypeVar("Kind")

WIDTH = 88
"""Letters in a line of text, unless another width is given."""
GAP = 2
"""Blanks between columns of text."""
LONGEST_NAME = 32
"""Letters of a name in a table of text; HTML shows names in full."""
FIRST_ROWS = 10
"""Rows of a table that are shown."""
FIRST_COLUMNS = 6
"""Columns of a wide table that are shown."""


# Cells


class Column(NamedTuple):
    """A title, and cells that are ready to print; ``unit`` stands below the title."""

    title: str
    cells: Sequence[str]
    right: bool = True  # numbers are aligned at the right
    unit: str = ""
    longest: int | None = LONGEST_NAME  # letters of a cell of text; None: as many as the line has left


def words(title: str, values: Any, *, longest: int | None = LONGEST_NAME) -> Column:
    """A column of text, aligned at the left; None is an empty cell."""
    return Column(title, ["" if value is None else str(value) for value in values], right=False, longest=longest)


def numbers(title: str, values: Any, *, signed: bool = False) -> Column:
    """A column of numbers, all with as many decimals as show about four digits of the largest; NaN is an empty cell."""
    found = np.asarray(values, dtype=np.float64)
    form = ("+" if signed else "") + number_format(found)
    return Column(title, [f"{value:{form}}" if not np.isnan(value) else "" for value in found])


def number_format(values: Any, digits: int = 4) -> str:
    """Format specification for about ``digits`` digits of the largest of some numbers: ``,.2f``, ``.3e``, ``,.0f``."""
    finite = np.abs(np.asarray(values, dtype=np.float64))
    finite = finite[np.isfinite(finite)]
    largest = float(finite.max()) if finite.size else 0.0
    if largest and not 1e-4 <= largest < 1e9:
        return f".{digits - 1}e"
    if (finite == np.round(finite)).all():
        return ",.0f"
    return f",.{int(np.clip(digits - 1 - np.floor(np.log10(largest)), 1, 6))}f"


def intervals(title: str, values: Any, low: Any, high: Any) -> Column:
    """A column of values with their intervals: ``2.31 (1.90 to 2.72)``."""
    form = number_format(np.concatenate([values, low, high]))
    ends = zip(np.asarray(values), np.asarray(low), np.asarray(high), strict=True)
    return Column(title, [f"{value:{form}} ({a:{form}} to {b:{form}})" for value, a, b in ends])


def several(count: int, noun: str) -> str:
    """A number with its noun: ``1 row``, ``1,200 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def rest(count: int, noun: str) -> tuple[str, ...]:
    """A remark on what is not shown: ``... and 182 more rows``; nothing if that is nothing."""
    return (f"... and {several(count, noun)}",) if count > 0 else ()


# Tables


@final
@dataclass(frozen=True, slots=True)
class Section:
    """A heading, columns of equal length, and remarks below them."""

    heading: str
    columns: tuple[Column, ...] = ()
    remarks: tuple[str, ...] = ()
    n_hidden: int = 0  # further columns, which are only counted


@final
@dataclass(frozen=True, slots=True, repr=False)
class ResultTable:
    """A result as a person reads it: ``print`` shows text, a notebook shows HTML.

    Examples
    --------
    >>> from probpca.result_tables import ResultTable, Section, numbers, words
    >>> columns = words("feature", ["height", "<weight>"]), numbers("loading", [0.51, -12.0])
    >>> table = ResultTable((Section("PC1", columns, ("in units of the data",)),))
    >>> table
    PC1
    feature   loading
    height       0.51
    <weight>   -12.00
    in units of the data
    >>> "&lt;weight&gt;" in table._repr_html_()
    True
    """

    sections: tuple[Section, ...]

    def text(self, width: int = WIDTH) -> str:
        """Return plain text; columns that do not fit into ``width`` letters are left out, with a remark."""
        return "\n\n".join("\n".join(_text_lines(section, width)) for section in self.sections)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """HTML for a notebook; names are escaped."""
        return f"<div>{''.join(map(_html, self.sections))}</div>"


def shown_as_table(kind: type[Kind]) -> type[Kind]:
    """Class decorator: ``print`` and a notebook show the ``ResultTable`` that the method ``table()`` returns."""

    def as_text(self: Any) -> str:
        return str(self.table())

    def as_html(self: Any) -> str:
        html: str = self.table()._repr_html_()
        return html

    kind.__repr__ = as_text  # type: ignore[method-assign]  # which is what __str__ calls, too
    kind._repr_html_ = as_html  # type: ignore[attr-defined]
    return kind


def _text_lines(section: Section, width: int) -> list[str]:
    shown: list[Column] = []
    sizes: list[int] = []
    for given in section.columns:
        left = width - sum(sizes) - GAP * len(sizes)
        column = _for_text(given, left)
        size = max(map(len, (column.title, column.unit, *column.cells)))
        if shown and size > left and column.right:
            break
        shown, sizes = [*shown, column], [*sizes, size]
    body = side_by_side(_lines(shown), [column.right for column in shown])
    heading = [clip(section.heading, 10 * width)] if section.heading else []
    remarks = (
        line for remark in section.remarks for line in wrap(printable_line(remark), width, break_long_words=False)
    )
    return [*heading, *body, *rest(section.n_hidden + len(section.columns) - len(shown), "more column"), *remarks]


def side_by_side(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Lines of text made of lines of cells: columns below each other, aligned at the ``right`` or at the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        (" " * GAP)
        .join(
            cell.rjust(width) if at_right else cell.ljust(width)
            for cell, width, at_right in zip(line, widths, right, strict=True)
        )
        .rstrip()
        for line in lines
    ]


def _lines(columns: Sequence[Column]) -> list[Any]:
    """Titles, units if there are any, and cells, line by line."""
    heads = [[column.title, column.unit] if any(c.unit for c in columns) else [column.title] for column in columns]
    return list(zip(*(chain(head, column.cells) for head, column in zip(heads, columns, strict=True)), strict=True))


def _for_text(column: Column, left: int) -> Column:
    """The column with names and texts in one line of a limited length; numbers as they are."""
    title, unit = _title(column.title), _title(column.unit)
    if column.right:
        return column._replace(title=title, unit=unit)
    most = max(left, LONGEST_NAME) if column.longest is None else column.longest
    return column._replace(title=title[:most], unit=unit, cells=[clip(cell, most) for cell in column.cells])


def _title(text: str) -> str:
    """A title in one line; blanks at its end, which align it with cells, are kept."""
    return printable_line(text) + " " * (len(text) - len(text.rstrip(" ")))


def clip(text: Any, width: int = LONGEST_NAME) -> str:
    """Shorten a text to one line of at most ``width`` letters, without control characters."""
    line = printable_line(str(text))
    return line if len(line) <= width else f"{line[: width - 3]}..."


def _html(section: Section) -> str:
    lines = _lines(section.columns)
    titles = len(lines) - (len(section.columns[0].cells) if section.columns else 0)
    head = "".join(_html_line(line, section.columns, "th") for line in lines[:titles])
    body = "".join(_html_line(line, section.columns, "td") for line in lines[titles:])
    table = f'<table class="dataframe"><thead>{head}</thead><tbody>{body}</tbody></table>' if lines else ""
    heading = f"<p><strong>{escape(section.heading)}</strong></p>" if section.heading else ""
    remarks = (*rest(section.n_hidden, "more column"), *section.remarks)
    return heading + table + "".join(f"<p>{escape(remark)}</p>" for remark in remarks)


def _html_line(cells: Sequence[str], columns: Sequence[Column], tag: str) -> str:
    sides = ("right" if column.right else "left" for column in columns)
    return f"<tr>{''.join(_html_cell(cell, side, tag) for cell, side in zip(cells, sides, strict=True))}</tr>"


def _html_cell(cell: str, side: str, tag: str) -> str:
    return f'<{tag} style="text-align: {side}; padding: 2px 8px">{escape(cell)}</{tag}>'


# Names of rows and columns, and dataframes


def default_names(count: int) -> list[str]:
    """Names of columns without any: x0, x1, ..."""
    return [f"x{j}" for j in range(count)]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Names of the rows and columns of a result, and the dataframe library of the rows that it answers."""

    columns: tuple[str, ...] | None = None  # None: x0, x1, ...
    rows: Any = None  # labels, or a pandas index; None: rows are counted from 0
    backend: str | None = None  # "pandas", "polars", "pyarrow", ...; None: the rows were an array

    def column_names(self, count: int) -> list[str]:
        """Names of the columns as text: x0, x1, ... where none are known."""
        return default_names(count) if self.columns is None else [str(name) for name in self.columns]

    def row_names(self, positions: Any) -> list[str]:
        """Names of some rows as text: their positions where none are known."""
        return [name_as_text(i if self.rows is None else self.rows[i]) for i in positions]

    def frame(self, columns: Mapping[str, Any], backend: str | None = None) -> Any:
        """Columns with a value for each row, as a dataframe."""
        return frame_of(columns, backend or self.backend, self.rows)

    def matrix(self, values: Any) -> Any:
        """A matrix with a column for each name as a dataframe of the library of the rows; as it is for arrays."""
        if self.backend is None:
            return values
        return self.frame({name: values[:, j] for j, name in enumerate(self.column_names(values.shape[1]))})

    def long_columns(self, row_title: str, **values: Any) -> dict[str, Any]:
        """Matrices with a line for each cell: its row, its feature and its entry of every matrix, row by row."""
        n, d = next(iter(values.values())).shape
        rows = np.arange(n) if self.rows is None else self.rows
        features = np.array(self.column_names(d), dtype=object)
        cells = {name: np.asarray(matrix).ravel() for name, matrix in values.items()}
        return {row_title: rows.repeat(d), "feature": np.tile(features, n), **cells}


def interval_table(
    heading: str, row: tuple[str, str], names: Names, values: tuple[Any, Any, Any], most: int
) -> ResultTable:
    """The first ``most`` rows of a matrix of values with the ends of their intervals.

    ``row`` are the title of the column of row names and the word for one row; ``values`` are the matrix and the ends.
    """
    n, d = values[0].shape
    shown, features = range(min(d, FIRST_COLUMNS)), names.column_names(d)
    columns = (intervals(features[j], *(matrix[:most, j] for matrix in values)) for j in shown)
    first = words(row[0], names.row_names(range(min(n, most))))
    return ResultTable((Section(heading, (first, *columns), rest(n - most, f"more {row[1]}"), d - len(shown)),))


NO_NAMES = Names()
"""Names of a result that was computed from arrays."""


def name_as_text(value: Any) -> str:
    """A label of a row as text: dates without a time of midnight, levels of an index separated by commas."""
    if isinstance(value, tuple):
        return ", ".join(map(name_as_text, value))
    return str(value).removesuffix(" 00:00:00")


def frame_of(columns: Mapping[str, Any], backend: Any = None, index: Any = None) -> Any:
    """Make a dataframe of columns; of pandas, by default, with an ``index``, which other libraries do not have."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415

    library: Any = "pandas" if backend is None else backend
    pandas = str(getattr(library, "value", library)) == "pandas"
    values = columns if pandas else {name: _plain(column) for name, column in columns.items()}
    try:
        frame = nw.from_dict(dict(values), backend=library).to_native()
    except ModuleNotFoundError as error:
        msg = f"a dataframe needs {library}, which is not installed.\nHint: to_frame(backend='polars'), or to_dict()."
        raise ModuleNotFoundError(msg) from error
    if index is not None and nw.dependencies.is_pandas_dataframe(frame):
        frame.index = index
    return frame


def _plain(column: Any) -> Any:
    """A column without types of pandas: periods and other objects as text."""
    values = np.asarray(column)
    return values if values.dtype != object else [None if v is None else name_as_text(v) for v in values]
