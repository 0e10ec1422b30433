"""Questions to a fitted model of a table: latent variables, likelihoods, missing cells, outliers, samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from probpca.blocks import Block, as_block
from probpca.blocks.block import unmasked
from probpca.errors import DataError, ShapeError, SourceError
from probpca.estimators.base import (
    Estimator,
    Fit,
    checked_latents,
    checked_matrix,
    is_matrix,
    like,
    names_for,
    open_rows,
    require_no_infinity,
    rounded,
)
from probpca.estimators.conditional_prediction import ConditionalPrediction, chosen_columns, known_columns
from probpca.inference import conditioning, projection, sampling
from probpca.inference.calibration import Calibration
from probpca.inference.imputation import (
    Imputed,
    ParameterCovariance,
    draw_missing,
    impute,
    impute_training,
    impute_training_with_uncertainty,
    impute_with_uncertainty,
)
from probpca.inference.likelihood import log_likelihood
from probpca.inference.outlier_scores import Outliers, outliers
from probpca.inference.posteriors import posterior, posterior_covariance, posterior_mean
from probpca.learning.training_distances import NO_ROWS, TrainingDistances, training_distances
from probpca.models import Gaussian, LinearGaussian
from probpca.sources import open_source
from probpca.sources.open import check_weight
from probpca.sources.write import write_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.models import ParameterBelief
    from probpca.sources import Source
    from probpca.typing import Array


@dataclass(frozen=True, eq=False)
class TableFit(Fit):
    """What a fit to a table found, with the distances of its rows from the model."""

    training: TrainingDistances | Calibration = field(default=NO_ROWS, kw_only=True)

    @cached_property
    def calibration(self) -> Calibration:
        """Reference distribution of p-values; matched to the distances at the first question."""
        return self.training if isinstance(self.training, Calibration) else self.training.calibrate()


def distances_of_fit(source: Source, result: Any, *, complete: bool = False) -> TrainingDistances | Calibration:
    """Distances of the rows of a fit from its model; of rows that are not in memory those of a sample."""
    rows = source if source.in_memory else result.sample
    return training_distances(result.model, rows, rows_per_feature(result), complete=complete)


def rows_per_feature(result: Any) -> float:
    """Number of rows, weighted, in which a feature was observed on average: all rows of a complete table."""
    if result.cells is None:
        return float(result.weight)
    empty = 0 if result.empty is None else len(result.empty)
    return float(result.cells / max(result.model.n_features - empty, 1))


class TableEstimator(Estimator):
    """An estimator with a linear-Gaussian model of the rows of a table: the questions to that model."""

    _accepts_sparse = True
    model_: LinearGaussian
    missing: str
    n_jobs: int | None

    @property
    def rule_(self) -> str:
        """How the number of components was chosen."""
        return self._state.result.rule

    @property
    def notes_(self) -> tuple[str, ...]:
        """Sentences about the choice of the number of components."""
        return self._state.result.notes

    @property
    def column_std_(self) -> Array | None:
        """Standard deviation of each column, 0 if constant: (n_features,); None if columns were standardised."""
        return self._state.result.column_std

    @property
    def n_observed_(self) -> float:
        """Number of observed cells in the training data, rows weighted by ``sample_weight``."""
        return self._state.result.cells

    @property
    def n_samples_(self) -> float:
        """Number of training rows, weighted by ``sample_weight``."""
        return self._state.result.weight

    @property
    def draw_seed_(self) -> int:
        """Seed from which ``impute_draws`` draws parameters."""
        return self._state.draw_seed

    @property
    def calibration_(self) -> Calibration:
        """Reference distribution of the p-values of ``outliers``, matched to the rows of the fit."""
        return self._state.calibration

    @property
    def mean_(self) -> Array:
        """Mean mu, in the units of the data: (n_features,)."""
        return self.model_.mean

    @property
    def scale_(self) -> Array | None:
        """Standard deviations by which ``standardize=True`` divided the columns, (n_features,); None without it."""
        scale: Array | None = self._state.result.scale
        return scale

    @property
    def _scaled_model(self) -> LinearGaussian:
        """The model of the columns as the fit saw them: divided by ``scale_`` if there is one."""
        model: LinearGaussian = self._state.scaled_model
        return model

    @property
    def loadings_(self) -> Array:
        """Loadings W along the principal axes, of scaled columns if standardised: (n_features, n_components)."""
        return self._scaled_model.loadings

    @property
    def components_(self) -> Array:
        """Principal axes, of scaled columns if standardised, orthonormal, one a row: (n_components, n_features)."""
        return self._scaled_model.principal_axes[0].T

    @property
    def noise_variance_(self) -> Any:
        """Noise variance, of scaled columns if standardised: a number; ``to_ppca`` may give one for each feature."""
        noise = self._scaled_model.noise_variance
        return float(noise) if noise.ndim == 0 else noise

    @property
    def explained_variance_(self) -> Array:
        """Variance of the model along each principal axis, 1/n convention: (n_components,)."""
        return projection.explained_variance(self._scaled_model)

    @property
    def explained_variance_ratio_(self) -> Array:
        """Variance along each principal axis as a share of the total variance of the model: (n_components,)."""
        return projection.explained_variance_ratio(self._scaled_model)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Any:
        """Fit, then return the posterior means of the same rows."""
        if isinstance(X, Iterator):
            msg = "fit_transform reads its rows twice; an iterator can be read once.\nHint: pass a list of batches."
            raise SourceError(msg)
        fitted: Any = self
        return fitted.fit(X, y, sample_weight=sample_weight, cell_weight=cell_weight).transform(X)

    def transform(self, X: Any, *, out: Any = None) -> Any:
        """Posterior mean of the latent variables of each row: (n, n_components).

        With ``out``, the name of a file (.npy, Parquet, Feather, CSV), the means are written there block by block.
        """
        return self._answer(posterior_mean, X, out, self.get_feature_names_out, rounding=True)

    def inverse_transform(self, X: Any) -> Array:
        """Rows predicted from latent variables, W z + mu, in the units of the data: (n, n_features).

        After ``standardize=True`` these are ``scale_ * (X @ loadings_.T) + mean_``.
        """
        latent = checked_latents(X, self.n_components_)
        return rounded(projection.decode(self.model_, latent), latent.dtype)

    def posterior(self, X: Any) -> Gaussian:
        r"""Posterior of the latent variables of each row: mean (n, q) and covariance (n, q, q).

        .. math::
            z \mid x \sim N(m, P), \qquad P = (I + W^\top \Psi^{-1} W)^{-1}, \quad m = P W^\top \Psi^{-1} (x - \mu)

        If no cell is missing all rows share one covariance, and the array is a read-only view of it. ``print`` and a
        notebook show the mean and standard deviation of each component; ``to_frame()`` has them for every row.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris(as_frame=True).data
        >>> PPCA(n_components=2).fit(X).posterior(X).to_frame().head(2).round(2)
            PC1  PC1_std   PC2  PC2_std
        0 -1.30     0.11  0.58     0.46
        1 -1.32     0.11 -0.32     0.46
        """
        mean, incomplete, own = (np.asarray(part) for part in self._answer(_posterior, X))
        n, q = mean.shape
        covariance = np.broadcast_to(posterior_covariance(self.model_), (n, q, q))
        if incomplete.any():
            covariance = np.array(covariance)
            covariance[incomplete] = own
        return Gaussian(mean, covariance, names_for(X, self.get_feature_names_out()))

    def project(self, X: Any) -> Array:
        """Coordinates along the principal axes, as classical PCA has them: (n, n_components).

        After ``standardize=True`` they are those of ``(X - mean_) / scale_``.
        """
        return self._answer(partial(projection.project, scale=self.scale_), X, rounding=True)

    def reconstruct(self, X: Any) -> Array:
        """The nearest points of the principal subspace, in the units of the data: (n, n_features).

        After ``standardize=True`` distances are measured in units of ``scale_``.
        """
        return self._answer(partial(projection.reconstruct, scale=self.scale_), X, rounding=True)

    def score_samples(self, X: Any, *, out: Any = None) -> Any:
        """Log-likelihood of each row: (n,). With ``out``, the name of a file, it is written there block by block."""
        return self._answer(log_likelihood, X, out, lambda: ["log_likelihood"])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood of a row, weighted if weights are given."""
        scores = self.score_samples(X)
        if sample_weight is None:
            return float(scores.mean())
        return float(np.average(scores, weights=check_weight(sample_weight, scores.size)))

    def log_likelihood(self, X: Any) -> float:
        """Total log-likelihood of the rows."""
        return float(self.score_samples(X).sum())

    def outliers(self, X: Any, *, training: bool = False) -> Outliers:
        r"""Squared Mahalanobis distance of each row from the model, with p-values and the contribution of each cell.

        .. math:: D^2 = (x - \mu)^\top C^{-1} (x - \mu), \qquad D^2 / (a k) \sim F(k, \nu)

        k is the number of observed cells of the row; a and :math:`\nu`, in ``calibration_``, were matched to rows of
        the fit: to at most 2,000 of them, fewer of wide tables. ``training=True`` says that ``X`` are rows of the
        fit: each is then judged as if it had been left out. ``model_p_value`` is that of the fitted Gaussian, which
        treats its parameters as known. ``note`` warns of masking, or says why p-values are not calibrated. Every
        observed cell counts the same, also after a fit with ``cell_weight``.

        ``print`` and a notebook show the least likely rows with the cells that contribute most; ``to_frame()`` has all.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> ppca = PPCA(n_components=2).fit(X)
        >>> found = ppca.outliers(X, training=True)
        >>> worst = found.p_value.argsort()[:3]
        >>> worst, found.p_value[worst].round(3), found.model_p_value[worst].round(3)
        (array([100, 106, 131]), array([0.027, 0.033, 0.034]), array([0.012, 0.017, 0.019]))
        """
        left_out_of = rows_per_feature(self._state.result) if _checked(training) else None
        found: Any = self._answer(partial(_outliers, self.calibration_, left_out_of), X)
        return found._replace(names=names_for(X, self._names())) if isinstance(found, Outliers) else found

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Array:
        """Draw rows from the model: (n_samples, n_features)."""
        _ = self._state
        if n_samples < 0:
            msg = f"n_samples must not be negative; got {n_samples}."
            raise ShapeError(msg)
        return sampling.sample(self.model_, n_samples, rng=self._generator(random_state))

    def explore(self, X: Any, n_draws: int = 10, *, random_state: Any = None) -> Array:
        """Draw plausible neighbours of each row, from the posterior of its latents: (n_draws, n, n_features)."""
        rows = self._block(X)
        drawn = sampling.explore(self.model_, rows, n_draws, rng=self._generator(random_state))
        return rounded(drawn, rows.values.dtype)

    def joint(self) -> Gaussian:
        """The joint Gaussian of data and latent variables, of size n_features + n_components."""
        return conditioning.joint(self.model_)

    def condition(self, features: Any, values: Any = None) -> ConditionalPrediction:
        r"""Predict all other columns from the ``values`` of some ``features``, given by name or position.

        .. math:: x_u \mid x_o \sim N(\mu_u + W_u m, \; W_u P W_u^\top + \Psi_u)

        with m and P the posterior of the latent variables given the known columns :math:`x_o`. ``condition(X)`` with
        a dataframe takes its columns for the known features. Of a dataframe columns are found by name, and the answer
        is a dataframe with the names of the predicted columns.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> iris = load_iris(as_frame=True).data
        >>> ppca = PPCA(n_components=2).fit(iris)
        >>> ppca.condition(iris.loc[[5, 100], ["petal length (cm)", "petal width (cm)"]])
        Prediction of 2 columns for 2 rows: mean and 95 % interval
        row       sepal length (cm)        sepal width (cm)
        5    5.012 (4.230 to 5.794)  3.271 (2.517 to 4.024)
        100  6.809 (6.026 to 7.591)  2.806 (2.053 to 3.559)
        """
        _ = self._state
        names = [*map(str, self.feature_names_in_)] if hasattr(self, "feature_names_in_") else None
        known, given = known_columns(features, values, names)
        positions = conditioning.feature_index(self._positions(known), self.model_.n_features)
        cells = check_array(
            unmasked(chosen_columns([*positions], given, names)), dtype=np.float64, ensure_min_features=0
        )
        found = conditioning.condition(self.model_, positions, cells)
        return ConditionalPrediction(found, given, [*map(str, self._names())])

    def get_covariance(self) -> Array:
        """The covariance W W' + Psi of the model: (n_features, n_features)."""
        return self.model_.covariance.dense()

    def get_precision(self) -> Array:
        """Inverse of the model covariance, (n_features, n_features), computed by the Woodbury identity."""
        return self.model_.covariance.dense_inverse()

    def impute(self, X: Any, *, return_std: bool = False, out: Any = None, training: bool = False) -> Any:
        """Rows with missing cells replaced by their conditional means: (n, n_features).

        Observed cells are returned bit for bit. With ``return_std`` also the standard deviation of each cell, 0
        where it was observed: it includes the noise, the uncertainty of the row's latent variables, and the
        uncertainty of the parameters that a finite table leaves. A dataframe comes back as a dataframe.
        With ``out``, the name of a file, completed rows are written there block by block.

        ``training=True`` says that ``X`` are rows of the fit, all of them or some. ``BayesianPCA`` then uses the
        posterior that the fit itself found for their latent variables, which predicts their missing cells better where
        rows have few cells. For ``PPCA`` it is the posterior of the model, and the answer is the same.
        """
        belief = self._belief_for(training=training)
        if not return_std:
            question = impute if belief is None else partial(_impute_training, belief)
            found = self._answer(question, X, out, self._names, rounding=True)
            return like(X, found) if out is None else found
        if out is not None:
            msg = "out= takes completed rows; standard deviations come as an array.\nHint: leave out one of the two."
            raise DataError(msg)
        imputed: Imputed = self._answer(self._imputation(belief), X, rounding=True)
        return like(X, imputed.values), like(X, imputed.std)

    def impute_interval(self, X: Any, level: float = 0.95, *, training: bool = False) -> tuple[Any, Any]:
        """Lower and upper ends of intervals that contain each missing cell with probability ``level``.

        Both ends of an observed cell are its value. ``training=True`` says that ``X`` are rows of the fit, as for
        ``impute``.
        """
        ends = partial(_interval, self._imputation(self._belief_for(training=training)), level)
        found: _Interval = self._answer(ends, X, rounding=True)
        return like(X, found.lower), like(X, found.upper)

    def impute_draws(self, X: Any, n_draws: int = 20, *, random_state: Any = None) -> Array:
        """Draw completed tables for multiple imputation: (n_draws, n, n_features).

        For each table parameters are drawn, by a fit to resampled training rows (``BayesianPCA``: from their
        posterior); then latent variables, then cells. Analyse each table, and combine the results by ``pool``. The
        draws of parameters depend on the ``random_state`` of the fit, those of cells on this one. ``PPCA`` must be
        fitted with ``keep_source=True``, or with ``n_parameter_draws`` of at least ``n_draws``.
        """
        _ = self._state
        if not (hasattr(n_draws, "__index__") and n_draws >= 1):
            msg = f"n_draws must be a whole number, at least 1; got {n_draws!r}."
            raise ShapeError(msg)
        rng = self._generator(random_state)
        models = self._parameters(n_draws)
        rows = self._block(X)
        kind = rows.values.dtype
        return np.stack([rounded(draw_missing(model, rows, rng=rng), kind) for model in models])

    @abstractmethod
    def _parameters(self, n_draws: int) -> list[LinearGaussian]:
        """Draws of the model, the same whenever they are made."""

    @abstractmethod
    def _training_belief(self) -> ParameterBelief | None:
        """Posterior of the parameters in a variational fit; None if there is none but the model."""

    def _belief_for(self, *, training: Any) -> ParameterBelief | None:
        """The belief by which rows are imputed; None for the model."""
        return self._training_belief() if _checked(training) else None

    def _imputation(self, belief: ParameterBelief | None) -> Callable[[LinearGaussian, Any], Imputed]:
        """The function that completes rows, with the standard deviation of each cell, from one posterior."""
        doubt = self._state.doubt
        if belief is None:
            return partial(_impute_with_uncertainty, doubt)
        return partial(_impute_training_with_uncertainty, belief, doubt)

    def _names(self) -> Any:
        return getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.model_.n_features)])

    def _positions(self, features: Any) -> Any:
        names = list(getattr(self, "feature_names_in_", []))
        wanted = [features] if np.ndim(features) == 0 else list(features)
        if any(isinstance(feature, str) for feature in wanted):
            unknown = [feature for feature in wanted if feature not in names]
            if unknown:
                msg = f"no column is called {unknown[0]!r}; the fitted columns are {names or 'without names'}."
                raise ShapeError(msg)
            return [names.index(feature) for feature in wanted]
        return wanted

    def _block(self, X: Any) -> Block:
        """Rows in memory as one block, after scikit-learn's checks."""
        _ = self._state
        rows = as_block(checked_matrix(self, X, reset=False)).values
        require_no_infinity(self, rows)
        return Block(rows, unstored_missing=self.missing == "unstored" and sparse.issparse(rows))

    def _answer(
        self,
        function: Callable[[LinearGaussian, Any], Any],
        X: Any,
        out: Any = None,
        names: Callable[[], Any] = list,
        *,
        rounding: bool = False,
    ) -> Any:
        """Answer a row-wise question about rows wherever they are, large tables block by block in parallel.

        With ``rounding`` the answer has the floating-point type of the rows; files take it in double precision.
        """
        model = self.model_
        question = partial(function, model)
        if rounding and out is None:
            question = partial(_in_precision_of_rows, question)
        if is_matrix(X):
            block = self._block(X)
            if out is None and next(block.pieces()).stop == block.n_rows:  # small enough for one piece
                with np.errstate(all="ignore"):
                    return question(block)
            source = open_source(block.values, unstored_missing=block.unstored_missing, n_jobs=self.n_jobs)
        else:
            source = open_rows(self, X)
        _ = model.covariance.whitened  # computed here once, before each worker would
        if out is None:
            return source.map(question)
        return write_rows(out, source.answers(question), [*map(str, names())])


