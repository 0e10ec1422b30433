"""Square-root Kalman filter and two-filter smoother, for noise that is tiny or zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.cached_property import cached_property
from probpca.inference.time_series.emissions import collapse_roots, distances, noise_constants
from probpca.inference.time_series.row_filter import KnownState
from probpca.linalg.rotations import applied, divided, symmetric_root, triangular
from probpca.linalg.tridiagonal import InverseBlocks, solve_bidiagonal

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.blocks.sequences import Sequences
    from probpca.models import StateSpace
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True)
class SteadyState:
    """Conditions under which the filter uses the covariances of the steady state."""

    converged: float = 1e-13  # largest relative change of a covariance in one step
    least_steps: int = 16  # smallest number of following steps with the same observed features


STEADY_STATE = SteadyState()


@final
@dataclass(frozen=True, eq=False)
class Filtered:
    """Filtered states, with each covariance L L' represented by its square root L."""

    predicted: Array  # mean given the earlier rows: (n, q)
    predicted_root: Array  # square root of its covariance: (n, q, q)
    mean: Array  # mean given the rows up to this step: (n, q)
    root: Array  # square root of its covariance: (n, q, q)
    logdet: Array  # log |I + L' J L|, with L the predicted root: (n,)
    surprise: Array  # squared length of the change of the mean, in units of the predicted root: (n,)

    @classmethod
    def empty(cls, n: int, q: int) -> Filtered:
        """Uninitialised arrays for ``n`` steps."""
        square = (n, q, q)
        return cls(*map(np.empty, ((n, q), square, (n, q), square, (n,), (n,))))


def filter_rows(model: StateSpace, rows: Sequences) -> Filtered:
    r"""Square-root Kalman filter, for all sequences in parallel.

    .. math::
        L^- = \operatorname{qr}[A L, Q^{1/2}]^\top, \quad G = \operatorname{qr}[H L^-; I], \quad
        L = L^- G^{-1}, \quad m = m^- + L G^{-\top} (H L^-)^\top (z - H m^-)

    with H a square root of the information that the observed cells carry about the state, :math:`H^\top H = J`.
    Covariances are stored as square roots, which keeps them symmetric and accurate. Once they have converged, they
    are not computed again until other features are observed.
    """
    walk = _Walk(model, rows)
    t = 0
    while t < walk.steps:
        walk.step(t)
        t = walk.skip(t) if walk.is_steady(t) else t + 1
    return walk.found


class _Walk:
    """State of the filter in every sequence that has not ended; sequences are sorted, the longest first."""

    def __init__(self, model: StateSpace, rows: Sequences) -> None:
        self.model = model
        self.H, self.z = collapse_roots(model.emission, rows)
        order = np.argsort(-rows.lengths, kind="stable")
        self.starts, self.lengths = rows.starts[order], rows.lengths[order]
        self.steps = int(self.lengths[0])
        self.pushes = model.pushes(rows.inputs, rows.n_steps)
        self.noise_root = symmetric_root(model.process_noise)
        self.found = Filtered.empty(rows.n_steps, model.n_components)
        self.same_until = _same_until(np.isnan(rows.values), rows.starts)

    def active(self, t: int) -> Index:
        """Positions of step t of the sequences that have at least t + 1 steps."""
        return self.starts[: np.searchsorted(-self.lengths, -t)] + t

    def step(self, t: int) -> None:
        """Predict the state at step t and update it with the observed cells."""
        now, found, q = self.active(t), self.found, self.model.n_components
        if t == 0:
            mean = np.broadcast_to(self.model.initial.mean, (len(now), q))
            root = np.broadcast_to(symmetric_root(self.model.initial.covariance), (len(now), q, q))
        else:
            mean = self._moved(now)
            root = self._moved_root(now)
        H = self.H[now]
        G, g = triangular(H @ root, self.z[now] - applied(H, mean))
        step = np.linalg.solve(G, g)  # change of the mean, in units of L
        found.predicted[now], found.predicted_root[now] = mean, root
        found.root[now] = divided(root, G)
        found.mean[now] = mean + (root @ step)[:, :, 0]
        found.logdet[now] = 2.0 * np.log(np.abs(np.diagonal(G, axis1=1, axis2=2))).sum(axis=1)
        found.surprise[now] = np.square(step).sum(axis=(1, 2))

    def _moved(self, now: Index) -> Array:
        return self.found.mean[now - 1] @ self.model.transition.T + self.pushes[now - 1]

    def _moved_root(self, now: Index) -> Array:
        """Square root of A P A' + Q: (k, q, q)."""
        moved = np.swapaxes(self.model.transition @ self.found.root[now - 1], 1, 2)
        noise = np.broadcast_to(self.noise_root.T, moved.shape)
        return np.swapaxes(np.linalg.qr(np.concatenate([moved, noise], axis=1), mode="r"), 1, 2)

    def is_steady(self, t: int) -> bool:
        """Whether the covariances have converged at step t and the next steps observe the same features."""
        now = self.active(t)
        if t == 0 or (self.same_until[now] - now < STEADY_STATE.least_steps).any():
            return False
        before, after = (x @ np.swapaxes(x, 1, 2) for x in (self.found.root[now - 1], self.found.root[now]))
        std = np.sqrt(np.diagonal(after, axis1=1, axis2=2))
        return bool((np.abs(after - before) <= STEADY_STATE.converged * std[:, :, None] * std[:, None]).all())

    def skip(self, t: int) -> int:
        """Fill in the following steps with the covariances of step t, and return the first step after them."""
        now = self.active(t)
        until = int((self.same_until[now] - now).min()) + t
        for at in now:
            self._fill(int(at), until - t)
        return until

    def _fill(self, at: int, count: int) -> None:
        """Fill in the steps ``at + 1 .. at + count - 1`` by one triangular solve."""
        found, some = self.found, slice(at + 1, at + count)
        if count < 2:
            return
        for name in ("predicted_root", "root", "logdet"):
            getattr(found, name)[some] = getattr(found, name)[at]
        root, H = found.predicted_root[at], self.H[at]
        axes, G = np.linalg.qr(np.vstack([H @ root, np.eye(len(H))]))
        units = np.linalg.solve(G, axes[: len(H)].T)  # change of the mean, in units of L
        gain = root @ units  # gain of z: (q, q)
        keep = np.eye(len(H)) - gain @ H
        right = self.z[some] @ gain.T + self.pushes[at : at + count - 1] @ keep.T
        F = keep @ self.model.transition
        right[0] += F @ found.mean[at]
        found.mean[some] = solve_bidiagonal(np.broadcast_to(F, (count - 1, *F.shape)), right)
        found.predicted[some] = self._moved(np.arange(at + 1, at + count))
        error = self.z[some] - found.predicted[some] @ H.T
        found.surprise[some] = np.square(error @ units.T).sum(axis=1)


