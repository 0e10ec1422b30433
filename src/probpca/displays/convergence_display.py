"""Convergence of a fit: the log-likelihood at each step, and what was left to gain."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import THEME, beside, frame, panels, plain_log, whole_numbers
from probpca.displays.inputs import require_fitted
from probpca.errors import DataError

if TYPE_CHECKING:
    from probpca.typing import Array


class ConvergenceDisplay:
    """The log-likelihood, or the lower bound, at each step, and beside it the distance to its final value.

    The first panel shows the steep beginning; the second, on a logarithmic axis, the rate of convergence: a straight
    line is a constant factor from step to step. The curve drops at its right end because the distance is measured to
    its own last value; pass a better one, if it is known, as ``reference``. Create it with ``from_estimator``.

    Attributes
    ----------
    trace : ndarray (n_steps + 1,)
        The objective before each step and at the end.
    reference : float
        The largest value of the trace, or the one that was given.
    gap : ndarray (n_steps + 1,)
        Difference between the reference and the trace.
    figure_, ax_, axes_
        matplotlib Figure, the first Axes, and both; an axes that was given alone is cut in two, and is neither.
    line_, gap_line_ : artists

    Examples
    --------
    >>> from probpca import ConvergenceDisplay, PPCA
    >>> from probpca.datasets import load_fertility
    >>> ppca = PPCA(n_components=3, random_state=0).fit(load_fertility().values)
    >>> display = ConvergenceDisplay.from_estimator(ppca)
    >>> bool(display.trace[-1] == ppca.log_likelihood_), bool(display.gap[-1] == 0)
    (True, True)
    """

    def __init__(
        self,
        trace: Any,
        *,
        name: str = "log-likelihood",
        reference: float | None = None,
        tol: float | None = None,
        status: str = "",
    ) -> None:
        """Store what ``plot`` draws."""
        self.trace: Array = np.asarray(trace, dtype=np.float64)
        self.name, self.tol, self.status = name, tol, status
        if self.trace.ndim != 1 or self.trace.size < 2:
            msg = (
                f"a fit of one step or more can be shown; got a trace of {self.trace.size} values.\n"
                "Hint: the closed form takes no steps; solver='em' does."
            )
            raise DataError(msg)
        self.reference = float(self.trace.max() if reference is None else reference)
        self.gap: Array = self.reference - self.trace

    @classmethod
    def from_estimator(cls, estimator: Any, *, reference: float | None = None, ax: Any = None) -> ConvergenceDisplay:
        """Draw the convergence of a fit; ``reference`` is the value of a better fit, if one is known.

        ``ax`` is as in ``plot``.
        """
        require_fitted(cls, estimator)
        name = "lower bound" if hasattr(estimator, "lower_bound_") else "log-likelihood"
        settings = {"tol": estimator.tol, "status": estimator.status_.value}
        return cls(estimator.trace_, name=name, reference=reference, **settings).plot(ax)

    def plot(self, ax: Any = None, *, most_marks: int = 40) -> ConvergenceDisplay:
        """Draw in a new figure, or in two given axes.

        One axes of a grid is cut in two: it is left empty, and ``axes_`` are two new ones in its place. More than
        ``most_marks`` steps are drawn without markers, and the first panel has a logarithmic x axis.
        """
        self.figure_, self.axes_ = panels(ax, 2, 2, (6.8, 3.2))
        self.ax_, right = self.axes_
        steps = np.arange(1, self.trace.size + 1)
        marked = {
            "color": THEME.ink,
            "linewidth": 1.4,
            "marker": "o" if steps.size <= most_marks else "",
            "markersize": 3,
        }
        (self.line_,) = self.ax_.plot(steps, self.trace, **marked)
        frame(self.ax_, "Convergence", x="iteration", y=f"{self.name} (nats)")
        self.ax_.ticklabel_format(axis="y", useOffset=False, style="plain")
        left = np.where(self.gap > 0, self.gap, np.nan)  # what lacks nothing has no logarithm
        (self.gap_line_,) = right.plot(steps, left, **marked)
        right.set_yscale("log")
        final = "final value" if self.gap.min() == 0 else "reference"
        frame(right, x="iteration", y=f"distance to the {final} (nats)")
        whole_numbers(right.xaxis, 6)
        if steps.size > most_marks:  # the beginning would be one vertical line
            self.ax_.set_xscale("log")
            plain_log(self.ax_.xaxis, 1, steps.size)
        elif self.ax_.get_xscale() != "log":  # given axes may hold a longer curve already
            whole_numbers(self.ax_.xaxis, 6)
        if self.tol:
            right.axhline(self.tol, color=THEME.accent, linewidth=0.9, linestyle="--")
            where = right.get_yaxis_transform()
            beside(right, f"tol = {self.tol:g}", (0.15, self.tol), (0, 3), xycoords=where, color=THEME.accent)
        if ax is None and self.status:
            self.figure_.suptitle(fill(self.status, 100), x=0.02, ha="left", fontsize=THEME.small, color=THEME.muted)
        return self
