"""Maximum-likelihood fit of mixtures of PPCA and of factor analysers to rows of any kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from probpca.blocks import observe
from probpca.blocks.block import joined
from probpca.errors import DataError, ShapeError
from probpca.learning.complete.spectrum import NOISE_FLOOR
from probpca.learning.components import check_count
from probpca.learning.describe import Description, column_std, describe, in_unit_precision, rows_in_memory
from probpca.learning.factor.fit import fit_factor_analysis
from probpca.learning.fit import fit_ppca
from probpca.learning.loop import Iterated, Monitor, iterate
from probpca.learning.missing.fit import noise_floor, standardised_table
from probpca.learning.mixture.e_step import expect_mixture
from probpca.learning.mixture.em import MixtureEM, fit_accelerated
from probpca.learning.mixture.result import RULES, MixtureCriteria, MixtureResult, Score
from probpca.learning.mixture.start import StartingRows
from probpca.learning.result import Status
from probpca.learning.selection.criteria import n_free_parameters
from probpca.learning.settings import Settings
from probpca.models import Mixture
from probpca.sources import Source, open_source
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.learning.mixture.e_step import MixtureSums
    from probpca.learning.settings import MixtureSettings
    from probpca.statistics import ColumnSummary
    from probpca.typing import Array

NClusters: TypeAlias = "int | np.integer[Any] | str | None"


def fit_mixture(
    rows: Any,
    n_clusters: NClusters = None,
    n_components: int | np.integer[Any] | None = None,
    settings: Settings = Settings(noise="per_feature", n_init=10, max_iter=500),
    rng: np.random.Generator | None = None,
) -> MixtureResult:
    r"""Fit a mixture of PPCA or of factor analysers to the observed cells of rows by maximum likelihood.

    .. math:: x \sim \sum_{k=1}^K \pi_k \, N(\mu_k, \; W_k W_k^\top + \Psi_k)

    Parameters
    ----------
    rows : array, sparse matrix, dataframe, file name, iterable of batches, Dask or Spark collection
        The data, as accepted by ``open_source``. NaN is a missing cell.
    n_clusters : int, "bic", "icl" or None
        Number K of clusters, or the criterion that chooses it. None means "bic".
    n_components : int or None
        Number of components of each cluster; None lets the criterion choose it.
    settings : Settings
        Tolerance and other options. ``settings.noise`` says whether features share a noise variance in each cluster;
        ``settings.mixture`` holds options of mixtures.
    rng : numpy.random.Generator or None
        Random number generator; None creates one with a random seed.

    Returns
    -------
    MixtureResult
        The fitted mixture, its log-likelihood and how the fit ended.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning import fit_mixture
    >>> result = fit_mixture(load_iris().data, 2, 1, rng=np.random.default_rng(0))
    >>> result.model.weights.round(2), result.status.name
    (array([0.67, 0.33]), 'CONVERGED')
    """
    rng = np.random.default_rng(rng)
    opened = open_source(rows)
    source, unit = in_unit_precision(opened.loaded())
    wanted = Wanted.parse(n_clusters, n_components, source.n_features)
    table = describe(source, rng, None, settings.sample)
    if settings.noise == "shared":
        result = _fit(table, wanted, settings, rng)
    else:  # the likelihood does not depend on the units, but starts and floors do
        scaled, units = standardised_table(table)
        result = _fit(scaled, wanted, settings, rng).in_units(units)
    return result.in_precision_unit(unit)._replace(sample=rows_in_memory(opened, table))


@final
@dataclass(frozen=True, slots=True)
class Wanted:
    """Numbers of clusters and components as given by a user; None where a criterion chooses."""

    n_clusters: int | None
    n_components: int | None
    criterion: str = "bic"

    @classmethod
    def parse(cls, n_clusters: NClusters, n_components: Any, n_features: int) -> Wanted:
        """Parse what a user gave; raise ``ShapeError`` or ``DataError`` if it is not valid."""
        check_count(1, n_features)
        if n_components is not None:
            check_count(int(n_components), n_features)
            n_components = int(n_components)
        if n_clusters is None or isinstance(n_clusters, str):
            criterion = n_clusters or "bic"
            if criterion not in RULES:
                msg = f"n_clusters must be a whole number, 'bic', 'icl' or None; got {n_clusters!r}."
                raise DataError(msg)
            return cls(None, n_components, criterion)
        if n_clusters < 1:
            msg = f"n_clusters must be at least 1; got {n_clusters}."
            raise ShapeError(msg)
        return cls(int(n_clusters), n_components)

    @property
    def given(self) -> bool:
        """Whether both numbers are given."""
        return self.n_clusters is not None and self.n_components is not None

    @property
    def rule(self) -> str:
        """How the numbers are chosen, in words."""
        if self.given:
            return "as given"
        what = "clusters and components" if self.n_clusters is None and self.n_components is None else ""
        what = what or ("clusters" if self.n_clusters is None else "components")
        return f"{what} by {RULES[self.criterion]}"


def _fit(table: Description, wanted: Wanted, settings: Settings, rng: np.random.Generator) -> MixtureResult:
    with one_blas_thread():
        problem = MixtureProblem.of(table, settings, rng)
        if table.sample is None:
            found, scores = search(problem, wanted)
        else:
            small = MixtureProblem.of(describe(table.sample, rng, None, settings.sample), settings, rng)
            found, scores = search(small, wanted)
            found = problem.continued(found)
            scores = [problem.score(found)] if wanted.given else scores
        rule = wanted.rule
        if table.sample is not None and not wanted.given:
            rule = f"{rule}, in a sample of {small.summary.total_weight:,.0f} rows"
        criteria = MixtureCriteria.of(scores)
        passed_over = criteria.passed_over(wanted.criterion)
        return problem.result(found, rule, criteria)._replace(notes=(passed_over,) if passed_over else ())


class Fitted(NamedTuple):
    """A fit of a mixture, in progress or ended."""

    ended: Iterated[Mixture]
    floor: Array  # smallest noise variance: () or (d,)


@final
@dataclass(frozen=True, slots=True, eq=False)
class MixtureProblem:
    """Prepared rows and options that all fits to them share."""

    table: Description
    rows: Source  # prepared for E-steps
    summary: ColumnSummary
    settings: Settings
    rng: np.random.Generator

    @classmethod
    def of(cls, table: Description, settings: Settings, rng: np.random.Generator) -> MixtureProblem:
        """Prepare the rows of a table."""
        summary = table.summarise()
        centre = summary.mean.astype(table.source.dtype).astype(np.float64)
        return cls(table, table.source.keep(partial(observe, centre=centre)), summary, settings, rng)

    def rough(self) -> MixtureProblem:
        """The same problem, whose fits nobody watches and that end when a comparison needs no more digits."""
        tol = self.settings.search.tolerance * self.penalty * self.table.source.n_features
        return replace(self, settings=replace(self.settings, watch=None, tol=max(tol, self.settings.tol)))

    @property
    def penalty(self) -> float:
        """Penalty of BIC for each parameter, in nats. A row with half of its cells observed counts as half a row."""
        observed = self.summary.observed
        if self.settings.noise == "per_feature":
            observed = observed[column_std(self.summary) > 0]
        return 0.5 * float(np.log(max(observed.mean(), 2.0)))

    @property
    def n_varying(self) -> int:
        """Number of columns that are not constant."""
        return int((column_std(self.summary) > 0).sum())

    @property
    def most_components(self) -> int:
        """Largest number of components that a criterion may choose."""
        return max(min(self.n_varying - 1, int(self.summary.total_weight) - 2, self.table.source.n_features - 1), 1)

    def fit(self, n_clusters: int, n_components: int) -> Fitted:
        """Fit a mixture of a given size to the end, from the best of several starts."""
        if n_clusters == 1:
            return self.single(n_components)
        how = self.settings.mixture
        block = self._start_block(how.rows_of_start(n_clusters, n_components))
        starting = self._starting_rows(block, n_clusters, n_components)
        whole = block.n_rows == self.rows.n_rows
        rows = self.rows if whole else Source.of_block(block).keep(partial(observe, centre=self.summary.mean))
        em = self._em(starting.floor, n_components)
        tried = [
            iterate(partial(em.step, source=rows), start, Monitor(self.settings.tol, how.short))
            for start in starting.mixtures(n_clusters, self.settings.n_init, self.rng)
        ]
        first, tried = tried[0], sorted(tried, key=_value, reverse=True)[: how.finalists]
        if first not in tried:  # k-means in units of the data is rarely far from the best, though slow at first
            tried.append(first)
        if len(tried) > 1:  # the best after a few steps need not be the best at the end
            monitors = (Monitor(max(how.final_tol, self.settings.tol), how.final_steps) for _ in tried)
            tried = [
                fit_accelerated(em, rows, ended.state, monitor) for ended, monitor in zip(tried, monitors, strict=True)
            ]
        return self._run(max(tried, key=_value).state, starting.floor)

    def continued(self, fitted: Fitted) -> Fitted:
        """Continue a fit of other rows with all rows of this problem."""
        state = fitted.ended.state
        if state.n_clusters == 1:
            return self.single(state.n_components)
        return self._run(state, fitted.floor)

    def single(self, n_components: int) -> Fitted:
        """Mixture of one cluster: PPCA, or factor analysis."""
        source = self.table.source
        if self.settings.noise == "shared":
            found = fit_ppca(source, n_components, replace(self.settings, n_init=1), self.rng)
        else:
            found = fit_factor_analysis(source, n_components, replace(self.settings, n_init=1), self.rng)
        least = float(noise_floor(self.summary, NOISE_FLOOR))
        floor = np.full(found.model.noise_variance.shape, least)
        if self.settings.noise == "per_feature":
            floor *= self.settings.factor.floor / NOISE_FLOOR
        return Fitted(Iterated(Mixture(np.ones(1), (found.model,)), found.status, found.trace), floor)

    def _run(self, start: Mixture, floor: Array) -> Fitted:
        settings = self.settings
        monitor = Monitor(settings.tol, settings.max_iter, settings.watch)
        return Fitted(fit_accelerated(self._em(floor, start.n_components), self.rows, start, monitor), floor)

    def _em(self, floor: Array, n_components: int) -> MixtureEM:
        return MixtureEM(floor, n_components + self.settings.mixture.spare_rows)

    def _start_block(self, count: int) -> Any:
        """A sample of the rows in memory, spread over the table; all if there are few."""
        return joined(self.table.source.spread(count))

    def _starting_rows(self, block: Any, n_clusters: int, n_components: int) -> StartingRows:
        how, d = self.settings.mixture, block.n_features
        quick = Settings(tol=how.start_tol, max_iter=how.start_steps)
        rows = Source.of_block(block)
        most = max(min(d - 1, how.start_components, int(self.summary.total_weight) - 2), n_components)
        wide = fit_ppca(rows, min(n_components + n_clusters - 1, most), quick, self.rng).model
        base = fit_ppca(rows, n_components, quick, self.rng).model
        least = max(how.floor * float(wide.noise_variance), noise_floor(self.summary, NOISE_FLOOR))
        floor = np.full(() if self.settings.noise == "shared" else (d,), least)
        return StartingRows(block, wide, base, floor, how)

    def degenerate(self, mixture: Mixture, floor: Array, weights: Array) -> Any:
        """Whether each cluster has no noise left, or too few rows to be learned: (K,)."""
        return degenerate_clusters(mixture, floor, weights, column_std(self.summary) > 0, self.settings.mixture)

    def score(self, fitted: Fitted) -> Score:
        """Criteria of a fit."""
        mixture, floor = fitted.ended.state, fitted.floor
        sums: MixtureSums = self.rows.fold(partial(expect_mixture, mixture))
        d, K = self.n_varying, mixture.n_clusters
        noise = 1 if self.settings.noise == "shared" else d
        d = d if noise > 1 else mixture.n_features
        q = min(mixture.n_components, max(d - 1, 1))
        p = K * (n_free_parameters(d, q, noise) + 1) - 1
        value = fitted.ended.trace[-1]
        bic = value - p * self.penalty
        degenerate = bool(self.degenerate(mixture, floor, sums.cluster_weights).any())
        return Score(K, mixture.n_components, value, p, bic, bic - sums.entropy, degenerate)

    def result(self, fitted: Fitted, rule: str, criteria: MixtureCriteria) -> MixtureResult:
        """Result of a fit, with latent axes as those of PPCA or factor analysis, and clusters in order of weight."""
        ended = fitted.ended
        model = ended.state.ordered(np.argsort(-ended.state.weights, kind="stable"))
        rotations = [cluster.canonical_rotation for cluster in model.clusters]
        model = model.rotate(rotations)
        sums: MixtureSums = self.rows.fold(partial(expect_mixture, model))
        degenerate = self.degenerate(model, fitted.floor, sums.cluster_weights)
        summary, status = self.summary, ended.status
        if status is Status.MAX_ITER:
            status = Status.MIXTURE_MAX_ITER
        if degenerate.any() and model.n_clusters > 1:
            status = Status.DEGENERATE_CLUSTERS
        return MixtureResult(
            model,
            status,
            ended.trace[-1],
            ended.trace,
            len(ended.trace) - 1,
            summary.total_weight,
            float(summary.observed.sum()),
            rule,
            criteria,
            np.stack([cluster.gram for cluster in sums.clusters]),
            np.flatnonzero(summary.observed == 0),
            degenerate,
            column_std(summary),
            floor=fitted.floor,
        )


def degenerate_clusters(mixture: Mixture, floor: Array, weights: Array, varying: Any, how: MixtureSettings) -> Any:
    """Whether each cluster has no noise left, or too few rows to be learned: (K,).

    With a noise variance per feature, up to q features that are ``varying`` in the table may be at the floor: they are
    explained by the components.
    """
    low = np.array([cluster.noise_variance <= how.at_floor * floor for cluster in mixture.clusters])
    if low.ndim == 2:
        low = (low & varying).sum(axis=1) > mixture.n_components
    return low | (weights < mixture.n_components + how.spare_rows)


def search(problem: MixtureProblem, wanted: Wanted) -> tuple[Fitted, list[Score]]:
    """Fit mixtures of increasing sizes until the criterion has fallen a few times; return the best and all scores.

    For each number of clusters the number of components grows until the criterion has fallen a few times, and so does
    then the number of clusters. Fits that are only compared end early.
    """
    if wanted.given:
        found = problem.fit(int(wanted.n_clusters or 1), int(wanted.n_components or 1))
        return found, [problem.score(found)]
    rule, patience, scores, fits = wanted.criterion, problem.settings.mixture.patience, [], []
    fell, best, rough = 0, -np.inf, problem.rough()
    for K in _cluster_counts(problem, wanted):
        here, falls = -np.inf, 0
        for q in _component_counts(problem, wanted, K):
            fits.append(rough.fit(K, q))
            scores.append(problem.score(fits[-1]))
            value = -np.inf if scores[-1].degenerate else getattr(scores[-1], rule)
            falls = 0 if value > here else falls + 1
            here = max(here, value)
            if falls == patience:
                break
        fell = 0 if here > best else fell + 1
        best = max(best, here)
        if fell == patience:
            break
    chosen = MixtureCriteria.of(scores).best(rule)
    found = problem.continued(fits[chosen])
    scores[chosen] = problem.score(found)
    return found, scores


def _value(ended: Iterated[Mixture]) -> float:
    return ended.trace[-1]


def _cluster_counts(problem: MixtureProblem, wanted: Wanted) -> Iterator[int]:
    if wanted.n_clusters is not None:
        yield wanted.n_clusters
        return
    q = wanted.n_components or 1
    most = max(int(problem.summary.total_weight / (2 * (q + 2))), 1)
    yield from range(1, min(problem.settings.mixture.most_clusters, most) + 1)


def _component_counts(problem: MixtureProblem, wanted: Wanted, n_clusters: int) -> Iterator[int]:
    if wanted.n_components is not None:
        yield wanted.n_components
        return
    rows = problem.summary.total_weight / (2 * n_clusters) - 2
    most = max(min(problem.most_components, rows), 1)
    yield from (q for q in problem.settings.mixture.components if q <= most)
