"""PPCAImputer: a table in, the same table without holes out."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from probpca.blocks.block import row_of_cell
from probpca.errors import DataError, ShapeError, require_shape
from probpca.estimators.ppca import PPCA
from probpca.sources.open import check_weight, open_source

if TYPE_CHECKING:
    from probpca.typing import Array, Index

PASSED_ON = ("n_components", "standardize", "tol", "max_iter", "n_init", "n_jobs", "verbose", "random_state")
CELLS = 2**24
"""Cells that are predicted at a time: the answer for sparse rows is dense."""


class PPCAImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill in missing cells with their conditional means under probabilistic PCA.

    The other cells of a row say where it lies along the principal components, and those say what the
    missing cells should be. The components are learned from all cells that were observed, by maximum
    likelihood. Observed cells are returned bit for bit.

    Parameters
    ----------
    n_components : int, float, "bic" or None, default=None
        Number of components, less than the number of columns; or the share of variance that they must
        hold; None and "bic" choose by BIC.
    standardize : bool, default=True
        Learn from columns scaled to unit variance, so that the units of the columns do not matter: a
        column in millimetres is filled in with a thousand times what it would be in metres. False
        weighs columns by their variance, which is right for columns that share a unit.
    add_indicator : bool, default=False
        Append a column of 0 and 1 for each column that had missing cells at the fit, as
        ``SimpleImputer`` does.
    keep_empty_features : bool, default=False
        What becomes of a column of which nothing was observed at the fit. False: it is left out, and a
        warning says so. True: it is kept, and its missing cells are filled with 0.
    min_value, max_value : float or array-like of shape (n_features,), default=-inf and inf
        Bounds of what is filled in, for all columns or for each one. Observed cells are not touched.
    tol, max_iter, n_init, n_jobs, verbose, random_state
        As ``PPCA`` has them.

    Attributes
    ----------
    ppca_ : PPCA
        What was learned, about the columns of which something was observed. Ask it how sure the
        values are: ``ppca_.impute_interval(X)``, ``ppca_.impute(X, return_std=True)``.
    empty_features_ : ndarray
        Positions of the columns of which nothing was observed.
    indicator_ : MissingIndicator or None
    n_features_in_, feature_names_in_, n_iter_
        As scikit-learn has them.

    Notes
    -----
    NaN is a missing cell; so is a null of a dataframe. A row of which nothing is known becomes the mean.
    A column that is empty only in ``transform`` is filled in from the others. At least two columns need
    observed values: with one there is nothing to learn from, and ``SimpleImputer`` does what can be done.

    Output is what ``SimpleImputer`` gives: an array, float32 for float32, or the dataframe that
    ``set_output`` asks for; a sparse matrix, whose NaN are missing and whose unstored cells are zeros,
    stays sparse. Conditional means vary less than data do; what rests on variances or correlations of
    the completed table is better served by ``PPCA.impute_draws`` and ``pool``.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import PPCAImputer
    >>> imputer = PPCAImputer().fit([[1.0, 10.0], [2.0, 20.0], [3.0, np.nan], [4.0, 41.0]])
    >>> imputer.transform([[3.0, np.nan], [np.nan, 45.0]]).round(1)
    array([[ 3. , 30.6],
           [ 4.4, 45. ]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: PPCA._parameter_constraints[name] for name in PASSED_ON},  # noqa: SLF001
        "add_indicator": ["boolean"],
        "keep_empty_features": ["boolean"],
        "min_value": [Interval(Real, None, None, closed="both"), "array-like"],
        "max_value": [Interval(Real, None, None, closed="both"), "array-like"],
    }

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
        """Store the parameters; ``fit`` looks at them."""
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

        ``sample_weight`` are frequencies: 2 is the row twice, 0 a row that is not there.
        """
        self._validate_params()
        self.__dict__.pop("ppca_", None)  # a fit that fails leaves nothing half fitted behind
        rows = self._rows(X, reset=True)
        weight = None if sample_weight is None else check_weight(sample_weight, rows.shape[0])
        if weight is not None:
            rows, weight = rows[weight > 0], weight[weight > 0]
        self._limits = _checked_limits(self.min_value, self.max_value, self.n_features_in_)
        missing = np.bincount(_holes(rows)[1], minlength=self.n_features_in_)
        self.empty_features_ = np.flatnonzero(missing == rows.shape[0])
        self._kept = np.flatnonzero(missing < rows.shape[0])
        self._require_columns()
        self.indicator_ = _indicator().fit(rows) if self.add_indicator else None
        source = open_source(_columns(rows, self._kept), weight=weight, n_jobs=self.n_jobs)
        self.ppca_ = PPCA(**{name: getattr(self, name) for name in PASSED_ON}).fit(source)
        if hasattr(self, "feature_names_in_"):
            self.ppca_.feature_names_in_ = self.feature_names_in_[self._kept]
        self.n_iter_ = self.ppca_.n_iter_
        return self

    def transform(self, X: Any) -> Any:
        """The table with its missing cells filled in, rows that were never seen among them."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        row, column = _holes(rows)
        filled = rows.copy()
        if sparse.issparse(rows):
            filled.data[np.isnan(filled.data)] = self._values(rows, row, column)
        else:
            filled[row, column] = self._values(rows, row, column)
        if not self.keep_empty_features:
            filled = _columns(filled, self._kept)
        return filled if self.indicator_ is None else _beside(filled, self.indicator_.transform(rows))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that ``transform`` returns."""
        names = super().get_feature_names_out(input_features)
        kept = names if self.keep_empty_features else names[self._kept]
        added = [] if self.indicator_ is None else self.indicator_.get_feature_names_out(names)
        return np.concatenate([kept, added])

    def _rows(self, X: Any, *, reset: bool) -> Any:
        kinds = [np.float64, np.float32]
        rows = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=kinds, ensure_all_finite="allow-nan")
        if sparse.issparse(rows) and not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return rows

    def _require_columns(self) -> None:
        """Refuse a table with too few columns to learn from; warn of those that will be left out."""
        n, q = len(self._kept), self.n_components
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
        if self.empty_features_.size and not self.keep_empty_features:
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[self.empty_features_]
            msg = f"nothing was observed of these columns, so they are left out: {names}.\nHint: keep_empty_features."
            warnings.warn(msg, UserWarning, stacklevel=3)

    def _values(self, rows: Any, row: Index, column: Index) -> Array:
        """What goes into the missing cells, one after the other."""
        values, known = np.zeros(row.size), np.isin(column, self._kept)
        place = np.searchsorted(self._kept, column)
        affected, step = np.unique(row[known]), max(CELLS // len(self._kept), 1)
        for some in (affected[start : start + step] for start in range(0, affected.size, step)):
            source = open_source(_columns(rows[some], self._kept), n_jobs=self.n_jobs)
            asked = known & (row >= some[0]) & (row <= some[-1])
            values[asked] = self.ppca_.impute(source)[np.searchsorted(some, row[asked]), place[asked]]
        return np.clip(values, *(bound[column] for bound in self._limits))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ppca_")

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


def _checked_limits(low: Any, high: Any, d: int) -> list[Array]:
    """Bounds of each column: (d,) each."""
    bounds = [np.asarray(bound, dtype=np.float64) for bound in (low, high)]
    for name, bound in zip(("min_value", "max_value"), bounds, strict=True):
        require_shape(name, bound, (), (d,))
    if not (bounds[0] <= bounds[1]).all():
        msg = f"min_value must not exceed max_value in any column; got {low} and {high}."
        raise DataError(msg)
    return [np.broadcast_to(bound, (d,)) for bound in bounds]
