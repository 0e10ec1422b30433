"""Methods of a fitted model of a table: latent variables, likelihoods, missing cells, outliers, samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from probpca.available_memory import require_memory
from probpca.blocks import Block, as_block
from probpca.blocks.block import unmasked
from probpca.cached_property import cached_property
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
    MissingCells,
    ParameterCovariance,
    impute,
    impute_training,
    impute_training_with_uncertainty,
    impute_with_uncertainty,
)
from probpca.inference.latent_axes import LatentAxes
from probpca.inference.likelihood import log_likelihood
from probpca.inference.outlier_scores import Outliers, outliers
from probpca.inference.posteriors import posterior, posterior_covariance, posterior_mean
from probpca.learning.training_distances import NO_ROWS, TrainingDistances, training_distances
from probpca.learning.uncertainty.parameter_draws import bytes_of_draws
from probpca.models import Gaussian, LinearGaussian
from probpca.result_tables import default_names
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
    axes: LatentAxes = field(default=LatentAxes(), kw_only=True)

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
    """Base class of estimators that fit a linear-Gaussian model to the rows of a table."""

    _accepts_sparse = True
    model_: LinearGaussian
    missing: str
    n_jobs: int | None

    @property
    def rule_(self) -> str:
        """How the number of components was chosen, in words: such as "parallel analysis" or "as given"."""
        return self._state.result.rule

    @property
    def notes_(self) -> tuple[str, ...]:
        """Remarks on the choice of the number of components, as sentences; empty if there are none."""
        return self._state.result.notes

    @property
    def column_std_(self) -> Array | None:
        """Standard deviation of each training column, (n_features,), 0 if constant; None if ``standardize=True``."""
        return self._state.result.column_std

    @property
    def n_observed_(self) -> float:
        """Number of observed cells in the training data; a row counts ``sample_weight`` times."""
        return self._state.result.cells

    @property
    def n_samples_(self) -> float:
        """Number of training rows; a row counts ``sample_weight`` times."""
        return self._state.result.weight

    @property
    def row_weight_(self) -> Array | None:
        """Share of each training row that a robust fit used, 0 or 1 for nearly all: (n,); None after other fits."""
        return getattr(self._state.result, "row_weight", None)

    @property
    def cell_weight_(self) -> Array | None:
        """Weight of each training cell after a fit with ``robust="cells"``: (n, n_features); None after other fits."""
        return getattr(self._state.result, "cell_weight", None)

    @property
    def draw_seed_(self) -> int:
        """Seed of the parameter draws of ``impute_draws``, taken from ``random_state`` during the fit."""
        return self._state.draw_seed

    @property
    def calibration_(self) -> Calibration:
        """Reference distribution of the p-values that ``outliers`` computes, matched to the training rows."""
        return self._state.calibration

    @property
    def mean_(self) -> Array:
        """Mean mu of the model in the units of the data: (n_features,)."""
        return self.model_.mean

    @property
    def scale_(self) -> Array | None:
        """Standard deviations that the columns were divided by, (n_features,); None if ``standardize=False``."""
        scale: Array | None = self._state.result.scale
        return scale

    @property
    def _scaled_model(self) -> LinearGaussian:
        """The model of the columns as the fit saw them: divided by ``scale_`` if there is one."""
        model: LinearGaussian = self._state.scaled_model
        return model

    @property
    def loadings_(self) -> Array:
        """Loadings W along the principal axes: (n_features, n_components).

        A loading is the change of a column when a component rises by one standard deviation. With ``standardize=True``
        it is measured in standard deviations of the column.
        """
        return self._axes.loadings(self._scaled_model.loadings)

    @property
    def components_(self) -> Array:
        """Principal axes as orthonormal rows: (n_components, n_features).

        With ``standardize=True`` they are the axes of the scaled columns.
        """
        return self._scaled_model.principal_axes[0].T

    @property
    def noise_variance_(self) -> Any:
        """Variance sigma2 of the noise, of the scaled columns if ``standardize=True``: a float.

        An estimator made by ``LinearDynamicalSystem.to_ppca`` may have one for each feature: (n_features,).
        """
        noise = self._scaled_model.noise_variance
        return float(noise) if noise.ndim == 0 else noise

    @property
    def explained_variance_(self) -> Array:
        """Variance of the model along each principal axis, largest first: (n_components,).

        Variances divide by n, not by n - 1 as those of ``sklearn.decomposition.PCA``.
        """
        return projection.explained_variance(self._scaled_model)

    @property
    def explained_variance_ratio_(self) -> Array:
        """Share of the total variance that each component explains, between 0 and 1: (n_components,)."""
        return projection.explained_variance_ratio(self._scaled_model)

    @property
    def _axes(self) -> LatentAxes:
        """The axes of the latent variables in which questions are answered."""
        axes: LatentAxes = self._state.axes
        return axes

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Any:
        """Fit the model to ``X`` and return the component scores of the same rows.

        The same as ``fit(X).transform(X)``.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows to fit. NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequency of each row: a row of weight 2 counts twice, and a row of weight 0 not at all. Weights must sum to
            at least 2.
        cell_weight : array-like of shape (n, n_features) or None, default=None
            Relative precision of each cell: a cell of weight 0 counts as missing.

        Returns
        -------
        ndarray of shape (n, n_components)
            Posterior mean of the latent variables of each row.
        """
        if isinstance(X, Iterator):
            msg = "fit_transform reads its rows twice; an iterator can be read once.\nHint: pass a list of batches."
            raise SourceError(msg)
        fitted: Any = self
        return fitted.fit(X, y, sample_weight=sample_weight, cell_weight=cell_weight).transform(X)

    def transform(self, X: Any, *, out: Any = None) -> Any:
        r"""Component scores: the posterior mean of the latent variables of each row.

        .. math:: E[z \mid x] = (W^\top W + \sigma^2 I)^{-1} W^\top (x - \mu)

        Only the observed cells of a row are used. In the model each latent variable has mean 0 and variance 1;
        the noise shrinks scores towards 0. For the coordinates of classical PCA use ``project``.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        out : str, Path or None, default=None
            Name of a file (.npy, Parquet, Feather or CSV). The scores are written to it block by block, so that they
            need not fit into memory.

        Returns
        -------
        ndarray of shape (n, n_components), or a dataframe after ``set_output``
            Columns are named PC1, PC2, ... With ``out``, the path of the file.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> ppca = PPCA(n_components=2).fit(X)
        >>> ppca.transform(X[:2]).round(2)
        array([[-1.3 ,  0.58],
               [-1.32, -0.32]])

        Dataframes of component scores:

        >>> ppca.set_output(transform="pandas").transform(X[:2]).round(2)
            PC1   PC2
        0 -1.30  0.58
        1 -1.32 -0.32
        """
        return self._answer(self._axes.encode, X, out, self.get_feature_names_out, rounding=True)

    def inverse_transform(self, X: Any) -> Array:
        """Rows predicted from latent variables: W z + mu.

        Parameters
        ----------
        X : array of shape (n, n_components)
            Latent variables z, such as ``transform`` returns.

        Returns
        -------
        ndarray of shape (n, n_features)
            Predicted rows in the units of the data. With ``standardize=True`` these are
            ``scale_ * (X @ loadings_.T) + mean_``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> ppca = PPCA(n_components=2).fit(X)
        >>> ppca.inverse_transform(ppca.transform(X[:1])).round(1), X[:1]
        (array([[5.1, 3.5, 1.4, 0.2]]), array([[5.1, 3.5, 1.4, 0.2]]))
        """
        latent = checked_latents(X, self.n_components_)
        return rounded(projection.decode(self.model_, self._axes.to_latent(latent)), latent.dtype)

    def posterior(self, X: Any) -> Gaussian:
        r"""Posterior distribution of the latent variables of each row.

        .. math::
            z \mid x \sim N(m, P), \qquad P = (I + W^\top \Psi^{-1} W)^{-1}, \quad m = P W^\top \Psi^{-1} (x - \mu)

        W are the loadings and :math:`\Psi` is the covariance of the noise, :math:`\sigma^2 I`. For a row with missing
        cells, W, :math:`\Psi` and :math:`\mu` are restricted to its observed cells.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.

        Returns
        -------
        Gaussian
            ``mean`` of shape (n, n_components) and ``covariance`` of shape (n, n_components, n_components). If no cell
            is missing, all rows share one covariance, and the array is a read-only view of it. ``print`` and a
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
        names, axes = names_for(X, self.get_feature_names_out()), self._axes
        return Gaussian(axes.of_latent(mean), axes.covariance(covariance), names)

    def project(self, X: Any) -> Array:
        """Coordinates of rows along the principal axes, as in classical PCA: ``(X - mean_) @ components_.T``.

        Unlike ``transform`` this does not shrink towards 0, and coordinates have the units of the data. Rows with
        missing cells are projected by least squares over their observed cells. With ``standardize=True`` the rows are
        ``(X - mean_) / scale_``.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.

        Returns
        -------
        ndarray of shape (n, n_components)
            Coordinates along the principal axes.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.decomposition import PCA
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> ppca = PPCA(n_components=2).fit(X)
        >>> classical = PCA(n_components=2).fit_transform(X)
        >>> np.allclose(np.abs(ppca.project(X)), np.abs(classical))  # signs are arbitrary
        True
        >>> ppca.project(X[:1]).round(2), ppca.transform(X[:1]).round(2)
        (array([[-2.68,  0.32]]), array([[-1.3 ,  0.58]]))
        """
        return self._answer(partial(projection.project, scale=self.scale_), X, rounding=True)

    def reconstruct(self, X: Any) -> Array:
        """Project rows onto the principal subspace and return the projections in the units of the data.

        These are the nearest points of the subspace, as in classical PCA: ``project(X) @ components_ + mean_``. With
        ``standardize=True`` distances are measured in units of ``scale_``, by which the product is multiplied.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.

        Returns
        -------
        ndarray of shape (n, n_features)
            Reconstructed rows.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> PPCA(n_components=2).fit(X).reconstruct(X[:1]).round(1), X[:1]
        (array([[5.1, 3.5, 1.4, 0.2]]), array([[5.1, 3.5, 1.4, 0.2]]))
        """
        return self._answer(partial(projection.reconstruct, scale=self.scale_), X, rounding=True)

    def score_samples(self, X: Any, *, out: Any = None) -> Any:
        """Log-likelihood of each row: the log density of its observed cells under the model.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        out : str, Path or None, default=None
            Name of a file (.npy, Parquet, Feather or CSV) to which the values are written block by block.

        Returns
        -------
        ndarray of shape (n,)
            Log-likelihoods in nats. With ``out``, the path of the file.
        """
        return self._answer(log_likelihood, X, out, lambda: ["log_likelihood"])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per row, as scikit-learn's PCA returns it: larger is better.

        Use it on held-out rows to compare models, for example in ``cross_val_score``.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,) or None, default=None
            Weight of each row in the mean.

        Returns
        -------
        float
            Mean log-likelihood in nats.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.model_selection import cross_val_score
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> [round(float(cross_val_score(PPCA(n_components=q), X, cv=5).mean()), 2) for q in (1, 2, 3)]
        [-3.71, -3.29, -3.21]
        """
        return mean_score(self.score_samples(X), sample_weight)

    def log_likelihood(self, X: Any) -> float:
        """Total log-likelihood of rows: the sum of ``score_samples(X)``.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.

        Returns
        -------
        float
            Log-likelihood in nats.
        """
        return float(self.score_samples(X).sum())

    def outliers(self, X: Any, *, training: bool = False) -> Outliers:
        r"""Squared Mahalanobis distance of each row from the model, with p-values and the contribution of each cell.

        .. math:: D^2 = (x - \mu)^\top C^{-1} (x - \mu), \qquad D^2 / (a k) \sim F(k, \nu)

        C is the covariance of the model, and k the number of observed cells of the row. The scale a and the degrees of
        freedom :math:`\nu`, stored in ``calibration_``, were matched to at most 2,000 training rows (fewer for wide
        tables), so that p-values stay valid for data with heavier tails than a Gaussian. Every observed cell counts
        the same, also after a fit with ``cell_weight``. After a robust fit the reference is chi-square, with the scale
        of the rows that the fit used.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        training : bool, default=False
            Whether ``X`` are training rows. If so, each p-value is based on the leave-one-out distance: the distance
            of the row from a model fitted without it.

        Returns
        -------
        Outliers
            ``p_value`` and ``distance`` of each row, (n,), the ``contributions`` of cells, (n, n_features), and more.
            ``model_p_value`` treats the fitted Gaussian as exact. ``note`` warns if outliers may mask each other, or
            says why p-values are not calibrated. ``print`` and a notebook show the least likely rows with the cells
            that contribute most; ``to_frame()`` has all rows.

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
        result = self._state.result
        # The distances of the rows that a robust fit did not use are those of new rows.
        ordinary = getattr(result, "row_weight", None) is None
        left_out_of = rows_per_feature(result) if checked_training(training) and ordinary else None
        found: Any = self._answer(partial(_outliers, self.calibration_, left_out_of), X)
        return found._replace(names=names_for(X, self._names())) if isinstance(found, Outliers) else found

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Array:
        """Draw new rows from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState, Generator or None, default=None
            Source of random numbers. None: the ``random_state`` of the estimator.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows W z + mu + noise, with z and the noise drawn at random, in the units of the data.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> PPCA(n_components=2).fit(X).sample(1000, random_state=0).mean(axis=0).round(1), X.mean(axis=0).round(1)
        (array([5.9, 3. , 3.8, 1.2]), array([5.8, 3.1, 3.8, 1.2]))
        """
        _ = self._state
        if n_samples < 0:
            msg = f"n_samples must not be negative; got {n_samples}."
            raise ShapeError(msg)
        return sampling.sample(self.model_, n_samples, rng=self._generator(random_state))

    def explore(self, X: Any, n_draws: int = 10, *, random_state: Any = None) -> Array:
        """Draw rows similar to each given row.

        For each draw, latent variables come from the posterior of the row, and cells from the model given these latent
        variables. The draws show which rows the model cannot tell from the given one.

        Parameters
        ----------
        X : array, sparse matrix or dataframe
            Rows in memory with the columns of the fit. NaN marks a missing cell.
        n_draws : int, default=10
            Number of draws for each row.
        random_state : int, RandomState, Generator or None, default=None
            Source of random numbers. None: the ``random_state`` of the estimator.

        Returns
        -------
        ndarray of shape (n_draws, n, n_features)
            Drawn rows in the units of the data.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> drawn = PPCA(n_components=2).fit(X).explore(X[:1], n_draws=200, random_state=0)
        >>> drawn.shape, drawn.mean(axis=0).round(1), drawn.std(axis=0).round(1)
        ((200, 1, 4), array([[5. , 3.4, 1.4, 0.2]]), array([[0.3, 0.3, 0.3, 0.2]]))
        """
        rows = self._block(X)
        drawn = sampling.explore(self.model_, rows, n_draws, rng=self._generator(random_state))
        return rounded(drawn, rows.values.dtype)

    def joint(self) -> Gaussian:
        r"""Joint Gaussian distribution of a row x and its latent variables z.

        .. math::
            \begin{pmatrix} x \\ z \end{pmatrix} \sim N\left(
            \begin{pmatrix} \mu \\ 0 \end{pmatrix},
            \begin{pmatrix} W W^\top + \Psi & W \\ W^\top & I \end{pmatrix} \right)

        Returns
        -------
        Gaussian
            ``mean`` of shape (n_features + n_components,), and the dense ``covariance`` of these variables.
        """
        return self._axes.joint(self.model_)

    def condition(self, features: Any, values: Any = None) -> ConditionalPrediction:
        r"""Predict the other columns of new rows from the columns that are known.

        .. math:: x_u \mid x_o \sim N(\mu_u + W_u m, \; W_u P W_u^\top + \Psi_u)

        Here m and P are the mean and covariance of the posterior of the latent variables, given the known columns
        :math:`x_o`; u marks the columns to predict.

        Parameters
        ----------
        features : dataframe, or sequence of str or int
            A dataframe that holds only the known columns; or the names or positions of the known columns.
        values : array of shape (n, n_known) or dataframe, optional
            Values of the known columns, one row for each prediction. Columns of a dataframe are found by name. Leave
            it out if ``features`` is a dataframe.

        Returns
        -------
        ConditionalPrediction
            ``mean`` of shape (n, n_predicted), ``std`` of shape (n_predicted,), and ``interval(level)``. Means and
            intervals are dataframes if the known columns are one.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> iris = load_iris(as_frame=True).data
        >>> ppca = PPCA(n_components=2).fit(iris)
        >>> ppca.condition(iris.loc[[5, 100], ["petal length (cm)", "petal width (cm)"]])
        Prediction of 2 columns for 2 rows: mean and 95% interval
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
        """Covariance of the model, W W' plus the noise variance on the diagonal: (n_features, n_features)."""
        return self.model_.covariance.dense()

    def get_precision(self) -> Array:
        """Inverse of the model covariance, (n_features, n_features), computed by the Woodbury identity."""
        return self.model_.covariance.dense_inverse()

    def impute(self, X: Any, *, return_std: bool = False, out: Any = None, training: bool = False) -> Any:
        r"""Replace missing cells by their conditional means given the observed cells of the row.

        .. math:: E[x_j \mid x_o] = \mu_j + w_j^\top E[z \mid x_o]

        Observed cells are returned unchanged.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        return_std : bool, default=False
            Whether to return the standard deviation of each cell too. It includes the noise, the uncertainty of the
            latent variables of the row, and the uncertainty of the fitted parameters.
        out : str, Path or None, default=None
            Name of a file (.npy, Parquet, Feather or CSV) to which completed rows are written block by block. Cannot
            be combined with ``return_std``.
        training : bool, default=False
            Whether ``X`` are training rows, all of them or some. ``BayesianPCA`` then uses the posterior of their
            latent variables that it found during the fit, which predicts better if rows have few observed cells.
            For ``PPCA`` the result is the same.

        Returns
        -------
        completed : array or dataframe of shape (n, n_features)
            A dataframe if ``X`` is one. With ``out``, the path of the file.
        std : array or dataframe of shape (n, n_features)
            Only if ``return_std=True``: standard deviations of missing cells; 0 for observed cells.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> X[0, 2] = np.nan
        >>> completed, std = PPCA(n_components=2).fit(X).impute(X[:1], return_std=True)
        >>> completed.round(2), std.round(2)
        (array([[5.1 , 3.5 , 1.57, 0.2 ]]), array([[0.  , 0.  , 0.45, 0.  ]]))
        """
        belief = self._belief_for(training=training)
        if not return_std:
            question = impute if belief is None else partial(_impute_training, belief)
            found = self._answer(question, X, out, self._names, rounding=True)
            return like(X, found) if out is None else found
        if out is not None:
            msg = "out cannot be combined with return_std: the file holds completed rows only.\nHint: omit one of them."
            raise DataError(msg)
        imputed: Imputed = self._answer(self._imputation(belief), X, rounding=True)
        return like(X, imputed.values), like(X, imputed.std)

    def impute_interval(self, X: Any, level: float = 0.95, *, training: bool = False) -> tuple[Any, Any]:
        """Prediction intervals of missing cells.

        Intervals allow for the noise, the uncertainty of the latent variables of the row, and the uncertainty of the
        fitted parameters.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        level : float, default=0.95
            Probability that an interval contains the true value of its cell.
        training : bool, default=False
            Whether ``X`` are training rows, all of them or some. ``BayesianPCA`` then uses the posterior of their
            latent variables that it found during the fit. For ``PPCA`` the result is the same.

        Returns
        -------
        low, high : arrays or dataframes of shape (n, n_features)
            Lower and upper ends. Both ends of an observed cell are its value.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> X[0, 2] = np.nan
        >>> low, high = PPCA(n_components=2).fit(X).impute_interval(X[:1], level=0.9)
        >>> low.round(2), high.round(2)
        (array([[5.1 , 3.5 , 0.83, 0.2 ]]), array([[5.1 , 3.5 , 2.32, 0.2 ]]))
        """
        ends = partial(_interval, self._imputation(self._belief_for(training=training)), level)
        found: _Interval = self._answer(ends, X, rounding=True)
        return like(X, found.lower), like(X, found.upper)

    def impute_draws(self, X: Any, n_draws: int = 20, *, random_state: Any = None) -> Array:
        """Draw completed tables for multiple imputation.

        Each table has its own draw of the parameters: ``PPCA`` refits the model to resampled training rows,
        ``BayesianPCA`` draws from the posterior of the parameters. Latent variables and missing cells are then drawn
        given these parameters. Analyse each table as if it were complete, and combine the results with
        ``probpca.inference.pool`` (Rubin's rules).

        ``PPCA`` must be fitted with ``keep_source=True``, or with ``n_parameter_draws`` of at least ``n_draws``.

        Parameters
        ----------
        X : array, sparse matrix or dataframe
            Rows in memory with the columns of the fit. NaN marks a missing cell.
        n_draws : int, default=20
            Number of completed tables.
        random_state : int, RandomState, Generator or None, default=None
            Source of random numbers for the cells. None: the ``random_state`` of the estimator. The draws of the
            parameters depend on the ``random_state`` of the fit only.

        Returns
        -------
        ndarray of shape (n_draws, n, n_features)
            Completed tables. Observed cells are the same in all of them.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> X[0, 2] = np.nan
        >>> ppca = PPCA(n_components=2, keep_source=True, random_state=0).fit(X)
        >>> tables = ppca.impute_draws(X, n_draws=30)
        >>> tables.shape, np.ptp(tables[:, 0, 1]) == 0, bool(tables[:, 0, 2].std() > 0.2)
        ((30, 150, 4), np.True_, True)
        """
        _ = self._state
        if not (hasattr(n_draws, "__index__") and n_draws >= 1):
            msg = f"n_draws must be a whole number, at least 1; got {n_draws!r}."
            raise ShapeError(msg)
        rng = self._generator(random_state)
        rows = self._block(X)
        tables = _empty_tables(int(n_draws), rows, self.model_, rows.values.dtype)
        cells = MissingCells.of(rows, self.model_.mean)
        for k, model in enumerate(self._parameters(n_draws)):
            drawn = rounded(cells.draw(model, rng=rng), tables.dtype)
            if drawn.dtype != tables.dtype:  # values beyond the range of float32
                earlier, tables = tables[:k], _empty_tables(int(n_draws), rows, self.model_, drawn.dtype)
                tables[:k] = earlier
            tables[k] = drawn
        return tables

    @abstractmethod
    def _parameters(self, n_draws: int) -> list[LinearGaussian]:
        """Draws of the model, the same whenever they are made."""

    @abstractmethod
    def _training_belief(self) -> ParameterBelief | None:
        """Posterior of the parameters in a variational fit; None if there is none but the model."""

    def _belief_for(self, *, training: Any) -> ParameterBelief | None:
        """The belief by which rows are imputed; None for the model."""
        return self._training_belief() if checked_training(training) else None

    def _imputation(self, belief: ParameterBelief | None) -> Callable[[LinearGaussian, Any], Imputed]:
        """The function that completes rows, with the standard deviation of each cell, from one posterior."""
        doubt = self._state.doubt
        if belief is None:
            return partial(_impute_with_uncertainty, doubt)
        return partial(_impute_training_with_uncertainty, belief, doubt)

    def _names(self) -> Any:
        return getattr(self, "feature_names_in_", default_names(self.model_.n_features))

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
        return block_of(self, X)

    def _answer(
        self,
        function: Callable[[LinearGaussian, Any], Any],
        X: Any,
        out: Any = None,
        names: Callable[[], Any] = list,
        *,
        rounding: bool = False,
    ) -> Any:
        """Answer a row-wise question about rows wherever they are."""
        return answer(self, function, X, out, names, rounding=rounding)


