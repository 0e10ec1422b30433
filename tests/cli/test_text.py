"""What commands print by default fits one page, whatever the shape of the table."""

import re

import numpy as np
import pandas as pd
import pytest

from probpca import PPCA
from probpca.cli.text import note
from probpca.estimators.summary import whole_items

PAGE = 32

LONG = "Percentage of the population aged 25 to 64 with tertiary education, by region"


def table(shape):
    """Rows with several components, in tables that are hard to show."""
    rng = np.random.default_rng(0)
    n, d, q, names = {
        "many components": (90, 60, 40, [f"v{j}" for j in range(60)]),
        "wide": (30, 3000, 4, [f"GENE{j:05d}" for j in range(3000)]),
        "long names": (60, 6, 2, [f"{LONG} {j}" for j in range(6)]),
    }[shape]
    x = 3 * rng.standard_normal((n, q)) @ rng.standard_normal((q, d)) + rng.standard_normal((n, d))
    x[rng.random(x.shape) < 0.03] = np.nan
    return pd.DataFrame(x, columns=names).assign(region=[f"{LONG}, row {i}" for i in range(n)])


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("shape", ["many components", "wide", "long names"])
def test_every_command_prints_one_page(folder, run, monkeypatch, shape, width):
    monkeypatch.setenv("COLUMNS", str(width))
    table(shape).to_csv(folder / "t.csv", index=False)
    fit = run("fit", "t.csv", "--components", 30 if shape == "many components" else 2)
    commands = [run(name, "model.npz", "t.csv") for name in ("impute", "transform", "score", "outliers")]
    for done in (fit, *commands, run("sample", "model.npz")):
        assert done.code == 0, done.err
        lines = (done.out + done.err).splitlines()
        assert len(lines) <= PAGE, done.out
        assert max(map(len, lines)) <= width, done.out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", [[], ["--criteria", "parallel", "bic", "ard"]], ids=str)
def test_select_prints_one_page(run, monkeypatch, options):
    monkeypatch.setenv("COLUMNS", "80")
    table("many components").dropna(axis=1).assign(name="x").iloc[:, :25].to_csv("t.csv", index=False)
    lines = run("select", "t.csv", *options).out.splitlines()
    assert len(lines) <= PAGE + 2
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_loadings_are_listed_by_whole_names(width):
    frame = table("wide").drop(columns="region").iloc[:, :50].fillna(0)
    lines = PPCA(2).fit(frame).summary(width=width).splitlines()[3:5]
    for line in lines:
        assert len(line) <= width
        for item in re.split(r"  +", line)[-1].split(", "):
            name, value = item.split(" ")
            assert name in frame.columns
            assert re.fullmatch(r"[+-]\d+\.\d+", value)
    assert len(lines[0].split(", ")) == {60: 1, 80: 2, 120: 4, 200: 6}[width]


def test_a_name_that_is_too_long_alone_is_shortened_before_its_loading():
    frame = table("long names").drop(columns="region").fillna(0)
    ppca = PPCA(2).fit(frame)
    lines = ppca.summary(width=80).splitlines()
    for name, axis in zip(ppca.get_feature_names_out(), ppca.loadings_.T, strict=True):
        line = next(line for line in lines if line.startswith(f"{name} "))
        assert len(line) <= 80
        assert re.search(r"\.\.\. [+-][\d.]+$", line)
        assert float(line.split()[-1]) == pytest.approx(axis[np.abs(axis).argmax()], rel=0.05)


def nearly_one_component(loadings):
    rng = np.random.default_rng(0)
    return rng.standard_normal((30, 1)) * loadings + 1e-4 * rng.standard_normal((30, 3))


def test_two_loadings_are_shown_on_two_lines_if_one_has_no_room():
    names = ["mean fractal dimension", "fractal dimension error", "mean concave points"]
    x = nearly_one_component([3.0, 2.0, 1.0])
    ppca = PPCA(1).fit(x)
    lines = ppca.summary(names, width=80).splitlines()
    shown = [f"{name} {loading:+.1f}" for name, loading in zip(names, ppca.loadings_[:, 0], strict=True)]
    assert [re.split(r"  +", line)[-1] for line in lines[3:5]] == shown[:2]
    assert not lines[5]


def test_negligible_loadings_are_left_out():
    ppca = PPCA(1).fit(nearly_one_component([1.0, 0.06, 0.04]))
    large, small, _ = ppca.loadings_[:, 0]
    line = ppca.summary(["large", "small", "tiny"]).splitlines()[3]
    assert line.endswith(f"large {large:+.2f}, small {small:+.2f}")


def test_components_that_are_not_listed_are_counted():
    x = table("many components").drop(columns="region").fillna(0).to_numpy()
    ppca = PPCA(30).fit(x)
    lines = ppca.summary().splitlines()
    names = list(ppca.get_feature_names_out())
    assert [line.split()[0] for line in lines[3:10]] == names[:7]
    assert lines[10].split() == ["...", "and", "23", "more", f"{ppca.explained_variance_ratio_.sum():.1%}"]


@pytest.mark.parametrize(
    ("width", "text"), [(100, "one, two, three"), (15, "one, two, three"), (14, "one, two"), (7, "one"), (3, "one")]
)
def test_a_line_holds_whole_items(width, text):
    assert whole_items(["one", "two", "three"], width) == text


def test_an_item_that_is_too_long_alone_is_shortened():
    assert whole_items(["education", "two"], 7) == "educ..."
    assert whole_items([], 7) == ""


def test_notes_are_broken_for_a_terminal_only(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    text = "a sentence that is much longer than one line of this narrow screen."
    note(text)
    assert capsys.readouterr().err == f"note: {text}\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    note(text)
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 50
    assert " ".join(lines) == f"note: {text}"
