"""Choosing the number of states by BIC or by held-out cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.blocks import Sequences
from probpca.inference.likelihood import LOG_2PI
from probpca.inference.time_series.prediction import impute_series
from probpca.learning.dynamics.fit import fit_series
from probpca.learning.dynamics.structure import n_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.inference.time_series.row_filter import KnownState
    from probpca.learning.dynamics.fit import SeriesResult
    from probpca.learning.dynamics.structure import Structure
    from probpca.learning.settings import Settings
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True)
class StateSearch:
    """Options of the search for the number of states."""

    largest: int = 12  # largest number of states
    patience: int = 2  # the search ends after this many successive numbers that are worse than the best
    held_out: float = 0.1  # share of the cells that cross-validation holds out


SEARCH = StateSearch()


class Chosen(NamedTuple):
    """Fit with the chosen number of states, and how it was chosen."""

    result: SeriesResult
    rule: str
    scores: dict[int, float]  # score of each number of states that was tried; larger is better
    last_states: list[KnownState] | None = None  # of each sequence, if the choice computed them


def choose_states(
    rows: Sequences,
    rule: str,
    settings: Settings,
    rng: np.random.Generator,
    structure: Structure,
    fit: Callable[..., SeriesResult] = fit_series,
) -> Chosen:
    """Choose the number of states by "bic" or held-out cells: try 1, 2, ... until the score fails to improve twice.

    ``fit`` is called with rows, number of states, settings, random number generator and structure.
    """
    largest = min(max(rows.n_features, 3), SEARCH.largest)
    held, rngs = _held_out(rows, rng), rng.spawn(largest + 1)  # the last one is for the fit to all cells
    training = Sequences(np.where(held, np.nan, rows.values), rows.lengths, rows.inputs) if rule == "cv" else rows
    scores: dict[int, float] = {}
    results: dict[int, SeriesResult] = {}
    for q in range(1, largest + 1):
        results[q] = fit(training, q, settings, rngs[q - 1], structure)
        if rule == "cv":
            scores[q] = held_out_score(results[q], training, rows.values, held)
        else:
            scores[q] = -bic(results[q], rows, structure)
        if q - max(scores, key=scores.__getitem__) >= SEARCH.patience:
            break
    best = max(scores, key=scores.__getitem__)
    if rule != "cv":
        return Chosen(results[best], f"BIC, 1 to {q} states tried", scores)
    again = fit(rows, best, settings, rngs[-1], structure)
    return Chosen(again, f"cross-validation of cells, 1 to {q} states tried", scores)


def bic(result: SeriesResult, rows: Sequences, structure: Structure) -> float:
    """Bayesian information criterion, -2 log-likelihood + p log n, with n the steps that have an observed cell."""
    steps = int((~np.isnan(rows.values)).any(axis=1).sum())
    model = result.model
    count = n_parameters(structure, model.n_components, model.n_features, model.n_inputs, len(rows.lengths))
    return -2.0 * result.log_likelihood + count * np.log(steps)


def _held_out(rows: Sequences, rng: np.random.Generator) -> Any:
    """Random mask of the observed cells to hold out, at least one: (n, d)."""
    seen = ~np.isnan(rows.values)
    drawn = np.where(seen, rng.random(seen.shape), np.inf)
    return seen & (drawn <= max(SEARCH.held_out, drawn.min()))


def held_out_score(result: SeriesResult, training: Sequences, values: Array, held: Any) -> float:
    """Mean log density of the held-out cells, each given all training cells."""
    filled = impute_series(result.model, training)
    error, std = (values - filled.values)[held], filled.std[held]
    return float(-0.5 * np.mean(LOG_2PI + 2 * np.log(std) + np.square(error / std)))
