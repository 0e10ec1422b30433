"""Do criteria find the number of components? Simulated tables, so that the truth is known.

``python benchmarks/selection.py`` (some minutes on two cores) draws tables of 100 rows and 10 columns with three
components along random axes, the weakest ten or three times as strong as what can just be detected, noise the same in
all columns or not, complete or with a fifth of the cells missing, and counts how often each criterion chooses three,
beside scikit-learn's ``PCA(n_components="mle")`` and, where R has it, pcaMethods' ``kEstimate``. Other shapes are in
``benchmarks/defaults.py``. Then

- the table of Minka (2000): 100 rows, 10 columns, variances 10, 8, 6, 4, 2 and five times 1;
- the bias of the noise variance and of the eigenvalues with and without ``bias_correction``.

The tables go to docs/benchmarks/selection.md, the numbers to selection.json. ``--quick`` prints what the
criteria choose in some of the cases, four data sets each.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from probpca import PPCA, select_n_components

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
RUNNER = Path(__file__).parent / "peers" / "run_kestimate.R"
SHAPE = (100, 10)
STRENGTHS = {"strong": 10.0, "weak": 3.0}  # of the weakest component, in units of what can just be detected
SETS, R_SETS, MINKA_SETS, BIAS_SETS = 20, 20, 200, 300
Q = 3
OURS = ["parallel", "bic", "evidence", "cv", "ard", "gavish_donoho"]
MLE, KESTIMATE = "scikit-learn mle", "pcaMethods kEstimate"
BIAS_SHAPES = [(200, 100), (100, 200), (100, 20)]
SPIKES = np.array([20.0, 10.0, 5.0])


@dataclass(frozen=True)
class Case:
    """One kind of table."""

    strength: str
    even: bool  # is the noise the same in all columns?
    missing: bool

    @property
    def name(self):
        """How strong its components are."""
        return f"100 x 10, {self.strength}"


CASES = [Case(*one) for one in product(STRENGTHS, (True, False), (False, True))]


def table(case, seed):
    """Rows with three components four, two and one times as strong as the weakest."""
    rng = np.random.default_rng([seed, CASES.index(case)])
    n, d = SHAPE
    variances = STRENGTHS[case.strength] * np.sqrt(d / n) * np.array([4.0, 2.0, 1.0])
    axes = np.linalg.qr(rng.standard_normal((d, Q)))[0]
    noise = np.ones(d) if case.even else rng.permutation(np.geomspace(1 / 3, 3, d))
    noise *= d / noise.sum()
    x = (rng.standard_normal((n, Q)) * np.sqrt(variances)) @ axes.T + rng.standard_normal((n, d)) * np.sqrt(noise)
    return np.where(rng.random((n, d)) < 0.2, np.nan, x) if case.missing else x


def mle(x):
    """scikit-learn's choice; it has one where there are more rows than columns and no holes."""
    n, d = x.shape
    return {} if n < d or np.isnan(x).any() else {MLE: int(PCA(n_components="mle").fit(x).n_components_)}


def choices(x, seed):
    found = select_n_components(x, random_state=seed, n_jobs=1).choices
    return {name: found[name] for name in OURS if name in found} | mle(x)


def choices_of(case, seed):
    return choices(table(case, seed), seed)


def kestimate_of(case):
    """The choices of pcaMethods, or why there are none."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return "R is not installed"
    n, d = SHAPE
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "tables.npy", Path(folder) / "choices"
        np.save(path, np.vstack([table(case, seed) for seed in range(R_SETS)]))
        words = [rscript, str(RUNNER), str(path), str(n), str(d - 1), str(out)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            return f"pcaMethods did not run: {done.stderr.strip().splitlines()[-1]}"
        return [int(line) for line in out.read_text(encoding="utf-8").split() if int(line) > 0]


def minka_of(seed):
    """The example of Minka (2000), along random axes."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((100, 10)) * np.sqrt([10, 8, 6, 4, 2, 1, 1, 1, 1, 1])
    return choices(x @ np.linalg.qr(rng.standard_normal((10, 10)))[0], seed)


def bias_of(shape, seed):
    """Noise variance and variances of three components, as they are and freed of their bias."""
    n, d = shape
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x[:, : SPIKES.size] += rng.standard_normal((n, SPIKES.size)) * np.sqrt(SPIKES)
    fits = {flag: PPCA(SPIKES.size, bias_correction=flag, n_jobs=1).fit(x) for flag in (False, True)}
    return {flag: [fit.noise_variance_, *fit.explained_variance_] for flag, fit in fits.items()}


def counted(results, truth):
    """Share of right choices, mean error and number of data sets, for each criterion."""
    names = dict.fromkeys(name for result in results for name in result)
    columns = {name: np.array([r[name] for r in results if name in r]) for name in names}
    return {k: [float((v == truth).mean()), float((v - truth).mean()), int(v.size)] for k, v in columns.items()}


