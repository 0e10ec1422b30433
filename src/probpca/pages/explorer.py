"""The explorer: a page in which the reader drags a point through the latent space and sees the row it stands for."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from probpca.displays.inputs import taken
from probpca.errors import ShapeError
from probpca.pages.page import (
    PageLimits,
    ask_table,
    bundle,
    counted,
    model_data,
    packed,
    page_place,
    row_data,
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
    feature_names: Any = None,
    row_numbers: Any = None,
    image_shape: Any = None,
    title: str | None = None,
    limits: PageLimits | None = None,
) -> Path:
    r"""Write a page to explore the latent space of a fitted estimator; return its path.

    The reader drags a point through the plane of two components, and the page shows the row that it stands for,
    :math:`W z + \mu`, with the noise around it. A click on one of the rows ``X`` shows plausible neighbours of it:
    latent variables drawn from its posterior, then rows drawn from :math:`p(x \mid z)`.

    ``X``, names and ``row_numbers`` are as in ``report``. ``image_shape``, such as (8, 8), draws rows as images;
    ``"square"`` is the square with as many pixels as there are columns. Of more rows, or of more numbers, than
    ``limits`` allow (5,000 and 600,000) the page shows a random share, and says so. An existing file is replaced.

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
    ...     page = explorer(ppca, digits.data, place, labels=digits.target, image_shape=(8, 8))
    ...     page.name, page.stat().st_size < 2_000_000
    ('explorer.html', True)
    """
    place = page_place(path)
    table = ask_table("explorer", estimator, X, labels, feature_names, row_numbers)
    shape = _image_shape(image_shape, table.model.n_features)
    n = len(table.names)
    shown = _choose_rows(table, limits or PageLimits())
    belief = estimator.posterior(X if shown.size == n else taken(X, shown))
    kind = type(estimator).__name__
    words = f"{kind}: {table.size}"
    if shown.size < n:
        words += f". {shown.size:,} of the rows, drawn at random, are shown"
    heading = f"Explorer: {kind} of {counted(n, 'row')}" if title is None else str(title)
    data = {
        **model_data(table),
        **row_data(table, shown),
        "ratio": estimator.explained_variance_ratio_.tolist(),
        "values": packed(table.scaled(table.cells[shown])),
        "latent": packed(belief.mean),
        **_roots(belief.covariance, np.isnan(table.cells[shown])),
        "width": float(ndtri(0.975)),  # of 95 % intervals
        "imageShape": shape,
    }
    parts = {"title": heading, "lead": words, "counting": table.counting}
    own = (f"explorer{part}.js" for part in ("_model", "_plane", "_row", "_image", ""))
    script = bundle("reading.js", "words.js", "chooser.js", *own)
    return write_page(place, "explorer", [script], data, {name: escape(said) for name, said in parts.items()})


def _image_shape(asked: Any, d: int) -> tuple[int, int] | None:
    if asked is None:
        return None
    if isinstance(asked, str) and asked == "square":
        side = int(np.sqrt(d) + 0.5)
        if side * side != d:
            msg = f"image_shape='square' needs a square number of columns; got {d}.\nHint: image_shape=(height, width)."
            raise ShapeError(msg)
        return side, side
    sides = np.asarray(asked)
    if sides.shape != (2,) or sides.dtype.kind not in "iu" or sides.min() < 1 or sides.prod() != d:
        msg = f"image_shape must be (height, width) of {d} pixels in all, or 'square'; got {asked!r}."
        raise ShapeError(msg)
    return int(sides[0]), int(sides[1])


def _choose_rows(table: Table, limits: PageLimits) -> Index:
    """Sorted positions of all rows, or of a random share that is as large as the limits allow."""
    n, d = table.cells.shape
    q = table.model.n_components
    numbers = d + q + (q * (q + 1) // 2 if np.isnan(table.cells).any() else 0)
    most = limits.rows(numbers)
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _roots(covariance: Array, missing: Any) -> dict[str, Any]:
    """Cholesky factors of posterior covariances, one for all rows with the same missing cells."""
    _, first, pattern = np.unique(np.packbits(missing, axis=1), axis=0, return_index=True, return_inverse=True)
    roots = np.linalg.cholesky(covariance[first]).astype(np.float64)
    lower = np.tril_indices(roots.shape[1])
    return {"patterns": pattern.ravel().tolist(), "roots": packed(roots[:, lower[0], lower[1]])}
