"""Forged model files: a file that probpca wrote, with one byte or one field changed.

``byte_mutations`` and ``field_mutations`` make as many as one asks for, and ``damage`` says what is wrong with one of
them: a tested library refuses it by name, or answers as the file says. A campaign calls them with other seeds and
larger numbers than the ordinary tests.
"""

import copy
import io
import json
import warnings

import numpy as np
import pandas as pd

from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, FileFormatError, LinearDynamicalSystem, MixturePPCA, PPCAImputer

NAMES = ["height", "width, with comma", "mass\n(kg)", "=1+1", "é" * 1000]


# Files


def unpacked(content):
    """The header and the arrays in the bytes of a file, read without probpca."""
    with np.load(io.BytesIO(content)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads(arrays.pop("header").item()), arrays


def packed(header, arrays):
    """The bytes of a file with this header, an object or a text, and these arrays, written without probpca."""
    text = header if isinstance(header, str) else json.dumps(header)
    file = io.BytesIO()
    np.savez(file, header=np.array(text.encode()), **arrays)
    return file.getvalue()


def written(estimator, path):
    """The bytes of the file of an estimator."""
    estimator.to_file(path)
    return path.read_bytes()


def rows(seed=0, n=40, missing=0.15):
    rng = np.random.default_rng(seed)
    x = spiked_rows(rng, n, len(NAMES), 2)
    return np.where(rng.random(x.shape) < missing, np.nan, x)


def frame(x, index=None):
    return pd.DataFrame(x, columns=NAMES, index=index)


def without_column(x):
    return np.where(np.arange(len(NAMES)) == 2, np.nan, x)


def days(n):
    return pd.date_range("2020-03-28", periods=n, freq="D", tz="Europe/Berlin")


def system(x, inputs=None, step=None, **parameters):
    return LinearDynamicalSystem(2, tol=1.0, random_state=0, **parameters).fit(x, inputs=inputs, step=step)


FITS = {
    "PPCA": lambda x: PPCA(2, random_state=0).fit(np.nan_to_num(x)),
    "PPCA, missing cells": lambda x: PPCA(2, n_parameter_draws=2, random_state=0).fit(x),
    "PPCA, standardize": lambda x: PPCA(2, standardize=True, random_state=0).fit(frame(x)),
    "PPCA, empty column": lambda x: PPCA(2, random_state=0).fit(without_column(x)),
    "PPCA, robust": lambda x: PPCA(1, robust="cells", random_state=0).fit(x),
    "PPCA, stream": lambda x: PPCA(2, half_life=20.0, random_state=0).partial_fit(x),
    "BayesianPCA": lambda x: BayesianPCA(3, random_state=0).fit(x),
    "BayesianPCA, standardize": lambda x: BayesianPCA(2, standardize=True, random_state=0).fit(frame(np.nan_to_num(x))),
    "MixturePPCA": lambda x: MixturePPCA(2, 1, n_init=1, random_state=0).fit(frame(x)),
    "MixturePPCA, shared noise, empty column": lambda x: MixturePPCA(2, noise="shared", n_init=1, random_state=0).fit(
        without_column(x)
    ),
    "PPCAImputer": lambda x: PPCAImputer(2, add_indicator=True, min_value=[-9.0] * 5, random_state=0).fit(
        frame(without_column(x))
    ),
    "PPCAImputer, one column": lambda x: PPCAImputer(missing_values=-9, random_state=0).fit(
        np.where(np.arange(2) == 1, -9, np.nan_to_num(x)[:, :2])
    ),
    "LinearDynamicalSystem": system,
    "LinearDynamicalSystem, days": lambda x: system(frame(x, days(len(x)))),
    "LinearDynamicalSystem, column of dates": lambda x: system(
        frame(x).assign(when=days(2 * len(x))[1::2].tz_localize(None)), step="2D"
    ),
    "LinearDynamicalSystem, own components": lambda x: LinearDynamicalSystem(
        trend=["auto", "slope", "ar", "damped", "drift"]
    ).fit(frame(x, days(len(x)))),
    "LinearDynamicalSystem, inputs": lambda x: system(
        [x[:25], x[25:]], [x[:25, :1] > 0, x[25:, :1] > 0], transition=np.eye(2) / 2
    ),
}
"""Fits of every kind of estimator to a small table with missing cells, by a name that says what is special."""


def fitted(name):
    """One of the ``FITS``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return FITS[name](rows())


# Answers


def answers(estimator):
    """Numbers and texts that an estimator gives about a few rows, by name."""
    x, names = rows(seed=1, n=4, missing=0.3), getattr(estimator, "feature_names_in_", None)
    if isinstance(estimator, PPCAImputer):
        code = estimator._fitted.code
        x = np.where(np.isnan(x), code, x)[:, : estimator.n_features_in_]
        x = x if names is None else pd.DataFrame(x, columns=names)
        return {"transform": estimator.transform(x), "names": estimator.get_feature_names_out()}
    x = x if names is None else pd.DataFrame(x, columns=names)
    driven = getattr(estimator, "input_loadings_", None) is not None
    inputs = {"inputs": np.ones((len(x), 1))} if driven else {}
    told = {"transform": estimator.transform(x, **inputs), "summary": estimator.summary(), "trace": estimator.trace_}
    if isinstance(estimator, LinearDynamicalSystem):
        future = {"future": np.ones((2, 1))} if driven else {}
        forecasts = np.atleast_1d(estimator.forecast(3, **future))
        more = [(np.asarray(one.mean), np.asarray(one.std), str(one)) for one in forecasts]
        return told | {f"forecast {k} {i}": part for k, one in enumerate(more) for i, part in enumerate(one)}
    values, std = estimator.impute(x, return_std=True)
    if isinstance(estimator, MixturePPCA):
        return told | {
            "scores": estimator.score_samples(x),
            "shares": estimator.predict_proba(x),
            "imputed": np.asarray(values),
            "std": np.asarray(std),
            "draws": estimator.impute_draws(x, 2),
            "criteria": str(estimator.criteria_),
            "p": estimator.outliers(x).p_value,
            "sample": estimator.sample(3)[0],
        }
    drawn = isinstance(estimator, BayesianPCA) or hasattr(estimator, "parameter_draws_")
    draws = {"draws": estimator.impute_draws(x, 2)} if drawn else {}
    found = estimator.outliers(x)
    return (
        told
        | draws
        | {
            "scores": estimator.score_samples(x),
            "imputed": np.asarray(values),
            "std": np.asarray(std),
            "distance": found.distance,
            "p": found.p_value,
            "components": estimator.components_,
            "explained": estimator.explained_variance_ratio_,
        }
    )


def same(one, other):
    """Whether two answers are the same, to the last bit."""
    if isinstance(one, str):
        return one == other
    one, other = np.asarray(one), np.asarray(other)
    return one.shape == other.shape and (
        (one.dtype.kind == "O" and (one == other).all()) or one.tobytes() == other.tobytes()
    )


def as_finite(one, other):
    """Whether the second answer is finite wherever the first is."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind != "f":
        return True
    return np.isfinite(other).all() or (one.shape == other.shape and (np.isfinite(other) >= np.isfinite(one)).all())


# Mutations


def byte_mutations(content, seed, count):
    """Pairs of a description and the bytes of a file with one byte changed."""
    rng = np.random.default_rng(seed)
    for place, change in zip(rng.integers(len(content), size=count), rng.integers(1, 256, size=count), strict=True):
        forged = bytearray(content)
        forged[place] ^= change
        yield f"byte {place} ^ {change}", bytes(forged)


HEADER_POISON = [
    None,
    True,
    -1,
    0,
    7,
    99,
    1.5,
    -1e300,
    10**30,
    10**400,
    np.nan,
    np.inf,
    -np.inf,
    "x",
    "",
    [],
    {},
    [99],
    ["a"],
    [[1]],
]


def fields_of(header, prefix=()):
    """The paths of all entries of a header, at every depth."""
    for name, value in header.items() if isinstance(header, dict) else enumerate(header):
        yield (*prefix, name)
        if isinstance(value, dict | list):
            yield from fields_of(value, (*prefix, name))


def with_field(header, path, value=None, *, remove=False):
    """A copy of a header with one entry replaced or removed."""
    forged = copy.deepcopy(header)
    inner = forged
    for name in path[:-1]:
        inner = inner[name]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return forged


def array_poison(array):
    """Arrays to put in the place of an array, by what is wrong with them."""
    yield from {
        "complex": array.astype(complex),
        "dates": np.zeros(array.shape, "datetime64[s]"),
        "objects": np.full(array.shape, None),
        "text": np.full(array.shape, "x"),
        "bool": np.zeros(array.shape, bool),
        "float32": array.astype(np.float32),
        "unsigned": np.ones(array.shape, np.uint64),
        "one more axis": array[None],
        "no axes": np.array(1, array.dtype),
        "transposed": array.T.copy(),
        "empty": np.empty(0, array.dtype),
        "twice": np.concatenate([np.atleast_1d(array)] * 2),
        "longer": np.concatenate([np.atleast_1d(array), np.atleast_1d(array)[-1:]]),
        "shorter": np.atleast_1d(array)[:-1],
        "narrower": array[..., :-1] if array.ndim else array[None],
        "negative": -array,
        "zero": np.zeros_like(array),
        "huge": np.full_like(array, 1e308 if array.dtype.kind == "f" else 2**62),
    }.items()
    for value in (np.nan, np.inf, -np.inf, -1.0, 0.0, 5e-324, 1e-100, 1e-5, 3.0, 99.0, 1e40, 1e200, -1e308):
        if array.size and (array.dtype.kind == "f" or value in (-1.0, 0.0, 3.0, 99.0)):
            for place in {0, array.size // 2, array.size - 1}:
                forged = array.copy()
                forged.reshape(-1)[place] = value
                yield f"[{place}] = {value}", forged


def field_mutations(content, seed, count):
    """Triples of a description, header and arrays of a file with one field changed, ``count`` of them at random."""
    header, arrays = unpacked(content)
    paths = list(fields_of(header))
    every = [(f"{path} removed", with_field(header, path, remove=True), arrays) for path in paths]
    every += [
        (f"{path} = {value!r:.40}", with_field(header, path, value), arrays)
        for path in paths
        for value in HEADER_POISON
    ]
    every += [(f"extra {name}", {**header, name: 1}, arrays) for name in ("new", "n_features_in_")]
    every += [("extra array", header, {**arrays, "extra": np.ones(3)})]
    for name, array in arrays.items():
        every += [(f"{name} removed", header, {key: value for key, value in arrays.items() if key != name})]
        every += [(f"{name}: {what}", header, {**arrays, name: poison}) for what, poison in array_poison(array)]
    chosen = np.random.default_rng(seed).permutation(len(every))[:count]
    yield from (every[k] for k in sorted(chosen))


# Judgement


def damage(kind, content, path, told, record=None):
    """What is wrong with the way in which probpca reads the bytes of a file, in words; None if nothing is.

    ``told`` are the answers of the estimator that was written. Without a ``record``, a file that is read must give the
    same answers; with the header and the arrays of the file, finite ones, and be written again as it was.
    """
    path.write_bytes(content)
    try:
        estimator = kind.from_file(path)
        now = answers(estimator)
        again = None if record is None else unpacked(written(estimator, path))
    except FileFormatError as error:
        return None if path.name in str(error) or "time index" in str(error) else f"an error without the name: {error}"
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    if record is None:
        wrong = [name for name, value in told.items() if not same(value, now[name])]
        return f"other answers: {wrong}" if wrong else None
    wrong = [name for name, value in told.items() if not as_finite(value, now[name])]
    if wrong:
        return f"answers that are not finite: {wrong}"
    return None if _same_record(again, record) else "the file is written otherwise"


def _same_record(one, other):
    (header, arrays), (wanted, known) = one, other
    if json.dumps(header, sort_keys=True) != json.dumps(wanted, sort_keys=True) or arrays.keys() != known.keys():
        return header == wanted
    return all(same(arrays[name], known[name]) for name in arrays)