def _same_until(missing: npt.NDArray[np.bool_], starts: Index) -> npt.NDArray[np.intp]:
    """For each row, the first later row with other missing features or in another sequence: (n,)."""
    n = len(missing)
    changes = np.ones(n, dtype=bool)
    changes[1:] = (missing[1:] != missing[:-1]).any(axis=1)
    changes[starts] = True
    places = np.append(np.flatnonzero(changes), n)
    return places[np.searchsorted(places, np.arange(n), side="right")]


@final
@dataclass(frozen=True, eq=False)
class FilteredTrajectory:
    """Joint posterior of all states given all rows, by square-root recursions in time, for arbitrarily small noise."""

    model: StateSpace
    rows: Sequences
    found: Filtered
    copies: int = 1  # sequences do not share covariances

    @classmethod
    def of(cls, model: StateSpace, rows: Sequences) -> FilteredTrajectory:
        """Run the filter; smoothing is done when it is first needed."""
        return cls(model, rows, filter_rows(model, rows))

    @cached_property
    def _smoothed(self) -> tuple[Array, InverseBlocks]:
        return smooth_filtered(self.model, self.rows, self.found)

    @property
    def mean(self) -> Array:
        """Smoothed means: (n, q)."""
        return self._smoothed[0]

    @property
    def covariances(self) -> InverseBlocks:
        """Smoothed covariances, and covariances of each state with the next."""
        return self._smoothed[1]

    def last_states(self) -> list[KnownState]:
        """Last state of each sequence given its rows."""
        ends = self.rows.starts + self.rows.lengths - 1
        return list(map(KnownState, self.found.mean[ends], self.found.root[ends]))

    def sample(self, noise: Array) -> Array:
        """Draw trajectories from the posterior, given standard normal ``noise`` (draws, n, q): (draws, n, q)."""
        return sample_filtered(self.model, self.rows, self.found, noise)

    @cached_property
    def distance(self) -> Array:
        """Squared Mahalanobis distance e' S^{-1} e of each row from its prediction: (n,).

        A sum of squares of the residual at the filtered mean and of the change of the mean by the row.
        """
        return distances(self.model.emission, self.rows.observed, self.found.mean.T) + self.found.surprise

    def row_likelihoods(self) -> Array:
        """Log density of each row given the rows before it, 0 where a row is not scored: (n,)."""
        constants = noise_constants(self.model.emission, self.rows.observed)
        values = np.asarray(-0.5 * (constants + self.found.logdet + self.distance))
        return np.where(scored(self.model, self.rows), values, 0.0)

    def log_likelihood(self, squares: Array | None = None) -> float:  # noqa: ARG002
        """Log density of all rows."""
        return float(self.row_likelihoods().sum())


