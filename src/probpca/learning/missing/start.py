"""Starting values, and the number of components, of a fit to rows with missing cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.cached_property import cached_property
from probpca.inference.projection import explained_variance_ratio
from probpca.learning.components import EXACT_RANK, Count, Rule, Share
from probpca.learning.describe import column_std
from probpca.learning.selection.criteria import Curve, is_low_rank, n_free_parameters
from probpca.linalg.block_krylov import block_krylov
from probpca.models import LinearGaussian
from probpca.statistics import Sum

if TYPE_CHECKING:
    from probpca.blocks import Observed
    from probpca.learning.components import Components
    from probpca.learning.loop import Iterated
    from probpca.learning.missing.fit import Problem
    from probpca.sources import Source
    from probpca.statistics import ColumnSummary
    from probpca.typing import Array, Floats


@final
@dataclass(frozen=True, slots=True)
class StartSettings:
    """Options of the eigenpairs that a fit starts from."""

    exact: int = 256  # up to this many features, all eigenpairs are computed, whatever their number
    rows_per_feature: float = 10.0  # observed cells of a feature, per feature, that make a covariance worth knowing
    oversampling: int = 4  # vectors of an iteration beyond the wanted ones
    max_products: int = 6  # passes over the rows


START = StartSettings()


class Start(NamedTuple):
    """Approximate principal axes and variances, as starting values."""

    summary: ColumnSummary
    axes: Array  # orthonormal axes of the columns times the square root of ``share``: (d, k)
    values: Array  # variances along the axes: (k,)
    share: Array  # share of the rows in which each feature was observed: (d,)

    def model(self, q: int, enough: int = 2, least_noise: float = 0.03) -> LinearGaussian:
        """Starting model with q components.

        The loadings of a feature start from the axes if it has at least ``enough`` observed cells per parameter. The
        noise variance is at least ``least_noise`` times the mean variance; it is better too small than too large,
        because a start with too much noise hides weak components.
        """
        d = self.share.size
        kept = self.values[:q]
        energy = float(self.share @ self.summary.variance)
        rest = energy - float(np.maximum(kept, 0.0).sum())  # variance of the other d - q axes
        noise = max(rest / max(d - q, 1), least_noise * energy / d) * d / self.share.sum()
        size = np.sqrt(np.maximum(kept - noise * self.share.mean(), 0.1 * noise * self.share.mean()))
        known = self.summary.observed >= min(enough * (q + 1), self.summary.observed.max() / 2)
        loadings = self.axes[:, :q] * size * np.where(known, 1 / np.sqrt(np.maximum(self.share, 1e-300)), 0.0)[:, None]
        return LinearGaussian(self.summary.mean, loadings, np.asarray(noise))

    def grown(self, model: LinearGaussian, least: float = 0.1) -> LinearGaussian:
        r"""Add a component to a fitted model: the direction in which the rows vary most beyond the model.

        It is the leading eigenvector of :math:`\Psi^{-1/2} (S - W W^\top) \Psi^{-1/2}`, with S the covariance
        estimated by these axes. Its variance is at least ``least`` in units of the noise.
        """
        share, q = self.share, model.n_components
        unit = np.sqrt(np.broadcast_to(model.noise_variance, share.shape) * np.maximum(share.mean(), 1e-300))
        parts = np.column_stack(
            [self.axes * np.sqrt(np.maximum(self.values, 0.0)), model.loadings * np.sqrt(share)[:, None]]
        )
        signs = np.repeat([1.0, -1.0], [parts.shape[1] - q, q])
        basis, triangle = np.linalg.qr(parts / unit[:, None])
        values, vectors = np.linalg.eigh((triangle * signs) @ triangle.T)
        fresh = basis @ vectors[:, -1] * np.sqrt(max(values[-1] - 1, least)) * unit
        fresh = np.divide(fresh, np.sqrt(share), out=np.zeros_like(fresh), where=share > 0)
        return LinearGaussian(model.mean, np.column_stack([model.loadings, fresh]), model.noise_variance)


@final
@dataclass(frozen=True, eq=False)
class ScaledCovariance:
    r"""Covariance estimated from the observed cells, with little weight for features that were rarely observed.

    With :math:`\rho_j` the share of rows in which feature j was observed and :math:`S_0` the covariance of
    zero-filled rows, :math:`[S_0]_{jk}` is about :math:`\rho_j \rho_k C_{jk}` off the diagonal and
    :math:`\rho_j C_{jj}` on it. Scaled by :math:`(\rho_j \rho_k)^{-1/2}` and with a corrected diagonal, it estimates
    a matrix with the same leading subspace as C in which rarely observed features have little weight.
    """

    rows: Source  # prepared
    summary: ColumnSummary

    @cached_property
    def share(self) -> Array:
        """Share of the rows in which each feature was observed: (d,)."""
        return self.summary.observed / self.summary.total_weight

    @cached_property
    def matrix(self) -> Array:
        """The matrix itself, from one pass over the rows: (d, d)."""
        return self.product(np.eye(self.rows.n_features))

    @property
    def relative(self) -> Array | None:
        """The matrix divided by the largest share; None if it is large, inaccurate, or costs a pass over a file."""
        d, most = self.rows.n_features, float(self.share.max())
        cells = self.summary.count * float(self.share.mean())
        if d > START.exact or cells < START.rows_per_feature * d or not self.rows.in_memory:
            return None
        return self.matrix / most

    def product(self, vectors: Floats) -> Array:
        """Product of the matrix with vectors (d, k), by one pass over the rows."""
        share = self.share
        root = np.sqrt(share)
        scale = np.divide(1.0, root, out=np.zeros(root.size), where=root > 0)
        excess = self.summary.variance * (1 - share) * (share > 0)
        scaled = np.ascontiguousarray((scale[:, None] * vectors).T, np.float64)
        image = self.rows.fold(partial(_zero_filled_product, scaled)).value.T / self.summary.total_weight
        return scale[:, None] * image - excess[:, None] * vectors


def spectral_start(covariance: ScaledCovariance, k: int, rng: np.random.Generator) -> Start:
    """Leading eigenpairs of the covariance estimated from the observed cells, by products with blocks of vectors.

    Up to a few hundred features, all eigenpairs are computed, and the start does not depend on chance.
    """
    summary, share, d = covariance.summary, covariance.share, covariance.rows.n_features
    if d <= max(START.exact, k + START.oversampling):
        values, vectors = np.linalg.eigh(covariance.matrix)
        return Start(summary, vectors[:, ::-1], values[::-1], share)
    start = rng.standard_normal((d, k + START.oversampling))
    total = float(summary.variance.sum())
    # Eigenvalues may be negative here, which the Krylov method allows.
    found = block_krylov(covariance.product, start, k, _is_fair, scale=total, max_products=START.max_products)
    return Start(summary, found.vectors.astype(np.float64), found.values, share)


def _is_fair(values: Array, residuals: Array) -> bool:
    return bool((residuals[:-1] < 1e-2 * values[0]).all())


def _zero_filled_product(table: Array, block: Observed) -> Sum:
    """Sum over rows of w (V'y) y', with y zero in missing cells: (k, d)."""
    total = np.zeros(table.shape)
    for group in block.groups:
        cells = group.cells.ready()
        cells.values.add_sums(cells.values.products(table) * group.weight, total)
    return Sum(total)


class Fitted(NamedTuple):
    """Result of a fit, with how its number of components was chosen."""

    ended: Iterated[LinearGaussian]
    rule: str
    notes: tuple[str, ...] = ()
    curve: Curve = Curve(np.empty(0, np.intp), np.empty(0))


def search(problem: Problem, wanted: Components) -> Fitted:
    """Fit with the given number of components, or with the number that a criterion prefers."""
    limits = problem.settings.search
    most = problem.most_components
    match wanted:
        case Count(q, rule, notes):
            return Fitted(problem.best(first_model(problem, q)), rule, notes)
        case Share():
            return _by_share(problem, wanted, most)
    criterion = wanted if isinstance(wanted, Rule) else Rule("bic")
    # The penalty of AIC is so small that the maxima of a number of components differ by more than the scores do.
    return by_criteria(problem, min(most, limits.missing), criterion, rough=criterion.name != "aic")[0]


def first_model(problem: Problem, q: int) -> LinearGaussian:
    """Starting model with q components; the likelier of two if each feature has its own noise variance."""
    start = spectral_start(problem.covariance, q, problem.rng).model(q)
    return problem.likelier(start, problem.pairwise_fit())


def by_criteria(problem: Problem, most: int, *rules: Rule, rough: bool = False) -> list[Fitted]:
    """Choose the number of components by BIC, by AIC, or by each of them from the same fits.

    If the fits are ``rough``, the choice is the same as far as the tolerance of the search allows, but not every score
    is that of a maximum.
    """
    path = Path.of(problem, most, min(map(partial(_penalty, problem), rules)) if rough else 0.0)
    return [_by_criterion(path, rule) for rule in rules]


def _by_criterion(path: Path, rule: Rule) -> Fitted:
    """Choose among fits of increasing numbers of components, as soon as BIC or AIC has fallen a few times.

    Where the criterion falls, the fit might have ended at a saddle point, and is checked. Fits that could still be the
    best are finished. A fit of PPCA without remaining noise gives the rank of the table, if it has clearly fewer
    parameters than cells. In factor analysis, a floor of each noise variance bounds the likelihood, and constant
    columns have no parameters.
    """
    problem, penalty = path.problem, _penalty(path.problem, rule)
    d, own_noise = _varying(problem).size, problem.floor.ndim > 0
    scores: list[float] = []

    def score(ended: Iterated[LinearGaussian]) -> float:
        parameters = n_free_parameters(d, ended.state.n_components, d if own_noise else 1)
        return ended.trace[-1] - penalty * parameters

    for q in range(1, path.most + 1):
        ended = path.fit(q)
        if scores and score(ended) < max(scores):
            ended = path.checked(q)
        collapsed = not own_noise and problem.is_collapsed(ended.state)
        if collapsed and tells_rank(problem, q):
            return Fitted(path.finished(q), EXACT_RANK, curve=_numbered(scores))
        if collapsed and scores:
            break
        scores.append(score(ended))
        if collapsed or q - 1 - int(np.argmax(scores)) == problem.settings.search.patience:
            break
    done: set[int] = set()
    while True:
        possible = [value + (0.0 if k in done else path.tol) for k, value in enumerate(scores)]
        # Models of so many parameters that they describe any covariance have equal scores: take the smallest.
        best = int(np.flatnonzero(np.array(possible) >= max(possible) - problem.settings.tol)[0])
        if best in done:
            return Fitted(path.finished(best + 1), rule.words, curve=_numbered(scores))
        scores[best] = score(path.finished(best + 1))
        done.add(best)


def _varying(problem: Problem) -> Array:
    """Weights of the observed cells of the features that have parameters: (d,)."""
    observed = problem.summary.observed
    return observed[column_std(problem.summary) > 0] if problem.floor.ndim else observed


def _penalty(problem: Problem, rule: Rule) -> float:
    """Penalty of BIC or AIC for each parameter, in nats. A row with half of its cells observed counts as half a row."""
    return 1.0 if rule.name == "aic" else 0.5 * float(np.log(max(_varying(problem).mean(), 2.0)))


def _numbered(scores: list[float]) -> Curve:
    return Curve(np.arange(1, len(scores) + 1), np.array(scores))


def tells_rank(problem: Problem, q: int, least_free: float = 0.1) -> bool:
    """Whether a fit of q components that leaves no noise shows that the table has rank q.

    It does if q is low, and if the cells outnumber the parameters and latent variables by at least the share
    ``least_free`` of the cells.
    """
    summary = problem.summary
    varying, cells = int((column_std(summary) > 0).sum()), float(summary.observed.sum())
    taken = q * summary.total_weight + (q + 1) * (varying - q)
    return is_low_rank(q, varying, summary.total_weight) and cells - taken >= least_free * cells


def _by_share(problem: Problem, wanted: Share, most: int) -> Fitted:
    """Fit increasing numbers of components until they explain the requested share of the variance."""
    path, q = Path.of(problem, most), 1
    while True:
        ended = path.finished(q)
        held = float(explained_variance_ratio(ended.state).sum())
        if held >= wanted.share or q == most:
            return Fitted(ended, wanted.rule(held, f"these rows allow at most {most} components"))
        q += 1


@final
class Path:
    """Fits with 1, 2, ... components, each started from the one before.

    Rough fits, to be compared, end when their remaining gain is small compared with the penalty of a component.
    """

    def __init__(self, problem: Problem, most: int, tol: float, spectral: Start) -> None:
        """Set the axes that further components start from."""
        self.problem, self.most, self.tol = problem, most, max(tol, problem.settings.tol)
        self._rough = problem.within(self.tol)
        self._spectral = spectral
        self._pairwise = problem.pairwise_fit()
        self._fits: list[Iterated[LinearGaussian]] = []
        self._checked: set[int] = set()
        self._finished: dict[int, Iterated[LinearGaussian]] = {}

    @classmethod
    def of(cls, problem: Problem, most: int, penalty: float = 0.0) -> Path:
        """Fits of up to ``most`` components, to be compared by a criterion with a penalty for each parameter."""
        limits, d = problem.settings.search, problem.rows.n_features
        spectral = spectral_start(problem.covariance, min(most, limits.missing), problem.rng)
        return cls(problem, most, limits.tolerance * penalty * d, spectral)

    def fit(self, q: int) -> Iterated[LinearGaussian]:
        """Fit of q components, at most one more than before, which may have ended at a saddle point if it is rough."""
        if q > len(self._fits):
            start, rough = self._start(q), self.tol > self.problem.settings.tol
            self._fits.append(self._rough.solve(start) if rough else self.finished(q, start))
        return self._fits[q - 1]

    def checked(self, q: int) -> Iterated[LinearGaussian]:
        """Rough fit of q components that is not at a saddle point."""
        if q not in self._checked and q not in self._finished:
            self._checked.add(q)
            self._fits[q - 1] = self._rough.run(self.fit(q).state)
        return self._fits[q - 1]

    def finished(self, q: int, start: LinearGaussian | None = None) -> Iterated[LinearGaussian]:
        """Fit of q components to the end, from ``start`` or where a rough fit ended."""
        if q not in self._finished:
            self._finished[q] = self.problem.best(self.fit(q).state if start is None else start)
        return self._finished[q]

    def _start(self, q: int) -> LinearGaussian:
        """Starting model with one component more than the last fit."""
        problem = self.problem
        if q > self._spectral.values.size:
            self._spectral = spectral_start(problem.covariance, min(2 * q, self.most), problem.rng)
        model = self._spectral.grown(self._fits[-1].state) if self._fits else self._spectral.model(1)
        return problem.likelier(model, self._pairwise)
