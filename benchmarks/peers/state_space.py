"""State-space models of this library as those of statsmodels, dynamax and pykalman."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.linear_gaussian_ssm import LinearGaussianSSM, lgssm_filter, lgssm_smoother
from pykalman import KalmanFilter
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

jax.config.update("jax_enable_x64", True)


def statsmodels_of(model, y, *, collapsed=False):
    ks = KalmanSmoother(k_endog=model.n_features, k_states=model.n_components)
    offset = model.emission.mean  # which its collapsed form does not take
    ks.bind(np.asfortranarray((y - offset if collapsed else y).T))
    ks["design"] = model.emission.loadings
    if not collapsed:
        ks["obs_intercept"] = offset
    ks["obs_cov"] = np.diag(model.emission.noise_variance)
    ks["transition"], ks["selection"], ks["state_cov"] = (
        model.transition,
        np.eye(len(model.transition)),
        np.eye(len(model.transition)),
    )
    ks.initialize_known(model.initial.mean, model.initial.covariance)
    if collapsed:
        ks.filter_collapsed = True
    return ks


def dynamax_of(model):
    q, d = model.n_components, model.n_features
    ssm = LinearGaussianSSM(q, d, has_dynamics_bias=False, has_emissions_bias=True)
    params, props = ssm.initialize(
        jax.random.PRNGKey(0),
        initial_mean=jnp.array(model.initial.mean),
        initial_covariance=jnp.array(model.initial.covariance),
        dynamics_weights=jnp.array(model.transition),
        dynamics_covariance=jnp.array(model.process_noise),
        emission_weights=jnp.array(model.emission.loadings),
        emission_bias=jnp.array(model.emission.mean),
        emission_covariance=jnp.diag(jnp.array(model.emission.noise_variance)),
    )
    return ssm, params, props


def dynamax_filters(model, y):
    """Compiled functions that compute the log-likelihood and the smoothed means of one series."""
    _, params, _ = dynamax_of(model)
    emissions = jnp.array(y)
    filtering = jax.jit(lambda: lgssm_filter(params, emissions).marginal_loglik)
    smoothing = jax.jit(lambda: lgssm_smoother(params, emissions).smoothed_means)
    return filtering, smoothing


def dynamax_em(model, ys, steps):
    """EM as dynamax has it, each step compiled as a whole: it learns a full noise covariance."""
    ssm, start, props = dynamax_of(model)
    batch = jnp.array(ys)

    @jax.jit
    def step(params, state):
        stats, values = jax.vmap(partial(ssm.e_step, params))(batch)
        params, state = ssm.m_step(params, props, stats, state)
        return params, state, values.sum()

    def run():
        params, state = start, ssm.initialize_m_step_state(start, props)
        for _ in range(steps):
            params, state, value = step(params, state)
        return float(value)

    return run


def pykalman_of(model):
    return KalmanFilter(
        model.transition,
        model.emission.loadings,
        model.process_noise,
        np.diag(model.emission.noise_variance),
        None,
        model.emission.mean,
        model.initial.mean,
        model.initial.covariance,
    )
