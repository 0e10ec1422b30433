"""What each kind of model file holds: tables of fields with types, shapes and ranges.

``check_record`` compares a file with its table, when it is read and before it is written. Letters stand for sizes:

====== ============================================= ====== ==============================================
letter size                                          letter size
====== ============================================= ====== ==============================================
n      columns of the training table                 p      entries of a packed matrix of size q + 1
d      features of the model                         s      sequences of a time series
q      components, or states                         u      inputs of a time series
m      draws of the parameters                       k      clusters of a mixture
r      rows of the training table                    t      any number
====== ============================================= ====== ==============================================
"""

from __future__ import annotations

from math import inf, isfinite
from reprlib import Repr
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.errors import FileFormatError
from probpca.linalg.packed import all_zero_or_definite, packed_size
from probpca.models.layout import ROLES
from probpca.models.rotation import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from probpca.typing import Array

LARGEST = float(np.finfo(np.float64).max)
SMALLEST = float(np.finfo(np.float64).tiny)
"""The smallest positive number with all of its digits; the inverse of a smaller one may be infinite."""
ROOT_OF_LARGEST = 1e154
"""Loadings beyond this have squares that are infinite."""
FARTHEST = 1e150
"""Standard deviations of the noise beyond which squared distances may be infinite."""
STEEPEST = 1e100
"""Entries of a transition beyond this make states infinite within a few steps."""
WIDEST = 1e303
"""Variances of states and parameters beyond this have sums that are infinite."""
ROOT_OF_WIDEST = 1e151
"""Square roots of covariances of states beyond this have squares that are infinite."""
INTEGERS = 2**63
"""Seeds of draws, and other whole numbers, lie below this."""

SHORT = Repr()
SHORT.maxother = SHORT.maxstring = SHORT.maxlong = 60


class Value(NamedTuple):
    """What a value in the header may be."""

    words: str
    allows: Callable[[Any], bool]
    size: str = ""  # letter of the size that the number is, or that the list has
    optional: bool = False


class Numbers(NamedTuple):
    """What an array may be: float64 or whole numbers of some shape, between two bounds, which excludes NaN."""

    shapes: tuple[str, ...] = ()  # letters and numbers, such as "d q"; if there are none, any shape and any numbers
    low: float = -LARGEST
    high: float | str = LARGEST  # a letter: numbers below that size
    whole: bool = False
    needed: bool | str = True  # a name: needed if, and only if, the file holds an array of that name
    also: tuple[str, Callable[[Array], bool]] | None = None  # a further condition, and its description


class Kind(NamedTuple):
    """Table of the fields of one kind of file; a ``Mapping`` in the header is a table of its own."""

    header: Mapping[str, Any]
    arrays: Mapping[str, Numbers]
    laws: tuple[tuple[str, Callable[[Any, Any], bool]], ...] = ()  # about several fields of header and arrays


# Values of the header


def whole(low: float = 0, high: float = inf, size: str = "") -> Value:
    """Allow whole numbers; True and False are none."""
    words = f"a whole number from {low} on" if high == inf else f"a whole number from {low} to {high}"
    return Value(words, lambda value: type(value) is int and low <= value <= high, size)


def number(low: float = -LARGEST, *, nan: bool = False) -> Value:
    """Allow finite numbers from ``low`` on, and NaN where it means unknown.

    Larger whole numbers are objects for numpy, and none of its functions takes them.
    """
    words = f"a finite number{'' if low == -LARGEST else f' from {low:g} on'}, below 2**63 if it is whole"

    def allows(value: Any) -> bool:
        plain = type(value) is float or (type(value) is int and abs(value) < INTEGERS)
        return plain and (low <= value <= LARGEST or (nan and str(value) == "nan"))

    return Value(f"{words}, or NaN" if nan else words, allows)


def each(item: Value, size: str = "") -> Value:
    """Allow lists of such values."""
    return Value(f"a list, each {item.words}", lambda value: type(value) is list and all(map(item.allows, value)), size)


def row(*items: Value) -> Value:
    """Allow lists with one value of each kind."""

    def allows(value: Any) -> bool:
        return type(value) is list and len(value) == len(items) and all(i.allows(v) for i, v in zip(items, value))  # noqa: B905

    return Value(f"a list of {', '.join(item.words for item in items)}", allows)


