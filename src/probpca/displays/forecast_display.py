"""A series, what the model sees in it, and what it expects of the time to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.axes import CHOSEN, FAINT, INK, SMALL, frame, panels
from probpca.displays.inputs import by_name, names_of, require_fitted, table_of, tried_level
from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.typing import Array

MOST = 3
"""Features that are drawn if none are chosen."""


class Band(NamedTuple):
    """Ends that hold each future value with a probability."""

    level: float
    low: Array  # (horizon, features)
    high: Array  # (horizon, features)


class ForecastDisplay:
    """Past values as points, the smoothed past as a line, and a fan of intervals for what comes; a panel a feature.

    Where past cells are missing, a bar shows the widest interval of the fan for what they were. Make it with
    ``from_estimator``.

    Attributes
    ----------
    past, smoothed : ndarray (n, features)
        Values, NaN where missing, and what the model takes them for without noise.
    filled : Band
        Intervals of the past cells that are missing, NaN elsewhere.
    mean : ndarray (horizon, features)
    bands : tuple of Band
        The widest first.
    times, future_times : sequences
    figure_, ax_, axes_
        matplotlib Figure, the first Axes, and all of them.

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
    ) -> None:
        """Remember what is to be drawn; ``plot`` draws it."""
        self.past, self.smoothed, self.filled, self.mean = past, smoothed, filled, mean
        self.bands = tuple(sorted(bands, key=lambda band: -band.level))
        self.feature_names = feature_names
        n, horizon = len(past), len(mean)
        self.times = np.arange(n) if times is None else times
        self.future_times = np.arange(n, n + horizon) if future_times is None else future_times
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
        levels: Any = (0.5, 0.8, 0.95),
        times: Any = None,
        feature_names: Any = None,
        last: int | None = None,
        inputs: Any = None,
        future: Any = None,
        value_name: str = "",
        ax: Any = None,
    ) -> ForecastDisplay:
        """Draw one series and the next ``horizon`` steps of it, of ``features`` by position or name.

        ``times`` are those of the rows, or of the rows and of the steps ahead; a time index of pandas is known.
        ``last`` shows only so many steps of the past. ``inputs`` and ``future`` are those of ``forecast``, and
        ``value_name`` is what is measured.
        """
        require_fitted(cls, estimator, "forecast", "smooth")
        names = names_of(estimator, feature_names)
        shown = by_name("features", range(min(MOST, len(names))) if features is None else features, names)
        levels = [tried_level(level) for level in np.atleast_1d(levels)]
        past, ahead = table_of(X), estimator.forecast(horizon, X, inputs=inputs, future=future)
        bands = [Band(level, *(np.asarray(end)[:, shown] for end in ahead.interval(level))) for level in levels]
        filled = estimator.impute_interval(X, max(levels), inputs=inputs)
        gone, kept = np.isnan(past), slice(None if last is None else max(len(past) - last, 0), None)
        ends = (np.where(gone, np.asarray(end), np.nan)[kept, shown] for end in filled)
        before, after = _times(times, X, ahead.mean, len(past), horizon)
        made = cls(
            past[kept, shown],
            estimator.inverse_transform(np.asarray(estimator.transform(X, inputs=inputs)))[kept, shown],
            Band(max(levels), *ends),
            np.asarray(ahead.mean)[:, shown],
            bands,
            [names[j] for j in shown],
            times=before[kept],
            future_times=after,
        )
        return made.plot(ax, value_name=value_name)

    def plot(self, ax: Any = None, *, value_name: str = "") -> ForecastDisplay:
        """Draw in a new figure, or in the given axes: one for each feature."""
        count = len(self.feature_names)
        self.figure_, self.axes_ = panels(ax, count, 1, (6.4, max(1.9 * count + 0.7, 3.4)), share=True)
        self.ax_ = self.axes_[0]
        for j, (name, place) in enumerate(zip(self.feature_names, self.axes_, strict=True)):
            self._draw(j, place)
            frame(place, name, y=value_name)
        self._draw_key(inside=ax is not None)
        return self

    def _draw(self, j: int, ax: Any) -> None:
        ax.vlines(self.times, self.filled.low[:, j], self.filled.high[:, j], color=CHOSEN, alpha=0.3, linewidth=1.6)
        ax.plot(self.times, self.smoothed[:, j], color=FAINT, linewidth=1.4)
        ax.plot(self.times, self.past[:, j], "o", color=INK, markersize=3 if len(self.times) <= 150 else 1.5)
        for band in self.bands:
            ax.fill_between(
                self.future_times, band.low[:, j], band.high[:, j], color=CHOSEN, alpha=0.22, linewidth=0, zorder=1
            )
        ax.plot(self.future_times, self.mean[:, j], color=CHOSEN, linewidth=1.6)

    def _draw_key(self, *, inside: bool) -> None:
        from matplotlib.lines import Line2D  # noqa: PLC0415
        from matplotlib.patches import Patch  # noqa: PLC0415

        levels = ", ".join(f"{100 * band.level:.4g}" for band in reversed(self.bands))
        key = [
            Line2D([], [], color=INK, marker="o", linestyle="none", markersize=3, label="observed"),
            Line2D([], [], color=FAINT, linewidth=1.4, label="smoothed"),
            Line2D([], [], color=CHOSEN, linewidth=1.6, label="forecast"),
            Patch(color=CHOSEN, alpha=0.3, linewidth=0, label=f"{levels} %"),
        ]
        if inside:
            self.ax_.legend(handles=key, frameon=False, fontsize=SMALL)
        else:
            self.figure_.legend(handles=key, frameon=False, fontsize=SMALL, ncols=4, loc="outside upper right")


def _times(given: Any, X: Any, ahead: Any, n: int, horizon: int) -> tuple[Any, Any]:
    """Times of the rows and of the steps ahead: given, those of pandas, or counted."""
    if given is None and hasattr(ahead, "index") and hasattr(X, "index"):
        return _drawable(X.index), _drawable(ahead.index)
    if given is None:
        return np.arange(n), np.arange(n, n + horizon)
    times = np.asarray(given)
    if len(times) == n + horizon:
        return times[:n], times[n:]
    if len(times) != n or n < 2:
        msg = f"times must be those of {n} rows, or of these and of {horizon} steps ahead; got {len(times)}."
        raise DataError(msg)
    return times, times[-1] + (times[-1] - times[-2]) * np.arange(1, horizon + 1)


def _drawable(index: Any) -> Any:
    """Periods as the days on which they begin."""
    return (index.to_timestamp() if hasattr(index, "to_timestamp") else index).to_numpy()
