"""FactorAnalysis: maximum-likelihood factor analysis as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from probpca.blocks import observe
from probpca.cached_property import cached_property
from probpca.errors import DataError
from probpca.estimators.base import names_for
from probpca.estimators.constraints import check_parameters, factor_constraints
from probpca.estimators.maximum_likelihood import (
    LikelihoodFit,
    StreamedFit,
    drawn_parameters,
    fit_rows,
    merged_streams,
    present,
    reads_once,
    require_ordinary,
    stream_of,
    training_rows,
    with_batch,
)
from probpca.estimators.queries import TableEstimator
from probpca.estimators.summary import factor_summary
from probpca.inference import projection
from probpca.inference.imputation import noise_inflation_by_feature
from probpca.inference.latent_axes import LatentAxes
from probpca.learning import Settings, value_and_gradient
from probpca.learning.factor.fit import fit_factor_analysis
from probpca.learning.factor.fit_indices import FitIndices, fit_indices
from probpca.learning.factor.standard_errors import standard_errors
from probpca.learning.settings import FactorSettings, TrimmingSettings
from probpca.models.rotation import METHODS, Rotation, check_options, rotate
from probpca.result_tables import WIDTH, default_names, several
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from probpca.learning import Gradient
    from probpca.learning.factor.uncertainty import FactorUncertainty
    from probpca.learning.result import FitResult
    from probpca.learning.streaming.exact import Stream
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array, Index


@cache
def _none() -> Rotation:
    """The rotation of one factor, until the factors of a fit are rotated."""
    return rotate(np.ones((1, 1)), "none")


@dataclass(frozen=True, eq=False)
class FactorFit(LikelihoodFit):
    """Fitted state of ``FactorAnalysis``: the model in canonical axes, and the rotation of its factors."""

    rotation: Rotation = field(default_factory=_none, kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)  # of the rotation
    weighted: bool = field(default=False, kw_only=True)  # whether cells have weights
    told_indices: FitIndices | None = field(default=None, kw_only=True)
    columns: tuple[str, ...] | None = field(default=None, kw_only=True)  # names, for the note on the indices

    @classmethod
    def of(cls, result: FitResult, *rest: Any, **more: Any) -> Self:
        """Keep a result, and rotate its factors by the method ``method`` with the given ``options``."""
        method, options = more.pop("method"), more.pop("options")
        return super().of(result, *rest, **more).rotated(method, options)

    def rotated(self, method: str | None, options: Mapping[str, Any] | None) -> Self:
        """Copy with rotated factors."""
        given = {
            name: value.item() if isinstance(value, np.generic) else value for name, value in (options or {}).items()
        }
        found = rotate(self.standardised, method or "none", **given)
        return replace(self, rotation=found, options=given, axes=LatentAxes(found.matrix))

    def rotate_again(self, loadings: Array) -> Rotation:
        """Rotate similar loadings, beginning at the rotation of the fit."""
        options = {**self.options, "n_init": 1, "start": self.rotation.matrix}
        return rotate(loadings, self.rotation.method, **options)

    @cached_property
    def cell_model(self) -> LinearGaussian:
        """The model of cells of average precision, which does not depend on the unit of weights of cells."""
        model, unit = self.result.model, self.result.precision_unit
        return model if unit == 1 else replace(model, noise_variance=model.noise_variance / unit)

    @property
    def standardised(self) -> Array:
        """Canonical loadings of the features divided by their standard deviations: (d, q)."""
        return self.cell_model.loadings / np.sqrt(self.cell_model.covariance.diag())[:, None]

    @cached_property
    def indices(self) -> FitIndices | None:
        """Fit indices, from the moments of complete rows if none were computed from rows; None if unknown."""
        result = self.result
        if self.told_indices is not None or result.moments is None:
            return self.told_indices
        return fit_indices(
            result.model, result.moments, result.log_likelihood, heywood=result.heywood, columns=self.columns
        )

    @cached_property
    def noise_inflation(self) -> Array:
        """Factors that correct the noise variance of each feature for the parameters that were fitted to it."""
        model = self.result.model
        share = np.broadcast_to(self.information[-1], (model.n_features,))
        counts = share * (self.result.cells / share.sum())  # weights of cells are relative
        return noise_inflation_by_feature(counts, model.n_components)

    def record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers and arrays that go into a file."""
        numbers, arrays = super().record()
        rotation, indices = self.rotation, self.indices
        if indices is not None:
            arrays |= {"fit_indices_": np.array(indices.numbers())}
        numbers |= {
            "fit_indices_note": "" if indices is None else indices.note,
            "precision_unit": self.result.precision_unit,
            "rotation_method": rotation.method,
            "rotation_criterion": rotation.criterion,
            "rotation_n_iter": rotation.n_iter,
            "rotation_converged": rotation.converged,
            "rotation_options": dict(self.options),
            "cells_weighted": self.weighted,
        }
        return numbers, {**arrays, "rotation_matrix_": rotation.matrix, "heywood_features_": self.result.heywood}

    @classmethod
    def from_record(cls, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        fit = super().from_record(numbers, arrays)
        matrix = arrays["rotation_matrix_"]
        axes = LatentAxes(matrix)
        story = (numbers[f"rotation_{name}"] for name in ("criterion", "n_iter", "converged"))
        unit = numbers["precision_unit"]
        fit = replace(fit, result=fit.result._replace(heywood=arrays["heywood_features_"], precision_unit=unit))
        loadings = axes.loadings(fit.standardised)
        method = numbers["rotation_method"]
        correlations = matrix.T @ matrix if METHODS[method].oblique else np.eye(len(matrix))
        rotation = Rotation(method, matrix, loadings, correlations, *story)
        indices = None
        if "fit_indices_" in arrays:
            indices = FitIndices.of_numbers(arrays["fit_indices_"].tolist(), None, numbers["fit_indices_note"])
        given = {"options": numbers["rotation_options"], "weighted": numbers["cells_weighted"]}
        return replace(fit, rotation=rotation, axes=axes, told_indices=indices, **given)


def _gradient(rows: Source, model: LinearGaussian) -> Gradient:
    return value_and_gradient(model, rows)[1]


class FactorAnalysis(TableEstimator):
    r"""Factor analysis by maximum likelihood, with missing cells and rotations.

    .. math:: x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \Psi), \quad
        \Psi = \operatorname{diag}(\psi_1, \dots, \psi_d)

    Each row x with d columns is a linear function of q factors z, which the columns share, plus noise that belongs to
    one column alone and whose variance differs from column to column. ``PPCA`` is the special case of equal noise
    variances. Factors describe the correlations between columns; they do not change with the units of the columns,
    which therefore need no scaling.

    Parameters
    ----------
    n_components : int, str or None, default=None
        Number of factors.

        - int: this number, from 1 to d - 1.
        - "parallel" or None: parallel analysis, the number of eigenvalues of the correlation matrix that exceed those
          of independent columns.
        - "bic" or "aic": the number that minimises this criterion of the likelihood.
    rotation : str or None, default=None
        Rotation of the factors, which changes none of the answers about rows but their scores: "varimax", "quartimax"
        or "equamax" (uncorrelated factors), "promax", "oblimin" or "geomin" (correlated factors),
        "geomin_orthogonal". None or "none": the canonical axes, along which :math:`W^\top \Psi^{-1} W` is diagonal.
    rotation_options : dict or None, default=None
        Options of ``probpca.models.rotate``: ``kaiser``, ``gamma`` (oblimin), ``delta`` (geomin), ``power`` (promax),
        ``n_init``, ``tol`` and ``max_iter``.
    scores : "regression" or "bartlett", default="regression"
        Factor scores that ``transform`` returns: posterior means, or Bartlett's unbiased scores.
    floor : float, default=1e-6
        Smallest noise variance of a column, as a share of its variance. Columns that end there are Heywood cases.
    n_init : int, default=1
        Number of starts; the fit with the largest likelihood is kept.
    tol : float, default=1e-3
        Iterations stop when the total log-likelihood is estimated to be within ``tol`` of its maximum.
    max_iter : int, default=1000
        Largest number of iterations.
    missing : "nan" or "unstored", default="nan"
        NaN always marks a missing cell. With "unstored" the cells that a sparse matrix does not store are missing
        too; with "nan" they are zero.
    checkpoint : path or None, default=None
        Name of a file in which a fit to rows with missing cells saves its state after each iteration. An interrupted
        fit that is started again continues from this file, and removes it at the end.
    half_life : float or None, default=None
        For ``partial_fit``: number of later rows after which the weight of a row has halved. None: all rows have the
        same weight.
    robust : "rows", "cells" or None, default=None
        Protection from outliers. None: all rows and cells count the same.

        - "rows": the model is fitted to the rows that agree best with each other, at least the share ``keep`` of
          them. For rows that are wrong, or different, as a whole.
        - "cells": each cell counts by the probability that it follows the model, judged by its prediction from all
          other cells. For single wrong cells in many rows, and for rows that are different as a whole. ``tol`` and
          ``max_iter`` are for the ordinary fits that it starts from.

        ``row_weight_`` and ``cell_weight_`` say what was used. The rows are read again and again, in memory.
    keep : float, default=0.75
        Share of the rows that a robust fit trusts, from 0.5 to 1. With 0.75 up to about a quarter of the rows may be
        outliers, and 30% to 40% bend the fit; with 0.5 nearly half of them may be, at the price of less exact
        estimates of the rows that are trusted at first. With 1, ``robust="rows"`` is the ordinary fit.
    n_jobs : int or None, default=None
        Number of threads. None: as many as the linear algebra library (BLAS) uses. -1: all cores.
    verbose : bool, default=False
        Show a progress bar.
    keep_source : bool, default=False
        Whether to keep the training rows, so that ``impute_draws`` can resample them.
    n_parameter_draws : int, default=0
        Number of draws of the parameters, made at the end of the fit for ``impute_draws``.
    random_state : int, RandomState, Generator or None, default=None
        Determines random starts, and the draws of ``sample``, ``explore`` and ``impute_draws``.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        Loadings of the rotated factors in the units of the data, one factor per row, as in
        ``sklearn.decomposition.FactorAnalysis``.
    noise_variance_ : ndarray (n_features,)
        Noise variance psi of each column.
    mean_ : ndarray (n_features,)
        Mean mu of the rows.
    loadings_ : ndarray (n_features, n_components)
        The transpose of ``components_``.
    standardized_loadings_ : ndarray (n_features, n_components)
        Loadings of columns divided by their standard deviations, the pattern: coefficients of the regression of the
        standardized columns on the factors.
    factor_correlations_ : ndarray (n_components, n_components)
        Correlations Phi of the factors; the identity unless the rotation is oblique.
    structure_ : ndarray (n_features, n_components)
        Correlations of the columns with the factors.
    communalities_ : ndarray (n_features,)
        Share of the variance of each column that the factors explain.
    uniquenesses_ : ndarray (n_features,)
        Share of the variance of each column that is noise, 1 - communality.
    rotation_matrix_ : ndarray (n_components, n_components)
        Matrix T: the rotated factors are T'z, with z the canonical factors of ``model_``.
    rotation_ : Rotation
        The rotation with its criterion.
    explained_variance_ : ndarray (n_components,)
        Variance of the standardized columns that each factor explains, largest first after a rotation. Psychologists
        call it the sum of squared loadings. Variance that two correlated factors explain jointly is split equally
        between them.
    explained_variance_ratio_ : ndarray (n_components,)
        ``explained_variance_`` divided by the number of columns, constant ones included.
    heywood_features_ : ndarray of int
        Positions of the columns whose noise variance is at its floor.
    log_likelihood_ : float
        Total log-likelihood of the training rows.
    n_components_ : int
        Number of factors.
    rule_ : str
        How the number of factors was chosen, in words.
    notes_ : tuple of str
        Remarks on the choice of the number of factors.
    column_std_ : ndarray (n_features,)
        Standard deviation of each training column, 0 if constant.
    n_samples_ : float
        Number of training rows; a row counts ``sample_weight`` times.
    n_observed_ : float
        Number of observed cells; a row counts ``sample_weight`` times.
    empty_features_ : ndarray of int
        Positions of the columns without any observed cell. Their loadings and mean are 0.
    n_features_in_ : int
        Number of columns of the training data.
    feature_names_in_ : ndarray of str
        Names of the columns, if the training data have names.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit reached the maximum of the likelihood to within ``tol``.
    status_ : Status
        How the fit ended; ``status_.value`` is a sentence that explains it.
    trace_ : ndarray (n_iter + 1,)
        Log-likelihood before each iteration and at the end; only at the end after a fit with ``robust="cells"``.
    row_weight_ : ndarray (n,) or None
        After a robust fit, the share of each training row that was used: 0 or 1 for all but one row at most, and those
        equal to it. A row that was not used need not be an outlier; ``outliers`` judges rows.
    cell_weight_ : ndarray (n, n_features) or None
        After a fit with ``robust="cells"``, the weight of each training cell, between 0 and 1: the probability that it
        follows the model. 0 if the cell is missing.
    model_ : LinearGaussian
        The fitted model with canonical factors, for the functions of ``probpca.inference``.

    Notes
    -----
    Complete rows are fitted by Newton's method from one pass over them, rows with missing cells by
    expectation-maximisation, which maximises the likelihood of the observed cells ("full-information maximum
    likelihood").

    References
    ----------
    Joereskog, "Some contributions to maximum likelihood factor analysis", Psychometrika (1967).

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import FactorAnalysis
    >>> rng = np.random.default_rng(0)
    >>> abilities = rng.standard_normal((300, 2))
    >>> tests = abilities @ [[3.0, 2.0, 2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.2, 0.2, 0.2]]
    >>> tests += rng.standard_normal((300, 6)) * [2.0, 2.0, 1.0, 0.1, 0.2, 0.1]
    >>> tests[rng.random(tests.shape) < 0.1] = np.nan
    >>> factors = FactorAnalysis(n_components=2, rotation="varimax").fit(tests)
    >>> factors.standardized_loadings_.round(1) + 0.0
    array([[0. , 0.8],
           [0. , 0.7],
           [0. , 0.9],
           [0.9, 0. ],
           [0.7, 0. ],
           [0.9, 0. ]])
    >>> factors.transform(tests).shape
    (300, 2)
    """

    _constraints: ClassVar[dict[str, Any]] = factor_constraints()
    _fit_type = FactorFit
    _component = "F"

    def __init__(
        self,
        n_components: Any = None,
        *,
        rotation: str | None = None,
        rotation_options: Any = None,
        scores: str = "regression",
        floor: float = 1e-6,
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        missing: str = "nan",
        keep_source: bool = False,
        n_parameter_draws: int = 0,
        checkpoint: Any = None,
        half_life: float | None = None,
        robust: str | None = None,
        keep: float = 0.75,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        """Store the parameters; ``fit`` checks them."""
        self.n_components = n_components
        self.rotation = rotation
        self.rotation_options = rotation_options
        self.scores = scores
        self.floor = floor
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing
        self.keep_source = keep_source
        self.n_parameter_draws = n_parameter_draws
        self.checkpoint = checkpoint
        self.half_life = half_life
        self.robust = robust
        self.keep = keep
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Self:
        """Fit the model to rows with or without missing cells.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, Dask or Spark rows, or batches
            The rows to fit, of shape (n, n_features). Batches are a list of matrices or dataframes, an iterator, or an
            object that can be iterated over repeatedly. NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequency of each row: a row of weight 2 counts twice, and a row of weight 0 not at all. Weights must sum to
            at least 2.
        cell_weight : array-like of shape (n, n_features) or None, default=None
            Relative precision of each cell: its noise variance is that of its column divided by the weight. A cell of
            weight 0 counts as missing. A common factor of all weights changes only the unit of the noise variances.

        Returns
        -------
        FactorAnalysis
            The fitted estimator itself.
        """
        self._check_rotation()
        fit: Any = fit_rows(self, fit_factor_analysis, X, sample_weight, cell_weight)
        self._finish(fit if cell_weight is None else replace(fit, weighted=True))
        self._warn_about_heywood_cases()
        self._warn_about_rotation()
        return self

    def _check_rotation(self) -> None:
        """Raise ``DataError`` before a fit if its factors could not be rotated as asked."""
        check_parameters(self, self._constraints)
        check_options(self.rotation or "none", self.rotation_options or {})

    def _warn_about_rotation(self) -> None:
        if not self._state.rotation.converged:
            msg = f"the rotation {self.rotation!r} did not converge.\nHint: add 'max_iter': 50000 to rotation_options."
            warnings.warn(msg, ConvergenceWarning, stacklevel=3)

    def _warn_about_heywood_cases(self) -> None:
        heywood = self.heywood_features_
        if not heywood.size:
            return
        names = [str(name) for name in getattr(self, "feature_names_in_", default_names(self.n_features_in_))]
        which = ", ".join(names[j] for j in heywood[:5]) + (", ..." if heywood.size > 5 else "")
        msg = (
            f"the noise variance of {several(heywood.size, 'column')} is at its floor, {self.floor:g} of the variance "
            f"({which}): Heywood cases, which the factors explain completely.\nHint: use fewer factors or more rows."
        )
        warnings.warn(msg, UserWarning, stacklevel=3)

    def _settings(self, watch: Any = None) -> Settings:
        return Settings(
            tol=self.tol,
            max_iter=self.max_iter,
            watch=watch,
            n_init=self.n_init,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            noise="per_feature",
            factor=FactorSettings(floor=self.floor),
            trimming=TrimmingSettings(float(self.keep)),
        )

    @property
    def _details(self) -> dict[str, Any]:
        """What the fitted state keeps: parameters of the rotation, and the names of columns."""
        return {"method": self.rotation, "options": self.rotation_options, "columns": self._columns}

    @property
    def _axes(self) -> LatentAxes:
        """The rotated factors, with the kind of scores that the estimator has now."""
        return replace(self._state.axes, scores=self.scores)

    @property
    def _columns(self) -> tuple[str, ...] | None:
        """Names of the columns of the fit, if they have names."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))

    def rotate(self, method: str | None, **options: Any) -> Self:
        """Copy of the fitted estimator with other factors, rotated without another fit.

        Parameters
        ----------
        method : str or None
            Method of rotation, as the parameter ``rotation``; None for the canonical axes.
        **options
            Options of ``probpca.models.rotate``, as the parameter ``rotation_options``.

        Returns
        -------
        FactorAnalysis
            A fitted copy.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from probpca import FactorAnalysis
        >>> X = load_wine().data
        >>> factors = FactorAnalysis(n_components=2).fit(X)
        >>> factors.rotate("oblimin").factor_correlations_.shape
        (2, 2)
        """
        check_options(method or "none", options)
        fit, stream = self._state.rotated(method, options), stream_of(self)
        rotated = copy(self)
        rotated.rotation, rotated.rotation_options = method, options or None
        rotated._fitted = fit if stream is None else StreamedFit(stream, rotated, fit)  # noqa: SLF001
        rotated._warn_about_rotation()  # noqa: SLF001
        return rotated

    def project(self, X: Any) -> Array:
        r"""Bartlett's scores of the rotated factors: weighted least squares, not shrunk towards 0.

        .. math:: \hat f = (L^\top \Psi^{-1} L)^{-1} L^\top \Psi^{-1} (x - \mu)

        ``transform`` returns the same with ``scores="bartlett"``. Only the observed cells of a row are used.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.

        Returns
        -------
        ndarray of shape (n, n_components)
            Factor scores.
        """
        return self._answer(replace(self._axes, scores="bartlett").encode, X, rounding=True)

    def reconstruct(self, X: Any) -> Array:
        """Rows that Bartlett's scores predict, ``project(X) @ components_ + mean_``.

        They are the points of the subspace of the factors that are nearest to the rows, with distances in units of the
        noise of each column.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.

        Returns
        -------
        ndarray of shape (n, n_features)
            Predicted rows.
        """
        return self._answer(partial(projection.reconstruct, scale=np.sqrt(self.noise_variance_)), X, rounding=True)

    @property
    def rotation_(self) -> Rotation:
        """Rotation of the standardized loadings, with its criterion and the correlations of the factors."""
        return self._state.rotation

    @property
    def rotation_matrix_(self) -> Array:
        """Matrix T by which canonical scores are multiplied to get rotated ones: (n_components, n_components)."""
        return self._state.rotation.matrix

    @property
    def components_(self) -> Array:
        """Loadings of the rotated factors in the units of the data, one factor per row: (n_components, n_features)."""
        return self.loadings_.T

    @property
    def standardized_loadings_(self) -> Array:
        """Loadings of columns of unit variance on the rotated factors, the pattern: (n_features, n_components)."""
        return self._state.rotation.loadings

    @property
    def factor_correlations_(self) -> Array:
        """Correlations Phi of the rotated factors: (n_components, n_components)."""
        return self._state.rotation.correlations

    @property
    def structure_(self) -> Array:
        """Correlations of the columns with the rotated factors: (n_features, n_components)."""
        return self._state.rotation.structure

    @property
    def uniquenesses_(self) -> Array:
        """Share of the variance of each column that is noise: (n_features,)."""
        model: LinearGaussian = self._state.cell_model
        return np.asarray(model.noise_variance / model.covariance.diag())

    @property
    def communalities_(self) -> Array:
        """Share of the variance of each column that the factors explain: (n_features,)."""
        return np.asarray(np.square(self._state.standardised).sum(axis=1))

    @property
    def noise_variance_(self) -> Array:
        """Noise variance psi of each column, in the units of the data: (n_features,)."""
        noise: Array = self.model_.noise_variance
        return noise

    @property
    def explained_variance_(self) -> Array:
        """Variance of the standardized columns that each factor explains: (n_components,)."""
        return self._state.rotation.explained

    @property
    def explained_variance_ratio_(self) -> Array:
        """Share of the variance of the standardized columns that each factor explains: (n_components,)."""
        return self.explained_variance_ / self.n_features_in_

    @property
    def heywood_features_(self) -> Index:
        """Positions of the columns whose noise variance is at its floor: ndarray of int."""
        return self._state.result.heywood

    @property
    def log_likelihood_(self) -> float:
        """Total log-likelihood of the training rows, in nats."""
        return self._state.result.log_likelihood

    @property
    def information_(self) -> Array:
        """For each feature, the sum of E[t t'] with t = [z; 1] over the rows in which it was observed.

        The latent variables z are the canonical factors. The symmetric matrices are stored as vectors, one column for
        each feature, or a single one if they are equal.
        """
        return self._state.information

    @property
    def source_(self) -> Source:
        """The training rows; only after a fit with ``keep_source=True``."""
        return present(self, self._state.source, "source_")

    @property
    def parameter_draws_(self) -> list[LinearGaussian]:
        """Draws of the parameters as fitted models, made so far for ``impute_draws``."""
        return present(self, list(self._state.draws), "parameter_draws_")

    @property
    def stream_(self) -> Stream:
        """Sums over the rows seen by ``partial_fit``; only after ``partial_fit``."""
        return present(self, stream_of(self), "stream_")

    def _training_belief(self) -> None:
        return None  # the posterior of the latents in the fit is that of the model

    def _parameters(self, n_draws: int) -> list[LinearGaussian]:
        return drawn_parameters(self, n_draws)

    def fit_indices(
        self, X: Any = None, *, correction: Any = None, sample_weight: Any = None, cell_weight: Any = None
    ) -> FitIndices:
        """Indices of how well the factors explain the covariances: chi-square, RMSEA, CFI, TLI, SRMR, AIC and BIC.

        With missing cells they compare the likelihood of the observed cells with that of a Gaussian of any mean and
        covariance, which is fitted here. ``summary()`` shows the indices afterwards.

        Parameters
        ----------
        X : table, file name or None, default=None
            The training rows. None: not needed after a fit to complete rows with at most 200 columns, nor after a
            fit with ``keep_source=True``.
        correction : "bartlett" or None, default=None
            "bartlett" corrects chi-square for few rows. It needs complete rows.
        sample_weight, cell_weight : array-like or None, default=None
            The weights that the fit had, if it had any; only together with ``X``. Weights of cells must be equal, or 0
            for missing cells.

        Returns
        -------
        FitIndices
            ``chi_square``, ``df``, ``p_value``, ``rmsea``, ``rmsea_interval``, ``cfi``, ``tli``, ``srmr``, ``aic``,
            ``bic`` and more. ``note`` says what is doubtful about them. ``print`` and a notebook show a table.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from probpca import FactorAnalysis
        >>> found = FactorAnalysis(n_components=3).fit(load_wine().data).fit_indices()
        >>> round(found.rmsea, 2), round(found.cfi, 2), found.df
        (0.13, 0.9, 42)
        """
        fit: FactorFit = self._state
        require_ordinary(self, "fit_indices()")
        if X is None and correction is None and fit.indices is not None:
            return fit.indices
        if X is None and fit.result.moments is not None:
            rows: Any = fit.result.moments
        else:
            self._require_weights(X, cell_weight)
            rows = training_rows(self, X, sample_weight, cell_weight, "fit_indices()", in_memory=False)
        found = fit_indices(
            fit.cell_model, rows, correction=correction, heywood=self.heywood_features_, columns=self._columns
        )
        if correction is None and self._fitted is fit:
            self._fitted = replace(fit, told_indices=found)
        return found

    def _require_weights(self, X: Any, cell_weight: Any) -> None:
        if X is not None and cell_weight is None and self._state.weighted:
            msg = "the cells of the training rows had weights; got X without them.\nHint: pass cell_weight as to fit()."
            raise DataError(msg)

    def uncertainty(self, X: Any = None, *, sample_weight: Any = None, cell_weight: Any = None) -> FactorUncertainty:
        r"""Standard errors and intervals of standardized loadings, factor correlations and uniquenesses.

        They follow from the information of the likelihood by the delta method, rotation included. With missing cells
        the information is that of the observed cells, which takes about 2 d (q + 2) iterations.

        Parameters
        ----------
        X : table or None, default=None
            The training rows, in memory. None: not needed after a fit to complete rows, nor after a fit with
            ``keep_source=True``.
        sample_weight, cell_weight : array-like or None, default=None
            The weights that the fit had, if it had any; only together with ``X``.

        Returns
        -------
        FactorUncertainty
            ``loadings``, ``factor_correlations`` and ``uniquenesses``, each with ``value``, ``standard_error`` and
            ``interval(level)``. ``print`` and a notebook show a table; ``to_frame()`` has all loadings.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from probpca import FactorAnalysis
        >>> X = load_wine(as_frame=True).data
        >>> sure = FactorAnalysis(n_components=2, rotation="varimax").fit(X).uncertainty()
        >>> low, high = sure.loadings.interval(0.95)
        >>> low.shape, sure.information
        ((13, 2), 'expected')
        """
        fit: FactorFit = self._state
        require_ordinary(self, "uncertainty()")
        model, gradient = fit.cell_model, None
        if fit.information.shape[1] > 1:
            self._require_weights(X, cell_weight)
            given = training_rows(self, X, sample_weight, cell_weight, "uncertainty()")
            rows = given.with_precision_unit(fit.result.precision_unit).keep(partial(observe, centre=model.mean))
            gradient = partial(_gradient, rows)
        turn = None if fit.rotation.method == "none" else fit.rotate_again
        with one_blas_thread():
            found = standard_errors(model, self.n_samples_, turn, gradient, heywood=self.heywood_features_)
        names = names_for(X, self._columns)
        return replace(found, feature_names=names.columns, backend=names.backend)

    def summary(self, feature_names: Any = None, *, width: int = WIDTH) -> str:
        """Describe the fit as text: the factors, their largest loadings and correlations, and how the fit ended.

        Parameters
        ----------
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        width : int, default=88
            Largest number of characters in a line of a table.

        Returns
        -------
        str
            Several lines of text, ready to print.
        """
        return factor_summary(self, feature_names, width)

    # Streams

    @available_if(reads_once)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Update the model with one more batch of rows, for data that do not fit into memory or arrive over time.

        - Complete rows, up to 2,000 columns: exact. The model is the one that ``fit`` finds for all rows together,
          whatever the batches and their order.
        - Missing cells: online EM, which comes near the maximum of the likelihood after one pass. ``fit`` reaches the
          maximum if the rows can be read repeatedly.

        With ``half_life``, older rows count less and less. The model is computed only when it is needed, by the first
        method or attribute that is used after a batch, with the parameters that the estimator had at that batch.
        ``fit`` does not keep sums: ``partial_fit`` after ``fit`` starts anew.

        Parameters
        ----------
        X : array, sparse matrix or dataframe of shape (n, n_features)
            One batch in memory; it may be a single row. NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequency of each row: a row of weight 2 counts twice, and a row of weight 0 not at all. The weights of all
            batches must sum to at least 2.

        Returns
        -------
        FactorAnalysis
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_wine
        >>> from probpca import FactorAnalysis
        >>> X = load_wine().data
        >>> streamed = FactorAnalysis(n_components=2)
        >>> for batch in np.array_split(X, 10):
        ...     _ = streamed.partial_fit(batch)
        >>> np.allclose(streamed.get_covariance(), FactorAnalysis(n_components=2).fit(X).get_covariance())
        True
        """
        self._check_rotation()
        stream = with_batch(self, X, sample_weight)
        if stream is not None:
            self._fitted = StreamedFit(stream, self)
        return self

    def merge(self, other: Any) -> Self:
        """Combine with another estimator that was trained with ``partial_fit`` on other rows.

        This estimator becomes the one that has seen the rows of both; the other is not changed.

        Parameters
        ----------
        other : FactorAnalysis
            An estimator trained with ``partial_fit`` on the same columns.

        Returns
        -------
        FactorAnalysis
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_wine
        >>> from probpca import FactorAnalysis
        >>> X = load_wine().data
        >>> first, second = (FactorAnalysis(n_components=2).partial_fit(rows) for rows in (X[:60], X[60:]))
        >>> whole = FactorAnalysis(n_components=2).fit(X)
        >>> np.allclose(first.merge(second).get_covariance(), whole.get_covariance())
        True
        """
        self._fitted = StreamedFit(merged_streams(self, other), self)
        return self
