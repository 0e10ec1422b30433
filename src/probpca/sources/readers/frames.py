"""Rows in a dataframe: pandas, polars, pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from probpca.typing import Floats


def is_frame(rows: Any) -> bool:
    """Is this a dataframe in memory?"""
    return bool(nw.dependencies.is_into_dataframe(rows))


def frame_values(rows: Any) -> tuple[Floats, tuple[Any, ...]]:
    """Numbers of a dataframe, missing ones as NaN: (n, d); and the names of its columns."""
    try:
        frame = nw.from_native(rows, eager_only=True)
        kinds = frame.schema
    except nw.exceptions.DuplicateError as error:
        msg = f"columns must have names of their own; {error}.\nHint: rename or drop those that come twice."
        raise DataError(msg) from error
    for name, kind in kinds.items():
        if not (kind.is_numeric() or kind == nw.Boolean):
            msg = f"column {name!r} holds {kind}, not numbers.\nHint: encode or drop the columns that hold text."
            raise DataError(msg)
    single = bool(kinds) and all(kind == nw.Float32 for kind in kinds.values())
    out = np.empty((len(kinds), len(frame)), np.float32 if single else np.float64)
    for row, name in zip(out, kinds, strict=True):
        column = frame.get_column(name)
        column = column.cast(nw.Float32 if single else nw.Float64)
        row[:] = column.to_numpy()
    return out.T, tuple(kinds)


def frame_columns(rows: Any) -> dict[Any, list[Any]]:
    """Columns of a dataframe by name, of any type, as lists."""
    frame = nw.from_native(rows, eager_only=True)
    return {name: frame.get_column(name).to_list() for name in frame.columns}


def as_text(names: Iterable[Any] | None) -> tuple[str, ...] | None:
    """Names that are text, as scikit-learn has it; columns that are numbered have none."""
    names = None if names is None else tuple(names)
    return names if names and all(isinstance(name, str) for name in names) else None


def order_of(names: Sequence[Any], wanted: Sequence[Any]) -> list[int] | None:
    """Where each of the wanted columns is; None if all are in place."""
    if tuple(names) == tuple(wanted):
        return None
    place = {name: j for j, name in enumerate(names)}
    lacking = [name for name in wanted if name not in place]
    if lacking or len(names) != len(wanted):
        odd = f"{lacking[0]!r} is missing" if lacking else f"got {len(names)} columns"
        some = ", ".join(map(str, wanted[:8])) + (", ..." if len(wanted) > 8 else "")
        msg = (
            f"rows must have the columns that came first, {some}, in any order; {odd}.\n"
            "Hint: rename columns, or drop those that are not wanted."
        )
        raise ShapeError(msg)
    return [place[name] for name in wanted]
