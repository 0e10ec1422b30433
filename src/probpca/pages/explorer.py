"""The explorer: a page in which the reader drags a point among the components and sees its reconstruction."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from probpca.displays.inputs import has_factors, taken
from probpca.errors import ShapeError
from probpca.learning.uncertainty.estimate import largest_first
from probpca.pages.page import (
    PageLimits,
    RowNames,
    ask_table,
    bundle,
    model_data,
    packed,
    page_place,
    random_rows,
    row_data,
    words_of,
    write_page,
)

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.pages.page import Table
    from probpca.typing import Array, Index


def explorer(  # noqa: PLR0913
    estimator: Any,
    X: Any,
    path: Any = "explorer.html",
    *,
    labels: Any = None,
    groups: Any = None,
    feature_names: Any = None,
    row_numbers: Any = None,
    image_shape: Any = None,
    title: str | None = None,
    limits: PageLimits | None = None,
) -> Path:
    r"""Write an interactive HTML page to explore the components of a fitted estimator.

    The reader drags a point in the plane of two components, and the page shows its reconstruction,
    :math:`W z + \mu`, with the noise around it. A click on a row of ``X`` shows similar rows: component scores drawn
    from its posterior, then rows drawn from :math:`p(x \mid z)`. The page is a single file that needs no network.

    Parameters
    ----------
    estimator : PPCA or BayesianPCA
        A fitted estimator.
    X : array, sparse matrix or dataframe
        Rows in memory, with or without missing cells.
    path : str or Path, default="explorer.html"
        The file to write; an existing file is replaced.
    labels : sequence of str or None, default=None
        Names of the rows. None: the index of a pandas dataframe, unless it is numbers.
    groups : sequence, mapping, dataframe or None, default=None
        Categories that colour the rows: one value for each row, or several named columns among which the reader
        chooses. Columns with more than 12 distinct numbers are drawn on a colour scale.
    feature_names : sequence of str or None, default=None
        Names of the columns. None: those of the training data, or x0, x1, ...
    row_numbers : sequence of int or None, default=None
        Numbers of the rows. None: those of a pandas index, or positions from 0.
    image_shape : (height, width), "square" or None, default=None
        Draw rows as images of this shape, such as (8, 8); "square" if the number of columns is a square. None: draw
        rows as lists of values.
    title : str or None, default=None
        Title of the page.
    limits : PageLimits or None, default=None
        How much of a large table the page shows. By default all rows up to 20,000, or a random sample of more. With
        more than 200,000 cells the page shows the 30 columns that the components explain best, or fewer images, and
        says so.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_digits
    >>> from probpca import PPCA, explorer
    >>> digits = load_digits()
    >>> ppca = PPCA(n_components=10).fit(digits.data)
    >>> with TemporaryDirectory() as folder:
    ...     place = Path(folder) / "explorer.html"
    ...     page = explorer(ppca, digits.data, place, groups={"digit": digits.target}, image_shape=(8, 8))
    ...     page.name, page.stat().st_size < 2_000_000
    ('explorer.html', True)
    """
    place = page_place(path)
    table = ask_table("explorer", estimator, X, RowNames(labels, groups, feature_names, row_numbers))
    shape = _image_shape(image_shape, table.model.n_features)
    n = len(table.names)
    shown, columns = _choose_cells(table, limits or PageLimits(), whole=shape is not None)
    belief = estimator.posterior(X if shown.size == n else taken(X, shown))
    heading = f"{type(estimator).__name__} explorer" if title is None else str(title)
    data = {
        **_some_columns(model_data(table), table, columns),
        **row_data(table, shown),
        "ratio": estimator.explained_variance_ratio_.tolist(),
        "values": packed(table.scaled(table.cells[shown])[:, columns]),
        "latent": packed(belief.mean),
        **_roots(belief.covariance, np.isnan(table.cells[shown])),
        "first": int(belief.mean[:, 0].argmax()),
        "width": float(ndtri(0.975)),  # of 95% intervals
        "imageShape": shape,
    }
    parts = {"title": heading, "lead": _lead(table, shown, columns), "counting": table.counting, **words_of(table)}
    parts["correlated"] = about_correlations(estimator)
    own = (f"explorer{part}.js" for part in ("_model", "_plane", "_row", "_image", ""))
    script = bundle("reading.js", "words.js", "chooser.js", "groups.js", *own)
    return write_page(place, "explorer", [script], data, {name: escape(said) for name, said in parts.items()})


def _lead(table: Table, shown: Index, columns: Index) -> str:
    """How large the table is, and how much of it the page shows."""
    n, d = table.cells.shape
    words = [f"{table.noun.capitalize()} explorer: {table.size}."]
    if shown.size < n:
        words.append(f"{shown.size:,} of the rows, drawn at random, are shown.")
    if columns.size < d:
        words.append(f"The {columns.size:,} columns that the {table.noun}s explain best are shown.")
    return " ".join(words)


def about_correlations(estimator: Any) -> str:
    """What a reader who moves one of several correlated factors should know; empty if none are correlated."""
    if not has_factors(estimator) or not estimator.rotation_.is_oblique or estimator.n_components_ == 1:
        return ""
    names, Phi = estimator.get_feature_names_out(), estimator.factor_correlations_
    pairs = [f"{names[j]} and {names[k]} {Phi[j, k]:.2f}" for j, k in zip(*np.triu_indices(len(Phi), 1), strict=True)]
    said = "; ".join(pairs[:6]) + ("; ..." if len(pairs) > 6 else "")
    moved = "The point moves along one factor while the others stay."
    return f" The factors are correlated ({said}). {moved}".replace(" -", " \N{MINUS SIGN}")


def _image_shape(given: Any, d: int) -> tuple[int, int] | None:
    if given is None:
        return None
    if isinstance(given, str) and given == "square":
        side = int(np.sqrt(d) + 0.5)
        if side * side != d:
            msg = f"image_shape='square' needs a square number of columns; got {d}.\nHint: image_shape=(height, width)."
            raise ShapeError(msg)
        return side, side
    sides = np.asarray(given)
    if sides.shape != (2,) or sides.dtype.kind not in "iu" or sides.min() < 1 or sides.prod() != d:
        msg = f"image_shape must be (height, width) with height * width = {d} columns, or 'square'; got {given!r}."
        raise ShapeError(msg)
    return int(sides[0]), int(sides[1])


def _choose_cells(table: Table, limits: PageLimits, *, whole: bool) -> tuple[Index, Index]:
    """Sorted positions of the rows and of the columns on the page; ``whole`` rows keep all their columns."""
    n, d = table.cells.shape
    if whole:
        return random_rows(n, min(limits.rows(n), max(limits.most_cells // d, 1))), np.arange(d)
    shown = random_rows(n, limits.rows(n))
    explained = np.square(table.model.loadings / table.scale[:, None]).sum(axis=1)  # share of each column: (d,)
    count = limits.columns(shown.size, d)
    return shown, np.sort(largest_first(explained, count if count == d else min(count, limits.most_bars)))


def _some_columns(data: dict[str, Any], table: Table, columns: Index) -> dict[str, Any]:
    """The data of a model, for some of the columns."""
    lists = {name: [data[name][j] for j in columns] for name in ("features", "mean", "scale", "noise")}
    loadings = table.loadings[columns] / table.scale[columns, None]
    return {**data, **lists, "loadings": packed(loadings)}


def _roots(covariance: Array, missing: Any) -> dict[str, Any]:
    """Cholesky factors of posterior covariances, one for all rows with the same missing cells."""
    _, first, pattern = np.unique(np.packbits(missing, axis=1), axis=0, return_index=True, return_inverse=True)
    roots = np.linalg.cholesky(covariance[first]).astype(np.float64)
    lower = np.tril_indices(roots.shape[1])
    return {"patterns": pattern.ravel().tolist(), "roots": packed(roots[:, lower[0], lower[1]])}
