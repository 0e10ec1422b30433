"""Numeric tables that the installed packages of R hold, chosen by their size alone."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

RUNNER = Path(__file__).parent / "tables_of_r.R"
LEAST_ROWS, COLUMNS = 20, (4, 60)


def tables_of_r(most_rows):
    """Tables by "package::name", with NaN for missing cells; empty without R.

    They have 4 to 60 numeric columns with at least 20 observed cells that are not all equal. Of more than ``most_rows``
    rows, evenly spaced ones are taken. A table that several packages hold is taken once.
    """
    rscript = shutil.which("Rscript")
    if rscript is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        words = [rscript, str(RUNNER), str(LEAST_ROWS), *map(str, COLUMNS), folder]
        subprocess.run(words, capture_output=True, check=True)  # noqa: S603
        lines = (Path(folder) / "index.txt").read_text(encoding="utf-8").splitlines()
        found, seen = {}, set()
        for number, line in enumerate(lines, 1):
            package, name, n, d = line.split()
            values = np.fromfile(Path(folder) / f"{number}.bin").reshape(int(d), int(n)).T
            x = _usable(values[:: -(-int(n) // most_rows)])
            if x is not None and x.tobytes() not in seen:
                seen.add(x.tobytes())
                found[f"{package}::{name}"] = x
    return found


def _usable(x):
    """Columns that can be learned from; None if there are too few."""
    x = np.where(np.isfinite(x), x, np.nan)
    enough = (~np.isnan(x)).sum(axis=0) >= LEAST_ROWS
    x = x[:, enough]
    spread = np.nanmax(x, axis=0, initial=-np.inf) - np.nanmin(x, axis=0, initial=np.inf)
    x = x[:, spread > 0]
    return np.ascontiguousarray(x) if COLUMNS[0] <= x.shape[1] <= COLUMNS[1] else None
