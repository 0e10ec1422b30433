"""Input of displays and pages: choices, names of rows and columns, tables in memory, fitted estimators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.blocks.block import dense_values, unmasked
from probpca.displays.axes import percent
from probpca.errors import DataError, ShapeError
from probpca.learning.complete.spectrum import Spectrum, log_likelihood_of
from probpca.learning.components import RULES
from probpca.learning.describe import describe
from probpca.learning.selection.correlations import correlations_of, correlations_of_moments
from probpca.learning.selection.criteria import bic
from probpca.learning.selection.parallel_analysis import scree
from probpca.learning.selection.result import Criterion, Selection
from probpca.learning.settings import Settings
from probpca.result_tables import default_names
from probpca.sources import open_source
from probpca.sources.readers.frames import frame_columns, is_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.estimators.series_tables import SeriesTables
    from probpca.learning.selection.parallel_analysis import Scree
    from probpca.typing import Array, Index


# Choices


def require_choice(what: str, given: Any, choices: Sequence[str]) -> None:
    """Raise ``DataError`` unless ``given`` is one of the choices."""
    if given not in choices:
        msg = f"{what} must be one of {', '.join(choices)}; got {given!r}."
        raise DataError(msg)


def require_level(level: float) -> float:
    """Return a probability; raise ``DataError`` unless it lies strictly between 0 and 1."""
    if not 0 < level < 1:
        msg = f"level must lie between 0 and 1; got {level}."
        raise DataError(msg)
    return float(level)


def chosen(what: str, asked: Any, count: int) -> list[int]:
    """Positions, counted from 0, as a list; raise ``ShapeError`` unless all lie below ``count``."""
    positions = np.atleast_1d(np.asarray(asked))
    if positions.dtype.kind not in "iu" or positions.size == 0 or positions.min() < 0 or positions.max() >= count:
        msg = f"{what} must be numbers from 0 to {count - 1}; got {asked!r}."
        raise ShapeError(msg)
    return [int(i) for i in positions]


def by_name(what: str, asked: Any, names: Sequence[str]) -> list[int]:
    """Positions of rows or columns that are given by name or by position."""
    several = [asked] if isinstance(asked, str) or np.ndim(asked) == 0 else list(asked)
    if not any(isinstance(one, str) for one in several):
        return chosen(what, several, len(names))
    unknown = [one for one in several if one not in names]
    if unknown:
        some = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        msg = f"{what} must be among {some}; got {unknown[0]!r}."
        raise ShapeError(msg)
    return [names.index(one) for one in several]


# Names and numbers of rows


def text_of(value: Any) -> str:
    """A name as text; an empty string if it is missing or blank."""
    if isinstance(value, tuple):  # of an index with several levels
        return ", ".join(map(str, value))
    text = str(value)
    missing = not isinstance(value, str) and text.lower() in {"nan", "nat", "none", "<na>"}
    return "" if missing or not text.strip() else text


def labels_of(X: Any, given: Any, n: int, what: str = "labels") -> list[str | None]:
    """Names of rows: those given, or those of a pandas index; None for rows without one."""
    names = given
    if given is None:
        index = _index_of(X)
        if index is None or _whole_numbers(index) is not None:
            return [None] * n
        names = index.astype(str) if getattr(index.dtype, "kind", "") == "M" else index  # dates without hours
    return [name or None for name in listed(what, map(text_of, names), n)]


def numbers_of(X: Any, given: Any, n: int) -> Index:
    """Numbers of rows: those given, those of a pandas index of whole numbers, or positions from 0: (n,)."""
    if given is None:
        index = _index_of(X)
        known = None if index is None else _whole_numbers(index)
        return np.arange(n) if known is None else known
    numbers = np.asarray(given)
    if numbers.shape != (n,) or numbers.dtype.kind not in "iu" or np.unique(numbers).size != n:
        msg = f"row_numbers must be {n} different whole numbers; got {given!r}."
        raise ShapeError(msg)
    return numbers.astype(np.int64)


def row_names(X: Any, given: Any, n: int) -> list[str]:
    """Names of rows, or their numbers where they have none; ``given`` is True for those of a pandas index."""
    names, numbers = labels_of(X, None if given is True else given, n), numbers_of(X, None, n)
    return [name or str(number) for name, number in zip(names, numbers, strict=True)]


def _index_of(X: Any) -> Any:
    """The index of a pandas dataframe; None for other tables."""
    index = getattr(X, "index", None)
    return None if index is None or callable(index) else index


def _whole_numbers(index: Any) -> Index | None:
    """A pandas index as whole numbers, if it holds different ones that JavaScript represents exactly; else None."""
    if getattr(index.dtype, "kind", "") not in ("i", "u") or not index.is_unique or index.hasnans:
        return None
    numbers = np.asarray(index, dtype=np.float64)
    return None if (np.abs(numbers) >= 2**53).any() else numbers.astype(np.int64)


# Groups of rows


class Categories(NamedTuple):
    """Categories of a column, and the category of each row."""

    names: tuple[str, ...]
    codes: Index  # position of each row among the names: (n,)
    n_proper: int  # names of the column itself; "other" and "missing" may follow


class Group(NamedTuple):
    """A column that colours rows: by categories, or by numbers on a scale."""

    name: str
    by: Categories | Array  # numbers are NaN if missing: (n,)


def groups_of(given: Any, n: int, most: int = 12) -> list[Group]:
    """Columns that colour n rows: none, one sequence, or several by name in a mapping or dataframe.

    Numbers with more than ``most`` distinct values lie on a scale; all other columns have at most ``most`` categories,
    see ``categories_of``.
    """
    if given is None:
        return []
    if is_frame(given):
        given = frame_columns(given)
    elif not isinstance(given, Mapping):
        name = getattr(given, "name", None)
        given = {"group" if name is None else name: given}
    return [_group_of(text_of(name) or "group", values, n, most) for name, values in given.items()]


def categories_of(values: Any, most: int = 12) -> Categories:
    """Categories of a column in their order, at most ``most``, and the category of each row.

    The rarest of many categories become one, "other", and missing cells another, "missing"; both come last and neither
    counts. Categories of a categorical column keep their order; numbers are in increasing order, text in alphabetical
    order.
    """
    texts = [_category_of(value) for value in values]
    counts = Counter(text for text in texts if text)
    given = getattr(getattr(values, "dtype", None), "categories", None)
    kept = sorted(counts, key=_order_of(counts) if given is None else [*map(_category_of, given)].index)
    if len(kept) > most:
        common = {name for name, _ in counts.most_common(most - 1)}
        kept = [name for name in kept if name in common]
    rare = counts.keys() - set(kept)
    names = [*kept, f"other ({len(rare):,} categories)"] if rare else kept
    place = {name: k for k, name in enumerate(kept)} | dict.fromkeys(rare, len(kept)) | {"": len(names)}
    names = names if all(texts) else [*names, "missing"]
    return Categories(tuple(names), np.array([place[text] for text in texts], dtype=np.int64), len(kept))


def numbers_in(values: Sequence[Any]) -> Array | None:
    """A column as numbers, NaN where it is missing or infinite; None if it holds anything but numbers: (n,)."""
    if not all(isinstance(value, Real) or not text_of(value) for value in values):
        return None
    numbers = np.array([float(value) if isinstance(value, Real) else np.nan for value in values])
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _group_of(name: str, values: Any, n: int, most: int) -> Group:
    if len(values) != n:
        msg = f"groups must have {n} values, one for each row; {name!r} has {len(values)}."
        raise ShapeError(msg)
    numbers = numbers_in(list(values))
    if numbers is not None and np.unique(numbers[np.isfinite(numbers)]).size > most:
        return Group(name, numbers)
    return Group(name, categories_of(values, most))


def _category_of(value: Any) -> str:
    """A category as text, whole numbers without decimals; an empty string if it is missing."""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else text_of(value)


def _order_of(texts: Any) -> Any:
    """Key by which categories are sorted: as numbers if all of them are."""
    try:
        numbers = {text: float(text) for text in texts}
    except ValueError:
        return str.casefold
    return numbers.__getitem__


# Names of columns


def listed(what: str, given: Any, count: int) -> list[str]:
    """Names as text; raise ``ShapeError`` unless there are ``count``."""
    names = [str(name) for name in given]
    if len(names) != count:
        msg = f"{what} must be {count} names; got {len(names)}."
        raise ShapeError(msg)
    return names


def names_of(estimator: Any, given: Any = None) -> list[str]:
    """Names of the features: those given, those seen in ``fit``, or x0, x1, ..."""
    known = getattr(estimator, "feature_names_in_", None) if given is None else given
    d = int(estimator.n_features_in_)
    return default_names(d) if known is None else listed("feature_names", known, d)


# Tables


def table_of(X: Any, *, unstored_missing: bool = False) -> Array:
    """All cells of a table in memory, NaN where missing: (n, d); a read-only view of an array of float64."""
    if type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2:
        cells = X.view()
        cells.setflags(write=False)
        return cells
    return np.asarray(open_source(X, unstored_missing=unstored_missing).map(dense_values))


def cells_of(estimator: Any, X: Any) -> Array:
    """All cells of a table in memory, NaN where the estimator takes them for missing: (n, d)."""
    return table_of(X, unstored_missing=getattr(estimator, "missing", "nan") == "unstored")


def require_columns(cells: Array, d: int) -> None:
    """Raise ``ShapeError`` unless a table has as many columns as the fit had."""
    if cells.shape[1] != d:
        msg = f"rows must have {d} columns, as in the fit; got {cells.shape[1]}."
        raise ShapeError(msg)


def some_rows(X: Any, values: Array, positions: list[int]) -> Any:
    """Some rows, as a dataframe if ``X`` is one: estimators find columns by their names."""
    return taken(X, positions) if is_frame(X) else values[positions]


def taken(X: Any, rows: Any) -> Any:
    """Some rows of a table, in a table of the same kind."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "schema") and hasattr(X, "take"):  # pyarrow
        return X.take(rows)
    return X[rows] if hasattr(X, "shape") else np.asarray(unmasked(X))[rows]


