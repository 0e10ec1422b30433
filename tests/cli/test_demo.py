"""What ``probpca demo`` prints."""

import numpy as np

from probpca import PPCA, LinearDynamicalSystem
from probpca.cli.demo import COUNTRIES, STEPS, Step
from probpca.cli.main import main
from probpca.datasets import load_fertility

FILES = {"fertility.csv", "series.csv", "model.npz", "completed.csv", "scores.csv", "report.html"}


def test_the_demo_says_what_the_library_computes(tmp_path, capsys, monkeypatch):
    """One run, for it takes seconds."""
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "new"
    assert main(["demo", "--out", str(folder), "--debug"]) == 0
    printed = capsys.readouterr().out
    assert "nan" not in printed
    assert len(printed.splitlines()) <= 120
    assert max(len(line) for line in printed.splitlines() if str(folder) not in line) <= 80
    for number, step in enumerate(STEPS, 1):
        assert f"== {number}. {step.heading} ==\n" in printed
        assert f"$ probpca {step.command}\n" in printed
    assert f"The files are in {folder}\n" in printed
    assert "probpca fit table.csv" in printed.splitlines()[-2]
    assert {path.name for path in folder.iterdir()} == FILES
    assert "Timor-Leste" in (folder / "report.html").read_text()
    table = load_fertility()
    check_numbers(printed, table, PPCA(random_state=0).fit(table.values))


def check_numbers(printed, table, ppca):
    found = ppca.outliers(table.values, training=True)
    least = table.countries[found.log10_p_value.argmin()]
    missing = np.isnan(table.values)
    assert f"{len(table.countries)} countries" in printed
    assert f"{ppca.noise_variance_:.6g}" in printed
    assert f"{ppca.log_likelihood_:,.2f}" in printed
    assert f" {least} " in printed.split("$ probpca outliers")[1].splitlines()[2]
    assert f"{missing.sum():,} of {missing.size:,} ({missing.mean():.1%})" in printed
    assert f"{missing.all(axis=1).sum()} rows without any value" in " ".join(printed.split())


def test_the_story_of_the_demo_is_true():
    """What the remarks say about countries, computed from the table and a fit."""
    table = load_fertility()
    ppca = PPCA(random_state=0).fit(table.values)
    rows = {name: table.values[i] for i, name in enumerate(table.countries)}
    z = dict(zip(table.countries, ppca.transform(table.values), strict=True))
    level, decline = (sorted(z, key=lambda name, j=j: z[name][j]) for j in range(2))
    assert {"Germany", "Japan"} <= set(level[:3])
    assert level[-1] == "Niger"
    assert set(decline[:2]) == {"Chad", "Congo, Dem. Rep."}
    assert decline[-2:] == ["Algeria", "Mongolia"]
    assert (ppca.components_[0] > 0).all()
    assert ppca.components_[1, 0] > 0 > ppca.components_[1, -1]
    assert f"{100 * ppca.explained_variance_ratio_.sum():.0f}%" in STEPS[0].remark
    assert all(rows[name][-1] >= rows[name][0] for name in decline[:2])
    fall = {name: np.max(np.nan_to_num(row[:-15] - row[15:])) for name, row in rows.items()}
    assert max(fall, key=fall.get) == "Oman"
    years = {year: j for j, year in enumerate(table.years)}
    timor = rows["Timor-Leste"]
    assert timor[years[1978]] < min(timor[years[1970]], timor[years[1990]])


def test_the_forecast_of_the_demo_beats_the_naive_one():
    """What the remark says about the backtest."""
    table = load_fertility()
    some = table.values[[list(table.countries).index(name) for name in COUNTRIES]].T
    found = LinearDynamicalSystem().backtest(some, 3)
    assert found.relative_error["model"] < 0.5
    assert found.notes == ()
    step = next(step for step in STEPS if step.command.startswith("forecast"))
    assert "off by less than half as much" in step.remark


def test_the_demo_does_not_write_over_a_folder(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("precious")
    assert main(["demo", "--out", str(tmp_path)]) == 1
    assert "already exists and is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_demo_says_which_command_failed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("probpca.cli.demo.STEPS", (Step("Fail", "To see it.", "fit gone.csv"),))
    assert main(["demo", "--out", str(tmp_path / "new")]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "$ probpca fit gone.csv"
    assert said.err.splitlines() == [
        f"probpca: error: there is no file gone.csv. {tmp_path / 'new'} was written before.",
        "Hint: check the name and the folder.",
    ]


FIT = Step("Fit", "To have a model.", "fit fertility.csv --components 2")


def test_a_command_that_lacks_its_library_is_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("probpca.cli.demo.find_spec", lambda _: None)
    monkeypatch.setattr("probpca.cli.demo.STEPS", (FIT, Step("Report", "To read.", "report model.npz x")))
    assert main(["demo", "--out", str(tmp_path / "new")]) == 0
    assert "note: probpca report is left out because it needs altair" in capsys.readouterr().err


def test_without_a_folder_a_temporary_one_is_made_and_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("probpca.cli.demo.STEPS", (FIT,))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["demo"]) == 0
    (folder,) = tmp_path.iterdir()
    assert f"The files are in {folder}" in capsys.readouterr().out
    assert (folder / "model.npz").exists()
