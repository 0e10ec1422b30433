"""The exact maximum of the likelihood for complete rows, with the eigensolver that suits their shape."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, get_args

from probpca.errors import ShapeError
from probpca.learning.complete.bias_correction import without_bias
from probpca.learning.complete.dense import Gram, by_covariance, by_gram, by_svd
from probpca.learning.complete.krylov import by_krylov, outside_energy
from probpca.learning.complete.spectrum import (
    Spectrum,
    log_likelihood_of,
    model_of,
    noise_of,
    resolution_of_rows,
)
from probpca.learning.components import Count, Rule, Share
from probpca.learning.result import FitResult, Status
from probpca.learning.selection.criteria import Curve, bic, evidence, gavish_donoho, n_above, share_of_variance
from probpca.learning.settings import Regime, Settings
from probpca.statistics import ColumnSummary, Moments, Root

if TYPE_CHECKING:
    import numpy as np

    from probpca.learning.components import Components
    from probpca.learning.describe import Description, Sums
    from probpca.sources import Source


class Chosen(NamedTuple):
    """A number of components, the spectrum that it was read from, and how it was chosen."""

    n_components: int
    spectrum: Spectrum
    rule: str
    curve: Curve | None = None


def fit_closed_form(table: Description, wanted: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Compute the exact maximum for complete rows of any shape."""
    result = exact_fit(choose_components(table, wanted, settings, rng))
    return without_bias(result) if settings.bias_correction else result


def exact_fit(chosen: Chosen) -> FitResult:
    """The maximum-likelihood model with the chosen number of components."""
    q, spectrum = chosen.n_components, chosen.spectrum
    value = log_likelihood_of(spectrum, q)
    status = Status.EXACT if spectrum.certified else Status.MAX_ITER
    if noise_of(spectrum, q).collapsed:
        status = Status.NOISE_COLLAPSED
    model = model_of(spectrum, q)
    return FitResult(model, status, value, (value,), max(spectrum.n_products, 1), spectrum.weight, chosen.rule)


def choose_components(table: Description, wanted: Components, settings: Settings, rng: np.random.Generator) -> Chosen:
    """The number of components that is wanted, and at least as many eigenpairs."""
    if isinstance(wanted, Share):
        return _by_share(table, wanted, settings, rng)
    spectrum = leading_spectrum(table, pairs_wanted(table.source, wanted, settings), settings, rng)
    if isinstance(wanted, Count):
        return Chosen(wanted.q, spectrum, wanted.rule)
    return choose_by_spectrum(spectrum, wanted, spectrum.values.size)


def choose_by_spectrum(spectrum: Spectrum, wanted: Components, most: int, reason: str = "") -> Chosen:
    """Choose among up to ``most`` components by the eigenvalues alone."""
    match wanted:
        case Count(q, rule):
            return Chosen(q, spectrum, rule)
        case Share(share):
            q = share_of_variance(spectrum, share) or most
            held = float(spectrum.values[:q].sum() / spectrum.total)
            return Chosen(q, spectrum, wanted.rule(held, reason))
        case Rule("bic"):
            curve = bic(spectrum, int(min(most, max(spectrum.weight - 2, 1))))
            return Chosen(curve.best, spectrum, wanted.words, curve)
        case Rule("evidence"):
            curve = evidence(spectrum)
            return Chosen(curve.best, spectrum, wanted.words, curve)
        case Rule("gavish_donoho"):
            curve = gavish_donoho(spectrum)
            return Chosen(n_above(curve), spectrum, wanted.words, curve)
    msg = f"eigenvalues alone do not tell {wanted}."
    raise ShapeError(msg)


def _by_share(table: Description, wanted: Share, settings: Settings, rng: np.random.Generator) -> Chosen:
    """Compute ever more eigenpairs until they hold the share."""
    source = table.source
    k, most = pairs_wanted(source, wanted, settings), most_pairs(source, source.n_features - 1)
    if not source.repeatable:
        k = most
    while True:
        spectrum = leading_spectrum(table, k, settings, rng)
        if k == most or share_of_variance(spectrum, wanted.share) is not None:
            return choose_by_spectrum(spectrum, wanted, most, "the noise needs one axis")
        k = min(2 * k, most)


