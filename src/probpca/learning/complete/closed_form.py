"""Closed-form maximum likelihood for complete rows, and the choice of the number of components from eigenvalues."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.errors import ShapeError
from probpca.learning.complete.bias_correction import without_bias
from probpca.learning.complete.dense import Gram
from probpca.learning.complete.leading_spectrum import leading_spectrum, most_pairs, regime_of
from probpca.learning.complete.spectrum import Spectrum, log_likelihood_of, model_of, noise_of
from probpca.learning.components import EXACT_RANK, Count, Rule, Share
from probpca.learning.describe import Pass
from probpca.learning.result import FitResult, Status, collapsed_status
from probpca.learning.selection.correlations import choose_by_correlations
from probpca.learning.selection.criteria import (
    Curve,
    bic,
    evidence,
    exact_rank,
    gavish_donoho,
    n_above,
    share_of_variance,
)
from probpca.statistics import ColumnSummary, Moments, Root, Stack

if TYPE_CHECKING:
    from probpca.learning.components import Components
    from probpca.learning.describe import Description
    from probpca.learning.selection.correlations import Parallel
    from probpca.learning.settings import Settings
    from probpca.sources import Source


class Chosen(NamedTuple):
    """Chosen number of components, with the spectrum it is based on and how it was chosen."""

    n_components: int
    spectrum: Spectrum
    rule: str
    curve: Curve | None = None
    notes: tuple[str, ...] = ()  # remarks on the choice


def fit_closed_form(table: Description, wanted: Components, settings: Settings, rng: np.random.Generator) -> FitResult:
    """Fit PPCA to complete rows by the closed form of Tipping & Bishop (1999)."""
    result = exact_fit(choose_components(table, wanted, settings, rng))
    return without_bias(result) if settings.bias_correction else result


def exact_fit(chosen: Chosen) -> FitResult:
    """Maximum-likelihood fit with the chosen number of components."""
    q, spectrum = chosen.n_components, chosen.spectrum
    value = log_likelihood_of(spectrum, q)
    status = Status.EXACT if spectrum.certified else Status.MAX_ITER
    if noise_of(spectrum, q).collapsed:
        status = collapsed_status(chosen.rule)
    model, n_products = model_of(spectrum, q), max(spectrum.n_products, 1)
    return FitResult(model, status, value, (value,), n_products, spectrum.weight, chosen.rule, notes=chosen.notes)


def choose_components(table: Description, wanted: Components, settings: Settings, rng: np.random.Generator) -> Chosen:
    """Choose the number of components, and compute at least as many eigenpairs."""
    if isinstance(wanted, Share):
        return _by_share(table, wanted, settings, rng)
    k, parallel = pairs_wanted(table.source, wanted, settings), None
    if wanted == Rule("parallel"):
        parallel = choose_by_correlations(table, settings, rng)
        if regime_of(table.source, k, settings) == "krylov":  # each eigenpair needs products with all rows
            k = min(parallel.n_components, k)
    spectrum = leading_spectrum(table, k, settings, rng)
    if isinstance(wanted, Rule):
        rank = exact_rank(spectrum, single=table.source.rounded_to_single)
        if rank is not None:
            return Chosen(rank, spectrum, EXACT_RANK)
    if parallel is not None:
        return choose_by_parallel(spectrum, parallel, k)
    return choose_by_spectrum(spectrum, wanted, spectrum.values.size)


def choose_by_parallel(spectrum: Spectrum, parallel: Parallel, most: int) -> Chosen:
    """Choice of parallel analysis, with a note if BIC would choose another number, up to ``most``."""
    q, most = min(parallel.n_components, most), min(most, spectrum.n_features - 1)
    while q > 1 and noise_of(spectrum, q).collapsed:  # some columns are sums of others
        q -= 1
    notes = parallel.notes
    if most > q or most == spectrum.n_features - 1:
        other = choose_by_spectrum(spectrum, Rule("bic"), most).n_components
        why = (
            "assumes the same noise in every column, and chooses too many where that is not so"
            if other > q
            else "leaves out weak components"
        )
        notes = notes if other == q else (f"BIC would choose {other}: it {why}.", *notes)
    return Chosen(q, spectrum, Rule("parallel").words, parallel.curve, notes)


def choose_by_spectrum(spectrum: Spectrum, wanted: Components, most: int, reason: str = "") -> Chosen:
    """Choose among up to ``most`` components from the eigenvalues alone.

    ``reason`` explains why no more components are available if a share of variance cannot be reached.
    """
    match wanted:
        case Count(q, rule, notes):
            return Chosen(q, spectrum, rule, notes=notes)
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
    msg = f"{wanted} cannot be determined from eigenvalues alone."
    raise ShapeError(msg)


def _by_share(table: Description, wanted: Share, settings: Settings, rng: np.random.Generator) -> Chosen:
    """Compute increasing numbers of eigenpairs until they explain the requested share of the variance."""
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


def first_pass(wanted: Components, settings: Settings, source: Source) -> Pass:
    """First pass over the rows, with the sums that their eigensolver needs."""
    large = source.n_stored is None or source.n_stored > settings.dense.single_cells
    dtype = source.dtype if large else np.float64
    match regime_of(source, pairs_wanted(source, wanted, settings), settings):
        case "covariance":
            return Pass(partial(Moments.of, dtype=dtype))
        case "gram":
            return Pass(Stack.of, partial(Gram.of_stack, dtype=dtype, n_jobs=source.n_jobs))
        case "svd":
            return Pass(Root.of)
    return Pass(partial(ColumnSummary.of, dtype=dtype))
