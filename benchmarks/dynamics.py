"""Linear dynamical systems beside statsmodels, dynamax and pykalman: likelihood, smoother and EM.

``python benchmarks/dynamics.py`` needs statsmodels, dynamax (jax) and pykalman; it writes a table and the raw numbers
to docs/benchmarks. Contenders take turns in one process; numbers are the best of several rounds, after one that
compiles what has to be compiled. Likelihoods are compared before any time is believed.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from complete import OUT
from dynamax.linear_gaussian_ssm import LinearGaussianSSM, lgssm_filter, lgssm_smoother
from pykalman import KalmanFilter
from scipy.linalg import solve_discrete_lyapunov
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

from probpca.blocks import as_sequences
from probpca.inference import sample_series, series_log_likelihood, smooth
from probpca.learning.dynamics.em import SeriesEM
from probpca.learning.dynamics.structure import Structure
from probpca.models import Gaussian, LinearGaussian, StateSpace
from probpca.sources.engines.local import one_blas_thread

jax.config.update("jax_enable_x64", True)
STORE = OUT / "dynamics.json"
STEPS = 20
GOALS = {  # times as fast as whom, complete and with missing cells
    "long": {
        "likelihood": ("statsmodels", 2, 5),
        "smoother": ("statsmodels", 8, 20),
        "EM": ("dynamax, jitted", 5, None),
    },
    "wide": {"likelihood": ("statsmodels", 20, 20), "smoother": ("statsmodels", 20, 20)},
    "many": {"EM": ("dynamax, jitted", 3, None)},
}
CASES = {
    "long": ("5,000 steps, 10 features, 3 states", 5_000, 10, 3, 1),
    "wide": ("1,000 steps, 500 features, 5 states", 1_000, 500, 5, 1),
    "many": ("1,000 sequences of 200 steps, 20 features, 4 states", 200, 20, 4, 1_000),
}


def system(d, q, seed=0):
    """A stationary system with rotations, and a noise variance for each feature."""
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.standard_normal((q, q)))[0] * np.linspace(0.95, 0.5, q)
    emission = LinearGaussian(rng.standard_normal(d), rng.standard_normal((d, q)), rng.uniform(0.5, 1.5, d))
    start = Gaussian(np.zeros(q), solve_discrete_lyapunov(A, np.eye(q)))
    return StateSpace(start, A, np.eye(q), emission)


def best(contenders, rounds, least=0.3):
    """Best time of each, in turns; quick ones are repeated until a round takes ``least`` seconds."""
    times = dict.fromkeys(contenders, np.inf)
    for _ in range(rounds):
        for name, work in contenders.items():
            spent = 0.0
            while spent < least:
                start = time.perf_counter()
                work()
                taken = time.perf_counter() - start
                times[name], spent = min(times[name], taken), spent + taken
    return times


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


def dynamax_em(model, ys):
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
        for _ in range(STEPS):
            params, state, value = step(params, state)
        return float(value)

    return run


def our_em(model, ys):
    start = StateSpace(model.initial, model.transition, model.process_noise, model.emission)

    def run():
        rows = as_sequences(list(ys) if len(ys) > 1 else ys[0])
        floors = np.full(model.n_features, 1e-12), 1e-6 * np.eye(model.n_components)
        em = SeriesEM(Structure(), *floors, None, len(ys) > 1)
        state = start
        with one_blas_thread():
            for _ in range(STEPS):
                state, value = em.step(state, rows)
        return value

    return run


def data(model, t, k, missing):
    rng = np.random.default_rng(1)
    ys = np.array([sample_series(model, t, rng=rng).rows for _ in range(k)])
    ys[rng.random(ys.shape) < missing] = np.nan
    return ys


def agree(values, tolerance=1e-8):
    first = values[0]
    for value in values[1:]:
        if abs(value - first) > tolerance * abs(first):
            msg = f"contenders disagree: {values}"
            raise RuntimeError(msg)


def measure(name, missing, rounds, *, slow=False):
    """All contenders on one case."""
    _, t, d, q, k = CASES[name]
    model = system(d, q)
    ys = data(model, t, k, missing)
    found = {}
    if k == 1:
        y = ys[0]
        wide = d > 100  # its plain form takes a minute and a half there
        name = "statsmodels, collapsed" if wide else "statsmodels"
        peers = {name: statsmodels_of(model, y, collapsed=wide)}
        if wide and slow:
            peers["statsmodels"] = statsmodels_of(model, y)
        ours = series_log_likelihood(model, y)
        agree([ours, *(float(ks.loglike()) for ks in peers.values())])
        likelihood = {"ours": lambda: series_log_likelihood(model, y)}
        likelihood |= {peer: ks.loglike for peer, ks in peers.items()}
        smoothers = {"ours": lambda: smooth(model, y)} | {peer: ks.smooth for peer, ks in peers.items()}
        if missing == 0 and d <= 100:
            _, params, _ = dynamax_of(model)
            emissions = jnp.array(y)
            filtering = jax.jit(lambda: lgssm_filter(params, emissions).marginal_loglik)
            smoothing = jax.jit(lambda: lgssm_smoother(params, emissions).smoothed_means)
            agree([ours, float(filtering())])
            likelihood["dynamax, jitted"] = lambda: filtering().block_until_ready()
            smoothers["dynamax, jitted"] = lambda: smoothing().block_until_ready()
        found["likelihood"] = best(likelihood, rounds)
        found["smoother"] = best(smoothers, rounds)
    em = {"ours": our_em(model, ys)}
    if missing == 0 and d <= 100:
        peer = dynamax_em(model, ys)
        start = time.perf_counter()
        peer()
        found["dynamax compiling"] = time.perf_counter() - start
        em["dynamax, jitted"] = peer
    found["EM"] = best(em, rounds)
    return found


def measure_pykalman(model, y):
    """One pass of pykalman's EM and its likelihood, once: it takes seconds."""
    kf = KalmanFilter(
        model.transition,
        model.emission.loadings,
        model.process_noise,
        np.diag(model.emission.noise_variance),
        None,
        model.emission.mean,
        model.initial.mean,
        model.initial.covariance,
    )
    start = time.perf_counter()
    value = kf.loglikelihood(y)
    likelihood = time.perf_counter() - start
    agree([series_log_likelihood(model, y), float(value)])
    start = time.perf_counter()
    kf.em(y, n_iter=1, em_vars="all")
    return {"likelihood": likelihood, "EM step": time.perf_counter() - start}


