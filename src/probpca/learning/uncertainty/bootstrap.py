"""Bootstrap standard errors: fits to resampled rows, aligned with the fit to all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, final, get_args

import numpy as np

from probpca.available_memory import OBJECT_BYTES, require_memory
from probpca.blocks import observe
from probpca.errors import DataError
from probpca.inference.projection import explained_variance
from probpca.learning.complete.spectrum import NOISE_FLOOR
from probpca.learning.describe import Units
from probpca.learning.em.m_step import EM
from probpca.learning.fit import fit_ppca
from probpca.learning.loop import Monitor
from probpca.learning.settings import Settings
from probpca.learning.uncertainty.asymptotic import bias_of_variances
from probpca.learning.uncertainty.estimate import Estimate, ParameterUncertainty
from probpca.learning.uncertainty.parameter_draws import Table, require_rows_in_memory, warm_fit
from probpca.sources import open_source
from probpca.sources.engines.local import map_blocks, one_blas_thread
from probpca.statistics import ColumnSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array


Align: TypeAlias = Literal["signs", "procrustes"]


def check_align(align: str) -> None:
    """Raise ``DataError`` unless ``align`` names a method of alignment."""
    if align not in get_args(Align):
        msg = f"align must be one of {', '.join(get_args(Align))}; got {align!r}."
        raise DataError(msg)


def aligned(columns: Array, target: Array, align: str) -> Array:
    r"""Align loadings or axes (d, q) of another fit with those of ``target``.

    ``"signs"`` keeps the order by variance and flips columns that point the other way. The result shows the full
    variation of the j-th principal axis: if two variances are close, their axes rotate into each other from sample to
    sample.

    ``"procrustes"`` applies the rotation R that minimises :math:`\lVert W^* R - W \rVert`, which removes all
    variation due to rotation within the subspace.
    """
    if align == "procrustes":
        left, _, right = np.linalg.svd(columns.T @ target)
        return columns @ (left @ right)
    return columns * np.where(np.einsum("dj,dj->j", columns, target) < 0, -1.0, 1.0)


def principal_angles(axes: Array, others: Array) -> Array:
    """Principal angles between the spans of two orthonormal bases (d, q), in degrees, largest first: (q,).

    Computed from both sines and cosines, because neither is accurate for all angles.
    """
    within = axes.T @ others  # (q, q)
    cosines = np.linalg.svd(within, compute_uv=False)[::-1]
    sines = np.linalg.svd(others - axes @ within, compute_uv=False)
    return np.degrees(np.arctan2(sines, cosines))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Bootstrap:
    """Options of the bootstrap: how the original fit was made, and how the fits are aligned."""

    scale: Array | None = None  # standard deviations that columns were divided by: (d,); None without standardising
    corrected: bool = False  # whether the variances of the fit were corrected for their bias
    align: str = "signs"  # or "procrustes"; see ``aligned``
    tol: float = 0.01  # remaining gain of a fit, in nats; its effect is at most a seventh of a standard error
    max_iter: int = 200

    def __post_init__(self) -> None:
        """Raise ``DataError`` for an unknown method of alignment."""
        check_align(self.align)


def require_memory_for_bootstrap(n_draws: int, q: int) -> None:
    """Raise ``NotEnoughMemoryError`` if what is kept of each bootstrap sample does not fit into memory."""
    needed = int(n_draws) * (2 * OBJECT_BYTES + 8 * (2 * q + 1))
    require_memory(f"{n_draws:,} bootstrap samples", needed, "use fewer draws; 200 are usually enough")


def bootstrap_uncertainty(
    source: Source,
    model: LinearGaussian,
    rngs: Sequence[np.random.Generator | int],
    how: Bootstrap | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> ParameterUncertainty:
    r"""Bootstrap standard errors of a fit, from fits to rows drawn with replacement.

    Complete rows are fitted by the closed form, incomplete ones by EM started from ``model``. If columns were
    standardised, ``model`` and the result belong to the columns divided by ``how.scale``, except for the mean, which
    is in the units of the data. Each resample is then scaled by its own standard deviations, which are estimates too.
    Each generator or seed in ``rngs`` makes one draw, independent of the others and of the number of threads. Draws
    are aligned with the fit as described in ``aligned``; variances are compared by rank, and subspaces by principal
    angles.

    Intervals were chosen by their measured coverage: Student's t with the standard deviation of the draws times
    :math:`(n / (n - 1))^{1/2}` for loadings, axes and mean; for variances the same on the log scale, after subtracting
    their bias. The bias of the noise variance is estimated from the draws; that of the explained variances, which
    resampling does not show, by ``bias_of_variances``.
    """
    how = Bootstrap() if how is None else how
    require_rows_in_memory(source)
    table = Table.of(source)
    table.require_enough(model.n_components)
    model = model.principal()
    draws = _Draws(model, how)
    with one_blas_thread():
        for drawn in map_blocks(partial(_draw, table, model, how), list(rngs), source.n_jobs):
            draws.add(drawn)
            if watch is not None:
                watch(draws.count, len(rngs))
    return draws.uncertainty(table)


class _Drawn(NamedTuple):
    """Parameters of the fit to one resample, aligned with those of the fit to all rows."""

    explained_variance: Array
    noise_variance: Array
    loadings: Array
    axes: Array
    mean: Array
    angles: Array
    converged: bool


class _Draws:
    """Collected draws: sums of large arrays, lists of small ones."""

    def __init__(self, model: LinearGaussian, how: Bootstrap) -> None:
        self.model, self.how = model, how
        axes, _ = model.principal_axes
        mean = model.mean if how.scale is None else model.mean * how.scale
        self.centre = _Drawn(
            explained_variance(model), model.noise_variance, model.loadings, axes, mean, np.empty(0), True
        )
        self.count = self.converged = 0
        self.small: list[tuple[Array, Array, Array]] = []
        self.sums = {name: (np.zeros(at.shape), np.zeros(at.shape)) for name, at in self._large(self.centre)}

    @staticmethod
    def _large(drawn: _Drawn) -> tuple[tuple[str, Array], ...]:
        return ("loadings", drawn.loadings), ("axes", drawn.axes), ("mean", drawn.mean)

    def add(self, drawn: _Drawn) -> None:
        """Add one draw."""
        self.count += 1
        self.converged += drawn.converged
        self.small.append((drawn.explained_variance, drawn.noise_variance, drawn.angles))
        for (name, value), (_, centre) in zip(self._large(drawn), self._large(self.centre), strict=True):
            change = value - centre
            self.sums[name][0][...] += change
            self.sums[name][1][...] += np.square(change, out=change)

    def uncertainty(self, table: Table) -> ParameterUncertainty:
        """Standard errors and biases from all draws."""
        n, d = table.n, self.centre.mean.size
        small = np.sqrt(n / (n - 1))  # resamples vary about the sample mean, which differs from the true mean
        lam, noise, angles = (np.array(values) for values in zip(*self.small, strict=True))
        axes, centre = self._estimate("axes", n), self.centre.explained_variance
        return ParameterUncertainty(
            "bootstrap",
            Estimate(
                centre,
                small * centre * (lam / centre).std(axis=0, ddof=1),
                n - 1,
                self._bias(table),
                positive=True,
            ),
            _noise(self.centre.noise_variance, np.log(noise), n, corrected=self.how.corrected),
            self._estimate("loadings", n),
            replace(axes, value=axes.value.T, standard_error=axes.standard_error.T),
            self._estimate("mean", n),
            n_draws=self.count,
            subspace_angles=angles,
            align=self.how.align,
            n_unconverged=self.count - self.converged,
            note=_note(n, d),
        )

    def _estimate(self, name: str, n: float) -> Estimate:
        first, second = self.sums[name]
        variance = np.maximum(second - np.square(first) / self.count, 0.0) / (self.count - 1)
        return Estimate(getattr(self.centre, name), np.sqrt(variance * n / (n - 1)), n - 1)

    def _bias(self, table: Table) -> Array | float:
        """Bias of the explained variances, which are sums of the variances of loadings and noise."""
        if self.how.corrected:
            return 0.0
        unit, d = table.precision_unit, self.model.n_features
        usual = self.model.in_precision_unit(1 / unit)  # the noise of a usual cell, which biases the loadings
        lam, noise = explained_variance(usual), float(usual.noise_variance)
        bias = bias_of_variances(lam, noise, table.cells / d, d)
        return bias.explained_variance + (unit - 1) * bias.noise_variance


def _note(n: float, d: int) -> str:
    if n >= d:
        return ""
    return f"{n:,.0f} rows for {d:,} features: intervals of the variances of weak components may be unreliable."


def _noise(value: Array, logs: Array, n: float, *, corrected: bool) -> Estimate:
    """Estimate of the noise variance, with its bias from the draws unless the fit was corrected.

    Draws are smaller than the fit by about the factor by which the fit is smaller than the truth. The median is used,
    because the noise may collapse in a few draws.
    """
    centre = value if corrected else value * np.exp(np.log(value) - np.median(logs, axis=0))
    error = centre * logs.std(axis=0, ddof=1) * np.sqrt(n / (n - 1))
    return Estimate(value, error, n - 1, value - centre, positive=True)


def _draw(table: Table, model: LinearGaussian, how: Bootstrap, rng: np.random.Generator | int) -> _Drawn:
    """Fit a model to resampled rows and align it with the model of all rows."""
    rng = np.random.default_rng(rng)
    rows = open_source(table.resampled(model.n_components, rng), n_jobs=1)
    fitted = (
        _fit_complete(rows, model, how, rng)
        if table.complete
        else _fit_observed(rows, model, how, table.precision_unit)
    )
    drawn, mean, converged = fitted
    axes, (others, _) = model.principal_axes[0], drawn.principal_axes
    return _Drawn(
        explained_variance(drawn),
        drawn.noise_variance,
        aligned(drawn.loadings, model.loadings, how.align),
        aligned(others, axes, how.align),
        mean,
        principal_angles(axes, others),
        converged,
    )


class _Fitted(NamedTuple):
    """A fit to resampled rows."""

    model: LinearGaussian  # of standardised columns if those of the fit to all rows were standardised
    mean: Array  # in the units of the data: (d,)
    converged: bool


def _fit_complete(rows: Source, model: LinearGaussian, how: Bootstrap, rng: np.random.Generator) -> _Fitted:
    """Fit complete rows by the closed form."""
    settings, standardize = Settings(bias_correction=how.corrected), how.scale is not None
    result = fit_ppca(rows, model.n_components, settings, rng, standardize=standardize)
    return _Fitted(result.scaled_model, result.model.mean, result.status.converged)


def _fit_observed(rows: Source, model: LinearGaussian, how: Bootstrap, precision_unit: float) -> _Fitted:
    """Fit incomplete rows, with precisions in their own unit, by EM started from the model of all rows."""
    model, unit = model.in_precision_unit(1 / precision_unit), np.ones(model.n_features)
    if how.scale is not None:
        unit = Units.of(rows.fold(ColumnSummary.of)).scale
        rows, model = rows.scaled(1 / unit), model.rescale(how.scale / unit).isotropic()
    floor = NOISE_FLOOR * model.covariance.trace() / model.n_features
    ended = warm_fit(rows.keep(partial(observe, centre=model.mean)), model, EM(floor), Monitor(how.tol, how.max_iter))
    drawn = ended.state.principal().in_precision_unit(precision_unit)
    return _Fitted(drawn, drawn.mean * unit, ended.status.converged)
