"""Choice of the number of components or clusters: the curve and the choice of every criterion."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import THEME, draw_curve, draw_rings, frame, name_lines, panels, whole_numbers
from probpca.displays.inputs import require_fitted
from probpca.estimators import select_n_components
from probpca.learning.selection.result import Criterion, Selection

if TYPE_CHECKING:
    from probpca.learning.mixture.result import MixtureCriteria


class SelectionDisplay:
    """Curves of the criteria that choose a number of components or clusters, one panel each, and their choices.

    Create it with ``from_selection``, ``from_data`` or, for the clusters of a mixture, ``from_estimator``. Curves in
    nats are drawn relative to their best value; the others are ratios, which keep a component if they exceed 1.

    Attributes
    ----------
    selection : Selection
        The criteria and their choices.
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of Axes
        One for each criterion that has a curve, and the choices of all if they are several; the first is ``ax_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import SelectionDisplay
    >>> display = SelectionDisplay.from_data(load_iris().data, ["bic", "cv"], random_state=0)
    >>> [ax.get_title(loc="left") for ax in display.axes_]
    ['bic: 3', 'cv: 3', 'all choices']
    """

    def __init__(self, selection: Selection) -> None:
        """Store what ``plot`` draws."""
        self.selection = selection

    @classmethod
    def from_selection(cls, selection: Selection, *, ax: Any = None) -> SelectionDisplay:
        """Draw the result of ``select_n_components``.

        Parameters
        ----------
        selection : Selection
            The result of ``select_n_components``.
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each panel, or one that is replaced by several. None: in a new figure.

        Returns
        -------
        SelectionDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        return cls(selection).plot(ax)

    @classmethod
    def from_data(cls, X: Any, criteria: Any = None, *, ax: Any = None, **options: Any) -> SelectionDisplay:
        """Compute the criteria for a table and draw them.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            The rows; NaN marks a missing cell.
        criteria : str, list of str or None, default=None
            Any of "parallel", "bic", "evidence", "cv", "ard", "gavish_donoho", "fa_bic" and "fa_aic". None: all that
            apply.
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each panel, or one that is replaced by several. None: in a new figure.
        **options
            Other parameters of ``select_n_components``, such as ``max_components``, ``standardize`` and
            ``random_state``.

        Returns
        -------
        SelectionDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.
        """
        return cls.from_selection(select_n_components(X, criteria, **options), ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> SelectionDisplay:
        """Draw BIC and ICL of a mixture against the number of clusters.

        For each number of clusters the value is that of the best number of components.

        Parameters
        ----------
        estimator : MixturePPCA
            A fitted mixture. If its number of clusters was given, the curves have one point.
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each panel, or one that is replaced by several. None: in a new figure.

        Returns
        -------
        SelectionDisplay
            The display, already drawn; ``figure_`` is the matplotlib figure.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import MixturePPCA, SelectionDisplay
        >>> mixture = MixturePPCA(n_components=1, random_state=0).fit(load_iris().data)
        >>> display = SelectionDisplay.from_estimator(mixture)
        >>> [ax.get_xlabel() for ax in display.axes_[:2]]
        ['number of clusters', 'number of clusters']
        """
        require_fitted(cls, estimator, "criteria_")
        found = estimator.criteria_
        criteria = tuple(criterion_of_clusters(found, rule) for rule in ("bic", "icl"))
        return cls(Selection(criteria, estimator.n_samples_, estimator.n_features_in_)).plot(ax)

    def plot(self, ax: Any = None) -> SelectionDisplay:
        """Draw one panel for each criterion.

        Parameters
        ----------
        ax : matplotlib Axes, several Axes or None, default=None
            Where to draw, one Axes for each panel, or one that is replaced by several. None: in a new figure.

        Returns
        -------
        SelectionDisplay
            The display itself.
        """
        drawn = [c for c in self.selection.criteria if c.score.size]
        several = len(self.selection.choices) != 1 or not drawn
        count = len(drawn) + several
        across = count if count <= 3 else -(-count // 2)
        size = (3.1 * across + 0.3, 2.5 * -(-count // across) + 0.9)  # inches
        self.figure_, self.axes_ = panels(ax, count, across, size)
        self.ax_ = self.axes_[0]
        for panel, criterion in zip(self.axes_, drawn, strict=False):
            draw_curve(panel, criterion)
        if several:
            of_clusters = {c.counts for c in self.selection.criteria} == {"clusters"}
            _compare(self.axes_[-1], self.selection.choices, "clusters" if of_clusters else "components")
        if ax is None:
            width = int(13 * self.figure_.get_size_inches()[0])
            words = fill(self.selection.agreement, width, break_long_words=False, break_on_hyphens=False)
            self.figure_.suptitle(words, x=0.02, ha="left", fontsize=10)
        return self


def criterion_of_clusters(found: MixtureCriteria, rule: str) -> Criterion:
    """A criterion of mixtures, "bic" or "icl", against the number of clusters, each with its best components.

    Mixtures with degenerate clusters are left out unless all are like that.
    """
    scores = np.where(found.degenerate, -np.inf, getattr(found, rule))
    scores = scores if np.isfinite(scores).any() else getattr(found, rule)
    counts = np.unique(found.n_clusters)
    best = np.array([scores[found.n_clusters == count].max() for count in counts])
    kept = np.isfinite(best)
    choice = int(counts[best.argmax()])
    return Criterion(f"mixture_{rule}", choice, counts[kept], best[kept])


def _compare(ax: Any, choices: dict[str, int], counted: str) -> None:
    """Draw the choice of each criterion, one line each."""
    places = np.arange(len(choices))
    ax.hlines(places, 0, list(choices.values()), color=THEME.faint, linewidth=1)
    draw_rings(ax, list(choices.values()), places)
    name_lines(ax, list(choices))
    ax.set_xlim(0, 1.15 * max([*choices.values(), 1]))
    frame(ax, "all choices", x=f"number of {counted}")
    whole_numbers(ax.xaxis, 7)
