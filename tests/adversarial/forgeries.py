"""Model files with one byte or one field changed: the same answers, or an error that says that the file is damaged."""

import io
import json
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np

from adversarial.judgement import Judge, Verdict, judged_error
from probpca import PPCA, BayesianPCA, FileFormatError, LinearDynamicalSystem, PPCAImputer
from probpca.models import load_model


@cache
def rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((30, 5))
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


@cache
def originals():
    """An estimator of each kind with the bytes of its file."""
    made = {
        "PPCA": PPCA(2, random_state=0),
        "standardized PPCA": PPCA(2, standardize=True, n_parameter_draws=2, random_state=0),
        "BayesianPCA": BayesianPCA(3, random_state=0),
        "PPCAImputer": PPCAImputer(2, add_indicator=True, random_state=0),
        "LinearDynamicalSystem": LinearDynamicalSystem(1, max_iter=10, random_state=0),
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, estimator in made.items():
            path = Path(folder) / "model.npz"
            estimator.fit(rows()).to_file(path)
            found[name] = type(estimator), path.read_bytes(), replies(type(estimator).from_file(path))
    return found


def replies(estimator):
    """Numbers that an estimator says about rows."""
    x = rows()[:6]
    answers = [np.asarray(estimator.transform(x))]
    if not isinstance(estimator, PPCAImputer):
        answers += [
            estimator.score_samples(x),
            *estimator.impute(x, return_std=True),
            estimator.sample(2, random_state=0),
        ]
    if isinstance(estimator, PPCA | BayesianPCA):
        answers += [*estimator.impute_interval(x), estimator.outliers(x).p_value]
    if isinstance(estimator, LinearDynamicalSystem):
        answers += [part for one in np.atleast_1d(estimator.forecast(2)) for part in (one.mean, one.std)]
    return [
        np.asarray(answer, dtype=float) for answer in (*answers, np.array([len(estimator.get_feature_names_out())]))
    ]


def byte(rng):
    """One byte of the file is another; the archive has checksums of every member."""
    name = str(rng.choice(list(originals())))
    kind, content, want = originals()[name]
    changed = bytearray(content)
    place = int(rng.integers(len(changed)))
    changed[place] ^= int(rng.integers(1, 256))
    return judged_model(kind, bytes(changed), want, f"{name}, byte {place}")


def cut(rng):
    """The file ends too early, or goes on."""
    name = str(rng.choice(list(originals())))
    kind, content, want = originals()[name]
    size = int(rng.integers(len(content)))
    content = content[:size] if rng.random() < 0.7 else content + rng.bytes(size)
    return judged_model(kind, content, want, f"{name}, {len(content)} bytes")


VALUES = (None, True, -1, 0, 1, 3, 1e308, "x", [], {}, [1, 2], float("nan"), "PPCA", 10**30)


def entry(rng):
    """One entry of the header or one array is another; what may differ are answers that this entry determines."""
    name = str(rng.choice(list(originals())))
    kind, content, want = originals()[name]
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    text = arrays.pop("header").item()
    header = json.loads(text)
    what = _forge_header(rng, header) if rng.random() < 0.5 else _forge_array(rng, arrays)
    out, forged = io.BytesIO(), json.dumps(header)
    np.savez(out, header=np.array(forged.encode() if isinstance(text, bytes) else forged), **arrays)
    return judged_model(kind, out.getvalue(), None, f"{name}, {what}", old=want)


def _forge_header(rng, header):
    place = header if rng.random() < 0.4 else header[str(rng.choice(["parameters", "fitted"]))]
    key = str(rng.choice(list(place)))
    if rng.random() < 0.25:
        del place[key]
        return f"header without {key}"
    place[key] = VALUES[int(rng.integers(len(VALUES)))]
    return f"{key} = {place[key]!r}"


def _forge_array(rng, arrays):
    key = str(rng.choice(list(arrays)))
    array, how = (
        arrays[key],
        str(rng.choice(["gone", "shape", "nan", "negative", "complex", "text", "empty", "inf", "one"])),
    )
    match how:
        case "gone":
            del arrays[key]
        case "shape":
            arrays[key] = np.concatenate([np.atleast_1d(array)] * 2)
        case "nan" | "inf" | "negative":
            changed = np.array(array, dtype=float)
            changed.flat[int(rng.integers(max(changed.size, 1))) if changed.size else 0 : None] = {
                "nan": np.nan,
                "inf": np.inf,
                "negative": -1.0,
            }[how]
            arrays[key] = changed
        case "complex":
            arrays[key] = np.asarray(array) + 1j
        case "text":
            arrays[key] = np.full(np.shape(array), "a")
        case "empty":
            arrays[key] = np.empty(0)
        case "one":
            arrays[key] = np.array(1.0)
    return f"array {key}: {how}"


def judged_model(kind, content, want, what, old=None):
    """The verdict on a forged file. With ``want`` all answers must be these; otherwise they must be numbers."""
    judge = Judge()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.npz"
        path.write_bytes(content)
        try:
            estimator = kind.from_file(path)
        except FileFormatError as error:
            return Verdict("named error", (what, str(error)))
        except Exception as error:  # noqa: BLE001
            words = judged_error(error).words
            return Verdict("wrong", (what, "not a FileFormatError", *words))
        try:
            found = replies(estimator)
            load_model(path)
        except Exception as error:  # noqa: BLE001
            verdict = judged_error(error)  # such as that NaN marks no cell if the forged code for them is a number
            return verdict._replace(words=(f"{what}: it was read, and then failed", *verdict.words))
    for got, expected in zip(found, want or old, strict=True):
        if want is not None:
            judge.holds(np.array_equal(got, expected, equal_nan=True), f"{what}: another answer")
        else:
            lost = got.shape == expected.shape and np.isfinite(expected).all() and not np.isfinite(got).all()
            judge.holds(not lost, f"{what}: answers that are not finite")
    return judge.verdict
