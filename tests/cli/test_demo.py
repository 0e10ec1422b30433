"""What ``make demo`` prints."""

import subprocess
import sys

import numpy as np
import pytest

from probpca import PPCA, load_fertility
from probpca.cli import demo


@pytest.fixture(scope="module")
def table():
    return load_fertility()


@pytest.fixture(scope="module")
def ppca(table):
    return PPCA(n_components=0.99, random_state=0).fit(table.values)


def test_the_demo_says_what_the_library_computes(capsys, table, ppca):
    demo.main()
    printed = capsys.readouterr().out
    found = ppca.outliers(table.values)
    least = table.countries[found.log10_p_value.argmin()]
    assert f"{len(table.countries)} countries" in printed
    assert f"{ppca.noise_variance_:.6g}" in printed
    assert f"{ppca.log_likelihood_:,.2f}" in printed
    assert printed.split("Least believable")[1].splitlines()[1].strip().startswith(least)
    assert "nan" not in printed


def test_the_demo_counts_what_is_missing(capsys, table):
    demo.main()
    missing = np.isnan(table.values)
    said = capsys.readouterr().out.splitlines()[1]
    assert said.startswith(f"{missing.sum():,} of {missing.size:,} cells are missing ({missing.mean():.1%})")
    assert f"{missing.all(axis=1).sum()} countries have no value" in said


def test_the_demo_fills_in_what_is_missing_and_keeps_what_is_not(capsys, table, ppca):
    demo.main()
    row = table.values[table.countries.index(demo.HOLED)]
    low, high = ppca.impute_interval(row[None])
    said = capsys.readouterr().out.split(f"{demo.HOLED}, ")[1].split("\n\n")[0].splitlines()[1:]
    kinds = set()
    for line in said:
        j = table.years.index(int(line.split(":")[0]))
        kinds.add("recorded" if np.isfinite(row[j]) else "filled in")
        expected = f"{row[j]:.2f}  recorded" if np.isfinite(row[j]) else f"{low[0, j]:.2f} to {high[0, j]:.2f}"
        assert line.endswith(expected)
    assert kinds == {"recorded", "filled in"}
    assert len(said) == demo.LAST - demo.FIRST + 1


def test_importing_the_package_imports_no_heavy_library():
    code = "import sys, probpca; print([m for m in ('numpy', 'scipy', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
