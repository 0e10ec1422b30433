"""How tables are written does not matter: the same rows in any kind of file give the same values and the same fit."""

import gzip
import subprocess
import sys

import numpy as np
import openpyxl
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import compute

from probpca import PPCA, DataError, SourceError
from probpca.sources import TableFormat, open_source
from probpca.sources.open import look_at, look_at_bytes
from probpca.sources.readers import memory

NAMES = list("abcd")
NAN = np.nan


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(5)
    x = (
        rng.standard_normal((50, 2)) @ rng.standard_normal((2, 4))
        + 0.3 * rng.standard_normal((50, 4))
        + [0, 3, 1e3, -7]
    )
    x[rng.random(x.shape) < 0.1] = NAN
    return x


@pytest.fixture
def frame(x):
    return pd.DataFrame(x, columns=NAMES).assign(name=[f"no. {i}" for i in range(len(x))])


def with_titles(frame, path):
    path.write_text("A title\n\nfrom somewhere\n" + frame.to_csv(index=False))


def with_units(frame, path):
    texts = {name: [f"{value!r} kg" if np.isfinite(value) else "" for value in frame[name]] for name in NAMES}
    frame.assign(**texts).to_csv(path, index=False)


def with_thousands(frame, path):
    texts = {name: [f"{value:,.17f}" if np.isfinite(value) else "" for value in frame[name]] for name in NAMES}
    frame.assign(**texts).to_csv(path, index=False)


WRITERS = {
    "semicolons.csv": lambda f, p: f.to_csv(p, sep=";", decimal=",", index=False),
    "spaces.csv": lambda f, p: f.rename(columns={"a": " a", "d": "d  "}).to_csv(p, index=False),
    "utf16.csv": lambda f, p: f.to_csv(p, sep="\t", encoding="utf-16", index=False),
    "utf16be.csv": lambda f, p: p.write_bytes(b"\xfe\xff" + f.to_csv(index=False).encode("utf-16-be")),
    "titles.csv": with_titles,
    "t.xlsx": lambda f, p: f.to_excel(p, index=False),
    "t.ods": lambda f, p: f.to_excel(p, index=False, engine="odf"),
    "corner.xlsx": lambda f, p: f.to_excel(p, index=False, startrow=4, startcol=3),
    "t.parquet": lambda f, p: f.to_parquet(p),
}
CHOSEN = {  # files that are read as they should be only if that is said
    "coded.csv": (lambda f, p: f.fillna(-999).to_csv(p, index=False), TableFormat(missing=[-999])),
    "words.csv": (lambda f, p: f.to_csv(p, index=False, na_rep="lost"), TableFormat(missing=["lost"])),
    "coded.parquet": (lambda f, p: f.fillna(-999).to_parquet(p), TableFormat(missing="-999.0")),
    "coded.xlsx": (lambda f, p: f.fillna(-999).to_excel(p, index=False), TableFormat(missing=["-999"])),
    "units.csv": (with_units, TableFormat(parse_units=True)),
    "thousands.csv": (with_thousands, TableFormat(thousands=",")),
    "decimal.csv": (lambda f, p: f.to_csv(p, decimal=",", index=False), TableFormat(decimal=",")),
    "genes.csv": (lambda f, p: f.set_index("name").T.to_csv(p, index_label="gene"), TableFormat(transpose=True)),
    "genes.xlsx": (lambda f, p: f.set_index("name").T.to_excel(p), TableFormat(transpose=True)),
    "genes.parquet": (lambda f, p: f.set_index("name").T.reset_index().to_parquet(p), TableFormat(transpose=True)),
}


def written(name, frame, folder):
    writer, table_format = CHOSEN[name] if name in CHOSEN else (WRITERS[name], TableFormat())
    writer(frame, folder / name)
    return folder / name, table_format


def np_values(block):
    return np.array(block.values)


def first_column(block):
    return np.array(block.values)[:, 0]


