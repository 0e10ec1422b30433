"""Do outlying rows and cells bend the fit? Simulated tables, so that the truth is known, beside other libraries.

``python benchmarks/robust.py`` (some ten minutes) fits tables of 300 rows, 20 columns and 3 components.

- With a fifth of the cells missing: clean rows, 20 % of the rows replaced by scattered ones or by one cluster off the
  plane of the others, 20 % wild cells, and a bit of both; 20 tables each. Beside ``PPCA`` with ``robust=None``, "rows"
  and "cells" stands an ordinary fit to the good rows and cells alone, which nobody can have in practice.
- Shares of shifted rows from 20 % to 45 %, for ``keep=0.75`` and ``keep=0.5``.
- Complete rows: ``sklearn.covariance.MinCovDet``, ``sklearn.ensemble.IsolationForest`` and, if R has it, ``PcaHubert``
  of rrcov (ROBPCA), by the angle of their components, the area under the ROC curve of the rows, and seconds.

The tables go to docs/benchmarks/robust_*.md, the numbers to robust.json. ``--quick`` prints those of 3 tables each.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import kstest
from sklearn.covariance import MinCovDet
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from probpca import PPCA

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
RRCOV = Path(__file__).parent / "peers" / "run_rrcov.R"
N, D, Q = 300, 20, 3
FAILED = 30.0  # degrees beyond which a fit counts as bent
FITS = {
    "`PPCA()`": {},
    '`robust="rows"`': {"robust": "rows"},
    '`robust="rows", keep=0.5`': {"robust": "rows", "keep": 0.5},
    '`robust="cells"`': {"robust": "cells"},
}


class Table:
    """Rows of a random model, some of which are replaced by something else."""

    def __init__(self, seed, *, missing=0.2, scattered=0.0, cluster=0.0, shifted=0.0, cells=0.0):
        rng = np.random.default_rng(seed)
        self.loadings = rng.standard_normal((D, Q)) * [2.0, 1.5, 1.2]
        self.x = self._rows(rng, N)
        away = rng.standard_normal(D)
        away -= self.loadings @ np.linalg.lstsq(self.loadings, away)[0]
        away *= 15 / np.linalg.norm(away)
        self.bad = np.arange(N) < round((scattered + cluster + shifted) * N)
        count = int(self.bad.sum())
        if scattered:
            self.x[:count] = 6 * rng.standard_normal((count, D))
        if cluster:
            self.x[:count] = away + rng.standard_normal((count, D))
        if shifted:
            self.x[:count] += away
        self.wild = rng.random((N, D)) < cells
        size = rng.choice([-1.0, 1.0], (N, D)) * (6 + rng.standard_normal((N, D)))
        self.x = np.where(self.wild, size * np.sqrt(np.square(self.loadings).sum(axis=1) + 1), self.x)
        self.hidden = rng.random((N, D)) < missing
        self.x[self.hidden] = np.nan
        self.fresh = self._rows(rng, 1000)
        self.fresh[rng.random(self.fresh.shape) < missing] = np.nan

    def _rows(self, rng, n):
        return rng.standard_normal((n, Q)) @ self.loadings.T + rng.standard_normal((n, D))

    @property
    def good(self):
        """The good rows, without wild cells."""
        return np.where(self.wild, np.nan, self.x)[~self.bad]

    def angle(self, loadings):
        """Largest angle between the true subspace and that of the loadings, in degrees."""
        truth, found = (np.linalg.qr(part)[0] for part in (self.loadings, loadings))
        return float(np.degrees(np.arccos(min(np.linalg.svd(truth.T @ found)[1].min(), 1.0))))


DESIGNS = {
    "clean": {},
    "20 % rows scattered": {"scattered": 0.2},
    "20 % rows in a cluster": {"cluster": 0.2},
    "20 % wild cells": {"cells": 0.2},
    "10 % rows in a cluster, 10 % wild cells": {"cluster": 0.1, "cells": 0.1},
}


def fitted(parameters, rows):
    """A fit and its seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model = PPCA(Q, random_state=0, n_jobs=1, **parameters).fit(rows)
        return model, time.process_time() - begin


