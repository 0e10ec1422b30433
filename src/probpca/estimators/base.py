"""What all estimators share: one frozen fitted state, names of columns, opening rows, warnings, random numbers."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import assert_all_finite, check_array, check_random_state
from sklearn.utils.validation import validate_data

from probpca.blocks.block import NUMBERS_AS_TEXT, not_numbers, unmasked, without_pandas_na
from probpca.errors import ClusterError, DataError, ShapeError, SourceError
from probpca.estimators.storage import read_estimator, write_estimator
from probpca.learning.progress import ProgressBar
from probpca.result_tables import Names, frame_of
from probpca.sources import open_source
from probpca.sources.files import has_names, is_path
from probpca.sources.open import is_table, kind_of
from probpca.sources.readers.frames import as_text, frame_values, is_frame, order_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from probpca.estimators.constraints import Constraint
    from probpca.learning import Status
    from probpca.sources import Source
    from probpca.sources.source import Watch
    from probpca.typing import Array, Index


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found; an estimator holds one such object, and its fitted attributes are read from it."""

    result: Any  # of the learning functions: model, status, trace, number of steps, empty features

    @property
    def ready(self) -> bool:
        """Whether the model can be asked for: always true after a fit."""
        return True

    def solve(self, name: str) -> Self:
        """Return the fit itself: there is nothing left to compute."""
        return self


