"""The exact maximum of the likelihood, and the number of components it implies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from probpca.learning.complete.dense import SMALL_MATRIX, by_covariance, by_gram, by_svd
from probpca.learning.complete.krylov import OVERSAMPLING, by_krylov, is_sparse, outside_energy
from probpca.learning.complete.spectrum import Spectrum, log_likelihood_of, model_of, noise_of, resolution_of_rows
from probpca.learning.components import RULES, Components, check_count, unknown_components
from probpca.learning.result import FitResult, Regime, Settings, Status
from probpca.learning.selection.criteria import Curve, bic, evidence, gavish_donoho, n_above, share_of_variance

if TYPE_CHECKING:
    from probpca.sources import Source


LARGEST_BY_BIC = 50


class Chosen(NamedTuple):
    """A number of components, the spectrum that it was read from, and why it was taken."""

    n_components: int
    spectrum: Spectrum
    rule: str
    curve: Curve | None = None


def closed_form(source: Source, n_components: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """The exact maximum for any shape of complete data, with the eigensolver chosen by shape."""
    return _result(choose_components(source, n_components, settings, rng))


def from_spectrum(spectrum: Spectrum, n_components: Components) -> FitResult:
    """The exact maximum with as many components as a criterion finds among the eigenpairs that are known."""
    most = int(min(spectrum.values.size, max(spectrum.weight - 2, 1), LARGEST_BY_BIC))
    match n_components.item() if isinstance(n_components, np.generic) else n_components:
        case None | "bic":
            curve = bic(spectrum, most)
            return _result(Chosen(curve.best, spectrum, "BIC", curve))
        case int(q) if not isinstance(q, bool):
            check_count(q, spectrum.n_features)
            return _result(Chosen(q, spectrum, "as given"))
        case float(share) if 0 < share < 1:
            less = _holding_less(spectrum, spectrum.values.size, share, "the sketch has no more")
            return _result(_holding(spectrum, share) or less)
    raise unknown_components(n_components, "'bic' or None")


def _result(chosen: Chosen) -> FitResult:
    q, spectrum = chosen.n_components, chosen.spectrum
    value = log_likelihood_of(spectrum, q)
    status = Status.EXACT if spectrum.certified else Status.MAX_ITER
    if noise_of(spectrum, q).collapsed:
        status = Status.NOISE_COLLAPSED
    model = model_of(spectrum, q)
    return FitResult(model, status, value, (value,), max(spectrum.n_products, 1), spectrum.weight, chosen.rule)


def choose_components(source: Source, n_components: Components, settings: Settings, rng: np.random.Generator) -> Chosen:
    """Resolve ``n_components`` to a number, and compute at least that many eigenpairs."""
    d = source.n_features
    match n_components.item() if isinstance(n_components, np.generic) else n_components:
        case None | "bic":
            spectrum = leading_spectrum(source, most_pairs(source, LARGEST_BY_BIC), settings, rng)
            curve = bic(spectrum, int(min(spectrum.values.size, max(spectrum.weight - 2, 1))))
            return Chosen(curve.best, spectrum, "BIC", curve)
        case "evidence":
            spectrum = leading_spectrum(source, most_pairs(source, d - 1), settings, rng)
            curve = evidence(spectrum)
            return Chosen(curve.best, spectrum, RULES["evidence"], curve)
        case "gavish_donoho":
            spectrum = leading_spectrum(source, most_pairs(source, d - 1), settings, rng)
            curve = gavish_donoho(spectrum)
            return Chosen(n_above(curve), spectrum, RULES["gavish_donoho"], curve)
        case int(q) if not isinstance(q, bool):
            check_count(q, d)
            return Chosen(q, leading_spectrum(source, q, settings, rng), "as given")
        case float(share) if 0 < share < 1:
            return _by_share(source, share, settings, rng)
    raise unknown_components(n_components)


def _by_share(source: Source, share: float, settings: Settings, rng: np.random.Generator) -> Chosen:
    """Compute ever more eigenpairs until they hold the share."""
    k, most = most_pairs(source, LARGEST_BY_BIC), most_pairs(source, source.n_features - 1)
    if not source.repeatable:
        k = most
    while True:
        spectrum = leading_spectrum(source, k, settings, rng)
        chosen = _holding(spectrum, share)
        if chosen is None and k == most:
            chosen = _holding_less(spectrum, most, share, "the noise needs one axis")
        if chosen is not None:
            return chosen
        k = min(2 * k, most)


def _holding(spectrum: Spectrum, share: float) -> Chosen | None:
    """As few components as hold a share of the variance, if the spectrum has as many."""
    q = share_of_variance(spectrum, share)
    return None if q is None else Chosen(q, spectrum, f"{share:.4g} of the variance")


def _holding_less(spectrum: Spectrum, q: int, share: float, why: str) -> Chosen:
    """As many components as there may be."""
    held = spectrum.values[:q].sum() / spectrum.total
    return Chosen(q, spectrum, f"{held:.4g} of the variance, not {share:.4g}: {why}")


def most_pairs(source: Source, limit: int) -> int:
    """At most ``limit`` eigenpairs, and no more than the rows can have."""
    check_count(1, source.n_features)
    rows = source.n_features if source.n_rows is None else source.n_rows
    return max(min(source.n_features - 1, rows - 1, limit), 1)


def leading_spectrum(source: Source, k: int, settings: Settings, rng: np.random.Generator) -> Spectrum:
    """The largest k eigenpairs, with the solver that the settings name if that is one of theirs."""
    regime = settings.solver if settings.solver in get_args(Regime) else choose_regime(source, k)
    if regime == "gram" and source.n_rows is not None and k >= source.n_rows:
        regime = "svd"  # the inner products of so few rows have fewer axes than were asked for
    return solve_spectrum(source, k, regime, settings.tol, rng)  # type: ignore[arg-type]


SVD_CELLS = 2e8
SVD_LIMIT = 3000
"""Shorter side of a table for which a singular value decomposition is a reasonable last resort."""


def choose_regime(source: Source, k: int) -> Regime:
    """Pick by counted work: the eigenproblem of the shorter side, or products with k vectors."""
    n, d = source.n_rows, source.n_features
    if not source.repeatable:
        return "svd"
    if n is None or source.n_stored is None:
        return "covariance" if d <= SVD_LIMIT or k >= d / 5 else "krylov"
    short = min(n, d)
    # Costs of a multiplication relative to each other, measured: products with k vectors are made
    # about eight times, there and back; sparse ones run ten times slower; eigh takes about 5 m^3.
    direct = n * d * short + 5 * short**3
    iterative = 25 * source.n_stored * (k + OVERSAMPLING) * (10 if is_sparse(source) else 1)
    if short >= SMALL_MATRIX and iterative < direct and k < short / 5:
        return "krylov"
    return "covariance" if d <= n else "gram"


def solve_spectrum(source: Source, k: int, regime: Regime, tol: float, rng: np.random.Generator) -> Spectrum:
    """The k largest eigenpairs of S.

    ``tol`` bounds, in nats, what an iterative method may leave of the log-likelihood with k
    components. Where eigenvalues matter that squared data cannot resolve, the energy outside the
    axes is summed afresh, or a decomposition of the rows themselves takes over.
    """
    match regime:
        case "covariance":
            spectrum = by_covariance(source, k, tol, rng)
        case "gram":
            spectrum = by_gram(source, k, tol, rng)
        case "krylov":
            spectrum = by_krylov(source, k, tol, rng)
        case "svd":
            return by_svd(source, k)
    return _with_safe_tail(source, spectrum)


def _with_safe_tail(source: Source, spectrum: Spectrum) -> Spectrum:
    """Compute the energy outside the axes anew if the difference that gave it has lost its digits."""
    d, k = spectrum.axes.shape
    noise = spectrum.residual(k) / (d - k)
    largest = float(spectrum.values[0])
    if noise * (d - k) > 1e-7 * spectrum.total:
        return spectrum
    short, cells = min(spectrum.count, d), spectrum.count * d
    if noise < 1e-10 * largest and short <= SVD_LIMIT and cells <= SVD_CELLS:
        return by_svd(source, k)
    tail = outside_energy(source, spectrum.mean, spectrum.axes, spectrum.weight)
    resolution = resolution_of_rows(spectrum.total, spectrum.mean)
    return replace(spectrum, tail=tail, resolution=resolution)
