"""What a fitted estimator can say about how sure it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from probpca.errors import DataError, ShapeError, SourceError
from probpca.learning.progress import ProgressBar
from probpca.learning.uncertainty.asymptotic import COMFORTABLE, asymptotic_uncertainty
from probpca.learning.uncertainty.bootstrap import Bootstrap, bootstrap_uncertainty
from probpca.sources import open_source
from probpca.sources.open import is_table
from probpca.statistics import Columns

if TYPE_CHECKING:
    from probpca.learning.uncertainty.estimate import Estimate, ParameterUncertainty
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array

METHODS = ("auto", "asymptotic", "bootstrap")


class UncertaintyQueries:
    """Standard errors and intervals of the model itself."""

    model_: LinearGaussian
    information_: Array
    empty_features_: Any
    n_samples_: float
    n_observed_: float
    standardize: bool
    bias_correction: bool
    verbose: Any

    def uncertainty(
        self,
        X: Any = None,
        *,
        method: str = "auto",
        n_draws: int = 200,
        align: str = "signs",
        sample_weight: Any = None,
        cell_weight: Any = None,
        random_state: Any = None,
    ) -> ParameterUncertainty:
        """How sure the loadings, axes, variances and the mean are.

        Parameters
        ----------
        X : table or None, default=None
            The rows of the fit, to be resampled, with the ``sample_weight`` and ``cell_weight`` that it had. Not
            needed by "asymptotic", nor if the fit had ``keep_source=True``.
        method : "auto", "asymptotic" or "bootstrap", default="auto"
            "asymptotic": formulas for many complete rows that follow the model, Gaussian with one noise variance.
            "bootstrap": fits to rows drawn with replacement, whatever their distribution, with missing cells
            or without. "auto": the bootstrap if ``X`` is given; else the formulas if they apply and there are five
            rows or more for each feature; else the bootstrap.
        n_draws : int, default=200
            Number of resampled fits.
        align : "signs" or "procrustes", default="signs"
            How resampled loadings and axes are made comparable. "signs": in order of variance, as
            ``loadings_`` are; intervals are wide where two components have nearly the same variance, for then the
            data do not tell their axes apart. "procrustes": turned towards those of the fit; intervals are those of
            loadings up to a rotation.
        random_state : int, RandomState, Generator or None, default=None
            Decides which rows are drawn. None: that of the estimator.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> sure = PPCA(n_components=2, random_state=0).fit(X).uncertainty(X, n_draws=50)
        >>> sure.method, sure.loadings.standard_error.shape
        ('bootstrap', (4, 2))
        """
        check_is_fitted(self)
        _check(method, n_draws)
        how = Bootstrap(bool(self.model_.noise_variance.ndim), self.bias_correction, align)
        obstacle = self._obstacle_to_formulas()
        chosen = method if method != "auto" else self._method(X, obstacle)
        if chosen == "asymptotic":
            if obstacle:
                msg = f"the large-sample formulas do not apply: {obstacle}.\nHint: method='bootstrap'."
                raise DataError(msg)
            return self._told(asymptotic_uncertainty(self.model_, self.n_samples_, corrected=self.bias_correction))
        source = self._training_rows(X, sample_weight, cell_weight)
        rng = self._generator(random_state)  # type: ignore[attr-defined]
        seeds = [int(seed) for seed in rng.integers(2**63, size=n_draws)]
        with ProgressBar(enabled=bool(self.verbose)) as bar:
            return self._told(bootstrap_uncertainty(source, self.model_, seeds, how, bar.draws))

    def _obstacle_to_formulas(self) -> str:
        """Why the formulas cannot be used; empty if they can."""
        if self.model_.noise_variance.ndim:
            return "columns were standardised by what the rows themselves say"
        if self.information_.shape[1] > 1:
            return "cells were missing, or weighted"
        return ""

    def _method(self, X: Any, obstacle: str) -> str:
        if X is not None:
            return "bootstrap"
        n, d = self.n_samples_, self.model_.n_features
        if not obstacle and n >= COMFORTABLE * d:
            return "asymptotic"
        if hasattr(self, "source_"):
            return "bootstrap"
        why = obstacle or f"{n:,.0f} rows are fewer than {COMFORTABLE} for each of {d:,} features"
        msg = f"the rows of the fit are needed, to be resampled: {why}.\nHint: pass them as X, or fit with keep_source."
        raise DataError(msg)

    def _training_rows(self, X: Any, sample_weight: Any, cell_weight: Any) -> Source:
        if X is None and (sample_weight is not None or cell_weight is not None):
            msg = "weights go with the rows that they weigh.\nHint: pass X too."
            raise DataError(msg)
        if X is None:
            kept: Source | None = getattr(self, "source_", None)
            if kept is None:
                msg = "the rows of the fit are needed, to be resampled.\nHint: pass them as X, or fit with keep_source."
                raise DataError(msg)
            return kept
        if not is_table(X):
            msg = "resampling takes rows held in memory; these are read in batches.\nHint: pass one matrix."
            raise SourceError(msg)
        rows = open_source(
            self._validated(X),  # type: ignore[attr-defined]
            weight=sample_weight,
            cell_weight=cell_weight,
            unstored_missing=self._unstored_missing,  # type: ignore[attr-defined]
            n_jobs=self.n_jobs,  # type: ignore[attr-defined]
        )
        columns = rows.fold(Columns.of)
        self._require_same("rows", self.n_samples_, columns.rows)
        self._require_same("observed cells", self.n_observed_, float(columns.observed.sum()))
        return rows

    def _require_same(self, what: str, fitted: float, count: float) -> None:
        if not np.isclose(count, fitted, rtol=1e-6):
            msg = (
                f"X must be the rows of the fit, which had {fitted:,.6g} {what}; got {count:,.6g}.\n"
                "Hint: pass the same table, and the weights that the fit had."
            )
            raise DataError(msg)

    def _told(self, found: ParameterUncertainty) -> ParameterUncertainty:
        """With the names of columns; of those that were never observed nothing is known."""
        unseen = np.isin(np.arange(found.n_features), self.empty_features_)
        if unseen.any():
            found = replace(
                found,
                loadings=_unknown(found.loadings, unseen[:, None]),
                components=_unknown(found.components, unseen),
                mean=_unknown(found.mean, unseen),
            )
        names = getattr(self, "feature_names_in_", None)
        return found if names is None else replace(found, feature_names=tuple(str(name) for name in names))


def _unknown(estimate: Estimate, where: Any) -> Estimate:
    return replace(estimate, standard_error=np.where(where, np.inf, estimate.standard_error))


def _check(method: str, n_draws: Any) -> None:
    if method not in METHODS:
        msg = f"method must be one of {', '.join(METHODS)}; got {method!r}."
        raise DataError(msg)
    if not (hasattr(n_draws, "__index__") and n_draws >= 2):
        msg = f"n_draws must be a whole number, at least 2; got {n_draws!r}."
        raise ShapeError(msg)
