"""Progress bars for long fits."""

from __future__ import annotations

import math
import time
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from tqdm.auto import tqdm

if TYPE_CHECKING:
    from probpca.learning.loop import Progress

QUIET_UNTIL: ContextVar[float] = ContextVar("QUIET_UNTIL", default=0.0)
"""Time, by ``time.monotonic``, before which no bar is shown, so that short fits show none."""
WINDOW = 10
"""Number of steps over which the decrease of the remaining gain is measured."""


def _bar(**options: Any) -> tqdm[Any]:
    return tqdm(delay=max(QUIET_UNTIL.get() - time.monotonic(), 0.0), **options)


def steps_left(before: Progress, now: Progress) -> float | None:
    """Estimated number of steps until the remaining gain is below ``tol``; None if the gain did not decrease."""
    if not (now.tol > 0 and 0 < now.remaining < before.remaining < math.inf):
        return None
    rate = math.log(before.remaining / now.remaining) / (now.iteration - before.iteration)
    wanted = math.log(max(now.remaining / now.tol, 1.0)) / rate
    return min(wanted, now.max_iter - now.iteration)


class ProgressBar:
    """Progress bar that shows the iteration, the log-likelihood, its estimated remaining gain and the time left.

    The time left is estimated from the decrease of the remaining gain, because most fits end long before
    ``max_iter``. Use it as a context manager and pass it to a solver as ``watch``.
    """

    def __init__(self, *, enabled: bool, objective: str = "ll") -> None:
        """Create a bar that appears with the first step, or never if not ``enabled``."""
        self._enabled, self._objective = enabled, objective
        self._bar: tqdm[Any] | None = None
        self._pass: tqdm[Any] | None = None
        self._lately: deque[tuple[Progress, float]] = deque(maxlen=WINDOW)  # with the time of each

    def __enter__(self) -> Self:
        """Return the bar itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the bar."""
        for bar in (self._pass, self._bar):
            if bar is not None:
                bar.close()

    def parts(self, done: int, total: int) -> None:
        """Show the progress of a pass over the rows of a file."""
        if not self._enabled:
            return
        if self._pass is None:
            self._pass = _bar(total=total, unit="part", desc="reading", leave=False, position=1)
        self._pass.update(done - self._pass.n)
        if done == total:
            self._pass.close()
            self._pass = None

    def draws(self, done: int, total: int) -> None:
        """Show how many of several independent fits are done."""
        if not self._enabled:
            return
        if self._bar is None:
            self._bar = _bar(total=total, unit="draw")
        self._bar.update(done - self._bar.n)

    def __call__(self, progress: Progress) -> None:
        """Show the state after one iteration."""
        if not self._enabled:
            return
        if self._bar is None:
            told = f"step {{n_fmt}} of at most {progress.max_iter} [{{elapsed}}, {{rate_fmt}}{{postfix}}]"
            self._bar = _bar(bar_format=told, unit="step")
        gain = f", remaining gain {progress.remaining:.2g}" if math.isfinite(progress.remaining) else ""
        said = f"{self._objective} {progress.log_likelihood:.6g}{gain}"
        self._bar.set_postfix_str(said + self._time_left(self._bar, progress), refresh=False)
        self._bar.update(progress.iteration - self._bar.n)

    def _time_left(self, bar: tqdm[Any], now: Progress) -> str:
        """Text about the estimated time left; empty at the first step of a fit."""
        if self._lately and now.iteration <= self._lately[-1][0].iteration:
            self._lately.clear()  # another fit begins
        self._lately.append((now, time.monotonic()))
        (before, then), (_, today) = self._lately[0], self._lately[-1]
        if before is now:
            return ""
        steps = steps_left(before, now)
        words, count = ("at most", now.max_iter - now.iteration) if steps is None else ("about", steps)
        seconds = (today - then) / (now.iteration - before.iteration) * count
        return f", {words} {bar.format_interval(seconds)} left"


class StageBar:
    """Progress bar that names the current stage and counts the stages."""

    def __init__(self, *, enabled: bool) -> None:
        """Create a bar that appears with the first stage, or never if not ``enabled``."""
        self._enabled = enabled
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> Self:
        """Return the stage bar itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the stage bar."""
        if self._bar is not None:
            self._bar.close()

    def __call__(self, stage: str) -> None:
        """Show the next stage."""
        if not self._enabled:
            return
        if self._bar is None:
            self._bar = _bar(unit="stage")
        self._bar.set_postfix_str(stage, refresh=time.monotonic() >= QUIET_UNTIL.get())
        self._bar.update()
