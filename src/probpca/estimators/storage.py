"""Estimators in files: parameters, names of columns and the fitted state in one npz file that contains no code."""

from __future__ import annotations

from numbers import Integral, Real
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.blocks.block import unmasked
from probpca.errors import FileFormatError
from probpca.estimators.constraints import SupportsArray, check_parameters
from probpca.inference.calibration import Calibration
from probpca.learning.result import Status
from probpca.models.schema import KINDS
from probpca.models.serialization import read_record, reading, write_record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PARAMETER = "parameter_"
"""Prefix of the arrays that are parameters of an estimator."""


def write_estimator(estimator: Any, path: str | Path, **more: Any) -> None:
    """Write the parameters of an estimator and its fitted state; ``more`` goes into the header of the file."""
    _ = estimator._state  # says so if there is no fit
    check_parameters(estimator, estimator._constraints)  # they may have been changed after the fit
    parameters = plain_parameters(estimator)
    numbers, arrays = fit_record(estimator)
    given = {name: value for name, value in parameters.items() if isinstance(value, np.ndarray)}
    names = getattr(estimator, "feature_names_in_", None)
    header = {
        "kind": _kind_in_files(type(estimator)),
        "parameters": {name: value for name, value in parameters.items() if name not in given},
        "fitted": {**numbers, "n_features_in_": estimator.n_features_in_},
        "feature_names": None if names is None else [str(name) for name in names],
        **more,
    }
    write_record(path, header, {**arrays, **{PARAMETER + name: value for name, value in given.items()}})


def _kind_in_files(kind: type) -> str:
    """Name of a class of estimators in files: its own, or that of the class of this library that it derives from."""
    return next(base.__name__ for base in kind.__mro__ if base.__name__ in KINDS)


def fit_record(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the numbers and arrays that make up the fitted state of an estimator."""
    record: tuple[dict[str, Any], dict[str, Any]] = estimator._state.record()
    return record


def plain_parameters(estimator: Any, name: str = "estimator") -> dict[str, Any]:
    """Return the parameters of an estimator as files can hold them, or say which of them no file can hold."""
    parameters = {name: _plain(value) for name, value in estimator.get_params(deep=False).items()}
    if not isinstance(parameters["random_state"], int | None):
        msg = (
            f"random_state must be an int or None to be written to a file; got {parameters['random_state']!r}.\n"
            f"Hint: {name}.set_params(random_state=0)."
        )
        raise FileFormatError(msg)
    return parameters


def _plain(value: Any) -> Any:
    """Return a parameter as JSON or npz can hold it: paths as text, numbers as Python's, other sequences as arrays."""
    if type(value).__name__ == "NAType":  # of pandas: a parameter for which None means the same
        return None
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, list | tuple | SupportsArray):
        words = isinstance(value, list | tuple) and all(word is None or isinstance(word, str) for word in value)
        return list(value) if words else np.asarray(unmasked(value), dtype=np.float64)  # type: ignore[arg-type]
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    return fspath(value) if isinstance(value, PathLike) else value


def read_estimator(kind: Any, path: str | Path) -> Any:
    """Read a fitted estimator of some kind."""
    header, arrays = read_record(path)
    if header["kind"] != _kind_in_files(kind):
        msg = f"{path} holds a {header['kind']}, not a {kind.__name__}."
        raise FileFormatError(msg)
    given = {name.removeprefix(PARAMETER): array for name, array in arrays.items() if name.startswith(PARAMETER)}
    with reading(path):
        estimator = with_fit(with_parameters(kind, {**header["parameters"], **given}), header["fitted"], arrays)
    estimator.n_features_in_ = header["fitted"]["n_features_in_"]
    if header["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    return estimator


def with_parameters(kind: Any, parameters: Mapping[str, Any]) -> Any:
    """Make an estimator with the parameters that a file holds, which must be all of them, each with a legal value."""
    known = kind._get_param_names()
    if parameters.keys() != set(known):
        msg = f"the parameters must be {', '.join(known)}; got {', '.join(parameters) or 'none'}."
        raise FileFormatError(msg)
    estimator = kind(**parameters)
    check_parameters(estimator, kind._constraints)
    return estimator


def with_fit(estimator: Any, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    """Give an estimator the fitted state that a file holds."""
    estimator._fitted = estimator._fit_type.from_record(numbers, arrays)
    return estimator


def story_record(result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what all results of fits have in common, beside the model: numbers for the header, and arrays."""
    return {"n_iter_": result.n_iter, "status": result.status.name}, {"trace_": np.array(result.trace)}


def choice_record(result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how the number of components of a table was chosen, and the scales of its columns as far as known."""
    scales = {"column_std_": result.column_std, "scale_": result.scale}
    known = {name: values for name, values in scales.items() if values is not None}
    return {"rule_": result.rule, "notes_": list(result.notes)}, known


def read_choice(numbers: Any, arrays: Any) -> dict[str, Any]:
    """Return the same as fields of a result."""
    return {
        "rule": numbers["rule_"],
        "notes": tuple(numbers["notes_"]),
        "column_std": arrays.get("column_std_"),
        "scale": arrays.get("scale_"),
    }


def calibration_record(calibration: Calibration) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the reference distribution of p-values: numbers for the header, and arrays, which hold infinity."""
    numbers = np.array([calibration.scale, calibration.degrees, calibration.extreme])
    return {"calibration_obstacle": calibration.obstacle}, {"calibration_": numbers}


def read_calibration(numbers: Any, arrays: Any) -> Calibration:
    """Return the reference distribution of p-values."""
    scale, degrees, extreme = arrays["calibration_"].tolist()
    return Calibration(scale, degrees, extreme, numbers["calibration_obstacle"])


def read_story(numbers: Any, arrays: Any) -> dict[str, Any]:
    """Return the same as fields of a result."""
    if numbers["status"] not in Status.__members__:
        msg = f"fitted.status must be one of {', '.join(Status.__members__)}; got {numbers['status']!r}."
        raise FileFormatError(msg)
    return {
        "status": Status[numbers["status"]],
        "trace": tuple(arrays["trace_"].tolist()),
        "n_iter": numbers["n_iter_"],
    }
