"""Decomposition of time series into level, season, factors and noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.inference.time_series.kalman import believe, rows_of

if TYPE_CHECKING:
    from probpca.models import StateSpace
    from probpca.typing import Array


class SeriesComponents(NamedTuple):
    """Parts of a time series, each with a value for each cell; all but ``slope`` sum to the observed cells.

    Attributes
    ----------
    level : ndarray of shape (n, d)
        Expected level given all rows, the offset included.
    slope : ndarray of shape (n, d)
        Expected change of the level from each step to the next; 0 without a slope. It is part of the level.
    deviation : ndarray of shape (n, d)
        Autoregressive deviation from the level; 0 unless the trend is "ar".
    season : ndarray of shape (n, d)
        Season; 0 if there is none.
    factors : ndarray of shape (n, d)
        Part of the common factors.
    noise : ndarray of shape (n, d)
        What is left; NaN for missing cells.
    """

    level: Any
    slope: Any
    deviation: Any
    season: Any
    factors: Any
    noise: Any


def decompose(model: StateSpace, y: Any, *, inputs: Any = None) -> SeriesComponents:
    r"""Expected level, slope, season and factors given all rows of each sequence, and the noise that is left.

    .. math:: y_t = l_t + a_t + s_t + C f_t + v_t

    ``y`` is a matrix (n, d) with NaN in missing cells, or a list of matrices, one per sequence, whose results are
    concatenated. Without a layout all states are factors, and the level is the offset.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import decompose
    >>> from probpca.models.components import OwnComponents, assemble
    >>> model = assemble([OwnComponents("level", 1.0, level=1.0)], np.zeros(1))
    >>> parts = decompose(model, [[1.0], [np.nan], [3.0]])
    >>> parts.level.round(2).ravel(), parts.noise.round(2).ravel()
    (array([1.5, 2. , 2.5]), array([-0.5,  nan,  0.5]))
    """
    rows = rows_of(model, y, inputs)
    states, C, layout = believe(model, rows).mean, model.emission.loadings, model.layout

    def seen(*roles: str) -> Array:
        some = np.arange(model.n_components) if layout is None else layout.of(*roles)
        return np.asarray(states[:, some] @ C[:, some].T)

    slope = np.zeros(rows.values.shape)
    if layout is None:
        level = np.broadcast_to(model.emission.mean, slope.shape).copy()
        deviation, season, factors = np.zeros_like(slope), np.zeros_like(slope), seen()
    else:
        level, deviation = seen("level") + model.emission.mean, seen("ar")
        season, factors = seen("season"), seen("factor")
        some = layout.of("slope")
        slope[:, layout.features[some]] = states[:, some]
    return SeriesComponents(
        level, slope, deviation, season, factors, rows.values - level - deviation - season - factors
    )
