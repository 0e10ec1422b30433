"""Checkpoints of long fits, from which an interrupted fit continues."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.atomic_write import remove_abandoned, require_writable
from probpca.blocks.block import mixed
from probpca.errors import DataError
from probpca.models.serialization import model_arrays, model_from_arrays, read_record, reading, write_record
from probpca.statistics import Sum

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import TypeAlias

    from probpca.blocks import Observed
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.statistics import ColumnSummary
    from probpca.typing import Array

    Step: TypeAlias = Callable[[LinearGaussian], tuple[LinearGaussian, float]]


def fingerprint(rows: Source, columns: ColumnSummary, n_waves: int = 8, constant: float = 1e-7) -> Array:
    """Numbers that identify a set of rows, computed in one pass: (2 * n_waves,).

    They are sums over the rows of sines and cosines of random combinations of their cells, which do not depend on
    the order of rows or the cuts between blocks, but distinguish tables whose columns have the same means and
    variances. Columns whose standard deviation is below ``constant`` times their mean are left out, because rounding
    would dominate.
    """
    deviation = np.sqrt(columns.variance)
    varies = deviation > constant * np.abs(columns.mean)
    d = deviation.size
    keys = mixed(np.arange(n_waves * d, dtype=np.uint64)[None, :]).reshape(n_waves, d)
    even = (keys.astype(np.float64) / 2.0**64 - 0.5) * np.sqrt(12 / d)
    mixtures = np.where(varies, even / np.where(varies, deviation, 1.0), 0.0)
    return rows.fold(partial(_waves, mixtures, columns.mean)).value


def _waves(table: Array, mean: Array, block: Observed) -> Sum:
    total = np.zeros(2 * len(table))
    for group in block.groups:
        cells = group.cells.ready()
        beside = cells.mask.products(table * (block.centre - mean))
        phase = cells.values.products(table) + (beside if cells.pattern is None else beside[:, cells.pattern])
        total += np.concatenate([np.sin(phase), np.cos(phase)]) @ group.weight
    return Sum(total)


def is_same(found: Array, wanted: Array, columns: ColumnSummary, rounding: float = 1e-6) -> bool:
    """Whether two fingerprints belong to the same rows, up to an error of ``rounding`` per row."""
    return found.shape == wanted.shape and bool((np.abs(found - wanted) <= rounding * columns.total_weight).all())


class Saved(NamedTuple):
    """State of an unfinished fit: the model, how its size was chosen, and the log-likelihood before each step."""

    model: LinearGaussian
    rule: str
    trace: tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint file of one fit, written atomically and deleted when the fit is done."""

    path: Path
    columns: ColumnSummary  # of the rows, to recognise them
    asked: Mapping[str, Any] = field(default_factory=dict)  # parameters that a resumed fit must share
    fingerprint: Array = field(default_factory=lambda: np.zeros(0))  # of the rows, to recognise them

    def read(self) -> Saved | None:
        """Read the state that an earlier process saved; None if there is no file.

        Raises an error if the file belongs to a fit with other parameters or to other rows.
        """
        if not self.path.parent.is_dir():
            msg = f"the folder of the checkpoint {self.path} does not exist.\nHint: create it first."
            raise DataError(msg)
        require_writable(self.path)
        if not self.path.exists():
            return None
        if not self.path.is_file():
            msg = f"the checkpoint {self.path} must be a regular file, to be read again.\nHint: use another name."
            raise DataError(msg)
        header, arrays = read_record(self.path)
        if header["kind"] != "checkpoint":
            msg = f"{self.path} is not a checkpoint but a {header['kind']}.\nHint: use another name for the checkpoint."
            raise DataError(msg)
        for name, asked in self.asked.items():
            if header["asked"].get(name) != asked:
                msg = (
                    f"{self.path} belongs to a fit with {name}={header['asked'].get(name)}; this one has {asked}.\n"
                    "Hint: delete it, or use another name for the checkpoint."
                )
                raise DataError(msg)
        if not self._are_the_same(header["cells"], arrays):
            msg = f"{self.path} belongs to a fit to other rows.\nHint: delete it, or use another name."
            raise DataError(msg)
        with reading(self.path):
            return Saved(model_from_arrays(arrays), header["rule"], tuple(arrays["trace"].tolist()))

    def _are_the_same(self, cells: float, arrays: dict[str, Array]) -> bool:
        """Whether stored summary and fingerprint agree with those of the rows."""
        columns, mean, squares = self.columns, arrays["column_mean"], arrays["column_squares"]
        if cells != float(columns.observed.sum()) or mean.shape != columns.mean.shape:
            return False
        rounding = 1e-9 * (np.sqrt(columns.variance) + np.abs(columns.mean))
        return bool(
            (np.abs(mean - columns.mean) <= rounding).all()
            and np.allclose(squares, columns.squares, rtol=1e-6)
            and is_same(arrays["fingerprint"], self.fingerprint, columns)
        )

    def write(self, saved: Saved) -> None:
        """Write a state to the file, replacing an earlier one."""
        cells = float(self.columns.observed.sum())
        header = {"kind": "checkpoint", "rule": saved.rule, "asked": dict(self.asked), "cells": cells}
        arrays = {
            "trace": np.array(saved.trace),
            "column_mean": self.columns.mean,
            "column_squares": self.columns.squares,
            "fingerprint": self.fingerprint,
        }
        write_record(self.path, header, {**model_arrays(saved.model), **arrays})

    def remove(self) -> None:
        """Delete the file, and partial files of processes that were killed while writing."""
        remove_abandoned(self.path)
        self.path.unlink(missing_ok=True)


@final
class Saver:
    """Writer of a checkpoint after each step."""

    def __init__(self, checkpoint: Checkpoint, rule: str, trace: tuple[float, ...] = ()) -> None:
        """Create a writer that continues an earlier ``trace``."""
        self._checkpoint, self._rule = checkpoint, rule
        self.trace = trace

    def save(self, following: LinearGaussian, value: float) -> None:
        """Save the model to continue from; ``value`` is the log-likelihood before it."""
        if not self.trace or value >= self.trace[-1]:  # rejected steps are not part of the trace
            self.trace = (*self.trace, value)
            self._checkpoint.write(Saved(following, self._rule, self.trace))

    def saving(self, step: Step) -> Step:
        """Wrap a step so that a checkpoint is written after it."""

        def saved(model: LinearGaussian) -> tuple[LinearGaussian, float]:
            following, value = step(model)
            self.save(following, value)
            return following, value

        return saved