def values(file):
    return file.source(NAMES, 1).map(np_values)


@pytest.mark.parametrize("name", [*WRITERS, *CHOSEN])
def test_the_same_table_has_the_same_values_however_it_is_written(tmp_path, frame, x, name):
    path, table_format = written(name, frame, tmp_path)
    rtol = 1e-12 if "thousands" in name else 1e-15 if "xlsx" in name else 0  # openpyxl writes 16 digits
    assert_allclose(values(look_at(path, table_format)), x, rtol=rtol)
    assert_allclose(values(look_at_bytes("standard input", path.read_bytes(), table_format)), x, rtol=rtol)


@pytest.mark.parametrize("name", ["semicolons.csv", "t.xlsx", "t.ods", "coded.parquet", "units.csv", "genes.csv"])
def test_the_same_table_has_the_same_fit_however_it_is_written(tmp_path, frame, x, name):
    path, table_format = written(name, frame, tmp_path)
    source = open_source(path, columns=NAMES, table_format=table_format)
    found, wanted = (PPCA(2, tol=1e-8, random_state=0).fit(rows) for rows in (source, x))
    assert_allclose(found.loadings_, wanted.loadings_, atol=1e-6)
    assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=1e-10)


def test_compressed_text_in_memory_is_recognised(frame, x):
    assert_array_equal(values(look_at_bytes("here", gzip.compress(frame.to_csv(index=False).encode()))), x)


def test_codes_are_missing_in_arrays_of_both_precisions(tmp_path, x):
    coded = np.where(np.isnan(x), -99.9, x)
    for dtype in (np.float64, np.float32):
        np.save(tmp_path / "x.npy", coded.astype(dtype))
        found = open_source(tmp_path / "x.npy", table_format=TableFormat(missing=[-99.9]))
        assert_array_equal(found.map(np_values), x.astype(dtype))
    assert_array_equal(
        np.isnan(values(look_at_bytes("here", frame_bytes(coded), TableFormat(missing=["-99.9"])))), np.isnan(x)
    )


def frame_bytes(x):
    return pd.DataFrame(x, columns=NAMES).to_csv(index=False).encode()


def test_a_workbook_is_fitted_by_its_name(tmp_path, frame):
    frame[NAMES].to_excel(tmp_path / "t.xlsx", index=False)
    found = PPCA(2, random_state=0).fit(tmp_path / "t.xlsx")
    assert list(found.feature_names_in_) == NAMES
    assert_allclose(found.transform(tmp_path / "t.xlsx"), found.transform(frame[NAMES]))


def test_cells_of_a_workbook_keep_their_kind(tmp_path):
    rows = [
        ["when", "flag", "whole", "text", "mixed", "empty"],
        [pd.Timestamp("2020-01-31").to_pydatetime(), True, 1, "007", 1.5, None],
        [pd.Timestamp("2020-02-29").to_pydatetime(), False, 2, "x, y", "NA", None],
    ]
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    file = look_at(tmp_path / "t.xlsx")
    kinds = [column.kind for column in file.columns()]
    assert kinds == ["dates", "true or false", "numbers", "text", "numbers", "empty"]
    block = file.source(["flag", "whole", "mixed"], 1, None, ["text", "when"]).hold()[0]
    assert_array_equal(block.values, [[1, 1, 1.5], [0, 2, NAN]])
    assert block.others.to_pydict() == {"text": ["007", "x, y"], "when": ["2020-01-31", "2020-02-29"]}


