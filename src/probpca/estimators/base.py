"""What a fit leaves behind on an estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from probpca.estimators.summary import summary
from probpca.learning.bayesian.fit import BeliefResult
from probpca.learning.result import complete_information
from probpca.models.serialization import model_arrays, model_from_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from probpca.learning import FitResult, SeriesResult, Status

FITTED = (
    "model_",
    "status_",
    "log_likelihood_",
    "trace_",
    "n_iter_",
    "n_components_",
    "n_samples_",
    "rule_",
    "n_observed_",
    "empty_features_",
    "information_",
)


class FitStory:
    """The model, and how it came about: what every iterative fit leaves."""

    model_: Any
    status_: Any

    @property
    def converged_(self) -> bool:
        """Is the model the maximum of the likelihood, to within ``tol``?"""
        status: Status = self.status_
        return status.converged

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _keep_story(self, result: FitResult | SeriesResult | BeliefResult) -> None:
        self.model_ = result.model
        self.status_ = result.status
        if isinstance(result, BeliefResult):
            self.lower_bound_ = result.lower_bound
        else:
            self.log_likelihood_ = result.log_likelihood
        self.trace_ = np.array(result.trace)
        self.n_iter_ = result.n_iter
        self.n_components_ = result.model.n_components


class FittedFacts(FitStory):
    """The same of a linear-Gaussian model of rows, and what of it goes into a file."""

    _stored_numbers: ClassVar[tuple[str, ...]] = (
        "log_likelihood_",
        "n_iter_",
        "n_samples_",
        "n_observed_",
        "rule_",
        "n_features_in_",
    )
    _stored_arrays: ClassVar[tuple[str, ...]] = ("trace_", "information_", "empty_features_")

    def _parts(self) -> dict[str, Any]:
        """The arrays that make up what was learned."""
        return model_arrays(self.model_)

    def _take_parts(self, path: str | Path, arrays: Mapping[str, Any]) -> None:
        """Put them together again."""
        self.model_ = model_from_arrays(path, arrays)

    def summary(self, feature_names: Any = None) -> str:
        """A table for people: how many components, what they hold, how the fit ended."""
        return summary(self, feature_names)

    def _keep(self, result: FitResult) -> None:
        self._keep_story(result)
        self.n_samples_ = result.weight
        self.rule_ = result.rule
        d = result.model.n_features
        self.n_observed_ = result.weight * d if result.cells is None else result.cells
        self.empty_features_ = np.empty(0, np.intp) if result.empty is None else result.empty
        self.information_ = (
            complete_information(result.weight, self.n_components_)
            if result.information is None
            else result.information
        )
