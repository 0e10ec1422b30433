"""Forecast of a time series: observed past, smoothed past, and intervals of the future."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.axes import THEME, draw_key, frame, panels
from probpca.displays.inputs import by_name, names_of, require_fitted, require_level, series_of
from probpca.errors import DataError, ShapeError
from probpca.inference.time_series.kalman import believe, rows_of
from probpca.inference.time_series.prediction import forecast, impute_series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.estimators.series_tables import SeriesTables
    from probpca.inference.imputation import Imputed
    from probpca.inference.time_series.prediction import Forecast
    from probpca.typing import Array


class Band(NamedTuple):
    """Intervals that hold each value with probability ``level``."""

    level: float
    low: Array  # (horizon, features)
    high: Array  # (horizon, features)


class ForecastDisplay:
    """Forecast fan: past values as points, the smoothed past as a line, and intervals of the future.

    There is one panel for each feature. Bars are intervals of missing past cells, at the widest level of the fan.
    Values that are held out of the forecast are open circles. Create it with ``from_estimator``.

    Attributes
    ----------
    past : ndarray (n, features)
        Observed values; NaN if missing.
    smoothed : ndarray (n, features)
        Smoothed values, without noise.
    filled : Band
        Intervals of missing past cells, NaN elsewhere.
    mean : ndarray (horizon, features)
        Expected future values.
    bands : tuple of Band
        Intervals of the future at each level, the widest first.
    held : ndarray (steps, features)
        Values that the forecast has not seen, at the first future steps.
    times, future_times, held_times : sequences
        Times of the past, the future and the held out steps.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The first axes.
    axes_ : ndarray of Axes
        All axes.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import ForecastDisplay, LinearDynamicalSystem
    >>> rng = np.random.default_rng(0)
    >>> Y = np.outer(np.cumsum(rng.standard_normal(100)), [1.0, -1.0]) + rng.standard_normal((100, 2))
    >>> system = LinearDynamicalSystem(n_components=1, random_state=0).fit(Y)
    >>> display = ForecastDisplay.from_estimator(system, Y, horizon=12)
    >>> [band.level for band in display.bands], display.mean.shape
    ([0.95, 0.8, 0.5], (12, 2))
    """

    def __init__(  # noqa: PLR0913
        self,
        past: Array,
        smoothed: Array,
        filled: Band,
        mean: Array,
        bands: Sequence[Band],
        feature_names: list[str],
        *,
        times: Any = None,
        future_times: Any = None,
        held: Any = None,
        held_times: Any = None,
    ) -> None:
        """Store what ``plot`` draws."""
        self.past, self.smoothed, self.filled, self.mean = past, smoothed, filled, mean
        self.bands = tuple(sorted(bands, key=lambda band: -band.level))
        self.feature_names = feature_names
        n, horizon = len(past), len(mean)
        self.times = np.arange(n) if times is None else times
        self.future_times = np.arange(n, n + horizon) if future_times is None else future_times
        self.held = np.empty((0, len(feature_names))) if held is None else held
        self.held_times = np.arange(n, n + len(self.held)) if held_times is None else held_times
        if len(self.times) != n or len(self.future_times) != horizon:
            msg = (
                f"times must be those of {n} past and {horizon} future steps; "
                f"got {len(self.times)} and {len(self.future_times)}."
            )
            raise ShapeError(msg)

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any,
        *,
        horizon: int = 10,
        features: Any = None,
        most: int = 3,
        levels: Any = (0.5, 0.8, 0.95),
        times: Any = None,
        feature_names: Any = None,
        last: int | None = None,
        held_out: int = 0,
        inputs: Any = None,
        future: Any = None,
        value_name: str = "",
        ax: Any = None,
    ) -> ForecastDisplay:
        """Draw one sequence and its forecast.

        With ``held_out`` the forecast begins that many steps before the end of ``X`` and is drawn beside the values
        that came. The parameters of the system stay those of its fit, which may have seen these values: ``backtest``
        fits anew.

        Parameters
        ----------
        estimator : LinearDynamicalSystem
            A fitted estimator.
        X : array or dataframe of shape (n_steps, n_features)
            The sequence to continue.
        horizon : int, default=10
            Number of steps to forecast.
        features : sequence of int or str, or None, default=None
            Features to draw, by position or name. None: the first ``most``.
        most : int, default=3
            Number of features to draw if ``features`` is None.
        levels : sequence of float, default=(0.5, 0.8, 0.95)
            Probabilities of the prediction intervals.
        times : sequence or None, default=None
            Times of the steps of ``X``, or of these and of the future steps. None: those of a dataframe, or step
            numbers.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        last : int or None, default=None
            Number of past steps to show. None: all.
        held_out : int, default=0
            Number of steps at the end of ``X`` that the forecast must not see.
        inputs : array of shape (n_steps, n_inputs) or None, default=None
            Inputs of each step of ``X``, if the system was fitted with inputs.
        future : array of shape (horizon - 1, n_inputs) or None, default=None
            Inputs of the steps after the last one of ``X``, if the system was fitted with inputs.
        value_name : str, default=""
            Label of the vertical axes.
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each feature. None: in a new figure.

        Returns
        -------
        ForecastDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "forecast", "smooth")
        names = names_of(estimator, feature_names)
        shown = by_name("features", range(min(most, len(names))) if features is None else features, names)
        levels = [require_level(level) for level in np.atleast_1d(levels)]
        tables = series_of(estimator, X, inputs)
        whole = tables.rows.split(tables.rows.values)[0]
        n = _past_steps(len(whole), held_out)
        before, after = _times(times, tables.times(horizon)[0], len(whole), horizon)
        seen = _Seen.of(estimator, whole[:n], _first(tables, n), _inputs_ahead(tables, n, future), horizon)
        kept = slice(None if last is None else max(n - last, 0), None)
        bands = [Band(level, *(end[:, shown] for end in seen.ahead.interval(level))) for level in levels]
        gone = np.isnan(whole[:n])
        ends = (np.where(gone, end, np.nan)[kept, shown] for end in seen.filled.interval(max(levels)))
        moments = np.concatenate([before, after])
        made = cls(
            whole[:n][kept, shown],
            seen.smoothed[kept, shown],
            Band(max(levels), *ends),
            seen.ahead.mean[:, shown],
            bands,
            [names[j] for j in shown],
            times=moments[:n][kept],
            future_times=moments[n : n + horizon],
            held=whole[n:, shown],
            held_times=moments[n : len(whole)],
        )
        return made.plot(ax, value_name=value_name)

    def plot(self, ax: Any = None, *, value_name: str = "") -> ForecastDisplay:
        """Draw one panel for each feature.

        Parameters
        ----------
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each feature. None: in a new figure.
        value_name : str, default=""
            Label of the vertical axes.

        Returns
        -------
        ForecastDisplay
            The display itself.
        """
        count = len(self.feature_names)
        self.figure_, self.axes_ = panels(ax, count, 1, (6.4, max(1.9 * count + 0.7, 3.4)), share=True)
        self.ax_ = self.axes_[0]
        for j, (name, place) in enumerate(zip(self.feature_names, self.axes_, strict=True)):
            self._draw(j, place)
            frame(place, name, y=value_name)
        self._draw_key(inside=ax is not None)
        return self

    def _draw(self, j: int, ax: Any) -> None:
        ax.vlines(
            self.times, self.filled.low[:, j], self.filled.high[:, j], color=THEME.accent, alpha=0.3, linewidth=1.6
        )
        ax.plot(self.times, self.smoothed[:, j], color=THEME.faint, linewidth=1.4)
        ax.plot(self.times, self.past[:, j], "o", color=THEME.ink, markersize=3 if len(self.times) <= 150 else 1.5)
        if len(self.held):
            ax.plot(self.held_times, self.held[:, j], "o", color=THEME.ink, markersize=4, markerfacecolor="none")
        for band in self.bands:
            ax.fill_between(
                self.future_times,
                band.low[:, j],
                band.high[:, j],
                color=THEME.accent,
                alpha=0.22,
                linewidth=0,
                zorder=1,
            )
        ax.plot(self.future_times, self.mean[:, j], color=THEME.accent, linewidth=1.6)

    def _draw_key(self, *, inside: bool) -> None:
        from matplotlib.lines import Line2D  # noqa: PLC0415
        from matplotlib.patches import Patch  # noqa: PLC0415

        levels = ", ".join(f"{100 * band.level:.4g}" for band in reversed(self.bands))
        key = [
            Line2D([], [], color=THEME.ink, marker="o", linestyle="none", markersize=3, label="observed"),
            Line2D([], [], color=THEME.faint, linewidth=1.4, label="smoothed"),
            Line2D([], [], color=THEME.accent, linewidth=1.6, label="forecast"),
            Patch(color=THEME.accent, alpha=0.3, linewidth=0, label=f"{levels}% intervals"),
        ]
        if len(self.held):
            open_circle: dict[str, Any] = {
                "marker": "o",
                "linestyle": "none",
                "markersize": 4,
                "markerfacecolor": "none",
            }
            key.insert(1, Line2D([], [], color=THEME.ink, label="held out", **open_circle))
        draw_key(self.figure_, self.ax_, key, inside=inside, loc="outside upper right")


