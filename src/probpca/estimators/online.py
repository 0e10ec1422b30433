"""Rows that arrive one at a time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from probpca.blocks.block import unmasked
from probpca.blocks.time_grid import steps_between
from probpca.errors import DataError, ShapeError
from probpca.estimators.base import checked_matrix
from probpca.estimators.time_axis import axis_of, without
from probpca.result_tables import several
from probpca.sources.readers.frames import is_frame

if TYPE_CHECKING:
    from probpca.estimators.time_axis import TimeAxis
    from probpca.estimators.time_index import Remembered
    from probpca.typing import Array


def steps_to(y: Any, table: Remembered, time: Any) -> tuple[Any, int]:
    """Return a row without its time, and how many steps it is after the last one: 1 if it has no time."""
    if table.axis is not None and nw.dependencies.is_pandas_series(y):
        y = _dated_row(y, table.axis)
    if not is_frame(y) or table.axis is None or len(y) != 1:
        return y, 1
    named = time if time is not None and time in nw.from_native(y, eager_only=True).columns else None
    axis = axis_of(y, named)
    if (
        axis is None
        or not (axis.is_column or axis.stamps.unit)
        or bool(axis.stamps.unit) != bool(table.axis.stamps.unit)
    ):
        return y, 1
    row = without(y, [axis.name] if axis.is_column else [])
    ahead = steps_between(table.axis.last().stamps, axis.stamps, table.axis.step) - table.later
    if ahead < 1:
        words = f"column {axis.name}" if axis.is_column else "the index"
        msg = (
            f"y must be later than the last row, but by {words} it is {several(1 - ahead, 'step')} before the next one."
        )
        raise DataError(msg)
    return row, ahead


def _dated_row(y: Any, axis: TimeAxis) -> Any:
    """A row of a dataframe, with its time as its name or among its cells, as a dataframe; other rows as they are."""
    pandas: Any = import_module("pandas")
    if axis.is_column and axis.name in y.index:
        return y.to_frame().T.infer_objects()
    if not axis.is_column and axis.stamps.unit and isinstance(y.name, pandas.Timestamp | pandas.Period):
        return y.to_frame().T.astype(float)
    return y


def one_row(estimator: Any, y: Any) -> Array:
    """Return one row of an estimator's features as float64 with NaN in missing cells: (n_features,)."""
    if type(y) is not np.ndarray or y.dtype != np.float64 or y.shape != (estimator.n_features_in_,):
        y = _converted(estimator, y)
    if np.isinf(y).any():
        msg = "y must not contain infinite values.\nHint: use NaN for missing values."
        raise DataError(msg)
    return np.asarray(y)


def _converted(estimator: Any, y: Any) -> Array:
    if nw.dependencies.is_pandas_series(y):
        y = y.to_frame().T.astype(float) if hasattr(estimator, "feature_names_in_") else y.to_numpy()
    rows = y if is_frame(y) else np.atleast_2d(np.asarray(unmasked(y), dtype=np.float64))
    if len(rows) != 1:
        msg = f"y must be a single row; got {len(rows)} rows.\nHint: call update for each of them, in time order."
        raise ShapeError(msg)
    if not is_frame(y):
        if rows.shape != (1, estimator.n_features_in_):
            msg = f"y must have {estimator.n_features_in_} features, as the training data have; got {rows.size}."
            raise ShapeError(msg)
        return np.asarray(rows[0])
    options: dict[str, Any] = {"accept_sparse": False, "ensure_all_finite": "allow-nan"}
    return np.asarray(checked_matrix(estimator, rows, reset=False, **options)[0], dtype=np.float64)


def one_input(n_inputs: int, inputs: Any) -> Array | None:
    """Return the inputs of one row: (u,); None for a model without inputs."""
    if n_inputs == 0:
        if inputs is not None:
            msg = "the model has no inputs, so that inputs must be None.\nHint: omit inputs."
            raise ShapeError(msg)
        return None
    given = np.asarray(np.nan if inputs is None else unmasked(inputs), dtype=np.float64).ravel()
    if given.shape != (n_inputs,) or not np.isfinite(given).all():
        got = "none" if inputs is None else repr(inputs)
        msg = f"the model has {n_inputs} inputs: update needs {n_inputs} finite numbers as inputs; got {got}."
        raise ShapeError(msg)
    return given


def place_of(sequence: Any, count: int) -> int:
    """Return the position of the sequence that a row continues."""
    if sequence is None and count == 1:
        return 0
    if not isinstance(sequence, int | np.integer) or isinstance(sequence, bool) or not 0 <= sequence < count:
        msg = f"sequence must be the position of one of the {count} training sequences, from 0 on; got {sequence!r}."
        raise ShapeError(msg)
    return int(sequence)