def block_of(estimator: Any, X: Any) -> Block:
    """Rows in memory as one block, after scikit-learn's checks of the rows of a fitted estimator."""
    _ = estimator._state  # noqa: SLF001
    rows = as_block(checked_matrix(estimator, X, reset=False)).values
    require_no_infinity(estimator, rows)
    return Block(rows, unstored_missing=estimator.missing == "unstored" and sparse.issparse(rows))


def mean_score(scores: Array, sample_weight: Any) -> float:
    """Mean of the scores of rows, which may have weights."""
    if sample_weight is None:
        return float(scores.mean())
    w = check_weight(sample_weight, scores.size)
    return float(np.average(scores, weights=w / w.max()))  # so that the sum of huge weights does not overflow


def answer(
    estimator: Any,
    function: Callable[[Any, Any], Any],
    X: Any,
    out: Any = None,
    names: Callable[[], Any] = list,
    *,
    rounding: bool = False,
) -> Any:
    """Answer a row-wise question about rows wherever they are, large tables block by block in parallel.

    With ``rounding`` the answer has the floating-point type of the rows; files take it in double precision.
    """
    model = estimator.model_
    question = partial(function, model)
    if rounding and out is None:
        question = partial(_in_precision_of_rows, question)
    if is_matrix(X):
        block = block_of(estimator, X)
        if out is None and next(block.pieces()).stop == block.n_rows:  # small enough for one piece
            with np.errstate(all="ignore"):
                return question(block)
        source = open_source(block.values, unstored_missing=block.unstored_missing, n_jobs=estimator.n_jobs)
    else:
        source = open_rows(estimator, X)
    model.prepare()  # here once, before each worker would
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


def _empty_tables(n_draws: int, rows: Block, model: LinearGaussian, kind: np.dtype[Any]) -> Array:
    """Uninitialised array for draws of a table; raises ``NotEnoughMemoryError`` if it would fill the memory.

    Half of it stays free: whoever analyses completed tables needs about as much again.
    """
    n, d = rows.n_rows, rows.n_features
    needed = n_draws * n * d * kind.itemsize + bytes_of_draws(n_draws, d, model.n_components)
    what = f"{n_draws:,} draws of {n:,} rows and {d:,} columns"
    require_memory(what, needed, "use fewer draws, or pass fewer rows at a time", share=0.5)
    return np.empty((n_draws, n, d), kind)


def checked_training(training: Any) -> bool:
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