def judged(table, model, seconds):
    """What is right and wrong about a fit."""
    found = {
        "angle": table.angle(model.loadings_),
        "noise": model.noise_variance_,
        "ks": float(kstest(model.outliers(table.fresh).p_value, "uniform").statistic),
        "seconds": seconds,
    }
    if model.cell_weight_ is not None:
        doubtful, seen = model.cell_weight_ < 0.5, ~table.hidden & ~table.bad[:, None]
        found["false"] = float(doubtful[seen & ~table.wild].mean())
        if table.wild.any():
            found["recall"] = float(doubtful[seen & table.wild].mean())
    if model.row_weight_ is not None:
        found["used"] = float(model.row_weight_[~table.bad].mean())
    return found


def simulation(seeds):
    """Fits to all designs: {design: {fit: [judgement of each table]}}."""
    found = {}
    for design, how in DESIGNS.items():
        here = found[design] = {}
        for seed in seeds:
            table = Table(seed, **how)
            for name, parameters in FITS.items():
                here.setdefault(name, []).append(judged(table, *fitted(parameters, table.x)))
            here.setdefault("good rows and cells alone", []).append(judged(table, *fitted({}, table.good)))
        print(design, {name: round(max(one["angle"] for one in all_), 1) for name, all_ in here.items()}, flush=True)
    return found


def breakdown(seeds, shares=(0.2, 0.25, 0.3, 0.35, 0.4, 0.45)):
    """Number of bent fits at each share of shifted rows."""
    found = {}
    for share in shares:
        for name, parameters in FITS.items():
            angles = [
                Table(seed, shifted=share).angle(fitted(parameters, Table(seed, shifted=share).x)[0].loadings_)
                for seed in seeds
            ]
            found.setdefault(name, {})[f"{share:.0%}"] = sum(angle > FAILED for angle in angles)
        print(share, {name: counts[f"{share:.0%}"] for name, counts in found.items()}, flush=True)
    return found


def of_ppca(parameters, rows):
    model, seconds = fitted(parameters, rows)
    return model.loadings_, -model.outliers(rows).log10_model_p_value, seconds


