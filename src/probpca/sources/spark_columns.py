"""The columns of a Spark DataFrame as lists of numbers, and lists of numbers as a block."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from probpca.blocks import Block
from probpca.errors import DataError, ShapeError

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def as_list(schema: Any) -> Any:
    """A Spark expression: the numbers of a row, in columns, a vector or an array, as an array of doubles."""
    sql = import_module("pyspark.sql.functions")
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    cells = [sql.col(f"`{name}`") for name in kinds]
    if list(kinds.values()) == ["vector"]:
        return import_module("pyspark.ml.functions").vector_to_array(*cells)
    if len(cells) == 1 and _item(*kinds.values()) in NUMBERS:
        return cells[0].cast("array<double>")
    for name, kind in kinds.items():
        if kind.split("(")[0] not in NUMBERS:
            msg = f"every column must hold numbers; column {name!r} has type {kind}.\nHint: encode or drop it."
            raise DataError(msg)
    return sql.array(*(cell.cast("double") for cell in cells))


def read_block(d: int, batch: Any) -> Block:
    """A batch of Arrow lists as a block, nulls NaN."""
    lists = batch.column(0)
    lengths = np.asarray(lists.drop_null().value_lengths())
    if (lengths != d).any():
        msg = (
            f"every vector must have {d} entries, as the first one; got {lengths[lengths != d][0]}.\n"
            "Hint: leave the others out, or fill them up with NaN, which is a missing cell."
        )
        raise ShapeError(msg)
    rows = np.full((len(lists), d), np.nan)
    rows[np.asarray(lists.is_valid())] = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, d)
    return Block(rows)


def _item(kind: str) -> str | None:
    """Of what an array is; None if it is no array."""
    return kind[6:-1].partition("(")[0] if kind.startswith("array<") else None
