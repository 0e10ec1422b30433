"""How a file of rows is to be read, where that cannot be seen from the file."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, final

from probpca.errors import SourceError
from probpca.sources.files import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

APPLICABLE = {
    "csv": {"missing", "decimal", "thousands", "skip_rows", "header", "transpose", "parse_units"},
    "workbook": {"missing", "decimal", "thousands", "skip_rows", "header", "sheet", "transpose", "parse_units"},
    "parquet": {"missing", "transpose"},
    "feather": {"missing", "transpose"},
    "npy": {"missing"},
}
"""Settings that apply to each format of file."""


@final
@dataclass(frozen=True, kw_only=True)
class TableFormat:
    """How a file of rows is to be read; by default everything is detected.

    Parameters
    ----------
    missing : sequence of str or float, default=()
        Codes of missing cells beside the usual ones (an empty cell, NA, NaN, null, -, ?, ...). A code that is a number
        matches cells by value: -999 is also -999.0.
    decimal : {".", ","}, optional
        Decimal mark of a text file. Detected by default, or the other sign if ``thousands`` is a comma or a point.
    thousands : {",", ".", "'", " "}, optional
        Separator between groups of three digits. None by default: a cell such as 1,234.5 is text.
    skip_rows : int, optional
        Number of lines above the line of column names. By default title lines are detected, with a warning.
    header : bool, default=True
        Whether a text file or a sheet has a line of column names. Without one the columns are called x0, x1, ...
    sheet : str or int, optional
        Name of the sheet of a workbook, or its number, counted from 1. By default the first sheet that is not empty.
    transpose : bool, default=False
        Whether features are rows of the file and samples are columns, as in tables of gene expression. The first
        column that holds text gives the names of the features. The table is held in memory.
    parse_units : bool, default=False
        Whether cells such as "28.8 yr", "$779.45" or "12%" are read as numbers, here 28.8, 779.45 and 12. All
        cells of a column must have the same unit.
    """

    missing: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    skip_rows: int | None = None
    header: bool = True
    sheet: str | int | None = None
    transpose: bool = False
    parse_units: bool = False

    def __post_init__(self) -> None:
        """Check the settings; codes of missing cells become text."""
        given: Any = self.missing
        given = (given,) if isinstance(given, str | int | float) else given
        object.__setattr__(self, "missing", tuple(str(code).strip() for code in given))
        _require_one_of("decimal", self.decimal, (".", ","))
        _require_one_of("thousands", self.thousands, (",", ".", "'", " "))
        if self.decimal is None and self.thousands in (",", "."):
            object.__setattr__(self, "decimal", "," if self.thousands == "." else ".")
        if self.thousands is not None and self.thousands == self.decimal:
            msg = f"the thousands separator and the decimal mark must differ; both are {self.thousands!r}."
            raise SourceError(msg)
        if self.skip_rows is not None and self.skip_rows < 0:
            msg = f"skip_rows must be 0 or more; got {self.skip_rows}."
            raise SourceError(msg)

    @property
    def codes(self) -> tuple[float, ...]:
        """Codes of missing cells that are numbers."""
        return tuple(float(code) for code in self.missing if is_number(code) and math.isfinite(float(code)))

    def record(self) -> dict[str, Any]:
        """Settings that are not the default, as JSON can hold them."""
        default = TableFormat()
        chosen = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}

    @classmethod
    def from_record(cls, stored: Mapping[str, Any]) -> TableFormat:
        """Settings that a file remembers; those of a later version that are unknown here are an error."""
        unknown = [name for name in stored if name not in {field.name for field in fields(cls)}]
        if unknown:
            msg = (
                f"{unknown[0]}={stored[unknown[0]]!r} is a table setting that this version of probpca does not know.\n"
                "Hint: use the version of probpca that wrote the model."
            )
            raise SourceError(msg)
        return cls(**stored)

    def only_for(self, kind: str) -> TableFormat:
        """The settings that apply to a format of file; the others take their default."""
        return replace(TableFormat(), **{k: v for k, v in self.record().items() if k in APPLICABLE[kind]})

    def require_for(self, kind: str, place: Path) -> None:
        """Raise ``SourceError`` if a setting does not apply to a format of file."""
        wrong = [name for name in self.record() if name not in APPLICABLE[kind]]
        if not wrong:
            return
        if wrong[0] == "transpose":
            hint = "transpose the array before you save it"
        elif wrong[0] == "sheet":
            hint = "only workbooks have sheets: .xlsx, .xls, .ods"
        else:
            hint = "it applies to text files and workbooks only"
        msg = f"{wrong[0]} does not apply to {place}.\nHint: {hint}."
        raise SourceError(msg)


def _require_one_of(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        msg = f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}."
        raise SourceError(msg)
