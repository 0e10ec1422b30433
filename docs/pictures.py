"""Draw the pictures of README and docs: ``make pictures``.

Each panel is one call of a display on real data, and the report is a screenshot by chromium, which is skipped without
that browser. The pictures are kept in ``docs/images``, so that the README shows them without a build.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from probpca import PPCA, BiplotDisplay, ImputationDisplay, OutlierDisplay, report
from probpca.datasets import load_fertility

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).parent / "images"
LOOK = {"font.size": 10, "savefig.dpi": 144, "savefig.facecolor": "white"}


def biplot(ax: Axes) -> None:
    """178 wines of three cultivars, and the measurements that tell them apart."""
    wine = load_wine()
    ppca = PPCA(n_components=2, standardize=True, random_state=0).fit(wine.data)
    measurements = [name.split("/")[0].replace("_", " ") for name in wine.feature_names]
    cultivars = np.array(["Barolo", "Grignolino", "Barbera"])[wine.target]
    BiplotDisplay.from_estimator(
        ppca,
        wine.data,
        units="correlation",
        feature_names=measurements,
        groups=cultivars,
        group_ellipses=True,
        most=6,
        ax=ax,
    )


def imputed_values(ax: Axes) -> None:
    """Births per woman in the Seychelles: the years that were recorded, and the others with intervals."""
    table = load_fertility()
    ppca = PPCA(n_components=3, random_state=0).fit(table.values)
    ImputationDisplay.from_estimator(
        ppca,
        table.values,
        rows=["Seychelles"],
        labels=table.countries,
        positions=table.years,
        value_name="births per woman",
        ax=ax,
    )


def outlying_cells(ax: Axes) -> None:
    """Why Kuwait is the most unusual of 219 countries: births fell in the war of 1990."""
    table = load_fertility()
    ppca = PPCA(n_components=3, random_state=0).fit(table.values)
    OutlierDisplay.from_estimator(
        ppca,
        table.values,
        row="Kuwait",
        labels=table.countries,
        feature_names=table.years,
        measure="cell_scores",
        in_order=True,
        ax=ax,
    )
    ax.set_ylim(bottom=-9)  # room for the legend below the bars


PANELS = {"biplot": biplot, "imputed": imputed_values, "outliers": outlying_cells}


def screenshot_of_report(target: Path) -> None:
    """The first screen of a report on wines with missing cells; needs chromium, or CHROMIUM=/path/to/it."""
    browser = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if browser is None:
        print(f"{target} was left as it is: there is no chromium")  # noqa: T201
        return
    wine = load_wine(as_frame=True)
    rows = wine.data.mask(np.random.default_rng(0).random(wine.data.shape) < 0.05)
    cultivars = np.array(["Barolo", "Grignolino", "Barbera"])[wine.target]
    ppca = PPCA(n_components=3, standardize=True, random_state=0).fit(rows)
    with tempfile.TemporaryDirectory() as folder:
        page = report(ppca, rows, Path(folder) / "wine.html", groups={"cultivar": cultivars}, title="wine.csv")
        flags = (
            "--headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,900 --virtual-time-budget=9000"
        )
        profile, shot = f"--user-data-dir={folder}/profile", f"--screenshot={target}"
        command = [browser, *flags.split(), profile, shot, page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603


def main() -> None:
    """Draw each panel alone, and all of them side by side."""
    FOLDER.mkdir(exist_ok=True)
    with mpl.rc_context(LOOK):
        for name, draw in PANELS.items():
            figure, ax = plt.subplots(figsize=(5.4, 4.3), layout="constrained")
            draw(ax)
            figure.savefig(FOLDER / f"{name}.png")
        figure, axes = plt.subplots(1, 3, figsize=(14.4, 4.6), layout="constrained", width_ratios=(1.15, 1, 1))
        for ax, draw in zip(axes, PANELS.values(), strict=True):
            draw(ax)
        figure.savefig(FOLDER / "overview.png")
    screenshot_of_report(FOLDER / "report.png")


if __name__ == "__main__":
    main()
