"""Distances of training rows from the fitted model, for the calibration of p-values."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.blocks.block import dense_values, with_data
from probpca.blocks.cells import FormSettings
from probpca.inference.calibration import Calibration, Distances, matched, median_scaled
from probpca.inference.masked_rows import group_posteriors
from probpca.learning.settings import CalibrationRows
from probpca.scratch import workspace
from probpca.sources import Source
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.models import LinearGaussian
    from probpca.typing import Array

NO_ROWS = Calibration(obstacle="no training rows were kept for calibration")
STREAM = Calibration(obstacle="partial_fit keeps no rows for calibration")
ONE_FORM = FormSettings(small_cells=2**16, few=0.07)
"""Rows are read only once here, so that choosing a storage form for each of them is not worthwhile."""


class InnerProducts(NamedTuple):
    """Inner products that determine the distances of complete rows, which are computed when needed."""

    products: Array  # W' Psi^{-1} (x - mu); without Psi^{-1} if there is one noise variance: (n, q)
    squares: Array  # (x - mu)' Psi^{-1} (x - mu); without Psi^{-1} if there is one noise variance: (n,)

    @classmethod
    def of(cls, model: LinearGaussian, block: Block) -> InnerProducts:
        """Compute the inner products of a block in one pass."""
        with workspace() as work:
            found = [
                model.covariance.inner_products(block.centred(rows, model.mean, work=work)) for rows in block.pieces()
            ]
        return cls(*(found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))))

    def distances(self, model: LinearGaussian) -> Distances:
        """Distances of the rows from the model."""
        d, q, ones = model.n_features, model.n_components, np.ones(self.squares.size)
        return Distances(*model.covariance.split_distance_of(*self), d * ones, min(q, d) * ones)


@final
@dataclass(frozen=True, slots=True, eq=False)
class TrainingDistances:
    """Distances of training rows from the fitted model; the calibration is computed when needed."""

    model: LinearGaussian
    parts: tuple[InnerProducts | Distances, ...]  # of successive blocks
    n_rows: float  # average total weight of the training rows in which a feature was observed
    weight: Array | None  # weights of these rows; None if all are 1

    @property
    def found(self) -> Distances:
        """Distances of the training rows, without leave-one-out correction."""
        parts = [part if isinstance(part, Distances) else part.distances(self.model) for part in self.parts]
        return parts[0] if len(parts) == 1 else Distances(*map(np.concatenate, zip(*parts, strict=True)))

    def calibrate(self) -> Calibration:
        """Match the reference distribution of p-values to the distances."""
        with np.errstate(all="ignore"):
            return matched(self.found, self.n_rows, self.weight)

    def scaled(self, share: float) -> Calibration:
        """Chi-square, scaled so that its quantile ``share`` is the median of the leave-one-out distances.

        For rows that are known to be the nearest ones of all, of which they are twice the ``share``.
        """
        with np.errstate(all="ignore"):
            return median_scaled(self.found, self.n_rows, self.weight, share)


def training_distances(
    model: LinearGaussian,
    rows: Source | None,
    n_rows: float,
    *,
    complete: bool = False,
    settings: CalibrationRows = CalibrationRows(),
) -> TrainingDistances | Calibration:
    """Distances of all training rows, or a sample of them, from the model that was fitted to them.

    ``rows`` must be in memory. ``n_rows`` is the average number of training rows in which a feature was observed, and
    ``complete`` tells that no cell is missing, if that is known. Without usable rows the result is an uncalibrated
    ``Calibration`` with the reason.
    """
    if rows is None or not rows.n_rows:
        return NO_ROWS
    blocks = [_as_asked(block) for block in rows.spread(settings.of(rows.n_rows, rows.n_features))]
    judge = partial(_judged, model, complete)
    cells = sum(block.n_rows for block in blocks) * rows.n_features
    # BLAS threads that are woken keep spinning and slow down whatever comes next.
    with one_blas_thread() if cells > settings.small else nullcontext(), np.errstate(all="ignore"):
        if cells > settings.large:
            parts = tuple(part for block in blocks for part in Source.of_block(block, rows.n_jobs).answers(judge))
        else:
            parts = tuple(map(judge, blocks))
    weight = None if all(block.weight is None for block in blocks) else np.concatenate([b.weights for b in blocks])
    return TrainingDistances(model, parts, n_rows, weight)


def _judged(model: LinearGaussian, complete: bool, block: Block) -> InnerProducts | Distances:  # noqa: FBT001
    return InnerProducts.of(model, block) if complete or block.is_complete else _of_observed(model, block)


def _as_asked(block: Block) -> Block:
    """Block as ``outliers`` uses it: cells of weight 0 are missing, all others have weight 1."""
    if block.precision is None:
        return block
    if block.is_sparse:
        seen = np.where(block.precision > 0, block.values.data, np.nan)
        return replace(block, values=with_data(block.values, seen), precision=None)
    return replace(block, values=dense_values(block), precision=None)


def _of_observed(model: LinearGaussian, block: Block) -> Distances:
    out = Distances.empty(block.n_rows)
    for found in group_posteriors(model, block, ONE_FORM):
        out.inside[found.index], out.outside[found.index] = found.split_distance()
        out.degrees[found.index] = found.group.observed
    np.minimum(out.degrees, model.n_components, out=out.rank)
    return out
