"""Level, season and factors of a time series, one above the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import THEME, draw_key, frame, panels
from probpca.displays.inputs import by_name, names_of, require_fitted, series_of
from probpca.errors import DataError, ShapeError
from probpca.inference.time_series.decomposition import SeriesComponents, decompose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from probpca.typing import Array

SUMMED = ("level", "deviation", "season", "factors", "noise")
"""Parts that sum to the series."""


class ComponentsDisplay:
    """Parts of one time series: its level with the observed values, and below it the parts that it has.

    These are the slope, the autoregressive deviation from the level, the season, the part of the common factors, and
    the noise that is left. Parts that the model does not have are left out. All panels share the time axis, and the
    key of each panel is its title. Create it with ``from_estimator``.

    Attributes
    ----------
    parts : dict of str to ndarray (n,)
        The parts that are drawn, by name; the level first.
    past : ndarray (n,)
        Observed values; NaN if missing.
    times : sequence
        Times of the steps.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The first axes.
    axes_ : ndarray of Axes
        All axes, in the order of ``parts``.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import ComponentsDisplay, LinearDynamicalSystem
    >>> t = np.arange(72)
    >>> births = 0.5 * t + 4 * np.sin(2 * np.pi * t / 12) + np.random.default_rng(0).standard_normal(72)
    >>> system = LinearDynamicalSystem(seasonal_periods=12).fit(births[:, None])
    >>> list(ComponentsDisplay.from_estimator(system, births[:, None]).parts)
    ['level', 'slope', 'season', 'noise']
    """

    def __init__(self, past: Array, parts: Mapping[str, Array], feature_name: str, *, times: Any = None) -> None:
        """Store what ``plot`` draws."""
        self.past, self.parts, self.feature_name = past, dict(parts), feature_name
        self.times = np.arange(len(past)) if times is None else times
        if len(self.times) != len(past):
            msg = f"times must be those of {len(past)} steps; got {len(self.times)}."
            raise ShapeError(msg)

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        X: Any,
        *,
        feature: int | str = 0,
        times: Any = None,
        feature_names: Any = None,
        inputs: Any = None,
        value_name: str = "",
        ax: Any = None,
    ) -> ComponentsDisplay:
        """Draw the parts of one feature.

        Parameters
        ----------
        estimator : LinearDynamicalSystem
            A fitted estimator.
        X : array or dataframe of shape (n_steps, n_features)
            One sequence.
        feature : int or str, default=0
            Feature to draw, by position or name.
        times : sequence or None, default=None
            Times of the steps. None: those of a dataframe, or step numbers.
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        inputs : array of shape (n_steps, n_inputs) or None, default=None
            Inputs of each step, if the system was fitted with inputs.
        value_name : str, default=""
            Label of the vertical axes.
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each part. None: in a new figure.

        Returns
        -------
        ComponentsDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "components")
        names = names_of(estimator, feature_names)
        [j] = by_name("feature", feature, names)
        tables = series_of(estimator, X, inputs)
        if len(tables.tables) > 1:
            msg = f"{cls.__name__} shows a single sequence; got {len(tables.tables)}.\nHint: draw one at a time."
            raise DataError(msg)
        found = decompose(estimator.model_, tables.rows)
        columns = {name: value[:, j] for name, value in zip(SeriesComponents._fields, found, strict=True)}
        parts = {name: value for name, value in columns.items() if name in ("level", "noise") or np.any(value)}
        past = np.sum([columns[name] for name in SUMMED], axis=0)
        return cls(past, parts, names[j], times=tables.times()[0] if times is None else times).plot(
            ax, value_name=value_name
        )

    def plot(self, ax: Any = None, *, value_name: str = "") -> ComponentsDisplay:
        """Draw one panel for each part.

        Parameters
        ----------
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each part. None: in a new figure.
        value_name : str, default=""
            Label of the vertical axes.

        Returns
        -------
        ComponentsDisplay
            The display itself.
        """
        from matplotlib.lines import Line2D  # noqa: PLC0415

        count = len(self.parts)
        heights = [1.8, *[1.0] * (count - 1)]
        size = (6.4, 1.0 + 1.35 * sum(heights))
        self.figure_, self.axes_ = panels(ax, count, 1, size, share=True, heights=heights)
        self.ax_ = self.axes_[0]
        for (name, values), place in zip(self.parts.items(), self.axes_, strict=True):
            if name == "level":
                marker = 3 if len(self.times) <= 150 else 1.5
                place.plot(self.times, self.past, "o", color=THEME.ink, markersize=marker, zorder=1)
                place.plot(self.times, values, color=THEME.accent, linewidth=1.6)
            elif name == "noise":
                place.vlines(self.times, 0.0, values, color=THEME.faint, linewidth=1.2)
                place.axhline(0.0, color=THEME.faint, linewidth=0.8)
            else:
                place.plot(self.times, values, color=THEME.accent, linewidth=1.4)
                place.axhline(0.0, color=THEME.faint, linewidth=0.8, zorder=0)
            frame(place, f"{self.feature_name}: level" if name == "level" else name, y=value_name)
        key = [
            Line2D([], [], color=THEME.ink, marker="o", linestyle="none", markersize=3, label="observed"),
            Line2D([], [], color=THEME.accent, linewidth=1.6, label="expected, given all steps"),
        ]
        draw_key(self.figure_, self.ax_, key, inside=ax is not None, loc="outside upper right")
        return self
