"""Options of fitting: solver, stopping rule, and tuning parameters of each algorithm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, final, get_args

import numpy as np

from probpca.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.learning.loop import Watch
    from probpca.typing import Array

NoiseKind: TypeAlias = Literal["shared", "per_feature"]
Regime: TypeAlias = Literal["covariance", "gram", "krylov", "svd"]
Iterative: TypeAlias = Literal["em", "px_em", "em_zero_noise", "gradient", "incremental", "incremental_zero_noise"]
ZERO_NOISE = ("em_zero_noise", "incremental_zero_noise")
SOLVERS = ("auto", "closed_form", *get_args(Regime), *get_args(Iterative))


@final
@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits of the search for the number of components."""

    complete: int = 50  # largest number of components for complete rows
    missing: int = 20  # largest number of components if cells are missing, where each number needs a fit
    patience: int = 2  # the search ends after this many successive numbers that are worse than the best
    # With missing cells, fits that are only compared end when their remaining gain is below this share of the penalty
    # of a component.
    tolerance: float = 0.02


@final
@dataclass(frozen=True, slots=True)
class FoldSettings:
    """Options of cross-validation with held-out cells."""

    count: int = 5  # number of folds
    # The prediction of held-out cells may get worse for a few numbers of components, and then much better.
    least: int = 10  # numbers of components that are always tried
    patience: int = 5  # the search ends after this many successive numbers without improvement
    # Smallest noise variance relative to the variance of the data: without it, a fit that explains all training
    # cells would give held-out cells a density of zero.
    least_noise: float = 1e-6
    tolerance: float = 0.005  # remaining gain in log-likelihood at which a fit stops, in nats per row
    max_iter: int = 200  # largest number of iterations of a fit
    # A fit that is only compared ends after so many EM steps, unless the last one gains more, in nats per cell.
    steps: int = 3
    gain: float = 0.02
    negligible: float = 0.002  # scores that differ by less count as equal, in nats per row


