"""Backtests of estimators of time series: fits to the rows before several origins, and forecasts from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.blocks.sequences import Sequences
from probpca.blocks.time_grid import Step
from probpca.errors import DataError, ShapeError
from probpca.inference.time_series.backtest import Backtest, naive_forecasts
from probpca.result_tables import several

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.inference.time_series.prediction import Forecast
    from probpca.result_tables import Names
    from probpca.typing import Array

FEWEST_ROWS = 10
"""Rows that a fit of a backtest needs."""


class Origin(NamedTuple):
    """Rows before an origin, and those that followed."""

    past: Sequences
    future: list[Array]  # of each sequence: (horizon, d)
    inputs: list[Array | None]  # of the steps that followed
    which: list[int]  # positions of the sequences


def origins_of(rows: Sequences, horizon: Any, n_origins: Any, period: int = 1) -> list[Origin]:
    """Cut sequences at ``n_origins`` places, half a horizon apart, so that the last forecast ends with the rows.

    There are fewer origins if there are few rows: every fit has two seasons, if the rows have so many, and ten rows.
    Sequences that are too short for an origin are left out there.
    """
    for name, value in (("horizon", horizon), ("n_origins", n_origins)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            msg = f"{name} must be a whole number of at least 1; got {value!r}."
            raise ShapeError(msg)
    longest, apart = int(rows.lengths.max()), max(int(horizon) // 2, 1)
    least = FEWEST_ROWS if longest - int(horizon) < 2 * period + 5 else max(FEWEST_ROWS, 2 * period + 5)
    count = min(int(n_origins), (longest - int(horizon) - least) // apart + 1)
    if count < 1:
        msg = (
            f"a backtest of {horizon} steps needs {least + int(horizon)} rows or more; got {longest}.\n"
            "Hint: use a shorter horizon."
        )
        raise DataError(msg)
    return [_cut(rows, int(horizon), apart * k, least) for k in reversed(range(count))]


def span_words(step: Any, count: int, time: Any = None) -> str:
    """The last ``count`` steps in words, such as "the last 3 years"; ``time`` is the name of the column of times."""
    if not isinstance(step, Step) or step.unit in ("number", "instant"):
        years = isinstance(step, Step) and step.unit == "number" and str(time).lower() == "year"
        size, unit = (count * int(step.count), "year") if years else (count, "step")
    else:
        size, unit = count * int(step.count), step.unit
        size, unit = (size // 12, "year") if unit == "month" and size % 12 == 0 else (size, unit)
    return f"the last {several(size, unit)}"


def _cut(rows: Sequences, horizon: int, before: int, least: int) -> Origin:
    """The origin that is ``before`` steps before the last one."""
    stops = rows.lengths - horizon - before
    kept = [k for k, stop in enumerate(stops) if stop >= least]
    values, inputs = rows.split(rows.values), None if rows.inputs is None else rows.split(rows.inputs)
    past = Sequences(
        np.vstack([values[k][: stops[k]] for k in kept]),
        stops[kept],
        None if inputs is None else np.vstack([inputs[k][: stops[k]] for k in kept]),
    )
    after = [slice(stops[k], stops[k] + horizon) for k in kept]
    later = [None if inputs is None else inputs[k][some][:-1] for k, some in zip(kept, after, strict=True)]
    return Origin(past, [values[k][some] for k, some in zip(kept, after, strict=True)], later, kept)


class About(NamedTuple):
    """What a backtest is called and how it is judged."""

    period: int  # of the season of seasonal naive forecasts
    level: float
    span: str
    rows: list[Array]
    times: list[Any]
    names: Names


def run_backtest(
    origins: list[Origin], predict: Callable[[Origin], list[Forecast]], horizon: int, about: About
) -> Backtest:
    """Forecast from every origin, with the model and without, and collect what came."""
    parts: dict[str, list[Array]] = {"model": [], "naive": [], "seasonal_naive": [], "drift": []}
    low, high, actual, seen, which = [], [], [], [], []
    for origin in origins:
        for found, past, came, k in zip(
            predict(origin), origin.past.split(origin.past.values), origin.future, origin.which, strict=True
        ):
            ends = found.interval(about.level)
            low.append(ends[0])
            high.append(ends[1])
            actual.append(came)
            seen.append(len(past))
            which.append(k)
            parts["model"].append(found.mean)
            for name, forecast in naive_forecasts(past, horizon, about.period).items():
                parts[name].append(forecast)
    forecasts = {name: np.array(values) for name, values in parts.items()}
    counts = np.array(seen), np.array(which)
    return Backtest(np.array(actual), forecasts, np.array(low), np.array(high), *counts, **about._asdict())
