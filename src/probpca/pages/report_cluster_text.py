"""The sentences, figures and tables of a report on a mixture that need no script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from probpca.displays.selection_display import criterion_of_clusters
from probpca.learning.result import Status
from probpca.pages.page import counted, p_text, share, signed
from probpca.pages.report_text import (
    about_cells,
    about_ending,
    chance_of,
    how_judged,
    named_first,
    pair,
    poor_columns,
    unusual_line,
    warning,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.pages.report_clusters import ClusterFacts

SURE = 0.9
"""Rows whose most probable cluster has a smaller probability may belong to several."""
EVIDENCE = (
    (1.0, "the data hardly tell the two apart"),
    (3.0, "which is some evidence for this number"),
    (5.0, "which is strong evidence for this number"),
    (np.inf, "which is very strong evidence for this number"),
)
"""Differences of BIC in nats up to which they mean as much (Kass & Raftery 1995)."""


def cluster_parts(facts: ClusterFacts) -> dict[str, str]:
    """The parts of the page as HTML."""
    table = facts.table
    alarm = warning(facts.estimator)
    items = (
        f"<li><b>{escape(name)}</b> ({escape(size)}): {escape(said)}.</li>"
        for name, size, said in cluster_sentences(facts)
    )
    overview = [about_cells(table), about_number(facts), about_certainty(facts)]
    named = '<th scope="col">number</th>' if table.named else ""
    return {
        "warning": f'<p class="warning" role="alert">{escape(alarm)}</p>' if alarm else "",
        "tiles": "".join(pair("div", *one) for one in main_figures(facts)),
        "overview": "\n".join(f"<p>{escape(said)}</p>" for said in overview),
        "clusters": "\n".join(items),
        "unusual_overview": f"<p>{escape(about_unusual(facts))}</p>",
        "criteria_hidden": "" if len(set(facts.estimator.criteria_.n_clusters.tolist())) > 1 else " hidden",
        "sure": f"{SURE:g}",
        "profile": "\n".join(profile_table(facts)),
        "profile_note": escape(_about_profile(facts)),
        "numbered": named,
        "unusual": "\n".join(unusual_rows(facts)),
        "judged": escape(how_judged(facts.estimator, facts)),
        "caution": escape(facts.found.note),
        "unsure": "\n".join(unsure_rows(facts)),
        "unsure_note": escape(_about_unsure(facts)),
        "advice": "\n".join(f"<li>{escape(said)}</li>" for said in advice(facts)),
        "details": "".join(pair("div", *one) for one in model_details(facts)),
        "counting": escape(table.counting),
        "noun": table.noun,
    }


def main_figures(facts: ClusterFacts) -> Iterator[tuple[str, str]]:
    """Names and values of the main figures."""
    n, d = facts.table.cells.shape
    yield "rows", f"{n:,}"
    yield "columns", f"{d:,}"
    missing = float(np.isnan(facts.table.cells).mean())
    yield "missing cells", share(missing) if missing else "none"
    yield "clusters", f"{facts.model.n_clusters}"
    yield "rows that may belong to several", f"{facts.unsure_first.size:,}"
    yield "unusual rows", f"{facts.n_unusual:,}"


# The first screen


def about_number(facts: ClusterFacts) -> str:
    """How many clusters there are, how this was chosen, and how much better it is than the next best number."""
    estimator, model = facts.estimator, facts.model
    each = f"each with a mean, {counted(model.n_components, 'component')} and noise of its own"
    alone = f"with {counted(model.n_components, 'component')}"
    said = f"The mixture has {counted(model.n_clusters, 'cluster')}, {each if model.n_clusters > 1 else alone}."
    if not estimator.rule_.startswith("clusters"):
        return f"{said} This number was given."
    rule = "icl" if estimator.n_clusters == "icl" else "bic"
    curve = criterion_of_clusters(estimator.criteria_, rule)
    others = np.flatnonzero(curve.n_components != model.n_clusters)
    if curve.choice != model.n_clusters or not others.size:
        return f"{said} This number was chosen by {rule.upper()}; there are no scores of others to compare it with."
    best = int(others[curve.score[others].argmax()])
    behind = float(curve.score.max() - curve.score[best])
    words = next(words for limit, words in EVIDENCE if behind < limit)
    count = counted(int(curve.n_components[best]), "cluster")
    how = f"This number was chosen by {rule.upper()}: the next best, {count}, is {behind:.3g} nats behind, {words}."
    return f"{said} {how}"


def about_certainty(facts: ClusterFacts) -> str:
    """How many rows clearly belong to one cluster, and which do not."""
    n, unsure = len(facts.certainty), facts.unsure_first
    if facts.model.n_clusters == 1:
        return "All rows belong to it."
    sure = f"{n - unsure.size:,} of {counted(n, 'row')} ({share(1 - unsure.size / n)}) belong to one cluster"
    said = f"{sure} with a probability of {SURE:g} or more"
    if not unsure.size:
        return f"{said}."
    return f"{said}. The least certain: {named_first(facts.table, unsure)}."


def cluster_sentences(facts: ClusterFacts) -> list[tuple[str, str, str]]:
    """Name and size of each cluster, and what tells it from the other rows."""
    sizes = [
        f"{100 * weight:.1f}%, {counted(n, 'row')}" for weight, n in zip(facts.model.weights, facts.sizes, strict=True)
    ]
    return [(f"C{k}", size, _told_apart(facts, k)) for k, size in enumerate(sizes)]


def _told_apart(facts: ClusterFacts, k: int) -> str:
    """The columns in which the mean of a cluster is furthest from that of all rows."""
    settings, w = facts.settings.components, facts.shift[k]
    size = np.abs(w)
    if size.max() < 1e-9:
        return "its means are those of all rows"
    order = [int(j) for j in np.argsort(-size, kind="stable") if size[j] >= settings.named_from * size.max()]
    shown, parts = order[: settings.most_named], []
    for how, columns in (("high", [j for j in shown if w[j] > 0]), ("low", [j for j in shown if w[j] < 0])):
        if columns:
            names = [f"{facts.table.features[j]} ({signed(f'{w[j]:+.1f}')})" for j in columns]
            parts.append(f"{how} in {' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}")
    more = len(order) - len(shown)
    return "; ".join([*parts, *([counted(more, "more column")] if more else [])])


def about_unusual(facts: ClusterFacts) -> str:
    """How many rows are unusual, and which are the least probable."""
    count, settings = facts.n_unusual, facts.settings
    chance = chance_of(settings.p * len(facts.found.p_value))
    if not count:
        return f"No row is unusual: none has a p-value below {settings.p:g} ({chance})."
    many = f"{count:,} of {counted(len(facts.found.p_value), 'row')} {'is' if count == 1 else 'are'} unusual"
    which = named_first(facts.table, facts.unusual_first[:count])
    return f"{many}, with a p-value below {settings.p:g} ({chance}): {which}."


# Profiles


def _about_profile(facts: ClusterFacts) -> str:
    hidden = len(facts.table.features) - facts.settings.limits.most_columns
    left = f" {counted(hidden, 'column')} in which clusters differ least are left out." if hidden > 0 else ""
    return (
        "Means of the columns in each cluster, in the units of the data. The background shows how far they are from "
        f"the mean of all rows, in standard deviations of all rows.{left}"
    )


def profile_table(facts: ClusterFacts) -> Iterator[str]:
    """HTML of the means of all columns in all clusters, the columns in which these differ most first."""
    shift, means, features = facts.shift, facts.model.means, facts.table.features
    reach = np.sqrt(facts.model.weights @ np.square(shift))
    order = np.argsort(-reach, kind="stable")[: facts.settings.limits.most_columns]
    heads = "".join(f'<th scope="col">C{k}</th>' for k in range(facts.model.n_clusters))
    yield f'<thead><tr><th scope="col">column</th>{heads}<th scope="col">all rows</th></tr></thead><tbody>'
    for j in order:
        cells = "".join(_profile_cell(float(means[k, j]), float(shift[k, j])) for k in range(len(means)))
        name = escape(features[j])
        overall = signed(f"{facts.model.mean[j]:.4g}")
        yield f'<tr><th scope="row" title="{name}">{name}</th>{cells}<td class="small">{overall}</td></tr>'
    yield "</tbody><tfoot>"
    for name, values in (
        ("weight", [share(float(weight)) for weight in facts.model.weights]),
        ("rows", [f"{count:,}" for count in facts.sizes]),
        ("variance explained", [share(float(part)) for part in facts.model.explained]),
    ):
        yield f'<tr><th scope="row">{name}</th>{"".join(f"<td>{value}</td>" for value in values)}<td></td></tr>'
    yield "</tfoot>"


def _profile_cell(mean: float, shift: float) -> str:
    """A mean on a background that is the stronger the further it is from the mean of all rows."""
    kind, far = "more" if shift >= 0 else "less", signed(f"{shift:+.2f}")
    size = f"{min(30 * abs(shift), 60):.0f}%"
    return f'<td class="{kind}" style="--size:{size}" title="{far} sd">{signed(f"{mean:.4g}")}</td>'


# Tables of rows


def unusual_rows(facts: ClusterFacts) -> Iterator[str]:
    """Lines of an HTML table of unusual rows, the least probable first."""
    for i in facts.unusual_first[: facts.settings.most_unusual]:
        both = (facts.found.log10_p_value[i], facts.found.log10_model_p_value[i])
        cells = [*map(p_text, both), *_assigned(facts, i), *_observed(facts, i)]
        yield unusual_line(facts.table, int(i), facts.shown, cells, facts.found.cell_scores[i])


def _assigned(facts: ClusterFacts, i: int) -> list[str]:
    """Cluster of a row, and its probability."""
    return [f"C{facts.found.cluster[i]}", f"{facts.certainty[i]:.3f}"]


def _observed(facts: ClusterFacts, i: int) -> list[str]:
    return [f"{int(np.isfinite(facts.table.cells[i]).sum()):,}"]


def _about_unsure(facts: ClusterFacts) -> str:
    count, most = facts.unsure_first.size, facts.settings.most_unusual
    shown = [i for i in facts.unsure_first if i in set(facts.shown.tolist())]
    if facts.model.n_clusters == 1 or not count:
        return f"All rows belong to their cluster with a probability of {SURE:g} or more."
    first = f" The first {most} are listed." if len(shown) > most else ""
    return f"{counted(count, 'row')} may belong to several clusters: no probability is {SURE:g} or more.{first}"


def unsure_rows(facts: ClusterFacts) -> Iterator[str]:
    """Lines of an HTML table of rows that may belong to several clusters, the least certain first."""
    table, listed = facts.table, set(facts.shown.tolist())
    rows = [int(i) for i in facts.unsure_first if int(i) in listed]
    for i in rows[: facts.settings.most_unusual]:
        order = np.argsort(-facts.probability[i], kind="stable")[:2]
        place, called = int(np.searchsorted(facts.shown, i)), escape(table.called(i))
        button = f'<button type="button" data-row="{place}" title="{called}">{called}</button>'
        number = [f"{table.numbers[i]:,}"] if table.named else []
        first = [text for k in order for text in (f"C{k}", f"{facts.probability[i, k]:.3f}")]
        cells = [*number, *first, *_observed(facts, i), p_text(facts.found.log10_p_value[i])]
        yield f'<tr><th scope="row">{button}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'


# What to do next, and details


def advice(facts: ClusterFacts) -> Iterator[str]:
    """Sentences about what to look at next."""
    found = list(_findings(facts))
    yield from found or ["No problems were found. Choose any row to see its cluster and values."]


def _findings(facts: ClusterFacts) -> Iterator[str]:
    estimator = facts.estimator
    if estimator.status_ is not Status.DEGENERATE_CLUSTERS:
        yield from about_ending(estimator)
    degenerate = [f"C{k}" for k in estimator.degenerate_clusters_]
    if degenerate:
        which = f"{', '.join(degenerate)} {'has' if len(degenerate) == 1 else 'have'}"
        yield f"{which} no noise left, or too few rows: remove repeated rows, or fit fewer clusters."
    yield from estimator.notes_
    if facts.found.note:
        yield "Read the note on p-values above the table of unusual rows, and compare both p-values there."
    if facts.unsure_first.size > 0.25 * len(facts.certainty):
        yield (
            "Many rows may belong to several clusters: these overlap. n_clusters='icl' (--clusters icl) prefers "
            "clusters that do not."
        )
    by_chance = facts.settings.p * len(facts.certainty)
    if facts.n_unusual > 3 * by_chance + 3:
        yield "Far more rows are unusual than chance would give: look at the table of unusual rows."
    elif facts.n_unusual:
        yield "Choose a row from the table of unusual rows to see which columns make it unusual."
    yield from poor_columns(estimator, facts.table)
    if np.isnan(facts.table.cells).any():
        yield "Choose a row with missing cells to see its imputed values. Do not rely on those with wide intervals."


def model_details(facts: ClusterFacts) -> Iterator[tuple[str, str]]:
    """Names and values of what a statistician wants to know about the fit."""
    estimator, noise = facts.estimator, facts.model.noise_variance
    yield "Model", type(estimator).__name__
    yield (
        "Numbers of clusters and components",
        f"{estimator.n_clusters_} and {estimator.n_components_} ({estimator.rule_})",
    )
    yield "Noise variance", f"{noise.min():.3g} to {noise.max():.3g}"
    yield "Log-likelihood of the fit", signed(f"{estimator.log_likelihood_:,.2f}")
    yield "BIC, ICL", signed(f"{estimator.bic_:,.2f}, {estimator.icl_:,.2f} (nats; larger is better)")
    yield "Mean log-likelihood of the rows on this page", signed(f"{facts.found.log_likelihood.mean():.4g}")
    yield "How the fit ended", estimator.status_.value
    yield "Iterations", f"{estimator.n_iter_:,}"
