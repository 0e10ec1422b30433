"""Own components of a feature are the unobserved components of statsmodels, with the same starts."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probpca.inference import filter_states, forecast
from probpca.models.components import OwnComponents, assemble

CASES = {
    "level": ({"level": "local level"}, [0.5, 0.3], OwnComponents("level", 0.5, level=0.3)),
    "drift": ({"level": "random walk with drift"}, [0.3], OwnComponents("drift", 1e-12, level=0.3)),
    "slope": (
        {"level": "local linear trend"},
        [0.5, 0.3, 0.02],
        OwnComponents("slope", 0.5, level=0.3, slope=0.02),
    ),
    "ar": (
        {"level": "fixed intercept", "autoregressive": 1},
        [0.3, 0.7],
        OwnComponents("ar", 1e-12, slope=0.3, damping=0.7),
    ),
    "season": (
        {"level": "local linear trend", "freq_seasonal": [{"period": 12, "harmonics": 6}]},
        [0.5, 0.3, 0.02, 0.01],
        OwnComponents("slope", 0.5, level=0.3, slope=0.02, season=0.01),
    ),
}


@pytest.fixture
def unobserved_components():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("statsmodels.tsa.statespace.structural").UnobservedComponents


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_likelihood_and_forecast_are_those_of_statsmodels(unobserved_components, case, gaps):
    options, parameters, own = CASES[case]
    y = np.cumsum(np.random.default_rng(0).standard_normal(90)) + 3 * np.sin(np.arange(90) * np.pi / 6)
    if gaps:
        y[[30, 31, 50]] = np.nan
    model = assemble([own], np.zeros(1), 12)
    peer = unobserved_components(y, **options)
    start, q = np.eye(peer.k_states), model.n_components  # the last frequency has a state there that nobody sees
    start[:q, :q] = model.initial.covariance
    peer.ssm.initialize_known(np.zeros(peer.k_states), start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = peer.smooth(parameters)
    burn = model.layout.unscored
    ours = filter_states(model, y[:, None]).log_likelihood
    assert_allclose(ours[burn:], found.llf_obs[burn:], rtol=1e-8, atol=1e-8)
    assert_allclose(ours.sum(), found.llf_obs[burn:].sum(), rtol=1e-8)
    ahead = found.get_forecast(12)
    [told] = forecast(model, y[:, None], 12)
    assert_allclose(told.mean[:, 0], np.asarray(ahead.predicted_mean), rtol=1e-7, atol=1e-7)
    assert_allclose(told.std[:, 0], np.asarray(ahead.se_mean), rtol=1e-6)