@pytest.mark.parametrize("sign", ["|", ";", "\t"])
@pytest.mark.parametrize("chosen", [TableFormat(), TableFormat(decimal=","), TableFormat(thousands=".")])
def test_cells_of_a_workbook_may_hold_any_sign(tmp_path, sign, chosen):
    book = openpyxl.Workbook()
    for row in [[f"k{sign}p{sign}c", "n"], [f"1{sign}2{sign}3", 1.5], [f"1{sign}2{sign}4", 2]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    file = look_at(tmp_path / "t.xlsx", chosen)
    assert [column.name for column in file.columns()] == [f"k{sign}p{sign}c", "n"]
    assert_array_equal(file.source(["n"], 1).map(first_column), [1.5, 2])


@pytest.fixture
def book(tmp_path, frame):
    with pd.ExcelWriter(tmp_path / "book.xlsx") as writer:
        pd.DataFrame().to_excel(writer, sheet_name="blank")
        frame[NAMES].to_excel(writer, sheet_name="data", index=False)
        frame[NAMES].head(7).to_excel(writer, sheet_name="2", index=False)
    return tmp_path / "book.xlsx"


@pytest.mark.parametrize(("sheet", "n"), [("data", 50), ("2", 7), (2, 50), ("3", 7), (3, 7)])
def test_sheets_have_names_and_numbers(book, sheet, n):
    assert len(values(look_at(book, TableFormat(sheet=sheet)))) == n


def test_the_first_sheet_with_cells_is_read_with_a_warning_about_others(book, x):
    with pytest.warns(UserWarning, match="book.xlsx has several sheets; 'data' was read, not '2'"):
        source = open_source(book)
    assert source.map(np_values).shape == x.shape
    with pytest.raises(SourceError, match=r"has no sheet '4'.\nHint: its sheets are 'blank', 'data', '2'"):
        look_at(book, TableFormat(sheet="4"))
    with pytest.raises(DataError, match=r"sheet 'blank' of .* is empty"):
        look_at(book, TableFormat(sheet="blank"))


def test_a_workbook_with_a_password_is_named():
    locked = b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le")
    with pytest.raises(SourceError, match="here is protected by a password"):
        look_at_bytes("here", locked)


def test_a_missing_library_is_named(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    code = "import sys; sys.modules['python_calamine'] = None; from probpca.sources import open_source"
    code += f"; open_source({str(tmp_path / 't.xlsx')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert "SourceError: workbooks need python-calamine.\nHint: pip install 'probpca[files]'." in done.stderr


def test_title_lines_are_skipped_with_a_warning(tmp_path, frame):
    with_titles(frame[NAMES], tmp_path / "t.csv")
    with pytest.warns(UserWarning, match="skipped 3 lines above the names .*: 'A title'; 'from somewhere'"):
        assert open_source(tmp_path / "t.csv").columns == tuple(NAMES)
    assert open_source(tmp_path / "t.csv", table_format=TableFormat(skip_rows=3)).columns == tuple(NAMES)


@pytest.mark.parametrize(
    ("text", "names", "titles"),
    [
        ("Title,,\nname,a,b\nx,1,2\ny,3,4\n", "name a b", 1),
        ("Group A,,,B,,\nn,a,b,c,d,e\n1,2,3,4,5,6\n", "n a b c d e", 1),  # names of groups above the names
        ("T\nU\nV\nW\na;b\n1,5;2\n3;4\n", "a b", 4),
        ("T, by X, Y and Z\n\ncountry;1990;2000;2010\nA;1;2;3\nB;4;5;6\n", "country 1990 2000 2010", 1),
        ('T\n"a\nb",c\n1,2\n3,4\n', "a\nb|c", 1),  # a name of two lines
        ("a,,\n1,2,3\n4,5,6\n", "a||", 0),  # no line holds names for all
        (",a\nx,1\ny,2\n", "|a", 0),
    ],
)
def test_what_is_a_title_line_and_what_is_not(text, names, titles):
    file = look_at_bytes("here", text.encode())
    wanted = names.split("|") if "|" in names else names.split()
    assert list(file.head.names) == wanted
    assert bool(file.notes) == bool(titles)
    assert file.source([name for name in wanted if name][-1:], 1).map(np_values).shape[0] >= 1


@pytest.mark.parametrize("count", [199, 200, 20_000])
def test_any_number_of_lines_above_the_names_is_skipped(count):
    content = b"a line of many\n" * count + b"a;b\n1,5;2\n3;4\n"
    file = look_at_bytes("here.csv", content, TableFormat(skip_rows=count))
    assert_array_equal(file.source(["a", "b"], 1).map(np_values), [[1.5, 2], [3, 4]])


def test_the_decimal_mark_is_seen_above_a_long_cell():
    content = f"a;b\n1,5;z\n2,5;{'x' * 140_000}\n3,5;y\n".encode()
    assert_array_equal(look_at_bytes("here.csv", content).source(["a"], 1).map(first_column), [1.5, 2.5, 3.5])


def test_names_that_differ_by_blanks_only_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text(" a,a ,b\n1,2,3\n2,1,2\n")
    with pytest.raises(DataError, match="has 2 columns 'a'"):
        open_source(tmp_path / "t.csv")


def test_counts_and_classes_in_the_first_line_are_no_names(tmp_path):
    rows = "".join(f"{i}.5,{i}.25,{i % 3}\n" for i in range(6))
    (tmp_path / "t.csv").write_text("6,2,red,green,blue\n" + rows)
    with pytest.warns(UserWarning, match=r"holds no names, but the number of rows \(6\), the number of columns \(2\)"):
        source = open_source(tmp_path / "t.csv")
    assert source.columns == ("x0", "x1")
    assert_array_equal(source.map(np_values), [[i + 0.5, i + 0.25] for i in range(6)])
    (tmp_path / "t.csv").write_text("7,2,red\n" + rows)  # a count that is wrong
    with pytest.raises(
        DataError, match="must begin with a line of column names; its first line holds numbers: 7, 2, red"
    ):
        open_source(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["iris.csv", "wine_data.csv", "breast_cancer.csv"])
def test_files_of_scikit_learn_are_read_as_it_reads_them(name):
    from importlib.resources import files  # noqa: PLC0415

    from sklearn import datasets  # noqa: PLC0415

    wanted = getattr(datasets, f"load_{name.removesuffix('.csv').removesuffix('_data')}")().data
    with files("sklearn.datasets.data").joinpath(name).open("rb") as file:
        found = look_at_bytes(name, file.read()).source(None, 1)
    assert_array_equal(found.map(np_values), wanted)


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("1,2,3\n4,5,7\n7,8,9\n", True),
        ("1,2,3\n4.5,5,7\n7,8,9\n", False),
        ("0,1,2\n4,5,7\n7,8,9\n", False),  # positions, as pandas writes them
        ("a,2,3\n4,5,7\n7,8,9\n", False),
    ],
)
def test_names_that_may_be_a_row_of_data_are_mentioned(text, warns):
    notes = look_at_bytes("t.csv", text.encode()).notes
    assert any("holds only numbers" in note and "--no-header" in note for note in notes) == warns


