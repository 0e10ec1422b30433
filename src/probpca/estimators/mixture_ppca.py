"""MixturePPCA: mixtures of PPCA and of factor analysers as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import ClusterMixin, DensityMixin

from probpca.cached_property import cached_property
from probpca.errors import DataError, ShapeError, SourceError
from probpca.estimators.base import (
    Estimator,
    Fit,
    fit_replaced,
    generator,
    is_matrix,
    like,
    names_for,
    open_training,
    progress_bar,
    rounded,
)
from probpca.estimators.constraints import check_parameters, mixture_constraints
from probpca.estimators.maximum_likelihood import StreamedFit, checked_batch, present, stream_of
from probpca.estimators.queries import answer, block_of, checked_training, mean_score
from probpca.estimators.storage import calibration_record, read_calibration, read_story, story_record
from probpca.estimators.summary import mixture_summary
from probpca.inference.imputation import ParameterCovariance, noise_inflation, noise_inflation_by_feature
from probpca.inference.mixture import (
    MixturePosterior,
    draw_cells,
    impute_cells,
    impute_mixture,
    log_joint,
    mixture_log_likelihood,
    mixture_posterior,
    responsibilities,
    sample_mixture,
    weighted_scores,
)
from probpca.inference.mixture_outlier_scores import MixtureOutliers, mixture_outliers
from probpca.inference.sampling import sample_parameters
from probpca.learning.mixture.calibration import calibration_of, rows_per_cluster
from probpca.learning.mixture.fit import fit_mixture
from probpca.learning.mixture.online import GatheredRows
from probpca.learning.mixture.result import MixtureCriteria, MixtureResult, Score
from probpca.learning.settings import Settings
from probpca.learning.training_distances import NO_ROWS
from probpca.models import Gaussian, Mixture, ParameterBelief
from probpca.models.serialization import mixture_arrays, mixture_from_arrays
from probpca.result_tables import WIDTH, default_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from probpca.inference.calibration import Calibration
    from probpca.typing import Array, Index


@dataclass(frozen=True, eq=False)
class MixtureFit(Fit):
    """Fitted state of ``MixturePPCA``."""

    result: MixtureResult
    draw_seed: int
    calibration: Calibration = field(default=NO_ROWS, kw_only=True)
    labels: Index | None = field(default=None, kw_only=True)  # of the training rows, if they were in memory

    @classmethod
    def of(cls, result: MixtureResult, draw_seed: int, sketch_error: float = 0.0, *, training: Calibration) -> Self:
        """Keep the result of a fit to a stream."""
        del sketch_error  # streams of mixtures are not sketched
        return cls(result, draw_seed, calibration=training)

    @property
    def rows_per_cluster(self) -> Array:
        """Average number of training rows of each cluster in which a feature was observed: (K,)."""
        return rows_per_cluster(self.result)

    @cached_property
    def doubts(self) -> list[ParameterCovariance]:
        """Uncertainty of the parameters of each cluster, which imputed cells inherit."""
        found, result = [], self.result
        model, d, q = result.model, result.model.n_features, result.model.n_components
        # Weights of cells are relative.
        counts = result.information[:, -1] * (result.cells / result.information[:, -1].sum())  # (K, d)
        for k, (cluster, information) in enumerate(zip(model.clusters, result.information, strict=True)):
            inflation: float | Array = noise_inflation_by_feature(counts[k], q)
            if not cluster.noise_variance.ndim:
                rows = float(model.weights[k] * result.weight)
                inflation = noise_inflation(float(counts[k].sum()), rows, d - result.empty.size, q)
            found.append(ParameterCovariance.of_fit(cluster, information, inflation))
        return found

    @property
    def beliefs(self) -> list[ParameterBelief]:
        """Large-sample distribution of the loadings and the mean of each cluster."""
        parts = zip(self.result.model.clusters, self.doubts, strict=True)
        flat = np.ones(self.result.model.n_components)
        return [ParameterBelief(model, np.nan_to_num(doubt.covariance, posinf=0.0), flat) for model, doubt in parts]

    def record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers and arrays that go into a file."""
        result = self.result
        numbers, arrays = story_record(result)
        numbers |= {
            "log_likelihood_": result.log_likelihood,
            "n_samples_": result.weight,
            "n_observed_": result.cells,
            "rule_": result.rule,
            "notes_": list(result.notes),
            "draw_seed_": self.draw_seed,
        }
        obstacle, reference = calibration_record(self.calibration)
        numbers |= obstacle
        table = np.column_stack([np.asarray(part, np.float64) for part in result.criteria.to_dict().values()])
        arrays |= reference | {
            "criteria_": table,
            "information_": result.information,
            "empty_features_": result.empty,
            "degenerate_clusters_": np.flatnonzero(result.degenerate),
            "column_std_": result.column_std,
        }
        return numbers, {**mixture_arrays(result.model), **arrays}

    @classmethod
    def from_record(cls, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        model = mixture_from_arrays(arrays)
        story = read_story(numbers, arrays)
        result = MixtureResult(
            model=model,
            log_likelihood=numbers["log_likelihood_"],
            weight=numbers["n_samples_"],
            cells=numbers["n_observed_"],
            rule=numbers["rule_"],
            criteria=MixtureCriteria.of(map(Score._make, arrays["criteria_"].tolist())),
            information=arrays["information_"],
            empty=arrays["empty_features_"],
            degenerate=np.isin(np.arange(model.n_clusters), arrays["degenerate_clusters_"]),
            column_std=arrays["column_std_"],
            notes=tuple(numbers["notes_"]),
            **story,
        )
        return cls(result, numbers["draw_seed_"], calibration=read_calibration(numbers, arrays))


class MixturePPCA(ClusterMixin, DensityMixin, Estimator):  # type: ignore[misc]
    r"""Mixture of PPCA or of factor analysers: clusters of rows, each with its own components, with missing cells.

    .. math:: x \sim \sum_{k=1}^K \pi_k \, N(\mu_k, \; W_k W_k^\top + \Psi_k)

    Each row belongs to one of K clusters, and each cluster has a mean, a few components and noise of its own. The
    number of parameters grows with the number of columns and not with its square, so that the clusters may have
    correlated columns even if they have few rows. Rows may have missing cells, which are integrated out.

    Parameters
    ----------
    n_clusters : int, "bic", "icl" or None, default=None
        Number K of clusters.

        - int: this number.
        - "bic" or None: the number that maximises BIC, the best density of the rows.
        - "icl": the number that maximises ICL, which prefers clusters that do not overlap.
    n_components : int or None, default=None
        Number of components of each cluster, from 1 to d - 1. None: chosen together with the number of clusters, by
        BIC unless ``n_clusters="icl"``.
    noise : "per_feature" or "shared", default="per_feature"
        "per_feature": in each cluster each column has a noise variance of its own (mixture of factor analysers), and
        the units of the columns do not matter. "shared": one noise variance in each cluster (mixture of PPCA).
    n_init : int, default=10
        Number of starts, found by k-means; the best of them after a few steps goes on.
    tol : float, default=1e-3
        Iterations stop when the total log-likelihood is estimated to be within ``tol`` of its maximum.
    max_iter : int, default=500
        Largest number of iterations.
    missing : "nan" or "unstored", default="nan"
        NaN always marks a missing cell. With "unstored" the cells that a sparse matrix does not store are missing
        too; with "nan" they are zero.
    half_life : float or None, default=None
        For ``partial_fit``: number of later rows after which the weight of a row has halved. None: all rows have the
        same weight.
    n_jobs : int or None, default=None
        Number of threads. None: as many as the linear algebra library (BLAS) uses. -1: all cores.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Determines the starts, and the draws of ``sample`` and ``impute_draws``.

    Attributes
    ----------
    weights_ : ndarray (n_clusters,)
        Probability pi of each cluster, largest first: clusters are numbered in this order.
    means_ : ndarray (n_clusters, n_features)
        Mean mu of each cluster.
    loadings_ : ndarray (n_clusters, n_features, n_components)
        Loadings W of each cluster along its own axes.
    noise_variance_ : ndarray (n_clusters, n_features) or (n_clusters,)
        Noise variances of each cluster.
    covariances_ : ndarray (n_clusters, n_features, n_features)
        Covariance of each cluster, W W' plus the noise variances on the diagonal.
    labels_ : ndarray of int (n,)
        Most probable cluster of each training row, if these were in memory.
    n_clusters_ : int
        Number of clusters.
    n_components_ : int
        Number of components of each cluster.
    criteria_ : MixtureCriteria
        Log-likelihood, BIC and ICL of all mixtures that were fitted.
    degenerate_clusters_ : ndarray of int
        Clusters without noise, such as those of equal rows, or with too few rows. They say little about the data.
    log_likelihood_ : float
        Total log-likelihood of the training rows.
    bic_, icl_ : float
        Criteria of the fit in nats: larger is better.
    rule_ : str
        How the numbers of clusters and components were chosen, in words.
    notes_ : tuple of str
        Remarks on the fit.
    column_std_ : ndarray (n_features,)
        Standard deviation of each training column, 0 if constant.
    n_samples_ : float
        Number of training rows; a row counts ``sample_weight`` times.
    n_observed_ : float
        Number of observed cells; a row counts ``sample_weight`` times.
    empty_features_ : ndarray of int
        Positions of the columns without any observed cell. Their loadings and means are 0.
    n_features_in_ : int
        Number of columns of the training data.
    feature_names_in_ : ndarray of str
        Names of the columns, if the training data have names.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit reached a maximum of the likelihood to within ``tol``.
    status_ : Status
        How the fit ended; ``status_.value`` is a sentence that explains it.
    trace_ : ndarray (n_iter + 1,)
        Log-likelihood before each iteration and at the end.
    model_ : Mixture
        The fitted mixture, for the functions of ``probpca.inference``.

    Notes
    -----
    The likelihood of a mixture has no largest value: it grows without bound where a cluster holds a few equal rows. The
    noise variances therefore have a floor, 0.001 of the noise of one PPCA of all rows.

    References
    ----------
    Tipping & Bishop, "Mixtures of probabilistic principal component analyzers", Neural Computation (1999).
    Ghahramani & Hinton, "The EM algorithm for mixtures of factor analyzers" (1996).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from probpca import MixturePPCA
    >>> X = load_iris().data
    >>> X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    >>> mixture = MixturePPCA(n_clusters=3, n_components=1, random_state=0).fit(X)
    >>> mixture.weights_.round(2)
    array([0.36, 0.33, 0.3 ])
    >>> mixture.means_.round(1)
    array([[6.5, 3. , 5.5, 2. ],
           [5. , 3.4, 1.5, 0.3],
           [6. , 2.7, 4.2, 1.3]])
    >>> mixture.predict(X[[0, 60, 120]])
    array([1, 2, 0])
    """

    _constraints: ClassVar[dict[str, Any]] = mixture_constraints()
    _fit_type = MixtureFit
    _accepts_sparse = True
    model_: Mixture

    def __init__(
        self,
        n_clusters: Any = None,
        n_components: int | None = None,
        *,
        noise: str = "per_feature",
        n_init: int = 10,
        tol: float = 1e-3,
        max_iter: int = 500,
        missing: str = "nan",
        half_life: float | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        """Store the parameters; ``fit`` checks them."""
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.noise = noise
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing
        self.half_life = half_life
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Self:
        """Fit the mixture to rows with or without missing cells.

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
            Relative precision of each cell: its noise variance is divided by the weight. A cell of weight 0 counts as
            missing. A common factor of all weights changes only the unit of the noise variances.

        Returns
        -------
        MixturePPCA
            The fitted estimator itself.
        """
        check_parameters(self, self._constraints)
        rng = generator(self.random_state)
        with fit_replaced(self), progress_bar(self.verbose) as bar:
            watch = None if bar is None else bar.parts
            source = open_training(self, X, sample_weight, cell_weight, watch)
            settings = self._settings(bar)
            result = fit_mixture(source, self.n_clusters, self.n_components, settings, rng)
        calibration = calibration_of(result, source if source.in_memory else result.sample)
        fit = MixtureFit(result._replace(sample=None), int(rng.integers(2**63)), calibration=calibration)
        self._fitted = fit
        labels = self.predict(X) if is_matrix(X) else None
        return self._finish(replace(fit, labels=labels))

    def _settings(self, watch: Any = None) -> Settings:
        noise: Any = self.noise
        return Settings(tol=self.tol, max_iter=self.max_iter, watch=watch, n_init=self.n_init, noise=noise)

    @property
    def _details(self) -> dict[str, Any]:
        """Parameters that the fitted state keeps: none."""
        return {}

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Update the mixture with one more batch of rows, for data that do not fit into memory or arrive over time.

        The first rows, up to 2,000, are kept and fitted as a table, which also chooses the numbers of clusters and
        components if they are not given. Later rows are read once, by online EM, which comes near the maximum of the
        likelihood; ``fit`` reaches it if the rows can be read repeatedly. With ``half_life``, older rows count less and
        less. The mixture is computed only when it is needed.

        Parameters
        ----------
        X : array, sparse matrix or dataframe of shape (n, n_features)
            One batch in memory; it may be a single row. NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequency of each row: a row of weight 2 counts twice, and a row of weight 0 not at all.

        Returns
        -------
        MixturePPCA
            The estimator itself.
        """
        block = checked_batch(self, X, sample_weight)
        if block is None:
            return self
        stream: Any = stream_of(self)
        if stream is None:
            seed = int(generator(self.random_state).integers(2**63))
            stream = GatheredRows(self.n_clusters, self._settings(), seed, self.n_components)
        with np.errstate(all="ignore"):
            self._fitted = StreamedFit(stream.absorb(block, self.half_life), self)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Any:
        """Fit the mixture to ``X`` and return the most probable cluster of each of its rows.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows to fit. NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequency of each row.
        cell_weight : array-like of shape (n, n_features) or None, default=None
            Relative precision of each cell.

        Returns
        -------
        ndarray of int, shape (n,)
            Number of the cluster of each row, from 0 in order of weight.
        """
        _require_repeatable(X, "fit_predict")
        self.fit(X, y, sample_weight=sample_weight, cell_weight=cell_weight)
        labels = self._state.labels
        return self.predict(X) if labels is None else labels

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Any:
        """Fit the mixture to ``X`` and return the weighted component scores of the same rows.

        The same as ``fit(X).transform(X)``.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows to fit. NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequency of each row.
        cell_weight : array-like of shape (n, n_features) or None, default=None
            Relative precision of each cell.

        Returns
        -------
        ndarray of shape (n, n_clusters * n_components)
            As ``transform`` returns.
        """
        _require_repeatable(X, "fit_transform")
        return self.fit(X, y, sample_weight=sample_weight, cell_weight=cell_weight).transform(X)

    # What the fit found

    @property
    def weights_(self) -> Array:
        """Probability pi of each cluster, largest first: (n_clusters,)."""
        return self.model_.weights

    @property
    def means_(self) -> Array:
        """Mean mu of each cluster in the units of the data: (n_clusters, n_features)."""
        return self.model_.means

    @property
    def loadings_(self) -> Array:
        """Loadings W of each cluster along its own axes: (n_clusters, n_features, n_components)."""
        return self.model_.loadings

    @property
    def noise_variance_(self) -> Array:
        """Noise variances of each cluster: (n_clusters, n_features), or (n_clusters,) with ``noise="shared"``."""
        return self.model_.noise_variance

    @property
    def covariances_(self) -> Array:
        """Covariance of each cluster: (n_clusters, n_features, n_features)."""
        return self.model_.cluster_covariances

    @property
    def labels_(self) -> Index:
        """Most probable cluster of each training row, (n,), if these were in memory."""
        labels = self._state.labels
        return present(self, [labels] if labels is not None else [], "labels_")[0]

    @property
    def n_clusters_(self) -> int:
        """Number of clusters."""
        return self.model_.n_clusters

    @property
    def criteria_(self) -> MixtureCriteria:
        """Log-likelihood, BIC and ICL of all mixtures that were fitted."""
        return self._state.result.criteria

    @property
    def degenerate_clusters_(self) -> Index:
        """Numbers of the clusters without noise, such as those of equal rows, or with too few rows."""
        return np.flatnonzero(self._state.result.degenerate)

    @property
    def rule_(self) -> str:
        """How the numbers of clusters and components were chosen, in words."""
        return self._state.result.rule

    @property
    def notes_(self) -> tuple[str, ...]:
        """Remarks on the fit, as sentences; empty if there are none."""
        return self._state.result.notes

    @property
    def column_std_(self) -> Array:
        """Standard deviation of each training column, 0 if constant: (n_features,)."""
        return self._state.result.column_std

    @property
    def n_samples_(self) -> float:
        """Number of training rows; a row counts ``sample_weight`` times."""
        return self._state.result.weight

    @property
    def n_observed_(self) -> float:
        """Number of observed cells in the training data; a row counts ``sample_weight`` times."""
        return self._state.result.cells

    @property
    def log_likelihood_(self) -> float:
        """Total log-likelihood of the training rows, in nats."""
        return self._state.result.log_likelihood

    @property
    def bic_(self) -> float:
        """Bayesian information criterion of the fit in nats: larger is better."""
        return self._criterion("bic")

    @property
    def icl_(self) -> float:
        """Integrated completed likelihood criterion of the fit in nats: larger is better."""
        return self._criterion("icl")

    def _criterion(self, name: str) -> float:
        table, model = self.criteria_, self.model_
        line = np.flatnonzero((table.n_clusters == model.n_clusters) & (table.n_components == model.n_components))
        return float(getattr(table, name)[line[0]])

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_ * self.n_components_

    def _component_names(self, count: int) -> list[str]:
        del count
        q = range(1, self.n_components_ + 1)
        return [f"C{k}_{self._component}{j}" for k in range(self.n_clusters_) for j in q]

    # Questions about rows

    def predict(self, X: Any, *, out: Any = None) -> Any:
        """Most probable cluster of each row, given its observed cells.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        out : str, Path or None, default=None
            Name of a file (.npy, Parquet, Feather or CSV) to which the numbers are written block by block.

        Returns
        -------
        ndarray of int, shape (n,)
            Numbers of clusters, from 0 in order of weight. With ``out``, the path of the file.
        """
        return answer(self, _labels, X, out, lambda: ["cluster"])

    def predict_proba(self, X: Any, *, out: Any = None) -> Any:
        r"""Probability of each cluster for each row, given its observed cells.

        .. math:: r_{ik} = \frac{\pi_k \, p(x_i \mid k)}{\sum_l \pi_l \, p(x_i \mid l)}

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        out : str, Path or None, default=None
            Name of a file (.npy, Parquet, Feather or CSV) to which the probabilities are written block by block.

        Returns
        -------
        ndarray of shape (n, n_clusters)
            Probabilities, which sum to 1 in each row. A row without observed cells has ``weights_``. With ``out``, the
            path of the file.
        """
        return answer(self, responsibilities, X, out, lambda: [f"C{k}" for k in range(self.n_clusters_)])

    def score_samples(self, X: Any, *, out: Any = None) -> Any:
        """Log-likelihood of each row: the log density of its observed cells under the mixture.

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
        return answer(self, mixture_log_likelihood, X, out, lambda: ["log_likelihood"])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per row: larger is better. Use it on held-out rows to compare mixtures.

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
        """
        return mean_score(self.score_samples(X), sample_weight)

    def transform(self, X: Any, *, out: Any = None) -> Any:
        """Component scores in each cluster, times the probability of the cluster: one block of columns a cluster.

        The components of different clusters mean different things, so that scores are not added up. For a row that
        clearly belongs to one cluster, the columns of the other clusters are about 0. ``posterior`` has the scores and
        the probabilities separately.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        out : str, Path or None, default=None
            Name of a file (.npy, Parquet, Feather or CSV) to which the scores are written block by block.

        Returns
        -------
        ndarray of shape (n, n_clusters * n_components), or a dataframe after ``set_output``
            Columns are named C0_PC1, C0_PC2, ..., C1_PC1, ... With ``out``, the path of the file.
        """
        return answer(self, weighted_scores, X, out, self.get_feature_names_out, rounding=True)

    def posterior(self, X: Any) -> MixturePosterior:
        """Posterior distribution of the cluster of each row, and of its latent variables in each cluster.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.

        Returns
        -------
        MixturePosterior
            ``responsibilities`` of shape (n, n_clusters), and ``clusters``, a ``Gaussian`` for each cluster. ``print``
            and a notebook show the first rows; ``to_frame()`` has all.
        """
        share, mean, covariance = (np.asarray(part) for part in answer(self, _posterior_parts, X))
        names = names_for(X, [f"{self._component}{j}" for j in range(1, self.n_components_ + 1)])
        parts = (Gaussian(mean[:, k], covariance[:, k], names) for k in range(self.n_clusters_))
        return MixturePosterior(share, tuple(parts), names)

    def impute(self, X: Any, *, return_std: bool = False, out: Any = None) -> Any:
        r"""Replace missing cells by their conditional means given the observed cells of the row.

        .. math:: E[x_j \mid x_O] = \sum_k r_k (\mu_{kj} + w_{kj}^\top E[z \mid x_O, k])

        Observed cells are returned unchanged.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        return_std : bool, default=False
            Whether to return the standard deviation of each cell too. It includes the uncertainty of the cluster, the
            noise, the latent variables and the fitted parameters.
        out : str, Path or None, default=None
            Name of a file (.npy, Parquet, Feather or CSV) to which completed rows are written block by block. Cannot
            be combined with ``return_std``.

        Returns
        -------
        completed : array or dataframe of shape (n, n_features)
            A dataframe if ``X`` is one. With ``out``, the path of the file.
        std : array or dataframe of shape (n, n_features)
            Only if ``return_std=True``: standard deviations of missing cells; 0 for observed cells.
        """
        if not return_std:
            found = answer(self, impute_mixture, X, out, self._columns, rounding=True)
            return like(X, found) if out is None else found
        if out is not None:
            msg = "out cannot be combined with return_std: the file holds completed rows only.\nHint: omit one of them."
            raise DataError(msg)
        both: _Arrays = answer(self, partial(_values_and_std, self._state.doubts), X, rounding=True)
        return like(X, both.first), like(X, both.second)

    def impute_interval(self, X: Any, level: float = 0.95) -> tuple[Any, Any]:
        """Prediction intervals of missing cells, between quantiles of their distribution.

        The distribution of a missing cell is a mixture, with the probabilities of the clusters given the observed cells
        of the row; an interval may span several clusters.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        level : float, default=0.95
            Probability that an interval contains the true value of its cell.

        Returns
        -------
        low, high : arrays or dataframes of shape (n, n_features)
            Lower and upper ends. Both ends of an observed cell are its value.
        """
        ends: _Arrays = answer(self, partial(_interval, self._state.doubts, level), X, rounding=True)
        return like(X, ends.first), like(X, ends.second)

    def impute_draws(self, X: Any, n_draws: int = 20, *, random_state: Any = None) -> Array:
        """Draw completed tables for multiple imputation.

        Each table has its own draw of the weights, loadings and means of the clusters, from their large-sample
        distribution; clusters, latent variables and missing cells are then drawn given these parameters. Analyse each
        table as if it were complete, and combine the results with ``probpca.inference.pool`` (Rubin's rules).

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
        """
        _ = self._state
        if not (hasattr(n_draws, "__index__") and n_draws >= 1):
            msg = f"n_draws must be a whole number, at least 1; got {n_draws!r}."
            raise ShapeError(msg)
        rng, rows = self._generator(random_state), block_of(self, X)
        tables = [draw_cells(model, rows, rng=rng) for model in self._parameters(int(n_draws))]
        return rounded(np.stack(tables), rows.values.dtype)

    def _parameters(self, n_draws: int) -> list[Mixture]:
        """Draws of the mixture, the same whenever they are made."""
        fit: MixtureFit = self._state
        counts = np.maximum(self.weights_ * self.n_samples_, 1.0)
        out = []
        for rng in np.random.default_rng(fit.draw_seed).spawn(n_draws):
            clusters = tuple(sample_parameters(belief, rng=rng) for belief in fit.beliefs)
            weights = np.maximum(rng.dirichlet(counts + 1.0), np.finfo(float).tiny)
            out.append(Mixture(weights / weights.sum(), clusters))
        return out

    def outliers(self, X: Any, *, training: bool = False) -> MixtureOutliers:
        r"""P-value of the density of each row, with the cells that make it unusual for its cluster.

        The p-value is the probability of a row whose density is as small, given which cells are observed:

        .. math:: p = \sum_k \pi_k \, P\big(\pi_k \, p_k(X) \le p(x)\big), \qquad X \sim N(\mu_k, C_k)

        The reference distribution of distances within clusters, ``calibration_``, was matched to at most 2,000 training
        rows, so that p-values stay valid for clusters with heavier tails than a Gaussian.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, or rows read in batches
            Rows with the columns of the fit. NaN marks a missing cell.
        training : bool, default=False
            Whether ``X`` are training rows. If so, p-values are based on leave-one-out distances from the clusters.

        Returns
        -------
        MixtureOutliers
            ``p_value``, ``cluster`` and more of each row, and ``contributions`` of cells, (n, n_features).
            ``model_p_value`` treats the fitted mixture as exact. ``print`` and a notebook show the least likely rows;
            ``to_frame()`` has all.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from probpca import MixturePPCA
        >>> X = load_iris().data
        >>> mixture = MixturePPCA(3, 1, random_state=0).fit(X)
        >>> strange = [[5.0, 3.4, 5.0, 0.2]]  # the sepals of one species with the petals of another
        >>> bool(mixture.outliers(strange).p_value[0] < 1e-3)
        True
        """
        left_out_of = self._state.rows_per_cluster if checked_training(training) else None
        found: Any = answer(self, partial(_outliers, self.calibration_, left_out_of), X)
        named = isinstance(found, MixtureOutliers)
        return found._replace(names=names_for(X, self._columns())) if named else found

    @property
    def calibration_(self) -> Calibration:
        """Reference distribution of the distances within clusters, from which ``outliers`` computes p-values."""
        return self._state.calibration

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> tuple[Array, Index]:
        """Draw new rows from the mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState, Generator or None, default=None
            Source of random numbers. None: the ``random_state`` of the estimator.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows in the units of the data.
        labels : ndarray of int, shape (n_samples,)
            Cluster of each row.
        """
        _ = self._state
        if n_samples < 0:
            msg = f"n_samples must not be negative; got {n_samples}."
            raise ShapeError(msg)
        return sample_mixture(self.model_, n_samples, rng=self._generator(random_state))

    def _columns(self) -> Any:
        return getattr(self, "feature_names_in_", default_names(self.model_.n_features))

    def summary(self, feature_names: Any = None, *, width: int = WIDTH) -> str:
        """Describe the fit as text: the clusters with their sizes and most distinct columns, and how the fit ended.

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
        >>> from probpca import MixturePPCA
        >>> X = load_iris(as_frame=True).data
        >>> print(MixturePPCA(3, 1, random_state=0).fit(X).summary())
        MixturePPCA: 150 rows x 4 features, 3 clusters of 1 component (as given)
        <BLANKLINE>
        cluster   weight     rows  explained  mean, in sd from that of all rows
        C0         35.8%       54      53.0%  petal width (cm) +1, petal length (cm) +0.99
        C1         33.3%       50      42.0%  petal length (cm) -1.3, petal width (cm) -1.3
        C2         30.9%       46      67.7%  sepal width (cm) -0.69, petal length (cm) +0.26
        <BLANKLINE>
        noise variance    0.009899 to 0.08093, one per feature and cluster
        log-likelihood    -195.60  (-1.3040 per row)
        criteria          BIC -290.80, ICL -296.79 (larger is better)
        status            Converged: the log-likelihood is estimated to be within tol of its maximum.
        """
        return mixture_summary(self, feature_names, width)

    def __sklearn_tags__(self) -> Any:
        """Tags of a clusterer whose ``transform`` keeps the precision of the rows."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class _Arrays(NamedTuple):
    """Two arrays with a line for each row, (n, d)."""

    first: Array
    second: Array


class _Posterior(NamedTuple):
    """Posterior of the rows of a block."""

    share: Array  # (n, K)
    mean: Array  # (n, K, q)
    covariance: Array  # (n, K, q, q)


def _posterior_parts(mixture: Mixture, x: Any) -> _Posterior:
    found = mixture_posterior(mixture, x)
    means, covariances = ([getattr(c, name) for c in found.clusters] for name in ("mean", "covariance"))
    return _Posterior(found.responsibilities, np.stack(means, axis=1), np.stack(covariances, axis=1))


def _labels(mixture: Mixture, x: Any) -> Index:
    return log_joint(mixture, x).argmax(axis=1)


def _outliers(calibration: Calibration, left_out_of: Array | None, mixture: Mixture, x: Any) -> MixtureOutliers:
    return mixture_outliers(mixture, x, calibration, left_out_of=left_out_of)


def _values_and_std(doubts: list[ParameterCovariance], mixture: Mixture, x: Any) -> _Arrays:
    found = impute_cells(mixture, x, doubts)
    return _Arrays(found.values, found.std)


def _interval(doubts: list[ParameterCovariance], level: float, mixture: Mixture, x: Any) -> _Arrays:
    return _Arrays(*impute_cells(mixture, x, doubts).interval(level))


def _require_repeatable(X: Any, method: str) -> None:
    if isinstance(X, Iterator):
        msg = f"{method} reads its rows twice; an iterator can be read once.\nHint: pass a list of batches."
        raise SourceError(msg)
