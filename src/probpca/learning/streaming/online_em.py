"""Online EM: fitting rows with missing cells that arrive in batches and are read once."""

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
from probpca.learning.settings import FactorSettings
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
    from probpca.typing import Array, Index

TINY = 1e-300


class _Average(NamedTuple):
    """Average of the parameters over at least the second half of the rows."""

    edge: float = 1.0  # number of rows at the start of the later window, which ends at twice as many
    earlier: tuple[Array | float, Array | float] = (0.0, 0.0)  # weight and weighted mean
    later: tuple[Array | float, Array | float] = (0.0, 0.0)

    def add(self, rows: float, weight: Array | float, value: Array) -> _Average:
        edge, earlier, later = self
        if rows >= 2 * edge:
            edge, earlier, later = rows, later, (0.0, 0.0)
        return _Average(edge, earlier, _weighted_mean(later, (weight, value)))

    @property
    def value(self) -> Array:
        return np.asarray(_weighted_mean(self.earlier, self.later)[1])


def _weighted_mean(
    one: tuple[Array | float, Array | float], other: tuple[Array | float, Array | float]
) -> tuple[Array | float, Array | float]:
    """Total weight and mean of two means with weights; the mean of equal values is exactly their value."""
    weight = one[0] + other[0]
    return weight, one[1] + (other[1] - one[1]) * (other[0] / np.maximum(weight, TINY))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """State of a stream that has too few rows for online EM yet: the rows themselves."""

    blocks: tuple[Block, ...]
    n_components: NComponents
    settings: Settings
    seed: int
    count: int  # number of rows so far; rows that represent an earlier summary count for more

    @property
    def weight(self) -> float:
        """Total weight of the rows so far."""
        return float(sum(block.total_weight for block in self.blocks))

    def absorb(self, block: Block, half_life: float | None) -> Gathered | Online:
        """State after the rows of a batch: online EM once there are enough rows to start it."""
        new, share = fade(Block(dense_values(block), block.weight), half_life)
        blocks = (*(replace(old, weight=share * old.weights) for old in self.blocks), new)
        gathered = replace(self, blocks=blocks, count=self.count + block.count)
        enough = np.clip(self.settings.online.first_cells // block.n_features, *self.settings.online.first_rows)
        if sum(part.n_rows for part in blocks) < enough:
            return gathered
        if not can_learn(gathered.table().fold(ColumnSummary.of)):  # not enough variation yet
            return gathered
        result = gathered.fit(self.n_components, self.settings, np.random.default_rng(self.seed))
        state = Online.after(result, blocks, self.settings.online, self.settings.factor)
        return replace(state, half_life=half_life, count=gathered.count)

    def merge(self, other: Gathered) -> Gathered:
        """State after the rows of both streams."""
        return replace(self, blocks=self.blocks + other.blocks, count=self.count + other.count)

    def fit(self, n_components: NComponents, settings: Settings, rng: np.random.Generator) -> FitResult:
        """Fit a model to the rows so far, as a table."""
        table, d = describe(self.table(), rng), self.blocks[0].n_features
        parse = Components.parse if settings.noise == "shared" else Components.parse_factors
        return fit_missing(table, parse(n_components, d), settings, rng)

    def table(self) -> Source:
        """Source of the rows so far."""
        weight = np.concatenate([block.weights for block in self.blocks])
        return open_source(np.vstack([block.values for block in self.blocks]), weight=weight)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Online:
    r"""State of a stream fitted by online EM: discounted statistics, with an M-step after each chunk of rows.

    .. math:: s \leftarrow (1 - \gamma_t) s + \gamma_t \bar s(x_t; \theta), \qquad \gamma_t = t^{-0.6}

    (Cappe & Moulines 2009). The parameters are averaged over the second half of the rows (Polyak averaging), unless a
    half-life is given. Latent variables are standardised after each step, as in parameter-expanded EM, so that the
    mean adapts quickly. A feature counts from its first observed cell on.
    """

    model: LinearGaussian
    sums: Regression  # average statistics of one row, at the model
    rows: float  # total weight of the rows
    floor: Array  # smallest noise variance: () or (d,)
    average: _Average
    rule: str  # how the number of components was chosen
    notes: tuple[str, ...]  # remarks on the choice of the number of components
    half_life: float | None
    seen: Array  # total weight of the observed cells of each feature: (d,)
    count: int  # number of rows so far
    settings: OnlineSettings
    factor: FactorSettings

    @classmethod
    def after(
        cls,
        result: FitResult,
        blocks: tuple[Block, ...],
        settings: OnlineSettings,
        factor: FactorSettings = FactorSettings(),
    ) -> Online:
        """State that continues the fit to the first rows."""
        model = result.model
        total = Source.of_blocks(blocks, model.n_features).fold(lambda block: expect(model, observe(block, model.mean)))
        shared = model.noise_variance.ndim == 0
        rows, seen, variance = total.weight, total.gram[-1], model.covariance.diag()
        floor = np.asarray(NOISE_FLOOR * variance.mean()) if shared else factor.floors(seen) * variance
        average = _Average(edge=rows).add(rows, _since_seen(seen, model), _packed(model))
        count = sum(block.count for block in blocks)
        sums, rule, notes = total.scaled(1 / rows), result.rule, result.notes
        return cls(model, sums, rows, floor, average, rule, notes, None, seen, count, settings, factor)

    @property
    def weight(self) -> float:
        """Total weight of the rows so far."""
        return self.rows

    def absorb(self, block: Block, half_life: float | None) -> Online:
        """State after the rows of a batch, with one step for each chunk."""
        state, start = replace(self, half_life=half_life, count=self.count + block.count), 0
        while start < block.n_rows:
            size = int(np.clip(state.rows / self.settings.chunks, *self.settings.chunk_rows))
            size = size if half_life is None else max(min(size, int(half_life / 4)), 1)
            chunk = block.take(slice(start, min(start + size, block.n_rows)))
            state = state._met(chunk)  # noqa: SLF001
            state, start = state.step(observe(chunk, state.model.mean)), start + chunk.n_rows
        return state

    def step(self, chunk: Observed) -> Online:
        """State after one chunk of rows."""
        old, new = self.model, expect(self.model, chunk)
        if new.weight == 0:
            return self
        gain = self._gain(new.weight)
        sums = self.sums.scaled(1 - gain).merge(new.scaled(gain / new.weight))
        model = maximise(old, sums, self.floor)
        sums = sums.moved(theta_of(model) - theta_of(old))
        moments = latent_moments(sums)
        model, sums = model.whiten(moments), sums.turned(whitening_basis(moments))
        kept, taken = 1.0, new.weight
        if self.half_life is not None:  # the effective number of rows is limited
            kept, taken = 1 - gain, -gain / float(np.expm1(-np.log(2) / self.half_life))
        rows, seen = kept * self.rows + taken, kept * self.seen + taken / new.weight * new.gram[-1]
        average = self.average.add(rows, new.weight * _since_seen(seen, model), _packed(model))
        return replace(self, model=model, sums=sums, rows=rows, average=average, seen=seen)

    def _met(self, chunk: Block) -> Online:
        """State in which features first observed in a chunk start at the mean of their cells and zero loadings."""
        if (self.seen > 0).all():
            return self
        found = ColumnSummary.of(chunk)
        first = (self.seen == 0) & (found.observed > 0)
        return replace(self, model=replace(self.model, mean=np.where(first, found.mean, self.model.mean)))

    def _gain(self, weight: float) -> float:
        """Weight of new rows, equal to that of many small steps, so that chunk sizes do not matter."""
        if self.half_life is not None:
            return float(-np.expm1(-np.log(2) * weight / self.half_life))
        unit, power = self.settings.unit, 1 - self.settings.power
        t = self.rows / unit
        return float(-np.expm1((t**power - (t + weight / unit) ** power) / power))

    def merge(self, other: Online) -> Online:  # noqa: ARG002
        """Raise ``DataError``: statistics computed at different parameters cannot be merged."""
        msg = "streams with missing cells cannot be merged: their statistics belong to different parameters."
        raise DataError(msg + "\nHint: use one estimator for both streams, or fit all rows together.")

    def fit(self, n_components: NComponents, settings: Settings, rng: np.random.Generator) -> FitResult:  # noqa: ARG002
        """Current model; its log-likelihood is extrapolated from the last rows to all."""
        model = self.model if self.half_life is not None else _unpacked(self.average.value, self.model, self.seen)
        gram, seen = self.sums.gram, self.seen
        share = np.where(seen > 0, seen / np.maximum(gram[-1], TINY), 0.0)
        information = turn_bordered(gram * share, model.canonical_rotation)
        value, empty = self.sums.log_likelihood * self.rows, np.flatnonzero(seen == 0)
        cells = float(seen.sum())
        story = (Status.ONLINE, value, (value,), 1, self.rows, self.rule, cells, information, empty, self.notes)
        return FitResult(model.canonical(), *story)._replace(heywood=self._heywood(model))

    def _heywood(self, model: LinearGaussian) -> Index | None:
        """Positions of features without noise of their own; None if all features share the noise variance."""
        if not model.noise_variance.ndim:
            return None
        low = model.noise_variance <= self.factor.at_floor * self.floor
        return np.flatnonzero(low & (np.square(model.loadings).sum(axis=1) > model.noise_variance))  # it varies


def _since_seen(seen: Array, model: LinearGaussian) -> Array:
    """Weight of each parameter in the average: 1 for features observed so far, 0 for others."""
    noise = seen > 0 if model.noise_variance.ndim else True
    return np.append(np.tile(seen > 0, model.n_components + 1), noise).astype(np.float64)


def _packed(model: LinearGaussian) -> Array:
    return np.append(theta_of(model).ravel(), np.log(model.noise_variance))


def _unpacked(vector: Array, like: LinearGaussian, seen: Array) -> LinearGaussian:
    size = (like.n_components + 1) * like.n_features
    theta = vector[:size].reshape(like.n_components + 1, like.n_features)
    noise = np.exp(vector[size:]).reshape(like.noise_variance.shape)
    noise = np.where(seen > 0, noise, like.noise_variance) if noise.ndim else noise
    return LinearGaussian(theta[-1], theta[:-1].T, noise)
