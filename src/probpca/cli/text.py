"""Text for the screen: tables that fit it, and notes beside the result."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.cli.screen import is_terminal, print_message
from probpca.estimators.summary import whole_items
from probpca.printable_text import printable_line
from probpca.result_tables import GAP, LONGEST_NAME, clip, number_format, rest, side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def note(text: str) -> None:
    """Print something that is not part of the result, in one line unless a person watches."""
    line = printable_line(f"note: {text}")
    print_message(wrap(line) if is_terminal() else line)


class TextColumn(NamedTuple):
    """A heading, and cells that are ready to print."""

    title: str
    cells: list[str]
    right: bool = True

    @property
    def width(self) -> int:
        """Letters of the widest cell."""
        return max(len(text) for text in (self.title, *self.cells))


def screen_width() -> int:
    """Letters in a line of the terminal."""
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def listed(items: Sequence[str], most: int = 4) -> str:
    """The first items of a list, and how many more there are."""
    left = len(items) - most
    return ", ".join(items) if left <= 0 else f"{', '.join(items[:most])} and {left:,} more"


def fact(name: str, text: str) -> str:
    """A line that begins with the name of a fact, broken into lines of the screen below each other."""
    return wrap(f"{name:<18}{text}", " " * 18)


def one_line(start: str, items: Sequence[str]) -> str:
    """One line of the screen with as many whole items as fit behind its start."""
    return start + whole_items(items, screen_width() - len(start))


def shell_word(text: str) -> str:
    """A word of a command that a person may copy; characters that a terminal would obey are replaced."""
    return printable_line(shlex.quote(text))


def shell_file(place: Path) -> str:
    """The name of a file in a command, which is not taken for an option."""
    return shell_word(f"./{place}" if str(place).startswith("-") else str(place))


def wrap(text: str, indent: str = "") -> str:
    """Break a text into lines of the screen."""
    return textwrap.fill(text, screen_width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def numbers(title: str, values: Any, like: Any = None) -> TextColumn:
    """A column of numbers, all with as many decimals as show about four digits of the largest one, or of ``like``."""
    found = np.asarray(values, dtype=np.float64)
    form = number_format(found if like is None else np.asarray(like, dtype=np.float64))
    return TextColumn(title, [f"{value:{form}}" if np.isfinite(value) else "" for value in found])


def counts(title: str, values: Any) -> TextColumn:
    """A column of whole numbers."""
    return TextColumn(title, [f"{value:,}" for value in values])


def words(title: str, values: Any, width: int = LONGEST_NAME) -> TextColumn:
    """A column of text; cells of more than ``width`` letters are shortened."""
    texts = [clip("" if value is None else value, width) for value in values]
    return TextColumn(clip(title, width), texts, right=False)


def cells(title: str, values: Sequence[Any]) -> TextColumn:
    """A column of numbers if all values are numbers, else of text."""
    if values and all(isinstance(value, float | int | None) and not isinstance(value, bool) for value in values):
        return numbers(title, [np.nan if value is None else value for value in values])
    return words(title, values)


def left_of(columns: Sequence[TextColumn]) -> int:
    """Letters that a line with these columns leaves for another column."""
    return screen_width() - sum(column.width + GAP for column in columns)


def table(columns: Sequence[TextColumn]) -> str:
    """Columns side by side, as many as fit the screen, and how many more there are."""
    shown: list[TextColumn] = []
    for column in map(_with_short_title, columns):
        if shown and column.width > left_of(shown):
            break
        shown.append(column)
    lines = list(zip(*([column.title, *column.cells] for column in shown), strict=True))
    body = side_by_side(lines, [column.right for column in shown])
    return "\n".join([*body, *rest(len(columns) - len(shown), "more column")])


def _with_short_title(column: TextColumn, most: int = 20) -> TextColumn:
    """Shorten a title that would make its column much wider than its cells."""
    widest = max((len(text) for text in column.cells), default=0)
    return column._replace(title=clip(column.title, max(widest, most)))
