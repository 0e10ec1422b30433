"""Conditional, marginal and joint distributions of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks import as_block
from probpca.errors import DataError, ShapeError
from probpca.inference.posteriors import posterior_mean, posterior_root
from probpca.linalg.low_rank import DiagPlusLowRank
from probpca.models import Gaussian
from probpca.models.gaussian import central_interval

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.models import LinearGaussian
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True, eq=False)
class Predictive:
    """Predictive distribution of some features given others: one Gaussian per row, with a common covariance.

    Attributes
    ----------
    features : ndarray of shape (u,)
        Positions of the predicted features.
    mean : ndarray of shape (n, u)
        Predicted values.
    covariance : DiagPlusLowRank
        Covariance of the predicted features, in low-rank form; ``covariance.dense()`` is the matrix (u, u).
    """

    features: Index
    mean: Array
    covariance: DiagPlusLowRank

    @property
    def std(self) -> Array:
        """Standard deviation of each predicted feature, the same for all rows: (u,)."""
        return np.sqrt(self.covariance.diag())

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends of intervals, (n, u) each, that contain each value with probability ``level``."""
        return central_interval(self.mean, self.std, level)


def joint(model: LinearGaussian) -> Gaussian:
    r"""Joint distribution of a row x and its latent variables z, of size d + q.

    .. math::
        \begin{bmatrix} x \\ z \end{bmatrix} \sim N\left(
        \begin{bmatrix} \mu \\ 0 \end{bmatrix},
        \begin{bmatrix} W W^\top + \Psi & W \\ W^\top & I \end{bmatrix}\right)

    The covariance is a dense matrix (d + q, d + q), so that d must not be large. Deisenroth et al. (2020), eq. 10.72.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import joint
    >>> from probpca.models import LinearGaussian
    >>> joint(LinearGaussian(np.zeros(2), [[2.0], [1.0]], 0.5)).covariance
    array([[4.5, 2. , 2. ],
           [2. , 1.5, 1. ],
           [2. , 1. , 1. ]])
    """
    W, q = model.loadings, model.n_components
    covariance = np.block([[model.covariance.dense(), W], [W.T, np.eye(q)]])
    return Gaussian(np.concatenate([model.mean, np.zeros(q)]), covariance)


def marginal(model: LinearGaussian, features: Any) -> LinearGaussian:
    """Marginal model of some features, with the others integrated out.

    ``features`` are positions, or a mask of length d.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import marginal
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(3), [[2.0], [1.0], [0.0]], 0.5)
    >>> marginal(model, [0, 2]).loadings
    array([[2.],
           [0.]])
    """
    return model.restrict(feature_index(features, model.n_features))


def condition(model: LinearGaussian, features: Any, values: Rows) -> Predictive:
    r"""Conditional distribution of all other features given the values of some.

    .. math::
        x_u \mid x_o \sim N(\mu_u + W_u m, \; W_u P W_u^\top + \Psi_u)

    with m and P the posterior of z given the known features. ``features`` are the positions of the known features, or a
    mask, and ``values`` (n, k) their values. Predicted features keep their order. Costs O(d q) per row.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import condition
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[2.0], [1.0]], 0.5)
    >>> condition(model, [0], [[4.5]]).mean
    array([[2.]])
    """
    known = feature_index(features, model.n_features)
    unknown = np.setdiff1d(np.arange(model.n_features), known)
    if unknown.size == 0:
        msg = "condition needs at least one feature left to predict; got values of all features."
        raise ShapeError(msg)
    block = as_block(values, known.size)
    if not block.is_complete:
        msg = "condition needs all values of the given features; some are NaN.\nHint: use impute for missing values."
        raise DataError(msg)
    seen, unseen = model.restrict(known), model.restrict(unknown)
    mean = unseen.mean + posterior_mean(seen, block) @ unseen.loadings.T  # (n, u)
    return Predictive(unknown, mean, DiagPlusLowRank(unseen.noise_variance, unseen.loadings @ posterior_root(seen)))


def feature_index(features: Any, n_features: int) -> Index:
    """Positions of features given as positions or as a mask; raises ``ShapeError`` for invalid or repeated ones."""
    chosen = np.atleast_1d(np.asarray(features))
    if chosen.dtype == bool and chosen.shape == (n_features,):
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or chosen.size == 0 or not np.issubdtype(chosen.dtype, np.integer):
        msg = f"features must be positions 0 .. {n_features - 1}, at least one; got {features!r}."
        raise ShapeError(msg)
    if chosen.min() < -n_features or chosen.max() >= n_features or np.unique(chosen % n_features).size < chosen.size:
        msg = f"features must be different positions 0 .. {n_features - 1}; got {features!r}."
        raise ShapeError(msg)
    return chosen % n_features
