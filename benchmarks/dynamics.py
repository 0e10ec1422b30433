"""Linear dynamical systems beside statsmodels, dynamax and pykalman: likelihood, smoother and EM.

``python benchmarks/dynamics.py`` needs statsmodels, dynamax (jax) and pykalman; it writes a table and the raw numbers
to docs/benchmarks. Contenders take turns in one process; numbers are the best of several rounds, after one that
compiles what has to be compiled. Likelihoods are compared before any time is believed. ``forecasts.py`` then judges
forecasts of real series. ``--update`` measures rows that arrive one at a time. ``--quick`` prints quick cases of ours
alone, and needs no other library.
"""

from __future__ import annotations

import argparse
import json
import time

import forecasts
import numpy as np
import quick
from complete import OUT
from scipy.linalg import solve_discrete_lyapunov

from probpca import LinearDynamicalSystem
from probpca.blocks import as_sequences
from probpca.inference import sample_series, series_log_likelihood, smooth
from probpca.learning.dynamics.em import SeriesEM
from probpca.learning.dynamics.structure import Structure
from probpca.models import Gaussian, LinearGaussian, StateSpace
from probpca.sources.engines.local import one_blas_thread

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
    from peers.state_space import dynamax_em, dynamax_filters, statsmodels_of  # noqa: PLC0415

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
            filtering, smoothing = dynamax_filters(model, y)
            agree([ours, float(filtering())])
            likelihood["dynamax, jitted"] = lambda: filtering().block_until_ready()
            smoothers["dynamax, jitted"] = lambda: smoothing().block_until_ready()
        found["likelihood"] = best(likelihood, rounds)
        found["smoother"] = best(smoothers, rounds)
    em = {"ours": our_em(model, ys)}
    if missing == 0 and d <= 100:
        peer = dynamax_em(model, ys, STEPS)
        start = time.perf_counter()
        peer()
        found["dynamax compiling"] = time.perf_counter() - start
        em["dynamax, jitted"] = peer
    found["EM"] = best(em, rounds)
    return found


def measure_pykalman(model, y):
    """One pass of pykalman's EM and its likelihood, once: it takes seconds."""
    from peers.state_space import pykalman_of  # noqa: PLC0415

    kf = pykalman_of(model)
    start = time.perf_counter()
    value = kf.loglikelihood(y)
    likelihood = time.perf_counter() - start
    agree([series_log_likelihood(model, y), float(value)])
    start = time.perf_counter()
    kf.em(y, n_iter=1, em_vars="all")
    return {"likelihood": likelihood, "EM step": time.perf_counter() - start}


def measure_update():
    """Microseconds of update() for a row of 10 features and 3 states, the median and the best of many."""
    found = {}
    for share in (0.0, 0.1):
        rows = data(system(10, 3), 3_000, 1, share)[0]
        fitted = LinearDynamicalSystem(3, random_state=0).fit(rows[:1_000])
        spent, states = [], []
        for row in rows[1_000:]:
            start = time.perf_counter()
            told = fitted.update(row)
            spent.append(time.perf_counter() - start)
            states.append(told.state_mean)
        wanted = fitted.filter(rows).filtered.mean[1_000:]
        apart = float(np.abs(np.array(states) - wanted).max() / np.abs(wanted).max())
        found[str(share)] = {"median": float(np.median(spent)), "best": min(spent), "apart": apart}
    return found


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
    for share, found in store.get("update", {}).items():
        told = "complete" if share == "0.0" else f"{100 * float(share):.0f} % of the cells missing"
        time_of_row = f"{1e6 * found['median']:.0f} us a row, at best {1e6 * found['best']:.0f}"
        reached = "yes" if found["median"] <= 100e-6 and found["apart"] <= 1e-12 else "**no**"
        equal = f"states of the filter of all rows to {found['apart']:.0e}"
        lines.append(
            f"| `update`, 10 features, 3 states, {told} | a row | {time_of_row} | {equal} | | 100 us | {reached} |"
        )
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
    parser.add_argument("--update", action="store_true", help="the time of update() alone")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--slow", action="store_true", help="the plain form of statsmodels where features are many")
    parser.add_argument("--quick", action="store_true", help="quick cases of ours alone, printed and not stored")
    options = parser.parse_args()
    if options.quick:
        quick.run("dynamics")
        return
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    if options.pykalman:
        model = system(10, 3)
        store["pykalman"] = measure_pykalman(model, data(model, 5_000, 1, 0.0)[0])
    elif options.update:
        store["update"] = measure_update()
    elif not options.report:
        for name in options.cases:
            for share in (0.0, 0.2):
                store[f"{name} {share}"] = measure(name, share, options.rounds, slow=options.slow)
                STORE.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
    STORE.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
    text = report(store)
    (OUT / "dynamics.md").write_text(text, encoding="utf-8")
    print(text)
    if not (options.pykalman or options.update):
        forecasts.main(["--report"] if options.report else [])


if __name__ == "__main__":
    main()