def pairs_wanted(source: Source, wanted: Components, settings: Settings) -> int:
    """Number of eigenpairs to compute first."""
    match wanted:
        case Count(q):
            return q
        case Rule("evidence" | "gavish_donoho"):
            return most_pairs(source, source.n_features - 1)
    return most_pairs(source, settings.search.complete)


def most_pairs(source: Source, limit: int) -> int:
    """At most ``limit`` eigenpairs, and no more than the rows can have."""
    rows = source.n_features if source.n_rows is None else source.n_rows
    return max(min(source.n_features - 1, rows - 1, limit), 1)


def first_pass(wanted: Components, settings: Settings, source: Source) -> Sums:
    """Compute the sums with which the eigensolver of these rows begins."""
    match _regime(source, pairs_wanted(source, wanted, settings), settings):
        case "covariance":
            return source.fold(partial(Moments.of, dtype=source.dtype))
        case "gram":
            return Gram.of(source)
        case "svd":
            return source.fold(Root.of)
    return source.fold(partial(ColumnSummary.of, dtype=source.dtype))


def leading_spectrum(table: Description, k: int, settings: Settings, rng: np.random.Generator) -> Spectrum:
    """The k largest eigenpairs of the sample covariance.

    ``settings.tol`` bounds, in nats, what an iterative method may leave of the log-likelihood with k components.
    Where eigenvalues matter that squared data cannot resolve, the energy outside the axes is summed afresh, or a
    decomposition of the rows themselves takes over.
    """
    match _regime(table.source, k, settings):
        case "covariance":
            spectrum = by_covariance(table, k, settings, rng)
        case "gram":
            spectrum = by_gram(table, k, settings, rng)
        case "krylov":
            spectrum = by_krylov(table, k, settings, rng)
        case "svd":
            return by_svd(table, k)
    return _with_safe_tail(table, spectrum, settings)


def _regime(source: Source, k: int, settings: Settings) -> Regime:
    """The eigensolver that the settings name, or the one with the least work."""
    named = settings.solver in get_args(Regime)
    regime: Regime = settings.solver if named else choose_regime(source, k, settings)  # type: ignore[assignment]
    if regime == "gram" and source.n_rows is not None and k >= source.n_rows:
        return "svd"  # the inner products of so few rows have fewer axes than are wanted
    return regime


def choose_regime(source: Source, k: int, settings: Settings = Settings()) -> Regime:
    """Pick by counted work: the eigenproblem of the shorter side, or products with k vectors."""
    n, d = source.n_rows, source.n_features
    if not source.repeatable:
        return "svd"
    if n is None or source.n_stored is None:
        return "covariance" if d <= settings.dense.svd_side or k >= d / 5 else "krylov"
    short = min(n, d)
    # Costs of a multiplication relative to each other, measured: products with k vectors are made
    # about eight times, there and back; sparse ones run ten times slower; eigh takes about 5 m^3.
    direct = n * d * short + 5 * short**3
    iterative = 25 * source.n_stored * (k + settings.krylov.oversampling) * (10 if source.is_sparse else 1)
    if short >= settings.dense.small and iterative < direct and k < short / 5:
        return "krylov"
    return "covariance" if d <= n else "gram"


def _with_safe_tail(table: Description, spectrum: Spectrum, settings: Settings) -> Spectrum:
    """Compute the energy outside the axes anew if the difference that gave it has lost its digits."""
    d, k = spectrum.axes.shape
    noise = spectrum.residual(k) / (d - k)
    largest = float(spectrum.values[0])
    if noise * (d - k) > 1e-7 * spectrum.total:
        return spectrum
    short, cells = min(spectrum.count, d), spectrum.count * d
    if noise < 1e-10 * largest and short <= settings.dense.svd_side and cells <= settings.dense.svd_cells:
        return by_svd(table, k)
    tail = outside_energy(table.source, spectrum.mean, spectrum.axes, spectrum.weight)
    resolution = resolution_of_rows(spectrum.total, spectrum.mean)
    return replace(spectrum, tail=tail, resolution=resolution)
