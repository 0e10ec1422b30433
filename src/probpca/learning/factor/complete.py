"""Maximum-likelihood factor analysis of complete rows, from sums of one pass over them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, tee
from math import isqrt
from typing import TYPE_CHECKING, Literal, NamedTuple, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from probpca.errors import ShapeError
from probpca.inference.likelihood import LOG_2PI
from probpca.learning.complete.dense import Gram
from probpca.learning.components import Count, Rule, Share, not_of_factors
from probpca.learning.describe import NothingToLearnError, Pass, column_std, require_variation
from probpca.learning.factor.fixed_point import fixed_point
from probpca.learning.factor.newton import newton
from probpca.learning.factor.profile import CorrelationMatrix, FewRows, ManyColumns, Profile
from probpca.learning.result import FitResult, Status
from probpca.learning.selection.correlations import count_by_parallel
from probpca.learning.selection.criteria import Curve, n_free_parameters
from probpca.learning.selection.parallel_analysis import Correlations
from probpca.models import LinearGaussian
from probpca.result_tables import several
from probpca.sources import open_source
from probpca.sources.engines.local import one_blas_thread
from probpca.statistics import ColumnSummary, Moments, Root, Stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from probpca.learning.components import Components
    from probpca.learning.describe import Description
    from probpca.learning.factor.profile import CorrelationOperator, Point
    from probpca.learning.loop import Iterated
    from probpca.learning.settings import FactorSettings, Settings
    from probpca.sources import Source
    from probpca.typing import Array, Index


def fit_complete(table: Description, wanted: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    r"""Fit factor analysis to complete rows by maximum likelihood.

    .. math:: x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \Psi)

    with a noise variance for each feature, :math:`\Psi = \operatorname{diag}(\psi_1, \dots, \psi_d)`. The columns are
    standardised, which changes nothing but units. Latent axes are those of ``LinearGaussian.canonical``. Noise
    variances are at least ``settings.factor.floor`` times the variance of their feature; features at this floor are
    listed in ``heywood``. A constant feature has no loadings, and the noise variance of a feature of unit variance at
    the floor.

    Raises ``ShapeError`` for more than n - 2 factors, and for rules that do not choose factors. More factors than the
    Ledermann bound allows are fitted, with a note.
    """
    return _fit(_Columns.of_table(table, settings), wanted, settings, rng)


def fit_moments(moments: Moments, wanted: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Fit factor analysis to complete rows from their moments, as ``fit_complete`` does.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from probpca.blocks import as_block
    >>> from probpca.learning import Settings
    >>> from probpca.learning.components import Count
    >>> from probpca.learning.factor.complete import fit_moments
    >>> from probpca.statistics import Moments
    >>> moments = Moments.of(as_block(load_wine().data))
    >>> result = fit_moments(moments, Count(3), Settings(), np.random.default_rng(0))
    >>> round(result.log_likelihood, 2), result.status.name
    (-3414.14, 'CONVERGED')
    """
    require_variation(moments)
    return _fit(_Columns.of_moments(moments, settings), wanted, settings, rng)


def first_pass(settings: Settings, source: Source) -> Pass:
    """First pass over the rows, with the sums that the form of their correlations needs.

    Sums are computed in float64, also for float32 rows: small noise variances need more digits than float32 has.
    """
    match _form_of(source, settings):
        case "matrix":
            return Pass(Moments.of)
        case "gram":
            return Pass(Stack.of, partial(Gram.of_stack, dtype=np.float64, n_jobs=source.n_jobs))
    return Pass(ColumnSummary.of) if source.repeatable else Pass(Root.of)


