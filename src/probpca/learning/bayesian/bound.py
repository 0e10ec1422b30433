"""The lower bound of Bayesian PCA as a function of the parameters, for quasi-Newton steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.learning.bayesian.variational_em import Pending
from probpca.learning.em.quasi_newton import InformationSettings, Outside
from probpca.learning.loop import Coordinates
from probpca.linalg.packed import traces
from probpca.models import ParameterBelief

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.statistics import Regression
    from probpca.typing import Array


class Information:
    r"""Approximate information about the loadings, the mean and the log noise variance, and its inverse.

    If latent variables were known, the information about :math:`w_{jk}` would be the inverse of its posterior
    variance :math:`v_{jk}`, which is divided between the prior and the cells: the share :math:`f_{jk}` comes from
    the cells. Of that share, unknown latent variables take :math:`1 / l_k`, where :math:`l_k - 1` is the expected
    squared loadings of component k in units of the noise, or :math:`v / l_k` towards an axis outside the components
    along which the rows vary by v. The information about combinations of the loadings with each other, and about the
    mean, is that of complete rows.
    """

    def __init__(
        self, belief: ParameterBelief, counts: Array, rows: float, rest: Outside | None, how: InformationSettings
    ) -> None:
        """Compute the information per row at some parameters.

        ``counts`` are the total weights of the cells of each feature, divided by the largest one, ``rows``: (d,).
        """
        W, noise = belief.centre.loadings, float(belief.centre.noise_variance)
        d, q = W.shape
        variance = np.broadcast_to(belief.variances.T, (d, q + 1))
        self._unit = np.sqrt(rows * variance)
        of_loadings = self._unit[:, :q]
        white = np.divide(W, of_loadings, out=np.zeros((d, q)), where=of_loadings > 0)
        left, _, right = np.linalg.svd(white, full_matrices=False)
        self._axes = left @ right  # the orthonormal matrix nearest to the loadings
        squares = counts @ (np.square(W) + variance[:, :q]) / noise
        total = squares + 1  # l: (q,)
        cells = np.minimum(counts[:, None] * np.square(of_loadings) / noise, 1.0)  # f: (d, q)
        energy = np.square(W)
        average = (cells * energy).sum(axis=0) / np.maximum(energy.sum(axis=0), np.finfo(float).tiny)  # (q,)
        self._rest = None if rest is None else rest.axes
        if rest is None:
            self._outside = np.maximum(1 - cells / total, how.least)  # (d, q)
        else:
            self._outside = np.maximum(np.abs(1 - rest.variance[:, None] * (average / total)), how.exchange)
        least = 2 * how.least * np.minimum(total[:, None], total)
        both = np.maximum(squares[:, None] + squares, least) / np.outer(total, total)
        self._inside = 1 - np.minimum(average[:, None], average) * (1 - both)
        self._noise = 2 / max(counts.sum() - q * counts.max(), counts.max())
        self._mean = W * np.sqrt(counts / noise)[:, None]

    def solve(self, loadings: Array, mean: Array, log_noise: Array) -> tuple[Array, Array, Array]:
        """Product of the inverse with derivatives with respect to W, mu and the log noise variance."""
        q = loadings.shape[1]
        unit, unit_of_mean = self._unit[:, :q], self._unit[:, q]
        turned = unit * loadings
        inside = self._axes.T @ turned
        step = unit * (self._axes @ (inside / self._inside) + self._solve_outside(turned - self._axes @ inside))
        shift = unit_of_mean * mean
        shift = unit_of_mean * (shift + self._mean @ (self._mean.T @ shift))
        return step, shift, self._noise * log_noise

    def _solve_outside(self, change: Array) -> Array:
        if self._rest is not None:
            return self._project(self._rest @ ((self._rest.T @ change) / self._outside))
        root = np.sqrt(self._outside)
        return self._project(self._project(change / root) / root)

    def _project(self, turned: Array) -> Array:
        return np.asarray(turned - self._axes @ (self._axes.T @ turned))


@final
class Bound:
    r"""The lower bound, maximised over latent variables, covariances and axes, as a function of W, mu and the noise.

    A change of the latent axes by a rotation does not change the bound, because the prior rotates with them. Loadings
    are therefore turned to those of the state that was kept last, and a component that was removed leaves the vectors.
    Posterior covariances are those of the last sweep, in proportion to the noise variance.
    """

    def __init__(
        self,
        sums_at: Callable[[Pending], Regression],
        start: Pending,
        floor: float,
        covariance: Array | None = None,
        how: InformationSettings = InformationSettings(),
    ) -> None:
        """Set the function that returns the statistics of the E-step at a state, and the smallest noise variance.

        A ``covariance`` estimated from the observed cells, as ``Outside`` expects it, tells which directions compete
        with the components.
        """
        self.rows = 1.0
        self.n_noise = 1
        self.noise_change = np.inf
        self._sums_at, self._covariance, self._how = sums_at, covariance, how
        self._rest: Outside | None = None
        self._until_refresh = 0
        self._coordinates = Coordinates.around(start.belief.centre, floor)
        self._axes = start.belief.centre.loadings  # of the state that was kept last, turned to those before: (d, q)
        self._turn = np.eye(start.belief.n_components)  # of that state to those before: (k, q)
        self._state = self._following = start
        self._counts = np.empty(0)
        self._information: Information | None = None

    @property
    def is_applicable(self) -> bool:
        """Whether there is a component, and enough noise for the approximate information."""
        centre = self._state.belief.centre
        if not centre.loadings.any():
            return False
        noise = float(centre.noise_variance)
        signal = float(np.square(centre.loadings).sum() / self._counts.sum())
        return noise >= self._how.least_noise * (signal + noise)

    def slope_at(self, state: Pending) -> tuple[Array, Array]:
        """Convert a state to a vector, and compute the gradient per row there."""
        belief, sums = state.belief, self._sums_at(state)
        model, turn = belief.centre, self._turn_of(belief)
        noise = float(model.noise_variance)
        counts = np.broadcast_to(sums.gram[-1], model.mean.shape)
        self.rows = float(counts.max())
        self._counts = counts / self.rows
        score = sums.score / (noise * self.rows)
        loadings = score[:-1].T - model.loadings * (belief.precision / self.rows)
        squares = float((sums.squares + traces(sums.gram, belief.covariance)).sum())
        log_noise = np.asarray(0.5 * (squares / noise - sums.cells) / self.rows)
        gradient = self._coordinates.flatten_gradient(score[-1], loadings @ turn.T, log_noise)
        return self._coordinates.flatten(replace(model, loadings=model.loadings @ turn.T)), gradient

    def _turn_of(self, belief: ParameterBelief) -> Array:
        """Rotation of components that brings the loadings nearest to those of the state that was kept last: (k, q)."""
        left, _, right = np.linalg.svd(belief.centre.loadings.T @ self._axes, full_matrices=False)
        return np.asarray((left @ right).T)

    def keep(self, state: Pending, following: Pending) -> Callable[[Array], Array] | None:
        """Take note of a state and of the sweep from it; components that it lacks leave the vectors."""
        belief = state.belief
        turn = self._turn_of(belief)
        self._state, self._following, self._information = state, following, None
        noise = following.learnt.centre.noise_variance / belief.centre.noise_variance
        self.noise_change = abs(float(np.log(noise)))
        d, before = self._axes.shape
        if before == belief.n_components:
            self._axes, self._turn = belief.centre.loadings @ turn.T, turn
            return None
        self._axes, self._turn = belief.centre.loadings, np.eye(belief.n_components)
        self._coordinates = replace(self._coordinates, q=belief.n_components)

        def convert(vector: Array) -> Array:
            kept = vector[: d * before].reshape(d, before) @ turn
            return np.concatenate([kept.ravel(), vector[d * before :]])

        return convert

    def free(self, gradient: Array) -> Array:
        """Entries that may change: not a noise variance at its floor that would fall further."""
        free = np.ones(gradient.size, dtype=bool)
        above = float(self._state.belief.centre.noise_variance) > (1 + 1e-9) * self._coordinates.floor
        free[-1] = above or gradient[-1] > 0
        return free

    def solve(self, gradient: Array) -> Array:
        """Product of the inverse of the approximate information per row with a gradient."""
        belief, unit = self._state.belief, self._coordinates.unit
        if self._information is None:
            self._information = Information(belief, self._counts, self.rows, self._outside(belief), self._how)
        d, q = self._axes.shape
        turn = self._turn
        loadings, mean, noise = np.split(gradient, (d * q, d * q + d))
        found = self._information.solve(loadings.reshape(d, q) @ turn / unit, mean / unit, noise)
        return np.concatenate([(found[0] @ turn.T).ravel() / unit, found[1] / unit, found[2]])

    def _outside(self, belief: ParameterBelief) -> Outside | None:
        """Variances outside the components, computed anew from time to time; None if the covariance is not known."""
        if self._covariance is not None and not self._until_refresh:
            psi = np.full(len(self._counts), float(belief.centre.noise_variance))
            self._rest = Outside.of(belief.centre.loadings, psi, self._covariance, self._counts)
            self._until_refresh = self._how.refresh
        self._until_refresh -= 1
        return self._rest

    def place(self, vector: Array) -> Pending:
        """Convert a vector to a state with the covariances of the last sweep and the best axes for it."""
        learnt, q = self._following.learnt, self._axes.shape[1]
        placed = self._coordinates.place(vector)
        centre = replace(placed, loadings=placed.loadings @ self._turn)
        scale = float(centre.noise_variance / self._state.belief.centre.noise_variance)
        belief = ParameterBelief(centre, learnt.covariance * scale, learnt.precision)
        _, rotation = np.linalg.eigh(centre.loadings.T @ centre.loadings + belief.summed_covariance)
        basis = np.eye(q + 1)
        basis[:q, :q] = rotation[:, ::-1]
        return Pending(belief, basis)
