"""PPCAImputer: fill in the missing cells of a table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import isinf
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from probpca.blocks.block import row_of_cell, unmasked
from probpca.errors import DataError, ShapeError, require_shape
from probpca.estimators.base import checked_matrix, require_no_infinity
from probpca.estimators.constraints import (
    array,
    boolean,
    check_parameters,
    factor_constraints,
    nothing,
    number,
    one_of,
    ppca_constraints,
    whole,
)
from probpca.estimators.factor_analysis import FactorAnalysis
from probpca.estimators.maximum_likelihood import fit_rows
from probpca.estimators.ppca import PPCA
from probpca.estimators.storage import (
    fit_record,
    plain_parameters,
    read_estimator,
    with_fit,
    with_parameters,
    write_estimator,
)
from probpca.learning.components import FACTOR_RULES, RULES
from probpca.learning.describe import require_counted
from probpca.learning.factor.prediction import fit_to_predict
from probpca.sources.open import check_weight, open_source
from probpca.statistics import ColumnSummary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array, Index

PASSED_ON = ("n_components", "tol", "max_iter", "n_init", "n_jobs", "verbose", "random_state")
FAMILIES: dict[str, type[PPCA | FactorAnalysis]] = {"ppca": PPCA, "fa": FactorAnalysis}
NUMBERS = {"ppca": ppca_constraints()["n_components"], "fa": factor_constraints()["n_components"]}


@dataclass(frozen=True, eq=False)
class ImputerFit:
    """Fitted state of ``PPCAImputer``."""

    estimator: PPCA | FactorAnalysis | None  # of the columns with observed cells; None if there is at most one
    mean: Array | None  # of that one column, instead: (1,), or (0,) if nothing was observed
    kept: Index  # positions of the columns with observed cells
    empty_features: Index  # positions of the others
    limits: tuple[Array, Array]  # bounds of imputed values, of all columns: (d,) each
    indicator: Any  # MissingIndicator or None
    code: float  # number that marks a missing cell, or NaN

    @property
    def family(self) -> str | None:
        """Name of the kind of model, as the parameter ``model`` names it; None if there is no model."""
        return next((name for name, kind in FAMILIES.items() if isinstance(self.estimator, kind)), None)

    def record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers and arrays that go into a file."""
        numbers, arrays = ({}, {"mean": self.mean}) if self.estimator is None else fit_record(self.estimator)
        arrays |= {"kept": self.kept, "empty": self.empty_features, "lower": self.limits[0], "upper": self.limits[1]}
        if self.indicator is not None:
            arrays["indicated"] = self.indicator.features_
        inside = None if self.estimator is None else plain_parameters(self.estimator, "imputer.estimator_")
        return {**numbers, "family": self.family, "estimator": inside, "code": self.code}, arrays

    @classmethod
    def from_record(cls, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        indicator, estimator, code = None, None, float(numbers["code"])
        if "indicated" in arrays:
            row = np.full((1, len(arrays["lower"])), 1.0 if code == 0 else 0.0)
            row[:, arrays["indicated"]] = code
            indicator = _indicator(code).fit(row)
        if numbers["family"] is not None:
            kind = FAMILIES[numbers["family"]]
            estimator = with_fit(with_parameters(kind, numbers["estimator"]), numbers, arrays)
            estimator.n_features_in_ = len(arrays["kept"])
        mean = arrays["mean"] if estimator is None else None
        limits = arrays["lower"], arrays["upper"]
        return cls(estimator, mean, arrays["kept"], arrays["empty"], limits, indicator, code)


class PPCAImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill in missing cells with their conditional means under factor analysis or probabilistic PCA.

    The observed cells of a row determine its position along a few factors or principal components, and these predict
    its missing cells. The model is learned from all observed cells, by maximum likelihood. Observed cells are
    returned unchanged. It takes the place of ``SimpleImputer`` or ``IterativeImputer`` in a scikit-learn pipeline.

    Parameters
    ----------
    n_components : int, float, str or None, default=None
        Number of factors or components, less than the number of columns; or the share of the variance that components
        must explain (``model="ppca"`` only); or a rule that ``FactorAnalysis`` or ``PPCA`` knows. None and "bic" choose
        the number by BIC, which suits prediction. (``PPCA`` and ``FactorAnalysis`` by default choose by parallel
        analysis, which suits interpretation and imputes with a larger error.)
    model : "fa" or "ppca", default="fa"
        "fa": factor analysis, where each column has its own noise variance. Its intervals are right also for columns
        that the others determine well, or not at all. "ppca": probabilistic PCA, where all columns have the same noise
        variance, which suits columns that are measurements of the same kind.
    standardize : bool, default=True
        For ``model="ppca"``: whether to scale columns to unit variance for the fit, so that the result does not depend
        on their units. With False, columns with a larger variance have more influence, which suits columns that share
        a unit. Factor analysis never depends on units.
    add_indicator : bool, default=False
        Whether to append a column of 0 and 1 for each column that had missing cells in the training data, as
        ``SimpleImputer`` does.
    keep_empty_features : bool, default=False
        Whether to keep columns without any observed cell in the training data. False: they are left out, with a
        warning. True: they are kept, and their missing cells are filled with 0.
    missing_values : NaN, None, pandas.NA or float, default=NaN
        The value that marks a missing cell. NaN, None and pandas.NA all mean NaN and the nulls of a dataframe. With a
        number, such as -999, that number marks missing cells, and NaN is an error, as for ``SimpleImputer``.
    min_value, max_value : float, array-like of shape (n_features,) or None, default=None
        Bounds of the imputed values, for all columns or for each one. None: no bound. Observed cells are not changed.
    tol : float, default=1e-3
        Iterations stop when the total log-likelihood is estimated to be within ``tol`` of its maximum.
    max_iter : int, default=1000
        Largest number of iterations.
    n_init : int, default=1
        Number of random starts; the fit with the largest likelihood is kept.
    n_jobs : int or None, default=None
        Number of threads. None: as many as the linear algebra library (BLAS) uses. -1: all cores.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Determines the starting values of the fit.

    Attributes
    ----------
    estimator_ : FactorAnalysis or PPCA
        The fitted model of the columns with observed cells. Its methods give the uncertainty of imputed values:
        ``estimator_.impute_interval(X)`` and ``estimator_.impute(X, return_std=True)``. The components and loadings of
        PPCA with ``standardize=True`` describe the columns divided by ``estimator_.scale_``.
    model_ : LinearGaussian
        The fitted model of the same columns, in the units of the data, for the functions of ``probpca.inference``.
    empty_features_ : ndarray of int
        Positions of the columns without any observed cell in the training data.
    indicator_ : MissingIndicator or None
        scikit-learn's indicator of missing cells; None if ``add_indicator=False``.
    n_features_in_ : int
        Number of columns of the training data.
    feature_names_in_ : ndarray of str
        Names of the columns, if the training data have names.
    n_iter_ : int
        Number of iterations of the fit.

    Notes
    -----
    NaN, the nulls of a dataframe and the masked cells of a NumPy masked array are missing cells. A row without observed
    cells is filled with the mean. If only one column has observed cells, nothing can predict it: its missing cells are
    filled with its mean, and there is no ``estimator_`` and no ``model_``.

    The output is an array, float32 for float32 input, or the dataframe that ``set_output`` requests. A sparse matrix
    stays sparse: its NaN are missing, and the cells that it does not store are zeros.

    A noise variance that is too small makes intervals too narrow. With ``model="fa"`` that of a column is therefore at
    least 0.1 / N of its variance, with N observed cells, and a rule chooses at most so many factors that columns have
    on average 8 observed cells for each of their loadings and their mean, unless the table has a low rank and no
    noise. ``FactorAnalysis`` itself has a smaller floor and no such limit.

    Imputed values vary less than real data, because they are expected values. For variances, correlations or tests on
    the completed table use multiple imputation: ``FactorAnalysis.impute_draws`` and ``probpca.inference.pool``.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import PPCAImputer
    >>> imputer = PPCAImputer().fit([[1.0, 10.0], [2.0, 20.0], [3.0, np.nan], [4.0, 41.0]])
    >>> imputer.transform([[3.0, np.nan], [np.nan, 45.0]]).round(1)
    array([[ 3. , 30.4],
           [ 4.3, 45. ]])
    """

    _constraints: ClassVar[dict[str, Any]] = {
        **{name: constraint for name, constraint in ppca_constraints().items() if name in PASSED_ON},
        "n_components": (whole(1), number("(", 0, 1, ")"), one_of(*RULES, *FACTOR_RULES), nothing()),
        "model": (one_of(*FAMILIES),),
        "standardize": (boolean(),),
        "add_indicator": (boolean(),),
        "keep_empty_features": (boolean(),),
        "min_value": (number("[", -np.inf, np.inf, "]"), array(), nothing()),
        "max_value": (number("[", -np.inf, np.inf, "]"), array(), nothing()),
    }
    _cells_at_a_time: ClassVar[int] = 2**24  # the prediction of sparse rows is dense
    _fitted: ImputerFit | None = None
    _fit_type = ImputerFit

    def __init__(
        self,
        n_components: Any = None,
        *,
        model: str = "fa",
        standardize: bool = True,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
        missing_values: Any = np.nan,
        min_value: Any = None,
        max_value: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_init: int = 1,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        """Store the parameters; ``fit`` checks them."""
        self.n_components = n_components
        self.model = model
        self.standardize = standardize
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.missing_values = missing_values
        self.min_value = min_value
        self.max_value = max_value
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to the observed cells of a table.

        Parameters
        ----------
        X : array, sparse matrix or dataframe of shape (n, n_features)
            Training rows with missing cells.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequency of each row: a row of weight 2 counts twice, and a row of weight 0 not at all. Weights must sum to
            at least 2.

        Returns
        -------
        PPCAImputer
            The fitted imputer itself.
        """
        check_parameters(self, self._constraints)
        check_parameters(self, {"n_components": NUMBERS[self.model]})
        self._fitted = None  # a fit that fails leaves no fit behind
        code = _missing_code(self.missing_values)
        rows = self._rows(X, code, reset=True)
        weight = None if sample_weight is None else check_weight(sample_weight, rows.shape[0])
        if weight is not None:
            rows, weight = rows[weight > 0], weight[weight > 0]
        limits = _checked_limits(self.min_value, self.max_value, self.n_features_in_)
        missing = np.bincount(_holes(rows)[1], minlength=self.n_features_in_)
        kept, empty = np.flatnonzero(missing < rows.shape[0]), np.flatnonzero(missing == rows.shape[0])
        self._require_columns(len(kept), empty)
        indicator = _indicator(code).fit(_coded(rows, code)) if self.add_indicator else None
        estimator, mean = None, None
        if len(kept) > 1:
            source = open_source(_columns(rows, kept), weight=weight, n_jobs=self.n_jobs)
            estimator = self._named(self._learned(source), kept)
        else:
            summary = open_source(_columns(rows, kept), weight=weight).fold(ColumnSummary.of)
            require_counted(summary)
            mean = summary.mean
        self._fitted = ImputerFit(estimator, mean, kept, empty, limits, indicator, code)
        return self

    def _learned(self, source: Source) -> PPCA | FactorAnalysis:
        passed = {name: getattr(self, name) for name in PASSED_ON}
        if self.n_components is None:
            passed["n_components"] = "bic"  # chosen to predict: parallel analysis leaves out what helps to
        if self.model == "ppca":
            return PPCA(**passed, standardize=self.standardize).fit(source)
        factors = FactorAnalysis(**passed)
        return factors._finish(fit_rows(factors, fit_to_predict, source, None, None))  # noqa: SLF001

    def _named(self, estimator: Any, kept: Index) -> Any:
        """Give a fitted estimator the names of its columns, if this table has names."""
        if hasattr(self, "feature_names_in_"):
            estimator.feature_names_in_ = self.feature_names_in_[kept]
        return estimator

    @property
    def _state(self) -> ImputerFit:
        """The fitted state; raises ``NotFittedError`` if there is none."""
        check_is_fitted(self)
        return cast("ImputerFit", self._fitted)

    @property
    def estimator_(self) -> PPCA | FactorAnalysis:
        """The fitted estimator of the columns with observed cells; absent if only one column has any."""
        estimator = self._state.estimator
        if estimator is None:
            msg = (
                "'PPCAImputer' object has no attribute 'estimator_': only one column has observed cells, and its mean "
                "takes the place of a model."
            )
            raise AttributeError(msg)
        return estimator

    @property
    def model_(self) -> LinearGaussian:
        """The fitted model of the columns with observed cells, in the units of the data: a ``LinearGaussian``."""
        return self.estimator_.model_

    @property
    def empty_features_(self) -> Index:
        """Positions of the columns without any observed cell in the training data: ndarray of int."""
        return self._state.empty_features

    @property
    def indicator_(self) -> Any:
        """scikit-learn's fitted ``MissingIndicator``; None if ``add_indicator=False``."""
        return self._state.indicator

    @property
    def n_iter_(self) -> int:
        """Number of iterations of the fit; 0 if only one column has observed cells."""
        estimator = self._state.estimator
        return 0 if estimator is None else estimator.n_iter_

    def to_file(self, path: str | Path) -> None:
        """Save the fitted imputer to a file.

        Unlike a pickle the file contains numbers and text only, no code, so that it is safe to read.

        Parameters
        ----------
        path : str or Path
            Name of the file, in NumPy's npz format. An existing file is replaced and keeps its permissions; one
            that is read-only raises ``SourceError``. A pipe or a device is written into.
        """
        write_estimator(self, path)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Load a fitted imputer that ``to_file`` saved.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        Returns
        -------
        PPCAImputer
            The fitted imputer.

        Raises
        ------
        FileFormatError
            If this is not a file of an imputer: another kind of file, a pipe, or a file that was damaged or changed.
            Every field is checked, and the error names the one that is wrong.
        """
        imputer: Self = read_estimator(cls, path)
        fit = imputer._state
        if fit.estimator is not None:
            imputer._named(fit.estimator, fit.kept)
        return imputer

    def transform(self, X: Any) -> Any:
        """Fill in the missing cells of training rows or of new rows.

        Parameters
        ----------
        X : array, sparse matrix or dataframe of shape (n, n_features)
            Rows with the columns of the fit.

        Returns
        -------
        array, sparse matrix or dataframe of shape (n, n_features_out)
            The rows without missing cells. Columns that were empty in the training data are left out unless
            ``keep_empty_features=True``; columns of ``add_indicator`` come last.
        """
        fit = self._state
        rows = self._rows(X, fit.code, reset=False)
        row, column = _holes(rows)
        filled = rows.copy()
        if sparse.issparse(rows):
            filled.data[np.isnan(filled.data)] = self._values(rows, row, column)
        else:
            filled[row, column] = self._values(rows, row, column)
        if not self.keep_empty_features:
            filled = _columns(filled, fit.kept)
        return filled if fit.indicator is None else _beside(filled, fit.indicator.transform(_coded(rows, fit.code)))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that ``transform`` returns.

        Parameters
        ----------
        input_features : sequence of str or None, default=None
            Names of the input columns. None: those of the training data, or x0, x1, ...

        Returns
        -------
        ndarray of str, shape (n_features_out,)
            Names of the columns, and of those that ``add_indicator`` appends.
        """
        names = super().get_feature_names_out(input_features)
        kept = names if self.keep_empty_features else names[self._state.kept]
        added = [] if self.indicator_ is None else self.indicator_.get_feature_names_out(names)
        return np.concatenate([kept, added])

    def _rows(self, X: Any, code: float, *, reset: bool) -> Any:
        """Rows in memory with NaN in their missing cells."""
        rows = checked_matrix(self, X, reset=reset)
        require_no_infinity(self, rows)
        if sparse.issparse(rows) and not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return rows if np.isnan(code) else _decoded(rows, code)

    def _require_columns(self, n: int, empty: Index) -> None:
        """Refuse more components than columns can have; warn of empty columns that will be left out."""
        q = self.n_components
        if isinstance(q, int | np.integer) and not 0 < q < n:
            msg = (
                f"n_components must be less than the number of columns with observed values, n_features={n}; got {q}.\n"
                "Hint: n_components=None chooses by BIC."
            )
            raise ShapeError(msg)
        if empty.size and not self.keep_empty_features:
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[empty]
            msg = f"no observed cells in these columns, so they are left out: {names}.\nHint: keep_empty_features=True."
            warnings.warn(msg, UserWarning, stacklevel=3)

    def _values(self, rows: Any, row: Index, column: Index) -> Array:
        """Predict the missing cells, one after the other, some rows at a time."""
        fit = self._state
        values, known = np.zeros(row.size), np.isin(column, fit.kept)
        place = np.searchsorted(fit.kept, column)
        if fit.estimator is None:
            values[known] = cast("Array", fit.mean)[place[known]]
            return np.clip(values, *(bound[column] for bound in fit.limits))
        affected, step = np.unique(row[known]), max(self._cells_at_a_time // len(fit.kept), 1)
        for some in (affected[start : start + step] for start in range(0, affected.size, step)):
            source = open_source(_columns(rows[some], fit.kept), n_jobs=self.n_jobs)
            wanted = known & (row >= some[0]) & (row <= some[-1])
            values[wanted] = fit.estimator.impute(source)[np.searchsorted(some, row[wanted]), place[wanted]]
        return np.clip(values, *(bound[column] for bound in fit.limits))

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        marked: Any = self.missing_values
        tags.input_tags.allow_nan = not isinstance(marked, Real) or bool(marked != marked)  # noqa: PLR0124
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _indicator(code: float) -> Any:
    from sklearn.impute import MissingIndicator  # noqa: PLC0415  a fifth of a second, for those who ask for it

    return MissingIndicator(missing_values=code, error_on_new=False)


def _is_finite_or_nan(number: Real) -> bool:
    """Whether a number is finite or NaN, also a whole number that is too large for numpy."""
    try:
        return not isinf(number)
    except OverflowError:
        return False


def _missing_code(given: Any) -> float:
    """The number that marks a missing cell, or NaN: what None and pandas.NA become in an array of numbers."""
    pandas = nw.dependencies.get_pandas()
    if given is None or (pandas is not None and given is pandas.NA):
        return float("nan")
    number: Any = given
    if not isinstance(given, Real) or isinstance(number, bool) or not _is_finite_or_nan(number):
        msg = (
            f"missing_values must be a finite number, NaN, None or pandas.NA; got {given!r}.\n"
            "Hint: replace text that marks missing cells by NaN."
        )
        raise DataError(msg)
    return float(number)


def _decoded(rows: Any, code: float) -> Any:
    """Copy of the rows with NaN in cells that hold a code; NaN in the rows themselves is an error."""
    if sparse.issparse(rows) and code == 0:
        msg = (
            "missing_values=0 needs a dense X; got a sparse matrix, whose unstored cells are zeros.\nHint: X.toarray()."
        )
        raise DataError(msg)
    out = rows.copy()
    cells = out.data if sparse.issparse(out) else out
    if np.isnan(cells).any():
        msg = (
            f"Input X contains NaN, which does not mark missing cells if missing_values={code:g}.\n"
            f"Hint: replace NaN by {code:g}, or use missing_values=np.nan."
        )
        raise DataError(msg)
    cells[cells == cells.dtype.type(code)] = np.nan
    return out


def _coded(rows: Any, code: float) -> Any:
    """Copy of the rows with a code in place of NaN."""
    if np.isnan(code):
        return rows
    out = rows.copy()
    cells = out.data if sparse.issparse(out) else out
    cells[np.isnan(cells)] = code
    return out


def _holes(rows: Any) -> tuple[Index, Index]:
    """Row and column of each missing cell, row by row."""
    if not sparse.issparse(rows):
        row, column = np.nonzero(np.isnan(rows))
        return row, column
    hole = np.isnan(rows.data)
    return row_of_cell(rows)[hole], rows.indices[hole]


def _columns(rows: Any, kept: Index) -> Any:
    if len(kept) == rows.shape[1]:
        return rows
    some = rows[:, kept]  # stored by columns if it is an array
    return some if sparse.issparse(some) else np.ascontiguousarray(some)


def _beside(left: Any, right: Any) -> Any:
    return type(left)(sparse.hstack([left, right], format="csr")) if sparse.issparse(left) else np.hstack([left, right])


def _checked_limits(low: Any, high: Any, d: int) -> tuple[Array, Array]:
    """Bounds of each column: (d,) each."""
    none = (-np.inf if low is None else low, np.inf if high is None else high)
    bounds = [np.asarray(unmasked(bound), dtype=np.float64) for bound in none]
    for name, bound in zip(("min_value", "max_value"), bounds, strict=True):
        require_shape(name, bound, (), (d,))
    if not (bounds[0] <= bounds[1]).all():
        msg = f"min_value must not exceed max_value in any column; got {low} and {high}."
        raise DataError(msg)
    return np.broadcast_to(bounds[0], (d,)), np.broadcast_to(bounds[1], (d,))