def report(store):
    """The table of the docs."""
    lines = ["| case | what | ours | peer | times as fast | goal | reached |", "|---|---|---|---|---|---|---|"]
    for name, (text, *_) in CASES.items():
        for share in (0.0, 0.2):
            found = store.get(f"{name} {share}", {})
            told = f"{text}{', 20 % missing' if share else ''}"
            for what in ("likelihood", "smoother", "EM"):
                rival, *goals = GOALS[name].get(what, ("", None, None))
                title = f"{STEPS} EM steps" if what == "EM" else what
                lines += rows_of(found.get(what, {}), told, title, rival, goals[1 if share else 0])
    if "long 0.0" in store:
        ratio = store["long 0.2"]["EM"]["ours"] / store["long 0.0"]["EM"]["ours"]
        reached = "yes" if ratio <= 2 else "**no**"
        lines.append(f"| EM with 20 % missing | beside complete | {ratio:.2f} times the time | | | 2 | {reached} |")
    if "pykalman" in store:
        p, ours = store["pykalman"], store["long 0.0"]
        times = p["likelihood"] / ours["likelihood"]["ours"], p["EM step"] * STEPS / ours["EM"]["ours"]
        lines += ["", f"pykalman, complete: likelihood {p['likelihood']:.1f} s ({times[0]:,.0f} times ours),"]
        lines += [f"one EM step {p['EM step']:.1f} s ({times[1]:,.0f} times ours)."]
    return "\n".join(lines) + "\n"


def rows_of(times, told, what, rival, goal):
    """A line for each peer; the goal is for one of them."""
    for peer, spent in times.items():
        if peer == "ours":
            continue
        ratio, counts = spent / times["ours"], goal is not None and peer == rival
        reached = ("yes" if ratio >= goal else "**no**") if counts else ""
        figures = f"{1e3 * times['ours']:.1f} ms | {peer}: {1e3 * spent:,.1f} ms | {ratio:,.1f}"
        yield f"| {told} | {what} | {figures} | {goal if counts else ''} | {reached} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", default=[*CASES])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pykalman", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--slow", action="store_true", help="the plain form of statsmodels where features are many")
    options = parser.parse_args()
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    if options.pykalman:
        model = system(10, 3)
        store["pykalman"] = measure_pykalman(model, data(model, 5_000, 1, 0.0)[0])
    elif not options.report:
        for name in options.cases:
            for share in (0.0, 0.2):
                store[f"{name} {share}"] = measure(name, share, options.rounds, slow=options.slow)
                STORE.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
    STORE.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
    text = report(store)
    (OUT / "dynamics.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
