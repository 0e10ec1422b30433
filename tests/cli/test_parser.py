"""Help is quick, has examples that are right, and names every command."""

import re
import shlex
import subprocess
import sys

import pytest

from probpca import __version__
from probpca.cli import parser
from probpca.cli.parser import EXAMPLES, FAMILIES, OPTIONS, ROTATIONS, parse
from probpca.learning.components import FACTOR_RULES, RULES, SELECTION_RULES
from probpca.models.rotation import METHODS

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
    assert done.stderr == "probpca: error: there is no file gone.csv.\nHint: check the name and the folder.\n"


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


@pytest.mark.parametrize("name", ["", *OPTIONS])
def test_help_fits_a_page_of_80_columns(run, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*filter(None, [name]), "--help").out.splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 82  # an example may be a little longer than the text


def test_options_are_in_groups(run):
    said = run("fit", "--help").out
    titles = re.findall(r"^(\w+):$", said, re.MULTILINE)
    assert titles == ["input", "model", "output", "other", "examples"]
    groups = dict(zip(titles, re.split(r"^\w+:$", said, flags=re.MULTILINE)[1:], strict=True))
    where = {"--id": "input", "--components": "model", "--standardize": "model", "--force": "output", "--jobs": "other"}
    for option, title in where.items():
        assert f"\n  {option}" in groups[title]


MEANT = {
    "fit t.csv --standardise": "--standardize",
    "fit t.csv --component 3": "--components",
    "fit --standardise": "--standardize",
    "fit t.csv --max_iter=3": "--max-iter",
    "impute m.npz t.csv --interval": "--intervals",
    "impuet m.npz t.csv": "impute",
    "explore m.npz t.csv": "explorer",
    "outlier m.npz t.csv": "outliers",
    "fit t.csv --components gavish-donoho": "gavish_donoho",
    "fit t.csv --model bayes": "bayesian",
    "fit t.csv --model fa --rotation varimx": "varimax",
    "fit t.csv --model fa --components para": "parallel",
    "select t.csv --criteria bic evidnce": "evidence",
    "table.csv": "probpca fit table.csv",
}


@pytest.mark.parametrize("given", MEANT)
def test_a_misspelled_word_is_answered_by_the_one_that_was_meant(run, given):
    done = run(*given.split())
    assert (done.code, done.out) == (2, "")
    what, usage = done.err.splitlines()
    assert what.startswith("probpca")
    assert what.endswith(f" Did you mean {MEANT[given]}?")
    assert usage.startswith("usage: probpca ")
    assert "--help" in usage


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("fit t.csv --frobnicate", "probpca fit: error: there is no option --frobnicate."),
        ("frobnicate", "probpca: error: there is no command frobnicate."),
        ("impute m t --steps 3", "probpca impute: error: there is no option --steps. probpca forecast has it."),
        ("--json fit t.csv", "probpca: error: a command must come before --json."),
        ("fit a.csv b.csv", "probpca fit: error: unexpected argument: b.csv."),
        ("fit", "probpca fit: error: TABLE must be given, before the options."),
        ("fit t.csv --components", "probpca fit: error: --components needs a value."),
        ("fit -dash.csv", "probpca fit: error: there is no option -dash.csv. If it is a file, write ./-dash.csv."),
        ("fit --dash.csv", "probpca fit: error: there is no option --dash.csv. If it is a file, write ./--dash.csv."),
        ("fit t.csv --out -x.npz", "probpca fit: error: there is no option -x.npz. If it is a file, write ./-x.npz."),
        ("fit t.csv -q", "probpca fit: error: there is no option -q."),
    ],
)
def test_a_word_like_no_other_gets_no_suggestion(run, given, said):
    done = run(*given.split())
    assert done.code == 2
    assert done.err.splitlines()[0] == said


def test_words_of_the_command_line_are_those_of_the_library():
    assert FAMILIES["ppca"].rules == tuple(RULES)
    assert tuple(SELECTION_RULES) == parser.SELECTION_RULES
    assert FAMILIES["fa"].rules == tuple(FACTOR_RULES)
    assert sorted(ROTATIONS) == sorted(METHODS)


CONFLICTS = {
    "--model fa --components 0.9": (
        "with --model fa, --components must be a number of factors, or one of parallel, bic, aic; got 0.9. "
        "--model ppca takes it."
    ),
    "--components cv --model fa": (
        "with --model fa, --components must be a number of factors, or one of parallel, bic, aic; got cv. "
        "--model ppca takes it."
    ),
    "--bayesian --components cv": (
        "with --model bayesian, --components must be a whole number, the largest number of components; got cv. "
        "--model ppca takes it."
    ),
    "--components aic": (
        "--components must be a number of components, a share of variance between 0 and 1, or one of parallel, bic, "
        "evidence, cv, ard, gavish_donoho; got aic. --model fa takes it."
    ),
    "--components fa_bic": (
        "--components must be a number of components, a share of variance between 0 and 1, or one of parallel, bic, "
        "evidence, cv, ard, gavish_donoho; got fa_bic. Use --model fa --components bic."
    ),
    "--model fa --components fa_aic": (
        "with --model fa, --components must be a number of factors, or one of parallel, bic, aic; got fa_aic. "
        "Use --model fa --components aic."
    ),
    "--rotation varimax": ("--rotation needs --model fa; got --model ppca. Add --model fa, or leave --rotation out."),
    "--bayesian --rotation none": (
        "--rotation needs --model fa; got --model bayesian. Add --model fa, or leave --rotation out."
    ),
    "--model fa --standardize": (
        "--standardize does not apply to --model fa, because factors do not change with the units of the columns. "
        "Leave it out."
    ),
    "--model fa --bayesian": "--bayesian means --model bayesian; got --model fa too. Leave one of them out.",
    "--model factors": "--model must be one of ppca, fa, bayesian, mixture; got factors.",
}


@pytest.mark.parametrize("options", CONFLICTS)
def test_options_that_make_no_sense_together_are_refused(run, options):
    done = run("fit", "t.csv", *options.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == f"probpca fit: error: {CONFLICTS[options]}"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", ("ppca", None)),
        ("--components 0.9", ("ppca", 0.9)),
        ("--components cv", ("ppca", "cv")),
        ("--model fa --components aic", ("fa", "aic")),
        ("--components 3 --model fa", ("fa", 3)),
        ("--bayesian --components 4", ("bayesian", 4)),
        ("--bayesian --model bayesian", ("bayesian", None)),
    ],
)
def test_components_are_read_as_the_model_takes_them(options, expected):
    args = parse(["fit", "t.csv", *options.split()])
    assert (args.family, args.components) == expected


def test_a_file_whose_name_begins_like_an_option_is_read(folder, run):
    (folder / "-out.csv").write_bytes((folder / "table.csv").read_bytes())
    said = "probpca fit: error: there is no option -out.csv. If it is a file, write ./-out.csv."
    assert run("fit", "-out.csv").err.splitlines()[0] == said  # and not -o ut.csv
    done = run("fit", "./-out.csv", "--components", 1)
    assert done.code == 0
    steps = [line.split() for line in done.out.splitlines() if line.startswith("  probpca ")]
    assert steps
    assert all(step[3] == "./-out.csv" for step in steps)
    assert run(*steps[1][1:]).code == 0


@pytest.mark.usefixtures("model")
def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m probpca.cli outliers model.npz table.csv --out - | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""
