"""Other Kalman filters agree where they are exact; some drop a whole time step for one silent sensor."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import dense_series, punched, random_system
from probpca.inference import filter_states, series_log_likelihood, smooth
from probpca.models import Gaussian, LinearGaussian, StateSpace

NEAR = {"rtol": 1e-8, "atol": 1e-8}


@pytest.fixture
def kalman_smoother():
    """The class, without what its imports warn about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("statsmodels.tsa.statespace.kalman_smoother")
    return module.KalmanSmoother


def asked(kalman_smoother, model, y):
    """All that statsmodels says about a series, the model given as it wants it."""
    d, q = model.n_features, model.n_components
    peer = kalman_smoother(k_endog=d, k_states=q, k_posdef=q)
    peer.bind(np.ascontiguousarray(y))
    peer["design"], peer["transition"], peer["selection"] = model.emission.loadings, model.transition, np.eye(q)
    peer["obs_intercept"] = model.emission.mean[:, None]
    peer["obs_cov"] = np.diag(np.broadcast_to(model.emission.noise_variance, (d,)))
    peer["state_cov"] = model.process_noise
    peer.initialize_known(model.initial.mean, model.initial.covariance)
    peer.loglikelihood_burn = 0
    return peer.smooth()


def assert_same_answers(found, model, y):
    smoothed, filtered = smooth(model, y), filter_states(model, y)
    assert_allclose(series_log_likelihood(model, y), found.llf_obs.sum(), rtol=1e-10)
    assert_allclose(filtered.log_likelihood, found.llf_obs, **NEAR)
    assert_allclose(filtered.predicted.mean, found.predicted_state.T[:-1], **NEAR)
    assert_allclose(filtered.filtered.mean, found.filtered_state.T, **NEAR)
    assert_allclose(filtered.filtered.covariance, found.filtered_state_cov.transpose(2, 0, 1), **NEAR)
    assert_allclose(smoothed.mean, found.smoothed_state.T, **NEAR)
    assert_allclose(smoothed.covariance, found.smoothed_state_cov.transpose(2, 0, 1), **NEAR)


@pytest.fixture
def nile():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = pytest.importorskip("statsmodels.datasets.nile").load_pandas().data
    return table["volume"].to_numpy(dtype=np.float64, copy=True)[:, None]


@pytest.mark.parametrize("gaps", [False, True])
def test_the_level_of_the_nile_is_that_of_statsmodels(kalman_smoother, nile, gaps):
    # Durbin & Koopman (2012), section 2: a random walk seen with noise; years 21-40 and 61-80 missing in 2.7.
    start = Gaussian([1000.0], [[1e5]])
    model = StateSpace(start, [[1.0]], [[1469.1]], LinearGaussian([0.0], [[1.0]], 15099.0))
    if gaps:
        nile[20:40], nile[60:80] = np.nan, np.nan
    assert_same_answers(asked(kalman_smoother, model, nile), model, nile)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("noise", [0.3, "diagonal"])
@pytest.mark.parametrize(("d", "q"), [(5, 2), (2, 4)])
def test_systems_of_any_shape_are_answered_as_by_statsmodels(rng, kalman_smoother, d, q, noise, share):
    model = random_system(rng, d, q, noise=noise)
    y = punched(rng, model.emission.mean + rng.standard_normal((60, d)), share)
    y[17] = y[18] = np.nan if share else 0.0
    assert_same_answers(asked(kalman_smoother, model, y), model, y)


def test_pykalman_drops_a_time_step_for_one_silent_sensor(rng):
    pykalman = pytest.importorskip("pykalman")
    model = random_system(rng, 3, 2)
    y = model.emission.mean + rng.standard_normal((6, 3))
    peer = pykalman.KalmanFilter(
        model.transition,
        model.emission.loadings,
        model.process_noise,
        np.diag(model.emission.noise_variance),
        np.zeros(2),
        model.emission.mean,
        model.initial.mean,
        model.initial.covariance,
    )
    assert_allclose(peer.smooth(y)[0], smooth(model, y).mean, **NEAR)
    y[3, 1] = np.nan
    exact = dense_series(model, y)
    assert_allclose(smooth(model, y).mean, exact.mean, **NEAR)
    theirs = peer.smooth(np.ma.masked_invalid(y))[0]
    assert np.abs(theirs - exact.mean).max() > 0.01
    dropped = y.copy()
    dropped[3] = np.nan
    assert_allclose(theirs, smooth(model, dropped).mean, **NEAR)


def centred(model):
    """The same system without an offset, which some peers do not know, and at the start of their time."""
    return StateSpace(
        model.initial,
        model.transition,
        model.process_noise,
        LinearGaussian(np.zeros(model.n_features), model.emission.loadings, model.emission.noise_variance),
    )


def test_simdkalman_drops_a_time_step_for_one_silent_sensor(rng):
    simdkalman = pytest.importorskip("simdkalman")
    model = centred(random_system(rng, 3, 2))
    y = rng.standard_normal((6, 3))
    peer = simdkalman.KalmanFilter(
        model.transition, model.process_noise, model.emission.loadings, np.diag(model.emission.noise_variance)
    )
    start = {"initial_value": model.initial.mean, "initial_covariance": model.initial.covariance}

    def theirs():
        return peer.smooth(y[None], **start).states.mean[0]

    assert_allclose(theirs(), smooth(model, y).mean, **NEAR)
    y[3, 1] = np.nan
    exact = dense_series(model, y)
    assert_allclose(smooth(model, y).mean, exact.mean, **NEAR)
    assert not np.abs(theirs() - exact.mean).max() < 0.01


def test_dynamax_has_no_answer_where_a_cell_is_missing(rng):
    pytest.importorskip("dynamax")
    jax = pytest.importorskip("jax")
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM, lgssm_smoother  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    model = random_system(rng, 3, 2)
    parameters, _ = LinearGaussianSSM(2, 3).initialize(
        jax.random.PRNGKey(0),
        initial_mean=jax.numpy.array(model.initial.mean),
        initial_covariance=jax.numpy.array(model.initial.covariance),
        dynamics_weights=jax.numpy.array(model.transition),
        dynamics_bias=jax.numpy.zeros(2),
        dynamics_covariance=jax.numpy.array(model.process_noise),
        emission_weights=jax.numpy.array(model.emission.loadings),
        emission_bias=jax.numpy.array(model.emission.mean),
        emission_covariance=jax.numpy.diag(jax.numpy.array(model.emission.noise_variance)),
    )
    y = model.emission.mean + rng.standard_normal((6, 3))
    theirs = lgssm_smoother(parameters, jax.numpy.array(y)).smoothed_means
    assert_allclose(theirs, smooth(model, y).mean, **NEAR)
    y[3, 1] = np.nan
    assert np.isnan(lgssm_smoother(parameters, jax.numpy.array(y)).smoothed_means).any()
    assert_allclose(smooth(model, y).mean, dense_series(model, y).mean, **NEAR)
