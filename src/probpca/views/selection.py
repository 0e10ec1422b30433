"""How many components: every curve and every choice in one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.learning.choice.asking import ask, open_rows
from probpca.views.axes import CHOSEN, FAINT, INK, pyplot

if TYPE_CHECKING:
    from probpca.learning.choice.selection import Criterion, Selection

RING = {"markersize": 9, "markerfacecolor": "none", "markeredgecolor": CHOSEN, "markeredgewidth": 2}
BEYOND = 6
"""Numbers of components that are shown after a choice, at least."""
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
    ['bic: 3', 'cv: 2', 'choices']
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
        source = open_rows(X, sample_weight, missing, n_jobs)
        rng = _generator(random_state)
        found = ask(source, criteria, rng, largest=max_components, standardize=standardize, verbose=False)
        return cls.from_selection(found, ax=ax)

    def plot(self, ax: Any = None) -> SelectionDisplay:
        """Draw panels in a new figure, or in the place of ``ax``."""
        drawn = [c for c in self.selection.criteria if c.score.size]
        several = len(self.selection.choices) != 1 or not drawn
        self.figure_, self.axes_ = _panels(len(drawn) + several, ax)
        self.ax_ = self.axes_[0]
        for panel, criterion in zip(self.axes_, drawn, strict=False):
            _draw(panel, criterion)
        if several:
            _compare(self.axes_[-1], self.selection.choices)
        if ax is None:
            width = int(13 * self.figure_.get_size_inches()[0])
            self.figure_.suptitle(_broken(self.selection.agreement, width), x=0.02, ha="left", fontsize=10)
        return self


def _panels(count: int, ax: Any) -> tuple[Any, Any]:
    """A figure with so many axes, or an axes cut into as many."""
    columns = count if count <= 3 else -(-count // 2)
    rows = -(-count // columns)
    if ax is None:
        size = (WIDTH * columns + 0.3, HEIGHT * rows + HEAD)
        figure, grid = pyplot().subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        axes = grid.ravel()
    else:
        figure, place = ax.figure, ax.get_subplotspec()
        if count == 1:
            return figure, np.array([ax])
        ax.set_axis_off()
        inner = place.subgridspec(rows, columns, wspace=0.45, hspace=0.75)
        axes = np.array([figure.add_subplot(inner[i]) for i in range(rows * columns)])
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def _draw(ax: Any, criterion: Criterion) -> None:
    """One curve, what it must exceed, and the choice."""
    choice = criterion.choice or 1
    shown = slice(0, max(2 * choice, choice + BEYOND))
    counts, values = criterion.n_components[shown], criterion.shown[shown]
    ax.plot(counts, values, color=INK, marker="o", markersize=3.5, linewidth=1.3)
    if criterion.standard_error is not None:
        error = criterion.standard_error[shown]
        ax.fill_between(counts, values - error, values + error, color=INK, alpha=0.15, linewidth=0)
    ax.axvline(choice, color=CHOSEN, linewidth=0.8, alpha=0.5, zorder=0)
    ax.plot(choice, values[choice - 1], "o", **RING)
    ax.set_ylabel(f"{criterion.unit}, less the best" if criterion.in_nats else criterion.unit, fontsize=9)
    _frame(ax, f"{criterion.name}: {choice}")
    if criterion.in_nats:
        _magnify(ax, values)
    elif (values > 0).all():
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(pyplot().LogLocator(subs=(1, 2, 5) if np.ptp(np.log10(values)) < 2 else (1,)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(pyplot().NullFormatter())
    if not criterion.in_nats:
        ax.axhline(1.0, color=FAINT, linewidth=1, linestyle="--")


def _magnify(ax: Any, values: Any) -> None:
    """Make room for what is near the best: the first values are often very low."""
    if values.size > 3:
        near = max(-float(np.sort(values)[values.size // 3]), 1e-12)
        ax.set_yscale("symlog", linthresh=near)
        ax.set_ylim(top=0.4 * near)


def _compare(ax: Any, choices: dict[str, int]) -> None:
    """What each criterion chooses, one line each."""
    names, places = list(choices), np.arange(len(choices))
    ax.hlines(places, 0, list(choices.values()), color=FAINT, linewidth=1)
    ax.plot(list(choices.values()), places, "o", **RING)
    ax.set_yticks(places, names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.15 * max([*choices.values(), 1]))
    _frame(ax, "choices")


def _frame(ax: Any, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=11, color=INK, fontweight="bold")
    ax.set_xlabel("components", fontsize=9)
    ax.xaxis.set_major_locator(pyplot().MaxNLocator(integer=True, nbins=7))
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)


def _broken(words: str, width: int) -> str:
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def _generator(random_state: Any) -> np.random.Generator:
    """The generator that the estimators make of a random state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    given = random_state if isinstance(random_state, np.random.RandomState) else np.random.RandomState(random_state)
    return np.random.default_rng(given.randint(2**31 - 1))