def test_a_file_without_names_is_read_if_that_is_said(tmp_path, x):
    np.savetxt(tmp_path / "t.csv", x, delimiter=" ", fmt="%.17g")
    source = open_source(tmp_path / "t.csv", table_format=TableFormat(header=False))
    assert source.columns == ("x0", "x1", "x2", "x3")
    assert_array_equal(source.map(np_values), x)
    with pytest.raises(DataError, match=r"TableFormat\(header=False\)"):
        open_source(tmp_path / "t.csv")


UNITS = {
    "28.8 yr|3yr| 5 yr ": [28.8, 3, 5],
    "$779.45|-$5|$-3|$1,234.5": [779.45, -5, -3, 1234.5],
    "12%|0|3.5%": [12, 0, 3.5],  # nothing is nothing in any unit
    "EUR 5|EUR 1e3": [5, 1000],
    "5 °C|\u22126.5 °C": [5, -6.5],
    "7 kg/m3|NA": [7, NAN],
}


def text_with(cells):
    return ("u;v\n" + "".join(f"{cell};{i}\n" for i, cell in enumerate(cells.split("|")))).encode()


@pytest.mark.parametrize("cells", UNITS)
def test_units_are_left_out_of_numbers(cells):
    file = look_at_bytes("here.csv", text_with(cells), TableFormat(parse_units=True))
    assert_array_equal(file.source(["u"], 1).map(first_column), UNITS[cells])
    assert file.columns()[0].unit in cells
    assert file.columns()[0].unit


