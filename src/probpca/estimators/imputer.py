"""PPCAImputer: fill in the missing cells of a table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from probpca.blocks.block import row_of_cell
from probpca.errors import DataError, ShapeError, require_shape
from probpca.estimators.base import check_parameters, checked_matrix, require_no_infinity
from probpca.estimators.constraints import array, boolean, number, ppca_constraints
from probpca.estimators.ppca import PPCA
from probpca.estimators.storage import fit_record, plain_parameters, read_estimator, with_fit, write_estimator
from probpca.sources.open import check_weight, open_source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from probpca.models import LinearGaussian
    from probpca.typing import Array, Index

PASSED_ON = ("n_components", "standardize", "tol", "max_iter", "n_init", "n_jobs", "verbose", "random_state")


@dataclass(frozen=True, eq=False)
class ImputerFit:
    """What a fit of ``PPCAImputer`` found."""

    ppca: PPCA  # of the columns with observed cells
    kept: Index  # their positions
    empty_features: Index  # positions of the others
    limits: tuple[Array, Array]  # bounds of imputed values, of all columns: (d,) each
    indicator: Any  # MissingIndicator or None

    def record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers and arrays that go into a file."""
        numbers, arrays = fit_record(self.ppca)
        arrays |= {"kept": self.kept, "empty": self.empty_features, "lower": self.limits[0], "upper": self.limits[1]}
        if self.indicator is not None:
            arrays["indicated"] = self.indicator.features_
        return {**numbers, "ppca": plain_parameters(self.ppca)}, arrays

    @classmethod
    def from_record(cls, path: str | Path, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        indicator = None
        if "indicated" in arrays:
            row = np.zeros((1, len(arrays["lower"])))
            row[:, arrays["indicated"]] = np.nan
            indicator = _indicator().fit(row)
        ppca = with_fit(PPCA(**numbers["ppca"]), path, numbers, arrays)
        ppca.n_features_in_ = len(arrays["kept"])
        return cls(ppca, arrays["kept"], arrays["empty"], (arrays["lower"], arrays["upper"]), indicator)


class PPCAImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill in missing cells with their conditional means under probabilistic PCA.

    The observed cells of a row determine its position along the principal components, and these predict its
    missing cells. The components are learned from all observed cells, by maximum likelihood. Observed cells are
    returned bit for bit.

    Parameters
    ----------
    n_components : int, float, "bic" or None, default=None
        Number of components, less than the number of columns; or the share of the variance that they must
        explain. None and "bic" choose by BIC, which suits prediction; ``PPCA`` itself chooses by parallel analysis,
        which suits interpretation and imputes with a larger error.
    standardize : bool, default=True
        Learn from columns scaled to unit variance, so that the result does not depend on the units of the columns.
        False gives columns weights by their variance, which is right for columns that share a unit.
    add_indicator : bool, default=False
        Append a column of 0 and 1 for each column that had missing cells at the fit, as
        ``SimpleImputer`` does.
    keep_empty_features : bool, default=False
        Whether to keep columns without any observed cell at the fit. False: they are left out, with a warning.
        True: they are kept, and their missing cells are filled with 0.
    min_value, max_value : float or array-like of shape (n_features,), default=-inf and inf
        Bounds of the imputed values, for all columns or for each one. Observed cells are not changed.
    tol, max_iter, n_init, n_jobs, verbose, random_state
        As for ``PPCA``.

    Attributes
    ----------
    ppca_ : PPCA
        The fitted PPCA of the columns with observed cells. It has the uncertainty of imputed values:
        ``ppca_.impute_interval(X)``, ``ppca_.impute(X, return_std=True)``. With ``standardize=True`` its components and
        loadings are those of the columns divided by ``ppca_.scale_``.
    model_ : LinearGaussian
        The fitted model of the same columns, in the units of the data, for the functions of ``probpca.inference``.
    empty_features_ : ndarray
        Positions of the columns without any observed cell.
    indicator_ : MissingIndicator or None
    n_features_in_, feature_names_in_, n_iter_
        As in scikit-learn.

    Notes
    -----
    NaN is a missing cell, as is a null of a dataframe. A row without observed cells becomes the mean. A column that is
    empty only in ``transform`` is filled in from the others. At least two columns need observed values; for one
    column use ``SimpleImputer``.

    The output has the form that ``SimpleImputer`` returns: an array, float32 for float32, or the dataframe that
    ``set_output`` requests; a sparse matrix, whose NaN are missing and whose unstored cells are zeros, stays sparse.
    Conditional means vary less than data: for analyses of variances or correlations of the completed table use
    ``PPCA.impute_draws`` and ``pool``.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import PPCAImputer
    >>> imputer = PPCAImputer().fit([[1.0, 10.0], [2.0, 20.0], [3.0, np.nan], [4.0, 41.0]])
    >>> imputer.transform([[3.0, np.nan], [np.nan, 45.0]]).round(1)
    array([[ 3. , 30.6],
           [ 4.4, 45. ]])
    """

    _constraints: ClassVar[dict[str, Any]] = {
        **{name: constraint for name, constraint in ppca_constraints().items() if name in PASSED_ON},
        "add_indicator": (boolean(),),
        "keep_empty_features": (boolean(),),
        "min_value": (number("[", -np.inf, np.inf, "]"), array()),
        "max_value": (number("[", -np.inf, np.inf, "]"), array()),
    }
    _cells_at_a_time: ClassVar[int] = 2**24  # the prediction of sparse rows is dense
    _fitted: ImputerFit | None = None
    _fit_type = ImputerFit

    def __init__(
        self,
        n_components: Any = None,
        *,
        standardize: bool = True,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
        min_value: Any = -np.inf,
        max_value: Any = np.inf,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_init: int = 1,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        """Store the parameters; ``fit`` checks them."""
        self.n_components = n_components
        self.standardize = standardize
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.min_value = min_value
        self.max_value = max_value
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the observed cells of an array, a sparse matrix or a dataframe.

        ``sample_weight`` are frequencies: a row of weight 2 counts twice, one of weight 0 not at all.
        """
        check_parameters(self, self._constraints)
        self._fitted = None  # a fit that fails leaves no fit behind
        rows = self._rows(X, reset=True)
        weight = None if sample_weight is None else check_weight(sample_weight, rows.shape[0])
        if weight is not None:
            rows, weight = rows[weight > 0], weight[weight > 0]
        limits = _checked_limits(self.min_value, self.max_value, self.n_features_in_)
        missing = np.bincount(_holes(rows)[1], minlength=self.n_features_in_)
        kept, empty = np.flatnonzero(missing < rows.shape[0]), np.flatnonzero(missing == rows.shape[0])
        self._require_columns(len(kept), empty)
        indicator = _indicator().fit(rows) if self.add_indicator else None
        source = open_source(_columns(rows, kept), weight=weight, n_jobs=self.n_jobs)
        passed = {name: getattr(self, name) for name in PASSED_ON}
        if self.n_components is None:
            passed["n_components"] = "bic"  # chosen to predict: parallel analysis leaves out what helps to
        ppca = PPCA(**passed).fit(source)
        self._fitted = ImputerFit(self._named(ppca, kept), kept, empty, limits, indicator)
        return self

    def _named(self, ppca: PPCA, kept: Index) -> PPCA:
        """Give a fitted PPCA the names of its columns, if this table has names."""
        if hasattr(self, "feature_names_in_"):
            ppca.feature_names_in_ = self.feature_names_in_[kept]
        return ppca

    @property
    def _state(self) -> ImputerFit:
        """The fitted state; raises ``NotFittedError`` if there is none."""
        check_is_fitted(self)
        return cast("ImputerFit", self._fitted)

    @property
    def ppca_(self) -> PPCA:
        """The fitted PPCA of the columns with observed cells."""
        return self._state.ppca

    @property
    def model_(self) -> LinearGaussian:
        """The fitted model of the columns with observed cells."""
        return self._state.ppca.model_

    @property
    def empty_features_(self) -> Index:
        """Positions of the columns without any observed cell at the fit."""
        return self._state.empty_features

    @property
    def indicator_(self) -> Any:
        """The fitted ``MissingIndicator``; None without ``add_indicator``."""
        return self._state.indicator

    @property
    def n_iter_(self) -> int:
        """Number of steps of the fit."""
        return self._state.ppca.n_iter_

    def to_file(self, path: str | Path) -> None:
        """Write the parameters and the fitted model to one file (npz), which contains no code."""
        write_estimator(self, path)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read an imputer that ``to_file`` wrote."""
        imputer: Self = read_estimator(cls, path)
        imputer._named(imputer.ppca_, imputer._state.kept)
        return imputer

    def transform(self, X: Any) -> Any:
        """Fill in the missing cells of a table, which need not be that of the fit."""
        fit = self._state
        rows = self._rows(X, reset=False)
        row, column = _holes(rows)
        filled = rows.copy()
        if sparse.issparse(rows):
            filled.data[np.isnan(filled.data)] = self._values(rows, row, column)
        else:
            filled[row, column] = self._values(rows, row, column)
        if not self.keep_empty_features:
            filled = _columns(filled, fit.kept)
        return filled if fit.indicator is None else _beside(filled, fit.indicator.transform(rows))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that ``transform`` returns."""
        names = super().get_feature_names_out(input_features)
        kept = names if self.keep_empty_features else names[self._state.kept]
        added = [] if self.indicator_ is None else self.indicator_.get_feature_names_out(names)
        return np.concatenate([kept, added])

    def _rows(self, X: Any, *, reset: bool) -> Any:
        rows = checked_matrix(self, X, reset=reset)
        require_no_infinity(self, rows)
        if sparse.issparse(rows) and not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return rows

    def _require_columns(self, n: int, empty: Index) -> None:
        """Refuse a table with too few columns to learn from; warn of empty ones that will be left out."""
        q = self.n_components
        if n < 2:
            msg = (
                f"at least 2 columns with observed values are needed, to predict one from the others; got {n} "
                "feature(s).\nHint: sklearn.impute.SimpleImputer fills in the mean of a column."
            )
            raise DataError(msg)
        if isinstance(q, int | np.integer) and not 0 < q < n:
            msg = (
                f"n_components must be less than the number of columns with observed values, {n}; got {q}.\n"
                "Hint: n_components=None chooses by BIC."
            )
            raise ShapeError(msg)
        if empty.size and not self.keep_empty_features:
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[empty]
            msg = f"nothing was observed of these columns, so they are left out: {names}.\nHint: keep_empty_features."
            warnings.warn(msg, UserWarning, stacklevel=3)

    def _values(self, rows: Any, row: Index, column: Index) -> Array:
        """Predict the missing cells, one after the other, some rows at a time."""
        fit = self._state
        values, known = np.zeros(row.size), np.isin(column, fit.kept)
        place = np.searchsorted(fit.kept, column)
        affected, step = np.unique(row[known]), max(self._cells_at_a_time // len(fit.kept), 1)
        for some in (affected[start : start + step] for start in range(0, affected.size, step)):
            source = open_source(_columns(rows[some], fit.kept), n_jobs=self.n_jobs)
            wanted = known & (row >= some[0]) & (row <= some[-1])
            values[wanted] = fit.ppca.impute(source)[np.searchsorted(some, row[wanted]), place[wanted]]
        return np.clip(values, *(bound[column] for bound in fit.limits))

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _indicator() -> Any:
    from sklearn.impute import MissingIndicator  # noqa: PLC0415  a fifth of a second, for those who ask for it

    return MissingIndicator(error_on_new=False)


def _holes(rows: Any) -> tuple[Index, Index]:
    """Row and column of each missing cell, row by row."""
    if not sparse.issparse(rows):
        row, column = np.nonzero(np.isnan(rows))
        return row, column
    hole = np.isnan(rows.data)
    return row_of_cell(rows)[hole], rows.indices[hole]


def _columns(rows: Any, kept: Index) -> Any:
    return rows if len(kept) == rows.shape[1] else rows[:, kept]


def _beside(left: Any, right: Any) -> Any:
    return type(left)(sparse.hstack([left, right], format="csr")) if sparse.issparse(left) else np.hstack([left, right])


def _checked_limits(low: Any, high: Any, d: int) -> tuple[Array, Array]:
    """Bounds of each column: (d,) each."""
    bounds = [np.asarray(bound, dtype=np.float64) for bound in (low, high)]
    for name, bound in zip(("min_value", "max_value"), bounds, strict=True):
        require_shape(name, bound, (), (d,))
    if not (bounds[0] <= bounds[1]).all():
        msg = f"min_value must not exceed max_value in any column; got {low} and {high}."
        raise DataError(msg)
    return np.broadcast_to(bounds[0], (d,)), np.broadcast_to(bounds[1], (d,))
