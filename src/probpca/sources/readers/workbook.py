"""Sheets of workbooks: .xlsx, .xlsm, .xlsb, .xls and .ods."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import python_calamine as calamine

from probpca.errors import DataError, SourceError
from probpca.sources.files import Stamp
from probpca.sources.readers.csv import Text, TextFile
from probpca.sources.readers.text_head import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from probpca.sources.table_format import TableFormat


def open_workbook(place: Path, table_format: TableFormat) -> TextFile:
    """Look at a sheet of a workbook."""
    return _sheet_as_text(place, partial(calamine.CalamineWorkbook.from_path, place), table_format, Stamp.of(place))


def workbook_in_memory(place: Path, content: bytes, table_format: TableFormat) -> TextFile:
    """Look at a sheet of a workbook in memory."""
    return _sheet_as_text(place, partial(_from_bytes, content), table_format, None)


def _from_bytes(content: bytes) -> Any:
    if "EncryptedPackage".encode("utf-16-le") in content:  # calamine looks for it in files only
        raise calamine.PasswordError
    return calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))


def _sheet_as_text(
    place: Path, open_book: Callable[[], Any], table_format: TableFormat, stamp: Stamp | None
) -> TextFile:
    """A sheet as text, with every digit of its numbers, so that all that is known about text files applies to it."""
    try:
        with open_book() as book:
            name, note = _sheet(book, table_format.sheet, place)
            rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except calamine.PasswordError as error:
        msg = f"{place} is protected by a password.\nHint: save a copy without a password."
        raise SourceError(msg) from error
    except calamine.CalamineError as error:
        msg = f"{place} cannot be read as a workbook: {error}.\nHint: the file may be damaged; save it again."
        raise SourceError(msg) from error
    while rows and not any(cell != "" for cell in rows[-1]):
        rows.pop()
    if not rows:
        msg = f"sheet {name!r} of {place} is empty.\nHint: choose another sheet."
        raise DataError(msg)
    decimal = table_format.decimal or "."
    text = Text(place, stamp, _as_csv(rows, decimal), dialect=Dialect(",", decimal))
    found = TextFile.look(text, table_format)
    return replace(found, more_notes=note)


def _as_csv(rows: Sequence[Sequence[Any]], decimal: str) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(cell, decimal) for cell in row] for row in rows)
    return text.getvalue().encode()


def _cell(value: Any, decimal: str) -> str:
    """A cell as text; whole numbers have no decimal mark, and dates are those of ISO 8601."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
        return text.replace(".", decimal)
    return str(value)


def _sheet(book: Any, chosen: str | int | None, place: Path) -> tuple[str, tuple[str, ...]]:
    """Name of the chosen sheet, by default of the first visible one that is not empty; and a note on others."""
    names: list[str] = book.sheet_names
    if chosen in names:
        return str(chosen), ()
    if chosen is None:
        sheets = [sheet for sheet in book.sheets_metadata if sheet.visible == calamine.SheetVisibleEnum.Visible]
        filled = [sheet.name for sheet in sheets if sheet.typ == calamine.SheetTypeEnum.WorkSheet]
        filled = [name for name in filled if book.get_sheet_by_name(name).height]
        if not filled:
            msg = f"{place} has only empty sheets."
            raise DataError(msg)
        others = ", ".join(map(repr, filled[1:6])) + (", ..." if len(filled) > 6 else "")
        return filled[0], (f"{place} has several sheets; {filled[0]!r} was read, not {others}",) if others else ()
    number = int(chosen) if str(chosen).isdecimal() else 0
    if not 0 < number <= len(names):
        some = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
        msg = f"{place} has no sheet {chosen!r}.\nHint: its sheets are {some}; give a name, or a number counted from 1."
        raise SourceError(msg)
    return names[number - 1], ()