# Fitted estimators


def require_fitted(display: type, estimator: Any, *needed: str) -> None:
    """Raise ``DataError`` unless the estimator is fitted and has the members that the display needs."""
    lacking = [name for name in needed if not hasattr(type(estimator), name)]
    if lacking:
        msg = (
            f"{display.__name__} needs an estimator with {lacking[0]}, which {type(estimator).__name__} does not have."
        )
        raise DataError(msg)
    is_fitted = getattr(estimator, "__sklearn_is_fitted__", None)
    if not (hasattr(estimator, "model_") if is_fitted is None else is_fitted()):
        raise not_fitted(display.__name__, estimator)


def not_fitted(what: str, estimator: Any) -> DataError:
    """The error of a display or page that was given an estimator before its fit."""
    msg = f"{what} needs a fitted estimator; got {estimator}, which is not fitted.\nHint: call fit(X) first."
    return DataError(msg)


def has_factors(estimator: Any) -> bool:
    """Whether an estimator has factors, which may be rotated and correlated, instead of principal components."""
    return hasattr(type(estimator), "factor_correlations_")


def noun_of(estimator: Any) -> str:
    """What a latent variable of an estimator is called: "factor" or "component"."""
    return "factor" if has_factors(estimator) else "component"


def shown_loadings(estimator: Any) -> Array:
    """Loadings to show to people: of factors those of standardized columns, of components ``loadings_``: (d, q)."""
    return np.asarray(estimator.standardized_loadings_ if has_factors(estimator) else estimator.loadings_)


