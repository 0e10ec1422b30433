"""What ``probpca demo`` prints."""

import numpy as np

from probpca import PPCA
from probpca.cli.demo import COMMANDS
from probpca.cli.main import main
from probpca.datasets import load_fertility

FILES = {"fertility.csv", "complete.csv", "series.csv", "model.npz", "completed.csv", "report.html", "explorer.html"}


def test_the_demo_says_what_the_library_computes(tmp_path, capsys, monkeypatch):
    """One run, for it takes seconds."""
    monkeypatch.setenv("COLUMNS", "100")
    folder = tmp_path / "new"
    assert main(["demo", "--out", str(folder), "--debug"]) == 0
    printed = capsys.readouterr().out
    assert "nan" not in printed
    assert printed.splitlines()[-1].endswith(str(folder))
    table = load_fertility()
    ppca = PPCA(n_components=0.99, random_state=0).fit(table.values)
    check_commands(printed, folder)
    check_numbers(printed, table, ppca)
    check_missing(printed, table, ppca)


def check_commands(printed, folder):
    for command in COMMANDS:
        assert f"$ probpca {command}\n" in printed
    assert {path.name for path in folder.iterdir()} == FILES
    assert (folder / "series.csv").read_text().splitlines()[0] == "year,India,Brazil,Kenya,Japan"
    assert len((folder / "complete.csv").read_text().splitlines()) == 1 + len(load_fertility().complete().countries)
    assert "Timor-Leste" in (folder / "report.html").read_text()


def check_numbers(printed, table, ppca):
    found = ppca.outliers(table.values, training=True)
    least = table.countries[found.log10_p_value.argmin()]
    missing = np.isnan(table.values)
    assert f"{len(table.countries)} countries" in printed
    assert f"{ppca.noise_variance_:.6g}" in printed
    assert f"{ppca.log_likelihood_:,.2f}" in printed
    assert f" {least} " in printed.split("$ probpca outliers")[1].splitlines()[2]
    assert f"{missing.sum():,} of {missing.size:,} cells ({missing.mean():.1%})" in printed
    assert f"{missing.all(axis=1).sum()} rows without any number" in " ".join(printed.split())


def check_missing(printed, table, ppca):
    """What is missing is filled in, and what is not is kept."""
    row = table.values[table.countries.index("Serbia")]
    low, high = ppca.impute_interval(row[None])
    said = printed.split("Serbia, ")[1].split("\n\n")[0].splitlines()[1:]
    kinds = set()
    for line in said:
        j = table.years.index(int(line.split(":")[0]))
        kinds.add("recorded" if np.isfinite(row[j]) else "filled in")
        expected = f"{row[j]:.2f}  recorded" if np.isfinite(row[j]) else f"{low[0, j]:.2f} to {high[0, j]:.2f}"
        assert line.endswith(expected)
    assert kinds == {"recorded", "filled in"}
    assert len(said) == 1998 - 1990 + 1


def test_the_demo_does_not_write_over_a_folder(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("precious")
    assert main(["demo", "--out", str(tmp_path)]) == 1
    assert "exists already and is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_demo_says_which_command_failed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("probpca.cli.demo.COMMANDS", ("fit gone.csv",))
    assert main(["demo", "--out", str(tmp_path / "new")]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "probpca: error: there is no file gone.csv.",
        "probpca: error: probpca fit gone.csv failed.",
    ]


def test_a_command_that_lacks_its_library_is_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("probpca.cli.demo.find_spec", lambda _: None)
    monkeypatch.setattr("probpca.cli.demo.COMMANDS", ("fit fertility.csv --components 2", "report model.npz x"))
    assert main(["demo", "--out", str(tmp_path / "new")]) == 0
    assert "note: probpca report is left out: it needs altair" in capsys.readouterr().err


def test_without_a_folder_a_temporary_one_is_made_and_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("probpca.cli.demo.COMMANDS", ("fit fertility.csv --components 2",))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["demo"]) == 0
    (folder,) = tmp_path.iterdir()
    assert f"Tables, model and pages are in {folder}" in capsys.readouterr().out
    assert (folder / "model.npz").exists()