def entries(**items: Value) -> Value:
    """Allow objects with exactly these entries."""

    def allows(value: Any) -> bool:
        return (
            type(value) is dict and value.keys() == items.keys() and all(items[k].allows(v) for k, v in value.items())
        )

    return Value(f"an object of {', '.join(f'{name} ({item.words})' for name, item in items.items())}", allows)


def settings(**items: Value) -> Value:
    """Allow objects in which these entries, if they are there, have such values."""

    def allows(value: Any) -> bool:
        return type(value) is dict and all(items[k].allows(v) for k, v in value.items() if k in items)

    return Value(f"an object of settings: {', '.join(f'{k} ({item.words})' for k, item in items.items())}", allows)


def one_of(*options: Value) -> Value:
    """Allow whatever one of the options allows."""
    return Value(
        " or ".join(option.words for option in options), lambda value: any(option.allows(value) for option in options)
    )


def choice(*options: str) -> Value:
    """Allow some texts."""
    return Value(f"one of {', '.join(options)}", lambda value: type(value) is str and value in options)


def names(size: str) -> Value:
    """Allow distinct texts, one for each column, or null."""

    def allows(value: Any) -> bool:
        return value is None or (
            type(value) is list and {type(v) for v in value} == {str} and len(set(value)) == len(value)
        )

    return Value(f"a list of {size} distinct names, or null", allows, size)


TEXT = Value("text", lambda value: type(value) is str)
FLAG = Value("true or false", lambda value: type(value) is bool)
NOTHING = Value("null", lambda value: value is None)
OBJECT = Value("an object", lambda value: type(value) is dict)
CODE = number(nan=True)
PARAMETERS = Value(
    "an object of numbers, texts, true, false and null",
    lambda value: type(value) is dict and not any(isinstance(entry, list | dict) for entry in value.values()),
)
OPTIONS = Value(
    "an object of numbers, true and false",
    lambda value: type(value) is dict and all(type(entry) in (bool, int, float) for entry in value.values()),
)
FACTOR_PARAMETERS = Value(
    f"{PARAMETERS.words}, with {OPTIONS.words} or null as rotation_options",
    lambda value: (
        type(value) is dict
        and PARAMETERS.allows({name: entry for name, entry in value.items() if name != "rotation_options"})
        and one_of(OPTIONS, NOTHING).allows(value.get("rotation_options", ""))
    ),
)


def _is_mark(value: Any) -> bool:
    """Whether a parameter can mark missing cells; whole numbers of any size are compared as floats."""
    return one_of(CODE, NOTHING).allows(float(value) if type(value) is int and abs(value) <= LARGEST else value)


IMPUTER_PARAMETERS = Value(
    f"{PARAMETERS.words}, with a number or null as missing_values",
    lambda value: PARAMETERS.allows(value) and _is_mark(value.get("missing_values", "")),
)


# Conditions on arrays


def ascending(values: Array) -> bool:
    """Whether numbers increase."""
    return bool((np.diff(values) > 0).all())


def are_covariances(values: Array, rounding: float = 1e-8) -> bool:
    """Whether matrices (..., q, q) are symmetric and positive semidefinite up to rounding; no variance is subnormal."""
    variance = np.diagonal(values, axis1=-2, axis2=-1)
    if not ((variance == 0) | (variance >= SMALLEST)).all():
        return False
    size = np.abs(values).max(initial=0.0, axis=(-2, -1), keepdims=True)
    scaled = values / np.where(size > 0, size, 1.0)
    symmetric = np.abs(scaled - np.swapaxes(scaled, -1, -2)).max(initial=0.0) <= rounding
    return bool(symmetric and np.linalg.eigvalsh(scaled).min(initial=0.0) >= -rounding)


def is_calibration(values: Array) -> bool:
    """Whether three numbers are scale, degrees of freedom and share of a ``Calibration``."""
    scale, degrees, extreme = values.tolist()
    return 0 < scale < inf and degrees >= SMALLEST and 0 <= extreme <= 1


def has_unit_columns(values: Array, rounding: float = 1e-6) -> bool:
    """Whether the columns of a square matrix have length 1 and are clearly independent."""
    lengths = np.sqrt(np.square(values).sum(axis=0))
    return bool((np.abs(lengths - 1) <= rounding).all() and np.linalg.svd(values)[1][-1] > rounding)


def are_weights(values: Array, rounding: float = 1e-6) -> bool:
    """Whether numbers are positive and sum to 1."""
    return bool((values > 0).all() and abs(values.sum() - 1) <= rounding)


