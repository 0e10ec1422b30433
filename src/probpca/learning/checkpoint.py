"""Checkpoints of long fits: a process that was killed goes on from there."""

from __future__ import annotations

import glob
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.blocks.block import mixed
from probpca.errors import DataError
from probpca.models.serialization import model_arrays, model_from_arrays, read_record, write_record
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
    """Sums over rows of sines and cosines of mixtures of their cells: (2 * n_waves,). One pass.

    Neither cuts nor the order of rows matter. Rows mirrored about their mean have other sines, and rows whose
    cells have changed places have other mixtures, though mean and variance of each column are the same. A column
    whose standard deviation is below the share ``constant`` of its mean says too little beside rounding, and is
    left out.
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
    """Whether two fingerprints belong to the same rows; ``rounding`` a row is what other cuts may change."""
    return found.shape == wanted.shape and bool((np.abs(found - wanted) <= rounding * columns.total_weight).all())


class Saved(NamedTuple):
    """A model on its way, how it was chosen, and the log-likelihood before each step."""

    model: LinearGaussian
    rule: str
    trace: tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The file of one fit; it is written whole or not at all, and goes when the fit is done."""

    path: Path
    columns: ColumnSummary  # of the rows, by which they are recognised
    asked: Mapping[str, Any] = field(default_factory=dict)  # parameters of the fit that a resumed one must share
    fingerprint: Array = field(default_factory=lambda: np.zeros(0))  # of the rows, too

    def read(self) -> Saved | None:
        """Read the state that an earlier process saved; None if there is no file."""
        if not self.path.parent.is_dir():
            msg = f"the checkpoint {self.path} has no folder to be written to.\nHint: make it first."
            raise DataError(msg)
        if not self.path.exists():
            return None
        header, arrays = read_record(self.path)
        if header.get("kind") != "checkpoint":
            msg = (
                f"{self.path} is not a checkpoint but a {header.get('kind')}.\nHint: give the checkpoint another name."
            )
            raise DataError(msg)
        for name, asked in self.asked.items():
            if header["asked"].get(name) != asked:
                msg = (
                    f"{self.path} belongs to a fit with {name}={header['asked'].get(name)}; this one has {asked}.\n"
                    "Hint: delete it, or give the checkpoint another name."
                )
                raise DataError(msg)
        if not self._are_the_same(header["cells"], arrays):
            msg = f"{self.path} belongs to a fit to other rows.\nHint: delete it, or give the checkpoint another name."
            raise DataError(msg)
        return Saved(model_from_arrays(self.path, arrays), header["rule"], tuple(arrays["trace"].tolist()))

    def _are_the_same(self, cells: float, arrays: dict[str, Array]) -> bool:
        """Do rows with this summary look like these?"""
        columns, mean, squares = self.columns, arrays["column_mean"], arrays["column_squares"]
        if cells != float(columns.observed.sum()) or mean.shape != columns.mean.shape:
            return False
        rounding = 1e-9 * (np.sqrt(columns.variance) + np.abs(columns.mean))
        return bool(
            (np.abs(mean - columns.mean) <= rounding).all()
            and np.allclose(squares, columns.squares, rtol=1e-6)
            and is_same(arrays.get("fingerprint", np.zeros(0)), self.fingerprint, columns)
        )

    def write(self, saved: Saved) -> None:
        """Replace what was there."""
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
        """The fit is done; what processes that were killed while they wrote have left goes too."""
        unfinished = f"{glob.escape(self.path.name)}.{'[0-9a-f]' * 32}.part"
        for left in (self.path, *self.path.parent.glob(unfinished)):
            left.unlink(missing_ok=True)


@final
class Saver:
    """Writes a checkpoint after each step."""

    def __init__(self, checkpoint: Checkpoint, rule: str, trace: tuple[float, ...] = ()) -> None:
        """Go on with a trace, if there was one."""
        self._checkpoint, self._rule = checkpoint, rule
        self.trace = trace

    def save(self, following: LinearGaussian, value: float) -> None:
        """Leave a model to go on from; ``value`` is the log-likelihood before it."""
        if not self.trace or value >= self.trace[-1]:  # a step that was taken back leaves no trace
            self.trace = (*self.trace, value)
            self._checkpoint.write(Saved(following, self._rule, self.trace))

    def saving(self, step: Step) -> Step:
        """Wrap a step so that a checkpoint is written after it."""

        def saved(model: LinearGaussian) -> tuple[LinearGaussian, float]:
            following, value = step(model)
            self.save(following, value)
            return following, value

        return saved
