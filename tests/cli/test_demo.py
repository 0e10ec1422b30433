"""What ``make demo`` prints."""

import subprocess
import sys

from probpca import PPCA, load_fertility
from probpca.cli import demo


def test_the_demo_says_what_the_library_computes(capsys):
    demo.main()
    printed = capsys.readouterr().out
    table = load_fertility().complete()
    ppca = PPCA(n_components=0.99).fit(table.values)
    found = ppca.outliers(table.values)
    least = table.countries[found.log10_p_value.argmin()]
    assert f"{len(table.countries)} countries" in printed
    assert f"{ppca.noise_variance_:.6g}" in printed
    assert f"{ppca.log_likelihood_:,.2f}" in printed
    assert printed.split("Least believable")[1].splitlines()[1].strip().startswith(least)


def test_importing_the_package_imports_no_heavy_library():
    code = "import sys, probpca; print([m for m in ('numpy', 'scipy', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
