"""What every fitted estimator with a linear-Gaussian model can be asked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from probpca.blocks import Block, as_block
from probpca.errors import ShapeError, SourceError
from probpca.estimators.reading import open_rows, write_answers
from probpca.inference import conditioning, projection as coding, sampling
from probpca.inference.likelihood import log_likelihood
from probpca.inference.outlier_scores import Outliers, outliers
from probpca.inference.posteriors import posterior, posterior_covariance, posterior_mean
from probpca.learning.seeds import generator
from probpca.models import Gaussian, LinearGaussian
from probpca.sources import open_source
from probpca.sources.open import check_weight, is_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.inference.conditioning import Predictive
    from probpca.typing import Array


class _Belief(NamedTuple):
    mean: Array
    covariance: Array


def _is_complete(_: LinearGaussian, block: Block) -> Any:
    return np.array([block.is_complete])


def _mean_and_covariance(model: LinearGaussian, block: Block) -> _Belief:
    belief = posterior(model, block)
    return _Belief(belief.mean, belief.covariance)


class LinearGaussianQueries(TransformerMixin):  # type: ignore[misc]
    """Questions to ``model_``, row by row or about the model as a whole."""

    model_: LinearGaussian
    n_jobs: int | None
    random_state: Any

    @property
    def mean_(self) -> Array:
        """Mean mu: (n_features,)."""
        return self.model_.mean

    @property
    def loadings_(self) -> Array:
        """Loadings W along the principal axes: (n_features, n_components)."""
        return self.model_.loadings

    @property
    def components_(self) -> Array:
        """Principal axes, orthonormal, one a row: (n_components, n_features)."""
        return self.model_.principal_axes[0].T

    @property
    def noise_variance_(self) -> Any:
        """Noise variance: a number, or one per feature when ``standardize=True``."""
        noise = self.model_.noise_variance
        return float(noise) if noise.ndim == 0 else noise

    @property
    def explained_variance_(self) -> Array:
        """Variance of the model along each principal axis, 1/n convention: (n_components,)."""
        return coding.explained_variance(self.model_)

    @property
    def explained_variance_ratio_(self) -> Array:
        """The same as a share of the total variance: (n_components,)."""
        return coding.explained_variance_ratio(self.model_)

    @property
    def _n_features_out(self) -> int:
        return self.model_.n_components

    def transform(self, X: Any, *, out: Any = None) -> Any:
        """Posterior mean of the latent variables of each row: (n, n_components).

        With ``out``, the name of a file (.npy, Parquet, Feather, CSV), answers are written there as they come.
        """
        return self._answer(posterior_mean, X, out, self.get_feature_names_out)

    def inverse_transform(self, X: Any) -> Array:
        """Rows that latent variables stand for, W z + mu: (n, n_features)."""
        check_is_fitted(self)
        latent = check_array(X, dtype=np.float64)
        if latent.shape[1] != self.model_.n_components:
            msg = f"latent rows must have {self.model_.n_components} components; got {latent.shape[1]}."
            raise ShapeError(msg)
        return coding.decode(self.model_, latent)

    def posterior(self, X: Any) -> Gaussian:
        """Posterior of the latent variables: mean (n, q) and covariance (n, q, q), shared by complete rows."""
        if self._answer(_is_complete, X).all():
            mean = self._answer(posterior_mean, X)
            n, q = mean.shape
            return Gaussian(mean, np.broadcast_to(posterior_covariance(self.model_), (n, q, q)))
        return Gaussian(*self._answer(_mean_and_covariance, X))

    def project(self, X: Any) -> Array:
        """Coordinates along the principal axes, as classical PCA has them: (n, n_components)."""
        return self._answer(coding.project, X)

    def reconstruct(self, X: Any) -> Array:
        """The nearest points of the principal subspace: (n, n_features)."""
        return self._answer(coding.reconstruct, X)

    def score_samples(self, X: Any, *, out: Any = None) -> Any:
        """Log-likelihood of each row: (n,); written to the file ``out`` if that is given."""
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

    def outliers(self, X: Any) -> Outliers:
        """Distances of rows from the model, with p-values and the share of each cell."""
        found: Outliers = self._answer(outliers, X)
        return found

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Array:
        """Draw rows from the model: (n_samples, n_features)."""
        check_is_fitted(self)
        if n_samples < 0:
            msg = f"n_samples must not be negative; got {n_samples}."
            raise ShapeError(msg)
        return sampling.sample(self.model_, n_samples, rng=self._generator(random_state))

    def explore(self, X: Any, n_draws: int = 10, *, random_state: Any = None) -> Array:
        """Draw plausible neighbours of each row: (n_draws, n, n_features)."""
        rows = self._block(X)
        return sampling.explore(self.model_, rows, n_draws, rng=self._generator(random_state))

    def joint(self) -> Gaussian:
        """The joint Gaussian of data and latent variables, of size n_features + n_components."""
        check_is_fitted(self)
        return conditioning.joint(self.model_)

    def condition(self, features: Any, values: Any) -> Predictive:
        """Predict all other columns from ``features`` (names or positions), whose values are given."""
        check_is_fitted(self)
        known = check_array(values, dtype=np.float64, ensure_min_features=0)
        return conditioning.condition(self.model_, self._positions(features), known)

    def get_covariance(self) -> Array:
        """The covariance W W' + Psi of the model: (n_features, n_features)."""
        check_is_fitted(self)
        return self.model_.covariance.dense()

    def get_precision(self) -> Array:
        """Its inverse, by the low-rank form."""
        check_is_fitted(self)
        return self.model_.covariance.dense_inverse()

    def _positions(self, features: Any) -> Any:
        names = list(getattr(self, "feature_names_in_", []))
        asked = [features] if np.ndim(features) == 0 else list(features)
        if any(isinstance(feature, str) for feature in asked):
            unknown = [feature for feature in asked if feature not in names]
            if unknown:
                msg = f"no column is called {unknown[0]!r}; the fitted columns are {names or 'without names'}."
                raise ShapeError(msg)
            return [names.index(feature) for feature in asked]
        return asked

    def _generator(self, random_state: Any) -> np.random.Generator:
        return generator(self.random_state if random_state is None else random_state)

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        if not is_table(X):
            msg = "this method takes a matrix of rows, not a source.\nHint: pass some of its rows as an array."
            raise SourceError(msg)
        kinds = [np.float64, np.float32]
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=kinds, ensure_all_finite="allow-nan")

    @property
    def _unstored_missing(self) -> bool:
        return getattr(self, "missing", "nan") == "unstored"

    def _block(self, X: Any) -> Block:
        """Rows at hand, as one block."""
        values = as_block(self._validated(X)).values
        return Block(values, unstored_missing=self._unstored_missing and sparse.issparse(values))

    def _answer(
        self,
        function: Callable[[LinearGaussian, Any], Any],
        X: Any,
        out: Any = None,
        names: Callable[[], Any] = list,
    ) -> Any:
        """Ask a row-wise question of rows wherever they are, blocks in parallel."""
        check_is_fitted(self)
        _ = self.model_.covariance.whitened  # once, before workers would each compute it
        if is_table(X):
            source = open_source(self._validated(X), unstored_missing=self._unstored_missing, n_jobs=self.n_jobs)
        else:
            source = open_rows(self, X)
        question = partial(function, self.model_)
        return source.map(question) if out is None else write_answers(source, question, out, [*map(str, names())])
