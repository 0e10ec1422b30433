"""From what a user passes to a source, and back to what the user should know."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from probpca.sources import open_source
from probpca.sources.opening import is_source

if TYPE_CHECKING:
    from probpca.sources import Source


def open_table(estimator: Any, X: Any, sample_weight: Any, cell_weight: Any) -> Source:
    """Make a source of the rows to fit to; note names and number of features on the estimator."""
    options: dict[str, Any] = {
        "weight": sample_weight,
        "cell_weight": cell_weight,
        "unstored_missing": estimator.missing == "unstored",
        "n_jobs": estimator.n_jobs,
    }
    if is_source(X) or isinstance(X, Iterator):
        source = open_source(X, **options)
        estimator.n_features_in_ = source.n_features
        estimator.__dict__.pop("feature_names_in_", None)  # of a table fitted before
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
