"""Hostile files of every format: the answer of the same numbers in memory, or an error with a name."""

import csv
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np

from adversarial.judgement import Judge, Verdict, judged_error
from probpca import PPCA

SUFFIXES = ("csv", "csv", "csv", "tsv", "npy", "parquet", "feather", "xlsx")


def file(rng):
    """Write a table, spoil the file, fit it, and compare with what an independent reader finds in it."""
    suffix = str(rng.choice(SUFFIXES))
    x = numbers(rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{suffix}"
        spoil = spoiled_text if suffix in ("csv", "tsv") else spoiled_bytes
        what, content, accepted = spoil(rng, x, suffix, path)
        path.write_bytes(content)
        return judged_file(path, what, accepted)


def numbers(rng):
    """A small complete table that two components do not explain."""
    n, d = int(rng.integers(8, 40)), int(rng.integers(3, 7))
    x = rng.standard_normal((n, 1)) @ rng.standard_normal((1, d)) * 3 + rng.standard_normal((n, d))
    return np.round(x * 10.0 ** rng.integers(-2, 4) + rng.choice([0.0, 100.0]), 6)


def judged_file(path, what, accepted):
    """The verdict on a fit of a file; ``accepted`` are the tables that it may mean, or None if nobody can tell."""
    judge = Judge()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = PPCA(1).fit(path)
        except Exception as error:  # noqa: BLE001
            verdict = judged_error(error)
            return verdict._replace(words=(what, *verdict.words))
    judge.holds(not any(issubclass(w.category, RuntimeWarning) for w in caught), f"{what}: a RuntimeWarning")
    if accepted is None:
        return Verdict("unjudged")
    if not any(_agrees(found, x) for x in accepted):
        judge.complaints.append(
            f"{what}: {found.n_samples_:g} rows and {found.n_features_in_} columns with means {found.mean_}, "
            f"not one of {len(accepted)} readings, the first with means "
            f"{accepted[0].mean(axis=0) if accepted else 'none: an error was due'}"
        )
    return judge.verdict


def _agrees(found, x):
    if found.mean_.shape != x.shape[1:] or found.n_samples_ != len(x):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = PPCA(1).fit(x)
    size = np.sqrt(np.diag(want.get_covariance()))
    close = np.abs(found.get_covariance() - want.get_covariance()) <= 1e-9 * np.outer(size, size)
    return bool((np.abs(found.mean_ - want.mean_) <= 1e-12 * np.abs(want.mean_) + 1e-9 * size).all() and close.all())


# Text


def text_of(x, separator=",", *, header=True, decimal=".", end="\n"):
    """A table as text."""
    lines = [separator.join(f"c{j}" for j in range(x.shape[1]))] if header else []
    lines += [separator.join(repr(float(value)).replace(".", decimal) for value in row) for row in x]
    return end.join(lines) + end


def spoiled_text(rng, x, suffix, _):
    """What was done to the text, its bytes, and the tables that it may mean."""
    separator = "\t" if suffix == "tsv" else ","
    what = str(rng.choice(list(TEXT)))
    content, accepted = TEXT[what](rng, x, separator)
    return f"{suffix}, {what}", content if isinstance(content, bytes) else content.encode(), accepted


def _lines(x, separator):
    return text_of(x, separator).split("\n")[:-1]


def _changed_line(rng, x, separator, change):
    lines = _lines(x, separator)
    i = int(rng.integers(1, len(lines)))
    lines[i] = change(lines[i])
    return "\n".join(lines) + "\n", np.delete(x, i - 1, axis=0)


def _ragged(rng, x, separator):
    longer = rng.random() < 0.5
    change = (lambda line: line + separator + "7.5") if longer else (lambda line: line.rpartition(separator)[0])
    text, rest = _changed_line(rng, x, separator, change)
    return text, [rest]


def _cell(word, *accepted):
    """One cell holds a word; if the number it stands for is given, or if cells may be missing, readings differ."""

    def spoil(rng, x, separator):
        lines = _lines(x, separator)
        i, j = int(rng.integers(len(x))), int(rng.integers(x.shape[1]))
        fields = lines[i + 1].split(separator)
        fields[j] = word
        lines[i + 1] = separator.join(fields)
        tables = [np.delete(x, j, axis=1)]  # a column of text is left out, with a warning
        for number in accepted:
            other = x.copy()
            other[i, j] = number
            tables.append(other)
        return "\n".join(lines) + "\n", tables

    return spoil


def _truncated(rng, x, separator):
    content = text_of(x, separator).encode()
    return _as_read(content[: int(rng.integers(0, len(content)))], separator)


def _flipped(rng, x, separator):
    content = bytearray(text_of(x, separator).encode())
    content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    return _as_read(bytes(content), separator)


def _as_read(content, separator):
    """What Python's csv module finds in the bytes; None if that is not a plain table of numbers."""
    try:
        rows = [row for row in csv.reader(io.StringIO(content.decode("ascii")), delimiter=separator) if row]
        values = np.array([[float(cell) for cell in row] for row in rows[1:]])
        plain = values.ndim == 2 and values.shape[1] == len(rows[0]) and np.isfinite(values).all() and len(values) > 2
    except (ValueError, UnicodeDecodeError, IndexError, csv.Error):
        return content, None
    odd = {"_", " ", "n", "i"} & set("".join("".join(row) for row in rows[1:]))
    return content, [values] if plain and not odd else None


def _nul(rng, x, separator):
    content = text_of(x, separator).encode()
    place = int(rng.integers(len(content)))
    return content[:place] + b"\0" * int(rng.integers(1, 9)) + content[place:], []


def _text_column(_, x, separator):
    lines = _lines(x, separator)
    words = ["name", *(f"row {i}" for i in range(len(x)))]
    return "\n".join(separator.join([word, line]) for word, line in zip(words, lines, strict=True)) + "\n", [x]


TEXT = {
    "as it is": lambda _, x, s: (text_of(x, s), [x]),
    "a byte order mark": lambda _, x, s: (text_of(x, s).encode("utf-8-sig"), [x]),
    "UTF-16": lambda _, x, s: (text_of(x, s).encode("utf-16"), [x]),
    "UTF-16 without a mark": lambda _, x, s: (text_of(x, s).encode("utf-16-le"), [x]),
    "UTF-32": lambda _, x, s: (text_of(x, s).encode("utf-32"), [x]),
    "Latin-1 names": lambda _, x, s: (text_of(x, s).replace("c0", "gr\xf6\xdfe", 1).encode("latin-1"), [x]),
    "no line end at the end": lambda _, x, s: (text_of(x, s).rstrip("\n"), [x]),
    "CRLF": lambda _, x, s: (text_of(x, s, end="\r\n"), [x]),
    "CR": lambda _, x, s: (text_of(x, s, end="\r"), [x]),
    "blank lines": lambda _, x, s: (text_of(x, s).replace("\n", "\n\n"), [x]),
    "spaces": lambda _, x, s: (text_of(x, s).replace(s, f" {s} "), [x]),
    "quotes": lambda _, x, s: ("\n".join(s.join(f'"{c}"' for c in line.split(s)) for line in _lines(x, s)) + "\n", [x]),
    "an open quote": lambda rng, x, s: (_changed_line(rng, x, s, lambda line: '"' + line)[0], []),
    "no header": lambda _, x, s: (text_of(x, s, header=False), [x]),
    "a comment": lambda _, x, s: ("# measured on Monday\n" + text_of(x, s), [x]),
    "semicolons and decimal commas": lambda _, x, _s: (text_of(x, ";", decimal=","), [x]),
    "duplicate names": lambda _, x, s: (text_of(x, s).replace("c1", "c0", 1), [x]),
    "an empty name": lambda _, x, s: (text_of(x, s).replace("c1", "", 1), [x]),
    "ragged": _ragged,
    "mixed separators": lambda rng, x, s: (_changed_line(rng, x, s, lambda line: line.replace(s, ";"))[0], []),
    "a word": _cell("abc"),
    "1e400": _cell("1e400"),
    "infinity": _cell("inf"),
    "minus infinity": _cell("-Infinity"),
    "hexadecimal": _cell("0x1p3", 8.0),
    "an underscore": _cell("1_000"),
    "Arabic digits": _cell("\u0661\u0662", 12.0),
    "a plus sign": _cell("+5.5", 5.5),
    "an exponent": _cell("5.5E+00", 5.5),
    "many digits": _cell("5.5" + "0" * 5000, 5.5),
    "a long word": _cell("x" * 200_000),
    "a long name": lambda _, x, s: (text_of(x, s).replace("c0", "n" * 2_000_000, 1), [x]),
    "a text column": _text_column,
    "truncated": _truncated,
    "a flipped bit": _flipped,
    "NUL bytes": _nul,
    "empty": lambda *_: ("", []),
    "only a header": lambda _, x, s: (text_of(x[:0], s), []),
    "only spaces": lambda *_: ("  \n \n", []),
    "a binary file": lambda rng, *_: (rng.bytes(2000), []),
    "a zip archive": lambda rng, *_: (b"PK\x03\x04" + rng.bytes(500), []),
}


# Binary formats


def spoiled_bytes(rng, x, suffix, path):
    """What was done to the file, its bytes, and the tables that it may mean."""
    WRITE[suffix](x, path)
    content = path.read_bytes()
    what = str(
        rng.choice(["as it is", "truncated", "a flipped bit", "flipped bits", "garbage at the end", "another format"])
    )
    match what:
        case "truncated":
            content = content[: int(rng.integers(0, len(content)))]
        case "a flipped bit" | "flipped bits":
            changed = bytearray(content)
            for _ in range(1 if what == "a flipped bit" else 20):
                changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
            content = bytes(changed)
        case "garbage at the end":
            content += rng.bytes(int(rng.integers(1, 300)))
        case "another format":
            other = str(rng.choice([name for name in WRITE if name != suffix]))
            WRITE[other](x, path)
            content, what = path.read_bytes(), f"it is {other}"
    if what.startswith(("as it is", "it is")):
        return f"{suffix}, {what}", content, [x]
    return f"{suffix}, {what}", content, _independent(path, content, suffix, x)


def _independent(path, content, suffix, x):
    """The table as it was, and what another reader of the format finds.

    Feather has no checksum: where that reader stumbles, nobody can say what the other bytes mean.
    """
    path.write_bytes(content)
    try:
        values = READ[suffix](path)
    except Exception:  # noqa: BLE001
        return None if suffix == "feather" else [x]
    plain = isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "fiu"
    if not plain or not np.isfinite(values.astype(float)).all() or np.abs(values).max(initial=0.0) > 1e100:
        return None
    return [x, values.astype(float)]


def _write_table(kind):
    def write(x, path):
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import feather, parquet  # noqa: PLC0415

        table = pa.table({f"c{j}": column for j, column in enumerate(x.T)})
        (parquet.write_table if kind == "parquet" else feather.write_feather)(table, str(path))

    return write


def _read_table(kind):
    def read(path):
        from pyarrow import feather, parquet  # noqa: PLC0415

        table = parquet.read_table(path) if kind == "parquet" else feather.read_table(str(path))
        table.validate(full=True)
        return np.column_stack([column.to_numpy() for column in table.columns])

    return read


def _write_npy(x, path):
    with path.open("wb") as out:
        np.save(out, x)


def _write_workbook(x, path):
    import openpyxl  # noqa: PLC0415

    book = openpyxl.Workbook()
    book.active.append([f"c{j}" for j in range(x.shape[1])])
    for row in x:
        book.active.append([float(value) for value in row])
    book.save(path)


def _read_workbook(path):
    import openpyxl  # noqa: PLC0415

    rows = list(openpyxl.load_workbook(path).active.iter_rows(values_only=True))
    return np.array(rows[1:], dtype=float)


WRITE = {
    "npy": _write_npy,
    "parquet": _write_table("parquet"),
    "feather": _write_table("feather"),
    "xlsx": _write_workbook,
}
READ = {
    "npy": lambda path: np.load(path, allow_pickle=False),
    "parquet": _read_table("parquet"),
    "feather": _read_table("feather"),
    "xlsx": _read_workbook,
}
