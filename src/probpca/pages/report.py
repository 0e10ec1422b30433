"""The report: a page that says what the components or clusters of a fitted model are, and shows its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from probpca.inference.calibration import RARE
from probpca.pages.page import (
    PageLimits,
    RowNames,
    ask_table,
    bundle,
    counted,
    packed,
    page_place,
    words_of,
    write_page,
)
from probpca.pages.report_charts import ChartSizes, altair, charts, drawing_script
from probpca.pages.report_clusters import cluster_report
from probpca.pages.report_components import ComponentSettings, loadings_data, loadings_of, shares_of
from probpca.pages.report_factors import (
    about_eigenvalues,
    about_factors,
    about_loadings,
    arrow_units,
    factor_tables,
    factors_of,
)
from probpca.pages.report_robust import robust_card
from probpca.pages.report_rows import ask_rows, rows_data
from probpca.pages.report_text import (
    about_cells,
    about_components,
    about_hidden_components,
    about_shown,
    about_unusual,
    advice,
    component_sentences,
    how_calibrated,
    how_judged,
    main_figures,
    model_details,
    pair,
    unusual_rows,
    warning,
)

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.pages.page import Table
    from probpca.pages.report_components import Loadings, Shares
    from probpca.pages.report_factors import FactorFacts
    from probpca.pages.report_rows import RowFacts


@dataclass(frozen=True)
class ReportSettings:
    """Settings of a report: from which p-value a row is unusual, and how much the page shows."""

    p: float = RARE  # rows with a smaller p-value are called unusual
    most_unusual: int = 15  # rows in the table of unusual ones
    most_components: int = 6  # components with a posterior covariance, which needs a number for each pair and row
    most_sentences: int = 4  # components that the first screen describes
    level: float = 0.95  # of intervals and ellipses
    limits: PageLimits = field(default_factory=PageLimits)
    components: ComponentSettings = field(default_factory=ComponentSettings)


class Facts(NamedTuple):
    """Everything that the page shows."""

    estimator: Any
    table: Table
    rows: RowFacts
    loadings: Loadings
    shares: Shares
    factors: FactorFacts | None  # of factor analysis


def report(  # noqa: PLR0913
    estimator: Any,
    X: Any,
    path: Any = "report.html",
    *,
    labels: Any = None,
    groups: Any = None,
    feature_names: Any = None,
    row_numbers: Any = None,
    title: str | None = None,
    training: bool = True,
    settings: ReportSettings = ReportSettings(),
) -> Path:
    """Write an HTML report about a fitted model and the rows of a table.

    The page says in plain words what the components are and which rows are unusual. It draws the loadings with their
    intervals, a biplot, the share of the variance of all components, and for each row its component scores, observed
    and imputed cells with 95% intervals, its distance from the model and the contribution of each column. For
    ``FactorAnalysis`` it also has a scree plot with parallel analysis, the standardized loadings, communalities and
    uniquenesses of all columns, the correlations of oblique factors, and the fit indices if they are known. It is a
    single file that needs no network.

    For ``MixturePPCA`` the page says how many clusters there are and how sure that is, draws rows and clusters in the
    plane that separates these best, and shows a profile of each cluster, the rows that are unusual or may belong to
    several clusters, and for each row the probability of each cluster and its observed and imputed cells.

    Parameters
    ----------
    estimator : PPCA, BayesianPCA, FactorAnalysis or MixturePPCA
        A fitted estimator.
    X : array, sparse matrix or dataframe
        Rows in memory, with or without missing cells.
    path : str or Path, default="report.html"
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
    title : str or None, default=None
        Title of the page.
    training : bool, default=True
        Whether ``X`` are the training rows; p-values are then those of rows that are left out of the fit.
    settings : ReportSettings
        How much of a large table the page shows. By default all rows up to 20,000, or a random sample of more. With
        more than 200,000 cells the page shows the columns with the largest contributions to each row, and says so.

    Returns
    -------
    Path
        The file that was written.

    Notes
    -----
    Needs altair: ``pip install 'probpca[report]'``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from probpca import PPCA, report
    >>> from probpca.datasets import load_fertility
    >>> table = load_fertility()
    >>> ppca = PPCA(n_components=3).fit(table.values)
    >>> with TemporaryDirectory() as folder:
    ...     page = report(ppca, table.values, Path(folder) / "report.html", labels=table.countries)
    ...     page.name, page.stat().st_size < 3_000_000
    ('report.html', True)
    """
    altair()
    place = page_place(path)
    table = ask_table("report", estimator, X, RowNames(labels, groups, feature_names, row_numbers))
    heading = f"{type(estimator).__name__} report" if title is None else str(title)
    if table.is_mixture:
        return cluster_report(place, estimator, X, table, heading, settings, training=training)
    facts = Facts(
        estimator,
        table,
        ask_rows(estimator, X, table, settings, training=training),
        loadings_of(estimator, X, table, settings.components, training=training),
        shares_of(estimator, table.cells, settings.components),
        factors_of(estimator, X, table, training=training),
    )
    what = "Principal component" if facts.factors is None else "Factor analysis"
    parts = {"title": escape(heading), "lead": escape(f"{what} report: {table.size}"), **_text(facts)}
    own = ("groups.js", "report_axes.js", "report_model.js", "report_biplot.js", "report_views.js", "report.js")
    scripts = [drawing_script(), bundle("reading.js", "words.js", "chooser.js", *own)]
    return write_page(place, "report", scripts, _data(facts), parts)


def _text(facts: Facts) -> dict[str, str]:
    """The parts of the page that need no script, as HTML."""
    estimator, table, rows, loadings, _, factors = facts
    settings = rows.settings
    components = _components(facts)
    first = [_component_item(*one) for one in components[: settings.most_sentences]]
    more = len(components) - len(first)
    alarm = warning(estimator)
    about = about_components(estimator, table) if factors is None else about_factors(estimator, table, factors)
    sentences = [about_cells(table), about]
    return {
        **{name: escape(said) for name, said in _wording(facts).items()},
        "warning": f'<p class="warning" role="alert">{escape(alarm)}</p>' if alarm else "",
        "tiles": "".join(pair("div", *one) for one in main_figures(estimator, table, rows)),
        "overview": "\n".join(f"<p>{escape(said)}</p>" for said in sentences),
        "components": "\n".join(first),
        "more": f'<p class="note">{counted(more, f"smaller {table.noun}")}: see the loadings below.</p>'
        if more
        else "",
        "unusual_overview": "\n".join(
            f"<p>{escape(said)}</p>" for said in (about_unusual(table, rows), about_shown(table, rows)) if said
        ),
        "intervals": escape(loadings.how),
        "factors": "" if factors is None else _factor_tables(table, factors, settings),
        "robust": robust_card(estimator, table, training=rows.training),
        "calibrated": escape(how_calibrated(estimator)),
        "counting": escape(table.counting),
        "numbered": '<th scope="col">number</th>' if table.named else "",
        "advice": "\n".join(f"<li>{escape(said)}</li>" for said in advice(estimator, table, rows, factors)),
        "unusual": "\n".join(unusual_rows(table, rows)),
        "judged": escape(how_judged(estimator, rows)),
        "caution": escape(rows.found.note),
        "details": "".join(pair("div", *one) for one in model_details(estimator, table, rows)),
        "odd": f"{settings.p:g}",
    }


def _factor_tables(table: Table, factors: FactorFacts, settings: ReportSettings) -> str:
    return "\n".join(factor_tables(table, factors, settings.components, settings.limits.most_columns))


def _wording(facts: Facts) -> dict[str, str]:
    """Headings and notes that differ between components and factors, or depend on their number."""
    table, shares, factors = facts.table, facts.shares, facts.factors
    alone = f"{table.noun.capitalize()} scores of the rows"
    words = {**words_of(table), "scores_title": "Rows and columns together" if len(table.components) > 1 else alone}
    if factors is not None:
        title, note = about_eigenvalues(table, factors)
        return {**words, "scree_title": title, "scree_note": note, "loading_note": about_loadings(factors)}
    hidden = about_hidden_components(shares, len(table.components))
    note = "The model keeps the components before the dashed line and treats the rest as noise. "
    return {
        **words,
        "scree_title": "Variance explained",
        "scree_note": note + " ".join(filter(None, [shares.how, hidden])),
        "loading_note": "A loading says how strongly a column is related to a component.",
    }


def _components(facts: Facts) -> list[tuple[str, str, str]]:
    """Name, share of the variance and meaning of each component."""
    ratio, settings = facts.estimator.explained_variance_ratio_, facts.rows.settings.components
    return list(component_sentences(facts.table, ratio, facts.loadings, settings))


def _component_item(name: str, part: str, meaning: str) -> str:
    return f"<li><b>{escape(name)}</b> ({escape(part)}): {escape(meaning)}.</li>"


def _data(facts: Facts) -> dict[str, Any]:
    """Data for the scripts of the page."""
    estimator, table, rows, loadings, shares, factors = facts
    unit = table.scale if estimator.scale_ is None else table.scale / estimator.scale_
    first = rows.unusual_first[0]
    return {
        **rows_data(table, rows),
        "ratio": estimator.explained_variance_ratio_.tolist(),
        "odd": rows.settings.p,
        "mostComponents": rows.settings.most_components,
        "first": int((rows.shown == first).argmax()),
        "loadingUnit": packed(unit if factors is None else arrow_units(table, factors)),
        "loadingWord": "loading" if factors is None else "standardized loading",
        "meanings": [meaning for _, _, meaning in _components(facts)],
        "loadingsOf": loadings_data(loadings, rows.settings.components),
        "charts": charts(
            shares.values, len(table.components), _sizes(facts), None if factors is None else factors.scree, table.noun
        ),
    }


def _sizes(facts: Facts) -> ChartSizes:
    table, rows = facts.table, facts.rows
    n_loadings = min(len(table.features), rows.settings.components.most_loadings)
    n_scores = min(len(table.components), rows.settings.most_components)
    return ChartSizes(rows.shown.size, rows.columns.shape[1], n_loadings, n_scores)
