"""A Gaussian with a dense covariance, or a row of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.errors import ShapeError, require_finite

if TYPE_CHECKING:
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    """N(mean, covariance); with a leading axis, one Gaussian a row.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.models import Gaussian
    >>> Gaussian(np.zeros(2), np.diag([1.0, 4.0])).std
    array([1., 2.])
    """

    mean: Array  # (k,) or (n, k)
    covariance: Array  # (k, k) or (n, k, k); rows may share one matrix as a broadcast view

    def __post_init__(self) -> None:
        """Check shapes and values once; formulas trust them afterwards."""
        mean, covariance = _read_only(self.mean), _read_only(self.covariance)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", covariance)
        k = mean.shape[-1] if mean.ndim else 0
        wanted = (*mean.shape[:-1], k, k)
        if mean.ndim not in (1, 2) or covariance.shape != wanted:
            msg = (
                f"mean must be (k,) or (n, k) and covariance (k, k) or (n, k, k); "
                f"got {mean.shape} and {covariance.shape}."
            )
            raise ShapeError(msg)
        require_finite("mean", mean)
        require_finite("covariance", covariance)

    @property
    def std(self) -> Array:
        """Standard deviation of each coordinate, shaped like ``mean``."""
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))


def standard_normal(k: int) -> Gaussian:
    """N(0, I_k), the prior of the latent variables."""
    return Gaussian(np.zeros(k), np.eye(k))


def _read_only(value: Array) -> Array:
    """Float64 that cannot be written through; a view, since beliefs about many rows are large."""
    view = np.asarray(value, dtype=np.float64).view()
    view.setflags(write=False)
    return view