@final
@dataclass(frozen=True, slots=True)
class ParallelSettings:
    """Options of parallel analysis, which compares eigenvalues with those of simulated independent columns."""

    draws: tuple[int, int] = (100, 1000)  # smallest and largest number of simulated tables
    drawn_columns: int = 10_000  # total number of simulated columns, within these bounds
    quantile: float = 0.95  # quantile of the simulated eigenvalues that those of the table must exceed
    seed: int = 0  # seed of the simulation, fixed so that results depend on the size of the table alone
    first: int = 8  # eigenvalues compared at first; their number doubles while all of them exceed the quantile
    exact: int = 80  # up to this many columns, correlation matrices are simulated; beyond, white Wishart matrices
    corner: float = 8.0  # relative size of the corner of a tridiagonal matrix that has its leading eigenvalues
    rounding: float = 1e-9  # relative excess that counts as rounding error
    most_pairs: int = 2000  # up to this many columns, missing cells are taken into account pair by pair
    general_factor: float = 0.4  # share of the first eigenvalue above which one component may hide others

    def draws_of(self, d: int) -> int:
        """Number of tables with d columns to simulate; more for small tables, which are cheap."""
        return min(max(self.drawn_columns // d, self.draws[0]), self.draws[1])


@final
@dataclass(frozen=True, slots=True)
class SampleSize:
    """Size of the sample of rows that are not in memory; a fit to the sample starts the fit to all rows."""

    cells: int = 2**20  # number of cells of the sample
    rows: int = 1000  # smallest number of rows of the sample
    calibration: int = 2000  # rows sampled to calibrate p-values if the fit needs no sample; 0 for none

    def of(self, n_features: int) -> int:
        """Number of rows to sample from a table with ``n_features`` columns."""
        return max(self.cells // n_features, self.rows)


@final
@dataclass(frozen=True, slots=True)
class CalibrationRows:
    """Number of training rows used to calibrate p-values: enough for quantiles, in little time."""

    most: int = 2000  # largest number of rows
    cells: int = 2**17  # largest number of cells, unless ``fewest`` rows have more
    fewest: int = 300  # smallest number of rows
    small: int = 2**15  # up to this many cells, BLAS uses a single thread anyway
    large: int = 2**20  # above this many cells, the rows are divided among threads

    def of(self, n_rows: int, n_features: int) -> int:
        """Number of rows to use of a table with ``n_rows`` rows and ``n_features`` columns."""
        return min(n_rows, max(min(self.most, self.cells // n_features), self.fewest))


@final
@dataclass(frozen=True, slots=True)
class DenseSettings:
    """Sizes of matrices up to which direct eigensolvers are used."""

    tiny: int = 64  # up to this size, all eigenpairs are computed, which is faster than computing some
    small: int = 400  # below this size, matrices are decomposed directly, not by iteration
    block: int = 16  # largest number of vectors of an iteration on a dense matrix
    svd_side: int = 3000  # largest shorter side of a table whose singular values are computed as a last resort
    svd_cells: float = 2e8  # largest number of cells of such a table
    # Up to this many cells, products of float32 rows are computed in float64: they take little time, and the rounding
    # errors of a larger table cancel out.
    single_cells: int = 2**18


@final
@dataclass(frozen=True, slots=True)
class KrylovSettings:
    """Options of the block Krylov eigensolver, which multiplies the rows with blocks of vectors."""

    large: int = 2**18  # tables with more stored cells than this are first multiplied in float32
    oversampling: int = 4  # vectors of a block beyond the requested components
    sampled: int = 8  # rows or columns sampled per starting vector, whose leading directions save a product
    # A sparse product with several vectors costs as much as several products, so narrow blocks are better.
    sparse_block: int = 4
    # float32 rows need no copy: with this few vectors, most of the time is spent reading the rows.
    single_block: int = 8
    # Ratio of columns to rows above which the iteration uses vectors with one entry per row. Their products need
    # panels of columns, whose copy is cheap compared with converting float64 rows to float32, but not otherwise.
    wide: int = 2
    wide_single: int = 16


@final
@dataclass(frozen=True, slots=True)
class SaddleSettings:
    """Options of the test of whether a fit has ended at a saddle point of the likelihood."""

    products: int = 12  # number of products that estimate the largest growth of a deviation in one step
    rate: float = 1.01  # growth above which a direction leads away from a saddle point
    difference: float = 1e-3  # size of the differences that approximate derivatives, in units of the noise
    lengths: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)  # distances tried, in units of the noise
    # Growth is estimated from a sample of rows with this many observed cells, and at least so many per parameter.
    cells: int = 2**14
    cells_per_parameter: int = 20


@final
@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of learning from streams of batches."""

    scatter: int = 2000  # up to this many features, the scatter matrix is kept; beyond, a sketch of it
    spare_rows: int = 2  # rows needed in addition to one per component: for the mean and for the noise
    # Smallest effective number of rows that a half-life leaves: the first three rows then have a total weight above 2.
    effective_rows: float = 4.3

    def sketch_rows(self, q: int) -> int:
        """Number of rows of a sketch for q components."""
        return 4 * q + 56


@final
@dataclass(frozen=True, slots=True)
class OnlineSettings:
    """Options of online EM."""

    # Number of cells, and bounds of the number of rows, that are fitted as a table before the first step.
    first_cells: int = 2**20
    first_rows: tuple[int, int] = (200, 2000)
    # Rows of one step: the share 1 / ``chunks`` of those seen so far, so that steps become rarer as they matter less.
    chunk_rows: tuple[int, int] = (256, 8192)
    chunks: int = 16
    # The t-th step of ``unit`` rows has weight t^-power.
    unit: float = 100.0
    power: float = 0.6


@final
@dataclass(frozen=True, slots=True)
class FactorSettings:
    """Options of factor analysis."""

    floor: float = 1e-6  # smallest noise variance of a feature, as a share of its variance
    # Up to this many features, the likelihood is maximised by Newton steps, which factorise a matrix of this size;
    # beyond, by a fixed point. With fewer rows than features, the fixed point is faster from fewer features on.
    newton_features: int = 1500
    newton_features_few_rows: int = 500
    second_order: int = 200  # up to this many features, the Hessian includes a term that needs a product of matrices
    matrix_features: int = 3000  # up to this many features, the correlation matrix of no fewer rows is computed
    gram_rows: int = 250  # below this many rows, the Gram matrix of more features is decomposed in every step
    pairwise_features: int = 100  # up to this many features, a fit to pairwise correlations can start that to the cells
    farthest: float = 2.0  # largest change of a log noise variance in one step
    damping: float = 1e-3  # of the first Newton step, relative to the diagonal of the Hessian
    swap: float = 0.5  # largest change of a log noise variance in a step that swaps the last factor and the next one
    stuck: float = 20.0  # such a step is taken where it promises so many times the gain of the step without
    # A further start is given up below a known maximum if a Newton step leads so near to it, in units of its length, or
    # if so many times the gain that is promised would not reach its height.
    returning: float = 0.5
    hopeless: float = 100.0
    promise: float = 0.1  # share of ``tol`` that a further Newton step may promise at the end
    little: float = 0.01  # share of ``tol`` that a further step of the fixed point may promise at the end
    memory: int = 5  # number of steps that an extrapolation of the fixed point combines
    relaxation: float = 100.0  # largest factor by which a step of the fixed point is lengthened
    left_out: float = 2.0  # eigenvalue of a factor left out, in units of the noise, above which a second start is made
    accuracy: float = 1e-3  # share of ``tol`` that inexact eigenpairs may cost
    least_start: float = 0.005  # smallest noise variance of a start, as a share of the variance
    at_floor: float = 1.01  # features with a noise variance of at most so many floors are Heywood cases
    # Near the floor the likelihood is flat, and a fit may end before it is reached: noise variances of at most so many
    # floors that still fall are set to the floor, unless the likelihood is larger without that.
    near_floor: float = 1e4
    # The floor of a feature is at least this, divided by its number of observed cells. With such a floor the likelihood
    # has a maximum however many features end there.
    floor_cells: float = 0.0
    first_noise: float = 0.05  # smallest noise variance of a start for rows with missing cells
    # Observed cells of a feature, on average, that a rule asks for each of its q + 1 parameters. 0: the Ledermann bound
    # limits the number of factors instead.
    cells_per_loading: float = 0.0
    # Up to this many features, the choice of parallel analysis is compared with that of BIC, and moments are kept for
    # fit indices.
    compared_features: int = 200

    def __post_init__(self) -> None:
        """Raise ``DataError`` unless the floor is a share of variance."""
        if not 0 < self.floor < 1:
            msg = f"floor must lie between 0 and 1, because it is a share of the variance; got {self.floor}."
            raise DataError(msg)

    def floors(self, counts: Array) -> Array:
        """Smallest noise variances of features with so many observed cells, as shares of their variances: (d,)."""
        return np.maximum(self.floor, np.minimum(self.floor_cells / np.maximum(counts, 1.0), 0.5))

    def for_rows(self, n: float) -> FactorSettings:
        """Options for n complete rows, with the floor that all of their features have."""
        return replace(self, floor=float(self.floors(np.asarray(n))))


@final
@dataclass(frozen=True, slots=True)
class TrimmingSettings:
    """Options of fits to the share of the rows that agree best."""

    keep: float = 0.75  # share of the rows that is trusted
    level: float = 0.975  # probability of the distances up to which rows are used in the end
    # Starts from random sets of rows, besides an ordinary fit and a fit of Student's t, if keep is at least 0.75, and
    # if it is 0.5: with many outliers few sets are clean.
    subsets: tuple[int, int] = (20, 100)
    subset_steps: int = 3  # EM steps to the rows of such a set
    first_steps: int = 3  # concentration steps of every start
    finalists: int = 5  # starts that go on
    next_steps: int = 20  # concentration steps of these
    # Starts are compared on a sample of so many rows, which is enough to tell them apart.
    compared_rows: int = 2000
    max_iter: int = 200  # largest number of concentration steps of the best start
    movement: float = 3e-3  # change of subspace, log noise and mean at which concentration ends
    unchanged: int = 10  # steps with the same rows after which concentration ends
    least_noise: float = 1e-9  # smallest noise variance, as a share of the mean variance
    start_noise: float = 0.05  # smallest noise variance of a random start, as a share of the mean variance
    degrees: float = 3.0  # degrees of freedom of the Student-t start
    student_steps: int = 30  # largest number of steps of this start
    rechosen: int = 2  # how often the number of components is chosen again on the rows that are used

    @property
    def n_subsets(self) -> int:
        """Number of starts from random sets of rows."""
        few, many = self.subsets
        return round(few + (many - few) * min(max(0.75 - self.keep, 0.0) / 0.25, 1.0))


@final
@dataclass(frozen=True, slots=True)
class WildCellSettings:
    """Options of fits with weights of cells."""

    hidden: float = 2.0  # cells farther from the median, in robust standard deviations, are hidden from the first fit
    degrees: float = 3.0  # degrees of freedom of Student's t for cells, which gives the second fit
    untrusted: float = 0.3  # weight of that fit below which a cell is hidden from the trimming of rows
    share: float = 0.05  # first share of wild cells
    most: float = 0.4  # largest share of wild cells
    spread: float = 2.0  # first variance of wild cells, relative to that of their column
    held_steps: int = 5  # steps in which no noise variance of a column may exceed what half of its scores allow
    free_steps: int = 20  # later, weights of cells change less and less in a step, so that they do not alternate
    judge_rows: int = 3  # rows are judged again after so many steps
    judged_steps: int = 60  # later, rows that come and go would keep a fit from ending
    row_level: float = 0.999  # probability of the squared distance within the subspace up to which rows are used
    row_cut: float = 3.0  # robust standard deviations of the mean bounded squared score up to which rows are used
    bound: float = 0.99  # probability of the squared score at which it is bounded for that
    max_iter: int = 150  # largest number of steps of each fit
    movement: float = 3e-3  # change of subspace, log noise and mean at which a fit ends
    least_noise: float = 1e-9  # smallest noise variance, as a share of the mean squared robust standard deviation


@final
@dataclass(frozen=True, slots=True)
class MixtureSettings:
    """Options of mixtures."""

    # Smallest noise variance of a cluster, as a share of that of one PPCA with enough components for all clusters.
    floor: float = 1e-3
    spare_rows: int = 2  # rows, in addition to one per component, that a cluster needs to be learned
    short: int = 8  # EM steps from each start; the best go on
    finalists: int = 3  # number of starts that go on until the remaining gain is at most ``final_tol``
    final_tol: float = 1.0  # in nats
    final_steps: int = 100  # largest number of their steps
    group_steps: int = 2  # EM steps of the PPCA of each group of rows in a start
    least_noise: float = 0.05  # smallest noise variance of a start, as a share of that of one PPCA
    # Number of rows that starts are made of: a smallest one, and so many per cluster and component.
    start_rows: int = 2000
    rows_per_component: int = 100
    start_components: int = 20  # largest number of components of the PPCA whose latent variables are clustered
    imputed_cells: int = 2**24  # up to this many cells, imputed rows are clustered too
    same_start: float = 0.99  # starts that agree on this share of the rows count as one
    start_tol: float = 1.0  # remaining gain at which PPCA of the rows of a start stops, in nats
    start_steps: int = 20  # largest number of its iterations
    components: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20)  # numbers of components that are tried
    most_clusters: int = 20  # largest number of clusters that is tried
    patience: int = 2  # the search ends after this many successive numbers that are worse than the best
    at_floor: float = 1.01  # noise variances of at most so many floors count as being at the floor

    def rows_of_start(self, n_clusters: int, n_components: int) -> int:
        """Number of rows that a start is made of."""
        return max(self.start_rows, self.rows_per_component * n_clusters * (n_components + 1))


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a fit: solver, stopping rule, and tuning parameters of the algorithms.

    Attributes
    ----------
    solver : str
        One of ``SOLVERS``. "auto" computes the closed form for complete rows and accelerated EM if cells are missing;
        "closed_form" allows the closed form only, by the fastest eigensolver; "covariance", "gram", "krylov" and "svd"
        name its eigensolver; "em", "px_em", "gradient" and "incremental" are iterative; "em_zero_noise" and
        "incremental_zero_noise" compute classical PCA as the limit of EM without noise.
    tol : float
        An iterative solver stops when the estimated remaining gain in total log-likelihood is below this, in nats.
    max_iter : int
        Largest number of iterations.
    watch : callable or None
        Function that is called with a ``Progress`` after each iteration, for example to show a progress bar.
    n_init : int
        Number of starts of an iterative fit, the best of which is kept.
    checkpoint : Path or None
        File that a long fit saves its state to after each iteration, and continues from after an interruption.
    bias_correction : bool
        Correct the variances for the bias that arises if columns are about as many as rows.
    noise : str
        "shared": all features have the same noise variance (PPCA). "per_feature": each has its own (factor analysis).
    incremental_rows : int
        Number of complete rows in each part whose sums incremental EM updates at a time.
    search : SearchLimits
        Limits of the search for the number of components.
    parallel : ParallelSettings
        Options of parallel analysis.
    folds : FoldSettings
        Options of cross-validation.
    sample : SampleSize
        Size of the samples of rows that are not in memory.
    dense : DenseSettings
        Sizes of matrices up to which direct eigensolvers are used.
    krylov : KrylovSettings
        Options of the block Krylov eigensolver.
    saddle : SaddleSettings
        Options of the test for saddle points.
    stream : StreamLimits
        Limits of learning from streams of batches.
    online : OnlineSettings
        Options of online EM.
    factor : FactorSettings
        Options of factor analysis.
    trimming : TrimmingSettings
        Options of robust fits to the share of the rows that agree best.
    wild_cells : WildCellSettings
        Options of robust fits with weights of cells.
    mixture : MixtureSettings
        Options of mixtures.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning import Settings, fit_ppca
    >>> result = fit_ppca(load_iris().data, 2, Settings(solver="em", tol=1e-6))
    >>> round(result.log_likelihood, 2), result.status.name
    (-404.96, 'CONVERGED')
    """

    solver: str = "auto"
    tol: float = 1e-3
    max_iter: int = 1000
    watch: Watch | None = None
    n_init: int = 1
    checkpoint: Path | None = None
    bias_correction: bool = False
    noise: NoiseKind = "shared"
    incremental_rows: int = 1024
    search: SearchLimits = SearchLimits()
    parallel: ParallelSettings = ParallelSettings()
    folds: FoldSettings = FoldSettings()
    sample: SampleSize = SampleSize()
    dense: DenseSettings = DenseSettings()
    krylov: KrylovSettings = KrylovSettings()
    saddle: SaddleSettings = SaddleSettings()
    stream: StreamLimits = StreamLimits()
    online: OnlineSettings = OnlineSettings()
    factor: FactorSettings = FactorSettings()
    trimming: TrimmingSettings = TrimmingSettings()
    wild_cells: WildCellSettings = WildCellSettings()
    mixture: MixtureSettings = MixtureSettings()

    def __post_init__(self) -> None:
        """Raise ``DataError`` for an unknown solver."""
        if self.solver not in SOLVERS:
            msg = f"solver must be one of {', '.join(SOLVERS)}; got {self.solver!r}."
            raise DataError(msg)
