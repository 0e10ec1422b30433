"""Standard errors of rotated, standardised loadings, factor correlations and uniquenesses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

import numpy as np

from probpca.available_memory import require_memory
from probpca.errors import DataError, ShapeError
from probpca.learning.factor.information import covariance_root, expected_information, observed_information
from probpca.learning.factor.uncertainty import FactorUncertainty, TransformedEstimate
from probpca.linalg.rotations import fix_signs

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.learning.factor.information import ModelGradient
    from probpca.models import LinearGaussian
    from probpca.typing import Array


class Rotated(Protocol):
    """Protocol of rotated loadings with the correlations of their factors."""

    @property
    def loadings(self) -> Array:
        """Rotated loadings: (d, q)."""
        ...

    @property
    def correlations(self) -> Array:
        """Correlations of the factors: (q, q)."""
        ...


@final
@dataclass(frozen=True, slots=True)
class DifferenceSettings:
    """Sizes of the differences that approximate derivatives, in units of standard deviations."""

    gradient: float = 1e-5  # of parameters, to differentiate the gradient
    rotation: float = 1e-3  # of loadings, to differentiate the rotation, which an iteration finds to some digits
    # Largest second difference of a rotated loading: with a larger one the rotation has jumped to another minimum.
    largest_jump: float = 0.02
    least_pivot: float = 1e-11  # of the information, scaled to unit diagonal; below, parameters are not determined


def standard_errors(
    model: LinearGaussian,
    weight: float,
    rotate: Callable[[Array], Rotated] | None = None,
    gradient: ModelGradient | None = None,
    *,
    heywood: Any = (),
    settings: DifferenceSettings = DifferenceSettings(),
) -> FactorUncertainty:
    r"""Standard errors of a maximum-likelihood factor solution, by the delta method through its rotation.

    The information of W and :math:`\log \psi`, with the mean profiled out, is singular along the q (q - 1) / 2
    rotations of the factors. What a rotation criterion returns does not change along them, so that any generalised
    inverse gives the same covariance of the rotated loadings.

    Parameters
    ----------
    model : LinearGaussian
        The fitted model, with one noise variance per feature, at a maximum of the likelihood.
    weight : float
        Total weight of the rows; not used if ``gradient`` is given, which sums over the rows.
    rotate : callable or None
        Function from standardised loadings (d, q) to an object with ``loadings`` and ``correlations``. It is called
        twice for each loading and should start at the rotation of the fit. None means the canonical axes, in which
        :math:`W^\top \Psi^{-1} W` is diagonal and falls.
    gradient : callable or None
        Function from a model to the derivatives of the total log-likelihood with respect to mu, W and log psi, for
        rows with missing cells. None means complete rows, and the expected information.
    heywood : array-like of int
        Positions of the features whose noise variance is at its floor. They have no standard errors (NaN), and those of
        the others hold their noise variances fixed. Constant features, without loadings, have none either.
    settings : DifferenceSettings
        Sizes of differences.

    Returns
    -------
    FactorUncertainty
        Loadings, factor correlations and uniquenesses with standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.learning.factor.standard_errors import standard_errors
    >>> from probpca.models import LinearGaussian
    >>> W = [[0.8], [0.7], [0.6], [0.5]]
    >>> model = LinearGaussian(np.zeros(4), W, 1 - np.square(W)[:, 0])
    >>> standard_errors(model, weight=200)
    Uncertainty of the factors: 95% intervals by the expected information
    feature  uniqueness  std. error          interval
    x0           0.3600       0.079  0.2236 to 0.5235
    x1           0.5100       0.073  0.3690 to 0.6494
    x2           0.6400       0.069  0.4970 to 0.7618
    x3           0.7500       0.064  0.6063 to 0.8539
    <BLANKLINE>
    Loadings of F1 (* interval without zero)
    feature  loading  std. error            interval
    x0       +0.8000       0.049  +0.7036 to +0.8964  *
    x1       +0.7000       0.052  +0.5971 to +0.8029  *
    x2       +0.6000       0.058  +0.4872 to +0.7128  *
    x3       +0.5000       0.064  +0.3750 to +0.6250  *
    """
    if model.noise_variance.ndim == 0:
        msg = (
            "standard errors of factors need a model with one noise variance per feature; this model has a single one."
        )
        raise ShapeError(msg)
    k = model.n_features * (model.n_components + 1)
    require_memory(f"the information about {k:,} parameters", 8 * 8 * k * k, "choose fewer features or factors")
    std = np.sqrt(model.covariance.diag())
    standard, fixed = model.rescale(1 / std), np.asarray(heywood, dtype=np.intp)
    if gradient is None:
        information = expected_information(standard, weight)
    else:
        information = observed_information(standard, _in_units(gradient, std), settings.gradient)
    root = covariance_root(information, standard.loadings, fixed, settings.least_pivot)
    solution, errors = _unrotated(standard, root) if rotate is None else _rotated(standard, root, rotate, settings)
    uniqueness = standard.noise_variance.copy(), _uniqueness_errors(standard, root)
    silent = np.union1d(fixed, np.flatnonzero(np.square(standard.loadings).sum(axis=1) == 0))
    np.fill_diagonal(errors[1], 0.0)  # 1 by definition, whatever its differences are
    for error in errors[0], uniqueness[1]:
        error[silent] = np.nan
    return FactorUncertainty(
        TransformedEstimate(solution[0], errors[0]),
        TransformedEstimate(solution[1], errors[1], "fisher"),
        TransformedEstimate(*uniqueness, "logit"),
        "expected" if gradient is None else "observed",
        n_fixed=fixed.size,
    )


def _in_units(gradient: ModelGradient, std: Array) -> ModelGradient:
    """Gradient with respect to the parameters of columns divided by ``std``, from that in the units of the data."""

    def standardised(model: LinearGaussian) -> tuple[Array, Array, Array]:
        of_mean, of_loadings, of_log_noise = gradient(model.rescale(std))
        return of_mean * std, of_loadings * std[:, None], of_log_noise

    return standardised


Solution: TypeAlias = "tuple[Array, Array]"
"""Loadings (d, q) and correlations of the factors (q, q)."""


def _standardised_moves(model: LinearGaussian, root: Array) -> Array:
    """Changes of the loadings divided by standard deviations, given those of (W, log psi) at unit variances: (d, q, m).

    The standard deviation changes by w'dw + psi d(log psi) / 2, and divides the loadings.
    """
    W, psi = model.loadings, model.noise_variance
    of_loadings = root[: W.size].reshape(*W.shape, -1)
    of_std = np.einsum("jk,jkm->jm", W, of_loadings) + 0.5 * psi[:, None] * root[W.size :]
    return np.asarray(of_loadings - W[:, :, None] * of_std[:, None, :])


def _uniqueness_errors(model: LinearGaussian, root: Array) -> Array:
    """Standard errors of 1 minus the sum of squared standardised loadings: (d,)."""
    moves = -2 * np.einsum("jk,jkm->jm", model.loadings, _standardised_moves(model, root))
    return np.sqrt(np.square(moves).sum(axis=1))


def _rotated(
    model: LinearGaussian, root: Array, rotate: Callable[[Array], Rotated], settings: DifferenceSettings
) -> tuple[Solution, Solution]:
    """Rotated loadings and correlations of the factors, and their standard errors."""
    moves = _standardised_moves(model, root)
    solution, jacobian = rotation_jacobian(model.loadings, rotate, settings)
    changes = np.tensordot(jacobian, moves.reshape(model.loadings.size, -1), axes=(0, 0))  # (d + q, q, m)
    errors, d = np.sqrt(np.square(changes).sum(axis=2)), model.n_features
    return solution, (errors[:d], errors[d:])


def rotation_jacobian(
    loadings: Array, rotate: Callable[[Array], Rotated], settings: DifferenceSettings = DifferenceSettings()
) -> tuple[Solution, Array]:
    """Rotated loadings and correlations, and their derivatives by the loadings: (d q, d + q, q), correlations last.

    Central differences. The factors of every rotation are put into the order, and given the signs, of the solution.
    """
    step, (d, q) = settings.rotation, loadings.shape
    first = rotate(loadings)
    solution = np.array(first.loadings), np.array(first.correlations)
    stacked, jacobian = np.vstack(solution), np.zeros((d * q, d + q, q))
    for i in np.flatnonzero(np.repeat(loadings.any(axis=1), q)):
        move = np.zeros(d * q)
        move[i] = step
        ahead, behind = (_matched(rotate(loadings + s * move.reshape(d, q)), solution[0]) for s in (1, -1))
        if not np.abs(ahead + behind - 2 * stacked).max() < settings.largest_jump:
            msg = (
                f"the rotation jumps to another minimum if a loading changes by {step:g}, so that it has no standard "
                "errors.\nHint: start it at the rotation of the fit, or use another criterion or fewer factors."
            )
            raise DataError(msg)
        jacobian[i] = (ahead - behind) / (2 * step)
    return solution, jacobian


def _matched(rotated: Rotated, target: Array) -> Array:
    """Loadings above correlations of the factors, (d + q, q), in the order and with the signs of ``target`` (d, q)."""
    L, correlations = np.asarray(rotated.loadings), np.asarray(rotated.correlations)
    lengths = np.maximum(np.linalg.norm(L, axis=0), np.finfo(float).tiny)
    likeness = target.T @ (L / lengths)  # (q, q)
    order = np.abs(likeness).argmax(axis=1)
    sign = np.where(likeness[np.arange(order.size), order] < 0, -1.0, 1.0)
    return np.vstack([L[:, order] * sign, correlations[np.ix_(order, order)] * np.outer(sign, sign)])


def _unrotated(model: LinearGaussian, root: Array) -> tuple[Solution, Solution]:
    r"""Standardised loadings along the canonical axes, and their standard errors.

    A change of the parameters makes :math:`W^\top \Psi^{-1} W = \Gamma` a matrix that is not diagonal; the axes then
    turn by the skew-symmetric matrix that makes it diagonal again, with entries
    :math:`-\partial \Gamma_{kl} / (\Gamma_{kk} - \Gamma_{ll})`.
    """
    (d, q), psi = model.loadings.shape, model.noise_variance
    _, _, singular, axes = model.covariance.whitened
    turn = axes * np.sign(np.einsum("jk,jk->k", fix_signs(model.loadings @ axes), model.loadings @ axes))
    W = model.loadings @ turn
    moves, moves_of_noise = _turned(root[: d * q], turn), root[d * q :]
    weighted = W / psi[:, None]
    product = np.einsum("jk,jlm->klm", weighted, moves)
    changes = product + product.swapaxes(0, 1) - np.einsum("jk,jl,jm->klm", weighted, W, moves_of_noise)
    gaps = singular[:, None] ** 2 - singular**2 + np.eye(q)
    changes /= -gaps[:, :, None]
    changes[np.arange(q), np.arange(q)] = 0.0
    moves = _standardised_moves(replace(model, loadings=W), np.vstack([moves.reshape(d * q, -1), moves_of_noise]))
    moves += np.einsum("jk,klm->jlm", W, changes)
    return (W, np.eye(q)), (np.sqrt(np.square(moves).sum(axis=2)), np.zeros((q, q)))


def _turned(changes: Array, turn: Array) -> Array:
    """Changes of loadings (d q, m) for turned factors: (d, q, m)."""
    q = len(turn)
    return np.einsum("jkm,kl->jlm", changes.reshape(-1, q, changes.shape[1]), turn)
