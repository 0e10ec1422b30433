"""PPCA: probabilistic principal component analysis as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from sklearn.utils.metaestimators import available_if

from probpca.errors import DataError, ShapeError
from probpca.estimators.base import names_for, progress_bar
from probpca.estimators.constraints import ppca_constraints
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
from probpca.estimators.summary import table_summary
from probpca.inference.imputation import noise_inflation
from probpca.learning import Settings, fit_ppca
from probpca.learning.settings import TrimmingSettings
from probpca.learning.streaming.exact import Sketched
from probpca.learning.uncertainty.asymptotic import COMFORTABLE, asymptotic_uncertainty
from probpca.learning.uncertainty.bootstrap import Bootstrap, bootstrap_uncertainty, require_memory_for_bootstrap
from probpca.result_tables import WIDTH

if TYPE_CHECKING:
    from probpca.learning.streaming.exact import Stream
    from probpca.learning.uncertainty.estimate import Estimate, ParameterUncertainty
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array, Index


@dataclass(frozen=True, eq=False)
class PPCAFit(LikelihoodFit):
    """Fitted state of ``PPCA``."""

    @property
    def noise_inflation(self) -> float:
        """Factor that corrects the noise variance for the degrees of freedom that the parameters took."""
        model, cells, empty = self.result.model, cast("float", self.result.cells), cast("Index", self.result.empty)
        return noise_inflation(cells, self.result.weight, model.n_features - len(empty), model.n_components)


class PPCA(TableEstimator):
    r"""Probabilistic principal component analysis (PPCA) by maximum likelihood.

    .. math:: x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \sigma^2 I_d)

    Each row x with d columns is a linear function of q latent variables z, the component scores, plus noise. The
    principal axes are those of classical PCA. Because PPCA is a probability model it also handles missing cells, and
    gives likelihoods, intervals of missing cells, p-values of outliers and random samples.

    Parameters
    ----------
    n_components : int, float, str or None, default=None
        Number of components.

        - int: this number, from 1 to d - 1.
        - float between 0 and 1: the smallest number that explains this share of the variance.
        - str: the criterion that chooses the number: "parallel" (parallel analysis), "bic", "cv" (cross-validation of
          cells), "ard" (automatic relevance determination), and for complete rows "evidence" and "gavish_donoho". See
          ``select_n_components`` for what each criterion is for.
        - None: the same as "parallel". It counts the eigenvalues of the correlation matrix that exceed those of
          independent columns, up to min(50, d - 1, n - 2).

        For a complete table without noise every criterion chooses the rank of the table, if that is low.
    solver : str, default="auto"
        Algorithm. "auto" suits almost all data.

        - Complete rows: "auto" and "closed_form" compute the exact maximum of the likelihood from an eigenvalue
          decomposition. "covariance", "gram", "krylov" and "svd" do the same with a given eigensolver. "em", "px_em"
          (parameter-expanded EM), "em_zero_noise" (Roweis), "gradient" (L-BFGS), "incremental" and
          "incremental_zero_noise" (incremental EM) iterate towards the same model.
        - Missing cells: "auto" and "px_em" are accelerated parameter-expanded EM; "em" and "gradient" converge to the
          same maximum.
    missing : "nan" or "unstored", default="nan"
        NaN always marks a missing cell. With "unstored" the cells that a sparse matrix does not store are missing
        too, as in a table of ratings; with "nan" they are zero.
    n_init : int, default=1
        Number of random starts; the fit with the largest likelihood is kept. If cells are missing the likelihood may
        have several maxima, which matters when few cells are observed for each parameter.
    standardize : bool, default=False
        Whether to scale columns to unit variance, as one should if they have different units. Components, loadings
        and variances then describe the scaled columns, as with ``prcomp(scale. = TRUE)`` in R. All methods still take
        and return rows in the units of the data.
    tol : float, default=1e-3
        Iterations stop when the total log-likelihood is estimated to be within ``tol`` of its maximum.
    max_iter : int, default=1000
        Largest number of iterations.
    checkpoint : path or None, default=None
        Name of a file in which a fit to rows with missing cells saves its state after each iteration. An interrupted
        fit that is started again continues from this file, and removes it at the end. Needs ``n_components`` as a
        number, or rows in a file.
    bias_correction : bool, default=False
        Whether to correct the bias of the noise variance and of the explained variances, which is large if there are
        many columns compared with rows. Complete rows only. The corrected model does not maximise the likelihood.
    half_life : float or None, default=None
        For ``partial_fit``: number of later rows after which the weight of a row has halved, so that the model
        follows data that change over time. None: all rows have the same weight.
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
        Whether to keep the training rows, so that ``impute_draws`` and ``uncertainty`` can resample them.
    n_parameter_draws : int, default=0
        Number of draws of the parameters, made at the end of the fit for ``impute_draws``. An alternative to
        ``keep_source`` that stores models instead of rows.
    random_state : int, RandomState, Generator or None, default=None
        Determines the starting values of iterative solvers, and the draws of ``sample``, ``explore`` and
        ``impute_draws``.

    Attributes
    ----------
    mean_ : ndarray (n_features,)
        Mean mu of the rows, in the units of the data.
    scale_ : ndarray (n_features,) or None
        If ``standardize=True``, the standard deviations that the columns were divided by (1 for a constant column);
        otherwise None. The attributes below, up to ``noise_variance_``, then describe the scaled columns.
    components_ : ndarray (n_components, n_features)
        Orthonormal principal axes, one per row. The largest entry of each, in magnitude, is positive.
    loadings_ : ndarray (n_features, n_components)
        Loadings W along the principal axes: the change of each column when a component rises by one standard
        deviation. With ``standardize=True`` they are the correlations of columns with components, multiplied by
        (1 - sigma2 / explained variance)^(1/2).
    explained_variance_ : ndarray (n_components,)
        Variance along each principal axis, largest first. It divides by n, not by n - 1.
    explained_variance_ratio_ : ndarray (n_components,)
        Share of the total variance that each component explains.
    noise_variance_ : float
        Variance sigma2 of the noise. One for each feature, (n_features,), if ``LinearDynamicalSystem.to_ppca`` made the
        estimator.
    log_likelihood_ : float
        Total log-likelihood of the training rows.
    n_components_ : int
        Number of components q of the fitted model.
    rule_ : str
        How the number of components was chosen, in words.
    notes_ : tuple of str
        Remarks on the choice of the number of components; empty if there are none.
    column_std_ : ndarray (n_features,) or None
        Standard deviation of each training column, 0 if constant; None if ``standardize=True``.
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
        Number of iterations; for the closed form, number of passes over the rows.
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
        The fitted model, for the functions of ``probpca.inference``. It is in the units of the data: with
        ``standardize=True`` its loadings are ``scale_`` times ``loadings_``, and its noise differs between features.
    information_ : ndarray
        For each feature the sum of E[t t'], t = [z; 1], over the rows in which it was observed. The symmetric matrices
        are stored as vectors; there is one column if they are the same for all features. Intervals of missing cells
        use them for the uncertainty of the parameters.
    calibration_ : Calibration
        Reference distribution of the p-values that ``outliers`` computes, matched to the training rows.
    draw_seed_ : int
        Seed of the parameter draws of ``impute_draws``.
    sketch_error_ : float
        After ``partial_fit`` with more than 2,000 columns, a bound of the error of the explained variances; otherwise
        0.

    Notes
    -----
    ``transform`` returns component scores: posterior means of z, which has variance 1 in the model; the noise shrinks
    them towards 0. ``inverse_transform`` returns W z + mu in the units of the data. ``project`` and ``reconstruct`` are
    the orthogonal projection of classical PCA, as ``sklearn.decomposition.PCA`` computes it.

    References
    ----------
    Tipping & Bishop, "Probabilistic principal component analysis", Journal of the Royal Statistical Society B (1999).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import PPCA
    >>> X = load_iris().data
    >>> ppca = PPCA(n_components=2).fit(X)
    >>> ppca.components_.round(3)
    array([[ 0.361, -0.085,  0.857,  0.358],
           [ 0.657,  0.73 , -0.173, -0.075]])
    >>> ppca.transform(X).shape
    (150, 2)
    >>> round(ppca.score(X), 4)
    -2.6998

    Missing cells are allowed, and ``impute`` fills them in:

    >>> X[::3, 0] = float("nan")
    >>> PPCA(n_components=2).fit(X).impute(X)[:2].round(2)
    array([[5.01, 3.5 , 1.4 , 0.2 ],
           [4.9 , 3.  , 1.4 , 0.2 ]])
    """

    _constraints: ClassVar[dict[str, Any]] = ppca_constraints()
    _fit_type = PPCAFit

    def __init__(
        self,
        n_components: Any = None,
        *,
        solver: str = "auto",
        standardize: bool = False,
        tol: float = 1e-3,
        max_iter: int = 1000,
        missing: str = "nan",
        n_init: int = 1,
        keep_source: bool = False,
        n_parameter_draws: int = 0,
        checkpoint: Any = None,
        bias_correction: bool = False,
        half_life: float | None = None,
        robust: str | None = None,
        keep: float = 0.75,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        """Store the parameters; ``fit`` checks them."""
        self.n_components = n_components
        self.solver = solver
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing
        self.n_init = n_init
        self.keep_source = keep_source
        self.n_parameter_draws = n_parameter_draws
        self.checkpoint = checkpoint
        self.bias_correction = bias_correction
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
            Relative precision of each cell: its noise variance is sigma2 / weight. A cell of weight 0 counts as
            missing. A common factor of all weights changes only the unit of the noise variance.

        Returns
        -------
        PPCA
            The fitted estimator itself.
        """
        learn = partial(fit_ppca, standardize=bool(self.standardize))
        return self._finish(fit_rows(self, learn, X, sample_weight, cell_weight))

    def _settings(self, watch: Any = None) -> Settings:
        return Settings(
            self.solver,
            self.tol,
            self.max_iter,
            watch,
            self.n_init,
            None if self.checkpoint is None else Path(self.checkpoint),
            bool(self.bias_correction),
            trimming=TrimmingSettings(float(self.keep)),
        )

    @property
    def _details(self) -> dict[str, Any]:
        """Parameters that the fitted state keeps: none."""
        return {}

    @property
    def log_likelihood_(self) -> float:
        """Total log-likelihood of the training rows, in nats."""
        return self._state.result.log_likelihood

    @property
    def information_(self) -> Array:
        """For each feature, the sum of E[t t'] with t = [z; 1] over the rows in which it was observed.

        The symmetric matrices are stored as vectors, one column for each feature, or a single one if they are equal.
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

    @property
    def sketch_error_(self) -> float:
        """Upper bound of the error of the explained variances after ``partial_fit`` with many columns.

        Beyond 2,000 columns ``partial_fit`` keeps an approximate summary of the rows, a sketch: explained variances may
        be too small by up to this amount. 0 if no sketch was needed.
        """
        stream = stream_of(self)
        if isinstance(stream, Sketched):
            return stream.error
        return 0.0 if self._fitted is None else self._state.sketch_error

    def _training_belief(self) -> None:
        return None  # the posterior of the latents in the fit is that of the model

    def _parameters(self, n_draws: int) -> list[LinearGaussian]:
        return drawn_parameters(self, n_draws)

    def summary(self, feature_names: Any = None, *, width: int = WIDTH) -> str:
        """Describe the fit as text: the number of components, the variance of each, and how the fit ended.

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

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> print(PPCA(n_components=2).fit(load_iris(as_frame=True).data).summary())
        PPCA: 150 rows x 4 features, 2 components (as given)
        <BLANKLINE>
        component  variance   explained  cumulative  largest loadings
        PC1        4.2            92.5%       92.5%  petal length (cm) +1.7
                                                     sepal length (cm) +0.7
        PC2        0.2411          5.3%       97.8%  sepal width (cm) +0.32
                                                     sepal length (cm) +0.29
        <BLANKLINE>
        noise variance    0.0506821
        log-likelihood    -404.96  (-2.6998 per row)
        status            Exact maximum-likelihood solution, computed in closed form.
        """
        return table_summary(self, ("log-likelihood", self.log_likelihood_), feature_names, width)

    # Streams

    @available_if(reads_once)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Update the model with one more batch of rows, for data that do not fit into memory or arrive over time.

        - Complete rows, up to 2,000 columns: exact. The model is the one that ``fit`` finds for all rows together,
          whatever the batches, their order and the solver.
        - Complete rows with more columns: the rows are summarised by a sketch, and ``sketch_error_`` bounds the error.
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
        PPCA
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> streamed = PPCA(n_components=2)
        >>> for batch in np.array_split(X, 10):
        ...     _ = streamed.partial_fit(batch)
        >>> np.allclose(streamed.components_, PPCA(n_components=2).fit(X).components_)
        True
        """
        stream = with_batch(self, X, sample_weight)
        if stream is not None:
            self._fitted = StreamedFit(stream, self)
        return self

    def merge(self, other: Any) -> Self:
        """Combine with another estimator that was trained with ``partial_fit`` on other rows.

        This estimator becomes the one that has seen the rows of both; the other is not changed. Use it to train on
        several machines, each with its own rows.

        Parameters
        ----------
        other : PPCA
            An estimator trained with ``partial_fit`` on the same columns.

        Returns
        -------
        PPCA
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> first, second = PPCA(n_components=2).partial_fit(X[:60]), PPCA(n_components=2).partial_fit(X[60:])
        >>> np.allclose(first.merge(second).components_, PPCA(n_components=2).fit(X).components_)
        True
        """
        self._fitted = StreamedFit(merged_streams(self, other), self)
        return self

    # Uncertainty of the parameters

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
        """Standard errors and confidence intervals of the loadings, principal axes, variances and mean.

        With ``standardize=True`` all but the mean describe the scaled columns, and each bootstrap sample is scaled by
        its own standard deviations.

        Parameters
        ----------
        X : table or None, default=None
            The training rows, which the bootstrap resamples. Not needed for "asymptotic", nor after a fit with
            ``keep_source=True``.
        method : "auto", "asymptotic" or "bootstrap", default="auto"
            "asymptotic": large-sample formulas, for complete rows that follow the model, Gaussian with one noise
            variance. "bootstrap": fits to rows drawn with replacement, for any distribution, with or without missing
            cells. "auto": the bootstrap if ``X`` is given; otherwise the formulas if they apply and there are at least
            five rows for each column; otherwise the bootstrap.
        n_draws : int, default=200
            Number of bootstrap samples.
        align : "signs" or "procrustes", default="signs"
            How the components of bootstrap samples are matched with those of the fit. "signs": in order of variance,
            with signs flipped to agree; intervals are wide if two components have nearly the same variance, because
            the data then do not determine their axes. "procrustes": rotated towards those of the fit; intervals then
            ignore rotations within the subspace.
        sample_weight, cell_weight : array-like or None, default=None
            The weights that the fit had, if it had any; only together with ``X``.
        random_state : int, RandomState, Generator or None, default=None
            Determines which rows are drawn. None: the ``random_state`` of the estimator.

        Returns
        -------
        ParameterUncertainty
            An ``Estimate`` for each of ``loadings``, ``components``, ``explained_variance``, ``noise_variance`` and
            ``mean``, with ``value``, ``standard_error`` and ``interval(level)``. ``print`` and a notebook show a table;
            ``to_frame()`` has all loadings.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from probpca import PPCA
        >>> X = load_iris().data
        >>> sure = PPCA(n_components=2, random_state=0).fit(X).uncertainty(X, n_draws=50)
        >>> sure.method, sure.loadings.standard_error.shape
        ('bootstrap', (4, 2))
        """
        model = self._scaled_model
        require_ordinary(self, "uncertainty()")
        if method not in ("auto", "asymptotic", "bootstrap"):
            msg = f"method must be one of auto, asymptotic, bootstrap; got {method!r}."
            raise DataError(msg)
        if not (hasattr(n_draws, "__index__") and n_draws >= 2):
            msg = f"n_draws must be a whole number, at least 2; got {n_draws!r}."
            raise ShapeError(msg)
        if model.noise_variance.ndim:
            msg = (
                "uncertainty() needs a model with one noise variance; this one has a noise variance for each feature.\n"
                "Hint: call it on a PPCA fitted to the rows."
            )
            raise DataError(msg)
        how = Bootstrap(self.scale_, self.bias_correction, align)
        obstacle = self._obstacle_to_formulas()
        chosen = method if method != "auto" else self._method(X, obstacle)
        if chosen == "asymptotic":
            if obstacle:
                msg = f"the large-sample formulas do not apply: {obstacle}.\nHint: use method='bootstrap'."
                raise DataError(msg)
            return self._named(asymptotic_uncertainty(model, self.n_samples_, corrected=self.bias_correction), X)
        source = training_rows(self, X, sample_weight, cell_weight)
        require_memory_for_bootstrap(n_draws, model.n_components)
        rngs = self._generator(random_state).spawn(n_draws)
        with progress_bar(self.verbose) as bar:
            return self._named(bootstrap_uncertainty(source, model, rngs, how, None if bar is None else bar.draws), X)

    def _obstacle_to_formulas(self) -> str:
        """Why the large-sample formulas cannot be used; empty if they can."""
        if self.scale_ is not None:
            return "columns were scaled by standard deviations that are estimates themselves"
        if self.information_.shape[1] > 1:
            return "cells were missing, or weighted"
        return ""

    def _method(self, X: Any, obstacle: str) -> str:
        if X is not None:
            return "bootstrap"
        n, d = self.n_samples_, self.model_.n_features
        if not obstacle and n >= COMFORTABLE * d:
            return "asymptotic"
        if self._state.source is not None:
            return "bootstrap"
        why = obstacle or f"{n:,.0f} rows are fewer than {COMFORTABLE} for each of {d:,} features"
        msg = f"the bootstrap needs the training rows: {why}.\nHint: pass them as X, or fit with keep_source=True."
        raise DataError(msg)

    def _named(self, found: ParameterUncertainty, X: Any) -> ParameterUncertainty:
        """Add the names of columns; the standard errors of columns without observed cells are infinite."""
        unseen = np.isin(np.arange(found.n_features), self.empty_features_)
        if unseen.any():
            found = replace(
                found,
                loadings=_unknown(found.loadings, unseen[:, None]),
                components=_unknown(found.components, unseen),
                mean=_unknown(found.mean, unseen),
            )
        names = names_for(X, getattr(self, "feature_names_in_", None))
        components = tuple(map(str, self.get_feature_names_out()))
        return replace(found, feature_names=names.columns, component_names=components, backend=names.backend)


def _unknown(estimate: Estimate, where: Any) -> Estimate:
    return replace(estimate, standard_error=np.where(where, np.inf, estimate.standard_error))