def are_scores(values: Array) -> bool:
    """Whether a table has lines of numbers of clusters and components, parameters and criteria of mixtures."""
    if values.ndim != 2 or values.shape[1] != 7 or not len(values):
        return False
    whole = values[:, [0, 1, 3]]
    flags = values[:, 6]
    return bool((whole == np.round(whole)).all() and (whole >= 1).all() and ((flags == 0) | (flags == 1)).all())


def are_packed_stacks(values: Array) -> bool:
    """Whether stacks of packed matrices are each zero or positive definite."""
    return all(all_zero_or_definite(part) for part in values)


COVARIANCE = ("symmetric and positive semidefinite, without subnormal variances", are_covariances)
PACKED = ("packed matrices, each zero or positive definite", all_zero_or_definite)


def one_noise_variance(_: Mapping[str, Any], arrays: Mapping[str, Any], rounding: float = 1e-6) -> bool:
    """Whether the columns divided by ``scale_`` have one noise variance."""
    if "scale_" not in arrays:
        return True  # a PPCA that a dynamical system made has a noise variance for each feature
    with np.errstate(over="ignore"):
        scaled = arrays["noise_variance"] / arrays["scale_"] / arrays["scale_"]
    return bool(
        scaled.min() >= SMALLEST and isfinite(scaled.max()) and scaled.max() - scaled.min() <= rounding * scaled.max()
    )


