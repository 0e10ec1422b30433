"""What report and explorer share: rows to show, encoded numbers, the frame of the page."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.atomic_write import appearing, require_writable
from probpca.displays.inputs import labels_of, names_of, numbers_of, table_of, text_of
from probpca.errors import DataError, ShapeError, SourceError
from probpca.models import LinearGaussian
from probpca.sources.open import is_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from probpca.typing import Array, Index


class Table(NamedTuple):
    """A table in memory beside the model that speaks of it."""

    model: LinearGaussian
    cells: Array  # NaN where missing: (n, d)
    numbers: Index  # by which people know the rows: (n,)
    names: list[str | None]  # of the rows, where they have one: n
    features: list[str]  # d names

    @property
    def size(self) -> str:
        """How many components, rows and columns there are, in words."""
        n, d = self.cells.shape
        counts = ((self.model.n_components, "component"), (n, "row"), (d, "column"))
        return ", ".join(counted(count, noun) for count, noun in counts)

    @property
    def scale(self) -> Array:
        """Standard deviation of each feature in the model: (d,)."""
        return np.sqrt(self.model.covariance.diag())

    @property
    def named(self) -> bool:
        """Has any row a name?"""
        return any(self.names)

    @property
    def counting(self) -> str:
        """How to ask for a row."""
        return f"{'a name, or a number' if self.named else 'a number'}; the first is row {self.numbers[0]:,}"

    def called(self, i: int) -> str:
        """A row by its name, or by its number."""
        return self.names[i] or f"row {self.numbers[i]:,}"

    def scaled(self, values: Array) -> Array:
        """Values in standard deviations of their feature from its mean: (k, d)."""
        return (values - self.model.mean) / self.scale


def counted(number: float, noun: str) -> str:
    """A number and its noun, in the plural where that is right."""
    return f"{number:,.12g} {noun}" + ("" if number == 1 else "s")


def ask_table(page: str, estimator: Any, X: Any, labels: Any, feature_names: Any, row_numbers: Any) -> Table:
    """Make sure that there is a fitted model, that the rows are at hand, and that names are as many as they name."""
    model = _model_of(page, estimator)
    if not is_table(X):
        msg = f"{page} shows a table in memory; got {type(X).__name__}.\nHint: pass some of its rows as an array."
        raise SourceError(msg)
    cells = table_of(X, unstored_missing=getattr(estimator, "missing", "nan") == "unstored")
    n, d = cells.shape
    if d != model.n_features:
        msg = f"rows must have {model.n_features} columns, as the fit had; got {d}."
        raise ShapeError(msg)
    if n == 0:
        msg = f"{page} needs at least one row; got a table without rows."
        raise ShapeError(msg)
    given = None if feature_names is None else map(text_of, feature_names)
    features = [name if name.strip() else f"(column {j})" for j, name in enumerate(names_of(estimator, given))]
    return Table(model, cells, numbers_of(X, row_numbers, n), labels_of(X, labels, n), features)


def model_data(table: Table) -> dict[str, Any]:
    """What scripts know of a model: x = mean + scale * (loadings z + noise)."""
    noise = np.sqrt(np.broadcast_to(table.model.noise_variance, table.scale.shape))
    return {
        "features": table.features,
        "mean": rounded(table.model.mean, 12),
        "scale": rounded(table.scale, 12),
        "loadings": packed(table.model.loadings / table.scale[:, None]),
        "noise": rounded(noise / table.scale),
        "components": table.model.n_components,
        "sameUnits": bool(table.scale.max() < 5 * table.scale.min()),
    }


def row_data(table: Table, chosen: Index) -> dict[str, Any]:
    """The rows that a page has: their numbers, and their names where they have one."""
    return {"rows": table.numbers[chosen].tolist(), "names": [table.names[i] for i in chosen]}


def _model_of(page: str, estimator: Any) -> LinearGaussian:
    model = getattr(estimator, "model_", None)
    if isinstance(model, LinearGaussian):
        return model
    kind = type(estimator).__name__
    if model is None and hasattr(estimator, "posterior"):
        msg = f"{page} shows a fitted estimator; got {kind} before its fit.\nHint: call fit(X) first."
    else:
        msg = (
            f"{page} shows a fitted PPCA or BayesianPCA; got {kind}.\n"
            "Hint: of a pipeline pass the last step, and the rows as it sees them."
        )
    raise DataError(msg)


def packed(values: Array) -> str:
    """Single precision without its last byte, in base 64: four letters a number, relative error below 2e-5."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, dtype=np.float32)
    rounded = single.view(np.uint32).ravel() + np.uint32(0x80)
    return b64encode(rounded.astype(">u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()).decode()


def packed_bits(mask: Any) -> str:
    """True and False, eight in a byte, in base 64."""
    return b64encode(np.packbits(np.asarray(mask, dtype=bool).ravel()).tobytes()).decode()


def rounded(values: Iterable[float], digits: int = 7) -> list[float | None]:
    """Numbers with so many significant digits; None, which JSON has, for those that are not finite."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values]


UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}


def page_place(path: Any) -> Path:
    """Where a page is to be; raise ``SourceError``, before there is any work, if it cannot be there."""
    place = Path(path)
    require_writable(place)
    return place


def write_page(place: Path, name: str, scripts: Sequence[str], data: Any, parts: Mapping[str, str]) -> Path:
    """Fill in the template ``name`` and what stands around it: ``parts`` are HTML, ``data`` is what scripts read."""
    page = Template(asset("page.html")).substitute(
        parts,
        body=Template(asset(f"{name}.html")).substitute(parts),
        policy=_policy(scripts),
        style=asset("page.css") + asset(f"{name}.css"),
        data=inert_json(data),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )
    try:
        with appearing(place) as part:
            part.write_bytes(page.encode("utf-8", "replace"))
    except OSError as error:
        msg = f"the page could not be written to {place}: {error.strerror}."
        raise SourceError(msg) from None
    return place


def asset(name: str) -> str:
    """A file that lies beside this one."""
    return files("probpca.pages").joinpath(name).read_text(encoding="utf-8")


def bundle(*names: str) -> str:
    """Scripts of this folder as one, with a scope of its own."""
    return "(() => {\n" + "\n".join(asset(name) for name in names) + "\n})();\n"


def inert_json(data: Any) -> str:
    """JSON in which nothing ends a script element, begins a comment or breaks a line."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(UNSAFE)


def _policy(scripts: Sequence[str]) -> str:
    """What the browser may do: run these scripts and no others, and load nothing."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
