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
    """Convergence plot: the log-likelihood (or its lower bound) at each iteration, and its distance from the end.

    The first panel shows the fast rise at the beginning. The second, on a logarithmic axis, shows the rate of
    convergence: on a straight line the distance shrinks by a constant factor in each iteration. The curve drops at its
    right end because the distance is measured to its own last value; pass a better one, if it is known, as
    ``reference``. Create it with ``from_estimator``.

    Attributes
    ----------
    trace : ndarray (n_iter + 1,)
        The log-likelihood, or its lower bound, before each iteration and at the end.
    reference : float
        The value that distances are measured to: the largest value of the trace, or the one that was given.
    gap : ndarray (n_iter + 1,)
        Difference between the reference and the trace.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The first axes.
    axes_ : ndarray of Axes
        All axes.
    line_, gap_line_ : matplotlib artists
        The curves of the two panels.

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
                f"ConvergenceDisplay needs a fit that iterates; got a trace of {self.trace.size} values.\n"
                "Hint: the closed form does not iterate; use solver='em'."
            )
            raise DataError(msg)
        self.reference = float(self.trace.max() if reference is None else reference)
        self.gap: Array = self.reference - self.trace

    @classmethod
    def from_estimator(cls, estimator: Any, *, reference: float | None = None, ax: Any = None) -> ConvergenceDisplay:
        """Draw the convergence of a fit.

        Parameters
        ----------
        estimator : PPCA, BayesianPCA, FactorAnalysis or LinearDynamicalSystem
            An estimator fitted by an iterative solver.
        reference : float or None, default=None
            Log-likelihood of a better fit to measure distances to, if one is known. None: the largest of this fit.
        ax : two matplotlib Axes, one Axes or None, default=None
            Where to draw. A single Axes is replaced by two in its place. None: in a new figure.

        Returns
        -------
        ConvergenceDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator)
        name = "lower bound" if hasattr(estimator, "lower_bound_") else "log-likelihood"
        settings = {"tol": estimator.tol, "status": estimator.status_.value}
        return cls(estimator.trace_, name=name, reference=reference, **settings).plot(ax)

    def plot(self, ax: Any = None, *, most_marks: int = 40) -> ConvergenceDisplay:
        """Draw the two panels.

        Parameters
        ----------
        ax : two matplotlib Axes, one Axes or None, default=None
            Where to draw. A single Axes is replaced by two in its place. None: in a new figure.
        most_marks : int, default=40
            With more iterations than this, lines have no markers, and the first panel has a logarithmic x axis.

        Returns
        -------
        ConvergenceDisplay
            The display itself.
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