@pytest.mark.parametrize(
    "cells",
    [
        "1st|2nd|3rd",
        "Q1|Q2",
        "12 Main St|3 Main St",
        "<5|<6",
        "12:30|13:30",
        "A5|A6",
        "5 2|6 2",
        "--5|-4",
        "+-5|4",
        "$5|-$-4",
    ],
)
def test_what_is_no_quantity_stays_text(cells):
    kinds = [
        column.kind for column in look_at_bytes("here.csv", text_with(cells), TableFormat(parse_units=True)).columns()
    ]
    assert kinds[0] not in ("numbers", "units")


@pytest.mark.parametrize(
    ("cells", "said"), [("5 kg|7 lb", "kg and lb: '5 kg' and '7 lb'"), ("5 kg|7", "kg and no unit")]
)
def test_several_units_are_refused(cells, said):
    file = look_at_bytes("here.csv", text_with(cells), TableFormat(parse_units=True))
    with pytest.raises(DataError, match=f"column 'u' of here.csv must have one unit; it has {said}"):
        file.source(["u", "v"], 1)


def test_another_unit_that_comes_late_is_found(monkeypatch):
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 100)
    cells = "|".join(["5 kg"] * 50 + ["6 lb"])
    file = look_at_bytes("here.csv", text_with(cells), TableFormat(parse_units=True))
    with pytest.raises(DataError, match=r"here.csv cannot be read as numbers in kg: row 51, column 'u' holds '6 lb'"):
        file.source(["u"], 1).map(np_values)


def test_a_number_with_two_signs_that_comes_late_is_found(monkeypatch):
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 100)
    file = look_at_bytes("here.csv", text_with("|".join(["5"] * 50 + ["--6"])), TableFormat(parse_units=True))
    with pytest.raises(DataError, match=r"here.csv cannot be read as numbers: row 51, column 'u' holds '--6'"):
        file.source(["u"], 1).map(np_values)


@pytest.mark.parametrize(("cell", "n_most"), [("1.5", 0), ("1.5 kg", 4)])
def test_many_columns_need_few_searches(monkeypatch, cell, n_most):
    known, calls = compute.extract_regex, []
    monkeypatch.setattr(compute, "extract_regex", lambda *given: calls.append(1) or known(*given))
    lines = [[f"s{j}" for j in range(300)], [cell] * 300, [cell] * 300]
    file = look_at_bytes("here.csv", "\n".join(map(",".join, lines)).encode(), TableFormat(parse_units=True))
    assert_array_equal(file.source(None, 1).map(np_values), np.full((2, 300), 1.5))
    assert len(calls) <= n_most


@pytest.mark.parametrize(("first", "last", "thousands"), [("7.5", "1,234.5", ","), ("7,5", "1.234", ".")])
def test_signs_between_thousands_may_come_late(monkeypatch, first, last, thousands):
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 100)
    content = text_with("|".join([first] * 50 + [last]))
    found = look_at_bytes("here.csv", content, TableFormat(thousands=thousands)).source(["u"], 1).map(first_column)
    assert_array_equal(found, [7.5] * 50 + [1234.5 if thousands == "," else 1234])


@pytest.mark.parametrize(
    ("thousands", "cells", "number"),
    [(".", "1.234,5", 1234.5), ("'", "1'234'567.5", 1234567.5), (" ", "1\u202f234.5", 1234.5), (",", '"1,234"', 1234)],
)
def test_thousands(thousands, cells, number):
    file = look_at_bytes("here.csv", f"u;v\n{cells};1\n7;2\n".encode(), TableFormat(thousands=thousands))
    assert_array_equal(file.source(["u"], 1).map(first_column), [number, 7])


