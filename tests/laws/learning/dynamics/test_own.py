"""The grid of trends and seasons: its likelihood is that of the filter, and its choice is what made the data."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import punched
from probpca.blocks import as_sequences
from probpca.inference import filter_states, sample_series, series_log_likelihood
from probpca.inference.likelihood import LOG_2PI
from probpca.learning.dynamics.horizon_errors import filter_each
from probpca.learning.dynamics.own import (
    GRID,
    Systems,
    choose_own,
    climb,
    trend_candidates,
    try_all,
    with_seasons,
)
from probpca.models import Gaussian
from probpca.models.components import OwnComponents, assemble, unscored_rows

PLAIN = trend_candidates()
SEASONAL = with_seasons(PLAIN, GRID.seasons)


@pytest.fixture
def y(rng):
    y = np.cumsum(rng.standard_normal((40, 2)), axis=0)
    return (y - y.mean(axis=0)) / y.std(axis=0)


@pytest.mark.parametrize("seasonal", [False, True])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_value_of_a_candidate_is_the_likelihood_of_its_system(y, seasonal, gaps):
    period = 4 if seasonal else 1
    if gaps:
        y[[12, 13, 30], 0] = np.nan
    some = (SEASONAL if seasonal else PLAIN)[::37]
    found = try_all(some, [(y, ~np.isnan(y))], period)
    n = found.counts
    for g, candidate in enumerate(some):
        for j in range(2):
            free = candidate.free
            scale = found.scale[g, j] * (n[j] - free - 2) / (n[j] + free)  # the most likely one
            own = candidate.components(scale, y[0, j])
            model = assemble([own], np.zeros(1), period)
            wanted = series_log_likelihood(model, y[:, [j]]) - free / 2 * np.log(n[j])
            assert_allclose(found.value[g, j], wanted, rtol=1e-5, atol=1e-4)


def test_several_sequences_share_one_scale(y):
    parts = [(y[:25], ~np.isnan(y[:25])), (y[25:], ~np.isnan(y[25:]))]
    some = [PLAIN[0], PLAIN[40]]
    found, each = try_all(some, parts, 1), [try_all(some, [part], 1) for part in parts]
    free = np.array([[c.free] for c in some])
    squares = sum(one.scale * one.counts * np.maximum(one.counts - free - 2, 1) / (one.counts + free) for one in each)
    n = found.counts
    assert_allclose(found.scale, squares / n * (n + free) / (n - free - 2))
    assert_allclose(found.counts, sum(one.counts for one in each))


def test_climbing_from_a_coarse_grid_ends_at_the_best_of_all(rng):
    t = np.arange(60)
    season = np.sin(np.pi * t / 2)[:, None] * rng.uniform(0, 3, 6)
    y = rng.uniform(0, 2, 6) * np.cumsum(rng.standard_normal((60, 6)), axis=0) + season + rng.standard_normal((60, 6))
    parts = [((y - y.mean(axis=0)) / y.std(axis=0), np.ones(y.shape, dtype=bool))]
    candidates = [*PLAIN, *SEASONAL]
    everything = try_all(candidates, parts, 4).value.max(axis=0)
    best = climb(candidates, parts, 4, np.ones((len(candidates), 6), dtype=bool)).value
    assert_allclose(best.max(axis=0), everything, atol=0.1)
    assert np.isfinite(best).mean() < 0.6


TRUTHS = {
    "constant": OwnComponents("constant", 1.0),
    "level": OwnComponents("level", 0.5, level=1.0),
    "drift": OwnComponents("drift", 1.0, level=0.01),
    "ar": OwnComponents("ar", 0.01, slope=1.0, damping=0.8),
    "slope": OwnComponents("slope", 0.1, slope=0.5),
}


@pytest.mark.parametrize("kind", TRUTHS)
@pytest.mark.parametrize("season", [None, 0.0])
def test_what_made_the_data_is_chosen(kind, season):
    rng = np.random.default_rng(0)
    model = assemble([replace(TRUTHS[kind], season=season)], np.zeros(1), 4)
    first = np.where(np.array(model.layout.roles) == "season", 3.0, 0.5)
    model = replace(model, initial=Gaussian(first, np.zeros((len(first), len(first)))))
    y = np.hstack([sample_series(model, 160, rng=rng).rows for _ in range(10)])
    chosen = choose_own(as_sequences(y), period=4).components
    right = sum(own.trend == kind and (own.season is None) == (season is None) for own in chosen)
    assert right >= 7


def test_intervals_hold_what_they_promise():
    """One step ahead within the rows, the mean square error is at least what the model expects."""
    rng = np.random.default_rng(1)
    y = sample_series(assemble([TRUTHS["level"]], np.zeros(1)), 300, rng=rng).rows
    own = choose_own(as_sequences(y - y[0]))
    model = assemble(own.components, own.offset)
    distance = filter_states(model, y - y[0]).distance[unscored_rows(1) :]
    assert 0.8 < distance.mean() < 1.02


def test_units_do_not_matter(y):
    one = choose_own(as_sequences(y))
    two = choose_own(as_sequences(1e8 + 1e6 * y))
    for a, b in zip(one.components, two.components, strict=True):
        assert (a.trend, a.season) == (b.trend, b.season)
        assert_allclose([b.noise, b.level, b.slope], np.array([a.noise, a.level, a.slope]) * 1e12, rtol=1e-4)
        assert_allclose(b.start, a.start * 1e6, rtol=1e-4)


def test_words_and_too_few_rows_restrict_the_choice(y):
    own = choose_own(as_sequences(y), ["ar", "auto"], "fixed", 4).components
    assert own[0].trend == "ar"
    assert [c.season for c in own] == [0.0, 0.0]
    assert all(c.season > 0 for c in choose_own(as_sequences(y), "auto", "stochastic", 4).components)
    assert all(c.season is None for c in choose_own(as_sequences(y), "auto", None, 4).components)
    few = choose_own(as_sequences(y[:12]), "auto", "auto", 4)
    assert few.period == 1


@pytest.mark.parametrize(
    "rows",
    [np.ones((3, 1)) * 5.0, np.array([[1.0], [2.0], [3.0]]), np.c_[np.arange(9.0), np.full(9, np.nan)], np.eye(4)],
)
def test_small_tables_get_a_finite_answer(rows):
    own = choose_own(as_sequences(rows))
    assert all(np.isfinite([c.noise, c.level, c.slope, c.unit, c.start]).all() and c.noise > 0 for c in own.components)


def test_a_column_is_filtered_by_its_own_system(rng, y):
    y = punched(rng, y, 0.1)
    y[0] = 0.0
    pair = [SEASONAL[30], PLAIN[100]]
    means, covariances = filter_each(Systems.of(pair, 4), y, ~np.isnan(y))
    for j, candidate in enumerate(pair):
        model = assemble([candidate.components(1.0, 0.0)], np.zeros(1), 4)
        found = filter_states(model, y[:, [j]]).predicted
        k = model.n_components
        assert_allclose(means[6:, j, :k], found.mean[6:], rtol=1e-3, atol=1e-3)
        assert_allclose(covariances[6:, j, :k, :k], found.covariance[6:], rtol=1e-3, atol=1e-3)


def test_the_likelihood_has_its_constant():
    """White noise: the value of a constant level is that of independent normal cells about their running mean."""
    y = np.random.default_rng(3).standard_normal((400, 1))
    found = try_all([PLAIN[0]], [(y, np.ones(y.shape, dtype=bool))], 1)
    rest = y[unscored_rows(1) :]
    wanted = -0.5 * len(rest) * (LOG_2PI + 1 + np.log(np.square(rest).mean())) - 0.5 * np.log(len(rest))
    assert_allclose(found.value[0, 0], wanted, atol=4.0)
