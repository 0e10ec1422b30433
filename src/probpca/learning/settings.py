"""How to fit: which solver, how far, and the numbers that tune each algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, final, get_args

from probpca.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.learning.loop import Watch

Regime: TypeAlias = Literal["covariance", "gram", "krylov", "svd"]
Iterative: TypeAlias = Literal["em", "px_em", "em_zero_noise", "gradient", "incremental", "incremental_zero_noise"]
ZERO_NOISE = ("em_zero_noise", "incremental_zero_noise")
SOLVERS = ("auto", "closed_form", *get_args(Regime), *get_args(Iterative))


@final
@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How far a rule searches."""

    complete: int = 50  # largest number of components, for complete rows
    missing: int = 20  # where cells are missing, and every number takes a fit
    patience: int = 2  # a search of fits ends after this many numbers in a row that are worse than the best


@final
@dataclass(frozen=True, slots=True)
class FoldSettings:
    """How cross-validation holds out cells, and how far it searches."""

    count: int = 5  # folds
    # Held-out cells may be predicted worse by a few numbers of components in a row, and then much better.
    least: int = 10  # numbers of components that are tried in any case
    patience: int = 5  # the search ends after this many in a row that are no better than fewer
    # Smallest noise variance, as a share of that of the data: a fit that explains all of its cells would call the
    # others impossible.
    least_noise: float = 1e-6
    tolerance: float = 0.02  # log-likelihood that a fit may leave to be gained, in nats a row
    negligible: float = 0.002  # difference of scores that makes no number of components better, in nats a row


@final
@dataclass(frozen=True, slots=True)
class ParallelSettings:
    """How parallel analysis draws the eigenvalues of independent columns, and compares them with those of a table."""

    draws: tuple[int, int] = (100, 1000)  # least and largest number of tables that are drawn
    drawn_columns: int = 10_000  # columns of all drawn tables together, within these bounds
    quantile: float = 0.95  # of the drawn eigenvalues, which those of the table must exceed
    seed: int = 0  # the draws are the same in every call: they depend on the size of the table alone
    first: int = 8  # eigenvalues that are compared at first; twice as many whenever all of them are above
    exact: int = 200  # columns up to which correlation matrices are drawn; beyond, white Wishart matrices
    corner: float = 8.0  # size of the corner of a tridiagonal matrix that has its leading eigenvalues
    rounding: float = 1e-9  # relative excess that does not count
    most_pairs: int = 2000  # columns up to which missing cells are allowed for pair by pair
    general_factor: float = 0.4  # share of the first eigenvalue from which on one component may hide others

    def draws_of(self, d: int) -> int:
        """Number of tables to draw: small ones cost little, and many draws make their quantile smooth."""
        return min(max(self.drawn_columns // d, self.draws[0]), self.draws[1])


@final
@dataclass(frozen=True, slots=True)
class SampleSize:
    """How much of rows that are not in memory is drawn: a fit of the sample starts the fit of all rows."""

    cells: int = 2**20
    rows: int = 1000
    calibration: int = 2000  # rows, drawn where no fit needs a sample, that p-values are calibrated with; 0: none

    def of(self, n_features: int) -> int:
        """Number of rows to draw."""
        return max(self.cells // n_features, self.rows)


@final
@dataclass(frozen=True, slots=True)
class CalibrationRows:
    """How many of the rows of a fit p-values are calibrated with: enough for quantiles, without much time."""

    most: int = 2000
    cells: int = 2**17  # largest number of cells, unless ``fewest`` rows have more
    fewest: int = 300
    small: int = 2**15  # cells up to which BLAS uses one thread by itself
    large: int = 2**20  # cells from which on threads share the rows

    def of(self, n_rows: int, n_features: int) -> int:
        """Number of rows to use of a table of this size."""
        return min(n_rows, max(min(self.most, self.cells // n_features), self.fewest))


@final
@dataclass(frozen=True, slots=True)
class DenseSettings:
    """When direct eigensolvers pay."""

    tiny: int = 64  # matrices up to this size are decomposed completely: that costs less than to choose some pairs
    small: int = 400  # matrices below this size are decomposed directly, not by iteration
    block: int = 16  # most vectors of an iteration on a dense matrix
    svd_side: int = 3000  # shorter side of a table up to which its singular values are a reasonable last resort
    svd_cells: float = 2e8  # and its number of cells


@final
@dataclass(frozen=True, slots=True)
class KrylovSettings:
    """How products with the rows are made."""

    large: int = 2**18  # tables with more stored cells than this are multiplied in float32 first
    oversampling: int = 4  # vectors of a block beyond the wanted components
    sampled: int = 8  # rows or columns per vector of the start: their own leading directions save a product
    # Sparse products with several vectors cost as much as one after the other: narrow blocks need fewer.
    sparse_block: int = 4
    # Products of float32 rows are not copied: with this few vectors reading the rows is what takes the time.
    single_block: int = 8
    # Columns per row from which on vectors with an entry per row are the ones to iterate with. Panels of columns have
    # to be gathered, which costs little beside the cast of float64 rows to float32 and much beside rows that need none.
    wide: int = 2
    wide_single: int = 16


@final
@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How much of a stream is kept, and how much is needed."""

    scatter: int = 2000  # features up to which a scatter matrix is kept; beyond, a sketch of it
    spare_rows: int = 2  # rows needed beyond one for each component: for the mean, and for the noise

    def sketch_rows(self, q: int) -> int:
        """Rows of a sketch that is to give q components."""
        return 4 * q + 56


@final
@dataclass(frozen=True, slots=True)
class OnlineSettings:
    """How online EM cuts a stream and weighs its parts."""

    # How much is gathered, and fitted as a table, before the first step.
    first_cells: int = 2**20
    first_rows: tuple[int, int] = (200, 2000)
    # Rows of one step: a share of those that have come, so that steps get rarer as they matter less.
    chunk_rows: tuple[int, int] = (256, 8192)
    chunks: int = 16
    # A step that takes in ``unit`` rows, the t-th such, weighs t^-power.
    unit: float = 100.0
    power: float = 0.6


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """How to fit: which solver, how far, who watches, and the numbers that tune the algorithms."""

    solver: str = "auto"
    tol: float = 1e-3  # stop when the log-likelihood is estimated to rise by less than this, in nats
    max_iter: int = 1000
    watch: Watch | None = None
    n_init: int = 1
    checkpoint: Path | None = None  # file in which a long fit leaves what it has
    bias_correction: bool = False  # correct variances for the bias that many columns bring
    incremental_rows: int = 1024  # complete rows whose sums incremental EM replaces at a time
    search: SearchLimits = SearchLimits()
    parallel: ParallelSettings = ParallelSettings()
    folds: FoldSettings = FoldSettings()
    sample: SampleSize = SampleSize()
    dense: DenseSettings = DenseSettings()
    krylov: KrylovSettings = KrylovSettings()
    stream: StreamLimits = StreamLimits()
    online: OnlineSettings = OnlineSettings()

    def __post_init__(self) -> None:
        """Refuse a solver that does not exist."""
        if self.solver not in SOLVERS:
            msg = f"solver must be one of {', '.join(SOLVERS)}; got {self.solver!r}."
            raise DataError(msg)
