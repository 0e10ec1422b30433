"""One HTML file about a fitted estimator and its rows, to look into and to pass on."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from probpca.views.pages.asking import ask_table, counted
from probpca.views.pages.writing import bundle, page_place, write_page
from probpca.views.reading import noise_along
from probpca.views.report_charts import altair, charts, drawing_script
from probpca.views.report_rows import MOST_COMPONENTS, ask_rows, rows_data
from probpca.views.report_words import ODD, advice, facts_in_short, scree_note, summary_sentences, unusual_rows

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.views.pages.asking import Table
    from probpca.views.report_rows import RowFacts

SCRIPTS = ("reading.js", "words.js", "chooser.js", "report_axes.js", "report_model.js", "report.js")


def report(  # noqa: PLR0913
    estimator: Any,
    X: Any,
    path: Any = "report.html",
    *,
    labels: Any = None,
    feature_names: Any = None,
    row_numbers: Any = None,
    title: str | None = None,
) -> Path:
    """Write a page about a fitted ``PPCA`` or ``BayesianPCA`` and the rows ``X``; return where it is.

    It says in words what was fitted and what to look at next, and shows rows one by one: their place among the
    components with the posterior ellipse, observed and filled-in cells with 95 % intervals, and why a row is, or is
    not, an outlier. Everything is an answer of the estimator, and the one file needs no network.

    ``X`` is an array, a sparse matrix or a dataframe in memory, of which cells may be missing. ``labels`` name its rows
    and ``feature_names`` its columns. Rows are also known by numbers: those of the index of pandas, else the places in
    ``X``, from 0; ``row_numbers`` gives others. Of more than 5,000 rows, or 300,000 cells, the page shows the most
    unusual and a random share of the others, and says so. A file that is there already is replaced. Needs altair:
    ``pip install 'probpca[report]'``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from probpca import PPCA, load_fertility, report
    >>> table = load_fertility()
    >>> ppca = PPCA(n_components=3).fit(table.values)
    >>> with TemporaryDirectory() as folder:
    ...     page = report(ppca, table.values, Path(folder) / "report.html", labels=table.countries)
    ...     page.name, page.stat().st_size < 3_000_000
    ('report.html', True)
    """
    altair()
    place = page_place(path)
    table = ask_table("report", estimator, X, labels, feature_names, row_numbers)
    rows = ask_rows(estimator, X, table)
    heading = f"{type(estimator).__name__} of {counted(len(table.names), 'row')}" if title is None else str(title)
    parts = {"title": escape(heading), **_words(estimator, table, rows)}
    scripts = [drawing_script(), bundle(*SCRIPTS)]
    return write_page(place, "report", scripts, _data(estimator, table, rows), parts)


def _words(estimator: Any, table: Table, rows: RowFacts) -> dict[str, str]:
    """The parts of the page that are there before any script runs."""
    tiles = [(escape(name), escape(value)) for name, value in facts_in_short(estimator, table, rows)]
    return {
        "counting": escape(table.counting),
        "numbered": '<th scope="col">number</th>' if table.named else "",
        "lead": escape(f"{type(estimator).__name__}: {table.size}"),
        "tiles": "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles),
        "sentences": "\n".join(f"<p>{escape(said)}</p>" for said in summary_sentences(estimator, table, rows)),
        "advice": "\n".join(f"<li>{escape(said)}</li>" for said in advice(estimator, table, rows)),
        "scree": escape(scree_note(estimator.noise_variance_)),
        "unusual": "\n".join(unusual_rows(table, rows)),
    }


def _data(estimator: Any, table: Table, rows: RowFacts) -> dict[str, Any]:
    """What the scripts of the page read."""
    ratio = estimator.explained_variance_ratio_
    first = rows.unusual_first[0]
    return {
        **rows_data(table, rows),
        "ratio": ratio.tolist(),
        "odd": ODD,
        "mostComponents": MOST_COMPONENTS,
        "first": int((rows.shown == first).argmax()),
        "charts": charts(
            estimator.explained_variance_, ratio, noise_along(estimator), len(table.features), rows.shown.size
        ),
    }
