"""Exact sums of rows that come in batches, and the model that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, final

import numpy as np

from probpca.blocks import Block
from probpca.errors import DataError
from probpca.learning.complete.bias_correction import without_bias
from probpca.learning.complete.closed_form import Chosen, choose_by_parallel, choose_by_spectrum, exact_fit
from probpca.learning.complete.dense import top_of_factor
from probpca.learning.complete.spectrum import Spectrum, resolution_of_squares
from probpca.learning.components import EXACT_RANK, Components, Count, Rule, given_count
from probpca.learning.describe import column_std
from probpca.learning.fit import fit_ppca
from probpca.learning.result import Status
from probpca.learning.selection.correlations import count_by_parallel
from probpca.learning.selection.criteria import exact_rank
from probpca.learning.selection.parallel_analysis import Correlations
from probpca.learning.settings import Settings, StreamLimits
from probpca.sources import open_source
from probpca.statistics import Moments, Sketch

if TYPE_CHECKING:
    from probpca.learning.components import NComponents
    from probpca.learning.result import FitResult
    from probpca.typing import Array


class Stream(Protocol):
    """The state of a stream; it never changes, each batch makes a new one."""

    @property
    def weight(self) -> float:
        """Number of rows so far, as they count."""
        ...

    @property
    def count(self) -> int:
        """Number of rows that have come."""
        ...

    def absorb(self, block: Block, half_life: float | None) -> Stream:
        """The state after some more rows."""
        ...

    def merge(self, other: Self) -> Self:
        """The state after the rows of both."""
        ...

    def fit(self, n_components: NComponents, settings: Settings, rng: np.random.Generator) -> FitResult:
        """The model of the rows so far."""
        ...


def needed_rows(n_components: Any, limits: StreamLimits = StreamLimits()) -> int:
    """Rows without which there is no model; a rule finds one component at least."""
    return (given_count(n_components) or 1) + limits.spare_rows


def check_half_life(half_life: float | None, n_components: Any, limits: StreamLimits = StreamLimits()) -> None:
    r"""Raise ``DataError`` if too few rows ever count at a time.

    Weights that fall by a factor r from row to row are worth
    :math:`(\sum w)^2 / \sum w^2 = (1 + r) / (1 - r)` equal ones.
    """
    if half_life is None:
        return
    needed = needed_rows(n_components, limits)
    shortest = np.log(2) / np.log((needed + 1) / (needed - 1))
    if half_life < shortest:
        worth = 1 / np.tanh(np.log(2) / (2 * half_life))
        fewer = ", or fewer components" if needed > limits.spare_rows + 1 else ""
        msg = (
            f"with half_life={half_life:g} the rows are never worth more than {worth:.3g} equal ones; "
            f"{needed} are needed for {needed - limits.spare_rows} component(s).\n"
            f"Hint: half_life={np.ceil(1000 * shortest) / 1000:g} or longer{fewer}."
        )
        raise DataError(msg)


def fade(block: Block, half_life: float | None) -> tuple[Block, float]:
    """Rows with weights that halve every ``half_life`` rows before the last; and the share that older rows keep."""
    if half_life is None:
        return block, 1.0
    w = block.weights
    later = w.sum() - np.cumsum(w)  # how many rows have come since
    faded = w * np.exp2(-later / half_life)
    return replace(block, weight=faded), float(np.exp2(-w.sum() / half_life))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """Complete rows of moderate width: their moments say all."""

    moments: Moments
    standardize: bool = False

    @property
    def weight(self) -> float:
        """Number of rows so far."""
        return self.moments.weight

    @property
    def count(self) -> int:
        """Number of rows that have come."""
        return self.moments.count

    def absorb(self, block: Block, half_life: float | None) -> Summed:
        """Add the moments of a batch."""
        block, share = fade(block, half_life)
        return replace(self, moments=self.moments.faded(share).merge(Moments.of(block)))

    def merge(self, other: Summed) -> Summed:
        """Add the moments of another stream."""
        return replace(self, moments=self.moments.merge(other.moments))

    def rows(self, mean: Array) -> Block:
        """A few rows with the same covariance about a mean: to any solver of complete rows they are worth all rows.

        What merging the means of batches leaves of a constant column is rounding, and is left out. Columns have unit
        variance meanwhile: those in a small unit would be lost in the rounding of those in a large one.
        """
        S, std = self.moments.covariance, column_std(self.moments)
        varies = std > 0
        unit = np.where(varies, std, 1.0)
        values, axes = np.linalg.eigh(np.where(np.outer(varies, varies), S, 0.0) / unit[:, None] / unit)
        kept = values > 1e-15 * max(values[-1], 0.0)
        deviations = np.where(varies, (np.sqrt(values[kept] * kept.sum()) * axes[:, kept]).T * unit, 0.0)
        rows = np.vstack([mean + deviations, mean - deviations]) if kept.any() else np.vstack([mean, mean])
        return Block(rows, np.full(len(rows), self.weight / len(rows)))

    def fit(self, n_components: NComponents, settings: Settings, rng: np.random.Generator) -> FitResult:
        """Fit these few rows, about zero, where they have all their digits."""
        block = self.rows(np.zeros_like(self.moments.mean))
        source = open_source(block.values, weight=block.weight)
        result = fit_ppca(source, n_components, settings, rng, standardize=self.standardize)
        model = replace(result.model, mean=result.model.mean + self.moments.mean)
        return result._replace(weight=self.weight, model=model)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sketched:
    """Complete rows with many columns: the leading directions of their scatter."""

    sketch: Sketch

    @property
    def weight(self) -> float:
        """Number of rows so far."""
        return self.sketch.weight

    @property
    def count(self) -> int:
        """Number of rows that have come."""
        return self.sketch.count

    @property
    def error(self) -> float:
        """Bound on how far a variance along an axis may lie below the exact one."""
        return self.sketch.lost / max(self.weight, 1e-300)

    def absorb(self, block: Block, half_life: float | None) -> Sketched:
        """Add the rows of a batch."""
        block, share = fade(block, half_life)
        return Sketched(self.sketch.faded(share).merge(Sketch.of(self.sketch.size, block)))

    def merge(self, other: Sketched) -> Sketched:
        """Add the rows of another stream."""
        return Sketched(self.sketch.merge(other.sketch))

    def fit(self, n_components: NComponents, settings: Settings, rng: np.random.Generator) -> FitResult:  # noqa: ARG002
        """The closed form for the eigenvalues that the sketch has."""
        sketch, n = self.sketch, self.weight
        values, axes = top_of_factor(sketch.factor)
        values = values / n
        resolution = resolution_of_squares(values)
        spectrum = Spectrum(n, sketch.count, sketch.mean, values, axes, sketch.dropped / n, resolution)
        wanted, most = Components.parse(n_components, spectrum.n_features), min(values.size, settings.search.complete)
        std, rank = column_std(sketch), exact_rank(spectrum) if isinstance(wanted, Rule) else None
        if rank is not None:
            chosen = Chosen(rank, spectrum, EXACT_RANK)
        elif wanted == Rule("parallel"):
            parallel = count_by_parallel(self._correlations(std), most, settings.parallel)
            chosen = choose_by_parallel(spectrum, parallel, most)
        else:
            chosen = choose_by_spectrum(spectrum, wanted, most, "the sketch has no more")
        result = exact_fit(chosen)
        result = without_bias(result) if settings.bias_correction else result
        status = result.status if sketch.lost == 0 else Status.SKETCHED
        return result._replace(status=status, column_std=std)

    def _correlations(self, std: Array) -> Correlations:
        """Correlations of what the sketch has kept, so that their eigenvalues are at most too small."""
        scale = np.divide(1.0, std, out=np.zeros(std.size), where=std > 0)
        values, _ = top_of_factor(self.sketch.factor * scale)
        return Correlations(self.weight, int((std > 0).sum()), lambda k: values[:k] / self.weight)


def begin_stream(d: int, n_components: Any, settings: Settings = Settings(), *, standardize: bool = False) -> Stream:
    """The state before the first row."""
    limits = settings.stream
    wanted = Components.parse(n_components, d)
    if isinstance(wanted, Rule) and wanted.by_rows:
        msg = (
            f"n_components={wanted.asked} looks at rows again and again; partial_fit keeps sums of them.\n"
            "Hint: n_components='bic', or fit."
        )
        raise DataError(msg)
    if d <= limits.scatter:
        return Summed(Moments(0.0, np.zeros(d), np.zeros((d, d)), 0), standardize)
    if standardize:
        msg = f"standardize=True takes batches of up to {limits.scatter} columns; got {d}.\nHint: scale the batches."
        raise DataError(msg)
    if isinstance(wanted, Rule) and wanted.complete_only:
        msg = f"n_components={wanted.asked} takes batches of up to {limits.scatter} columns; got {d}.\nHint: 'bic'."
        raise DataError(msg)
    q = wanted.q if isinstance(wanted, Count) else settings.search.complete
    return Sketched(Sketch.empty(limits.sketch_rows(q), d))
