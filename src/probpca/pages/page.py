"""Frame of report and explorer: the table to show, how many of its rows, encoded numbers, the HTML file."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.atomic_write import appearing, require_writable
from probpca.displays.inputs import (
    Categories,
    Group,
    cells_of,
    groups_of,
    has_factors,
    labels_of,
    names_of,
    not_fitted,
    noun_of,
    numbers_of,
    require_columns,
    text_of,
)
from probpca.errors import DataError, ShapeError, SourceError
from probpca.inference.calibration import probability
from probpca.models import LinearGaussian, Mixture
from probpca.sources.open import is_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from probpca.typing import Array, Index


class RowNames(NamedTuple):
    """What a caller says about the rows and columns of a page; None for what the table itself says."""

    labels: Any = None  # names of the rows
    groups: Any = None  # columns that colour the rows
    feature_names: Any = None
    row_numbers: Any = None


class Table(NamedTuple):
    """A table in memory and the model that was fitted to it."""

    model: Any  # LinearGaussian, or the Mixture of a report
    cells: Array  # NaN where missing: (n, d)
    numbers: Index  # of the rows, as readers count them: (n,)
    names: list[str | None]  # of the rows, where they have one: n
    features: list[str]  # d names
    components: list[str]  # q names
    groups: list[Group]  # columns that colour the rows
    loadings: Array  # of the components or rotated factors, (d, q), or of each cluster, in the units of the data
    noun: str = "component"  # what a latent variable is called: "component" or "factor"

    @property
    def size(self) -> str:
        """Numbers of rows, columns and components, in words."""
        n, d = self.cells.shape
        parts = (self.model.n_clusters, "cluster") if self.is_mixture else (self.model.n_components, self.noun)
        counts = ((n, "row"), (d, "column"), parts)
        return ", ".join(counted(count, noun) for count, noun in counts)

    @property
    def scale(self) -> Array:
        """Standard deviation of each feature in the model: (d,)."""
        if not self.is_mixture:
            return np.sqrt(self.model.covariance.diag())
        within = np.stack([cluster.covariance.diag() for cluster in self.model.clusters])
        return np.sqrt(self.model.weights @ (within + np.square(self.model.means - self.model.mean)))

    @property
    def is_mixture(self) -> bool:
        """Whether the rows have clusters."""
        return isinstance(self.model, Mixture)

    @property
    def named(self) -> bool:
        """Whether any row has a name."""
        return any(self.names)

    @property
    def counting(self) -> str:
        """A hint for the field in which a reader chooses a row."""
        return f"{'name or number' if self.named else 'number'}; the first is row {self.numbers[0]:,}"

    def called(self, i: int) -> str:
        """Name of a row, or its number if it has none."""
        return self.names[i] or f"row {self.numbers[i]:,}"

    def scaled(self, values: Array) -> Array:
        """Values in standard deviations of their feature from its mean: (k, d)."""
        return (values - self.model.mean) / self.scale


def counted(number: float, noun: str) -> str:
    """A number and its noun, in the plural unless the number is 1."""
    return f"{number:,.12g} {noun}" + ("" if number == 1 else "s")


def share(part: float) -> str:
    """A share in percent; only a share of 0 or 1 is written as 0% or 100%."""
    if 0 < part < 5e-4:
        return "less than 0.1%"
    if 0.9995 <= part < 1:
        return "more than 99.9%"
    return f"{100 * part:.1f}%"


def p_text(log10_p: float) -> str:
    """A p-value as text, with a power of ten if it is very small."""
    lead, _, power = probability(log10_p).partition("e")
    return f"{lead} \u00d7 {_power_of_ten(int(power))}" if power else lead


def _power_of_ten(exponent: int) -> str:
    raised = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
    return "10" + str(exponent).translate(raised)


def signed(number: str) -> str:
    """A number with a minus sign in place of a hyphen."""
    return number.replace("-", "\N{MINUS SIGN}")


def ask_table(page: str, estimator: Any, X: Any, names: RowNames) -> Table:
    """The table of a page; raise unless the model is fitted, the rows are in memory, and all names are given.

    Only a report takes mixtures.
    """
    model = _model_of(page, estimator)
    if not is_table(X):
        msg = f"{page} needs rows in memory; got {type(X).__name__}.\nHint: pass some of its rows as an array."
        raise SourceError(msg)
    cells = cells_of(estimator, X)
    require_columns(cells, model.n_features)
    n = len(cells)
    if n == 0:
        msg = f"{page} needs at least one row; got a table without rows."
        raise ShapeError(msg)
    given = None if names.feature_names is None else map(text_of, names.feature_names)
    features = [name if name.strip() else f"(column {j})" for j, name in enumerate(names_of(estimator, given))]
    components = [str(name) for name in estimator.get_feature_names_out()]
    rows = numbers_of(X, names.row_numbers, n), labels_of(X, names.labels, n)
    # The model has canonical axes, and the estimator answers in rotated factors.
    loadings = estimator.loadings_ if has_factors(estimator) else model.loadings
    return Table(model, cells, *rows, features, components, groups_of(names.groups, n), loadings, noun_of(estimator))


@dataclass(frozen=True)
class PageLimits:
    """How much of a large table one page holds: a file with more is slow to open."""

    most_rows: int = 20_000  # a random share of them if the table has more
    most_columns: int = 300  # of one row
    fewest_columns: int = 10  # of one row, however many rows there are
    most_cells: int = 200_000  # of all rows together
    most_bars: int = 30  # columns of the explorer, if it leaves some out

    def rows(self, n: int) -> int:
        """Number of rows on the page."""
        return min(n, self.most_rows)

    def columns(self, n: int, d: int) -> int:
        """Number of columns on the page for each of n rows with d columns."""
        if n * d <= self.most_cells and d <= self.most_columns:
            return d
        return min(d, self.most_columns, max(self.fewest_columns, self.most_cells // n))


def random_rows(n: int, count: int) -> Index:
    """Sorted positions of all n rows, or of ``count`` of them, always the same: (count,)."""
    return np.arange(n) if count >= n else np.sort(np.random.default_rng(0).choice(n, count, replace=False))


def model_data(table: Table) -> dict[str, Any]:
    """The model for the scripts of a page: x = mean + scale * (loadings z + noise)."""
    noise = np.sqrt(np.broadcast_to(table.model.noise_variance, table.scale.shape))
    return {
        "features": table.features,
        "componentNames": table.components,
        "mean": rounded(table.model.mean, 12),
        "scale": rounded(table.scale, 12),
        "loadings": packed(table.loadings / table.scale[:, None]),
        "noise": rounded(noise / table.scale),
        "components": table.model.n_components,
        "noun": table.noun,
        "sameUnits": bool(table.scale.max() < 5 * table.scale.min()),
    }


def row_data(table: Table, chosen: Index) -> dict[str, Any]:
    """Numbers, names and groups of the rows of a page; None for rows without a name."""
    return {
        "rows": table.numbers[chosen].tolist(),
        "names": [table.names[i] for i in chosen],
        "groups": [_group_data(group, chosen) for group in table.groups],
    }


def _group_data(group: Group, chosen: Index) -> dict[str, Any]:
    if not isinstance(group.by, Categories):
        return {"name": group.name, "numbers": packed(group.by[chosen])}
    names, codes, n_proper = group.by
    return {"name": group.name, "categories": names, "proper": n_proper, "codes": packed_positions(codes[chosen])}


def _model_of(page: str, estimator: Any) -> LinearGaussian | Mixture:
    model = getattr(estimator, "model_", None)
    takes_mixtures = page == "report"
    if isinstance(model, LinearGaussian) or (takes_mixtures and isinstance(model, Mixture)):
        return model
    kind = type(estimator).__name__
    if model is None and hasattr(estimator, "posterior"):
        raise not_fitted(page, kind)
    others = "BayesianPCA, FactorAnalysis or MixturePPCA" if takes_mixtures else "BayesianPCA or FactorAnalysis"
    hint = "pass the last step of a pipeline, and the rows as that step sees them."
    if isinstance(model, Mixture):
        hint = "report shows the clusters of a mixture."
    elif hasattr(estimator, "forecast"):
        hint = "series_report writes pages about time series."
    msg = f"{page} needs a fitted PPCA, {others}; got {kind}.\nHint: {hint}"
    raise DataError(msg)


def packed(values: Array) -> str:
    """Numbers in single precision without the last byte, in base 64: four letters each, relative error below 2e-5."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, dtype=np.float32)
    rounded = single.view(np.uint32).ravel() + np.uint32(0x80)
    return b64encode(rounded.astype(">u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()).decode()


def packed_positions(positions: Index) -> str:
    """Whole numbers below 2**24, three bytes each, in base 64."""
    return b64encode(positions.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()).decode()


def packed_bits(mask: Any) -> str:
    """Booleans, eight in a byte, in base 64."""
    return b64encode(np.packbits(np.asarray(mask, dtype=bool).ravel()).tobytes()).decode()


def rounded(values: Iterable[float], digits: int = 7) -> list[float | None]:
    """Numbers with ``digits`` significant digits; None, for JSON, where they are not finite."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values]


def words_of(table: Table) -> dict[str, str]:
    """What latent variables are called in the text of a page, and the name of the first."""
    noun = table.noun
    return {"noun": noun, "nouns": f"{noun}s", "Noun": noun.capitalize(), "first_name": table.components[0]}


def page_place(path: Any) -> Path:
    """Path of a page; raise ``SourceError``, before any work is done, if it cannot be written."""
    place = Path(path)
    require_writable(place)
    return place


def write_page(place: Path, name: str, scripts: Sequence[str], data: Any, parts: Mapping[str, str]) -> Path:
    """Write the page ``name``: ``parts`` are HTML for its template, ``data`` is JSON for its scripts.

    The page of a mixture has the style of other reports.
    """
    page = Template(asset("page.html")).substitute(
        parts,
        body=_filled(f"{name}.html", parts),
        policy=_policy(scripts),
        style=asset("page.css") + asset(f"{name.removesuffix('_clusters')}.css"),
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


def _filled(name: str, parts: Mapping[str, str]) -> str:
    """A template of this folder with its parts, and with the files that lines such as ``$include_file`` name."""
    text = re.sub(r"^\$include_(\w+)\n", lambda found: asset(f"{found[1]}.html"), asset(name), flags=re.MULTILINE)
    return Template(text).substitute(parts)


def asset(name: str) -> str:
    """Text of a file of this folder."""
    return files("probpca.pages").joinpath(name).read_text(encoding="utf-8")


def bundle(*names: str) -> str:
    """Several scripts of this folder as one script with its own scope."""
    return "(() => {\n" + "\n".join(asset(name) for name in names) + "\n})();\n"


def inert_json(data: Any) -> str:
    """JSON in which nothing ends a script element, begins a comment or breaks a line."""
    escaped = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(escaped)


def _policy(scripts: Sequence[str]) -> str:
    """Content security policy: the browser runs these scripts and no others, and loads nothing."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
