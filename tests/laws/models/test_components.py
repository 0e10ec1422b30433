"""Own components of features are blocks of one system, and their layout says which."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probpca import DataError, ShapeError
from probpca.inference import sample_series
from probpca.models import Gaussian, Layout, LinearGaussian, StateSpace
from probpca.models.components import (
    TRENDS,
    OwnComponents,
    assemble,
    seasonal_block,
    seasons_of,
    trends_of,
    unscored_rows,
)

KINDS = {
    "constant": {},
    "ar": {"slope": 0.2, "damping": 0.7},
    "level": {"level": 0.3},
    "drift": {"level": 0.3},
    "damped": {"level": 0.3, "slope": 0.1, "damping": 0.9},
    "slope": {"slope": 0.1},
}


@pytest.fixture
def model():
    components = [OwnComponents(kind, 0.5, season=0.01, **KINDS[kind]) for kind in TRENDS]
    return assemble(
        components, np.arange(6.0), 4, transition=np.array([[0.5, 0.2], [-0.2, 0.5]]), loadings=np.ones((6, 2))
    )


@pytest.mark.parametrize("period", range(2, 13))
def test_a_season_repeats_itself_and_sums_to_zero(period):
    G, z = seasonal_block(period)
    start = np.random.default_rng(0).standard_normal(len(z))
    seen = np.array([z @ np.linalg.matrix_power(G, t) @ start for t in range(2 * period)])
    assert_allclose(seen[:period], seen[period:], atol=1e-12)
    assert_allclose(seen[:period].sum(), 0, atol=1e-12)
    assert len(z) == period - 1
    assert unscored_rows(period) == period + 2


def test_every_kind_is_told_by_the_system(model):
    assert trends_of(model) == list(TRENDS)
    assert seasons_of(model) == ["stochastic"] * 6
    assert model.n_factors == 2
    assert_allclose(np.abs(model.eigenvalues), np.hypot(0.5, 0.2))
    fixed = assemble([OwnComponents("level", 1.0, season=0.0), OwnComponents("level", 1.0, level=1.0)], np.zeros(2), 3)
    assert trends_of(fixed) == ["constant", "level"]
    assert seasons_of(fixed) == ["fixed", None]


def test_factors_are_stationary_with_covariance_one(model):
    A, Q = model.transition[:2, :2], model.process_noise[:2, :2]
    assert_allclose(A @ A.T + Q, np.eye(2), atol=1e-12)
    assert_array_equal(model.initial.covariance[:2, :2], np.eye(2))


def test_a_drift_is_a_straight_line_and_a_damped_slope_ends(rng):
    line = assemble([OwnComponents("drift", 1e-12, unit=0.0, start=3.0)], np.zeros(1))
    start = Gaussian([3.0, 2.0], np.zeros((2, 2)))
    sure = StateSpace(start, line.transition, line.process_noise, line.emission, layout=line.layout)
    assert_allclose(sample_series(sure, 5, rng=rng).rows[:, 0], [3, 5, 7, 9, 11], atol=1e-4)
    damped = assemble([OwnComponents("damped", 1.0, slope=0.1, damping=0.5)], np.zeros(1))
    assert_allclose(np.linalg.matrix_power(damped.transition, 60)[0, 1], 2.0)


@pytest.mark.parametrize("kind", ["ar", "damped"])
def test_what_fades_starts_with_its_stationary_variance(kind):
    model = assemble([OwnComponents(kind, 0.5, slope=0.2, damping=0.7)], np.zeros(1))
    P, F, Q = model.initial.covariance[1, 1], model.transition[1, 1], model.process_noise[1, 1]
    assert_allclose(P, F * P * F + Q)


def test_names_say_whose_state_it_is(model):
    names = model.layout.names(list("abcdef"))
    assert names[:8] == ["F1", "F2", "a level", "a season 1", "a season 2", "a season 3", "b level", "b ar"]
    assert len(set(names)) == model.n_components


def test_other_coordinates_and_stationary_moments_are_refused(model):
    with pytest.raises(DataError, match="belong to a single feature"):
        model.whiten()
    with pytest.raises(DataError, match="do not return to a mean"):
        model.stationary()
    assert not model.is_stationary


def test_the_steady_state_is_the_limit_of_the_covariance():
    model = assemble([OwnComponents("level", 1.0, level=0.5, season=0.0)], np.zeros(1), 2)
    P = model.steady_state()
    wanted = 0.25 + np.sqrt(0.0625 + 0.5)  # P = P - P^2 / (P + R) + Q for the level; the season is known in the end
    assert_allclose(P[0, 0], wanted, rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((("level", "level"), [0]), ShapeError, r"one entry for each of the 2 roles; got \(1,\)"),
        ((("trend",), [0]), DataError, "got trend"),
        ((("level",), [-1]), DataError, "every state but a factor must belong to a feature"),
        ((("factor",), [0]), DataError, "and factors to none"),
        ((("level",), [0], 0), DataError, "period must be at least 1"),
    ],
)
def test_what_is_no_layout_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Layout(*arguments)


@pytest.mark.parametrize("layout", [Layout(("level",) * 2, [0, 0]), Layout(("level",), [3])])
def test_a_layout_must_fit_the_system(layout):
    with pytest.raises(ShapeError, match="the layout must describe 1 states of 1 features"):
        StateSpace(Gaussian([0.0], [[1.0]]), [[1.0]], [[1.0]], LinearGaussian([0.0], [[1.0]], 1.0), layout=layout)
