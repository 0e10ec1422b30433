"""Make fits comparable: signs, rotations, and the angles that need neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from probpca.errors import DataError

if TYPE_CHECKING:
    from probpca.typing import Array

Align: TypeAlias = Literal["signs", "procrustes"]


def check_align(align: str) -> None:
    """Raise ``DataError`` unless there is such a way to make fits comparable."""
    if align not in get_args(Align):
        msg = f"align must be one of {', '.join(get_args(Align))}; got {align!r}."
        raise DataError(msg)


def aligned(columns: Array, target: Array, align: str) -> Array:
    r"""Loadings or axes (d, q) of another fit, made comparable with those of ``target``.

    ``"signs"`` leaves the order by variance as it is and turns columns round that point the other way:
    how much the j-th principal axis varies, and the whole of it. Where two variances are close the axes turn
    into each other from sample to sample, and that is part of the truth about them.

    ``"procrustes"`` takes the rotation R that minimises :math:`\lVert W^* R - W \rVert`, and with it all that
    is due to a rotation within the subspace.
    """
    if align == "procrustes":
        left, _, right = np.linalg.svd(columns.T @ target)
        return columns @ (left @ right)
    return columns * np.where(np.einsum("dj,dj->j", columns, target) < 0, -1.0, 1.0)


def principal_angles(axes: Array, others: Array) -> Array:
    """Angles between the spans of two orthonormal bases (d, q), in degrees, largest first: (q,).

    From sines and cosines both: neither alone is accurate at both ends.
    """
    within = axes.T @ others  # (q, q)
    cosines = np.linalg.svd(within, compute_uv=False)[::-1]
    sines = np.linalg.svd(others - axes @ within, compute_uv=False)
    return np.degrees(np.arctan2(sines, cosines))