def of_min_cov_det(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        found = MinCovDet(random_state=0).fit(rows)
        seconds = time.process_time() - begin
    return np.linalg.eigh(found.covariance_)[1][:, -Q:], found.mahalanobis(rows), seconds


def of_isolation_forest(rows):
    begin = time.process_time()
    found = IsolationForest(random_state=0).fit(rows)
    return None, -found.score_samples(rows), time.process_time() - begin


def of_rrcov(tables):
    """Components, scores of rows and seconds of ROBPCA for some tables; None without R or rrcov."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for i, table in enumerate(tables):
            np.savetxt(Path(folder, f"{i}.csv"), table.x, delimiter=",")
        done = subprocess.run(  # noqa: S603
            [rscript, str(RRCOV), folder, str(len(tables)), str(Q)], check=False, capture_output=True, text=True
        )
        if done.returncode:
            print(done.stderr[-500:])
            return None
        read = lambda name: np.loadtxt(Path(folder, name), delimiter=",")  # noqa: E731
        seconds = read("seconds.csv")
        return [(read(f"{i}_axes.csv"), read(f"{i}_scores.csv"), float(seconds[i])) for i in range(len(tables))]


COMPLETE = {
    "clean": {},
    "20 % rows scattered": {"scattered": 0.2},
    "20 % rows in a cluster": {"cluster": 0.2},
    "20 % wild cells": {"cells": 0.2},
}


def peers(seeds):
    """Complete rows: {design: {method: [angle, area under the curve, seconds]}}, medians over tables."""
    found = {}
    for design, how in COMPLETE.items():
        tables = [Table(seed, missing=0.0, **how) for seed in seeds]
        methods = {name: [of_ppca(parameters, table.x) for table in tables] for name, parameters in FITS.items()}
        methods["scikit-learn `MinCovDet`"] = [of_min_cov_det(table.x) for table in tables]
        methods["scikit-learn `IsolationForest`"] = [of_isolation_forest(table.x) for table in tables]
        robpca = of_rrcov(tables)
        if robpca is not None:
            methods["rrcov `PcaHubert`"] = robpca
        found[design] = {
            name: {
                "angle": [table.angle(one[0]) for table, one in zip(tables, all_, strict=True) if one[0] is not None],
                "auc": [roc_auc_score(t.bad, one[1]) for t, one in zip(tables, all_, strict=True) if t.bad.any()],
                "seconds": [one[2] for one in all_],
            }
            for name, all_ in methods.items()
        }
        print(design, {name: np.round(np.median(one["angle"] or [np.nan]), 1) for name, one in found[design].items()})
    return found


def spread(values, form):
    """Smallest and largest value."""
    return f"{min(values):{form}} to {max(values):{form}}"


def simulation_table(found):
    head = "| table | fit | bent fits | angle: median, largest | noise variance | KS: median, largest | seconds |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for design, fits in found.items():
        for name, all_ in fits.items():
            angles, noise, ks, seconds = ([one[key] for one in all_] for key in ("angle", "noise", "ks", "seconds"))
            bent = sum(angle > FAILED for angle in angles)
            lines.append(
                f"| {design} | {name} | {bent} of {len(all_)} | {np.median(angles):.1f}, {max(angles):.1f} | "
                f"{spread(noise, '.2f')} | {np.median(ks):.3f}, {max(ks):.3f} | {np.median(seconds):.3f} |"
            )
    return lines


def cells_table(found):
    lines = ["| table | wild cells found | other cells called wild | good rows used |", "|---|---|---|---|"]
    for design, fits in found.items():
        all_ = fits['`robust="cells"`']
        recall = [one["recall"] for one in all_ if "recall" in one]
        false, used = ([one[key] for one in all_] for key in ("false", "used"))
        shown = spread(recall, ".1%") if recall else ""
        lines.append(f"| {design} | {shown} | {spread(false, '.2%')} | {spread(used, '.0%')} |")
    return lines


def breakdown_table(found):
    shares = list(next(iter(found.values())))
    lines = [f"| fit | {' | '.join(shares)} |", f"|---{'|---' * len(shares)}|"]
    return [*lines, *(f"| {name} | {' | '.join(str(counts[s]) for s in shares)} |" for name, counts in found.items())]


def peers_table(found):
    lines = ["| table | method | angle: median, largest | area under the curve | seconds |", "|---|---|---|---|---|"]
    for design, methods in found.items():
        for name, one in methods.items():
            angle = f"{np.median(one['angle']):.1f}, {max(one['angle']):.1f}" if one["angle"] else "none"
            auc = f"{np.median(one['auc']):.3f}" if one["auc"] else ""
            lines.append(f"| {design} | {name} | {angle} | {auc} | {np.median(one['seconds']):.3f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few tables, printed and not stored")
    options = parser.parse_args()
    seeds = range(3 if options.quick else 20)
    found = {
        "simulation": simulation(seeds),
        "breakdown": breakdown(seeds, (0.2, 0.4) if options.quick else (0.2, 0.25, 0.3, 0.35, 0.4, 0.45)),
        "peers": peers(range(3 if options.quick else 10)),
    }
    tables = {
        "fits": simulation_table(found["simulation"]),
        "cells": cells_table(found["simulation"]),
        "breakdown": breakdown_table(found["breakdown"]),
        "peers": peers_table(found["peers"]),
    }
    if options.quick:
        for lines in tables.values():
            print(*lines, "", sep="\n")
        return
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "robust.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, lines in tables.items():
        (OUT / f"robust_{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