class _Seen(NamedTuple):
    """What a system says about a sequence."""

    smoothed: Array  # without noise: (n, d)
    filled: Imputed
    ahead: Forecast

    @classmethod
    def of(cls, estimator: Any, rows: Array, inputs: Any, future: Any, horizon: int) -> _Seen:
        model, empty = estimator.model_, estimator.empty_features_
        given = rows_of(model, rows, inputs)
        smoothed = believe(model, given).mean @ model.emission.loadings.T + model.emission.mean
        filled = impute_series(model, given)
        std = filled.std.copy()
        std[:, empty] = np.where(np.isnan(rows[:, empty]), np.inf, 0.0)
        [ahead] = forecast(model, given, horizon, future=future)
        return cls(smoothed, filled._replace(std=std), replace(ahead, unknown=empty))


def _past_steps(n: int, held_out: Any) -> int:
    """Number of steps before those that are held out."""
    if not isinstance(held_out, int | np.integer) or not 0 <= held_out < n:
        msg = f"held_out must be a whole number from 0 to {n - 1}; got {held_out!r}."
        raise ShapeError(msg)
    return n - int(held_out)


def _first(tables: SeriesTables, n: int) -> Any:
    """Inputs of the first ``n`` steps of the first sequence."""
    return None if tables.rows.inputs is None else tables.rows.inputs[:n]


def _inputs_ahead(tables: SeriesTables, n: int, future: Any) -> Any:
    """Inputs of the steps after the first one ahead: those of steps that are held out, then those that are given."""
    inputs, length = tables.rows.inputs, int(tables.rows.lengths[0])
    if inputs is None or n == length:
        return future
    held = inputs[n:length]
    return held if future is None else np.vstack([held, np.asarray(future, dtype=np.float64)])


def _times(given: Any, known: Any, n: int, horizon: int) -> tuple[Any, Any]:
    """Times of the rows and of the steps ahead: those given, those of the table, or counted from 0."""
    if given is None:
        return known[:n], known[n:]
    times = np.asarray(given)
    if len(times) == n + horizon:
        return times[:n], times[n:]
    if len(times) != n or n < 2:
        msg = f"times must be those of {n} rows, or of these and of {horizon} steps ahead; got {len(times)}."
        raise DataError(msg)
    return times, times[-1] + (times[-1] - times[-2]) * np.arange(1, horizon + 1)
