"""From what a user passes to a source, and back to what the user should know."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from probpca.errors import ShapeError
from probpca.sources import open_source
from probpca.sources.files import has_names, is_path
from probpca.sources.open import is_table
from probpca.sources.readers.frames import as_text, order_of
from probpca.sources.source import arranged
from probpca.sources.write import write_rows

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.sources import Source
    from probpca.sources.source import Watch


def open_table(estimator: Any, X: Any, sample_weight: Any, cell_weight: Any, watch: Watch | None = None) -> Source:
    """Make a source of the rows to fit to; note names and number of features on the estimator."""
    options: dict[str, Any] = {
        "weight": sample_weight,
        "cell_weight": cell_weight,
        "unstored_missing": estimator.missing == "unstored",
        "n_jobs": estimator.n_jobs,
    }
    if not is_table(X):
        source = open_source(X, watch=watch, **options)
        estimator.n_features_in_ = source.n_features
        estimator.__dict__.pop("feature_names_in_", None)  # of a table fitted before
        names = getattr(source, "columns", None)
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return source
    # Values that are not finite show in the sums that the solver makes anyway.
    rows = validate_data(
        estimator,
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=2,
        ensure_min_features=2,
    )
    return open_source(rows, **options)


def open_rows(estimator: Any, X: Any) -> Source:
    """Make a source of the rows of a question; columns that have names are those that the fit saw."""
    names = as_text(getattr(estimator, "feature_names_in_", None))
    chosen = names if names is not None and is_path(X) and has_names(X) else None
    unstored = getattr(estimator, "missing", "nan") == "unstored"
    source = open_source(X, columns=chosen, unstored_missing=unstored, n_jobs=estimator.n_jobs)
    columns = getattr(source, "columns", None)
    if names is not None and columns is not None:
        order = order_of(columns, names)
        return source if order is None else arranged(source, order)
    if source.n_features != estimator.model_.n_features:
        msg = f"rows must have {estimator.model_.n_features} features, as the fit had; got {source.n_features}."
        raise ShapeError(msg)
    if names is not None and is_path(X):
        msg = f"the columns of {X} have no names; they are taken to be those of the fit, in the same order."
        warnings.warn(msg, UserWarning, stacklevel=4)
    return source


def write_answers(source: Source, function: Any, out: Any, names: Any) -> Path:
    """Answer a row-wise question to a file."""
    return write_rows(out, source.answers(function), names)


def warn_of_flaws(estimator: Any) -> None:
    """Say what is not as it should be about a fit that was kept all the same."""
    if not estimator.converged_:
        warnings.warn(estimator.status_.value, ConvergenceWarning, stacklevel=3)
    empty = estimator.empty_features_
    if empty.size:
        msg = (
            f"nothing was observed of {empty.size} of {estimator.n_features_in_} columns (first: {empty[0]}); "
            "their loadings and mean are 0. See empty_features_."
        )
        warnings.warn(msg, UserWarning, stacklevel=3)
