"""Awkward tables: shapes, values, weights and containers that real data have on their worst days."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse


@dataclass
class Table:
    """A table as it is given to the library, and the numbers that it means."""

    given: Any  # an array, a sparse matrix, a dataframe, ...
    x: np.ndarray | None  # the numbers in float64, NaN for missing cells; None if it holds no usable numbers
    tags: list[str] = field(default_factory=list)
    sample_weight: np.ndarray | None = None
    cell_weight: np.ndarray | None = None
    missing: str = "nan"
    must_fail: str = ""  # why no fit may come of it

    @property
    def single(self):
        """Whether answers come in single precision."""
        return "float32" in self.tags

    def observed(self):
        """The numbers that a fit counts: without rows of weight 0, NaN in cells of weight 0."""
        x = self.x if self.cell_weight is None else np.where(self.cell_weight > 0, self.x, np.nan)
        return x if self.sample_weight is None else x[self.sample_weight > 0]


def shape(rng):
    """Few rows and columns, down to one cell, sometimes more columns than rows."""
    kind = rng.choice(["usual", "small", "wide", "tiny"], p=[0.7, 0.14, 0.12, 0.04])
    if kind == "usual":
        return int(rng.integers(5, 61)), int(rng.integers(2, 13))
    if kind == "small":
        return int(rng.integers(2, 7)), int(rng.integers(2, 7))
    if kind == "wide":
        return int(rng.integers(2, 12)), int(rng.integers(8, 31))
    return int(rng.integers(1, 4)), int(rng.integers(1, 4))


def _duplicates(rng, x):
    return x[rng.integers(0, max(len(x) // 3, 1), len(x))]


def _constant_columns(rng, x):
    d = x.shape[1]
    x[:, rng.integers(0, d, max(d // 3, 1))] = rng.choice([0.0, 1.0, 7.3, -1e6])
    return x


def _copied_columns(rng, x):
    one, other = rng.integers(0, x.shape[1], 2)
    x[:, one] = 2.0 * x[:, other]
    return x


def _one_outlier(rng, x):
    x[int(rng.integers(len(x))), int(rng.integers(x.shape[1]))] = 10.0 ** rng.uniform(2, 8)
    return x


KINDS = {
    "noisy": (0.3, lambda _, x: x),
    "low rank": (0.08, lambda _, x: x),
    "integers": (0.1, lambda _, x: np.round(3 * x)),
    "booleans": (0.05, lambda _, x: (x > 0).astype(float)),
    "duplicates": (0.1, _duplicates),
    "constant columns": (0.1, _constant_columns),
    "heavy tails": (0.1, lambda rng, x: x * rng.standard_t(1.5, (len(x), 1))),
    "ties": (0.07, lambda _, x: np.round(x, 1)),
    "copied columns": (0.05, _copied_columns),
    "constant": (0.02, lambda rng, x: np.full(x.shape, rng.choice([0.0, 1.0, 1e-300, 3.3]))),
    "one outlier": (0.03, _one_outlier),
}
"""Kinds of numbers: how often each is drawn, and what it makes of low rank plus noise."""


def values(rng, n, d, tags):
    """Numbers of some awkward kind: (n, d)."""
    k = int(rng.integers(1, d + 1))
    x = rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) * rng.choice([1.0, 3.0])
    kind = str(rng.choice(list(KINDS), p=[share for share, _ in KINDS.values()]))
    tags.append(kind)
    if kind != "low rank":
        x += 10.0 ** rng.uniform(-3, 0.5) * rng.standard_normal((n, d))
    x = KINDS[kind][1](rng, x)
    return x if kind == "booleans" else in_units(rng, x, tags, whole=kind == "integers")


def in_units(rng, x, tags, *, whole):
    """The numbers in other units, and far from zero."""
    if not whole:
        x = x * 10.0 ** rng.integers(-4, 5)
        if rng.random() < 0.2:
            x *= 10.0 ** rng.uniform(-3, 3, x.shape[1])
            tags.append("columns of different units")
    offset = rng.choice([0.0, 10.0, 1e3, 1e6], p=[0.5, 0.2, 0.2, 0.1])
    if offset:
        x += np.round(offset * rng.standard_normal(x.shape[1]) * (x.std() or 1.0))
        tags.append(f"means of {offset:g} std")
    return x


def holes(rng, x, tags):
    """Missing cells: at random, whole rows, whole columns."""
    share = float(rng.choice([0.0, 0.02, 0.1, 0.3, 0.6, 0.9], p=[0.45, 0.1, 0.2, 0.15, 0.07, 0.03]))
    if share:
        x[rng.random(x.shape) < share] = np.nan
        tags.append(f"{share:.0%} missing")
        if rng.random() < 0.1:
            x[int(rng.integers(len(x)))] = np.nan
            tags.append("an empty row")
        if rng.random() < 0.1:
            x[:, int(rng.integers(x.shape[1]))] = np.nan
            tags.append("an empty column")


def weights(rng, table):
    """Frequencies of rows, precisions of cells, or none."""
    shape, chance = table.x.shape, rng.random()
    if chance < 0.12:
        table.sample_weight = rng.choice([0.0, 1.0, 2.0, 3.0], shape[0])
        table.tags.append("sample_weight of 0 to 3")
    elif chance < 0.2:
        table.sample_weight = rng.uniform(0.1, 10, shape[0])
        table.tags.append("sample_weight of 0.1 to 10")
    if rng.random() < 0.12 and "csr" not in table.tags and "csc" not in table.tags:
        unit = 10.0 ** rng.integers(-12, 13)
        table.cell_weight = unit * rng.uniform(0.2, 5, shape)
        if rng.random() < 0.3:
            table.cell_weight[rng.random(shape) < 0.1] = 0.0
        table.tags.append(f"cell_weight in units of {unit:g}")
    if table.sample_weight is not None and not table.sample_weight.any():
        table.must_fail = "all weights are 0"


CONTAINERS = {
    "float64": 0.3,
    "fortran": 0.04,
    "strided": 0.04,
    "read-only": 0.03,
    "big-endian": 0.02,
    "float32": 0.12,
    "longdouble": 0.02,
    "lists": 0.04,
    "object": 0.04,
    "masked": 0.04,
    "csr": 0.07,
    "csc": 0.04,
    "unstored": 0.06,
    "pandas": 0.05,
    "nullable pandas": 0.03,
    "polars": 0.04,
    "pyarrow": 0.02,
}


def contained(rng, x, tags):
    """The numbers in a container: what is given, what it means, and how missing cells are marked."""
    kind = str(rng.choice(list(CONTAINERS), p=np.array(list(CONTAINERS.values()))))
    if "integers" in tags and not np.isnan(x).any() and kind == "float64":
        kind = "int64"
    if "booleans" in tags and not np.isnan(x).any() and kind in ("float64", "fortran"):
        kind = "bool"
    tags.append(kind)
    return CONTAIN[kind](rng, x) if kind in CONTAIN else (x.copy(), x, "nan")


def _unstored(rng, x):
    stored = ~np.isnan(x) & (rng.random(x.shape) < 0.8)
    matrix = sparse.coo_array((x[stored], np.nonzero(stored)), shape=x.shape).tocsr()
    return matrix, np.where(stored, x, np.nan), "unstored"


def _frame(kind):
    def make(_, x):
        names = [f"c{j}" for j in range(x.shape[1])]
        if kind == "polars":
            import polars as pl  # noqa: PLC0415

            frame = pl.DataFrame({name: column.tolist() for name, column in zip(names, x.T, strict=True)})
            return frame.fill_nan(None).cast(pl.Float64), x, "nan"
        if kind == "pyarrow":
            import pyarrow as pa  # noqa: PLC0415

            columns = [pa.array(column, pa.float64(), from_pandas=True) for column in x.T]
            return pa.table(columns, names=names), x, "nan"
        import pandas as pd  # noqa: PLC0415

        frame = pd.DataFrame(x.copy(), columns=names, index=[f"r{i}" for i in range(len(x))])
        return (frame.astype("Float64") if kind == "nullable" else frame), x, "nan"

    return make


def _strided(_, x):
    wide = np.full((2 * x.shape[0], 3 * x.shape[1]), 99.0)
    wide[::2, ::3] = x
    return wide[::2, ::3], x, "nan"


def _read_only(_, x):
    fixed = x.copy()
    fixed.setflags(write=False)
    return fixed, x, "nan"


def _object(_, x):
    given = x.astype(object)
    given[np.isnan(x)] = None
    return given, x, "nan"


def _single(_, x):
    single = x.astype(np.float32)
    return single, single.astype(float), "nan"


CONTAIN = {
    "fortran": lambda _, x: (np.asfortranarray(x), x, "nan"),
    "strided": _strided,
    "read-only": _read_only,
    "big-endian": lambda _, x: (x.astype(">f8"), x, "nan"),
    "float32": _single,
    "longdouble": lambda _, x: (x.astype(np.longdouble), x, "nan"),
    "lists": lambda _, x: (x.tolist(), x, "nan"),
    "object": _object,
    "masked": lambda _, x: (np.ma.masked_array(np.where(np.isnan(x), -999.0, x), np.isnan(x)), x, "nan"),
    "csr": lambda _, x: (sparse.csr_array(x), x, "nan"),
    "csc": lambda _, x: (sparse.csc_array(x), x, "nan"),
    "unstored": _unstored,
    "pandas": _frame("pandas"),
    "nullable pandas": _frame("nullable"),
    "polars": _frame("polars"),
    "pyarrow": _frame("pyarrow"),
    "int64": lambda _, x: (x.astype(np.int64), x, "nan"),
    "bool": lambda _, x: (x.astype(bool), x, "nan"),
}


def spoiled(rng, x):
    """A table that holds no usable numbers, and why."""
    n, d = x.shape
    cell = (int(rng.integers(n)), int(rng.integers(d)))
    text = x.astype(object)
    text[cell] = rng.choice(["abc", "1,5", "", "1_000", "NaN?"])
    infinite = x.copy()
    infinite[cell] = rng.choice([np.inf, -np.inf])
    ragged = [list(row) for row in x]
    ragged[-1] = [*ragged[-1], 1.0]
    nested = x.astype(object)
    nested[cell] = [1.0, 2.0]
    choices = {
        "infinity": infinite,
        "text in a cell": text,
        "numbers as text": np.char.mod("%.17g", x),
        "complex": x + 1j,
        "dates": np.zeros(x.shape, "datetime64[s]"),
        "one dimension": x[:, 0],
        "three dimensions": x[:, :, None],
        "ragged lists": ragged,
        "a list in a cell": nested,
        "nothing": None,
        "a number": 3.0,
        "a dict": {"a": 1.0},
        "no rows": x[:0],
        "no columns": x[:, :0],
        "infinity in a sparse matrix": sparse.csr_array(infinite),
        "no observed cell": np.full(x.shape, np.nan),
        "infinity in a list": infinite.tolist(),
    }
    name = str(rng.choice(list(choices)))
    return choices[name], name


def bad_weights(rng, table):
    """Weights that must be refused."""
    n, d = table.x.shape
    kind = str(
        rng.choice(["negative", "NaN", "infinite", "zero", "short", "negative cells", "NaN cells", "cell shape"])
    )
    w, omega = np.ones(n), np.ones((n, d))
    match kind:
        case "negative":
            w[0] = -1.0
        case "NaN":
            w[0] = np.nan
        case "infinite":
            w[0] = np.inf
        case "zero":
            w[:] = 0.0
        case "short":
            w = np.ones(n + 1)
        case "negative cells":
            omega[0, 0] = -1.0
        case "NaN cells":
            omega[0, 0] = np.nan
        case "cell shape":
            omega = np.ones((n, d + 1))
    if "cell" in kind:
        table.cell_weight = omega
    else:
        table.sample_weight = w
    table.must_fail = f"weights: {kind}"


def table(rng):
    """One awkward table; one in twenty must be refused."""
    n, d = shape(rng)
    tags = [f"{n} x {d}"]
    x = values(rng, n, d, tags)
    if rng.random() < 0.04:
        given, why = spoiled(rng, x)
        return Table(given, None, [*tags, why], must_fail=why)
    holes(rng, x, tags)
    given, x, missing = contained(rng, x, tags)
    found = Table(given, x, tags, missing=missing)
    if rng.random() < 0.02:
        bad_weights(rng, found)
    else:
        weights(rng, found)
    return found
