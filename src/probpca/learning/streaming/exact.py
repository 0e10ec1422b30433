"""Fitting complete rows that arrive in batches, from exact or sketched sums over them."""

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
from probpca.learning.describe import column_std, require_counted, sums_overflow
from probpca.learning.factor.complete import fit_moments
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
    """Protocol of the state of a stream. States are immutable: each batch gives a new one."""

    @property
    def weight(self) -> float:
        """Total weight of the rows so far; older rows have less with a half-life."""
        ...

    @property
    def count(self) -> int:
        """Number of rows so far."""
        ...

    def absorb(self, block: Block, half_life: float | None) -> Stream:
        """State after the rows of a batch; weights of earlier rows halve every ``half_life`` rows."""
        ...

    def merge(self, other: Self) -> Self:
        """State after the rows of both streams."""
        ...

    def fit(self, n_components: NComponents, settings: Settings, rng: np.random.Generator) -> FitResult:
        """Fit a model to the rows so far."""
        ...


def needed_rows(n_components: Any, limits: StreamLimits = StreamLimits()) -> int:
    """Smallest number of rows for a fit; a rule needs at least those for one component."""
    return (given_count(n_components) or 1) + limits.spare_rows


def check_half_life(half_life: float | None, n_components: Any, limits: StreamLimits = StreamLimits()) -> None:
    r"""Raise ``DataError`` if the half-life is too short for the number of components.

    With weights that decrease by the factor r from row to row, the effective number of rows is at most
    :math:`(\sum w)^2 / \sum w^2 = (1 + r) / (1 - r)`.
    """
    if half_life is None:
        return
    needed = max(needed_rows(n_components, limits), limits.effective_rows)
    shortest = np.log(2) / np.log((needed + 1) / (needed - 1))
    if half_life < shortest:
        worth = 1 / np.tanh(np.log(2) / (2 * half_life))
        q = needed_rows(n_components, limits) - limits.spare_rows
        fewer = ", or fewer components" if needed > limits.effective_rows else ""
        msg = (
            f"{q} component(s) need an effective number of rows of at least {needed:g}; "
            f"with half_life={half_life:g} it is at most {worth:.3g}.\n"
            f"Hint: use half_life={np.ceil(1000 * shortest) / 1000:g} or longer{fewer}."
        )
        raise DataError(msg)


