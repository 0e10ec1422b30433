"""What every estimator of rows in a table has in common beside its questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin

from probpca.errors import SourceError
from probpca.estimators.base import FittedFacts
from probpca.estimators.imputing import ImputationQueries
from probpca.estimators.queries import LinearGaussianQueries
from probpca.estimators.storage import read_estimator, write_estimator

if TYPE_CHECKING:
    from pathlib import Path


class TableEstimator(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    FittedFacts,
    ImputationQueries,
    LinearGaussianQueries,
    BaseEstimator,  # type: ignore[misc]
):
    """A linear-Gaussian model of rows, fitted somehow."""

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Any:
        """Fit, then return the posterior means of the same rows."""
        if isinstance(X, Iterator):
            msg = "fit_transform reads its rows twice; an iterator can be read once.\nHint: pass a list of batches."
            raise SourceError(msg)
        fitted: Any = self
        return fitted.fit(X, y, sample_weight=sample_weight, cell_weight=cell_weight).transform(X)

    def to_file(self, path: str | Path) -> None:
        """Write parameters and fitted model to one file that holds no code."""
        write_estimator(self, path)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read what ``to_file`` wrote."""
        return read_estimator(cls, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags
