"""How many components: every curve and every choice in one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.axes import FAINT, RING, draw_curve, frame, panels, whole_numbers
from probpca.estimators import select_n_components

if TYPE_CHECKING:
    from probpca.learning.selection.result import Selection

WIDTH, HEIGHT, HEAD = 3.1, 2.5, 0.9
"""Of one panel, and of what stands above all of them, in inches."""


class SelectionDisplay:
    """Curves of the criteria that choose a number of components, one panel each, and what they choose.

    Make it with ``from_selection`` or ``from_data``. Curves in nats are drawn relative to their best; the others are
    ratios, which a component must have above 1 to be kept.

    Attributes
    ----------
    selection : Selection
        What is drawn.
    figure_ : matplotlib Figure
    axes_ : ndarray of Axes
        One for each criterion that has a curve, and the choices of all if they are several; the first is ``ax_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import SelectionDisplay
    >>> display = SelectionDisplay.from_data(load_iris().data, ["bic", "cv"], random_state=0)
    >>> [ax.get_title(loc="left") for ax in display.axes_]
    ['bic: 3', 'cv: 3', 'choices']
    """

    def __init__(self, selection: Selection) -> None:
        """Remember what is to be drawn; ``plot`` draws it."""
        self.selection = selection

    @classmethod
    def from_selection(cls, selection: Selection, *, ax: Any = None) -> SelectionDisplay:
        """Draw what ``select_n_components`` found."""
        return cls(selection).plot(ax)

    @classmethod
    def from_data(  # noqa: PLR0913
        cls,
        X: Any,
        criteria: Any = None,
        *,
        max_components: int | None = None,
        sample_weight: Any = None,
        missing: str = "nan",
        standardize: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        ax: Any = None,
    ) -> SelectionDisplay:
        """Ask the criteria about a table, as ``select_n_components`` does, and draw what they say."""
        found = select_n_components(
            X,
            criteria,
            max_components=max_components,
            sample_weight=sample_weight,
            missing=missing,
            standardize=standardize,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        return cls.from_selection(found, ax=ax)

    def plot(self, ax: Any = None) -> SelectionDisplay:
        """Draw panels in a new figure, in as many axes as are given, or in the place of one."""
        drawn = [c for c in self.selection.criteria if c.score.size]
        several = len(self.selection.choices) != 1 or not drawn
        count = len(drawn) + several
        across = count if count <= 3 else -(-count // 2)
        size = (WIDTH * across + 0.3, HEIGHT * -(-count // across) + HEAD)
        self.figure_, self.axes_ = panels(ax, count, across, size)
        self.ax_ = self.axes_[0]
        for panel, criterion in zip(self.axes_, drawn, strict=False):
            draw_curve(panel, criterion)
        if several:
            _compare(self.axes_[-1], self.selection.choices)
        if ax is None:
            width = int(13 * self.figure_.get_size_inches()[0])
            self.figure_.suptitle(_broken(self.selection.agreement, width), x=0.02, ha="left", fontsize=10)
        return self


def _compare(ax: Any, choices: dict[str, int]) -> None:
    """What each criterion chooses, one line each."""
    names, places = list(choices), np.arange(len(choices))
    ax.hlines(places, 0, list(choices.values()), color=FAINT, linewidth=1)
    ax.plot(list(choices.values()), places, "o", **RING)
    ax.set_yticks(places, names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.15 * max([*choices.values(), 1]))
    frame(ax, "choices", x="components")
    whole_numbers(ax.xaxis, 7)


def _broken(words: str, width: int) -> str:
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
