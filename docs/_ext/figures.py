"""The figures of the guide, drawn anew by every build from the table that the library ships."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "probpca", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})

import matplotlib.pyplot as plt  # noqa: E402
from sklearn.datasets import load_wine  # noqa: E402

from probpca import PPCA, LoadingsDisplay, SelectionDisplay  # noqa: E402
from probpca.datasets import load_fertility  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def draw_all(app: Sphinx) -> None:
    """Draw into ``_figures``, which git does not see."""
    folder = Path(app.srcdir) / "_figures"
    folder.mkdir(exist_ok=True)
    table = load_fertility().complete()
    ppca = PPCA(n_components=3).fit(table.values)
    _save(_components(table, ppca), folder / "components.svg")
    _save(_country(table, ppca, "Romania"), folder / "romania.svg")
    wines = SelectionDisplay.from_data(load_wine().data, standardize=True, random_state=0)
    _save(wines.figure_, folder / "choices.svg")
    _save(_loadings(), folder / "loadings.svg")


def _loadings() -> Any:
    wine = load_wine(as_frame=True).data
    X = (wine - wine.mean()) / wine.std(ddof=0)
    ppca = PPCA(n_components=3, random_state=0).fit(X)
    return LoadingsDisplay.from_uncertainty(ppca.uncertainty(X)).figure_


def _components(table: Any, ppca: PPCA) -> Any:
    figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
    for j, axis in enumerate(ppca.components_):
        ax.plot(table.years, axis, label=f"PC{j + 1}")
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    ax.set(xlabel="year", ylabel="entry of the axis")
    ax.legend(frameon=False, ncols=3, loc="upper right")
    return figure


def _country(table: Any, ppca: PPCA, name: str) -> Any:
    row = table.values[table.countries.index(name)][None]
    figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
    neighbours = ppca.explore(row, 30, random_state=0)[:, 0]
    ax.plot(table.years, neighbours.T, color="C0", alpha=0.12, linewidth=0.8)
    ax.plot(table.years, row[0], color="black", label=f"{name}, as recorded")
    ax.plot(table.years, ppca.reconstruct(row)[0], color="C3", label="nearest point of the subspace")
    ax.set(xlabel="year", ylabel="births per woman")
    ax.legend(frameon=False)
    return figure


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def setup(app: Sphinx) -> dict[str, Any]:
    """Draw before the pages are read."""
    app.connect("builder-inited", draw_all)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
