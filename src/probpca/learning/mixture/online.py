"""Online EM: fitting a mixture to rows that arrive in batches and are read once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks import Block, observe
from probpca.blocks.block import dense_values
from probpca.errors import DataError
from probpca.learning.describe import can_learn
from probpca.learning.em.m_step import latent_moments, maximise, theta_of, whitening_basis
from probpca.learning.mixture.e_step import MixtureSums, expect_mixture
from probpca.learning.mixture.fit import degenerate_clusters, fit_mixture
from probpca.learning.mixture.result import MixtureCriteria, Score
from probpca.learning.result import Status
from probpca.learning.streaming.exact import fade
from probpca.linalg.packed import turn_bordered
from probpca.linalg.rotations import cholesky_or_none
from probpca.models import LinearGaussian, Mixture
from probpca.sources import Source, open_source
from probpca.statistics import ColumnSummary

if TYPE_CHECKING:
    from probpca.blocks import Observed
    from probpca.learning.mixture.result import MixtureResult
    from probpca.learning.settings import Settings
    from probpca.statistics import Regression
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class GatheredRows:
    """State of a stream that has too few rows for online EM yet: the rows themselves."""

    n_clusters: Any
    settings: Settings
    seed: int
    n_components: int | None
    blocks: tuple[Block, ...] = ()
    count: int = 0  # number of rows so far

    @property
    def weight(self) -> float:
        """Total weight of the rows so far."""
        return float(sum(block.total_weight for block in self.blocks))

    def absorb(self, block: Block, half_life: float | None) -> GatheredRows | OnlineMixture:
        """State after the rows of a batch: online EM once there are enough rows to start it."""
        new, share = fade(Block(dense_values(block), block.weight), half_life)
        blocks = (*(replace(old, weight=share * old.weights) for old in self.blocks), new)
        gathered = replace(self, blocks=blocks, count=self.count + block.count)
        how = self.settings.online
        enough = np.clip(how.first_cells // block.n_features, *how.first_rows)
        if sum(part.n_rows for part in blocks) < enough or not can_learn(gathered.table().fold(ColumnSummary.of)):
            return gathered
        result = gathered.fit(self.n_components, self.settings, np.random.default_rng(self.seed))
        return OnlineMixture.after(result, gathered)

    def fit(self, n_components: int | None, settings: Settings, rng: np.random.Generator) -> MixtureResult:
        """Fit a mixture to the rows so far, as a table."""
        return fit_mixture(self.table(), self.n_clusters, n_components, settings, rng)

    def table(self) -> Source:
        """Source of the rows so far."""
        weight = np.concatenate([block.weights for block in self.blocks])
        return open_source(np.vstack([block.values for block in self.blocks]), weight=weight)

    def merge(self, other: GatheredRows) -> GatheredRows:
        """State after the rows of both streams."""
        return replace(self, blocks=self.blocks + other.blocks, count=self.count + other.count)


@final
@dataclass(frozen=True, slots=True, eq=False)
class OnlineMixture:
    r"""State of a stream fitted by online EM: average statistics of a row, with an M-step after each chunk of rows.

    .. math:: s \leftarrow (1 - \gamma) s + \gamma \, \bar s(x; \theta)

    (Cappe & Moulines 2009). The first rows were fitted as a table, so that all rows have the same weight from there on,
    unless a half-life is given.
    """

    mixture: Mixture
    sums: MixtureSums  # average statistics of one row, at the mixture
    rows: float  # total weight of the rows
    seen: Array  # total weight of the observed cells of each feature: (d,)
    floor: Array  # smallest noise variance: () or (d,)
    first: MixtureResult  # fit to the first rows
    count: int
    settings: Settings

    @classmethod
    def after(cls, result: MixtureResult, gathered: GatheredRows) -> OnlineMixture:
        """State that continues the fit to the first rows."""
        mixture, summary = result.model, gathered.table().fold(ColumnSummary.of)
        rows = gathered.table().keep(partial(observe, centre=summary.mean))
        total: MixtureSums = rows.fold(partial(expect_mixture, mixture))
        least = np.zeros(mixture.noise_variance.shape[1:]) if result.floor is None else result.floor
        sums = total.scaled(1 / summary.total_weight)
        return cls(
            mixture, sums, summary.total_weight, summary.observed, least, result, gathered.count, gathered.settings
        )

    @property
    def weight(self) -> float:
        """Total weight of the rows so far."""
        return self.rows

    def absorb(self, block: Block, half_life: float | None) -> OnlineMixture:
        """State after the rows of a batch, with one step for each chunk."""
        state, start, how = replace(self, count=self.count + block.count), 0, self.settings.online
        while start < block.n_rows:
            size = int(np.clip(state.rows / how.chunks, *how.chunk_rows))
            size = size if half_life is None else max(min(size, int(half_life / 4)), 1)
            chunk = block.take(slice(start, min(start + size, block.n_rows)))
            state = state._met(chunk)  # noqa: SLF001
            state, start = state.step(observe(chunk, state.mixture.mean), half_life), start + chunk.n_rows
        return state

    def step(self, chunk: Observed, half_life: float | None) -> OnlineMixture:
        """State after one chunk of rows."""
        new = expect_mixture(self.mixture, chunk)
        weight = float(new.cluster_weights.sum())
        if weight == 0:
            return self
        gain, kept, taken = weight / (self.rows + weight), 1.0, weight
        if half_life is not None:  # the effective number of rows is limited
            gain = float(-np.expm1(-np.log(2) * weight / half_life))
            kept, taken = 1 - gain, -gain / float(np.expm1(-np.log(2) / half_life))
        sums = self.sums.scaled(1 - gain).merge(new.scaled(gain / weight))
        rows = kept * self.rows + taken
        parts = [self._advanced(*pair, rows) for pair in zip(self.mixture.clusters, sums.clusters, strict=True)]
        weights = np.maximum(sums.cluster_weights, np.finfo(float).tiny)
        counts = np.sum([cluster.counts for cluster in new.clusters], axis=0)
        return replace(
            self,
            mixture=Mixture(weights / weights.sum(), tuple(model for model, _ in parts)),
            sums=MixtureSums(sums.log_likelihood, sums.entropy, tuple(moved for _, moved in parts)),
            rows=rows,
            seen=kept * self.seen + taken / weight * counts,
        )

    def _advanced(self, old: LinearGaussian, sums: Regression, rows: float) -> tuple[LinearGaussian, Regression]:
        """Model of a cluster after an M-step, and its statistics at that model."""
        if sums.weight * rows < old.n_components + self.settings.mixture.spare_rows:
            return old, sums
        model = maximise(old, sums, self.floor)
        sums = sums.moved(theta_of(model) - theta_of(old))
        moments = latent_moments(sums)
        if cholesky_or_none(moments.covariance) is None:
            return model, sums
        return model.whiten(moments), sums.turned(whitening_basis(moments))

    def _met(self, chunk: Block) -> OnlineMixture:
        """State in which features first observed in a chunk start at the mean of their cells and zero loadings."""
        if (self.seen > 0).all():
            return self
        found = ColumnSummary.of(chunk)
        first = (self.seen == 0) & (found.observed > 0)
        moved = (replace(c, mean=np.where(first, found.mean, c.mean)) for c in self.mixture.clusters)
        return replace(self, mixture=replace(self.mixture, clusters=tuple(moved)))

    def merge(self, other: OnlineMixture) -> OnlineMixture:  # noqa: ARG002
        """Raise ``DataError``: statistics computed at different parameters cannot be merged."""
        msg = "streams of mixtures cannot be merged: their statistics belong to different parameters."
        raise DataError(msg + "\nHint: use one estimator for both streams, or fit all rows together.")

    def fit(self, n_components: int | None, settings: Settings, rng: np.random.Generator) -> MixtureResult:
        """Current mixture; its log-likelihood is extrapolated from the average of a row."""
        del n_components, settings, rng
        order = np.argsort(-self.mixture.weights, kind="stable")
        model = self.mixture.ordered(order)
        rotations = [cluster.canonical_rotation for cluster in model.clusters]
        grams = [self.sums.clusters[k].gram * self.rows for k in order]
        information = np.stack([turn_bordered(g, r) for g, r in zip(grams, rotations, strict=True)])
        value, entropy, cells = (
            self.sums.log_likelihood * self.rows,
            self.sums.entropy * self.rows,
            float(self.seen.sum()),
        )
        first = self.first
        sizes = (first.criteria.n_clusters == model.n_clusters) & (first.criteria.n_components == model.n_components)
        line = int(np.flatnonzero(sizes)[0])
        p = int(first.criteria.n_parameters[line])
        bic = value - 0.5 * p * float(np.log(max(cells / max((self.seen > 0).sum(), 1), 2.0)))
        how, std = self.settings.mixture, np.where(self.seen > 0, np.sqrt(np.diag(model.covariance)), 0.0)
        degenerate = degenerate_clusters(model, self.floor, model.weights * self.rows, first.column_std > 0, how)
        score = Score(model.n_clusters, model.n_components, value, p, bic, bic - entropy, bool(degenerate.any()))
        return first._replace(
            model=model.rotate(rotations),
            status=Status.ONLINE,
            log_likelihood=value,
            trace=(value,),
            n_iter=1,
            weight=self.rows,
            cells=cells,
            criteria=MixtureCriteria.of([score]),
            information=information,
            empty=np.flatnonzero(self.seen == 0),
            degenerate=degenerate,
            column_std=std,
            sample=None,
        )
