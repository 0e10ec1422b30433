"""Saddle points of the likelihood, where EM comes to rest without having reached a maximum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np

from probpca.learning.loop import Coordinates
from probpca.learning.result import Status
from probpca.linalg.arnoldi import leading_eigenpair
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.learning.loop import Iterated
    from probpca.learning.settings import SaddleSettings
    from probpca.typing import Array

Step: TypeAlias = Callable[[LinearGaussian], tuple[LinearGaussian, float]]
Solve: TypeAlias = Callable[[LinearGaussian, tuple[float, ...]], "Iterated[LinearGaussian]"]


@final
@dataclass(frozen=True, slots=True)
class SaddleCheck:
    r"""Test of whether a fit has ended at a maximum of the log-likelihood or at a saddle point.

    EM steps become small near every stationary point, and the last gains do not tell which kind it is. Near a
    stationary point a step multiplies deviations from it by a matrix J. At a maximum no eigenvalue of J exceeds 1; a
    saddle point is left in directions with eigenvalues above 1. The largest eigenvalue is estimated from a few
    products with J, each a difference of two steps. Rotations of the latent variables, which have eigenvalue 1, are
    left out.
    """

    step: Step  # parameter-expanded EM: the next model, and the log-likelihood of the given one
    probe: Step  # the same for a sample of rows, which costs less; or ``step`` itself
    floor: float | Array  # smallest noise variance: () or (d,)
    tol: float  # smallest gain in log-likelihood, in nats, that counts
    settings: SaddleSettings
    slow: bool = False  # whether the solver may have stopped where parameter-expanded EM would still gain much

    def fit(
        self, solve: Solve, start: LinearGaussian, trace: tuple[float, ...], max_iter: int
    ) -> Iterated[LinearGaussian]:
        """Run a solver; if it ends at a saddle point, continue from a better model nearby."""
        ended = solve(start, trace)
        while ended.status is Status.CONVERGED:
            better = self.better_model(ended.state, ended.trace[-1])
            if better is None:
                break
            if len(ended.trace) > max_iter:
                return ended._replace(status=Status.MAX_ITER)
            ended = solve(better, ended.trace)
        return ended

    def better_model(self, model: LinearGaussian, log_likelihood: float) -> LinearGaussian | None:
        """Model with a larger log-likelihood near a saddle point; None at a maximum, or if no noise is left."""
        if (model.noise_variance <= 2 * self.floor).all():
            return None
        if self.slow:
            expanded = self.step(model)[0]
            if self.step(expanded)[1] > log_likelihood + self.tol:
                return expanded
        # In units of the noise, the information about all loadings and means is of the same size.
        coordinates = Coordinates.of_noise(model)
        growth = partial(_growth, coordinates, model, self.settings.difference)
        origin, limit = coordinates.flatten(model), self.settings.rate
        random = _without_rotations(origin, np.random.default_rng(0).standard_normal(origin.size), model.loadings.shape)
        rate, direction = leading_eigenpair(growth(self.probe), random, self.settings.products, above=limit)
        if rate > limit and self.probe is not self.step:
            rate = float(direction @ growth(self.step)(direction))
        if rate <= limit:
            return None
        for length in self.settings.lengths:
            for move in (length * direction, -length * direction):
                # One step removes the parts of an inexact direction along which the log-likelihood falls steeply.
                moved = self.step(coordinates.restore(origin + move))[0]
                if self.step(moved)[1] > log_likelihood + self.tol:
                    return moved
        return None


def _growth(coordinates: Coordinates, model: LinearGaussian, size: float, step: Step) -> Callable[[Array], Array]:
    """Function that multiplies a vector by the derivative of a step, computed as a difference of two steps.

    Rotations of the latent variables, which change nothing, are left out of the result.
    """
    origin, image = coordinates.flatten(model), coordinates.flatten(step(model)[0])

    def product(vector: Array) -> Array:
        moved = coordinates.restore(origin + size * vector)
        change = (coordinates.flatten(step(moved)[0]) - image) / size
        return _without_rotations(origin, change, model.loadings.shape)

    return product


def _without_rotations(origin: Array, vector: Array, shape: tuple[int, int]) -> Array:
    r"""Subtract from a change Z of the loadings its part W A with :math:`A^\top = -A`.

    What is left has no such part if :math:`W^\top W A + A W^\top W = W^\top Z - Z^\top W`, which is solved in the
    eigenvectors of :math:`W^\top W`.
    """
    size = shape[0] * shape[1]
    W, Z = origin[:size].reshape(shape), vector[:size].reshape(shape)
    squares, turn = np.linalg.eigh(W.T @ W)
    both = np.maximum(squares[:, None] + squares, 0.0)
    product = turn.T @ (W.T @ Z) @ turn
    A = np.divide(product - product.T, both, out=np.zeros_like(both), where=both > 1e-14 * both.max(initial=0.0))
    return np.concatenate([(Z - W @ (turn @ A @ turn.T)).ravel(), vector[size:]])