def _form_of(source: Source, settings: Settings) -> Literal["matrix", "gram", "products"]:
    """Cheapest form of the correlations: a matrix, the Gram matrix of few rows, or products with the rows."""
    n, d, how = source.n_rows, source.n_features, settings.factor
    wide = n is not None and n < d
    if d <= (how.newton_features_few_rows if wide else how.matrix_features):
        return "matrix"
    return "gram" if n is not None and n < min(d, how.gram_rows) else "products"


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Complete rows in units of the standard deviations of their columns: all that the likelihood depends on."""

    weight: float  # total weight n of the rows
    count: int  # number of rows with positive weight
    mean: Array  # (d,)
    variance: Array  # (d,)
    std: Array  # 0 if the column is constant: (d,)
    correlations: CorrelationOperator  # of the columns that are not constant
    moments: Moments | None = None  # of the rows, if they are known and there are few columns

    @classmethod
    def of_table(cls, table: Description, settings: Settings) -> _Columns:
        """Columns of a described table, from the sums of its first pass if they suffice."""
        sums, source = table.sums, table.source
        if isinstance(sums, ColumnSummary) and _form_of(source, settings) != "products":
            first = first_pass(settings, source)
            sums = first.finish(source.fold(first.summarise))
        if isinstance(sums, Moments):
            return cls.of_moments(sums, settings)
        std = _std(sums)
        if isinstance(sums, Gram):
            few: CorrelationOperator = FewRows(sums.stack, sums.mean, std, settings.dense, source.n_jobs)
            return cls(sums.weight, sums.count, sums.mean, sums.variance, std, few)
        if isinstance(sums, Root):
            rows, weight = sums.as_rows()
            source = open_source(rows, weight=weight, n_jobs=source.n_jobs)
        many = ManyColumns(source, table.total_weight, sums.mean, std, settings.krylov)
        return cls(table.total_weight, sums.count, sums.mean, sums.variance, std, many)

    @classmethod
    def of_moments(cls, moments: Moments, settings: Settings) -> _Columns:
        """Columns with the correlation matrix of given moments."""
        std = _std(moments)
        varies = np.flatnonzero(std)
        scatter = moments.scatter if varies.size == std.size else moments.scatter[np.ix_(varies, varies)]
        matrix = scatter / std[varies]
        matrix /= std[varies, None]
        matrix /= moments.weight
        np.fill_diagonal(matrix, 1.0)
        form = CorrelationMatrix(matrix, settings.dense)
        kept = moments if std.size <= settings.factor.compared_features else None
        return cls(moments.weight, moments.count, moments.mean, moments.variance, std, form, kept)

    def log_likelihood_of_units(self, floor: float) -> float:
        """Log-likelihood of the rows where F = 0: the part of units and of constant features."""
        constant = self.std == 0
        log_std = float(np.log(self.std[~constant]).sum())
        squares = float(np.maximum(self.variance[constant], 0.0).sum()) / floor
        at_floor = int(constant.sum()) * float(np.log(floor)) + squares
        return -0.5 * self.weight * (self.std.size * LOG_2PI + 2 * log_std + at_floor)

    def model(self, loadings: Array, noise: Array, floor: float) -> LinearGaussian:
        """Model in the units of the data, from that of the standardised columns."""
        varies = self.std > 0
        W, psi = np.zeros((varies.size, loadings.shape[1])), np.full(varies.size, floor)
        W[varies] = loadings * self.std[varies, None]
        psi[varies] = noise * np.square(self.std[varies])
        return LinearGaussian(self.mean, W, psi).canonical()


def _std(sums: Moments | Gram | Root | ColumnSummary) -> Array:
    std = column_std(sums)
    if not std.any():
        msg = "all rows are identical up to rounding: there is no variation to explain."
        raise NothingToLearnError(msg)
    return std


class _Chosen(NamedTuple):
    """Number of factors, how it was chosen, and a fit to start from."""

    q: int
    rule: str
    notes: tuple[str, ...] = ()
    near: Point | None = None


def _fit(columns: _Columns, wanted: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    problem = _Problem.of(columns, settings, rng)
    settings = problem.settings
    with problem.threads():
        chosen = _choose(problem, wanted)
        ended = problem.placed_at_floor(problem.profile(chosen.q), problem.best(chosen.q, chosen.near))
        heywood, status = _at_floor(problem, ended)
    point, trace = ended.state, ended.trace
    model = columns.model(point.loadings(chosen.q), np.exp(point.log_noise), settings.factor.floor)
    notes = (*chosen.notes, *about_ledermann(chosen.q, problem.d))
    result = FitResult(model, status, trace[-1], trace, len(trace) - 1, columns.weight, chosen.rule, notes=notes)
    heywood = np.flatnonzero(columns.std)[heywood]
    return result._replace(column_std=columns.std, heywood=heywood, moments=columns.moments)


def criteria_of_complete(
    table: Description, names: Sequence[str], settings: Settings, rng: np.random.Generator
) -> list[Curve]:
    """Values of "bic" or "aic" for increasing numbers of factors, as the rules of that name compute them."""
    columns = _Columns.of_table(table, settings)
    require_rows(columns.count, Rule(names[0]))
    problem = _Problem.of(columns, settings, rng)
    with problem.threads():
        return [found.curve for found in _searches(problem, *names)]


def _choose(problem: _Problem, wanted: Components) -> _Chosen:
    """Number of factors as given, by parallel analysis, or by a criterion of the likelihood."""
    require_rows(problem.columns.count, wanted)
    match wanted:
        case Count(q, rule, notes):
            return _Chosen(q, rule, notes)
        case Rule("parallel"):
            return _by_parallel(problem, wanted)
        case Rule("bic" | "aic"):
            (found,) = _searches(problem, wanted.name)
            return _Chosen(found.curve.best, wanted.words, near=found.points[found.curve.best])
        case Share(share):
            raise not_of_factors(share)
    raise not_of_factors(wanted.name if isinstance(wanted, Rule) else wanted)


def require_rows(n: int, wanted: Components) -> None:
    """Raise ``ShapeError`` if there are fewer than q + 2 rows."""
    q = wanted.q if isinstance(wanted, Count) else 1
    if q <= n - 2:
        return
    if n < 3:
        msg = f"at least 3 rows are needed for factor analysis; got n_samples={n}."
        raise ShapeError(msg)
    msg = (
        f"n_components must be at most n_samples - 2 = {n - 2} in factor analysis; got {q}.\n"
        "Hint: with more factors, some noise variances would be zero and the likelihood would have no maximum; "
        "use fewer factors, or more rows."
    )
    raise ShapeError(msg)


def _by_parallel(problem: _Problem, wanted: Rule) -> _Chosen:
    """Choice of parallel analysis, with a note if BIC would choose another number in a table of few columns."""
    columns, settings = problem.columns, problem.settings
    profile = problem.profile(1)
    # A hundredth of a nat per row is a thousandth of an eigenvalue near the noise.
    accuracy = max(0.01 * columns.weight, 1.0)
    correlations = Correlations(columns.weight, problem.d, lambda k: profile.leading(k, accuracy)[0])
    found = count_by_parallel(correlations, problem.most, settings.parallel)
    if problem.d > settings.factor.compared_features or not isinstance(columns.correlations, CorrelationMatrix):
        return _Chosen(found.n_components, wanted.words, found.notes)
    q, (other,) = found.n_components, _searches(problem, "bic")
    best, notes = other.curve.best, found.notes
    why = "counts minor factors, and those that a dominant one hides" if best > q else "leaves out weak factors"
    notes = notes if best == q else (f"BIC would choose {best}: it {why}.", *notes)
    return _Chosen(q, wanted.words, notes, other.points.get(q))


def ledermann_bound(d: int) -> int:
    r"""Largest number of factors whose loadings a covariance of d columns determines, :math:`(d-q)^2 \ge d+q`.

    Examples
    --------
    >>> from probpca.learning.factor.complete import ledermann_bound
    >>> ledermann_bound(6), ledermann_bound(13)
    (3, 8)
    """
    return (2 * d - isqrt(8 * d)) // 2  # (2d + 1 - sqrt(8d + 1)) / 2, rounded down


def most_factors(d: int, cells: float, how: FactorSettings) -> int:
    """Largest number of factors that a rule may choose for d varying columns, of so many observed cells on average.

    Loadings beyond the Ledermann bound are not determined. A rule that chooses for prediction may go beyond it, but
    asks for enough cells for each parameter.
    """
    if not how.cells_per_loading:
        return ledermann_bound(d)
    return max(int(min(d - 1, cells / how.cells_per_loading - 1)), 1)


def about_ledermann(q: int, d: int) -> tuple[str, ...]:
    """Note that q factors are too many for d columns; empty if they are not."""
    bound = ledermann_bound(d)
    if q <= bound:
        return ()
    allowed = f"The Ledermann bound allows {several(bound, 'factor')} for {several(d, 'varying column')}"
    return (f"{allowed}, fewer than {q}: the loadings are not determined.",)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """Standardised columns, and options of a fit."""

    columns: _Columns
    settings: Settings
    rng: np.random.Generator

    @classmethod
    def of(cls, columns: _Columns, settings: Settings, rng: np.random.Generator) -> _Problem:
        """Columns, with the floor of their noise variances."""
        if settings.factor.floor_cells:
            settings = replace(settings, factor=settings.factor.for_rows(columns.weight))
        return cls(columns, settings, rng)

    def threads(self) -> AbstractContextManager[None]:
        """Context that limits the threads of BLAS to those that are worth it.

        Only a large matrix is; beside passes over rows they would take cores from these.
        """
        form = self.columns.correlations
        large = isinstance(form, CorrelationMatrix) and form.n_features >= self.settings.dense.small
        return nullcontext() if large else one_blas_thread()

    @property
    def d(self) -> int:
        """Number of features that are not constant."""
        return self.columns.correlations.n_features

    @property
    def most(self) -> int:
        """Largest number of factors that a rule may choose."""
        most = most_factors(self.d, self.columns.weight, self.settings.factor)
        return max(min(self.settings.search.complete, most, self.columns.count - 2), 1)

    def profile(self, q: int) -> Profile:
        """Profile likelihood with q factors."""
        columns, how = self.columns, self.settings.factor
        offset, accuracy = columns.log_likelihood_of_units(how.floor), how.accuracy * self.settings.tol
        return Profile(columns.correlations, min(q, self.d), columns.weight, offset, accuracy)

    def best(self, q: int, near: Point | None = None) -> Iterated[Point]:
        """Best of the fits with q factors from several starts; that from ``near`` only if it is clearly better.

        A model that leaves out a strong factor may have several maxima, one for each choice of the factors that it
        keeps, and gets a second start where that costs little.
        """
        profile, n_starts = self.profile(q), self.settings.n_init
        starts = self._starts(profile)
        best = self.climb(profile, next(starts))
        if self.by_newton and best.state.next_value > self.settings.factor.left_out:
            n_starts = max(n_starts, 2)
        for start in islice(starts, n_starts - 1):
            best = max(best, self.climb(profile, start, best.state), key=_height)
        if near is None:
            return best
        other = self.climb(profile, np.exp(near.log_noise), best.state)
        return other if _height(other) > _height(best) + self.settings.tol else best

    def placed_at_floor(self, profile: Profile, ended: Iterated[Point]) -> Iterated[Point]:
        """Set noise variances that still fall towards their floor to the floor, if the likelihood does not fall."""
        point, how = ended.state, self.settings.factor
        lowest = np.log(how.floor)
        low = (point.log_noise > lowest) & (point.log_noise <= lowest + np.log(how.near_floor))
        falling = low & (point.gradient > 0)
        if not falling.any():
            return ended
        placed = profile.at(np.where(falling, lowest, point.log_noise), point)
        if placed.value > point.value:
            return ended
        return ended._replace(state=placed, trace=(*ended.trace, profile.log_likelihood(placed)))

    @property
    def by_newton(self) -> bool:
        """Whether the likelihood is maximised by Newton steps."""
        form = self.columns.correlations
        return isinstance(form, CorrelationMatrix) and form.n_features <= self.settings.factor.newton_features

    def climb(self, profile: Profile, start: Array, best: Point | None = None) -> Iterated[Point]:
        """Maximise the likelihood from some noise variances; in vain, perhaps, if ``best`` is known to be higher."""
        settings, form = self.settings, self.columns.correlations
        start = np.log(np.clip(start, settings.factor.floor, 1.0))
        if self.by_newton and isinstance(form, CorrelationMatrix):
            return newton(profile, form.matrix, start, settings, best)
        return fixed_point(profile, start, settings)

    def _starts(self, profile: Profile) -> Iterator[Array]:
        """Yield noise variances to start from: of squared multiple correlations, all of the variance, random ones."""
        yield np.maximum(self.first_start(profile), self.settings.factor.least_start)
        yield np.ones(self.d)
        while True:
            yield self.rng.uniform(0.05, 1.0, self.d)

    def first_start(self, profile: Profile) -> Array:
        """Noise variances from squared multiple correlations if there are enough rows, else what PPCA leaves."""
        form = self.columns.correlations
        if isinstance(form, CorrelationMatrix) and self.columns.weight > 1.2 * self.d + 1:
            found = _unique_variances(form.matrix, profile.q)
            if found is not None:
                return found
        return _left_by_ppca(profile)


def _height(ended: Iterated[Point]) -> float:
    return ended.trace[-1]


def _unique_variances(matrix: Array, q: int, ridge: float = 1e-8) -> Array | None:
    r"""Start of Joereskog (1967): :math:`(1 - q / 2d) / [R^{-1}]_{jj}`; None if R is not positive definite."""
    d = len(matrix)
    root, failed = dpotrf(matrix + np.diag(np.full(d, ridge)), lower=1)
    if failed:
        return None
    inverse, _ = dpotri(root, lower=1)
    return np.asarray((1 - 0.5 * q / d) / np.diagonal(inverse))


def _left_by_ppca(profile: Profile) -> Array:
    """Variances of the standardised columns outside the components of PPCA."""
    d, q = profile.correlations.n_features, profile.q
    values, axes = profile.leading(q, profile.accuracy)
    noise = max(d - float(values.sum()), 0.0) / max(d - q, 1)
    return np.asarray(1 - np.square(axes) @ np.maximum(values - noise, 0.0))


class _Search(NamedTuple):
    """Values of a criterion for several numbers of factors, and the fits."""

    curve: Curve
    points: dict[int, Point]


def _searches(problem: _Problem, *names: str) -> list[_Search]:
    """Search with BIC, with AIC, or with each of them among the same fits."""
    problem = replace(problem, settings=replace(problem.settings, watch=None))
    paths = tee(_path(problem), len(names))
    return [_search(problem, name, path) for name, path in zip(names, paths, strict=True)]


def _path(problem: _Problem) -> Iterator[Iterated[Point]]:
    """Yield fits with 1, 2, ... factors, each started from the previous one, up to the Ledermann bound."""
    noise: Array | None = None
    for q in range(1, problem.most + 1):
        profile = problem.profile(q)
        start = problem.first_start(profile) if noise is None else noise
        ended = problem.climb(profile, np.maximum(start, problem.settings.factor.least_start))
        noise = np.exp(ended.state.log_noise)
        yield ended


def _search(problem: _Problem, name: str, path: Iterable[Iterated[Point]]) -> _Search:
    r"""Compute BIC or AIC of the likelihood for 1, 2, ... factors.

    .. math:: \mathcal L - \tfrac12 p \log n \quad \text{or} \quad \mathcal L - p, \qquad p = dq - q(q-1)/2 + 2d

    The search ends after some successive numbers that are worse than the best.
    """
    d = problem.d
    penalty = 1.0 if name == "aic" else 0.5 * np.log(problem.columns.weight)
    scores: list[float] = []
    points: dict[int, Point] = {}
    for q, ended in enumerate(path, 1):
        points[q] = ended.state
        scores.append(ended.trace[-1] - penalty * n_free_parameters(d, q, d))
        if q - 1 - int(np.argmax(scores)) >= problem.settings.search.patience:
            break
    return _Search(Curve(np.arange(1, len(scores) + 1), np.array(scores)), points)


def _at_floor(problem: _Problem, ended: Iterated[Point]) -> tuple[Index, Status]:
    """Varying features whose noise variance is at its floor, and the status of the fit.

    If these features depend on each other up to a tiny floor, the likelihood without a floor has no maximum. So they do
    whenever there are more of them than factors.
    """
    how = problem.settings.factor
    floor = how.floor
    heywood = np.flatnonzero(ended.state.log_noise <= np.log(how.at_floor * floor))
    if (
        not how.floor_cells
        and heywood.size > 1
        and np.linalg.eigvalsh(problem.columns.correlations.among(heywood))[0] < floor
    ):
        return heywood, Status.DEPENDENT_COLUMNS
    return heywood, ended.status
