"""Kalman filter for one row at a time, for readings that arrive one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.linalg.lapack import dgeqrf, dtrtrs
from scipy.special import erfc, gammaincc

from probpca.inference.likelihood import LOG_2PI
from probpca.linalg.rotations import symmetric_root
from probpca.models import Gaussian

if TYPE_CHECKING:
    from probpca.models import StateSpace
    from probpca.typing import Array

CONVERGED = 1e-15
"""Relative change of a covariance in one step below which it is not computed again."""
MOST_PATTERNS = 64
"""Patterns of missing cells whose factored loadings are kept."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class KnownState:
    """State of a sequence given its rows up to now: all that the next row, or a forecast, needs to know of them."""

    mean: Array  # (q,)
    root: Array  # square root L of its covariance L L': (q, q)
    steady: bool = False  # whether complete rows do not change the covariance any more

    @property
    def covariance(self) -> Array:
        """Covariance of the state: (q, q)."""
        return np.asarray(self.root @ self.root.T)

    @property
    def gaussian(self) -> Gaussian:
        """The state as a Gaussian."""
        return Gaussian(self.mean, self.covariance)


class Update(NamedTuple):
    """A row that arrived: the state that it leads to, and how far it is from its prediction.

    Attributes
    ----------
    state_mean : ndarray of shape (q,)
        Mean of the state given all rows up to and including this one (filtered state).
    state_covariance : ndarray of shape (q, q)
        Covariance of the filtered state.
    predicted : ndarray of shape (d,)
        Expected row, given the rows before it.
    std : ndarray of shape (d,)
        Standard deviation of each cell of the prediction, including the noise.
    residual : ndarray of shape (d,)
        Prediction error: the row minus its prediction; NaN for missing cells.
    distance : float
        Squared Mahalanobis distance e' S^{-1} e of the row from its prediction.
    degrees : int
        Number of observed cells, the degrees of freedom of ``distance``.
    p_value : float
        Probability of a row at least as far from its prediction (chi-square); 1 for an empty row.
    log_likelihood : float
        Log density of the row given the rows before it.
    """

    state_mean: Array
    state_covariance: Array
    predicted: Array
    std: Array
    residual: Array
    distance: float
    degrees: int
    p_value: float
    log_likelihood: float

    @property
    def cell_p_value(self) -> Array:
        """Two-sided p-value of each cell given the rows before it; NaN for missing cells: (d,)."""
        return np.asarray(erfc(np.abs(self.residual) / self.std / np.sqrt(2.0)))


class _Seen(NamedTuple):
    """Observed features of a row, and their loadings in units of the noise."""

    loadings: Array  # R^{-1/2} C: (o, q)
    axes: Array  # orthonormal columns U with U H = R^{-1/2} C: (o, k), k = min(o, q)
    root: Array  # H: (k, q)
    constant: float  # sum of log 2 pi R


class _Steady(NamedTuple):
    """What complete rows have in common once the covariance has converged."""

    root: Array  # the square root of the covariance that all of this was computed from
    gain: Array  # change of the mean, in units of the predicted root, by the error in units of the noise: (q, d)
    predicted_root: Array  # (q, q)
    covariance: Array  # (q, q)
    constant: float  # log |2 pi S|, with S the covariance of a row
    std: Array  # (d,)