def correlations_with(estimator: Any) -> Array:
    """Correlations of the columns with the components or factors, in the model: (d, q)."""
    return np.asarray(estimator.structure_ if has_factors(estimator) else standardized_loadings(estimator))


def standardized_loadings(estimator: Any) -> Array:
    """Loadings of columns divided by their standard deviations in the model: (d, q).

    Those of uncorrelated components and factors are their correlations with the columns.
    """
    if has_factors(estimator):
        return np.asarray(estimator.standardized_loadings_)
    return np.asarray(estimator.loadings_) / deviations_of(estimator)[:, None]


def by_structure(loadings: Array, shown: Index) -> Index:
    """Positions of columns by the factor with their largest loading, and by its size; those without any come last."""
    size, largest = np.abs(loadings).max(axis=1), np.abs(loadings).argmax(axis=1)
    largest = np.where(size > 0, largest, loadings.shape[1])
    return np.asarray(shown[np.lexsort((shown, -size[shown], largest[shown]))], dtype=np.intp)


def deviations_of(estimator: Any) -> Array:
    """Standard deviations of the columns in the model, in the units of ``loadings_``: (d,)."""
    deviations = np.sqrt(estimator.model_.covariance.diag())
    return np.asarray(deviations if estimator.scale_ is None else deviations / estimator.scale_)


