"""The parameters of a dynamical system as one vector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.learning.dynamics.em import LARGEST_RADIUS
from probpca.models import Gaussian, LinearGaussian

if TYPE_CHECKING:
    from probpca.learning.dynamics.em import SeriesEM
    from probpca.models import StateSpace
    from probpca.typing import Array

LARGEST_ENTRY = 1e8


@final
@dataclass(frozen=True, slots=True, eq=False)
class SeriesCoordinates:
    """Everything that EM may change, in units of the data; covariances by the logarithms of their Cholesky factors.

    What is constrained to be zero or constant stays so in every combination of vectors.
    """

    like: StateSpace
    em: SeriesEM
    unit: Array  # of each feature: (d,)

    @classmethod
    def around(cls, model: StateSpace, em: SeriesEM) -> SeriesCoordinates:
        """Units from a model of the same data."""
        noise = np.broadcast_to(model.emission.noise_variance, model.emission.mean.shape)
        size = np.square(model.emission.loadings) @ np.diagonal(model.process_noise)
        return cls(model, em, np.sqrt(noise + size))

    def pack(self, model: StateSpace) -> Array:
        """Model to vector, log R last."""
        emission = model.emission
        parts = [
            model.transition,
            _log_root(model.process_noise),
            emission.loadings / self.unit[:, None],
            (emission.mean - self.like.emission.mean) / self.unit,
            model.initial.mean,
            *([] if model.input_loadings is None else [model.input_loadings]),
            *([_log_root(model.initial.covariance)] if self.em.learn_initial_covariance else []),
            np.log(emission.noise_variance),
        ]
        return np.concatenate([np.ravel(part) for part in parts])

    def place(self, vector: Array) -> StateSpace | None:
        """Vector to model; None if there is no such model, or not one of the structure that is asked for."""
        like, q, d = self.like, self.like.n_components, self.like.n_features
        if not np.abs(vector).max() < LARGEST_ENTRY:
            return None
        rest = vector

        def take(*shape: int) -> Array:
            nonlocal rest
            size = int(np.prod(shape))
            part, rest = rest[:size].reshape(shape), rest[size:]
            return part

        A, Q, C, shift, mean = take(q, q), _from_log_root(take(q, q)), take(d, q), take(d), take(q)
        B = None if like.input_loadings is None else take(*like.input_loadings.shape)
        P = _from_log_root(take(q, q)) if self.em.learn_initial_covariance else like.initial.covariance
        if not (np.isfinite(Q).all() and np.isfinite(P).all()):
            return None
        structure, noise = self.em.structure, like.emission.noise_variance
        if structure.fixed("noise") is None:
            floor = self.em.floor if noise.ndim else self.em.floor.mean()
            noise = np.maximum(np.exp(np.minimum(rest, 300.0)).reshape(noise.shape), floor)
        loadings = C * self.unit[:, None] if structure.fixed("loadings") is None else like.emission.loadings
        emission = LinearGaussian(like.emission.mean + shift * self.unit, loadings, noise)
        Q = self.em.process_noise(like, Q)
        P = P if self.em.ratio is None else self.em.ratio * Q
        model = replace(
            like, initial=Gaussian(mean, P), transition=A, process_noise=Q, emission=emission, input_loadings=B
        )
        wild = structure.says("transition", "stable") and model.spectral_radius > LARGEST_RADIUS
        return None if wild else model


def _log_root(covariance: Array) -> Array:
    """Cholesky factor with the logarithms of its diagonal: (q, q); a little is added to what is singular."""
    size = np.trace(covariance) / len(covariance)
    root = np.linalg.cholesky(covariance + 1e-14 * max(float(size), 1e-300) * np.eye(len(covariance)))
    i = np.arange(len(root))
    root[i, i] = np.log(root[i, i])
    return np.asarray(root, dtype=np.float64)


def _from_log_root(log_root: Array) -> Array:
    root = np.tril(log_root)
    i = np.arange(len(root))
    root[i, i] = np.exp(np.minimum(root[i, i], 300.0))
    return np.asarray(root @ root.T, dtype=np.float64)
