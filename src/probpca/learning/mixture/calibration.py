"""Calibration of p-values of a mixture to its training rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.blocks.block import dense_values, joined
from probpca.inference.mixture_outlier_scores import calibrate_mixture
from probpca.learning.settings import CalibrationRows
from probpca.learning.training_distances import NO_ROWS
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from probpca.inference.calibration import Calibration
    from probpca.learning.mixture.result import MixtureResult
    from probpca.sources import Source
    from probpca.typing import Array


def rows_per_cluster(result: MixtureResult) -> Array:
    """Average number of training rows of each cluster in which a feature was observed: (K,)."""
    d = max(result.model.n_features - result.empty.size, 1)
    return result.model.weights * (result.cells / d)


def calibration_of(
    result: MixtureResult, rows: Source | None, settings: CalibrationRows = CalibrationRows()
) -> Calibration:
    """Reference distribution of the distances within clusters, matched to training rows or a sample of them."""
    if rows is None or not rows.n_rows:
        return NO_ROWS
    block = joined(rows.spread(settings.of(rows.n_rows, rows.n_features)))
    if block.precision is not None:
        block = type(block)(dense_values(block), block.weight)  # cells of weight 0 are missing, others have weight 1
    with one_blas_thread(), np.errstate(all="ignore"):
        return calibrate_mixture(result.model, block, rows_per_cluster(result))
