"""The charts of a report on a mixture in Vega-Lite: clusters in a plane, criteria, and probabilities of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from probpca.displays.selection_display import criterion_of_clusters
from probpca.pages.report_charts import STYLE, ChartSizes, altair, common_charts, dressed, row_points

if TYPE_CHECKING:
    from probpca.learning.mixture.result import MixtureCriteria
    from probpca.pages.report_clusters import ClusterFacts


def cluster_charts(facts: ClusterFacts) -> dict[str, Any]:
    """All charts by name."""
    alt, estimator = altair(), facts.estimator
    bars = min(len(facts.table.features), facts.settings.components.most_loadings)
    sizes = ChartSizes(facts.shown.size, facts.columns.shape[1], bars, 0)
    drawn = {
        "plane": _plane(alt, sizes.n_rows),
        "criteria": _criteria(alt, estimator.criteria_, estimator.n_clusters_),
        "chances": _chances(alt, facts.model.n_clusters),
        **common_charts(sizes, facts.table.noun),
    }
    return {name: dressed(chart).to_dict() for name, chart in drawn.items()}


def _plane(alt: Any, n_rows: int) -> Any:
    """Rows and clusters in the plane that separates these best."""
    free = alt.Scale(zero=False, nice=False)
    x = alt.X("a:Q", scale=free, axis=alt.Axis(tickCount=7), title="axis 1")
    y = alt.Y("b:Q", scale=free, axis=alt.Axis(tickCount=7), title="axis 2")
    rows, chosen = row_points(alt, x, y, n_rows)
    regions = alt.Chart(alt.NamedData("regions")).mark_line(strokeWidth=1.8, aria=False)
    regions = regions.encode(x=x, y=y, order="k:Q", detail="cluster:N", stroke=alt.Stroke("colour:N", scale=None))
    names = alt.Chart(alt.NamedData("centres"))
    style = {"fontSize": 15, "fontWeight": 700}
    halo = names.mark_text(stroke="var(--card)", strokeWidth=5, strokeJoin="round", opacity=0.9, aria=False, **style)
    text = names.mark_text(**style).encode(fill=alt.Fill("colour:N", scale=None))
    place = {"x": x, "y": y, "text": "name:N"}
    words = "Rows as points in the colours of their clusters, with an ellipse for the model of each cluster."
    layers = (regions, rows, chosen, halo.encode(**place), text.encode(**place))
    return alt.layer(*layers).properties(height=STYLE.plane, description=words)


def _criteria(alt: Any, found: MixtureCriteria, chosen: int) -> Any:
    """BIC and ICL of the best mixture with each number of clusters."""
    lines = []
    for rule in ("bic", "icl"):
        curve = criterion_of_clusters(found, rule)
        lines += [
            {"k": int(count), "value": float(score), "rule": rule.upper(), "here": int(count) == chosen}
            for count, score in zip(curve.n_components, curve.score, strict=True)
        ]
    base = alt.Chart(alt.InlineData(values=lines)).encode(
        x=alt.X("k:O", title="number of clusters", axis=alt.Axis(labelAngle=0, ticks=False)),
        y=alt.Y("value:Q", title="nats, larger is better", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4)),
        color=alt.Color(
            "rule:N", title=None, scale=alt.Scale(domain=["BIC", "ICL"], range=["var(--row)", "var(--odd)"])
        ),
        tooltip=[
            alt.Tooltip("rule:N", title="criterion"),
            alt.Tooltip("k:O", title="clusters"),
            alt.Tooltip("value:Q", title="nats", format=",.1f"),
        ],
    )
    points = base.mark_point(filled=True, opacity=1, aria=False).encode(
        size=alt.condition("datum.here", alt.value(130), alt.value(40))
    )
    said = "; ".join(f"{line['rule']} {line['k']}: {line['value']:.1f}" for line in lines[:12])
    words = f"BIC and ICL by the number of clusters: {said}."
    chart = alt.layer(base.mark_line(strokeWidth=1.8, aria=False), points)
    return chart.properties(height=STYLE.scree, description=words)


def _chances(alt: Any, count: int) -> Any:
    """Probabilities of the clusters of the chosen row as bars."""
    y = alt.Y("name:N", title=None, sort=alt.EncodingSortField("k", op="min"), axis=alt.Axis(ticks=False, domain=False))
    base = alt.Chart(alt.NamedData("chances")).encode(y=y)
    bars = base.mark_bar(size=13, aria=False).encode(
        x=alt.X("value:Q", title="probability", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5)),
        fill=alt.Fill("colour:N", scale=None),
        tooltip=[alt.Tooltip("name:N", title="cluster"), alt.Tooltip("said:N", title="probability")],
    )
    text = base.mark_text(align="left", dx=5, color="var(--muted)").encode(x="value:Q", text="said:N")
    words = "Probability of each cluster for the chosen row."
    return alt.layer(bars, text).properties(height=STYLE.wide_line * max(count, 2), description=words)
