"""Fits of awkward tables by every estimator: the answers of the fitted models, and laws that fits obey."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from adversarial import oracles, tables
from adversarial.judgement import Judge, Verdict, fingerprint, judged_error, quiet
from adversarial.questions import Asked
from probpca import PPCA, BayesianPCA, FactorAnalysis, PPCAImputer
from probpca.learning import SOLVERS, Status

GAIN = 0.01
"""Nats that plain EM may still gain from a fit that says it has converged within tol = 0.001."""
OBLIQUE = ("promax", "oblimin", "geomin")
NO_MAXIMUM = (
    Status.NOISE_COLLAPSED,
    Status.DEPENDENT_COLUMNS,
    Status.LOW_RANK,
    Status.MAX_ITER,
    Status.BOUND_MAX_ITER,
)


def ppca(rng):
    """PPCA with all solvers."""
    table = tables.table(rng)
    d = 0 if table.x is None else table.x.shape[1]
    estimator = PPCA(
        _components(rng, d),
        solver="auto" if rng.random() < 0.6 else str(rng.choice(SOLVERS)),
        standardize=bool(rng.random() < 0.25),
        missing=table.missing,
        random_state=0,
    )
    return _judged(estimator, table, rng, _ask_ppca)


def factors(rng):
    """FactorAnalysis with and without rotations."""
    table = tables.table(rng)
    d = 0 if table.x is None else table.x.shape[1]
    count = [None, "bic", "aic"][int(rng.integers(3))] if d < 2 or rng.random() < 0.2 else int(rng.integers(1, d))
    rotation = None if rng.random() < 0.6 else str(rng.choice(["varimax", "quartimax", "promax", "oblimin", "geomin"]))
    estimator = FactorAnalysis(count, rotation=rotation, missing=table.missing, random_state=0)
    return _judged(estimator, table, rng, _ask_factors)


def bayesian(rng):
    """BayesianPCA."""
    table = tables.table(rng)
    d = 0 if table.x is None else table.x.shape[1]
    count = None if d < 2 or rng.random() < 0.3 else int(rng.integers(1, d))
    standardize = bool(rng.random() < 0.25)
    estimator = BayesianPCA(count, standardize=standardize, missing=table.missing, random_state=0)
    return _judged(estimator, table, rng, _ask_bayesian)


def imputer(rng):
    """PPCAImputer."""
    table = tables.table(rng)
    if table.missing == "unstored":
        table.x, table.missing = table.given.toarray(), "nan"
    table.cell_weight = None
    if table.must_fail.startswith("weights") and "cell" in table.must_fail:
        table.must_fail = ""
    d = 0 if table.x is None else table.x.shape[1]
    count = None if d < 2 or rng.random() < 0.5 else int(rng.integers(1, d))
    estimator = PPCAImputer(
        count, standardize=bool(rng.random() < 0.6), keep_empty_features=bool(rng.random() < 0.5), random_state=0
    )
    if table.must_fail == "no observed cell":  # nothing to learn, and nothing to refuse: as scikit-learn's imputers
        table.x, table.must_fail = table.given, ""
    return _judged(estimator, table, rng, _ask_imputer)


def _components(rng, d):
    """Mostly a number; sometimes a rule, a share, or too many."""
    chance = rng.random()
    if d > 1 and chance < 0.75:
        return int(rng.integers(1, d))
    if chance < 0.9:
        return [None, "bic", 0.9][int(rng.integers(3))]
    return int(rng.integers(1, d + 3)) if chance < 0.97 else 0


def _judged(estimator, table, rng, ask):
    """Fit, ask and judge."""
    judge = Judge()
    before = [fingerprint(part) for part in (table.given, table.sample_weight, table.cell_weight)]
    with quiet(judge):
        try:
            fitted(estimator, table.given, table)
        except Exception as error:  # noqa: BLE001  whatever came, it is judged
            refused = judged_error(error, allowed=bool(table.must_fail) or not sound(table, estimator))
            return refused if not judge.complaints else Verdict("wrong", (*judge.complaints, *refused.words))
        if table.must_fail:
            return Verdict("wrong", (f"a fit where there can be none: {table.must_fail}",))
        try:
            ask(judge, estimator, table, rng)
        except Exception as error:  # noqa: BLE001
            judge.complaints.extend(judged_error(error, allowed=False).words)
    after = [fingerprint(part) for part in (table.given, table.sample_weight, table.cell_weight)]
    judge.holds(before == after, "the input was changed")
    return judge.verdict


def fitted(estimator, rows, table):
    """Fit with the weights of a table."""
    weights = {"sample_weight": table.sample_weight}
    if table.cell_weight is not None:
        weights["cell_weight"] = table.cell_weight
    return estimator.fit(rows, **weights)


def sound(table, estimator):
    """Whether a fit must succeed: numbers that vary, enough rows, and a number of components that they can carry."""
    if table.x is None:
        return False
    x, q = table.observed(), estimator.n_components
    q = 1 if q is None else q
    if not isinstance(q, int) or not 0 < q < x.shape[1] or getattr(estimator, "solver", "auto") != "auto":
        return False
    if getattr(estimator, "rotation", None) in OBLIQUE:
        return False  # too many factors may leave loadings of lower rank, which have no oblique rotation
    varied = sum(np.ptp(column[~np.isnan(column)]) > 0 for column in x.T if not np.isnan(column).all())
    return len(x) >= q + 3 and varied > q and (~np.isnan(x)).sum() > 0.3 * x.size


def _ask_ppca(judge, estimator, table, rng):
    _ask_table(judge, estimator, table, rng)
    parameters(judge, estimator)
    maximum(judge, estimator, table, rng)
    if rng.random() < 0.3:
        invariances(judge, estimator, table, rng, "log_likelihood_")


def _ask_factors(judge, estimator, table, rng):
    """Answers of the unrotated factors, and what a rotation must leave as it is."""
    plain = estimator.rotate(None)
    _ask_table(judge, plain, table, rng)
    model, T = oracles.Model.of(estimator.model_), estimator.rotation_matrix_
    L, Phi = estimator.loadings_, estimator.factor_correlations_
    size = np.sqrt(np.diag(model.covariance))
    unit = 1e-11 * np.linalg.cond(T) ** 2
    explained = L @ Phi @ L.T + np.diag(estimator.noise_variance_)
    judge.close("L Phi L' + Psi", explained, model.covariance, unit * np.outer(size, size))
    judge.close("diag Phi", np.diag(Phi), np.ones(len(Phi)), 1e-12)
    scores = np.asarray(plain.transform(table.given), dtype=float)
    rounding = (np.finfo(np.float32).eps if table.single else 1e-12) * 10 * len(T)
    judge.close(
        "rotated scores", estimator.transform(table.given), scores @ T, rounding * np.abs(scores).max(initial=1.0)
    )
    sample = oracles.Sample.of(table.x, table.sample_weight, table.cell_weight)
    total, error = oracles.total_log_likelihood(model, sample)
    judge.close("log_likelihood_", estimator.log_likelihood_, total, 10 * error)
    falls = -np.diff(estimator.trace_).min(initial=0.0)
    judge.holds(falls <= 1e-10 * np.abs(estimator.trace_).max() + error, f"the log-likelihood fell by {falls:.3g} nats")
    if estimator.status_ in NO_MAXIMUM or model.condition > 1e10 or rng.random() > 0.35:
        return
    positive = sample.precision[sample.precision > 0]
    variance = estimator.column_std_**2 * np.exp(np.log(positive).mean())  # for cells of an average precision
    floor = np.where(variance > 0, np.minimum(estimator.floor * variance, model.noise), model.noise)
    later = oracles.total_log_likelihood(oracles.plain_em(model, sample, floor=floor), sample)[0]
    judge.holds(later - total <= GAIN + 2 * error, f"CONVERGED, and 200 EM steps gain {later - total:.3g} nats")


def _ask_bayesian(judge, estimator, table, rng):
    _ask_table(judge, estimator, table, rng)
    _training_cells(judge, estimator, table)
    if estimator.rule_.startswith("all") and estimator.status_ is Status.BOUND_CONVERGED:
        # A component that is removed takes its share of the bound with it, and so does the floor of the noise.
        gains = np.diff(estimator.trace_)
        gains[-1:] += estimator.tol  # the end turns to principal axes, which may cost that much
        falls = -gains.min(initial=0.0)
        # Residuals are differences of numbers of the size of the data, and are divided by the noise.
        stretch = np.max(estimator.explained_variance_, initial=0.0) / estimator.noise_variance_
        rounding = np.finfo(float).eps * stretch * np.isfinite(table.x).sum()
        limit = 1e-8 * np.abs(estimator.trace_).max() + rounding
        judge.holds(falls <= limit, f"the lower bound fell by {falls:.3g} nats")
    if rng.random() < 0.3:
        invariances(judge, estimator, table, rng, "lower_bound_")


def _ask_table(judge, estimator, table, rng):
    asked = Asked(judge, estimator, table, rng)
    asked.all()
    if rng.random() < 0.2:
        asked.sample()


def _ask_imputer(judge, estimator, table, rng):
    """The filled cells are the conditional means of the model, and all others what they were."""
    filled = estimator.transform(table.given)
    filled = np.asarray(filled.toarray() if hasattr(filled, "toarray") else filled, dtype=float)
    x, kept = table.x, np.setdiff1d(np.arange(table.x.shape[1]), estimator.empty_features_)
    full = filled if estimator.keep_empty_features else np.full(x.shape, np.nan)
    full[:, kept] = filled[:, kept] if estimator.keep_empty_features else filled
    seen = ~np.isnan(x)
    seen[:, estimator.empty_features_] &= estimator.keep_empty_features
    judge.holds(np.array_equal(full[seen], x[seen]), "the imputer changed an observed cell")
    if len(kept) < 2:
        return
    model = oracles.Model.of(estimator.model_)
    rows, want, bound = oracles.answers(model, x[:, kept], rng)
    here, rounding = np.isnan(x[np.ix_(rows, kept)]), np.finfo(np.float32 if table.single else float).eps
    error = (bound.predicted + rounding * np.abs(want.predicted))[here]
    judge.close("imputed", full[np.ix_(rows, kept)][here], want.predicted[here], error)


def _training_cells(judge, estimator, table):
    """Cells of training rows are imputed by the posterior of the latent variables in the variational fit."""
    belief, x = estimator.belief_, table.x
    centre, q = oracles.Model.of(belief.centre), estimator.n_components_
    r, c = np.tril_indices(q + 1)
    Sigma = np.zeros((x.shape[1], q + 1, q + 1))
    Sigma[:, r, c] = Sigma[:, c, r] = np.asarray(belief.covariance).T
    W, seen = centre.loadings, ~np.isnan(x)
    information = (W[:, :, None] * W[:, None, :] + Sigma[:, :q, :q]) / centre.noise[:, None, None]
    M = np.eye(q) + np.einsum("ij,jkl->ikl", seen, information)
    score = np.where(seen, (x - centre.mean) / centre.noise, 0.0) @ W - seen @ (Sigma[:, :q, q] / centre.noise[:, None])
    m = np.linalg.solve(M, score[:, :, None])[:, :, 0]
    want = centre.mean + m @ W.T
    filled = np.asarray(estimator.impute(table.given, training=True), dtype=float)
    sizes = np.where(seen, (np.abs(x) + np.abs(centre.mean)) / centre.noise, 0.0) @ np.abs(W)
    size = (np.abs(score) + sizes).max(axis=1) * np.linalg.norm(np.linalg.inv(M), 2, axis=(1, 2)) + np.abs(m).max(
        axis=1
    )
    unit = 10 * (q + x.shape[1]) * oracles.EPS * np.linalg.cond(M)
    error = (unit * size)[:, None] * np.linalg.norm(W, axis=1) + unit[:, None] * np.abs(centre.mean)
    error = error + (np.finfo(np.float32).eps if table.single else 0.0) * np.abs(want)
    judge.close("impute(training=True)", filled[~seen], want[~seen], error[~seen])


def parameters(judge, estimator):
    """Fitted attributes agree with the model."""
    model, scale = oracles.Model.of(estimator.model_), estimator.scale_
    scale = np.ones(model.mean.size) if scale is None else scale
    loadings = estimator.loadings_ * scale[:, None]
    judge.close("loadings_", loadings, model.loadings, 1e-12 * np.abs(model.loadings).max(initial=0.0))
    judge.close("noise_variance_", estimator.noise_variance_ * scale**2, model.noise, 1e-12 * model.noise)
    q, axes = estimator.n_components_, estimator.components_
    judge.close("components_", axes @ axes.T, np.eye(q), 1e-12)
    variance = np.square(np.linalg.norm(estimator.loadings_, axis=0)) + estimator.noise_variance_
    judge.close("explained_variance_", estimator.explained_variance_, variance, 1e-10 * variance.max())


def maximum(judge, estimator, table, rng):
    """The likelihood is that of the model, and at its maximum where the fit says so."""
    sample = oracles.Sample.of(table.x, table.sample_weight, table.cell_weight)
    model, scale = oracles.Model.of(estimator.model_), estimator.scale_
    total, error = oracles.total_log_likelihood(model, sample)
    judge.close("log_likelihood_", estimator.log_likelihood_, total, error)
    if estimator.status_ in NO_MAXIMUM:
        return
    if sample.complete:
        scale = np.ones(model.mean.size) if scale is None else scale
        best = oracles.closed_form(sample.scaled(scale), estimator.n_components_)
        if best is None:
            return
        volume = sample.weight.sum() * np.log(scale).sum()
        gain, allowed = best.log_likelihood - volume - total, GAIN * (estimator.status_ is not Status.EXACT)
        words = f"{estimator.status_.name} {gain:.3g} nats below the closed form"
        judge.holds(gain <= allowed + 2 * error + 1e-9 * abs(total), words)
    elif (model.condition - 1) * sample.precision.max() < 1e10 and rng.random() < 0.35:
        gain = em_gain(model, sample, scale)
        words = f"{estimator.status_.name}, and 200 EM steps gain {gain:.3g} nats"
        judge.holds(gain <= GAIN + 2 * error, words)


def em_gain(model, sample, scale=None):
    """What plain EM gains, in units in which all features have the same noise variance."""
    scale = np.ones(model.mean.size) if scale is None else scale
    start = oracles.Model(model.mean / scale, model.loadings / scale[:, None], model.noise / scale**2)
    sample = sample.scaled(scale)
    now, later = (oracles.total_log_likelihood(m, sample)[0] for m in (start, oracles.plain_em(start, sample)))
    return later - now


def invariances(judge, estimator, table, rng, objective):
    """Powers of two as units and the order of rows change nothing but the volume."""
    if table.single or estimator.status_ in NO_MAXIMUM or getattr(estimator, "solver", "").startswith("incremental"):
        return
    if estimator.scale_ is not None and (estimator.scale_ == 1).any():
        return  # a constant column has no unit that its standard deviation could tell
    power, order = int(rng.integers(-30, 31)), rng.permutation(len(table.x))
    cells = estimator.n_observed_
    if objective == "lower_bound_":  # the flat prior of the means has units, too
        cells -= table.x.shape[1] - len(estimator.empty_features_)
    here = Fitted(estimator, table, getattr(estimator, objective))
    shift, plain = cells * power * np.log(2.0), clone(estimator).set_params(missing="nan")
    for how, other, volume in (
        (f"in units of 2**{-power}", replace(table, x=table.x * 2.0**power), shift),
        ("with rows in another order", _reordered(table, order), 0.0),
    ):
        found = fitted(clone(plain), other.x, other)
        _same(judge, how, here, Fitted(found, other, getattr(found, objective) + volume))


class Fitted(NamedTuple):
    """A fit, its table, and what it maximised, in the units of the table as it was."""

    estimator: object
    table: tables.Table
    value: float

    @property
    def gain(self):
        """What plain EM gains from here."""
        sample = oracles.Sample.of(self.table.x, self.table.sample_weight, self.table.cell_weight)
        return em_gain(oracles.Model.of(self.estimator.model_), sample, self.estimator.scale_)


def _reordered(table, order):
    weights = (None if weight is None else weight[order] for weight in (table.sample_weight, table.cell_weight))
    sample_weight, cell_weight = weights
    return replace(table, x=table.x[order], sample_weight=sample_weight, cell_weight=cell_weight)


def _same(judge, how, one, other):
    """The same end. If cells are missing rounding may decide between two maxima, and the lower one must be one."""
    gap, statuses = other.value - one.value, {one.estimator.status_, other.estimator.status_}
    words = f"{gap:.3g} nats more {how}"
    if abs(gap) > GAIN and statuses == {Status.CONVERGED}:
        gain = min(one, other, key=lambda fit: fit.value).gain
        judge.holds(gain <= GAIN, f"{words}, and 200 EM steps gain {gain:.3g} from the lower one")
        return
    judge.holds(len(statuses) == 1, f"{' and '.join(status.name for status in statuses)} {how}")
    judge.holds(one.estimator.n_components_ == other.estimator.n_components_, f"another number of components {how}")
    judge.holds(abs(gap) <= GAIN + 1e-9 * abs(one.value), words)
