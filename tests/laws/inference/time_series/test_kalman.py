"""Filter, smoother, likelihood and trajectories are those of one large Gaussian, conditioned on what was observed."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import (
    assert_moments_match,
    dense_series,
    precise_series,
    punched,
    random_covariance,
    random_system,
)
from probpca import ShapeError
from probpca.blocks import as_sequences
from probpca.inference import filter_states, sample_series, sample_trajectories, series_log_likelihood, smooth
from probpca.inference.time_series import banded_smoother as trajectory, kalman, square_root_filter as recursion
from probpca.inference.time_series.banded_smoother import Trajectory
from probpca.inference.time_series.square_root_filter import filter_rows, smooth_filtered
from probpca.learning.dynamics.em import expect_series
from probpca.linalg.tridiagonal import BlockTridiagonal
from probpca.models import Gaussian, LinearGaussian, StateSpace

NAN = np.nan
NEAR = {"rtol": 1e-10, "atol": 1e-10}
DRAWS = 6_000
LENGTHS = {"one": [8], "step": [1], "several": [5, 1, 8, 3]}


@pytest.fixture(params=["banded", "recursion"])
def form(request, monkeypatch):
    """One way to the answer and only that one."""

    def refuse(*_):
        msg = "the other form was asked for"
        raise AssertionError(msg)

    if request.param == "banded":
        monkeypatch.setattr(recursion.FilteredTrajectory, "of", refuse)
    else:
        monkeypatch.setattr(trajectory, "WORST_CONDITION", 0.0)


@pytest.fixture(params=[(4, 2), (2, 3), (1, 1)], ids=lambda shape: f"d{shape[0]}q{shape[1]}")
def shape(request):
    return request.param


@pytest.fixture(params=[0, 2], ids=["alone", "driven"])
def model(request, rng, shape, noise):
    return random_system(rng, *shape, inputs=request.param, noise=noise)


@pytest.fixture(params=[0.3, "diagonal"], ids=["isotropic", "diagonal"])
def noise(request):
    return request.param


@pytest.fixture(params=LENGTHS.values(), ids=LENGTHS)
def y(request, rng, model):
    """Sequences with three cells in ten missing, and one row without any cell."""
    series = [model.emission.mean + 2 * rng.standard_normal((length, model.n_features)) for length in request.param]
    series = [punched(rng, rows, 0.3) for rows in series]
    series[-1][len(series[-1]) // 2] = NAN
    return series


@pytest.fixture
def inputs(rng, model, y):
    return [rng.standard_normal((len(rows), model.n_inputs)) for rows in y] if model.n_inputs else None


def dense_of_each(model, y, inputs):
    """The oracle, sequence by sequence."""
    given = [None] * len(y) if inputs is None else inputs
    return [dense_series(model, rows, u) for rows, u in zip(y, given, strict=True)]


def neighbours(dense, lag=0):
    """Covariances of each state with itself or the next, zero after the last: (T, q, q)."""
    steps, q = dense.mean.shape
    at = np.arange(steps - lag)
    return np.concatenate([dense.covariance[at, :, at + lag], np.zeros((lag, q, q))])


# Against one dense Gaussian


@pytest.mark.usefixtures("form")
def test_smoothed_states_are_the_conditional_distribution(model, y, inputs):
    wanted = dense_of_each(model, y, inputs)
    found = smooth(model, y, inputs=inputs)
    assert_allclose(found.mean, np.vstack([each.mean for each in wanted]), **NEAR)
    assert_allclose(found.covariance, np.vstack([neighbours(each) for each in wanted]), **NEAR)
    assert_allclose(found.lag_one, np.vstack([neighbours(each, 1) for each in wanted]), **NEAR)


@pytest.mark.usefixtures("form")
def test_the_log_likelihood_is_that_of_the_observed_cells(model, y, inputs):
    wanted = sum(each.log_likelihood for each in dense_of_each(model, y, inputs))
    assert_allclose(series_log_likelihood(model, y, inputs=inputs), wanted, **NEAR)


def test_the_filter_knows_the_rows_up_to_each_step(model, y, inputs):
    found = filter_states(model, y, inputs=inputs)
    at = 0
    for k, rows in enumerate(y):
        u = None if inputs is None else inputs[k]
        known = 0.0
        for t in range(len(rows)):
            before, until = (
                dense_series(model, np.where(np.arange(t + 1)[:, None] < seen, rows[: t + 1], NAN), u)
                for seen in (t, t + 1)
            )
            assert_allclose(found.predicted.mean[at], before.mean[t], **NEAR)
            assert_allclose(found.predicted.covariance[at], before.covariance[t, :, t], **NEAR)
            assert_allclose(found.filtered.mean[at], until.mean[t], **NEAR)
            assert_allclose(found.filtered.covariance[at], until.covariance[t, :, t], **NEAR)
            assert_allclose(found.log_likelihood[at], until.log_likelihood - known, **NEAR)
            known, at = until.log_likelihood, at + 1


@pytest.mark.usefixtures("form")
def test_a_column_that_was_never_observed_is_as_good_as_absent(rng):
    model = random_system(rng, 4, 2)
    y = punched(rng, rng.standard_normal((8, 4)), 0.3)
    y[:, 2] = NAN
    without = replace(model, emission=model.emission.restrict(np.array([0, 1, 3])))
    assert_allclose(series_log_likelihood(model, y), series_log_likelihood(without, y[:, [0, 1, 3]]), **NEAR)
    assert_allclose(smooth(model, y).mean, smooth(without, y[:, [0, 1, 3]]).mean, **NEAR)
    assert_allclose(smooth(model, y).mean, dense_series(model, y).mean, **NEAR)


@pytest.mark.usefixtures("form")
def test_nothing_observed_leaves_the_prior(rng):
    model = random_system(rng, 4, 2)
    found, wanted = smooth(model, np.full((6, 4), NAN)), dense_series(model, np.full((6, 4), NAN))
    assert_allclose(found.mean, wanted.mean, **NEAR)
    assert_allclose(found.covariance, neighbours(wanted), **NEAR)
    assert_allclose(series_log_likelihood(model, np.full((6, 4), NAN)), 0.0, atol=1e-12)


def test_likelihoods_of_rows_add_up(model, y, inputs):
    rows = filter_states(model, y, inputs=inputs).log_likelihood
    assert_allclose(rows.sum(), series_log_likelihood(model, y, inputs=inputs), **NEAR)


def test_at_the_end_the_filter_knows_what_the_smoother_knows(model, y, inputs):
    ends = np.cumsum([len(rows) for rows in y]) - 1
    late, whole = filter_states(model, y, inputs=inputs).filtered, smooth(model, y, inputs=inputs)
    assert_allclose(late.mean[ends], whole.mean[ends], **NEAR)
    assert_allclose(late.covariance[ends], whole.covariance[ends], **NEAR)


def test_sequences_know_nothing_of_each_other(model, y, inputs):
    whole = smooth(model, y, inputs=inputs)
    given = [None] * len(y) if inputs is None else inputs
    alone = [smooth(model, rows, inputs=u) for rows, u in zip(y, given, strict=True)]
    for name in ("mean", "covariance", "lag_one"):
        assert_allclose(getattr(whole, name), np.concatenate([getattr(each, name) for each in alone]), **NEAR)


@pytest.mark.parametrize(
    ("u", "inputs", "message"),
    [
        (0, np.ones((3, 1)), "the model has 0 inputs; got 1"),
        (2, None, "the model has 2 inputs; got 0"),
        (2, np.ones((3, 1)), "the model has 2 inputs; got 1"),
    ],
)
def test_inputs_must_be_those_of_the_model(rng, u, inputs, message):
    model = random_system(rng, 4, 2, inputs=u)
    for ask in (smooth, filter_states, series_log_likelihood):
        with pytest.raises(ShapeError, match=message):
            ask(model, np.ones((3, 4)), inputs=inputs)


# Both forms, and noise of any size


def rescaled(system, process=1.0, noise=1.0, initial=1.0):
    """The same system with its variances multiplied."""
    return replace(
        system,
        process_noise=process * system.process_noise,
        initial=replace(system.initial, covariance=initial * system.initial.covariance),
        emission=replace(system.emission, noise_variance=noise * system.emission.noise_variance),
    )


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("initial", [1.0, 1e6, 1e-6])
@pytest.mark.parametrize("noise", [1.0, 1e-6, 1e-12])
@pytest.mark.parametrize("process", [1.0, 1e-4, 1e-8, 1e-12])
def test_the_banded_form_agrees_with_the_recursion_or_steps_aside(rng, process, noise, initial, share):
    system = rescaled(random_system(rng, 6, 3, radius=0.95), process, noise, initial)
    rows = as_sequences(punched(rng, sample_series(system, 200, rng=rng).rows, share))
    mean, blocks = smooth_filtered(system, rows, filter_rows(system, rows))
    whole = Trajectory.of(system, rows)
    if whole is None:
        assert max(process, noise, initial) > 1e3 * min(process, noise, initial)
        return
    near = 10 * np.finfo(float).eps * trajectory.WORST_CONDITION
    std = np.sqrt(np.diagonal(blocks.diagonal))
    assert (np.abs(whole.mean - mean) <= near * (std + np.abs(mean).max())).all()
    for found, wanted in zip(whole.covariances, blocks, strict=True):
        assert (np.abs(found - wanted).max(axis=(0, 1)) <= near * np.abs(blocks.diagonal).max(axis=(0, 1))).all()
    assert_allclose(whole.log_likelihood(), filter_states(system, rows).log_likelihood.sum(), rtol=near)


SINGULAR = {
    "tiny Q": lambda system: rescaled(system, process=1e-12),
    "tiny R": lambda system: rescaled(system, noise=1e-12),
    "tiny Q and R": lambda system: rescaled(system, process=1e-12, noise=1e-12),
    "Q of rank 1": lambda system: replace(system, process_noise=np.ones((3, 3))),
    "no Q": lambda system: rescaled(system, process=0.0),
    "known start": lambda system: rescaled(system, initial=0.0),
    "known for ever": lambda system: rescaled(system, process=0.0, initial=0.0),
}


@pytest.fixture(params=[*SINGULAR])
def singular(request, rng):
    return SINGULAR[request.param](random_system(rng, 4, 3))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_covariances_are_symmetric_and_have_no_negative_variance(rng, singular, share):
    y = punched(rng, sample_series(singular, 60, rng=rng).rows, share)
    states = filter_states(singular, y)
    for found in (smooth(singular, y).covariance, states.predicted.covariance, states.filtered.covariance):
        size = np.abs(found).max(axis=(1, 2))
        assert (np.abs(found - np.swapaxes(found, 1, 2)).max(axis=(1, 2)) <= 1e-12 * size).all()
        assert (np.linalg.eigvalsh(found)[:, 0] >= -1e-12 * size).all()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_row_more_never_adds_doubt(rng, singular, share):
    y = punched(rng, sample_series(singular, 60, rng=rng).rows, share)
    states = filter_states(singular, y)
    for more, less in ((states.filtered, states.predicted), (smooth(singular, y), states.filtered)):
        size = np.abs(less.covariance).max(axis=(1, 2))
        assert (np.linalg.eigvalsh(less.covariance - more.covariance)[:, 0] >= -1e-9 * size).all()


@pytest.mark.parametrize("u", [0, 1])
def test_without_noise_states_move_as_they_must(rng, u):
    model = rescaled(random_system(rng, 4, 2, inputs=u), process=0.0)
    given = rng.standard_normal((9, u)) if u else None
    y = punched(rng, sample_series(model, 9, rng=rng, inputs=given).rows, 0.3)
    pushes = given[:-1] @ model.input_loadings.T if u else 0.0
    for states in (smooth(model, y, inputs=given).mean, *sample_trajectories(model, y, 3, rng=rng, inputs=given)):
        assert_allclose(states[1:], states[:-1] @ model.transition.T + pushes, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("steps", [5, 20, 40, 200])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_without_noise_all_rows_are_a_regression_on_the_start(rng, steps, share):
    system = rescaled(random_system(rng, 3, 2), process=0.0)
    model = replace(system, transition=np.array([[0.9, 0.1], [0.0, 0.3]]))
    y = punched(rng, sample_series(model, steps, rng=rng).rows, share)
    moves = np.stack([np.linalg.matrix_power(model.transition, t) for t in range(steps)])
    design, seen = (model.emission.loadings @ moves).reshape(-1, 2), ~np.isnan(y).ravel()
    weighted = design[seen].T / np.tile(model.emission.noise_variance, steps)[seen]
    prior = np.linalg.inv(model.initial.covariance)
    doubt = np.linalg.inv(prior + weighted @ design[seen])
    rest = (y - model.emission.mean).ravel()[seen]
    start = doubt @ (prior @ model.initial.mean + weighted @ rest)
    found = smooth(model, y)
    assert_allclose(found.mean, moves @ start, **NEAR)
    assert_allclose(found.covariance, moves @ doubt @ np.swapaxes(moves, 1, 2), **NEAR)


# Digits: what rounding of the data themselves leaves is what must be right

HOLES = {
    "complete": [],
    "few": [(0, 1), (2, 0), (2, 1)],
    "one sensor": [(t, 1) for t in range(4)],
}
AXIS = np.diag([1.0, 0.0])
TROUBLE = {
    "well": (1.0, 1.0, 1.0),
    "tiny R": (1.0, 1e-12, 1.0),
    "small R, vague start": (1.0, 1e-6, 1e6),
    "tiny R, vague start": (1.0, 1e-12, 1e6),
    "tiny Q": (1e-12, 1.0, 1.0),
    "tiny Q and R": (1e-12, 1e-12, 1.0),
    "tiny Q, small R, vague start": (1e-12, 1e-6, 1e6),
    "no Q": (0.0, 1.0, 1.0),
    "no Q, tiny R": (0.0, 1e-12, 1.0),
    "known start, tiny R": (1.0, 1e-12, 0.0),
    "one direction, tiny R": (AXIS, 1e-12, 1.0),
    "one direction, known start, tiny R": (AXIS, 1e-12, 0.0),
}


@pytest.fixture(params=TROUBLE.values(), ids=TROUBLE)
def trouble(request, rng):
    process, noise, initial = request.param
    system = random_system(rng, 2, 2)
    if np.ndim(process):
        system, process = replace(system, process_noise=process), 1.0
    return rescaled(system, process, noise, initial)


@pytest.fixture(params=["complete", "few", "one sensor"])
def holed(request, rng, trouble):
    y = sample_series(trouble, 4, rng=rng).rows
    for cell in HOLES[request.param]:
        y[cell] = NAN
    return y


def rounding(model, y):
    """What one rounding of a row is, in units of the noise."""
    return np.finfo(float).eps * np.nanmax(np.abs(y)) / np.sqrt(model.emission.noise_variance.min())


def test_states_are_right_in_extended_precision(trouble, holed):
    wanted, found = precise_series(trouble, holed), smooth(trouble, holed)
    size = np.abs(neighbours(wanted)).max(axis=(1, 2))
    assert (np.abs(found.covariance - neighbours(wanted)).max(axis=(1, 2)) <= 1e-8 * size).all()
    sizes = np.sqrt(size[:-1] * size[1:])
    assert (np.abs(found.lag_one - neighbours(wanted, 1)).max(axis=(1, 2))[:-1] <= 1e-8 * sizes).all()
    assert_allclose(found.mean, wanted.mean, rtol=1e-8, atol=1e-10 * np.abs(wanted.mean).max())
    error = np.abs(found.mean - wanted.mean).max(axis=1)
    assert (error <= (1e-8 + 100 * rounding(trouble, holed)) * np.sqrt(size) + 1e-15 * np.abs(wanted.mean).max()).all()


def test_likelihoods_are_right_in_extended_precision(trouble, holed):
    wanted = precise_series(trouble, holed).log_likelihood
    near = {"rtol": 1e-9, "atol": 1e-9 + 100 * rounding(trouble, holed)}
    assert_allclose(series_log_likelihood(trouble, holed), wanted, **near)
    assert_allclose(filter_states(trouble, holed).log_likelihood.sum(), wanted, **near)


# Long series


def assert_same_states(found, wanted, near=1e-10):
    for name in ("predicted", "filtered"):
        a, b = getattr(found, name), getattr(wanted, name)
        assert (np.abs(a.mean - b.mean) <= near * (b.std + np.abs(b.mean).max())).all(), name
        spread = b.std[:, :, None] * b.std[:, None]
        assert (np.abs(a.covariance - b.covariance) <= near * spread).all(), name
    assert_allclose(found.log_likelihood, wanted.log_likelihood, rtol=near, atol=near)
    assert_allclose(found.distance, wanted.distance, rtol=near, atol=near)


def long_series(rng, model, inputs=None):
    """Sequences of different lengths with a gap, a stretch without one feature, and scattered holes."""
    y = [
        sample_series(model, n, rng=rng, inputs=inputs[k] if inputs else None).rows
        for k, n in enumerate((300, 1, 220, 260))
    ]
    y[0][120:150] = NAN
    y[2][60:140, 0] = NAN
    y[3][200:] = punched(rng, y[3][200:], 0.1)
    return y


def steps_taken(monkeypatch):
    """Count the steps that the filter does one by one."""
    taken, step = [], recursion._Walk.step
    monkeypatch.setattr(recursion._Walk, "step", lambda walk, t: (taken.append(t), step(walk, t)))
    return taken


@pytest.mark.parametrize("u", [0, 2])
@pytest.mark.parametrize(("d", "q"), [(4, 2), (1, 3), (1, 1)])
def test_steady_states_are_quicker_and_nothing_else(rng, monkeypatch, d, q, u):
    model = random_system(rng, d, q, inputs=u)
    given = [rng.standard_normal((n, u)) for n in (300, 1, 220, 260)] if u else None
    y = long_series(rng, model, given)
    taken = steps_taken(monkeypatch)
    found = filter_states(model, y, inputs=given)
    assert len(taken) < 300
    monkeypatch.setattr(recursion, "STEADY_STATE", recursion.SteadyState(least_steps=10**9))
    taken.clear()
    wanted = filter_states(model, y, inputs=given)
    assert len(taken) == 300
    assert_same_states(found, wanted)


@pytest.mark.parametrize("u", [0, 2])
@pytest.mark.parametrize("noise", [1.0, 1e-6])
def test_long_series_are_filtered_as_they_are_smoothed(rng, noise, u):
    model = rescaled(random_system(rng, 4, 2, inputs=u), noise=noise)
    given = [rng.standard_normal((n, u)) for n in (300, 1, 220, 260)] if u else None
    y = long_series(rng, model, given)
    rows, whole = filter_states(model, y, inputs=given), smooth(model, y, inputs=given)
    ends = np.cumsum([300, 1, 220, 260]) - 1
    assert_allclose(rows.filtered.mean[ends], whole.mean[ends], **NEAR)
    assert_allclose(rows.log_likelihood.sum(), series_log_likelihood(model, y, inputs=given), rtol=1e-10)


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-5, 1e-7])
def test_steady_states_do_not_depend_on_the_units_of_the_state(rng, monkeypatch, unit):
    emission = LinearGaussian(np.zeros(2), np.eye(2), np.array([1.0, 400.0]))
    model = StateSpace(Gaussian(np.zeros(2), np.diag([1.0, 50.0])), np.diag([0.5, 0.99]), np.eye(2), emission)
    y = sample_series(model, 500, rng=rng).rows
    monkeypatch.setattr(recursion, "STEADY_STATE", recursion.SteadyState(least_steps=10**9))
    wanted = filter_states(model, y)
    monkeypatch.undo()
    found = filter_states(model.change_basis(np.diag([1.0, unit])), y)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, rtol=1e-9, atol=1e-9)
    assert_allclose(found.filtered.std, wanted.filtered.std * [1.0, unit], rtol=1e-9)


@pytest.mark.parametrize("noise", [1.0, 1e-6, 1e-12])
@pytest.mark.parametrize("d", [1, 3])
def test_steady_states_of_tiny_noise_are_right_too(rng, monkeypatch, d, noise):
    model = rescaled(random_system(rng, d, 2), noise=noise)
    y = sample_series(model, 300, rng=rng).rows
    y[100:150] = NAN
    found = filter_states(model, y)
    monkeypatch.setattr(recursion, "STEADY_STATE", recursion.SteadyState(least_steps=10**9))
    assert_same_states(found, filter_states(model, y), near=1e-10 + 100 * rounding(model, y))


def last_state(model, y):
    return kalman.last_states(model, as_sequences(y))


def draw(model, y):
    return sample_trajectories(model, y, 3, rng=np.random.default_rng(0))


@pytest.mark.parametrize("u", [0, 2])
@pytest.mark.parametrize("steps", [7, 50, 10**6])
def test_the_likelihood_does_not_depend_on_the_size_of_a_piece(rng, steps, u):
    model = random_system(rng, 4, 2, inputs=u)
    given = [rng.standard_normal((n, u)) for n in (90, 3, 5, 31)] if u else None
    y = [punched(rng, rng.standard_normal((n, 4)), 0.2) for n in (90, 3, 5, 31)]
    wanted = filter_states(model, y, inputs=given).log_likelihood.sum()
    assert_allclose(series_log_likelihood(model, y, inputs=given, piece_steps=steps), wanted, rtol=1e-11)


@pytest.mark.parametrize("question", [series_log_likelihood, smooth, last_state, draw], ids=lambda f: f.__name__)
def test_every_stretch_of_a_long_series_is_factored_once(rng, monkeypatch, question):
    model = random_system(rng, 3, 2)
    factored = []
    factor = BlockTridiagonal.factor
    monkeypatch.setattr(BlockTridiagonal, "factor", lambda *blocks: (factored.append(blocks), factor(*blocks))[1])
    question(model, rng.standard_normal((100, 3)))
    assert len(factored) == 1
    factored.clear()
    series_log_likelihood(model, rng.standard_normal((100, 3)), piece_steps=20)
    assert len(factored) == 5


@pytest.mark.parametrize("process", [1.0, 1e-12], ids=["banded", "recursion"])
def test_one_step_of_em_finds_the_states_once(rng, monkeypatch, process):
    model = rescaled(random_system(rng, 3, 2), process=process)
    found = []
    for kind in (Trajectory, recursion.FilteredTrajectory):
        of = kind.of
        monkeypatch.setattr(kind, "of", lambda m, y, of=of: (found.append(of(m, y)), found[-1])[1])
    expect_series(model, as_sequences(rng.standard_normal((60, 3))))
    assert len([one for one in found if one is not None]) == 1


def test_pieces_of_ill_conditioned_series_add_up(rng):
    model = rescaled(random_system(rng, 4, 2), process=1e-12)
    y = punched(rng, sample_series(model, 150, rng=rng).rows, 0.2)
    wanted = filter_states(model, y).log_likelihood.sum()
    assert_allclose(series_log_likelihood(model, y, piece_steps=11), wanted, rtol=1e-10)


# Symmetries


def started_late(model):
    """The system as it is after a long time."""
    return replace(model, initial=model.stationary())


@pytest.mark.usefixtures("form")
def test_what_a_long_silence_parts_is_independent(rng):
    model = started_late(random_system(rng, 4, 2, radius=0.5))
    parts = [punched(rng, model.emission.mean + rng.standard_normal((n, 4)), 0.2) for n in (9, 14)]
    whole = np.vstack([parts[0], np.full((60, 4), NAN), parts[1]])
    assert_allclose(series_log_likelihood(model, whole), series_log_likelihood(model, parts), **NEAR)
    assert_allclose(smooth(model, whole).mean[-14:], smooth(model, parts).mean[-14:], **NEAR)


@pytest.mark.usefixtures("form")
def test_one_stationary_state_does_not_know_the_direction_of_time(rng):
    model = started_late(random_system(rng, 4, 1))
    y = punched(rng, model.emission.mean + rng.standard_normal((30, 4)), 0.3)
    assert_allclose(series_log_likelihood(model, y[::-1]), series_log_likelihood(model, y), **NEAR)
    assert_allclose(smooth(model, y[::-1]).mean[::-1], smooth(model, y).mean, **NEAR)


@pytest.mark.usefixtures("form")
def test_the_order_of_features_is_nobodys_business(model, y, inputs, rng):
    order = rng.permutation(model.n_features)
    told = replace(model, emission=model.emission.restrict(order))
    moved = [rows[:, order] for rows in y]
    found, wanted = smooth(told, moved, inputs=inputs), smooth(model, y, inputs=inputs)
    for name in ("mean", "covariance", "lag_one"):
        assert_allclose(getattr(found, name), getattr(wanted, name), **NEAR)
    likelihoods = series_log_likelihood(told, moved, inputs=inputs), series_log_likelihood(model, y, inputs=inputs)
    assert_allclose(*likelihoods, **NEAR)


@pytest.mark.usefixtures("form")
def test_units_of_features_move_the_likelihood_by_their_logarithm(model, y, inputs, rng):
    scale = rng.uniform(0.01, 100.0, model.n_features)
    told = replace(model, emission=model.emission.rescale(scale))
    shift = sum((~np.isnan(rows) * np.log(scale)).sum() for rows in y)
    found = series_log_likelihood(told, [scale * rows for rows in y], inputs=inputs)
    assert_allclose(found + shift, series_log_likelihood(model, y, inputs=inputs), **NEAR)


@pytest.mark.usefixtures("form")
def test_a_shift_of_all_rows_and_of_the_mean_is_not_seen(rng):
    model = random_system(rng, 4, 2)
    y = punched(rng, model.emission.mean + rng.standard_normal((20, 4)), 0.3)
    shift = 1e4 * rng.standard_normal(4)
    told = replace(model, emission=replace(model.emission, mean=model.emission.mean + shift))
    assert_allclose(series_log_likelihood(told, y + shift), series_log_likelihood(model, y), rtol=1e-8)
    assert_allclose(smooth(told, y + shift).mean, smooth(model, y).mean, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("steps", "d"), [(20, 4), (20, 1), (1, 4), (1, 1)])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_rows_are_not_written_to(rng, steps, d, share):
    model = random_system(rng, d, 2)
    y = punched(rng, rng.standard_normal((steps, d)), share)
    before = y.copy()
    for ask in (smooth, filter_states, series_log_likelihood):
        ask(model, y)
        assert_array_equal(y, before)


# Trajectories


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("u", [0, 1])
def test_drawn_trajectories_have_the_joint_distribution_of_all_states(rng, u):
    model = random_system(rng, 3, 2, inputs=u)
    y = punched(rng, model.emission.mean + rng.standard_normal((5, 3)), 0.4)
    given = rng.standard_normal((5, u)) if u else None
    draws = sample_trajectories(model, y, DRAWS, rng=rng, inputs=given)
    assert draws.shape == (DRAWS, 5, 2)
    wanted = dense_series(model, y, given)
    assert_moments_match(draws.reshape(DRAWS, -1), wanted.mean.ravel(), wanted.covariance.reshape(10, 10))


@pytest.mark.usefixtures("form")
def test_trajectories_of_two_sequences_are_drawn_apart(rng):
    model = random_system(rng, 3, 2)
    y = [punched(rng, rng.standard_normal((n, 3)), 0.4) for n in (2, 3)]
    wanted = dense_of_each(model, y, None)
    joint = np.zeros((10, 10))
    joint[:4, :4], joint[4:, 4:] = (each.covariance.reshape(each.mean.size, -1) for each in wanted)
    draws = sample_trajectories(model, y, DRAWS, rng=rng).reshape(DRAWS, -1)
    assert_moments_match(draws, np.concatenate([each.mean.ravel() for each in wanted]), joint)


def test_trajectories_are_drawn_where_a_state_is_known_for_certain(rng):
    model = replace(random_system(rng, 3, 2), process_noise=np.diag([0.4, 0.0]))
    y = punched(rng, model.emission.mean + rng.standard_normal((4, 3)), 0.4)
    wanted = dense_series(model, y)
    draws = sample_trajectories(model, y, DRAWS, rng=rng).reshape(DRAWS, -1)
    assert_moments_match(draws, wanted.mean.ravel(), wanted.covariance.reshape(8, 8))


def test_the_same_generator_draws_the_same_trajectories(rng):
    model = replace(random_system(rng, 3, 2), initial=Gaussian(np.zeros(2), random_covariance(rng, 2)))
    y = rng.standard_normal((6, 3))
    first, again = (sample_trajectories(model, y, 2, rng=np.random.default_rng(1)) for _ in range(2))
    assert_array_equal(first, again)
    assert not np.allclose(first[0], first[1])
