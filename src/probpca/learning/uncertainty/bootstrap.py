"""Bootstrap standard errors: resample rows, refit, align, summarise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, final, get_args

import numpy as np

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
    """Raise ``DataError`` unless there is such a way to make fits comparable."""
    if align not in get_args(Align):
        msg = f"align must be one of {', '.join(get_args(Align))}; got {align!r}."
        raise DataError(msg)


def aligned(columns: Array, target: Array, align: str) -> Array:
    r"""Loadings or axes (d, q) of another fit, made comparable with those of ``target``.

    ``"signs"`` leaves the order by variance as it is and turns columns round that point the other way:
    how much the j-th principal axis varies, and the whole of it. Where two variances are close the axes turn
    into each other from sample to sample, and that is part of the truth about them.

    ``"procrustes"`` takes the rotation R that minimises :math:`\lVert W^* R - W \rVert`, and with it all that
    is due to a rotation within the subspace.
    """
    if align == "procrustes":
        left, _, right = np.linalg.svd(columns.T @ target)
        return columns @ (left @ right)
    return columns * np.where(np.einsum("dj,dj->j", columns, target) < 0, -1.0, 1.0)


def principal_angles(axes: Array, others: Array) -> Array:
    """Angles between the spans of two orthonormal bases (d, q), in degrees, largest first: (q,).

    From sines and cosines both: neither alone is accurate at both ends.
    """
    within = axes.T @ others  # (q, q)
    cosines = np.linalg.svd(within, compute_uv=False)[::-1]
    sines = np.linalg.svd(others - axes @ within, compute_uv=False)
    return np.degrees(np.arctan2(sines, cosines))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Bootstrap:
    """How rows are resampled: as they were fitted, and how the fits are compared."""

    scale: Array | None = None  # standard deviations that columns were divided by: (d,); None if they were not
    corrected: bool = False  # were variances freed of their bias?
    align: str = "signs"  # or "procrustes"; see ``aligned``
    tol: float = 0.01  # nats that a fit to resampled cells may leave: at most a seventh of a standard error
    max_iter: int = 200

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        check_align(self.align)


def bootstrap_uncertainty(
    source: Source,
    model: LinearGaussian,
    rngs: Sequence[np.random.Generator | int],
    how: Bootstrap | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> ParameterUncertainty:
    r"""How much a fit would differ if other rows had come: fits to rows drawn with replacement.

    Complete rows are fitted by the closed form; others by EM from the ``model`` that all rows led to. If columns were
    standardised, ``model`` is that of the columns divided by ``how.scale``, and the result is about it, but for the
    mean, which is in the units of the data. Each resample is then scaled by its own standard deviations, as the fit
    itself was by those of all rows: they are estimates too. Each generator, or seed, makes one draw, whatever the
    others and the threads are. How draws are made comparable is said in ``aligned``; variances are compared by their
    rank, and subspaces by the angles between them, which depend on no choice of axes.

    Intervals are those that were found to hold what they promise: Student's t with the standard deviation of the
    draws, times :math:`(n / (n - 1))^{1/2}`, for loadings, axes and mean; for variances the same of their
    logarithms, less their bias. That of the noise is what resampling makes of it; resampling does not tell
    that of explained variances, and the formula of ``bias_of_variances`` is used.
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
    """Parameters of the fit to one resample, aligned with those of all rows."""

    explained_variance: Array
    noise_variance: Array
    loadings: Array
    axes: Array
    mean: Array
    angles: Array
    converged: bool


class _Draws:
    """Sums over draws of what is large, lists of what is small."""

    def __init__(self, model: LinearGaussian, how: Bootstrap) -> None:
        self.how = how
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
        """Count one more."""
        self.count += 1
        self.converged += drawn.converged
        self.small.append((drawn.explained_variance, drawn.noise_variance, drawn.angles))
        for (name, value), (_, centre) in zip(self._large(drawn), self._large(self.centre), strict=True):
            change = value - centre
            self.sums[name][0][...] += change
            self.sums[name][1][...] += np.square(change, out=change)

    def uncertainty(self, table: Table) -> ParameterUncertainty:
        """Standard errors and biases of all draws together."""
        n, d = table.n, self.centre.mean.size
        small = np.sqrt(n / (n - 1))  # a resample varies about its mean, which is not the true one
        lam, noise, angles = (np.array(values) for values in zip(*self.small, strict=True))
        axes = self._estimate("axes", n)
        return ParameterUncertainty(
            "bootstrap",
            Estimate(
                self.centre.explained_variance,
                small * lam.std(axis=0, ddof=1),
                n - 1,
                self._bias(table.cells / d),
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

    def _bias(self, n: float) -> Array | float:
        lam, noise = self.centre.explained_variance, self.centre.noise_variance
        if self.how.corrected:
            return 0.0
        return bias_of_variances(lam, float(noise), n, self.centre.mean.size).explained_variance


def _note(n: float, d: int) -> str:
    if n >= d:
        return ""
    return f"{n:,.0f} rows for {d:,} features: the variances of weak components may lie outside their intervals."


def _noise(value: Array, logs: Array, n: float, *, corrected: bool) -> Estimate:
    """Draws are smaller than the fit by the share by which that is smaller than the truth, if it was not corrected.

    By that of most draws: in a few of them the noise may collapse.
    """
    centre = value if corrected else value * np.exp(np.log(value) - np.median(logs, axis=0))
    error = centre * logs.std(axis=0, ddof=1) * np.sqrt(n / (n - 1))
    return Estimate(value, error, n - 1, value - centre, positive=True)


def _draw(table: Table, model: LinearGaussian, how: Bootstrap, rng: np.random.Generator | int) -> _Drawn:
    """Fit to resampled rows, and compare with the model of all rows."""
    rng = np.random.default_rng(rng)
    rows = open_source(table.resampled(model.n_components, rng), n_jobs=1)
    fitted = _fit_complete(rows, model, how, rng) if table.complete else _fit_observed(rows, model, how)
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

    model: LinearGaussian  # of the columns divided by their standard deviations, if the fit of all rows was
    mean: Array  # in the units of the data: (d,)
    converged: bool


def _fit_complete(rows: Source, model: LinearGaussian, how: Bootstrap, rng: np.random.Generator) -> _Fitted:
    """The closed form."""
    settings, standardize = Settings(bias_correction=how.corrected), how.scale is not None
    result = fit_ppca(rows, model.n_components, settings, rng, standardize=standardize)
    return _Fitted(result.scaled_model, result.model.mean, result.status.converged)


def _fit_observed(rows: Source, model: LinearGaussian, how: Bootstrap) -> _Fitted:
    """EM from the model of all rows, in the units of these."""
    unit = np.ones(model.n_features)
    if how.scale is not None:
        unit = Units.of(rows.fold(ColumnSummary.of)).scale
        rows, model = rows.scaled(1 / unit), model.rescale(how.scale / unit).isotropic()
    floor = NOISE_FLOOR * model.covariance.trace() / model.n_features
    ended = warm_fit(rows.keep(partial(observe, centre=model.mean)), model, EM(floor), Monitor(how.tol, how.max_iter))
    return _Fitted(ended.state.principal(), ended.state.mean * unit, ended.status.converged)
