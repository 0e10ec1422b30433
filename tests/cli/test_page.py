"""The page about the command line shows what commands print."""

import doctest
import re
import shlex
from importlib.resources import files
from pathlib import Path

import pandas as pd
import pytest

from probpca.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
FENCE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the source distribution has no docs")


def examples(text):
    """Commands, and what stands below them."""
    for fence in FENCE.findall(text):
        for part in re.split(r"^\$ ", fence, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def write_tables():
    """The table with a row for each country, and four countries with a row for each year."""
    text = files("probpca.datasets").joinpath("fertility.csv").read_text(encoding="utf-8")
    Path("fertility.csv").write_text(text, encoding="utf-8")
    years = pd.read_csv("fertility.csv", index_col=0).T.rename_axis("year")
    years[["India", "Brazil", "Kenya", "Japan"]].to_csv("series.csv")


def test_commands_print_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    write_tables()
    found = list(examples(PAGE.read_text(encoding="utf-8")))
    assert len(found) >= 6
    for command, shown in found:
        program, *args = shlex.split(command)
        assert program == "probpca"
        main(args)
        said = "".join(capsys.readouterr())
        assert doctest.OutputChecker().check_output(shown, said, OPTIONS), f"{command}\n{said}"


def test_a_wrong_example_is_seen():
    ((command, shown),) = examples("```console\n$ probpca score a b\n1.0\n```\n")
    assert command == "probpca score a b"
    assert not doctest.OutputChecker().check_output(shown, "2.0\n", OPTIONS)