def rotation_of(estimator: Any) -> str:
    """Rotation of factors in words, such as "oblimin rotation"; an empty string for components and single factors."""
    if not has_factors(estimator) or estimator.n_components_ == 1:
        return ""
    method = estimator.rotation_.method
    return "unrotated" if method == "none" else f"{method.replace('_', ' ')} rotation"


def require_same_factors(estimator: Any, uncertainty: Any) -> None:
    """Raise ``DataError`` unless an uncertainty is that of the factors of an estimator, in the same rotation."""
    known, found = estimator.standardized_loadings_, uncertainty.loadings.value
    if found.shape != known.shape or not np.allclose(found, known, rtol=0, atol=1e-5):
        msg = (
            "uncertainty must be that of these factors, in the same rotation; its loadings are others.\n"
            "Hint: pass estimator.uncertainty(), computed after rotate()."
        )
        raise DataError(msg)


def component_title(estimator: Any, j: int) -> str:
    """Name of a component and its share of the variance, as the title of an axis: ``PC1 (44.2% of variance)``."""
    name = str(estimator.get_feature_names_out()[j])
    return f"{name} ({percent(estimator.explained_variance_ratio_[j])} of variance)"


def eigenvalue_shares(x: Array) -> Array:
    """Eigenvalues of the covariance of complete rows as shares of their sum, largest first: (min(n - 1, d),)."""
    n, d = x.shape
    centred = x - x.mean(axis=0)
    squares = centred @ centred.T if n < d else centred.T @ centred
    values = np.maximum(np.linalg.eigvalsh(squares)[::-1][: min(max(n - 1, 1), d)], 0.0)
    total = float(values.sum())
    return values / total if total > 0 else values


def scree_of_rows(X: Any, most: int, *, sample_weight: Any = None, missing: str = "nan") -> Scree:
    """The ``most`` largest eigenvalues of the correlations of a table, beside those of independent columns."""
    require_choice("missing", missing, ("nan", "unstored"))
    source = open_source(X, weight=sample_weight, unstored_missing=missing == "unstored")
    rng = np.random.default_rng(0)
    return scree(correlations_of(describe(source, rng), Settings(), rng), most)


def scree_of_fit(estimator: Any, X: Any, most: int, sample_weight: Any = None) -> Scree:
    """The same for the rows of a factor analysis; without ``X`` from the moments of a fit to complete rows."""
    if X is not None:
        require_columns(cells_of(estimator, X), estimator.n_features_in_)
        return scree_of_rows(X, most, sample_weight=sample_weight, missing=estimator.missing)
    moments = estimator._state.result.moments  # noqa: SLF001
    if moments is None:
        msg = "eigenvalues of the correlations need the training rows after this fit.\nHint: pass them as X."
        raise DataError(msg)
    return scree(correlations_of_moments(moments), most)


def noise_along(estimator: Any) -> Any:
    """Noise variance along each component, (q,); one number where all features have the same noise."""
    noise = np.asarray(estimator.noise_variance_)
    return noise if noise.ndim == 0 else np.square(estimator.components_) @ noise


def own_bic(estimator: Any, tolerance: float = 0.01) -> Selection | None:
    """BIC of 1 .. q components, which follows from the variances of an exact fit with q; None for other fits.

    A fit is exact if its log-likelihood is that of its variances within ``tolerance`` nats. The last count is named as
    the choice only if BIC has chosen it among larger ones.
    """
    model, n = estimator.model_, float(estimator.n_samples_)
    d, q = model.loadings.shape
    if q < 3:  # too few for a curve
        return None
    unit = np.sqrt(np.broadcast_to(model.noise_variance, (d,)))
    axes, above = model.rescale(1 / unit).principal_axes  # where the noise is 1 in every direction
    spectrum = Spectrum(n, int(n), model.mean, 1 + np.square(above), axes, float(d - q), 0.0)
    shift = -n * float(np.log(unit).sum())
    if not abs(log_likelihood_of(spectrum, q) + shift - getattr(estimator, "log_likelihood_", np.nan)) < tolerance:
        return None
    curve = bic(spectrum, q)
    choice = curve.best if curve.best < q or estimator.rule_ == RULES["bic"] else None
    return Selection((Criterion("bic", choice, curve.n_components, curve.score + shift),), n, d)


def series_of(estimator: Any, X: Any, inputs: Any = None) -> SeriesTables:
    """Time series on their grids of time, read as the fit of an estimator did."""
    from probpca.estimators.series_tables import tables_of  # noqa: PLC0415

    return tables_of(estimator, X, inputs)