@final
class RowFilter:
    r"""Square-root Kalman filter that takes one row at a time.

    The same equations as those of ``filter_states``, so that the states agree with it to rounding errors. A row costs
    O(q^3 + d q), or O(d q) for complete rows once the covariance of the state has converged.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import RowFilter
    >>> from probpca.models import Gaussian, LinearGaussian, StateSpace
    >>> walk = StateSpace(Gaussian([0.0], [[1.0]]), [[1.0]], [[1.0]], LinearGaussian([0.0], [[1.0]], 1.0))
    >>> rows, state = RowFilter(walk), None
    >>> for row in ([1.0], [2.0], [9.0]):
    ...     state, found = rows.update(state, np.array(row))
    ...     print(found.residual.round(2), round(found.p_value, 3), found.state_mean.round(3))
    [1.] 0.48 [0.5]
    [1.5] 0.343 [1.4]
    [7.6] 0.0 [6.077]
    """

    def __init__(self, model: StateSpace) -> None:
        """Prepare what all rows have in common."""
        self.model = model
        self._transition = model.transition
        self._noise_root = symmetric_root(model.process_noise)
        self._first_root = symmetric_root(model.initial.covariance)
        self._upper = np.triu(np.ones(model.transition.shape))
        self._loadings, self._offset = model.emission.loadings, model.emission.mean
        self._noise = np.ascontiguousarray(np.broadcast_to(model.emission.noise_variance, self._offset.shape))
        self._scale = np.sqrt(self._noise)
        self._known: dict[bytes, _Seen] = {}
        self._complete = self._seen(np.ones(len(self._offset), dtype=bool))
        self._steady: _Steady | None = None

    def update(self, state: KnownState | None, row: Array, push: Array | None = None) -> tuple[KnownState, Update]:
        """Return the state after a row (d,) with NaN in missing cells, and how far the row is from its prediction.

        ``state`` is that after the row before, which ``push`` = B u (q,) shifts; None if this row is the first one.
        """
        if state is None:
            return self._condition(None, self.model.initial.mean, self._first_root, row)
        mean = self._transition @ state.mean
        if push is not None:
            mean = mean + push
        if state.steady and not np.isnan(row).any():
            return self._in_steady_state(state, mean, row)
        return self._condition(state, mean, self._moved(state.root), row)

    def _condition(self, state: KnownState | None, mean: Array, root: Array, row: Array) -> tuple[KnownState, Update]:
        """Condition the predicted state N(mean, root root') on the observed cells of a row."""
        predicted = self._loadings @ mean + self._offset
        residual = row - predicted
        present = ~np.isnan(residual)
        seen = self._seen(present)
        error = residual[present] / self._scale[present]
        G, g = _triangular(seen.root @ root, error @ seen.axes)
        step = dtrtrs(G, g)[0]
        after = dtrtrs(G, root.T, trans=1)[0].T
        steady = bool(present.all()) and state is not None and _stand_still(state.root, after)
        known = KnownState(mean + root @ step, after, steady)
        rest = error - seen.loadings @ (root @ step)
        density = _density(float(rest @ rest + step @ step), len(error), seen.constant + _logdet(G))
        return known, Update(known.mean, after @ after.T, predicted, self._std(root), residual, *density)

    def _in_steady_state(self, state: KnownState, mean: Array, row: Array) -> tuple[KnownState, Update]:
        """Condition on a complete row without computing the covariance again."""
        found = self._steady
        if found is None or found.root is not state.root:
            found = self._steady = self._steady_state(state.root)
        predicted = self._loadings @ mean + self._offset
        residual = row - predicted
        error = residual / self._scale
        step = found.gain @ error
        move = found.predicted_root @ step
        rest = error - self._complete.loadings @ move
        density = _density(float(rest @ rest + step @ step), len(row), found.constant)
        known = KnownState(mean + move, state.root, steady=True)
        return known, Update(known.mean, found.covariance, predicted, found.std, residual, *density)

    def _steady_state(self, root: Array) -> _Steady:
        predicted = self._moved(root)
        H, axes = self._complete.root, self._complete.axes
        G, _ = _triangular(H @ predicted, np.zeros(len(H)))
        # The step is G^{-1} G'^{-1} (H L)' z, with z = axes' error.
        half = dtrtrs(G, (H @ predicted).T @ axes.T, trans=1)[0]
        constant = self._complete.constant + _logdet(G)
        return _Steady(root, dtrtrs(G, half)[0], predicted, root @ root.T, constant, self._std(predicted))

    def _moved(self, root: Array) -> Array:
        """Square root of A P A' + Q: (q, q)."""
        q = len(root)
        stacked = np.empty((2 * q, q), order="F")
        stacked[:q], stacked[q:] = (self._transition @ root).T, self._noise_root.T
        return np.asarray((dgeqrf(stacked, overwrite_a=1)[0][:q] * self._upper).T)

    def _std(self, root: Array) -> Array:
        spread = self._loadings @ root
        return np.sqrt(np.einsum("jk,jk->j", spread, spread) + self._noise)

    def _seen(self, present: Array) -> _Seen:
        key = present.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_PATTERNS:
                self._known.clear()
            which = np.flatnonzero(present)
            loadings = self._loadings[which] / self._scale[which, None]
            axes, root = np.linalg.qr(loadings)
            constant = float((LOG_2PI + np.log(self._noise[which])).sum())
            found = self._known[key] = _Seen(loadings, axes, root, constant)
        return found


def _stand_still(before: Array, after: Array) -> bool:
    """Whether the covariances with two square roots are the same to rounding errors."""
    old, new = before @ before.T, after @ after.T
    std = np.sqrt(new.diagonal())
    return bool((np.abs(new - old) <= CONVERGED * std[:, None] * std).all())


def _logdet(G: Array) -> float:
    return 2.0 * float(np.log(np.abs(G.diagonal())).sum())


def _density(squares: float, k: int, constant: float) -> tuple[float, int, float, float]:
    """Squared distance of k cells from their prediction, k, the p-value and the log density."""
    return squares, k, float(gammaincc(0.5 * k, 0.5 * squares)) if k else 1.0, -0.5 * (constant + squares)


def _triangular(matrix: Array, right: Array) -> tuple[Array, Array]:
    """Upper triangular G with G'G = I + S'S, (k, k), and G'^{-1} S'e, (k,), by QR of [S, e; I, 0]."""
    q, k = matrix.shape
    stacked = np.zeros((q + k, k + 1), order="F")
    stacked[:q, :k], stacked[:q, k] = matrix, right
    stacked[range(q, q + k), range(k)] = 1.0
    upper = dgeqrf(stacked, overwrite_a=1)[0]
    return upper[:k, :k], upper[:k, k]
