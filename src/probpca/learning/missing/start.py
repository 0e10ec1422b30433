"""Starting values, and the number of components, of a fit to rows with missing cells."""

from __future__ import annotations

from functools import partial
from itertools import tee
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.inference.projection import explained_variance_ratio
from probpca.learning.components import EXACT_RANK, Count, Rule, Share
from probpca.learning.describe import column_std
from probpca.learning.selection.criteria import Curve, is_low_rank, n_free_parameters
from probpca.linalg.block_krylov import block_krylov
from probpca.models import LinearGaussian
from probpca.statistics import Sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from probpca.blocks import Observed
    from probpca.learning.components import Components
    from probpca.learning.loop import Iterated
    from probpca.learning.missing.fit import Problem
    from probpca.sources import Source
    from probpca.statistics import ColumnSummary
    from probpca.typing import Array, Floats


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

    def grown(self, model: LinearGaussian) -> LinearGaussian:
        """Add a component to a fitted model: the next axis, made orthogonal to the loadings of the model."""
        fresh = self.model(model.n_components + 1).loadings[:, -1]
        basis = np.linalg.qr(model.loadings)[0]
        fresh = fresh - basis @ (basis.T @ fresh)
        return LinearGaussian(model.mean, np.column_stack([model.loadings, fresh]), model.noise_variance)


def spectral_start(
    rows: Source,
    summary: ColumnSummary,
    k: int,
    rng: np.random.Generator,
    *,
    max_products: int = 6,
    oversampling: int = 4,
) -> Start:
    r"""Leading eigenpairs of the covariance estimated from the observed cells, by products with blocks of vectors.

    With :math:`\rho_j` the share of rows in which feature j was observed and :math:`S_0` the covariance of
    zero-filled rows, :math:`[S_0]_{jk}` is about :math:`\rho_j \rho_k C_{jk}` off the diagonal and
    :math:`\rho_j C_{jj}` on it. Scaled by :math:`(\rho_j \rho_k)^{-1/2}` and with a corrected diagonal, it estimates
    a matrix with the same leading subspace as C in which rarely observed features have little weight.
    """
    d = rows.n_features
    share = summary.observed / summary.total_weight
    root = np.sqrt(share)
    scale = np.divide(1.0, root, out=np.zeros(d), where=root > 0)
    excess = summary.variance * (1 - share) * (share > 0)

    def apply(vectors: Floats) -> Array:
        scaled = np.ascontiguousarray((scale[:, None] * vectors).T, np.float64)
        image = rows.fold(partial(_zero_filled_product, scaled)).value.T / summary.total_weight
        return scale[:, None] * image - excess[:, None] * vectors

    if k + oversampling >= d:  # a product with the identity gives the matrix itself
        values, vectors = np.linalg.eigh(apply(np.eye(d)))
        return Start(summary, vectors[:, ::-1], values[::-1], share)
    start = rng.standard_normal((d, k + oversampling))
    total = float(summary.variance.sum())
    # Eigenvalues may be negative here, which the Krylov method allows.
    found = block_krylov(apply, start, k, _is_fair, scale=total, max_products=max_products)
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
    return by_criteria(problem, min(most, limits.missing), criterion)[0]


def first_model(problem: Problem, q: int) -> LinearGaussian:
    """Starting model with q components; the likelier of two if each feature has its own noise variance."""
    start = spectral_start(problem.rows, problem.summary, q, problem.rng).model(q)
    return problem.likelier(start, problem.pairwise_fit())


def by_criteria(problem: Problem, most: int, *rules: Rule) -> list[Fitted]:
    """Choose the number of components by BIC, by AIC, or by each of them from the same fits."""
    paths = tee(_path(problem, most), len(rules))
    return [_by_criterion(problem, rule, path) for rule, path in zip(rules, paths, strict=True)]


def _by_criterion(problem: Problem, rule: Rule, path: Iterable[Iterated[LinearGaussian]]) -> Fitted:
    """Choose among fits of increasing numbers of components, as soon as BIC or AIC has fallen a few times.

    A fit of PPCA without remaining noise gives the rank of the table, if it has clearly fewer parameters than cells.
    In factor analysis, a floor of each noise variance bounds the likelihood, and constant columns have no parameters.
    """
    observed, own_noise = problem.summary.observed, problem.floor.ndim > 0
    if own_noise:
        observed = observed[column_std(problem.summary) > 0]
    d = observed.size
    # A row with half of its cells observed counts as half a row.
    penalty = 1.0 if rule.name == "aic" else 0.5 * np.log(max(observed.sum() / d, 2.0))
    n_noise = d if own_noise else 1
    best: Iterated[LinearGaussian] | None = None
    scores: list[float] = []
    for ended in path:
        q = ended.state.n_components
        collapsed = not own_noise and problem.is_collapsed(ended.state)
        if collapsed and tells_rank(problem, q):
            return Fitted(ended, EXACT_RANK, curve=_numbered(scores))
        if collapsed and best is not None:
            break
        scores.append(ended.trace[-1] - penalty * n_free_parameters(d, q, n_noise))
        if best is None or scores[-1] > max(scores[:-1]):
            best = ended
        if collapsed or q - best.state.n_components == problem.settings.search.patience:
            break
    return Fitted(best, rule.words, curve=_numbered(scores))  # type: ignore[arg-type]


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
    for ended in _path(problem, most):
        held = float(explained_variance_ratio(ended.state).sum())
        if held >= wanted.share:
            break
    return Fitted(ended, wanted.rule(held, f"these rows allow at most {most} components"))


def _path(problem: Problem, most: int) -> Iterator[Iterated[LinearGaussian]]:
    """Yield fits with 1, 2, ... components, each started from the last."""
    pairwise = problem.pairwise_fit()
    start = spectral_start(problem.rows, problem.summary, min(most, problem.settings.search.missing), problem.rng)
    ended = problem.best(problem.likelier(start.model(1), pairwise))
    yield ended
    for q in range(2, most + 1):
        if q > start.values.size:
            start = spectral_start(problem.rows, problem.summary, min(2 * q, most), problem.rng)
        ended = problem.best(problem.likelier(start.grown(ended.state), pairwise))
        yield ended
