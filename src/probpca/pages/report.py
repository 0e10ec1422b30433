"""The report: a page that shows a fitted model and its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from probpca.displays.inputs import noise_along, table_of, taken
from probpca.inference.calibration import RARE, probability
from probpca.learning.describe import about_units
from probpca.learning.result import Status
from probpca.pages.page import (
    PageLimits,
    ask_table,
    bundle,
    counted,
    model_data,
    packed,
    packed_bits,
    page_place,
    rounded,
    row_data,
    write_page,
)
from probpca.pages.report_charts import altair, charts, drawing_script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from probpca.inference.outlier_scores import Outliers
    from probpca.pages.page import Table
    from probpca.typing import Array, Index


@dataclass(frozen=True)
class ReportSettings:
    """Settings of a report: from which p-value a row is unusual, and how much the page shows."""

    p: float = RARE  # rows with a smaller p-value are called unusual
    most_unusual: int = 15  # rows in the table of unusual ones
    most_components: int = 6  # components with a posterior covariance, which needs a number for each pair and row
    level: float = 0.95  # of intervals and ellipses
    limits: PageLimits = field(default_factory=lambda: PageLimits(most_numbers=300_000))


def share(part: float) -> str:
    """A share in percent; only a share of 0 or 1 is written as 0 % or 100 %."""
    if 0 < part < 5e-4:
        return "less than 0.1 %"
    if 0.9995 <= part < 1:
        return "more than 99.9 %"
    return f"{100 * part:.1f} %"


def p_text(log10_p: float) -> str:
    """A p-value as text, with a power of ten if it is very small."""
    lead, _, power = probability(log10_p).partition("e")
    return f"{lead} \u00d7 {_power_of_ten(int(power))}" if power else lead


def _power_of_ten(exponent: int) -> str:
    raised = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
    return "10" + str(exponent).translate(raised)


def facts_in_short(estimator: Any, table: Table, rows: RowFacts) -> Iterator[tuple[str, str]]:
    """Names and values of the main figures."""
    n, d = table.cells.shape
    bounded = hasattr(estimator, "lower_bound_")
    total = estimator.lower_bound_ if bounded else estimator.log_likelihood_
    yield "rows", f"{n:,}"
    yield "columns", f"{d:,}"
    yield "cells missing", share(float(np.isnan(table.cells).mean()))
    yield "components", f"{table.model.n_components}"
    yield "variance they hold", share(float(estimator.explained_variance_ratio_.sum()))
    yield "noise variance", _noise(estimator.noise_variance_)
    yield ("lower bound of the evidence" if bounded else "log-likelihood of the fit"), _signed(f"{total:,.2f}")
    yield "log-likelihood of a row here", _signed(f"{rows.score:.4g}")
    yield f"unusual rows, p < {rows.settings.p} ({_few(rows.by_chance)} by chance)", f"{rows.n_unusual:,}"
    yield "fit", _ending(estimator)


def summary_sentences(estimator: Any, table: Table, rows: RowFacts) -> Iterator[str]:
    """Sentences about the model, its fit, and the rows that stand out."""
    n, d = table.cells.shape
    yield " ".join([_components(estimator, d), *estimator.notes_])
    missing = int(np.isnan(table.cells).sum())
    if missing:
        yield (
            f"{missing:,} of {n * d:,} cells are missing ({share(missing / (n * d))}). They are filled in with what "
            "the other cells of their row say about them, and every filling has a 95 % interval"
            f"{_but_for(estimator, table)}."
        )
    else:
        yield "No cell is missing."
    first = "; ".join(table.called(i) for i in rows.unusual_first[:3])
    yield f"The least probable rows: {first}. {how_many(rows)}"
    yield f"The fit {'ended well' if estimator.converged_ else 'did not end well'}. {estimator.status_.value}"
    if rows.shown.size < n:
        half = rows.shown.size // 2
        yield (
            f"This page shows {rows.shown.size:,} of the {n:,} rows one by one: the {half:,} most unusual, and "
            f"{rows.shown.size - half:,} of the others, drawn at random. All counts are of all rows."
        )


def advice(estimator: Any, table: Table, rows: RowFacts) -> Iterator[str]:
    """Sentences about what to look at next."""
    found = list(_findings(estimator, table, rows))
    yield from found or ["Nothing stands out. Choose any row to see where it lies, and how its cells go together."]


def _findings(estimator: Any, table: Table, rows: RowFacts) -> Iterator[str]:
    n = table.cells.shape[0]
    reach = np.fmax.reduce(table.cells) - np.fmin.reduce(table.cells)  # NaN if nothing was observed
    if estimator.status_ is Status.NOISE_COLLAPSED:
        yield "The components explain the data completely: use fewer of them, or more rows."
    elif not estimator.converged_:
        yield "The fit has not converged: let it go on before you rely on these numbers."
    if rows.n_unusual > 3 * rows.by_chance + 3:
        yield (
            "Far more rows are unusual than chance would give. Look at the table of unusual rows: if one column is to "
            "blame in most of them, look at that column; if not, rows may be of several kinds, or have heavier tails."
        )
    elif rows.n_unusual:
        yield "Choose rows from the table of unusual rows, and see which cells make them so."
    if rows.found.note:
        yield "Read the note on p-values above the table of unusual rows, and compare both p-values there."
    yield from about_units(estimator.column_std_, table.features, "fitting with standardize=True (--standardize)")
    same = int((reach == 0).sum()) if n > 1 else 0
    if same:
        yield f"{counted(same, 'column')} {'has' if same == 1 else 'have'} one value only, which tells no rows apart."
    empty = _empty(estimator)
    if len(empty):
        yield f"{counted(len(empty), 'column')} had no value at all in the fit; nothing can be said about their cells."
    if np.isnan(table.cells).any():
        yield "Choose a row with missing cells: long intervals are fillings that you should not lean on."
    weak = int((estimator.explained_variance_ < 1.5 * noise_along(estimator)).sum())
    if weak:
        yield f"The variance of {counted(weak, 'component')} is hardly above the noise: see whether fewer would do."


def how_many(rows: RowFacts) -> str:
    """How many rows are unusual, and how many chance alone would give."""
    count, n = rows.n_unusual, rows.found.distance.size
    told = f"{count:,} of {counted(n, 'row')} {'has' if count == 1 else 'have'} a p-value below {rows.settings.p}"
    return f"{told}; chance alone would give about {_few(rows.by_chance)}."


def how_judged(rows: RowFacts) -> str:
    """Whether rows are those of the fit, and what to be careful about."""
    how = "those of the fit, and each is judged as if it had been left out" if rows.training else "treated as new rows"
    return " ".join([how_many(rows), f"The rows are {how}.", rows.found.note]).rstrip()


def unusual_rows(table: Table, rows: RowFacts) -> Iterator[str]:
    """Lines of an HTML table of unusual rows, the least probable first."""
    place = {int(i): k for k, i in enumerate(rows.shown)}
    found = rows.found
    for i in rows.unusual_first[: rows.settings.most_unusual]:
        scores = found.cell_scores[i]
        worst = None if np.isnan(scores).all() else int(np.nanargmax(np.abs(scores)))
        cells = [
            *([f"{table.numbers[i]:,}"] if table.named else []),
            p_text(found.log10_p_value[i]),
            p_text(found.log10_model_p_value[i]),
            _part(found.latent_p_value[i]),
            _part(found.residual_p_value[i]),
            f"{found.distance[i]:.4g}",
            f"{int(np.isfinite(table.cells[i]).sum())}",
        ]
        tail = ["", ""] if worst is None else [table.features[worst], _signed(f"{scores[worst]:+.1f}")]
        called, column = escape(table.called(i)), escape(tail[0])
        button = f'<button type="button" data-row="{place[int(i)]}" title="{called}">{called}</button>'
        numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield (
            f'<tr><th scope="row">{button}</th>{numbers}<td class="word" title="{column}">{column}</td>'
            f"<td>{tail[1]}</td></tr>"
        )


def scree_note(noise: Any) -> str:
    """A note on how to read the chart of the components."""
    told = "The variance of a row along each component, on a logarithmic scale."
    line = "the dashed line" if np.ndim(noise) == 0 else "its dashed line, for each column has noise of its own,"
    return f"{told} What rests on {line} is no more than noise."


def _components(estimator: Any, d: int) -> str:
    ratio = estimator.explained_variance_ratio_
    rule = f" ({estimator.rule_})" if getattr(estimator, "rule_", "") else ""
    first, total = share(float(ratio[0])), share(float(ratio.sum()))
    held = f"which holds {total}" if ratio.size == 1 else f"which together hold {total}"
    more = "" if ratio.size == 1 else f"; the first holds {first}"
    columns = counted(d, "column") + ("" if estimator.scale_ is None else ", scaled to unit variance,")
    told = f"{type(estimator).__name__} explains {columns} by {counted(ratio.size, 'component')}{rule}"
    return f"{told}, {held} of the variance{more}. The rest is taken for noise."


def _ending(estimator: Any) -> str:
    if estimator.status_ is Status.NOISE_COLLAPSED:
        return "no noise is left"
    return "converged" if estimator.converged_ else "not converged"


def _empty(estimator: Any) -> Any:
    """Positions of the columns without any value in the fit."""
    return getattr(estimator, "empty_features_", np.empty(0, np.intp))


def _but_for(estimator: Any, table: Table) -> str:
    unknown = np.isnan(table.cells[:, _empty(estimator)]).any()
    return ", but for columns of which nothing was ever observed" if unknown else ""


def _part(p: float) -> str:
    return p_text(np.log10(p)) if p > 0 else f"< {_power_of_ten(-300)}"


def _noise(noise: Any) -> str:
    return f"{noise:.4g}" if np.ndim(noise) == 0 else f"{np.min(noise):.3g} to {np.max(noise):.3g}"


def _few(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}"


def _signed(number: str) -> str:
    return number.replace("-", "\u2212")


class RowFacts(NamedTuple):
    """Outlier scores of all rows, and imputed values and posteriors of the rows that the page shows."""

    found: Outliers  # of all rows
    score: float  # mean log-likelihood of all rows
    shown: Index  # positions of those shown: (k,)
    values: Array  # completed rows: (k, d)
    std: Array  # of the cells that were filled in, 0 of the others: (k, d)
    latent: Array  # posterior mean: (k, q)
    covariance: Array  # posterior covariance: (k, q, q)
    settings: ReportSettings
    training: bool  # were they taken for rows of the fit?

    @property
    def n_unusual(self) -> int:
        """Number of rows with a p-value below that of the settings."""
        return int((self.found.p_value < self.settings.p).sum())

    @property
    def by_chance(self) -> float:
        """Number of such rows that chance alone would give."""
        return self.settings.p * self.found.p_value.size

    @property
    def unusual_first(self) -> Index:
        """Positions of all rows, the least probable first: (n,)."""
        return np.argsort(self.found.log10_p_value, kind="stable")


def ask_rows(estimator: Any, X: Any, table: Table, settings: ReportSettings, *, training: bool) -> RowFacts:
    """Score all rows, choose those to show, and impute these."""
    found, score = estimator.outliers(X, training=training), estimator.score(X)
    n, d = table.cells.shape
    shown = choose_rows(found.log10_p_value, d, settings.limits)
    some = X if shown.size == n else taken(X, shown)
    values, std = estimator.impute(some, return_std=True, training=training)
    belief = estimator.posterior(some)
    cells = table_of(values), table_of(std)
    return RowFacts(found, score, shown, *cells, belief.mean, belief.covariance, settings, training)


def choose_rows(log10_p_value: Array, d: int, limits: PageLimits) -> Index:
    """Sorted positions of all rows, or of as many as the limits allow: half the most unusual, half at random."""
    n, most = log10_p_value.size, limits.rows(d)
    if n <= most:
        return np.arange(n)
    order = np.argsort(log10_p_value, kind="stable")
    half = most // 2
    others = np.random.default_rng(0).choice(order[half:], most - half, replace=False)
    return np.sort(np.concatenate([order[:half], others]))


def rows_data(table: Table, facts: RowFacts) -> dict[str, Any]:
    """Model and rows for the scripts of the page, encoded to save space."""
    missing = np.isnan(table.cells[facts.shown])
    most, level = facts.settings.most_components, facts.settings.level
    covariance = facts.covariance[:, :most, :most]
    shared = facts.covariance.strides[0] == 0  # complete rows share one
    lower = np.tril_indices(covariance.shape[1])
    return {
        **model_data(table),
        **row_data(table, facts.shown),
        "values": packed(table.scaled(facts.values)),
        "missing": packed_bits(missing),
        "std": packed((facts.std / table.scale)[missing]),
        "latent": packed(facts.latent),
        "covariance": packed((covariance[:1] if shared else covariance)[:, lower[0], lower[1]]),
        "width": float(ndtri(0.5 + level / 2)),
        "radius": float(np.sqrt(-2.0 * np.log(1.0 - level))),
        **_outlier_data(facts.found, facts.shown),
    }


def _outlier_data(found: Outliers, chosen: Index) -> dict[str, Any]:
    """Distances and p-values of rows, and the contribution of each cell."""
    return {
        "distance": rounded(found.distance[chosen]),
        "inside": rounded(found.latent_distance[chosen]),
        "outside": rounded(found.residual_distance[chosen]),
        "p": rounded(found.p_value[chosen]),
        "log10p": rounded(found.log10_p_value[chosen]),
        "modelP": rounded(found.model_p_value[chosen]),
        "log10modelP": rounded(found.log10_model_p_value[chosen]),
        "insideP": rounded(found.latent_p_value[chosen]),
        "outsideP": rounded(found.residual_p_value[chosen]),
        "contributions": packed(found.contributions[chosen]),
        "scores": packed(found.cell_scores[chosen]),
    }


def report(  # noqa: PLR0913
    estimator: Any,
    X: Any,
    path: Any = "report.html",
    *,
    labels: Any = None,
    feature_names: Any = None,
    row_numbers: Any = None,
    title: str | None = None,
    training: bool = True,
    settings: ReportSettings = ReportSettings(),
) -> Path:
    """Write a page about a fitted ``PPCA`` or ``BayesianPCA`` and the rows ``X``; return its path.

    The page describes the model in words, suggests what to look at next, and shows rows one by one: their position in
    the latent space with the posterior ellipse, observed and imputed cells with 95 % intervals, and why a row is or is
    not an outlier. It is a single file that needs no network.

    ``X`` is an array, a sparse matrix or a dataframe in memory, with or without missing cells. Its rows are taken for
    those of the fit, and p-values are those of rows that are left out; pass ``training=False`` for new rows.
    ``labels`` name its rows and ``feature_names`` its columns. Rows also have numbers: those of a pandas index, or
    positions in ``X`` from 0; ``row_numbers`` replaces them. Of more than 5,000 rows, or 300,000 cells
    (``settings.limits``), the page shows the most unusual and a random share of the others, and says so. An existing
    file is replaced. Needs altair: ``pip install 'probpca[report]'``.

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
    table = ask_table("report", estimator, X, labels, feature_names, row_numbers)
    rows = ask_rows(estimator, X, table, settings, training=training)
    heading = f"{type(estimator).__name__} of {counted(len(table.names), 'row')}" if title is None else str(title)
    parts = {"title": escape(heading), **_words(estimator, table, rows)}
    own = ("report_axes.js", "report_model.js", "report.js")
    scripts = [drawing_script(), bundle("reading.js", "words.js", "chooser.js", *own)]
    return write_page(place, "report", scripts, _data(estimator, table, rows), parts)


def _words(estimator: Any, table: Table, rows: RowFacts) -> dict[str, str]:
    """The parts of the page that need no script."""
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
        "judged": escape(how_judged(rows)),
        "odd": f"{rows.settings.p:g}",
    }


def _data(estimator: Any, table: Table, rows: RowFacts) -> dict[str, Any]:
    """Data for the scripts of the page."""
    ratio = estimator.explained_variance_ratio_
    first = rows.unusual_first[0]
    return {
        **rows_data(table, rows),
        "ratio": ratio.tolist(),
        "odd": rows.settings.p,
        "mostComponents": rows.settings.most_components,
        "first": int((rows.shown == first).argmax()),
        "charts": charts(
            estimator.explained_variance_, ratio, noise_along(estimator), len(table.features), rows.shown.size
        ),
    }
