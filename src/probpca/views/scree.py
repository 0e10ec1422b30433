"""How much of the variance each component holds, and where the noise begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.errors import ShapeError
from probpca.views.axes import CHOSEN, FAINT, INK, beside, frame, percent, place, plain_log, whole_numbers
from probpca.views.reading import require_fitted

if TYPE_CHECKING:
    from probpca.learning.choice.selection import Selection
    from probpca.learning.estimates import ParameterUncertainty
    from probpca.typing import Array

MOST_SHARES = 15
"""Components beside which the share of variance is written."""


class ScreeDisplay:
    """Variance along each component above the noise, with intervals and with the choices of criteria.

    A component that is no larger than noise rests on the dashed line. Make it with ``from_estimator``.

    Attributes
    ----------
    explained_variance, explained_variance_ratio : ndarray (q,)
    noise_variance : ndarray () or (n_features,)
    interval : tuple of ndarray (q,), or None
        Lower and upper ends of the variances.
    choices : dict
        What each criterion chose, empty if none was asked.
    figure_, ax_
        matplotlib Figure and Axes.
    line_, noise_ : artists
        Of the variances and of the noise.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import PPCA, ScreeDisplay
    >>> display = ScreeDisplay.from_estimator(PPCA(n_components=3).fit(load_iris().data))
    >>> display.explained_variance_ratio.round(3)
    array([0.925, 0.053, 0.017])
    """

    def __init__(
        self,
        explained_variance: Array,
        explained_variance_ratio: Array,
        noise_variance: Any,
        *,
        interval: tuple[Array, Array] | None = None,
        choices: dict[str, int] | None = None,
    ) -> None:
        """Remember what is to be drawn; ``plot`` draws it."""
        self.explained_variance, self.explained_variance_ratio = explained_variance, explained_variance_ratio
        self.noise_variance = np.asarray(noise_variance, dtype=np.float64)
        self.interval, self.choices = interval, dict(choices or {})

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        selection: Selection | None = None,
        uncertainty: ParameterUncertainty | None = None,
        level: float = 0.95,
        scale: str = "log",
        ax: Any = None,
    ) -> ScreeDisplay:
        """Draw the components of a fit.

        ``selection``, from ``select_n_components``, marks what each criterion chooses; ``uncertainty``, from
        ``estimator.uncertainty()``, gives the variances intervals of this ``level``.
        """
        require_fitted(cls, estimator, "explained_variance_ratio_")
        variance = estimator.explained_variance_
        interval = None
        if uncertainty is not None:
            interval = uncertainty.explained_variance.interval(level)
            if interval[0].shape != variance.shape:
                msg = f"uncertainty is of {interval[0].size} components; the estimator has {variance.size}."
                raise ShapeError(msg)
        choices = None if selection is None else selection.choices
        made = cls(
            variance,
            estimator.explained_variance_ratio_,
            estimator.noise_variance_,
            interval=interval,
            choices=choices,
        )
        return made.plot(ax, scale=scale)

    def plot(self, ax: Any = None, *, scale: str = "log") -> ScreeDisplay:
        """Draw in a new figure or in ``ax``; ``scale`` is that of the variances, "log" or "linear"."""
        self.figure_, self.ax_ = place(ax)
        ax, counts = self.ax_, np.arange(1, self.explained_variance.size + 1)
        self.noise_ = self._draw_noise()
        (self.line_,) = ax.plot(counts, self.explained_variance, "-o", color=INK, linewidth=1.3, markersize=5)
        if self.interval is not None:
            ax.vlines(counts, *self.interval, color=INK, linewidth=2.5, alpha=0.35)
        ax.set_yscale(scale)
        ax.margins(y=0.12)
        if scale == "log":
            plain_log(ax.yaxis, self.noise_variance.min(), self.explained_variance.max())
        self._draw_shares(counts)
        self._draw_choices()
        furthest = max([counts.size, *self.choices.values()])
        ax.set_xlim(0.6, furthest + 0.4 + 0.06 * furthest)
        frame(ax, x="component", y="variance along it")
        whole_numbers(ax.xaxis, 12)
        return self

    def _draw_noise(self) -> Any:
        low, high = float(self.noise_variance.min()), float(self.noise_variance.max())
        if low == high:
            drawn, words = self.ax_.axhline(low, color=FAINT, linestyle="--", linewidth=1.2), "noise"
        else:
            drawn, words = self.ax_.axhspan(low, high, color=FAINT, alpha=0.25, linewidth=0), "noise of the features"
        where = self.ax_.get_yaxis_transform()
        beside(self.ax_, words, (1, low), (-2, -3), xycoords=where, ha="right", va="top")
        return drawn

    def _draw_shares(self, counts: Any) -> None:
        """What the components hold up to each one, in percent, while there is room to say it."""
        together = np.cumsum(self.explained_variance_ratio)
        tops = self.explained_variance if self.interval is None else self.interval[1]
        for j in range(counts.size if counts.size <= MOST_SHARES else 0):
            words = percent(together[j]) + ("" if j else " of all")
            beside(self.ax_, words, (counts[j], tops[j]), (4, 4))

    def _draw_choices(self) -> None:
        where = self.ax_.get_xaxis_transform()
        for count in sorted(set(self.choices.values())):
            names = "\n".join(name for name, choice in self.choices.items() if choice == count)
            self.ax_.axvline(count, color=CHOSEN, linewidth=0.9, alpha=0.6, zorder=0)
            beside(self.ax_, names, (count, 0.99), (3, 0), xycoords=where, va="top", color=CHOSEN)
