"""Quasi-Newton steps of maximum likelihood, where EM is slow."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.learning.loop import Anderson, Coordinates, is_slow

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from probpca.learning.em.gradient import Gradient
    from probpca.learning.loop import Monitor
    from probpca.models import LinearGaussian
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True)
class QuasiNewtonSettings:
    """Options of quasi-Newton steps."""

    memory: int = 10  # number of differences of gradients that correct the information matrix
    # The first proposal comes after so many EM steps, when the mean change of the log noise variance is so small.
    first_steps: int = 2
    settled: float = 0.1
    slow: float = 0.4  # convergence rate of EM, the ratio of successive gains, above which steps are proposed
    farthest: float = 2.0  # largest change of a log noise variance in one step
    # Share of a proposed step that is taken: it is multiplied by ``shorter`` if the likelihood falls, and by ``longer``
    # otherwise, between ``shortest`` and 1.
    shorter: float = 0.25
    longer: float = 2.0
    tries: int = 2  # proposals from one state before an EM step
    shortest: float = 1e-3
    curved: float = 1e-8  # smallest cosine of a step and the change of the gradient for which it is used
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
        self, loadings: Array, noise: Array, counts: Array, how: QuasiNewtonSettings, rest: Outside | None = None
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
            return change / self._outside
        step = self._rest @ ((self._rest.T @ change) / self._outside)
        return step - self._axes @ (self._axes.T @ step)  # the loadings may have moved since the axes were computed


@final
class QuasiNewton:
    r"""Steps by the limited-memory BFGS method, from an approximate information matrix.

    Where a model has more components than the data, or noise that it cannot describe, some directions of the loadings
    change the likelihood little, and EM needs hundreds of steps. The gradient comes with each E-step, and the changes
    of the gradient along the last steps correct the approximate information (Nocedal 1980). The step from a proposal
    that lowers the likelihood is an EM step.
    """

    def __init__(
        self,
        gradient_at: Callable[[LinearGaussian], tuple[Gradient, Array]],
        start: LinearGaussian,
        floor: float | Array,
        how: QuasiNewtonSettings = QuasiNewtonSettings(),
        covariance: Array | None = None,
    ) -> None:
        """Set the function that returns gradient and weights of cells (d,) of a model, and the smallest noise.

        A ``covariance`` estimated from the observed cells, as ``Outside`` expects it, tells which directions compete
        with the components.
        """
        self.begun, self.expected = False, np.inf
        self._gradient_at, self._how = gradient_at, how
        self._coordinates = Coordinates.around(start, floor)
        self._combined = Anderson(self._coordinates)
        self._covariance = None if covariance is None else covariance / np.square(self._coordinates.unit)
        self._rest: Outside | None = None
        self._until_refresh = 0
        self._model = start
        self._point, self._gradient, self._counts = np.empty(0), np.empty(0), np.empty(0)  # the last two per row
        self._rows = 1.0  # largest total weight of the cells of a feature
        self._pairs: deque[tuple[Array, Array]] = deque(maxlen=how.memory)
        self._proposed: LinearGaussian | None = None
        self._share, self._rejected, self._pause, self._settled = 1.0, 0, 0, False

    def append(self, state: LinearGaussian, following: LinearGaussian) -> None:
        """Take note of the gradient at a state that was kept, and of the step from it."""
        self._combined.append(state, following)
        if state is self._proposed:
            self._share, self._rejected = min(self._share * self._how.longer, 1.0), 0
        self._point, self._gradient = self._note(state)
        self._model = state
        change = np.abs(np.log(following.noise_variance / state.noise_variance))
        self._settled = bool(self._average(change) < self._how.settled)

    def reject(self, state: LinearGaussian) -> LinearGaussian | None:
        """Propose a shorter step, corrected by the gradient of one that went too far; after some, an EM step."""
        self._combined.reject(state)
        self._note(state)
        if state is not self._proposed:
            return None
        self._rejected += 1
        self._share = max(self._share * self._how.shorter, self._how.shortest)
        if self._rejected % self._how.tries:
            return self._propose()
        self._pause = self._rejected // self._how.tries  # EM steps before the next proposal
        return None

    def _note(self, state: LinearGaussian) -> tuple[Array, Array]:
        """Coordinates of a state and the gradient there; their changes since the last state are kept."""
        slope, counts = self._gradient_at(state)
        self._rows = float(counts.max())
        self._counts = counts / self._rows
        gradient = self._coordinates.flatten_gradient(*slope) / self._rows
        point = self._coordinates.flatten(state)
        if self._point.size and np.isfinite(gradient).all():
            step, change = point - self._point, self._gradient - gradient
            if _is_curved(step, change, self._how.curved):
                self._pairs.append((step, change))
        return point, gradient

    def propose(self, monitor: Monitor) -> LinearGaussian | None:
        """Propose a quasi-Newton step; None while EM is fast, and for some steps after failures."""
        how = self._how
        self._proposed = None
        if self._has_little_noise():
            self.expected, proposed = np.inf, self._combined.propose(monitor)
            self.begun = self.begun or proposed is not None
            return proposed
        ready = self._settled and len(monitor.trace) > how.first_steps
        self.begun = self.begun or (ready and is_slow(monitor, how.slow))
        if not self.begun or self._pause:
            self._pause = max(self._pause - 1, 0)
            return None
        return self._propose()

    def _has_little_noise(self) -> bool:
        noise = self._average(self._model.noise_variance)
        return noise < self._how.least_noise * (self._average(np.square(self._model.loadings).sum(axis=1)) + noise)

    def _average(self, values: Array) -> float:
        """Average over the features that were observed, by their weights."""
        return float(np.broadcast_to(values, self._counts.shape) @ self._counts / self._counts.sum())

    def _propose(self) -> LinearGaussian | None:
        """Propose a step from the state that was kept last; None if the gradients contradict each other."""
        step = self._step()
        slope = float(self._gradient @ step)
        self.expected = self._rows * slope / 2
        if not (np.isfinite(step).all() and slope > 0):
            self._pairs.clear()
            return None
        far = np.abs(step[-self._coordinates.n_noise :]).max()
        share = self._share * min(1.0, self._how.farthest / max(far, 1e-300))
        self._proposed = self._coordinates.place(self._point + share * step)
        return self._proposed

    def _step(self) -> Array:
        """Product of the inverse information with the gradient, by the two loops of limited-memory BFGS."""
        unit, free = self._coordinates.unit, self._free()
        loadings, noise = self._model.loadings / unit, self._model.noise_variance / unit**2
        information = Information(loadings, noise, self._counts, self._how, self._outside(loadings, noise))

        def solve(vector: Array) -> Array:
            return information.solve(vector) * free

        pairs = [(s * free, y * free) for s, y in self._pairs] if not free.all() else list(self._pairs)
        known = [(s, y, 1 / (s @ y)) for s, y in pairs if _is_curved(s, y, self._how.curved)]
        rest, weights = self._gradient * free, []
        for s, y, scale in reversed(known):
            weights.append(scale * float(s @ rest))
            rest = rest - weights[-1] * y
        step = solve(rest)
        if known:  # the last curvature sets the size of the whole
            _, y, scale = known[-1]
            step /= scale * float(y @ solve(y))
        for (s, y, scale), weight in zip(known, reversed(weights), strict=True):
            step = step + s * (weight - scale * float(y @ step))
        return step

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

    def _free(self) -> npt.NDArray[np.bool_]:
        """Entries that may move: not noise variances at their floor that would fall further."""
        noise = np.atleast_1d(self._model.noise_variance)
        free = np.ones(self._gradient.size, dtype=bool)
        above = noise > (1 + 1e-9) * self._coordinates.floor  # by more than rounding
        free[-noise.size :] = above | (self._gradient[-noise.size :] > 0)
        return free


def _is_curved(step: Array, change: Array, least: float) -> bool:
    """Whether the gradient falls along a step, by more than rounding errors."""
    return bool(step @ change > least * np.sqrt((step @ step) * (change @ change)))