class _Posterior(NamedTuple):
    """Posterior of the rows of a block; covariances only if cells are missing."""

    mean: Array  # (n, q)
    incomplete: Array  # whether the row has a covariance of its own: (n,)
    covariance: Array  # of those rows: (m, q, q)


def _posterior(model: LinearGaussian, block: Block) -> _Posterior:
    n, q = block.n_rows, model.n_components
    if block.is_complete:
        return _Posterior(posterior_mean(model, block), np.zeros(n, dtype=bool), np.empty((0, q, q)))
    found = posterior(model, block)
    return _Posterior(found.mean, np.ones(n, dtype=bool), found.covariance)


class _Interval(NamedTuple):
    """Ends of intervals of the cells of a block."""

    lower: Array  # (n, d)
    upper: Array  # (n, d)


def _interval(imputation: Callable[..., Imputed], level: float, model: LinearGaussian, block: Block) -> _Interval:
    return _Interval(*imputation(model, block).interval(level))


def _in_precision_of_rows(question: Callable[[Block], Any], block: Block) -> Any:
    """Answer in double precision, then round to the floating-point type of the rows."""
    return rounded(question(block), block.values.dtype)


def _checked(training: Any) -> bool:
    """Whether rows are those of the fit; raises ``DataError`` unless it is True or False."""
    if not isinstance(training, bool | np.bool_):
        msg = f"training must be True or False; got {training!r}.\nHint: True says that X are rows of the fit."
        raise DataError(msg)
    return bool(training)


def _outliers(calibration: Calibration, left_out_of: float | None, model: LinearGaussian, x: Any) -> Outliers:
    return outliers(model, x, calibration, left_out_of=left_out_of)


def _impute_with_uncertainty(doubt: ParameterCovariance, model: LinearGaussian, x: Any) -> Imputed:
    return impute_with_uncertainty(model, x, doubt)


def _impute_training(belief: ParameterBelief, _: LinearGaussian, x: Any) -> Array:
    return impute_training(belief, x)


def _impute_training_with_uncertainty(
    belief: ParameterBelief, doubt: ParameterCovariance, _: LinearGaussian, x: Any
) -> Imputed:
    return impute_training_with_uncertainty(belief, x, doubt)
