"""Rows from dataframes of pandas, polars and pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from probpca.blocks.block import NUMBERS_AS_TEXT, as_floats
from probpca.errors import DataError, ShapeError
from probpca.result_tables import clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from probpca.typing import Floats


def is_frame(rows: Any) -> bool:
    """Whether ``rows`` is a dataframe in memory."""
    return not isinstance(rows, np.ndarray) and bool(nw.dependencies.is_into_dataframe(rows))


def frame_values(rows: Any) -> tuple[Floats, tuple[Any, ...]]:
    """Values of a dataframe, (n, d) with NaN for missing values, and the names of its columns."""
    try:
        frame = nw.from_native(rows, eager_only=True)
        kinds = frame.schema
    except nw.exceptions.DuplicateError as error:
        msg = f"columns must have unique names; {error}.\nHint: rename or drop the duplicates."
        raise DataError(msg) from error
    single = bool(kinds) and all(kind == nw.Float32 for kind in kinds.values())
    out = np.empty((len(kinds), len(frame)), np.float32 if single else np.float64)
    for row, name in zip(out, kinds, strict=True):
        row[:] = _column_values(frame.get_column(name), nw.Float32 if single else nw.Float64)
    return out.T, tuple(kinds)


def frame_columns(rows: Any) -> dict[Any, Any]:
    """Columns of a dataframe by name, of any type, as lists; pandas and polars columns keep their categories."""
    frame = nw.from_native(rows, eager_only=True)
    columns = {name: frame.get_column(name) for name in frame.columns}
    keeps = frame.implementation.is_pandas() or frame.implementation.is_polars()
    return {name: column.to_native() if keeps else column.to_list() for name, column in columns.items()}


def _column_values(column: nw.Series[Any], target: Any) -> Any:
    """Numbers of a column, nulls as NaN: (n,). Objects may be numbers too; text, labels and times are not."""
    kind, values, reason = column.dtype, None, ""
    if kind in (nw.Categorical, nw.Enum):
        kind = column.cat.get_categories().dtype
    if column.dtype in (nw.Int64, nw.UInt64):
        return column.to_numpy()  # a cast of pyarrow would refuse integers above 2**53, which are rounded
    if kind.is_numeric() or kind == nw.Boolean:
        return column.cast(target).to_numpy()
    if kind in (nw.String, nw.Object, nw.Unknown) and column.dtype == kind:
        values = column.to_numpy()
    if values is not None:
        try:
            null = np.full(values.shape, None)
            return as_floats(np.where(column.is_null().to_numpy(), null, values))
        except (TypeError, ValueError, OverflowError) as error:
            reason = f": {error}"
    msg = (
        f"column {column.name!r} holds {column.dtype}, not numbers{reason}.\n"
        f"Hint: encode or drop columns of text and labels, and convert times to numbers; {NUMBERS_AS_TEXT}."
    )
    raise DataError(msg)


def as_text(names: Iterable[Any] | None) -> tuple[str, ...] | None:
    """Column names if all are strings, as in scikit-learn, else None."""
    names = None if names is None else tuple(names)
    return names if names and all(isinstance(name, str) for name in names) else None


def order_of(names: Sequence[Any], wanted: Sequence[Any]) -> list[int] | None:
    """Position of each wanted column among ``names``; None if the order is the same already."""
    if tuple(names) == tuple(wanted):
        return None
    place = {name: j for j, name in enumerate(names)}
    lacking = [name for name in wanted if name not in place]
    if lacking or len(names) != len(wanted):
        odd = f"{lacking[0]!r} is missing" if lacking else f"got {len(names)} columns"
        some = ", ".join(map(clip, wanted[:8])) + (", ..." if len(wanted) > 8 else "")
        msg = (
            f"rows must have the same columns as the first ones, {some}, in any order; {odd}.\n"
            "Hint: rename columns, or drop additional ones."
        )
        raise ShapeError(msg)
    return [place[name] for name in wanted]
