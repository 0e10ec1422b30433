"""When to stop, and what those who watch are told."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import spiked_rows
from probpca.learning import Settings, Status, fit_ppca
from probpca.learning.loop import Monitor, StoppingRule, iterate
from probpca.sources import open_source


def geometric(rate, gap=100.0, limit=-7.0):
    """Values that approach ``limit``, the distance shrinking by ``rate`` a step."""
    k = 0
    while True:
        yield limit - gap * rate**k
        k += 1


def halving(state):
    return state / 2, -abs(state)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.99])
def test_the_estimate_is_exact_for_a_geometric_approach(rate):
    monitor, values = Monitor(1e-300, 100), geometric(rate)
    for k in range(8):
        monitor.record(next(values))
        if k >= 2:
            assert_allclose(monitor.remaining(), 100.0 * rate**k, rtol=1e-6)


def test_nothing_can_be_told_from_two_values():
    monitor = Monitor(1e9, 100)
    assert not monitor.record(1.0)
    assert not monitor.record(2.0)
    assert monitor.remaining() == np.inf


def test_a_gain_that_grows_is_no_sign_of_the_end():
    monitor = Monitor(1e9, 100)
    assert not any(monitor.record(value) for value in np.cumsum(1.5 ** np.arange(20)))


@pytest.mark.parametrize("rate", [0.9, 0.999])
def test_the_end_is_within_tol_however_slow_the_approach(rate):
    tol, limit = 1e-2, -7.0
    monitor = Monitor(tol, 10**6)
    for value in geometric(rate, limit=limit):
        if monitor.record(value):
            break
    last_gain = monitor.trace[-1] - monitor.trace[-2]
    assert limit - monitor.trace[-1] <= tol
    # The last gain alone would have stopped long before.
    first_small = int(np.argmax(np.diff(monitor.trace) < tol))
    assert limit - monitor.trace[first_small] > tol or rate < 0.99
    assert last_gain < tol


def test_one_small_estimate_is_not_enough():
    monitor = Monitor(1e-3, 100)
    stops = [monitor.record(value) for value in (0.0, 1.0, 1.0 + 1e-4, 2.0, 3.0, 4.0)]
    assert not any(stops)


def test_rounding_at_the_limit_stops():
    monitor = Monitor(0.1, 100)
    assert [monitor.record(5.0) for _ in range(3)] == [False, False, True]


def test_the_first_steps_end_it_only_if_a_slow_direction_hidden_in_them_has_nothing_to_give():
    hidden = StoppingRule().hidden
    slow = 1e-3 * (1 - hidden) / hidden  # a gain that promises 1e-3 nats at that rate
    for last, ended in ((1.01 * slow, False), (0.99 * slow, True)):
        monitor = Monitor(1e-3, 100)
        gains = (0.0, 1e3, 1.0, last)
        assert [monitor.record(value) for value in np.cumsum(gains)] == [False, False, False, ended]


def test_a_rate_that_was_seen_is_believed_however_small_the_gain():
    rate, gain = 0.999, 2e-5  # 0.02 nats still to come
    monitor = Monitor(1e-3, 100)
    assert not any(monitor.record(value) for value in np.cumsum([0.0, gain / rate**2, gain / rate, gain]))


def test_the_loop_says_when_it_ran_out_of_steps():
    ended = iterate(halving, 1.0, Monitor(1e-12, 5))
    assert ended.status is Status.MAX_ITER
    assert ended.state == 2.0**-5
    assert_allclose(ended.trace, -(2.0 ** -np.arange(6)))


def test_the_trace_ends_with_the_value_of_the_state_that_is_returned():
    ended = iterate(halving, 1.0, Monitor(1e-3, 100))
    assert ended.status is Status.CONVERGED
    assert ended.trace[-1] == -abs(ended.state)
    assert abs(ended.state) < 1e-3


@pytest.mark.parametrize("solver", ["em", "px_em", "em_zero_noise", "gradient"])
def test_who_watches_sees_every_step_in_order(rng, solver):
    seen = []
    x = spiked_rows(rng, 50, 6, 2)
    found = fit_ppca(open_source(x), 2, Settings(solver, 1e-3, 500, seen.append), rng)
    assert [progress.iteration for progress in seen] == list(range(len(found.trace)))
    assert [progress.log_likelihood for progress in seen] == list(found.trace)
    assert np.isfinite(found.trace).all()
    assert all(progress.remaining >= 0 and progress.max_iter == 500 for progress in seen)
    assert found.n_iter == len(found.trace) - 1


@pytest.mark.parametrize("solver", ["em", "px_em", "em_zero_noise", "gradient"])
def test_a_fit_that_ran_out_of_steps_says_so_and_is_kept(rng, solver):
    x = spiked_rows(rng, 50, 6, 2)
    found = fit_ppca(open_source(x), 2, Settings(solver, 1e-12, 3), rng)
    assert found.status is Status.MAX_ITER
    assert not found.status.converged
    assert found.n_iter == 3
    assert np.isfinite(found.log_likelihood)
