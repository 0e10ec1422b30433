"""Online EM: one pass over rows with missing cells, for as long as they come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.blocks import Block, observe
from probpca.blocks.block import dense_values
from probpca.errors import DataError
from probpca.learning.complete.spectrum import NOISE_FLOOR
from probpca.learning.components import Components
from probpca.learning.describe import can_learn, describe
from probpca.learning.em.e_step import expect
from probpca.learning.em.m_step import latent_moments, maximise, theta_of, whitening_basis
from probpca.learning.missing.fit import fit_missing
from probpca.learning.result import FitResult, Status
from probpca.learning.streaming.exact import fade
from probpca.linalg.packed import turn_bordered
from probpca.models import LinearGaussian
from probpca.sources import Source, open_source
from probpca.statistics import ColumnSummary

if TYPE_CHECKING:
    from probpca.blocks import Observed
    from probpca.learning.components import NComponents
    from probpca.learning.settings import OnlineSettings, Settings
    from probpca.statistics import Regression
    from probpca.typing import Array

TINY = 1e-300


class _Average(NamedTuple):
    """Parameters averaged over the second half of the rows, or a little more."""

    edge: float = 1.0  # the window that counts began half as many rows ago
    earlier: tuple[Array | float, Array | float] = (0.0, 0.0)  # weight and weighted sum
    later: tuple[Array | float, Array | float] = (0.0, 0.0)

    def add(self, rows: float, weight: Array | float, value: Array) -> _Average:
        edge, earlier, later = self
        if rows >= 2 * edge:
            edge, earlier, later = rows, later, (0.0, 0.0)
        return _Average(edge, earlier, (later[0] + weight, later[1] + weight * value))

    @property
    def value(self) -> Array:
        weight = np.maximum(self.earlier[0] + self.later[0], TINY)
        return np.asarray((self.earlier[1] + self.later[1]) / weight)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The first rows, as they came: too few for anything but a fit to all of them."""

    blocks: tuple[Block, ...]
    n_components: NComponents
    settings: Settings
    seed: int
    count: int  # rows that have come; those of a summary that came before stand for more

    @property
    def weight(self) -> float:
        """Number of rows so far."""
        return float(sum(block.total_weight for block in self.blocks))

    def absorb(self, block: Block, half_life: float | None) -> Gathered | Online:
        """Gather; when there are enough rows, fit them and begin."""
        new, share = fade(Block(dense_values(block), block.weight), half_life)
        blocks = (*(replace(old, weight=share * old.weights) for old in self.blocks), new)
        gathered = replace(self, blocks=blocks, count=self.count + block.count)
        enough = np.clip(self.settings.online.first_cells // block.n_features, *self.settings.online.first_rows)
        if sum(part.n_rows for part in blocks) < enough:
            return gathered
        if not can_learn(gathered.table().fold(ColumnSummary.of)):  # as yet
            return gathered
        result = gathered.fit(self.n_components, self.settings, np.random.default_rng(self.seed))
        state = Online.after(result, blocks, self.settings.online)
        return replace(state, half_life=half_life, count=gathered.count)

    def merge(self, other: Gathered) -> Gathered:
        """Gather the rows of both."""
        return replace(self, blocks=self.blocks + other.blocks, count=self.count + other.count)

    def fit(self, n_components: NComponents, settings: Settings, rng: np.random.Generator) -> FitResult:
        """Fit the rows so far as a table."""
        table = describe(self.table(), rng)
        return fit_missing(table, Components.parse(n_components, table.source.n_features), settings, rng)

    def table(self) -> Source:
        """The rows so far in one table."""
        weight = np.concatenate([block.weights for block in self.blocks])
        return open_source(np.vstack([block.values for block in self.blocks]), weight=weight)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Online:
    r"""Sums that forget, and an M-step after each chunk of rows (Cappe & Moulines 2009).

    .. math:: s \leftarrow (1 - \gamma_t) s + \gamma_t \bar s(x_t; \theta), \qquad \gamma_t = t^{-0.6}

    and the parameters are averaged over the second half of the rows (Polyak), unless rows are to be forgotten.
    Latents are brought back to moments 0 and I after each step, as in expanded EM, so that the mean follows a jump.
    A feature counts from when it was first observed.
    """

    model: LinearGaussian
    sums: Regression  # of one row on average, at the model
    rows: float
    floor: float
    average: _Average
    rule: str
    notes: tuple[str, ...]  # about the choice of the number of components
    half_life: float | None
    seen: Array  # observed cells of each feature, as they count: (d,)
    count: int  # rows that have come
    settings: OnlineSettings

    @classmethod
    def after(cls, result: FitResult, blocks: tuple[Block, ...], settings: OnlineSettings) -> Online:
        """Begin where the fit to the first rows ended."""
        model = result.model
        total = Source.of_blocks(blocks, model.n_features).fold(lambda block: expect(model, observe(block, model.mean)))
        floor = NOISE_FLOOR * float(model.covariance.trace()) / model.n_features
        rows, seen = total.weight, total.gram[-1]
        average = _Average(edge=rows).add(rows, _since_seen(seen, model), _packed(model))
        count = sum(block.count for block in blocks)
        sums, rule, notes = total.scaled(1 / rows), result.rule, result.notes
        return cls(model, sums, rows, floor, average, rule, notes, None, seen, count, settings)

    @property
    def weight(self) -> float:
        """Number of rows so far."""
        return self.rows

    def absorb(self, block: Block, half_life: float | None) -> Online:
        """A step for each chunk of rows."""
        state, start = replace(self, half_life=half_life, count=self.count + block.count), 0
        while start < block.n_rows:
            size = int(np.clip(state.rows / self.settings.chunks, *self.settings.chunk_rows))
            size = size if half_life is None else max(min(size, int(half_life / 4)), 1)
            chunk = block.take(slice(start, min(start + size, block.n_rows)))
            state, start = state.step(observe(chunk, state.model.mean)), start + chunk.n_rows
        return state

    def step(self, chunk: Observed) -> Online:
        """Take in some rows."""
        old, new = self._met(expect(self.model, chunk))
        if new.weight == 0:
            return self
        gain = self._gain(new.weight)
        sums = self.sums.scaled(1 - gain).merge(new.scaled(gain / new.weight))
        model = maximise(old, sums, self.floor)
        sums = sums.moved(theta_of(model) - theta_of(old))
        moments = latent_moments(sums)
        model, sums = model.whiten(moments), sums.turned(whitening_basis(moments))
        kept, taken = 1.0, new.weight
        if self.half_life is not None:  # as many as count
            kept, taken = 1 - gain, -gain / float(np.expm1(-np.log(2) / self.half_life))
        rows, seen = kept * self.rows + taken, kept * self.seen + taken / new.weight * new.gram[-1]
        average = self.average.add(rows, new.weight * _since_seen(seen, model), _packed(model))
        return replace(self, model=model, sums=sums, rows=rows, average=average, seen=seen)

    def _met(self, new: Regression) -> tuple[LinearGaussian, Regression]:
        """Features that had no cells before begin at the mean of their first ones, of which latents know nothing."""
        model, first = self.model, (self.seen == 0) & (new.gram[-1] > 0)
        if not first.any():
            return model, new
        change = np.zeros_like(new.score)
        change[-1, first] = new.score[-1, first] / new.gram[-1, first]
        moved = new.moved(change)
        gained = float((new.squares - moved.squares).sum() / (2 * model.noise_variance))
        value = new.log_likelihood + gained
        return replace(model, mean=model.mean + change[-1]), replace(moved, log_likelihood=value)

    def _gain(self, weight: float) -> float:
        """The weight of some new rows: that of many small steps, however they are cut."""
        if self.half_life is not None:
            return float(-np.expm1(-np.log(2) * weight / self.half_life))
        unit, power = self.settings.unit, 1 - self.settings.power
        t = self.rows / unit
        return float(-np.expm1((t**power - (t + weight / unit) ** power) / power))

    def merge(self, other: Online) -> Online:  # noqa: ARG002
        """There is no way: sums of different rows were made at different parameters."""
        msg = "streams with missing cells cannot be merged: their sums belong to different parameters."
        raise DataError(msg + "\nHint: read both with one estimator, or fit all rows together.")

    def fit(self, n_components: NComponents, settings: Settings, rng: np.random.Generator) -> FitResult:  # noqa: ARG002
        """The model so far; the log-likelihood is that of the last rows, taken for all."""
        model = self.model if self.half_life is not None else _unpacked(self.average.value, self.model)
        gram, seen = self.sums.gram, self.seen
        share = np.where(seen > 0, seen / np.maximum(gram[-1], TINY), 0.0)
        information = turn_bordered(gram * share, model.principal_rotation)
        value, empty = self.sums.log_likelihood * self.rows, np.flatnonzero(seen == 0)
        cells = float(seen.sum())
        story = (Status.ONLINE, value, (value,), 1, self.rows, self.rule, cells, information, empty, self.notes)
        return FitResult(model.principal(), *story)


def _since_seen(seen: Array, model: LinearGaussian) -> Array:
    """Does each packed parameter count? Those of a feature do once it was observed."""
    return np.append(np.tile(seen > 0, model.n_components + 1), True).astype(np.float64)


def _packed(model: LinearGaussian) -> Array:
    return np.append(theta_of(model).ravel(), model.noise_variance)


def _unpacked(vector: Array, like: LinearGaussian) -> LinearGaussian:
    theta = vector[:-1].reshape(like.n_components + 1, like.n_features)
    return LinearGaussian(theta[-1], theta[:-1].T, np.asarray(vector[-1]))
