"""Length of the season that the time index of a table suggests: twelve months, four quarters, seven days."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from probpca.blocks.sequences import is_several

DAY = 86_400.0
"""Seconds of a day."""
YEAR = 365.25
"""Days of a year."""
LONGEST = 96
"""Largest number of steps of a day that is taken for a season: quarters of an hour."""
MANY_DAYS = 10
"""Rows from which on days without a weekend are taken for weeks of five days."""


def period_of(X: Any) -> int:
    """Return the number of rows of a season by the index of a pandas dataframe; 1 if there is none, or no index.

    Months: 12; quarters: 4; weeks: 52; days: 7, or 5 without weekends; hours: 24.
    """
    table = X[0] if is_several(X) else X
    index: Any = getattr(table, "index", None)
    if not nw.dependencies.is_pandas_dataframe(table) or len(index) < 2:
        return 1
    if hasattr(index, "to_timestamp"):
        index = index.to_timestamp()
    if getattr(index, "inferred_type", "") != "datetime64":
        return 1
    stamps = index.to_numpy(dtype="datetime64[us]").astype(np.int64) / 1e6
    gaps = np.abs(np.diff(stamps))
    step = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 0.0
    if step <= 0:
        return 1
    return _of_step(step, index)


def _of_step(step: float, index: Any) -> int:
    """Number of rows of a season for a usual step in seconds."""
    if step < 0.9 * DAY:
        per_day = round(DAY / step)
        return per_day if per_day <= LONGEST and abs(per_day * step - DAY) < 1e-3 * DAY else 1
    days = step / DAY
    if days < 1.1:
        weekdays = np.is_busday(index.to_numpy(dtype="datetime64[D]"))
        return 5 if len(index) >= MANY_DAYS and weekdays.all() else 7
    if 6.9 < days < 7.1:
        return round(YEAR / 7)
    return max(round(YEAR / days), 1) if days >= 28 else 1
