"""What a robust fit used of its rows, for a report: sentences, and maps of missing and doubtful cells."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.missingness_display import averaged, edges
from probpca.pages.page import counted, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from probpca.pages.page import Table
    from probpca.typing import Array, Index

    Mask = npt.NDArray[np.bool_]


class MapSettings(NamedTuple):
    """Size of the maps; larger tables are averaged."""

    most_rows: int = 300
    most_columns: int = 100
    levels: int = 4  # shades of a map
    width: int = 480  # in the units of the picture
    height: int = 300
    named: int = 5  # columns with the most doubtful cells that are named


class Used(NamedTuple):
    """Weights that a robust fit gave to its training rows."""

    rows: Mask  # whether each row was used: (n,)
    cells: Array | None  # weight of each cell: (n, d); None if cells were not judged

    @property
    def doubtful(self) -> Mask:
        """Cells of the used rows that count by less than a half, missing ones included: (n, d)."""
        return self.rows[:, None] & (np.zeros((1, 1)) if self.cells is None else self.cells < 0.5).astype(bool)


def used_of(estimator: Any) -> Used | None:
    """What a robust fit used; None after other fits."""
    rows = getattr(estimator, "row_weight_", None)
    return None if rows is None else Used(rows > 0, estimator.cell_weight_)


def robust_card(estimator: Any, table: Table, *, training: bool, settings: MapSettings = MapSettings()) -> str:
    """HTML of a section about the rows and cells that the fit used; empty after other fits.

    The maps are drawn only if the rows of the page are those of the fit.
    """
    used = used_of(estimator)
    if used is None:
        return ""
    same = training and used.rows.size == len(table.cells)
    lines = ['<section class="card" id="robust">', "<h2>What the fit used</h2>"]
    lines += [f"<p>{escape(said)}</p>" for said in about_used(estimator, used, table, settings, same=same)]
    if same:
        lines += ['<div class="grid">', *_maps(used, table, settings), "</div>"]
    return "\n".join([*lines, "</section>"])


def about_used(
    estimator: Any, used: Used, table: Table, settings: MapSettings = MapSettings(), *, same: bool
) -> Iterator[str]:
    """Sentences about the rows and cells that were not used."""
    n, unused = used.rows.size, int((~used.rows).sum())
    kind = "rows" if used.cells is None else "cells"
    rows = "It used all rows." if not unused else f"It did not use {counted(unused, 'row')} of {n:,}."
    yield (
        f'The fit was robust ("{kind}", keep={estimator.keep:g}), so that rows that disagree with the others do not '
        f"bend it. {rows} A row that was not used need not be wrong: its p-value says how unusual it is."
    )
    if used.cells is None:
        return
    observed = used.rows[:, None] & (used.cells > 0)
    doubtful = observed & (used.cells < 0.5)
    count, total = int(doubtful.sum()), int(observed.sum())
    said = (
        f"Of the cells of the used rows, {count:,} ({share(count / max(total, 1))}) counted little, because the other "
    )
    said += "cells of their row and column predict something else."
    if count and same:
        by_column = doubtful.sum(axis=0)
        first = [j for j in np.argsort(-by_column, kind="stable")[: settings.named] if by_column[j]]
        said += " Most of them are in " + ", ".join(f"{table.features[j]} ({by_column[j]:,})" for j in first) + "."
    yield said


def _maps(used: Used, table: Table, settings: MapSettings) -> Iterator[str]:
    """Two pictures: missing cells; doubtful cells and rows that were not used."""
    n, d = table.cells.shape
    rows, columns = edges(n, settings.most_rows), edges(d, settings.most_columns)
    missing = np.isnan(table.cells)
    doubt = used.doubtful & ~missing
    title, note = "Rows that were not used", "Rows that were not used are grey."
    if used.cells is not None:
        title, note = "Doubtful cells", "Doubtful cells are coloured, rows that were not used grey."
    order = "Rows from top to bottom, columns from left to right."
    kinds = [("Missing cells", "#33415c", missing, order), (title, "#c1440e", doubt, note)]
    for k, (title, colour, cells, note) in enumerate(kinds):
        unused = averaged(~used.rows[:, None], rows, edges(1, 1)) if k else np.zeros((len(rows) - 1, 1))
        yield "<div>"
        yield f"<h3>{escape(title)}</h3>"
        yield f'<p class="note">{escape(note)}</p>'
        yield _picture(title, colour, averaged(cells, rows, columns), unused, settings)
        yield "</div>"


def _picture(title: str, colour: str, cells: Array, unused: Array, settings: MapSettings) -> str:
    """A map as SVG, with a path for each shade, and grey bands for rows that were not used."""
    down, across = cells.shape
    parts = [f'<rect width="{across}" height="{down}" fill="#eef1f5"/>']
    bands = np.broadcast_to(unused, cells.shape)
    for values, fill in ((bands, "#8d99ae"), (cells, colour)):
        shade = np.ceil(values * settings.levels).astype(np.intp)
        for level in range(1, settings.levels + 1):
            path = _path(shade == level)
            opacity = level / settings.levels * (0.6 if fill != colour else 1.0)
            parts += [f'<path d="{path}" fill="{fill}" fill-opacity="{opacity:.2f}"/>'] if path else []
    size = f'viewBox="0 0 {across} {down}" width="{settings.width}" height="{settings.height}"'
    look = 'preserveAspectRatio="none" style="max-width:100%" shape-rendering="crispEdges"'
    return f'<svg role="img" aria-label="{escape(title)}" {size} {look}>{"".join(parts)}</svg>'


def _path(cells: Mask) -> str:
    """Outline of the cells that are set, one rectangle for each run within a row."""
    pieces = []
    for i, line in enumerate(cells):
        ends = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(np.int8)))
        pieces += [f"M{start} {i}h{stop - start}v1H{start}z" for start, stop in _pairs(ends)]
    return "".join(pieces)


def _pairs(ends: Index) -> list[tuple[int, int]]:
    """Starts and stops of runs."""
    return list(zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True))