def cell(found):
    return "" if found is None else f"{100 * found[0]:.0f} % ({found[1]:+.1f})"


def grid(found, names, *, even, missing):
    """One table: a line for each strength."""
    cases = [case for case in CASES if (case.even, case.missing) == (even, missing)]
    head = [f"| rows x columns, spikes | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    return [*head, *(f"| {c.name} | {' | '.join(cell(found[label(c)].get(name)) for name in names)} |" for c in cases)]


def label(case):
    noise, holes = "even noise" if case.even else "uneven noise", "20 % missing" if case.missing else "complete"
    return f"{case.name}, {noise}, {holes}"


def bias_lines(found):
    lines = ["| rows x columns | | noise variance | variances of components |", "|---|---|---|---|"]
    truth = " ".join(f"{value:.2f}" for value in SPIKES + 1)
    for name, both in found.items():
        lines.append(f"| {name} | truth | 1.000 | {truth} |")
        for flag, (noise, *variances) in both.items():
            lines.append(f"| | {flag} | {noise:.3f} | {' '.join(f'{value:.2f}' for value in variances)} |")
    return lines


def _numbers(found):
    return found if isinstance(found, dict) else {}


def page(store):
    """The tables of docs/benchmarks/selection.md."""
    names = [*OURS, MLE, KESTIMATE]
    holed = ["parallel", "bic", "cv", "ard", KESTIMATE]
    found = {name: numbers | _numbers(store["kestimate"].get(name)) for name, numbers in store["cases"].items()}
    minka = [f"| {name} | {cell(numbers)} |" for name, numbers in store["minka"].items()]
    parts = [
        ["Complete rows, noise the same in all columns:", "", *grid(found, names, even=True, missing=False)],
        ["Complete rows, noise variances from 1/3 to 3:", "", *grid(found, names, even=False, missing=False)],
        [
            "A fifth of the cells missing, noise the same in all columns:",
            "",
            *grid(found, holed, even=True, missing=True),
        ],
        ["A fifth missing, noise variances from 1/3 to 3:", "", *grid(found, holed, even=False, missing=True)],
        [
            f"The example of Minka (2000), {MINKA_SETS} data sets:",
            "",
            "| criterion | five found |",
            "|---|---|",
            *minka,
        ],
        ["Variances with and without `bias_correction`:", "", *bias_lines(store["bias"])],
    ]
    notes = [f"{KESTIMATE}: {note}." for note in sorted({n for n in store["kestimate"].values() if isinstance(n, str)})]
    return "\n\n".join("\n".join(part) for part in [*parts, *([note] for note in notes)]) + "\n"


def measured(workers, store):
    """All that is not in the store yet, which is written after each case."""
    cases, kestimates = store.setdefault("cases", {}), store.setdefault("kestimate", {})
    for case in CASES:
        if label(case) not in cases:
            work = workers.map(partial(choices_of, case), range(SETS), chunksize=2)
            cases[label(case)] = counted(list(work), Q)
            print(label(case), {k: v[0] for k, v in cases[label(case)].items()}, flush=True)
            yield store
    missing = [case for case in CASES if label(case) not in kestimates]
    for case, found in zip(missing, workers.map(kestimate_of, missing), strict=True):
        kestimates[label(case)] = found if isinstance(found, str) else counted([{KESTIMATE: k} for k in found], Q)
        yield store
    if "minka" not in store:
        store["minka"] = counted(list(workers.map(minka_of, range(MINKA_SETS), chunksize=10)), 5)
        print("minka", store["minka"], flush=True)
        yield store
    store["bias"] = {f"{n:,} x {d}": bias(workers, (n, d)) for n, d in BIAS_SHAPES}
    yield store


def bias(workers, shape):
    found = list(workers.map(partial(bias_of, shape), range(BIAS_SETS), chunksize=20))
    words = {False: "maximum likelihood", True: "bias_correction"}
    return {words[flag]: np.mean([f[flag] for f in found], axis=0).tolist() for flag in words}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="only write the page")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run was stopped")
    parser.add_argument("--quick", action="store_true", help="a few data sets, printed and not stored")
    options = parser.parse_args()
    if options.quick:
        with ProcessPoolExecutor(options.workers, initializer=threadpool_limits, initargs=(1,)) as workers:
            for case in CASES[::3]:
                print(label(case), counted(list(workers.map(partial(choices_of, case), range(4))), Q), flush=True)
        return
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "selection.json"
    store = json.loads(path.read_text(encoding="utf-8")) if options.resume or options.report else {}
    if not options.report:
        with ProcessPoolExecutor(options.workers, initializer=threadpool_limits, initargs=(1,)) as workers:
            for known in measured(workers, store):
                path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    (OUT / "selection.md").write_text(page(store), encoding="utf-8")


if __name__ == "__main__":
    main()