def scored(model: StateSpace, rows: Sequences) -> npt.NDArray[np.bool_]:
    """Whether each row counts in likelihoods: not the first ones of a sequence, if they determine unknown starts."""
    if model.layout is None or not model.layout.unscored:
        return np.ones(rows.n_steps, dtype=bool)
    step = np.arange(rows.n_steps) - np.repeat(rows.starts, rows.lengths)
    return np.asarray(step >= model.layout.unscored)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Information:
    """Information about a state x from some rows, N x = v + e with standard normal e."""

    root: Array  # N: (n, q, q)
    value: Array  # v: (n, q)


def smooth_filtered(model: StateSpace, rows: Sequences, found: Filtered) -> tuple[Array, InverseBlocks]:
    """Smoothed means (n, q), covariances and lag-one covariances, from the filtered states and the later rows."""
    from_here, later = look_ahead(model, rows)
    L, q = found.root, model.n_components
    error = later.value - applied(later.root, found.mean)
    G, g = triangular(later.root @ L, error)
    mean = found.mean + applied(L, np.linalg.solve(G, g)[:, :, 0])
    root = divided(L, G)
    n = len(mean)
    lag = np.zeros((n, q, q))
    after = np.flatnonzero(rows.linked)  # steps that are followed by another
    both = np.concatenate([model.transition @ L[after], _noise_roots(model, len(after))], axis=2)  # of x_{t+1}
    only = np.concatenate([L[after], np.zeros((len(after), q, q))], axis=2)  # of x_t
    joint, _ = triangular(from_here.root[after + 1] @ both, np.zeros((len(after), q)))
    lag[after] = divided(only, joint) @ np.swapaxes(divided(both, joint), 1, 2)
    covariance = root @ np.swapaxes(root, 1, 2)
    return mean, InverseBlocks(*(np.ascontiguousarray(np.moveaxis(x, 0, -1)) for x in (covariance, lag)))


def sample_filtered(model: StateSpace, rows: Sequences, found: Filtered, noise: Array) -> Array:
    """Draw trajectories given all rows, from standard normal ``noise`` (k, n, q): (k, n, q)."""
    from_here, later = look_ahead(model, rows)
    n, q = found.mean.shape
    # Each state is drawn given the one before it and the later rows.
    L, before = _noise_roots(model, n), model.pushes(rows.inputs, rows.n_steps)
    L[rows.starts] = found.root[rows.starts]
    N, value = from_here.root.copy(), from_here.value.copy()
    N[rows.starts], value[rows.starts] = later.root[rows.starts], later.value[rows.starts]
    axes, G = np.linalg.qr(np.concatenate([N @ L, np.broadcast_to(np.eye(q), (n, q, q))], axis=1))
    gain = L @ np.linalg.solve(G, np.swapaxes(axes[:, :q], 1, 2))
    keep = np.eye(q) - gain @ N
    pushed = np.zeros((n, q))
    pushed[1:] = before[:-1]
    pushed[rows.starts] = found.mean[rows.starts]
    F = keep @ model.transition
    F[rows.starts] = 0.0
    drift = applied(keep, pushed) + applied(gain, value)
    root = divided(L, G)
    return np.array([solve_bidiagonal(F, drift + applied(root, e)) for e in noise])


def look_ahead(model: StateSpace, rows: Sequences) -> tuple[_Information, _Information]:
    """Information about each state from the rows at its step and later, and from later rows alone."""
    H, z = collapse_roots(model.emission, rows)
    n, q = z.shape
    here = _Information(np.empty((n, q, q)), np.empty((n, q)))
    later = _Information(np.zeros((n, q, q)), np.zeros((n, q)))
    order = np.argsort(-rows.lengths, kind="stable")
    ends, lengths = (rows.starts + rows.lengths - 1)[order], rows.lengths[order]
    pushes, noise = model.pushes(rows.inputs, rows.n_steps), symmetric_root(model.process_noise)
    for back in range(int(lengths[0])):
        now = ends[: np.searchsorted(-lengths, -back)] - back
        if back:
            N, value = here.root[now + 1], here.value[now + 1]
            noisy = np.swapaxes(N @ noise, 1, 2)
            K, _ = triangular(noisy, np.zeros((len(now), q)))  # K'K = I + N Q N'
            turned = np.swapaxes(K, 1, 2)
            later.root[now] = np.linalg.solve(turned, N @ model.transition)
            later.value[now] = np.linalg.solve(turned, (value - applied(N, pushes[now]))[:, :, None])[:, :, 0]
        stacked = np.empty((len(now), 2 * q, q + 1))
        stacked[:, :q, :q], stacked[:, :q, q] = later.root[now], later.value[now]
        stacked[:, q:, :q], stacked[:, q:, q] = H[now], z[now]
        upper = np.asarray(np.linalg.qr(stacked, mode="r"))
        here.root[now], here.value[now] = upper[:, :q, :q], upper[:, :q, q]
    return here, later


def _noise_roots(model: StateSpace, n: int) -> Array:
    """Square root of Q, repeated for each of n steps: (n, q, q)."""
    return np.repeat(symmetric_root(model.process_noise)[None], n, axis=0)
