"""Trimmed likelihood: the share of the rows that agree best, found by concentration steps from many starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.blocks import Block, observe
from probpca.blocks.block import mixed
from probpca.cached_property import cached_property
from probpca.inference.calibration import Distances, log10_chi2_tail, weighted_quantile
from probpca.inference.masked_rows import Parameters, latents
from probpca.learning.em.e_step import expect
from probpca.learning.em.m_step import EM
from probpca.learning.robust.consistency import chi2_quantile
from probpca.learning.robust.student import StudentRows, squared_distances
from probpca.models import LinearGaussian
from probpca.scratch import workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from probpca.blocks import Observed
    from probpca.learning.settings import TrimmingSettings
    from probpca.typing import Array, Index

    Mask = npt.NDArray[np.bool_]
    Words = npt.NDArray[np.uint64]

SMALLEST_SCALE = 1e-12


class Trimmed(NamedTuple):
    """Rows that a trimmed fit uses, and its last model, whose covariance is that of these rows alone."""

    model: LinearGaussian
    used: Array  # share of each row that is used, 0 or 1 for all but the rows that equal one of them: (n,)
    converged: bool


class Concentrated(NamedTuple):
    """Model after concentration steps, and the value of the last state before the last step."""

    value: float  # mean log density of a cell of the chosen rows
    model: LinearGaussian
    used: Array
    converged: bool


@final
@dataclass(frozen=True, eq=False)
class Trimming:
    """Rows in memory, prepared for concentration steps."""

    values: Array  # NaN in missing cells: (n, d)
    weight: Array  # frequencies of the rows: (n,)
    precision: Array | None  # relative precisions of the cells: (n, d)
    settings: TrimmingSettings

    @cached_property
    def observed(self) -> Observed:
        """The observed cells of the rows, minus the medians of the columns."""
        return observe(Block(self.values, self.weight, self.precision), self.centre)

    @cached_property
    def centre(self) -> Array:
        """Median of each column: (d,)."""
        return medians(self.values, self.weight)

    @cached_property
    def seen(self) -> Mask:
        """Whether each cell is observed: (n, d)."""
        present = ~np.isnan(self.values)
        return present if self.precision is None else present & (self.precision > 0)

    @cached_property
    def degrees(self) -> Array:
        """Number of observed cells of each row: (n,)."""
        return self.seen.sum(axis=1).astype(np.float64)

    @cached_property
    def counted(self) -> Array:
        """Weight of each row that has observed cells, 0 for the others: (n,)."""
        return np.where(self.degrees > 0, self.weight, 0.0)

    @cached_property
    def trusted(self) -> float:
        """Total weight of the rows that are trusted."""
        total = float(self.counted.sum())
        return min(float(np.ceil(self.settings.keep * total * (1 - 1e-12))), total)

    @cached_property
    def mean_variance(self) -> float:
        """Mean squared deviation of the cells from the medians of their columns."""
        squares = np.square(np.where(self.seen, self.values - self.centre, 0.0)).sum(axis=1)
        return float(self.weight @ squares / max(float(self.weight @ self.degrees), 1.0))

    @cached_property
    def floor(self) -> float:
        """Smallest noise variance of a feature."""
        return self.settings.least_noise * self.mean_variance

    @cached_property
    def words(self) -> Words:
        """Cells as bits, the same for equal rows wherever they are, and in whatever units: (d, n)."""
        unit = np.sqrt(self.mean_variance) or 1.0
        cells = [np.where(self.seen, (self.values - self.centre) / unit, np.inf)]
        cells += [] if self.precision is None else [np.where(self.seen, self.precision, 0.0)]
        with np.errstate(over="ignore"):  # single precision, which rounding errors of a change of units do not reach
            rounded = np.hstack(cells).T.astype(np.float32) + np.float32(0)
        return np.ascontiguousarray(rounded).view(np.uint32).astype(np.uint64)

    def random_rows(self, count: int, rng: np.random.Generator) -> tuple[Index, Index]:
        """Positions of a random set of different rows, and the position among them of every row that equals one.

        Rows of weight 0 are not drawn. A row of weight 2 is drawn like two equal rows: once.
        """
        keys = mixed(self.words, int(rng.integers(2**63)))
        possible = np.flatnonzero(self.counted > 0)
        _, first, which = np.unique(keys[possible], return_index=True, return_inverse=True)
        places = np.full(keys.size, -1)
        places[possible] = np.where(which < count, which, -1)
        return possible[first[:count]], places

    def sampled(self, count: int, rng: np.random.Generator) -> Trimming:
        """The same for a random sample of different rows; all rows if there are no more."""
        if len(self.values) <= count:
            return self
        chosen, places = self.random_rows(count, rng)
        weight = np.zeros(chosen.size)
        np.add.at(weight, places[places >= 0], self.weight[places >= 0])
        precision = None if self.precision is None else self.precision[chosen]
        return Trimming(self.values[chosen], weight, precision, self.settings)

    def find(self, start: LinearGaussian, rng: np.random.Generator) -> Trimmed:
        """Rows to use, found from many starts: ``start``, Student's t begun at it, and small sets of rows.

        The noise of the model is a single variance or one for each feature, as that of ``start``.
        """
        how = self.settings
        compared = self.sampled(how.compared_rows, rng)
        student = StudentRows(compared.observed, self.floor, how.degrees).run(start, how.student_steps)
        starts = [start, student, *(compared.subset_start(start, rng) for _ in range(how.n_subsets))]
        short = [compared.concentrate(model, compared.trusted_rows, how.first_steps) for model in starts]
        best = sorted(short, key=lambda found: -found.value)[: how.finalists]
        longer = [compared.concentrate(found.model, compared.trusted_rows, how.next_steps) for found in best]
        winner = max(longer, key=lambda found: found.value).model
        return self.finish(winner)

    def finish(self, start: LinearGaussian) -> Trimmed:
        """Concentration from one start until nothing changes; then rows are used up to a distance instead."""
        how = self.settings
        nearest = self.concentrate(start, self.trusted_rows, how.max_iter)
        within = self.concentrate(nearest.model, self.good_rows, how.max_iter, nearest.used * self.weight)
        return Trimmed(within.model, self.evened(within.used), nearest.converged and within.converged)

    def evened(self, used: Array) -> Array:
        """Shares in which rows are used, the same for equal rows; sums over the rows do not change: (n,)."""
        if not ((used > 0) & (used < 1)).any():
            return used
        _, which = np.unique(mixed(self.words), return_inverse=True)
        total, weight = np.bincount(which, used * self.weight), np.bincount(which, self.weight)
        return np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)[which]

    def subset_start(self, like: LinearGaussian, rng: np.random.Generator) -> LinearGaussian:
        """Principal components of a small random set of rows, with as many noise variances as ``like``."""
        q, how = like.n_components, self.settings
        rows, _ = self.random_rows(2 * (q + 1), rng)
        values = np.where(self.seen[rows], self.values[rows], np.nan)
        empty = ~self.seen[rows].any(axis=0)
        mean = np.where(empty, self.centre, np.nansum(values, axis=0) / np.maximum(self.seen[rows].sum(axis=0), 1))
        deviation = np.where(self.seen[rows], values - mean, 0.0)
        _, roots, axes = np.linalg.svd(deviation, full_matrices=False)
        variance = np.zeros(q)
        variance[: roots.size] = np.square(roots[:q]) / len(rows)
        basis = np.zeros((self.values.shape[1], q))
        basis[:, : roots.size] = axes[:q].T
        least = how.start_noise * self.mean_variance
        noise = max(float(np.square(roots[q:]).sum() / deviation.size), least)
        model = LinearGaussian(mean, basis * np.sqrt(np.maximum(variance, 0.1 * noise)), np.asarray(noise))
        block = observe(self._block(rows, np.ones(rows.size)), self.centre)
        step = EM(least)
        for _ in range(how.subset_steps):
            model = step.advance(model, expect(model, block))
        return model if like.noise_variance.ndim == 0 else _with_own_noise(model)

    def concentrate(
        self,
        model: LinearGaussian,
        choose: Callable[[LinearGaussian, Array], Array],
        most: int,
        used: Array | None = None,
    ) -> Concentrated:
        """Choose rows by their distances and take an EM step to the chosen ones, until nothing changes.

        On complete rows with the nearest rows chosen, no step lowers the likelihood of the chosen rows. Choices that
        recur end the steps too. ``used`` are the rows that the model was fitted to.
        """
        step, value, converged, same = EM(self.floor), -np.inf, False, 0
        used, known = self.counted if used is None else used, set[bytes]()
        for _ in range(most):
            before, used = used, choose(model, used)
            same = same + 1 if np.array_equal(before, used) else 0
            sums = expect(model, self.observed.reweighted(used))
            value = sums.log_likelihood / max(float(used @ self.degrees), 1.0)
            following = step.advance(model, sums)
            recurs = not same and used.tobytes() in known
            settled = same == self.settings.unchanged or movement(model, following) < self.settings.movement
            converged, model = settled or recurs, following
            if converged:
                break
            known.add(used.tobytes())
        share = np.divide(used, self.weight, out=np.zeros_like(used), where=self.weight > 0)
        return Concentrated(value, model, share, converged)

    def distances(self, model: LinearGaussian, used: Array | None = None) -> Array:
        """Squared distance of the observed cells of each row from a model; 0 if it has none: (n,).

        If the weights of the rows that the model was fitted to are given as ``used``, their distances are those from
        a model without them, to first order, so that they compare with the distances of the other rows.
        """
        parameters = Parameters.of(model, self.observed.centre)
        inside, outside = np.zeros(len(self.values)), np.zeros(len(self.values))
        with workspace() as work:
            for group in self.observed.groups:
                cells = group.cells.ready(work)
                found = latents(parameters, cells, work=work)
                inside[group.place] = np.square(found.mean).sum(axis=0)
                outside[group.place] = squared_distances(found.residual(parameters, cells), model)
        if used is None:
            return inside + outside
        rows = float(used @ self.degrees) / self.values.shape[1]  # that have a feature, on average
        if rows <= model.n_components + 1:
            return inside + outside
        rank = np.minimum(self.degrees, model.n_components)
        alone = Distances(inside, outside, self.degrees, rank).left_out(rows).whole
        return np.where(used > 0, alone, inside + outside)

    def trusted_rows(self, model: LinearGaussian, _: Array) -> Array:
        """Weights that use the trusted share of the rows, those nearest to the model: (n,)."""
        return self.nearest(self.distances(model))

    def good_rows(self, model: LinearGaussian, used: Array) -> Array:
        """Weights that use the nearest rows and all that are not far, given the rows that the model was fitted to."""
        return self.within_distance(self.distances(model, used))

    def nearest(self, distance: Array) -> Array:
        """Weights that use the trusted share of the rows, those of the largest p-values: (n,).

        The last row that is used may count for a part of its weight.
        """
        scale = self._scale(distance, self.counted, 0.5)
        rank = log10_chi2_tail(distance / scale, np.maximum(self.degrees, 1.0))
        order = np.lexsort((distance, -np.where(self.counted > 0, rank, -np.inf)))
        weight = self.counted[order]
        used = np.zeros_like(weight)
        used[order] = np.clip(self.trusted - (np.cumsum(weight) - weight), 0.0, weight)
        return used

    def within_distance(self, distance: Array) -> Array:
        """Weights that use the nearest rows, and all others up to a quantile of chi-square: (n,)."""
        how, nearest = self.settings, self.nearest(distance)
        # Nearly all of the nearest rows are good ones: their median is a quantile of the good rows.
        scale = self._scale(distance, nearest, 0.5 * how.keep)
        within = distance <= scale * chi2_quantile(how.level, self.degrees)
        return np.where(within, self.counted, nearest)

    def _scale(self, distance: Array, weight: Array, share: float) -> float:
        """Median over rows of the distance divided by the quantile ``share`` of chi-square."""
        ratio = distance / chi2_quantile(share, self.degrees)
        some = weight > 0
        return max(weighted_quantile(ratio[some], weight[some], 0.5), SMALLEST_SCALE)

    def _block(self, rows: Index, weight: Array) -> Block:
        return Block(self.values[rows], weight, None if self.precision is None else self.precision[rows])


def medians(values: Array, weight: Array) -> Array:
    """Weighted median of the observed cells of each column, 0 without one: (d,)."""
    out, seen = np.zeros(values.shape[1]), ~np.isnan(values) & (weight > 0)[:, None]
    some = seen.any(axis=0)
    if (weight == 1).all():
        out[some] = np.nanmedian(values[:, some], axis=0)
        return out
    for j in np.flatnonzero(some):
        out[j] = weighted_quantile(values[seen[:, j], j], weight[seen[:, j]], 0.5)
    return out


def movement(model: LinearGaussian, following: LinearGaussian) -> float:
    """How far a step moved the subspace, the logarithm of the noise, and the mean in units of the noise."""
    q, noise = model.n_components, model.noise_variance
    overlap = float(np.square(model.principal_axes[0].T @ following.principal_axes[0]).sum())
    relative = float(np.abs(np.log(following.noise_variance / noise)).mean())
    shift = float(np.sqrt(np.mean(np.square(following.mean - model.mean) / noise)))
    return max(relative + shift, float(np.sqrt(max(q - overlap, 0.0))))


def _with_own_noise(model: LinearGaussian) -> LinearGaussian:
    return LinearGaussian(model.mean, model.loadings, np.full(model.n_features, float(model.noise_variance)))
