"""PPCA: probabilistic principal component analysis as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from probpca.blocks import Block
from probpca.blocks.block import unmasked
from probpca.errors import DataError, ProbpcaError, ShapeError, SourceError
from probpca.estimators.base import (
    check_parameters,
    checked_matrix,
    generator,
    is_matrix,
    names_for,
    open_training,
    progress_bar,
)
from probpca.estimators.constraints import ppca_constraints
from probpca.estimators.queries import TableEstimator, TableFit, distances_of_fit
from probpca.estimators.storage import (
    calibration_record,
    choice_record,
    read_calibration,
    read_choice,
    read_story,
    story_record,
)
from probpca.estimators.summary import table_summary
from probpca.inference.imputation import ParameterCovariance, noise_inflation
from probpca.learning import Settings, fit_ppca
from probpca.learning.result import FitResult, complete_information
from probpca.learning.streaming.exact import Sketched, Summed, begin_stream, check_half_life, needed_rows
from probpca.learning.streaming.online_em import Gathered
from probpca.learning.training_distances import STREAM
from probpca.learning.uncertainty.asymptotic import COMFORTABLE, asymptotic_uncertainty
from probpca.learning.uncertainty.bootstrap import Bootstrap, bootstrap_uncertainty
from probpca.learning.uncertainty.parameter_draws import draw_parameters, require_rows_in_memory
from probpca.models.serialization import MODEL_FIELDS, model_arrays, model_from_arrays
from probpca.result_tables import WIDTH
from probpca.sources import open_source
from probpca.sources.open import check_weight
from probpca.statistics import ColumnSummary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from probpca.learning.streaming.exact import Stream
    from probpca.learning.uncertainty.estimate import Estimate, ParameterUncertainty
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array, Index


@dataclass(frozen=True, eq=False)
class PPCAFit(TableFit):
    """What a fit of ``PPCA`` found."""

    result: FitResult
    draw_seed: int | None = None
    sketch_error: float = 0.0
    source: Source | None = None  # the training rows, if they are kept
    draws: tuple[LinearGaussian, ...] = ()  # of the parameters

    @classmethod
    def of(cls, result: FitResult, *rest: Any, **more: Any) -> Self:
        """Keep a result, which need not count the cells of complete rows."""
        cells = result.weight * result.model.n_features if result.cells is None else result.cells
        empty = np.empty(0, np.intp) if result.empty is None else result.empty
        return cls(result._replace(cells=cells, empty=empty, sample=None), *rest, **more)

    @cached_property
    def scaled_model(self) -> LinearGaussian:
        """The model of the columns as the fit saw them."""
        return self.result.scaled_model

    @cached_property
    def information(self) -> Array:
        """Sums of E[t t'], t = [z; 1], over the rows in which each feature was observed, packed."""
        if self.result.information is not None:
            return self.result.information
        return complete_information(self.result.weight, self.result.model.n_components)

    @property
    def noise_inflation(self) -> float:
        """Factor that corrects the noise variance for the degrees of freedom that the parameters took."""
        model, cells, empty = self.result.model, cast("float", self.result.cells), cast("Index", self.result.empty)
        return noise_inflation(cells, self.result.weight, model.n_features - len(empty), model.n_components)

    @cached_property
    def doubt(self) -> ParameterCovariance:
        """Uncertainty of the parameters that imputed cells inherit."""
        return ParameterCovariance.of_fit(self.result.model, self.information, self.noise_inflation)

    def with_draws(self, source: Source, count: int) -> PPCAFit:
        """Add draws of the parameters until there are ``count``; each is the same whenever it is made."""
        rngs = np.random.default_rng(self.draw_seed).spawn(count)[len(self.draws) :]
        drawn = draw_parameters(source, self.result.model, self.noise_inflation, rngs)
        return replace(self, draws=(*self.draws, *drawn))

    def record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers and arrays that go into a file."""
        numbers, arrays = story_record(self.result)
        chosen, scales = choice_record(self.result)
        arrays |= scales
        numbers |= chosen | {
            "log_likelihood_": self.result.log_likelihood,
            "n_samples_": self.result.weight,
            "n_observed_": self.result.cells,
            "draw_seed_": self.draw_seed,
            "sketch_error_": self.sketch_error,
        }
        arrays |= {"information_": self.information, "empty_features_": self.result.empty}
        obstacle, reference = calibration_record(self.calibration)
        numbers, arrays = numbers | obstacle, arrays | reference
        drawn = [model_arrays(model) for model in self.draws]
        if drawn:
            arrays |= {f"draws_{name}": np.stack([model[name] for model in drawn]) for name in MODEL_FIELDS}
        return numbers, {**model_arrays(self.result.model), **arrays}

    @classmethod
    def from_record(cls, path: str | Path, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        result = FitResult(
            log_likelihood=numbers["log_likelihood_"],
            weight=numbers["n_samples_"],
            cells=numbers["n_observed_"],
            information=arrays["information_"],
            empty=arrays["empty_features_"],
            model=model_from_arrays(path, arrays),
            **read_story(numbers, arrays),
            **read_choice(numbers, arrays),
        )
        stacks = [arrays[f"draws_{name}"] for name in MODEL_FIELDS if f"draws_{name}" in arrays]
        drawn = [dict(zip(MODEL_FIELDS, parts, strict=True)) for parts in zip(*stacks, strict=True)]
        draws = tuple(model_from_arrays(path, parts) for parts in drawn)
        training = read_calibration(numbers, arrays)
        return cls(result, numbers["draw_seed_"], numbers["sketch_error_"], draws=draws, training=training)


class StreamedFit:
    """The rows that ``partial_fit`` has read, summed; their model is computed at the first question, and only then.

    The sums never change: each batch makes a new object. A failure is remembered with its reason.
    """

    def __init__(self, stream: Stream, n_components: Any, settings: Settings, random_state: Any) -> None:
        """Remember the sums, and how to fit them."""
        self.stream, self.n_components = stream, n_components
        self._settings, self._random_state = settings, random_state
        self._solution: PPCAFit | None = None
        self._failure = ""

    @property
    def ready(self) -> bool:
        """Whether enough rows for a model have come, and no attempt to fit them has failed."""
        return self._missing_rows == 0 and not self._failure

    @property
    def _missing_rows(self) -> int:
        return max(needed_rows(self.n_components) - self.stream.count, 0)

    def solve(self, name: str) -> PPCAFit:
        """Return the fit to all rows so far, or raise ``NotFittedError`` with the reason why there is none."""
        if self._solution is None and not self._failure:
            self._solve()
        if self._solution is None:
            msg = f"This {name} instance is not fitted yet: {self._failure}"
            raise NotFittedError(msg)
        return self._solution

    def _solve(self) -> None:
        if self._missing_rows:
            needed, count = needed_rows(self.n_components), self.stream.count
            self._failure = f"{needed} rows are needed before there is a model; {count} have come so far."
            return
        rng = generator(self._random_state)
        try:
            result = self.stream.fit(self.n_components, self._settings, rng)
        except ProbpcaError as error:  # the rows so far are constant, or say too little
            self._failure = str(error)
            return
        lost = self.stream.error if isinstance(self.stream, Sketched) else 0.0
        self._solution = PPCAFit.of(result, int(rng.integers(2**63)), lost, training=STREAM)


class PPCA(TableEstimator):
    r"""Probabilistic principal component analysis by exact maximum likelihood.

    .. math:: x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \sigma^2 I_d)

    Parameters
    ----------
    n_components : int, float, str or None, default=None
        Number of components q < d; or the share of the variance that they must explain; or the criterion
        that chooses them: "parallel", "bic", "cv" and "ard", and for complete rows "evidence" and "gavish_donoho";
        see ``select_n_components``. None is "parallel": the leading eigenvalues of the correlation matrix that
        exceed those of independent columns, at most min(50, d - 1, n - 2). For a complete table without noise
        it is the rank, if that is low.
    solver : str, default="auto"
        For complete rows "auto" and "closed_form" compute the exact maximum, with an eigensolver that
        suits the shape; "covariance", "gram", "krylov" and "svd" select the eigensolver. "em", "px_em"
        (parameter expanded), "em_zero_noise" (Roweis), "gradient" (L-BFGS) and the incremental forms of EM,
        "incremental" and "incremental_zero_noise", iterate to the same model.
        If cells are missing, "auto" and "px_em" are accelerated parameter-expanded EM; "em" and "gradient" reach
        the same maximum.
    missing : "nan" or "unstored", default="nan"
        NaN always marks a missing cell. With "unstored" the cells that a sparse matrix does not store are missing
        too, as in a table of ratings; otherwise they are zero.
    n_init : int, default=1
        Number of starts, of which the best is kept: if cells are missing the likelihood may have several maxima.
        It matters when few cells are observed for each parameter.
    standardize : bool, default=False
        Scale columns to unit variance, as is right if they have different units. Components, loadings and variances
        are then those of the scaled columns, as by R's ``prcomp(scale. = TRUE)``; all methods take and return rows in
        the units of the data.
    tol : float, default=1e-3
        Stop when the log-likelihood, summed over the rows, is estimated to rise by less than this.
    max_iter : int, default=1000
        Largest number of steps of an iterative solver.
    checkpoint : path or None, default=None
        A file to which a fit to rows with missing cells writes its state after each step. A fit that finds the file
        continues from there, and removes it at the end. Needs a given ``n_components``, or rows in a file.
    bias_correction : bool, default=False
        Correct the bias that the noise variance and the variances of the components have if there are many columns
        for the number of rows. Complete rows only; the model then no longer maximises the likelihood.
    half_life : float or None, default=None
        For ``partial_fit``: number of rows after which the weight of a row has halved, so that the model
        follows a stream that drifts. None: all rows have the same weight.
    n_jobs : int or None, default=None
        Number of threads, which share the rows. None: as many as BLAS may use. -1: all cores.
    verbose : bool, default=False
        Show a progress bar.
    keep_source : bool, default=False
        Keep the training rows, so that ``impute_draws`` and ``uncertainty`` can resample them.
    n_parameter_draws : int, default=0
        Number of draws of the parameters to make at the end of the fit, for ``impute_draws``: an alternative to
        ``keep_source`` that keeps models instead of rows.
    random_state : int, RandomState, Generator or None, default=None
        Determines the starting vectors of iterative solvers, and the draws of ``sample`` and ``explore``.

    Attributes
    ----------
    mean_ : ndarray (n_features,)
        Mean mu of the rows, in the units of the data.
    scale_ : ndarray (n_features,) or None
        Standard deviations of the columns (1/n; 1 for a constant column) if ``standardize=True``, else None. The
        following attributes, up to ``noise_variance_``, are those of the columns divided by ``scale_``.
    components_ : ndarray (n_components, n_features)
        Orthonormal principal axes; the entry largest in magnitude is positive.
    loadings_ : ndarray (n_features, n_components)
        W, along the principal axes. With ``standardize=True``: correlations of columns and components, times
        (1 - sigma2 / explained variance)^(1/2).
    explained_variance_, explained_variance_ratio_, noise_variance_ : ndarray (n_components,) and float
        Variance along each principal axis, largest first, its share of the total variance, and the variance sigma2 of
        the noise. One noise variance for each feature if ``LinearDynamicalSystem.to_ppca`` made the estimator.
    log_likelihood_ : float
        Total over the training rows.
    n_components_ : int
        Number of components q that was used.
    rule_, notes_ : str and tuple of str
        How the number of components was chosen, and sentences about that choice.
    column_std_ : ndarray (n_features,) or None
        Standard deviations of the columns, 0 if constant; None if they were standardised.
    n_observed_ : float
        Number of observed cells, rows weighted by ``sample_weight``.
    empty_features_ : ndarray
        Positions of the columns without any observed cell; their loadings and mean are 0.
    n_iter_, converged_, status_, trace_
        How the fit ended; ``status_.value`` explains it. ``n_iter_`` counts steps, and for the closed form
        passes over the rows.
    model_ : LinearGaussian
        The fitted model, for the functions of ``probpca.inference``. It is in the units of the data: with
        ``standardize=True`` its loadings are ``scale_`` times ``loadings_``, and the noise differs between features.
    information_ : ndarray
        Sums of E[t t'], t = [z; 1], over the rows in which each feature was observed, packed: they determine the
        uncertainty of loadings and mean in intervals. One column if it is the same for all features.
    calibration_ : Calibration
        Reference distribution of the p-values of ``outliers``, matched to the rows of the fit.
    draw_seed_ : int
        Seed from which ``impute_draws`` draws parameters.

    Notes
    -----
    ``transform`` is the posterior mean of z, which has unit prior variance and is shrunk towards 0 by the noise.
    ``inverse_transform`` is W z + mu, in the units of the data. For the orthogonal projection of classical PCA use
    ``project`` and ``reconstruct``.

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
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Self:
        """Fit the model to rows, whose missing cells are NaN.

        ``X`` is an array, a sparse matrix, a dataframe, the name of a file, rows in Dask or Spark, or batches: a list
        of matrices or dataframes, an iterator, or an object that can be iterated over again. ``sample_weight`` are
        frequencies: a row of weight 2 counts twice, one of weight 0 not at all. ``cell_weight`` are relative
        precisions, of the shape of ``X``: a cell has noise variance s2 / weight, and a cell of weight 0 is missing.
        """
        check_parameters(self, self._constraints)
        self._fitted = None  # a fit that fails leaves no fit behind
        rng = generator(self.random_state)
        with progress_bar(self.verbose) as bar:
            source = open_training(self, X, sample_weight, cell_weight, None if bar is None else bar.parts)
            if self.keep_source or self.n_parameter_draws:
                require_rows_in_memory(source)
            settings, standardize = self._settings(bar), bool(self.standardize)
            result = fit_ppca(source, self.n_components, settings, rng, standardize=standardize)
        training = distances_of_fit(source, result, complete=result.cells is None)
        kept = source if self.keep_source else None
        fit = PPCAFit.of(result, int(rng.integers(2**63)), source=kept, training=training)
        if self.n_parameter_draws:
            fit = fit.with_draws(source, self.n_parameter_draws)
        return self._finish(fit)

    def _settings(self, watch: Any = None) -> Settings:
        return Settings(
            self.solver,
            self.tol,
            self.max_iter,
            watch,
            self.n_init,
            None if self.checkpoint is None else Path(self.checkpoint),
            bool(self.bias_correction),
        )

    @property
    def log_likelihood_(self) -> float:
        """Log-likelihood of the training rows."""
        return self._state.result.log_likelihood

    @property
    def information_(self) -> Array:
        """Sums of E[t t'], t = [z; 1], over the rows in which each feature was observed, packed."""
        return self._state.information

    @property
    def source_(self) -> Source:
        """The training rows, if ``keep_source=True``."""
        return _present(self._state.source, "source_")

    @property
    def parameter_draws_(self) -> list[LinearGaussian]:
        """Draws of the parameters made so far."""
        return _present(list(self._state.draws), "parameter_draws_")

    @property
    def stream_(self) -> Stream:
        """The sums that ``partial_fit`` keeps."""
        return _present(self._stream, "stream_")

    @property
    def sketch_error_(self) -> float:
        """Largest amount by which a variance along a principal axis may be too small; 0 without a sketch."""
        if isinstance(self._stream, Sketched):
            return self._stream.error
        return 0.0 if self._fitted is None else self._state.sketch_error

    def _training_belief(self) -> None:
        return None  # the posterior of the latents in the fit is that of the model

    def _parameters(self, n_draws: int) -> list[LinearGaussian]:
        fit: PPCAFit = self._state
        if len(fit.draws) < n_draws:
            if fit.source is None:
                msg = (
                    f"{n_draws} draws of the parameters are needed, and {len(fit.draws)} were made at the fit.\n"
                    f"Hint: fit with keep_source=True, or with n_parameter_draws={n_draws}."
                )
                raise DataError(msg)
            self._fitted = fit = fit.with_draws(fit.source, n_draws)
        return list(fit.draws[:n_draws])

    def summary(self, feature_names: Any = None, *, width: int = WIDTH) -> str:
        """Describe the fit as text: the number of components, the variance of each, and how the fit ended.

        Tables have lines of at most ``width`` letters.
        """
        return table_summary(self, ("log-likelihood", self.log_likelihood_), feature_names, width)

    # Streams

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch of rows; a batch may be a single row.

        Complete rows are summed exactly: the model is that of ``fit`` to all rows, whatever the batches, their
        order and the solver. Beyond 2,000 columns a sketch takes the place of the sums, and ``sketch_error_``
        bounds what it loses. Rows with missing cells are learned by online EM, which is near the maximum of the
        likelihood after one pass; ``fit`` reaches it if the rows can be read again. With ``half_life`` older rows
        count less and less. After ``fit``, which keeps no sums, a new stream begins.

        The model is computed at the first question after a batch, with the parameters that the estimator had then.
        """
        check_parameters(self, self._constraints)
        check_half_life(self.half_life, self.n_components)
        first = self._stream is None
        rows = checked_matrix(self, X, reset=first, ensure_min_features=1 + first)
        if sample_weight is not None and not np.any(unmasked(sample_weight)):
            return self  # rows that are not there
        weight = None if sample_weight is None else check_weight(sample_weight, rows.shape[0])
        is_sparse = sparse.issparse(rows)
        if np.isinf(rows.data if is_sparse else rows).any():
            msg = "rows must be finite; the batch contains infinity, and was left out.\nHint: NaN is a missing cell."
            raise DataError(msg)
        block = Block(rows, weight, unstored_missing=is_sparse and self.missing == "unstored")
        self._continue(self._stream_for(block).absorb(block, self.half_life))
        return self

    def merge(self, other: Any) -> Self:
        """Add the rows that another estimator has learned by ``partial_fit``: the model becomes that of all rows."""
        mine, theirs = (one._stream if isinstance(one, PPCA) else None for one in (self, other))  # noqa: SLF001
        if mine is None or theirs is None:
            msg = (
                "merge() needs estimators trained with partial_fit(): fit() does not keep the sums that merging "
                "needs.\nHint: partial_fit(X) instead of fit(X)."
            )
            raise DataError(msg)
        if type(mine) is not type(theirs):
            msg = "the streams keep different sums: one has missing cells, or too many columns for exact sums."
            raise DataError(msg)
        if self.n_features_in_ != other.n_features_in_:
            msg = f"both must have the same columns; got {self.n_features_in_} and {other.n_features_in_}."
            raise DataError(msg)
        ours, others = (list(getattr(estimator, "feature_names_in_", [])) for estimator in (self, other))
        if ours and others and ours != others:
            msg = f"both must have the same columns in the same order; got {ours} and {others}."
            raise DataError(msg)
        self._continue(mine.merge(theirs))
        return self

    @property
    def _stream(self) -> Stream | None:
        return self._fitted.stream if isinstance(self._fitted, StreamedFit) else None

    def _continue(self, stream: Stream) -> None:
        self._fitted = StreamedFit(stream, self.n_components, self._stream_settings(), self.random_state)

    def _stream_settings(self) -> Settings:
        """A stream is fitted quickly and in memory: nobody watches, and there is no checkpoint."""
        return replace(self._settings(), checkpoint=None)

    def _stream_for(self, block: Block) -> Stream:
        """The sums to add a batch to; the first missing cell changes their kind."""
        stream = self._stream
        if stream is None:
            settings, standardize = self._stream_settings(), bool(self.standardize)
            stream = begin_stream(block.n_features, self.n_components, settings, standardize=standardize)
        if block.is_complete or not isinstance(stream, Summed | Sketched):
            return stream
        if self.standardize or isinstance(stream, Sketched):
            msg = "missing cells in batches go with standardize=False, and with up to 2,000 columns.\nHint: use fit."
            raise DataError(msg)
        seed = int(generator(self.random_state).integers(2**63))
        earlier = (stream.rows(stream.moments.mean),) if stream.weight else ()
        return Gathered(earlier, self.n_components, self._stream_settings(), seed, stream.count)

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
        """Standard errors of the loadings, axes, variances and the mean.

        With ``standardize=True`` all but the mean are those of the columns divided by ``scale_``, and each resample is
        scaled by its own standard deviations.

        Parameters
        ----------
        X : table or None, default=None
            The training rows, which the bootstrap resamples, with the ``sample_weight`` and ``cell_weight`` of the
            fit. Not needed by "asymptotic", nor after a fit with ``keep_source=True``.
        method : "auto", "asymptotic" or "bootstrap", default="auto"
            "asymptotic": large-sample formulas for complete rows that follow the model, Gaussian with one noise
            variance. "bootstrap": fits to rows drawn with replacement; any distribution, with or without missing
            cells. "auto": the bootstrap if ``X`` is given; else the formulas if they apply and there are at least
            five rows for each feature; else the bootstrap.
        n_draws : int, default=200
            Number of resampled fits.
        align : "signs" or "procrustes", default="signs"
            How resampled loadings and axes are made comparable. "signs": in order of variance, as ``loadings_``
            are; intervals are wide if two components have nearly the same variance, because the data then do not
            determine their axes. "procrustes": rotated towards those of the fit; intervals are those of loadings up
            to a rotation.
        random_state : int, RandomState, Generator or None, default=None
            Determines which rows are drawn. None: the ``random_state`` of the estimator.

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
                msg = f"the large-sample formulas do not apply: {obstacle}.\nHint: method='bootstrap'."
                raise DataError(msg)
            return self._named(asymptotic_uncertainty(model, self.n_samples_, corrected=self.bias_correction), X)
        source = self._training_rows(X, sample_weight, cell_weight)
        rngs = self._generator(random_state).spawn(n_draws)
        with progress_bar(self.verbose) as bar:
            return self._named(bootstrap_uncertainty(source, model, rngs, how, None if bar is None else bar.draws), X)

    def _obstacle_to_formulas(self) -> str:
        """Why the large-sample formulas cannot be used; empty if they can."""
        if self.scale_ is not None:
            return "columns were standardised by standard deviations that are estimates themselves"
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
        msg = f"the rows of the fit are needed, to be resampled: {why}.\nHint: pass them as X, or fit with keep_source."
        raise DataError(msg)

    def _training_rows(self, X: Any, sample_weight: Any, cell_weight: Any) -> Source:
        if X is None and (sample_weight is not None or cell_weight is not None):
            msg = "weights go with the rows that they belong to.\nHint: pass X too."
            raise DataError(msg)
        if X is None:
            kept: Source | None = self._state.source
            if kept is None:
                msg = "the rows of the fit are needed, to be resampled.\nHint: pass them as X, or fit with keep_source."
                raise DataError(msg)
            return kept
        if not is_matrix(X):
            msg = "resampling needs rows held in memory; these are read in batches.\nHint: pass one matrix."
            raise SourceError(msg)
        block = self._block(X)
        rows = open_source(
            block.values,
            weight=sample_weight,
            cell_weight=cell_weight,
            unstored_missing=block.unstored_missing,
            n_jobs=self.n_jobs,
        )
        summary = rows.fold(ColumnSummary.of)
        self._require_same("rows", self.n_samples_, summary.total_weight)
        self._require_same("observed cells", self.n_observed_, float(summary.observed.sum()))
        return rows

    def _require_same(self, what: str, fitted: float, count: float) -> None:
        if not np.isclose(count, fitted, rtol=1e-6):
            msg = (
                f"X must be the rows of the fit, which had {fitted:,.6g} {what}; got {count:,.6g}.\n"
                "Hint: pass the same table, and the weights that the fit had."
            )
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


def _present(value: Any, name: str) -> Any:
    """Raise ``AttributeError`` where a fit left nothing under a name."""
    if not value:
        msg = f"'PPCA' object has no attribute {name!r}"
        raise AttributeError(msg)
    return value
