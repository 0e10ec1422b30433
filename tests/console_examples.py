"""Commands of this library in the console blocks of README and docs: what they print, and what the pages show.

``make console`` runs them in a temporary folder and writes what they print into the pages.
"""

import io
import os
import re
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from importlib.resources import files
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_iris, load_linnerud, load_wine

from probpca.cli.main import main
from probpca.datasets import load_fertility

CONSOLE = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(r"(?<=^\$ )(probpca .*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def commands(text):
    """Each command of a page, and the output shown below it."""
    return [example for block in CONSOLE.findall(text) for example in EXAMPLE.findall(block)]


def printed(command):
    """Run a command in this process and return what it prints, notes and errors included."""
    said = io.StringIO()
    width, ends = patch.dict(os.environ, COLUMNS="80"), suppress(SystemExit)  # bad usage ends the process
    with width, redirect_stdout(said), redirect_stderr(said), ends:
        main(shlex.split(command, comments=True)[1:])
    return said.getvalue()


def write_tables():
    """Write the files that the commands read: countries, years, answers, flowers, two tables as analysts get them."""
    text = files("probpca.datasets").joinpath("fertility.csv").read_text(encoding="utf-8")
    Path("fertility.csv").write_text(text, encoding="utf-8")
    table = load_fertility()
    some = ("India", "Brazil", "Kenya", "Japan")
    rows = [table.values[table.countries.index(country)] for country in some]
    lines = [f"year,{','.join(some)}"]
    lines += [",".join(map(str, (year, *cells))) for year, *cells in zip(table.years, *rows, strict=True)]
    Path("series.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_wine()
    write_exercise()
    write_answers()
    write_flowers()


def write_wine():
    """Write wines with a title line, semicolons, decimal commas, row numbers, and codes of missing cells."""
    wine = load_wine(as_frame=True)
    table = wine.data[["alcohol", "malic_acid", "ash", "magnesium", "flavanoids", "proline"]]
    table = table.mask(np.random.default_rng(0).random(table.shape) < 0.05, -999)
    table.insert(0, "cultivar", [f"cultivar {name}" for name in wine.target + 1])
    table.insert(0, "bottle", np.arange(1, len(table) + 1))
    lines = table.to_csv(sep=";", decimal=",", index=False)
    Path("wine.csv").write_text(f"Wines of three cultivars\n\n{lines}", encoding="utf-16")
    table.to_excel("wine.xlsx", sheet_name="analysis", index=False)


def write_exercise():
    """Write twenty men in a fitness club, with units in the cells."""
    found = load_linnerud(as_frame=True)
    table = found.data.join(found.target)
    units = {"Weight": "lb", "Waist": "in", "Pulse": "bpm"}
    table = table.astype(int).assign(
        **{name: table[name].astype(int).astype(str) + f" {units[name]}" for name in units}
    )
    table.to_csv("exercise.csv", index=False)


def write_answers():
    """Write simulated answers from 1 to 5 of 300 people to questions about two correlated traits, some not given."""
    rng = np.random.default_rng(0)
    traits = rng.multivariate_normal(np.zeros(2), [[1.0, 0.4], [0.4, 1.0]], 300)
    loadings = np.array([[0.8, 0.7, 0.6, 0.0, 0.0, 0.1], [0.0, 0.0, 0.1, 0.8, 0.7, 0.6]])
    answers = traits @ loadings + rng.standard_normal((300, 6)) * np.sqrt(1 - (loadings**2).sum(axis=0))
    answers = np.clip(np.round(answers + 3), 1, 5).astype(int)
    given = rng.random(answers.shape) >= 0.06
    rows = [map(str, np.where(known, row, "")) for row, known in zip(answers, given, strict=True)]
    lines = ["calm,relaxed,patient,talkative,outgoing,lively", *map(",".join, rows)]
    Path("answers.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_flowers():
    """Write iris flowers of three species, a tenth of their cells missing."""
    iris = load_iris(as_frame=True)
    table = iris.data.mask(np.random.default_rng(0).random(iris.data.shape) < 0.1)
    table.columns = [name.removesuffix(" (cm)") for name in table.columns]
    table.insert(0, "flower", [f"{iris.target_names[k]} {i + 1}" for i, k in enumerate(iris.target)])
    table.to_csv("flowers.csv", index=False)


def rewrite(path):
    """Replace the outputs shown on a page by what the commands print now."""
    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_tables()
        new = CONSOLE.sub(lambda block: EXAMPLE.sub(lambda m: f"{m[1]}\n{printed(m[1])}", block[1]), text)
    path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name).resolve())
