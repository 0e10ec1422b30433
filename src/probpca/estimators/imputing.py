"""What a fitted estimator can say about missing cells."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from probpca.errors import DataError, ShapeError
from probpca.estimators.frames import like
from probpca.inference.imputation import Imputed, ParameterCovariance, draw_missing, impute, impute_with_uncertainty
from probpca.learning.uncertainty.parameter_draws import draw_parameters, noise_inflation

if TYPE_CHECKING:
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array


class ImputationQueries:
    """Fill in missing cells, say how sure, draw them."""

    model_: LinearGaussian
    information_: Array
    n_observed_: float
    n_samples_: float
    n_components_: int
    draw_seed_: int
    empty_features_: Any

    def impute(self, X: Any, *, return_std: bool = False, out: Any = None) -> Any:
        """Rows with missing cells replaced by their conditional means: (n, n_features).

        Observed cells are returned bit for bit. With ``return_std`` also the standard deviation of each
        cell, 0 where it was observed; it counts the noise, the doubt about the row's latent variables,
        and the doubt about the parameters that a finite table leaves. A dataframe comes back as one.
        With ``out``, the name of a file, completed rows are written there as they come.
        """
        if not return_std:
            found = self._answer(impute, X, out, self._names)  # type: ignore[attr-defined]
            return like(X, found) if out is None else found
        if out is not None:
            msg = "out= takes completed rows; standard deviations come as an array.\nHint: leave out one of the two."
            raise DataError(msg)
        doubted = self._imputed(X)
        return like(X, doubted.values), like(X, doubted.std)

    def impute_interval(self, X: Any, level: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends that hold each missing cell with probability ``level``; observed cells as they are."""
        low, high = self._imputed(X).interval(level)
        return like(X, low), like(X, high)

    def impute_draws(self, X: Any, n_draws: int = 20, *, random_state: Any = None) -> Array:
        """Completed tables that differ as much as what is known allows: (n_draws, n, n_features).

        Proper multiple imputation: each table has parameters of its own, drawn by refitting resampled
        training rows; then latent variables, then cells. Do the analysis on each, and ``pool`` the results.
        The draws of parameters follow from the ``random_state`` of the fit, those of cells from this one.
        Needs ``keep_source=True``, or ``n_parameter_draws`` of at least ``n_draws``, at the fit.
        """
        check_is_fitted(self)
        if not (hasattr(n_draws, "__index__") and n_draws >= 1):
            msg = f"n_draws must be a whole number, at least 1; got {n_draws!r}."
            raise ShapeError(msg)
        rng = self._generator(random_state)  # type: ignore[attr-defined]
        models = self._parameters(n_draws)
        rows = self._block(X)  # type: ignore[attr-defined]
        return np.stack([draw_missing(model, rows, rng=rng) for model in models])

    def _imputed(self, X: Any) -> Imputed:
        check_is_fitted(self)
        found: Imputed = self._answer(partial(_with_doubt, self._doubt()), X)  # type: ignore[attr-defined]
        return found

    def _doubt(self) -> ParameterCovariance:
        return ParameterCovariance.of_fit(self.model_, self.information_, self._inflation())

    def _names(self) -> Any:
        return getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.model_.n_features)])

    def _inflation(self) -> float:
        d = self.model_.n_features - len(self.empty_features_)
        return noise_inflation(self.n_observed_, self.n_samples_, d, self.n_components_)

    def _draw_parameters(self, source: Source, first: int, last: int) -> list[LinearGaussian]:
        """Draws number ``first`` to ``last``, the same whenever they are made."""
        seeds = np.random.default_rng(self.draw_seed_).integers(2**63, size=last)[first:]
        return draw_parameters(source, self.model_, self._inflation(), [int(seed) for seed in seeds])

    def _parameters(self, n_draws: int) -> list[LinearGaussian]:
        made: list[LinearGaussian] = getattr(self, "parameter_draws_", [])
        if len(made) >= n_draws:
            return made[:n_draws]
        source = getattr(self, "source_", None)
        if source is None:
            msg = (
                f"{n_draws} draws of the parameters are needed, and {len(made)} were made at the fit.\n"
                f"Hint: fit with keep_source=True, or with n_parameter_draws={n_draws}."
            )
            raise DataError(msg)
        self.parameter_draws_ = made + self._draw_parameters(source, len(made), n_draws)
        return self.parameter_draws_


def _with_doubt(doubt: ParameterCovariance, model: LinearGaussian, x: Any) -> Imputed:
    return impute_with_uncertainty(model, x, doubt)
