"""The parameters of a model as one vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, final

import numpy as np

from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True)
class Coordinates:
    """Numbers near 1: W and mu in units of the data, log s2."""

    mean: Array  # (d,)
    unit: float
    q: int

    @classmethod
    def around(cls, model: LinearGaussian) -> Self:
        """Units and origin from a model of the same data."""
        unit = float(np.sqrt(model.covariance.trace() / model.n_features))
        return cls(model.mean, unit, model.n_components)

    def pack(self, model: LinearGaussian) -> Array:
        """Model to vector: (d q + d + 1,)."""
        log_noise = np.log(model.noise_variance / self.unit**2)
        shift = (model.mean - self.mean) / self.unit
        return np.concatenate([model.loadings.ravel() / self.unit, shift, [log_noise]])

    def unpack(self, vector: Array) -> LinearGaussian:
        """Vector to model."""
        d = self.mean.size
        loadings = vector[: d * self.q].reshape(d, self.q) * self.unit
        shift = vector[d * self.q : -1] * self.unit
        return LinearGaussian(self.mean + shift, loadings, np.exp(vector[-1]) * self.unit**2)

    def pack_gradient(self, mean: Array, loadings: Array, log_noise_variance: float) -> Array:
        """Derivatives in the parameters to derivatives in the vector."""
        return np.concatenate([loadings.ravel() * self.unit, mean * self.unit, [log_noise_variance]])
