"""Rotation of loadings to simple structure: varimax, quartimax, equamax, promax, oblimin and geomin."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np
from scipy.linalg.lapack import dgesv

from probpca.errors import DataError, ShapeError, require_finite, require_shape
from probpca.linalg.rotations import fix_signs, orthonormal
from probpca.result_tables import several

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from probpca.typing import Array


class Option(NamedTuple):
    """A number that only some methods of rotation need."""

    name: str
    default: float
    above: float = -np.inf  # the value must be larger than this


class Method(NamedTuple):
    """Properties of a method of rotation, and the defaults of its options."""

    oblique: bool = False  # whether rotated factors may be correlated
    kaiser: bool = False  # whether rows are scaled to length 1 by default, as in R
    n_init: int = 1  # default number of starts
    option: Option | None = None


METHODS = {
    "none": Method(),
    "varimax": Method(kaiser=True),
    "quartimax": Method(),
    "equamax": Method(),
    "promax": Method(oblique=True, kaiser=True, option=Option("power", 4.0, above=1.0)),
    "oblimin": Method(oblique=True, option=Option("gamma", 0.0)),
    "geomin": Method(oblique=True, n_init=10, option=Option("delta", 0.01, above=0.0)),
    "geomin_orthogonal": Method(n_init=10, option=Option("delta", 0.01, above=0.0)),
}


@final
@dataclass(frozen=True, slots=True)
class RotationSettings:
    """Tuning parameters of the minimisation of a rotation criterion."""

    memory: int = 10  # a step must improve on the largest of so many last values of the criterion
    decrease: float = 1e-4  # share of the decrease predicted by the gradient that a step must achieve
    rounding: float = 1e-15  # rounding error of the criterion, relative to its scale
    halvings: int = 40  # largest number of times that a step is halved
    steps: tuple[float, float] = (1e-10, 1e10)  # shortest and longest step that is tried first
    screening: float = 1e-4  # tolerance of the comparison of several starts, of which the best is continued
    # The first start deviates a little from the principal axes: if loadings are symmetric, these can be a maximum or a
    # saddle point of the criterion.
    deviation: float = 0.01
    seed: int = 0  # seed of the starts if no generator is given
    tie: float = 1e-6  # explained variances, and sums of loadings, that differ by less count as equal
    condition: float = 1e4  # largest norm of the inverse of T; beyond it factors are practically collinear
    # Smallest and largest magnitude of the largest loading, so that the criteria neither underflow nor overflow.
    magnitude: tuple[float, float] = (1e-60, 1e60)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    r"""Rotated loadings, with the rotation and the correlations of the rotated factors.

    Loadings A of uncorrelated factors z with unit variances become loadings L of the factors :math:`T^\top z`, which
    explain the same covariance:

    .. math:: L = A T^{-\top}, \qquad \Phi = T^\top T, \qquad L \Phi L^\top = A A^\top

    An orthogonal rotation has :math:`T^\top T = I`, so that L = A T and the rotated factors are uncorrelated. In an
    oblique rotation the columns of T have length 1, so that :math:`\Phi` holds the correlations of the rotated factors.

    Attributes
    ----------
    method : str
        Method of rotation.
    matrix : ndarray of shape (q, q)
        Matrix T: scores of the unrotated factors, one row per observation, are multiplied by it from the right.
    loadings : ndarray of shape (d, q)
        Rotated loadings L, also called pattern: coefficients of the regression of the features on the factors.
    correlations : ndarray of shape (q, q)
        Correlations Phi of the rotated factors.
    criterion : float
        Value of the criterion, for scaled rows with Kaiser's normalisation. That of varimax for promax; 0 for "none".
    n_iter : int
        Number of iterations.
    converged : bool
        Whether the gradient of the criterion fell below the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.models import rotate
    >>> rotated = rotate([[0.8, 0.4], [0.6, 0.3], [0.4, -0.8], [0.3, -0.6]], "quartimax")
    >>> np.abs(rotated.loadings).round(3)
    array([[0.894, 0.   ],
           [0.671, 0.   ],
           [0.   , 0.894],
           [0.   , 0.671]])
    >>> rotated.explained.round(3), rotated.is_oblique
    (array([1.25, 1.25]), False)

    Loadings of the same factors in other units are rotated by the same matrix:

    >>> np.abs(rotated.apply([[8.0, 4.0], [0.2, -0.4]])).round(3)
    array([[8.944, 0.   ],
           [0.   , 0.447]])
    """

    method: str
    matrix: Array
    loadings: Array
    correlations: Array
    criterion: float
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        """Convert the arrays to read-only float64 and check their shapes and values."""
        _require_method(self.method)
        for name in ("matrix", "loadings", "correlations"):
            value = _matrix(name, getattr(self, name)).copy()
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        q = self.loadings.shape[1]
        require_shape("matrix", self.matrix, (q, q))
        require_shape("correlations", self.correlations, (q, q))

    @property
    def is_oblique(self) -> bool:
        """Whether the method allows the rotated factors to be correlated."""
        return METHODS[self.method].oblique

    @property
    def structure(self) -> Array:
        """Structure L Phi: covariances of the features with the rotated factors, (d, q).

        They are correlations if the loadings are those of standardized features.
        """
        return self.loadings @ self.correlations

    @property
    def explained(self) -> Array:
        """Variance of the features that each rotated factor explains, diag(Phi L'L): (q,).

        The sum is the sum of squares of the unrotated loadings. Variance that two correlated factors explain jointly
        is split equally between them; without correlations these are the sums of squares of the columns.
        """
        return explained_variance(self.loadings, self.correlations)

    def apply(self, loadings: npt.ArrayLike) -> Array:
        """Rotate other loadings of the same unrotated factors, for example in the units of the data: (m, q)."""
        A, q = _matrix("loadings", loadings), self.matrix.shape[0]
        if A.shape[1] != q:
            msg = f"loadings must have a column for each of the {q} factors of this rotation; got shape {A.shape}."
            raise ShapeError(msg)
        return _rotated(A, self.matrix, oblique=self.is_oblique)


def rotate(  # noqa: PLR0913
    loadings: npt.ArrayLike,
    method: str = "varimax",
    *,
    kaiser: bool | None = None,
    gamma: float | None = None,
    delta: float | None = None,
    power: float | None = None,
    n_init: int | None = None,
    tol: float = 1e-8,
    max_iter: int = 5000,
    rng: np.random.Generator | None = None,
    start: npt.ArrayLike | None = None,
) -> Rotation:
    r"""Rotate loadings towards simple structure, in which every feature loads on few factors.

    A method minimises a criterion f of the rotated loadings L. Let S be their squares, d features by q factors,
    :math:`R_{jk}` the sum of the other entries of row j of S, and bars the means of columns:

    .. math::
        f_\mathrm{orthomax} = -\tfrac14 \sum_{jk} S_{jk} (S_{jk} - \gamma \bar S_k), \quad
        f_\mathrm{oblimin} = \tfrac14 \sum_{jk} S_{jk} (R_{jk} - \gamma \bar R_k), \quad
        f_\mathrm{geomin} = \sum_j \prod_k (S_{jk} + \delta)^{1/q}

    =================  ==========  =========================================================================
    method             factors     criterion
    =================  ==========  =========================================================================
    varimax            orthogonal  orthomax with gamma = 1
    quartimax          orthogonal  orthomax with gamma = 0
    equamax            orthogonal  orthomax with gamma = q / 2
    geomin_orthogonal  orthogonal  geomin
    promax             oblique     least squares fit to the ``power``-th powers of the varimax loadings
    oblimin            oblique     oblimin; gamma = 0 is quartimin
    geomin             oblique     geomin
    none               orthogonal  none: the loadings stay as they are
    =================  ==========  =========================================================================

    Rotated factors are ordered by explained variance, and have signs such that the loadings of each have a positive
    sum; if the sum is zero, the largest loading is positive. The result is the same in every call, and for all
    orthogonal axes that the loadings can be given in, unless several minima have nearly the same value.

    The minimum is found by projected gradients (Jennrich 2001, 2002) with the steps of Barzilai & Borwein (1988),
    beginning at the principal axes of the loadings. Promax is that of Hendrickson & White (1964).

    Parameters
    ----------
    loadings : array-like of shape (d, q)
        Loadings of uncorrelated factors with unit variances, usually for standardized features. Oblique methods need
        linearly independent columns.
    method : str
        One of the methods in the table.
    kaiser : bool or None
        Kaiser's normalisation (1958): rows are scaled to length 1 for the criterion, so that features count equally.
        None does what functions of R do: True for varimax and promax (in its varimax step), False for the others.
    gamma : float or None
        For oblimin: 0 if None. Above 0, factors are more correlated, and there may be no minimum.
    delta : float or None
        For geomin: positive, 0.01 if None, which is meant for the loadings of standardized features.
    power : float or None
        For promax: above 1, 4 if None.
    n_init : int or None
        Number of starts, the best of which is kept. None means 10 for geomin, which often has several local minima,
        and 1 for other methods or if ``start`` is given.
    tol : float
        Norm of the projected gradient, relative to the scale of the criterion, below which the minimum is reached.
    max_iter : int
        Largest number of iterations for each start.
    rng : numpy.random.Generator or None
        Generator of the starts; None for a fixed seed.
    start : array-like of shape (q, q) or None
        Matrix T of the first start, for example that of similar loadings; an orthogonal method begins at the nearest
        orthogonal matrix.

    Returns
    -------
    Rotation
        Rotated loadings, the matrix T, correlations of the factors, and whether the minimum was reached.

    Examples
    --------
    Three components of chemical measurements of wines, in standardized columns:

    >>> from sklearn.datasets import load_wine
    >>> from probpca import PPCA
    >>> from probpca.models import rotate
    >>> ppca = PPCA(n_components=3, standardize=True).fit(load_wine().data)
    >>> rotated = rotate(ppca.loadings_, "oblimin")
    >>> rotated.converged, rotated.loadings.shape, rotated.correlations.shape
    (True, (13, 3), (3, 3))

    Some loadings become large and the others small, so that their fourth powers have a larger sum:

    >>> bool((rotate(ppca.loadings_, "quartimax").loadings ** 4).sum() > (ppca.loadings_**4).sum())
    True
    """
    A, chosen = _matrix("loadings", loadings), _require_method(method)
    value = _option(method, {"gamma": gamma, "delta": delta, "power": power})
    if method == "none":
        _require_no_options({"kaiser": kaiser, "n_init": n_init, "start": start})
        eye = np.eye(A.shape[1])
        return Rotation(method, eye, A, eye, 0.0, 0, True)
    _require_rotatable(A, method)
    search = Search(
        n_init=_count("n_init", n_init if n_init is not None else chosen.n_init if start is None else 1),
        tol=_number("tol", tol, 0.0),
        max_iter=_count("max_iter", max_iter),
        rng=np.random.default_rng(RotationSettings().seed) if rng is None else rng,
        start=None if start is None else _start(start, A.shape[1]),
    )
    scaled = A / _lengths(A) if _kaiser(method, kaiser) else A
    criterion, powers = criterion_of(method, A.shape[1], value), method == "promax"
    found = search.minimise(scaled, criterion, oblique=chosen.oblique and not powers)
    return _arranged(A, replace(found, T=_promax(A @ found.T, found.T, value)) if powers else found, method)


OPTIONS = ("kaiser", "gamma", "delta", "power", "n_init", "tol", "max_iter")
"""Options of ``rotate`` that describe a rotation, and can be kept with a fitted estimator."""


def check_options(method: str, options: Mapping[str, Any]) -> None:
    """Raise ``DataError`` unless ``rotate`` takes these options for the method; costs no rotation of any loadings."""
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        msg = f"options of a rotation are {', '.join(OPTIONS)}; got {unknown[0]!r}."
        raise DataError(msg)
    rotate(np.eye(2), method, **options)


@final
@dataclass(frozen=True, slots=True)
class Orthomax:
    """Orthomax criterion: minus a quarter of the sum of S (S - gamma m), with m the column means of S = L o L."""

    gamma: float  # 0 for quartimax, 1 for varimax, q / 2 for equamax

    def __call__(self, L: Array) -> tuple[float, Array]:
        """Value and gradient at the loadings L."""
        squares = L * L
        centred = squares - (self.gamma / len(L)) * squares.sum(axis=0)
        return -0.25 * float(np.vdot(squares, centred)), -L * centred

    def scale(self, L: Array) -> float:
        """Order of magnitude of the criterion, the same for all orthogonal rotations of L."""
        return _quartic_scale(L)


@final
@dataclass(frozen=True, slots=True)
class Oblimin:
    """Oblimin criterion: a quarter of the sum of S (R - gamma m), with m the column means of R."""

    gamma: float  # 0 for quartimin

    def __call__(self, L: Array) -> tuple[float, Array]:
        """Value and gradient at the loadings L."""
        squares = L * L
        others = squares.sum(axis=1, keepdims=True) - squares
        centred = others - (self.gamma / len(L)) * others.sum(axis=0)
        return 0.25 * float(np.vdot(squares, centred)), L * centred

    def scale(self, L: Array) -> float:
        """Order of magnitude of the criterion, the same for all orthogonal rotations of L."""
        return _quartic_scale(L)


@final
@dataclass(frozen=True, slots=True)
class Geomin:
    """Geomin criterion: the sum of the geometric means of the rows of S + delta."""

    delta: float

    def __call__(self, L: Array) -> tuple[float, Array]:
        """Value and gradient at the loadings L."""
        q, raised = L.shape[1], L * L + self.delta
        means = np.exp(np.log(raised).sum(axis=1, keepdims=True) / q)
        return float(means.sum()), L / raised * (means * (2 / q))

    def scale(self, L: Array) -> float:
        """Largest value of the criterion for orthogonal rotations of L, by the inequality of arithmetic means."""
        return float(np.square(L).sum() / L.shape[1] + len(L) * self.delta)


Criterion: TypeAlias = Orthomax | Oblimin | Geomin


def criterion_of(method: str, q: int, value: float) -> Criterion:
    """Criterion that a method minimises for q factors, with the value of its option; promax begins with varimax."""
    match method:
        case "quartimax":
            return Orthomax(0.0)
        case "equamax":
            return Orthomax(q / 2)
        case "oblimin":
            return Oblimin(value)
        case "geomin" | "geomin_orthogonal":
            return Geomin(value)
        case _:
            return Orthomax(1.0)


def _quartic_scale(L: Array) -> float:
    """Smallest magnitude of the quartimax criterion for orthogonal rotations of L, that of evenly spread squares."""
    return 0.25 * float(np.square(np.square(L).sum(axis=1)).sum()) / L.shape[1]


class Point(NamedTuple):
    """A matrix T with the value of the criterion and its projected gradient, both relative to the scale."""

    T: Array
    value: float
    gradient: Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Result of a minimisation."""

    T: Array
    value: float
    n_iter: int
    converged: bool


@final
@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """A criterion as a function of the matrix T that rotates given loadings, relative to its scale."""

    loadings: Array
    criterion: Criterion
    oblique: bool
    scale: float
    condition: float  # largest norm of the inverse of T

    def at(self, T: Array) -> Point:
        """Value and projected gradient at T; the value is infinite if an oblique T is practically singular."""
        A, scale = self.loadings, self.scale
        if not self.oblique:
            value, slope = self.criterion(A @ T)
            gradient = A.T @ slope / scale
            inner = T.T @ gradient
            return Point(T, value / scale, gradient - T @ (0.5 * (inner + inner.T)))
        _, _, inverse, failed = dgesv(T, np.eye(len(T)))
        if failed or not np.vdot(inverse, inverse) < self.condition**2:
            return Point(T, np.inf, T)
        L = A @ inverse.T
        value, slope = self.criterion(L)
        gradient = inverse.T @ (slope.T @ L) / -scale
        return Point(T, value / scale, gradient - T * (T * gradient).sum(axis=0))

    def retracted(self, T: Array) -> Array:
        """Matrix near T that is a rotation: its polar factor, or with columns of length 1 if rotations are oblique."""
        if self.oblique:
            return T / np.sqrt((T * T).sum(axis=0))
        left, _, right = np.linalg.svd(T)
        return left @ right


@final
@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """Minimisation of a criterion by projected gradients, from one or several starts."""

    n_init: int
    tol: float
    max_iter: int
    rng: np.random.Generator
    start: Array | None = None
    settings: RotationSettings = RotationSettings()

    def minimise(self, A: Array, criterion: Criterion, *, oblique: bool) -> Minimum:
        """Lowest of the minima found from all starts; only the best start is continued to the full accuracy."""
        objective = Objective(A, criterion, oblique, criterion.scale(A) or 1.0, self.settings.condition)
        found = [Minimum(objective.retracted(T), np.inf, 0, False) for T in self.starts(A)]
        if len(found) > 1:
            rough = max(self.settings.screening, self.tol)
            found = [self.descend(objective, start, rough) for start in found]
        best = self.descend(objective, min(found, key=lambda start: start.value), self.tol)
        return replace(best, value=best.value * objective.scale)

    def starts(self, A: Array) -> list[Array]:
        """Matrices to begin with: near the principal axes, or the given one, and then random rotations."""
        q, rng = A.shape[1], self.rng
        axes = np.linalg.eigh(A.T @ A)[1][:, ::-1]
        along = A @ axes
        axes = axes * np.where(np.einsum("jk,jk->k", fix_signs(along), along) < 0, -1.0, 1.0)
        near = np.eye(q) + self.settings.deviation * rng.standard_normal((q, q))
        first = axes @ near if self.start is None else self.start
        return [first, *(axes @ orthonormal(rng.standard_normal((q, q))) for _ in range(self.n_init - 1))]

    def descend(self, objective: Objective, start: Minimum, tol: float) -> Minimum:
        """Local minimum near the start, by gradient steps of the lengths of Barzilai and Borwein."""
        shortest, longest = self.settings.steps
        here, step = objective.at(start.T), 1.0
        recent = deque([here.value], maxlen=self.settings.memory)
        for k in range(start.n_iter, self.max_iter):
            if np.vdot(here.gradient, here.gradient) <= tol**2:
                return Minimum(here.T, here.value, k, True)
            there = self._next(objective, here, step, max(recent))
            if there is None:
                return Minimum(here.T, here.value, k, False)
            moved, turned = there.T - here.T, there.gradient - here.gradient
            along = float(np.vdot(moved, turned))
            step = float(np.vdot(moved, moved)) / along if along > 0 else 2 * step
            here, step = there, min(max(step, shortest), longest)
            recent.append(here.value)
        done = bool(np.vdot(here.gradient, here.gradient) <= tol**2)
        return Minimum(here.T, here.value, self.max_iter, done)

    def _next(self, objective: Objective, here: Point, step: float, worst: float) -> Point | None:
        """Point along the negative gradient that is better than the worst of the last ones, or None."""
        limits, size = self.settings, float(np.vdot(here.gradient, here.gradient))
        for _ in range(limits.halvings):
            there = objective.at(objective.retracted(here.T - step * here.gradient))
            if there.value <= worst + limits.rounding - limits.decrease * step * size:
                return there
            step *= 0.5
        return None


def _promax(L: Array, T: Array, power: float, settings: RotationSettings = RotationSettings()) -> Array:
    """Oblique axes whose loadings are nearest to powers of the varimax loadings L = A T, with their signs."""
    relative = L / np.abs(L).max()
    U = np.linalg.lstsq(relative, relative * np.abs(relative) ** (power - 1), rcond=None)[0]
    # The columns of A T U are those of the rotated loadings up to their lengths, so the axes are T U^{-T}.
    U = U / np.maximum(np.abs(U).max(axis=0), np.finfo(np.float64).tiny)
    _, _, axes, failed = dgesv(U, T.T)
    lengths = np.sqrt((axes * axes).sum(axis=1))
    if failed or not np.linalg.norm(U * lengths) < settings.condition:
        msg = f"promax with power={power:g} makes factors linearly dependent here.\nHint: a lower power, or oblimin."
        raise DataError(msg)
    return np.asarray(axes.T / lengths)


def _rotated(A: Array, T: Array, *, oblique: bool) -> Array:
    """Rotated loadings, the solution L of L T' = A: (d, q)."""
    return np.asarray(np.linalg.solve(T, A.T).T) if oblique else A @ T


def explained_variance(L: Array, Phi: Array) -> Array:
    """Variance that each factor explains, diag(Phi L'L), from loadings L and factor correlations Phi: (q,)."""
    return np.asarray((L @ Phi * L).sum(axis=0))


def _arranged(A: Array, found: Minimum, method: str, settings: RotationSettings = RotationSettings()) -> Rotation:
    """Rotation with factors in the order of explained variance and with fixed signs.

    Among factors that explain the same, the one with the first of the largest loadings comes first.
    """
    oblique, T = METHODS[method].oblique, found.T
    L = _rotated(A, T, oblique=oblique)
    explained, sizes = explained_variance(L, T.T @ T), np.abs(L)
    largest = (sizes >= (1 - settings.tie) * sizes.max(axis=0)).argmax(axis=0)
    order = np.lexsort((largest, -np.round(explained / (settings.tie * explained.max() or 1.0))))
    total, leading = L.sum(axis=0), L[largest, np.arange(L.shape[1])]
    decisive = np.where(np.abs(total) > settings.tie * sizes.sum(axis=0), total, leading)
    signs = np.where(decisive < 0, -1.0, 1.0)
    L, T = (L * signs)[:, order], (T * signs)[:, order]
    correlations = T.T @ T if oblique else np.eye(len(T))
    return Rotation(method, T, L, correlations, found.value, found.n_iter, found.converged)


def _lengths(A: Array) -> Array:
    """Lengths of the rows, and 1 for rows of zeros: (d, 1)."""
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    return np.where(lengths > 0, lengths, 1.0)


def _matrix(name: str, value: npt.ArrayLike) -> Array:
    """Array of finite float64 numbers with two axes, neither of which is empty."""
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{name} must be a matrix of numbers; got a {type(value).__name__} that is none: {error}."
        raise DataError(msg) from error
    if matrix.ndim != 2 or min(matrix.shape) < 1:
        msg = f"{name} must be a matrix with at least one row and one column; got shape {matrix.shape}."
        raise ShapeError(msg)
    require_finite(name, matrix)
    return matrix


def _require_method(method: object) -> Method:
    if not isinstance(method, str) or method not in METHODS:
        msg = f"method must be one of {', '.join(METHODS)}; got {method!r}."
        raise DataError(msg)
    return METHODS[method]


def _option(method: str, given: dict[str, float | None]) -> float:
    """Value of the option that only some methods have, and 0 for a method without one."""
    option = METHODS[method].option or Option("", 0.0)
    for name, value in given.items():
        if value is not None and name != option.name:
            having = [
                other for other, properties in METHODS.items() if properties.option and properties.option.name == name
            ]
            msg = f"{name} is an option of {' and '.join(having)}, not of {method}; got {name}={value!r}."
            raise DataError(msg)
    value = given.get(option.name)
    return option.default if value is None else _number(option.name, value, option.above)


def _kaiser(method: str, given: object) -> bool:
    if given is not None and not isinstance(given, bool | np.bool_):
        msg = f"kaiser must be True, False or None; got {given!r}."
        raise DataError(msg)
    return METHODS[method].kaiser if given is None else bool(given)


def _require_no_options(given: dict[str, object]) -> None:
    for name, value in given.items():
        if value is not None:
            msg = f"{name} has no meaning for method 'none', which leaves the loadings as they are; leave it out."
            raise DataError(msg)


def _number(name: str, value: object, above: float) -> float:
    if not isinstance(value, Real) or not above < float(value) < np.inf:
        needed = f" above {above:g}" if np.isfinite(above) else ""
        msg = f"{name} must be a finite number{needed}; got {value!r}."
        raise DataError(msg)
    return float(value)


def _count(name: str, value: object) -> int:
    if not isinstance(value, Integral) or value < 1:
        msg = f"{name} must be a whole number, at least 1; got {value!r}."
        raise DataError(msg)
    return int(value)


def _start(value: npt.ArrayLike, q: int, settings: RotationSettings = RotationSettings()) -> Array:
    """Matrix T to begin with: square, and far enough from a singular matrix."""
    T = _matrix("start", value)
    require_shape("start", T, (q, q))
    if not np.linalg.cond(T) * np.sqrt(q) < settings.condition:
        msg = "start must have columns that are far from linearly dependent, as those of the matrix of a Rotation are."
        raise DataError(msg)
    return T


def _require_rotatable(A: Array, method: str, settings: RotationSettings = RotationSettings()) -> None:
    """Raise ``DataError`` for loadings of extreme size, or of which the method determines no rotation."""
    largest, (low, high) = float(np.abs(A).max()), settings.magnitude
    if largest > high or 0 < largest < low:
        msg = (
            f"the largest loading must have a magnitude between {low:g} and {high:g}; it is {largest:g}.\n"
            "Hint: use other units, or the loadings of standardized features."
        )
        raise DataError(msg)
    q, rank = A.shape[1], int(np.linalg.matrix_rank(A))
    if METHODS[method].oblique and rank < q:
        msg = (
            f"{method} needs loadings with linearly independent columns; the rank of these {q} columns is {rank}.\n"
            f"Hint: leave out columns of zeros, fit {several(max(rank, 1), 'factor')}, or use an orthogonal rotation, "
            "for example varimax."
        )
        raise DataError(msg)
