"""Rows in a dataframe: pandas, polars, pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from probpca.errors import DataError

if TYPE_CHECKING:
    from probpca.typing import Floats


def is_frame(rows: Any) -> bool:
    """Is this a dataframe in memory?"""
    return bool(nw.dependencies.is_into_dataframe(rows))


def frame_values(rows: Any) -> tuple[Floats, tuple[str, ...]]:
    """Numbers of a dataframe, missing ones as NaN: (n, d); and the names of its columns."""
    frame = nw.from_native(rows, eager_only=True)
    kinds = frame.schema
    for name, kind in kinds.items():
        if not (kind.is_numeric() or kind == nw.Boolean):
            msg = f"column {name!r} holds {kind}, not numbers.\nHint: encode or drop the columns that hold text."
            raise DataError(msg)
    single = bool(kinds) and all(kind == nw.Float32 for kind in kinds.values())
    out = np.empty((len(kinds), len(frame)), np.float32 if single else np.float64)
    for row, name in zip(out, kinds, strict=True):
        column = frame[name]
        column = column.cast(nw.Float32 if single else nw.Float64)
        row[:] = column.to_numpy()
    return out.T, tuple(str(name) for name in kinds)
