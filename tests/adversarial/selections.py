"""The number of components: criteria against dense computations, and what must not change them."""

import numpy as np

from adversarial import oracles, tables
from adversarial.judgement import Judge, Verdict, fingerprint, judged_error, quiet
from probpca import select_n_components

QUICK = ["parallel", "bic"]
"""Criteria that all tables allow, and that need no folds."""


def select(rng):
    """Choices by all criteria of a table."""
    table, judge = tables.table(rng), Judge()
    if table.cell_weight is not None:
        table.cell_weight = None
        table.must_fail = table.must_fail if "cell" not in table.must_fail else ""
    before = fingerprint(table.given)
    options = {
        "criteria": None if rng.random() < 0.2 else QUICK,
        "sample_weight": table.sample_weight,
        "standardize": bool(rng.random() < 0.25),
        "random_state": 0,
    }
    with quiet(judge):
        try:
            found = select_n_components(table.given, missing=table.missing, **options)
        except Exception as error:  # noqa: BLE001
            return judged_error(error, allowed=bool(table.must_fail) or not _sound(table))
        if table.must_fail:
            return Verdict("wrong", (f"a choice where there can be none: {table.must_fail}",))
        _judge(judge, found, table, rng, options)
    judge.holds(fingerprint(table.given) == before, "the input was changed")
    return judge.verdict


def _sound(table):
    if table.x is None:
        return False
    x = table.observed()
    varied = sum(np.ptp(column[~np.isnan(column)]) > 0 for column in x.T if not np.isnan(column).all())
    return len(x) >= 5 and varied >= 2 and (~np.isnan(x)).sum() > 0.5 * x.size


def _judge(judge, found, table, rng, options):
    d = table.x.shape[1]
    for name, count in found.choices.items():
        judge.holds(count is None or 0 <= count <= d - 1, f"{name} chooses {count} of {d} columns")
    _judge_bic(judge, found, table, options)
    order = rng.permutation(len(table.x))
    weight = None if table.sample_weight is None else table.sample_weight[order]
    quick = {**options, "criteria": QUICK, "sample_weight": weight}
    for how, rows in (("in another order", table.x[order]), ("in units of 2**10", 2.0**-10 * table.x[order])):
        again = select_n_components(rows, **quick).choices
        for name in QUICK:
            same = again.get(name) == found.choices.get(name)
            judge.holds(same or table.single, f"{name} chooses {found.choices.get(name)}, and {again.get(name)} {how}")


def _judge_bic(judge, found, table, options):
    """Of complete rows the criterion is that of the closed form; its best must be the choice."""
    sample = oracles.Sample.of(table.x, table.sample_weight)
    if not sample.complete or options["standardize"] or found.choices.get("bic") is None or table.single:
        return  # what float32 rounds away counts as rank, and every criterion chooses that
    n, d = sample.weight.sum(), table.x.shape[1]
    scores = {}
    for q in range(1, min(d - 1, len(sample.x) - 2) + 1):
        best = oracles.closed_form(sample, q)
        if best is None or best.condition > 1e8:
            return  # no noise is left: every criterion chooses the rank
        scores[q] = best.log_likelihood - 0.5 * np.log(n) * (d * q - q * (q - 1) / 2 + d + 1)
    chosen = found.choices["bic"]
    if chosen in scores:
        loss = max(scores.values()) - scores[chosen]
        judge.holds(loss <= 1e-6 * max(map(abs, scores.values())), f"bic chooses {chosen}, {loss:.3g} below the best")
