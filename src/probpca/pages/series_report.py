"""Pages about time series: a report with forecasts, a backtest and unusual steps, and a page of unusual steps alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.inputs import names_of, not_fitted, series_of, text_of
from probpca.errors import DataError, ShapeError
from probpca.inference.calibration import RARE
from probpca.inference.time_series.kalman import believe
from probpca.inference.time_series.prediction import forecast, innovations
from probpca.models import StateSpace
from probpca.pages.page import counted, p_text, page_place, share, write_page
from probpca.pages.series_charts import fan_chart, p_chart, time_words
from probpca.result_tables import number_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from probpca.blocks import Sequences
    from probpca.inference.time_series.backtest import Backtest
    from probpca.inference.time_series.prediction import Forecast, Innovations
    from probpca.typing import Array


@dataclass(frozen=True)
class SeriesReportSettings:
    """Settings of pages about time series: from which p-value a step is unusual, and how much a page shows."""

    p: float = RARE  # steps with a smaller p-value are called unusual
    most_unusual: int = 15  # steps in the table of unusual ones
    most_features: int = 12  # features with a chart
    most_steps: int = 2_000  # steps of a chart, the last ones
    most_ahead: int = 24  # forecasts in the table
    level: float = 0.95  # of intervals
    n_origins: int = 4  # of the backtest


class Series(NamedTuple):
    """One sequence and what the system says about it."""

    estimator: Any
    features: list[str]
    rows: Sequences  # on the grid of time
    times: list[str]  # of all steps, and of those ahead
    found: Innovations


def series_report(  # noqa: PLR0913
    estimator: Any,
    X: Any,
    path: Any = "report.html",
    *,
    horizon: int | None = None,
    backtest: bool = True,
    times: Any = None,
    feature_names: Any = None,
    title: str | None = None,
    settings: SeriesReportSettings = SeriesReportSettings(),
) -> Path:
    """Write an HTML report about a fitted ``LinearDynamicalSystem`` and a time series.

    The page draws the history of each series with its forecast, says what the model consists of, how good its
    forecasts were in the past, and which steps were unusual given the steps before them. It is a single file that
    needs no network and no script.

    Parameters
    ----------
    estimator : LinearDynamicalSystem
        A fitted estimator without inputs.
    X : array or dataframe of shape (n_steps, n_features)
        One sequence; NaN marks a missing cell.
    path : str or Path, default="report.html"
        The file to write; an existing file is replaced.
    horizon : int or None, default=None
        Number of steps to forecast. None: a tenth of the steps of ``X``, but 4 to 24.
    backtest : bool, default=True
        Whether to fit the system to earlier rows, and compare its forecasts with what came.
    times : sequence or None, default=None
        Times of the steps of ``X`` and of those ahead. None: those of a dataframe, or step numbers.
    feature_names : sequence of str or None, default=None
        Names of the columns. None: those of the training data, or x0, x1, ...
    title : str or None, default=None
        Title of the page.
    settings : SeriesReportSettings
        How much of a long series the page shows.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from probpca import LinearDynamicalSystem, series_report
    >>> Y = np.cumsum(np.random.default_rng(0).standard_normal((80, 2)), axis=0)
    >>> system = LinearDynamicalSystem().fit(Y)
    >>> with TemporaryDirectory() as folder:
    ...     page = series_report(system, Y, Path(folder) / "report.html")
    ...     page.name, page.stat().st_size < 300_000
    ('report.html', True)
    """
    place = page_place(path)
    steps = _length(estimator, X)
    ahead = int(np.clip(steps // 10, 4, 24)) if horizon is None else horizon
    series = _series_of("series_report", estimator, X, feature_names, ahead)
    if times is not None:
        series = series._replace(times=_given_times(times, steps + ahead))
    judged = _judged(estimator, X, ahead, settings) if backtest else None
    [later] = forecast(estimator.model_, series.rows, ahead)
    later = replace(later, unknown=estimator.empty_features_)
    sections = [
        _forecasts(series, later, settings),
        *([] if judged is None else [_backtest(judged)]),
        _unusual(series, settings),
        _section("The model", f"<pre>{escape(estimator.summary(series.features))}</pre>"),
    ]
    tiles = [*_sizes(series), *_judgement(judged), *_oddity(series, settings)]
    alarms = [] if judged is None else list(judged.notes)
    what = f"Time series: {counted(steps, 'step')}, {counted(len(series.features), 'column')}"
    return _write(
        place, f"{type(estimator).__name__} report" if title is None else str(title), what, tiles, sections, alarms
    )


def anomalies_page(
    estimator: Any,
    X: Any,
    path: Any = "anomalies.html",
    *,
    feature_names: Any = None,
    title: str | None = None,
    settings: SeriesReportSettings = SeriesReportSettings(),
) -> Path:
    """Write an HTML page about the unusual steps of a time series, by their one-step prediction errors.

    Each step is compared with its prediction from the steps before it, as ``anomalies`` does. The page draws the
    p-values over time and lists the least probable steps with the column that fits least. It needs no network and no
    script.

    Parameters
    ----------
    estimator : LinearDynamicalSystem
        A fitted estimator without inputs.
    X : array or dataframe of shape (n_steps, n_features)
        One sequence; NaN marks a missing cell.
    path : str or Path, default="anomalies.html"
        The file to write; an existing file is replaced.
    feature_names : sequence of str or None, default=None
        Names of the columns. None: those of the training data, or x0, x1, ...
    title : str or None, default=None
        Title of the page.
    settings : SeriesReportSettings
        From which p-value a step is unusual, and how many steps are listed.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from probpca import LinearDynamicalSystem, anomalies_page
    >>> Y = np.cumsum(np.random.default_rng(0).standard_normal((80, 2)), axis=0)
    >>> system = LinearDynamicalSystem().fit(Y)
    >>> Y[60, 1] += 20
    >>> with TemporaryDirectory() as folder:
    ...     page = anomalies_page(system, Y, Path(folder) / "anomalies.html")
    ...     "60" in page.read_text(encoding="utf-8")
    True
    """
    place = page_place(path)
    series = _series_of("anomalies_page", estimator, X, feature_names, 0)
    what = f"Time series: {counted(series.rows.n_steps, 'step')}, {counted(len(series.features), 'column')}"
    tiles = [*_sizes(series), *_oddity(series, settings)]
    return _write(
        place, "Unusual steps" if title is None else str(title), what, tiles, [_unusual(series, settings)], []
    )


def _length(estimator: Any, X: Any) -> int:
    _require_series("series_report", estimator)
    return int(series_of(estimator, X).rows.lengths[0])


def _require_series(page: str, estimator: Any) -> None:
    model = getattr(estimator, "model_", None)
    if model is None and hasattr(estimator, "forecast"):
        raise not_fitted(page, type(estimator).__name__)
    if not isinstance(model, StateSpace):
        msg = (
            f"{page} needs a fitted LinearDynamicalSystem; got {type(estimator).__name__}.\n"
            "Hint: report() writes pages about tables whose rows are not in the order of time."
        )
        raise DataError(msg)
    if model.n_inputs:
        msg = f"{page} needs a system without inputs; this one has {model.n_inputs}."
        raise DataError(msg)


def _series_of(page: str, estimator: Any, X: Any, feature_names: Any, ahead: int) -> Series:
    _require_series(page, estimator)
    tables = series_of(estimator, X)
    if len(tables.tables) > 1:
        msg = f"{page} needs a single sequence; got {len(tables.tables)}.\nHint: write a page for each of them."
        raise DataError(msg)
    given = None if feature_names is None else map(text_of, feature_names)
    times = time_words(tables.times(ahead)[0])
    return Series(estimator, names_of(estimator, given), tables.rows, times, innovations(estimator.model_, tables.rows))


def _given_times(times: Any, count: int) -> list[str]:
    if len(times) != count:
        msg = f"times must be those of all {count} steps, the forecast included; got {len(times)}."
        raise ShapeError(msg)
    return time_words(np.asarray(times))


def _judged(estimator: Any, X: Any, horizon: int, settings: SeriesReportSettings) -> Backtest | None:
    try:
        found: Backtest = estimator.backtest(X, horizon, settings.n_origins, level=settings.level)
    except DataError:  # there are too few rows
        return None
    return found


def _forecasts(series: Series, later: Forecast, settings: SeriesReportSettings) -> str:
    """Charts of history and forecast, and a table of the first forecasts."""
    model, n = series.estimator.model_, series.rows.n_steps
    smoothed = believe(model, series.rows).mean @ model.emission.loadings.T + model.emission.mean
    low, high = later.interval(settings.level)
    first = max(n - settings.most_steps, 0)
    charts = []
    for j, name in enumerate(series.features[: settings.most_features]):
        fan = np.stack([low[:, j], later.mean[:, j], high[:, j]])
        chart = fan_chart(name, series.times[first:], series.rows.values[first:, j], smoothed[first:, j], fan)
        charts.append(f'<h3>{escape(name)}</h3><div class="chart">{chart}</div>')
    left = len(series.features) - len(charts)
    more = f'<p class="note">{counted(left, "more column")} without a chart.</p>' if left > 0 else ""
    key = (
        '<p class="key"><span>&#9679; observed</span><span><i class="dash smooth"></i>'
        'smoothed</span><span><i class="dash ahead"></i>forecast with '
        f"{100 * settings.level:g}% intervals</span></p>"
    )
    columns = list(map(_intervals, later.mean.T, low.T, high.T))
    shown = min(settings.most_ahead, len(later.mean))
    rows = ([series.times[n + k], *(column[k] for column in columns)] for k in range(shown))
    table = _table(["time", *series.features], rows)
    return _section("History and forecast", f'{key}{"".join(charts)}{more}<div class="scroll">{table}</div>')


def _intervals(mean: Array, low: Array, high: Array) -> list[str]:
    form = number_format(mean)
    return [f"{m:{form}} ({a:{form}} to {b:{form}})" for m, a, b in zip(mean, low, high, strict=True)]


def _backtest(judged: Backtest) -> str:
    about = (
        "The system was fitted to the rows before earlier origins, and its forecasts were compared with the rows that "
        "came. Errors are divided by those of repeating the last value: below 1 is better."
    )
    table = judged.table(50)._repr_html_()
    body = f'<div class="scroll">{table}</div><p class="note">{about}</p>'
    return _section("How good such forecasts were", body)


def _unusual(series: Series, settings: SeriesReportSettings) -> str:
    """Chart of the p-values over time, and a table of the least probable steps."""
    found, n = series.found, series.rows.n_steps
    first = max(n - settings.most_steps, 0)
    chart = p_chart(series.times[first:n], found.log10_p_value[first:], settings.p)
    count = int((found.p_value < settings.p).sum())
    said = (
        f"{counted(count, 'step')} of {n:,} {'has' if count == 1 else 'have'} a p-value below {settings.p:g}; about "
        f"{settings.p * n:.2g} would be expected by chance. A p-value is the probability that a step is at least this "
        "far from its prediction by the steps before it, by chance alone."
    )
    order = np.argsort(found.log10_p_value, kind="stable")[: settings.most_unusual]
    rows = (_unusual_row(series, int(i)) for i in order if found.degrees[i] > 0)
    titles = ["time", "p-value", "observed cells", "most unusual column", "value", "expected", "z-score"]
    body = f'<p>{escape(said)}</p><div class="chart">{chart}</div><div class="scroll">{_table(titles, rows)}</div>'
    return _section("Unusual steps", body)


def _unusual_row(series: Series, i: int) -> list[str]:
    found = series.found
    z = found.normalised[i]
    j = int(np.nanargmax(np.abs(z)))
    value = series.rows.values[i, j]
    form = number_format([value])
    expected = value - found.residual[i, j]
    counts = f"{int(found.degrees[i])} of {len(series.features)}"
    return [
        series.times[i],
        p_text(float(found.log10_p_value[i])),
        counts,
        series.features[j],
        f"{value:{form}}",
        f"{expected:{form}}",
        f"{z[j]:+.1f}",
    ]


def _sizes(series: Series) -> list[tuple[str, str]]:
    values = series.rows.values
    empty = int(np.isnan(values).all(axis=1).sum())
    steps = [("steps", f"{len(values):,}"), ("empty steps", f"{empty:,}")] if empty else [("steps", f"{len(values):,}")]
    return [*steps, ("observed cells", share(float(np.mean(~np.isnan(values)))))]


def _judgement(judged: Backtest | None) -> list[tuple[str, str]]:
    if judged is None:
        return [("backtest", "too few rows")]
    error = judged.relative_error["model"]
    return [
        ("error / naive error", "unknown" if np.isnan(error) else f"{error:.2f}"),
        (f"held by {100 * judged.level:g}% intervals", f"{100 * judged.mean_coverage:.0f}%"),
    ]


def _oddity(series: Series, settings: SeriesReportSettings) -> list[tuple[str, str]]:
    return [(f"steps with p < {settings.p:g}", f"{int((series.found.p_value < settings.p).sum()):,}")]


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _section(title: str, body: str) -> str:
    return f'<section class="card"><h2>{escape(title)}</h2>{body}</section>'


def _write(
    place: Path, title: str, what: str, tiles: Iterable[tuple[str, str]], sections: Iterable[str], alarms: Sequence[str]
) -> Path:
    alarm = " ".join(one[0].upper() + one[1:] for one in alarms)
    parts = {
        "title": escape(title),
        "lead": escape(what),
        "warning": f'<p class="warning" role="alert">{escape(alarm)}</p>' if alarm else "",
        "tiles": "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles),
        "sections": "\n".join(sections),
        "foot": "p-values take the parameters of the model for known.",
    }
    return write_page(place, "series", [], {}, parts)
