"""Conditional and joint Gaussians of a model, and central intervals."""

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
    """Predicted values of some features, one Gaussian a row, all with the same covariance."""

    features: Index  # positions of the predicted features: (u,)
    mean: Array  # (n, u)
    covariance: DiagPlusLowRank  # (u, u), never dense unless asked for

    @property
    def std(self) -> Array:
        """Standard deviation of each predicted feature, the same for all rows: (u,)."""
        return np.sqrt(self.covariance.diag())

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends, (n, u) each, that hold each value with probability ``level``."""
        return central_interval(self.mean, self.std, level)


def joint(model: LinearGaussian) -> Gaussian:
    r"""The Gaussian of (x, z) together, of size d + q.

    .. math::
        \begin{bmatrix} x \\ z \end{bmatrix} \sim N\left(
        \begin{bmatrix} \mu \\ 0 \end{bmatrix},
        \begin{bmatrix} W W^\top + \Psi & W \\ W^\top & I \end{bmatrix}\right)

    Dense, (d + q) x (d + q): for small d, and for checking. Deisenroth et al. (2020), eq. 10.72.
    """
    W, q = model.loadings, model.n_components
    covariance = np.block([[model.covariance.dense(), W], [W.T, np.eye(q)]])
    return Gaussian(np.concatenate([model.mean, np.zeros(q)]), covariance)


def marginal(model: LinearGaussian, features: Any) -> LinearGaussian:
    """The model of some features, the others integrated out: their rows of W, mu and psi."""
    return model.restrict(feature_index(features, model.n_features))


def condition(model: LinearGaussian, features: Any, values: Rows) -> Predictive:
    r"""Predict all other features from ``features``, whose values are the columns of ``values``.

    .. math::
        x_u \mid x_o \sim N(\mu_u + W_u m, \; W_u P W_u^\top + \Psi_u)

    with m and P the posterior of z given the features that are known. Predicted features keep
    their order. Costs O(d q) a row.

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
        msg = "condition needs at least one feature left to predict; all of them were given."
        raise ShapeError(msg)
    block = as_block(values, known.size)
    if not block.is_complete:
        msg = "condition needs values of all the features it is given; some are NaN.\nHint: impute fills them in."
        raise DataError(msg)
    seen, unseen = model.restrict(known), model.restrict(unknown)
    mean = unseen.mean + posterior_mean(seen, block) @ unseen.loadings.T  # (n, u)
    return Predictive(unknown, mean, DiagPlusLowRank(unseen.noise_variance, unseen.loadings @ posterior_root(seen)))


def feature_index(features: Any, n_features: int) -> Index:
    """Positions of features, given as positions or as a mask; each once, in the order given."""
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