def test_the_decimal_mark_does_not_separate_cells():
    chosen = TableFormat(decimal=",", header=False)
    file = look_at_bytes("here.csv", b"1,5;2,5;7\n3,5;4,5;8\n", chosen)
    assert_array_equal(file.source(None, 1).map(np_values), [[1.5, 2.5, 7], [3.5, 4.5, 8]])


def test_repeated_names_of_genes_are_numbered():
    file = look_at_bytes("here", b"gene,s1,s2\nA,1,2\nB,3,4\nA,5,6\nA.1,7,8\n,9,9\n", TableFormat(transpose=True))
    assert [column.name for column in file.columns()] == ["name", "A", "B", "A.2", "A.1", "unnamed"]
    assert "repeated names in column 'gene' were numbered: A.2" in file.notes
    block = file.source(["A", "A.2", "A.1"], 1, None, ["name"]).hold()[0]
    assert_array_equal(block.values, [[1, 5, 7], [2, 6, 8]])
    assert block.others.to_pydict() == {"name": ["s1", "s2"]}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_sample_without_numbers_stays_a_sample(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    frame = pd.DataFrame({"gene": ["A", "B"], "s1": [1, 2], "s2": [None, None], "s3": [3, 4]})
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    file = look_at(path, TableFormat(transpose=True))
    block = file.source(["A", "B"], 1, None, ["name"]).hold()[0]
    assert block.others.to_pydict() == {"name": ["s1", "s2", "s3"]}
    assert_array_equal(block.values, [[1, 2], [NAN, NAN], [3, 4]])


def test_what_cannot_be_transposed_is_refused(monkeypatch):
    turned = TableFormat(transpose=True)
    with pytest.raises(DataError, match="has no column of text"):
        look_at_bytes("here", b"s1,s2\n1,2\n3,4\n", turned)
    with pytest.raises(DataError, match="has no column of numbers to transpose"):
        look_at_bytes("here", b"gene,s1\nA,\nB,\n", turned)
    with pytest.raises(DataError, match=r"its first line holds numbers: A, 0.5, 1.5"):
        look_at_bytes("here", b"A,0.5,1.5\nB,1,2\n", turned)
    monkeypatch.setattr(memory, "MOST_CELLS", 3)
    with pytest.raises(DataError, match="here is too large to transpose: it has more than 3 cells"):
        look_at_bytes("here", b"gene,s1,s2\nA,1,2\nB,3,4\n", turned)


def test_settings_that_do_not_apply_are_refused(tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(SourceError, match="transpose does not apply to"):
        open_source(tmp_path / "x.npy", table_format=TableFormat(transpose=True))
    with pytest.raises(SourceError, match="table_format must be None unless rows are read from a file"):
        open_source(x, table_format=TableFormat())
    with pytest.raises(SourceError, match="must differ"):
        TableFormat(decimal=",", thousands=",")
    with pytest.raises(SourceError, match=r"decimal must be one of '.', ','; got ';'"):
        TableFormat(decimal=";")
    with pytest.raises(SourceError, match="skip_rows must be 0 or more"):
        TableFormat(skip_rows=-1)


def test_a_format_is_what_it_was_after_it_was_stored():
    chosen = TableFormat(missing=[-9, "x"], thousands=" ", sheet=2, transpose=True, header=False)
    assert TableFormat.from_record(chosen.record()) == chosen
    assert TableFormat().record() == {}
    with pytest.raises(SourceError, match="colour='red' is a table setting that this version of probpca does not know"):
        TableFormat.from_record({"colour": "red"})


def test_workbooks_are_not_written(tmp_path, x):
    fitted = PPCA(2, random_state=0).fit(x)
    with pytest.raises(SourceError, match=r"cannot be written: workbooks can only be read.\nHint: .*\.csv"):
        fitted.transform(x, out=tmp_path / "t.xlsx")