class Estimator(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A scikit-learn estimator around one frozen fitted state."""

    _fitted: Any = None  # a Fit, or the state of a stream whose model is computed at the first question
    _fit_type: Any  # the subclass of Fit that files are read into
    _constraints: ClassVar[dict[str, Constraint]]
    _accepts_sparse: ClassVar[bool] = False
    _component: ClassVar[str] = "PC"  # what a component is called, before its number
    random_state: Any

    @property
    def _state(self) -> Any:
        """The fitted state; raises ``NotFittedError``, with the reason, if there is none."""
        if self._fitted is None:
            msg = (
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments "
                "before using this estimator."
            )
            raise NotFittedError(msg)
        return self._fitted.solve(type(self).__name__)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model, or a stream with enough rows for one; computes nothing."""
        return self._fitted is not None and self._fitted.ready

    @property
    def model_(self) -> Any:
        """The fitted model as an immutable object, for use with the functions of ``probpca.inference``."""
        return self._state.result.model

    @property
    def status_(self) -> Status:
        """How the fit ended; ``status_.value`` is a sentence that explains it and says what to do."""
        return self._state.result.status

    @property
    def converged_(self) -> bool:
        """Whether the fit reached the maximum of its objective to within ``tol``."""
        return self._state.result.status.converged

    @property
    def trace_(self) -> Array:
        """Objective (log-likelihood or its lower bound) before each iteration and at the end: (n_iter + 1,)."""
        return np.array(self._state.result.trace)

    @property
    def n_iter_(self) -> int:
        """Number of iterations; for the closed form, number of passes over the rows."""
        return self._state.result.n_iter

    @property
    def n_components_(self) -> int:
        """Number of components of the model."""
        return self._state.result.model.n_components

    @property
    def empty_features_(self) -> Index:
        """Positions of the columns that have no observed cell in the training data: ndarray of int."""
        return self._state.result.empty

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that ``transform`` returns.

        Parameters
        ----------
        input_features : sequence of str or None, default=None
            Names of the input columns. They only have to match those of the fit, as in scikit-learn.

        Returns
        -------
        ndarray of str, shape (n_components,)
            PC1, PC2, ... for principal components; F1, F2, ... for the factors of ``LinearDynamicalSystem``.
        """
        _ = self._state  # says why there is no model, where scikit-learn would only say that there is none
        count = len(super().get_feature_names_out(input_features))  # which checks input_features
        return np.array(self._component_names(count), dtype=object)

    def _component_names(self, count: int) -> list[str]:
        """Names of the columns that ``transform`` returns, given their number."""
        return [f"{self._component}{j}" for j in range(1, count + 1)]

    def to_file(self, path: str | Path) -> None:
        """Save the fitted estimator to a file.

        Unlike a pickle the file contains numbers and text only, no code, so that it is safe to read.

        Parameters
        ----------
        path : str or Path
            Name of the file, in NumPy's npz format. An existing file is replaced and keeps its permissions; one
            that is read-only raises ``SourceError``. A pipe or a device is written into.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> ppca = PPCA(n_components=2).fit(load_iris().data)
        >>> with TemporaryDirectory() as folder:
        ...     ppca.to_file(Path(folder) / "model.npz")
        ...     again = PPCA.from_file(Path(folder) / "model.npz")
        >>> bool((again.components_ == ppca.components_).all())
        True
        """
        write_estimator(self, path)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Load a fitted estimator that ``to_file`` saved.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        Returns
        -------
        estimator
            The fitted estimator, of the class that this method is called on.

        Raises
        ------
        FileFormatError
            If this is not a file of such an estimator: another kind of file, a pipe, or a file that was damaged or
            changed. Every field is checked, and the error names the one that is wrong.
        """
        estimator: Self = read_estimator(cls, path)
        return estimator

    def _generator(self, random_state: Any) -> np.random.Generator:
        return generator(self.random_state if random_state is None else random_state)

    def _finish(self, fit: Fit) -> Self:
        """Keep the result of a fit, and warn about what is wrong with it."""
        self._fitted = fit
        if not self.converged_:
            warnings.warn(self.status_.value, ConvergenceWarning, stacklevel=3)
        empty = self.empty_features_
        if empty.size:
            msg = (
                f"no observed cells in {empty.size} of {self.n_features_in_} columns (first: {empty[0]}); their "
                "loadings and mean are 0.\nHint: empty_features_ lists these columns; leave them out of the table."
            )
            warnings.warn(msg, UserWarning, stacklevel=3)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self._accepts_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def generator(random_state: Any) -> np.random.Generator:
    """Make a numpy Generator from what scikit-learn accepts as ``random_state``, or from a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    draw = _seed_of if isinstance(random_state, int) else _next_seed
    try:
        seed = draw(random_state)
    except ValueError as error:
        msg = f"random_state must be an int, a RandomState, a Generator or None; got {random_state!r}."
        raise DataError(msg) from error
    return np.random.default_rng(seed)


def _next_seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))


# Making a RandomState takes a sixth of the time of a small fit, and many fits share one number.
_seed_of = lru_cache(maxsize=128)(_next_seed)


@contextmanager
def fit_replaced(estimator: Any) -> Iterator[None]:
    """Forget an earlier fit, so that a fit that fails leaves none behind.

    If the new fit fails because a cluster was lost, the estimator stays as it was: nothing is wrong with its
    parameters or with the rows.
    """
    before = vars(estimator).copy()
    estimator._fitted = None  # noqa: SLF001
    try:
        yield
    except ClusterError:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def progress_bar(verbose: Any, objective: str = "ll") -> AbstractContextManager[ProgressBar | None]:
    """Make a progress bar, or None if nobody wants to see one."""
    return ProgressBar(enabled=True, objective=objective) if verbose else nullcontext()


# Rows in


def is_matrix(X: Any) -> bool:
    """Whether the rows are one table in memory: an array, a sparse matrix, a dataframe or nested lists."""
    return isinstance(X, np.ndarray) or sparse.issparse(X) or is_table(X)


def open_training(estimator: Any, X: Any, sample_weight: Any, cell_weight: Any, watch: Watch | None = None) -> Source:
    """Open the rows of a fit; set ``n_features_in_`` and ``feature_names_in_`` of the estimator."""
    options: dict[str, Any] = {
        "weight": sample_weight,
        "cell_weight": cell_weight,
        "unstored_missing": estimator.missing == "unstored",
        "n_jobs": estimator.n_jobs,
    }
    if is_matrix(X):
        # Values that are not finite show in the sums that the solver makes anyway.
        return open_source(checked_matrix(estimator, X, ensure_min_samples=2, ensure_min_features=2), **options)
    source = open_source(X, watch=watch, **options)
    estimator.n_features_in_ = source.n_features
    names = source.columns
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_  # of an earlier table
    return source


def checked_matrix(estimator: Any, X: Any, *, reset: bool = True, **options: Any) -> Any:
    """Rows in memory as an array of floats or a CSR matrix, after scikit-learn's checks of shape and names."""
    settings = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": False} | options
    X = unmasked(X)
    if is_frame(X) and not _is_plain_frame(X):
        values, _ = frame_values(X)  # scikit-learn would lose single precision, and take dates for numbers
        validate_data(estimator, X, reset=reset, skip_check_array=True)  # names and number of columns
        return check_array(values, estimator=estimator, input_name="X", **settings)
    return validate_data(estimator, _number_array(X), reset=reset, **settings)


def _is_plain_frame(X: Any) -> bool:
    """Whether this is a pandas dataframe of NumPy's numbers, or a sparse one, which scikit-learn converts quickly."""
    if not nw.dependencies.is_pandas_dataframe(X) or not X.columns.is_unique:
        return False
    return hasattr(X, "sparse") or all(isinstance(kind, np.dtype) and kind.kind in "fiub" for kind in X.dtypes)


def _number_array(X: Any) -> Any:
    """Return what scikit-learn may check as an array; raise an error for what it would misread or not explain."""
    if is_frame(X) or sparse.issparse(X) or (isinstance(X, list) and not X):
        return X
    if not is_matrix(X):
        msg = (
            f"this method takes a matrix of rows in memory; got {type(X).__name__}.\n"
            "Hint: pass some of its rows as an array."
        )
        raise SourceError(msg)
    if not isinstance(X, np.ndarray) and kind_of(X) == "nothing":
        return open_source(X)  # which raises, and says what it takes
    X = _array_of(X) if isinstance(X, list | tuple) else X
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if not kind or kind in "fiubc":  # scikit-learn refuses complex numbers
        return X
    if reason := not_numbers(X):
        msg = (
            f"rows must be numbers; {reason}.\n"
            "Hint: convert times to numbers, and pass the fields of records as a dataframe; "
            f"{NUMBERS_AS_TEXT}."
        )
        raise DataError(msg)
    return without_pandas_na(X) if isinstance(X, np.ndarray) else X


def _array_of(X: list[Any] | tuple[Any, ...]) -> Any:
    try:
        return np.asarray(X)
    except ValueError as error:
        msg = (
            f"rows must all have the same number of cells; got nested lists of different lengths ({error}).\n"
            "Hint: use NaN for missing cells."
        )
        raise ShapeError(msg) from error


def checked_latents(X: Any, n_components: int) -> Any:
    """Latent variables as a matrix of floats with a column for each component: (n, n_components)."""
    latent = check_array(unmasked(X), dtype=[np.float64, np.float32])
    if latent.shape[1] != n_components:
        msg = f"latent variables must form a matrix (n, {n_components}), a column per component; got {latent.shape}."
        raise ShapeError(msg)
    return latent


def require_no_infinity(estimator: Any, rows: Any) -> None:
    """Raise scikit-learn's error if a cell is infinite; NaN is a missing cell."""
    cells = rows.data if sparse.issparse(rows) else rows
    with np.errstate(all="ignore"):
        finite = np.isfinite(cells.sum())  # one quick pass that nearly always suffices
    if not finite and np.isinf(cells).any():
        assert_all_finite(cells, allow_nan=True, estimator_name=type(estimator).__name__, input_name="X")


def open_rows(estimator: Any, X: Any) -> Source:
    """Open rows that are not in memory, with their columns in the order of the fit if they have names."""
    names = as_text(getattr(estimator, "feature_names_in_", None))
    chosen = names if names is not None and is_path(X) and has_names(X) else None
    source = open_source(X, columns=chosen, unstored_missing=estimator.missing == "unstored", n_jobs=estimator.n_jobs)
    columns = source.columns
    if names is not None and columns is not None:
        order = order_of(columns, names)
        return source if order is None else source.arranged(order)
    if source.n_features != estimator.n_features_in_:
        msg = f"rows must have {estimator.n_features_in_} features, as in the fit; got {source.n_features}."
        raise ShapeError(msg)
    if names is not None and is_path(X):
        msg = f"the columns of {X} have no names; they are assumed to be those of the fit, in the same order."
        warnings.warn(msg, UserWarning, stacklevel=4)
    return source


# Answers out


def rounded(found: Any, kind: Any) -> Any:
    """Round an answer, an array or a named tuple of arrays, to the floating-point type of the rows that it is about.

    Arrays with values beyond the range of that type stay as they are.
    """
    if isinstance(found, tuple):
        return type(found)(*(rounded(part, kind) for part in found))
    with np.errstate(over="ignore"):
        answer = found.astype(kind, copy=False)
    infinite = np.isinf(answer)
    return found if infinite.any() and np.isfinite(found[infinite]).any() else answer


def like(X: Any, values: Array) -> Any:
    """Return the values as a dataframe with the index and the names of ``X`` if X is a dataframe."""
    if isinstance(X, np.ndarray):
        return values
    if nw.dependencies.is_pandas_dataframe(X):
        return type(X)(values, index=X.index, columns=X.columns)
    if nw.dependencies.is_into_dataframe(X):
        frame = nw.from_native(X, eager_only=True)
        return table_of(values, frame.columns, frame.implementation)
    return values


def table_of(values: Array, names: Any, backend: Any) -> Any:
    """Make a dataframe of the library that narwhals calls ``backend``, without an index."""
    return frame_of({name: values[:, j] for j, name in enumerate(names)}, backend)


def names_for(X: Any, columns: Any) -> Names:
    """Names of an answer about the rows of ``X``: those of the rows and the library of ``X``, and ``columns``."""
    named = None if columns is None else tuple(str(name) for name in columns)
    if nw.dependencies.is_pandas_dataframe(X):
        return Names(named, X.index, "pandas")
    if nw.dependencies.is_into_dataframe(X):
        return Names(named, None, nw.from_native(X, eager_only=True).implementation.value)
    return Names(named)