def fade(block: Block, half_life: float | None) -> tuple[Block, float]:
    """Block with weights that halve every ``half_life`` rows before its last, and the factor for earlier rows."""
    if half_life is None:
        return block, 1.0
    w = block.weights
    later = w.sum() - np.cumsum(w)  # total weight of later rows
    faded = w * np.exp2(-later / half_life)
    return replace(block, weight=faded), float(np.exp2(-w.sum() / half_life))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """State of a stream of complete rows of moderate width: their exact moments."""

    moments: Moments
    standardize: bool = False

    @property
    def weight(self) -> float:
        """Total weight of the rows so far."""
        return self.moments.weight

    @property
    def count(self) -> int:
        """Number of rows so far."""
        return self.moments.count

    def absorb(self, block: Block, half_life: float | None) -> Summed:
        """State after the rows of a batch."""
        block, share = fade(block, half_life)
        return replace(self, moments=self.moments.faded(share).merge(Moments.of(block)))

    def merge(self, other: Summed) -> Summed:
        """State after the rows of both streams."""
        return replace(self, moments=self.moments.merge(other.moments))

    def rows(self, mean: Array) -> Block:
        """Few weighted rows with the same covariance and the given mean, to which any solver fits the same model.

        They are computed for columns scaled to unit variance, so that columns with small values are not lost in the
        rounding of large ones. The rounding error that merging means leaves in a constant column is removed.
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
        """Fit a model to equivalent rows with mean zero, which are most accurate, and shift it to the mean.

        Factor analysis needs the moments alone.
        """
        if not (np.isfinite(self.moments.mean).all() and np.isfinite(self.moments.scatter).all()):
            raise sums_overflow()
        if settings.noise == "per_feature":
            wanted = Components.parse_factors(n_components, self.moments.mean.size)
            return fit_moments(self.moments, wanted, settings, rng)
        block = self.rows(np.zeros_like(self.moments.mean))
        source = open_source(block.values, weight=block.weight)
        result = fit_ppca(source, n_components, settings, rng, standardize=self.standardize)
        model = replace(result.model, mean=result.model.mean + self.moments.mean)
        return result._replace(weight=self.weight, model=model)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sketched:
    """State of a stream of complete rows with many columns: a sketch of their scatter matrix."""

    sketch: Sketch

    @property
    def weight(self) -> float:
        """Total weight of the rows so far."""
        return self.sketch.weight

    @property
    def count(self) -> int:
        """Number of rows so far."""
        return self.sketch.count

    @property
    def error(self) -> float:
        """Bound on how much a variance along an axis can be below the exact one."""
        return self.sketch.lost / max(self.weight, 1e-300)

    def absorb(self, block: Block, half_life: float | None) -> Sketched:
        """State after the rows of a batch."""
        block, share = fade(block, half_life)
        return Sketched(self.sketch.faded(share).merge(Sketch.of(self.sketch.size, block)))

    def merge(self, other: Sketched) -> Sketched:
        """State after the rows of both streams."""
        return Sketched(self.sketch.merge(other.sketch))

    def fit(self, n_components: NComponents, settings: Settings, rng: np.random.Generator) -> FitResult:  # noqa: ARG002
        """Fit a model by the closed form, from the eigenvalues of the sketch."""
        sketch, n = self.sketch, self.weight
        require_counted(sketch)
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
            chosen = choose_by_spectrum(spectrum, wanted, most, "the sketch holds no more components")
        result = exact_fit(chosen)
        result = without_bias(result) if settings.bias_correction else result
        status = result.status if sketch.lost == 0 else Status.SKETCHED
        return result._replace(status=status, column_std=std)

    def _correlations(self, std: Array) -> Correlations:
        """Correlations from the sketch, whose eigenvalues do not exceed the exact ones."""
        scale = np.divide(1.0, std, out=np.zeros(std.size), where=std > 0)
        values, _ = top_of_factor(self.sketch.factor * scale)
        return Correlations(self.weight, int((std > 0).sum()), lambda k: values[:k] / self.weight)


def begin_stream(d: int, n_components: Any, settings: Settings = Settings(), *, standardize: bool = False) -> Stream:
    """State of a stream of d columns before the first row."""
    limits = settings.stream
    if settings.noise == "per_feature":
        Components.parse_factors(n_components, d)
        if d > limits.scatter:
            msg = (
                f"factor analysis needs batches of at most {limits.scatter} columns; got {d}.\n"
                "Hint: fit() to all rows, or PPCA."
            )
            raise DataError(msg)
        return Summed(Moments(0.0, np.zeros(d), np.zeros((d, d)), 0))
    wanted = Components.parse(n_components, d)
    if isinstance(wanted, Rule) and wanted.by_rows:
        msg = (
            f"n_components={wanted.asked} needs to read rows repeatedly; partial_fit keeps only sums over them.\n"
            "Hint: use n_components='bic', or fit()."
        )
        raise DataError(msg)
    if d <= limits.scatter:
        return Summed(Moments(0.0, np.zeros(d), np.zeros((d, d)), 0), standardize)
    if standardize:
        msg = f"standardize=True needs batches of at most {limits.scatter} columns; got {d}.\nHint: scale the batches."
        raise DataError(msg)
    if isinstance(wanted, Rule) and wanted.complete_only:
        msg = (
            f"n_components={wanted.asked} needs batches of at most {limits.scatter} columns; got {d}.\n"
            "Hint: use n_components='bic'."
        )
        raise DataError(msg)
    q = wanted.q if isinstance(wanted, Count) else settings.search.complete
    return Sketched(Sketch.empty(limits.sketch_rows(q), d))