def moments_are_moderate(prefix: str = "") -> Callable[[Mapping[str, Any], Mapping[str, Any]], bool]:
    """Whether the noise has a finite total variance, and means a distance from zero with a finite square.

    With a prefix, of several draws of a model.
    """

    def holds(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
        if f"{prefix}mean" not in arrays:
            return True
        mean, variance = arrays[f"{prefix}mean"], arrays[f"{prefix}noise_variance"]
        variance = variance.reshape(variance.shape + (1,) * (mean.ndim - variance.ndim))
        with np.errstate(over="ignore"):
            total = (variance + np.zeros_like(mean)).sum(axis=-1)
        return bool(np.isfinite(total).all()) and _are_near(mean, variance)

    return holds


def states_are_near(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether the same holds for the features that the first and the last states of time series explain."""
    states = [np.abs(arrays[name]) for name in ("initial_mean", "last_mean") if name in arrays]
    with np.errstate(over="ignore"):
        return all(_are_near(state @ np.abs(arrays["loadings"].T), arrays["noise_variance"]) for state in states)


def _are_near(mean: Array, variance: Array) -> bool:
    with np.errstate(over="ignore"):
        return bool((np.abs(mean) / np.sqrt(variance)).max(initial=0.0) <= FARTHEST)


def one_noise_or_scales(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether there is one noise variance, unless columns were scaled."""
    return "scale_" in arrays or arrays["noise_variance"].ndim == 0


def own_noise_variances(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether each feature has a noise variance of its own."""
    return arrays["noise_variance"].ndim == 1


def empty_features_are(name: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], bool]:
    """Whether the packed matrices under some name are zero for the features without observed cells, and no others."""

    def holds(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
        zero, empty = np.flatnonzero(arrays[name][-1] == 0), arrays["empty_features_"]
        return zero.shape == empty.shape and bool((zero == empty).all())

    return holds


def empty_features_of_clusters(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether the features without observed cells have no information in any cluster."""
    empty = arrays["empty_features_"]
    return bool((arrays["information_"][:, -1, empty] == 0).all())


def has_chosen_score(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether the table of criteria has a line for the mixture itself."""
    K, _d, q = arrays["loadings"].shape
    table = arrays["criteria_"]
    return bool(((table[:, 0] == K) & (table[:, 1] == q)).any())


def empty_features_are_uncounted(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether the features without observed cells are those of which none was counted."""
    return bool(np.array_equal(np.flatnonzero(arrays["counts"] == 0), arrays["empty_features_"]))


def is_partition(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether every column is either empty or has observed cells."""
    columns = np.sort(np.concatenate([arrays["kept"], arrays["empty"]]))
    return bool((columns == np.arange(len(arrays["lower"]))).all()) if len(columns) == len(arrays["lower"]) else False


def are_limits(_: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether lower bounds do not exceed upper bounds."""
    return bool((arrays["lower"] <= arrays["upper"]).all())


def are_sequences(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether the numbers of steps, cells, sequences and columns of time series agree with each other."""
    fitted, d = header["fitted"], header["fitted"]["n_features_in_"]
    tables = fitted["tables"]
    return (
        sum(table["length"] for table in tables) == fitted["n_steps_"]
        and float(arrays["counts"].sum()) == fitted["n_observed_"]
        and (fitted["several"] or len(tables) == 1)
        and all(len(table["columns"] or ()) == (0 if table["backend"] is None else d) for table in tables)
    )


def layout_fits(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether the layout of a structured system has an entry for each state, and names features that exist."""
    layout = header.get("fitted", header).get("layout")
    if layout is None:
        return True
    d, q = arrays["loadings"].shape
    roles, features = layout["roles"], layout["features"]
    return (
        len(roles) == len(features) == q
        and all(j < d for j in features)
        and all((role == "factor") == (j < 0) for role, j in zip(roles, features, strict=True))
    )


# The tables


def model(d: str = "d") -> dict[str, Numbers]:
    """Arrays of a ``LinearGaussian``."""
    return {
        "loadings": Numbers((f"{d} q",), -ROOT_OF_LARGEST, ROOT_OF_LARGEST),
        "mean": Numbers((d,)),
        "noise_variance": Numbers(("", d), SMALLEST),
    }


def mixture() -> dict[str, Numbers]:
    """Arrays of a ``Mixture``, one model for each cluster."""
    return {
        "cluster_weights": Numbers(("k",), 0.0, 1.0, also=("positive and with sum 1", are_weights)),
        "loadings": Numbers(("k d q",), -ROOT_OF_LARGEST, ROOT_OF_LARGEST),
        "mean": Numbers(("k d",)),
        "noise_variance": Numbers(("k", "k d"), SMALLEST),
    }


def positions(size: str, *, needed: bool | str = True) -> Numbers:
    """Positions of columns, increasing."""
    return Numbers(("t",), 0, size, whole=True, needed=needed, also=("increasing", ascending))


def table_fit(d: str = "d") -> dict[str, Numbers]:
    """Arrays that fits to tables have in common, beside the model."""
    return {
        "trace_": Numbers(("t",)),
        "column_std_": Numbers((d,), 0, needed=False),
        "scale_": Numbers((d,), SMALLEST, needed=False),
        "empty_features_": positions(d),
        "calibration_": Numbers(("3",), 0, inf, also=("scale, degrees and share of a calibration", is_calibration)),
    }


def ppca_arrays() -> dict[str, Numbers]:
    """Arrays of a ``PPCA``."""
    return {
        **model(),
        **table_fit(),
        "information_": Numbers(("p d", "p 1"), also=PACKED),
        "row_weight_": Numbers(("r",), 0, 1, needed=False),
        "cell_weight_": Numbers(("r d",), 0, 1, needed=False),
        "draws_mean": Numbers(("m d",), needed=False),
        "draws_loadings": Numbers(("m d q",), -ROOT_OF_LARGEST, ROOT_OF_LARGEST, needed="draws_mean"),
        "draws_noise_variance": Numbers(("m", "m d"), SMALLEST, needed="draws_mean"),
    }


def factor_arrays() -> dict[str, Numbers]:
    """Arrays of a ``FactorAnalysis``."""
    return {
        **ppca_arrays(),
        "rotation_matrix_": Numbers(("q q",), -1.0, 1.0, also=("columns of length 1", has_unit_columns)),
        "heywood_features_": positions("d"),
        "fit_indices_": Numbers(needed=False, also=("21 numbers", lambda values: values.shape == (21,))),
    }


def mixture_fit() -> dict[str, Numbers]:
    """Arrays of a ``MixturePPCA``."""
    return {
        **mixture(),
        "trace_": Numbers(("t",)),
        "criteria_": Numbers(also=("lines of 7 numbers: sizes, log-likelihood and criteria of mixtures", are_scores)),
        "information_": Numbers(
            ("k p d",), also=("packed matrices, each zero or positive definite", are_packed_stacks)
        ),
        "empty_features_": positions("d"),
        "degenerate_clusters_": positions("k"),
        "column_std_": Numbers(("d",), 0),
        "calibration_": Numbers(("3",), 0, inf, also=("scale, degrees and share of a calibration", is_calibration)),
    }


def parameter_arrays(*parameters: str) -> dict[str, Numbers]:
    """Parameters of an estimator that may be arrays; the next fit checks them."""
    return {f"parameter_{name}": Numbers(needed=False) for name in parameters}


STORY = {"n_iter_": whole(), "status": TEXT}
COUNTS = {"n_samples_": number(SMALLEST), "n_observed_": number(SMALLEST)}
CHOICE = {"rule_": TEXT, "notes_": each(TEXT), "calibration_obstacle": TEXT}
PPCA_NUMBERS = {
    **STORY,
    **COUNTS,
    **CHOICE,
    "log_likelihood_": number(nan=True),  # unknown if a dynamical system made the estimator
    "draw_seed_": one_of(whole(0, INTEGERS - 1), NOTHING),
    "sketch_error_": number(0),
}
FACTOR_NUMBERS = {
    **PPCA_NUMBERS,
    "rotation_method": choice(*METHODS),
    "rotation_criterion": number(),
    "rotation_n_iter": whole(),
    "rotation_converged": FLAG,
    "rotation_options": OPTIONS,
    "cells_weighted": FLAG,
    "fit_indices_note": TEXT,
    "precision_unit": number(SMALLEST),
}
MIXTURE_NUMBERS = {
    **STORY,
    **COUNTS,
    **CHOICE,
    "log_likelihood_": number(),
    "draw_seed_": whole(0, INTEGERS - 1),
}
BELIEF_NUMBERS = {**STORY, **COUNTS, **CHOICE, "lower_bound_": number(), "draw_seed_": whole(0, INTEGERS - 1)}
TIME_INDEX = entries(
    kind=choice("DatetimeIndex", "PeriodIndex", "TimedeltaIndex", "RangeIndex", "Index"),
    labels=each(one_of(TEXT, number())),
    step=one_of(whole(-inf), NOTHING),
    freq=one_of(TEXT, NOTHING),
    unit=one_of(choice("s", "ms", "us", "ns"), NOTHING),
    tz=one_of(TEXT, NOTHING),
    name=one_of(TEXT, NOTHING),
)
STEP = entries(unit=choice("number", "month", "day", "weekday", "instant"), count=number(SMALLEST), month_end=FLAG)
TIME_UNIT = choice("", "D", "s", "ms", "us", "ns")
COLUMN_NAME = one_of(TEXT, whole(-inf), NOTHING)
TIME_AXIS = entries(
    kind=choice("datetime", "date", "period", "duration", "range", "number"),
    name=COLUMN_NAME,
    is_column=FLAG,
    freq=one_of(TEXT, NOTHING),
    unit=TIME_UNIT,
    zone=one_of(TEXT, NOTHING),
    tick=number(),
    step=one_of(STEP, NOTHING),
)
READING = entries(
    time=COLUMN_NAME,
    series=COLUMN_NAME,
    step=one_of(STEP, NOTHING),
    unit=TIME_UNIT,
    names=each(TEXT),
    is_wide=FLAG,
    is_given=FLAG,
)
SERIES_TABLE = entries(
    backend=one_of(choice("pandas", "polars", "pyarrow", "modin", "cudf"), NOTHING),
    columns=one_of(each(one_of(TEXT, whole(-inf))), NOTHING),
    index=one_of(TIME_INDEX, NOTHING),
    length=whole(),
    later=whole(0, 2**53),
    axis=one_of(TIME_AXIS, NOTHING),
)
TRENDS_OF_FEATURES = one_of(each(one_of(TEXT, NOTHING)), TEXT, NOTHING)
SERIES_PARAMETER_VALUES = Value(
    f"{PARAMETERS.words}, with texts, or one for each feature, as trend",
    lambda value: (
        type(value) is dict
        and PARAMETERS.allows({name: entry for name, entry in value.items() if name != "trend"})
        and TRENDS_OF_FEATURES.allows(value.get("trend", 0))
    ),
)
LAYOUT = entries(roles=each(choice(*ROLES)), features=each(whole(-1)), period=whole(1), unscored=whole())
"""What each state of a structured dynamical system is."""
SERIES_NUMBERS = {
    **STORY,
    "log_likelihood_": number(),
    "n_observed_": whole(),
    "rule_": TEXT,
    "selection_scores_": each(row(whole(), number())),
    "n_steps_": whole(1),
    "layout": one_of(LAYOUT, NOTHING),
    "tables": each(SERIES_TABLE, "s"),
    "several": FLAG,
    "reading": READING,
    "n_inserted_": whole(),
    "steady": each(FLAG, "s"),
}
STATE_SPACE = {
    **model(),
    "transition": Numbers(("q q",), -STEEPEST, STEEPEST),
    "process_noise": Numbers(("q q",), -WIDEST, WIDEST, also=COVARIANCE),
    "input_loadings": Numbers(("q u",), -ROOT_OF_LARGEST, ROOT_OF_LARGEST, needed=False),
    "initial_mean": Numbers(("q",)),
    "initial_covariance": Numbers(("q q",), -WIDEST, WIDEST, also=COVARIANCE),
}
SERIES_PARAMETERS = (
    "transition",
    "process_noise",
    "noise",
    "loadings",
    "offset",
    "initial_mean",
    "initial_covariance",
)
EMPTY_INFORMATION = ("information_ must be zero for empty_features_ alone", empty_features_are("information_"))
FAR = f"within {FARTHEST:g} standard deviations of the noise"
NEAR_MEAN = (f"noise_variance must have a finite sum, and mean must lie {FAR}", moments_are_moderate())
NEAR_DRAWS = (
    f"draws_noise_variance must have a finite sum, and draws_mean must lie {FAR}",
    moments_are_moderate("draws_"),
)
LAID_OUT = ("layout must describe every state, and features of the model", layout_fits)
NEAR_STATES = (f"initial_mean and last_mean, times loadings, must lie {FAR}", states_are_near)
UNCOUNTED = ("empty_features_ must be the features whose counts are zero", empty_features_are_uncounted)
ONE_NOISE = ("noise_variance must be a multiple of the squares of scale_", one_noise_variance)


TABLE_FORMAT = settings(  # entries of a later version are for the command line to refuse
    missing=each(TEXT),
    decimal=TEXT,
    thousands=TEXT,
    skip_rows=whole(),
    header=FLAG,
    sheet=one_of(TEXT, whole()),
    transpose=FLAG,
    parse_units=FLAG,
)


def estimator(size: str, numbers: Mapping[str, Value], parameters: Value = PARAMETERS) -> dict[str, Any]:
    """Header of an estimator with n or d columns."""
    return {
        "parameters": parameters,
        "fitted": {"n_features_in_": whole(1, size=size), **numbers},
        "feature_names": names(size),
        # Where the command line found the table, and how it read it.
        "table": one_of(row(TEXT, whole(), whole(-inf)), NOTHING)._replace(optional=True),
        "table_format": TABLE_FORMAT._replace(optional=True),
    }


PPCA_LAWS = (NEAR_MEAN, NEAR_DRAWS, ONE_NOISE, EMPTY_INFORMATION)
FACTOR_LAWS = (
    NEAR_MEAN,
    NEAR_DRAWS,
    ("noise_variance must have one number for each feature", own_noise_variances),
    EMPTY_INFORMATION,
)
MIXTURE_LAWS = (
    NEAR_MEAN,
    ("information_ must be zero for empty_features_", empty_features_of_clusters),
    ("criteria_ must have a line for the sizes of loadings", has_chosen_score),
)
IMPUTER_ARRAYS = {
    **parameter_arrays("min_value", "max_value"),
    "kept": Numbers(("d",), 0, "n", whole=True, also=("increasing", ascending)),
    "empty": positions("n"),
    "lower": Numbers(("n",), -inf),
    "upper": Numbers(("n",), high=inf),
    "indicated": positions("n", needed=False),
}
IMPUTER_FAMILY = one_of(choice("ppca", "fa"), NOTHING)


def imputer(numbers: Mapping[str, Value]) -> dict[str, Any]:
    """Header of an imputer, given the numbers of its model."""
    return estimator("n", {**numbers, "family": IMPUTER_FAMILY, "code": CODE}, IMPUTER_PARAMETERS)


IMPUTER_LAWS = (
    ("kept and empty must contain every column once", is_partition),
    ("lower must not exceed upper", are_limits),
)
KINDS = {
    "LinearGaussian": Kind({}, model(), (NEAR_MEAN,)),
    "StateSpace": Kind({"layout": one_of(LAYOUT, NOTHING)}, STATE_SPACE, (NEAR_MEAN, NEAR_STATES, LAID_OUT)),
    "PPCA": Kind(estimator("d", PPCA_NUMBERS), ppca_arrays(), PPCA_LAWS),
    "FactorAnalysis": Kind(estimator("d", FACTOR_NUMBERS, FACTOR_PARAMETERS), factor_arrays(), FACTOR_LAWS),
    "Mixture": Kind({}, mixture(), (NEAR_MEAN,)),
    "MixturePPCA": Kind(estimator("d", MIXTURE_NUMBERS), mixture_fit(), MIXTURE_LAWS),
    "BayesianPCA": Kind(
        estimator("d", BELIEF_NUMBERS),
        {
            **model(),
            **table_fit(),
            "covariance": Numbers(("p d", "p 1"), -WIDEST, WIDEST, also=PACKED),
            "precision": Numbers(("q",), SMALLEST),
        },
        (
            NEAR_MEAN,
            ONE_NOISE,
            ("noise_variance must be one number without scale_", one_noise_or_scales),
            ("covariance must be zero for empty_features_ alone", empty_features_are("covariance")),
        ),
    ),
    "LinearDynamicalSystem": Kind(
        estimator("d", SERIES_NUMBERS, SERIES_PARAMETER_VALUES),
        {
            **parameter_arrays(*SERIES_PARAMETERS),
            **STATE_SPACE,
            "trace_": Numbers(("t",)),
            "empty_features_": positions("d"),
            "counts": Numbers(("d",), 0, INTEGERS),
            "last_mean": Numbers(("s q",)),
            "last_root": Numbers(("s q q",), -ROOT_OF_WIDEST, ROOT_OF_WIDEST),
            "last_inputs": Numbers(("s u",), needed="input_loadings"),
        },
        (
            NEAR_MEAN,
            NEAR_STATES,
            UNCOUNTED,
            LAID_OUT,
            ("n_steps_, n_observed_, several, tables and counts must describe the same sequences", are_sequences),
        ),
    ),
    "PPCAImputer": Kind(
        imputer({"estimator": PARAMETERS, **PPCA_NUMBERS}),
        {**IMPUTER_ARRAYS, **ppca_arrays()},
        (*IMPUTER_LAWS, *PPCA_LAWS),
    ),
    "checkpoint": Kind(
        {"rule": TEXT, "asked": OBJECT, "cells": number(0)},
        {
            **model(),
            "trace": Numbers(("t",)),
            "column_mean": Numbers(("d",)),
            "column_squares": Numbers(("d",), 0),
            "fingerprint": Numbers(("t",)),
        },
    ),
}
CONTAINER = {"format": TEXT, "schema": whole(), "kind": TEXT}
"""Entries of every header."""
IMPUTERS = {
    "ppca": KINDS["PPCAImputer"],
    "fa": Kind(
        imputer({"estimator": FACTOR_PARAMETERS, **FACTOR_NUMBERS}),
        {**IMPUTER_ARRAYS, **factor_arrays()},
        (*IMPUTER_LAWS, *FACTOR_LAWS),
    ),
    None: Kind(imputer({"estimator": NOTHING}), {**IMPUTER_ARRAYS, "mean": Numbers(("d",))}, IMPUTER_LAWS),
}
"""Kinds of ``PPCAImputer`` by their models; None if at most one column had observed cells: there is no model."""


# The check


def check_record(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Raise ``FileFormatError`` with the name of a field if header and arrays are not those of a model file."""
    table, sizes = _table(header), dict[str, int]()
    _check_header("", {**CONTAINER, **table.header}, header, sizes)
    _require_names("arrays", arrays, {name: _is_needed(field, arrays) for name, field in table.arrays.items()})
    for name, field in table.arrays.items():
        if name in arrays:
            _check_array(name, field, np.asarray(arrays[name]), sizes)
    for words, holds in table.laws:
        if not holds(header, arrays):
            msg = f"{words}, but they do not agree."
            raise FileFormatError(msg)


def _table(header: Mapping[str, Any]) -> Kind:
    kind, fitted = header.get("kind"), header.get("fitted")
    if not isinstance(kind, str) or kind not in KINDS:
        msg = f"kind must be one of {', '.join(KINDS)}; got {SHORT.repr(kind)}."
        raise FileFormatError(msg)
    if kind == "PPCAImputer" and isinstance(fitted, dict) and fitted.get("family") in ("fa", None):
        return IMPUTERS[fitted.get("family")]
    return KINDS[kind]


def _check_header(prefix: str, table: Mapping[str, Any], found: Any, sizes: dict[str, int]) -> None:
    """Compare the entries of an object with a table; the numbers of columns and sequences become sizes."""
    if not isinstance(found, dict):
        msg = f"{prefix.rstrip('.')} must be an object; got {SHORT.repr(found)}."
        raise FileFormatError(msg)
    _require_names(f"{prefix}entries", found, {k: not (isinstance(v, Value) and v.optional) for k, v in table.items()})
    for name, value in found.items():
        wanted = table[name]
        if not isinstance(wanted, Value):
            _check_header(f"{prefix}{name}.", wanted, value, sizes)
        elif not wanted.allows(value):
            msg = f"{prefix}{name} must be {wanted.words}; got {SHORT.repr(value)}."
            raise FileFormatError(msg)
        elif wanted.size and value is not None:
            size = value if type(value) is int else len(value)
            if sizes.setdefault(wanted.size, size) != size:
                msg = f"{prefix}{name} must have {sizes[wanted.size]} entries; got {size}."
                raise FileFormatError(msg)


def _is_needed(field: Numbers, arrays: Mapping[str, Any]) -> bool | None:
    """Whether an array must be there (True), must not be there (None), or may be there (False)."""
    if isinstance(field.needed, bool):
        return field.needed
    return True if field.needed in arrays else None


def _require_names(what: str, found: Mapping[str, Any], known: Mapping[str, bool | None]) -> None:
    """Refuse a record that lacks a field, or has one that is not in the table."""
    absent = [name for name, needed in known.items() if needed and name not in found]
    unknown = [name for name in found if known.get(name) is None]
    if absent or unknown:
        wrong = f"include {absent[0]}" if absent else f"not include {SHORT.repr(unknown[0])}"
        msg = f"the {what} must {wrong}; got {', '.join(map(SHORT.repr, found)) or 'none'}."
        raise FileFormatError(msg)


def _check_array(name: str, field: Numbers, values: Any, sizes: dict[str, int]) -> None:
    if not (values.dtype.kind == "i" if field.whole else values.dtype == np.float64):
        msg = f"{name} must hold {'whole numbers' if field.whole else 'float64 numbers'}; got {values.dtype}."
        raise FileFormatError(msg)
    if field.shapes and not any(_fits(shape.split(), values.shape, sizes) for shape in field.shapes):
        wanted = " or ".join(_in_words(shape.split(), sizes) for shape in field.shapes)
        msg = f"{name} must have shape {wanted}; got {values.shape}."
        raise FileFormatError(msg)
    high = sizes[field.high] - 1 if isinstance(field.high, str) else field.high
    if values.size and field.shapes and not (field.low <= values.min() and values.max() <= high):
        msg = f"{name} must be {_range(field.low, high)}; got numbers from {values.min():g} to {values.max():g}."
        raise FileFormatError(msg)
    if field.also and not field.also[1](values):
        msg = f"{name} must be {field.also[0]}; got other numbers."
        raise FileFormatError(msg)


def _range(low: float, high: float) -> str:
    """Bounds of numbers in words."""
    if high < LARGEST:
        return f"from {low:g} to {high:g}"
    least = [] if low <= -LARGEST else [f"at least {low:g}"]
    return " and ".join(least + ["finite"] * (high == LARGEST))


def _fits(letters: list[str], shape: tuple[int, ...], sizes: dict[str, int]) -> bool:
    """Whether a shape agrees with the sizes that are known; sizes that are not yet known are learned from it."""
    if len(letters) != len(shape):
        return False
    known = [_size(letter, sizes) for letter in letters]
    if any(size not in (None, length) for size, length in zip(known, shape, strict=True)):
        return False
    sizes |= {letter: length for letter, length in zip(letters, shape, strict=True) if letter != "t"}
    return True


def _size(letter: str, sizes: Mapping[str, int]) -> int | None:
    """The size that a letter or a number stands for; None if it is not known."""
    if letter.isdecimal():
        return int(letter)
    return int(packed_size(sizes["q"] + 1)) if letter == "p" else sizes.get(letter)


def _in_words(letters: list[str], sizes: Mapping[str, int]) -> str:
    known = [_size(letter, sizes) for letter in letters]
    return f"({', '.join(letter if size is None else str(size) for letter, size in zip(letters, known, strict=True))})"
