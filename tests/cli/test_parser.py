"""Help is quick, has examples that are right, and names every command."""

import re
import shlex
import subprocess
import sys

import pytest

from probpca import __version__
from probpca.cli.parser import EXAMPLES, OPTIONS, parse

HEAVY = "[m for m in ('numpy', 'scipy', 'sklearn', 'pyarrow', 'matplotlib', 'tqdm') if m in sys.modules]"


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout  # noqa: S603


@pytest.mark.parametrize("args", [["--help"], ["fit", "--help"], ["--version"]])
def test_help_imports_no_heavy_library(args):
    code = f"""
import sys
from probpca.cli.main import main
try:
    main({args})
except SystemExit as end:
    assert end.code == 0
print({HEAVY})
"""
    assert python(code).splitlines()[-1] == "[]"


def test_importing_the_package_imports_no_heavy_library():
    assert python(f"import sys, probpca; print({HEAVY})").strip() == "[]"


def test_the_module_is_a_program():
    command = [sys.executable, "-m", "probpca.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (0, f"probpca {__version__}\n")
    done = subprocess.run([*command[:-1], "fit", "gone.csv"], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 1
    assert done.stderr == "probpca: error: there is no file gone.csv.\n"


def test_the_program_names_every_command(run):
    said = run("--help").out
    for name in OPTIONS:
        assert re.search(rf"^    {name} +\w", said, re.MULTILINE)


@pytest.mark.parametrize("name", OPTIONS)
def test_examples_in_the_help_are_taken(run, name):
    done = run(name, "--help")
    assert done.code == 0
    examples = re.findall(r"^  probpca (.*?)(?: \|.*)?$", EXAMPLES[name], re.MULTILINE)
    assert examples
    for example in examples:
        assert f"  probpca {example}" in done.out
        assert parse(shlex.split(example)).command == name


@pytest.mark.usefixtures("model")
def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m probpca.cli outliers model.npz table.csv --out - | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""
