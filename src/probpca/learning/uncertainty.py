"""How sure the parameters of a fit are."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from probpca.errors import SourceError
from probpca.learning.em import EM
from probpca.learning.loop import Monitor
from probpca.learning.resampling import frequencies, warm_fit
from probpca.linalg.packed import pack, turn
from probpca.models import LinearGaussian
from probpca.rows import observe
from probpca.sources import scaled
from probpca.sources.local import map_blocks, one_blas_thread
from probpca.sources.memory import Kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.rows import Observed
    from probpca.sources import Source
    from probpca.typing import Array

NATS, STEPS = 0.05, 30
"""How far a resampled fit goes: what is left is small beside what resampling moves."""
LEAST_FREE = 0.1
"""Share of the residual cells that counts as free however many parameters there are."""


def complete_information(weight: float, q: int) -> Array:
    """Sum of E[t t'], t = [z; 1], over complete rows at the maximum, where latents have moments 0 and I: (., 1)."""
    return weight * pack(np.eye(q + 1))[:, None]


def noise_inflation(cells: float, rows: float, d: int, q: int) -> float:
    """What the noise variance of maximum likelihood is to be multiplied with.

    Residuals of complete rows have (n - q - 1)(d - q) degrees of freedom, not n (d - q): a loading and
    a mean were fitted to each feature. With missing cells their number stands for n d.
    """
    residual = max(cells - rows * q, LEAST_FREE * cells)
    free = max(residual - (q + 1) * (d - q), LEAST_FREE * residual)
    return residual / free


def turned_information(information: Array, rotation: Array) -> Array:
    """The information about the parameters of a model whose latent axes are turned, z' = R' z."""
    basis = np.eye(len(rotation) + 1)
    basis[:-1, :-1] = rotation
    return turn(information, basis)


def require_rows_in_memory(source: Source) -> None:
    """Raise ``SourceError`` unless parameters can be drawn from these rows."""
    if not source.in_memory:
        msg = "parameters are drawn from rows held in memory; these are read in batches.\nHint: pass one matrix."
        raise SourceError(msg)


def draw_parameters(
    source: Source, model: LinearGaussian, inflation: float, seeds: Sequence[int]
) -> list[LinearGaussian]:
    """Draw models that the rows could have led to as well: fits to resampled rows, begun at ``model``.

    The noise variance is held at its value corrected for degrees of freedom: fits to resampled rows
    would make it smaller still, and intervals too narrow. Each seed makes one draw, whatever the others are.
    """
    require_rows_in_memory(source)
    unit = np.sqrt(model.noise_variance)
    source = scaled(source, np.broadcast_to(1 / unit, (model.n_features,)))
    start = model.rescale(1 / unit)
    start = LinearGaussian(start.mean, start.loadings, np.asarray(inflation))
    rows = cast("Kept", source.keep(partial(observe, centre=start.mean)))
    with one_blas_thread():
        models = list(map_blocks(partial(_resampled_fit, rows.blocks, start), list(seeds), rows.n_jobs))
    return [drawn.rescale(unit) for drawn in models]


def _resampled_fit(blocks: list[Observed], start: LinearGaussian, seed: int) -> LinearGaussian:
    """Fit to rows drawn with replacement: frequencies as weights."""
    weights = [_weight_of_rows(block) for block in blocks]
    counts = frequencies(np.concatenate(weights), np.random.default_rng(seed))
    cuts = np.cumsum([weight.size for weight in weights])[:-1]
    drawn = [block.reweighted(count) for block, count in zip(blocks, np.split(counts, cuts), strict=True)]
    noise = float(start.noise_variance)
    rows = Kept(drawn, start.n_features)
    return warm_fit(rows, start, EM(noise, noise=noise), Monitor(NATS, STEPS)).state


def _weight_of_rows(block: Observed) -> Array:
    """Weights of all rows of a block; those with nothing observed are out of the game."""
    weight = np.zeros(block.n_rows)
    for part in block.parts:
        weight[part.rows] = part.weight
    return weight
