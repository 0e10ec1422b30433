"""Backtest of forecasts: forecasts from the past beside what came, and errors by the number of steps ahead."""

from __future__ import annotations

from typing import Any

import numpy as np

from probpca.displays.axes import THEME, draw_key, frame, panels, whole_numbers
from probpca.displays.inputs import by_name
from probpca.errors import DataError
from probpca.inference.time_series.backtest import TITLES, Backtest

COLOURS = {"model": THEME.accent, "naive": THEME.faint, "seasonal_naive": THEME.ink, "drift": THEME.categories[2]}
STYLES = {"model": "-", "naive": "--", "seasonal_naive": ":", "drift": "-."}


class BacktestDisplay:
    """Forecasts from several origins with their intervals, the values that came, and errors by steps ahead.

    There is one panel for each feature, and one for the errors of all features divided by those of the naive
    forecast, with one curve for each method. Create it with ``from_backtest`` or ``from_estimator``.

    Attributes
    ----------
    backtest : Backtest
        The forecasts and what came.
    features : list of int
        Positions of the features that are drawn.
    last : int
        Number of steps that are drawn.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The first axes.
    axes_ : ndarray of Axes
        One for each feature, then that of the errors.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import BacktestDisplay, LinearDynamicalSystem
    >>> rng = np.random.default_rng(0)
    >>> Y = np.cumsum(rng.standard_normal((80, 2)), axis=0)
    >>> display = BacktestDisplay.from_backtest(LinearDynamicalSystem().backtest(Y, horizon=6))
    >>> [ax.get_title(loc="left") for ax in display.axes_]
    ['x0', 'x1', 'error by steps ahead']
    """

    def __init__(self, backtest: Backtest, features: list[int], *, last: int | None = None) -> None:
        """Store what ``plot`` draws."""
        self.backtest, self.features = backtest, features
        spanned = backtest.rows[0].shape[0] - int(backtest.origins[self._shown].min())
        self.last = 3 * spanned if last is None else last

    @property
    def _shown(self) -> Any:
        """Positions of the forecasts of the first sequence."""
        return np.flatnonzero(self.backtest.sequences == self.backtest.sequences.min())

    @classmethod
    def from_backtest(
        cls, backtest: Any, *, features: Any = None, most: int = 3, last: int | None = None, ax: Any = None
    ) -> BacktestDisplay:
        """Draw the result of ``backtest``.

        Parameters
        ----------
        backtest : Backtest
            The result of ``LinearDynamicalSystem.backtest``. Of several sequences the first one is drawn.
        features : sequence of int or str, or None, default=None
            Features to draw, by position or name. None: the first ``most``.
        most : int, default=3
            Number of features to draw if ``features`` is None.
        last : int or None, default=None
            Number of steps to show, the last ones. None: three times those that were forecast.
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each feature and one more. None: in a new figure.

        Returns
        -------
        BacktestDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        if not isinstance(backtest, Backtest):
            msg = f"from_backtest needs the result of backtest(); got {type(backtest).__name__}."
            raise DataError(msg)
        names = backtest.names.column_names(backtest.actual.shape[2])
        shown = by_name("features", range(min(most, len(names))) if features is None else features, names)
        return cls(backtest, [int(j) for j in shown], last=last).plot(ax)

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any,
        *,
        horizon: int = 10,
        n_origins: int = 4,
        features: Any = None,
        most: int = 3,
        last: int | None = None,
        ax: Any = None,
        **options: Any,
    ) -> BacktestDisplay:
        """Run a backtest and draw it.

        Parameters
        ----------
        estimator : LinearDynamicalSystem
            The estimator, whose parameters are used; it need not be fitted.
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several, of which the first one is drawn.
        horizon : int, default=10
            Number of steps of each forecast.
        n_origins : int, default=4
            Number of origins.
        features : sequence of int or str, or None, default=None
            Features to draw, by position or name. None: the first ``most``.
        most : int, default=3
            Number of features to draw if ``features`` is None.
        last : int or None, default=None
            Number of steps to show, the last ones. None: three times those that were forecast.
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each feature and one more. None: in a new figure.
        **options
            Other parameters of ``backtest``, such as ``level``, ``inputs`` and ``series``.

        Returns
        -------
        BacktestDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        if not hasattr(estimator, "backtest"):
            msg = f"BacktestDisplay needs an estimator with the method backtest(); got {type(estimator).__name__}."
            raise DataError(msg)
        found = estimator.backtest(X, horizon, n_origins, **options)
        return cls.from_backtest(found, features=features, most=most, last=last, ax=ax)

    def plot(self, ax: Any = None) -> BacktestDisplay:
        """Draw one panel for each feature, and one for the errors.

        Parameters
        ----------
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each feature and one more. None: in a new figure.

        Returns
        -------
        BacktestDisplay
            The display itself.
        """
        count = len(self.features) + 1
        self.figure_, self.axes_ = panels(ax, count, 1, (6.4, 1.9 * count + 1.2))
        self.ax_ = self.axes_[0]
        names = self.backtest.names.column_names(self.backtest.actual.shape[2])
        for j, axes in zip(self.features, self.axes_[:-1], strict=True):
            self._draw_feature(j, axes)
            frame(axes, names[j])
        self._draw_errors(self.axes_[-1])
        self._draw_key(inside=ax is not None)
        return self

    def _draw_feature(self, j: int, ax: Any) -> None:
        found, k = self.backtest, int(self.backtest.sequences.min())
        values, times = found.rows[k][:, j], found.times[k]
        kept = slice(max(len(values) - self.last, 0), None)
        ax.plot(times[kept], values[kept], color=THEME.faint, linewidth=1.0)
        ax.plot(times[kept], values[kept], "o", color=THEME.ink, markersize=2.5)
        for i in self._shown:
            ahead = slice(found.origins[i], found.origins[i] + found.horizon)
            band = {"color": THEME.accent, "alpha": 0.16, "linewidth": 0, "zorder": 1}
            ax.fill_between(times[ahead], found.low[i, :, j], found.high[i, :, j], **band)
            ax.plot(times[ahead], found.forecasts["model"][i, :, j], color=THEME.accent, linewidth=1.4)

    def _draw_errors(self, ax: Any) -> None:
        steps = np.arange(1, self.backtest.horizon + 1)
        for name, values in self.backtest.by_step.items():
            if name != "seasonal_naive" or self.backtest.period > 1:
                style = {"color": COLOURS[name], "linestyle": STYLES[name], "linewidth": 1.6}
                ax.plot(steps, values, label=TITLES[name], marker="o" if len(steps) == 1 else None, **style)
        ax.set_ylim(bottom=0)
        whole_numbers(ax.xaxis)
        frame(ax, "error by steps ahead", x="steps ahead", y="error / naive")
        ax.legend(frameon=False, fontsize=THEME.small, loc="center left", bbox_to_anchor=(1.01, 0.5))

    def _draw_key(self, *, inside: bool) -> None:
        from matplotlib.lines import Line2D  # noqa: PLC0415
        from matplotlib.patches import Patch  # noqa: PLC0415

        key = [
            Line2D([], [], color=THEME.ink, marker="o", linestyle="none", markersize=3, label="observed"),
            Line2D([], [], color=THEME.accent, linewidth=1.6, label="forecast"),
            Patch(color=THEME.accent, alpha=0.3, linewidth=0, label=f"{100 * self.backtest.level:.4g}% interval"),
        ]
        draw_key(self.figure_, self.ax_, key, inside=inside, loc="outside upper right")
