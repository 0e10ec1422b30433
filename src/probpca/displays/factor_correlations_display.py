"""Correlations of oblique factors, as a heat map or as a path diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import (
    THEME,
    bold_title,
    clipped,
    draw_cells,
    figure_title,
    place,
    signed_colours,
)
from probpca.displays.inputs import listed, names_of, require_choice, require_fitted, require_same_factors, rotation_of
from probpca.errors import DataError
from probpca.learning.factor.uncertainty import factor_name
from probpca.learning.uncertainty.estimate import largest_first

if TYPE_CHECKING:
    from probpca.learning.factor.uncertainty import FactorUncertainty
    from probpca.typing import Array


class FactorCorrelationsDisplay:
    r"""Correlations of the factors of an oblique rotation, as a heat map or as a path diagram.

    .. math:: \Phi = T^\top T, \qquad C = L \Phi L^\top + \Psi

    ``kind="heatmap"`` shows the lower triangle of :math:`\Phi`. ``kind="network"`` draws factors as circles, joined by
    lines that are the wider the larger the correlation, with the columns that load most on each factor beside it. If
    the uncertainty is known, intervals stand below the numbers, and correlations whose interval contains zero are
    pale. Create it with ``from_estimator`` or ``from_uncertainty``.

    Attributes
    ----------
    correlations : ndarray (q, q)
        Correlations of the factors.
    interval : tuple of ndarray (q, q), or None
        Lower and upper ends of confidence intervals.
    factor_names : list of str
        Names of the factors.
    columns : list of list of str
        Columns with the largest loadings on each factor, largest first.
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.
    image_ : matplotlib artist or None
        The cells of the heat map.
    lines_ : dict
        Lines of the network, by the positions of their two factors.
    numbers_ : dict
        Texts of the numbers, by the positions of their two factors.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from probpca import FactorAnalysis, FactorCorrelationsDisplay
    >>> wine = load_wine(as_frame=True).data
    >>> factors = FactorAnalysis(n_components=3, rotation="oblimin").fit(wine)
    >>> display = FactorCorrelationsDisplay.from_estimator(factors, kind="network")
    >>> display.correlations.round(1) + 0.0
    array([[ 1. ,  0. , -0.3],
           [ 0. ,  1. ,  0. ],
           [-0.3,  0. ,  1. ]])
    >>> display.columns[0][:2]
    ['flavanoids', 'total_phenols']
    """

    def __init__(
        self,
        correlations: Array,
        factor_names: list[str],
        *,
        interval: tuple[Array, Array] | None = None,
        columns: list[list[str]] | None = None,
        title: str = "Factor correlations",
    ) -> None:
        """Store what ``plot`` draws."""
        self.correlations, self.factor_names, self.interval = correlations, factor_names, interval
        self.columns: list[list[str]] = [[] for _ in factor_names] if columns is None else columns
        self.title = title
        if len(factor_names) < 2:
            msg = "FactorCorrelationsDisplay needs two factors or more; the model has 1."
            raise DataError(msg)

    @classmethod
    def from_estimator(  # noqa: PLR0913
        cls,
        estimator: Any,
        *,
        uncertainty: FactorUncertainty | None = None,
        level: float = 0.95,
        kind: str = "heatmap",
        factor_names: Any = None,
        feature_names: Any = None,
        ax: Any = None,
    ) -> FactorCorrelationsDisplay:
        """Draw the correlations of the factors of a fit.

        Parameters
        ----------
        estimator : FactorAnalysis
            A fitted estimator with an oblique rotation: "oblimin", "promax" or "geomin".
        uncertainty : FactorUncertainty or None, default=None
            From ``estimator.uncertainty()``: adds intervals.
        level : float, default=0.95
            Probability of the intervals.
        kind : "heatmap" or "network", default="heatmap"
            What to draw.
        factor_names : sequence of str or None, default=None
            Names of the factors. None: F1, F2, ...
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.

        Returns
        -------
        FactorCorrelationsDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        require_fitted(cls, estimator, "factor_correlations_")
        if estimator.n_components_ > 1 and not estimator.rotation_.is_oblique:
            msg = (
                f"factors are uncorrelated with rotation={estimator.rotation!r}: there are no correlations to draw.\n"
                "Hint: estimator.rotate('oblimin')."
            )
            raise DataError(msg)
        if uncertainty is not None:
            require_same_factors(estimator, uncertainty)
        made = cls(
            estimator.factor_correlations_,
            _names_of_factors(factor_names, estimator.n_components_),
            interval=None if uncertainty is None else uncertainty.factor_correlations.interval(level),
            columns=_main_columns(estimator.standardized_loadings_, names_of(estimator, feature_names)),
            title=f"Factor correlations, {rotation_of(estimator)}",
        )
        return made.plot(ax, kind=kind)

    @classmethod
    def from_uncertainty(
        cls,
        uncertainty: FactorUncertainty,
        *,
        level: float = 0.95,
        kind: str = "heatmap",
        factor_names: Any = None,
        feature_names: Any = None,
        ax: Any = None,
    ) -> FactorCorrelationsDisplay:
        """Draw the correlations of factors with their intervals.

        Parameters
        ----------
        uncertainty : FactorUncertainty
            The result of ``FactorAnalysis.uncertainty``.
        level : float, default=0.95
            Probability of the intervals.
        kind : "heatmap" or "network", default="heatmap"
            What to draw.
        factor_names : sequence of str or None, default=None
            Names of the factors. None: F1, F2, ...
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.

        Returns
        -------
        FactorCorrelationsDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        found = uncertainty.factor_correlations
        made = cls(
            found.value,
            _names_of_factors(factor_names, len(found.value)),
            interval=found.interval(level),
            columns=_main_columns(uncertainty.loadings.value, uncertainty.names(feature_names)),
        )
        return made.plot(ax, kind=kind)

    def plot(self, ax: Any = None, *, kind: str = "heatmap") -> FactorCorrelationsDisplay:
        """Draw the correlations.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw. None: in a new figure.
        kind : "heatmap" or "network", default="heatmap"
            What to draw.

        Returns
        -------
        FactorCorrelationsDisplay
            The display itself.
        """
        require_choice("kind", kind, ("heatmap", "network"))
        given, q = ax is not None, len(self.factor_names)
        cell = (0.75, 0.5) if self.interval is None else (1.05, 0.6)  # inches
        matrix = max(1.2 + cell[0] * (q - 1), 3.8), 1.1 + cell[1] * (q - 1)
        self.figure_, self.ax_ = place(ax, matrix if kind == "heatmap" else (6.4, 2.0 if q == 2 else 5.2))
        self.image_: Any = None
        self.numbers_: dict[tuple[int, int], Any] = {}
        self.lines_: dict[tuple[int, int], Any] = {}
        if kind == "heatmap":
            self._draw_heatmap()
        else:
            self._draw_network()
        if given:
            bold_title(self.ax_, self.title, THEME.title_length)
        else:
            figure_title(self.figure_, self.title)
        return self

    def is_sure(self, j: int, k: int) -> bool:
        """Whether the interval of the correlation of two factors excludes zero; true without intervals."""
        if self.interval is None:
            return True
        return bool(self.interval[0][j, k] > 0 or self.interval[1][j, k] < 0)

    def _words(self, j: int, k: int) -> str:
        """A correlation with two decimals, and its interval in a second line."""
        said = _signed(self.correlations[j, k])
        if self.interval is None:
            return said
        return f"{said}\n[{_signed(self.interval[0][j, k])}, {_signed(self.interval[1][j, k])}]"

    def _draw_heatmap(self) -> None:
        """Draw the lower triangle of the matrix; the ones of the diagonal have no colour."""
        ax, q = self.ax_, len(self.factor_names)
        below = np.tril(np.ones((q, q), dtype=bool), -1)
        shown = np.where(below, self.correlations, np.nan)[1:, :-1]
        self.image_, _ = draw_cells(ax, shown, signed_colours(), 1.0, written=False)
        for j, k in zip(*np.nonzero(below), strict=True):
            strong = abs(self.correlations[j, k]) > 0.6
            colour = "white" if strong else "black" if self.is_sure(j, k) else THEME.unsure_name
            look = {"ha": "center", "va": "center", "fontsize": THEME.small + (self.interval is None), "color": colour}
            self.numbers_[int(k), int(j)] = ax.text(k, j - 1, self._words(j, k), **look)
        names = [clipped(name, THEME.short_name_length) for name in self.factor_names]
        ax.set_xticks(np.arange(q - 1), names[:-1])
        ax.set_yticks(np.arange(q - 1), names[1:])
        ax.set(xlim=(-0.5, q - 1.5), ylim=(q - 1.5, -0.5))
        ax.tick_params(length=0, labelsize=9)
        ax.spines[:].set_visible(False)

    def _draw_network(self) -> None:
        """Draw factors on a circle, the first on top, and lines between them."""
        ax, q = self.ax_, len(self.factor_names)
        angles = np.pi / 2 - 2 * np.pi * np.arange(q) / q + (np.pi / 2 if q == 2 else 0.0)
        places = np.column_stack([np.cos(angles), np.sin(angles)])
        pairs = [(j, k) for j in range(q) for k in range(j + 1, q)]
        for pair, at in zip(pairs, free_points(places, pairs), strict=True):
            self._draw_line(*pair, places, at)
        box = {"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": THEME.ink, "linewidth": 1.5}
        for k, centre in enumerate(places):
            name = clipped(self.factor_names[k], THEME.short_name_length)
            look = {"ha": "center", "va": "center", "fontsize": 10, "fontweight": "bold", "color": THEME.ink}
            ax.text(*centre, name, bbox=box, zorder=3, **look)
            self._draw_columns(k, centre, 0.16 + 0.028 * len(name))
        lowest = -1.75 if q % 2 == 0 else -1.5  # room for the columns of a factor at the bottom
        ax.set(xlim=(-2.1, 2.1), ylim=(-0.45, 0.45) if q == 2 else (lowest, 1.75), aspect="equal")
        ax.set_axis_off()

    def _draw_columns(self, k: int, centre: Array, half: float) -> None:
        """Write the main columns of a factor outside of its box, which is ``2 * half`` wide."""
        x, y = centre
        words = "\n".join(clipped(name, THEME.short_name_length) for name in self.columns[k])
        look = {"fontsize": THEME.small, "color": THEME.muted}
        if abs(x) < 0.3:
            self.ax_.text(x, y + 0.22 * np.sign(y), words, ha="center", va="bottom" if y > 0 else "top", **look)
        else:
            self.ax_.text(x + half * np.sign(x), y, words, ha="left" if x > 0 else "right", va="center", **look)

    def _draw_line(self, j: int, k: int, places: Array, at: Array) -> None:
        """Draw the line between two factors, and its number."""
        value, sure = float(self.correlations[j, k]), self.is_sure(j, k)
        colour = THEME.accent if value < 0 else THEME.ink
        look = {"color": colour, "linewidth": 0.5 + 8 * abs(value), "alpha": 0.75 if sure else 0.25}
        (self.lines_[j, k],) = self.ax_.plot(*places[[j, k]].T, solid_capstyle="butt", zorder=1, **look)
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 1.5}
        style = {"ha": "center", "va": "center", "fontsize": THEME.small, "zorder": 2, "bbox": box}
        self.numbers_[j, k] = self.ax_.text(
            *at, self._words(j, k), color=colour if sure else THEME.unsure_name, **style
        )


def free_points(places: Array, pairs: list[tuple[int, int]]) -> list[Array]:
    """A point on the line between each pair of places, as far from the other lines and points as possible."""
    shares = np.array([0.5, 0.45, 0.55, 0.4, 0.6, 0.35, 0.65, 0.3, 0.7])[:, None]
    points: list[Array] = []
    for j, k in pairs:
        tried = (1 - shares) * places[j] + shares * places[k]
        others = [_distances(tried, places[a], places[b]) for a, b in pairs if not {a, b} & {j, k}]
        others += [np.linalg.norm(tried - point, axis=1) for point in points]
        free = np.min([*others, np.ones(len(tried))], axis=0)
        points.append(tried[int(np.argmax(np.minimum(free, 0.25)))])
    return points


def _distances(points: Array, start: Array, end: Array) -> Array:
    """Distances of points from a line segment: (n,)."""
    along = end - start
    share = np.clip((points - start) @ along / (along @ along), 0.0, 1.0)
    return np.asarray(np.linalg.norm(points - start - share[:, None] * along, axis=1))


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")


def _names_of_factors(given: Any, q: int) -> list[str]:
    return [factor_name(k) for k in range(q)] if given is None else listed("factor_names", given, q)


def _main_columns(loadings: Array, names: list[str], most: int = 4, least: float = 0.4) -> list[list[str]]:
    """Names of the columns with the largest loadings on each factor, at least ``least`` of the largest one."""
    found = []
    for w in np.abs(loadings).T:
        order = largest_first(w, most)
        found.append([names[j] for j in order if w[j] >= least * w.max() > 0])
    return found
