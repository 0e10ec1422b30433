"""Tables with missing cells, side by side with the other implementations that accept them.

``python benchmarks/missing.py`` measures ours and every peer that has no result yet, and writes a table, a plot and
the raw numbers to docs/benchmarks. ``--case A`` is one case only; ``--peers none`` is ours alone; ``--peers a,b``
measures these peers again; ``--huge`` and ``--growth`` are the measurements that stand apart; ``--report`` only
writes the page; ``--quick`` prints quick cases of ours.
Each fit runs in a process of its own, the peers in environments of their own (benchmarks/peers).

One judge for all: the log-likelihood of the observed cells, by the plain function in benchmarks/peers/judge.py. The
gap is its distance to the best value seen, in nats a cell. A peer that lets us choose gets more and more iterations
until its gap is below 1e-5, or stands still, or ten minutes have passed; what counts is the shortest time.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import quick
from complete import OUT, PAUSE, best_of, peak_memory, seconds
from peers.judge import calibrated, log_likelihood
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from probpca import PPCA

HERE = Path(__file__).parent / "peers"
STORE = OUT / "missing.json"
ACCURATE, NEAR = 1e-5, 1e-4  # gaps in nats a cell
STILL = 1e-7  # a gain below this, at twice the effort, is none
LIMIT = 600  # seconds of one fit
SLOW = 60  # seconds from which on the least effort is looked for less closely
ROOM = 12 << 30  # bytes that a peer may ask for


@dataclass(frozen=True)
class Case:
    """One table of data."""

    n: int
    d: int
    q: int
    missing: float


CASES = {
    "A": Case(10_000, 100, 5, 0.2),
    "B": Case(200_000, 200, 10, 0.3),
    "C": Case(20_000, 2_000, 10, 0.97),
    "D": Case(480_000, 17_770, 15, 1 - 208 / 17_770),
    "E": Case(500, 20_000, 10, 0.1),
    "tiny": Case(300, 20, 2, 0.1),
}
MEASURED = ("A", "B", "C", "E")  # D stands apart, and tiny is for trying things out


@dataclass(frozen=True)
class Peer:
    """Another implementation."""

    runner: str
    package: str | None  # None: from R
    kind: str
    first: int = 4  # effort to begin with; 0 where there is no choice
    factor: int = 2  # from one effort to the next


PEERS = {
    "ppca-rs": Peer("run_ppca_rs.py", "ppca-rs==0.5.1", "exact EM"),
    "ppca-py": Peer("run_ppca_py.py", "ppca-py==1.0.4", "EM, mean of each column", 100, 10),
    "vbpca-py": Peer("run_vbpca_py.py", "vbpca-py==0.5.0", "exact EM with rotations"),
    "pyppca": Peer("run_pyppca.py", "pyppca==0.0.4", "factorized EM, axes", 0),
    "statsmodels": Peer("run_statsmodels.py", "statsmodels==0.15.0", "fills by PCA, axes"),
    "scikit-learn": Peer("run_scikit_learn.py", "scikit-learn==1.9.1", "IterativeImputer, axes", 1),
    "R ppca": Peer("run_pcamethods.R", None, "factorized EM, axes"),
    "R bpca": Peer("run_pcamethods.R", None, "variational Bayes, axes"),
}


def table(case):
    """Loadings of falling length, noise of deviation 0.5, far from zero; cells missing completely at random."""
    rng = np.random.default_rng(0)
    n, d, q = case.n, case.d, case.q
    loadings = rng.standard_normal((d, q)) * np.linspace(2, 0.7, q)
    x = rng.standard_normal((n, q)) @ loadings.T
    x += 3 * rng.standard_normal(d)
    x += 0.5 * rng.standard_normal((n, d))
    x[rng.random((n, d)) < case.missing] = np.nan
    return x


def stored(x):
    """The same table as CSR that stores the observed cells."""
    rows, columns = np.nonzero(~np.isnan(x))
    return sparse.csr_matrix((x[rows, columns], (rows, columns)), shape=x.shape)


def ratings(case, per_row=208, chunk=5_000):
    """Float32 ratings of a rank-q model with noise, generated in chunks of rows."""
    rng = np.random.default_rng(0)
    n, d, q = case.n, case.d, case.q
    loadings = (0.3 * rng.standard_normal((d, q))).astype(np.float32)
    mean = (3.5 + 0.5 * rng.standard_normal(d)).astype(np.float32)
    values = np.empty((n, per_row), dtype=np.float32)
    columns = np.empty((n, per_row), dtype=np.int32)
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        m = rows.stop - start
        # Sorted draws, moved apart by one each: sorted columns, none twice.
        picked = np.sort(rng.integers(d - per_row + 1, size=(m, per_row)), axis=1) + np.arange(per_row)
        scores = rng.standard_normal((m, q), dtype=np.float32)
        values[rows] = np.matmul(loadings[picked], scores[:, :, None])[:, :, 0] + mean[picked]
        values[rows] += 0.9 * rng.standard_normal((m, per_row), dtype=np.float32)
        columns[rows] = picked
    starts = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    return sparse.csr_matrix((values.ravel(), columns.ravel(), starts), shape=(n, d))


def measure(name, rounds):
    """Ours on one table: time, value, memory; the value at a tight tolerance; the time of one iteration for B."""
    case = CASES[name]
    x = table(case)
    observed = int(np.count_nonzero(~np.isnan(x)))
    inputs = {"probpca": (x, {}), "probpca, tol 1e-5 a cell": (x, {"tol": ACCURATE * observed})}
    if name == "C":
        inputs["probpca, CSR"] = (stored(x), {"missing": "unstored"})
    lines = {}
    for kind, (rows, options) in inputs.items():
        fitted = []
        memory = peak_memory(lambda rows=rows, options=options: fitted.append(fit(rows, case.q, **options)))  # noqa: B023
        times = [timed(rows, case.q, **options)[0] for _ in range(rounds)]
        lines[kind] = {
            "seconds": min(times),
            "iterations": int(fitted[0].n_iter_),
            "value": value_of(fitted[0], x) / observed,
            "own value": float(fitted[0].log_likelihood_) / observed,
            "memory": memory,
        }
    best = value_of(fit(x, case.q, tol=1e-6), x) / observed
    result = {"observed": observed, "tight": best, "ours": lines}
    if name == "B":
        result["iteration"] = [one_iteration(x[:n], case.q, rounds) for n in (case.n, 20_000)]
    return result


def fit(x, q, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return PPCA(q, random_state=0, **options).fit(x)


def timed(x, q, **options):
    """Seconds of a fit, and its iterations."""
    time.sleep(PAUSE)
    start = time.perf_counter()
    model = fit(x, q, **options)
    return time.perf_counter() - start, int(model.n_iter_)


def value_of(model, x):
    return log_likelihood(x, model.mean_, model.loadings_, float(model.noise_variance_))


def slope(x, q, rounds, counts=(2, 6), **options):
    """Seconds of one more iteration: what a fit with more of them takes longer."""
    few, many = (min(timed(x, q, max_iter=k, tol=0.0, **options) for _ in range(rounds)) for k in counts)
    return (many[0] - few[0]) / (many[1] - few[1])


def one_iteration(x, q, rounds):
    """One iteration beside the two matrix products that it cannot do without."""
    rng = np.random.default_rng(0)
    n, d = x.shape
    seen = (~np.isnan(x)).astype(float)
    pairs = rng.standard_normal((d, q * (q + 1) // 2))
    moments = rng.standard_normal((n, (q + 1) * (q + 2) // 2))
    with threadpool_limits(2):
        products = best_of(lambda: seen @ pairs, 5) + best_of(lambda: seen.T @ moments, 5)
    return {"n": n, "seconds": slope(x, q, rounds), "products": products}


def measure_huge():
    """Ours on 100 million ratings: two iterations."""
    case = CASES["D"]
    x = ratings(case)
    size = (x.data.nbytes + x.indices.nbytes + x.indptr.nbytes) / 2**20
    options = {"missing": "unstored"}
    spent = []
    memory = peak_memory(lambda: spent.append(seconds(lambda: fit(x, case.q, max_iter=2, tol=0.0, **options))))
    one = slope(x, case.q, 1, (1, 2), **options)
    return {"observed": x.nnz, "seconds": spent[0], "iteration": one, "memory": memory, "size": size}


def measure_growth(rounds):
    """Seconds of one iteration along n, d, q and the share of observed cells; exponents, measured and in theory."""
    base = {"n": 20_000, "d": 200, "q": 10, "observed": 0.7}
    along = {
        "n": (10_000, 20_000, 40_000, 80_000),
        "d": (100, 200, 400, 800),
        "q": (5, 10, 20, 40),
        "observed": (0.1, 0.2, 0.4, 0.8),
    }
    result = []
    for name, values in along.items():
        points = [{**base, name: value} for value in values]
        times = [iteration_at(rounds, **point) for point in points]
        theory = [operations(**point) for point in points]
        exponents = {"exponent": exponent(values, times), "theory": exponent(values, theory)}
        result.append({"along": name, "values": values, "seconds": times, **exponents})
    return result


def iteration_at(rounds, n, d, q, observed):
    return slope(table(Case(n, d, q, 1 - observed)), q, rounds)


def operations(n, d, q, observed):
    return n * d * observed * q**2 + n * q**3 / 3 + d * q**3 / 3


def exponent(values, costs):
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


def check_judge():
    """The judge against dense normal densities, once."""
    case = CASES["tiny"]
    x = table(case)
    rng = np.random.default_rng(1)
    mean, loadings, noise = rng.standard_normal(case.d), rng.standard_normal((case.d, case.q)), 0.7
    covariance = loadings @ loadings.T + noise * np.eye(case.d)
    dense = 0.0
    for row, seen in zip(x, ~np.isnan(x), strict=True):
        dense += multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen])
    if not np.isclose(log_likelihood(x, mean, loadings, noise), dense, rtol=1e-12, atol=0):
        sys.exit("The judge disagrees with dense normal densities.")


def command(name):
    """How to start the runner of a peer; makes its environment if there is none. A string says why it cannot be."""
    peer = PEERS[name]
    if peer.package is None:
        rscript = shutil.which("Rscript")
        return [rscript, HERE / peer.runner, name.split()[1]] if rscript else "R not installed"
    home = HERE / ".venvs" / name
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        done = launch([python, "-m", "pip", "install", "--quiet", peer.package])
        if done.returncode:
            return f"{peer.package} cannot be installed"
        (home / "ready").touch()
    return [python, HERE / peer.runner]


def launch(words, **options):
    words = [str(word) for word in words]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)  # noqa: S603


def run_peer(name, case, x, options, best):
    """The trail of one peer: seconds and value at each effort that was tried, and why it ended."""
    start = command(name)
    if isinstance(start, str):
        return {"trail": [], "note": start}
    observed = np.count_nonzero(~np.isnan(x))
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "table.npy", Path(folder) / "model"
        np.save(path, x)

        def attempt(effort):
            words = [*start, path, case.q, effort, out]
            try:
                done = launch(words, timeout=LIMIT + 60, preexec_fn=limit_memory)
            except subprocess.TimeoutExpired:
                notes.append(f"effort {effort}: no model within {LIMIT // 60} minutes")
                return None
            if done.returncode:
                notes.append(f"effort {effort}: {(done.stderr.strip() or 'killed').splitlines()[-1][:100]}")
                return None
            point = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
            value = value_of_file(out.with_suffix(".bin"), point["noise_variance"], x, case.q)
            return {"effort": effort, **point, "value": value / observed}

        trail = search(attempt, PEERS[name], options.effort or PEERS[name].first, best)
        top = max((p["value"] for p in trail), default=best)
        for floor in (best - NEAR, min(best, top) - ACCURATE):
            if fastest(trail, floor):
                narrow(attempt, trail, floor, options.rounds)
        trail.sort(key=lambda p: p["effort"])
    return {"trail": trail, "note": "; ".join(notes)}


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))


def value_of_file(path, noise, x, q):
    d = x.shape[1]
    numbers = np.fromfile(path)
    mean, loadings = numbers[:d], numbers[d:].reshape(q, d).T
    if noise is None:
        loadings, noise = calibrated(x, mean, loadings)
    return log_likelihood(x, mean, loadings, noise)


def search(attempt, peer, effort, best):
    """Raise the effort until the model is accurate or stands still."""
    trail = []
    while point := attempt(effort):
        trail.append(point)
        print(f"  effort {effort}: {point['seconds']:.3f} s, {point['value']:.7f} nats a cell", flush=True)
        still = len(trail) > 1 and trail[-1]["value"] - trail[-2]["value"] < STILL
        allowed = min(peer.factor, 0.95 * LIMIT / point["seconds"])
        if effort == 0 or still or point["value"] > best - ACCURATE or int(effort * allowed) <= 1.1 * effort:
            break
        effort = int(effort * allowed)
    return trail


def narrow(attempt, trail, floor, rounds):
    """Look for the least effort that lifts the value above the floor, and time it as the best of several rounds."""
    for _ in range(3 if fastest(trail, floor)["seconds"] < SLOW else 1):
        reached = fastest(trail, floor)
        below = [p["effort"] for p in trail if p["effort"] < reached["effort"]]
        middle = int(np.sqrt(max(below, default=1) * reached["effort"]))
        if reached["effort"] == 0 or middle in below or not (point := attempt(middle)):
            break
        trail.append(point)
    reached = fastest(trail, floor)
    for _ in range(rounds - 1):
        if reached["seconds"] < 20 and (again := attempt(reached["effort"])):
            reached["seconds"] = min(reached["seconds"], again["seconds"])


def fastest(trail, floor):
    """The fastest model whose value is above the floor."""
    above = [p for p in trail if p["value"] > floor and p["seconds"] <= LIMIT]
    return min(above, key=lambda p: p["seconds"], default=None)


def at_its_best(trail):
    """The fastest model that is hardly worse than the best of the same peer."""
    return fastest(trail, max((p["value"] for p in trail), default=0) - ACCURATE)


def best_value(record):
    """The greatest log-likelihood that anyone has reached, in nats a cell; infinite if nobody has tried."""
    values = [p["value"] for peer in record.get("peers", {}).values() for p in peer["trail"]]
    values += [line["value"] for line in record.get("ours", {}).values()]
    return max([*values, *([record["tight"]] if "tight" in record else [])], default=np.inf)


def title(name):
    case = CASES[name]
    return f"{name}: {case.n:,} x {case.d:,}, q {case.q}, {100 * case.missing:.3g} % missing"


def report(store):
    """The page of the docs."""
    lines = [
        "Seconds to a model whose log-likelihood of the observed cells is within 1e-4 and within 1e-5 nats a cell of",
        "the best value seen, and to the best that the solver can do, to within 1e-5. Ours has its default tolerance,",
        "a thousandth of a nat for the whole table, and the one that is asked for here; the peers the fewest",
        "iterations that suffice. Gap, iterations and memory (the peak above the input) are those of that best.",
        "*Axes*: the peer gives no likelihood model, and is judged by the best one with its mean and axes.",
        "",
        "| data | solver | within 1e-4 | within 1e-5 | its best | gap | iterations | memory MB | remark |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in MEASURED:
        if name in store:
            lines += case_lines(name, store[name])
    lines += ["", "| goal | measured | reached |", "|---|---|---|"]
    for text, measured, reached in goals(store):
        lines.append(f"| {text} | {measured} | {'yes' if reached else '**no**'} |")
    if "growth" in store:
        lines += ["", "Seconds of one iteration grow like a power of", ""]
        lines += ["| quantity | values | seconds | exponent | in theory |", "|---|---|---|---|---|"]
    for row in store.get("growth", []):
        values, times = (", ".join(f"{v:.3g}" for v in row[key]) for key in ("values", "seconds"))
        lines.append(f"| {row['along']} | {values} | {times} | {row['exponent']:.2f} | {row['theory']:.2f} |")
    return "\n".join(lines) + "\n"


def case_lines(name, record):
    best = best_value(record)
    contenders = {kind: ([line], "") for kind, line in record.get("ours", {}).items()}
    for peer, result in record.get("peers", {}).items():
        version = next((f" {p['version']}" for p in result["trail"]), "")
        contenders[peer + version] = (result["trail"], "; ".join(filter(None, [PEERS[peer].kind, result["note"]])))
    lines = []
    for contender, (trail, remark) in contenders.items():
        cells = [title(name) if not lines else "", contender]
        cells += [f"{p['seconds']:.3g}" if (p := fastest(trail, best - gap)) else "-" for gap in (NEAR, ACCURATE)]
        if point := at_its_best(trail):
            cells += [f"{point['seconds']:.3g}", f"{best - point['value']:.0e}"]
            cells += [str(point["iterations"] or ""), f"{point['memory']:.0f}"]
        else:
            cells += [""] * 4
        lines.append("| " + " | ".join([*cells, remark]) + " |")
    return lines


# Case, peer, how many times as fast, and how near to the optimum the peer must have come (R's never comes there).
RACES = (("A", "ppca-rs", 300, NEAR), ("C", "ppca-rs", 20, ACCURATE), ("E", "R ppca", 20, np.inf))


def goals(store):
    """What was set out to be reached, what was measured, and whether it is enough."""
    found = []
    for name, rival, factor, gap in RACES:
        if ratio := times_as_fast(store.get(name, {}), [rival], gap):
            found.append(
                (f"{name}: {factor} times as fast as {rival}", f"{ratio[0]}{ratio[1]:.0f}", ratio[1] >= factor)
            )
    if ratio := times_as_fast(store.get("A", {}), list(PEERS), NEAR):
        found.append(("A: faster than every peer within 1e-4", f"{ratio[0]}{ratio[1]:.1f}", ratio[1] > 1))
    if ratio := times_as_fast(store.get("B", {}), ["pyppca", "statsmodels"], np.inf):
        found.append(("B: 5 times as fast as the approximate peers", f"{ratio[0]}{ratio[1]:.1f}", ratio[1] >= 5))
    if "ours" in store.get("B", {}):
        steps = store["B"]["ours"]["probpca"]["iterations"]
        found.append(("B: fewer than 10 iterations", str(steps), steps < 10))
    for step, limit in zip(store.get("B", {}).get("iteration", []), (2, 3.5), strict=False):
        over = step["seconds"] / step["products"]
        text = f"B, {step['n']:,} rows: an iteration within {limit} times its matrix products"
        found.append((text, f"{over:.2f} ({step['seconds']:.3f} s)", over <= limit))
    for kind, line in store.get("C", {}).get("ours", {}).items():
        found.append((f"C, {kind}: peak memory below 1 GB", f"{line['memory']:.0f} MB", line["memory"] < 1000))
    if "D" in store:
        huge = store["D"]
        over = 1 + huge["memory"] / huge["size"]
        found += [
            (f"{title('D')}: an iteration under 40 s", f"{huge['iteration']:.1f} s", huge["iteration"] < 40),
            ("D: peak memory below 3 times the stored data", f"{over:.2f} with the data", over < 3),
        ]
    return found


def times_as_fast(record, rivals, gap):
    """How many times as fast as the fastest of these peers; "> " if none came within the gap in the longest run.

    An infinite gap takes each peer at its best, however good that is.
    """
    ours, peers = record.get("ours", {}), record.get("peers", {})
    trails = [peers[rival]["trail"] for rival in rivals if rival in peers]
    best = best_value(record)
    mine = [line["seconds"] for line in ours.values() if line["value"] > best - ACCURATE]
    if not mine or not trails:
        return None
    points = [at_its_best(trail) if gap == np.inf else fastest(trail, best - gap) for trail in trails]
    theirs = [point["seconds"] for point in points if point]
    longest = max((point["seconds"] for trail in trails for point in trail), default=0.0)
    return ("", min(theirs) / min(mine)) if theirs else ("> ", longest / min(mine))


def draw(store, path):
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown = [name for name in MEASURED if name in store]
    figure, axes = plt.subplots(1, len(shown), figsize=(4 * len(shown), 4.2), layout="constrained", sharey=True)
    colours = dict(zip(PEERS, plt.get_cmap("tab10").colors, strict=False))
    for ax, name in zip(np.atleast_1d(axes), shown, strict=True):
        best = best_value(store[name])
        for peer, result in store[name].get("peers", {}).items():
            trail = result["trail"]
            gaps = [max(best - p["value"], 1e-9) for p in trail]
            ax.loglog([p["seconds"] for p in trail], gaps, ".-", color=colours[peer], label=peer)
        for line in store[name].get("ours", {}).values():
            ax.loglog(line["seconds"], max(best - line["value"], 1e-9), "k*", markersize=12, label="probpca")
        ax.axhline(ACCURATE, color="0.6", linewidth=0.8)
        ax.set_title(title(name), fontsize=8)
        ax.set_xlabel("seconds")
        ax.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(axes)[0].set_ylabel("nats a cell below the best")
    handles = {h.get_label(): h for ax in np.atleast_1d(axes) for h in ax.get_lines() if h.get_label()[0] != "_"}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def load():
    return json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}


def save(store):
    if not store:
        return
    OUT.mkdir(parents=True, exist_ok=True)
    STORE.write_text(json.dumps(store, indent=1), encoding="utf-8")


def measure_case(name, options, store):
    """Ours in a fresh process, then the peers asked for; every result is kept as soon as it is there."""
    record = store.setdefault(name, {}) if name != "tiny" else {}
    if options.peers in {None, "none"}:
        record |= run_alone("--ours", name, "--rounds", str(options.rounds))
        line = record["ours"]["probpca"]
        print(f"{title(name)}: {line['seconds']:.3f} s, {line['iterations']} iterations", flush=True)
        save(store)
    known = record.setdefault("peers", {})
    asked = [peer for peer in PEERS if peer not in known] if options.peers is None else options.peers.split(",")
    x = table(CASES[name])
    for peer in asked if asked != ["none"] else []:
        print(f"{title(name)}: {peer}", flush=True)
        known[peer] = run_peer(peer, CASES[name], x, options, best_value(record))
        if known[peer]["note"]:
            print(f"  {known[peer]['note']}", flush=True)
        save(store)
    if name == "tiny":
        print("\n".join(case_lines(name, record)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=[*MEASURED, "tiny"], help="one case only")
    parser.add_argument("--peers", help=f"names from {', '.join(PEERS)}; or none, for ours alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--effort", type=int, help="iterations of a peer to begin with")
    parser.add_argument("--huge", action="store_true", help="100 million ratings, case D")
    parser.add_argument("--growth", action="store_true", help="the time of one iteration along n, d, q and the share")
    parser.add_argument("--report", action="store_true", help="only write the page from what is stored")
    parser.add_argument("--ours", help=argparse.SUPPRESS)  # in a process of its own: one case, D or growth
    parser.add_argument("--quick", action="store_true", help="quick cases of ours alone, printed and not stored")
    options = parser.parse_args()
    if options.quick:
        quick.run("missing")
        return
    if options.ours:
        print(json.dumps(measure_alone(options.ours, options.rounds)))
        return
    check_judge()
    store = load()
    if options.huge:
        store["D"] = run_alone("--ours", "D")
    elif options.growth:
        store["growth"] = run_alone("--ours", "growth", "--rounds", str(options.rounds))
    elif not options.report:
        for name in [options.case] if options.case else MEASURED:
            measure_case(name, options, store)
    if options.case == "tiny":
        return
    save(store)
    (OUT / "missing.md").write_text(report(store), encoding="utf-8")
    draw(store, OUT / "missing.png")


def measure_alone(name, rounds):
    x = table(CASES["tiny"])
    fit(x, 2)  # whatever is done once in a process
    if name in {"C", "D"}:
        fit(stored(x), 2, missing="unstored")
    if name == "D":
        return measure_huge()
    return measure_growth(rounds) if name == "growth" else measure(name, rounds)


def run_alone(*arguments):
    """Run this file again in a fresh process, so that no case inherits the memory of another."""
    done = launch([sys.executable, __file__, *arguments])
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
