"""Charts of time series as SVG: history with a fan, and p-values over time; they need no script."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.result_tables import number_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.typing import Array


@dataclass(frozen=True)
class SeriesChartStyle:
    """Sizes of charts in pixels."""

    width: int = 900
    height: int = 190
    left: int = 62  # room for the numbers beside a chart
    right: int = 12
    bottom: int = 24  # room for the times below it
    top: int = 8
    n_times: int = 7  # times that are named
    n_values: int = 4  # values that are named


STYLE = SeriesChartStyle()


class Frame(NamedTuple):
    """Where steps and values lie in a chart."""

    first: float  # step at the left
    last: float
    low: float  # value at the bottom
    high: float

    def x(self, steps: Any) -> Any:
        """Horizontal places of steps."""
        wide = STYLE.width - STYLE.left - STYLE.right
        return STYLE.left + wide * (np.asarray(steps, dtype=float) - self.first) / max(self.last - self.first, 1)

    def y(self, values: Any) -> Any:
        """Vertical places of values."""
        high = STYLE.height - STYLE.top - STYLE.bottom
        return STYLE.top + high * (self.high - np.asarray(values, dtype=float)) / max(self.high - self.low, 1e-300)


def time_words(times: Any) -> list[str]:
    """Times as short texts: years, months, days or minutes, whichever tell them apart."""
    times = np.asarray(times)
    if times.dtype == object and hasattr(times[0], "isoformat"):
        times = times.astype("datetime64[us]")
    if times.dtype.kind != "M":
        return [f"{value:g}" if isinstance(value, float) else str(value) for value in times.tolist()]
    for unit, size in (("Y", 4), ("M", 7), ("D", 10), ("m", 16), ("s", 19)):
        if len(np.unique(times.astype(f"datetime64[{unit}]"))) == len(times):
            return [str(time)[:size].replace("T", " ") for time in times.astype("datetime64[s]")]
    return [str(time) for time in times]


def fan_chart(name: str, times: Sequence[str], past: Array, smoothed: Array, ahead: Array) -> str:
    """History of one series, its smoothed line, and its forecast (low, mean, high): an SVG.

    ``times`` are those of the past (n,) and of the steps ahead (h,); ``ahead`` is of shape (3, h).
    """
    n, h = len(past), ahead.shape[1]
    known = np.concatenate([past, smoothed, ahead.ravel()])
    frame = _frame_of(n + h, known[np.isfinite(known)])
    later = np.arange(n, n + h)
    low, mean, high = (np.where(np.isfinite(part), part, np.nan) for part in ahead)
    parts = [
        _axes(frame, times, np.concatenate([past, mean])),
        _band(frame, later, low, high),
        _line(frame, np.arange(n), smoothed, "var(--faint)"),
        _dots(frame, times, past),
        _line(frame, later, mean, "var(--odd)"),
    ]
    return _svg(f"{name}: history and forecast", parts)


def p_chart(times: Sequence[str], log10_p: Array, threshold: float) -> str:
    """Minus the logarithm of the p-value of each step, and a line at a threshold: an SVG."""
    heights = np.where(np.isfinite(log10_p), -log10_p, 0.0)
    line = -np.log10(threshold)
    frame = Frame(0, max(len(heights) - 1, 1), 0.0, max(float(heights.max(initial=0.0)), line) * 1.1)
    x, y = frame.x(np.arange(len(heights))), frame.y(heights)
    base = float(frame.y(0.0))
    bars = []
    for k, (a, b) in enumerate(zip(x, y, strict=True)):
        odd = heights[k] > line
        colour = "var(--odd)" if odd else "var(--other)"
        title = f"<title>{escape(times[k])}: p = {10.0 ** -heights[k]:.2g}</title>"
        bars.append(f'<line x1="{a:.1f}" x2="{a:.1f}" y1="{base:.1f}" y2="{b:.1f}" stroke="{colour}">{title}</line>')
    at = float(frame.y(line))
    ends = f'x1="{STYLE.left}" x2="{STYLE.width - STYLE.right}" y1="{at:.1f}" y2="{at:.1f}"'
    rule = f'<line {ends} stroke="var(--odd)" stroke-dasharray="4 3"/>'
    axes = _axes(
        frame, times, np.array([0.0, line]), form=lambda value: f"p = {10.0**-value:.0e}" if value else "p = 1"
    )
    return _svg("p-value of each step", [axes, *bars, rule])


def _frame_of(n: int, values: Array) -> Frame:
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    room = 0.06 * (high - low) or 1.0
    return Frame(0, max(n - 1, 1), low - room, high + room)


def _svg(title: str, parts: Sequence[str]) -> str:
    box = f"0 0 {STYLE.width} {STYLE.height}"
    return f'<svg viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _axes(frame: Frame, times: Sequence[str], values: Array, form: Any = None) -> str:
    """Numbers at the left, times below, and a line at the bottom."""
    shown = np.unique(np.linspace(0, len(times) - 1, min(STYLE.n_times, len(times))).round().astype(int))
    foot = STYLE.height - STYLE.bottom
    text = 'fill="var(--muted)" font-size="12"'
    parts = [f'<line x1="{STYLE.left}" x2="{STYLE.width - STYLE.right}" y1="{foot}" y2="{foot}" stroke="var(--line)"/>']
    for k in shown.tolist():
        anchor = "start" if k == 0 else "end" if k == len(times) - 1 else "middle"
        x = frame.x(k)
        parts.append(f'<text x="{x:.1f}" y="{foot + 16}" text-anchor="{anchor}" {text}>{escape(times[k])}</text>')
    ticks = values if form is not None else _ticks(frame)
    written = form or (lambda value, how=number_format(ticks): f"{value:{how}}")
    for tick in ticks:
        y = float(frame.y(tick)) + 4
        parts.append(f'<text x="{STYLE.left - 6}" y="{y:.1f}" text-anchor="end" {text}>{escape(written(tick))}</text>')
    return "".join(parts)


def _ticks(frame: Frame) -> Array:
    """Round values within a chart."""
    raw = (frame.high - frame.low) / STYLE.n_values
    size = 10.0 ** np.floor(np.log10(raw))
    step = size * next(factor for factor in (1, 2, 5, 10) if factor * size >= raw)
    return np.arange(np.ceil(frame.low / step), np.floor(frame.high / step) + 1) * step + 0.0  # not -0.0


def _pieces(values: Array) -> list[Array]:
    """Positions of the stretches without NaN."""
    known = np.flatnonzero(np.isfinite(values))
    return [] if known.size == 0 else np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)


def _line(frame: Frame, steps: Any, values: Array, colour: str) -> str:
    parts = []
    for some in _pieces(values):
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(frame.x(steps[some]), frame.y(values[some]), strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return "".join(parts)


def _band(frame: Frame, steps: Any, low: Array, high: Array) -> str:
    parts = []
    for some in _pieces(low + high):
        x, above, below = frame.x(steps[some]), frame.y(high[some]), frame.y(low[some])
        ends = [*zip(x, above, strict=True), *zip(x[::-1], below[::-1], strict=True)]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in ends)
        parts.append(f'<polygon points="{points}" fill="var(--odd)" opacity="0.22"/>')
    return "".join(parts)


def _dots(frame: Frame, times: Sequence[str], values: Array) -> str:
    radius = 2.2 if len(values) <= 300 else 1.2
    form = number_format(values)
    return "".join(
        f'<circle cx="{frame.x(k):.1f}" cy="{frame.y(values[k]):.1f}" r="{radius}" fill="var(--ink)">'
        f"<title>{escape(times[k])}: {values[k]:{form}}</title></circle>"
        for k in np.flatnonzero(np.isfinite(values)).tolist()
    )
