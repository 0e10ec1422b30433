"""Quasi-Newton steps of maximum likelihood, where EM is slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.learning.loop import Anderson, Coordinates
from probpca.learning.quasi_newton import QuasiNewton, QuasiNewtonSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.learning.em.gradient import Gradient
    from probpca.learning.loop import Monitor
    from probpca.models import LinearGaussian
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True)
class InformationSettings:
    """Options of the approximate information."""

    least: float = 0.05  # information about a direction without signal, as a share of that about a strong one
    least_free: float = 0.1  # smallest share of the information about a noise variance that its loadings leave
    # Information about an exchange of a component and a direction of nearly the same variance, as a share of that about
    # a strong component; the variances outside the components are computed anew after so many steps.
    exchange: float = 0.1
    refresh: int = 4
    # Below this share of noise in the variance, the information of incomplete rows is too different from that of
    # complete ones, and EM steps are combined instead.
    least_noise: float = 1e-4


class Outside(NamedTuple):
    """Variances of the rows outside the components, in units of the noise: those that components compete with."""

    axes: Array  # orthonormal: (d, d)
    variance: Array  # along the axes: (d,)

    @classmethod
    def of(cls, loadings: Array, psi: Array, covariance: Array, share: Array) -> Outside:
        r"""Eigenpairs of :math:`I + D^{1/2} (\Psi^{-1/2} S \Psi^{-1/2} - I) D^{1/2}` outside the span of the loadings.

        ``share`` is the diagonal of D, how often each feature was observed compared with the one observed most often,
        and ``covariance`` is :math:`D^{1/2} S D^{1/2}`.
        """
        root = np.sqrt(psi)
        white = covariance / np.outer(root, root)
        white[np.diag_indices_from(white)] += 1 - share
        axes = np.linalg.qr(loadings / root[:, None])[0]
        white -= axes @ (axes.T @ white)
        values, vectors = np.linalg.eigh(white - (white @ axes) @ axes.T)
        return cls(vectors, np.maximum(values, 0.0))


class Information:
    r"""Approximate information about the parameters, and its inverse.

    It is nearly that of complete rows, in principal axes of the loadings in units of the noise,
    :math:`\Psi^{-1/2} W = U S R^\top`. With :math:`l_k = s_k^2 + 1` and

    .. math:: \Psi^{-1/2} \, dW = (U A + B) R^\top, \qquad U^\top B = 0,

    n complete rows have the information :math:`n s_k^2 / l_k` about :math:`B_{jk}`, and at most
    :math:`n (s_i^2 + s_k^2) / (l_i l_k)` about :math:`A_{ik}`; :math:`n C^{-1}` about the mean;
    :math:`\tfrac12 n (d - q)` about the log noise variance, or :math:`\tfrac12 n (1 - h_j)^2` about that of each
    feature, with its leverage h. Features that were observed less often count less.

    If the rows vary by :math:`v_j \neq 1` in units of the noise along an axis outside the components, as where features
    have unequal noise, their information about the change of component k towards it is
    :math:`n (l_k - v_j) / l_k` instead: little if both have the same variance, and negative if they should be
    exchanged. Its absolute value leads away from saddle points (Dauphin et al. 2014).
    """

    def __init__(
        self, loadings: Array, noise: Array, counts: Array, how: InformationSettings, rest: Outside | None = None
    ) -> None:
        """Compute the information at some parameters, given the total weight of the cells of each feature (d,).

        Without variances ``rest`` outside the components, they count as noise.
        """
        d, q = loadings.shape
        psi = np.broadcast_to(noise, (d,))
        self._loadings, self._psi = loadings, psi
        self._rare = np.divide(1.0, np.sqrt(counts), out=np.zeros(d), where=counts > 0)
        self._unit = np.sqrt(psi) * self._rare
        U, s, R = np.linalg.svd(loadings / np.sqrt(psi)[:, None], full_matrices=False)
        squares, variance = np.square(s), np.square(s) + 1
        self._axes, self._turn = U, R.T
        self._rest = None if rest is None else rest.axes
        if rest is None:
            self._outside = np.maximum(squares, how.least) / variance  # (q,)
        else:
            self._outside = np.maximum(np.abs(1 - rest.variance[:, None] / variance), how.exchange)  # (d, q)
        both = np.maximum(squares[:, None] + squares, 2 * how.least * np.minimum(variance[:, None], variance))
        self._inside = both / np.outer(variance, variance)  # (q, q)
        if noise.ndim:
            free = 1 - np.square(U) @ (squares / variance)
            self._noise = 2 * np.square(self._rare / np.maximum(free, how.least_free))
        else:
            self._noise = np.array([2 / max(counts.sum() - q * counts.max(), counts.max())])

    def solve(self, gradient: Array) -> Array:
        """Product of the inverse with a vector of derivatives with respect to W, mu and the log noise variances."""
        W = self._loadings
        by_loadings, by_mean, by_noise = np.split(gradient, (W.size, W.size + len(W)))
        turned = (self._unit[:, None] * by_loadings.reshape(W.shape)) @ self._turn
        inside = self._axes.T @ turned
        step = self._axes @ (inside / self._inside) + self._solve_outside(turned - self._axes @ inside)
        mean = self._rare * by_mean
        mean = self._rare * (W @ (W.T @ mean) + self._psi * mean)
        return np.concatenate([(self._unit[:, None] * (step @ self._turn.T)).ravel(), mean, self._noise * by_noise])

    def _solve_outside(self, change: Array) -> Array:
        """Product of the inverse with derivatives orthogonal to the loadings, in units of the noise: (d, q)."""
        if self._rest is None:
            return np.asarray(change / self._outside)
        step = self._rest @ ((self._rest.T @ change) / self._outside)
        return np.asarray(
            step - self._axes @ (self._axes.T @ step)
        )  # the loadings may have moved since the axes were computed


@final
class Likelihood:
    """The log-likelihood of a model as a function of its parameters, as vectors."""

    def __init__(
        self,
        gradient_at: Callable[[LinearGaussian], tuple[Gradient, Array]],
        start: LinearGaussian,
        floor: float | Array,
        covariance: Array | None = None,
        how: InformationSettings = InformationSettings(),
    ) -> None:
        """Set the function that returns gradient and weights of cells (d,) of a model, and the smallest noise.

        A ``covariance`` estimated from the observed cells, as ``Outside`` expects it, tells which directions compete
        with the components.
        """
        self.rows = 1.0  # largest total weight of the cells of a feature
        self.noise_change = np.inf
        self.coordinates = Coordinates.around(start, floor)
        self._gradient_at, self._how = gradient_at, how
        self._model, self._counts = start, np.empty(0)
        self._information: Information | None = None
        self._covariance = None if covariance is None else covariance / np.square(self.coordinates.unit)
        self._rest: Outside | None = None
        self._until_refresh = 0

    @property
    def n_noise(self) -> int:
        """Number of noise variances."""
        return self.coordinates.n_noise

    @property
    def is_applicable(self) -> bool:
        """Whether there is enough noise for the information of complete rows to be that of incomplete ones."""
        noise = self._average(self._model.noise_variance)
        return noise >= self._how.least_noise * (self._average(np.square(self._model.loadings).sum(axis=1)) + noise)

    def slope_at(self, model: LinearGaussian) -> tuple[Array, Array]:
        """Convert a model to a vector, and compute the gradient per row there."""
        slope, counts = self._gradient_at(model)
        self.rows = float(counts.max())
        self._counts = counts / self.rows
        return self.coordinates.flatten(model), self.coordinates.flatten_gradient(*slope) / self.rows

    def keep(self, model: LinearGaussian, following: LinearGaussian) -> None:
        """Take note of a model and the EM step from it."""
        self._model, self._information = model, None
        self.noise_change = self._average(np.abs(np.log(following.noise_variance / model.noise_variance)))

    def _average(self, values: Array) -> float:
        """Average over the features that were observed, by their weights."""
        return float(np.broadcast_to(values, self._counts.shape) @ self._counts / self._counts.sum())

    def free(self, gradient: Array) -> Array:
        """Entries that may change: not noise variances at their floor that would fall further."""
        noise = np.atleast_1d(self._model.noise_variance)
        free = np.ones(gradient.size, dtype=bool)
        above = noise > (1 + 1e-9) * self.coordinates.floor  # by more than rounding
        free[-noise.size :] = above | (gradient[-noise.size :] > 0)
        return free

    def solve(self, gradient: Array) -> Array:
        """Product of the inverse of the approximate information per row with a gradient."""
        if self._information is None:
            unit = self.coordinates.unit
            loadings, noise = self._model.loadings / unit, self._model.noise_variance / unit**2
            rest = self._outside(loadings, noise)
            self._information = Information(loadings, noise, self._counts, self._how, rest)
        return self._information.solve(gradient)

    def _outside(self, loadings: Array, noise: Array) -> Outside | None:
        """Variances outside the components, computed anew from time to time; None if the covariance is not known."""
        if self._covariance is None:
            return None
        if not self._until_refresh:
            psi = np.broadcast_to(noise, self._counts.shape)
            self._rest = Outside.of(loadings, psi, self._covariance, self._counts)
            self._until_refresh = self._how.refresh
        self._until_refresh -= 1
        return self._rest

    def place(self, vector: Array) -> LinearGaussian:
        """Convert a vector to a model whose noise variance is not below the smallest one."""
        return self.coordinates.place(vector)


@final
class LikelihoodSteps:
    """Quasi-Newton steps of the likelihood, or combinations of EM steps where there is little noise.

    Where a model has more components than the data, or noise that it cannot describe, some directions of the loadings
    change the likelihood little, and EM needs hundreds of steps.
    """

    def __init__(self, likelihood: Likelihood, how: QuasiNewtonSettings = QuasiNewtonSettings()) -> None:
        """Set the likelihood and the options of the steps."""
        self.begun, self.expected = False, np.inf
        self._likelihood = likelihood
        self._combined, self._quasi_newton = Anderson(likelihood.coordinates), QuasiNewton(likelihood, how)

    def append(self, state: LinearGaussian, following: LinearGaussian) -> None:
        """Take note of a state that was kept, and of the step from it."""
        self._combined.append(state, following)
        self._quasi_newton.append(state, following)

    def reject(self, state: LinearGaussian) -> LinearGaussian | None:
        """Take note of a state whose likelihood is lower than that of the state kept last; propose another, or None."""
        self._combined.reject(state)
        return self._quasi_newton.reject(state)

    def propose(self, monitor: Monitor) -> LinearGaussian | None:
        """Propose a state beyond the next one; None to take the EM step itself."""
        steps = self._quasi_newton if self._likelihood.is_applicable else self._combined
        steps.begun = self.begun
        proposed = steps.propose(monitor)
        self.begun, self.expected = steps.begun, steps.expected
        return proposed
