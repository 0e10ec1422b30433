"""What a fit leaves behind on an estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.estimators.summary import summary
from probpca.learning.uncertainty import complete_information

if TYPE_CHECKING:
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

    def _keep_story(self, result: FitResult | SeriesResult) -> None:
        self.model_ = result.model
        self.status_ = result.status
        self.log_likelihood_ = result.log_likelihood
        self.trace_ = np.array(result.trace)
        self.n_iter_ = result.n_iter
        self.n_components_ = result.model.n_components


class FittedFacts(FitStory):
    """The same of a linear-Gaussian model of rows."""

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
