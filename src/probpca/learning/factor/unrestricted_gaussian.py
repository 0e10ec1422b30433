"""Gaussian with any covariance, by maximum likelihood: what factor models are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.available_memory import require_memory
from probpca.errors import DataError
from probpca.inference.likelihood import LOG_2PI
from probpca.learning.describe import column_std, repeatable, require_variation, summarise
from probpca.learning.factor.patterns import Patterns, expect_filled
from probpca.learning.loop import Anderson, Monitor, accelerate
from probpca.linalg.rotations import cholesky_or_none
from probpca.result_tables import clip, default_names, several
from probpca.sources import open_source
from probpca.sources.engines.local import one_blas_thread
from probpca.statistics import Moments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from probpca.learning.describe import Variances
    from probpca.sources import Source
    from probpca.typing import Array, Index

LARGEST_LOG = 300.0
"""Largest logarithm of a pivot of an extrapolated covariance."""


@final
@dataclass(frozen=True, slots=True)
class UnrestrictedSettings:
    """Options of the fit of a Gaussian without restrictions."""

    largest: int = 200  # most features if cells are missing: an iteration factors a matrix for each pattern
    tol: float = 1e-6  # estimated remaining gain in log-likelihood at which the iteration stops, in nats
    max_iter: int = 2000
    # Smallest share of the variance of a feature that the others may leave unexplained. With less, columns are exact
    # combinations of others, or rows are too few, and the likelihood has no maximum.
    least_pivot: float = 1e-10


@final
@dataclass(frozen=True, slots=True, eq=False)
class UnrestrictedGaussian:
    r"""Gaussian :math:`N(m, S)` with any covariance, fitted by maximum likelihood to the observed cells.

    Constant features, and those without observed cells, are left out.

    Attributes
    ----------
    mean : ndarray of shape (k,)
        Mean m of the features that vary.
    covariance : ndarray of shape (k, k)
        Covariance S of the features that vary.
    log_likelihood : float
        Total log-likelihood; infinite if it has no maximum.
    baseline_log_likelihood : float
        Largest log-likelihood of a Gaussian whose features are independent.
    weight : float
        Total weight of the rows with at least one observed cell.
    missing : float
        Share of missing cells.
    features : ndarray of shape (k,)
        Positions of the features that vary.
    columns : tuple of str or None
        Names of the features that vary.
    note : str
        Warning about the fit; empty if there is none.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning.factor.unrestricted_gaussian import unrestricted_gaussian
    >>> X = load_iris().data
    >>> found = unrestricted_gaussian(X)
    >>> round(found.log_likelihood, 2), round(found.baseline_log_likelihood, 2)
    (-379.91, -741.02)
    >>> X[::3, 1] = float("nan")
    >>> round(unrestricted_gaussian(X).log_likelihood, 2)
    -369.16
    """

    mean: Array
    covariance: Array
    log_likelihood: float
    baseline_log_likelihood: float
    weight: float
    missing: float
    features: Index
    columns: tuple[str, ...] | None = None
    note: str = ""

    @property
    def n_features(self) -> int:
        """Number of features that vary."""
        return self.mean.size

    @property
    def is_bounded(self) -> bool:
        """Whether the likelihood has a maximum."""
        return bool(np.isfinite(self.log_likelihood))

    @property
    def names(self) -> list[str]:
        """Names of the features that vary: x0, x1, ... by their positions if columns have no names."""
        return [f"x{j}" for j in self.features] if self.columns is None else list(self.columns)

    @property
    def correlations(self) -> Array:
        """Correlation matrix: (k, k)."""
        std = np.sqrt(np.diag(self.covariance))
        correlations = self.covariance / np.outer(std, std)
        np.fill_diagonal(correlations, 1.0)
        return correlations


def unrestricted_gaussian(
    rows: Any, settings: UnrestrictedSettings = UnrestrictedSettings(), columns: Sequence[str] | None = None
) -> UnrestrictedGaussian:
    r"""Fit a Gaussian with any mean and covariance by maximum likelihood to the observed cells of some rows.

    Complete rows, or their ``Moments``, have a closed form: the mean and the covariance over n. With missing cells EM
    replaces each of them by its mean given the observed cells of its row, and adds the conditional covariance,

    .. math::
        x_m \mid x_o \sim N\big(\mu_m + C_{mo} C_{oo}^{-1} (x_o - \mu_o), \; C_{mm} - C_{mo} C_{oo}^{-1} C_{om}\big)

    with one Cholesky factor for each pattern of observed features. Steps are extrapolated. Costs O(d^3) a pattern and
    O(n d^2) in each iteration. ``columns`` are the names of the features; None takes those of the rows.
    """
    if isinstance(rows, UnrestrictedGaussian):
        return rows
    if isinstance(rows, Moments):
        return _of_moments(rows, columns, settings)
    source = repeatable(open_source(rows))
    d = source.n_features
    require_memory(f"the covariance of {d:,} features", 3 * 8 * d * d, "choose fewer features")
    with one_blas_thread():
        moments = source.fold(Moments.of)
        if moments.complete:
            return _of_moments(moments, columns or source.columns, settings)
        return _of_observed(source, settings, columns or source.columns)


def _of_moments(
    moments: Moments, columns: Sequence[str] | None, settings: UnrestrictedSettings
) -> UnrestrictedGaussian:
    if not moments.complete:
        msg = "moments are those of complete rows; cells are missing here.\nHint: pass the rows themselves."
        raise DataError(msg)
    require_variation(moments)
    n, kept = moments.weight, _Kept.of(moments, columns)
    S = moments.covariance[np.ix_(kept.features, kept.features)]
    root = regular_root(S / np.outer(kept.std, kept.std), settings.least_pivot)
    independent = _independent(np.full(kept.std.size, n), kept.std)
    value = np.inf if root is None else independent - n * float(np.log(np.diag(root)).sum())
    notes = kept.note, _unbounded(f"{n:,.6g} rows", kept.std.size) if root is None else ""
    return UnrestrictedGaussian(kept.mean, S, value, independent, n, 0.0, kept.features, kept.columns, _text(notes))


def _of_observed(source: Source, settings: UnrestrictedSettings, columns: Sequence[str] | None) -> UnrestrictedGaussian:
    summary = summarise(source)
    kept = _Kept.of(summary, columns)
    k, observed = kept.std.size, summary.observed[kept.features]
    if k > settings.largest:
        msg = (
            f"with missing cells the unrestricted Gaussian needs at most {settings.largest} features; got {k}.\n"
            "Hint: choose fewer features, or rows without missing cells."
        )
        raise DataError(msg)
    rows = source.keep(partial(Patterns.of, kept.features, kept.mean, kept.std))
    step, monitor = _Step(rows, settings.least_pivot), Monitor(settings.tol, settings.max_iter)
    extrapolation = Anderson(_Coordinates(k, settings.least_pivot))
    ended = accelerate(step, _State(np.zeros(k), np.eye(k)), monitor, extrapolation)
    n = step.weight  # rows with an observed cell of a feature that varies
    value = np.inf if step.is_singular else ended.trace[-1] - float(observed @ np.log(kept.std))
    notes = [kept.note, *_never_together(rows, kept.names)]
    if step.is_singular:
        notes.append(_unbounded(f"{n:,.6g} rows with missing cells", k))
    elif not ended.status.converged:
        notes.append(f"The unrestricted Gaussian had not converged after {settings.max_iter:,} iterations.")
    return UnrestrictedGaussian(
        kept.mean + kept.std * ended.state.mean,
        ended.state.covariance * np.outer(kept.std, kept.std),
        value,
        _independent(observed, kept.std),
        n,
        1.0 - float(observed.sum()) / (n * k),
        kept.features,
        kept.columns,
        _text(notes),
    )


class _Kept(NamedTuple):
    """Features that vary."""

    features: Index  # positions: (k,)
    mean: Array  # (k,)
    std: Array  # (k,)
    names: list[str]
    columns: tuple[str, ...] | None
    note: str  # names the features that are left out

    @classmethod
    def of(cls, sums: Variances, columns: Sequence[str] | None) -> _Kept:
        std = column_std(sums)
        features = np.flatnonzero(std > 0)
        names = list(columns) if columns is not None else default_names(std.size)
        constant = np.flatnonzero(std == 0)
        note = f"Features that do not vary are left out: {listed(names, constant)}." if constant.size else ""
        kept = [names[j] for j in features]
        return cls(features, sums.mean[features], std[features], kept, None if columns is None else tuple(kept), note)


def listed(names: Sequence[str], positions: Index, most: int = 5) -> str:
    """Names of the features at some positions, at most so many, for a sentence."""
    shown = ", ".join(clip(names[j]) for j in positions[:most])
    return shown if positions.size <= most else f"{shown} and {positions.size - most} more"


def _text(notes: Iterable[str]) -> str:
    return " ".join(filter(None, notes))


def _unbounded(rows: str, k: int) -> str:
    return (
        f"The likelihood of the unrestricted Gaussian has no maximum: columns are exact combinations of others, or "
        f"{rows} are too few for {k} features."
    )


def _independent(observed: Array, std: Array) -> float:
    """Largest log-likelihood of independent features, given their total weights and standard deviations."""
    return -0.5 * float(observed @ (LOG_2PI + 2 * np.log(std) + 1))


def regular_root(covariance: Array, least_pivot: float) -> Array | None:
    """Lower Cholesky factor; None if a feature has less than this share of its variance not explained by others."""
    root = cholesky_or_none(covariance)
    if root is None or not (np.diag(root) ** 2 > least_pivot * np.diag(covariance)).all():
        return None
    return root


def _never_together(rows: Source, names: list[str]) -> Iterator[str]:
    """Note on the first pair of features that no row has both of."""
    apart = np.argwhere(np.triu(rows.fold(Patterns.pairs).value == 0))
    if len(apart):
        first = " and ".join(clip(names[j]) for j in apart[0])
        count = f" (and {several(len(apart) - 1, 'other pair')})" if len(apart) > 1 else ""
        yield f"{first}{count} were never observed in the same row: the data do not determine their correlation."


class _State(NamedTuple):
    """Mean and lower Cholesky factor of the covariance of a Gaussian, in units of standard deviations."""

    mean: Array
    root: Array

    @property
    def covariance(self) -> Array:
        return self.root @ self.root.T


@final
@dataclass(frozen=True, slots=True)
class _Coordinates:
    """Conversion between states and vectors: the mean, the factor below its diagonal, and the log of the diagonal."""

    k: int  # number of features
    least_pivot: float
    n_noise: int = 1  # logarithms at the end of a vector whose change is limited

    def flatten(self, state: _State) -> Array:
        """Convert a state to a vector."""
        below = state.root[np.tril_indices(self.k, -1)]
        return np.concatenate([state.mean, below, np.log(np.diag(state.root))])

    def place(self, vector: Array) -> _State | None:
        """Convert a vector to a state; None if the covariance is singular."""
        k = self.k
        root = np.diag(np.exp(np.minimum(vector[-k:], LARGEST_LOG)))
        root[np.tril_indices(k, -1)] = vector[k:-k]
        state = _State(vector[:k], root)
        return None if regular_root(state.covariance, self.least_pivot) is None else state


@final
class _Step:
    """EM steps; one that leads to a singular covariance is not made."""

    def __init__(self, rows: Source, least_pivot: float) -> None:
        self._rows, self._least_pivot = rows, least_pivot
        self.is_singular, self.weight = False, 0.0

    def __call__(self, state: _State) -> tuple[_State, float]:
        """State after a step, and the log-likelihood of the given one."""
        sums = self._rows.fold(partial(expect_filled, state.mean, state.covariance))
        shift = sums.shift / sums.weight
        root = regular_root(sums.squares / sums.weight - np.outer(shift, shift), self._least_pivot)
        self.is_singular, self.weight = root is None, sums.weight
        return state if root is None else _State(state.mean + shift, root), sums.log_likelihood
